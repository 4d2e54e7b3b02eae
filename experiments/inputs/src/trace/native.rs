//! The native format, which `trace` documents.

use std::path::Path;
use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_core::shared::Shared;
use sandtable_hardware::{HostResources, Instant, Job};

use super::rows::Options;
use super::table::{Read, Record, Table, TraceError, Unit};
use super::{Asked, Near, Recorded, Row, Trace, plain};

/// The columns that it may have.
const KNOWN: [&str; 32] = [
    "job_id",
    "submit_s",
    "gpus",
    "duration_s",
    "declared_s",
    "deadline_s",
    "job_priority",
    "queue",
    "gpus_per_node",
    "cpus",
    "host_memory_mib",
    "near_required",
    "near_preferred",
    "gpu_types",
    "preemptible",
    "share_milli",
    "part",
    "memory_mib",
    "workload",
    "user",
    "batch",
    "service",
    "submitted_s",
    "start_s",
    "end_s",
    "job_name",
    "outcome",
    "account",
    "partition",
    "qos",
    "priority",
    "nodes",
];

pub(super) fn native(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_s", "gpus", "duration_s"])?;
    if let Some(unknown) =
        table.names().iter().find(|name| !KNOWN.contains(&name.as_str()) && !options.filter.contains_key(*name))
    {
        let error = Error::usage(format!("{}:1: the native format has no column `{unknown}`", file.display()));
        return Err(error.hint(format!("it has {}; other files: `sandtable trace import --help`", KNOWN.join(", "))));
    }
    let (mut trace, mut shared) = (Trace::default(), Shared::default());
    let read = table.each(options, |row| {
        let gpus = gpus(row)?;
        let name = row.find("job_id").map_or_else(|| trace.rows.len().to_string(), str::to_string);
        let submit = Instant::at(row.span("submit_s", Unit::Seconds)?);
        let preemptible = match row.find("preemptible") {
            None | Some("" | "true") => true,
            Some("false") => false,
            Some(other) => return Err(row.wrong("preemptible", format!("expected true or false, found {other:?}"))),
        };
        let given = |column: &str| row.find(column).filter(|text| !text.is_empty());
        let share = given("share_milli").map(|_| row.whole("share_milli")).transpose()?.unwrap_or(Job::WHOLE);
        if !(1..=Job::WHOLE).contains(&share) || (share < Job::WHOLE && gpus != 1) {
            let message = format!("expected 1 to 1000 thousandths of one GPU, found {share} of {gpus}");
            return Err(row.wrong("share_milli", message));
        }
        let part = part(row, "part", (gpus, share))?;
        let level = |column: &str| given(column).map(str::to_string);
        let near = Near { required: level("near_required"), preferred: level("near_preferred") };
        let asked = Asked {
            gpus_per_node: given("gpus_per_node")
                .map(|_| per_node(row, "gpus_per_node", gpus))
                .transpose()?
                .unwrap_or(0),
            host: HostResources {
                cpu_milli: given("cpus").map(|_| cores(row, "cpus")).transpose()?.unwrap_or(0),
                memory_mib: given("host_memory_mib").map(|_| row.whole("host_memory_mib")).transpose()?.unwrap_or(0),
            },
            near: (near != Near::default()).then(|| Box::new(near)),
            priority: given("job_priority").map(|text| priority(row, "job_priority", text)).transpose()?.unwrap_or(0),
            queue: given("queue").map(|queue| plain(queue.into())),
            kinds: given("gpu_types").map_or_else(Vec::new, |text| text.split('|').map(str::to_string).collect()),
            preemptible,
            share,
            part,
            memory_mib: given("memory_mib").map(|_| row.whole("memory_mib")).transpose()?,
            workload: given("workload").map(str::to_string),
            user: given("user").map(|user| plain(user.into())),
            batch: given("batch").map(|_| row.whole("batch")).transpose()?,
            service: given("service").map(str::to_string),
            gpus,
        };
        let deadline = given("deadline_s").map(|_| row.span("deadline_s", Unit::Seconds).map(Instant::at));
        let job = Row {
            declared: given("declared_s").map(|_| row.span("declared_s", Unit::Seconds)).transpose()?,
            deadline: deadline.transpose()?,
            recorded: recorded(row)?,
            asked: shared.of(Arc::new(asked)).1,
            ..Row::new(name, submit, gpus, row.span("duration_s", Unit::Seconds)?)
        };
        trace.rows.push(job);
        Ok(())
    })?;
    // Every column is one that it knows.
    trace.account.of(Read { ignored: Vec::new(), ..read });
    Ok(trace)
}

/// Size of the gang; a job without GPUs takes something else of its node.
fn gpus(row: &Record<'_>) -> Result<u32, TraceError> {
    let gpus = row.whole("gpus")?;
    let is_some = |text: &str| text.parse::<f64>().is_ok_and(|number| number > 0.0);
    let takes_host = || ["cpus", "host_memory_mib"].iter().any(|column| row.find(column).is_some_and(is_some));
    if gpus == 0 && !takes_host() {
        return Err(row.wrong("gpus", "expected at least 1, or `cpus` or `host_memory_mib` beside it, found 0"));
    }
    Ok(gpus)
}

/// The part of its one GPU that a job asks for, in place of a share.
pub(super) fn part(row: &Record<'_>, column: &str, (gpus, share): (u32, u32)) -> Result<Option<String>, TraceError> {
    let part = row.find(column).filter(|text| !super::rows::absent(text)).map(|text| plain(text.into()));
    match part {
        Some(_) if gpus != 1 || share < Job::WHOLE => {
            Err(row.wrong(column, "a part is one of one GPU, and in place of a share"))
        }
        part => Ok(part),
    }
}

/// GPUs of each node, of a gang of so many; 0: split over nodes in any way.
pub(super) fn per_node(row: &Record<'_>, column: &str, gpus: u32) -> Result<u32, TraceError> {
    let each = row.whole(column)?;
    if each > 0 && (gpus == 0 || !gpus.is_multiple_of(each)) {
        return Err(row.wrong(column, format!("expected a divisor of the job's {gpus} GPUs, found {each}")));
    }
    Ok(each)
}

/// Cores, as thousandths.
pub(crate) fn cores(row: &Record<'_>, column: &str) -> Result<u32, TraceError> {
    let cores = row.number(column)?;
    let milli = (cores * 1000.0).round();
    // What would count as none is unknown to all that follows.
    if (0.0..=f64::from(u32::MAX)).contains(&milli) && (milli > 0.0 || cores == 0.0) {
        return Ok(milli as u32);
    }
    let found = row.text(column).unwrap_or("");
    Err(row.wrong(column, format!("expected 0 or a number of cores from 0.001 to 4294967, found {found:?}")))
}

/// A priority: a whole number, possibly negative.
pub(super) fn priority(row: &Record<'_>, column: &str, text: &str) -> Result<i32, TraceError> {
    text.parse()
        .map_err(|_| row.wrong(column, format!("expected a whole number from -2^31 to 2^31 - 1, found {text:?}")))
}

/// What a native trace has of a log.
fn recorded(row: &Record<'_>) -> Result<Option<Box<Recorded>>, TraceError> {
    let given = |column: &str| row.find(column).filter(|text| !text.is_empty());
    let at = |column: &str| given(column).map(|_| row.span(column, Unit::Seconds).map(Instant::at)).transpose();
    let words = |column: &str| given(column).map(str::to_string);
    let recorded = Recorded {
        submitted: at("submitted_s")?,
        start: at("start_s")?,
        end: at("end_s")?,
        job_name: words("job_name"),
        outcome: words("outcome"),
        account: words("account"),
        partition: words("partition"),
        qos: words("qos"),
        priority: given("priority").map(|_| row.whole("priority")).transpose()?,
        nodes: words("nodes"),
    };
    Ok((recorded != Recorded::default()).then(|| Box::new(recorded)))
}
