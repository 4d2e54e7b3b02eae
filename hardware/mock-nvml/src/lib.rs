//! A stand-in for `libnvidia-ml.so`, for tests. It reads the file beside itself with the ending `.script`: lines `KEY VALUE`,
//! where a value `!N` is the error N of that call. Keys are `driver`, `cuda`, `count`, and for device 0 and on `0.name` and so
//! on; a device answers what its script does not name with [`USUAL`]. A copy of the library is another instance, with another
//! script.

#![allow(non_snake_case, clippy::missing_safety_doc, reason = "NVML's names, and NVML's rules")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nvml_wrapper_sys::bindings::*;

const OK: nvmlReturn_t = 0;
const INVALID: nvmlReturn_t = 2;
const NOT_SUPPORTED: nvmlReturn_t = 3;
const TOO_SMALL: nvmlReturn_t = 7;

/// What a device answers by default: one H200.
pub const USUAL: &str = "\
name NVIDIA H200
uuid GPU-00000000-0000-0000-0000-00000000000#
gpu 73
memory 21
total 143771
reserved 600
used 1024
power 350000
energy 1000000
clock 1980
maxclock 1980
reasons 0
processes
computemode 0
persistence 0
powerlimit 700000
mig 0 0
appclock 1980
architecture 9
capability 9 0
cores 16896
bus 6144
pciemax 5
pcie 5
lanes 16
topology 30
gpm 1
streaming 0
sample 0
metrics 1
";

static SCRIPT: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let text = beside().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    text.lines().filter_map(pair).collect()
});

static TICK: AtomicU64 = AtomicU64::new(0);

fn pair(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let (key, value) = line.split_once(' ').unwrap_or((line, ""));
    (!key.is_empty()).then(|| (key.to_string(), value.to_string()))
}

/// The path of the script: this library's own, with another ending.
fn beside() -> Option<std::path::PathBuf> {
    // SAFETY: an address of this library, and a record that the loader fills in.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(nvmlShutdown as *const c_void, &raw mut info);
        (found != 0 && !info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned())
    };
    Some(std::path::Path::new(&name?).with_extension("script"))
}

/// The answer of a key, or the error that stands in its place.
fn of(key: &str, usual: &str) -> Result<String, nvmlReturn_t> {
    let value = SCRIPT.get(key).cloned().unwrap_or_else(|| usual.to_string());
    match value.strip_prefix('!').and_then(|number| number.parse().ok()) {
        Some(error) => Err(error),
        None => Ok(value),
    }
}

fn of_device(device: nvmlDevice_t, key: &str) -> Result<String, nvmlReturn_t> {
    let index = device as usize - 1;
    let usual =
        USUAL.lines().filter_map(pair).find(|(known, _)| known == key).map_or(String::new(), |(_, value)| value);
    of(&format!("{index}.{key}"), &usual.replace('#', &index.to_string()))
}

fn numbers(device: nvmlDevice_t, key: &str) -> Result<Vec<u64>, nvmlReturn_t> {
    Ok(of_device(device, key)?.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

fn number(device: nvmlDevice_t, key: &str) -> Result<u64, nvmlReturn_t> {
    numbers(device, key)?.first().copied().ok_or(NOT_SUPPORTED)
}

fn give<T>(found: Result<T, nvmlReturn_t>, take: impl FnOnce(T)) -> nvmlReturn_t {
    match found {
        Ok(value) => {
            take(value);
            OK
        }
        Err(error) => error,
    }
}

unsafe fn text(found: Result<String, nvmlReturn_t>, to: *mut c_char, length: c_uint) -> nvmlReturn_t {
    give(found, |found| {
        let bytes = found.as_bytes();
        let count = bytes.len().min(length as usize - 1);
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, count);
            *to.add(count) = 0;
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    of("init", "").err().unwrap_or(OK)
}
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, length: c_uint) -> nvmlReturn_t {
    unsafe { text(of("driver", "580.159.04"), to, length) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(to: *mut c_int) -> nvmlReturn_t {
    give(of("cuda", "13000"), |found| unsafe { *to = found.parse().unwrap_or(0) })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> nvmlReturn_t {
    give(of("count", "1"), |found| unsafe { *to = found.parse().unwrap_or(0) })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    give(of(&format!("{index}.handle"), ""), |_| unsafe { *to = (index as usize + 1) as _ })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    let wanted = unsafe { CStr::from_ptr(uuid) }.to_string_lossy().into_owned();
    let found = (1..=64usize).find(|index| of_device(*index as nvmlDevice_t, "uuid") == Ok(wanted.clone()));
    give(found.ok_or(INVALID), |index| unsafe { *to = index as _ })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: nvmlDevice_t, to: *mut c_char, length: c_uint) -> nvmlReturn_t {
    unsafe { text(of_device(device, "name"), to, length) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: nvmlDevice_t, to: *mut c_char, length: c_uint) -> nvmlReturn_t {
    unsafe { text(of_device(device, "uuid"), to, length) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: nvmlDevice_t,
    to: *mut nvmlUtilization_t,
) -> nvmlReturn_t {
    let both = number(device, "gpu").and_then(|gpu| Ok((gpu, number(device, "memory")?)));
    give(both, |(gpu, memory)| unsafe { *to = nvmlUtilization_t { gpu: gpu as c_uint, memory: memory as c_uint } })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, to: *mut nvmlMemory_v2_t) -> nvmlReturn_t {
    let all =
        number(device, "total").and_then(|total| Ok((total, number(device, "reserved")?, number(device, "used")?)));
    give(all, |(total, reserved, used)| unsafe {
        let mib = |mib: u64| mib << 20;
        ((*to).total, (*to).reserved, (*to).used) = (mib(total), mib(reserved), mib(used));
        (*to).free = mib(total.saturating_sub(reserved + used));
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    device: nvmlDevice_t,
    to: *mut c_ulonglong,
) -> nvmlReturn_t {
    let tick = TICK.fetch_add(1, Ordering::Relaxed);
    give(number(device, "energy"), |found| unsafe { *to = found + 700 * tick })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(
    device: nvmlDevice_t,
    _: nvmlClockType_t,
    to: *mut c_uint,
) -> nvmlReturn_t {
    give(number(device, "clock"), |found| unsafe { *to = found as c_uint })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(
    device: nvmlDevice_t,
    _: nvmlClockType_t,
    to: *mut c_uint,
) -> nvmlReturn_t {
    give(number(device, "maxclock"), |found| unsafe { *to = found as c_uint })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetApplicationsClock(
    device: nvmlDevice_t,
    _: nvmlClockType_t,
    to: *mut c_uint,
) -> nvmlReturn_t {
    give(number(device, "appclock"), |found| unsafe { *to = found as c_uint })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    now: *mut c_uint,
    then: *mut c_uint,
) -> nvmlReturn_t {
    let both = numbers(device, "mig").and_then(|both| <[u64; 2]>::try_from(both).map_err(|_| NOT_SUPPORTED));
    give(both, |[current, pending]| unsafe { (*now, *then) = (current as c_uint, pending as c_uint) })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: nvmlDevice_t,
    major: *mut c_int,
    minor: *mut c_int,
) -> nvmlReturn_t {
    let both = numbers(device, "capability").and_then(|both| <[u64; 2]>::try_from(both).map_err(|_| NOT_SUPPORTED));
    give(both, |[a, b]| unsafe { (*major, *minor) = (a as c_int, b as c_int) })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    a: nvmlDevice_t,
    _: nvmlDevice_t,
    to: *mut nvmlGpuTopologyLevel_t,
) -> nvmlReturn_t {
    give(number(a, "topology"), |found| unsafe { *to = found as nvmlGpuTopologyLevel_t })
}
/// Processes as `PID:MiB` with spaces between.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    to: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    let listed = of_device(device, "processes");
    let listed = match &listed {
        Ok(listed) => listed.split_whitespace().filter_map(|one| one.split_once(':')),
        Err(error) => return *error,
    };
    let listed: Vec<(u32, u64)> =
        listed.map(|(pid, mib)| (pid.parse().unwrap_or(0), mib.parse().unwrap_or(0))).collect();
    unsafe {
        let room = *count as usize;
        *count = listed.len() as c_uint;
        if room < listed.len() {
            return TOO_SMALL;
        }
        for (index, (pid, mib)) in listed.into_iter().enumerate() {
            let none = c_uint::MAX;
            *to.add(index) =
                nvmlProcessInfo_t { pid, usedGpuMemory: mib << 20, gpuInstanceId: none, computeInstanceId: none };
        }
    }
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmQueryDeviceSupport(device: nvmlDevice_t, to: *mut nvmlGpmSupport_t) -> nvmlReturn_t {
    give(number(device, "gpm"), |found| unsafe { (*to).isSupportedDevice = found as c_uint })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmQueryIfStreamingEnabled(device: nvmlDevice_t, to: *mut c_uint) -> nvmlReturn_t {
    give(number(device, "streaming"), |found| unsafe { *to = found as c_uint })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleAlloc(to: *mut nvmlGpmSample_t) -> nvmlReturn_t {
    unsafe { *to = Box::into_raw(Box::new(0usize)) as _ };
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleFree(sample: nvmlGpmSample_t) -> nvmlReturn_t {
    drop(unsafe { Box::from_raw(sample as *mut usize) });
    OK
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleGet(device: nvmlDevice_t, sample: nvmlGpmSample_t) -> nvmlReturn_t {
    give(of_device(device, "sample"), |_| unsafe { *(sample as *mut usize) = device as usize })
}
/// Metric N is worth N per cent, but for those that the script names: `0.metricN VALUE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmMetricsGet(request: *mut nvmlGpmMetricsGet_t) -> nvmlReturn_t {
    let request = unsafe { &mut *request };
    let device = unsafe { *(request.sample1 as *const usize) } as nvmlDevice_t;
    if let Err(error) = of_device(device, "metrics") {
        return error;
    }
    for metric in &mut request.metrics[..request.numMetrics as usize] {
        let index = device as usize - 1;
        match of(&format!("{index}.metric{}", metric.metricId), &metric.metricId.to_string()) {
            Ok(value) => (metric.nvmlReturn, metric.value) = (OK, value.parse().unwrap_or(f64::NAN)),
            Err(error) => metric.nvmlReturn = error,
        }
    }
    OK
}

macro_rules! scalars {
    ($($function:ident $type:ty, $key:literal;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: nvmlDevice_t, to: *mut $type) -> nvmlReturn_t {
            give(number(device, $key), |found| unsafe { *to = found as $type })
        }
    )*};
}

scalars! {
    nvmlDeviceGetPowerUsage c_uint, "power";
    nvmlDeviceGetCurrentClocksThrottleReasons c_ulonglong, "reasons";
    nvmlDeviceGetComputeMode nvmlComputeMode_t, "computemode";
    nvmlDeviceGetPersistenceMode nvmlEnableState_t, "persistence";
    nvmlDeviceGetPowerManagementLimit c_uint, "powerlimit";
    nvmlDeviceGetArchitecture nvmlDeviceArchitecture_t, "architecture";
    nvmlDeviceGetNumGpuCores c_uint, "cores";
    nvmlDeviceGetMemoryBusWidth c_uint, "bus";
    nvmlDeviceGetMaxPcieLinkGeneration c_uint, "pciemax";
    nvmlDeviceGetCurrPcieLinkGeneration c_uint, "pcie";
    nvmlDeviceGetCurrPcieLinkWidth c_uint, "lanes";
}
