//! The integer program: of each job at most one choice, so that the GPUs of every type suffice and the sum of costs is least.
//!
//! Costs are whole numbers (hundredths, as the artifact rounds them), so equal plans are equal. Small programs are solved exactly, by
//! dynamic programming over what is left of each type; larger ones by prices of GPUs, and what prices leave undone greedily.

/// Something that a job may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The type, by its place among the capacities.
    pub kind: usize,
    /// GPUs of it, at least one.
    pub gpus: u32,
    /// What it costs to have it.
    pub cost: u32,
}

/// Least value of a size (the artifact's).
const LEAST_VALUE: f64 = 1e-4;
/// Most that a size costs (the artifact's), in hundredths.
const MOST_COST: f64 = 300_000.0;
/// Most steps of the exact way: jobs, times choices, times states.
const MOST_STEPS: u64 = 15_000_000;
/// How often prices are set anew.
const ROUNDS: u32 = 300;

/// What a job's sizes cost, by their goodputs and whether the job stays at that size: the power of each over the least of them, rounded; a change
/// counts for `factor` of its value. A goodput that is unknown is worth the least.
pub fn costs(goodputs: &[(Option<f64>, bool)], factor: f64, power: f64) -> Vec<u32> {
    let known = goodputs.iter().filter_map(|(goodput, _)| *goodput).filter(|goodput| *goodput > 0.0);
    let least = known.fold(f64::INFINITY, f64::min);
    let cost = |(goodput, stays): &(Option<f64>, bool)| {
        let value = goodput.map_or(1.0, |goodput| goodput / least).max(LEAST_VALUE);
        let value = (value * if *stays { 1.0 } else { factor }).max(f64::MIN_POSITIVE);
        libm::rint(100.0 * libm::pow(value, power)).min(MOST_COST) as u32
    };
    goodputs.iter().map(cost).collect()
}

/// The index of each job's choice; none: it has nothing, at the cost of `without`. Of choices that cost the same the first is taken.
pub fn choose(jobs: &[Vec<Choice>], capacity: &[u32], without: u32) -> Vec<Option<usize>> {
    let capacity = &usable(jobs.iter(), capacity);
    if work(jobs.iter().map(Vec::len), capacity) <= MOST_STEPS {
        exactly(jobs, capacity, without)
    } else {
        by_prices(jobs, capacity, without, MOST_STEPS)
    }
}

/// The sum of costs of a plan.
pub fn cost(jobs: &[Vec<Choice>], plan: &[Option<usize>], without: u32) -> u64 {
    let of = |(choices, at): (&Vec<Choice>, &Option<usize>)| at.map_or(without, |at| choices[at].cost);
    jobs.iter().zip(plan).map(|pair| u64::from(of(pair))).sum()
}

/// By dynamic programming: the least cost of the jobs so far for every amount of GPUs that they may use.
pub fn exactly(jobs: &[Vec<Choice>], capacity: &[u32], without: u32) -> Vec<Option<usize>> {
    // A state is a number in a mixed base: what is left of the first type counts the least.
    let mut stride = Vec::with_capacity(capacity.len());
    let mut states = 1usize;
    for gpus in capacity {
        stride.push(states);
        states *= *gpus as usize + 1;
    }
    let mut best = vec![0u64; states];
    let mut taken: Vec<Vec<u16>> = Vec::with_capacity(jobs.len());
    for choices in jobs {
        let mut next: Vec<u64> = best.iter().map(|cost| cost + u64::from(without)).collect();
        let mut took = vec![u16::MAX; states];
        for (index, choice) in choices.iter().enumerate().take(usize::from(u16::MAX)) {
            let step = choice.gpus as usize * stride[choice.kind];
            // States that differ in what is left of this type and of those that count less are next to each other.
            let block = stride[choice.kind] * (capacity[choice.kind] as usize + 1);
            for first in (0..states).step_by(block) {
                let (from, to) = (first + step.min(block), first + block);
                let without = &best[first..];
                for ((next, took), before) in next[from..to].iter_mut().zip(&mut took[from..to]).zip(without) {
                    let cost = before + u64::from(choice.cost);
                    if cost < *next {
                        (*next, *took) = (cost, index as u16);
                    }
                }
            }
        }
        best = next;
        taken.push(took);
    }
    let mut state = states - 1;
    let mut plan = vec![None; jobs.len()];
    for (job, took) in taken.iter().enumerate().rev() {
        if took[state] != u16::MAX {
            let choice = jobs[job][usize::from(took[state])];
            plan[job] = Some(usize::from(took[state]));
            state -= choice.gpus as usize * stride[choice.kind];
        }
    }
    plan
}

/// By prices: each job takes what is cheapest with the price of its GPUs, prices rise where more is taken than there is and fall where less.
/// Under the prices that say the most about the least cost, a plan is made to fit, what is left over is given to the job that gains the most for each
/// GPU, and the jobs that are nearest to another choice are planned again exactly, as many at a time as `budget` steps allow.
pub fn by_prices(jobs: &[Vec<Choice>], capacity: &[u32], without: u32, budget: u64) -> Vec<Option<usize>> {
    let mut prices = vec![0.0f64; capacity.len()];
    let mut best = (f64::NEG_INFINITY, prices.clone());
    for round in 0..ROUNDS {
        let plan: Vec<Option<usize>> = jobs.iter().map(|choices| cheapest(choices, &prices, without)).collect();
        let wanted = used(jobs, &plan, capacity.len());
        let over = |kind: usize| f64::from(wanted[kind]) - f64::from(capacity[kind]);
        // No plan costs less than this.
        let bound = cost(jobs, &plan, without) as f64
            + prices.iter().enumerate().map(|(kind, price)| price * over(kind)).sum::<f64>();
        if bound > best.0 {
            best = (bound, prices.clone());
        }
        // Steps shrink, so that prices settle.
        let step = 20.0 / f64::from(1 + round);
        for (kind, price) in prices.iter_mut().enumerate() {
            *price = (*price + step * over(kind) / f64::from(capacity[kind].max(1))).max(0.0);
        }
    }
    let (_, prices) = best;
    let mut plan: Vec<Option<usize>> = jobs.iter().map(|choices| cheapest(choices, &prices, without)).collect();
    fit(jobs, &mut plan, capacity, without);
    fill(jobs, &mut plan, capacity, without);
    again(jobs, &mut plan, capacity, without, (&prices, budget));
    plan
}

/// Plans again exactly, a window of jobs after the other, those that prices nearly leave undecided first.
fn again(
    jobs: &[Vec<Choice>],
    plan: &mut [Option<usize>],
    capacity: &[u32],
    without: u32,
    (prices, budget): (&[f64], u64),
) {
    let regret = |job: &usize| {
        let priced =
            jobs[*job].iter().map(|choice| f64::from(choice.cost) + prices[choice.kind] * f64::from(choice.gpus));
        let mut costs: Vec<f64> = priced.chain([f64::from(without)]).collect();
        costs.sort_by(f64::total_cmp);
        costs.get(1).map_or(f64::INFINITY, |second| second - costs[0])
    };
    let mut order: Vec<(f64, usize)> = (0..jobs.len()).map(|job| (regret(&job), job)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut first, mut left, mut size) = (0, budget, order.len());
    while first < order.len() {
        size = (2 * size).min(order.len() - first);
        let all = used(jobs, plan, capacity.len());
        let window = |size: usize| order[first..first + size].iter().map(|(_, job)| *job);
        let (mut free, mut steps);
        loop {
            free = capacity.iter().zip(&all).map(|(there, used)| there - used).collect::<Vec<u32>>();
            for choice in window(size).filter_map(|job| plan[job].map(|at| jobs[job][at])) {
                free[choice.kind] += choice.gpus;
            }
            free = usable(window(size).map(|job| &jobs[job]), &free);
            steps = work(window(size).map(|job| jobs[job].len()), &free);
            // To look takes as many steps as there are choices.
            left = left.saturating_sub(window(size).map(|job| jobs[job].len() as u64).sum());
            if steps <= budget / 16 || size <= 2 {
                break;
            }
            size = size * 3 / 4;
        }
        if steps > left.min(budget / 16) {
            return;
        }
        left -= steps;
        let core: Vec<Vec<Choice>> = window(size).map(|job| jobs[job].clone()).collect();
        for (job, choice) in window(size).zip(exactly(&core, &free, without)) {
            plan[job] = choice;
        }
        first += size.div_ceil(2);
    }
}

/// GPUs of each type that there are and that these jobs could have together.
fn usable<'a>(jobs: impl Iterator<Item = &'a Vec<Choice>> + Clone, capacity: &[u32]) -> Vec<u32> {
    let most = |choices: &Vec<Choice>, kind: usize| {
        choices.iter().filter(|choice| choice.kind == kind).map(|choice| choice.gpus).max().unwrap_or(0)
    };
    let of = |(kind, there): (usize, &u32)| {
        let all: u32 = jobs.clone().map(|choices| most(choices, kind)).fold(0, u32::saturating_add);
        all.min(*there)
    };
    capacity.iter().enumerate().map(of).collect()
}

/// Steps of the exact way.
fn work(choices: impl Iterator<Item = usize>, capacity: &[u32]) -> u64 {
    let states = capacity.iter().map(|gpus| u64::from(*gpus) + 1).fold(1, u64::saturating_mul);
    states.saturating_mul(choices.map(|choices| choices as u64 + 1).sum())
}

fn cheapest(choices: &[Choice], prices: &[f64], without: u32) -> Option<usize> {
    let mut best = (f64::from(without), None);
    for (index, choice) in choices.iter().enumerate() {
        let cost = f64::from(choice.cost) + prices[choice.kind] * f64::from(choice.gpus);
        if cost < best.0 {
            best = (cost, Some(index));
        }
    }
    best.1
}

fn used(jobs: &[Vec<Choice>], plan: &[Option<usize>], kinds: usize) -> Vec<u32> {
    let mut used = vec![0; kinds];
    for (choices, at) in jobs.iter().zip(plan) {
        if let Some(choice) = at.map(|at| choices[at]) {
            used[choice.kind] += choice.gpus;
        }
    }
    used
}

/// Takes GPUs from the jobs that lose the least for each, until no type lacks any.
fn fit(jobs: &[Vec<Choice>], plan: &mut [Option<usize>], capacity: &[u32], without: u32) {
    let mut used = used(jobs, plan, capacity.len());
    for kind in 0..capacity.len() {
        while used[kind] > capacity[kind] {
            let mut losses: Vec<(f64, usize, Option<usize>, u32)> = Vec::new();
            for (job, choices) in jobs.iter().enumerate() {
                let Some(now) = plan[job].map(|at| choices[at]).filter(|choice| choice.kind == kind) else { continue };
                let fewer = choices.iter().enumerate().map(|(index, choice)| (Some(index), *choice));
                let none = (None, Choice { kind, gpus: 0, cost: without });
                let loss = |(to, choice): (Option<usize>, Choice)| {
                    let given = now.gpus - choice.gpus;
                    ((f64::from(choice.cost) - f64::from(now.cost)) / f64::from(given), job, to, given)
                };
                let smaller = |(_, choice): &(Option<usize>, Choice)| choice.kind == kind && choice.gpus < now.gpus;
                losses.extend(fewer.chain([none]).filter(smaller).map(loss));
            }
            losses.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.3.cmp(&b.3)));
            // Of each job the first, then all are looked at again.
            let mut changed = vec![false; jobs.len()];
            for (_, job, to, given) in losses {
                if used[kind] <= capacity[kind] || std::mem::replace(&mut changed[job], true) {
                    continue;
                }
                plan[job] = to;
                used[kind] -= given;
            }
        }
    }
}

/// Gives what is left over to the jobs that gain the most for each GPU.
fn fill(jobs: &[Vec<Choice>], plan: &mut [Option<usize>], capacity: &[u32], without: u32) {
    let mut used = used(jobs, plan, capacity.len());
    loop {
        let mut gains: Vec<(f64, usize, usize)> = Vec::new();
        for (job, choices) in jobs.iter().enumerate() {
            let now = plan[job].map(|at| choices[at]);
            for (index, choice) in choices.iter().enumerate() {
                let own = now.filter(|now| now.kind == choice.kind).map_or(0, |now| now.gpus);
                let gain = f64::from(now.map_or(without, |now| now.cost)) - f64::from(choice.cost);
                if gain > 0.0 && used[choice.kind] - own + choice.gpus <= capacity[choice.kind] {
                    gains.push((gain / f64::from(choice.gpus.saturating_sub(own).max(1)), job, index));
                }
            }
        }
        gains.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        if gains.is_empty() {
            return;
        }
        // Of each job the first that still fits, then all are looked at again.
        let mut changed = vec![false; jobs.len()];
        for (_, job, index) in gains {
            let (now, choice) = (plan[job].map(|at| jobs[job][at]), jobs[job][index]);
            let own = now.filter(|now| now.kind == choice.kind).map_or(0, |now| now.gpus);
            if changed[job] || used[choice.kind] - own + choice.gpus > capacity[choice.kind] {
                continue;
            }
            changed[job] = true;
            if let Some(now) = now {
                used[now.kind] -= now.gpus;
            }
            used[choice.kind] += choice.gpus;
            plan[job] = Some(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use sandtable_policy::Draws;

    use super::*;

    /// Jobs like those of a round: more GPUs cost less, by a power of their speedup.
    fn drawn(draws: &mut Draws, count: usize, capacity: &[u32]) -> Vec<Vec<Choice>> {
        let job = |draws: &mut Draws| {
            let mut choices = Vec::new();
            for (kind, most) in capacity.iter().enumerate() {
                let speed = 1.0 + draws.below(40) as f64 / 10.0;
                let bend = 0.5 + draws.below(50) as f64 / 100.0;
                for gpus in [1, 2, 4, 8, 16].into_iter().filter(|gpus| gpus <= most) {
                    let speedup = speed * libm::pow(f64::from(gpus), bend);
                    let cost = libm::rint(100.0 / libm::sqrt(speedup)) as u32;
                    choices.push(Choice { kind, gpus, cost });
                }
            }
            choices
        };
        (0..count).map(|_| job(draws)).collect()
    }

    fn fits(jobs: &[Vec<Choice>], plan: &[Option<usize>], capacity: &[u32]) -> bool {
        used(jobs, plan, capacity.len()).iter().zip(capacity).all(|(used, there)| used <= there)
    }

    /// All plans, one after the other.
    fn least(jobs: &[Vec<Choice>], capacity: &[u32], without: u32) -> u64 {
        let Some((first, rest)) = jobs.split_first() else { return 0 };
        let mut best = u64::from(without) + least(rest, capacity, without);
        for choice in first.iter().filter(|choice| choice.gpus <= capacity[choice.kind]) {
            let mut left = capacity.to_vec();
            left[choice.kind] -= choice.gpus;
            best = best.min(u64::from(choice.cost) + least(rest, &left, without));
        }
        best
    }

    /// Of the design's vectors (`schedulers.md`): types a and b with 4 GPUs each, sizes a1 a2 a4 b1 b2 b4.
    #[test]
    fn costs_and_the_optimum_are_those_of_the_vector() {
        let row = |goodputs: [f64; 6], present: Option<usize>, factor: f64| {
            let sizes = goodputs.iter().enumerate().map(|(at, goodput)| (Some(*goodput), present == Some(at)));
            costs(&sizes.collect::<Vec<_>>(), factor, -0.5)
        };
        let rows = [
            row([1.0, 1.8, 3.0, 2.0, 3.4, 5.0], None, 1.0),
            row([1.0, 1.5, 2.0, 1.2, 1.9, 2.4], Some(0), 0.8),
            row([1.0, 1.9, 3.6, 3.0, 5.5, 10.0], None, 1.0),
        ];
        assert_eq!(rows[0], [100, 75, 58, 71, 54, 45]);
        assert_eq!(rows[1], [100, 91, 79, 102, 81, 72]);
        assert_eq!(rows[2], [100, 73, 53, 58, 43, 32]);
        let choice = |(at, cost): (usize, &u32)| Choice { kind: at / 3, gpus: 1 << (at % 3), cost: *cost };
        let jobs: Vec<Vec<Choice>> = rows.iter().map(|row| row.iter().enumerate().map(choice).collect()).collect();
        for plan in [exactly(&jobs, &[4, 4], 110), by_prices(&jobs, &[4, 4], 110, MOST_STEPS)] {
            assert_eq!((cost(&jobs, &plan, 110), plan), (176, vec![Some(4), Some(2), Some(4)]));
        }
    }

    #[test]
    fn the_exact_way_finds_the_least_of_all_plans() {
        let mut draws = Draws::new(3);
        for _ in 0..60 {
            let capacity = [draws.below(5) as u32, draws.below(4) as u32];
            let count = 1 + draws.below(5);
            let jobs = drawn(&mut draws, count, &capacity);
            let plan = exactly(&jobs, &capacity, 110);
            assert!(fits(&jobs, &plan, &capacity));
            assert_eq!(cost(&jobs, &plan, 110), least(&jobs, &capacity, 110), "{jobs:?} {capacity:?}");
        }
    }

    #[test]
    fn prices_come_within_two_percent_of_it() {
        let mut draws = Draws::new(4);
        for count in [40, 80, 160] {
            let capacity = [40, 32, 24];
            let jobs = drawn(&mut draws, count, &capacity);
            // A tenth of the steps of the exact way, or less.
            let budget = work(jobs.iter().map(Vec::len), &capacity).min(MOST_STEPS) / 10;
            let (exact, priced) = (exactly(&jobs, &capacity, 110), by_prices(&jobs, &capacity, 110, budget));
            assert!(fits(&jobs, &priced, &capacity));
            let (least, found) = (cost(&jobs, &exact, 110), cost(&jobs, &priced, 110));
            assert!(found >= least && found as f64 <= 1.02 * least as f64, "{count} jobs: {found}, least {least}");
        }
    }
}
