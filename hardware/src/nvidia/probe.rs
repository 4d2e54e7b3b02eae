//! What this machine's GPUs are and which ways of putting a job aside work: asked, never assumed, and nothing is changed
//! by asking.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{Gpus, NoGpu, checkpoint, driver};
use crate::live::Level;
use crate::{Device, Instant, Reading, Settings, Telemetry};

/// Whether something works here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ability {
    /// Whether.
    pub works: bool,
    /// How that is known, or why not.
    pub because: String,
}

impl Ability {
    fn of(works: bool, because: impl Into<String>) -> Ability {
        Ability { works, because: because.into() }
    }
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbedDevice {
    /// What it is.
    #[serde(flatten)]
    pub device: Device,
    /// Facts by name, those that the driver tells.
    pub facts: BTreeMap<String, String>,
    /// One reading.
    pub now: Reading,
    /// Whether it has fine metrics.
    pub fine_metrics: Ability,
    /// Processes that compute on it, and their bytes; none: the driver does not tell.
    pub processes: Option<Vec<(u32, u64)>>,
}

/// What this machine has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// Versions of driver and CUDA.
    pub versions: BTreeMap<String, String>,
    /// The devices.
    pub devices: Vec<ProbedDevice>,
    /// How each pair is connected: `a b`, by their order.
    pub links: BTreeMap<String, String>,
    /// Whether CUDA can be used: built-in work and suspension need it.
    pub cuda: Ability,
    /// Whether an MPS server is there.
    pub mps: Ability,
    /// Ways of putting a job aside.
    pub levels: BTreeMap<String, Ability>,
    /// Settings that a run must leave as they are.
    pub settings: Settings,
}

/// Asks everything once; `mps` is the folder of MPS' pipes.
///
/// # Errors
/// No driver, or no device.
pub fn probe(library: Option<&Path>, mps: &Path) -> Result<Probe, NoGpu> {
    let mut gpus = Gpus::open(library, None)?;
    let versions = gpus.versions();
    let devices = gpus.devices().to_vec();
    let devices: Vec<ProbedDevice> =
        devices.into_iter().enumerate().map(|(index, device)| probed(&mut gpus, index, device)).collect();
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "NVML tells of none"))]
    let mut links = BTreeMap::new();
    // NVML tells of links on Linux alone.
    #[cfg(target_os = "linux")]
    for (b, of) in devices.iter().enumerate() {
        for (a, handle) in gpus.handles[..b].iter().enumerate() {
            let other = gpus.nvml.device_by_uuid(of.device.uuid.as_str());
            if let Ok(level) = other.and_then(|other| handle.topology_common_ancestor(other)) {
                links.insert(format!("{a} {b}"), format!("{level:?}"));
            }
        }
    }
    let opened = driver::driver();
    let cuda = match &opened {
        Ok(version) => Ability::of(true, format!("the driver knows CUDA {version}")),
        Err(error) => Ability::of(false, error.to_string()),
    };
    let suspend = match checkpoint::known() {
        Ok(true) => Ability::of(true, "the driver has the checkpoint functions; each process may still refuse"),
        Ok(false) => Ability::of(false, "the driver has no checkpoint functions"),
        Err(error) => Ability::of(false, error.to_string()),
    };
    let levels = [
        (Level::Save, Ability::of(true, "a job that answers SIGUSR1 with its state and exit code 75")),
        (Level::Suspend, suspend),
        (Level::Pause, pauses()),
        (Level::Kill, Ability::of(true, "SIGTERM, then SIGKILL")),
    ];
    let levels = levels.into_iter().map(|(level, ability)| (format!("{level:?}").to_lowercase(), ability)).collect();
    let control = mps.join("control");
    let mps = match control.exists() {
        true => Ability::of(true, format!("{} is there", control.display())),
        false => Ability::of(false, format!("no {}", control.display())),
    };
    let settings = gpus.settings();
    Ok(Probe { versions, devices, links, cuda, mps, levels, settings })
}

/// Whether a process that is stopped stands still: tried on one that sleeps.
fn pauses() -> Ability {
    use rustix::process::{Pid, Signal, kill_process};
    let Ok(mut sleeper) = std::process::Command::new("sleep").arg("60").spawn() else {
        return Ability::of(false, "no process to try it on: `sleep` can't be started");
    };
    let stopped = kill_process(Pid::from_child(&sleeper), Signal::STOP).is_ok()
        && (0..200).any(|_| {
            crate::live::wait(crate::Duration::from_millis(1));
            crate::telemetry::stat(sleeper.id()).starts_with('T')
        });
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    match stopped {
        true => Ability::of(true, "SIGSTOP, tried; device memory stays where it is"),
        false => Ability::of(false, "SIGSTOP did not stop a process"),
    }
}

fn probed(gpus: &mut Gpus, index: usize, device: Device) -> ProbedDevice {
    let mut facts = BTreeMap::new();
    {
        let handle = &gpus.handles[index];
        let mut add = |name: &str, value: Option<String>| {
            facts.extend(value.map(|value| (name.to_string(), value)));
        };
        add("architecture", handle.architecture().ok().map(|architecture| architecture.to_string()));
        let capability = handle.cuda_compute_capability().ok();
        add("compute capability", capability.map(|version| format!("{}.{}", version.major, version.minor)));
        add("CUDA cores", handle.num_cores().ok().map(|cores| cores.to_string()));
        add("memory bus", handle.memory_bus_width().ok().map(|bits| format!("{bits} bits")));
        add("PCIe at most", handle.max_pcie_link_gen().ok().map(|generation| format!("generation {generation}")));
        add("PCIe now", handle.current_pcie_link_gen().ok().map(|generation| format!("generation {generation}")));
        add("PCIe lanes", handle.current_pcie_link_width().ok().map(|lanes| lanes.to_string()));
    }
    let fine_metrics = match gpus.handles[index].gpm_support() {
        Ok(true) => Ability::of(true, "the device has GPM"),
        Ok(false) => Ability::of(false, "the device has no GPM (Hopper and later have)"),
        Err(error) => Ability::of(false, format!("the driver does not say: {error}")),
    };
    let now = gpus.read(index, Instant::START);
    let processes = gpus.processes(index);
    ProbedDevice { device, facts, now, fine_metrics, processes }
}
