//! The driver of CUDA: cudarc panics where its library is missing, so everything looks here first.

#![expect(unsafe_code, reason = "the driver is a library of C")]

use cudarc::driver::{DriverError, sys};

use super::{CUDA, NoGpu};

/// The oldest CUDA that the driver must know: `cuEventElapsedTime_v2` and the useful form of checkpoints came with it.
const OLDEST: i32 = 12_080;

/// The version of CUDA that the driver knows.
///
/// # Errors
/// No driver, or one that is too old.
pub(super) fn driver() -> Result<String, NoGpu> {
    let lacking = |why: &str| NoGpu::Driver { looked_for: CUDA.into(), why: why.into() };
    // SAFETY: only opens the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(lacking("there is no such library"));
    }
    let mut version = 0;
    // SAFETY: may be called before `cuInit`, and writes an integer.
    let outcome = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    if outcome != sys::CUresult::CUDA_SUCCESS {
        return Err(lacking(&format!("{outcome:?}")));
    }
    if version < OLDEST {
        return Err(NoGpu::TooOld { found: cuda_version(version), need: cuda_version(OLDEST) });
    }
    // Nothing but asking for the version works before that; it makes no context.
    cudarc::driver::result::init().map_err(refused)?;
    Ok(cuda_version(version))
}

/// An error of the driver.
pub(super) fn refused(error: DriverError) -> NoGpu {
    NoGpu::Cuda(error.to_string())
}

/// 13000 is 13.0.
pub(super) fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}
