// The contract, wit/policy.wit, as componentize-qjs hands it to a policy in JavaScript; written from it, and a test compares.
//
// Numbers of 64 bits are plain numbers. What is optional and not there is null; of what a policy hands over it may be left out. A flag
// that is left out is false. An id of 2^32 - 1, which stands for none, comes as -1.

/** Units, identifiers, descriptions of the cluster and of jobs, events and actions. */
declare module 'sandtable:policy/types@0.2.0' {
  /** Microseconds since the start of the experiment. */
  export type Instant = number;
  /** A length of time in microseconds. */
  export type Duration = number;
  export type JobId = number;
  export type GpuId = number;
  export type NodeId = number;
  export type GpuTypeId = number;
  export type WorkloadId = number;
  export type ServiceId = number;
  /** A distinct demand: jobs of the same class ask for the same. */
  export type ClassId = number;
  export type UserId = number;
  export type QueueId = number;
  export type PartId = number;
  /** A size of a part. It takes `slices` slices of the GPU from the one at which it begins; no two parts overlap. */
  export interface PartProfile {
    /** GPU types whose profiles have one id differ in `memory-mib` alone. */
    id: PartId;
    name: string;
    slices: number;
    /** Memory in MiB; 0 if unknown: as much as the GPU has. */
    memoryMib: number;
    /** Slices at which it may begin, ascending. */
    starts: Array<number>;
  }
  /** How jobs may share a GPU. */
  export type Sharing =
    /** One job at a time. */
    | { tag: 'exclusive' }
    /** Several jobs, whose shares add up to at most one GPU. */
    | { tag: 'shares' }
    /** At most this many jobs, whatever their shares; they slow each other down. */
    | { tag: 'packed'; val: number }
    /**
     * Cut into parts of these profiles, one job on each; they do not slow each other down (MIG instances). A job that
     * asks for no part has the GPU to itself.
     */
    | { tag: 'parts'; val: Array<PartProfile> };
  export interface GpuType {
    id: GpuTypeId;
    name: string;
    /** Device memory in MiB; 0 if unknown, and then memory is not checked. */
    memoryMib: number;
    sharing: Sharing;
  }
  /** `draining`: the node is going down; jobs on it go on until then, and none may start there. */
  export type NodeHealth = 'up' | 'down' | 'draining';
  /** What a node is for: training jobs or inference tasks. */
  export type Pool = 'training' | 'inference';
  /** CPU and memory beside GPUs: what jobs may take of a node, or what a gang takes of its nodes. */
  export interface HostResources {
    /** Thousandths of a core; 0 if unknown, and then not checked. */
    cpuMilli: number;
    /** MiB; 0 if unknown, and then not checked. */
    memoryMib: number;
  }
  /** A node. It has the GPUs `first-gpu .. first-gpu + gpus`: GPUs are numbered node by node. */
  export interface Node {
    id: NodeId;
    name: string;
    gpuType: GpuTypeId;
    firstGpu: GpuId;
    gpus: number;
    health: NodeHealth;
    /** Bandwidth between its GPUs in GB/s, a matrix in row order; 0 means no link. Empty if unknown. */
    links: Array<number>;
    /** Its domain at each of `topology.levels`, numbered from 0 at each. */
    domains: Array<number>;
    pool: Pool;
    host: HostResources;
    /** None: it is ours. Otherwise its owner may take it back, this long after saying so; 0 means without saying so. */
    revocable?: Duration | null;
  }
  /**
   * A model that answers requests. A GPU must load it before it serves. The model stays loaded until the GPU is given
   * to a training job or to another service, or fails; or, if the experiment says so, only until the task is done.
   */
  export interface Service {
    id: ServiceId;
    name: string;
    /** Time to load the model onto a GPU. */
    coldStart: Duration;
    /** Whether the model stays loaded after a task. */
    staysLoaded: boolean;
  }
  /**
   * A queue that jobs are submitted to, or a group of queues. GPUs are counted over all types; a share of a GPU counts
   * as that part of it.
   */
  export interface Queue {
    id: QueueId;
    name: string;
    /** The group that it is in, which has a lower id; none if it is at the top. */
    parent?: QueueId | null;
    /** GPUs that it may always have. */
    guaranteed: number;
    /** Its part, among the queues of its group, of the GPUs that no queue is guaranteed. */
    weight: number;
    /** Most GPUs that its jobs may hold together; infinite if there is no limit. */
    limit: number;
    /** The queue with the higher number is served first, within its group. */
    priority: number;
  }
  export interface Topology {
    gpuTypes: Array<GpuType>;
    /**
     * Names of the levels at which nodes are near each other, from wide to near: block, rack. At each, every node is
     * in one domain; nodes of one domain are in one domain of the level before too.
     */
    levels: Array<string>;
    nodes: Array<Node>;
  }
  /** How near to each other the nodes of a gang are; each number is an index of `topology.levels`. */
  export interface Nearness {
    /** Within one domain of this level, or the gang does not start. */
    required?: number | null;
    /** Within one domain of this level, where there is such a place. */
    preferred?: number | null;
  }
  /** How an elastic job may change its size. */
  export interface Elasticity {
    /** Maximum number of GPUs; the minimum is 1. */
    mostGpus: number;
    /** Samples per step that its user asks for, with `demand.gpus`. */
    batch: number;
    /** Whether the policy may set another batch. */
    tunable: boolean;
    /** Smallest batch per step, at which statistical efficiency is 1, and the largest. */
    initialBatch: number;
    mostBatch: number;
    /** Minimum and maximum samples per pass on one GPU. */
    leastLocal: number;
    mostLocal: number;
  }
  /** What a job asks for. */
  export interface Demand {
    /** Number of GPUs, allocated all at once or not at all (a gang); 0: the job takes CPU and memory of one node alone. */
    gpus: number;
    /** Number of its GPUs on each node that it runs on; 0 means that they may be split over nodes in any way. */
    gpusPerNode: number;
    /**
     * CPU and memory that the whole gang takes. A node with some of its GPUs provides as large a part, rounded up,
     * until the job is preempted or ends. Unknown where no node's are known.
     */
    host: HostResources;
    near: Nearness;
    /**
     * Share of each GPU in thousandths: 1000, or less for a job of one GPU. That of a part is its slices of those of
     * the GPU, rounded down.
     */
    shareMilli: number;
    /**
     * Part of one GPU that the job asks for; none if it asks for whole GPUs or for a share. `gpu-types` names only
     * types that have it.
     */
    part?: PartId | null;
    /** Memory that the job needs on each GPU, in MiB; 0 if unknown. */
    memoryMib: number;
    /** GPU types that the gang may run on, all of its GPUs of one type; empty means any type. */
    gpuTypes: Array<GpuTypeId>;
    preemptible: boolean;
    /** How the job may change its size; none if it always runs on exactly the GPUs that it asked for. */
    elastic?: Elasticity | null;
    /** The service that the job is a task of, which runs on one GPU without interruption; none for a training job. */
    service?: ServiceId | null;
  }
  export type Communication = 'ring' | 'parameter-server';
  /**
   * Facts from the computation graph of a model, for one sample: counts of elements, operations and bytes (fp32).
   * An unknown count is NaN.
   */
  export interface ModelFacts {
    /** Name of the model in the catalogue, or of its file. */
    model: string;
    /** Trainable parameters. */
    parameters: number;
    /**
     * Convolutions and dense layers: multiply-adds, output elements, and elements that convolutions read and
     * write.
     */
    layerMultiplyAdds: number;
    layerOutputs: number;
    layerTraffic: number;
    /** Output elements of all other operators: normalisation, activation, pooling, sums, concatenation. */
    elementwiseOutputs: number;
    /** Convolutions and dense layers on the longest path. */
    depth: number;
    /** Sums over all operators, each by its published rule (Horus). */
    flops: number;
    multiplyAdds: number;
    additions: number;
    comparisons: number;
    divisions: number;
    exponentials: number;
    activationBytes: number;
    parameterBytes: number;
    otherBytes: number;
    /**
     * Number of operators and fraction of FLOPs by group: convolutions, matrix products, recurrent, normalisation,
     * element-wise.
     */
    groupNodes: Array<number>;
    groupFlops: Array<number>;
  }
  /** Samples per second on a number of GPUs of a type; 0 if the workload cannot run there. */
  export interface Throughput {
    gpuType: GpuTypeId;
    gpus: number;
    perSecond: number;
  }
  /** What a step of a gang takes when running alone. */
  export interface Stages {
    gpus: number;
    /** Seconds per step. */
    stepTime: number;
    /** Seconds of it on each resource, in turn: CPUs, GPUs, network; or storage, CPUs, GPUs, network. */
    uses: Array<number>;
  }
  /**
   * What is known of a workload in advance. Unknown numbers are NaN; lists are indexed by gpu-type-id. The
   * measurements of a run alone, from `gpu-utilisation` on, are empty unless the experiment reveals them.
   */
  export interface WorkloadProfile {
    /** Name. Jobs of one workload behave alike. */
    workload: string;
    /** Model architecture; workloads may share one. */
    family: string;
    batch: number;
    mixedPrecision: boolean;
    /** Gradients exchanged per step, in GB. */
    gradientGb: number;
    communication: Communication;
    /** Facts of the model, if the experiment reveals them. */
    facts?: ModelFacts | null;
    /** Utilisation of the GPU and of its memory bandwidth, 0 to 1. */
    gpuUtilisation: Array<number>;
    memoryUtilisation: Array<number>;
    /** Device memory in MiB; 0 if unknown. */
    memoryMib: Array<number>;
    /** Seconds per step. */
    stepTime: Array<number>;
    throughput: Array<Throughput>;
    /** By gang size, ascending. Empty if unknown. */
    stages: Array<Stages>;
  }
  /**
   * How a gang processes a batch: samples per pass on one GPU, and the passes of a step in addition to the one that
   * exchanges gradients.
   */
  export interface BatchSplit {
    local: number;
    accumulation: number;
  }
  /**
   * A measurement that an elastic job reports after running for a while with other GPUs, with another batch, or in
   * another epoch.
   */
  export interface Sample {
    job: JobId;
    nodes: number;
    gpus: number;
    local: number;
    /** Seconds of a pass that exchanges gradients, and the part of it spent on the exchange. */
    stepTime: number;
    syncTime: number;
    /** Squared norm of the gradient and trace of its covariance, at the scale of the initial batch. */
    gradientSqr: number;
    gradientVariance: number;
  }
  /** Epochs in a row with one batch. */
  export interface EpochsOfBatch {
    count: number;
    /** Samples per step. */
    batch: number;
    /** Seconds that each of these epochs takes the gang when running alone. */
    epochTime: number;
  }
  /** The epochs of a job that trains for a number of epochs and may change its batch by itself. */
  export interface TrainingEpochs {
    /** Epochs that are done, the part of the present one included. */
    done: number;
    /** Samples per step at present. */
    batch: number;
    /**
     * All of its epochs in order, as they were planned when the job was submitted; the job may change its batch at
     * another epoch. Empty if the job is not known to train for a number of epochs.
     */
    planned: Array<EpochsOfBatch>;
  }
  export type JobPhase = 'queued' | 'starting' | 'running' | 'stopping' | 'ended';
  /** A job is submitted. */
  export interface Arrival {
    job: JobId;
    class: ClassId;
    submitted: Instant;
    /** The user that the job belongs to; a user whose name is empty is unknown. */
    user: UserId;
    /** 2^32 - 1 if nothing is known of the workload. */
    workload: WorkloadId;
    /** Run time that the user declared; 2^53 - 1 if the user declared none or the experiment does not reveal it. */
    declaredRunTime: Duration;
    /** When the job should have ended; 2^53 - 1 if it has no deadline. */
    deadline: Instant;
    /**
     * The more important job has the higher number; 0 unless the experiment says otherwise. Only a policy gives it
     * a meaning.
     */
    priority: number;
    /** The queue that it was submitted to, which is no group; 2^32 - 1 if it is in no queue. */
    queue: QueueId;
    /**
     * Time left, as `predictor.estimate(remaining, …)` returns it for the first GPU type that the job allows,
     * rounded to microseconds; 2^53 - 1 if unknown or without `remaining-in-events`.
     */
    remaining: Duration;
  }
  export interface JobEnd {
    job: JobId;
    at: Instant;
  }
  /** Why a job's phase changed. `node-taken-back`: as `node-lost`, by the owner of a revocable node. */
  export type ChangeCause = 'asked' | 'node-lost' | 'out-of-memory' | 'node-taken-back';
  export interface PhaseChange {
    job: JobId;
    phase: JobPhase;
    /** When it happened: may be earlier than `batch.now`, because delivery of an event may be deferred. */
    at: Instant;
    cause: ChangeCause;
    /** As `arrival.remaining`, but at `at` and on the GPUs of the job if it holds any. */
    remaining: Duration;
  }
  /**
   * The time left of a job changed without an arrival or a phase change: a start that the job has to wait for, a
   * preemption that saves its state, other jobs on its GPUs. Only with `remaining-in-events`.
   */
  export interface RemainingChange {
    job: JobId;
    at: Instant;
    /** As `phase-change.remaining`. */
    remaining: Duration;
  }
  /** The lease of a job is over, where the experiment leases GPUs for rounds. Told when the round is. */
  export interface LeaseEnd {
    job: JobId;
    /** Seconds from the beginning of the round until the job was done with the steps of its lease; 0 if it had none to do. */
    seconds: number;
    /** Seconds of these in which it did no steps, because it restarted. */
    restart: number;
  }
  export interface NodeChange {
    node: NodeId;
    at: Instant;
    health: NodeHealth;
    /**
     * When a draining node goes down, unless it fails before; otherwise 2^53 - 1. A later event may name an earlier
     * instant.
     */
    until: Instant;
  }
  /**
   * Why an action was rejected; V01, V02 … are the rules' numbers in the documentation. If an action violates several
   * rules, the host reports the first that it finds; the order of its checks is not part of the contract.
   */
  export type RejectCode = 'stale-plan' | 'plan-too-large' | 'unknown-job' | 'unknown-gpu' | 'wrong-phase' | 'not-preemptible' | 'not-elastic' | 'duplicate-gpu' | 'duplicate-job' | 'gpu-type-not-allowed' | 'gpu-unavailable' | 'gpu-over-committed' | 'memory-over-committed' | 'tenancy-exceeded' | 'part-misplaced' | 'not-near-enough' | 'host-over-committed' | 'queue-limit' | 'wrong-shape' | 'bad-number' | 'bad-batch' | 'bad-time' | 'not-negotiated';
  export interface Rejection {
    /** `batch.seq` of the batch that the plan answered. */
    base: number;
    /** Index of the action in the plan. */
    index: number;
    job?: JobId | null;
    code: RejectCode;
    message: string;
  }
  /** Without lists or text: a batch of events is one block of memory. */
  export type Event =
    | { tag: 'job-arrived'; val: Arrival }
    | { tag: 'job-ended'; val: JobEnd }
    | { tag: 'job-changed'; val: PhaseChange }
    | { tag: 'remaining-changed'; val: RemainingChange }
    | { tag: 'node-changed'; val: NodeChange }
    /** A timer that the policy set, by its token. */
    | { tag: 'timer'; val: number }
    /** This many actions of the previous plan were rejected; `cluster.rejections` says why. */
    | { tag: 'rejected'; val: number }
    | { tag: 'lease-ended'; val: LeaseEnd };
  /**
   * Why `decide` is called. `resync`: the policy takes over from another one. The batch announces every live job as
   * if it had just arrived, followed by its phase unless it waits; `cluster.occupancy` returns which jobs hold which
   * GPUs. Timers of the previous policy are discarded.
   */
  export type Trigger = 'event' | 'round' | 'timer' | 'resync';
  /** What a live job has had before the policy took over from another. */
  export interface AttainedTime {
    job: JobId;
    /** Time for which it has made progress, restarts included. */
    runTime: Duration;
    /** Sum over its GPUs of the time for which it has held them, draining included. */
    gpuTime: Duration;
  }
  /** What a batch introduces; the function of that name in `introductions` returns it. */
  export interface Fresh {
    classes?: boolean;
    workloads?: boolean;
    users?: boolean;
    samples?: boolean;
    attained?: boolean;
  }
  /**
   * Everything that happened since the previous call, in the order of time. Events of the same instant are ordered
   * as ends, node changes, changes of phase and time left, arrivals, timers, each by id. An event that only reports
   * the outcome of the policy's own action (`job-changed` with cause `asked` that frees no GPU, `rejected`, or the end
   * of a job that it refused) is delivered with the next call and does not cause one; nor do `remaining-changed` and
   * ends that `cadence.ends` excepts. Outcomes of actions of one instant are in the order of the actions.
   */
  export interface Batch {
    seq: number;
    now: Instant;
    trigger: Trigger;
    fresh: Fresh;
    events: Array<Event>;
  }
  export interface Start {
    job: JobId;
    /** The GPUs. An elastic job may be given any number that it allows, in the order of its ring. */
    gpus: Array<GpuId>;
    /** Batch of an elastic job; none means the batch that its user asked for. */
    batch?: BatchSplit | null;
  }
  /** Starts a job that asks for a part of a GPU. */
  export interface StartPart {
    job: JobId;
    gpu: GpuId;
    /** The first slice of its part. */
    slice: number;
  }
  /** Starts a job that asks for no GPU. */
  export interface StartOn {
    job: JobId;
    node: NodeId;
  }
  export type PreemptMode = 'checkpoint' | 'kill';
  export interface Preempt {
    job: JobId;
    mode: PreemptMode;
  }
  export interface Throttle {
    job: JobId;
    /** Limit on a running job's speed, in thousandths of its speed without the limit, 1 to 1000. */
    milli: number;
  }
  export interface SetBatch {
    job: JobId;
    batch: BatchSplit;
  }
  /**
   * Reserves a GPU for the service whose model it has loaded: until then only tasks of that service may be
   * placed on it. An instant that is not in the future ends the reservation, and so does a failure of the node.
   */
  export interface Protect {
    gpu: GpuId;
    until: Instant;
  }
  export interface Timer {
    token: number;
    at: Instant;
  }
  export type Action =
    | { tag: 'start'; val: Start }
    | { tag: 'preempt'; val: Preempt }
    | { tag: 'set-timer'; val: Timer }
    | { tag: 'cancel-timer'; val: number }
    | { tag: 'throttle'; val: Throttle }
    /**
     * Elastic jobs that hold GPUs continue on these GPUs: more, fewer or different ones, of any type that the job
     * allows. All changes of the list happen at once or not at all, so that one job may take what another one in it
     * releases. Each job pays the cost of a change that the experiment states.
     */
    | { tag: 'reassign'; val: Array<Start> }
    | { tag: 'set-batch'; val: SetBatch }
    | { tag: 'protect'; val: Protect }
    /** A queued job ends without having been completed, for good: its deadline cannot be met, for example. */
    | { tag: 'refuse'; val: JobId }
    | { tag: 'start-part'; val: StartPart }
    | { tag: 'start-on'; val: StartOn };
  export interface Plan {
    /** `batch.seq` of the batch that the plan answers. */
    base: number;
    /** Checked in order, each against the state that the earlier ones leave. */
    actions: Array<Action>;
  }
  /**
   * Kinds of action that a policy uses in addition to `start`, and demands that its placements follow.
   * `share`: starts jobs next to others on packed GPUs; `elastic`: `reassign` and `set-batch`; `shape`: follows
   * `demand.gpus-per-node`; `host`: follows `demand.host`; `near`: follows `demand.near`; `queues`: follows `queue.limit`;
   * `parts`: follows `demand.part`, by `start-part`; `cpu-jobs`: starts jobs that ask for no GPU, by `start-on`.
   * An experiment with such a demand or limit does not begin with a policy that does not follow it. `drain`: is told of
   * draining nodes; to any other policy they are up until they go down.
   */
  export interface Abilities {
    preempt?: boolean;
    timers?: boolean;
    share?: boolean;
    throttle?: boolean;
    elastic?: boolean;
    protect?: boolean;
    refuse?: boolean;
    shape?: boolean;
    host?: boolean;
    near?: boolean;
    drain?: boolean;
    queues?: boolean;
    parts?: boolean;
    cpuJobs?: boolean;
  }
  /** Information that a policy needs, or that the host provides. */
  export interface Knowledge {
    /** `arrival.declared-run-time`. */
    declaredRunTime?: boolean;
    /** `predictor.estimate(remaining, …)`. */
    remaining?: boolean;
    /**
     * `remaining` in events, for policies that need `remaining`. The host provides it if between events about a
     * job its time left is constant while it holds no GPUs, and falls with the clock, to 0, while it holds some.
     */
    remainingInEvents?: boolean;
    /** Measurements of a run alone, in `introductions.workloads`. */
    soloProfile?: boolean;
    /** `facts` in `introductions.workloads`. */
    modelFacts?: boolean;
    /** `setup.references`. */
    references?: boolean;
    /** `predictor.similarity`. */
    similarity?: boolean;
    /** `predictor.pair-speed`. */
    pairSpeed?: boolean;
    /** `predictor.estimate(throughput, …)`. */
    throughput?: boolean;
    /** `predictor.estimate(utilisation, …)`. */
    utilisation?: boolean;
    /** `predictor.estimate(memory, …)`. */
    memory?: boolean;
    /** `predictor.estimate(step-time | steps, …)`. */
    steps?: boolean;
    /** `cluster.progress`. */
    progress?: boolean;
    /** `setup.weights`. */
    weights?: boolean;
    /** `predictor.epochs`. */
    epochs?: boolean;
  }
  /** Why a job waits. */
  export type Reason =
    /** Fewer GPUs are free than it asks for, on every type that it allows. */
    | { tag: 'no-free-gpus' }
    /** Enough are free, but not so that they are a place for it. */
    | { tag: 'fragmented' }
    /** The jobs of this queue would hold more GPUs than its limit. */
    | { tag: 'over-limit'; val: QueueId }
    /** This job comes first. */
    | { tag: 'behind'; val: JobId }
    /** In the policy's own words. */
    | { tag: 'policy'; val: string };
  export type Wake = 'always' | 'while-waiting';
  /** When `decide` is called. */
  export interface Cadence {
    /**
     * At every multiple of this duration; none for no rounds. Where the experiment leases GPUs for rounds, a policy is
     * called between them alone, whatever its cadence: with the trigger `round` if this is given, and then also when
     * nothing has been leased for the length of a round; once more at the same instant, with the trigger `event`, if
     * its plan preempts.
     */
    round?: Duration | null;
    /** Whether it is also called on events. */
    onEvents: boolean;
    /**
     * Which ends of jobs are events that call it. The schedule must not depend on this: it saves calls that would
     * return an empty plan.
     */
    ends: Wake;
  }
  export interface Descriptor {
    name: string;
    version: string;
    /** One line for the user; names the source of a published algorithm. */
    about: string;
    uses: Abilities;
    /** `init` is rejected if the host cannot provide this. */
    needs: Knowledge;
    /** JSON Schema of `setup.config`. */
    configSchema: string;
  }
  export interface Setup {
    /** JSON object in canonical form (sorted keys), as hashed into the cell's id. */
    config: string;
    /** The only source of randomness; part of the cell's id. */
    seed: number;
    /** Contents of the file of weights that the spec names, which is part of the cell's id; empty if it names none. */
    weights: Uint8Array;
    topology: Topology;
    knowledge: Knowledge;
    /** Workloads measured on the GPUs of this cluster, with facts and throughputs. */
    references: Array<WorkloadProfile>;
    services: Array<Service>;
    /** A group comes before the queues in it. Empty if jobs are in no queues. */
    queues: Array<Queue>;
    /** Maximum number of actions in a plan. */
    maxActions: number;
  }
  export interface Readiness {
    cadence: Cadence;
    /** Those of `descriptor.uses` that the policy uses with this configuration. */
    uses: Abilities;
  }
  export type PolicyError =
    | { tag: 'bad-config'; val: string }
    | { tag: 'unsupported'; val: string }
    | { tag: 'internal'; val: string };
}

/**
 * The state of the cluster, the current batch included. These functions may be called only while `scheduler.decide` or
 * `advice.explain` runs, during which the state does not change; a call at any other time traps.
 */
declare module 'sandtable:policy/cluster@0.2.0' {
  export type Instant = import('sandtable:policy/types@0.2.0').Instant;
  export type Duration = import('sandtable:policy/types@0.2.0').Duration;
  export type JobId = import('sandtable:policy/types@0.2.0').JobId;
  export type GpuId = import('sandtable:policy/types@0.2.0').GpuId;
  export type NodeId = import('sandtable:policy/types@0.2.0').NodeId;
  export type Action = import('sandtable:policy/types@0.2.0').Action;
  export type Rejection = import('sandtable:policy/types@0.2.0').Rejection;
  export function now(): Instant;
  /** Number of GPUs that no job holds, by node-id; 0 for a node that is down, or draining if the policy is told of that. */
  export function freeGpus(): Array<number>;
  /** Pairs of a GPU and a job on it, in ascending order of GPU and then of job. */
  export function occupancy(): [Array<GpuId>, Array<JobId>];
  /** Pairs of a node and a job on it that asks for no GPU, in ascending order of node and then of job. */
  export function cpuJobs(): [Array<NodeId>, Array<JobId>];
  /** First slice of each job's part; 2^32 - 1 for a job that has none. */
  export function partSlices(jobs: Array<JobId>): Array<number>;
  /**
   * Speed of each job relative to its speed when running alone, as its step times show it; NaN for a job that makes
   * no progress.
   */
  export function speeds(jobs: Array<JobId>): Array<number>;
  /**
   * What each job has done: the part of its work that is done, 0 to 1, NaN if unknown; and the time of progress that it
   * would lose if it were killed now, 2^53 - 1 if unknown. All are unknown without `setup.knowledge.progress`.
   */
  export function progress(jobs: Array<JobId>): [Array<number>, Array<Duration>];
  /** The rejections that these actions would get, without carrying any of them out. */
  export function check(actions: Array<Action>): Array<Rejection>;
  /** The rejections of the previous plan. */
  export function rejections(): Array<Rejection>;
}

/**
 * What jobs refer to by number. Each function returns what the current batch introduces, and an empty list if
 * `batch.fresh` does not name it; the numbers begin at 0 and continue those of earlier batches. These functions may be
 * called only while `scheduler.decide` or `advice.explain` runs; a call at any other time traps.
 */
declare module 'sandtable:policy/introductions@0.2.0' {
  export type AttainedTime = import('sandtable:policy/types@0.2.0').AttainedTime;
  export type Demand = import('sandtable:policy/types@0.2.0').Demand;
  export type Sample = import('sandtable:policy/types@0.2.0').Sample;
  export type WorkloadProfile = import('sandtable:policy/types@0.2.0').WorkloadProfile;
  /** Demands that no earlier job had. */
  export function classes(): Array<Demand>;
  /** Workloads that no earlier job had. */
  export function workloads(): Array<WorkloadProfile>;
  /** Names of users that no earlier job belongs to; empty if unknown. */
  export function users(): Array<string>;
  /** Measurements of elastic jobs, in the order of job ids. They have no number: each is returned once. */
  export function samples(): Array<Sample>;
  /** Jobs that have held GPUs already, in the order of job ids, in a batch whose trigger is `resync`. */
  export function attained(): Array<AttainedTime>;
}

/**
 * Estimates. Questions are parallel lists, and answers come in the same order; NaN means unknown. The binding that
 * answers is part of the cell's id.
 */
declare module 'sandtable:policy/predictor@0.2.0' {
  export type JobId = import('sandtable:policy/types@0.2.0').JobId;
  export type GpuTypeId = import('sandtable:policy/types@0.2.0').GpuTypeId;
  export type TrainingEpochs = import('sandtable:policy/types@0.2.0').TrainingEpochs;
  /** Allocations that jobs could run in, in columns. */
  export interface Shapes {
    job: Array<JobId>;
    gpuType: Array<GpuTypeId>;
    /**
     * Number of GPUs, on as few nodes as can hold them; empty means the number that each job asks for. Used by
     * `step-time`.
     */
    gpus: Array<number>;
  }
  export type Quantity = 'remaining' | 'throughput' | 'utilisation' | 'memory' | 'step-time' | 'steps';
  export function estimate(what: Quantity, shapes: Shapes): Array<number>;
  /** How likely the two jobs of each pair are to contend for a GPU: 0 (not at all) to 1 (fully). */
  export function similarity(gpuType: GpuTypeId, first: Array<JobId>, second: Array<JobId>): Array<number>;
  /** Speed of each job next to these residents of a GPU, relative to its speed when running alone, 0 to 1. */
  export function pairSpeed(gpuType: GpuTypeId, job: Array<JobId>, residents: Array<Array<JobId>>): Array<number>;
  /** The epochs of each job on GPUs of a type. */
  export function epochs(gpuType: GpuTypeId, jobs: Array<JobId>): Array<TrainingEpochs>;
}

/** Diagnostics. They do not affect the result of an experiment. */
declare module 'sandtable:policy/log@0.2.0' {
  export type Level = 'debug' | 'info' | 'warn' | 'error';
  export function write(level: Level, message: string): void;
  /**
   * Reports a panic: called by a guest's panic handler, which then traps. The host puts the latest message into the
   * fault. Returns to the caller and has no other effect.
   */
  export function panic(message: string): void;
}

/** The functions that a policy exports. */
declare module 'sandtable:policy/scheduler@0.2.0' {
  export type Descriptor = import('sandtable:policy/types@0.2.0').Descriptor;
  export type Setup = import('sandtable:policy/types@0.2.0').Setup;
  export type Readiness = import('sandtable:policy/types@0.2.0').Readiness;
  export type Batch = import('sandtable:policy/types@0.2.0').Batch;
  export type Plan = import('sandtable:policy/types@0.2.0').Plan;
  export type PolicyError = import('sandtable:policy/types@0.2.0').PolicyError;
  /** Describes the policy. May be called at any time, also before `init`; always returns the same descriptor. */
  export function describe(): Descriptor;
  /** Initialises the policy. Called once, before the first `decide`. */
  export function init(setup: Setup): Readiness;
  /** Answers a batch with a plan. */
  export function decide(batch: Batch): Plan;
}
