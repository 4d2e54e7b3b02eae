//! The `hardware` command without a GPU.

use crate::help::{dist, sandtable};

#[test]
fn a_machine_without_a_driver_says_so_and_ends_with_its_own_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = "/no/such/libnvidia-ml.so.1";
    for command in
        [vec!["hardware", "probe", "--nvml", missing], vec!["hardware", "watch", "--nvml", missing, "--times", "1"]]
    {
        let ran = sandtable(folder.path(), &command);
        assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{command:?}: {}", ran.stderr);
        let expected = if cfg!(feature = "nvidia") {
            "no NVIDIA driver found: looked for /no/such"
        } else {
            "without the feature"
        };
        assert!(ran.stderr.contains(expected), "{command:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn the_catalogue_and_a_stand_in_are_shown_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = sandtable(folder.path(), &["hardware", "list"]);
    insta::assert_snapshot!(table.stdout);
    let json = sandtable(folder.path(), &["hardware", "list", "h200", "--format", "json"]);
    let of: serde_json::Value = serde_json::from_str(json.stdout.trim()).expect("one object");
    assert_eq!(of["figures"]["memory_mib"]["value"], 143_771.0);
    assert_eq!(of["figures"]["pcie"]["verified"], false);
    let unknown = sandtable(folder.path(), &["hardware", "list", "H20O"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    for (format, begins) in [("table", "device"), ("json", "{\"processes\":"), ("csv", "at_s,device,")] {
        let args = ["hardware", "watch", "--stand-in", "1", "--times", "1", "--every", "20ms", "--format", format];
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.starts_with(begins), "{}", ran.stdout);
    }
}

/// The harness on a core: every cell is measured, and the profile serves a model at once.
#[test]
fn a_measured_profile_serves_a_model_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = [
        "hardware",
        "profile",
        "--stand-in",
        "--families",
        "cpu-tenth,cpu-half",
        "--measure",
        "250ms",
        "--settle",
        "20ms",
        "-o",
        "mine.ron",
    ];
    let ran = sandtable(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("speed of, beside"), "{}", ran.stdout);
    let read = sandtable::profile::read(&folder.path().join("mine.ron")).expect("a profile");
    let measured = read.gpus[0].measured.as_ref().expect("a measurement");
    // Two alone, three pairs twice.
    assert_eq!(measured.cells.len(), 8);
    assert!(read.gpus[0].solo.values().all(|solo| solo.step_s.is_some_and(|step| step > 0.0)));
    assert_eq!(read.gpus[0].pairs.len(), 3);
    let text = "Experiment(title: \"model\", fleet: Model(nodes: 1, gpus: 4, kind: \"stand-in\", speed: 1.0, slots: 4), \
        profile: File(\"mine.ron\"), workload: Generate(jobs: 10, arrivals: AtOnce, durations: Fixed(\"10s\"), gpus: {1: 1}), \
        policies: [Policy(name: \"fifo\")])";
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--store", "store"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // The profile that the spec names is not there, and is not needed.
    let text = "Experiment(title: \"real\", fleet: Nvidia(devices: StandIn(1), slots: 4), profile: File(\"absent.ron\"), \
        workload: Jobs([Job(name: \"a\", submit: \"0s\", gpus: 1, duration: \"200ms\", workload: \"cpu-tenth\")]), \
        policies: [Policy(name: \"fifo\")])";
    std::fs::write(folder.path().join("real.ron"), text).expect("written");
    let args = ["hardware", "fidelity", "real.ron", "--stand-in", "--profile", "mine.ron", "--policies", &dist()];
    let ran = sandtable(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("fifo"), "{}", ran.stdout);
    let unknown = sandtable(folder.path(), &["hardware", "profile", "--stand-in", "--families", "mma", "-o", "x.ron"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("no family \"mma\" for this device"), "{}", unknown.stderr);
}
