use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use sandtable_needs::needs;
use sandtable_policy::driver::Driver;
use sandtable_policy::host::{Host, stand_in};
use sandtable_policy::testing::{self, arrival, arrivals, data, demand};
use sandtable_policy::{
    Action, Arrival, ChangeCause, Communication, Event, Fresh, GpuId, GpuType, Introductions, JobEnd, ModelFacts,
    NEVER, Node, PhaseChange, Sharing, Throughput, Topology, WorkloadProfile,
};

/// Rows of a CSV as maps.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_path(path).expect("a file").deserialize().map(|row| row.expect("a row")).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {}", row[column]))
}

const SETS: [(&str, &str); 4] =
    [("2080ti(2)", "2080Ti"), ("dgx-a100", "A100"), ("TitanRTX", "TitanRTX"), ("TITANXP", "TitanXp")];

/// Facts of a model of which nothing was counted.
fn nothing(model: &str) -> ModelFacts {
    ModelFacts {
        model: model.into(),
        parameters: f64::NAN,
        layer_multiply_adds: f64::NAN,
        layer_outputs: f64::NAN,
        layer_traffic: f64::NAN,
        elementwise_outputs: f64::NAN,
        depth: f64::NAN,
        flops: f64::NAN,
        multiply_adds: f64::NAN,
        additions: f64::NAN,
        comparisons: f64::NAN,
        divisions: f64::NAN,
        exponentials: f64::NAN,
        activation_bytes: f64::NAN,
        parameter_bytes: f64::NAN,
        other_bytes: f64::NAN,
        group_nodes: vec![],
        group_flops: vec![],
    }
}

/// Every model of the benchmark, as measured in training at one precision.
fn references(precision: &str) -> Vec<Reference> {
    let (features, steps) =
        (data("torchvision-gpu-bench/model_features.csv"), data("torchvision-gpu-bench/step_ms.csv"));
    let mut rates: BTreeMap<String, BTreeMap<(u32, u32), f64>> = BTreeMap::new();
    for row in rows(&steps) {
        let Some(kind) = SETS.iter().position(|(set, _)| *set == row["set"]) else { continue };
        if row["precision"] == precision && row["mode"] == "train" {
            let gpus = number(&row, "n_gpus") as u32;
            let rate = 12.0 * f64::from(gpus) * 1000.0 / number(&row, "median_ms");
            rates.entry(row["model"].clone()).or_default().insert((kind as u32, gpus), rate);
        }
    }
    let of = |row: &BTreeMap<String, String>| {
        let facts = ModelFacts {
            parameters: number(row, "params"),
            layer_multiply_adds: number(row, "macs"),
            layer_outputs: number(row, "conv_act_elems"),
            elementwise_outputs: number(row, "eltwise_elems"),
            depth: number(row, "depth"),
            layer_traffic: number(row, "conv_io_elems"),
            ..nothing(&row["model"])
        };
        let features = Features::Core6.of(&facts);
        let (model, family) = (facts.model.clone(), row["family"].clone());
        Reference { rates: rates[&model].clone(), model, family, features }
    };
    rows(&features).iter().map(of).collect()
}

/// Mean absolute error of the speed-up over a TITAN Xp, each model left out in turn; checks every line of the golden.
fn leave_one_out(precision: &str) -> f64 {
    let all = references(precision);
    let golden = rows(&data("torchvision-gpu-bench/similarity_golden_lomo.csv"));
    assert_eq!(golden.len(), 32);
    let mut errors = Vec::new();
    for row in &golden {
        let own = all.iter().find(|reference| reference.model == row["model"]).expect("a model");
        let others = all.iter().filter(|reference| reference.model != own.model).cloned().collect();
        let table = Table::new(others, 4, Measure::Euclid);
        let like = table.like(&own.model, &own.family, &own.features).expect("a likeness");
        assert_eq!(table.references()[like.nearest].model, row["nearest"], "{}", row["model"]);
        assert!((like.distance - number(row, "distance")).abs() < 1e-8, "{}: {}", row["model"], like.distance);
        let predicted = table.predict(&like, &own.features, 1, false);
        for (kind, (_, name)) in SETS.iter().enumerate().filter(|(_, (_, name))| *name != "TitanXp") {
            let found = libm::exp(predicted[kind] - predicted[3]);
            let column = |what: &str| number(row, &format!("{precision}_{name}_{what}"));
            assert!((found - column("pred")).abs() < 1e-6, "{} {name}: {found}", row["model"]);
            errors.push((found / column("true") - 1.0).abs());
        }
    }
    100.0 * errors.iter().sum::<f64>() / errors.len() as f64
}

#[needs("data:torchvision-gpu-bench")]
#[test]
fn leave_one_out_is_as_measured() {
    for (precision, expected) in [("float", 8.25), ("half", 12.74)] {
        let found = leave_one_out(precision);
        assert!((found - expected).abs() <= 0.01, "{precision}: {found}");
    }
}

/// A workload whose facts are these features, measured or not.
fn workload(reference: &Reference, measured: bool) -> WorkloadProfile {
    // The features are logarithms of counts: from them come counts that have them.
    let count = |at: usize| libm::exp10(reference.features[at]);
    let facts = ModelFacts {
        model: reference.model.clone(),
        parameters: count(0),
        layer_multiply_adds: count(1),
        layer_outputs: count(2),
        elementwise_outputs: count(3),
        depth: count(4),
        layer_traffic: count(1) / count(5) - count(0),
        ..nothing(&reference.model)
    };
    let rate = |((gpu_type, gpus), rate): (&(u32, u32), &f64)| Throughput {
        gpu_type: *gpu_type,
        gpus: *gpus,
        per_second: *rate,
    };
    WorkloadProfile {
        workload: reference.model.clone(),
        family: reference.family.clone(),
        batch: f64::NAN,
        mixed_precision: true,
        gradient_gb: f64::NAN,
        communication: Communication::Ring,
        facts: Some(facts),
        gpu_utilisation: vec![],
        memory_utilisation: vec![],
        memory_mib: vec![],
        step_time: vec![],
        throughput: reference.rates.iter().filter(|_| measured).map(rate).collect(),
        stages: vec![],
    }
}

/// The golden's cases through the policy itself: a node of each type with so many GPUs, all jobs in one batch.
#[needs("data:torchvision-gpu-bench", "data:clwp-golden")]
#[test]
fn fifteen_match_cases_are_exact() {
    let (all, path) = (references("half"), data("clwp-golden/match_cases.json"));
    let golden: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON");
    let is_reference = |reference: &&Reference| {
        golden["references"].as_array().expect("names").contains(&reference.model.clone().into())
    };
    let measured: Vec<Reference> = all.iter().filter(is_reference).cloned().collect();
    let table = Table::new(measured.clone(), 4, Measure::Euclid);
    let cases = golden["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 15);
    for case in cases {
        let number = |value: &serde_json::Value| value.as_u64().expect("a number") as u32;
        let (mut nodes, mut first_gpu) = (Vec::new(), 0);
        for (kind, (_, name)) in SETS.iter().enumerate() {
            let gpus = number(&case["free"][*name]);
            if gpus > 0 {
                let node = testing::node(nodes.len() as u32, first_gpu, gpus);
                nodes.push(Node { name: (*name).to_string(), gpu_type: kind as u32, ..node });
                first_gpu += gpus;
            }
        }
        let kind = |(id, (_, name)): (usize, &(&str, &str))| GpuType {
            id: id as u32,
            name: (*name).to_string(),
            memory_mib: 0,
            sharing: Sharing::Exclusive,
        };
        let setup = Setup {
            config: "{\"blend\": false}".into(),
            seed: 0,
            weights: vec![],
            topology: Topology {
                gpu_types: SETS.iter().enumerate().map(kind).collect(),
                levels: vec![],
                nodes: nodes.clone(),
            },
            knowledge: Knowledge::all(),
            references: measured.iter().map(|reference| workload(reference, true)).collect(),
            services: vec![],
            queues: vec![],
            max_actions: 1000,
        };
        let (mut driver, _) = Driver::<Similarity>::new(setup).expect("a policy");
        let (mut demands, mut queue, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for job in case["queue"].as_array().expect("a queue") {
            let model = all.iter().find(|reference| Some(reference.model.as_str()) == job[1].as_str());
            demands.push(demand(number(&job[2])));
            queue.push(workload(model.expect("a model"), false));
            ids.push(number(&job[0]));
        }
        let (mut batch, mut new) = arrivals(demands);
        for event in &mut batch.events {
            if let Event::JobArrived(arrival) = event {
                arrival.workload = arrival.job;
            }
        }
        new.workloads.clone_from(&queue);
        // Nodes of no GPU are none: a gang for them waits.
        let plan = driver.decide(&batch, new).expect("a plan");
        let expected = case["expected"].as_array().expect("decisions");
        let starts: Vec<_> = plan
            .actions
            .iter()
            .map(|action| match action {
                Action::Start(start) => start,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(starts.len(), expected.len(), "{case}");
        for (start, expected) in starts.iter().zip(expected) {
            let node = nodes.iter().rfind(|node| node.first_gpu <= start.gpus[0]).expect("a node");
            assert_eq!(ids[start.job as usize], number(&expected["job"]), "{expected}");
            assert_eq!(node.name, expected["arch"].as_str().expect("a type"), "{expected}");
            let own = &queue[start.job as usize];
            let features = Features::Core6.of(own.facts.as_ref().expect("facts"));
            let like = table.like(&own.workload, &own.family, &features).expect("a likeness");
            assert_eq!(table.references()[like.nearest].model, expected["nearest"].as_str().expect("a model"));
            let gang = start.gpus.len() as u32;
            let advantage = table.advantage(&table.predict(&like, &features, gang, false), gang);
            let found = advantage[node.gpu_type as usize];
            assert!((found - expected["adv"].as_f64().expect("a score")).abs() < 1e-8, "{found} {expected}");
        }
    }
}

fn reference(model: &str, features: &[f64], rates: &[f64]) -> Reference {
    let rates = rates.iter().enumerate().map(|(kind, rate)| ((kind as u32, 1), *rate)).collect();
    Reference { model: model.into(), family: model.into(), features: features.to_vec(), rates }
}

#[test]
fn a_gang_that_nobody_measured_is_worth_its_gpus() {
    let table = Table::new(vec![reference("a", &[1.0], &[10.0, 30.0])], 2, Measure::Euclid);
    let like = table.like("a", "a", &[1.0]).expect("a likeness");
    let (one, eight) = (table.predict(&like, &[1.0], 1, true), table.predict(&like, &[1.0], 8, true));
    assert!(one.iter().zip(&eight).all(|(a, b)| (a - b).abs() < 1e-12), "{one:?} {eight:?}");
}

#[test]
fn measures_agree_on_what_is_the_same_and_differ_on_the_rest() {
    let all = [
        reference("a", &[1.0, 5.0], &[1.0, 2.0]),
        reference("b", &[2.0, 1.0], &[1.0, 3.0]),
        reference("c", &[4.0, 2.0], &[1.0, 4.0]),
    ];
    for word in Measure::WORDS {
        let table = Table::new(all.to_vec(), 2, Measure::named(word));
        for reference in &all {
            let like = table.like("other", "other", &reference.features).expect("a likeness");
            assert_eq!(table.references()[like.nearest].model, reference.model, "{word}");
            assert!(like.distance.abs() < 1e-12, "{word}: {like:?}");
        }
        assert_eq!(table.like("other", "other", &[f64::NAN, 1.0]), None);
    }
}

#[test]
fn a_stranger_is_judged_by_the_regression_too() {
    let all: Vec<Reference> =
        (1..6).map(|x| reference(&format!("r{x}"), &[f64::from(x)], &[1.0, f64::from(x)])).collect();
    let table = Table::new(all, 2, Measure::Euclid);
    let like = table.like("far", "far", &[40.0]).expect("a likeness");
    assert!(like.unseen && like.distance > 3.0);
    let (blended, nearest) = (table.predict(&like, &[40.0], 1, true), table.predict(&like, &[40.0], 1, false));
    // The regression is cut to what the references show: it can't run away.
    assert!((blended[1] - nearest[1]).abs() < 0.5, "{blended:?} {nearest:?}");
    let kin = table.like("near", "r3", &[3.1]).expect("a likeness");
    assert!(!kin.unseen);
}

/// Every job has an hour left, uses a tenth of a GPU, and runs beside another at full speed.
struct AnHour;

impl Host for AnHour {
    fn estimate(&self, what: Quantity, jobs: &[JobId], _: &[GpuTypeId]) -> Vec<f64> {
        vec![if what == Quantity::Remaining { 3600.0 } else { 0.1 }; jobs.len()]
    }

    fn pair_speed(&self, _: GpuTypeId, jobs: &[JobId], _: &[Vec<JobId>]) -> Vec<f64> {
        vec![1.0; jobs.len()]
    }
}

/// Models, their features, and how fast each type is.
const MODELS: [(&str, [f64; 6], [f64; 2]); 3] = [
    ("cnn", [7.0, 9.0, 7.0, 7.0, 2.0, 1.0], [4.0, 1.0]),
    ("rnn", [6.0, 8.0, 6.0, 6.0, 1.0, 1.5], [1.0, 1.0]),
    ("mlp", [5.0, 7.0, 5.0, 5.0, 1.5, 2.0], [1.0, 4.0]),
];

/// A policy on nodes of these types and GPUs, and batches for it.
struct Desk {
    driver: Driver<Similarity>,
    now: Instant,
    told: Vec<Event>,
    jobs: u32,
    sharing: bool,
}

impl Desk {
    /// Three references: the first gains most from the fast type, the third from the slow one.
    fn new(config: &str, nodes: &[(GpuTypeId, u32)], sharing: bool) -> Desk {
        stand_in(Box::new(AnHour));
        let gpus: Vec<u32> = nodes.iter().map(|(_, gpus)| *gpus).collect();
        let mut setup = testing::setup(config, &gpus, 1000);
        let how = if sharing { Sharing::Packed(2) } else { Sharing::Exclusive };
        let kind = |id: u32| GpuType {
            id,
            name: ["fast", "slow"][id as usize].into(),
            memory_mib: 16_384,
            sharing: how.clone(),
        };
        setup.topology.gpu_types = vec![kind(0), kind(1)];
        for (node, (kind, _)) in setup.topology.nodes.iter_mut().zip(nodes) {
            node.gpu_type = *kind;
        }
        setup.references =
            MODELS.iter().map(|(model, features, rates)| workload(&reference(model, features, rates), true)).collect();
        let (driver, _) = Driver::<Similarity>::new(setup).expect("a policy");
        Desk { driver, now: 0, told: Vec::new(), jobs: 0, sharing }
    }

    /// Jobs of the first model arrive, of these many GPUs.
    fn submit(&mut self, gpus: &[u32]) -> Introductions {
        self.submit_of(0, gpus)
    }

    /// Jobs of a model arrive, of these many GPUs.
    fn submit_of(&mut self, model: u32, gpus: &[u32]) -> Introductions {
        let mut new = Introductions::default();
        if self.jobs == 0 {
            new.classes = vec![demand(1), demand(2)];
            let classes = new.classes.iter_mut();
            classes.for_each(|class| class.share_milli = if self.sharing { 500 } else { 1000 });
            new.users = vec![String::new()];
            let known =
                |(model, features, _): &(&str, [f64; 6], [f64; 2])| workload(&reference(model, features, &[]), false);
            new.workloads = MODELS.iter().map(known).collect();
        }
        for gpus in gpus {
            let told = arrival(self.jobs, *gpus - 1, self.now);
            self.told.push(Event::JobArrived(Arrival { workload: model, ..told }));
            self.jobs += 1;
        }
        new
    }

    fn ends(&mut self, job: JobId) {
        self.told.push(Event::JobEnded(JobEnd { job, at: self.now }));
    }

    /// Calls the policy: jobs that it starts and their GPUs, and jobs that it preempts, which are queued at once.
    fn call(&mut self, trigger: Trigger, new: Introductions) -> (Vec<(JobId, Vec<GpuId>)>, Vec<JobId>) {
        let events = std::mem::take(&mut self.told);
        let batch = Batch { seq: self.now, now: self.now, trigger, fresh: Fresh::all(), events };
        let plan = self.driver.decide(&batch, new).expect("a plan");
        let (mut starts, mut preempted) = (Vec::new(), Vec::new());
        for action in plan.actions {
            let (job, phase) = match action {
                Action::Start(start) => {
                    starts.push((start.job, start.gpus));
                    (start.job, JobPhase::Running)
                }
                Action::Preempt(preempt) => {
                    preempted.push(preempt.job);
                    (preempt.job, JobPhase::Queued)
                }
                Action::SetTimer(_) => continue,
                other => panic!("{other:?}"),
            };
            let change = PhaseChange { job, phase, at: self.now, cause: ChangeCause::Asked, remaining: NEVER };
            self.told.push(Event::JobChanged(change));
        }
        (starts, preempted)
    }
}

const HOUR: Instant = 3_600_000_000;

#[test]
fn a_head_that_has_waited_long_enough_keeps_a_node_before_others_are_started() {
    let mut desk = Desk::new("{}", &[(0, 2)], false);
    let new = desk.submit(&[1, 1, 2, 1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(0, vec![0]), (1, vec![1])]);
    desk.now = 3 * HOUR;
    desk.ends(0);
    assert_eq!(desk.call(Trigger::Event, Introductions::default()).0, [], "the GPU is kept for job 2");
    desk.now = 4 * HOUR;
    desk.ends(1);
    assert_eq!(desk.call(Trigger::Event, Introductions::default()).0, [(2, vec![0, 1])]);
}

#[test]
fn what_is_kept_for_the_head_takes_no_partner_of_a_job_there() {
    let mut desk = Desk::new("{\"packing\": true}", &[(0, 1), (0, 2)], true);
    let new = desk.submit(&[1, 1, 1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(0, vec![0]), (1, vec![1]), (2, vec![2])]);
    let new = desk.submit(&[2]);
    desk.now = 1;
    desk.call(Trigger::Event, new);
    desk.now = 3 * HOUR;
    let new = desk.submit(&[1, 1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(4, vec![0])], "the node of two GPUs is kept for job 3");
}

#[test]
fn a_round_moves_a_job_to_the_type_that_it_gains_most_from_while_none_waits() {
    let mut desk = Desk::new("{\"round\": 360}", &[(0, 1), (1, 1)], false);
    let new = desk.submit(&[1, 1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(0, vec![0]), (1, vec![1])]);
    desk.now = HOUR / 20;
    desk.ends(0);
    desk.call(Trigger::Event, Introductions::default());
    desk.now = HOUR / 10;
    assert_eq!(desk.call(Trigger::Round, Introductions::default()).1, [1]);
    assert_eq!(desk.call(Trigger::Timer, Introductions::default()).0, [(1, vec![0])]);
}

#[test]
fn two_jobs_of_one_gpu_stay_together_in_a_round() {
    let mut desk = Desk::new("{\"round\": 360, \"packing\": true}", &[(0, 1), (1, 1)], true);
    let new = desk.submit(&[1, 1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(0, vec![0]), (1, vec![1])]);
    desk.now = 1;
    let new = desk.submit(&[1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(2, vec![0])]);
    desk.now = HOUR / 10;
    assert_eq!(desk.call(Trigger::Round, Introductions::default()), (vec![], vec![]));
}

#[test]
fn a_job_whose_place_another_takes_in_a_round_finds_one_and_is_not_moved_again() {
    let mut desk = Desk::new("{\"round\": 360, \"packing\": true}", &[(0, 1), (1, 1)], true);
    let new = desk.submit_of(1, &[1, 1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(0, vec![0]), (1, vec![1])]);
    // The third gains most from the slow type, and joins the first on the fast one.
    desk.now = 1;
    let new = desk.submit_of(2, &[1]);
    assert_eq!(desk.call(Trigger::Event, new).0, [(2, vec![0])]);
    desk.now = HOUR / 10;
    assert_eq!(desk.call(Trigger::Round, Introductions::default()).1, [1, 2]);
    desk.now += 1;
    let mut starts = desk.call(Trigger::Timer, Introductions::default()).0;
    desk.now += 1;
    starts.extend(desk.call(Trigger::Timer, Introductions::default()).0);
    assert!(starts.contains(&(2, vec![1])) && starts.iter().any(|(job, _)| *job == 1), "{starts:?}");
    desk.now = HOUR / 5;
    assert_eq!(desk.call(Trigger::Round, Introductions::default()), (vec![], vec![]));
}
