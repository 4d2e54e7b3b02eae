//! NLWP: which GPUs of a node a job gets (Geng et al. 2020, our reconstruction).

use sandtable_policy::Communication;

/// What of a job counts here.
#[derive(Clone, Copy, Debug)]
pub struct Gang {
    /// Size.
    pub count: usize,
    /// Seconds of a step alone.
    pub step: f64,
    /// GB of gradients exchanged in a step.
    pub gradient: f64,
    /// How.
    pub communication: Communication,
}

/// The parameters of the trade.
#[derive(Clone, Copy, Debug)]
pub struct Trade {
    /// φ: the part of a step's computation that hides communication.
    pub phi: f64,
    /// α: seconds of latency of each exchange.
    pub latency: f64,
    /// β: what harm to residents weighs against one's own slowdown.
    pub beta: f64,
}

/// An eligible GPU: its index in its node, and what sharing it would cost.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Index in the node.
    pub gpu: usize,
    /// Speed of the newcomer beside the residents; 1 where there are none.
    pub own: f64,
    /// Sum of what each resident loses of its speed.
    pub harm: f64,
    /// Whether there are residents.
    pub shared: bool,
}

/// The winner.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Indices in the node, ascending.
    pub gpus: Vec<usize>,
    /// `own + beta * harm`: what was minimised.
    pub cost: f64,
    /// The newcomer's slowdown against the best that an empty node gives.
    pub own: f64,
    /// What residents lose, on average over the gang.
    pub harm: f64,
    /// `1 / own - harm`: throughput won by sharing.
    pub gain: f64,
    /// Whether a GPU of it is shared.
    pub shares: bool,
}

/// Most subsets that are tried; beyond, the gang grows from the best pair.
const EXHAUSTIVE: f64 = 20_000.0;

/// Costs closer than this are equal: the lexicographically smaller set of GPUs wins.
const TIE: f64 = 1e-12;

/// Seconds of a step of a gang at bandwidth `width` (GB/s) and speed `p`: what communication is not hidden is added.
fn step(gang: &Gang, trade: &Trade, width: f64, p: f64) -> f64 {
    let (k, compute) = (gang.count as f64, gang.step / p);
    let exchange = match gang.communication {
        _ if gang.count == 1 || gang.gradient == 0.0 => 0.0,
        Communication::Ring => 2.0 * (k - 1.0) / k * gang.gradient / width + 2.0 * (k - 1.0) * trade.latency,
        Communication::ParameterServer => 2.0 * gang.gradient * (k - 1.0) / width + 2.0 * trade.latency,
    };
    compute + (exchange - trade.phi * compute).max(0.0)
}

/// The slowest link that a gang uses; 0: two of them have none. Without a matrix every link is as good.
fn width(links: &[f64], size: usize, gpus: &[usize], communication: Communication) -> f64 {
    if links.is_empty() {
        return f64::INFINITY;
    }
    let mut least = f64::INFINITY;
    for (index, b) in gpus.iter().enumerate() {
        for a in &gpus[..index] {
            if communication == Communication::Ring || *a == gpus[0] {
                least = least.min(links[a * size + b]);
            }
        }
    }
    least
}

/// The least step time of a gang on an empty node of `size` GPUs.
pub fn best_step(links: &[f64], size: usize, gang: &Gang, trade: &Trade) -> f64 {
    let mut best = f64::INFINITY;
    let all: Vec<usize> = (0..size).collect();
    if subsets(size, gang.count) <= EXHAUSTIVE {
        each_subset(&all, gang.count, |chosen| {
            best = best.min(step(gang, trade, width(links, size, chosen, gang.communication), 1.0));
        });
    } else {
        for run in all.windows(gang.count) {
            best = best.min(step(gang, trade, width(links, size, run, gang.communication), 1.0));
        }
    }
    best
}

/// The GPUs of least cost; none where no subset is connected.
pub fn choose(links: &[f64], size: usize, seats: &[Seat], gang: &Gang, trade: &Trade, best: f64) -> Option<Choice> {
    let judge = |chosen: &[usize]| -> Option<Choice> {
        let gpus: Vec<usize> = chosen.iter().map(|at| seats[*at].gpu).collect();
        let count = gpus.len() as f64;
        let own = chosen.iter().map(|at| seats[*at].own.max(0.05)).fold(f64::INFINITY, f64::min);
        let harm = chosen.iter().map(|at| seats[*at].harm).sum::<f64>() / count;
        let width = width(links, size, &gpus, gang.communication);
        if width <= 0.0 {
            return None;
        }
        let slower = step(&Gang { count: gpus.len(), ..*gang }, trade, width, own) / best;
        let shares = chosen.iter().any(|at| seats[*at].shared);
        Some(Choice { gpus, cost: slower + trade.beta * harm, own: slower, harm, gain: 1.0 / slower - harm, shares })
    };
    let mut winner: Option<Choice> = None;
    let mut offer = |chosen: &[usize]| {
        if let Some(choice) = judge(chosen)
            && winner.as_ref().is_none_or(|winner| choice.cost < winner.cost - TIE)
        {
            winner = Some(choice);
        }
    };
    let all: Vec<usize> = (0..seats.len()).collect();
    if subsets(seats.len(), gang.count) <= EXHAUSTIVE {
        each_subset(&all, gang.count, offer);
        return winner;
    }
    // From the best pair, always the seat that costs least.
    let mut pair: Option<(f64, Vec<usize>)> = None;
    each_subset(&all, 2, |chosen| {
        if let Some(choice) = judge(chosen)
            && pair.as_ref().is_none_or(|(cost, _)| choice.cost < cost - TIE)
        {
            pair = Some((choice.cost, chosen.to_vec()));
        }
    });
    let mut chosen = pair?.1;
    while chosen.len() < gang.count {
        let mut next: Option<(f64, Vec<usize>)> = None;
        for seat in all.iter().filter(|seat| !chosen.contains(seat)) {
            let mut grown = chosen.clone();
            grown.push(*seat);
            grown.sort_unstable();
            if let Some(choice) = judge(&grown)
                && next.as_ref().is_none_or(|(cost, _)| choice.cost < cost - TIE)
            {
                next = Some((choice.cost, grown));
            }
        }
        chosen = next?.1;
    }
    offer(&chosen);
    winner
}

fn subsets(of: usize, count: usize) -> f64 {
    if count > of { 0.0 } else { (0..count).fold(1.0, |n, i| n * (of - i) as f64 / (i + 1) as f64) }
}

/// Calls with every subset of this size, in lexicographic order.
fn each_subset(all: &[usize], count: usize, mut call: impl FnMut(&[usize])) {
    if count == 0 || count > all.len() {
        return;
    }
    let mut at: Vec<usize> = (0..count).collect();
    let mut chosen = all[..count].to_vec();
    loop {
        call(&chosen);
        let Some(turn) = (0..count).rev().find(|turn| at[*turn] < all.len() - count + turn) else { return };
        at[turn] += 1;
        for next in turn + 1..count {
            at[next] = at[next - 1] + 1;
        }
        chosen.iter_mut().zip(&at).for_each(|(seat, at)| *seat = all[*at]);
    }
}
