//! Built-in work on a GPU: kernels of a family, launched through cudarc once [`driver`] has looked for its library.

#![expect(unsafe_code, reason = "whether a launch is sound only its kernel says")]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;

use super::NoGpu;
use super::driver::{driver, refused};
use super::kernels::{self, Launch, Recipe};
use crate::live::wait;
use crate::work::WorkEngine;

/// Kernels of a family on the first device that this process sees.
struct Gpu {
    stream: Arc<CudaStream>,
    recipe: &'static Recipe,
    functions: Vec<CudaFunction>,
    buffers: Option<(CudaSlice<f32>, CudaSlice<f32>)>,
    out: CudaSlice<f32>,
    blocks: u32,
}

/// Built-in work of a family, in at most so many bytes of device memory beside its context.
///
/// # Errors
/// No driver, no device, one that is too old for the family, or a limit that its buffers break.
pub fn engine(family: &str, limit: Option<u64>) -> Result<Box<dyn WorkEngine>, NoGpu> {
    let recipe = kernels::recipe(family).ok_or_else(|| NoGpu::Device(format!("no family {family:?} for GPUs")))?;
    let bytes = u64::from(recipe.buffer_mib) << 21;
    if let Some(limit) = limit.filter(|limit| bytes > *limit) {
        let (bytes, limit) = (bytes >> 20, limit >> 20);
        return Err(NoGpu::Device(format!("{family} takes {bytes} MiB, and may take {limit}")));
    }
    driver()?;
    let context = CudaContext::new(0).map_err(refused)?;
    let (major, minor) = context.compute_capability().map_err(refused)?;
    let capability = (major * 10 + minor) as u32;
    let Some(ptx) = kernels::ptx_for(capability, recipe) else {
        let need = recipe.oldest;
        return Err(NoGpu::Device(format!("{family} needs compute capability {need}, the device has {capability}")));
    };
    let module = context.load_module(Ptx::from_src(ptx)).map_err(refused)?;
    let functions = recipe.launches.iter().map(|launch| module.load_function(launch.kernel));
    let functions = functions.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let stream = context.default_stream();
    let multiprocessors =
        context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(refused)?;
    let out = stream.alloc_zeros::<f32>(1).map_err(refused)?;
    let buffers = match recipe.buffer_mib {
        0 => None,
        mib => {
            let floats = (mib as usize) << 18;
            let one = || stream.alloc_zeros::<f32>(floats).map_err(refused);
            Some((one()?, one()?))
        }
    };
    Ok(Box::new(Gpu { stream, recipe, functions, buffers, out, blocks: multiprocessors as u32 }))
}

impl Gpu {
    fn launch(&mut self, index: usize, launch: &Launch) -> Result<(), DriverError> {
        let blocks = match launch.blocks {
            0 => self.blocks * launch.waves,
            some => some,
        };
        let shared_mem_bytes = launch.shared_bytes;
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (launch.threads, 1, 1), shared_mem_bytes };
        let mut builder = self.stream.launch_builder(&self.functions[index]);
        match (launch.kernel, &mut self.buffers) {
            ("k_copy", Some((from, to))) => {
                let pieces = (from.len() / 4) as u64;
                builder.arg(&*from).arg(to).arg(&pieces).arg(&launch.iterations);
                // SAFETY: the kernel's own parameters; it stays within `pieces` of 16 bytes in both buffers.
                unsafe { builder.launch(config) }?;
            }
            ("k_empty" | "k_spin", _) => {
                builder.arg(&launch.iterations);
                // SAFETY: the kernel's only parameter.
                unsafe { builder.launch(config) }?;
            }
            _ => {
                builder.arg(&mut self.out).arg(&launch.iterations);
                // SAFETY: the kernel's own parameters; it writes at most the first element.
                unsafe { builder.launch(config) }?;
            }
        }
        Ok(())
    }
}

impl WorkEngine for Gpu {
    fn step(&mut self) -> Result<(), String> {
        let recipe = self.recipe;
        for _ in 0..recipe.repeats {
            for (index, launch) in recipe.launches.iter().enumerate() {
                self.launch(index, launch).map_err(|error| error.to_string())?;
            }
        }
        self.stream.synchronize().map_err(|error| error.to_string())?;
        if !recipe.rest.is_zero() {
            wait(recipe.rest);
        }
        Ok(())
    }
}
