//! What the scheduling loop drives: the model, the GPUs of a machine, or a recorded run.

use serde::{Deserialize, Serialize};

use crate::{Duration, Fleet, GpuId, Instant, JobId, NodeId, Sample, Split, TypeId};

/// Why a job lost its GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// The policy asked for it.
    Asked,
    /// A node that it ran on failed or was taken down.
    NodeLost,
    /// It wanted more device memory than was left.
    OutOfMemory,
    /// The owner of a node that it ran on took it back.
    NodeTakenBack,
}

/// How a job is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopMode {
    /// Its state is saved first.
    Checkpoint,
    /// At once: what it did since its last checkpoint is lost.
    Kill,
}

/// What a job has done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// The part of its work, 0 to 1; NaN: unknown.
    pub done: f64,
    /// The time of progress that it would lose if it were killed now; none: unknown.
    pub unsaved: Option<Duration>,
}

impl Progress {
    /// Nothing is known.
    pub const UNKNOWN: Progress = Progress { done: f64::NAN, unsaved: None };
}

/// Epochs in a row with one batch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EpochsOfBatch {
    /// How many.
    pub count: u32,
    /// Samples of a step.
    pub batch: u32,
    /// Seconds that each takes the gang when it runs alone.
    pub epoch_s: f64,
}

/// Something that happened on the machines.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum BackendEvent {
    /// The job did all its work and let its GPUs go.
    Ended(JobId),
    /// It is announced that the node goes down.
    NodeDrains {
        /// The node.
        node: NodeId,
        /// When it goes down.
        until: Instant,
    },
    /// The node failed, or was taken down: then the jobs on it are [`BackendEvent::Released`] at the same instant. Or it takes no jobs
    /// any more, and those on it go on.
    NodeDown(NodeId),
    /// The node is back.
    NodeUp(NodeId),
    /// The job let its GPUs go with work left.
    Released {
        /// The job.
        job: JobId,
        /// Why.
        cause: Cause,
        /// Time of progress that it must repeat.
        lost: Duration,
    },
    /// The job's process failed and let its GPUs go: it is over. Only on real machines.
    Failed {
        /// The job.
        job: JobId,
        /// Its exit code, or minus the signal that ended it.
        status: i32,
    },
    /// The job makes progress from now on.
    Running(JobId),
    /// The elastic job goes over to another batch: it makes no progress until it is [`BackendEvent::Running`] again.
    Stalled(JobId),
    /// The elastic job has begun another epoch.
    Epoch(JobId),
    /// The job ran out of memory: it makes no progress any more, and is [`BackendEvent::Released`] after the relaunch cost.
    Died(JobId),
    /// The job's progress from now on; it was told that it runs, and until now meant 1.
    Pace {
        /// The job.
        job: JobId,
        /// Progress over its progress alone on the same type.
        pace: f64,
    },
    /// The job's lease is over: told when the round is.
    LeaseEnded {
        /// The job.
        job: JobId,
        /// Seconds from the beginning of the round until it was done with its steps.
        seconds: f64,
        /// Seconds of these in which it did none, because it restarted.
        restart: f64,
    },
    /// The leases of all jobs are over ([`Costs::leases`](crate::Costs)).
    RoundOver,
}

impl BackendEvent {
    /// The job that it happened to; none: a node, or all jobs.
    pub fn job(&self) -> Option<JobId> {
        match self {
            BackendEvent::NodeDrains { .. }
            | BackendEvent::NodeDown(_)
            | BackendEvent::NodeUp(_)
            | BackendEvent::RoundOver => None,
            BackendEvent::Ended(job)
            | BackendEvent::Running(job)
            | BackendEvent::Stalled(job)
            | BackendEvent::Epoch(job)
            | BackendEvent::Died(job) => Some(*job),
            BackendEvent::Failed { job, .. }
            | BackendEvent::Released { job, .. }
            | BackendEvent::Pace { job, .. }
            | BackendEvent::LeaseEnded { job, .. } => Some(*job),
        }
    }
}

/// A new placement of an elastic job that holds GPUs.
#[derive(Clone, PartialEq, Debug)]
pub struct Move {
    /// The job.
    pub job: JobId,
    /// Its GPUs from now on, in the order of its ring.
    pub gpus: Vec<GpuId>,
    /// How it works through its batch there; `None`: as its user asked.
    pub split: Option<Split>,
}

/// Something that happened, and when.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TimedEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub what: BackendEvent,
}

/// Machines that run jobs. The caller has judged the commands: a job that is started is waiting, its GPUs are of one
/// type, on nodes that are up, and have room for it beside their residents.
pub trait Backend {
    /// The machines.
    fn fleet(&self) -> &Fleet;

    /// The present instant.
    fn now(&self) -> Instant;

    /// Moves on to the next instant at which something happens by itself, at the latest to `until`, and appends all
    /// that happened then, in the order ends, node changes, releases, starts of progress; each by id. Without
    /// `until` and with nothing to come, does nothing.
    fn advance(&mut self, until: Option<Instant>, happened: &mut Vec<TimedEvent>);

    /// Gives a job its GPUs; an elastic one works through its batch so, or as its user asked. What follows at once is
    /// appended.
    fn start(&mut self, job: JobId, gpus: &[GpuId], split: Option<Split>, happened: &mut Vec<TimedEvent>);

    /// Starts a job that asks for no GPU on a node that is up. What follows at once is appended.
    fn start_on(&mut self, job: JobId, node: NodeId, happened: &mut Vec<TimedEvent>);

    /// Jobs that hold GPUs begin a lease, where GPUs are leased and none goes on. Returns whether any did: then [`BackendEvent::RoundOver`] is to come.
    fn begin_round(&mut self) -> bool {
        false
    }

    /// A policy has decided: jobs or nodes came or went, or it did something, which has been carried out.
    fn decided(&mut self) {}

    /// A job that waits, or was never submitted, will never be started.
    fn forget(&mut self, _job: JobId) {}

    /// Gives elastic jobs that hold GPUs others, all of them at once: each may have what another leaves. What follows
    /// at once is appended.
    fn reassign(&mut self, moves: Vec<Move>, happened: &mut Vec<TimedEvent>);

    /// Has an elastic job that holds GPUs work through its batch so. What follows at once is appended.
    fn set_batch(&mut self, job: JobId, split: Split, happened: &mut Vec<TimedEvent>);

    /// What an elastic job reports of itself, once it has run for a while.
    fn sample(&self, job: JobId) -> Option<Sample>;

    /// Whether what an elastic job reports now is of the epoch that it has just ended.
    fn ends_epoch(&self, _job: JobId) -> bool {
        false
    }

    /// The truth about a step of an elastic job at its user's batch, or of one that changes its batch by itself at the present one: seconds on so many GPUs of this type, packed, and
    /// how many steps are left. NaN for others, and where the batch can't be had so.
    fn steps(&self, job: JobId, gpu_type: TypeId, gpus: u32) -> (f64, f64);

    /// The epochs that a job has done, the part of the present one included, and the samples of a step at present; none: it is not known to train for a
    /// number of epochs. For oracles.
    fn epochs_done(&self, _job: JobId) -> Option<(f64, u32)> {
        None
    }

    /// The epochs of such a job in order on GPUs of this type, as they were planned when it was submitted: always the same. For oracles.
    fn epochs_planned(&self, _job: JobId, _gpu_type: TypeId) -> Vec<EpochsOfBatch> {
        Vec::new()
    }

    /// Takes a job's GPUs. What follows at once is appended.
    fn stop(&mut self, job: JobId, mode: StopMode, happened: &mut Vec<TimedEvent>);

    /// Holds a job to thousandths of its own speed. What follows at once is appended.
    fn throttle(&mut self, job: JobId, milli: u32, happened: &mut Vec<TimedEvent>);

    /// Progress of a job over its progress alone at its best place on the same type; NaN while it makes none.
    fn speed(&self, job: JobId) -> f64;

    /// The truth about the work that a job does in a second on this type, alone; 0: it does not run there. NaN where
    /// the backend can't know.
    fn alone(&self, job: JobId, gpu_type: TypeId) -> f64;

    /// The truth about the progress of `job` on a GPU of this type beside `residents`, over its progress alone; 0
    /// where they run out of memory. NaN where the backend can't know. For oracles and for scoring predictors.
    fn pair_speed(&self, gpu_type: TypeId, job: JobId, residents: &[JobId]) -> f64;

    /// The truth about what is left of a job, in seconds: on the GPUs that it holds, else on this type, restart
    /// costs included. NaN where the backend can't know. For oracles and for scoring predictors.
    fn remaining(&self, job: JobId, gpu_type: TypeId) -> f64;

    /// What a job has done by now.
    fn progress(&self, _job: JobId) -> Progress {
        Progress::UNKNOWN
    }

    /// Whether between events about a job `remaining` is constant while it holds no GPUs, and falls with the clock, to 0,
    /// while it holds some.
    fn remaining_is_steady(&self) -> bool {
        false
    }
}
