//! A policy that takes over from another while jobs run, and runs that are recorded and followed: on the model, where both
//! can be asked of every policy and on every kind of fleet.

use std::path::Path;
use std::sync::Arc;

use sandtable::execute::{Compiled, inputs};
use sandtable::plan::{Cell, Options, Plan, plan};
use sandtable::profile;
use sandtable_hardware::replay::{Recorder, Replay};
use sandtable_hardware::{Instant, JobId, SECOND, SimulatedBackend};
use sandtable_runtime::contract::Action;
use sandtable_runtime::decision_log::{DecisionLog, ReplayScript};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::{Succession, Successor};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Component, Sandbox, Sandboxed, Settings};
use sandtable_runtime::schedule::{Finished, run};

use crate::guest::{Act, Parts, endless, guest, then_decide};
use crate::help::root;

/// Policies, by what they need.
const RIGID: &[&str] = &["fifo", "sjf", "srsf", "srtf", "las", "edf", "priority"];
/// Beside them, where GPUs are whole.
const WHOLE: &[&str] = &["slurm-backfill"];
const PACKED: &[&str] = &[
    "fifo",
    "share",
    "clwp-nlwp",
    "gandiva-like",
    "antman-like",
    "similarity",
    "gavel",
    "gandiva-fair",
    "gavel-leases",
    "shockwave",
    "muri",
    "allox",
    "horus",
    "horus-plus",
    "packer",
    "lucid-like",
    "schedtune-like",
    "chronus-like",
    "srtf",
];
const ELASTIC: &[&str] = &["ats", "afs", "optimus", "lyra-like", "tiresias", "pollux", "elasticflow", "sia", "fifo"];

fn expand(folder: &Path, spec: &str) -> Plan {
    let path = folder.join("spec.ron");
    std::fs::write(&path, spec).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    plan(&path, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn policies(names: &[&str]) -> String {
    let with = |name: &&str| match *name {
        // A search by a population takes minutes in this profile.
        "pollux" => "Policy(name: \"pollux\", with: {\"search\": \"greedy\"})".to_string(),
        name => format!("Policy(name: {name:?})"),
    };
    names.iter().map(with).collect::<Vec<_>>().join(", ")
}

fn rigid() -> String {
    format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 2, gpus: 4, kind: \"T4\", failures: (mtbf: \"3h\", repair: \"10min\")), \
         costs: Costs(checkpoint: \"10s\", restore: \"20s\"), workload: Generate(jobs: 24, arrivals: Poisson(load: 1.2), \
         durations: LogNormal(median: \"10min\", sigma: 1.0), gpus: {{1: 4, 2: 2, 4: 1}}, deadlines: Deadlines(least: 1, most: 4), priorities: {{0: 2, 5: 1}}), policies: [{}], \
         predictors: {{\"remaining\": Oracle}})",
        policies(&[RIGID, WHOLE].concat())
    )
}

/// The same where GPUs are leased for rounds.
fn leased() -> String {
    let costs = "costs: Costs(checkpoint: \"10s\", restore: \"20s\"), ";
    let all = policies(&[RIGID, &["gavel-leases", "shockwave", "gandiva-fair", "gavel"]].concat());
    let leased =
        rigid().replace(costs, "semantics: Semantics(preset: \"shockwave\"), ").replace(&policies(RIGID), &all);
    leased.replace("\"remaining\": Oracle", "\"remaining\": Oracle, \"throughput\": Oracle")
}

/// The same, of jobs that ask for parts of GPUs.
fn cut() -> String {
    let gpus = "gpus: {1: 4, 2: 2, 4: 1}";
    let parts = "gpus: {1: 6, 2: 1}, parts: {\"1g.5gb\": 2, \"3g.20gb\": 2, \"2g.10gb\": 1, \"whole\": 1}";
    let rigid = rigid().replace(&policies(&[RIGID, WHOLE].concat()), &policies(RIGID));
    let cut = rigid.replace("kind: \"T4\"", "kind: \"A100-SXM4-40GB\", sharing: Parts").replace(gpus, parts);
    assert!(cut.contains(parts));
    cut.replace("jobs: 24", "jobs: 60").replace("nodes: 2", "nodes: 1")
}

fn packed() -> String {
    let mut profile = profile::synthetic();
    profile.gpus[0].solo.values_mut().for_each(|solo| solo.throughput = [(1, 100.0), (4, 350.0)].into());
    let text = profile::write(&profile).expect("RON");
    format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 2, gpus: 4, kind: \"RTX-3090\", sharing: Packed(2)), \
         costs: Costs(checkpoint: \"5s\", restore: \"20s\"), profile: Inline({}), references: [\"small-cnn/b32\"], \
         reveal: [ModelFacts, SoloProfile, Memory], workload: Generate(jobs: 24, arrivals: Poisson(load: 1.2), \
         durations: LogNormal(median: \"10min\", sigma: 1.0), gpus: {{1: 4, 2: 2, 4: 1}}), policies: [{}], \
         predictors: {{\"remaining\": Oracle, \"throughput\": Oracle, \"utilisation\": Oracle, \"memory\": Oracle, \
         \"pair-speed\": Oracle, \"similarity\": Oracle}})",
        text.trim_start_matches("#![enable(implicit_some)]").trim(),
        policies(PACKED)
    )
}

fn elastic() -> String {
    let profile = root().join("experiments/specs/profiles/pollux-fit.ron");
    format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 3, gpus: 4, kind: \"T4\"), profile: File({:?}), \
         costs: Costs(rescale: Constant(\"20s\"), checkpoint: \"5s\"), workload: Generate(jobs: 8, arrivals: Poisson(load: 0.8), \
         workloads: {{\"cifar10\": 0.6, \"ncf\": 0.4}}), policies: [{}], predictors: {{\"steps\": Oracle}})",
        profile.display().to_string(),
        policies(ELASTIC)
    )
}

/// Policies that take over at these instants, and one that goes on after a fault.
struct Plans {
    at: Vec<(Instant, Successor)>,
    fallback: Option<Successor>,
}

impl Succession for Plans {
    fn asked(&mut self, now: Instant) -> Option<Successor> {
        let due = self.at.iter().position(|(at, _)| *at <= now)?;
        Some(self.at.remove(due).1)
    }

    fn due(&self) -> Option<Instant> {
        self.at.iter().map(|(at, _)| *at).min()
    }

    fn fallback(&mut self, _: &Fault) -> Option<Successor> {
        self.fallback.take()
    }
}

fn sandbox() -> Sandbox {
    Sandbox::new(&Settings::default()).expect("a sandbox")
}

fn load(sandbox: &Sandbox, cell: &Cell) -> Component {
    sandbox.load(&cell.policy.bytes).expect("a policy")
}

fn alive(component: &Component, cell: &Cell) -> Successor {
    let policy = Sandboxed::new(component, cell.setting.limits).expect("alive");
    let (config, weights) = (cell.config.clone(), cell.weights.bytes.clone());
    Successor { name: cell.label.clone(), policy: Box::new(policy), config, weights }
}

/// A run of a cell on its model, under these takeovers.
fn relayed(cell: &Cell, first: &Component, succession: Option<Plans>) -> Finished {
    let compiled = Compiled::new(&Settings::default(), std::iter::empty()).expect("an engine");
    let jobs = cell.jobs().expect("jobs");
    let model = SimulatedBackend::new((*cell.fleet).clone(), jobs.clone(), &cell.setting.laws, cell.seed);
    let mut policy = Sandboxed::new(first, cell.setting.limits).expect("alive");
    let mut inputs = inputs(cell, jobs, compiled.predictors(cell).expect("predictors"));
    inputs.succession = succession.map(|plans| Box::new(plans) as Box<dyn Succession>);
    run(&mut policy, Box::new(model), inputs).expect("balanced books")
}

fn all_completed(finished: &Finished) -> bool {
    finished.ledger.rows().all(|row| row.end.is_some())
}

/// Every policy takes over from every kind of situation, and hands over again; strictly judged, nobody is lost.
#[test]
fn any_policy_goes_on_where_another_was_taken_off() {
    let folder = tempfile::tempdir().expect("a folder");
    for spec in [rigid(), leased(), cut(), packed(), elastic()] {
        let plan = expand(folder.path(), &spec);
        let sandbox = sandbox();
        let components: Vec<Component> = plan.cells.iter().map(|cell| load(&sandbox, cell)).collect();
        for (index, cell) in plan.cells.iter().enumerate() {
            let first = (index + 1) % plan.cells.len();
            let back = (index + 2) % plan.cells.len();
            let at = vec![
                (Instant::at(900 * SECOND), alive(&components[index], cell)),
                (Instant::at(2400 * SECOND), alive(&components[back], &plan.cells[back])),
            ];
            let plans = Plans { at, fallback: None };
            let finished = relayed(&plan.cells[first], &components[first], Some(plans));
            let story = format!("{} to {} to {}", plan.cells[first].label, cell.label, plan.cells[back].label);
            assert!(finished.fault.is_none(), "{story}: {}", finished.fault.as_ref().expect("a fault"));
            assert_eq!(finished.takeovers.len(), 2, "{story}");
            assert_eq!(finished.takeovers[0].at, Instant::at(900 * SECOND), "{story}");
            assert!(all_completed(&finished), "{story}: somebody was lost");
        }
    }
}

#[test]
fn a_fault_costs_the_run_and_not_the_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = expand(folder.path(), &rigid());
    let cell = &plan.cells[0];
    let sandbox = sandbox();
    let fifo = load(&sandbox, cell);
    let evil = [
        Parts { decide: "(unreachable)".into(), ..Parts::default() },
        Parts { decide: endless(""), ..Parts::default() },
        Parts { plans: vec![vec![Act::Start(99, vec![0])]], decide: then_decide(""), ..Parts::default() },
    ];
    for parts in &evil {
        let bytes = guest(parts);
        let component = sandbox.load(&bytes).expect("a policy");
        let plans = || Plans { at: Vec::new(), fallback: Some(alive(&fifo, cell)) };
        let alone = relayed(cell, &component, None);
        let fault = alone.fault.expect("a fault");
        let finished = relayed(cell, &component, Some(plans()));
        assert!(finished.fault.is_none() && all_completed(&finished), "{fault}");
        assert_eq!(finished.takeovers.len(), 1, "{fault}");
        assert_eq!(finished.takeovers[0].fault.as_ref().map(Fault::kind), Some(fault.kind()));
        // Nothing had been done: from there on it is fifo's schedule.
        let own = relayed(cell, &fifo, None);
        let ends = |finished: &Finished| finished.ledger.rows().map(|row| row.end).collect::<Vec<_>>();
        assert_eq!(ends(&finished), ends(&own));
    }
    // One that can't begin is not taken; the present one goes on.
    let wrong = Successor { config: "{\"nonsense\": 1}".into(), ..alive(&fifo, cell) };
    let finished = relayed(cell, &fifo, Some(Plans { at: vec![(Instant::at(60 * SECOND), wrong)], fallback: None }));
    assert!(finished.fault.is_none() && all_completed(&finished));
    assert_eq!(finished.takeovers[0].fault.as_ref().map(Fault::kind), Some("refused-configuration"));
}

/// A recorded run, followed.
fn followed(
    cell: &Cell,
    (whose, by): (&Cell, &Component),
    recording: (&[sandtable_hardware::replay::Step], &DecisionLog),
) -> Finished {
    let compiled = Compiled::new(&Settings::default(), std::iter::empty()).expect("an engine");
    let jobs = cell.jobs().expect("jobs");
    let laws: Arc<_> = cell.setting.laws.clone();
    // One step each: what is left of a job that has not begun is its work.
    let tasks = vec![1; jobs.len()];
    let replay = Replay::new((*cell.fleet).clone(), jobs.clone(), laws, tasks, recording.0.to_vec());
    let mut inputs = inputs(cell, jobs, compiled.predictors(cell).expect("predictors"));
    inputs.script = ReplayScript::new(recording.1.calls.clone());
    inputs.config = whose.config.clone();
    inputs.weights = whose.weights.bytes.clone();
    let mut policy = Sandboxed::new(by, cell.setting.limits).expect("alive");
    run(&mut policy, Box::new(replay), inputs).expect("balanced books")
}

#[test]
fn a_recorded_run_followed_is_the_same_run_and_says_who_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    // Who is compared with itself, and with whom else.
    for (spec, one, other) in [(rigid(), 2, 0), (cut(), 2, 0), (elastic(), 0, 4)] {
        let plan = expand(folder.path(), &spec);
        let sandbox = sandbox();
        let components: Vec<Component> = plan.cells.iter().map(|cell| load(&sandbox, cell)).collect();
        for (cell, component) in plan.cells.iter().zip(&components) {
            let compiled = Compiled::new(&Settings::default(), std::iter::empty()).expect("an engine");
            let jobs = cell.jobs().expect("jobs");
            let model = SimulatedBackend::new((*cell.fleet).clone(), jobs.clone(), &cell.setting.laws, cell.seed);
            let (recorder, steps) = Recorder::new(Box::new(model));
            let mut inputs = inputs(cell, jobs, compiled.predictors(cell).expect("predictors"));
            inputs.decision_log = Some(DecisionLog::default());
            // In the middle another takes over: that is followed too.
            let relief =
                Plans { at: vec![(Instant::at(1200 * SECOND), alive(&components[0], &plan.cells[0]))], fallback: None };
            inputs.succession = Some(Box::new(relief));
            let mut policy = Sandboxed::new(component, cell.setting.limits).expect("alive");
            let recorded = run(&mut policy, Box::new(recorder), inputs).expect("balanced books");
            let (steps, decision_log) = (steps.take(), recorded.decision_log.expect("a log of decisions"));
            for by in [(cell, component), (&plan.cells[1], &components[1])] {
                let again = followed(cell, by, (&steps, &decision_log));
                assert!(again.fault.is_none(), "{}: {}", cell.label, again.fault.as_ref().expect("a fault"));
                assert!(again.ledger.rows().eq(recorded.ledger.rows()), "{}", cell.label);
                assert!(again.ledger.segments().eq(recorded.ledger.segments()), "{}", cell.label);
                let agreement = again.agreement.expect("a comparison");
                assert_eq!(agreement.lost, None, "{}", cell.label);
                assert_eq!(agreement.calls, decision_log.calls.len() as u64, "{}", cell.label);
            }
        }
        // Until the takeover whoever was recorded decides as recorded.
        let cell = &plan.cells[one];
        let jobs = cell.jobs().expect("jobs");
        let compiled = Compiled::new(&Settings::default(), std::iter::empty()).expect("an engine");
        let model = SimulatedBackend::new((*cell.fleet).clone(), jobs.clone(), &cell.setting.laws, cell.seed);
        let (recorder, steps) = Recorder::new(Box::new(model));
        let mut inputs = inputs(cell, jobs, compiled.predictors(cell).expect("predictors"));
        inputs.decision_log = Some(DecisionLog::default());
        let mut policy = Sandboxed::new(&components[one], cell.setting.limits).expect("alive");
        let recorded = run(&mut policy, Box::new(recorder), inputs).expect("balanced books");
        let (steps, decision_log) = (steps.take(), recorded.decision_log.expect("a log of decisions"));
        let starts =
            decision_log.calls.iter().flat_map(|call| &call.actions).filter(|act| matches!(act, Action::Start(_)));
        assert!(starts.count() > 0);
        let again = followed(cell, (cell, &components[one]), (&steps, &decision_log));
        let agreement = again.agreement.expect("a comparison");
        assert_eq!((agreement.alike, agreement.first), (agreement.calls, None), "{}", cell.label);
        let other = followed(cell, (&plan.cells[other], &components[other]), (&steps, &decision_log))
            .agreement
            .expect("a comparison");
        assert!(other.alike < other.calls && other.first.is_some(), "{}: {other:?}", cell.label);
    }
}

/// What may take as long as it likes by its fuel is ended by the clock of a live run.
#[test]
fn a_slow_decision_is_a_fault_where_there_is_a_deadline() {
    let deadline = Some(std::time::Duration::from_millis(30));
    let sandbox = Sandbox::new(&Settings { deadline, ..Settings::default() }).expect("a sandbox");
    let bytes = guest(&Parts { decide: endless(""), ..Parts::default() });
    let component = sandbox.load(&bytes).expect("a policy");
    let folder = tempfile::tempdir().expect("a folder");
    let plan = expand(folder.path(), &rigid());
    let cell = &plan.cells[0];
    let endless = Limits { decide_fuel: 1 << 52, ..cell.setting.limits };
    let jobs = cell.jobs().expect("jobs");
    let model = SimulatedBackend::new((*cell.fleet).clone(), jobs.clone(), &cell.setting.laws, cell.seed);
    let mut inputs = inputs(cell, jobs, Default::default());
    inputs.limits = endless;
    let mut policy = Sandboxed::new(&component, endless).expect("alive");
    let finished = run(&mut policy, Box::new(model), inputs).expect("balanced books");
    assert_eq!(finished.fault.as_ref().map(Fault::kind), Some("too-slow"));
}

/// LAS that takes over from LAS knows what jobs have had: the long job that runs is preempted by a new one at once, and one that waits
/// after it ran long does not come before it.
#[test]
fn a_policy_that_takes_over_knows_what_jobs_have_had() {
    let folder = tempfile::tempdir().expect("a folder");
    // By 100 s job 0 has had 40 s × 2 GPUs and waits, job 1 runs and has had 60 s × 2; both have left the first queue.
    let spec = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 2, kind: \"g\", speed: 1.0), workload: Jobs([
        Job(submit: \"0s\", gpus: 2, duration: \"300s\"),
        Job(submit: \"40s\", gpus: 2, duration: \"300s\"),
        Job(submit: \"110s\", gpus: 2, duration: \"10s\"),
    ]), costs: Costs(start: \"0s\", checkpoint: \"0s\", restore: \"0s\"), policies: [Policy(name: \"las\", with: {\"limits\": [60, 100000]}), Policy(name: \"fifo\")])";
    let plan = expand(folder.path(), spec);
    let (las, fifo) = (&plan.cells[0], &plan.cells[1]);
    let sandbox = sandbox();
    let component = load(&sandbox, las);
    let starts = |finished: &Finished| -> Vec<_> {
        assert!(finished.fault.is_none(), "{:?}", finished.fault);
        finished.ledger.segments().map(|stay| (stay.job, stay.from, stay.to)).collect()
    };
    let alone = relayed(las, &component, None);
    let again = Plans { at: vec![(Instant::at(100 * SECOND), alive(&component, las))], fallback: None };
    let relay = relayed(las, &component, Some(again));
    assert_eq!(relay.takeovers.len(), 1);
    assert_eq!(starts(&relay), starts(&alone));
    let short =
        |finished: &Finished| finished.ledger.row(JobId::new(2)).end.map(sandtable_hardware::Instant::since_start);
    assert_eq!(short(&relay), Some(120 * SECOND));
    // From FIFO too, under which the first job has had all of the 100 s: the second takes its turn at once.
    let plans = Plans { at: vec![(Instant::at(100 * SECOND), alive(&component, las))], fallback: None };
    let from_fifo = relayed(fifo, &load(&sandbox, fifo), Some(plans));
    let second = from_fifo.ledger.row(JobId::new(1)).first_start.map(sandtable_hardware::Instant::since_start);
    assert_eq!(second, Some(100 * SECOND));
}
