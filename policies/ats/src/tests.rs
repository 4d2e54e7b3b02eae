//! The 80 decisions of DeepBoot's own functions (`deepboot/ats_vectors.json`), by the functions of this policy. A component can't be given them: it takes a job's speedups over its speed with a fair share, and
//! those of the vectors are over none.

use sandtable_elastic::knapsack::{Candidate, deal};
use sandtable_elastic::reclaim::{Deal, Place, Victim};
use sandtable_elastic::{ElasticJob, Reclaim, Round, Rules};
use sandtable_needs::needs;
use sandtable_policy::driver::Driver;
use sandtable_policy::testing::{arrival, data, demand, refusal, setup};
use sandtable_policy::{
    Action, Batch, Config, Demand, Draws, Elasticity, Event, Fresh, Introductions, JobEnd, NodeId, Policy, Pool,
    Sample, Service, Setup, Trigger,
};
use serde_json::Value;

use crate::{Ats, train};

/// What of a job does not matter here: its goodputs are given.
const ELASTIC: Elasticity = Elasticity {
    most_gpus: 1,
    batch: 128,
    tunable: false,
    initial_batch: 128,
    most_batch: 128,
    least_local: 1,
    most_local: 128,
};
const SAMPLE: Sample = Sample {
    job: 0,
    nodes: 1,
    gpus: 1,
    local: 128,
    step_time: 1.0,
    sync_time: 0.1,
    gradient_sqr: 1.0,
    gradient_variance: 1.0,
};

fn list(value: &Value) -> Vec<u32> {
    value.as_array().map_or_else(Vec::new, |list| list.iter().map(number).collect())
}

fn number(value: &Value) -> u32 {
    value.as_u64().expect("a number") as u32
}

/// The published table: by GPUs, on one node and on several.
fn speedup(job: &Value, nodes: u32, gpus: u32) -> f64 {
    let table = if nodes > 1 { "speedup_multi_node" } else { "speedup_single_node" };
    job[table][gpus as usize - 1].as_f64().expect("a speedup")
}

/// What the policy allocates in a round of these jobs, whose goodputs are the published speedups.
fn trains(case: &Value) -> Vec<Vec<NodeId>> {
    let free = list(&case["free_per_node"]);
    let (node, gpus) = (number(&case["gpus_per_node"]), free.iter().sum::<u32>());
    let jobs = case["jobs"].as_array().expect("jobs");
    // A share that no gang has, so that its goodput of 1 is used for no job.
    let (share, now) = (1_000_000, 1_000_000_000_000);
    let elastic_job = |(id, given): (usize, &Value)| {
        let most = number(&given["max_replicas"]);
        let submitted = now - given["age"].as_u64().expect("s") * 1_000_000;
        let elastic = Elasticity { most_gpus: most, ..ELASTIC };
        let mut job = ElasticJob::new(id as u32, submitted, 1, elastic);
        // It has run on as many as it may have: it may try all of them.
        let sample = Sample { job: id as u32, gpus: most, ..SAMPLE };
        job.report(&sample);
        let shapes = (1..=most.min(gpus)).map(|k| (k.div_ceil(node), k));
        let goodputs = shapes.map(|(nodes, k)| ((nodes, k), speedup(given, nodes, k)));
        job.assume(goodputs.chain([((1, share), 1.0)]));
        job.restarts = Some(number(&given["num_restarts"]));
        job.list = given["prev"].as_array().map(|_| list(&given["prev"]));
        job
    };
    let mut all: Vec<ElasticJob> = jobs.iter().enumerate().map(elastic_job).collect();
    let attained = (0..all.len() as u64).collect();
    let lent = vec![false; free.len()];
    let mut round = Round {
        now,
        free,
        lent,
        node,
        total: gpus,
        share,
        compat: true,
        waiting: 0,
        tasks: Vec::new(),
        jobs: &mut all,
        attained,
    };
    let config = "{\"compat\": true, \"restart_delay\": 10}";
    let config = Config::parse(config, Ats::about().params).expect("a configuration");
    train(&mut round, &Rules::new(&config))
}

/// By job: its nodes.
fn serves(case: &Value) -> Vec<Vec<NodeId>> {
    let jobs = case["jobs"].as_array().expect("jobs");
    let mut empty = vec![number(&case["gpus_per_node"]); number(&case["nodes"]) as usize];
    jobs.iter().flat_map(|job| list(&job["alloc"])).for_each(|node| empty[node as usize] -= 1);
    let of = |kind: &str| jobs.iter().enumerate().filter(|(_, job)| job["kind"] == kind).map(|(at, _)| at).collect();
    let (training, asleep, pending): (Vec<usize>, Vec<usize>, Vec<usize>) = (of("train"), of("SLEEP"), of("PENDING"));
    let mut lists: Vec<Vec<NodeId>> = jobs.iter().map(|job| list(&job["alloc"])).collect();
    let victim = |at: &usize| {
        let job = &jobs[*at];
        Victim { list: lists[*at].clone(), speedup: Box::new(move |nodes, gpus| speedup(job, nodes, gpus)) }
    };
    let mut victims: Vec<Victim<'_>> = training.iter().map(victim).collect();
    let sleeping = asleep.iter().map(|at| lists[*at].first().copied()).collect();
    let (reach, lent) = (vec![true; empty.len()], vec![false; empty.len()]);
    let mut deal = Deal { empty, sleeping, victims: &mut victims, reach, lent, guard: false, in_order: true };
    let places = deal.places(pending.len(), Reclaim::LeastLoss, &mut Draws::new(0));
    for (task, place) in pending.iter().zip(&places) {
        let node = match place {
            Place::Empty(node) | Place::Taken(node) => *node,
            Place::Evicts(pod) => std::mem::take(&mut lists[asleep[*pod]])[0],
        };
        lists[*task] = vec![node];
    }
    for (at, victim) in training.iter().zip(victims) {
        lists[*at] = victim.list;
        lists[*at].sort_unstable();
    }
    lists
}

#[needs("data:deepboot")]
#[test]
fn eighty_decisions_are_deepboots_own() {
    let path = data("deepboot/ats_vectors.json");
    let cases: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    let cases = cases.as_array().expect("cases");
    let mut equal = 0;
    for (at, case) in cases.iter().enumerate() {
        let found = if case["kind"] == "ats_t" { trains(case) } else { serves(case) };
        for (job, found) in case["jobs"].as_array().expect("jobs").iter().zip(found) {
            let name = job["name"].as_str().expect("a name");
            assert_eq!(found, list(&case["expected"][name]), "case {at}, {name}: {case}");
        }
        equal += 1;
    }
    assert_eq!(equal, 80);
}

#[test]
fn a_service_without_a_node_is_refused() {
    let why = refusal::<Ats>("{\"partition\": \"apart\", \"round\": 0}");
    assert_eq!(why, "`round`: expected a number from 1 to 86400, found 0");
}

#[test]
fn the_sum_of_speedups_is_no_less_than_a_greedy_ones() {
    let mut draws = Draws::new(7);
    for _ in 0..200 {
        let jobs = 1 + draws.below(6);
        let concave = |draws: &mut Draws| {
            let (mut gain, mut sum) = (1.0 + draws.below(10) as f64, 0.0);
            let value = |_| {
                sum += gain;
                gain *= 0.5 + draws.below(50) as f64 / 100.0;
                sum
            };
            (0..8).map(value).collect::<Vec<f64>>()
        };
        let candidates: Vec<Candidate> = (0..jobs).map(|_| Candidate { values: concave(&mut draws) }).collect();
        let gpus = 1 + draws.below(12) as u32;
        let worth = |counts: &[u32]| -> f64 {
            let of = |(of, k): (&Candidate, &u32)| if *k == 0 { 0.0 } else { of.values[*k as usize - 1] };
            candidates.iter().zip(counts).map(of).sum()
        };
        let mut greedy = vec![0u32; jobs];
        for _ in 0..gpus {
            let more = |job: usize| {
                let mut next = greedy.clone();
                next[job] += 1;
                (next[job] <= 8).then(|| worth(&next))
            };
            let best = (0..jobs).filter_map(|job| Some((job, more(job)?))).max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((job, _)) = best {
                greedy[job] += 1;
            }
        }
        let counts = deal(&candidates, gpus);
        assert!(counts.iter().sum::<u32>() <= gpus);
        assert!(worth(&counts) >= worth(&greedy) - 1e-9);
    }
}

#[test]
fn a_task_that_waits_for_a_gpu_of_another_service_gets_it_when_its_protection_ends() {
    const SECOND: u64 = 1_000_000;
    let service = |id: u32| Service { id, name: format!("s{id}"), cold_start: SECOND, stays_loaded: true };
    let mut setup = Setup { services: vec![service(0), service(1)], ..setup("{}", &[1], 1000) };
    setup.topology.nodes[0].pool = Pool::Inference;
    let (mut driver, _) = Driver::<Ats>::new(setup).expect("a policy");
    let mut call = |seconds: u64, new: Introductions, event: Option<Event>| {
        let trigger = if event.is_some() { Trigger::Event } else { Trigger::Timer };
        let events = event.into_iter().collect();
        let batch = Batch { seq: seconds, now: seconds * SECOND, trigger, fresh: Fresh::all(), events };
        driver.decide(&batch, new).expect("a plan").actions
    };
    let serves = |service: u32| Demand { service: Some(service), ..demand(1) };
    let new = Introductions { classes: vec![serves(0), serves(1)], users: vec![String::new()], ..Default::default() };
    let starts = |actions: &[Action], of: u32| {
        actions.iter().any(|action| matches!(action, Action::Start(start) if start.job == of))
    };
    let task = |job: u32, seconds: u64| Some(Event::JobArrived(arrival(job, job, seconds * SECOND)));
    assert!(starts(&call(1, new, task(0, 1)), 0));
    // Its GPU is kept for 30 s, until 41.
    call(11, Introductions::default(), Some(Event::JobEnded(JobEnd { job: 0, at: 11 * SECOND })));
    let waits = call(12, Introductions::default(), task(1, 12));
    assert!(!starts(&waits, 1));
    let timer =
        waits.iter().find_map(|action| if let Action::SetTimer(timer) = action { Some(timer.at) } else { None });
    assert_eq!(timer, Some(41 * SECOND));
    assert!(starts(&call(41, Introductions::default(), None), 1));
}
