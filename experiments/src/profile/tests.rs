//! The shipped profiles are what their makers make of their sources.

use std::path::{Path, PathBuf};

use sandtable_needs::needs;
use sandtable_policy::testing::data;

use super::pollux_fit::pollux_fit;
use super::{fitted, gavel, lucid, pollux, pollux_fitted, read, synthetic, torchvision, write};
use crate::facts::fill;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("specs/profiles").join(name)
}

#[test]
fn the_synthetic_catalogue_is_the_one_that_ships() {
    let text = std::fs::read_to_string(shipped("synthetic.ron")).expect("a shipped profile");
    assert_eq!(text, write(&synthetic()).expect("RON"), "`just profiles` writes it");
    synthetic().check().expect("it makes sense");
}

#[needs("data:gavel")]
#[test]
fn the_fitted_table_is_what_the_import_makes_of_gavels() {
    let path = data("gavel/oracle_throughputs.json");
    let fitted = gavel(&path).expect("Gavel's table").without_pairs();
    assert_eq!(read(&shipped("gavel-fit.ron")).expect("a shipped profile"), fitted);
}

#[needs("data:pollux")]
#[test]
fn the_shipped_fit_is_what_pollux_own_makes_of_its_measurements() {
    let fitted = pollux_fitted(&pollux(&data("pollux")).expect("Pollux' tables"), pollux_fit).expect("a fit");
    assert_eq!(read(&shipped("pollux-fit.ron")).expect("a shipped profile"), fitted);
}

#[needs("data:torchvision-gpu-bench")]
#[test]
fn the_vision_models_are_what_is_fitted_to_their_steps() {
    let steps = data("torchvision-gpu-bench/step_ms.csv");
    for precision in ["float", "half"] {
        let about =
            format!("32 vision models on four GPUs at {precision} precision: what is fitted to their step times");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let measured = fill(torchvision(&steps, precision).expect("the table"), here).expect("the models' facts");
        let shipped = read(&shipped(&format!("vision-{precision}.ron"))).expect("a shipped profile");
        assert_eq!(shipped, fitted(&measured, &about), "{precision}");
    }
}

#[test]
fn the_fit_is_near_the_published_one() {
    // S and A as a program apart from this one fitted them to the same pairs, by other means: V100, three workloads.
    let profile = read(&shipped("gavel-fit.ron")).expect("a shipped profile");
    let v100 = profile.gpus.iter().find(|gpu| gpu.kind == "V100-SXM2-16GB").expect("a V100");
    for (name, s, a) in [
        ("ResNet-50 (batch size 64)", 0.636, 1.453),
        ("Recommendation (batch size 1024)", 1.181, 0.191),
        ("LM (batch size 80)", 0.849, 0.851),
    ] {
        let solo = &v100.solo[name];
        let near = |found: Option<f64>, expected: f64| found.is_some_and(|x| (x / expected - 1.0).abs() < 0.1);
        assert!(near(solo.sensitivity, s) && near(solo.aggressiveness, a), "{name}: {solo:?}");
    }
}

#[test]
fn profiles_survive_being_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("profile.ron");
    std::fs::write(&path, write(&synthetic()).expect("RON")).expect("a file");
    assert_eq!(read(&path).expect("a profile"), synthetic());
}

#[needs("data:lucid")]
#[test]
fn lucids_imputed_speeds_are_left_out() {
    let folder = data("lucid");
    let profile = lucid(&folder).expect("Lucid's tables");
    let measured = profile.gpus[0].pairs.iter().flat_map(|pair| [pair.2, pair.3]).flatten().count();
    assert_eq!((profile.workloads.len(), profile.gpus[0].pairs.len(), measured), (66, 1388, 2458));
}

#[test]
fn a_broken_profile_says_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.ron");
    for (text, expected) in [
        ("(about: \"\", workload: [], gpus: [])", "p.ron:1:"),
        (
            "(about: \"\", workloads: [(name: \"a\", family: \"a\")], gpus: [(kind: \"g\", sources: {}, solo: {\"b\": ()})])",
            "g: no workload \"b\"",
        ),
        (
            "(about: \"\", workloads: [(name: \"a\", family: \"a\")], gpus: [(kind: \"g\", sources: {}, solo: {\"a\": (utilisation: 2.0)})])",
            "utilisation must be from 0 to 1, found 2",
        ),
    ] {
        std::fs::write(&path, text).expect("a file");
        let message = read(&path).expect_err("broken").to_string();
        assert!(message.contains(expected), "{message}");
    }
}
