//! A thread that reads the devices ten times a second, whatever the loop is doing, and what it has read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::clock::{self, Clock};
use crate::{Device, Duration, Instant, MoveMemory, Reading, Telemetry};

/// How often devices are read.
const EVERY: Duration = Duration::from_millis(100);

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
    /// Whose memory was moved away, by session.
    suspended: BTreeMap<u32, Vec<u32>>,
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
            let mut next = Instant::START;
            while !halt.load(Ordering::Relaxed) {
                let now = clock.now();
                if now < next {
                    clock::wait((next - now).min(Duration::from_millis(10)));
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
        let suspended = BTreeMap::new();
        Watch { look, devices, environments, telemetry, stop, suspended, thread: Some(thread) }
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

    /// Ends the run where the thread has ended: without it no budget holds.
    pub(super) fn goes_on(&mut self) {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(Err(defect)) = self.thread.take().map(JoinHandle::join)
        {
            std::panic::resume_unwind(defect);
        }
    }

    /// Bytes that each session holds on a device.
    pub(super) fn held(&self, device: usize) -> Option<Vec<(u32, u64)>> {
        self.look.seen().held.get(device).cloned().flatten()
    }

    /// Bytes in use on a device, by any process.
    pub(super) fn used(&self, device: usize) -> Option<u64> {
        let seen = self.look.seen();
        seen.readings.iter().rev().find(|reading| reading.device == device)?.memory_used
    }

    /// Begins to move the device memory of every process of a session to the host.
    ///
    /// # Errors
    /// The device has no way to.
    pub(super) fn suspend(&mut self, session: u32, device: usize) -> Result<Moving, String> {
        let mut telemetry = self.telemetry.lock().unwrap_or_else(PoisonError::into_inner);
        let mover = telemetry.mover().ok_or("this device has no way to")?;
        let all = telemetry.processes(device).unwrap_or_default();
        drop(telemetry);
        let own = all.into_iter().map(|(process, _)| process).filter(|process| session_of(*process) == session);
        let mut processes: Vec<u32> = own.collect();
        if processes.is_empty() {
            processes.push(session);
        }
        self.suspended.insert(session, processes.clone());
        Ok(Moving::begin(mover, processes, device, true))
    }

    /// Begins to move it back.
    ///
    /// # Errors
    /// It was never moved away.
    pub(super) fn restore(&mut self, session: u32, device: usize) -> Result<Moving, String> {
        let mover = self.telemetry.lock().unwrap_or_else(PoisonError::into_inner).mover();
        let processes = self.suspended.remove(&session);
        let (mover, processes) = mover.zip(processes).ok_or("its memory is not on the host")?;
        Ok(Moving::begin(mover, processes, device, false))
    }
}

/// Device memory on its way to the host, or back: in a thread, since it takes seconds and other jobs go on.
pub(super) struct Moving {
    /// Whether to the host.
    pub(super) away: bool,
    /// The device that it leaves, or comes to.
    pub(super) device: usize,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Moving {
    /// All of these processes or none.
    fn begin(mover: MoveMemory, processes: Vec<u32>, device: usize, away: bool) -> Moving {
        let thread = std::thread::spawn(move || {
            for (at, process) in processes.iter().enumerate() {
                if let Err(why) = mover(*process, away) {
                    for moved in &processes[..at] {
                        // The loop kills a process that can be moved neither way.
                        let _ = mover(*moved, !away);
                    }
                    return Err(why);
                }
            }
            Ok(())
        });
        Moving { away, device, thread: Some(thread) }
    }

    /// What came of it; none: it still moves. Told once.
    pub(super) fn outcome(&mut self) -> Option<Result<(), String>> {
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        Some(thread.join().unwrap_or_else(|_| Err("its thread panicked".into())))
    }
}

/// Memory by the session of the process that holds it: a job's processes are of one session.
fn by_session(processes: Vec<(u32, u64)>) -> Vec<(u32, u64)> {
    let mut sessions: BTreeMap<u32, u64> = BTreeMap::new();
    for (process, bytes) in processes {
        *sessions.entry(session_of(process)).or_default() += bytes;
    }
    sessions.into_iter().collect()
}

/// The session of a process; itself where it is gone.
fn session_of(process: u32) -> u32 {
    crate::telemetry::session(process).unwrap_or(process)
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of session 0 too: the kernel's own, and in a container processes that were started from outside of it.
    #[test]
    fn every_process_of_this_machine_is_of_some_session() {
        let all: Vec<(u32, u64)> = crate::telemetry::pids().into_iter().map(|pid| (pid, 1)).collect();
        let count = all.len() as u64;
        assert!(count > 1);
        let sessions = by_session(all);
        assert_eq!(sessions.iter().map(|(_, count)| count).sum::<u64>(), count);
    }
}
