//! What policies are told of the cluster and of jobs. Documented in `wit/policy.wit`.

#![expect(missing_docs, reason = "as in `wit/`: what a name says alone has no sentence")]

use super::{Duration, GpuId, GpuTypeId, Instant, JobId, NodeId, ServiceId, WorkloadId};

variant! {
    /// Which jobs may be on a GPU together.
    #[derive(Clone, Copy, PartialEq)]
    pub enum Sharing {
        /// One job at a time.
        "exclusive" Exclusive,
        /// Jobs whose shares add up to at most a whole GPU.
        "shares" Shares,
        /// At most so many jobs, whatever they ask for; they slow each other down.
        "packed" Packed(u32),
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct GpuType {
        "id" id: GpuTypeId,
        "name" name: String,
        /// Device memory; 0: unknown, and not looked at.
        "memory-mib" memory_mib: u32,
        "sharing" sharing: Sharing,
    }
}

enumeration! {
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum NodeHealth {
        "up" Up,
        "down" Down,
    }
}

enumeration! {
    /// What a node is for: training or serving.
    #[derive(Clone, Copy, Eq, PartialEq)]
    pub enum Pool {
        "training" Training,
        "inference" Inference,
    }
}

record! {
    /// Its GPUs are `first-gpu .. first-gpu + gpus`: GPUs are numbered node by node.
    #[derive(Clone, PartialEq)]
    pub struct Node {
        "id" id: NodeId,
        "name" name: String,
        "gpu-type" gpu_type: GpuTypeId,
        "first-gpu" first_gpu: GpuId,
        "gpus" gpus: u32,
        "health" health: NodeHealth,
        /// GB/s between its GPUs, row by row; 0: no link. Empty: unknown.
        "links" links: Vec<f64>,
        /// Nodes of one rack are near each other; racks are numbered in the order of their nodes.
        "rack" rack: u32,
        "pool" pool: Pool,
    }
}

record! {
    /// What answers requests: a model that a GPU must load before it serves. It stays there until the GPU is given to
    /// another job or fails, or where the experiment says so, until the task is done.
    #[derive(Clone, PartialEq)]
    pub struct Service {
        "id" id: ServiceId,
        "name" name: String,
        /// Loading it onto a GPU.
        "cold-start" cold_start: Duration,
        /// Whether it stays there when a task is done.
        "stays-loaded" stays_loaded: bool,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Topology {
        "gpu-types" gpu_types: Vec<GpuType>,
        "nodes" nodes: Vec<Node>,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct Demand {
        /// GPUs, all or none (a gang).
        "gpus" gpus: u32,
        /// Thousandths of a GPU that it asks for: 1000, or less for a gang of one.
        "share-milli" share_milli: u32,
        /// Device memory that it needs on each; 0: unknown.
        "memory-mib" memory_mib: u32,
        /// The types that the gang may run on, one for all of it; empty: any.
        "gpu-types" gpu_types: Vec<GpuTypeId>,
        "preemptible" preemptible: bool,
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
    /// What the computation graph of a model shows, for one sample: counts of elements, operations and bytes (fp32). A
    /// count that is unknown is NaN.
    #[derive(Clone, PartialEq)]
    pub struct ModelFacts {
        /// Its name in the catalogue, or its file's.
        "model" model: String,
        /// Numbers that are trained.
        "parameters" parameters: f64,
        /// Multiply-adds of convolutions and dense layers; the elements that they give; those that convolutions read
        /// and give.
        "layer-multiply-adds" layer_multiply_adds: f64,
        "layer-outputs" layer_outputs: f64,
        "layer-traffic" layer_traffic: f64,
        /// Elements that everything else gives: normalisation, activation, pooling, sums, concatenation.
        "elementwise-outputs" elementwise_outputs: f64,
        /// Convolutions and dense layers on the longest path.
        "depth" depth: f64,
        /// Sums over all operators, each by its published rule (Horus).
        "flops" flops: f64,
        "multiply-adds" multiply_adds: f64,
        "additions" additions: f64,
        "comparisons" comparisons: f64,
        "divisions" divisions: f64,
        "exponentials" exponentials: f64,
        "activation-bytes" activation_bytes: f64,
        "parameter-bytes" parameter_bytes: f64,
        "other-bytes" other_bytes: f64,
        /// Operators and their part of the FLOPs: convolutions, matrix products, recurrent, normalisation, element-wise.
        "group-nodes" group_nodes: Vec<u32>,
        "group-flops" group_flops: Vec<f64>,
    }
}

record! {
    /// Samples a second with so many GPUs of a type; 0: it does not run there.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Throughput {
        "gpu-type" gpu_type: GpuTypeId,
        "gpus" gpus: u32,
        "per-second" per_second: f64,
    }
}

record! {
    /// What is known of a workload beforehand. An unknown number is NaN; lists are by gpu-type-id. What running
    /// alone has shown, from `gpu-utilisation` on, is empty where the experiment does not reveal it.
    #[derive(Clone, PartialEq)]
    pub struct WorkloadProfile {
        /// Jobs of one workload behave alike.
        "workload" workload: String,
        /// Workloads of one family share a model architecture.
        "family" family: String,
        "batch" batch: f64,
        "mixed-precision" mixed_precision: bool,
        /// Gradients exchanged in a step, GB.
        "gradient-gb" gradient_gb: f64,
        "communication" communication: Communication,
        /// Where the experiment reveals them.
        "facts" facts: Option<ModelFacts>,
        /// Utilisation of the GPU and of its memory's bandwidth, 0 to 1.
        "gpu-utilisation" gpu_utilisation: Vec<f64>,
        "memory-utilisation" memory_utilisation: Vec<f64>,
        /// Device memory; 0: unknown.
        "memory-mib" memory_mib: Vec<u32>,
        /// Seconds of a step.
        "step-time" step_time: Vec<f64>,
        "throughput" throughput: Vec<Throughput>,
    }
}

record! {
    /// How a job that may change its size may do so.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Elasticity {
        /// Most GPUs; the fewest are 1.
        "most-gpus" most_gpus: u32,
        /// Samples of a step that its user asks for, with `demand.gpus`.
        "batch" batch: u32,
        /// Whether another batch may be set.
        "tunable" tunable: bool,
        /// The smallest batch of a step, where statistical efficiency is 1, and the largest.
        "initial-batch" initial_batch: u32,
        "most-batch" most_batch: u32,
        /// Samples of a pass on one GPU.
        "least-local" least_local: u32,
        "most-local" most_local: u32,
    }
}

record! {
    /// How a gang works through a batch: samples of a pass on one GPU, and passes of a step beside the one that
    /// exchanges gradients.
    #[derive(Clone, Copy, PartialEq)]
    pub struct BatchSplit {
        "local" local: u32,
        "accumulation" accumulation: u32,
    }
}

record! {
    /// What an elastic job reports of itself after it has run for a while with other GPUs, with another batch, or in
    /// another epoch.
    #[derive(Clone, Copy, PartialEq)]
    pub struct Sample {
        "job" job: JobId,
        "nodes" nodes: u32,
        "gpus" gpus: u32,
        "local" local: u32,
        /// Seconds of a pass with exchange of gradients, and of that for the exchange.
        "step-time" step_time: f64,
        "sync-time" sync_time: f64,
        /// Squared norm of the gradient and trace of its covariance, at the scale of the initial batch.
        "gradient-sqr" gradient_sqr: f64,
        "gradient-variance" gradient_variance: f64,
    }
}

record! {
    #[derive(Clone, PartialEq)]
    pub struct JobInfo {
        "id" id: JobId,
        "submitted" submitted: Instant,
        "demand" demand: Demand,
        /// What the user said that it would take; none where the user did not say
        /// or the experiment does not reveal it.
        "declared-run-time" declared_run_time: Option<Duration>,
        /// Which of the workloads that batches have introduced; none: nothing is known of it.
        "workload" workload: Option<WorkloadId>,
        /// Its user; empty: unknown.
        "user" user: String,
        /// None: it has the GPUs that it asked for, always.
        "elastic" elastic: Option<Elasticity>,
        /// It is a task of this service, done in one go on one GPU; none: a training job.
        "service" service: Option<ServiceId>,
    }
}
