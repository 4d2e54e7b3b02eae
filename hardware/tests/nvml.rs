//! What NVML tells, through the real wrapper, by a library that is no driver: every field there, absent, or in error.
#![cfg(feature = "nvidia")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not tests to clippy")]

use std::path::{Path, PathBuf};

use mock_nvml as _;
use sandtable_hardware::nvidia::{NoGpu, open, probe};
use sandtable_hardware::{Instant, Reading, Telemetry, differences};

/// The library, as cargo built it for this test.
fn built() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let deps = here.parent().unwrap();
    let places = [deps.join("libmock_nvml.so"), deps.parent().unwrap().join("libmock_nvml.so")];
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no libmock_nvml.so in {}", deps.display()))
}

/// A copy with this script, from which these functions are gone: another instance for the loader.
fn library(folder: &Path, script: &str, gone: &[&str]) -> PathBuf {
    let path = folder.join("libnvidia-ml.so");
    let mut bytes = std::fs::read(built()).unwrap();
    for name in gone {
        // Under another name it is not found; the hash that it is found by stays.
        let wanted = format!("\0{name}\0").into_bytes();
        let at: Vec<usize> = (0..bytes.len() - wanted.len()).filter(|at| bytes[*at..].starts_with(&wanted)).collect();
        assert!(!at.is_empty(), "the mock has no {name}");
        at.into_iter().for_each(|at| bytes[at + 1] = b'x');
    }
    std::fs::write(&path, bytes).unwrap();
    std::fs::write(path.with_extension("script"), script).unwrap();
    path
}

/// The second reading: fine metrics take two.
fn reading(script: &str, gone: &[&str]) -> Reading {
    let folder = tempfile::tempdir().unwrap();
    let mut gpus = open(Some(&library(folder.path(), script, gone)), None).unwrap();
    gpus.read(0, Instant::START);
    gpus.read(0, Instant::from_micros(100_000))
}

#[test]
fn a_whole_device_tells_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = library(folder.path(), "0.processes 41:512 42:1024\n", &[]);
    let mut gpus = open(Some(&path), None).unwrap();
    let device = &gpus.devices()[0];
    assert_eq!((device.name.as_str(), device.kind.as_str()), ("NVIDIA H200", "H200-SXM-141GB"));
    assert_eq!((device.memory_mib, device.reserved_mib), (143_771, 600));
    assert_eq!(gpus.read(0, Instant::START).fine.len(), 0, "one sample has no metrics");
    let now = gpus.read(0, Instant::from_micros(7));
    assert_eq!(
        (now.at, now.device, now.busy, now.memory_busy),
        (Instant::from_micros(7), 0, Some(73_000), Some(21_000))
    );
    assert_eq!((now.memory_used, now.power_mw, now.sm_mhz), (Some(1024 << 20), Some(350_000), Some(1980)));
    assert_eq!((now.energy_mj, now.throttled), (Some(1_000_700), Some(false)));
    // Metric N is worth N per cent in the mock; PCIe is told in MiB.
    assert_eq!(now.fine["sm-active"], 2000);
    assert_eq!(now.fine["tensor"], 5000);
    assert_eq!(now.fine["dram"], 10_000);
    assert_eq!(now.fine["pcie-tx"], 20 << 20);
    assert_eq!(gpus.processes(0), Some(vec![(41, 512 << 20), (42, 1024 << 20)]));
    let uuid = "GPU-00000000-0000-0000-0000-000000000000".to_string();
    assert_eq!(gpus.environment(0), [("CUDA_VISIBLE_DEVICES".to_string(), uuid)]);
    let versions = gpus.versions();
    assert_eq!((versions["driver"].as_str(), versions["cuda"].as_str()), ("580.159.04", "13.0"));
}

/// What is left of a reading when a field is not told: a key of the script, the function behind it, and how to look.
type Field = (&'static str, &'static str, fn(&Reading) -> bool);

const FIELDS: &[Field] = &[
    ("gpu", "nvmlDeviceGetUtilizationRates", |now| now.busy.is_none() && now.memory_busy.is_none()),
    ("memory", "nvmlDeviceGetUtilizationRates", |now| now.busy.is_none() && now.memory_busy.is_none()),
    ("used", "nvmlDeviceGetMemoryInfo_v2", |now| now.memory_used.is_none()),
    ("power", "nvmlDeviceGetPowerUsage", |now| now.power_mw.is_none()),
    ("energy", "nvmlDeviceGetTotalEnergyConsumption", |now| now.energy_mj.is_none()),
    ("clock", "nvmlDeviceGetClockInfo", |now| now.sm_mhz.is_none()),
    ("reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", |now| now.throttled.is_none()),
    ("gpm", "nvmlGpmQueryDeviceSupport", |now| now.fine.is_empty()),
    ("sample", "nvmlGpmSampleGet", |now| now.fine.is_empty()),
    ("metrics", "nvmlGpmMetricsGet", |now| now.fine.is_empty()),
];

#[test]
fn a_field_in_error_is_none_and_the_others_stay() {
    for (key, _, is_none) in FIELDS {
        // Not supported, no permission, GPU lost, and an error that nobody knows.
        for error in [3, 4, 15, 999] {
            let now = reading(&format!("0.{key} !{error}\n"), &[]);
            assert!(is_none(&now), "{key} !{error}: {now:?}");
            let told = [now.busy.is_some(), now.power_mw.is_some(), now.energy_mj.is_some(), !now.fine.is_empty()];
            assert!(told.iter().filter(|told| **told).count() >= 3, "{key} !{error}: {now:?}");
        }
    }
}

#[test]
fn a_field_that_the_driver_lacks_is_none_and_the_others_stay() {
    for (key, function, is_none) in FIELDS {
        let now = reading("", &[function]);
        assert!(is_none(&now), "{key} without {function}: {now:?}");
    }
}

#[test]
fn a_fine_metric_may_be_missing_by_itself() {
    let now = reading("0.metric5 !3\n0.metric10 nan\n0.metric2 -1\n", &[]);
    assert_eq!(now.fine.get("tensor"), None);
    assert_eq!(now.fine.get("dram"), None);
    assert_eq!(now.fine.get("sm-active"), None);
    assert_eq!(now.fine.get("sm-occupancy"), Some(&3000));
}

#[test]
fn devices_before_hopper_have_no_fine_metrics() {
    let now = reading("0.name Tesla T4\n0.total 15360\n0.gpm 0\n", &[]);
    assert!(now.fine.is_empty() && now.busy.is_some());
}

#[test]
fn slowed_clocks_are_flagged_and_idle_ones_are_not() {
    // Software power cap, hardware slowdown, thermal slowdown; then idle and asked-for clocks.
    for (bits, slowed) in [(4, true), (8, true), (32, true), (1, false), (2, false), (0, false)] {
        assert_eq!(reading(&format!("0.reasons {bits}\n"), &[]).throttled, Some(slowed), "{bits}");
    }
}

#[test]
fn processes_may_be_untold() {
    let folder = tempfile::tempdir().unwrap();
    let mut gpus = open(Some(&library(folder.path(), "0.processes !3\n", &[])), None).unwrap();
    assert_eq!(gpus.processes(0), None);
    let folder = tempfile::tempdir().unwrap();
    let gone = ["nvmlDeviceGetComputeRunningProcesses_v3"];
    let mut gpus = open(Some(&library(folder.path(), "", &gone)), None).unwrap();
    assert_eq!(gpus.processes(0), None);
}

#[test]
fn a_machine_without_a_driver_says_what_was_looked_for() {
    let why = |script: &str| {
        let folder = tempfile::tempdir().unwrap();
        open(Some(&library(folder.path(), script, &[])), None).err().unwrap()
    };
    // Driver not loaded, no permission: the library is there and does not begin.
    for error in [9, 4, 999] {
        assert!(matches!(why(&format!("init !{error}\n")), NoGpu::Driver { .. }), "{error}");
    }
    assert_eq!(why("count 0\n"), NoGpu::Device("the NVIDIA driver is there, and no device".into()));
    assert!(matches!(why("count !999\n"), NoGpu::Device(_)));
    assert!(matches!(why("0.handle !15\n"), NoGpu::Device(_)));
    let missing = open(Some(Path::new("/no/such/libnvidia-ml.so")), None).err().unwrap().to_string();
    assert!(missing.starts_with("no NVIDIA driver found: looked for /no/such/libnvidia-ml.so ("), "{missing}");
}

#[test]
fn devices_are_chosen_by_uuid() {
    let script = "count 3\n1.uuid GPU-b\n2.uuid GPU-c\n";
    let folder = tempfile::tempdir().unwrap();
    let path = library(folder.path(), script, &[]);
    let gpus = open(Some(&path), Some(&["GPU-c", "GPU-b"])).unwrap();
    let uuids: Vec<&str> = gpus.devices().iter().map(|device| device.uuid.as_str()).collect();
    assert_eq!(uuids, ["GPU-b", "GPU-c"]);
    let why = open(Some(&path), Some(&["GPU-d"])).err().unwrap().to_string();
    assert_eq!(why, "no device GPU-d: this machine has GPU-00000000-0000-0000-0000-000000000000, GPU-b, GPU-c");
}

#[test]
fn settings_that_change_are_noticed() {
    let of = |script: &str| {
        let folder = tempfile::tempdir().unwrap();
        open(Some(&library(folder.path(), script, &[])), None).unwrap().settings()
    };
    let before = of("");
    assert_eq!(before.len(), 6, "{before:?}");
    let changes = ["computemode 3", "persistence 1", "powerlimit 500000", "mig 0 1", "streaming 1", "appclock 1200"];
    for change in changes {
        let found = differences(&before, &of(&format!("0.{change}\n")));
        assert_eq!(found.len(), 1, "{change}: {found:?}");
    }
    // What is not told is not compared with what is.
    assert_eq!(of("0.mig !3\n").len(), 5);
}

#[test]
fn a_probe_tells_what_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let script = "count 2\n1.uuid GPU-b\n1.architecture !3\n1.capability !3\n1.topology !3\n0.topology 50\n";
    let found = probe(Some(&library(folder.path(), script, &[])), folder.path()).unwrap();
    let [first, second] = &found.devices[..] else { panic!("{found:?}") };
    assert_eq!(first.facts["architecture"], "Hopper");
    assert_eq!(first.facts["compute capability"], "9.0");
    assert_eq!(first.facts["PCIe at most"], "generation 5");
    assert!(!second.facts.contains_key("architecture") && second.facts.contains_key("CUDA cores"));
    assert_eq!(found.links.len(), 1);
    assert!(!found.mps.works && found.levels["pause"].works && found.levels["save"].works);
    std::fs::write(folder.path().join("control"), "").unwrap();
    let folder_2 = tempfile::tempdir().unwrap();
    let found = probe(Some(&library(folder_2.path(), "", &[])), folder.path()).unwrap();
    assert!(found.mps.works);
    assert!(serde_json::to_string(&found).unwrap().contains("\"busy\":73000"));
}

#[test]
fn names_that_the_catalogue_lacks_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let gpus = open(Some(&library(folder.path(), "0.name NVIDIA X 9000\n", &[])), None).unwrap();
    assert_eq!(gpus.devices()[0].kind, "X-9000");
    let folder = tempfile::tempdir().unwrap();
    let gpus = open(Some(&library(folder.path(), "0.name !3\n0.uuid !3\n0.total !3\n", &[])), None).unwrap();
    let device = &gpus.devices()[0];
    assert_eq!((device.name.as_str(), device.uuid.as_str(), device.memory_mib), ("device 0", "0", 0));
}

/// NVML is only read (clippy sees to that), and nobody calls the tool that could write.
#[test]
fn no_source_runs_the_drivers_own_tool() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<PathBuf> = ["hardware/src", "runtime/src", "experiments"].map(|part| root.join(part)).into();
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        #[expect(clippy::disallowed_methods, reason = "the order of the files does not matter")]
        let entries = std::fs::read_dir(&folder).unwrap();
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let tool = ["\"nvidia", "smi"].join("-");
                assert!(!text.contains(&tool), "{}", path.display());
            }
        }
    }
    assert!(files > 50, "{files}");
}
