//! The plain way to compute what `market` computes: the reference of its tests.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::layout::{EXCHANGES, LOOKED_AT};
use super::{Bidder, Horizon, logs};

/// The value of these numbers of rounds.
pub fn value(bidders: &[Bidder], rounds: &[u32], horizon: &Horizon) -> f64 {
    let of_all = (bidders.len() as f64) * f64::from(horizon.rounds);
    let pairs = || bidders.iter().zip(rounds);
    let welfare: f64 = pairs().map(|(bidder, rounds)| bidder.welfare(*rounds, horizon, &logs())).sum();
    let longest = pairs().map(|(bidder, rounds)| bidder.left_after(*rounds, horizon)).fold(0.0, f64::max);
    welfare / of_all - horizon.makespan * longest
}

/// The best number of rounds of each job; none: what they must have at least is more than there is, or more than is of use to one.
pub fn rounds(bidders: &[Bidder], horizon: &Horizon) -> Option<Vec<u32>> {
    if bidders.iter().any(|bidder| bidder.least > bidder.most(horizon)) {
        return None;
    }
    let mut bids: Vec<(f64, usize, u32)> = Vec::new();
    for (at, bidder) in bidders.iter().enumerate() {
        let mut gain = f64::INFINITY;
        for had in 0..bidder.most(horizon) {
            let more = bidder.welfare(had + 1, horizon, &logs()) - bidder.welfare(had, horizon, &logs());
            // It never rises but by rounding.
            gain = gain.min(more / f64::from(bidder.gpus)) + 0.0;
            bids.push((gain, at, had));
        }
    }
    bids.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let with = |bound: f64| {
        let rounds = fill(bidders, &bids, bound, horizon)?;
        Some((value(bidders, &rounds, horizon), rounds))
    };
    // Bounds that ask for other numbers of rounds; without one they are those of the bidders themselves.
    let mut bounds: Vec<f64> = Vec::new();
    for bidder in bidders {
        bounds.extend((0..=bidder.most(horizon)).map(|rounds| bidder.left_after(rounds, horizon)));
    }
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    let mut best = with(f64::INFINITY)?;
    let worth = |at: usize| with(bounds[at]).map_or(f64::NEG_INFINITY, |(value, _)| value);
    let (mut low, mut high) = (0, bounds.len().saturating_sub(1));
    while high - low > 8 {
        let third = (high - low) / 3;
        // Bounds that can't be kept are too low.
        let (below, above) = (worth(low + third), worth(high - third));
        if below < above || below == f64::NEG_INFINITY {
            low += third;
        } else {
            high -= third;
        }
    }
    for bound in bounds.iter().skip(low).take(high + 1 - low) {
        if let Some(found) = with(*bound)
            && found.0 > best.0
        {
            best = found;
        }
    }
    Some(best.1)
}

/// Numbers of rounds with which at most `bound` seconds are left of each job, as far as rounds are of use to it; what is left over goes to the highest bids.
fn fill(bidders: &[Bidder], bids: &[(f64, usize, u32)], bound: f64, horizon: &Horizon) -> Option<Vec<u32>> {
    let mut rounds: Vec<u32> =
        bidders.iter().map(|bidder| bidder.least_for(bound, bidder.most(horizon), horizon)).collect();
    let taken: u64 =
        bidders.iter().zip(&rounds).map(|(bidder, rounds)| u64::from(bidder.gpus) * u64::from(*rounds)).sum();
    let mut room = (u64::from(horizon.gpus) * u64::from(horizon.rounds)).checked_sub(taken)?;
    for (_, at, had) in bids {
        let gpus = u64::from(bidders[*at].gpus);
        if rounds[*at] == *had && gpus <= room {
            rounds[*at] += 1;
            room -= gpus;
        }
    }
    Some(rounds)
}

/// Lays the rounds of jobs out: which run in each. Larger gangs are laid out first, jobs with more rounds first, in the rounds with the most room, so that few rounds are left out. Then
/// rounds and jobs are exchanged as long as that makes the weighted sum of the jobs' mean rounds less, which the artifact minimises by a second program.
pub fn layout(bidders: &[Bidder], rounds: &[u32], horizon: &Horizon) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..bidders.len()).filter(|at| rounds[*at] > 0).collect();
    order.sort_by_key(|at| Reverse((bidders[*at].gpus, rounds[*at])));
    let mut plan: Vec<Round> =
        (0..horizon.rounds).map(|_| Round { room: horizon.gpus, jobs: BTreeSet::new() }).collect();
    for at in order {
        let mut with_room: Vec<&mut Round> = plan.iter_mut().filter(|round| round.room >= bidders[at].gpus).collect();
        with_room.sort_by_key(|round| Reverse(round.room));
        with_room.into_iter().take(rounds[at] as usize).for_each(|round| round.add(at, bidders));
    }
    // What a job costs for each round that it runs later.
    let cost = |at: usize| bidders[at].weight / f64::from(rounds[at].max(1));
    let of_round = |round: &Round| round.jobs.iter().map(|at| cost(*at)).sum::<f64>();
    plan.sort_by(|a, b| of_round(b).total_cmp(&of_round(a)));
    let pairs = plan.len() * plan.len() / 2;
    let most = plan.iter().map(|round| round.jobs.len()).max().unwrap_or(0);
    for _ in 0..(LOOKED_AT / (pairs * most).max(1)).clamp(1, EXCHANGES) {
        let mut changed = false;
        for late in 1..plan.len() {
            let (before, after) = plan.split_at_mut(late);
            for early in before {
                changed |= exchange(early, &mut after[0], bidders, cost);
            }
        }
        if !changed {
            break;
        }
    }
    plan.into_iter().map(|round| round.jobs.into_iter().collect()).collect()
}

/// A round, and the GPUs that are left in it.
struct Round {
    room: u32,
    jobs: BTreeSet<usize>,
}

impl Round {
    fn add(&mut self, at: usize, bidders: &[Bidder]) {
        self.jobs.insert(at);
        self.room -= bidders[at].gpus;
    }

    fn remove(&mut self, at: usize, bidders: &[Bidder]) {
        self.jobs.remove(&at);
        self.room += bidders[at].gpus;
    }

    /// Jobs that are not in another round, the cheapest first.
    fn without(&self, other: &Round, cost: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut jobs: Vec<usize> = self.jobs.difference(&other.jobs).copied().collect();
        jobs.sort_by(|a, b| cost(*a).total_cmp(&cost(*b)).then(b.cmp(a)));
        jobs
    }
}

/// Moves jobs to the earlier of two rounds where there is room, and exchanges jobs of one size where the later one costs more. Returns whether it did.
fn exchange(early: &mut Round, late: &mut Round, bidders: &[Bidder], cost: impl Fn(usize) -> f64 + Copy) -> bool {
    let mut changed = false;
    let mut cheap = early.without(late, cost);
    for at in late.without(early, cost).into_iter().rev() {
        let gpus = bidders[at].gpus;
        if early.room >= gpus {
            late.remove(at, bidders);
            early.add(at, bidders);
            changed = true;
        } else if let Some(found) = cheap.iter().position(|other| bidders[*other].gpus == gpus)
            && cost(cheap[found]) < cost(at)
        {
            let other = cheap.remove(found);
            early.remove(other, bidders);
            late.remove(at, bidders);
            early.add(at, bidders);
            late.add(other, bidders);
            changed = true;
        }
    }
    changed
}
