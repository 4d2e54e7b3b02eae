//! In which of the rounds of a window each job runs.

use std::cmp::Reverse;

use super::{Bidder, Horizon};

/// Times that all pairs of rounds are looked at for exchanges, at most; and jobs of pairs that are looked at, about.
pub(super) const EXCHANGES: usize = 20;
pub(super) const LOOKED_AT: usize = 400_000;

/// Lays the rounds of jobs out: which run in each. Larger gangs are laid out first, jobs with more rounds first, in the rounds with the most room, so that few rounds are left out. Then
/// rounds and jobs are exchanged as long as that makes the weighted sum of the jobs' mean rounds less, which the artifact minimises by a second program.
pub fn layout(bidders: &[Bidder], rounds: &[u32], horizon: &Horizon) -> Vec<Vec<usize>> {
    let ranks = Ranks::of(bidders, rounds);
    let spread = spread(bidders, rounds, horizon);
    // What a round costs, summed in the order of its jobs.
    let cost = |round: &Round| round.jobs.iter().map(|at| ranks.cost[ranks.of[at]]).sum::<f64>();
    let mut by_cost: Vec<(f64, Round)> = spread.into_iter().map(|round| (cost(&round), round)).collect();
    by_cost.sort_by(|a, b| b.0.total_cmp(&a.0));
    let ranked = |(_, round): (f64, Round)| Round { jobs: round.jobs.renamed(|at| ranks.of[at]), ..round };
    let mut plan: Vec<Round> = by_cost.into_iter().map(ranked).collect();
    let pairs = plan.len() * plan.len() / 2;
    let most = plan.iter().map(|round| round.jobs.iter().count()).max().unwrap_or(0);
    for _ in 0..(LOOKED_AT / (pairs * most).max(1)).clamp(1, EXCHANGES) {
        let mut changed = false;
        for late in 1..plan.len() {
            let (before, after) = plan.split_at_mut(late);
            for early in before {
                changed |= ranks.exchange(early, &mut after[0]);
            }
        }
        if !changed {
            break;
        }
    }
    plan.iter().map(|round| round.jobs.renamed(|rank| ranks.jobs[rank]).iter().collect()).collect()
}

/// Rounds that have the jobs' numbers of rounds, as far as they find room.
fn spread(bidders: &[Bidder], rounds: &[u32], horizon: &Horizon) -> Vec<Round> {
    let mut order: Vec<usize> = (0..bidders.len()).filter(|at| rounds[*at] > 0).collect();
    order.sort_by_key(|at| Reverse((bidders[*at].gpus, rounds[*at])));
    let empty = || Round { room: horizon.gpus, jobs: Set::new(bidders.len()) };
    let mut plan: Vec<Round> = (0..horizon.rounds).map(|_| empty()).collect();
    // Those with the most room first.
    let mut by_room: Vec<usize> = (0..plan.len()).collect();
    for at in order {
        let gpus = bidders[at].gpus;
        for round in by_room.iter().take(rounds[at] as usize) {
            let round = &mut plan[*round];
            if round.room < gpus {
                break;
            }
            round.jobs.insert(at);
            round.room -= gpus;
        }
        by_room.sort_by_key(|round| (Reverse(plan[*round].room), *round));
    }
    plan
}

/// A round, and the GPUs that are left in it.
struct Round {
    room: u32,
    jobs: Set,
}

/// Jobs by what they cost for each round that they run later, the cheapest first.
struct Ranks {
    /// The rank of each job, and the job of each rank.
    of: Vec<usize>,
    jobs: Vec<usize>,
    /// By rank: cost, GPUs and which of the sizes of gangs that is.
    cost: Vec<f64>,
    gpus: Vec<u32>,
    size: Vec<usize>,
    /// The ranks of each size of gang, and the least size.
    of_size: Vec<Set>,
    least: u32,
}

impl Ranks {
    fn of(bidders: &[Bidder], rounds: &[u32]) -> Ranks {
        let cost = |at: usize| bidders[at].weight / f64::from(rounds[at].max(1));
        let mut jobs: Vec<usize> = (0..bidders.len()).collect();
        jobs.sort_unstable_by(|a, b| cost(*a).total_cmp(&cost(*b)).then(b.cmp(a)));
        let mut of = vec![0; jobs.len()];
        jobs.iter().enumerate().for_each(|(rank, at)| of[*at] = rank);
        let gpus: Vec<u32> = jobs.iter().map(|at| bidders[*at].gpus).collect();
        let mut sizes = gpus.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let size: Vec<usize> = gpus.iter().map(|gpus| sizes.partition_point(|size| size < gpus)).collect();
        let mut of_size: Vec<Set> = sizes.iter().map(|_| Set::new(jobs.len())).collect();
        size.iter().enumerate().for_each(|(rank, size)| of_size[*size].insert(rank));
        let least = sizes.first().copied().unwrap_or(0);
        let cost = jobs.iter().map(|at| cost(*at)).collect();
        Ranks { of, jobs, cost, gpus, size, of_size, least }
    }

    /// Moves jobs to the earlier of two rounds where there is room, and exchanges jobs of one size where the later one costs more. Returns whether it did.
    fn exchange(&self, early: &mut Round, late: &mut Round) -> bool {
        let mut changed = false;
        let mut cheap = early.jobs.without(&late.jobs);
        let dear = late.jobs.without(&early.jobs);
        // Sizes of which no job of the later round costs more than the cheapest of the earlier.
        let mut done = vec![false; self.of_size.len()];
        let mut left = done.len();
        for rank in dear.descending() {
            let (gpus, size) = (self.gpus[rank], self.size[rank]);
            if early.room >= gpus {
                late.jobs.remove(rank);
                late.room += gpus;
                early.jobs.insert(rank);
                early.room -= gpus;
                changed = true;
            } else if !done[size] {
                match cheap.first_in(&self.of_size[size]).filter(|other| self.cost[*other] < self.cost[rank]) {
                    Some(other) => {
                        cheap.remove(other);
                        early.jobs.remove(other);
                        late.jobs.remove(rank);
                        early.jobs.insert(rank);
                        late.jobs.insert(other);
                        changed = true;
                    }
                    None => {
                        done[size] = true;
                        left -= 1;
                    }
                }
            }
            if left == 0 && early.room < self.least {
                break;
            }
        }
        changed
    }
}

/// Small numbers, a bit for each.
struct Set(Vec<u64>);

impl Set {
    /// None of the numbers below `end`.
    fn new(end: usize) -> Set {
        Set(vec![0; end.div_ceil(64)])
    }

    fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    fn without(&self, other: &Set) -> Set {
        Set(self.0.iter().zip(&other.0).map(|(a, b)| a & !b).collect())
    }

    fn renamed(&self, name: impl Fn(usize) -> usize) -> Set {
        let mut renamed = Set(vec![0; self.0.len()]);
        self.iter().for_each(|number| renamed.insert(name(number)));
        renamed
    }

    /// The least that is in another set too.
    fn first_in(&self, other: &Set) -> Option<usize> {
        let (at, bits) = self.0.iter().zip(&other.0).map(|(a, b)| a & b).enumerate().find(|(_, bits)| *bits != 0)?;
        Some(at * 64 + bits.trailing_zeros() as usize)
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        })
    }

    fn descending(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().rev().flat_map(|(at, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| 63 - word.leading_zeros() as usize)?;
                word &= !(1 << bit);
                Some(at * 64 + bit)
            })
        })
    }
}
