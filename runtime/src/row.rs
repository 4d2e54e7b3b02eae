//! What happened to one job, as the ledger enters it.

use std::fmt;

use sandtable_hardware::{Duration, GpuId, Instant, JobId, QueueId, ServiceId};
use serde::{Deserialize, Serialize};

/// How a job's story ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// It did all its work.
    Completed,
    /// The policy refused it.
    Refused,
    /// It could never have run, for this reason.
    Rejected(Box<str>),
    /// The run ended before the job did.
    Unfinished(Unfinished),
    /// Its process failed, in this way; only on real machines.
    Failed(Box<str>),
}

/// Where a job was when the run ended before it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unfinished {
    /// Its submission was still to come.
    NeverSubmitted,
    /// It waited for GPUs.
    Waited,
    /// It held GPUs.
    HeldGpus,
}

impl Unfinished {
    /// Each with its text in results.
    pub const NAMES: [(&'static str, Unfinished); 3] = [
        ("never submitted", Unfinished::NeverSubmitted),
        ("it waited", Unfinished::Waited),
        ("it held GPUs", Unfinished::HeldGpus),
    ];
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, of)| of == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Completed => f.write_str("completed"),
            Outcome::Refused => f.write_str("refused"),
            Outcome::Rejected(why) => write!(f, "rejected: {why}"),
            Outcome::Failed(why) => write!(f, "failed: {why}"),
            Outcome::Unfinished(why) => write!(f, "unfinished: {why}"),
        }
    }
}

/// What happened to one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    /// When it was submitted.
    pub submit: Instant,
    /// Size of its gang.
    pub gpus: u32,
    /// When it should have ended.
    pub deadline: Option<Instant>,
    /// When it was first given GPUs.
    pub first_start: Option<Instant>,
    /// When it first made progress; of a task: when it was served.
    pub first_run: Option<Instant>,
    /// Which service it is a task of; none: it trains.
    pub service: Option<ServiceId>,
    /// The queue that it was submitted to; none: it is in no queue.
    pub queue: Option<QueueId>,
    /// When it first held all its GPUs.
    pub began: Option<Instant>,
    /// What its first start takes: how long it held all its GPUs before its first progress; where that start was cut short, what
    /// the fleet says of starts.
    pub startup: Duration,
    /// When it ended, or was refused.
    pub end: Option<Instant>,
    /// How.
    pub outcome: Outcome,
    /// Times that the policy took its GPUs.
    pub preemptions: u32,
    /// Times that it went on with other GPUs, as many or not.
    pub reassignments: u32,
    /// Times that a node failed under it, or was taken back by its owner.
    pub failures: u32,
    /// Times that it ran out of memory.
    pub out_of_memory: u32,
    /// Time with all its GPUs.
    pub held: Duration,
    /// Time in which it made progress that lasted.
    pub productive: Duration,
    /// Time in which it made progress that was lost.
    pub lost: Duration,
    /// GPUs of its last placement.
    pub last_gpus: Vec<GpuId>,
    /// Run time alone on the fastest type that it allows.
    pub solo: Duration,
    /// Demand of all live jobs, integrated over its life; GPU-µs.
    pub contention: u128,
    /// Thousandths of a GPU that it asks for.
    pub(crate) share: u32,
    pub(crate) gpu_time: i128,
    /// GPU-time that it had held when the run began.
    pub(crate) had: Duration,
    pub(crate) given_at: Instant,
    /// GPUs that it holds, or held last.
    pub(crate) size: u32,
    /// It holds its GPUs and makes no progress any more.
    pub(crate) draining: bool,
    /// Its progress over its progress alone, while it makes any.
    pub(crate) pace: f64,
    /// GPUs promised to it that still save the state of the job before.
    pub(crate) awaited: u32,
    pub(crate) running_since: Option<Instant>,
    /// When it last stopped making progress.
    pub(crate) stopped_at: Instant,
}

impl JobRow {
    /// From its submission to its end, of a job that completed.
    pub(crate) fn jct(&self) -> Duration {
        self.end.unwrap_or(self.submit) - self.submit
    }

    /// Microseconds that a job that completed would have taken with a fair share of so many GPUs, given how many all live jobs asked for meanwhile, its first start included
    /// (Themis, NSDI 2020); none: it took no time, or has no work.
    pub fn fair_micros(&self, gpus: f64) -> Option<f64> {
        let jct = self.jct();
        if self.outcome != Outcome::Completed || jct.is_zero() || self.solo.is_zero() {
            return None;
        }
        let contention = (self.contention as f64 / jct.as_micros_f64() / gpus).max(1.0);
        Some((self.solo + self.startup).as_micros_f64() * contention)
    }
}

/// One stay of a job on GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The job.
    pub job: JobId,
    /// When it was given them.
    pub from: Instant,
    /// When it let them go.
    pub to: Instant,
    /// Which.
    pub gpus: Vec<GpuId>,
}
