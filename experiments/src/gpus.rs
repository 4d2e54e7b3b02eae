//! The door to this machine's GPUs: the same with and without the feature `nvidia`, with and without a driver.

use std::path::Path;

use sandtable_hardware::Telemetry;

use crate::error::{Error, ExitCode};

/// There is no driver, or no GPU as asked.
fn lacking(message: String) -> Error {
    Error { exit: ExitCode::Hardware, ..Error::usage(message) }
}

/// Opens the GPUs of this machine, all or those of these UUIDs.
///
/// # Errors
/// No driver, no such device, or a binary without the feature.
#[cfg(feature = "nvidia")]
pub fn open(library: Option<&Path>, uuids: Option<&[&str]>) -> Result<Box<dyn Telemetry>, Error> {
    let opened = sandtable_hardware::nvidia::open(library, uuids);
    opened.map(|gpus| Box::new(gpus) as Box<dyn Telemetry>).map_err(|error| lacking(error.to_string()))
}

/// As above: here there is nothing to open.
///
/// # Errors
/// Always.
#[cfg(not(feature = "nvidia"))]
pub fn open(_: Option<&Path>, _: Option<&[&str]>) -> Result<Box<dyn Telemetry>, Error> {
    Err(lacking("this binary was built without the feature `nvidia`".into()))
}

/// Built-in work on the first GPU that this process sees, in at most so many bytes.
///
/// # Errors
/// No driver, or a GPU that is too old for it.
#[cfg(feature = "nvidia")]
pub fn engine(family: &str, limit: Option<u64>) -> Result<Box<dyn sandtable_hardware::work::Engine>, Error> {
    let engine = sandtable_hardware::nvidia::engine(family, limit);
    engine.map_err(|error| lacking(error.to_string()))
}

/// As above.
///
/// # Errors
/// Always.
#[cfg(not(feature = "nvidia"))]
pub fn engine(_: &str, _: Option<u64>) -> Result<Box<dyn sandtable_hardware::work::Engine>, Error> {
    Err(lacking("this binary was built without the feature `nvidia`".into()))
}
