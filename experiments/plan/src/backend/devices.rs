//! Finds the devices of this machine that a spec names.

use sandtable_core::error::{Error, ExitCode};
use sandtable_hardware::{Device, StandIn, Telemetry as _};

use crate::gpus;
use crate::spec::{DevicesSpec, Source};

/// Returns the devices that a spec asks for, and whether they are made up: where this machine has none and `kind` names the
/// kind of another machine's.
pub(super) fn resolve(
    source: &Source,
    wanted: &DevicesSpec,
    kind: Option<String>,
) -> Result<(Vec<Device>, bool), Error> {
    match (found(source, wanted), kind) {
        (Err(error), Some(kind)) if error.exit == ExitCode::Hardware => Ok((assume(source, wanted, kind)?, true)),
        (found, _) => Ok((found?, false)),
    }
}

/// Finds the devices that a spec asks for.
fn found(source: &Source, devices: &DevicesSpec) -> Result<Vec<Device>, Error> {
    let wrong = |message: &str| Err(source.error("fleet.devices", message, "here"));
    match devices {
        DevicesSpec::StandIn(count) if (1..=64).contains(count) => Ok(StandIn::new(*count, 4096).devices().to_vec()),
        DevicesSpec::StandIn(count) => wrong(&format!("expected 1 to 64 stand-ins, found {count}")),
        DevicesSpec::All => gpus::visible(),
        DevicesSpec::Count(0) => wrong("expected at least one device, found none"),
        DevicesSpec::Count(count) => {
            let mut all = gpus::visible()?;
            if all.len() < *count as usize {
                let message = format!("{count} GPUs are asked for, {} may be used here", all.len());
                return Err(Error { exit: ExitCode::Hardware, ..Error::usage(message) });
            }
            all.truncate(*count as usize);
            Ok(all)
        }
        DevicesSpec::Only(uuids) => {
            let uuids: Vec<&str> = uuids.iter().map(String::as_str).collect();
            let opened = gpus::open(None, Some(&uuids)).map_err(|error| match error.exit {
                ExitCode::Usage => source.locate(error, "fleet.devices"),
                _ => error,
            })?;
            let visible = gpus::visible()?;
            let hidden = |device: &&Device| visible.iter().all(|other| other.uuid != device.uuid);
            if let Some(device) = opened.devices().iter().find(hidden) {
                let message = format!("{} is not among the devices of CUDA_VISIBLE_DEVICES", device.uuid);
                return Err(Error { exit: ExitCode::Hardware, ..Error::usage(message) });
            }
            Ok(opened.devices().to_vec())
        }
    }
}

/// Makes up as many devices as a spec asks for, of a kind that stands for any.
fn assume(source: &Source, devices: &DevicesSpec, kind: String) -> Result<Vec<Device>, Error> {
    let count = match devices {
        DevicesSpec::Count(count) => *count as usize,
        DevicesSpec::Only(uuids) => uuids.len(),
        DevicesSpec::All | DevicesSpec::StandIn(_) => {
            let error =
                source.error("fleet", "how many GPUs it takes can't be told on this machine, which has none", "here");
            return Err(error.hint("say how many: `devices: Count(1)`"));
        }
    };
    let device = Device { uuid: "assumed".into(), name: kind.clone(), kind, memory_mib: 1 << 20, reserved_mib: 0 };
    Ok(vec![device; count])
}
