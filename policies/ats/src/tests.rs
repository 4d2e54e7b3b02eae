//! The 80 decisions of DeepBoot's own functions (`deepboot/ats_vectors.json`).

use sandtable_elastic::knapsack::{Candidate, deal};
use sandtable_elastic::place::{Pack, keep_or_take, smallest_first};
use sandtable_elastic::reclaim::{Deal, Place, Victim};
use sandtable_elastic::{Reclaim, restart_factor};
use sandtable_needs::needs;
use sandtable_policy::testing::{data, refusal};
use sandtable_policy::{Draws, NodeId};
use serde_json::Value;

use crate::Ats;

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

fn trains(case: &Value) -> Vec<Vec<NodeId>> {
    let free = list(&case["free_per_node"]);
    let per_node = number(&case["gpus_per_node"]);
    let jobs = case["jobs"].as_array().expect("jobs");
    let gpus: u32 = free.iter().sum();
    let candidate = |job: &Value| {
        let factor = restart_factor(job["age"].as_f64().expect("s"), number(&job["num_restarts"]), 10.0);
        let before = job["prev"].as_array().map(|list| list.len() as u32);
        let value = |k: u32| {
            let speedup = speedup(job, k.div_ceil(per_node), k);
            if before == Some(k) { speedup } else { speedup * factor }
        };
        Candidate { values: (1..=number(&job["max_replicas"]).min(gpus)).map(value).collect() }
    };
    let counts = deal(&jobs.iter().map(candidate).collect::<Vec<_>>(), gpus);
    let before: Vec<Vec<NodeId>> = jobs.iter().map(|job| list(&job["prev"])).collect();
    let order = smallest_first(&(0..counts.len()).collect::<Vec<_>>(), &counts);
    let before: Vec<&[NodeId]> = order.iter().map(|job| before[*job].as_slice()).collect();
    let sorted: Vec<u32> = order.iter().map(|job| counts[*job]).collect();
    let mut lists = vec![Vec::new(); counts.len()];
    for (job, list) in order.iter().zip(keep_or_take(&mut free.clone(), &sorted, &before, Pack::BestFit)) {
        lists[*job] = list;
    }
    lists
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
