//! The work that ships: families that each press on one part of a device, to measure what jobs do to each other and to
//! have something to schedule. Here is what a job of them does around its steps; steps on a GPU are `nvidia`'s, steps on
//! a CPU core that stands in for one are here.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Duration;
use crate::live::{Clock, SAVED, wait};

/// What a family does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Kernels on a GPU.
    Cuda,
    /// Turns of a CPU core: so many thousandths of the time, and so many MiB touched.
    Cpu {
        /// Thousandths of the time that it computes.
        busy_milli: u32,
        /// Memory that it holds and walks through.
        mib: u32,
    },
}

/// A family of built-in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// How jobs name it, as their workload.
    pub name: &'static str,
    /// What it presses on.
    pub about: &'static str,
    /// What it does.
    pub kind: Kind,
}

const fn cuda(name: &'static str, about: &'static str) -> Family {
    Family { name, about, kind: Kind::Cuda }
}

const fn cpu(name: &'static str, about: &'static str, busy_milli: u32, mib: u32) -> Family {
    Family { name, about, kind: Kind::Cpu { busy_milli, mib } }
}

/// The families.
pub const FAMILIES: &[Family] = &[
    cuda("fma", "fp32 multiply-adds, 4 at a time"),
    cuda("mma", "tensor cores, bf16"),
    cuda("copy", "device memory, 1 GiB each way"),
    cuda("l2", "second-level cache, 8 MiB each way"),
    cuda("smem", "shared memory"),
    cuda("launch", "empty kernels, one after the other"),
    cuda("host", "5 ms of the CPU, 1 ms of the GPU"),
    cuda("spin", "one block that holds a multiprocessor and does nothing"),
    cuda("resnet-like", "tensor cores and device memory by turns, many short kernels"),
    cuda("bert-like", "mostly tensor cores, longer kernels"),
    cuda("gpt-like", "tensor cores, memory, launches"),
    cuda("optimizer-like", "element-wise over 1 GiB"),
    cpu("cpu-burn", "a CPU core all the time", 1000, 4),
    cpu("cpu-half", "a CPU core half of the time", 500, 4),
    cpu("cpu-tenth", "a CPU core a tenth of the time", 100, 4),
    cpu("cpu-memory", "a CPU core and 64 MiB of memory", 1000, 64),
];

/// The family of this name.
pub fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

/// Whatever takes steps.
pub trait WorkEngine {
    /// Takes one, and returns when it is done.
    ///
    /// # Errors
    /// What the device says.
    fn step(&mut self) -> Result<(), String>;
}

/// What a job of a family is told.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Steps of the gang that the job asks for.
    pub steps: u64,
    /// Slots that it has, over slots that it asks for: so much of a step is done in a turn.
    pub share: f64,
    /// Where progress goes; none: nothing reads it.
    pub progress: Option<i32>,
    /// Where its state is saved.
    pub state: Option<PathBuf>,
    /// The state that it goes on from.
    pub restore: Option<PathBuf>,
}

/// Takes the steps, saying so, until they are done or `save` is set; the exit code.
///
/// # Errors
/// What went wrong, for people.
pub fn run(orders: &Orders, engine: &mut dyn WorkEngine, save: &Arc<AtomicBool>) -> Result<i32, String> {
    let clock = Clock::start();
    let mut done = match &orders.restore {
        Some(path) => restored(path)?,
        None => 0.0,
    };
    let mut pipe = match orders.progress {
        // The pipe may be opened by its number without taking it over: it is this process' own.
        Some(number) => File::options().write(true).open(format!("/proc/self/fd/{number}")).ok(),
        None => None,
    };
    let mut say = |done: f64| {
        if let Some(pipe) = &mut pipe {
            // The listener may be gone; then the job is about to be ended.
            let _ = writeln!(pipe, "{done} {}", clock.now());
        }
    };
    say(done);
    while done < orders.steps as f64 {
        if save.load(Ordering::Relaxed) {
            let Some(path) = &orders.state else { return Err("asked to save, and not told where".into()) };
            let beside = path.with_extension("new");
            let write = std::fs::write(&beside, done.to_string()).and_then(|()| std::fs::rename(&beside, path));
            write.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            return Ok(SAVED);
        }
        engine.step()?;
        done += orders.share;
        say(done);
    }
    Ok(0)
}

fn restored(path: &std::path::Path) -> Result<f64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let done: f64 = text.trim().parse().map_err(|_| format!("{}: expected a number of steps", path.display()))?;
    if done >= 0.0 { Ok(done) } else { Err(format!("{}: expected a number of steps, found {done}", path.display())) }
}

/// Steps of a core: each about 10 ms alone, computing for a part of it.
pub struct Core {
    buffer: Vec<u64>,
    turns: u64,
    rest: Duration,
}

impl Core {
    /// A family's, on this core; on any where there is none of the number, or the system does not let processes choose.
    pub fn new(busy_milli: u32, mib: u32, core: Option<usize>) -> Core {
        #[cfg(target_os = "linux")]
        if let Some(core) = core {
            // From the last one down: the first has the machine's interrupts.
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let core = cores - 1 - core % cores;
            let mut set = rustix::thread::CpuSet::new();
            set.set(core);
            // A machine with fewer cores, or a container without the right: then wherever there is room.
            let _ = rustix::thread::sched_setaffinity(None, &set);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = core;
        let turns = TURNS * u64::from(busy_milli) / 1000;
        let rest = Duration::from_micros(u64::from(1000 - busy_milli) * 10);
        Core { buffer: vec![1; (mib as usize) << 17], turns, rest }
    }
}

/// Turns of a step: about 10 ms of a core of today.
const TURNS: u64 = 9_000_000;

impl WorkEngine for Core {
    fn step(&mut self) -> Result<(), String> {
        let mut x = self.buffer[0];
        let mask = self.buffer.len() - 1;
        for turn in 0..self.turns {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(turn);
            if turn % 64 == 0 {
                let at = (x >> 33) as usize & mask;
                self.buffer[at] = self.buffer[at].wrapping_add(x);
            }
        }
        self.buffer[0] = std::hint::black_box(x);
        if !self.rest.is_zero() {
            wait(self.rest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(u64, Arc<AtomicBool>, u64);

    impl WorkEngine for Count {
        fn step(&mut self) -> Result<(), String> {
            self.0 += 1;
            self.1.store(self.0 == self.2, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn a_saved_job_goes_on_where_it_was_with_more_slots() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let save = Arc::new(AtomicBool::new(false));
        let orders = Orders { steps: 10, share: 1.0, progress: None, state: Some(state.clone()), restore: None };
        let mut engine = Count(0, save.clone(), 4);
        assert_eq!(run(&orders, &mut engine, &save), Ok(SAVED));
        assert_eq!(std::fs::read_to_string(&state).unwrap(), "4");
        save.store(false, Ordering::Relaxed);
        let orders = Orders { share: 2.0, restore: Some(state.clone()), ..orders };
        let mut engine = Count(0, save.clone(), 99);
        assert_eq!(run(&orders, &mut engine, &save), Ok(0));
        assert_eq!(engine.0, 3);
        std::fs::write(&state, "half").unwrap();
        let why = run(&orders, &mut engine, &save).unwrap_err();
        assert!(why.ends_with("expected a number of steps"), "{why}");
    }

    #[test]
    fn families_are_told_apart() {
        for (index, family) in FAMILIES.iter().enumerate() {
            assert!(FAMILIES[..index].iter().all(|other| other.name != family.name), "{}", family.name);
        }
        assert_eq!(FAMILIES.iter().filter(|family| family.kind == Kind::Cuda).count(), 12);
    }
}
