//! A process' device memory to the host and back, by the driver's checkpoint functions. cudarc has their arguments and not
//! the functions, so they are looked up by name: a driver that lacks one says so.

#![expect(unsafe_code, reason = "cudarc has no safe form of these functions")]

use std::ffi::c_int;

use cudarc::driver::sys::{self, CUresult};

use super::NoGpu;

/// A process that holds its locks for longer is not suspended.
const PATIENCE_MS: u32 = 10_000;

/// What is looked up.
const NAMES: [&str; 4] = [
    "cuCheckpointProcessLock",
    "cuCheckpointProcessCheckpoint",
    "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock",
];

type Call<A> = unsafe extern "C" fn(c_int, *mut A) -> CUresult;

/// Whether the driver has all of the functions; that they work is another matter.
pub(super) fn known() -> Result<bool, NoGpu> {
    super::driver::driver()?;
    // SAFETY: the library is there, and a symbol that is only looked up is not called.
    let has = |name: &&str| unsafe { sys::culib().get::<Call<u8>>(name.as_bytes()).is_ok() };
    Ok(NAMES.iter().all(has))
}

fn call<A>(name: &str, process: u32, arguments: *mut A) -> Result<(), NoGpu> {
    super::driver::driver()?;
    // SAFETY: the driver's own declarations of these functions: a process and a pointer to their arguments, or none.
    let outcome = unsafe {
        let function = sys::culib().get::<Call<A>>(name.as_bytes());
        let function = function.map_err(|_| NoGpu::Cuda(format!("this driver has no {name}")))?;
        function(process as c_int, arguments)
    };
    match outcome {
        CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(NoGpu::Cuda(format!("{name} of process {process}: {error:?}"))),
    }
}

/// Moves a process' device memory to the host; it then stands still until [`restore`].
///
/// # Errors
/// What the driver says. The process is as it was, or is to be ended.
pub(super) fn suspend(process: u32) -> Result<(), NoGpu> {
    let mut lock = sys::CUcheckpointLockArgs { timeoutMs: PATIENCE_MS, reserved0: 0, reserved1: [0; 7] };
    call(NAMES[0], process, &raw mut lock)?;
    let moved = call::<u8>(NAMES[1], process, std::ptr::null_mut());
    if moved.is_err() {
        // What could not be moved goes on where it is.
        call::<u8>(NAMES[3], process, std::ptr::null_mut())?;
    }
    moved
}

/// Moves it back and lets the process go on.
///
/// # Errors
/// What the driver says.
pub(super) fn restore(process: u32) -> Result<(), NoGpu> {
    call::<u8>(NAMES[2], process, std::ptr::null_mut())?;
    call::<u8>(NAMES[3], process, std::ptr::null_mut())
}
