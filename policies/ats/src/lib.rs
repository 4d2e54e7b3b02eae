//! DeepBoot's ATS (Chen, Zhao, Zhi, Yin, IEEE TPDS 2023): training borrows idle GPUs of the inference pool and returns
//! them. The paper's text was not available: this follows its simulator, and our own reconstruction where a comment
//! says so.
//!
//! Every round ATS-T allocates GPUs so that the sum of speedups is greatest; ATS-I, in `sandtable-elastic`, takes back
//! the replica whose loss costs least.

#[cfg(test)]
mod tests;

use sandtable_elastic::knapsack::{Candidate, deal};
use sandtable_elastic::place::{Pack, smallest_first, take};
use sandtable_elastic::{ElasticJob, ElasticScheduler, Partition, RULES, Round, Rules, joined, restart_factor};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Kind, Knowledge, NodeId, Param, Policy, PolicyError, Setup,
};

/// The policy.
pub struct Ats {
    scheduler: ElasticScheduler,
    rules: Rules,
}

impl Policy for Ats {
    fn about() -> About {
        const PARAMS: [Param; 10] = joined(
            RULES,
            [Param {
                name: "protect_times",
                kind: Kind::Number { min: 0.0, max: 1000.0 },
                default: "1",
                about: "All times of protection times this.",
            }],
        );
        About {
            name: "ats",
            about: "most speedup by a knapsack on borrowed GPUs, given back at least loss (DeepBoot, Chen et al., TPDS 2023; after its simulator)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::ELASTIC | Abilities::PROTECT,
            needs: Knowledge::empty(),
            params: &PARAMS,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let mut rules = Rules::new(config);
        let times = |micros: u64| (micros as f64 * config.number("protect_times") + 0.5) as u64;
        rules.protect = (times(rules.protect.0), times(rules.protect.1), times(rules.protect.2));
        Ok(Ats { scheduler: ElasticScheduler::new(rules, setup, true)?, rules })
    }

    fn cadence(&self) -> Cadence {
        self.scheduler.cadence()
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let rules = self.rules;
        self.scheduler.decide(batch, cluster, |round| train(round, &rules))
    }
}

/// ATS-T: the nodes of each training job.
fn train(round: &mut Round<'_>, rules: &Rules) -> Vec<Vec<NodeId>> {
    let mut order: Vec<usize> = (0..round.jobs.len()).collect();
    order.sort_by_key(|job| (round.attained[*job], round.jobs[*job].submitted, round.jobs[*job].id));
    let gpus: u32 = round.free.iter().sum();
    let candidate = |job: usize| {
        let (node, share, now, total) = (round.node, round.share, round.now, round.total);
        let job: &mut ElasticJob = &mut round.jobs[job];
        let factor = restart_factor(job.age(now), job.restarts.unwrap_or(0), rules.delay);
        let before = job.list.as_ref().map(|list| list.len() as u32);
        let most = job.reach(total).min(gpus);
        let value = |k: u32| {
            let speedup = job.speedup(k.div_ceil(node), k, share);
            if before == Some(k) { speedup } else { speedup * factor }
        };
        Candidate { values: (1..=most).map(value).collect() }
    };
    let candidates: Vec<Candidate> = order.iter().copied().map(candidate).collect();
    let counts = deal(&candidates, gpus);
    let mut by_job = vec![0; round.jobs.len()];
    for (job, count) in order.iter().zip(&counts) {
        by_job[*job] = *count;
    }
    let order = smallest_first(&order, &by_job);
    if rules.partition == Partition::Owned && round.lent.iter().any(|lent| *lent) {
        return own_first(round, &order, &by_job);
    }
    round.place_in(&order, &by_job, Pack::BestFit)
}

/// As [`Round::place_in`], but a job that is placed anew goes to nodes of the training pool if it fits there, else to
/// borrowed nodes, else to both.
fn own_first(round: &Round<'_>, order: &[usize], counts: &[u32]) -> Vec<Vec<NodeId>> {
    let had = |job: usize| round.jobs[job].list.as_ref().map_or(0, Vec::len) as u32;
    let keeps: Vec<u32> = (0..counts.len()).map(|job| if had(job) == counts[job] { counts[job] } else { 0 }).collect();
    let mut lists = round.place_in(order, &keeps, Pack::BestFit);
    for (job, list) in lists.iter_mut().enumerate() {
        // A job whose place is gone is placed anew too.
        if round.jobs[job].list.as_ref() != Some(list) {
            list.clear();
        }
    }
    let mut free = round.free.clone();
    lists.iter().flatten().for_each(|node| free[*node as usize] -= 1);
    let others = order.iter().copied().filter(|job| counts[*job] > 0 && lists[*job].is_empty());
    for job in others.collect::<Vec<_>>() {
        let of = |borrowed: bool| -> Vec<u32> {
            free.iter().zip(&round.lent).map(|(free, lent)| if *lent == borrowed { *free } else { 0 }).collect()
        };
        let parts = [of(false), of(true), free.clone()];
        let Some(mut part) = parts.into_iter().find(|part| part.iter().sum::<u32>() >= counts[job]) else { continue };
        lists[job] = take(&mut part, counts[job], Pack::BestFit);
        lists[job].iter().for_each(|node| free[*node as usize] -= 1);
    }
    lists
}

sandtable_policy::export!(Ats);
