//! Every format that is read: most are a mapping of columns, a line in a table; a few need more.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{Duration, HostResources, Instant, Job, SECOND};

use super::account::Fate;
use super::alibaba::{openb, pai};
use super::rows::{NO_TIME, Options, Rows, absent, micros};
use super::table::{Record, Table, TraceError, Unit};
use super::{Recorded, Trace, TraceFormat, plain};

/// Which column holds what.
struct Mapping<'a> {
    name: Option<&'a str>,
    submit: &'a str,
    gpus: &'a str,
    length: Length<'a>,
    declared: Option<&'a str>,
    deadline: Option<&'a str>,
    priority: Option<&'a str>,
    /// GPUs on each node, cores and MiB of host memory.
    nodes: [Option<&'a str>; 3],
    workload: Option<&'a str>,
    user: Option<&'a str>,
    queue: Option<&'a str>,
    part: Option<&'a str>,
    /// Of a log: start, end, partition, outcome.
    log: [Option<&'a str>; 4],
    /// The column of GPUs counts hundredths.
    hundredths: bool,
    unit: Unit,
}

#[derive(Clone, Copy)]
enum Length<'a> {
    Duration(&'a str),
    Between(&'a str, &'a str),
}

const fn mapping<'a>(name: &'a str, submit: &'a str, gpus: &'a str, duration: &'a str, unit: Unit) -> Mapping<'a> {
    Mapping {
        name: Some(name),
        submit,
        gpus,
        length: Length::Duration(duration),
        declared: None,
        deadline: None,
        priority: None,
        nodes: [None; 3],
        workload: None,
        user: None,
        queue: None,
        part: None,
        log: [None; 4],
        hundredths: false,
        unit,
    }
}

pub(super) fn parse(file: &Path, bytes: &[u8], format: TraceFormat, options: &Options) -> Result<Trace, Error> {
    use Unit::{Millis, Seconds};
    match format {
        TraceFormat::Native => super::native::native(file, bytes, options),
        TraceFormat::Philly => {
            // Its virtual clusters, where the table has them.
            let head = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let is_there = head.split(|byte| *byte == b',').any(|name| name.trim_ascii() == b"cluster");
            let log = [None, None, is_there.then_some("cluster"), None];
            let philly = Mapping { name: None, log, ..mapping("", "timestamp", "num_gpus", "duration", Seconds) };
            mapped(file, bytes, &philly, options)
        }
        TraceFormat::Tiresias => {
            mapped(file, bytes, &mapping("job_id", "submit_time", "num_gpu", "duration", Seconds), options)
        }
        TraceFormat::Muri => {
            mapped(file, bytes, &mapping("job_id", "submit_time", "num_gpu", "duration", Millis), options)
        }
        TraceFormat::MuriSteps => super::muri::parse(file, bytes, options),
        TraceFormat::Lucid => {
            mapped(file, bytes, &mapping("job_id", "submit_time", "gpu_num", "duration", Seconds), options)
        }
        TraceFormat::Csv => by_columns(file, bytes, options),
        TraceFormat::Pai => pai(file, bytes, options),
        TraceFormat::Openb => openb(file, bytes, options),
        TraceFormat::Gavel => gavel(file, bytes, options),
        TraceFormat::Pollux => super::pollux::parse(file, bytes, options),
        TraceFormat::Shockwave => super::shockwave::parse(file, bytes, options),
        TraceFormat::ElasticFlow => super::elasticflow::parse(file, bytes, options),
        TraceFormat::Swf => swf(file, bytes, options),
        TraceFormat::Sacct => super::sacct::sacct(file, bytes, options),
    }
}

fn mapped(file: &Path, bytes: &[u8], map: &Mapping<'_>, options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    let mut needed = vec![map.submit, map.gpus];
    match map.length {
        Length::Duration(duration) => needed.push(duration),
        Length::Between(start, end) => needed.extend([start, end]),
    }
    let optional = [map.deadline, map.priority, map.queue, map.part, map.declared, map.workload, map.user];
    needed.extend(optional.into_iter().chain(map.nodes).chain(map.log).flatten());
    table.need(&needed)?;
    let mut rows = Rows::of(options);
    let read = table.each(options, |row| {
        let submit = row.instant(map.submit, map.unit)?;
        let submit = rows.at(row, map.submit, submit)?;
        let asked = row.whole(map.gpus)?;
        let (gpus, share) = if map.hundredths { hundredths(row, map.gpus, asked)? } else { (asked, Job::WHOLE) };
        let duration = match map.length {
            Length::Duration(column) => row.span(column, map.unit)?,
            Length::Between(start, end) => match rows.between(row, (start, end), map.unit)? {
                Some(duration) => duration,
                None => {
                    rows.account().note(Fate::LeftOut, NO_TIME, row.line);
                    return Ok(());
                }
            },
        };
        let recorded = map.recorded(row, &mut rows)?;
        let given = |column: Option<&str>| column.and_then(|column| row.find(column)).filter(|text| !absent(text));
        let deadline = match map.deadline.filter(|column| given(Some(column)).is_some()) {
            Some(column) => {
                let found = row.instant(column, map.unit)?;
                Some(rows.at(row, column, found)?)
            }
            None => None,
        };
        let priority = match map.priority.zip(given(map.priority)) {
            Some((column, text)) => super::native::priority(row, column, text)?,
            None => 0,
        };
        let [each, cpus, memory] = map.nodes.map(|column| column.filter(|column| given(Some(column)).is_some()));
        let gpus_per_node = each.map_or(Ok(0), |column| super::native::per_node(row, column, gpus))?;
        let host = HostResources {
            cpu_milli: cpus.map_or(Ok(0), |column| super::native::cores(row, column))?,
            memory_mib: memory.map_or(Ok(0), |column| row.whole(column))?,
        };
        let part = map.part.map_or(Ok(None), |column| super::native::part(row, column, (gpus, share)))?;
        if let Some(job) = rows.push(row, map.name.and_then(|column| row.find(column)), submit, (gpus, duration)) {
            job.share = share;
            job.declared = map.declared.map(|column| row.span(column, map.unit)).transpose()?;
            (job.deadline, job.priority) = (deadline, priority);
            (job.gpus_per_node, job.host) = (gpus_per_node, host);
            job.workload = map.workload.and_then(|column| row.find(column)).map(str::to_string);
            job.user = map.user.and_then(|column| row.find(column)).map(|user| plain(user.into()));
            let queue = map.queue.and_then(|column| row.find(column)).filter(|queue| !queue.is_empty());
            job.queue = queue.map(|queue| plain(queue.into()));
            job.part = part;
            job.recorded = recorded;
        }
        Ok(())
    })?;
    Ok(rows.finish(read))
}

impl Mapping<'_> {
    /// What a log recorded of a row's job.
    fn recorded(&self, row: &Record<'_>, rows: &mut Rows) -> Result<Option<Box<Recorded>>, TraceError> {
        if self.log.iter().all(Option::is_none) {
            return Ok(None);
        }
        let [start, end, partition, outcome] = self.log;
        let given = |column: Option<&str>| column.and_then(|column| row.find(column)).filter(|text| !absent(text));
        let mut at = |column: Option<&str>| {
            let Some(column) = column.filter(|column| given(Some(column)).is_some()) else { return Ok(None) };
            let found = row.instant(column, self.unit)?;
            rows.at(row, column, found).map(Some)
        };
        let (start, end) = (at(start)?, at(end)?);
        let words = |column| given(column).map(str::to_string);
        let (partition, outcome) = (words(partition), words(outcome));
        Ok(Some(Box::new(Recorded { start, end, partition, outcome, ..Recorded::default() })))
    }
}

/// GPUs and the share of each, from hundredths: parts of one GPU, or whole ones.
fn hundredths(row: &Record<'_>, column: &str, found: u32) -> Result<(u32, u32), TraceError> {
    match found {
        0..100 => Ok((u32::from(found > 0), found * 10)),
        _ if found.is_multiple_of(100) => Ok((found / 100, Job::WHOLE)),
        _ => Err(row.wrong(column, format!("expected less than 100 hundredths or a multiple, found {found}"))),
    }
}

fn by_columns(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    const KNOWN: [&str; 22] = [
        "submit",
        "gpus",
        "hundredths",
        "duration",
        "start",
        "end",
        "name",
        "declared",
        "deadline",
        "priority",
        "gpus_per_node",
        "cpus",
        "host_memory_mib",
        "workload",
        "user",
        "queue",
        "part",
        "unit",
        "recorded_start",
        "recorded_end",
        "partition",
        "outcome",
    ];
    if let Some(unknown) = options.columns.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        let error = Error::usage(format!("a mapping of columns has no `{unknown}`"));
        return Err(error.hint(format!("it has {}", KNOWN.join(", "))));
    }
    let get = |key: &str| options.columns.get(key).map(String::as_str);
    let need = |key: &str| {
        let hint = "say which column holds what: --map submit=COLUMN,gpus=COLUMN,duration=COLUMN";
        get(key).ok_or_else(|| Error::usage(format!("the mapping of columns lacks `{key}`")).hint(hint))
    };
    let length = match (get("duration"), get("end")) {
        (Some(duration), _) => Length::Duration(duration),
        (None, Some(end)) => Length::Between(get("start").map_or_else(|| need("submit"), Ok)?, end),
        (None, None) => Length::Duration(need("duration")?),
    };
    let unit = get("unit").unwrap_or("s");
    let unit = Unit::named(unit)
        .ok_or_else(|| Error::usage(format!("the unit of times is s, ms, min or h, found {unit:?}")))?;
    let map = Mapping {
        name: get("name"),
        submit: need("submit")?,
        gpus: get("hundredths").map_or_else(|| need("gpus"), Ok)?,
        hundredths: get("hundredths").is_some(),
        length,
        declared: get("declared"),
        deadline: get("deadline"),
        priority: get("priority"),
        nodes: [get("gpus_per_node"), get("cpus"), get("host_memory_mib")],
        workload: get("workload"),
        user: get("user"),
        queue: get("queue"),
        part: get("part"),
        // A start and an end that say how long a job took are what was recorded of it.
        log: [
            get("recorded_start").or_else(|| get("start")),
            get("recorded_end").or_else(|| get("end")),
            get("partition"),
            get("outcome"),
        ],
        unit,
    };
    mapped(file, bytes, &map, options)
}

/// Gavel's duration is steps over throughput, on V100 for a gang of that size; the table is the user's own copy.
fn gavel(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let Some(path) = &options.throughputs else {
        let hint = "--throughputs FILE, Gavel's simulation_throughputs.json";
        return Err(Error::usage("a Gavel trace counts steps: it needs the table of throughputs").hint(hint));
    };
    let text = sandtable_core::input::read(path, sandtable_core::input::DATA)?;
    let rates: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    let table = Table::new(file, bytes, b'\t', false)?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        // (steps, gang, arrival), numbered from 1.
        let (steps, gang, arrival) = match row.len() {
            7 => ("5", "7", "6"),
            10 => ("6", "7", "10"),
            other => return Err(row.wrong("1", format!("{other} fields, expected Gavel's 7 or 10"))),
        };
        let (kind, gpus) = (row.text("1")?, row.whole(gang)?);
        let rate = |gang: u32| rates["v100"][format!("('{kind}', {gang})")]["null"].as_f64().filter(|rate| *rate > 0.0);
        let rate = match rate(gpus).or_else(|| rate(1).map(|rate| rate * f64::from(gpus))) {
            Some(rate) => rate,
            None => return Err(row.wrong("1", format!("the table has no V100 throughput of {kind:?}"))),
        };
        let duration = micros(row.number(steps)? / rate).ok_or_else(|| {
            row.wrong(steps, format!("expected a number of steps, found {:?}", row.text(steps).unwrap_or("")))
        })?;
        let submit = row.instant(arrival, Unit::Seconds)?;
        let submit = rows.at(row, arrival, submit)?;
        rows.push(row, None, submit, (gpus, duration));
        Ok(())
    })?;
    Ok(rows.finish(read))
}

/// Standard Workload Format: 18 fields; processors stand for GPUs.
fn swf(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    // Comment lines stay, empty, so that line numbers hold; runs of blanks become one tab.
    let (mut text, mut origin) = (String::with_capacity(bytes.len()), None);
    for line in String::from_utf8_lossy(bytes).lines() {
        if let Some(comment) = line.trim_start().strip_prefix(';') {
            let seconds = comment.trim().strip_prefix("UnixStartTime:").and_then(|text| text.trim().parse().ok());
            origin =
                origin
                    .or(seconds
                        .and_then(|seconds: u64| seconds.checked_mul(SECOND.as_micros()).map(Duration::from_micros)));
        } else {
            for (at, word) in line.split_whitespace().enumerate() {
                text.push_str(if at > 0 { "\t" } else { "" });
                text.push_str(word);
            }
        }
        text.push('\n');
    }
    let table = Table::new(file, text.as_bytes(), b'\t', false)?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        if row.len() != 18 {
            return Err(row.wrong("1", format!("{} fields, expected SWF's 18", row.len())));
        }
        let known = |column: &str| row.text(column).map(|text| !text.starts_with('-'));
        if !known("4")? {
            rows.account().note(Fate::LeftOut, NO_TIME, row.line);
            return Ok(());
        }
        // Requested processors, else allocated ones.
        let gpus = match (known("8")?, known("5")?) {
            (true, _) => row.whole("8")?,
            (false, true) => row.whole("5")?,
            (false, false) => 0,
        };
        let (submit, duration) = (Instant::at(row.span("2", Unit::Seconds)?), row.span("4", Unit::Seconds)?);
        let start = if known("3")? { Some(submit + row.span("3", Unit::Seconds)?) } else { None };
        let declared = known("9")?.then(|| row.span("9", Unit::Seconds)).transpose()?;
        let words = |column: &str| known(column)?.then(|| row.text(column).map(str::to_string)).transpose();
        let (partition, user) = (words("16")?, words("12")?);
        // Of a queue's log: as the format numbers them.
        let outcome = match row.text("11")? {
            "0" => Some("failed"),
            "1" => Some("completed"),
            "5" => Some("cancelled"),
            _ => None,
        };
        if let Some(job) = rows.push(row, row.find("1"), submit, (gpus, duration)) {
            job.declared = declared;
            let end = start.map(|at| at + duration);
            let outcome = outcome.map(str::to_string);
            job.user = user;
            job.recorded = Some(Box::new(Recorded { start, end, partition, outcome, ..Recorded::default() }));
        }
        Ok(())
    })?;
    let mut trace = rows.finish(read);
    trace.account.origin = trace.account.origin.or(origin.filter(|origin| !origin.is_zero()));
    Ok(trace)
}
