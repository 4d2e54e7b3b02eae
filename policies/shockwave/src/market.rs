//! Which jobs run in which of the next rounds: the schedule that maximises the Nash social welfare of progress, less what the longest job delays the end.
//!
//! The artifact hands two mixed-integer programs to a solver. Here they are solved by their structure. A job's gain depends on its number of rounds alone and is concave in it; so for a bound on the
//! longest job's time left, which is a least number of rounds of each job, the best numbers are had by giving one round after another to the job that gains the most for a GPU. The bound itself is
//! found by ternary search. Both programs are so solved exactly where each job has one GPU; gangs may leave a few rounds out.

mod layout;
#[cfg(test)]
mod plain;

pub use layout::layout;

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
    fn welfare(&self, rounds: u32, horizon: &Horizon, logs: &[f64; BASES.len()]) -> f64 {
        let progress = (self.done + self.trained(rounds, horizon)) / self.epochs;
        let at = BASES[1..BASES.len() - 1].partition_point(|base| *base <= progress);
        let (low, high) = (BASES[at], BASES[at + 1]);
        let part = ((progress - low) / (high - low)).clamp(0.0, 1.0);
        self.weight * (logs[at] * (1.0 - part) + logs[at + 1] * part)
    }

    /// Seconds that are left after so many rounds.
    fn left_after(&self, rounds: u32, horizon: &Horizon) -> f64 {
        (self.left_s - self.trained(rounds, horizon) * self.epoch_s).max(0.0) + 0.0
    }

    /// Rounds after which at most so many seconds are left, or as many as are of use, which are `most`.
    fn least_for(&self, left_s: f64, most: u32, horizon: &Horizon) -> u32 {
        if self.left_s <= left_s {
            return self.least.min(most);
        }
        let rounds = ((self.left_s - left_s) / horizon.round_s).ceil().max(0.0);
        (rounds as u32).max(self.least).min(most)
    }
}

/// The logarithms of [`BASES`].
fn logs() -> [f64; BASES.len()] {
    BASES.map(|base| libm::log(if base == 0.0 { NOTHING } else { base }))
}

/// The best number of rounds of each job; none: what they must have at least is more than there is, or more than is of use to one.
pub fn rounds(bidders: &[Bidder], horizon: &Horizon) -> Option<Vec<u32>> {
    if bidders.iter().any(|bidder| bidder.least > bidder.most(horizon)) {
        return None;
    }
    let mut market = Market::of(bidders, horizon);
    // Bounds that ask for other numbers of rounds; without one they are those of the bidders themselves.
    let mut bounds: Vec<u64> = market.left_s.iter().map(|left_s| left_s.to_bits()).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut best = (market.worth(f64::INFINITY)?, f64::INFINITY);
    let mut worth = |at: usize| market.worth(f64::from_bits(bounds[at])).unwrap_or(f64::NEG_INFINITY);
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
    for (at, bound) in bounds.iter().enumerate().take(high + 1).skip(low) {
        let found = worth(at);
        if found > best.0 {
            best = (found, f64::from_bits(*bound));
        }
    }
    market.worth(best.1);
    Some(market.rounds)
}

/// What each number of rounds is to each bidder, and what they bid for one more.
struct Market<'a> {
    bidders: &'a [Bidder],
    horizon: &'a Horizon,
    /// Where the values of each bidder begin, one for each number of rounds that is of use, and where the last ones end.
    first: Vec<usize>,
    welfare: Vec<f64>,
    /// Seconds that are left.
    left_s: Vec<f64>,
    /// Bidders, the highest bid first, and the rounds that each has before. A bidder's own bids never rise.
    bids: Vec<(u32, u32)>,
    /// GPUs of as many of the highest bids.
    gpus_of: Vec<u64>,
    least_gang: u64,
    /// How many of the highest bids are counted in `counts`, by bidder.
    counted: usize,
    counts: Vec<u32>,
    /// What was worked out last.
    rounds: Vec<u32>,
}

impl Market<'_> {
    fn of<'a>(bidders: &'a [Bidder], horizon: &'a Horizon) -> Market<'a> {
        let logs = logs();
        let (mut first, mut welfare, mut left_s) = (vec![0], Vec::new(), Vec::new());
        // Equal bids of a bidder are sorted as one: what orders them, the bidder and its rounds before the first, how many.
        let mut equal: Vec<(u64, u64, u32)> = Vec::new();
        for (at, bidder) in bidders.iter().enumerate() {
            let most = bidder.most(horizon);
            let before = welfare.len();
            welfare.extend((0..=most).map(|rounds| bidder.welfare(rounds, horizon, &logs)));
            left_s.extend((0..=most).map(|rounds| bidder.left_after(rounds, horizon)));
            first.push(welfare.len());
            let mut gain = f64::INFINITY;
            for (had, pair) in welfare[before..].windows(2).enumerate() {
                // It never rises but by rounding.
                let next = gain.min((pair[1] - pair[0]) / f64::from(bidder.gpus)) + 0.0;
                match equal.last_mut() {
                    Some((.., count)) if had > 0 && next == gain => *count += 1,
                    _ => equal.push((descending(next), (at as u64) << 32 | had as u64, 1)),
                }
                gain = next;
            }
        }
        equal.sort_unstable();
        let one_by_one = |(_, of, count): &(u64, u64, u32)| {
            let (at, had) = ((of >> 32) as u32, *of as u32);
            (had..had + count).map(move |had| (at, had))
        };
        let bids: Vec<(u32, u32)> = equal.iter().flat_map(one_by_one).collect();
        let mut gpus_of = Vec::with_capacity(bids.len() + 1);
        let mut sum = 0;
        gpus_of.push(sum);
        gpus_of.extend(bids.iter().map(|(at, _)| {
            sum += u64::from(bidders[*at as usize].gpus);
            sum
        }));
        let least_gang = bidders.iter().map(|bidder| u64::from(bidder.gpus)).min().unwrap_or(0);
        let none = vec![0; bidders.len()];
        let (counts, rounds) = (none.clone(), none);
        Market { bidders, horizon, first, welfare, left_s, bids, gpus_of, least_gang, counted: 0, counts, rounds }
    }

    /// Works out the numbers of rounds with which at most `bound` seconds are left of each job, as far as rounds are of use to it; what is left over goes to the highest
    /// bids. Returns what they are worth; none: there are not so many rounds.
    fn worth(&mut self, bound: f64) -> Option<f64> {
        let mut taken = 0;
        for (at, bidder) in self.bidders.iter().enumerate() {
            let most = (self.first[at + 1] - self.first[at] - 1) as u32;
            self.rounds[at] = bidder.least_for(bound, most, self.horizon);
            taken += u64::from(bidder.gpus) * u64::from(self.rounds[at]);
        }
        let mut room = (u64::from(self.horizon.gpus) * u64::from(self.horizon.rounds)).checked_sub(taken)?;
        // There is room for all of these bids, whichever of them are for rounds that a job has already.
        let surely = self.gpus_of.partition_point(|gpus| *gpus <= room) - 1;
        self.count(surely);
        for (at, bidder) in self.bidders.iter().enumerate() {
            let more = self.counts[at].saturating_sub(self.rounds[at]);
            self.rounds[at] += more;
            room -= u64::from(bidder.gpus) * u64::from(more);
        }
        for (at, had) in &self.bids[surely..] {
            if room < self.least_gang || room == 0 {
                break;
            }
            let (rounds, gpus) = (&mut self.rounds[*at as usize], u64::from(self.bidders[*at as usize].gpus));
            if *rounds == *had && gpus <= room {
                *rounds += 1;
                room -= gpus;
            }
        }
        Some(self.value())
    }

    /// Counts so many of the highest bids.
    fn count(&mut self, bids: usize) {
        for (at, _) in &self.bids[self.counted.min(bids)..self.counted.max(bids)] {
            let count = &mut self.counts[*at as usize];
            *count = if bids > self.counted { *count + 1 } else { *count - 1 };
        }
        self.counted = bids;
    }

    fn value(&self) -> f64 {
        let (mut welfare, mut longest) = (0.0, 0.0_f64);
        for (first, rounds) in self.first.iter().zip(&self.rounds) {
            let at = first + *rounds as usize;
            welfare += self.welfare[at];
            longest = longest.max(self.left_s[at]);
        }
        let of_all = (self.bidders.len() as f64) * f64::from(self.horizon.rounds);
        welfare / of_all - self.horizon.makespan * longest
    }
}

/// A number that is the less, the greater this one is.
fn descending(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_sign_negative() { bits } else { !bits & !(1 << 63) }
}

#[cfg(test)]
mod tests {
    use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
    use sandtable_policy::Draws;

    use super::plain::value;
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
            let parts: Vec<Variable> =
                logs().iter().map(|log| program.add_var(bidder.weight * log / of_all, (0.0, 1.0))).collect();
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

    #[test]
    fn plans_are_those_of_the_plain_way() {
        let mut draws = Draws::new(3);
        let mut asked = 0;
        for case in 0..400 {
            let jobs = 1 + draws.below(if case % 20 == 0 { 600 } else { 60 });
            let gangs: &[u32] = [&[1][..], &[1, 2, 4, 8], &[1, 1, 1, 3], &[2, 16]][draws.below(4)];
            let mut bidders: Vec<Bidder> = (0..jobs.div_ceil(8)).flat_map(|_| market(&mut draws, gangs)).collect();
            // Some have equal gains, some nothing left, some must have rounds.
            for at in 0..bidders.len() {
                match draws.below(8) {
                    0 => bidders[at] = bidders[draws.below(at + 1)].clone(),
                    1 => bidders[at].done = bidders[at].epochs,
                    2 if case % 2 == 0 => bidders[at].least = draws.below(3) as u32,
                    _ => {}
                }
            }
            let gpus = (1 + draws.below(bidders.len())) as u32;
            let makespan = [0.0, 1e-3, 1.0][draws.below(3)];
            let horizon = Horizon { gpus, rounds: 1 + draws.below(20) as u32, makespan, ..HORIZON };
            let ours = rounds(&bidders, &horizon);
            assert_eq!(ours, plain::rounds(&bidders, &horizon), "{case}");
            let Some(rounds) = ours else { continue };
            asked += 1;
            assert_eq!(layout(&bidders, &rounds, &horizon), plain::layout(&bidders, &rounds, &horizon), "{case}");
        }
        assert!(asked > 200, "{asked}");
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
