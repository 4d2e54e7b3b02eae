//! What machines say of their devices: readings at 10 Hz, the memory that processes take, and the settings that must be
//! found at the end as they were at the beginning. `nvidia` asks the driver.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Instant;

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// How it is addressed, whatever its place in a list.
    pub uuid: String,
    /// What the driver calls it.
    pub name: String,
    /// Its name in the [catalogue](crate::catalogue), where it is known; else what the driver says.
    pub kind: String,
    /// Device memory, MiB.
    pub memory_mib: u32,
    /// Of that, what the driver keeps.
    pub reserved_mib: u32,
}

/// One reading of a device. What it does not tell is none, which is not 0. Utilisation in thousandths of a per cent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// Which device, by its place in the list.
    pub device: usize,
    /// Time in which some kernel ran: a duty cycle.
    pub busy: Option<u32>,
    /// Time in which memory was read or written.
    pub memory_busy: Option<u32>,
    /// Device memory in use, bytes.
    pub memory_used: Option<u64>,
    /// Power, mW.
    pub power_mw: Option<u32>,
    /// Energy since the driver was loaded, mJ.
    pub energy_mj: Option<u64>,
    /// Clock of the multiprocessors, MHz.
    pub sm_mhz: Option<u32>,
    /// Whether clocks are held down for heat or power.
    pub throttled: Option<bool>,
    /// By name, where the device has fine metrics (GPM, Hopper and later): `sm-active`, `sm-occupancy`, `tensor`, `fp32`,
    /// `dram` in thousandths of a per cent, `pcie-tx`, `pcie-rx` in bytes a second.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fine: BTreeMap<String, u64>,
}

/// Settings of a device, each as text: at the end of a run they must be what they were.
pub type Settings = BTreeMap<String, String>;

/// What reads the devices.
pub trait Telemetry: Send {
    /// The devices, in the order in which readings number them.
    fn devices(&self) -> &[Device];

    /// Reads a device.
    fn read(&mut self, device: usize, at: Instant) -> Reading;

    /// Bytes of device memory by process; none: the driver does not tell, or in another name space.
    fn processes(&mut self, device: usize) -> Option<Vec<(u32, u64)>>;

    /// The settings of every device by name.
    fn settings(&mut self) -> Settings;

    /// What of the machine results must name beside its devices: versions, clocks.
    fn versions(&mut self) -> BTreeMap<String, String>;

    /// The environment in which a process sees this device, and no other.
    fn environment(&self, device: usize) -> Vec<(String, String)>;

    /// How device memory is moved to the host and back; none: this device has no way to.
    fn mover(&self) -> Option<MoveMemory> {
        None
    }
}

/// Moves a process' device memory to the host where the second argument is true, else back, or says why it can't. The time
/// that takes grows with the memory: 1.7 s for 2.6 GiB on an H200.
pub type MoveMemory = fn(u32, bool) -> Result<(), String>;

/// What differs between two looks at the settings, a line each.
pub fn differences(before: &Settings, after: &Settings) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let text = |settings: &Settings, key: &String| settings.get(key).cloned().unwrap_or_else(|| "nothing".into());
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    changed.map(|key| format!("{key}: was {}, is {}", text(before, key), text(after, key))).collect()
}

/// No GPU at all: a core of this machine's CPU stands in, so that a set-up can be tried anywhere. Its "device memory" is what
/// processes hold in main memory.
pub struct StandIn {
    devices: Vec<Device>,
    /// Process id of the host whose jobs' processes count; none: those of every host on this machine.
    host: Option<u32>,
    /// CPU time of each process group when it was last read, for the duty cycle.
    last: BTreeMap<usize, (Instant, u64)>,
    groups: Vec<u32>,
}

impl StandIn {
    /// So many stand-ins of this much memory.
    pub fn new(count: u32, memory_mib: u32) -> StandIn {
        let device = |index: u32| Device {
            uuid: format!("stand-in-{index}"),
            name: "CPU core".into(),
            kind: StandIn::KIND.into(),
            memory_mib,
            reserved_mib: 0,
        };
        let (last, groups) = (BTreeMap::new(), Vec::new());
        StandIn { devices: (0..count).map(device).collect(), host: Some(std::process::id()), last, groups }
    }

    /// The same with the processes of every host on this machine.
    #[must_use]
    pub fn of_every_host(self) -> StandIn {
        StandIn { host: None, ..self }
    }

    fn mark(device: usize, host: u32) -> String {
        format!("{device}@{host}")
    }

    /// What fleets call it.
    pub const KIND: &'static str = "stand-in";
}

impl Telemetry for StandIn {
    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, device: usize, at: Instant) -> Reading {
        let held = self.processes(device).unwrap_or_default();
        let ticks: u64 = self.groups.iter().map(|pid| cpu_ticks(*pid)).sum();
        let last = self.last.insert(device, (at, ticks));
        // A tick is 10 ms of a core on every Linux of today.
        let busy = last.filter(|(then, _)| at > *then).map(|(then, before)| {
            let micros = ticks.saturating_sub(before) * 10_000;
            (micros * 100_000 / (at - then).as_micros()).min(100_000) as u32
        });
        let memory_used = Some(held.iter().map(|(_, bytes)| bytes).sum());
        Reading { at, device, busy, memory_used, ..Reading::default() }
    }

    fn processes(&mut self, device: usize) -> Option<Vec<(u32, u64)>> {
        let mark = match self.host {
            Some(host) => format!("SANDTABLE_DEVICE={}\0", StandIn::mark(device, host)),
            None => format!("SANDTABLE_DEVICE={device}@"),
        };
        let mut found = Vec::new();
        for pid in pids() {
            let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { continue };
            if environment.windows(mark.len()).any(|window| window == mark.as_bytes()) {
                found.push((pid, resident_bytes(pid)));
            }
        }
        self.groups = found.iter().map(|(pid, _)| *pid).collect();
        Some(found)
    }

    fn settings(&mut self) -> Settings {
        Settings::new()
    }

    fn versions(&mut self) -> BTreeMap<String, String> {
        BTreeMap::from([("driver".into(), "none: a CPU core stands in".into())])
    }

    fn environment(&self, device: usize) -> Vec<(String, String)> {
        let mark = StandIn::mark(device, self.host.unwrap_or_else(std::process::id));
        vec![("SANDTABLE_CORE".into(), device.to_string()), ("SANDTABLE_DEVICE".into(), mark)]
    }
}

/// Processes of this machine, ascending.
pub(crate) fn pids() -> Vec<u32> {
    #[expect(clippy::disallowed_methods, reason = "sorted below")]
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

fn resident_bytes(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// User and system time of a process in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = stat(pid);
    [11, 12].iter().filter_map(|at| stat.split(' ').nth(*at)?.parse::<u64>().ok()).sum()
}

/// The session of a process, if it is there. 0 is one that was made outside of this PID namespace, as a container's
/// first processes have it: why the file is read and `getsid` is not asked, whose typed answer may not be 0.
pub(crate) fn session(pid: u32) -> Option<u32> {
    stat(pid).split(' ').nth(3)?.parse().ok()
}

/// What the kernel says of a process after its name, which is in brackets and may hold anything; empty if it is gone.
pub(crate) fn stat(pid: u32) -> String {
    // A name may be cut in the middle of a character.
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ").map_or_else(String::new, |(_, rest)| rest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_of_the_session_that_it_leads() {
        use std::io::Read;
        let mut command = std::process::Command::new("setsid");
        command.args(["sh", "-c", "echo here; read end"]);
        let mut child =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().expect("setsid");
        let mut said = [0; 5];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut said).expect("its word");
        assert_eq!(session(child.id()), Some(child.id()));
        drop(child.stdin.take());
        child.wait().expect("its end");
        assert_eq!(session(child.id()), None);
    }

    #[test]
    fn what_changed_is_named() {
        let of = |pairs: &[(&str, &str)]| -> Settings {
            pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
        };
        let before = of(&[("0 mig", "off"), ("0 power limit", "700000")]);
        assert_eq!(differences(&before, &before), Vec::<String>::new());
        let after = of(&[("0 power limit", "500000"), ("0 persistence", "on")]);
        let expected =
            ["0 mig: was off, is nothing", "0 persistence: was nothing, is on", "0 power limit: was 700000, is 500000"];
        assert_eq!(differences(&before, &after), expected);
    }
}
