//! What a job asks for and what it really takes.

use std::ops::Deref;
use std::sync::Arc;

use compact_str::CompactString;

use crate::{Duration, HostResources, Instant, Nearness, PartId, QueueId, ServiceId, TypeId, WorkloadId};

/// One job of a workload. What it asks for is read as if it were its own: `job.gpus`.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name in the trace.
    pub name: CompactString,
    /// When it is submitted.
    pub submit: Instant,
    /// Its work: run time on GPUs of speed 1.
    pub work: Duration,
    /// What its user said that it would take.
    pub declared: Option<Duration>,
    /// When it should have ended.
    pub deadline: Option<Instant>,
    /// What it asks for. Jobs that ask for the same may share it: a workload of millions has few different ones.
    pub request: Arc<Request>,
}

/// What a job asks for, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Size of its gang; 0: it runs on CPU and memory of one node, at speed 1 on any.
    pub gpus: u32,
    /// Its GPUs on each of its nodes; 0: split over nodes in any way.
    pub gpus_per_node: u32,
    /// CPU and memory that the whole gang takes of its nodes.
    pub host: HostResources,
    /// How near to each other its nodes are.
    pub near: Nearness,
    /// Higher is more important; only policies give it a meaning.
    pub priority: i32,
    /// The queue that it was submitted to; none: no limit of a queue holds for it.
    pub queue: Option<QueueId>,
    /// The types that it may run on; empty: any.
    pub gpu_types: Vec<TypeId>,
    /// Whether it may be preempted.
    pub preemptible: bool,
    /// Thousandths of a GPU; 1000 but for parts of one GPU.
    pub share: u32,
    /// The part that one GPU must be cut into for it; none: it asks for whole GPUs, or for a share.
    pub part: Option<PartId>,
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

impl Deref for Job {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl Request {
    /// Whole GPUs of any type, by a job that may be preempted.
    pub fn new(gpus: u32) -> Request {
        Request {
            gpus,
            gpus_per_node: 0,
            host: HostResources::UNKNOWN,
            near: Nearness::ANY,
            priority: 0,
            queue: None,
            gpu_types: Vec::new(),
            preemptible: true,
            share: Job::WHOLE,
            part: None,
            memory_mib: None,
            workload: None,
            user: String::new(),
            batch: None,
            service: None,
        }
    }
}

impl Job {
    /// A job that asks for whole GPUs of any type and may be preempted.
    pub fn new(name: &str, submit: Instant, gpus: u32, work: Duration) -> Job {
        let request = Arc::new(Request::new(gpus));
        Job { name: name.into(), submit, work, declared: None, deadline: None, request }
    }

    /// The job, where it asks for something else.
    ///
    /// ```
    /// use sandtable_hardware::{Instant, Job, SECOND};
    ///
    /// let job = Job::new("train", Instant::START, 4, 3600 * SECOND).asking(|request| request.preemptible = false);
    /// assert_eq!((job.gpus, job.preemptible, job.work), (4, false, 3600 * SECOND));
    /// ```
    #[must_use]
    pub fn asking(mut self, change: impl FnOnce(&mut Request)) -> Job {
        change(Arc::make_mut(&mut self.request));
        self
    }

    /// Its GPUs and what it asks of their nodes, in words; with the names of the fleet's levels.
    ///
    /// ```
    /// use sandtable_hardware::{Instant, Job, Nearness, SECOND};
    ///
    /// let job = Job::new("train", Instant::START, 4, SECOND).asking(|request| {
    ///     request.gpus_per_node = 2;
    ///     request.near = Nearness { required: Some(0), preferred: None };
    /// });
    /// assert_eq!(job.asks(&["rack".into()]), "4 GPUs, 2 on each node, within one rack");
    /// ```
    pub fn asks(&self, levels: &[String]) -> String {
        let mut asks = if self.gpus == 0 { "no GPU".into() } else { format!("{} GPUs", self.gpus) };
        if self.gpus_per_node > 0 {
            asks.push_str(&format!(", {} on each node", self.gpus_per_node));
        }
        if self.host.cpu_milli > 0 {
            asks.push_str(&format!(", {} CPUs", f64::from(self.host.cpu_milli) / 1000.0));
        }
        if self.host.memory_mib > 0 {
            asks.push_str(&format!(", {} MiB of host memory", self.host.memory_mib));
        }
        if let Some(level) = self.near.required {
            let name = levels.get(level as usize).map_or("domain of a level that the fleet lacks", String::as_str);
            asks.push_str(&format!(", within one {name}"));
        }
        asks
    }

    /// The share of a whole GPU.
    pub const WHOLE: u32 = 1000;
}
