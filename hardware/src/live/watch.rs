//! A thread that reads the devices ten times a second, whatever the loop is doing, and what it has read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::{self, Clock};
use crate::{Device, Micros, Reading, Telemetry};

/// How often devices are read.
const EVERY: Micros = 100_000;

#[derive(Default)]
struct Seen {
    readings: Vec<Reading>,
    /// By device: process and bytes.
    held: Vec<Option<Vec<(u32, u64)>>>,
}

/// What was read.
#[derive(Clone, Default)]
pub struct Look(Arc<Mutex<Seen>>);

impl Look {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every reading so far.
    pub fn readings(&self) -> Vec<Reading> {
        self.seen().readings.clone()
    }
}

/// The thread.
pub struct Watch {
    look: Look,
    devices: Vec<Device>,
    environments: Vec<Vec<(String, String)>>,
    telemetry: Arc<Mutex<Box<dyn Telemetry>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to read.
    pub(super) fn over(telemetry: Box<dyn Telemetry>, clock: Clock) -> Watch {
        let devices = telemetry.devices().to_vec();
        let environments = (0..devices.len()).map(|device| telemetry.environment(device)).collect();
        let look = Look::default();
        let stop = Arc::new(AtomicBool::new(false));
        let telemetry = Arc::new(Mutex::new(telemetry));
        let (own, halt, count, asked) = (look.clone(), stop.clone(), devices.len(), telemetry.clone());
        let thread = std::thread::spawn(move || {
            let mut next = 0;
            while !halt.load(Ordering::Relaxed) {
                let now = clock.now();
                if now < next {
                    clock::wait(Duration::from_micros((next - now).min(10_000)));
                    continue;
                }
                // A reading that came late is not made up for.
                next = now.next_multiple_of(EVERY).max(now + EVERY / 2);
                let mut telemetry = asked.lock().unwrap_or_else(PoisonError::into_inner);
                let readings: Vec<Reading> = (0..count).map(|device| telemetry.read(device, now)).collect();
                let held = (0..count).map(|device| telemetry.processes(device).map(by_session)).collect();
                drop(telemetry);
                let mut seen = own.seen();
                seen.readings.extend(readings);
                seen.held = held;
            }
        });
        Watch { look, devices, environments, telemetry, stop, thread: Some(thread) }
    }

    /// What was read, and will be.
    pub fn look(&self) -> Look {
        self.look.clone()
    }

    pub(super) fn devices(&self) -> &[Device] {
        &self.devices
    }

    pub(super) fn environment(&self, device: usize) -> Vec<(String, String)> {
        self.environments.get(device).cloned().unwrap_or_default()
    }

    /// Bytes that each session holds on a device.
    pub(super) fn held(&self, device: usize) -> Option<Vec<(u32, u64)>> {
        self.look.seen().held.get(device).cloned().flatten()
    }

    /// Bytes in use on a device, whoever uses them.
    pub(super) fn used(&self, device: usize) -> Option<u64> {
        let seen = self.look.seen();
        seen.readings.iter().rev().find(|reading| reading.device == device)?.memory_used
    }

    pub(super) fn suspend(&self, process: u32, away: bool) -> Result<(), String> {
        self.telemetry.lock().unwrap_or_else(PoisonError::into_inner).suspend(process, away)
    }
}

/// Memory by the session of the process that holds it: a job's processes are of one session.
fn by_session(processes: Vec<(u32, u64)>) -> Vec<(u32, u64)> {
    let mut sessions: BTreeMap<u32, u64> = BTreeMap::new();
    for (process, bytes) in processes {
        let of = rustix::process::Pid::from_raw(process as i32).and_then(|pid| rustix::process::getsid(Some(pid)).ok());
        let session = of.map_or(process, |pid| pid.as_raw_nonzero().get() as u32);
        *sessions.entry(session).or_default() += bytes;
    }
    sessions.into_iter().collect()
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
