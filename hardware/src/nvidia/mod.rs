//! The GPUs of this machine, by NVML and CUDA. Both are looked for when they are needed, never linked: without them
//! everything here says so and nothing panics. Nothing here changes a device.

mod checkpoint;
mod cuda;
mod driver;
pub mod kernels;
mod nvml;
mod probe;

use std::path::Path;

pub use cuda::engine;
pub use nvml::Gpus;
pub use probe::{Ability, Probe, ProbedDevice, probe};

/// Why there is no GPU to be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoGpu {
    /// No library of the driver is there, or none that begins.
    #[error("no NVIDIA driver found: looked for {looked_for} ({why})")]
    Driver {
        /// What was looked for.
        looked_for: String,
        /// What came of it.
        why: String,
    },
    /// The driver has no device, or not this one.
    #[error("{0}")]
    Device(String),
    /// The driver is older than what is built on.
    #[error("the NVIDIA driver is too old: it knows CUDA {found}, {need} is needed (driver R570)")]
    TooOld {
        /// The version of CUDA that it knows.
        found: String,
        /// The oldest that will do.
        need: String,
    },
    /// CUDA refused.
    #[error("CUDA: {0}")]
    Cuda(String),
}

/// The library that tells of devices.
pub const NVML: &str = "libnvidia-ml.so.1";
/// The library that computes on them.
pub const CUDA: &str = "libcuda.so.1";

/// Opens the GPUs, all or those of these UUIDs; `library` in place of the usual NVML.
///
/// # Errors
/// No driver, no such device.
pub fn open(library: Option<&Path>, uuids: Option<&[&str]>) -> Result<Gpus, NoGpu> {
    Gpus::open(library, uuids)
}
