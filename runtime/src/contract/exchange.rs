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
        /// Saves its state before it releases its GPUs.
        "stopping" Stopping,
        "ended" Ended,
    }
}

record! {
    /// A job is submitted.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Arrival {
        "job" job: JobId,
        "class" class: ClassId,
        "submitted" submitted: Instant,
        /// The user that the job belongs to; a user whose name is empty is unknown.
        "user" user: UserId,
        /// 2^32 - 1 if nothing is known of the workload.
        "workload" workload: WorkloadId,
        /// Run time that the user declared; 2^53 - 1 if the user declared none or the experiment does not reveal it.
        "declared-run-time" declared_run_time: Duration,
        /// When the job should have ended; 2^53 - 1 if it has no deadline.
        "deadline" deadline: Instant,
        /// The more important job has the higher number; 0 unless the experiment says otherwise. Only a policy gives it
        /// a meaning.
        "priority" priority: i32,
        /// The queue that it was submitted to, which is no group; 2^32 - 1 if it is in no queue.
        "queue" queue: QueueId,
        /// Time left, as `predictor.estimate(remaining, …)` returns it for the first GPU type that the job allows,
        /// rounded to microseconds; 2^53 - 1 if unknown or without `remaining-in-events`.
        "remaining" remaining: Duration,
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
    /// Why a job's phase changed. `node-taken-back`: as `node-lost`, by the owner of a revocable node.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum ChangeCause {
        "asked" Asked,
        "node-lost" NodeLost,
        "out-of-memory" OutOfMemory,
        "node-taken-back" NodeTakenBack,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct PhaseChange {
        "job" job: JobId,
        "phase" phase: JobPhase,
        /// When it happened: may be earlier than `batch.now`, because delivery of an event may be deferred.
        "at" at: Instant,
        "cause" cause: ChangeCause,
        /// As `arrival.remaining`, but at `at` and on the GPUs of the job if it holds any.
        "remaining" remaining: Duration,
    }
}

record! {
    /// The time left of a job changed without an arrival or a phase change: a start that the job has to wait for, a
    /// preemption that saves its state, other jobs on its GPUs. Only with `remaining-in-events`.
    #[derive(Clone, Copy, PartialEq)]
    pub struct RemainingChange {
        "job" job: JobId,
        "at" at: Instant,
        /// As `phase-change.remaining`.
        "remaining" remaining: Duration,
    }
}

record! {
    /// The lease of a job is over, where the experiment leases GPUs for rounds. Told when the round is.
    #[derive(Clone, Copy, PartialEq)]
    pub struct LeaseEnd {
        "job" job: JobId,
        /// Seconds from the beginning of the round until the job was done with the steps of its lease; 0 if it had none to do.
        "seconds" seconds: f64,
        /// Seconds of these in which it did no steps, because it restarted.
        "restart" restart: f64,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct NodeChange {
        "node" node: NodeId,
        "at" at: Instant,
        "health" health: NodeHealth,
        /// When a draining node goes down, unless it fails before; otherwise 2^53 - 1. A later event may name an earlier
        /// instant.
        "until" until: Instant,
    }
}

enumeration! {
    /// Why an action was rejected; V01, V02 … are the rules' numbers in the documentation. If an action violates
    /// several rules, the host reports the first that it finds; the order of its checks is not part of the contract.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum RejectCode {
        /// V01: `plan.base` is not the `batch.seq` of the batch being answered.
        "stale-plan" StalePlan,
        /// V02: the plan has more actions than `setup.max-actions`.
        "plan-too-large" PlanTooLarge,
        /// V03: the job was never announced.
        "unknown-job" UnknownJob,
        /// V04: there is no such GPU or node.
        "unknown-gpu" UnknownGpu,
        /// V05: the action is not allowed in the job's phase.
        "wrong-phase" WrongPhase,
        /// V07: `demand.preemptible` is false.
        "not-preemptible" NotPreemptible,
        /// V08: the job may not have this number of GPUs, or the action resizes it or sets its batch although it is
        /// not elastic.
        "not-elastic" NotElastic,
        /// V10: a placement names a GPU twice.
        "duplicate-gpu" DuplicateGpu,
        /// V11: a plan has two placing actions (start, start-part, start-on, preempt, reassign, refuse) for one job.
        "duplicate-job" DuplicateJob,
        /// V12: the job does not allow the GPU type, or the gang mixes types.
        "gpu-type-not-allowed" GpuTypeNotAllowed,
        /// V13: the node is down or draining, or the GPU is promised to a starting job or protected for a service.
        "gpu-unavailable" GpuUnavailable,
        /// V14: another job holds the GPU, or the shares on it leave too little.
        "gpu-over-committed" GpuOverCommitted,
        /// V15: the jobs need more memory than the GPU has, or the job than its part.
        "memory-over-committed" MemoryOverCommitted,
        /// V16: more jobs than the GPU accepts.
        "tenancy-exceeded" TenancyExceeded,
        /// V17: the GPU has no such part, it may not begin at this slice, or another job has one of its slices. Or `start`
        /// of a job that asks for a part, or `start-part` of one that asks for none.
        "part-misplaced" PartMisplaced,
        /// V18: the gang's nodes are not within one domain of the level that `demand.near` requires.
        "not-near-enough" NotNearEnough,
        /// V19: the jobs need more CPU or memory than the node has beside its GPUs.
        "host-over-committed" HostOverCommitted,
        /// V20: the jobs of the queue, or of a group that it is in, would hold more GPUs than its limit. A preempted job
        /// holds none.
        "queue-limit" QueueLimit,
        /// V21: a node has another number of the gang's GPUs than `demand.gpus-per-node`.
        "wrong-shape" WrongShape,
        /// V22: a placement or a `reassign` is empty, or a throttle is 0 or above 1000.
        "bad-number" BadNumber,
        /// V24: the job's batch cannot be split this way.
        "bad-batch" BadBatch,
        /// V23: the timer is not in the future, its token is in use, or there are too many timers.
        "bad-time" BadTime,
        /// V26: the kind of action is not in `descriptor.uses`.
        "not-negotiated" NotNegotiated,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Rejection {
        /// `batch.seq` of the batch that the plan answered.
        "base" base: u64,
        /// Index of the action in the plan.
        "index" index: u32,
        "job" job: Option<JobId>,
        "code" code: RejectCode,
        "message" message: String,
    }
}

variant! {
    /// Without lists or text: a batch of events is one block of memory.
    #[derive(Clone, Copy, PartialEq)]
    pub enum Event {
        "job-arrived" JobArrived(Arrival),
        "job-ended" JobEnded(JobEnd),
        "job-changed" JobChanged(PhaseChange),
        "remaining-changed" RemainingChanged(RemainingChange),
        "node-changed" NodeChanged(NodeChange),
        /// A timer that the policy set, by its token.
        "timer" Timer(u64),
        /// This many actions of the previous plan were rejected; `cluster.rejections` says why.
        "rejected" Rejected(u32),
        "lease-ended" LeaseEnded(LeaseEnd),
    }
}

enumeration! {
    /// Why `decide` is called. `resync`: the policy takes over from another one. The batch announces every live job as
    /// if it had just arrived, followed by its phase unless it waits; `cluster.occupancy` returns which jobs hold
    /// which GPUs. Timers of the previous policy are discarded.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum Trigger {
        "event" Event,
        "round" Round,
        "timer" Timer,
        "resync" Resync,
    }
}

record! {
    /// Everything that happened since the previous call, in the order of time. Events of the same instant are ordered
    /// as ends, node changes, changes of phase and time left, arrivals, timers, each by id. An event that only reports
    /// the outcome of the policy's own action (`job-changed` with cause `asked` that frees no GPU, `rejected`, or the end
    /// of a job that it refused) is delivered with the next call and does not cause one; nor do `remaining-changed` and
    /// ends that `cadence.ends` excepts. Outcomes of actions of one instant are in the order of the actions.
    #[derive(Clone, PartialEq)]
    pub struct Batch {
        "seq" seq: u64,
        "now" now: Instant,
        "trigger" trigger: Trigger,
        "fresh" fresh: Fresh,
        "events" events: Vec<Event>,
    }
}

record! {
    /// What a live job has had before the policy took over from another.
    #[derive(Clone, Copy, PartialEq)]
    pub struct AttainedTime {
        "job" job: JobId,
        /// Time for which it has made progress, restarts included.
        "run-time" run_time: Duration,
        /// Sum over its GPUs of the time for which it has held them, draining included.
        "gpu-time" gpu_time: Duration,
    }
}

flags! {
    /// What a batch introduces; the function of that name in `introductions` returns it.
    Fresh {
        "classes" CLASSES = 1,
        "workloads" WORKLOADS = 2,
        "users" USERS = 4,
        "samples" SAMPLES = 8,
        "attained" ATTAINED = 16,
    }
}

flags! {
    /// Kinds of action that a policy uses in addition to `start`, and demands that its placements follow. `share`:
    /// starts jobs next to others on packed GPUs; `elastic`: `reassign` and `set-batch`; `shape`: follows
    /// `demand.gpus-per-node`; `host`: follows `demand.host`; `near`: follows `demand.near`; `queues`: follows
    /// `queue.limit`; `parts`: follows `demand.part`, by `start-part`; `cpu-jobs`: starts jobs that ask for no GPU, by
    /// `start-on`. An experiment with such a demand or limit does not begin with a policy that does not follow it.
    /// `drain`: is told of draining nodes; to any other policy they are up until they go down.
    Abilities {
        "preempt" PREEMPT = 1,
        "timers" TIMERS = 2,
        "share" SHARE = 4,
        "throttle" THROTTLE = 8,
        "elastic" ELASTIC = 16,
        "protect" PROTECT = 32,
        "refuse" REFUSE = 64,
        "shape" SHAPE = 128,
        "host" HOST = 256,
        "near" NEAR = 512,
        "drain" DRAIN = 1024,
        "queues" QUEUES = 2048,
        "parts" PARTS = 4096,
        "cpu-jobs" CPU_JOBS = 8192,
    }
}

flags! {
    /// Information that a policy needs, or that the host provides.
    Knowledge {
        "declared-run-time" DECLARED_RUN_TIME = 1,
        "remaining" REMAINING = 2,
        "remaining-in-events" REMAINING_IN_EVENTS = 4,
        "solo-profile" SOLO_PROFILE = 8,
        "model-facts" MODEL_FACTS = 16,
        "references" REFERENCES = 32,
        "similarity" SIMILARITY = 64,
        "pair-speed" PAIR_SPEED = 128,
        "throughput" THROUGHPUT = 256,
        "utilisation" UTILISATION = 512,
        "memory" MEMORY = 1024,
        "steps" STEPS = 2048,
        "progress" PROGRESS = 4096,
        "weights" WEIGHTS = 8192,
        "epochs" EPOCHS = 16384,
    }
}

variant! {
    /// Why a job waits.
    #[derive(Clone, PartialEq)]
    pub enum Reason {
        /// Fewer GPUs are free than it asks for, on every type that it allows.
        "no-free-gpus" NoFreeGpus,
        /// Enough are free, but not so that they are a place for it.
        "fragmented" Fragmented,
        /// The jobs of this queue would hold more GPUs than its limit.
        "over-limit" OverLimit(QueueId),
        /// This job comes first.
        "behind" Behind(JobId),
        /// In the policy's own words.
        "policy" Policy(String),
    }
}

record! {
    /// When `decide` is called.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Cadence {
        /// At every multiple of this duration; none for no rounds. Where the experiment leases GPUs for rounds, a policy is
        /// called between them alone, whatever its cadence: with the trigger `round` if this is given, and then also when
        /// nothing has been leased for the length of a round; once more at the same instant, with the trigger `event`, if
        /// its plan preempts.
        "round" round: Option<Duration>,
        /// Whether it is also called on events.
        "on-events" on_events: bool,
        /// Which ends of jobs are events that call it. The schedule must not depend on this: it saves calls that would
        /// return an empty plan.
        #[serde(default)]
        "ends" ends: Wake,
    }
}

enumeration! {
    #[derive(Clone, Copy, Default, Eq, PartialEq)]
    pub enum Wake {
        #[default]
        "always" Always,
        /// Only while a job waits. Other ends are delivered with the next call.
        "while-waiting" WhileWaiting,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Descriptor {
        "name" name: String,
        "version" version: String,
        /// One line for the user; names the source of a published algorithm.
        "about" about: String,
        "uses" uses: Abilities,
        /// `init` is rejected if the host cannot provide this.
        "needs" needs: Knowledge,
        /// JSON Schema of `setup.config`.
        "config-schema" config_schema: String,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Setup {
        /// JSON object in canonical form (sorted keys), as hashed into the cell's id.
        "config" config: String,
        /// The only source of randomness; part of the cell's id.
        "seed" seed: u64,
        /// Contents of the file of weights that the spec names, which is part of the cell's id; empty if it names none.
        #[serde(default)]
        "weights" weights: Vec<u8>,
        "topology" topology: Topology,
        "knowledge" knowledge: Knowledge,
        /// Workloads measured on the GPUs of this cluster, with facts and throughputs.
        "references" references: Vec<WorkloadProfile>,
        "services" services: Vec<Service>,
        /// A group comes before the queues in it. Empty if jobs are in no queues.
        "queues" queues: Vec<Queue>,
        /// Maximum number of actions in a plan.
        "max-actions" max_actions: u32,
    }
}

record! {
    #[derive(Clone, Copy, PartialEq)]
    pub struct Readiness {
        "cadence" cadence: Cadence,
        /// Those of `descriptor.uses` that the policy uses with this configuration.
        "uses" uses: Abilities,
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
