//! What is fuzzed: a function of bytes for each kind of input that a stranger may have written. It may refuse them; it may
//! not panic, abort, take over a second or over 512 MB. Files of a corpus are inputs that once showed something new.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sandtable::bundle::Opened;
use sandtable::engine::plan_file::{Header, PlanFile};
use sandtable::input::sorted;
use sandtable::plan::{Options, plan};
use sandtable::spec::{Source, TraceFormat};
use sandtable::store::Store;
use sandtable::trace::{self, ReadLimits};
use sandtable::{facts, output, profile, recording, results, state};
use sandtable_hardware::{
    Costs, Failures, Fleet, GpuType, HostResources, Instant, Job, Maintenance, NodeId, PartId, PartProfile,
    PerformanceModel, SECOND, Sharing, SimulatedBackend,
};
use sandtable_nets::Weights;
use sandtable_runtime::contract::{
    Abilities, Action, Batch, BatchSplit, Cadence, Descriptor, Plan, Preempt, PreemptMode, Protect, Readiness,
    SetBatch, Setup, Start, StartOn, StartPart, Throttle, Timer,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Sandbox, Settings};
use sandtable_runtime::schedule::run;
use sandtable_runtime::{DecisionContext, Policy};

/// What takes the bytes.
pub type Target = fn(&[u8]);

/// What is fuzzed, by name.
pub const TARGETS: [(&str, Target); 14] = [
    ("bundle", bundle),
    ("capsule", capsule),
    ("cluster", cluster),
    ("component", component),
    ("edit", edit),
    ("engine", engine),
    ("judge", judge),
    ("onnx", onnx),
    ("planfile", planfile),
    ("profile", profile),
    ("recording", recording),
    ("spec", spec),
    ("store", store),
    ("trace", trace),
];

/// The format that a trace is read in is its first byte.
const FORMATS: [TraceFormat; 13] = [
    TraceFormat::Native,
    TraceFormat::Philly,
    TraceFormat::Tiresias,
    TraceFormat::Gavel,
    TraceFormat::Muri,
    TraceFormat::Lucid,
    TraceFormat::Pollux,
    TraceFormat::Openb,
    TraceFormat::Pai,
    TraceFormat::Swf,
    TraceFormat::Sacct,
    TraceFormat::Csv,
    TraceFormat::MuriSteps,
];

/// The folder of this process' files, in that of `TMPDIR`.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let own = std::env::temp_dir().join(format!("sandtable-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&own).expect("a folder");
        own
    })
}

/// Removes the folder of this process.
pub fn clear() {
    let _ = std::fs::remove_dir_all(folder());
}

/// The bytes as a file of this thread.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    let path = folder().join(format!("{number}-{name}"));
    std::fs::write(&path, bytes).expect("written");
    path
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// A specification: parsed and expanded; a mistake is drawn.
fn spec(bytes: &[u8]) {
    let path = file("spec.ron", bytes);
    let reading = ReadLimits { bytes: 1 << 20, rows: 1_000 };
    let options = Options { max_cells: Some(64), reading, elsewhere: true, ..Options::default() };
    match plan(&path, &options) {
        Ok(plan) => {
            for cell in plan.cells.iter().take(2) {
                assert_eq!(sandtable::digest::digest(cell.inputs().as_bytes()), cell.id);
            }
        }
        Err(error) => drop(error.to_string()),
    }
}

/// A path, a value and a specification, each behind a line of its own: what `--set` does.
fn edit(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let mut parts = text.splitn(3, '\n');
    let (Some(path), Some(value), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return };
    let source = Source::new("spec.ron", rest);
    match source.with(path, value) {
        Ok(edited) => drop(edited.parse().map_err(|error| error.to_string())),
        Err(error) => drop(error.to_string()),
    }
}

/// What Slurm's and HyperQueue's commands answer; Slurm's accounting is a trace.
fn engine(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    sandtable::engine::read_answers(&text);
}

/// A cluster's state, by the first byte: a document, which is modelled and changed; objects of Kubernetes, as JSON or in an archive; what Slurm's commands
/// printed, each behind a zero byte.
fn cluster(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let at = "2026-01-05T10:00:00Z".parse().expect("a time");
    match first % 3 {
        0 => document(rest),
        1 => {
            let Ok(value) = state::kube::read(&file("kube", rest), 1 << 20) else { return };
            if let Ok(made) = state::kube::state(&vec![("f".into(), value)], at, &BTreeMap::new()) {
                document(made.to_string().as_bytes());
            }
        }
        _ => {
            let Some(text) = text(rest) else { return };
            let outputs = state::slurm::COMMANDS.iter().zip(text.split('\0'));
            let outputs = outputs.map(|(command, text)| (command.file, text.to_string())).collect();
            if let Ok(made) = state::slurm::state(&outputs, at, &BTreeMap::new()) {
                document(made.to_string().as_bytes());
            }
        }
    }
}

/// A document of a cluster.
fn document(bytes: &[u8]) {
    let Ok(state) = state::of_bytes(Path::new("s.json"), bytes) else { return };
    let times = state::RunTimes { of_limit: 0.5, otherwise: Some(SECOND), without_limits: false };
    let named =
        |names: Vec<&String>, change: fn(String) -> state::Change| names.first().map(|name| change((*name).clone()));
    let jobs = || state.jobs.iter().map(|job| &job.id).collect();
    let nodes = state.nodes.iter().map(|node| &node.name).collect();
    let changes = [
        named(jobs(), state::Change::Hold),
        named(jobs(), state::Change::Kill),
        named(nodes, |node| state::Change::Drain { node, from: None, to: None }),
        Some(state::Change::AddNodes { nodes: 3, gpus: 2, kind: None }),
    ];
    let mut all = vec![state.clone()];
    all.extend(changes.into_iter().flatten().filter_map(|change| state.clone().changed(&[change]).ok()));
    for state in all {
        let Ok(modelled) = state.modelled(times) else { continue };
        let mut reasons = modelled.reasons(|_| 1.0);
        for row in &modelled.rows {
            let _ = reasons.waits(row);
            let noisy = state::RunTimeModel::Noisy { part: 1.0, sigma: 1.0 };
            assert!(noisy.run_time(row, &modelled.known[row.name.as_str()], 1) > modelled.known[row.name.as_str()].age);
        }
    }
}

/// A log, in the format of its first byte: imported, and written in ours, which reads the same jobs.
fn trace(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let format = FORMATS[*first as usize % FORMATS.len()];
    let limits = ReadLimits { bytes: 1 << 20, rows: 10_000 };
    let columns = ["submit", "gpus", "duration"].map(|name| (name.to_string(), name.to_string()));
    let columns = if format == TraceFormat::Csv { columns.into() } else { Default::default() };
    let options = trace::Options { columns, limits, ..trace::Options::default() };
    let path = file("trace", rest);
    match trace::read(&path, format, &options) {
        Ok(read) => {
            let again = file("again.csv", read.to_csv().as_bytes());
            let options = trace::Options { limits, ..trace::Options::default() };
            let known = trace::read(&again, TraceFormat::Native, &options);
            let known = known.unwrap_or_else(|error| panic!("what was written can't be read: {error}"));
            assert_eq!(known.rows.len(), read.rows.len());
        }
        Err(error) => drop(error.to_string()),
    }
}

/// A profile, in our format or one of those that are imported; and the weights of predictors.
fn profile(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let path = file("profile", rest);
    let read = match first % 7 {
        0 => profile::read(&path),
        1 => profile::gavel(&path),
        2 => profile::gpumemnet(&path),
        3 => profile::gavel_simulation(&path),
        4 => profile::torchvision(&path, "fp32"),
        5 => profile::throughputs(&path),
        _ => {
            if let Ok(weights) = serde_json::from_slice::<Weights>(rest) {
                for predictor in ["iasp", "iapp", "bias", "forest"] {
                    drop(weights.check(predictor));
                }
            }
            return;
        }
    };
    match read {
        Ok(read) => {
            let written = profile::write(&read).expect("a profile is text");
            let again = profile::parse(&written, "again".into());
            again.unwrap_or_else(|error| panic!("what was written can't be read: {error}\n{written}"));
        }
        Err(error) => drop(error.to_string()),
    }
}

/// A model's graph.
fn onnx(bytes: &[u8]) {
    if let Err(error) = facts::walk(bytes, 8) {
        drop(error.to_string());
    }
}

/// A bundle: unpacked, and expanded as `verify` does.
fn bundle(bytes: &[u8]) {
    // Whatever it decompresses to is written: not more than that.
    let root = folder().join("bundle");
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).expect("made");
    let options = Options { max_cells: Some(64), ..Options::default() };
    let opened = Opened::new(bytes, &root, None).and_then(|opened| opened.plan(&options).map(drop));
    if let Err(error) = opened {
        drop(error.to_string());
    }
    for path in sorted(folder()).expect("a folder") {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        // Those of this and of other targets.
        let ours =
            ["bundle", "store"].contains(&name.as_str()) || name.starts_with(|first: char| first.is_ascii_digit());
        assert!(ours, "{name} was written outside of its folder");
    }
}

/// A capsule.
fn capsule(bytes: &[u8]) {
    match recording::capsule(&file("capsule", bytes)) {
        Ok(capsule) => drop(serde_json::to_string(&capsule).expect("JSON")),
        Err(error) => drop(error.to_string()),
    }
}

/// The recording of a live run, and the fleet and jobs that it says it is of.
fn recording(bytes: &[u8]) {
    match recording::read(&file("recording", bytes)) {
        Ok(recording) => drop(recording.header.shape.fleet()),
        Err(error) => drop(error.to_string()),
    }
}

/// A plan file.
fn planfile(bytes: &[u8]) {
    let path = file("plan.jsonl", bytes);
    drop(Header::read(&path).map_err(|error| error.to_string()));
    match PlanFile::read(&path) {
        Ok(handed) => drop(handed.text()),
        Err(error) => drop(error.to_string()),
    }
}

/// The files of a cell, one after the other, each behind two bytes that say how long it is.
fn store(bytes: &[u8]) {
    let id = "ab".repeat(32);
    let store = Store::look(&folder().join("store")).expect("a path");
    let cell = store.folder(&id);
    let _ = std::fs::remove_dir_all(&cell);
    std::fs::create_dir_all(&cell).expect("made");
    let mut rest = bytes;
    for name in ["cell.json", "summary.json", "jobs.csv", "timeline.csv", "producer.json", "run.json"] {
        let Some((length, more)) = rest.split_first_chunk::<2>() else { break };
        let (contents, more) = more.split_at(more.len().min(u16::from_le_bytes(*length) as usize));
        output::write(&cell.join(name), contents).expect("written");
        rest = more;
    }
    drop(store.list().map_err(|error| error.to_string()));
    drop(results::jobs(&store, &id).map_err(|error| error.to_string()));
    drop(results::measured_jobs(&store, &id).map_err(|error| error.to_string()));
    if let Ok(stays) = results::stays(&store, &id) {
        results::rowed(&stays);
    }
    drop(results::summary(&store, &id).map_err(|error| error.to_string()));
    drop(results::nodes(&store, &id).map_err(|error| error.to_string()));
    if let Ok(inputs) = results::inputs(&store, &id) {
        results::leaves(&inputs);
    }
    drop(store.producer(&id).map_err(|error| error.to_string()));
}

/// A component, loaded as `policy check` does but in this process.
fn component(bytes: &[u8]) {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    let sandbox = SANDBOX.get_or_init(|| Sandbox::new(&Settings::default()).expect("a sandbox"));
    // To compile takes a time that its shape bounds, and is done by a process with limits.
    if bytes.len() <= 4096
        && let Err(fault) = sandbox.load(bytes)
    {
        drop(fault.to_string());
    }
}

/// A policy whose plans are bytes: legal or not, the judge lets nothing through that breaks the books.
fn judge(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let sharing = [Sharing::Exclusive, Sharing::Packed(2), Sharing::Shares, Sharing::Parts][bytes.less(4) as usize];
    let failures = (bytes.less(2) == 0).then_some(Failures { mtbf: 300 * SECOND, repair: 40 * SECOND });
    let costs = Costs { start: 3 * SECOND, checkpoint: 2 * SECOND, batch: SECOND, ..Costs::default() };
    let types = [(2, 4, GpuType::new("a", 1.0)), (1, 2, GpuType::new("b", 0.5))];
    let part = |name: &str, slices, starts: &[u32]| PartProfile {
        name: name.into(),
        slices,
        memory_mib: 0,
        starts: starts.into(),
    };
    let parts = [vec![part("small", 1, &[0, 1, 2]), part("large", 2, &[0, 2])], vec![]];
    let fleet = Fleet::new(&types, costs, failures).and_then(|fleet| match sharing {
        Sharing::Parts => fleet.cut(&parts),
        _ => fleet.shared(sharing),
    });
    let fleet = fleet.expect("a fleet");
    let hosts = [5, 0, 3].map(|cpu_milli| HostResources { cpu_milli, memory_mib: 0 });
    let at = |seconds: u32| Instant::at(u64::from(seconds) * SECOND);
    let from = bytes.less(60);
    let planned = Maintenance {
        node: NodeId::new(bytes.less(3)),
        announced: at(from / 2),
        from: at(from),
        to: at(from + 9),
        jobs_go_on: from % 2 == 1,
    };
    let fleet = fleet.hosted(&hosts).levelled(&[("rack".into(), 2)]).expect("levels").maintained(vec![planned]);
    let cut = fleet.parts.clone();
    let jobs: Vec<Job> = (0..1 + bytes.less(7))
        .map(|at| {
            let (submit, gpus) = (u64::from(bytes.less(50)) * SECOND, 1 + bytes.less(5));
            let work = u64::from(1 + bytes.less(200)) * SECOND;
            Job::new(&format!("j{at}"), Instant::at(submit), gpus, work).asking(|request| {
                request.preemptible = bytes.less(4) > 0;
                if gpus == 1 && bytes.less(3) == 0 {
                    let part = PartId::new(bytes.less(2));
                    request.part = (sharing == Sharing::Parts).then_some(part);
                    request.share = request.part.map_or(500, |part| cut.share(part));
                }
                request.gpus_per_node = if bytes.less(3) == 0 { gpus.div_ceil(2) } else { 0 };
                request.host.cpu_milli = bytes.less(5);
                request.near.required = (bytes.less(4) == 0).then_some(0);
            })
        })
        .collect();
    let mut jobs = jobs;
    jobs.sort_by_key(|job| job.submit);
    let jobs: Arc<[Job]> = jobs.into();
    let laws = Arc::new(PerformanceModel::none());
    let seed = u64::from(bytes.less(256));
    let backend = Box::new(SimulatedBackend::new(fleet, jobs.clone(), &laws, seed));
    let inputs = Inputs { strict: false, ..Inputs::plain(jobs, Limits { calls: 300, ..Limits::default() }) };
    run(&mut Scripted(bytes), backend, inputs).expect("the books balance");
}

/// Bytes, taken one by one; zeros when there are no more.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn less(&mut self, most: u32) -> u32 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        u32::from(*first) % most
    }

    fn action(&mut self, now: u64) -> Action {
        let job = self.less(9);
        match self.less(13) {
            12 => Action::StartOn(StartOn { job, node: self.less(5) }),
            10 | 11 => Action::StartPart(StartPart { job, gpu: self.less(12), slice: self.less(5) }),
            9 => Action::Refuse(job),
            0..=2 => Action::Start(self.start(job)),
            3 => {
                let mode = if self.less(2) == 0 { PreemptMode::Checkpoint } else { PreemptMode::Kill };
                Action::Preempt(Preempt { job, mode })
            }
            4 => {
                let all = (0..self.less(4)).map(|_| {
                    let job = self.less(9);
                    self.start(job)
                });
                Action::Reassign(all.collect())
            }
            5 => Action::SetTimer(Timer {
                token: u64::from(self.less(4)),
                at: now + u64::from(self.less(99)) * 1_000_000,
            }),
            6 => Action::CancelTimer(u64::from(self.less(4))),
            7 => Action::Throttle(Throttle { job, milli: self.less(255) * 5 }),
            _ if self.less(2) == 0 => Action::SetBatch(SetBatch { job, batch: self.split() }),
            _ => Action::Protect(Protect { gpu: self.less(12), until: now + u64::from(self.less(99)) * 1_000_000 }),
        }
    }

    fn start(&mut self, job: u32) -> Start {
        let gpus = (0..self.less(6)).map(|_| self.less(12)).collect();
        let batch = (self.less(4) == 0).then(|| self.split());
        Start { job, gpus, batch }
    }

    fn split(&mut self) -> BatchSplit {
        BatchSplit { local: self.less(12), accumulation: self.less(3) }
    }
}

struct Scripted<'a>(Bytes<'a>);

impl Policy for Scripted<'_> {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("scripted", Abilities::all()))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        Ok(Readiness::of(Cadence::EVENTS))
    }

    fn decide(
        &mut self,
        batch: &Batch,
        mut world: Box<DecisionContext>,
    ) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let actions: Vec<Action> = (0..self.0.less(6)).map(|_| self.0.action(batch.now)).collect();
        let before = world.cluster.clone();
        let refused = world.check(&actions);
        assert_eq!(before, world.cluster, "a check moved something");
        assert!(refused.len() <= actions.len());
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

/// A target of libFuzzer's, by its name in [`TARGETS`].
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        #[cfg(feature = "libfuzzer")]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            let (_, target) = $crate::TARGETS.iter().find(|(name, _)| *name == $name).expect("a target");
            target(bytes);
        });
        #[cfg(not(feature = "libfuzzer"))]
        fn main() {}
    };
}
