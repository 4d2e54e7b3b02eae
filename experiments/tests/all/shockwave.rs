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
use sandtable_runtime::{DecisionContext, Policy, Summary};

use sandtable_results::schema::{JobRecord, StayRecord};

use crate::help::{data, planned, results, told};

pub(crate) type Table = Vec<BTreeMap<String, String>>;

pub(crate) fn table(file: &Path) -> Table {
    let mut reader = csv::Reader::from_path(file).expect("a table");
    let names = reader.headers().expect("a header").clone();
    let row = |record: csv::StringRecord| names.iter().zip(&record).map(|(k, v)| (k.into(), v.into())).collect();
    reader.records().map(|record| row(record.expect("a row"))).collect()
}

pub(crate) fn number<T: std::str::FromStr>(row: &BTreeMap<String, String>, column: &str) -> T {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

/// The GPUs of a stay.
fn gpus(stay: &BTreeMap<String, String>) -> Vec<u32> {
    stay["gpus"].split(';').map(|gpu| gpu.parse().expect("a GPU")).collect()
}

/// GPUs of each job in each round.
type Rounds = Vec<BTreeMap<u32, Vec<u32>>>;

fn rounds(stays: &Table) -> Rounds {
    let mut rounds = Rounds::new();
    for stay in stays {
        let (first, count): (usize, usize) = (number(stay, "round"), number(stay, "rounds"));
        let gpus = gpus(stay);
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
    plan(preset, policy).cells.into_iter().next().expect("a cell")
}

fn plan(preset: &str, policy: &str) -> sandtable::plan::Plan {
    let (trace, rates) = (data("shockwave/trace.csv"), data("shockwave/rates.csv"));
    let spec = format!(
        "Experiment(title: \"shockwave\", fleet: Model(nodes: 32, gpus: 1, kind: \"V100\", speed: 1.0), \
         profile: Shockwave({rates:?}), workload: Trace(file: {trace:?}, format: Shockwave, throughputs: {rates:?}), \
         semantics: Semantics(preset: {preset:?}), policies: [{policy}], predictors: {{\"remaining\": Oracle, \"steps\": Oracle, \"epochs\": Oracle}})"
    );
    planned(&spec).unwrap_or_else(|error| panic!("{error}"))
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
    let files = sandtable::input::sorted(&data("shockwave")).expect("the data");
    let name = |file: std::path::PathBuf| Some(file.file_name()?.to_str()?.to_string());
    let run = |name: String| {
        let (set, rest) = name.strip_suffix(".jobs.csv")?.split_once('.')?;
        (!rest.contains('.')).then(|| (set.to_string(), rest.to_string()))
    };
    files.into_iter().filter_map(name).filter_map(run).collect()
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
        let finished = replayed(&cell(preset(&set), "Policy(name: \"fifo\")"), &mut replay);
        let jct: Vec<f64> =
            finished.ledger.rows().map(|row| (row.end.expect("it ended") - row.submit).as_micros_f64() / 1e6).collect();
        let published: Vec<f64> = table(&file("jobs")).iter().map(|row| number(row, "jct_s")).collect();
        assert_eq!(jct.len(), published.len());
        // What each takes alone, by the published ratio of its time to its part of a cluster that 120 jobs share.
        for (row, (jct, theirs)) in finished.ledger.rows().zip(jct.iter().zip(&table(&file("jobs")))) {
            let ftf = jct / (row.solo.as_micros_f64() / 1e6 * 120.0 / 32.0);
            assert!((ftf - number::<f64>(theirs, "ftf")).abs() < 1.1e-5, "{set}.{policy}: {ftf}, {theirs:?}");
        }
        let error = jct.iter().zip(&published).map(|(ours, theirs)| (ours - theirs).abs()).fold(0.0, f64::max);
        assert!(error < 1e-2, "{set}.{policy}: a job ends {error} s off");
        let of = summary.iter().find(|row| row["file"] == format!("{set}.{policy}")).expect("its summary");
        assert_eq!(replay.next, number::<usize>(of, "rounds"), "{set}.{policy}");
        let published = ["lease_extensions", "lease_opportunities"].map(|column| number::<usize>(of, column));
        assert_eq!(replay.extended, published, "{set}.{policy}");
        told(&format!("{set}.{policy}: {} jobs, {} rounds, at most {error:.6} s off", jct.len(), replay.next));
        // A run on real GPUs had other rates and rounds.
        if let Some(real) = summary.iter().find(|row| row["file"] == format!("{set}.{policy}.physical")) {
            let mean = jct.iter().sum::<f64>() / jct.len() as f64 / number::<f64>(real, "avg_jct_s") - 1.0;
            let makespan = Summary::of(&finished.ledger).makespan / number::<f64>(real, "makespan_s") - 1.0;
            let off = [mean * 100.0, makespan * 100.0];
            told(&format!("{set}.{policy} on real GPUs: mean JCT {:+.1} %, makespan {:+.1} %", off[0], off[1]));
            assert!(mean.abs() < 0.1 && makespan.abs() < 0.1, "{off:?}");
        }
    }
}

/// What a policy of the artifact is called here, and how far its schedule may be from the published one: of how many jobs the end may differ by
/// more than 10 ms, and by which parts of themselves mean JCT and makespan. What is not unique was a cone solver's choice there. Of the last three
/// no run is in the data that come with this: their bounds are for those who have one.
const POLICIES: [(&str, &str, usize, f64, f64); 6] = [
    ("gandiva_fair", "gandiva-fair", 0, 0.0, 0.0),
    ("allox", "allox", 0, 0.0, 0.0),
    ("max_min_fairness", "max-min", 19, 0.001, 0.0),
    ("max_sum_throughput_perf", "max-sum-throughput", 120, 0.03, 0.03),
    ("min_total_duration", "min-total-duration", 120, 0.08, 0.03),
    ("finish_time_fairness", "finish-time-fairness", 120, 0.08, 0.07),
];

/// The GPUs of each stay of each job, in the order of their beginnings.
fn stays(of: impl Iterator<Item = (String, Vec<u32>)>) -> BTreeMap<String, Vec<Vec<u32>>> {
    let mut stays: BTreeMap<String, Vec<Vec<u32>>> = BTreeMap::new();
    of.for_each(|(job, gpus)| stays.entry(job).or_default().push(gpus));
    stays
}

#[needs("data:shockwave")]
#[test]
fn published_runs_of_policies_are_met_from_spec_to_results() {
    let mut met = 0;
    for (set, policy) in simulated() {
        let Some((_, objective, differ, mean, makespan)) = POLICIES.iter().find(|known| known.0 == policy) else {
            continue;
        };
        let spec = format!("Policy(name: \"gavel-leases\", with: {{\"objective\": {objective:?}}})");
        let plan = plan(preset(&set), &spec);
        let (summary, rows) = results::<JobRecord>(&plan);
        let file = |kind: &str| data(&format!("shockwave/{set}.{policy}.{kind}.csv"));
        let published: Vec<f64> = table(&file("jobs")).iter().map(|row| number(row, "jct_s")).collect();
        let of_job = |row: &JobRecord| row.end_s.map_or(f64::NAN, |end| end.f64() - row.submit_s.f64());
        let jct: Vec<f64> = rows.iter().map(of_job).collect();
        let same = jct.iter().zip(&published).filter(|(ours, theirs)| (*ours - *theirs).abs() < 1e-2).count();
        let of = table(&data("shockwave/summary.csv"));
        let of = of.iter().find(|row| row["file"] == format!("{set}.{policy}")).expect("its summary");
        let off = [
            jct.iter().sum::<f64>() / number::<f64>(of, "avg_jct_s") / jct.len() as f64 - 1.0,
            summary.makespan / number::<f64>(of, "makespan_s") - 1.0,
        ];
        let said = format!(
            "{set}.{policy}: {same} of {} jobs end where they ended; mean JCT {:+.2} %, makespan {:+.2} %",
            jct.len(),
            off[0] * 100.0,
            off[1] * 100.0
        );
        told(&said);
        assert!(jct.len() - same <= *differ, "{said}");
        assert!(off[0].abs() <= mean + 1e-6 && off[1].abs() <= makespan + 1e-6, "{said}");
        if *differ == 0 {
            let (_, ours) = results::<StayRecord>(&plan);
            let theirs = table(&file("stays"));
            let numbers = |stay: &StayRecord| stay.gpus.0.iter().map(|gpu| gpu.number()).collect();
            let ours = stays(ours.iter().map(|stay| (stay.job_id.clone(), numbers(stay))));
            let theirs = stays(theirs.iter().map(|stay| (stay["job_id"].clone(), gpus(stay))));
            assert_eq!(ours, theirs, "{set}.{policy}");
            met += 1;
        }
    }
    assert!(met >= 3, "{met}");
}

/// Shares that are not unique are those of a solver. With these, round by round, its run is met: whatever else decides is as published.
#[needs("data:shockwave")]
#[test]
fn with_the_solvers_shares_the_published_run_of_max_min_is_met() {
    let run = "shockwave/a.max_min_fairness";
    let mut computations: BTreeMap<u32, serde_json::Map<String, serde_json::Value>> = BTreeMap::new();
    for row in table(&data(&format!("{run}.shares.csv"))) {
        let share: f64 = number(&row, "share");
        computations.entry(number(&row, "round")).or_default().insert(row["job_id"].clone(), share.into());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shares.json");
    let shares = serde_json::to_string(&computations.into_values().collect::<Vec<_>>()).expect("JSON");
    std::fs::write(&file, shares).expect("written");
    let policy = format!("Policy(name: \"gavel-leases\", weights: {file:?}, with: {{\"objective\": \"given\"}})");
    let (_, rows) = results::<JobRecord>(&plan(preset("a"), &policy));
    let ends: Vec<f64> =
        rows.iter().map(|row| row.end_s.map_or(f64::NAN, |end| end.f64() - row.submit_s.f64())).collect();
    let published: Vec<f64> = table(&data(&format!("{run}.jobs.csv"))).iter().map(|row| number(row, "jct_s")).collect();
    let off = ends.iter().zip(&published).filter(|(ours, theirs)| (*ours - *theirs).abs() >= 1e-2).count();
    assert_eq!((off, ends.len()), (0, published.len()));
}

/// What a job takes over what it would with its part of the cluster, from which on it is unfair: so the published shares are counted.
const UNFAIR: f64 = 1.05;

/// A run under a policy, from the spec to the results, beside the published one of Shockwave's own: what mean JCT and makespan are off by, and the parts of jobs that take longer than they
/// would with their part of a cluster that 120 jobs share, ours and theirs.
fn beside_shockwave(set: &str, policy: &str) -> [f64; 4] {
    let plan = plan(preset(set), policy);
    let (summary, rows) = results::<JobRecord>(&plan);
    let of = table(&data("shockwave/summary.csv"));
    let of = of.iter().find(|row| row["file"] == format!("{set}.shockwave")).expect("its summary");
    let jct = |row: &JobRecord| row.end_s.map_or(f64::NAN, |end| end.f64() - row.submit_s.f64());
    let mean = rows.iter().map(jct).sum::<f64>() / rows.len() as f64;
    // The published ratio of each job says what it takes with its part; the published share is of those that take a twentieth more.
    let published = table(&data(&format!("shockwave/{set}.shockwave.jobs.csv")));
    let ratio = |row| number::<f64>(row, "ftf");
    let theirs = published.iter().filter(|row| ratio(row) > UNFAIR).count() as f64 / rows.len() as f64;
    assert_eq!(theirs, number::<f64>(of, "unfair_share"), "{set}");
    let isolated = published.iter().map(|row| number::<f64>(row, "jct_s") / ratio(row));
    let late = rows.iter().zip(isolated).filter(|(row, isolated)| jct(row) > UNFAIR * isolated).count();
    [
        mean / number::<f64>(of, "avg_jct_s") - 1.0,
        summary.makespan / number::<f64>(of, "makespan_s") - 1.0,
        late as f64 / rows.len() as f64,
        theirs,
    ]
}

#[needs("data:shockwave")]
#[test]
fn shockwave_s_own_policy_comes_as_near_as_papers_md_says() {
    // The artifact's clock; with and without the correction of plans by what was measured. The goal was 3 % of both and 3 points of the unfair: the makespan of set b misses it.
    for (with, makespan_of_b) in [("", 0.04), (", \"tolerance\": 1000000", 0.03)] {
        for set in ["a", "b"] {
            let policy = format!("Policy(name: \"shockwave\", with: {{\"since\": \"start\"{with}}})");
            let [mean, makespan, late, theirs] = beside_shockwave(set, &policy);
            let said = format!(
                "{set}.shockwave{with}: mean JCT {:+.1} %, makespan {:+.1} %, unfair {:.1} % for {:.1} %",
                mean * 100.0,
                makespan * 100.0,
                late * 100.0,
                theirs * 100.0
            );
            told(&said);
            let furthest = if set == "b" { makespan_of_b } else { 0.03 };
            assert!(mean.abs() <= 0.03 && makespan.abs() <= furthest && (late - theirs).abs() <= 0.03, "{said}");
        }
    }
}
