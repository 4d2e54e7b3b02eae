//! What a job asks for and what it really takes.

use crate::{Duration, HostResources, Instant, Nearness, ServiceId, TypeId, WorkloadId};

/// One job of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in the trace.
    pub name: String,
    /// When it is submitted.
    pub submit: Instant,
    /// Size of its gang.
    pub gpus: u32,
    /// Its GPUs on each of its nodes; 0: split over nodes in any way.
    pub gpus_per_node: u32,
    /// CPU and memory that the whole gang takes of its nodes.
    pub host: HostResources,
    /// How near to each other its nodes are.
    pub near: Nearness,
    /// Its work: run time on GPUs of speed 1.
    pub work: Duration,
    /// What its user said that it would take.
    pub declared: Option<Duration>,
    /// When it should have ended.
    pub deadline: Option<Instant>,
    /// Higher is more important; only policies give it a meaning.
    pub priority: i32,
    /// The types that it may run on; empty: any.
    pub gpu_types: Vec<TypeId>,
    /// Whether it may be preempted.
    pub preemptible: bool,
    /// Thousandths of a GPU; 1000 but for parts of one GPU.
    pub share: u32,
    /// Device memory that it takes on each GPU, MiB; none: what its workload's profile says.
    pub memory_mib: Option<u32>,
    /// Its workload in the profile; none: there is no interference with it.
    pub workload: Option<WorkloadId>,
    /// Its user; empty: unknown.
    pub user: String,
    /// Samples of a step that its user asks for: then it is elastic, if its workload is.
    pub batch: Option<u32>,
    /// It is a task of this service; none: a training job.
    pub service: Option<ServiceId>,
}

impl Job {
    /// A job that asks for whole GPUs of any type and may be preempted.
    ///
    /// ```
    /// use sandtable_hardware::{Instant, Job, SECOND};
    ///
    /// let job = Job { preemptible: false, ..Job::new("train", Instant::START, 4, 3600 * SECOND) };
    /// assert_eq!((job.gpus, job.work), (4, 3600 * SECOND));
    /// ```
    pub fn new(name: &str, submit: Instant, gpus: u32, work: Duration) -> Job {
        Job {
            name: name.into(),
            submit,
            gpus,
            gpus_per_node: 0,
            host: HostResources::UNKNOWN,
            near: Nearness::ANY,
            work,
            declared: None,
            deadline: None,
            priority: 0,
            gpu_types: Vec::new(),
            preemptible: true,
            share: Job::WHOLE,
            memory_mib: None,
            workload: None,
            user: String::new(),
            batch: None,
            service: None,
        }
    }

    /// The share of a whole GPU.
    pub const WHOLE: u32 = 1000;
}
