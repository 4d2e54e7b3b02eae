//! What a policy answers with. Documented in `wit/policy.wit`.

#![expect(missing_docs, reason = "as in `wit/`: what a name says alone has no sentence")]

use super::*;

record! {
    #[derive(Clone, PartialEq)]
    pub struct Start {
        "job" job: JobId,
        /// The GPUs. An elastic job may be given any number that it allows, in the order of its ring.
        "gpus" gpus: Vec<GpuId>,
        /// Batch of an elastic job; none means the batch that its user asked for.
        "batch" batch: Option<BatchSplit>,
    }
}

record! {
    /// Starts a job that asks for a part of a GPU.
    #[derive(Clone, Copy, PartialEq)]
    pub struct StartPart {
        "job" job: JobId,
        "gpu" gpu: GpuId,
        /// The first slice of its part.
        "slice" slice: u32,
    }
}

record! {
    /// Starts a job that asks for no GPU.
    #[derive(Clone, Copy, PartialEq)]
    pub struct StartOn {
        "job" job: JobId,
        "node" node: NodeId,
    }
}

enumeration! {
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum PreemptMode {
        /// Save the job's state, then release its GPUs.
        "checkpoint" Checkpoint,
        /// Release the GPUs at once; the work since the last checkpoint is lost.
        "kill" Kill,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct Preempt {
        "job" job: JobId,
        "mode" mode: PreemptMode,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct Throttle {
        "job" job: JobId,
        /// Limit on a running job's speed, in thousandths of its speed without the limit, 1 to 1000.
        "milli" milli: u32,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct SetBatch {
        "job" job: JobId,
        "batch" batch: BatchSplit,
    }
}

record! {
    /// Reserves a GPU for the service whose model it has loaded: until then only tasks of that service may be placed
    /// on it. An instant that is not in the future ends the reservation, and so does a failure of the node.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Protect {
        "gpu" gpu: GpuId,
        "until" until: Instant,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct Timer {
        "token" token: u64,
        "at" at: Instant,
    }
}

variant! {
    #[derive(Clone, PartialEq)]
    pub enum Action {
        "start" Start(Start),
        "preempt" Preempt(Preempt),
        "set-timer" SetTimer(Timer),
        "cancel-timer" CancelTimer(u64),
        "throttle" Throttle(Throttle),
        /// Elastic jobs that hold GPUs continue on these GPUs: more, fewer or different ones, of any type that the job
        /// allows. All changes of the list happen at once or not at all, so that one job may take what another one in
        /// it releases. Each job pays the cost of a change that the experiment states.
        "reassign" Reassign(Vec<Start>),
        "set-batch" SetBatch(SetBatch),
        "protect" Protect(Protect),
        /// A queued job ends without having been completed, for good: its deadline cannot be met, for example.
        "refuse" Refuse(JobId),
        "start-part" StartPart(StartPart),
        "start-on" StartOn(StartOn),
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Plan {
        /// `batch.seq` of the batch that the plan answers.
        "base" base: u64,
        /// Checked in order, each against the state that the earlier ones leave.
        "actions" actions: Vec<Action>,
    }
}
