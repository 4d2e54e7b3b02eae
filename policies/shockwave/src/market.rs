//! Which jobs run in which of the next rounds: the schedule that maximises the Nash social welfare of progress, less what the longest job delays the end.
//!
//! The artifact hands two mixed-integer programs to a solver. Here they are solved by their structure. A job's gain depends on its number of rounds alone and is
//! concave in it, and gangs of powers of two fit any rounds in which they fit together; so for a bound on the longest job's time left, which is a least number of
//! rounds of each job, the best numbers are had by giving one round after another to the job that gains the most for a GPU. The bound itself is found by ternary search.

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

/// Lays the rounds of jobs out: which run in each. Jobs come early by their weight for a round and a GPU; one that needs all rounds that are left is in each of them.
/// The artifact minimises the weighted sum of mean rounds by a second program.
pub fn layout(bidders: &[Bidder], rounds: &[u32], horizon: &Horizon) -> Vec<Vec<usize>> {
    let mut left = rounds.to_vec();
    let density = |at: usize| bidders[at].weight / (f64::from(rounds[at]) * f64::from(bidders[at].gpus));
    let mut order: Vec<usize> = (0..bidders.len()).filter(|at| rounds[*at] > 0).collect();
    order.sort_by(|a, b| density(*b).total_cmp(&density(*a)).then(a.cmp(b)));
    let mut plan = Vec::new();
    for round in 0..horizon.rounds {
        let to_come = horizon.rounds - round;
        let mut room = horizon.gpus;
        let mut chosen = Vec::new();
        let urgent = |at: &&usize| left[**at] >= to_come;
        let mut first: Vec<usize> = order.iter().filter(urgent).copied().collect();
        first.sort_by_key(|at| std::cmp::Reverse(bidders[*at].gpus));
        let others = order.iter().filter(|at| left[**at] > 0 && left[**at] < to_come).copied();
        for at in first.into_iter().chain(others.collect::<Vec<usize>>()) {
            if bidders[at].gpus <= room {
                room -= bidders[at].gpus;
                chosen.push(at);
            }
        }
        chosen.iter().for_each(|at| left[*at] -= 1);
        plan.push(chosen);
    }
    plan
}
