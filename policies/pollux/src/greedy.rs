//! The same mean without chance: counts of GPUs, one after another to the job that raises it most, then single GPUs from one
//! job to another as long as that raises it. Gangs are packed.

use sandtable_elastic::Round;
use sandtable_elastic::place::{Pack, smallest_first};
use sandtable_policy::NodeId;

use crate::{LEAST, factors, order};

/// What each job adds to the sum of which the mean is the inverse: by its GPUs, from 0 on.
type Costs = Vec<Vec<f64>>;

pub fn allocate(round: &mut Round<'_>, delay: f64) -> Vec<Vec<NodeId>> {
    let order = order(round);
    let factors = factors(round, &order, delay);
    let gpus: u32 = round.free.iter().sum();
    let scale = 1.0 / f64::from(round.node);
    let mut costs: Costs = Vec::new();
    let mut now = Vec::new();
    for (job, factor) in order.iter().zip(&factors) {
        let held = round.jobs[*job].list.as_ref().map_or(0, Vec::len) as u32;
        let most = round.jobs[*job].reach(round.total).min(gpus);
        let cost = |k: u32| {
            let speedup = if k == 0 { 0.0 } else { round.packed(*job, k) };
            1.0 / (speedup * scale * if k == held { 1.0 } else { *factor } + LEAST)
        };
        costs.push((0..=most).map(cost).collect());
        now.push(held.min(most) as usize);
    }
    let fits = now.iter().sum::<usize>() <= gpus as usize;
    let starts = [Some(vec![0; order.len()]), fits.then_some(now)];
    let tried = starts.into_iter().flatten().map(|start| climb(&costs, start, gpus as usize));
    let best = tried.reduce(|a, b| if total(&costs, &b) < total(&costs, &a) { b } else { a }).unwrap_or_default();
    let mut counts = vec![0; round.jobs.len()];
    for (job, count) in order.iter().zip(best) {
        counts[*job] = count as u32;
    }
    round.place_in(&smallest_first(&order, &counts), &counts, Pack::BestFit)
}

fn total(costs: &Costs, counts: &[usize]) -> f64 {
    costs.iter().zip(counts).map(|(costs, count)| costs[*count]).sum()
}

/// What a job's cost falls by with so many GPUs more.
fn gain(costs: &[f64], count: usize, more: usize) -> f64 {
    costs.get(count + more).map_or(f64::NEG_INFINITY, |next| costs[count] - next)
}

fn climb(costs: &Costs, mut counts: Vec<usize>, gpus: usize) -> Vec<usize> {
    let mut left = gpus - counts.iter().sum::<usize>();
    let first = |scores: &mut dyn Iterator<Item = (usize, f64)>| {
        scores.fold(
            None,
            |best: Option<(usize, f64)>, at| if best.is_none_or(|(_, most)| at.1 > most) { Some(at) } else { best },
        )
    };
    // A change costs something: a step may have to be longer than one GPU to pay.
    for _ in 0..gpus * 4 {
        let mut best: Option<(usize, usize, f64)> = None;
        for more in 1..=left.min(8) {
            let each = |job: usize| (job, gain(&costs[job], counts[job], more) / more as f64);
            if let Some((job, gain)) = first(&mut (0..counts.len()).map(each))
                && best.is_none_or(|(_, _, most)| gain > most)
            {
                best = Some((job, more, gain));
            }
        }
        if let Some((job, more, gain)) = best
            && gain > 0.0
        {
            counts[job] += more;
            left -= more;
            continue;
        }
        // From the job that loses least to the one that gains most.
        let loss = |job: usize| {
            (
                job,
                counts[job].checked_sub(1).map_or(f64::NEG_INFINITY, |less| costs[job][counts[job]] - costs[job][less]),
            )
        };
        let Some((from, lost)) = first(&mut (0..counts.len()).map(loss)) else { break };
        let wins = |job: usize| (job, if job == from { f64::NEG_INFINITY } else { gain(&costs[job], counts[job], 1) });
        let Some((to, won)) = first(&mut (0..counts.len()).map(wins)) else { break };
        if won + lost <= 1e-12 {
            break;
        }
        counts[from] -= 1;
        counts[to] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_left_with_nothing_while_others_have_plenty() {
        let linear = |speed: f64| (0..=8).map(|k| 1.0 / (f64::from(k) * speed + LEAST)).collect::<Vec<f64>>();
        let costs = vec![linear(1.0), linear(1.0), linear(4.0)];
        let counts = climb(&costs, vec![0; 3], 10);
        assert_eq!(counts, [4, 4, 2]);
        // From a bad start to the same.
        assert_eq!(climb(&costs, vec![8, 2, 0], 10), counts);
    }
}
