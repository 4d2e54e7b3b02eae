//! Alibaba's two traces, which ask for parts of GPUs.

use std::path::Path;

use sandtable_hardware::Job;

use super::Trace;
use super::formats::{NO_TIME, Options, Rows, between};
use super::table::{Table, Unit};
use crate::error::Error;

const WHOLE: &str = "asks for parts of several GPUs: given whole ones";

pub(super) fn pai(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["submit_time", "duration", "num_gpu"])?;
    let mut rows = Rows::new();
    table.each(|row| {
        if !row.matches(&options.filter)? {
            return Ok(());
        }
        let each = if row.text("num_gpu")?.is_empty() { 0.0 } else { row.number("num_gpu")? };
        let instances = if row.find("num_inst").unwrap_or("").is_empty() { 1 } else { row.whole("num_inst")? };
        // A part of a GPU for one instance is a share; for a gang, and beyond whole ones, it is rounded up.
        let part = each > 0.0 && each < 1.0 && instances == 1;
        if each.fract() != 0.0 && !part {
            rows.trace.note(WHOLE);
        }
        let gpus = each.ceil() * f64::from(instances);
        if !(0.0..=f64::from(u32::MAX)).contains(&gpus) {
            return Err(
                row.wrong("num_gpu", format!("expected a number of GPUs, found {each} for {instances} instances"))
            );
        }
        let gpus = gpus as u32;
        let (submit, duration) = (row.instant("submit_time", Unit::Seconds)?, row.span("duration", Unit::Seconds)?);
        let before = rows.trace.rows.len();
        rows.push(row.find("job_id"), submit, gpus, duration);
        if let Some(last) = rows.trace.rows.get_mut(before).filter(|_| part) {
            last.share = ((each * 1000.0 + 0.5) as u32).clamp(1, Job::WHOLE);
        }
        Ok(())
    })?;
    Ok(rows.finish())
}

pub(super) fn openb(file: &Path, bytes: &[u8], options: &Options) -> Result<Trace, Error> {
    let table = Table::new(file, bytes, b',', true)?;
    table.need(&["name", "num_gpu", "gpu_milli", "creation_time", "scheduled_time", "deletion_time"])?;
    let mut rows = Rows::new();
    table.each(|row| {
        if !row.matches(&options.filter)? {
            return Ok(());
        }
        let gpus = row.whole("num_gpu")?;
        let submit = row.instant("creation_time", Unit::Seconds)?;
        match between(row, "scheduled_time", "deletion_time", Unit::Seconds)? {
            Some(duration) => {
                let share = if gpus == 1 { row.whole("gpu_milli")?.clamp(1, Job::WHOLE) } else { Job::WHOLE };
                let before = rows.trace.rows.len();
                rows.push(row.find("name"), submit, gpus, duration);
                if let Some(last) = rows.trace.rows.get_mut(before) {
                    last.share = share;
                }
                let spec = row.find("gpu_spec").unwrap_or("");
                if let Some(last) = rows.trace.rows.get_mut(before).filter(|_| !spec.is_empty()) {
                    last.kinds = spec.split('|').map(str::to_string).collect();
                }
            }
            None => rows.trace.note(NO_TIME),
        }
        Ok(())
    })?;
    Ok(rows.finish())
}
