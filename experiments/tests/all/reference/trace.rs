//! Traces drawn from a seed, mean ones: many jobs at one instant, equal durations, durations at the limits of LAS, gangs
//! larger than a node or than the fleet, jobs of no duration, rows out of order.

use std::fmt::Write as _;

use sandtable_hardware::random::Stream;

use super::{Task, lucid};

/// Jobs and the fleet that they come to.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) nodes: u32,
    /// Of each node.
    pub(crate) gpus: u32,
    pub(crate) tasks: Vec<Task>,
}

impl Trace {
    /// GPUs of the fleet.
    pub(crate) fn all(&self) -> u32 {
        self.nodes * self.gpus
    }

    /// The file, with this column of GPUs.
    pub(crate) fn csv(&self, column: &str) -> String {
        let mut out = format!("job_id,submit_s,{column},duration_s\n");
        for (job, task) in self.tasks.iter().enumerate() {
            let _ = writeln!(out, "{job},{},{},{}", task.submit, task.gpus, task.duration);
        }
        out
    }

    /// A trace of this number. No two presets are given the same.
    pub(crate) fn draw(number: u64, preset: &str) -> Trace {
        let mut stream = Stream::new(number, &format!("fuzz/{preset}"));
        let mut below = |bound: u64| stream.integer() % bound;
        let (nodes, gpus) = match preset {
            "lucid-consolidate" => (1 + below(8) as u32, lucid::NODE),
            "pai-1node" => (1, 1 + [below(3), below(8), below(64)][below(3) as usize] as u32),
            _ => (1 + below(8) as u32, 1 << below(4)),
        };
        let all = nodes * gpus;
        let jobs = if below(2) == 0 { 2 + below(7) } else { 2 + below(59) };
        // What the traces of a kind have in common: when jobs come, how long they take, how large they are.
        let (coming, lasting, sizes) = (below(5), below(6), below(4));
        let bursts: Vec<u64> = (0..1 + below(5)).map(|_| [60 * below(60), below(4000)][below(2) as usize]).collect();
        let few = 1 + below(40);
        let idle = if below(8) == 0 { jobs / 3 } else { 0 };
        let too_large = below(12) == 0;
        let mut tasks: Vec<Task> = (0..jobs)
            .map(|job| {
                let submit = match coming {
                    0 => 0,
                    1 => bursts[below(bursts.len() as u64) as usize],
                    2 => below(20),
                    3 => below(3000) / 50 * 50,
                    _ => below(5000),
                } + if job < idle { 20_000 } else { 0 };
                let mut gang = match sizes {
                    0 => 1 << below(7),
                    1 => 1 + below(u64::from(all)),
                    2 => 1 + below(4),
                    _ => [1, u64::from(gpus), u64::from(all), 1 + below(u64::from(2 * gpus))][below(4) as usize],
                };
                gang = gang.min(u64::from(all));
                if too_large && below(10) == 0 {
                    gang = u64::from(all) + 1 + below(8);
                }
                let limit = [3250, 7200, 18_000][below(3) as usize];
                let duration = match lasting {
                    0 => 1 + below(few),
                    1 => 1 + below(300),
                    2 => 1 + below(6000),
                    3 => (limit / gang + below(5)).saturating_sub(below(5)).max(1),
                    4 => [10, 60, 600, 3000][below(4) as usize],
                    _ => [below(3), below(100), limit / gang + 1, 1 + below(4000)][below(4) as usize],
                };
                // PAI's reader makes 1 s of no duration.
                let duration = if preset == "pai-1node" { duration.max(1) } else { duration };
                let hundredths = if below(2) == 0 { 1 + below(99) } else { 100 * gang };
                let gpus = if preset == "pai-1node" { hundredths } else { gang } as u32;
                Task { submit, gpus, duration }
            })
            .collect();
        // PAI's simulator breaks ties by the number that its file gives a job; ours are numbered as they arrive.
        if preset == "pai-1node" || below(4) > 0 {
            tasks.sort_by_key(|task| task.submit);
        }
        Trace { nodes, gpus, tasks }
    }
}
