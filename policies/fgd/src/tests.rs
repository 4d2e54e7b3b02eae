//! Places on small nodes, by hand.

use sandtable_policy::driver::Driver;
use sandtable_policy::host::{Host, stand_in};
use sandtable_policy::testing::{arrivals, completion_times, demand, setup, topology};
use sandtable_policy::{
    Action, Batch, Demand, Event, Fresh, GpuTypeId, HostResources, Introductions, JobEnd, JobId, NodeId, Quantity,
    Setup, Sharing, Start, StartOn, Topology, Trigger,
};

use crate::Fgd;

/// Nodes of these GPUs and cores, whose GPUs are shared.
fn nodes(all: &[(u32, u32)]) -> Topology {
    let mut topology = topology(&all.iter().map(|(gpus, _)| *gpus).collect::<Vec<_>>());
    topology.gpu_types[0].sharing = Sharing::Shares;
    for (node, (_, cores)) in topology.nodes.iter_mut().zip(all) {
        node.host = HostResources { cpu_milli: cores * 1000, memory_mib: 0 };
    }
    topology
}

/// So many GPUs, or thousandths of one, and cores.
fn asking(gpus: u32, share_milli: u32, cores: u32) -> Demand {
    let host = HostResources { cpu_milli: cores * 1000, memory_mib: 0 };
    Demand { share_milli, host, preemptible: false, ..demand(gpus) }
}

fn driver(topology: Topology, config: &str) -> Driver<Fgd> {
    Driver::new(Setup { topology, ..setup(config, &[1], 1000) }).expect("a policy").0
}

/// Actions in words.
fn said(actions: &[Action]) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::StartOn(StartOn { job, node }) => format!("{job} on node {node}"),
        Action::Start(Start { job, gpus, .. }) => format!("{job} at {gpus:?}"),
        Action::Refuse(job) => format!("{job} refused"),
        other => format!("{other:?}"),
    };
    actions.iter().map(word).collect()
}

/// What becomes of jobs that come at once.
fn plan(topology: Topology, config: &str, demands: Vec<Demand>) -> Vec<String> {
    let (batch, new) = arrivals(demands);
    said(&driver(topology, config).decide(&batch, new).expect("a plan").actions)
}

#[test]
fn a_job_without_gpus_takes_cpu_where_there_is_some() {
    let two = [(1, 4), (1, 8)];
    let jobs = || vec![asking(0, 1000, 6), asking(0, 1000, 4), asking(0, 1000, 3)];
    // Best fit: the node on which the least is left. The third finds no place.
    let config = "{\"score\": \"best-fit\"}";
    assert_eq!(plan(nodes(&two), config, jobs()), ["0 on node 1", "1 on node 0"]);
    let refusing = "{\"score\": \"best-fit\", \"without_place\": \"refuse\"}";
    assert_eq!(plan(nodes(&two), refusing, jobs()), ["0 on node 1", "1 on node 0", "2 refused"]);
}

#[test]
fn a_share_goes_where_it_leaves_the_least_of_no_use() {
    // Most jobs ask for a whole GPU: a share joins a share, where best fit by nodes takes the fuller node.
    let config = "{\"score\": \"fgd\", \"typical\": 1}";
    let jobs = vec![asking(1, 400, 0), asking(1, 1000, 0), asking(1, 1000, 0), asking(1, 400, 0)];
    assert_eq!(plan(nodes(&[(2, 0), (4, 0)]), config, jobs), ["0 at [0]", "1 at [1]", "2 at [2]", "3 at [0]"]);
}

#[test]
fn a_whole_gpu_goes_to_a_used_node_or_to_its_own_kind() {
    // A share takes half of the first of two GPUs; beside that node is an empty one of four.
    let last = |score: &str| {
        let jobs = vec![asking(1, 500, 0), asking(1, 1000, 0)];
        plan(nodes(&[(2, 0), (4, 0)]), &format!("{{\"score\": \"{score}\"}}"), jobs).pop().expect("a start")
    };
    assert_eq!(last("packing"), "1 at [1]");
    assert_eq!(last("best-fit"), "1 at [1]");
    assert_eq!(last("dot-product"), "1 at [1]");
    assert_eq!(last("clustering"), "1 at [2]");
}

#[test]
fn ties_may_be_drawn() {
    let first = |seed| {
        let config = "{\"ties\": \"shuffled\"}";
        let setup = Setup { topology: nodes(&[(1, 0); 9]), seed, ..setup(config, &[1], 1) };
        let (batch, new) = arrivals(vec![asking(1, 1000, 0)]);
        said(&Driver::<Fgd>::new(setup).expect("a policy").0.decide(&batch, new).expect("a plan").actions)
    };
    assert_eq!(first(1), first(1));
    assert!((1..9).any(|seed| first(seed) != first(0)));
}

#[test]
fn a_gang_of_several_nodes_gets_them_packed() {
    let jobs = vec![asking(6, 1000, 0), asking(1, 1000, 0)];
    assert_eq!(plan(nodes(&[(4, 0), (4, 0)]), "{}", jobs), ["0 at [0, 1, 2, 3, 4, 5]", "1 at [6]"]);
}

#[test]
fn those_that_wait_are_tried_again_when_a_node_has_more_left() {
    let mut driver = driver(nodes(&[(1, 4)]), "{}");
    let (batch, new) = arrivals(vec![asking(0, 1000, 4), asking(0, 1000, 4), asking(1, 1000, 0)]);
    assert_eq!(said(&driver.decide(&batch, new).expect("a plan").actions), ["0 on node 0", "2 at [0]"]);
    let ended = vec![Event::JobEnded(JobEnd { job: 0, at: 5 })];
    let batch = Batch { seq: 2, now: 5, trigger: Trigger::Event, fresh: Fresh::empty(), events: ended };
    assert_eq!(said(&driver.decide(&batch, Introductions::default()).expect("a plan").actions), ["1 on node 0"]);
}

/// The job of another policy, on a node.
struct There(NodeId, JobId);

impl Host for There {
    fn estimate(&self, _: Quantity, jobs: &[JobId], _: &[GpuTypeId]) -> Vec<f64> {
        vec![f64::NAN; jobs.len()]
    }

    fn cpu_jobs(&self) -> (Vec<NodeId>, Vec<JobId>) {
        (vec![self.0], vec![self.1])
    }
}

#[test]
fn a_policy_that_takes_over_finds_jobs_without_gpus() {
    stand_in(Box::new(There(1, 0)));
    let (batch, new) = arrivals(vec![asking(0, 1000, 6), asking(0, 1000, 4), asking(0, 1000, 2)]);
    let batch = Batch { trigger: Trigger::Resync, ..batch };
    let plan = driver(nodes(&[(1, 3), (1, 8)]), "{}").decide(&batch, new).expect("a plan");
    // Two cores are left of the second node.
    assert_eq!(said(&plan.actions), ["2 on node 0"]);
}

#[test]
fn whole_gpus_of_nothing_else_are_shared_out_too() {
    // One node of two GPUs: the second job waits, the third goes first.
    assert_eq!(completion_times::<Fgd>("{}", &[2], &[(0, 1, 100), (10, 2, 50), (20, 1, 30)]), [100, 140, 30]);
}

#[test]
fn a_trace_of_typical_jobs_that_makes_no_sense_is_refused() {
    let weights = b"gpus\n1\nx\n".to_vec();
    let refused = Driver::<Fgd>::new(Setup { weights, ..setup("{}", &[1], 1) }).err().expect("refused");
    let why = "BadConfig(\"weights: line 3: `gpus`: expected a number up to 1000000, found \\\"x\\\"\")";
    assert_eq!(format!("{refused:?}").trim_start_matches("PolicyError::"), why);
}

#[test]
fn what_fits_no_single_node_is_split() {
    // Forty cores for four GPUs: a node of 32 has enough for three.
    let jobs = vec![asking(4, 1000, 40)];
    assert_eq!(plan(nodes(&[(4, 32), (4, 32)]), "{}", jobs), ["0 at [0, 1, 2, 4]"]);
}

#[test]
fn a_gang_of_another_shape_keeps_none_waiting() {
    let wide = |gpus_per_node| Demand { gpus_per_node, ..asking(16, 1000, 0) };
    let jobs = vec![asking(5, 1000, 0), asking(5, 1000, 0), asking(5, 1000, 0), wide(8), wide(0)];
    let started = plan(nodes(&[(8, 0); 4]), "{}", jobs);
    assert_eq!(started.len(), 4, "{started:?}");
    assert!(started[3].starts_with("4 at "), "{started:?}");
}

#[test]
fn device_memory_is_that_of_the_gpu() {
    let mut two = nodes(&[(2, 0)]);
    two.gpu_types[0].memory_mib = 16_000;
    let needs = |share: u32| Demand { memory_mib: 12_000, ..asking(1, share, 0) };
    let idle = Demand { memory_mib: 12_000, ..asking(0, 1000, 1) };
    // One whole, a share on the other; a second share would need more memory than is left. Without GPUs none is needed.
    let jobs = vec![needs(1000), needs(500), needs(500), idle];
    assert_eq!(plan(two, "{}", jobs), ["0 at [0]", "1 at [1]", "3 on node 0"]);
}
