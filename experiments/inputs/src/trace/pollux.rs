//! Workloads of Pollux' simulator, and of DeepBoot's, which adds tasks to them.

use std::path::{Path, PathBuf};

use sandtable_core::error::Error;

use sandtable_hardware::Duration;

use super::account::Fate;
use super::rows::{Options, Rows, micros};
use super::table::{Record, Table, TraceError, Unit};
use super::{Row, Trace};

const NEEDED: [&str; 5] = ["name", "time", "application", "num_replicas", "batch_size"];

pub(super) fn parse(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    match &options.throughputs {
        Some(folder) => rigid(file, bytes, folder, options),
        None => elastic(file, bytes, options),
    }
}

/// Elastic jobs, whose workloads say how long they take; `infer-…` is a service, each row of it a task.
fn elastic(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&NEEDED)?;
    let mut rows = Rows::new();
    let read = table.each(options, |row| {
        let application = row.text("application")?.to_string();
        let (name, submit) = (row.text("name")?.to_string(), row.instant("time", Unit::Seconds)?);
        let submit = rows.at(row, "time", submit)?;
        let job = if application.starts_with("infer-") {
            let duration = row.span("duration", Unit::Seconds)?;
            let mut job = Row::new(name, submit, 1, duration);
            (job.service, job.preemptible) = (Some(application), false);
            job
        } else {
            let (gpus, batch) = (row.whole("num_replicas")?, row.whole("batch_size")?);
            let mut job = Row::new(name, submit, gpus, Duration::ZERO);
            (job.workload, job.batch) = (Some(application), Some(batch));
            job
        };
        rows.keep(row.line, job);
        Ok(())
    })?;
    Ok(rows.finish(read))
}

/// Pollux' jobs as rigid ones: the iterations of the recorded run whose batch is nearest, each as long as the step
/// measured for the packed placement of that many replicas (nearest local batch). Its elastic model is more exact.
fn rigid(file: &Path, bytes: &[u8], folder: &Path, options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&NEEDED)?;
    let mut rows = Rows::new();
    let mut failed = None;
    let read = table.each(options, |row| {
        let (application, gpus, batch) =
            (row.text("application")?, row.whole("num_replicas")?, row.whole("batch_size")?);
        match measured_seconds(&folder.join(application), gpus, batch) {
            Ok(seconds) => {
                let submit = row.instant("time", Unit::Seconds)?;
                let found = format!("expected a batch that can run, found {batch}");
                let duration = micros(seconds).ok_or_else(|| row.wrong("batch_size", found))?;
                let submit = rows.at(row, "time", submit)?;
                rows.push(row, row.find("name"), submit, (gpus, duration));
                rows.account().note(Fate::Changed, "duration from the nearest measured run: approximate", row.line);
            }
            Err(error) => failed = Some(error),
        }
        Ok(())
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(rows.finish(read)),
    }
}

fn measured_seconds(folder: &Path, gpus: u32, batch: u32) -> Result<f64, Error> {
    let distance = |a: f64, b: f64| (a - b).abs();
    let read = |name: &str, wanted: &dyn Fn(&Record<'_>) -> Result<(), TraceError>| -> Result<(), Error> {
        let path = folder.join(name);
        let bytes = sandtable_core::input::read(&path, sandtable_core::input::DATA)?;
        Table::new(&path, &bytes, b',', true)?.each(&Options::default(), |row| wanted(row)).map(|_| ())
    };
    // The recorded run of the nearest total batch.
    let files = sandtable_core::input::sorted(folder)?;
    let batch_of = |path: &PathBuf| -> Option<u32> {
        path.file_name()?.to_str()?.strip_prefix("validation-")?.strip_suffix(".csv")?.parse().ok()
    };
    let near = files.iter().filter_map(batch_of).min_by_key(|known| (known.abs_diff(batch), *known));
    let Some(near) = near else { return Err(Error::usage(format!("{}: no validation-*.csv", folder.display()))) };
    let iterations = std::cell::Cell::new(0.0);
    read(&format!("validation-{near}.csv"), &|row| {
        iterations.set(row.number("iteration")?);
        Ok(())
    })?;
    let iterations = iterations.get() * f64::from(near) / f64::from(batch);
    // Packed on nodes of four.
    let local = f64::from(batch) / f64::from(gpus);
    let best = std::cell::Cell::new((f64::INFINITY, f64::INFINITY, 0.0));
    let consider = |row: &Record<'_>, replicas: f64| -> Result<(), TraceError> {
        let found =
            (distance(replicas, f64::from(gpus)), distance(row.number("local_bsz")?, local), row.number("step_time")?);
        if (found.0, found.1) < (best.get().0, best.get().1) {
            best.set(found);
        }
        Ok(())
    };
    read("placements.csv", &|row| {
        let digits: Vec<u32> = row.text("placement")?.chars().filter_map(|c| c.to_digit(10)).collect();
        let packed = digits.len() as u32 == digits.iter().sum::<u32>().div_ceil(4);
        if packed { consider(row, f64::from(digits.iter().sum::<u32>())) } else { Ok(()) }
    })?;
    read("scalability.csv", &|row| consider(row, row.number("num_replicas")?))?;
    Ok(iterations * best.get().2)
}
