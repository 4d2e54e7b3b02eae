//! Which jobs run in which of the next rounds: the schedule that maximises the Nash social welfare of progress, less what the longest job delays the end.
//!
//! The artifact hands two mixed-integer programs to a solver. Here they are solved by their structure. A job's gain depends on its number of rounds alone and is concave in it; so for a bound on the
//! longest job's time left, which is a least number of rounds of each job, the best numbers are had by giving one round after another to the job that gains the most for a GPU. The bound itself is
//! found by ternary search. Both programs are so solved exactly where each job has one GPU; gangs may leave a few rounds out.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Times that all pairs of rounds are looked at for exchanges, at most; and jobs of pairs that are looked at, about.
const EXCHANGES: usize = 20;
const LOOKED_AT: usize = 400_000;

/// Progress at which the logarithm is taken, linear in between; the logarithm of 0 is that of [`NOTHING`].
const BASES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
const NOTHING: f64 = 1e-6;

/// A job, as the market sees it.
#[derive(Clone, Debug)]
pub struct Bidder {
    /// Size of its gang.
    pub gpus: u32,
    /// All of its epochs.
    pub epochs: f64,
    /// Those that are done.
    pub done: f64,
    /// Seconds of an epoch.
    pub epoch_s: f64,
    /// Seconds that are left.
    pub left_s: f64,
    /// Weight of its progress.
    pub weight: f64,
    /// Rounds that it must have at least.
    pub least: u32,
}

/// What is planned for.
#[derive(Clone, Copy, Debug)]
pub struct Horizon {
    /// GPUs of a round.
    pub gpus: u32,
    /// Rounds.
    pub rounds: u32,
    /// Seconds of a round.
    pub round_s: f64,
    /// What a second of the longest job's time left costs.
    pub makespan: f64,
}

impl Bidder {
    /// Epochs that so many rounds are enough for.
    fn trained(&self, rounds: u32, horizon: &Horizon) -> f64 {
        (f64::from(rounds) * horizon.round_s / self.epoch_s).min(self.epochs - self.done)
    }

    /// Rounds after which more are of no use.
    fn most(&self, horizon: &Horizon) -> u32 {
        let rounds = ((self.epochs - self.done) * self.epoch_s / horizon.round_s).ceil();
        if self.gpus > horizon.gpus { 0 } else { (rounds as u32).clamp(1, horizon.rounds) }
    }

    /// Weighted logarithm of the progress that it has made after so many rounds.
    fn welfare(&self, rounds: u32, horizon: &Horizon) -> f64 {
        let progress = (self.done + self.trained(rounds, horizon)) / self.epochs;
        let at = BASES[1..BASES.len() - 1].partition_point(|base| *base <= progress);
        let log = |base: f64| libm::log(if base == 0.0 { NOTHING } else { base });
        let (low, high) = (BASES[at], BASES[at + 1]);
        let part = ((progress - low) / (high - low)).clamp(0.0, 1.0);
        self.weight * (log(low) * (1.0 - part) + log(high) * part)
    }

    /// Seconds that are left after so many rounds.
    fn left_after(&self, rounds: u32, horizon: &Horizon) -> f64 {
        (self.left_s - self.trained(rounds, horizon) * self.epoch_s).max(0.0)
    }

    /// Rounds after which at most so many seconds are left, or as many as are of use.
    fn least_for(&self, left_s: f64, horizon: &Horizon) -> u32 {
        let most = self.most(horizon);
        let rounds = ((self.left_s - left_s) / horizon.round_s).ceil().max(0.0);
        (rounds as u32).max(self.least).min(most)
    }
}

/// The value of these numbers of rounds.
pub fn value(bidders: &[Bidder], rounds: &[u32], horizon: &Horizon) -> f64 {
    let of_all = (bidders.len() as f64) * f64::from(horizon.rounds);
    let pairs = || bidders.iter().zip(rounds);
    let welfare: f64 = pairs().map(|(bidder, rounds)| bidder.welfare(*rounds, horizon)).sum();
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
            let more = bidder.welfare(had + 1, horizon) - bidder.welfare(had, horizon);
            // It never rises but by rounding.
            gain = gain.min(more / f64::from(bidder.gpus));
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
    let mut rounds: Vec<u32> = bidders.iter().map(|bidder| bidder.least_for(bound, horizon)).collect();
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

#[cfg(test)]
mod tests {
    use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
    use sandtable_policy::Draws;

    use super::*;

    const HORIZON: Horizon = Horizon { gpus: 8, rounds: 4, round_s: 120.0, makespan: 1e-3 };

    /// Jobs on eight GPUs, in gangs of the sizes that are given.
    fn market(draws: &mut Draws, gangs: &[u32]) -> Vec<Bidder> {
        let job = |draws: &mut Draws| {
            let epochs = 3 + draws.below(40);
            let (done, epoch_s) = (draws.below(epochs), 20.0 + draws.below(200) as f64);
            let left_s = (epochs - done) as f64 * epoch_s * (0.7 + 0.1 * draws.below(7) as f64);
            let weight = [1.0, 1.0, 3.0, 40.0][draws.below(4)];
            let gpus = gangs[draws.below(gangs.len())];
            Bidder { gpus, epochs: epochs as f64, done: done as f64, epoch_s, left_s, weight, least: 0 }
        };
        (0..8).map(|_| job(draws)).collect()
    }

    /// Whether each job runs in each round, for one of the artifact's two programs.
    fn variables(program: &mut Problem, bidders: &[Bidder], cost: impl Fn(usize, usize) -> f64) -> Vec<Vec<Variable>> {
        let rounds = HORIZON.rounds as usize;
        let runs: Vec<Vec<Variable>> = (0..bidders.len())
            .map(|job| (0..rounds).map(|round| program.add_binary_var(cost(job, round))).collect())
            .collect();
        for round in 0..rounds {
            let gpus: Vec<(Variable, f64)> =
                bidders.iter().zip(&runs).map(|(bidder, runs)| (runs[round], f64::from(bidder.gpus))).collect();
            program.add_constraint(gpus, ComparisonOp::Le, f64::from(HORIZON.gpus));
        }
        runs
    }

    /// The best value by the artifact's first program.
    fn solved(bidders: &[Bidder]) -> f64 {
        let mut program = Problem::new(OptimizationDirection::Maximize);
        let of_all = bidders.len() as f64 * f64::from(HORIZON.rounds);
        let runs = variables(&mut program, bidders, |_, _| 0.0);
        let longest = program.add_var(-HORIZON.makespan, (0.0, f64::INFINITY));
        for (bidder, runs) in bidders.iter().zip(&runs) {
            let log = |base: &f64| libm::log(if *base == 0.0 { NOTHING } else { *base });
            let parts: Vec<Variable> =
                BASES.iter().map(|base| program.add_var(bidder.weight * log(base) / of_all, (0.0, 1.0))).collect();
            let trained = program.add_var(0.0, (0.0, f64::INFINITY));
            let whole: Vec<(Variable, f64)> = parts.iter().map(|part| (*part, 1.0)).collect();
            program.add_constraint(whole, ComparisonOp::Eq, 1.0);
            let mut progress: Vec<(Variable, f64)> =
                parts.iter().zip(BASES).map(|(part, base)| (*part, base * bidder.epochs)).collect();
            progress.push((trained, -1.0));
            program.add_constraint(progress, ComparisonOp::Eq, bidder.done);
            let mut time: Vec<(Variable, f64)> = runs.iter().map(|runs| (*runs, HORIZON.round_s)).collect();
            time.push((trained, -bidder.epoch_s));
            program.add_constraint(time, ComparisonOp::Ge, 0.0);
            program.add_constraint([(longest, 1.0), (trained, bidder.epoch_s)], ComparisonOp::Ge, bidder.left_s);
        }
        program.solve().expect("a solution").objective()
    }

    /// Rounds of each job that a layout has.
    fn laid(plan: &[Vec<usize>], jobs: usize) -> Vec<u32> {
        (0..jobs).map(|job| plan.iter().filter(|round| round.contains(&job)).count() as u32).collect()
    }

    #[test]
    fn rounds_are_as_good_as_a_solver_s_but_for_gangs() {
        let mut draws = Draws::new(1);
        for case in 0..40 {
            let gangs = [&[1][..], &[1, 2]][case % 2];
            let bidders = market(&mut draws, gangs);
            let rounds = rounds(&bidders, &HORIZON).expect("nothing is asked");
            let (best, ours) = (solved(&bidders), value(&bidders, &rounds, &HORIZON));
            let plan = layout(&bidders, &rounds, &HORIZON);
            let laid = value(&bidders, &laid(&plan, bidders.len()), &HORIZON);
            if gangs.len() == 1 {
                assert!((ours - best).abs() < 1e-9 && (laid - best).abs() < 1e-9, "{case}: {ours}, {laid}, {best}");
            } else {
                // A round that is left out for want of a place counts for much on eight GPUs.
                assert!(laid >= best - 0.1 * best.abs(), "{case}: {laid}, {best}");
            }
        }
    }

    #[test]
    fn layouts_are_as_good_as_a_solver_s_but_for_gangs() {
        let mut draws = Draws::new(2);
        for case in 0..40 {
            let gangs = [&[1][..], &[1, 2]][case % 2];
            let bidders = market(&mut draws, gangs);
            let rounds = rounds(&bidders, &HORIZON).expect("nothing is asked");
            let plan = layout(&bidders, &rounds, &HORIZON);
            let rounds = laid(&plan, bidders.len());
            let cost = |job: usize, round: usize| bidders[job].weight * round as f64 / f64::from(rounds[job].max(1));
            let in_rounds = |(round, jobs): (usize, &Vec<usize>)| jobs.iter().map(|job| cost(*job, round)).sum::<f64>();
            let ours: f64 = plan.iter().enumerate().map(in_rounds).sum();
            let mut program = Problem::new(OptimizationDirection::Minimize);
            let runs = variables(&mut program, &bidders, cost);
            for (runs, rounds) in runs.iter().zip(&rounds) {
                let sum: Vec<(Variable, f64)> = runs.iter().map(|runs| (*runs, 1.0)).collect();
                program.add_constraint(sum, ComparisonOp::Eq, f64::from(*rounds));
            }
            let best = program.solve().expect("a solution").objective();
            let worse = if gangs.len() == 1 { 1e-9 } else { 0.1 };
            assert!(ours <= best * (1.0 + worse), "{case}: {ours}, {best}");
        }
    }
}
