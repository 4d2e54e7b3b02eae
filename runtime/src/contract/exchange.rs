//! What a policy is called with and what it answers. Documented in `wit/policy.wit`.

#![expect(missing_docs, reason = "as in `wit/`: what a name says alone has no sentence")]

use super::*;

enumeration! {
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum JobPhase {
        "queued" Queued,
        /// Holds GPUs, or waits for them to drain; makes no progress yet.
        "starting" Starting,
        "running" Running,
        /// Saves its state before it lets its GPUs go.
        "stopping" Stopping,
        "ended" Ended,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct JobEnd {
        "job" job: JobId,
        "at" at: Instant,
    }
}

enumeration! {
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum ChangeCause {
        "asked" Asked,
        "node-lost" NodeLost,
        "out-of-memory" OutOfMemory,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct PhaseChange {
        "job" job: JobId,
        "phase" phase: JobPhase,
        /// When it happened: not later than `batch.now`, for events may wait.
        "at" at: Instant,
        "cause" cause: ChangeCause,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct NodeChange {
        "node" node: NodeId,
        "at" at: Instant,
        "health" health: NodeHealth,
    }
}

enumeration! {
    /// In the order of the validity rules (docs: V01, V02 ...): the host judges in
    /// this order and names the first rule broken.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum RejectCode {
        /// V01: `plan.base` is not the `batch.seq` that was answered.
        "stale-plan" StalePlan,
        /// V02: more actions than `setup.max-actions`.
        "plan-too-large" PlanTooLarge,
        /// V03: the job was never announced.
        "unknown-job" UnknownJob,
        /// V04: no such GPU.
        "unknown-gpu" UnknownGpu,
        /// V05: the action is not allowed in the job's phase.
        "wrong-phase" WrongPhase,
        /// V07: `demand.preemptible` is false.
        "not-preemptible" NotPreemptible,
        /// V08: not a count that the job may have, or a change of a job that is not elastic.
        "not-elastic" NotElastic,
        /// V10: one GPU twice in one placement.
        "duplicate-gpu" DuplicateGpu,
        /// V11: two placing actions (start, preempt, reassign) for one job in one plan.
        "duplicate-job" DuplicateJob,
        /// V12: a type that the job does not allow, or several types in one gang.
        "gpu-type-not-allowed" GpuTypeNotAllowed,
        /// V13: the node is down, the GPU is promised to a starting job, or protected for a service.
        "gpu-unavailable" GpuUnavailable,
        /// V14: held by another job, or by shares that leave too little.
        "gpu-over-committed" GpuOverCommitted,
        /// V15: more memory than the GPU has.
        "memory-over-committed" MemoryOverCommitted,
        /// V16: more jobs than the GPU takes.
        "tenancy-exceeded" TenancyExceeded,
        /// V22: an empty placement, or a share of 0 or above 1000.
        "bad-number" BadNumber,
        /// V24: a batch that the job can't be split into so.
        "bad-batch" BadBatch,
        /// V23: a timer not after now, a token in use, too many timers.
        "bad-time" BadTime,
        /// V26: a kind of action outside `descriptor.uses`.
        "not-negotiated" NotNegotiated,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Rejection {
        /// `batch.seq` of the batch that the plan answered.
        "base" base: u64,
        /// Index into its actions.
        "index" index: u32,
        "job" job: Option<JobId>,
        "code" code: RejectCode,
        "message" message: String,
    }
}

variant! {
    #[derive(Clone, PartialEq)]
    pub enum Event {
        "job-arrived" JobArrived(JobInfo),
        "job-ended" JobEnded(JobEnd),
        "job-changed" JobChanged(PhaseChange),
        "node-changed" NodeChanged(NodeChange),
        /// A timer that the policy set.
        "timer" Timer(u64),
        "rejected" Rejected(Rejection),
    }
}

enumeration! {
    /// `resync`: the policy takes over from another. The batch announces every live job as if it had just come, and its
    /// phase; `cluster.occupancy` says which job holds which GPU. Timers of the one before are gone.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum Trigger {
        "event" Event,
        "round" Round,
        "timer" Timer,
        "resync" Resync,
    }
}

record! {
    /// All that happened since the previous call, in the order of time; within an
    /// instant: ends, node changes, phase changes, arrivals, timers, each by id.
    /// What only tells a policy that its wish was carried out (`job-changed` with
    /// cause `asked` that frees no GPU, `rejected`) waits for the next call and
    /// does not cause one.
    #[derive(Clone, PartialEq)]
    pub struct Batch {
        "seq" seq: u64,
        "now" now: Instant,
        "trigger" trigger: Trigger,
        "events" events: Vec<Event>,
        /// Workloads that jobs of these events are the first of: numbered on from those of earlier batches.
        "workloads" workloads: Vec<WorkloadProfile>,
        /// In the order of their jobs.
        "samples" samples: Vec<Sample>,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Start {
        "job" job: JobId,
        /// Of an elastic job as many as it may have, in the order of its ring.
        "gpus" gpus: Vec<GpuId>,
        /// Of an elastic job; none: the batch that its user asked for.
        "batch" batch: Option<BatchSplit>,
    }
}

enumeration! {
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum PreemptMode {
        /// Save, then release.
        "checkpoint" Checkpoint,
        /// Release at once; what was done since the last checkpoint is lost.
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
        /// Thousandths of its own speed that a running job is held to, 1 to 1000.
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
    /// Keeps a GPU for the service whose model it holds: until then no other job may have it. An instant that is over
    /// takes it back, and so does a failure of the node.
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
        /// Elastic jobs that hold GPUs go on with these: more, fewer, or others. All of them at once or none, so each
        /// may have what another of them leaves. What the experiment says that a change costs is paid.
        "reassign" Reassign(Vec<Start>),
        "set-batch" SetBatch(SetBatch),
        "protect" Protect(Protect),
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Plan {
        /// `batch.seq` of the batch that it answers.
        "base" base: u64,
        /// Judged in order, against the state that the earlier ones leave.
        "actions" actions: Vec<Action>,
    }
}

flags! {
    /// Kinds of action that a policy may use beside `start`.
    /// `share`: to start jobs beside others where GPUs are packed; `elastic`: `reassign` and `set-batch`.
    Abilities {
        "preempt" PREEMPT = 1,
        "timers" TIMERS = 2,
        "share" SHARE = 4,
        "throttle" THROTTLE = 8,
        "elastic" ELASTIC = 16,
        "protect" PROTECT = 32,
    }
}

flags! {
    /// What a policy must be told, or a host can tell.
    Knowledge {
        "declared-run-time" DECLARED_RUN_TIME = 1,
        "remaining" REMAINING = 2,
        "solo-profile" SOLO_PROFILE = 4,
        "model-facts" MODEL_FACTS = 8,
        "references" REFERENCES = 16,
        "similarity" SIMILARITY = 32,
        "pair-speed" PAIR_SPEED = 64,
        "throughput" THROUGHPUT = 128,
        "utilisation" UTILISATION = 256,
        "memory" MEMORY = 512,
        "steps" STEPS = 1024,
    }
}

record! {
    /// When `decide` is called.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Cadence {
        /// At every multiple of this; none: never by itself.
        "round" round: Option<Duration>,
        /// Also on events.
        "on-events" on_events: bool,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Descriptor {
        "name" name: String,
        "version" version: String,
        /// One line for people; names the source of a published algorithm.
        "about" about: String,
        "uses" uses: Abilities,
        /// `init` is refused where the host cannot tell this.
        "needs" needs: Knowledge,
        /// JSON Schema of the configuration text.
        "config-schema" config_schema: String,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Setup {
        /// JSON object; canonical (sorted keys), as hashed into the experiment.
        "config" config: String,
        /// All the randomness that there is; part of the hash of the experiment.
        "seed" seed: u64,
        "topology" topology: Topology,
        "knowledge" knowledge: Knowledge,
        /// Workloads that the site has measured on its GPUs, with facts and throughputs.
        "references" references: Vec<WorkloadProfile>,
        /// What is served.
        "services" services: Vec<Service>,
        /// Most actions that one plan may hold.
        "max-actions" max_actions: u32,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct Readiness {
        "cadence" cadence: Cadence,
    }
}

variant! {
    #[derive(Clone, PartialEq)]
    pub enum PolicyError {
        "bad-config" BadConfig(String),
        "unsupported" Unsupported(String),
        "internal" Internal(String),
    }
}
