//! HiveD's design example, and small clusters by hand.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_needs::needs;
use sandtable_policy::testing::data;
use serde_json::Value;

use crate::config::Config;
use crate::hive::{Answer, Group, Hive};

fn read(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(file)).expect("a file")).expect("JSON")
}

/// The group of a pod.
fn group(pod: &Value, id: u32) -> Group {
    let text = |field: &str| pod[field].as_str().filter(|text| !text.is_empty()).map(str::to_string);
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let members = pod["members"].as_array().expect("members");
    Group {
        id,
        cluster: text("vc").expect("a virtual cluster"),
        pin: text("pinned_cell"),
        kinds: text("leaf_type").into_iter().collect(),
        priority: pod["priority"].as_i64().expect("a priority") as i32,
        pods: members.iter().flat_map(|of| vec![number(&of[1]) as u32; number(&of[0])]).collect(),
        lazy: pod["lazy_preemption"].as_bool().expect("true or false"),
        fixed: false,
    }
}

/// A placement on which its pods, of which there may be several of a size, have been found.
#[derive(Default)]
struct Seen {
    answers: BTreeMap<String, Answer>,
    pods: BTreeMap<u32, Vec<String>>,
    /// Pods of a group and a size that have their place.
    placed: BTreeMap<(String, usize), usize>,
}

#[needs("data:hived")]
#[test]
fn pods_of_the_design_example_are_bound_as_published() {
    let config = Config::read(&std::fs::read(data("hived/cluster.json")).expect("a file")).expect("cells");
    let (names, mut hive, file) = (config.nodes.clone(), Hive::new(config), read("hived/normal.json"));
    let mut seen = Seen::default();
    let (mut bound, mut victims, mut waits) = (0, 0, 0);
    for name in file["order"].as_array().expect("an order").iter().filter_map(Value::as_str) {
        let (pod, expected) = (&file["pods"][name], &file["expect_bind"][name]);
        let of = pod["group"].as_str().expect("a group").to_string();
        let id = seen.answers.keys().position(|known| *known == of).map_or(seen.answers.len() as u32, |_| {
            *seen
                .pods
                .iter()
                .find(|(_, pods)| pods.iter().any(|pod| file["pods"][pod]["group"] == *of))
                .expect("known")
                .0
        });
        seen.pods.entry(id).or_default().push(name.into());
        let answer = seen.answers.entry(of.clone()).or_insert_with(|| hive.place(&group(pod, id))).clone();
        let Answer::Place(on, gone) = answer else {
            assert_eq!(answer, Answer::Wait, "{name}");
            assert!(file["expect_wait"].as_array().expect("a list").contains(&name.into()), "{name} waits");
            waits += 1;
            continue;
        };
        let gone: BTreeSet<&str> = gone.iter().flat_map(|id| &seen.pods[id]).map(String::as_str).collect();
        let wanted = file["expect_victims"][name].as_array();
        let wanted: BTreeSet<&str> = wanted.into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!(gone, wanted, "{name}");
        victims += usize::from(!gone.is_empty());
        let size = pod["leaves"].as_u64().expect("a number") as usize;
        let at = seen.placed.entry((of, size)).or_default();
        let (node, gpus) = on.iter().filter(|(_, gpus)| gpus.len() == size).nth(*at).expect("a pod");
        *at += 1;
        if !expected.is_null() {
            assert_eq!(
                (&expected["node"], &expected["leaves"]),
                (&names[*node].clone().into(), &gpus.clone().into()),
                "{name}"
            );
            bound += 1;
        }
    }
    assert_eq!((bound, victims, waits), (16, 2, 1));
    // Of the five refusals one is of a pod larger than its group says: a job is its group.
    let refused = |name: &str| hive.place(&group(&file["pods"][name], 99)) == Answer::Refuse;
    let all: Vec<bool> = ["pod10", "pod13", "pod14", "pod15"].into_iter().map(refused).collect();
    assert_eq!(all, [true; 4]);
}

use sandtable_policy::driver::Driver;
use sandtable_policy::testing::{arrival, demand, setup, topology};
use sandtable_policy::{
    Action, Arrival, Batch, Demand, Draws, Event, Fresh, Introductions, JobEnd, JobId, Preempt, Queue, Setup, Start,
    Topology, Trigger,
};

use crate::Hived;

/// Two nodes of four GPUs, in pairs; `a` owns one of the nodes and `b` a pair.
const CELLS: &str = r#"{
    "physicalCluster": {
        "cellTypes": {
            "pair": {"childCellType": "g", "childCellNumber": 2},
            "node": {"childCellType": "pair", "childCellNumber": 2, "isNodeLevel": true}
        },
        "physicalCells": [{"cellType": "node", "cellAddress": "n0"}, {"cellType": "node", "cellAddress": "n1"}]
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "node", "cellNumber": 1}]},
        "b": {"virtualCells": [{"cellType": "node.pair", "cellNumber": 1}]}
    }
}"#;

fn two_nodes(config: &str) -> Setup {
    let queue = |(id, name): (u32, &str)| Queue {
        id,
        name: name.into(),
        parent: None,
        guaranteed: 0.0,
        weight: 1.0,
        limit: f64::INFINITY,
        priority: 0,
    };
    let queues = [(0, "a"), (1, "b"), (2, "c")].map(queue).into();
    Setup { weights: CELLS.into(), queues, topology: topology(&[4, 4]), ..setup(config, &[1], 1000) }
}

/// Jobs that come at once: queue, priority, GPUs.
fn batch(jobs: &[(u32, i32, u32)], first: JobId) -> (Batch, Introductions) {
    let of = |(at, (queue, priority, _)): (usize, &(u32, i32, u32))| {
        let id = first + at as JobId;
        Event::JobArrived(Arrival { queue: *queue, priority: *priority, ..arrival(id, id, 0) })
    };
    let events = jobs.iter().enumerate().map(of).collect();
    let classes: Vec<Demand> = jobs.iter().map(|(.., gpus)| demand(*gpus)).collect();
    let new = Introductions { classes, users: vec![String::new()], ..Introductions::default() };
    (Batch { seq: 1, now: 0, trigger: Trigger::Event, fresh: Fresh::all(), events }, new)
}

/// Actions in words.
fn said(actions: &[Action]) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Start(Start { job, gpus, .. }) => format!("{job} at {gpus:?}"),
        Action::Preempt(Preempt { job, .. }) => format!("{job} goes"),
        Action::Refuse(job) => format!("{job} refused"),
        other => format!("{other:?}"),
    };
    actions.iter().map(word).collect()
}

fn decide(driver: &mut Driver<Hived>, (batch, new): (Batch, Introductions)) -> Vec<String> {
    said(&driver.decide(&batch, new).expect("a plan").actions)
}

#[test]
fn a_virtual_cluster_has_what_it_owns_when_it_wants_it() {
    let mut driver = Driver::<Hived>::new(two_nodes("{}")).expect("a policy").0;
    // Without a guarantee: both nodes.
    assert_eq!(decide(&mut driver, batch(&[(1, -1, 4), (1, -1, 4)], 0)), ["0 at [0, 1, 2, 3]", "1 at [4, 5, 6, 7]"]);
    // A job of three does not fit a pair; one of two takes half of a node, whose job goes.
    assert_eq!(decide(&mut driver, batch(&[(1, 0, 3), (1, 0, 2)], 2)), ["0 goes", "3 at [0, 1]"]);
    // The other node is still whole.
    assert_eq!(decide(&mut driver, batch(&[(0, 0, 4)], 4)), ["1 goes", "4 at [4, 5, 6, 7]"]);
}

#[test]
fn a_higher_priority_takes_cells_of_its_own_cluster() {
    let jobs = [(0, 1, 4), (0, 2, 4)];
    let mut lazy = Driver::<Hived>::new(two_nodes("{}")).expect("a policy").0;
    assert_eq!(decide(&mut lazy, batch(&jobs[..1], 0)), ["0 at [0, 1, 2, 3]"]);
    // It goes on without a guarantee: the other node is free.
    assert_eq!(decide(&mut lazy, batch(&jobs[1..], 1)), ["1 at [4, 5, 6, 7]"]);
    let mut strict = Driver::<Hived>::new(two_nodes("{\"lazy\": false}")).expect("a policy").0;
    assert_eq!(decide(&mut strict, batch(&jobs[..1], 0)), ["0 at [0, 1, 2, 3]"]);
    assert_eq!(decide(&mut strict, batch(&jobs[1..], 1)), ["0 goes", "1 at [0, 1, 2, 3]"]);
    // Of its own priority none goes.
    assert_eq!(decide(&mut strict, batch(&[(0, 2, 4)], 2)), [""; 0]);
}

#[test]
fn jobs_that_ask_for_what_there_is_not_are_refused_and_others_wait() {
    let mut driver = Driver::<Hived>::new(two_nodes("{}")).expect("a policy").0;
    let refused = decide(&mut driver, batch(&[(2, 0, 1), (0, 1001, 1), (1, 0, 2), (1, 0, 2)], 0));
    assert_eq!(refused, ["1 refused", "0 refused", "2 at [0, 1]"]);
    let ended = vec![Event::JobEnded(JobEnd { job: 2, at: 5 })];
    let batch = Batch { seq: 2, now: 5, trigger: Trigger::Event, fresh: Fresh::empty(), events: ended };
    assert_eq!(decide(&mut driver, (batch, Introductions::default())), ["3 at [4, 5]"]);
}

#[test]
fn a_file_that_makes_no_sense_is_refused_with_the_reason() {
    let why = |weights: &str, topology: Topology| {
        let setup = Setup { weights: weights.into(), topology, ..two_nodes("{}") };
        format!("{:?}", Driver::<Hived>::new(setup).err().expect("refused"))
    };
    let two = || topology(&[4, 4]);
    assert!(why("{", two()).contains("weights: no JSON"));
    assert!(why("{}", two()).contains("expected `physicalCluster.cellTypes`"));
    assert!(why(CELLS, topology(&[4])).contains("2 nodes of cells, the cluster has 1"));
    assert!(why(CELLS, topology(&[4, 2])).contains("node n1: 4 GPUs of kind g, node 1 of the cluster has 2 of kind g"));
    assert!(
        why(&CELLS.replace("\"node.pair\"", "\"node.quad\""), two()).contains("virtual cluster b: no physical cell is")
    );
    assert!(
        why(&CELLS.replace("\"childCellType\": \"g\"", "\"childCellType\": \"node\""), two()).contains("below itself")
    );
}

#[test]
fn a_cluster_that_owns_too_much_is_refused() {
    let greedy = CELLS.replace("\"cellNumber\": 1}]},\n        \"b\"", "\"cellNumber\": 3}]},\n        \"b\"");
    let refused = Driver::<Hived>::new(Setup { weights: greedy.into(), ..two_nodes("{}") }).err().expect("refused");
    assert!(format!("{refused:?}").contains("more cells than there are"), "{refused:?}");
}

/// Three racks of two nodes of two pairs; 5.5 of the 6 nodes are owned.
const RACKS: &str = r#"{
    "physicalCluster": {
        "cellTypes": {
            "pair": {"childCellType": "g", "childCellNumber": 2},
            "node": {"childCellType": "pair", "childCellNumber": 2, "isNodeLevel": true},
            "rack": {"childCellType": "node", "childCellNumber": 2}
        },
        "physicalCells": [
            {"cellType": "rack", "cellChildren": [{"cellAddress": "n0", "pinnedCellId": "pin"}, {"cellAddress": "n1"}]},
            {"cellType": "rack"}, {"cellType": "rack"}
        ]
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "rack", "cellNumber": 1}]},
        "b": {"virtualCells": [{"cellType": "rack.node", "cellNumber": 1}], "pinnedCells": [{"pinnedCellId": "pin"}]},
        "c": {"virtualCells": [{"cellType": "rack.node.pair", "cellNumber": 3}]}
    }
}"#;

/// What a virtual cluster has, it gets: whatever came and left, a placement in its own cells has physical ones.
#[test]
fn what_fits_the_own_cells_finds_physical_ones() {
    for seed in 0..60 {
        let mut draws = Draws::new(seed);
        let mut hive = Hive::new(Config::read(RACKS.as_bytes()).expect("cells"));
        let mut live: Vec<u32> = Vec::new();
        let mut on: BTreeMap<(usize, u32), u32> = BTreeMap::new();
        for id in 0..300 {
            if draws.below(3) == 0 && !live.is_empty() {
                let gone = live.swap_remove(draws.below(live.len()));
                hive.release(gone);
                on.retain(|_, job| *job != gone);
            }
            let pods = vec![[1, 2, 3, 4][draws.below(4)]; [1, 1, 1, 2][draws.below(4)]];
            let (cluster, pin) = [("a", None), ("b", None), ("b", Some("pin")), ("c", None)][draws.below(4)];
            let (cluster, pin, kinds) = (cluster.to_string(), pin.map(str::to_string), BTreeSet::new());
            let (priority, lazy) = (draws.below(4) as i32 - 1, draws.below(2) == 0);
            let group = Group { id, cluster, pin, kinds, priority, pods, lazy, fixed: false };
            let owner = &hive.config.clusters[&group.cluster];
            let roots = group.pin.as_ref().map_or(owner.cells.clone(), |pin| vec![owner.pinned[pin]]);
            let cells = &hive.config.cells;
            let fits = cells.pack(&cells.nodes(&roots), &group.pods, priority, true).is_some();
            match hive.place(&group) {
                Answer::Place(pods, victims) => {
                    assert!(priority >= 0 || victims.is_empty(), "seed {seed}: {group:?} drives out {victims:?}");
                    live.retain(|job| !victims.contains(job));
                    on.retain(|_, job| !victims.contains(job));
                    for gpu in pods.into_iter().flat_map(|(node, gpus)| gpus.into_iter().map(move |gpu| (node, gpu))) {
                        assert_eq!(on.insert(gpu, id), None, "seed {seed}: GPU {gpu:?} is given twice");
                    }
                    live.push(id);
                }
                other => assert!(priority < 0 || !fits, "seed {seed}: {group:?} {other:?}"),
            }
        }
    }
}
