//! Shockwave's published schedules: replayed through the model round by round, every job ends when it ended there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandtable::plan::Cell;
use sandtable_hardware::{Backend, SECOND, SimulatedBackend};
use sandtable_needs::needs;
use sandtable_runtime::contract::{
    Abilities, Action, Batch, Cadence, Descriptor, Event, Plan, Preempt, PreemptMode, Readiness, Setup, Start,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::schedule::{Finished, run};
use sandtable_runtime::{DecisionContext, Policy};

use crate::help::{data, planned, told};

type Table = Vec<BTreeMap<String, String>>;

fn table(file: &Path) -> Table {
    let mut reader = csv::Reader::from_path(file).expect("a table");
    let names = reader.headers().expect("a header").clone();
    let row = |record: csv::StringRecord| names.iter().zip(&record).map(|(k, v)| (k.into(), v.into())).collect();
    reader.records().map(|record| row(record.expect("a row"))).collect()
}

fn number<T: std::str::FromStr>(row: &BTreeMap<String, String>, column: &str) -> T {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

/// GPUs of each job in each round.
type Rounds = Vec<BTreeMap<u32, Vec<u32>>>;

fn rounds(stays: &Table) -> Rounds {
    let mut rounds = Rounds::new();
    for stay in stays {
        let (first, count): (usize, usize) = (number(stay, "round"), number(stay, "rounds"));
        let gpus: Vec<u32> = stay["gpus"].split(';').map(|gpu| gpu.parse().expect("a GPU")).collect();
        rounds.resize(rounds.len().max(first + count), BTreeMap::new());
        rounds[first..first + count]
            .iter_mut()
            .for_each(|round| drop(round.insert(number(stay, "job_id"), gpus.clone())));
    }
    rounds
}

/// A policy that gives jobs the GPUs that they had, round by round.
struct Replay {
    rounds: Rounds,
    next: usize,
    held: BTreeMap<u32, Vec<u32>>,
    starts: Vec<Start>,
    /// Jobs that kept the GPUs of the round before, and those that were there to keep them.
    extended: [usize; 2],
}

impl Policy for Replay {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("replay", Abilities::PREEMPT))
    }

    fn init(&mut self, _: &Setup) -> Result<Readiness, Fault> {
        let cadence = Cadence { round: Some(120 * SECOND.as_micros()), on_events: false, ..Cadence::EVENTS };
        Ok(Readiness { cadence, uses: Abilities::PREEMPT })
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let starts: Vec<Action> = std::mem::take(&mut self.starts).into_iter().map(Action::Start).collect();
        if !starts.is_empty() {
            return (world, Ok(Plan { base: batch.seq, actions: starts }));
        }
        for event in &batch.events {
            if let Event::JobEnded(end) = event {
                self.held.remove(&end.job);
            }
        }
        let now = self.rounds.get(self.next).cloned().unwrap_or_default();
        self.next += 1;
        let mut actions = Vec::new();
        let ids = |gpus: &Vec<u32>| gpus.iter().copied().collect::<BTreeSet<u32>>();
        for (job, gpus) in std::mem::take(&mut self.held) {
            self.extended[1] += 1;
            if now.get(&job).map(ids) == Some(ids(&gpus)) {
                self.extended[0] += 1;
                self.held.insert(job, gpus);
            } else {
                actions.push(Action::Preempt(Preempt { job, mode: PreemptMode::Checkpoint }));
            }
        }
        for (job, gpus) in now {
            if !self.held.contains_key(&job) {
                self.starts.push(Start { job, gpus: gpus.clone(), batch: None });
                self.held.insert(job, gpus);
            }
        }
        if actions.is_empty() {
            actions.extend(std::mem::take(&mut self.starts).into_iter().map(Action::Start));
        }
        (world, Ok(Plan { base: batch.seq, actions }))
    }
}

/// The cell of a spec on 32 nodes of one GPU.
fn cell(preset: &str, policy: &str) -> Cell {
    let (trace, rates) = (data("shockwave/trace.csv"), data("shockwave/rates.csv"));
    let spec = format!(
        "Experiment(title: \"shockwave\", fleet: Model(nodes: 32, gpus: 1, kind: \"V100\", speed: 1.0), \
         profile: Shockwave({rates:?}), workload: Trace(file: {trace:?}, format: Shockwave, throughputs: {rates:?}), \
         semantics: Semantics(preset: {preset:?}), policies: [Policy(name: {policy:?})], predictors: {{\"remaining\": Oracle}})"
    );
    let plan = planned(&spec).unwrap_or_else(|error| panic!("{error}"));
    plan.cells.into_iter().next().expect("a cell")
}

fn replayed(cell: &Cell, policy: &mut Replay) -> Finished {
    let jobs = cell.jobs().expect("jobs");
    let backend: Box<dyn Backend> =
        Box::new(SimulatedBackend::new((*cell.fleet).clone(), jobs.clone(), &cell.setting.laws, 0));
    let inputs = Inputs { laws: cell.setting.laws.clone(), strict: true, ..Inputs::plain(jobs, cell.setting.limits) };
    let finished = run(policy, backend, inputs).expect("the books balance");
    assert_eq!(finished.fault, None);
    finished
}

/// Runs of the artifact's simulator: set, policy.
fn simulated() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(data("shockwave")).expect("the data");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("a file").file_name().into_string().ok();
    let run = |name: String| {
        let (set, rest) = name.strip_suffix(".jobs.csv")?.split_once('.')?;
        (!rest.contains('.')).then(|| (set.to_string(), rest.to_string()))
    };
    let mut runs: Vec<(String, String)> = folder.filter_map(name).filter_map(run).collect();
    runs.sort();
    runs
}

fn preset(set: &str) -> &'static str {
    if set == "a" { "shockwave" } else { "shockwave-comparison" }
}

#[needs("data:shockwave")]
#[test]
fn published_rounds_end_every_job_when_it_ended_there() {
    let summary = table(&data("shockwave/summary.csv"));
    let runs = simulated();
    assert!(runs.len() >= 6, "{runs:?}");
    for (set, policy) in runs {
        let file = |kind: &str| data(&format!("shockwave/{set}.{policy}.{kind}.csv"));
        let rounds = rounds(&table(&file("stays")));
        let mut replay = Replay { rounds, next: 0, held: BTreeMap::new(), starts: Vec::new(), extended: [0; 2] };
        let finished = replayed(&cell(preset(&set), "fifo"), &mut replay);
        let jct: Vec<f64> =
            finished.ledger.rows().map(|row| (row.end.expect("it ended") - row.submit).as_micros_f64() / 1e6).collect();
        let published: Vec<f64> = table(&file("jobs")).iter().map(|row| number(row, "jct_s")).collect();
        assert_eq!(jct.len(), published.len());
        let error = jct.iter().zip(&published).map(|(ours, theirs)| (ours - theirs).abs()).fold(0.0, f64::max);
        assert!(error < 1e-2, "{set}.{policy}: a job ends {error} s off");
        let of = summary.iter().find(|row| row["file"] == format!("{set}.{policy}")).expect("its summary");
        assert_eq!(replay.next, number::<usize>(of, "rounds"), "{set}.{policy}");
        let published = ["lease_extensions", "lease_opportunities"].map(|column| number::<usize>(of, column));
        assert_eq!(replay.extended, published, "{set}.{policy}");
        told(&format!("{set}.{policy}: {} jobs, {} rounds, at most {error:.6} s off", jct.len(), replay.next));
    }
}
