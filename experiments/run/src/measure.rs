//! Measuring a profile: built-in work alone and two by two on one device. Every worker starts once and is stopped but for
//! the cells that it is part of, so that a cell costs no start; solo cells come again and again, to see drift.

mod law;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sandtable_core::digest::digest;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input;
use sandtable_core::output;
use sandtable_hardware::live::{Clock, Ending, Launch, Output, Process, SAVED, wait};
use sandtable_hardware::random::Stream;
use sandtable_hardware::work::{FAMILIES, Kind};
use sandtable_hardware::{
    Duration, GpuProfile, Measured, MeasuredCell, Pair, Profile, Ring, SECOND, ShareMode, Solo, StandIn, Telemetry,
    Workload,
};

use law::Fitted;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct MeasurePlan {
    /// Families; empty: all that the device runs.
    pub families: Vec<String>,
    /// The device's UUID; none: the first.
    pub device: Option<String>,
    /// A core of the CPU instead.
    pub stand_in: bool,
    /// The folder of MPS' pipes, to share by MPS; none: by time slices, even where an MPS server is there.
    pub mps: Option<PathBuf>,
    /// Time of a cell.
    pub measure: Duration,
    /// Before that.
    pub settle: Duration,
    /// Measurements of each pair.
    pub repeats: u32,
    /// Draws the order.
    pub seed: u64,
}

/// What came of it.
pub struct Outcome {
    /// The profile.
    pub profile: Profile,
    /// Its text, canonical.
    pub text: String,
    /// blake3 of the text.
    pub digest: String,
}

/// One measurement of a set of workers.
struct CoRun {
    of: Vec<usize>,
    rates: Vec<f64>,
    mad: Vec<f64>,
    windows: Vec<u32>,
    busy: f64,
    memory_busy: f64,
    throttled: bool,
    power_mw: Option<u32>,
    fine: BTreeMap<String, u64>,
}

/// Drift of a solo rate that casts doubt on the cells around it.
const DRIFT: f64 = 0.03;
/// Difference of a speed in measurements of the same pair that casts doubt on all of them. On an H200 20 of 156 speeds differed by more
/// than 0.02, by up to 0.4, and all others by less.
const UNSTEADY: f64 = 0.05;
/// Cells between two looks at a solo rate.
const AGAIN: usize = 10;
/// A worker that has said nothing for so long will not.
const PATIENCE: Duration = Duration::from_secs(60);

struct Worker {
    family: usize,
    process: Process,
}

struct Bench<'a> {
    clock: Clock,
    telemetry: Box<dyn Telemetry>,
    device: usize,
    workers: Vec<Worker>,
    plan: &'a MeasurePlan,
}

/// Measures a profile; `say` is told how it goes.
///
/// # Errors
/// No such device or family; work that does not run there.
pub fn measure(plan: &MeasurePlan, say: &dyn Fn(&str)) -> Result<Outcome, Error> {
    let telemetry: Box<dyn Telemetry> = match plan.stand_in {
        true => Box::new(StandIn::new(1, 4096)),
        false => sandtable_plan::gpus::open(
            None,
            plan.device.as_ref().map(|uuid| [uuid.as_str()]).as_ref().map(<[&str; 1]>::as_slice),
        )?,
    };
    if let Some(pipes) = plan.mps.as_ref().filter(|pipes| !pipes.join("control").exists()) {
        let message = format!("no MPS server: there is no {}", pipes.join("control").display());
        let error = Error { exit: ExitCode::Hardware, ..Error::usage(message) };
        return Err(error.hint("nvidia-cuda-mps-control -d"));
    }
    let runs = |kind: Kind| matches!(kind, Kind::Cpu { .. }) == plan.stand_in;
    let all: Vec<&str> = FAMILIES.iter().filter(|family| runs(family.kind)).map(|family| family.name).collect();
    let mut names: Vec<String> = plan.families.clone();
    if names.is_empty() {
        names = all.iter().map(|name| (*name).to_string()).collect();
    }
    names.sort();
    names.dedup();
    if let Some(name) = names.iter().find(|name| !all.contains(&name.as_str())) {
        let error = Error::usage(format!("no family {name:?} for this device"));
        return Err(error.hint(format!("expected one of: {}", all.join(", "))));
    }
    let folder = output::scratch()?;
    let program = input::program()?;
    let mut bench = Bench { clock: Clock::start(), telemetry, device: 0, workers: Vec::new(), plan };
    let mut starts = Vec::new();
    for (family, name) in names.iter().enumerate() {
        for copy in 0..2 {
            let began = bench.clock.now();
            bench.start(&program, folder.path(), family, name, copy)?;
            starts.push((bench.clock.now() - began).as_micros_f64());
        }
    }
    let mut cells = bench.cells(names.len(), say)?;
    flag_and_round(&mut cells, names.len());
    let held = bench.held();
    let save = bench.dismiss();
    let start = middle(&mut starts);
    let made = Made { names: &names, cells: &cells, held, start, save };
    let profile = profile(&mut bench, plan, &made)?;
    let text = sandtable_inputs::profile::write(&profile)?;
    Ok(Outcome { digest: digest(text.as_bytes()), text, profile })
}

/// How a family's work is started on a device, to take steps until it is told to end; `own` is its folder, `mps` that of the
/// server's pipes.
pub(crate) fn launch(
    telemetry: &dyn Telemetry,
    device: usize,
    own: &Path,
    name: &str,
    mps: Option<&Path>,
) -> Result<Launch, Error> {
    std::fs::create_dir_all(own).map_err(|error| Error::file("make", own, &error))?;
    let mut environment = telemetry.environment(device);
    // A folder without a server keeps a process from any.
    let pipes = mps.map_or_else(|| own.join("no-mps"), Path::to_path_buf);
    environment.push(("CUDA_MPS_PIPE_DIRECTORY".into(), pipes.display().to_string()));
    environment.push(("SANDTABLE_STATE".into(), own.join("state").display().to_string()));
    let program = input::program()?;
    let words = [&program.display().to_string(), "hw-job", name, "--steps", &u64::MAX.to_string()];
    let argv = words.map(str::to_string).to_vec();
    let (folder, output) = (own.to_path_buf(), Output::default());
    Ok(Launch { argv, environment, passed: Vec::new(), file_bytes: 1 << 30, folder, output })
}

/// Starts it, and waits for its first step.
pub(crate) fn started(program: &Path, launch: &Launch, name: &str, clock: Clock) -> Result<Process, Error> {
    let mut process = Process::start(program, launch)
        .map_err(|error| Error::internal(format!("{name} can't be started: {error}")))?;
    let began = clock.now();
    // The second line says that a step was taken.
    while process.listener.now().lines < 2 {
        let ended = process.ending();
        if ended.is_some() || clock.now() > began + PATIENCE {
            let message = format!("{name} does not run here: {}", launch.output.last(4 << 10).trim());
            return Err(Error { exit: ExitCode::Hardware, ..Error::usage(message) });
        }
        wait(Duration::from_millis(2));
    }
    Ok(process)
}

/// The median of times in microseconds.
pub(crate) fn middle(spans: &mut [f64]) -> Duration {
    Duration::from_micros_f64(median(spans))
}

impl Bench<'_> {
    fn start(&mut self, program: &Path, folder: &Path, family: usize, name: &str, copy: u32) -> Result<(), Error> {
        let own = folder.join(format!("{name}-{copy}"));
        let launch = launch(&*self.telemetry, self.device, &own, name, self.plan.mps.as_deref())?;
        let process = started(program, &launch, name, self.clock)?;
        process.signal(rustix::process::Signal::STOP);
        self.workers.push(Worker { family, process });
        Ok(())
    }

    /// Every cell: solo ones first, then pairs in an order of the seed, solo ones in between.
    fn cells(&mut self, families: usize, say: &dyn Fn(&str)) -> Result<Vec<CoRun>, Error> {
        let mut order: Vec<(usize, usize, u32)> = Vec::new();
        for repeat in 0..self.plan.repeats {
            for (a, b) in (0..families).flat_map(|a| (a..families).map(move |b| (a, b))) {
                order.push((a, b, repeat));
            }
        }
        Stream::new(self.plan.seed, "measure/order").shuffle(&mut order);
        let total = families + order.len() + order.len() / AGAIN;
        say(&format!("{total} cells of {:.1} s", (self.plan.settle + self.plan.measure).as_secs_f64()));
        let mut cells = Vec::new();
        for family in 0..families {
            cells.push(self.cell(&[2 * family])?);
        }
        for (at, (a, b, repeat)) in order.into_iter().enumerate() {
            // In opposite places by turns: the copies of a pair differ.
            let workers = if repeat % 2 == 0 { [2 * a, 2 * b + 1] } else { [2 * a + 1, 2 * b] };
            cells.push(self.cell(&workers)?);
            if (at + 1) % AGAIN == 0 {
                cells.push(self.cell(&[2 * ((at / AGAIN) % families)])?);
            }
        }
        Ok(cells)
    }

    fn cell(&mut self, workers: &[usize]) -> Result<CoRun, Error> {
        use rustix::process::Signal;
        for worker in workers {
            self.workers[*worker].process.signal(Signal::CONT);
        }
        wait(self.plan.settle);
        workers.iter().for_each(|worker| self.workers[*worker].process.listener.now().forget_rate());
        let began = self.clock.now();
        // What is counted from one reading to the next begins here.
        drop(self.telemetry.read(self.device, began));
        let mut readings = Vec::new();
        while self.clock.now() < began + self.plan.measure {
            wait(Duration::from_millis(100));
            readings.push(self.telemetry.read(self.device, self.clock.now()));
        }
        let mut cell = CoRun {
            of: workers.iter().map(|worker| self.workers[*worker].family).collect(),
            rates: Vec::new(),
            mad: Vec::new(),
            windows: Vec::new(),
            busy: mean(readings.iter().filter_map(|reading| reading.busy)),
            memory_busy: mean(readings.iter().filter_map(|reading| reading.memory_busy)),
            throttled: readings.iter().any(|reading| reading.throttled == Some(true)),
            power_mw: average(readings.iter().filter_map(|reading| reading.power_mw.map(u64::from)))
                .map(|mw| mw as u32),
            fine: BTreeMap::new(),
        };
        let names: BTreeSet<&String> = readings.iter().flat_map(|reading| reading.fine.keys()).collect();
        for name in names {
            let all = readings.iter().filter_map(|reading| reading.fine.get(name).copied());
            cell.fine.extend(average(all).map(|mean| (name.clone(), mean)));
        }
        for worker in workers {
            let worker = &mut self.workers[*worker];
            let mut rates = worker.process.listener.now().rates();
            worker.process.signal(Signal::STOP);
            if let Some(ending) = worker.process.ending() {
                return Err(Error::internal(format!("a worker ended while it was measured: {ending:?}")));
            }
            cell.windows.push(rates.len() as u32);
            let middle = median(&mut rates);
            let mut away: Vec<f64> = rates.iter().map(|rate| (rate - middle).abs()).collect();
            cell.rates.push(middle);
            cell.mad.push(median(&mut away));
        }
        Ok(cell)
    }

    /// MiB that a worker of each family holds on the device; none: the driver does not tell.
    fn held(&mut self) -> BTreeMap<usize, u32> {
        let processes = self.telemetry.processes(self.device).unwrap_or_default();
        let mut held = BTreeMap::new();
        for (pid, bytes) in processes {
            let worker = self.workers.iter().step_by(2).find(|worker| worker.process.id() == pid);
            held.extend(worker.map(|worker| (worker.family, (bytes.div_ceil(1 << 20)) as u32)));
        }
        held
    }

    /// Has every worker save and end; how long that takes.
    fn dismiss(&mut self) -> Duration {
        let mut spans = Vec::new();
        for worker in &mut self.workers {
            let began = self.clock.now();
            worker.process.signal(rustix::process::Signal::USR1);
            worker.process.signal(rustix::process::Signal::CONT);
            while self.clock.now() < began + 10 * SECOND {
                if let Some(ending) = worker.process.ending() {
                    if ending == Ending::Code(SAVED) {
                        spans.push((self.clock.now() - began).as_micros_f64());
                    }
                    break;
                }
                wait(Duration::from_millis(1));
            }
        }
        middle(&mut spans)
    }
}

/// None of none.
fn average(values: impl Iterator<Item = u64>) -> Option<u64> {
    let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count)
}

fn mean(values: impl Iterator<Item = u32>) -> f64 {
    let values: Vec<f64> = values.map(f64::from).collect();
    if values.is_empty() { f64::NAN } else { values.iter().sum::<f64>() / values.len() as f64 / 1e5 }
}

/// 0 of none.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// What is measured must be what is written: rates in thousandths.
fn flag_and_round(cells: &mut [CoRun], families: usize) {
    for cell in cells.iter_mut() {
        cell.rates.iter_mut().chain(&mut cell.mad).for_each(|rate| *rate = libm::rint(*rate * 1000.0) / 1000.0);
        debug_assert!(cell.of.iter().all(|family| *family < families));
    }
}

struct Made<'a> {
    names: &'a [String],
    cells: &'a [CoRun],
    held: BTreeMap<usize, u32>,
    start: Duration,
    save: Duration,
}

impl Made<'_> {
    /// Median of a family's solo rates.
    fn solo(&self, family: usize) -> f64 {
        let of = self.cells.iter().filter(|cell| cell.of == [family]);
        median(&mut of.map(|cell| cell.rates[0]).collect::<Vec<_>>())
    }

    fn of_solo(&self, family: usize, get: impl Fn(&CoRun) -> f64) -> Option<f64> {
        let of = self.cells.iter().filter(|cell| cell.of == [family]);
        let value = median(&mut of.map(get).filter(|value| !value.is_nan()).collect::<Vec<_>>());
        (value > 0.0).then(|| libm::rint(value.min(1.0) * 1e4) / 1e4)
    }

    /// Both speeds in every measurement of a pair, over the solo rates.
    fn speeds(&self, a: usize, b: usize) -> Vec<(f64, f64)> {
        let of = self.cells.iter().filter(|cell| cell.of == [a, b]);
        of.map(|cell| (over(cell.rates[0], self.solo(a)), over(cell.rates[1], self.solo(b)))).collect()
    }

    /// By how much a speed differs between measurements of a pair.
    fn apart(&self, a: usize, b: usize) -> f64 {
        let found = self.speeds(a, b);
        let of = |get: fn(&(f64, f64)) -> f64| {
            let all = found.iter().map(get);
            all.clone().fold(0.0, f64::max) - all.fold(f64::INFINITY, f64::min)
        };
        of(|pair| pair.0).max(of(|pair| pair.1))
    }

    /// Every pair of families, the first not after the second.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let families = self.names.len();
        (0..families).flat_map(move |a| (a..families).map(move |b| (a, b)))
    }
}

fn over(rate: f64, alone: f64) -> f64 {
    if alone > 0.0 { rate / alone } else { 0.0 }
}

fn ten_thousandths(x: f64) -> f64 {
    libm::rint(x * 1e4) / 1e4
}

fn profile(bench: &mut Bench<'_>, plan: &MeasurePlan, made: &Made<'_>) -> Result<Profile, Error> {
    let device = bench.telemetry.devices()[bench.device].clone();
    let mut machine = bench.telemetry.versions();
    machine.insert("device".into(), device.name.clone());
    let (mut solo, mut pairs, mut difference) = (BTreeMap::new(), Vec::new(), 0.0f64);
    for (family, name) in made.names.iter().enumerate() {
        let rate = made.solo(family);
        if rate <= 0.0 {
            return Err(Error::internal(format!("{name} took no step while it was measured")));
        }
        let of = Solo {
            step_s: Some(libm::rint(1e9 / rate) / 1e9),
            utilisation: made.of_solo(family, |cell| cell.busy),
            memory_utilisation: made.of_solo(family, |cell| cell.memory_busy),
            memory_mib: made.held.get(&family).copied(),
            ..Solo::default()
        };
        solo.insert(name.clone(), of);
    }
    for (a, b) in made.pairs() {
        let found = made.speeds(a, b);
        let mean = |get: fn(&(f64, f64)) -> f64| found.iter().map(get).sum::<f64>() / found.len().max(1) as f64;
        let (one, other) = (mean(|pair| pair.0), mean(|pair| pair.1));
        difference = difference.max(made.apart(a, b));
        let speed = |x: f64| Some(ten_thousandths(x.clamp(0.0, 1.0)));
        pairs.push(Pair(made.names[a].clone(), made.names[b].clone(), speed(one), speed(other)));
    }
    let law = Fitted::of(made, &solo);
    let measured = Measured {
        machine,
        kernels: kernels(),
        settle: plan.settle,
        measure: plan.measure,
        seed: plan.seed,
        start: made.start,
        save: made.save,
        kappa: libm::rint(law.kappa * 1000.0) as u32,
        law_mae: libm::rint(law.mae * 1e4) as u32,
        held_out_mae: libm::rint(law.held_out * 1e4) as u32,
        repeat_difference: libm::rint(difference * 1e4) as u32,
        cells: made.cells.iter().map(|cell| written(cell, made)).collect(),
    };
    let workload = |name: &String| Workload {
        name: name.clone(),
        family: name.clone(),
        communication: Ring::Ring,
        ..Workload::default()
    };
    let sources = BTreeMap::from([("all".to_string(), "measured by `sandtable hardware profile`".to_string())]);
    let gpu = GpuProfile {
        kind: device.kind.clone(),
        mode: if plan.mps.is_some() { ShareMode::Mps } else { ShareMode::TimeSlice },
        sources,
        noise: Vec::new(),
        solo,
        pairs,
        measured: Some(measured),
    };
    let about = format!("built-in work on {}, alone and two by two", device.name);
    Ok(Profile { about, workloads: made.names.iter().map(workload).collect(), gpus: vec![gpu] })
}

fn written(cell: &CoRun, made: &Made<'_>) -> MeasuredCell {
    let thousandths = |rate: &f64| libm::rint(rate * 1000.0) as u64;
    let mut flags = Vec::new();
    if cell.throttled {
        flags.push("throttled".to_string());
    }
    if let [family] = cell.of[..]
        && (over(cell.rates[0], made.solo(family)) - 1.0).abs() > DRIFT
    {
        flags.push("drift".into());
    }
    if let [a, b] = cell.of[..]
        && made.apart(a, b) > UNSTEADY
    {
        flags.push("unsteady".into());
    }
    if cell.windows.contains(&0) {
        flags.push("silent".into());
    }
    MeasuredCell {
        of: cell.of.iter().map(|family| made.names[*family].clone()).collect(),
        rates: cell.rates.iter().map(thousandths).collect(),
        mad: cell.mad.iter().map(thousandths).collect(),
        windows: cell.windows.clone(),
        power_mw: cell.power_mw,
        fine: cell.fine.clone(),
        flags,
    }
}

/// blake3 of the kernels that the work is made of.
fn kernels() -> String {
    #[cfg(feature = "nvidia")]
    return digest(sandtable_hardware::nvidia::kernels::SOURCE.as_bytes());
    #[cfg(not(feature = "nvidia"))]
    "none: built without the feature `nvidia`".into()
}
