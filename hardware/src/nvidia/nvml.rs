//! What NVML tells, reading alone: no method that sets anything is ever called (clippy refuses all of them). What a device
//! or a driver does not tell is none.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device as Handle, Nvml};

use super::driver::cuda_version;
use super::{CUDA, NVML, NoGpu, checkpoint};
use crate::{Device, Instant, MoveMemory, Reading, Settings, Telemetry, catalogue};

/// Fine metrics that are read, and what they are called. Percentages but for the last two: those are MiB a second (`nvml.h`;
/// the wrapper's own text says bytes).
const FINE: [(GpmMetricId, &str, bool); 8] = [
    (GpmMetricId::SmUtil, "sm-active", true),
    (GpmMetricId::SmOccupancy, "sm-occupancy", true),
    (GpmMetricId::AnyTensorUtil, "tensor", true),
    (GpmMetricId::Fp32Util, "fp32", true),
    (GpmMetricId::Fp16Util, "fp16", true),
    (GpmMetricId::DramBwUtil, "dram", true),
    (GpmMetricId::PcieTxPerSec, "pcie-tx", false),
    (GpmMetricId::PcieRxPerSec, "pcie-rx", false),
];

/// Devices that NVML knows.
pub struct Gpus {
    pub(super) nvml: &'static Nvml,
    devices: Vec<Device>,
    pub(super) handles: Vec<Handle<'static>>,
    /// The latest sample of fine metrics, where a device has them.
    samples: Vec<Option<GpmSample<'static>>>,
    /// Whether it has.
    fine: Vec<bool>,
    checks_processes: bool,
}

impl Gpus {
    pub(super) fn open(library: Option<&Path>, uuids: Option<&[&str]>) -> Result<Gpus, NoGpu> {
        let lacking = |error: &NvmlError| {
            let looked_for = match library {
                Some(path) => path.display().to_string(),
                None => format!("{NVML}, {CUDA}"),
            };
            let why = match error {
                NvmlError::LibloadingError(error) => error.to_string(),
                other => other.to_string(),
            };
            NoGpu::Driver { looked_for, why }
        };
        let mut builder = Nvml::builder();
        if let Some(path) = library {
            builder.lib_path(path.as_os_str());
        }
        // The usual one once a process, and as long as it: samples and devices borrow it.
        static USUAL: OnceLock<&'static Nvml> = OnceLock::new();
        let nvml = match (library, USUAL.get()) {
            (None, Some(known)) => *known,
            _ => {
                let made: &'static Nvml = Box::leak(Box::new(builder.init().map_err(|error| lacking(&error))?));
                if library.is_none() { USUAL.get_or_init(|| made) } else { made }
            }
        };
        let count = nvml.device_count().map_err(|error| NoGpu::Device(format!("NVML counts no devices: {error}")))?;
        let checks_processes = library.is_none();
        let (devices, handles, samples, fine) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut gpus = Gpus { nvml, devices, handles, samples, fine, checks_processes };
        let mut seen = Vec::new();
        for index in 0..count {
            let handle = nvml.device_by_index(index);
            let handle = handle.map_err(|error| NoGpu::Device(format!("device {index} can't be opened: {error}")))?;
            let device = describe(&handle, index);
            seen.push(device.uuid.clone());
            if uuids.is_none_or(|wanted| wanted.contains(&device.uuid.as_str())) {
                gpus.fine.push(handle.gpm_support().unwrap_or(false));
                gpus.samples.push(None);
                gpus.devices.push(device);
                gpus.handles.push(handle);
            }
        }
        if let Some(missing) = uuids.unwrap_or(&[]).iter().find(|wanted| !seen.iter().any(|uuid| uuid == *wanted)) {
            let seen = seen.join(", ");
            return Err(NoGpu::Device(format!("no device {missing}: this machine has {seen}")));
        }
        if gpus.devices.is_empty() {
            return Err(NoGpu::Device("the NVIDIA driver is there, and no device".into()));
        }
        Ok(gpus)
    }

    /// Whether a process is of this name space; of a library that is no driver's all are.
    fn known(&self, process: u32) -> bool {
        !self.checks_processes || Path::new("/proc").join(process.to_string()).exists()
    }

    /// Metrics between the last sample and this one.
    fn fine_metrics(&mut self, device: usize) -> BTreeMap<String, u64> {
        let mut metrics = BTreeMap::new();
        if !self.fine[device] {
            return metrics;
        }
        let Ok(sample) = self.handles[device].gpm_sample() else { return metrics };
        if let Some(before) = &self.samples[device] {
            let ids = FINE.map(|(id, ..)| id);
            let found = gpm_metrics_get(self.nvml, before, &sample, &ids).unwrap_or_default();
            for ((_, name, percent), metric) in FINE.iter().zip(found) {
                // Each may be missing by itself.
                if let Ok(metric) = metric
                    && metric.value.is_finite()
                    && metric.value >= 0.0
                {
                    let scale = if *percent { 1000.0 } else { 1_048_576.0 };
                    metrics.insert((*name).to_string(), (metric.value * scale) as u64);
                }
            }
        }
        self.samples[device] = Some(sample);
        metrics
    }
}

/// The name by which the catalogue knows what a driver calls so.
pub(super) fn kind(name: &str, memory_mib: u32) -> String {
    let known = catalogue::by_driver(name, memory_mib).map(|model| model.name.clone());
    known.unwrap_or_else(|| name.strip_prefix("NVIDIA ").unwrap_or(name).replace(' ', "-"))
}

fn describe(handle: &Handle<'_>, index: u32) -> Device {
    let memory = handle.memory_info().ok();
    let mib = |bytes: u64| (bytes >> 20).min(u64::from(u32::MAX)) as u32;
    let memory_mib = memory.as_ref().map_or(0, |memory| mib(memory.total));
    let name = handle.name().unwrap_or_else(|_| format!("device {index}"));
    Device {
        uuid: handle.uuid().unwrap_or_else(|_| index.to_string()),
        kind: kind(&name, memory_mib),
        name,
        memory_mib,
        reserved_mib: memory.map_or(0, |memory| mib(memory.reserved)),
    }
}

impl Telemetry for Gpus {
    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, device: usize, at: Instant) -> Reading {
        let fine = self.fine_metrics(device);
        let handle = &self.handles[device];
        let rates = handle.utilization_rates().ok();
        let percent = |value: u32| value.min(100) * 1000;
        let slowed =
            ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::SW_THERMAL_SLOWDOWN;
        Reading {
            at,
            device,
            busy: rates.as_ref().map(|rates| percent(rates.gpu)),
            memory_busy: rates.as_ref().map(|rates| percent(rates.memory)),
            memory_used: handle.memory_info().ok().map(|memory| memory.used),
            power_mw: handle.power_usage().ok(),
            energy_mj: handle.total_energy_consumption().ok(),
            sm_mhz: handle.clock_info(Clock::SM).ok(),
            throttled: handle.current_throttle_reasons().ok().map(|reasons| reasons.intersects(slowed)),
            fine,
        }
    }

    fn processes(&mut self, device: usize) -> Option<Vec<(u32, u64)>> {
        let processes = self.handles[device].running_compute_processes().ok()?;
        // In a container the numbers may be those of the host: then they mean no process here.
        let of = |process: &ProcessInfo| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) if self.known(process.pid) => Some((process.pid, bytes)),
            _ => None,
        };
        processes.iter().map(of).collect()
    }

    fn settings(&mut self) -> Settings {
        let mut settings = Settings::new();
        for (device, handle) in self.devices.iter().zip(&self.handles) {
            let mut add = |name: &str, value: Option<String>| {
                if let Some(value) = value {
                    settings.insert(format!("{} {name}", device.uuid), value);
                }
            };
            add("compute mode", handle.compute_mode().ok().map(|mode| format!("{mode:?}")));
            #[cfg(target_os = "linux")]
            add("persistence", handle.is_in_persistent_mode().ok().map(|on| on.to_string()));
            add("power limit", handle.power_management_limit().ok().map(|milliwatts| format!("{milliwatts} mW")));
            add("mig", handle.mig_mode().ok().map(|mode| format!("{}, then {}", mode.current, mode.pending)));
            add("fine metrics stream", handle.gpm_streaming_enabled().ok().map(|on| on.to_string()));
            let asked = handle.applications_clock(Clock::SM).ok().map(|megahertz| format!("{megahertz} MHz"));
            add("clock asked for", asked);
        }
        settings
    }

    fn versions(&mut self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        let mut add = |name: &str, value: Option<String>| {
            versions.extend(value.map(|value| (name.to_string(), value)));
        };
        add("driver", self.nvml.sys_driver_version().ok());
        add("cuda", self.nvml.sys_cuda_driver_version().ok().map(cuda_version));
        for (device, handle) in self.devices.iter().zip(&self.handles) {
            let clock = |clock| handle.max_clock_info(clock).ok().map(|megahertz| format!("{megahertz} MHz"));
            add(&format!("{} clock at most", device.uuid), clock(Clock::SM));
            add(&format!("{} memory clock at most", device.uuid), clock(Clock::Memory));
        }
        versions
    }

    fn environment(&self, device: usize) -> Vec<(String, String)> {
        // NVML's order is not CUDA's: only the UUID names a device.
        vec![("CUDA_VISIBLE_DEVICES".into(), self.devices[device].uuid.clone())]
    }

    fn mover(&self) -> Option<MoveMemory> {
        Some(|process, away| {
            let moved = if away { checkpoint::suspend(process) } else { checkpoint::restore(process) };
            moved.map_err(|error| error.to_string())
        })
    }
}
