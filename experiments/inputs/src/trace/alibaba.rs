//! Alibaba's two traces, which ask for parts of GPUs.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{Duration, HostResources, Instant, Job};

use super::account::Fate;
use super::rows::{NO_TIME, Options, Rows};
use super::table::{Table, Unit};
use super::{Recorded, Trace};

const WHOLE: &str = "asks for parts of several GPUs: whole ones";

pub(super) fn pai(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_time", "duration", "num_gpu"])?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        let each = if row.text("num_gpu")?.is_empty() { 0.0 } else { row.number("num_gpu")? };
        let instances = if row.find("num_inst").unwrap_or("").is_empty() { 1 } else { row.whole("num_inst")? };
        // A part of a GPU for one instance is a share; for a gang, and beyond whole ones, it is rounded up.
        let part = each > 0.0 && each < 1.0 && instances == 1;
        if each.fract() != 0.0 && !part {
            rows.account().note(Fate::Changed, WHOLE, row.line);
        }
        let gpus = each.ceil() * f64::from(instances);
        if !(0.0..=f64::from(u32::MAX)).contains(&gpus) {
            return Err(
                row.wrong("num_gpu", format!("expected a number of GPUs, found {each} for {instances} instances"))
            );
        }
        let gpus = gpus as u32;
        if part && (each * 1000.0).fract() != 0.0 {
            rows.account().note(
                Fate::Changed,
                "asks for a part of a GPU: rounded to a thousandth, at least one",
                row.line,
            );
        }
        let (submit, duration) = (row.instant("submit_time", Unit::Seconds)?, row.span("duration", Unit::Seconds)?);
        let submit = rows.at(row, "submit_time", submit)?;
        if let Some(job) = rows.push(row, row.find("job_id"), submit, (gpus, duration)).filter(|_| part) {
            job.share = ((each * 1000.0 + 0.5) as u32).clamp(1, Job::WHOLE);
        }
        Ok(())
    })?;
    Ok(rows.finish(read))
}

pub(super) fn openb(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["name", "num_gpu", "gpu_milli"])?;
    if !options.timeless {
        table.need(&["creation_time", "scheduled_time", "deletion_time"])?;
    }
    let mut rows = Rows::of(options);
    let read = table.each(options, |row| {
        let gpus = row.whole("num_gpu")?;
        let (mut submit, mut duration, mut ran) = (Instant::START, Duration::ZERO, None);
        if !options.timeless {
            submit = row.instant("creation_time", Unit::Seconds).and_then(|at| rows.at(row, "creation_time", at))?;
            let Some(lasted) = rows.between(row, ("scheduled_time", "deletion_time"), Unit::Seconds)? else {
                rows.account().note(Fate::LeftOut, NO_TIME, row.line);
                return Ok(());
            };
            let start = row.instant("scheduled_time", Unit::Seconds)?.0;
            (duration, ran) = (lasted, Some((start, start + lasted)));
        }
        let milli = row.whole("gpu_milli")?;
        if gpus > 0 && !(1..=Job::WHOLE).contains(&milli) {
            let message = format!("expected 1 to 1000 thousandths of a GPU, found {milli}");
            return Err(row.wrong("gpu_milli", message));
        }
        if gpus > 1 && milli < Job::WHOLE {
            rows.account().note(Fate::Changed, WHOLE, row.line);
        }
        let spec = row.find("gpu_spec").unwrap_or("");
        let words = |column: &str| row.find(column).filter(|text| !text.is_empty()).map(str::to_string);
        let (qos, outcome) = (words("qos"), words("pod_phase").map(|phase| phase.to_lowercase()));
        let kept = gpus > 0 || options.cpu_jobs;
        if kept && ran.is_some() && outcome.as_deref() == Some("running") {
            rows.account().note(Fate::Doubtful, "still ran when the log ended: as long as was seen of it", row.line);
        }
        let given = |column: &str| row.find(column).filter(|text| kept && !text.is_empty());
        let host = HostResources {
            cpu_milli: given("cpu_milli").map_or(Ok(0), |_| row.whole("cpu_milli"))?,
            memory_mib: given("memory_mib").map_or(Ok(0), |_| row.whole("memory_mib"))?,
        };
        if let Some(job) = rows.push(row, row.find("name"), submit, (gpus, duration)) {
            job.host = host;
            job.share = if gpus == 1 { milli } else { Job::WHOLE };
            // A pod is on one node. Where it is not asked to fill a cluster, policies that know no shapes may split it.
            job.gpus_per_node = if options.timeless && gpus > 1 { gpus } else { 0 };
            job.kinds = spec.split('|').filter(|kind| !kind.is_empty()).map(str::to_string).collect();
            job.recorded = ran.map(|(start, end)| {
                let (start, end) = (Some(start), Some(end));
                Box::new(Recorded { start, end, qos, outcome, ..Recorded::default() })
            });
        }
        Ok(())
    })?;
    Ok(rows.finish(read))
}
