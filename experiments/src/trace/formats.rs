//! Every format that is read: most are a mapping of columns, a line in a table; a few need more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandtable_hardware::{Job, Micros, SECOND};

use super::alibaba::{openb, pai};
use super::table::{Record, Table, TraceError, Unit};
use super::{Row, Trace, TraceFormat};
use crate::error::Error;

/// What reading may need beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The first so many jobs.
    pub jobs: Option<u32>,
    /// Only rows whose column has this value.
    pub filter: BTreeMap<String, String>,
    /// For [`TraceFormat::Csv`]: columns by what they hold: `submit`, `gpus`, and `duration` or `end` (with `start`,
    /// if it has one), and if there are such `name`, `declared`, `workload`; `hundredths` in place of `gpus` counts
    /// hundredths of a GPU; `unit` is `s` or `ms`.
    pub columns: BTreeMap<String, String>,
    /// The user's copy of Gavel's throughputs, or of Pollux's folder `traces`.
    pub throughputs: Option<PathBuf>,
}

/// Which column holds what.
struct Mapping<'a> {
    name: Option<&'a str>,
    submit: &'a str,
    gpus: &'a str,
    length: Length<'a>,
    declared: Option<&'a str>,
    workload: Option<&'a str>,
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
        workload: None,
        hundredths: false,
        unit,
    }
}

pub(super) fn parse(file: &Path, bytes: &[u8], format: TraceFormat, options: &Options) -> Result<Trace, Error> {
    use Unit::{Millis, Seconds};
    match format {
        TraceFormat::Native => native(file, bytes, options),
        TraceFormat::Philly => {
            let philly = Mapping { name: None, ..mapping("", "timestamp", "num_gpus", "duration", Seconds) };
            mapped(file, bytes, &philly, options)
        }
        TraceFormat::Tiresias => {
            mapped(file, bytes, &mapping("job_id", "submit_time", "num_gpu", "duration", Seconds), options)
        }
        TraceFormat::Muri => {
            mapped(file, bytes, &mapping("job_id", "submit_time", "num_gpu", "duration", Millis), options)
        }
        TraceFormat::Lucid => {
            mapped(file, bytes, &mapping("job_id", "submit_time", "gpu_num", "duration", Seconds), options)
        }
        TraceFormat::Csv => by_columns(file, bytes, options),
        TraceFormat::Pai => pai(file, bytes, options),
        TraceFormat::Openb => openb(file, bytes, options),
        TraceFormat::Gavel => gavel(file, bytes, options),
        TraceFormat::Pollux => super::pollux::parse(file, bytes, options),
        TraceFormat::Swf => swf(file, bytes, options),
        TraceFormat::Sacct => sacct(file, bytes, options),
    }
}

const NO_GPU: &str = "asks for no GPU: left out";
pub(super) const NO_TIME: &str = "never ran: left out";

/// Collects rows; dates become seconds since the first.
pub(super) struct Rows {
    pub(super) trace: Trace,
    dated: bool,
}

impl Rows {
    pub(super) fn new() -> Rows {
        Rows { trace: Trace::default(), dated: false }
    }

    pub(super) fn push(&mut self, name: Option<&str>, (submit, dated): (Micros, bool), gpus: u32, duration: Micros) {
        self.dated |= dated;
        if gpus == 0 {
            return self.trace.note(NO_GPU);
        }
        let name = name.map_or_else(|| self.trace.rows.len().to_string(), str::to_string);
        self.trace.rows.push(Row::new(name, submit, gpus, duration));
    }

    pub(super) fn finish(mut self) -> Trace {
        if self.dated {
            let first = self.trace.rows.iter().map(|row| row.submit).min().unwrap_or(0);
            for row in &mut self.trace.rows {
                row.submit -= first;
            }
        }
        self.trace
    }
}

fn mapped(file: &Path, bytes: &[u8], map: &Mapping<'_>, options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    let mut needed = vec![map.submit, map.gpus];
    match map.length {
        Length::Duration(duration) => needed.push(duration),
        Length::Between(start, end) => needed.extend([start, end]),
    }
    needed.extend(map.declared.into_iter().chain(map.workload));
    needed.extend(options.filter.keys().map(String::as_str));
    table.need(&needed)?;
    let mut rows = Rows::new();
    table.each(|row| {
        if !row.matches(&options.filter)? {
            return Ok(());
        }
        let submit = row.instant(map.submit, map.unit)?;
        let asked = row.whole(map.gpus)?;
        let (gpus, share) = if map.hundredths { hundredths(row, map.gpus, asked)? } else { (asked, Job::WHOLE) };
        let duration = match map.length {
            Length::Duration(column) => row.span(column, map.unit)?,
            Length::Between(start, end) => match between(row, start, end, map.unit)? {
                Some(duration) => duration,
                None => {
                    rows.trace.note(NO_TIME);
                    return Ok(());
                }
            },
        };
        let before = rows.trace.rows.len();
        rows.push(map.name.and_then(|column| row.find(column)), submit, gpus, duration);
        if let Some(last) = rows.trace.rows.get_mut(before) {
            last.share = share;
            last.declared = map.declared.map(|column| row.span(column, map.unit)).transpose()?;
            last.workload = map.workload.and_then(|column| row.find(column)).map(str::to_string);
        }
        Ok(())
    })?;
    Ok(rows.finish())
}

/// GPUs and the share of each, from hundredths: parts of one GPU, or whole ones.
fn hundredths(row: &Record<'_>, column: &str, found: u32) -> Result<(u32, u32), TraceError> {
    match found {
        0..100 => Ok((u32::from(found > 0), found * 10)),
        _ if found.is_multiple_of(100) => Ok((found / 100, Job::WHOLE)),
        _ => Err(row.wrong(column, format!("expected less than 100 hundredths or a multiple, found {found}"))),
    }
}

/// From start to end; `None` where it never started or never ended.
pub(super) fn between(row: &Record<'_>, start: &str, end: &str, unit: Unit) -> Result<Option<Micros>, TraceError> {
    let absent = |text: &str| matches!(text, "" | "Unknown" | "None" | "nan");
    if absent(row.text(start)?) || absent(row.text(end)?) {
        return Ok(None);
    }
    let (from, to) = (row.instant(start, unit)?.0, row.instant(end, unit)?.0);
    match to.checked_sub(from) {
        Some(duration) => Ok(Some(duration)),
        None => Err(row.wrong(end, format!("{} is before {start}, {}", row.text(end)?, row.text(start)?))),
    }
}

fn by_columns(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    const KNOWN: [&str; 10] =
        ["submit", "gpus", "hundredths", "duration", "start", "end", "name", "declared", "workload", "unit"];
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
    let unit = match get("unit") {
        None | Some("s") => Unit::Seconds,
        Some("ms") => Unit::Millis,
        Some(other) => return Err(Error::usage(format!("the unit of times is s or ms, found {other:?}"))),
    };
    let map = Mapping {
        name: get("name"),
        submit: need("submit")?,
        gpus: get("hundredths").map_or_else(|| need("gpus"), Ok)?,
        hundredths: get("hundredths").is_some(),
        length,
        declared: get("declared"),
        workload: get("workload"),
        unit,
    };
    mapped(file, bytes, &map, options)
}

fn native(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    const KNOWN: [&str; 13] = [
        "job_id",
        "submit_s",
        "gpus",
        "duration_s",
        "declared_s",
        "gpu_types",
        "preemptible",
        "share_milli",
        "memory_mib",
        "workload",
        "user",
        "batch",
        "service",
    ];
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_s", "gpus", "duration_s"])?;
    if let Some(unknown) =
        table.names().iter().find(|name| !KNOWN.contains(&name.as_str()) && !options.filter.contains_key(*name))
    {
        let error = Error::usage(format!("{}:1: the native format has no column `{unknown}`", file.display()));
        return Err(error.hint(format!("it has {}; other files: `sandtable trace import --help`", KNOWN.join(", "))));
    }
    let mut trace = Trace::default();
    table.each(|row| {
        if !row.matches(&options.filter)? {
            return Ok(());
        }
        let gpus = row.whole("gpus")?;
        if gpus == 0 {
            return Err(row.wrong("gpus", "expected at least 1, found 0"));
        }
        let name = row.find("job_id").map_or_else(|| trace.rows.len().to_string(), str::to_string);
        let declared = row.find("declared_s").filter(|text| !text.is_empty());
        let preemptible = match row.find("preemptible") {
            None | Some("" | "true") => true,
            Some("false") => false,
            Some(other) => return Err(row.wrong("preemptible", format!("expected true or false, found {other:?}"))),
        };
        let kinds = row.find("gpu_types").filter(|text| !text.is_empty());
        let given = |column: &str| row.find(column).filter(|text| !text.is_empty());
        let share = given("share_milli").map(|_| row.whole("share_milli")).transpose()?.unwrap_or(Job::WHOLE);
        if !(1..=Job::WHOLE).contains(&share) || (share < Job::WHOLE && gpus != 1) {
            let message = format!("expected 1 to 1000 thousandths of one GPU, found {share} of {gpus}");
            return Err(row.wrong("share_milli", message));
        }
        trace.rows.push(Row {
            declared: declared.map(|_| row.span("declared_s", Unit::Seconds)).transpose()?,
            kinds: kinds.map_or_else(Vec::new, |text| text.split('|').map(str::to_string).collect()),
            preemptible,
            share,
            memory_mib: given("memory_mib").map(|_| row.whole("memory_mib")).transpose()?,
            workload: given("workload").map(str::to_string),
            user: given("user").map(str::to_string),
            batch: given("batch").map(|_| row.whole("batch")).transpose()?,
            service: given("service").map(str::to_string),
            ..Row::new(name, row.span("submit_s", Unit::Seconds)?, gpus, row.span("duration_s", Unit::Seconds)?)
        });
        Ok(())
    })?;
    Ok(trace)
}

/// Seconds that are a time at all.
pub(super) fn micros(seconds: f64) -> Option<Micros> {
    let micros = seconds * SECOND as f64;
    (0.0..9_007_199_254_740_992.0).contains(&micros).then_some(micros as Micros)
}

/// Gavel's duration is steps over throughput, on V100 for a gang of that size; the table is the user's own copy.
fn gavel(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let Some(path) = &options.throughputs else {
        let hint = "--throughputs FILE, Gavel's simulation_throughputs.json";
        return Err(Error::usage("a Gavel trace counts steps: it needs the table of throughputs").hint(hint));
    };
    let text = std::fs::read(path).map_err(|error| Error::file("read", path, &error))?;
    let rates: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    let table = Table::new(file, bytes, b'\t', false)?;
    let mut rows = Rows::new();
    table.each(|row| {
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
        rows.push(None, row.instant(arrival, Unit::Seconds)?, gpus, duration);
        Ok(())
    })?;
    Ok(rows.finish())
}

/// Standard Workload Format: 18 fields; processors stand for GPUs.
fn swf(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    // Comment lines stay, empty, so that line numbers hold; runs of blanks become one tab.
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(|line| match line.trim_start().starts_with(';') {
        true => String::new(),
        false => line.split_whitespace().collect::<Vec<_>>().join("\t"),
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let table = Table::new(file, text.as_bytes(), b'\t', false)?;
    let mut rows = Rows::new();
    table.each(|row| {
        if row.len() != 18 {
            return Err(row.wrong("1", format!("{} fields, expected SWF's 18", row.len())));
        }
        if !row.matches(&options.filter)? {
            return Ok(());
        }
        let known = |column: &str| row.text(column).map(|text| !text.starts_with('-'));
        if !known("4")? {
            rows.trace.note(NO_TIME);
            return Ok(());
        }
        // Requested processors, else allocated ones.
        let gpus = match (known("8")?, known("5")?) {
            (true, _) => row.whole("8")?,
            (false, true) => row.whole("5")?,
            (false, false) => 0,
        };
        let before = rows.trace.rows.len();
        rows.push(row.find("1"), row.instant("2", Unit::Seconds)?, gpus, row.span("4", Unit::Seconds)?);
        if known("9")?
            && let Some(last) = rows.trace.rows.get_mut(before)
        {
            last.declared = Some(row.span("9", Unit::Seconds)?);
        }
        Ok(())
    })?;
    Ok(rows.finish())
}

fn sacct(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b'|', true)?;
    table.need(&["JobID", "Submit", "Start", "End"])?;
    let tres = ["AllocTRES", "ReqTRES"].into_iter().find(|name| table.names().iter().any(|known| known == name));
    let Some(tres) = tres else {
        let hint = "sacct --parsable2 --allusers --format=JobID,Submit,Start,End,Timelimit,AllocTRES";
        return Err(Error::usage(format!("{}:1: no column `AllocTRES` or `ReqTRES`", file.display())).hint(hint));
    };
    let limit = table.names().iter().any(|name| name == "Timelimit");
    let mut rows = Rows::new();
    table.each(|row| {
        let id = row.text("JobID")?;
        if id.contains('.') {
            rows.trace.note("is a step of a job: left out");
            return Ok(());
        }
        if !row.matches(&options.filter)? {
            return Ok(());
        }
        let counts: Vec<&str> = row.text(tres)?.split(',').filter(|part| part.starts_with("gres/gpu")).collect();
        // `gres/gpu=4` is the total; `gres/gpu:a100=4` only where the total is not said.
        let total =
            counts.iter().find_map(|part| part.strip_prefix("gres/gpu=")).or_else(|| counts.first()?.split('=').nth(1));
        let gpus = match total {
            Some(text) => {
                text.parse().map_err(|_| row.wrong(tres, format!("expected a number of GPUs, found {text:?}")))?
            }
            None => 0,
        };
        let submit = row.instant("Submit", Unit::Seconds)?;
        match between(row, "Start", "End", Unit::Seconds)? {
            Some(duration) => {
                let before = rows.trace.rows.len();
                rows.push(Some(id), submit, gpus, duration);
                let declared = if limit { row.span("Timelimit", Unit::Seconds).ok() } else { None };
                if let Some(last) = rows.trace.rows.get_mut(before) {
                    last.declared = declared;
                }
            }
            None => rows.trace.note(NO_TIME),
        }
        Ok(())
    })?;
    Ok(rows.finish())
}
