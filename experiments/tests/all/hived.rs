//! HiveD's design example from the spec through the component: what becomes of groups of pods is what was published.

use std::collections::BTreeMap;

use sandtable_needs::needs;
use sandtable_results::schema::{JobRecord, Seconds, StayRecord};
use sandtable_runtime::JobOutcome;

use crate::help::{data, planned, results};

/// The nodes of the example, in the order of its file: kind, GPUs of each, and how many.
const NODES: [(&str, u32, u32); 4] =
    [("CT1", 2, 3), ("DGX1-P100", 8, 3), ("DGX2-V100", 16, 13), ("IB-DGX2-V100-V100", 16, 2)];

/// Name, queue, priority, kind of GPU, GPUs of each pod and how many pods; and the first node that was published, none where it waits, with
/// the first GPU there.
type Group = (&'static str, &'static str, i32, &'static str, u32, u32, Option<(u32, u32)>);

/// Groups in the order in which their pods come. That of two pods of different sizes is none that a job can be.
const GROUPS: [Group; 12] = [
    ("group1", "VC1-own", 0, "DGX2-V100", 1, 1, Some((6, 0))),
    ("group2", "VC1-own", 1, "DGX2-V100", 1, 1, Some((6, 1))),
    ("group3", "VC1-own", 2, "DGX2-V100", 8, 1, Some((6, 8))),
    ("group4", "VC1-own", -1, "DGX2-V100", 1, 1, Some((7, 0))),
    ("group5", "VC1-YQW-DGX2", 1, "DGX2-V100", 16, 2, Some((11, 0))),
    ("group7", "VC2", 1, "DGX1-P100", 8, 3, None),
    ("group11", "VC1-YQW-DGX2", 2, "DGX2-V100", 16, 2, Some((11, 0))),
    ("group12", "VC1-own", 1, "DGX2-V100", 16, 2, Some((13, 0))),
    ("group13", "VC1-own", 1, "DGX2-V100", 16, 2, Some((15, 0))),
    ("group14", "VC1-own", -1, "DGX2-V100", 16, 2, Some((17, 0))),
    ("group15", "VC2", 0, "CT1", 2, 1, Some((1, 0))),
    ("group16", "VC2", 1, "CT1", 2, 1, Some((0, 0))),
];

/// Groups that ask for what there is not.
const REFUSED: [(&str, &str, i32, &str); 3] =
    [("pod10", "VC2", 1, "DGX2-V100"), ("pod13", "surprise", 1, "DGX1-P100"), ("pod15", "VC2", 1001, "DGX1-P100")];

fn spec() -> String {
    let group = |(kind, gpus, nodes): (&str, u32, u32)| {
        format!("Group(nodes: {nodes}, gpus: {gpus}, kind: {kind:?}, speed: 1.0)")
    };
    let job = |(at, (name, queue, priority, kind, each, pods)): (usize, (&str, &str, i32, &str, u32, u32))| {
        format!(
            "Job(name: {name:?}, submit: \"{at}s\", gpus: {}, gpus_per_node: {each}, kinds: [{kind:?}], queue: {queue:?}, \
             priority: {priority}, duration: \"1000h\")",
            each * pods
        )
    };
    let placed = GROUPS
        .iter()
        .map(|(name, queue, priority, kind, each, pods, _)| (*name, *queue, *priority, *kind, *each, *pods));
    let refused = REFUSED.iter().map(|(name, queue, priority, kind)| (*name, *queue, *priority, *kind, 1, 1));
    let jobs: Vec<String> = placed.chain(refused).enumerate().map(job).collect();
    format!(
        "Experiment(title: \"hived\", fleet: Model(groups: [{}]), workload: Jobs([{}]), \
         queues: [Queue(name: \"VC1\"), Queue(name: \"VC1-own\", parent: \"VC1\"), Queue(name: \"VC1-YQW-DGX2\", parent: \"VC1\"), \
         Queue(name: \"VC2\"), Queue(name: \"surprise\")], \
         policies: [Policy(name: \"hived\", weights: {:?})])",
        NODES.map(group).join(", "),
        jobs.join(", "),
        data("hived/cluster.json")
    )
}

/// A job: its queue, when it comes, in seconds, its GPUs, its priority, and how long it takes, in seconds.
type Asks = (&'static str, u32, u32, i32, u32);

/// When jobs start without a file of cells, on so many nodes of so many GPUs; `queues` own what they are guaranteed.
fn starts_of((nodes, gpus): (u32, u32), queues: &[(&str, u32)], jobs: &[Asks]) -> Vec<f64> {
    let queue = |(name, own): &(&str, u32)| format!("Queue(name: {name:?}, guaranteed: {own})");
    let job = |(queue, at, gpus, priority, takes): &Asks| {
        format!("Job(submit: \"{at}s\", gpus: {gpus}, queue: {queue:?}, priority: {priority}, duration: \"{takes}s\")")
    };
    let spec = format!(
        "Experiment(title: \"hived\", fleet: Model(nodes: {nodes}, gpus: {gpus}, kind: \"g\", speed: 1.0), workload: Jobs([{}]), \
         queues: [{}], policies: [Policy(name: \"hived\")])",
        jobs.iter().map(job).collect::<Vec<_>>().join(", "),
        queues.iter().map(queue).collect::<Vec<_>>().join(", ")
    );
    let (_, rows) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
    rows.iter().map(|row| row.first_start_s.map_or(f64::NAN, Seconds::f64)).collect()
}

/// Queues own what they are guaranteed, in whichever order they are named: what one leaves of a node is cells of the next.
#[test]
fn parts_of_a_node_that_one_queue_leaves_are_cells_of_others() {
    let starts = |nodes: u32, gpus: u32, queues: &[(&str, u32)], jobs: &[(&'static str, u32, i32)]| {
        let each = |(at, (queue, gpus, priority)): (usize, &(&'static str, u32, i32))| {
            (*queue, at as u32, *gpus, *priority, 3600)
        };
        starts_of((nodes, gpus), queues, &jobs.iter().enumerate().map(each).collect::<Vec<Asks>>())
    };
    // Both halves of one node: whoever owns the other half takes it back from one without a guarantee.
    for queues in [[("a", 4), ("b", 4)], [("b", 4), ("a", 4)]] {
        assert_eq!(starts(1, 8, &queues, &[("a", 8, -1), ("b", 4, 0)]), [0.0, 1.0]);
    }
    for queues in [[("a", 4), ("b", 12)], [("b", 12), ("a", 4)]] {
        assert_eq!(starts(2, 8, &queues, &[("b", 8, 0), ("a", 8, -1), ("b", 4, 0)]), [0.0, 1.0, 2.0]);
    }
    // Three pairs on a node of six: the queue that owns two of them takes those back.
    assert_eq!(starts(1, 6, &[("a", 2), ("b", 4)], &[("a", 6, -1), ("b", 2, 0), ("b", 2, 0)]), [0.0, 1.0, 2.0]);
    // Six each of three nodes of four: two own a node and a half.
    let jobs = [("b", 4, 0), ("a", 4, -1), ("a", 4, -1), ("b", 2, 0)];
    assert_eq!(starts(3, 4, &[("a", 6), ("b", 6)], &jobs)[3], 3.0);
}

/// A job that never fits what its cluster owns has no guarantee, whatever its priority: it is not started before one that has and evicts it.
#[test]
fn what_has_no_guarantee_comes_after_what_has() {
    let starts = |own: u32, jobs: &[Asks]| starts_of((1, 4), &[("a", own), ("b", 2)], jobs);
    assert_eq!(starts(1, &[("a", 0, 4, 1, 10), ("b", 0, 2, 0, 10)]), [10.0, 0.0]);
    assert_eq!(starts(2, &[("a", 0, 4, 0, 10), ("a", 5, 3, 0, 10), ("b", 10, 2, 0, 10)]), [0.0, 20.0, 10.0]);
}

#[needs("data:hived")]
#[test]
fn groups_of_the_design_example_go_where_they_were_published() {
    let plan = planned(&spec()).unwrap_or_else(|error| panic!("{error}"));
    let (summary, jobs) = results::<JobRecord>(&plan);
    let (_, stays) = results::<StayRecord>(&plan);
    let mut first: BTreeMap<&str, &StayRecord> = BTreeMap::new();
    stays.iter().for_each(|stay| {
        let known = first.entry(&stay.job_id).or_insert(stay);
        if stay.from_s < known.from_s {
            *known = stay;
        }
    });
    let begins: Vec<u32> = NODES
        .iter()
        .flat_map(|(_, gpus, nodes)| vec![*gpus; *nodes as usize])
        .scan(0, |at, gpus| Some(std::mem::replace(at, *at + gpus)))
        .collect();
    for (at, (name, .., each, pods, expected)) in GROUPS.iter().enumerate() {
        let Some(stay) = first.get(name) else {
            assert_eq!(*expected, None, "{name} never started");
            continue;
        };
        // The GPUs of its pods are on nodes one after the other.
        let gpus = expected.map(|(node, gpu)| (begins[node as usize] + gpu..).take((each * pods) as usize).collect());
        let found: Vec<u32> = stay.gpus.0.iter().map(|gpu| gpu.number()).collect();
        let at_once = stay.from_s.f64() == at as f64;
        assert_eq!(at_once.then_some(found), gpus, "{name}");
    }
    // Of those that were placed only the group goes that was published.
    let gone: Vec<&str> = jobs.iter().filter(|job| job.preemptions > 0).map(|job| job.job_id.as_str()).collect();
    assert_eq!((gone, summary.refused), (vec!["group5"], REFUSED.len()));
    assert!(jobs.iter().all(|job| (job.outcome == JobOutcome::Refused) == REFUSED.iter().any(|of| of.0 == job.job_id)));
}
