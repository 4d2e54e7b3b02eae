//! What policies are told of the cluster and of jobs. Documented in `wit/policy.wit`.

#![expect(missing_docs, reason = "as in `wit/`: what a name says alone has no sentence")]

use super::{Duration, GpuId, GpuTypeId, JobId, NodeId, PartId, QueueId, ServiceId};

variant! {
    /// How jobs may share a GPU.
    #[derive(Clone, PartialEq)]
    pub enum Sharing {
        /// One job at a time.
        "exclusive" Exclusive,
        /// Several jobs, whose shares add up to at most one GPU.
        "shares" Shares,
        /// At most this many jobs, whatever their shares; they slow each other down.
        "packed" Packed(u32),
        /// Cut into parts of these profiles, one job on each; they do not slow each other down (MIG instances). A job that
        /// asks for no part has the GPU to itself.
        "parts" Parts(Vec<PartProfile>),
    }
}

record! {
    /// A size of a part. It takes `slices` slices of the GPU from the one at which it begins; no two parts overlap.
    #[derive(Clone, PartialEq)]
    pub struct PartProfile {
        /// GPU types whose profiles have one id differ in `memory-mib` alone.
        "id" id: PartId,
        "name" name: String,
        "slices" slices: u32,
        /// Memory in MiB; 0 if unknown: as much as the GPU has.
        "memory-mib" memory_mib: u32,
        /// Slices at which it may begin, ascending.
        "starts" starts: Vec<u32>,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct GpuType {
        "id" id: GpuTypeId,
        "name" name: String,
        /// Device memory in MiB; 0 if unknown, and then memory is not checked.
        "memory-mib" memory_mib: u32,
        "sharing" sharing: Sharing,
    }
}

enumeration! {
    /// `draining`: the node is going down; jobs on it go on until then, and none may start there.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum NodeHealth {
        "up" Up,
        "down" Down,
        "draining" Draining,
    }
}

enumeration! {
    /// What a node is for: training jobs or inference tasks.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum Pool {
        "training" Training,
        "inference" Inference,
    }
}

record! {
    /// CPU and memory beside GPUs: what jobs may take of a node, or what a gang takes of its nodes.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub struct HostResources {
        /// Thousandths of a core; 0 if unknown, and then not checked.
        "cpu-milli" cpu_milli: u32,
        /// MiB; 0 if unknown, and then not checked.
        "memory-mib" memory_mib: u32,
    }
}

record! {
    /// A node. It has the GPUs `first-gpu .. first-gpu + gpus`: GPUs are numbered node by node.
    #[derive(Clone, PartialEq)]
    pub struct Node {
        "id" id: NodeId,
        "name" name: String,
        "gpu-type" gpu_type: GpuTypeId,
        "first-gpu" first_gpu: GpuId,
        "gpus" gpus: u32,
        "health" health: NodeHealth,
        /// Bandwidth between its GPUs in GB/s, a matrix in row order; 0 means no link. Empty if unknown.
        #[serde(deserialize_with = "super::numbers")]
        "links" links: Vec<f64>,
        /// Its domain at each of `topology.levels`, numbered from 0 at each.
        "domains" domains: Vec<u32>,
        "pool" pool: Pool,
        "host" host: HostResources,
        /// None: it is ours. Otherwise its owner may take it back, this long after saying so; 0 means without saying so.
        #[serde(default)]
        "revocable" revocable: Option<Duration>,
    }
}

record! {
    /// A model that answers requests. A GPU must load it before it serves. The model stays loaded until the GPU is
    /// given to a training job or to another service, or fails; or, if the experiment says so, only until the task is
    /// done.
    #[derive(Clone, PartialEq)]
    pub struct Service {
        "id" id: ServiceId,
        "name" name: String,
        /// Time to load the model onto a GPU.
        "cold-start" cold_start: Duration,
        /// Whether the model stays loaded after a task.
        "stays-loaded" stays_loaded: bool,
    }
}

record! {
    /// A queue that jobs are submitted to, or a group of queues. GPUs are counted over all types; a share of a GPU
    /// counts as that part of it.
    #[derive(Clone, PartialEq)]
    pub struct Queue {
        "id" id: QueueId,
        "name" name: String,
        /// The group that it is in, which has a lower id; none if it is at the top.
        "parent" parent: Option<QueueId>,
        /// GPUs that it may always have.
        "guaranteed" guaranteed: f64,
        /// Its part, among the queues of its group, of the GPUs that no queue is guaranteed.
        "weight" weight: f64,
        /// Most GPUs that its jobs may hold together; infinite if there is no limit.
        #[serde(deserialize_with = "super::limit")]
        "limit" limit: f64,
        /// The queue with the higher number is served first, within its group.
        "priority" priority: i32,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Topology {
        "gpu-types" gpu_types: Vec<GpuType>,
        /// Names of the levels at which nodes are near each other, from wide to near: block, rack. At each, every node
        /// is in one domain; nodes of one domain are in one domain of the level before too.
        "levels" levels: Vec<String>,
        "nodes" nodes: Vec<Node>,
    }
}

record! {
    /// How near to each other the nodes of a gang are; each number is an index of `topology.levels`.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Nearness {
        /// Within one domain of this level, or the gang does not start.
        "required" required: Option<u32>,
        /// Within one domain of this level, where there is such a place.
        "preferred" preferred: Option<u32>,
    }
}

record! {
    /// What a job asks for.
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Demand {
        /// Number of GPUs, allocated all at once or not at all (a gang); 0: the job takes CPU and memory of one node alone.
        "gpus" gpus: u32,
        /// Number of its GPUs on each node that it runs on; 0 means that they may be split over nodes in any way.
        "gpus-per-node" gpus_per_node: u32,
        /// CPU and memory that the whole gang takes. A node with some of its GPUs provides as large a part, rounded up,
        /// until the job is preempted or ends. Unknown where no node's are known.
        "host" host: HostResources,
        "near" near: Nearness,
        /// Share of each GPU in thousandths: 1000, or less for a job of one GPU. That of a part is its slices of those of
        /// the GPU, rounded down.
        "share-milli" share_milli: u32,
        /// Part of one GPU that the job asks for; none if it asks for whole GPUs or for a share. `gpu-types` names only
        /// types that have it.
        #[serde(default)]
        "part" part: Option<PartId>,
        /// Memory that the job needs on each GPU, in MiB; 0 if unknown.
        "memory-mib" memory_mib: u32,
        /// GPU types that the gang may run on, all of its GPUs of one type; empty means any type.
        "gpu-types" gpu_types: Vec<GpuTypeId>,
        "preemptible" preemptible: bool,
        /// How the job may change its size; none if it always runs on exactly the GPUs that it asked for.
        "elastic" elastic: Option<Elasticity>,
        /// The service that the job is a task of, which runs on one GPU without interruption; none for a training job.
        "service" service: Option<ServiceId>,
    }
}

enumeration! {
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum Communication {
        "ring" Ring,
        "parameter-server" ParameterServer,
    }
}

record! {
    /// Facts from the computation graph of a model, for one sample: counts of elements, operations and bytes (fp32).
    /// An unknown count is NaN.
    #[derive(Clone, PartialEq)]
    pub struct ModelFacts {
        /// Name of the model in the catalogue, or of its file.
        "model" model: String,
        /// Trainable parameters.
        #[serde(deserialize_with = "super::number")]
        "parameters" parameters: f64,
        /// Convolutions and dense layers: multiply-adds, output elements, and elements that convolutions read and
        /// write.
        #[serde(deserialize_with = "super::number")]
        "layer-multiply-adds" layer_multiply_adds: f64,
        #[serde(deserialize_with = "super::number")]
        "layer-outputs" layer_outputs: f64,
        #[serde(deserialize_with = "super::number")]
        "layer-traffic" layer_traffic: f64,
        /// Output elements of all other operators: normalisation, activation, pooling, sums, concatenation.
        #[serde(deserialize_with = "super::number")]
        "elementwise-outputs" elementwise_outputs: f64,
        /// Convolutions and dense layers on the longest path.
        #[serde(deserialize_with = "super::number")]
        "depth" depth: f64,
        /// Sums over all operators, each by its published rule (Horus).
        #[serde(deserialize_with = "super::number")]
        "flops" flops: f64,
        #[serde(deserialize_with = "super::number")]
        "multiply-adds" multiply_adds: f64,
        #[serde(deserialize_with = "super::number")]
        "additions" additions: f64,
        #[serde(deserialize_with = "super::number")]
        "comparisons" comparisons: f64,
        #[serde(deserialize_with = "super::number")]
        "divisions" divisions: f64,
        #[serde(deserialize_with = "super::number")]
        "exponentials" exponentials: f64,
        #[serde(deserialize_with = "super::number")]
        "activation-bytes" activation_bytes: f64,
        #[serde(deserialize_with = "super::number")]
        "parameter-bytes" parameter_bytes: f64,
        #[serde(deserialize_with = "super::number")]
        "other-bytes" other_bytes: f64,
        /// Number of operators and fraction of FLOPs by group: convolutions, matrix products, recurrent,
        /// normalisation, element-wise.
        "group-nodes" group_nodes: Vec<u32>,
        #[serde(deserialize_with = "super::numbers")]
        "group-flops" group_flops: Vec<f64>,
    }
}

record! {
    /// Samples per second on a number of GPUs of a type; 0 if the workload cannot run there.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Throughput {
        "gpu-type" gpu_type: GpuTypeId,
        "gpus" gpus: u32,
        #[serde(deserialize_with = "super::number")]
        "per-second" per_second: f64,
    }
}

record! {
    /// What a step of a gang takes when running alone.
    #[derive(Clone, PartialEq)]
    pub struct Stages {
        "gpus" gpus: u32,
        /// Seconds per step.
        #[serde(deserialize_with = "super::number")]
        "step-time" step_time: f64,
        /// Seconds of it on each resource, in turn: CPUs, GPUs, network; or storage, CPUs, GPUs, network.
        #[serde(deserialize_with = "super::numbers")]
        "uses" uses: Vec<f64>,
    }
}

record! {
    /// What is known of a workload in advance. Unknown numbers are NaN; lists are indexed by gpu-type-id. The
    /// measurements of a run alone, from `gpu-utilisation` on, are empty unless the experiment reveals them.
    #[derive(Clone, PartialEq)]
    pub struct WorkloadProfile {
        /// Name. Jobs of one workload behave alike.
        "workload" workload: String,
        /// Model architecture; workloads may share one.
        "family" family: String,
        #[serde(deserialize_with = "super::number")]
        "batch" batch: f64,
        "mixed-precision" mixed_precision: bool,
        /// Gradients exchanged per step, in GB.
        #[serde(deserialize_with = "super::number")]
        "gradient-gb" gradient_gb: f64,
        "communication" communication: Communication,
        /// Facts of the model, if the experiment reveals them.
        "facts" facts: Option<ModelFacts>,
        /// Utilisation of the GPU and of its memory bandwidth, 0 to 1.
        #[serde(deserialize_with = "super::numbers")]
        "gpu-utilisation" gpu_utilisation: Vec<f64>,
        #[serde(deserialize_with = "super::numbers")]
        "memory-utilisation" memory_utilisation: Vec<f64>,
        /// Device memory in MiB; 0 if unknown.
        "memory-mib" memory_mib: Vec<u32>,
        /// Seconds per step.
        #[serde(deserialize_with = "super::numbers")]
        "step-time" step_time: Vec<f64>,
        "throughput" throughput: Vec<Throughput>,
        /// By gang size, ascending. Empty if unknown.
        #[serde(default)]
        "stages" stages: Vec<Stages>,
    }
}

record! {
    /// How an elastic job may change its size.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Elasticity {
        /// Maximum number of GPUs; the minimum is 1.
        "most-gpus" most_gpus: u32,
        /// Samples per step that its user asks for, with `demand.gpus`.
        "batch" batch: u32,
        /// Whether the policy may set another batch.
        "tunable" tunable: bool,
        /// Smallest batch per step, at which statistical efficiency is 1, and the largest.
        "initial-batch" initial_batch: u32,
        "most-batch" most_batch: u32,
        /// Minimum and maximum samples per pass on one GPU.
        "least-local" least_local: u32,
        "most-local" most_local: u32,
    }
}

record! {
    /// How a gang processes a batch: samples per pass on one GPU, and the passes of a step in addition to the one that
    /// exchanges gradients.
    #[derive(Clone, Copy, PartialEq)]
    pub struct BatchSplit {
        "local" local: u32,
        "accumulation" accumulation: u32,
    }
}

record! {
    /// Epochs in a row with one batch.
    #[derive(Clone, Copy, PartialEq)]
    pub struct EpochsOfBatch {
        "count" count: u32,
        /// Samples per step.
        "batch" batch: u32,
        /// Seconds that each of these epochs takes the gang when running alone.
        #[serde(deserialize_with = "super::number")]
        "epoch-time" epoch_time: f64,
    }
}

record! {
    /// The epochs of a job that trains for a number of epochs and may change its batch by itself.
    #[derive(Clone, Default, PartialEq)]
    pub struct TrainingEpochs {
        /// Epochs that are done, the part of the present one included.
        #[serde(deserialize_with = "super::number")]
        "done" done: f64,
        /// Samples per step at present.
        "batch" batch: u32,
        /// All of its epochs in order, as they were planned when the job was submitted; the job may change its batch at
        /// another epoch. Empty if the job is not known to train for a number of epochs.
        "planned" planned: Vec<EpochsOfBatch>,
    }
}

record! {
    /// A measurement that an elastic job reports after running for a while with other GPUs, with another batch, or in
    /// another epoch.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Sample {
        "job" job: JobId,
        "nodes" nodes: u32,
        "gpus" gpus: u32,
        "local" local: u32,
        /// Seconds of a pass that exchanges gradients, and the part of it spent on the exchange.
        #[serde(deserialize_with = "super::number")]
        "step-time" step_time: f64,
        #[serde(deserialize_with = "super::number")]
        "sync-time" sync_time: f64,
        /// Squared norm of the gradient and trace of its covariance, at the scale of the initial batch.
        #[serde(deserialize_with = "super::number")]
        "gradient-sqr" gradient_sqr: f64,
        #[serde(deserialize_with = "super::number")]
        "gradient-variance" gradient_variance: f64,
    }
}
