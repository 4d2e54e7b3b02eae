//! PAI's simulator, `cluster-trace-gpu-v2020/simulator` of alibaba/clusterdata (commit 7a6c496): `Simulator.tic`,
//! `Cluster.tic_job` and `Scheduler.alloc_job` on one node without limit of CPUs. Tick by tick of one second: the
//! scheduler allocates, the clock goes on, jobs arrive, jobs end. Hundredths of GPUs are counted.
//!
//! `_add_job` runs what takes no time for 1 s, `large_job_pruning` cuts gangs to what there is.

use super::{LARGE, Task, Told};

/// Its reader's doing.
const LONGER: &str = "a job of no duration takes 1 s";

/// `FIFO`, and `by_duration` `SJF`: never preempts, skips what does not fit. `job_id` is the place in the trace.
pub(crate) fn queue(tasks: &[Task], gpus: u32, by_duration: bool) -> Told {
    let mut told = Told::new(tasks);
    let asks: Vec<u32> = tasks.iter().map(|task| task.gpus.min(100 * gpus)).collect();
    let takes: Vec<u64> = tasks.iter().map(|task| task.duration.max(1)).collect();
    if tasks.iter().any(|task| task.duration == 0) {
        told.defect = Some(LONGER);
    } else if tasks.iter().any(|task| task.gpus > 100 * gpus) {
        told.defect = Some(LARGE);
    }
    let mut coming: Vec<usize> = (0..tasks.len()).collect();
    coming.sort_by_key(|&job| std::cmp::Reverse(tasks[job].submit));
    let mut free = 100 * gpus;
    let (mut waiting, mut running): (Vec<usize>, Vec<(usize, u64)>) = (Vec::new(), Vec::new());
    let mut now = 0;
    retrieve(tasks, &mut coming, &mut waiting, now);
    // What a pass that allocated nothing has seen: it need not be done again for the same.
    let mut seen = None;
    loop {
        if seen != Some((free, waiting.len())) {
            seen = Some((free, waiting.len()));
            waiting.sort_by_key(|&job| (if by_duration { takes[job] } else { tasks[job].submit }, job));
            for job in std::mem::take(&mut waiting) {
                if asks[job] > free {
                    waiting.push(job);
                    continue;
                }
                free -= asks[job];
                told.fates[job].start = Some(now);
                running.push((job, 0));
                seen = None;
            }
        }
        now += 1;
        retrieve(tasks, &mut coming, &mut waiting, now);
        if !running.is_empty() {
            for (job, ran) in &mut running {
                *ran += 1;
                if *ran >= takes[*job] {
                    free += asks[*job];
                    told.fates[*job].end = Some(now);
                }
            }
            running.retain(|(job, _)| told.fates[*job].end.is_none());
        } else if waiting.is_empty() {
            // Sleeps until the tick before the next arrival.
            let Some(&next) = coming.last() else { return told };
            now = tasks[next].submit - 1;
        }
    }
}

/// Moves those that have arrived by `now`.
fn retrieve(tasks: &[Task], coming: &mut Vec<usize>, waiting: &mut Vec<usize>, now: u64) {
    while let Some(job) = coming.pop_if(|job| tasks[*job].submit <= now) {
        waiting.push(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: three quarters and a half do not fit one GPU, a quarter beside the three quarters does.
    #[test]
    fn what_does_not_fit_is_skipped() {
        let tasks = [(75, 10), (50, 20), (25, 0)].map(|(gpus, duration)| Task { submit: 3, gpus, duration });
        let told = queue(&tasks, 1, false);
        let ends: Vec<_> = told.fates.iter().map(|fate| (fate.start, fate.end)).collect();
        assert_eq!(ends, [(Some(3), Some(13)), (Some(13), Some(33)), (Some(3), Some(4))]);
    }
}
