use sandtable_needs::needs;
use sandtable_policy::testing::{self, arrival, data, demand};
use sandtable_policy::{
    Batch, Cluster, Draws, Event, Fresh, GpuType, Introductions, JobEnd, Knowledge, Node as Machine, NodeChange,
    NodeHealth, Quantity, Setup, Sharing, Topology, Trigger,
};
use serde_json::Value;

use crate::PredictedCluster;
use crate::queue::{cluster, credit, richest};
use crate::score::{Form, Gpu, Rules, Task};

fn golden(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data(&format!("horus-golden/{file}"))).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn task(value: &Value) -> Task {
    let (util_avg, util_max) = (number(value, "util_avg"), number(value, "util_max"));
    Task { util_avg, util_max, memory: number(value, "mem_mib"), alone: false }
}

fn gpu(value: &Value) -> Gpu {
    let mut gpu = Gpu::empty(number(value, "mem_mib"));
    list(&value["tasks"]).iter().for_each(|resident| gpu.push(&task(resident)));
    gpu
}

#[needs("data:horus-golden")]
#[test]
fn scores_are_the_golden_ones() {
    let cases = golden("score_cases.json");
    assert_eq!(cases.len(), 27);
    for case in &cases {
        let (gpu, task) = (gpu(&case["gpu"]), task(&case["task"]));
        let rules = |form| Rules { form, ..Rules::default() };
        assert_eq!(rules(Form::Normalised).fits(&gpu, &task), case["fits"].as_bool().expect("a flag"), "{case}");
        let forms = [(Form::Normalised, "cost"), (Form::Compat, "cost_compat"), (Form::Gandiva, "gandiva_cost")];
        for (form, key) in forms {
            let found = rules(form).cost(&gpu, &task);
            assert!((found - number(case, key)).abs() < 1e-9, "{key}: {found} of {case}");
        }
    }
}

#[needs("data:horus-golden")]
#[test]
fn credits_are_the_golden_ones() {
    let cases = golden("horus_plus_credit_cases.json");
    assert_eq!(cases.len(), 12);
    for case in &cases {
        let of = |queue: &Value| {
            let mut waits: Vec<f64> = list(queue).iter().map(|wait| wait.as_f64().expect("a wait")).collect();
            waits.sort_by(f64::total_cmp);
            credit(waits.len(), |at| waits[at])
        };
        let credits: Vec<f64> = list(&case["pending_times"]).iter().map(of).collect();
        let expected: Vec<f64> = list(&case["credits"]).iter().map(|x| x.as_f64().expect("a credit")).collect();
        assert_eq!(credits, expected, "{case}");
        assert_eq!(richest(&credits), case["pick"].as_u64().map(|at| at as usize), "{case}");
    }
}

#[test]
fn nobody_waiting_or_hardly_is_no_median() {
    assert_eq!(credit(0, |_| 5.0), 0.0);
    assert_eq!(credit(2, |at| [0.2, 0.4][at]), 2.0);
    assert_eq!(richest(&[0.0, 0.0]), None);
    assert_eq!(richest(&[3.0, 3.0]), Some(0));
}

#[test]
fn clusters_part_what_is_far_apart_and_are_drawn_from_the_seed() {
    let rows: Vec<Vec<f64>> = (0..10).map(|x| vec![if x < 5 { f64::from(x) } else { 1000.0 + f64::from(x) }]).collect();
    // From random members both clusters may begin on one side: of several seeds most must part them.
    let parted = (0..20).filter(|seed| {
        let of = cluster(&rows, &[1; 10], 2, &mut Draws::new(*seed));
        of[..5].iter().all(|at| *at == of[0]) && of[5..].iter().all(|at| *at == of[5]) && of[0] != of[5]
    });
    assert!(parted.count() >= 15);
    assert_eq!(cluster(&rows, &[1; 10], 3, &mut Draws::new(7)), cluster(&rows, &[1; 10], 3, &mut Draws::new(7)));
    assert_eq!(cluster(&rows, &[1; 10], 1, &mut Draws::new(7)), [0; 10]);
    assert!(cluster(&[], &[], 3, &mut Draws::new(7)).is_empty());
}

#[test]
fn a_task_that_must_be_alone_gets_an_empty_gpu_and_keeps_it() {
    let light = Task { util_avg: 10.0, util_max: 10.0, memory: 100.0, alone: false };
    let lonely = Task { alone: true, memory: 1e9, ..light };
    let gpu = |tasks: &[Task]| {
        let mut gpu = Gpu::empty(16_384.0);
        tasks.iter().for_each(|task| gpu.push(task));
        gpu
    };
    let rules = Rules::default();
    assert!(rules.admits(&gpu(&[]), &lonely));
    assert!(!rules.admits(&gpu(&[light]), &lonely));
    assert!(!rules.admits(&gpu(&[lonely]), &light));
}

/// What a host says: utilisation and memory by the job's number.
struct Said;

impl sandtable_policy::host::Host for Said {
    fn estimate(&self, what: Quantity, jobs: &[u32], _: &[u32]) -> Vec<f64> {
        let of = |job: &u32| match what {
            Quantity::Utilisation => f64::from(job * 37 % 100) / 100.0,
            _ => f64::from(job * 1013 % 9000),
        };
        jobs.iter().map(of).collect()
    }
}

/// `PredictedCluster` remembers costs by node and by kind of task: through arrivals, ends and failed nodes its plans are those
/// that are worked out afresh.
#[test]
fn what_is_remembered_is_what_would_be_worked_out() {
    sandtable_policy::host::stand_in(Box::new(Said));
    let kind =
        |id: u32, memory_mib: u32| GpuType { id, name: format!("g{id}"), memory_mib, sharing: Sharing::Packed(3) };
    let node = |id: u32| Machine { gpu_type: id % 2, domains: vec![id / 2], ..testing::node(id, id * 3, 3) };
    let topology = Topology {
        gpu_types: vec![kind(0, 16_000), kind(1, 24_000)],
        levels: vec!["rack".into()],
        nodes: (0..6).map(node).collect(),
    };
    let setup = Setup {
        config: "{}".into(),
        seed: 0,
        weights: vec![],
        topology: topology.clone(),
        knowledge: Knowledge::all(),
        references: vec![],
        services: vec![],
        queues: vec![],
        max_actions: 1000,
    };
    let rules = Rules { theta: Some(120.0), twice: false, ..Rules::default() };
    let mut cluster = Cluster::new(&topology);
    let mut view = PredictedCluster::new("test", rules, 1.0, &setup).expect("a predicted cluster");
    let (mut draws, mut running, mut planned) = (Draws::new(5), Vec::new(), 0);
    for step in 0..400u32 {
        let mut events = Vec::new();
        if running.len() > 12 || (!running.is_empty() && draws.below(3) == 0) {
            let job = running.swap_remove(draws.below(running.len()));
            events.push(Event::JobEnded(JobEnd { job, at: u64::from(step) }));
        }
        if draws.below(20) == 0 {
            let (node, up) = (draws.below(6) as u32, draws.below(2) == 0);
            let health = if up { NodeHealth::Up } else { NodeHealth::Down };
            events.push(Event::NodeChanged(NodeChange {
                node,
                at: u64::from(step),
                health,
                until: sandtable_policy::NEVER,
            }));
        }
        let gpus = 1 + draws.below(4) as u32;
        let (at, job) = (u64::from(step), step);
        events.push(Event::JobArrived(arrival(job, step, at)));
        let users = if step == 0 { vec![String::new()] } else { vec![] };
        let new = Introductions { classes: vec![demand(gpus)], users, ..Introductions::default() };
        let batch = Batch { seq: at, now: at, trigger: Trigger::Event, fresh: Fresh::CLASSES, events };
        cluster.take_in(&batch, new);
        view.take_in(&batch.events, &cluster);
        view.refresh(&cluster);
        let job = cluster.job(step).clone();
        let remembered = view.plan(&cluster, &job);
        let mut afresh = PredictedCluster::new("test", rules, 1.0, &setup).expect("a predicted cluster");
        afresh.refresh(&cluster);
        assert_eq!(remembered, afresh.plan(&cluster, &job), "step {step}");
        if let Some(gpus) = remembered {
            view.start(&mut cluster, step, gpus);
            running.push(step);
            planned += 1;
        }
    }
    assert!(planned > 100, "{planned} plans");
}

/// Nothing is known of how much of a GPU a job uses.
struct Unsaid;

impl sandtable_policy::host::Host for Unsaid {
    fn estimate(&self, what: Quantity, jobs: &[u32], _: &[u32]) -> Vec<f64> {
        vec![if what == Quantity::Memory { 100.0 } else { f64::NAN }; jobs.len()]
    }
}

#[test]
fn a_job_of_which_the_utilisation_is_unknown_shares_no_gpu() {
    sandtable_policy::host::stand_in(Box::new(Unsaid));
    let mut topology = testing::topology(&[2]);
    topology.gpu_types[0] =
        GpuType { memory_mib: 16_000, sharing: Sharing::Packed(3), ..topology.gpu_types[0].clone() };
    let setup = Setup { topology: topology.clone(), ..testing::setup("{}", &[2], 1000) };
    let mut cluster = Cluster::new(&topology);
    let mut view = PredictedCluster::new("test", Rules::default(), 1.0, &setup).expect("a predicted cluster");
    let (batch, new) = testing::arrivals(vec![demand(1), demand(1), demand(1)]);
    cluster.take_in(&batch, new);
    view.refresh(&cluster);
    let mut placed = Vec::new();
    for job in 0..3 {
        let gpus = view.plan(&cluster, &cluster.job(job).clone());
        gpus.iter().for_each(|gpus| view.start(&mut cluster, job, gpus.clone()));
        placed.push(gpus);
    }
    assert_eq!(placed, [Some(vec![0]), Some(vec![1]), None]);
}
