//! The imports. In a component they reach the host; natively they reach the stand-in that a test or a benchmark
//! put into place, and without one nothing is known.

use crate::{GpuId, GpuTypeId, JobId};

/// What answers the imports natively.
pub trait Host {
    /// Seconds left of each job on the type beside it; NaN: no idea.
    fn remaining(&self, jobs: &[JobId], types: &[GpuTypeId]) -> Vec<f64>;
    /// Who is where, ascending by GPU.
    fn occupancy(&self) -> (Vec<GpuId>, Vec<JobId>) {
        (Vec::new(), Vec::new())
    }
}

#[cfg(not(target_arch = "wasm32"))]
std::thread_local! {
    static HOST: std::cell::RefCell<Option<Box<dyn Host>>> = const { std::cell::RefCell::new(None) };
}

/// Puts the native stand-in of this thread into place.
#[cfg(not(target_arch = "wasm32"))]
pub fn stand_in(host: Box<dyn Host>) {
    HOST.set(Some(host));
}

/// Seconds left of each job on the type beside it; NaN: no idea.
pub fn remaining(jobs: Vec<JobId>, types: Vec<GpuTypeId>) -> Vec<f64> {
    if jobs.is_empty() {
        return Vec::new();
    }
    #[cfg(target_arch = "wasm32")]
    {
        use crate::bindings::sandtable::policy::predictor::{Quantity, Shapes, estimate};
        estimate(Quantity::Remaining, &Shapes { job: jobs, gpu_type: types })
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| match host {
        Some(host) => host.remaining(&jobs, &types),
        None => vec![f64::NAN; jobs.len()],
    })
}

/// Who is where, ascending by GPU.
pub fn occupancy() -> (Vec<GpuId>, Vec<JobId>) {
    #[cfg(target_arch = "wasm32")]
    {
        crate::bindings::sandtable::policy::cluster::occupancy()
    }
    #[cfg(not(target_arch = "wasm32"))]
    HOST.with_borrow(|host| host.as_ref().map(|host| host.occupancy()).unwrap_or_default())
}

/// Makes a panic's message and place the fault's name.
pub fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|info| crate::bindings::sandtable::policy::log::panic(&info.to_string())));
}
