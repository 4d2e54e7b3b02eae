//! Lucid's simulator, `simulation/` of S-Lab-System-Group/Lucid (commit 63685a3): `policy/fifo.py`, `sjf.py`, `srtf.py`
//! and `tiresias.py`, with `policy/placer/consolidate.py` on nodes of 8 GPUs. Written from what they do, tick by tick of
//! one second: jobs end, then arrive, then the policy acts.
//!
//! Passes that cannot change anything are left out: of `fifo` and `sjf` where nobody came or went, of the others where
//! nobody waits.

use std::collections::BTreeMap;

use super::{LARGE, Task, Told, arrivals, arriving};

/// The only size of nodes that its placer takes.
pub(crate) const NODE: u32 = 8;

/// Looks for an end at a tick that is over already, then for ever.
const LOST: &str = "a job of no duration never ends";
/// Ticks after which a trace is given up; the peer would go on.
const TICKS: u64 = 10_000_000;

/// `consolidate`: takes GPUs, or says that there is no such place.
fn place(free: &mut [u32], gpus: u32) -> Option<BTreeMap<usize, u32>> {
    if free.iter().sum::<u32>() < gpus {
        return None;
    }
    let mut nodes: Vec<usize> = (0..free.len()).filter(|&node| free[node] > 0).collect();
    let mut taken = BTreeMap::new();
    if gpus <= NODE {
        // The fullest that has room; the first of equals.
        nodes.sort_by_key(|&node| free[node]);
        taken.insert(nodes.into_iter().find(|&node| free[node] >= gpus)?, gpus);
    } else {
        // Whole nodes, then what is left of the gang on the very next one.
        nodes.sort_by_key(|&node| std::cmp::Reverse(free[node]));
        let mut left = gpus;
        for node in nodes {
            let part = left.min(NODE);
            if free[node] < part {
                return None;
            }
            taken.insert(node, part);
            left -= part;
            if left == 0 {
                break;
            }
        }
        if left > 0 {
            return None;
        }
    }
    for (&node, &part) in &taken {
        free[node] -= part;
    }
    Some(taken)
}

/// Gives GPUs back.
fn release(free: &mut [u32], taken: &BTreeMap<usize, u32>) {
    for (&node, &part) in taken {
        free[node] += part;
    }
}

/// `fifo`, and `by_duration` `sjf`: never preempts; the first that cannot be placed blocks.
pub(crate) fn queue(tasks: &[Task], nodes: usize, by_duration: bool) -> Told {
    let mut told = Told::new(tasks);
    if tasks.iter().any(|task| task.gpus > NODE * nodes as u32) {
        told.defect = Some(LARGE);
    }
    let mut arrivals = arrivals(tasks);
    let mut free = vec![NODE; nodes];
    let (mut waiting, mut running): (Vec<usize>, Vec<(u64, usize)>) = (Vec::new(), Vec::new());
    for now in 0..TICKS {
        let mut changed = false;
        for (end, job) in running.clone() {
            if end == now {
                release(&mut free, &told.fates[job].nodes);
                told.fates[job].end = Some(now);
                running.retain(|(_, other)| *other != job);
                changed = true;
            }
        }
        let new = arriving(&mut arrivals, now);
        if !new.is_empty() {
            waiting.extend(new);
            changed = true;
        }
        if !changed {
            if arrivals.is_empty() && running.iter().all(|(end, _)| *end < now) {
                break;
            }
            continue;
        }
        waiting.sort_by_key(|&job| if by_duration { tasks[job].duration } else { tasks[job].submit });
        while let Some(&job) = waiting.first() {
            let Some(taken) = place(&mut free, tasks[job].gpus) else { break };
            told.fates[job].nodes = taken;
            told.fates[job].start = Some(now);
            running.push((now + tasks[job].duration, job));
            waiting.remove(0);
            if tasks[job].duration == 0 {
                told.defect = Some(LOST);
            }
        }
    }
    told
}

/// `srtf`, and with `attained` `tiresias`: jobs in an order take a quota of all GPUs, whoever gets none is preempted, and
/// only then the chosen are placed, which may fail.
pub(crate) fn quota(tasks: &[Task], nodes: usize, attained: bool) -> Told {
    let mut told = Told::new(tasks);
    let mut arrivals = arrivals(tasks);
    let mut free = vec![NODE; nodes];
    let mut left: Vec<u64> = tasks.iter().map(|task| task.duration).collect();
    let mut service = vec![0; tasks.len()];
    let (mut waiting, mut running): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for now in 0..TICKS {
        for job in running.clone() {
            if left[job] == 0 {
                // It is noticed at the tick after the one at which its work was done.
                told.fates[job].end = Some(now);
                release(&mut free, &told.fates[job].nodes);
                running.retain(|other| *other != job);
            } else {
                left[job] -= 1;
                service[job] += u64::from(tasks[job].gpus);
            }
        }
        waiting.extend(arriving(&mut arrivals, now));
        let pass = !attained || now % 60 == 0;
        if waiting.is_empty() || !pass {
            if waiting.is_empty() && running.is_empty() && arrivals.is_empty() {
                break;
            }
            continue;
        }
        let order = if attained {
            let mut order = [running.clone(), waiting.clone()].concat();
            order.sort_by_key(|&job| (service[job] > 18_000, tasks[job].submit));
            order
        } else {
            let mut order = [waiting.clone(), running.clone()].concat();
            order.sort_by_key(|&job| left[job]);
            order
        };
        let (mut chosen, mut preempted) = (Vec::new(), Vec::new());
        let mut quota = NODE * nodes as u32;
        for job in order {
            if tasks[job].gpus <= quota {
                quota -= tasks[job].gpus;
                if waiting.contains(&job) {
                    chosen.push(job);
                }
            } else if running.contains(&job) {
                preempted.push(job);
            }
        }
        for job in preempted {
            told.fates[job].preemptions += 1;
            left[job] += if tasks[job].gpus <= 8 { 40 } else { 60 };
            release(&mut free, &std::mem::take(&mut told.fates[job].nodes));
            running.retain(|other| *other != job);
            waiting.push(job);
        }
        for job in chosen {
            if let Some(taken) = place(&mut free, tasks[job].gpus) {
                told.fates[job].nodes = taken;
                told.fates[job].start.get_or_insert(now);
                waiting.retain(|other| *other != job);
                running.push(job);
            }
        }
        if running.is_empty() && arrivals.is_empty() {
            break;
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of equal submissions the one that runs goes first, so the second waits until the first has left the first
    /// queue, and the first is preempted once.
    #[test]
    fn of_equal_submissions_runners_go_first() {
        let tasks = [(4, 9000), (8, 3000)].map(|(gpus, duration)| Task { submit: 0, gpus, duration });
        let told = quota(&tasks, 1, true);
        let ends: Vec<_> = told.fates.iter().map(|fate| (fate.end, fate.preemptions)).collect();
        assert_eq!(ends, [(Some(12_101), 1), (Some(7_561), 0)]);
    }
}
