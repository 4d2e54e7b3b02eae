//! Pollux (Qiao et al., OSDI 2021): every round the allocation with the best power mean of speedups, found by a genetic
//! search; or, deterministic and faster, by a greedy one over counts of GPUs. Each job's goodput is fitted here, from what
//! it reports. After the paper's artifact.
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), pollux.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

mod genes;
mod greedy;
mod search;

use std::collections::BTreeMap;

use genes::Terrain;
use sandtable_elastic::{ElasticScheduler, RULES, Round, Rules, joined, restart_factor};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Draws, JobId, Kind, Knowledge, NodeId, Param, Policy,
    PolicyError, Setup,
};

/// The policy.
pub struct Pollux {
    scheduler: ElasticScheduler,
    delay: f64,
    greedy: bool,
    size: (usize, usize),
    draws: Draws,
    /// Rows by job of each member of the last search.
    kept: Vec<BTreeMap<JobId, Vec<u8>>>,
}

impl Policy for Pollux {
    fn about() -> About {
        const PARAMS: [Param; 12] = joined(
            RULES,
            [
                Param {
                    name: "search",
                    kind: Kind::Choice(&["genetic", "greedy"]),
                    default: "\"genetic\"",
                    about: "How the best allocation is looked for: NSGA-II, seeded, or one GPU after another.",
                },
                Param {
                    name: "population",
                    kind: Kind::Number { min: 2.0, max: 1000.0 },
                    default: "100",
                    about: "Allocations that the genetic search keeps.",
                },
                Param {
                    name: "generations",
                    kind: Kind::Number { min: 1.0, max: 1000.0 },
                    default: "100",
                    about: "How often it varies them.",
                },
            ],
        );
        About {
            name: "pollux",
            about: "best harmonic mean of speedups by goodput, fitted online (Pollux, Qiao et al., OSDI 2021; after its artifact)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::ELASTIC | Abilities::PROTECT,
            needs: Knowledge::empty(),
            params: &PARAMS,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let rules = Rules::new(config);
        Ok(Pollux {
            scheduler: ElasticScheduler::new(rules, setup, true)?,
            delay: rules.delay,
            greedy: config.choice("search") == "greedy",
            size: (config.number("population") as usize, config.number("generations") as usize),
            draws: Draws::new(setup.seed),
            kept: Vec::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        self.scheduler.cadence()
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let Pollux { scheduler, delay, greedy, size, draws, kept } = self;
        scheduler.decide(batch, cluster, |round| match greedy {
            true => greedy::allocate(round, *delay),
            false => genetic(round, *delay, *size, draws, kept),
        })
    }
}

/// The order in which jobs are repaired: the job with the least attained service comes first.
fn order(round: &Round<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..round.jobs.len()).collect();
    order.sort_by_key(|job| (round.attained[*job], round.jobs[*job].submitted, round.jobs[*job].id));
    order
}

/// What a change is worth to each job, in this order.
fn factors(round: &Round<'_>, order: &[usize], delay: f64) -> Vec<f64> {
    let factor = |job: &usize| {
        let job = &round.jobs[*job];
        restart_factor(job.age(round.now), job.restarts.unwrap_or(0), delay)
    };
    order.iter().map(factor).collect()
}

/// What keeps the mean from being nothing where a job gets nothing.
const LEAST: f64 = 1e-3;

fn genetic(
    round: &mut Round<'_>,
    delay: f64,
    size: (usize, usize),
    draws: &mut Draws,
    kept: &mut Vec<BTreeMap<JobId, Vec<u8>>>,
) -> Vec<Vec<NodeId>> {
    let (jobs, nodes) = (round.jobs.len(), round.free.len());
    if jobs == 0 {
        kept.clear();
        return Vec::new();
    }
    let order = order(round);
    let free = round.free.clone();
    let most: Vec<u32> = order.iter().map(|job| round.jobs[*job].reach(round.total)).collect();
    let row = |list: &[NodeId]| {
        let mut row = vec![0u8; nodes];
        list.iter().for_each(|node| row[*node as usize] += 1);
        row
    };
    let own = |job: &usize| row(round.jobs[*job].list.as_deref().unwrap_or_default());
    let present: Vec<u8> = order.iter().flat_map(own).collect();
    let ids: Vec<JobId> = order.iter().map(|job| round.jobs[*job].id).collect();
    let begin = kept.iter().map(|rows| {
        ids.iter().flat_map(|id| rows.get(id).cloned().unwrap_or_else(|| vec![0; nodes])).collect::<Vec<u8>>()
    });
    let begin: Vec<Vec<u8>> = [present.clone()].into_iter().chain(begin).collect();
    let factors = factors(round, &order, delay);
    let terrain = Terrain { free: &free, most: &most, present: &present };
    // Speedups by job, nodes and GPUs, as they are asked for.
    let width = most.iter().copied().max().unwrap_or(0) as usize + 1;
    let mut known = vec![f64::NAN; jobs * (nodes + 1) * width];
    let scale = 1.0 / f64::from(round.node);
    let worth = |genes: &[u8]| {
        let (mut sum, mut utility, mut used) = (0.0, 0.0, vec![false; nodes]);
        for (at, (genes, now)) in genes.chunks(nodes).zip(present.chunks(nodes)).enumerate() {
            let (mut spans, mut gpus) = (0, 0);
            for (node, count) in genes.iter().enumerate() {
                if *count > 0 {
                    spans += 1;
                    gpus += u32::from(*count);
                    used[node] = true;
                }
            }
            let slot = (at * (nodes + 1) + spans) * width + gpus as usize;
            if known[slot].is_nan() {
                known[slot] = round.jobs[order[at]].speedup(spans as u32, gpus, round.share);
            }
            let speedup = known[slot];
            utility += speedup;
            let mut changed = if genes == now { 1.0 } else { factors[at] };
            // DeepBoot's: a job that grows on one node and shrinks on another is worth less.
            let differs = |by: fn(&u8, &u8) -> bool| genes.iter().zip(now).any(|(new, old)| by(new, old));
            if round.compat && differs(u8::gt) && differs(u8::lt) {
                changed *= 0.9;
            }
            sum += 1.0 / (speedup * scale * changed + LEAST);
        }
        let reachable: u32 = free.iter().zip(&used).filter(|(_, used)| **used).map(|(free, _)| *free).sum();
        [jobs as f64 / sum, utility / f64::from(reachable.max(1))]
    };
    let found = search::search(&terrain, begin, size, draws, worth);
    let rows = |genes: &[u8]| ids.iter().copied().zip(genes.chunks(nodes).map(<[u8]>::to_vec)).collect();
    *kept = found.iter().map(|member| rows(&member.genes)).collect();
    let mut lists = vec![Vec::new(); jobs];
    for (job, row) in order.iter().zip(found[0].genes.chunks(nodes)) {
        lists[*job] = row.iter().enumerate().flat_map(|(node, gpus)| (0..*gpus).map(move |_| node as NodeId)).collect();
    }
    lists
}

sandtable_policy::export!(Pollux);
