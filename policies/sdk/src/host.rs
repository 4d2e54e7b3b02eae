//! The imports. In a component they reach the host; natively they reach the stand-in that a test or a benchmark
//! put into place, and without one nothing is known.

use crate::{
    Fresh, GpuId, GpuTypeId, Introductions, JobId, NEVER, NO_SLICE, NodeId, Quantity, Rejection, TrainingEpochs,
};

/// What answers the imports natively.
pub trait Host {
    /// A quantity of each job on the type beside it; NaN: unknown.
    fn estimate(&self, what: Quantity, jobs: &[JobId], types: &[GpuTypeId]) -> Vec<f64>;
    /// How likely pairs of jobs are to contend.
    fn similarity(&self, _: GpuTypeId, first: &[JobId], _: &[JobId]) -> Vec<f64> {
        vec![f64::NAN; first.len()]
    }
    /// Progress of jobs beside residents over their progress alone.
    fn pair_speed(&self, _: GpuTypeId, jobs: &[JobId], _: &[Vec<JobId>]) -> Vec<f64> {
        vec![f64::NAN; jobs.len()]
    }
    /// The epochs of jobs on GPUs of a type.
    fn epochs(&self, _: GpuTypeId, jobs: &[JobId]) -> Vec<TrainingEpochs> {
        jobs.iter().map(|_| TrainingEpochs { done: 0.0, batch: 0, planned: Vec::new() }).collect()
    }
    /// Seconds of a step of elastic jobs on so many GPUs.
    fn step_times(&self, jobs: &[JobId], _: &[GpuTypeId], _: &[u32]) -> Vec<f64> {
        vec![f64::NAN; jobs.len()]
    }
    /// Progress of jobs over their progress alone.
    fn speeds(&self, jobs: &[JobId]) -> Vec<f64> {
        vec![f64::NAN; jobs.len()]
    }
    /// The part of their work that jobs have done, and the time of progress, µs, that each would lose if it were killed.
    fn progress(&self, jobs: &[JobId]) -> (Vec<f64>, Vec<u64>) {
        (vec![f64::NAN; jobs.len()], vec![NEVER; jobs.len()])
    }
    /// Pairs of GPU and job, ascending by GPU.
    fn occupancy(&self) -> (Vec<GpuId>, Vec<JobId>) {
        (Vec::new(), Vec::new())
    }
    /// Pairs of node and job that asks for no GPU, ascending by node.
    fn cpu_jobs(&self) -> (Vec<NodeId>, Vec<JobId>) {
        (Vec::new(), Vec::new())
    }
    /// First slices of the parts that jobs have.
    fn part_slices(&self, jobs: &[JobId]) -> Vec<u32> {
        vec![NO_SLICE; jobs.len()]
    }
    /// Why actions of the previous plan were refused.
    fn rejections(&self) -> Vec<Rejection> {
        Vec::new()
    }
}

#[cfg(not(target_arch = "wasm32"))]
std::thread_local! {
    static HOST: std::cell::RefCell<Option<Box<dyn Host>>> = const { std::cell::RefCell::new(None) };
}

/// Sets the native stand-in of this thread.
///
/// ```
/// use sandtable_policy::host::{Host, estimate, stand_in};
/// use sandtable_policy::{GpuTypeId, JobId, Quantity};
///
/// /// Every job has an hour left; nothing else is known.
/// struct AnHour;
///
/// impl Host for AnHour {
///     fn estimate(&self, what: Quantity, jobs: &[JobId], _: &[GpuTypeId]) -> Vec<f64> {
///         vec![if what == Quantity::Remaining { 3600.0 } else { f64::NAN }; jobs.len()]
///     }
/// }
///
/// stand_in(Box::new(AnHour));
/// assert_eq!(estimate(Quantity::Remaining, vec![0, 1], vec![0, 0]), [3600.0, 3600.0]);
/// assert!(estimate(Quantity::Memory, vec![0], vec![0])[0].is_nan());
/// ```
#[cfg(not(target_arch = "wasm32"))]
pub fn stand_in(host: Box<dyn Host>) {
    HOST.set(Some(host));
}

/// A quantity of each job on the type beside it, in its unit; NaN: unknown.
pub fn estimate(what: Quantity, jobs: Vec<JobId>, types: Vec<GpuTypeId>) -> Vec<f64> {
    if jobs.is_empty() {
        return Vec::new();
    }
    #[cfg(target_arch = "wasm32")]
    {
        use crate::bindings::sandtable::policy::predictor::{Shapes, estimate};
        estimate(what, &Shapes { job: jobs, gpu_type: types, gpus: Vec::new() })
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.estimate(what, &jobs, &types),
        None => vec![f64::NAN; jobs.len()],
    })
}

/// Seconds of a step of elastic jobs at their users' batches, each on so many GPUs of the type beside it; NaN: unknown.
pub fn step_times(jobs: Vec<JobId>, types: Vec<GpuTypeId>, gpus: Vec<u32>) -> Vec<f64> {
    if jobs.is_empty() {
        return Vec::new();
    }
    #[cfg(target_arch = "wasm32")]
    {
        use crate::bindings::sandtable::policy::predictor::{Shapes, estimate};
        estimate(Quantity::StepTime, &Shapes { job: jobs, gpu_type: types, gpus })
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.step_times(&jobs, &types, &gpus),
        None => vec![f64::NAN; jobs.len()],
    })
}

/// How likely pairs of jobs are to contend, 0 to 1; NaN: unknown.
pub fn similarity(gpu_type: GpuTypeId, first: Vec<JobId>, second: Vec<JobId>) -> Vec<f64> {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::predictor::similarity(gpu_type, &first, &second)
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.similarity(gpu_type, &first, &second),
        None => vec![f64::NAN; first.len()],
    })
}

/// Progress of jobs beside residents over their progress alone, 0 to 1; NaN: unknown.
pub fn pair_speed(gpu_type: GpuTypeId, jobs: Vec<JobId>, residents: Vec<Vec<JobId>>) -> Vec<f64> {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::predictor::pair_speed(gpu_type, &jobs, &residents)
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.pair_speed(gpu_type, &jobs, &residents),
        None => vec![f64::NAN; jobs.len()],
    })
}

/// The epochs of jobs on GPUs of a type; without any where they are unknown.
pub fn epochs(gpu_type: GpuTypeId, jobs: Vec<JobId>) -> Vec<TrainingEpochs> {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::predictor::epochs(gpu_type, &jobs)
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.epochs(gpu_type, &jobs),
        None => Vec::new(),
    })
}

/// Progress of running jobs over their progress alone, as their own step times show it; NaN for those that make none.
pub fn speeds(jobs: Vec<JobId>) -> Vec<f64> {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::cluster::speeds(&jobs)
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.speeds(&jobs),
        None => vec![f64::NAN; jobs.len()],
    })
}

/// The part of its work that each job has done, 0 to 1, NaN: unknown; and the time of progress, µs, that it would lose if it were
/// killed now, [`NEVER`]: unknown.
pub fn progress(jobs: Vec<JobId>) -> (Vec<f64>, Vec<u64>) {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::cluster::progress(&jobs)
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.progress(&jobs),
        None => (vec![f64::NAN; jobs.len()], vec![NEVER; jobs.len()]),
    })
}

/// Pairs of GPU and job, ascending by GPU.
pub fn occupancy() -> (Vec<GpuId>, Vec<JobId>) {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::cluster::occupancy()
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| host.as_ref().map(|host| host.occupancy()).unwrap_or_default())
}

/// Pairs of node and job that asks for no GPU, ascending by node.
pub fn cpu_jobs() -> (Vec<NodeId>, Vec<JobId>) {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::cluster::cpu_jobs()
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| host.as_ref().map(|host| host.cpu_jobs()).unwrap_or_default())
}

/// First slices of the parts that jobs have; [`NO_SLICE`] for those that have none.
pub fn part_slices(jobs: Vec<JobId>) -> Vec<u32> {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::cluster::part_slices(&jobs)
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.part_slices(&jobs),
        None => vec![NO_SLICE; jobs.len()],
    })
}

/// Why actions of the previous plan were refused.
pub fn rejections() -> Vec<Rejection> {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::cluster::rejections()
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| host.as_ref().map(|host| host.rejections()).unwrap_or_default())
}

/// What the current batch introduces; natively nothing: the code that makes a batch passes it on.
pub fn introductions(fresh: Fresh) -> Introductions {
    #[cfg(target_arch = "wasm32")]
    {
        use crate::bindings::sandtable::policy::introductions;
        let mut new = Introductions::default();
        if fresh.contains(Fresh::CLASSES) {
            new.classes = introductions::classes();
        }
        if fresh.contains(Fresh::WORKLOADS) {
            new.workloads = introductions::workloads();
        }
        if fresh.contains(Fresh::USERS) {
            new.users = introductions::users();
        }
        if fresh.contains(Fresh::SAMPLES) {
            new.samples = introductions::samples();
        }
        if fresh.contains(Fresh::ATTAINED) {
            new.attained = introductions::attained();
        }
        new
    }
    #[cfg(not(target_arch = "wasm32"))]
    {
        let _ = fresh;
        Introductions::default()
    }
}

/// Writes a line to the run's log: for people, of no effect on anything.
pub fn warn(message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::sandtable::policy::log::write(crate::bindings::sandtable::policy::log::Level::Warn, message);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = message;
}

/// Makes a panic's message and place the fault's name.
pub fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|info| crate::bindings::sandtable::policy::log::panic(&info.to_string())));
}
