//! Opens this machine's GPUs. The functions are the same with and without the feature `nvidia`, with and without a driver.

use std::path::Path;

use sandtable_core::error::{Error, ExitCode};
use sandtable_hardware::{Device, Telemetry};

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

/// The GPUs of this machine that this process may use: all, or those of `CUDA_VISIBLE_DEVICES`, by which containers and batch
/// systems say which jobs have them.
///
/// # Errors
/// No driver, or a variable that leaves no device.
pub fn visible() -> Result<Vec<Device>, Error> {
    let all = open(None, None)?.devices().to_vec();
    #[expect(
        clippy::disallowed_methods,
        reason = "whose devices these are is said nowhere else, and kept with what is observed"
    )]
    let named = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    of_these(all, named.as_deref())
}

/// Those that the variable names, by number or by the beginning of their UUID. As in CUDA, the first that is not there ends the
/// list; numbers count in the order of the bus.
fn of_these(all: Vec<Device>, named: Option<&str>) -> Result<Vec<Device>, Error> {
    let Some(named) = named else { return Ok(all) };
    let find = |word: &str| match word.parse::<usize>() {
        Ok(number) => all.get(number),
        Err(_) if word.len() < 4 => None,
        Err(_) => all.iter().find(|device| device.uuid.starts_with(word)),
    };
    let mut found: Vec<Device> = Vec::new();
    for device in named.split(',').map_while(|word| find(word.trim())) {
        if found.iter().all(|other| other.uuid != device.uuid) {
            found.push(device.clone());
        }
    }
    if found.is_empty() {
        return Err(lacking(format!("CUDA_VISIBLE_DEVICES={named} leaves none of the {} GPUs", all.len())));
    }
    Ok(found)
}

/// Built-in work on the first GPU that this process sees, in at most so many bytes.
///
/// # Errors
/// No driver, or a GPU that is too old for it.
#[cfg(feature = "nvidia")]
pub fn engine(family: &str, limit: Option<u64>) -> Result<Box<dyn sandtable_hardware::work::WorkEngine>, Error> {
    let engine = sandtable_hardware::nvidia::engine(family, limit);
    engine.map_err(|error| lacking(error.to_string()))
}

/// As above.
///
/// # Errors
/// Always.
#[cfg(not(feature = "nvidia"))]
pub fn engine(_: &str, _: Option<u64>) -> Result<Box<dyn sandtable_hardware::work::WorkEngine>, Error> {
    Err(lacking("this binary was built without the feature `nvidia`".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_whose_devices_these_are() {
        let device = |uuid: &str| Device {
            uuid: uuid.into(),
            name: "T4".into(),
            kind: "T4".into(),
            memory_mib: 16,
            reserved_mib: 0,
        };
        let all = || vec![device("GPU-aa01"), device("GPU-aa02"), device("GPU-bb03")];
        let of = |named: Option<&str>| match of_these(all(), named) {
            Ok(found) => found.into_iter().map(|device| device.uuid).collect::<Vec<_>>().join(" "),
            Err(error) => format!("{}: {}", error.exit as u8, error.message),
        };
        assert_eq!(of(None), "GPU-aa01 GPU-aa02 GPU-bb03");
        assert_eq!(of(Some("2,0")), "GPU-bb03 GPU-aa01");
        assert_eq!(of(Some("GPU-bb, 1")), "GPU-bb03 GPU-aa02");
        assert_eq!(of(Some("1,7,0")), "GPU-aa02");
        assert_eq!(of(Some("1,1,GPU-aa02,0")), "GPU-aa02 GPU-aa01");
        assert_eq!(of(Some("-1")), "5: CUDA_VISIBLE_DEVICES=-1 leaves none of the 3 GPUs");
        assert_eq!(of(Some("")), "5: CUDA_VISIBLE_DEVICES= leaves none of the 3 GPUs");
    }
}
