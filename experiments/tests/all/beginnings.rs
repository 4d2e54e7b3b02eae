//! Runs that begin in the middle: a run that is cut at any instant, captured and continued is the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandtable::artifact::shipped;
use sandtable::execute::{Compiled, inputs};
use sandtable::plan::{Cell, Options, Plan, plan};
use sandtable_hardware::{Beginning, Duration, GpuId, Instant, Job, JobId, SECOND, SimulatedBackend, Standing};
use sandtable_runtime::sandbox::{Component, Sandbox, Sandboxed, Settings};
use sandtable_runtime::schedule::{Finished, run};
use sandtable_runtime::{JobRow, Segment};

use crate::help::root;

/// Policies that decide by what they are told, and not by what they remember.
const POLICIES: &[(&str, &str)] = &[
    ("fifo", "{}"),
    ("fifo", "{\"backfill\": \"skip\"}"),
    ("fifo", "{\"backfill\": \"easy\"}"),
    ("fifo", "{\"backfill\": \"conservative\"}"),
    ("sjf", "{}"),
    ("srsf", "{}"),
    ("srtf", "{}"),
    ("priority", "{}"),
    ("edf", "{}"),
    ("slurm-backfill", "{\"lag\": 0}"),
    ("allox", "{}"),
    ("antman-like", "{}"),
    ("clwp-nlwp", "{}"),
    ("fgd", "{}"),
    ("hived", "{}"),
    ("horus", "{}"),
    ("kai-like", "{}"),
    ("lucid-like", "{}"),
    ("muri", "{}"),
    ("packer", "{}"),
    ("schedtune-like", "{}"),
    ("share", "{}"),
];

/// Policies that decide so where jobs have parts of GPUs.
const ON_SHARES: &[(&str, &str)] = &[
    ("fifo", "{}"),
    ("fifo", "{\"backfill\": \"skip\"}"),
    ("fifo", "{\"backfill\": \"easy\"}"),
    ("sjf", "{}"),
    ("srsf", "{}"),
    ("srtf", "{}"),
    ("priority", "{}"),
    ("edf", "{}"),
    ("kai-like", "{}"),
];

/// Policies that remember more: in which order jobs came into their queues, what each has had in rounds, or what was planned for it.
const REMEMBERS: &[(&str, &str)] = &[
    ("las", "{}"),
    ("chronus-like", "{}"),
    ("gandiva-fair", "{}"),
    ("gandiva-like", "{}"),
    ("gavel", "{}"),
    ("gavel-leases", "{}"),
    ("horus-plus", "{}"),
    ("kueue-like", "{}"),
    ("shockwave", "{}"),
];

/// Shipped policies that are for elastic jobs, or that need weights, a script, a log or facts of models.
const NOT_OF_THESE_JOBS: &[&str] = &[
    "afs",
    "ats",
    "elasticflow",
    "lyra-like",
    "mlp",
    "optimus",
    "pollux",
    "recorded",
    "script",
    "sia",
    "similarity",
    "tiresias",
];

/// Jobs on whole GPUs, or jobs of which some ask for a part of one.
#[derive(Clone, Copy, PartialEq)]
enum Gpus {
    Whole,
    Shares,
}

fn expand(policies: &[(&str, &str)], of: Gpus) -> Plan {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spec.ron");
    let named = policies.iter().enumerate();
    let named: Vec<String> = named
        .map(|(at, (name, with))| format!("Policy(name: {name:?}, label: \"{name}-{at}\", with: {with})"))
        .collect();
    let (sharing, shares) = match of {
        Gpus::Whole => ("", ""),
        Gpus::Shares => (", sharing: Shares", ", shares: {300: 1, 500: 2, 1000: 2}"),
    };
    let spec = format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 2, gpus: 4, kind: \"RTX-3090\", speed: 1.0{sharing}), seeds: Range(0, 3), \
         profile: File({:?}), queues: [Queue(name: \"a\"), Queue(name: \"b\", weight: 2)], \
         workload: Generate(jobs: 40, arrivals: Poisson(load: 1.2), \
         durations: LogNormal(median: \"10min\", sigma: 1.0), gpus: {{1: 4, 2: 2, 4: 1, 8: 1}}{shares}, \
         queues: {{\"a\": 1, \"b\": 1}}, deadlines: Deadlines(least: 1, most: 4), priorities: {{0: 2, 5: 1}}), policies: [{}], \
         reveal: [SoloProfile, Memory, ModelFacts], predictors: {{\"remaining\": Oracle, \"utilisation\": Oracle, \
         \"memory\": Oracle, \"similarity\": Oracle, \"throughput\": Oracle, \"pair-speed\": Oracle}})",
        root().join("experiments/specs/profiles/synthetic.ron"),
        named.join(", ")
    );
    std::fs::write(&path, spec).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    plan(&path, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// A run of a cell's policy from a beginning.
fn lived(cell: &Cell, component: &Component, jobs: Arc<[Job]>, beginning: Beginning) -> Finished {
    let compiled = Compiled::new(&Settings::default(), std::iter::empty()).expect("an engine");
    let (fleet, laws) = ((*cell.fleet).clone(), &cell.setting.laws);
    let model = SimulatedBackend::beginning(fleet, jobs.clone(), laws, cell.seed, &beginning);
    let mut policy = Sandboxed::new(component, cell.setting.limits).expect("alive");
    let predictors = compiled.predictors(cell).expect("predictors");
    let inputs = sandtable_runtime::inputs::Inputs { beginning: Arc::new(beginning), ..inputs(cell, jobs, predictors) };
    let finished = run(&mut policy, Box::new(model), inputs).expect("balanced books");
    assert!(finished.fault.is_none(), "{}: {}", cell.label, finished.fault.as_ref().expect("a fault"));
    finished
}

/// The stays of each job, by its name.
fn stays(finished: &Finished, jobs: &[Job]) -> BTreeMap<String, Vec<Segment>> {
    let mut stays: BTreeMap<String, Vec<Segment>> = BTreeMap::new();
    for stay in finished.ledger.segments() {
        stays.entry(jobs[stay.job].name.to_string()).or_default().push(stay);
    }
    stays
}

/// What of a run is there at an instant at which nothing happens: the jobs that have not ended, and how far they are.
fn captured(whole: &Finished, jobs: &[Job], at: Instant) -> (Arc<[Job]>, Beginning) {
    let stays = stays(whole, jobs);
    let mut left = Vec::new();
    let mut beginning = Beginning { at, jobs: BTreeMap::new() };
    for (job, row) in jobs.iter().zip(whole.ledger.rows()) {
        if row.end.is_some_and(|end| end < at) {
            continue;
        }
        let id = JobId::at(left.len());
        left.push(job.clone());
        let before = stays.get(job.name.as_str()).map_or(&[][..], Vec::as_slice).iter().filter(|stay| stay.from < at);
        let mut standing = Standing::default();
        for stay in before {
            if standing.held.is_zero() {
                standing.first_start = stay.from;
            }
            standing.saved = standing.held;
            standing.held += stay.to.min(at) - stay.from;
            match stay.to > at {
                true => (standing.since, standing.gpus) = (stay.from, stay.gpus.clone()),
                false => (standing.preemptions, standing.saved) = (standing.preemptions + 1, standing.held),
            }
        }
        // Nothing costs anything here, and GPUs are of speed 1.
        (standing.done, standing.productive) = (standing.held, standing.held);
        standing.gpu_time = standing.held * u64::from(job.gpus);
        if !standing.held.is_zero() {
            beginning.jobs.insert(id, standing);
        }
    }
    (left.into(), beginning)
}

/// What the rest of a run was for a job.
type Rest = (JobRow, Vec<(Instant, Instant, Vec<GpuId>)>);

fn rest(finished: &Finished, jobs: &[Job], after: Instant) -> BTreeMap<String, Rest> {
    let stays = stays(finished, jobs);
    let of = |(job, mut row): (&Job, JobRow)| {
        // How crowded it was is counted from the beginning.
        row.contention = 0;
        let stays = stays.get(job.name.as_str()).map_or(&[][..], Vec::as_slice).iter().filter(|stay| stay.to > after);
        let stays = stays.map(|stay| (stay.from, stay.to, stay.gpus.clone())).collect();
        row.end.is_none_or(|end| end > after).then(|| (job.name.to_string(), (row, stays)))
    };
    jobs.iter().zip(finished.ledger.rows()).filter_map(of).collect()
}

/// Cuts runs of these policies at many instants, and hands both halves over.
fn cut(
    policies: &[(&str, &str)],
    of: Gpus,
    step: usize,
    check: impl Fn(&str, &BTreeMap<String, Rest>, &BTreeMap<String, Rest>),
) -> u32 {
    let plan = expand(policies, of);
    let sandbox = Sandbox::new(&Settings::default()).expect("a sandbox");
    let mut cuts = 0;
    for cell in &plan.cells {
        let component = sandbox.load(&cell.policy.bytes).expect("a policy");
        let jobs = cell.jobs().expect("jobs");
        let whole = lived(cell, &component, jobs.clone(), Beginning::default());
        let mut instants: Vec<Instant> = whole
            .ledger
            .segments()
            .flat_map(|stay| [stay.from, stay.to])
            .chain(jobs.iter().map(|job| job.submit))
            .collect();
        instants.sort_unstable();
        instants.dedup();
        for pair in instants.windows(2).step_by(step).filter(|pair| pair[1] - pair[0] > SECOND) {
            let at = pair[0] + (pair[1] - pair[0]) / 2;
            let (left, beginning) = captured(&whole, &jobs, at);
            let continued = lived(cell, &component, left.clone(), beginning);
            let (expected, found) = (rest(&whole, &jobs, at), rest(&continued, &left, at));
            assert!(expected.keys().eq(found.keys()));
            check(&format!("{} seed {}, cut at {at}", cell.label, cell.seed), &expected, &found);
            cuts += 1;
        }
    }
    cuts
}

#[test]
fn a_run_that_is_cut_captured_and_continued_is_the_same_run() {
    let same = |story: &str, expected: &BTreeMap<String, Rest>, found: &BTreeMap<String, Rest>| {
        for (name, of) in expected {
            assert_eq!(found.get(name), Some(of), "{story}: job {name}");
        }
    };
    let cuts = cut(POLICIES, Gpus::Whole, 12, same);
    assert!(cuts > 200, "{cuts}");
    // Those that follow parts of GPUs, and where another may be there too.
    let cuts = cut(ON_SHARES, Gpus::Shares, 12, same);
    assert!(cuts > 80, "{cuts}");
}

#[test]
fn every_shipped_policy_is_cut_or_is_for_other_jobs() {
    let named = POLICIES.iter().chain(REMEMBERS).map(|(name, _)| *name).chain(NOT_OF_THESE_JOBS.iter().copied());
    let named: BTreeSet<&str> = named.collect();
    assert_eq!(named, shipped().collect());
}

#[test]
fn a_policy_that_remembers_goes_on_without_its_memory() {
    let cuts = cut(REMEMBERS, Gpus::Whole, 12, |story, expected, found| {
        for (name, (row, _)) in expected {
            let (other, _) = &found[name];
            assert_eq!(other.outcome, row.outcome, "{story}: job {name}");
            // All of its work is done, what it did before included.
            assert_eq!(other.productive, row.productive, "{story}: job {name}");
        }
    });
    assert!(cuts > 20, "{cuts}");
}

/// What jobs had before is theirs and not the run's: the books of the run begin with it.
#[test]
fn the_books_of_a_run_begin_with_it() {
    let plan = expand(&POLICIES[..1], Gpus::Whole);
    let cell = &plan.cells[0];
    let sandbox = Sandbox::new(&Settings::default()).expect("a sandbox");
    let component = sandbox.load(&cell.policy.bytes).expect("a policy");
    let at = |seconds: u64| Instant::at(seconds * SECOND);
    let jobs = [Job::new("runs", at(0), 8, 1000 * SECOND), Job::new("waits", at(10), 4, 100 * SECOND)];
    let standing = Standing {
        gpus: GpuId::list((0..8).collect()),
        node: None,
        since: at(100),
        first_start: at(0),
        done: 700 * SECOND,
        saved: 700 * SECOND,
        held: 950 * SECOND,
        productive: 900 * SECOND,
        gpu_time: 7600 * SECOND,
        preemptions: 2,
    };
    let beginning = Beginning { at: at(900), jobs: [(JobId::new(0), standing)].into() };
    let finished = lived(cell, &component, jobs.to_vec().into(), beginning);
    let [runs, waits] = [0, 1].map(|job| finished.ledger.row(JobId::new(job)));
    // 300 s of its work are left; what it held and did before is its own.
    assert_eq!((runs.end, runs.first_start, runs.preemptions), (Some(at(1200)), Some(at(0)), 2));
    assert_eq!((runs.held, runs.productive), (1250 * SECOND, 1200 * SECOND));
    assert_eq!((waits.first_start, waits.end), (Some(at(1200)), Some(at(1300))));
    let stays: Vec<(u64, u64)> =
        finished.ledger.segments().map(|stay| (stay.from.as_micros(), stay.to.as_micros())).collect();
    let micros = Duration::as_micros(SECOND);
    assert_eq!(stays, [(100 * micros, 1200 * micros), (1200 * micros, 1300 * micros)]);
}
