//! The shipped profiles are what their makers make of their sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandtable_hardware::regime::Growth;
use sandtable_hardware::{Stages, catalogue};
use sandtable_needs::needs;
use sandtable_policy::testing::data;

use super::pollux_fit::pollux_fit;
use super::{
    elasticflow, fitted, gavel, lucid, muri, parse, pollux, pollux_fitted, pollux_types, read, shockwave, synthetic,
    torchvision, write,
};
use crate::facts::fill;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs/profiles").join(name)
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

#[test]
fn the_shipped_types_are_made_of_the_shipped_fit() {
    let made = pollux_types(&read(&shipped("pollux-fit.ron")).expect("a shipped profile")).expect("three types");
    assert_eq!(read(&shipped("pollux-types.ron")).expect("a shipped profile"), made);
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

/// Geometric means over what was trained on one GPU, in units of the V100: Gavel's 26 configurations in FP32, and the nine
/// models of Lambda's benchmark in mixed precision.
#[needs("data:gavel", "data:lambda-bench")]
#[test]
fn speeds_of_the_catalogue_are_near_measured_ones() {
    let mut measured: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let rows = |file: &str| {
        let reader = csv::Reader::from_path(data(file)).expect("a table");
        let rows = reader.into_deserialize::<BTreeMap<String, String>>();
        rows.collect::<Result<Vec<_>, _>>().expect("rows")
    };
    let number = |row: &BTreeMap<String, String>, column: &str| row[column].parse::<f64>().unwrap_or(0.0);
    let gavel = rows("gavel/isolated_oracle.csv");
    for (kind, name) in [("k80", "K80"), ("p100", "P100-PCIE-16GB")] {
        for row in gavel.iter().filter(|row| row["gpu"] == kind) {
            let same = |other: &&BTreeMap<String, String>| {
                other["gpu"] == "v100" && other["model"] == row["model"] && other["batch"] == row["batch"]
            };
            let v100 = gavel.iter().find(same).expect("the same on a V100");
            measured.entry(name).or_default().push(number(row, "steps_per_sec") / number(v100, "steps_per_sec"));
        }
    }
    let lambda = rows("lambda-bench/pytorch-train-throughput-fp16.csv");
    let of = |name: &str| lambda.iter().find(|row| row["name_gpu"] == name).expect("a row");
    let v100 = of("LambdaCloud V100 16GB");
    let known = [
        ("RTX 3090", "RTX-3090"),
        ("LambdaCloud A10", "A10"),
        ("A100 80GB PCIe", "A100-PCIE-80GB"),
        ("A100 80GB SXM4", "A100-SXM4-80GB"),
        ("RTX 4090", "RTX-4090"),
        ("H100 80GB PCIe Gen5", "H100-PCIE-80GB"),
        ("H100 80GB SXM5", "H100-SXM5-80GB"),
    ];
    let models = v100.keys().filter(|name| !["name_gpu", "num_gpu", "watt", "price", "ncf"].contains(&name.as_str()));
    for (model, (row, name)) in models.flat_map(|model| known.map(|one| (model, one))) {
        measured.entry(name).or_default().push(number(of(row), model) / number(v100, model));
    }
    assert_eq!(measured.len(), 9);
    for (name, ratios) in measured {
        let logs = ratios.iter().filter(|ratio| **ratio > 0.0).map(|ratio| libm::log(*ratio));
        let mean = libm::exp(logs.clone().sum::<f64>() / logs.count() as f64);
        let off = catalogue::find(name).expect("a model").relative_speed() / mean;
        assert!((1.0 / 1.5..1.5).contains(&off), "{name}: {off} of {mean}, which was measured");
    }
}

#[test]
fn shockwave_has_each_model_in_each_of_its_modes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rates.csv");
    std::fs::write(&path, "model,batch,gpus,steps_per_s\nLM,10,1,4\nLM,20,1,0\nTransformer,16,1,9\n").expect("a file");
    let profile = shockwave(&path).expect("a profile");
    let names: Vec<&str> = profile.workloads.iter().map(|workload| workload.name.as_str()).collect();
    let modes = ["static", "accordion", "gns"];
    let expected: Vec<String> =
        ["LM", "Transformer"].iter().flat_map(|model| modes.map(|mode| format!("{model} {mode}"))).collect();
    assert_eq!(names, expected);
    let regime =
        |name: &str| profile.workloads[profile.id(name).expect("a workload")].regime.clone().expect("a regime");
    assert_eq!((regime("LM gns").rate(1, 10), regime("LM gns").rate(1, 20)), (Some(4.0), None));
    // A Transformer never changes its batch under Accordion.
    assert_eq!(regime("Transformer accordion").growth, Growth::Fixed);
    assert!(matches!(regime("LM accordion").growth, Growth::Accordion { .. }));
    // What it says survives our own format.
    assert_eq!(parse(&write(&profile).expect("RON"), "p.ron".into()).expect("a profile"), profile);
    std::fs::write(&path, "model,batch,gpus,steps_per_s\nGPT,10,1,4\n").expect("a file");
    assert!(shockwave(&path).expect_err("unknown").to_string().contains("column `model`: expected one of ResNet-18"));
}

#[test]
fn elasticflow_has_a_workload_for_each_batch_of_a_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rates.csv");
    let text = "model,batch,gpus,iterations_per_s\nbert,2,1,4\nbert,2,2,6\nbert,2,4,9\nvgg16,64,1,3\nvgg16,64,2,0\n";
    std::fs::write(&path, text).expect("a file");
    let profile = elasticflow(&path).expect("a profile");
    let of = |name: &str| profile.workloads[profile.id(name).expect("a workload")].elastic.clone().expect("elastic");
    // No more GPUs than samples; a rate of 0 says that it does not run so.
    assert_eq!((of("bert 2").most_gpus(), of("vgg16 64").most_gpus()), (2, 1));
    assert_eq!(parse(&write(&profile).expect("RON"), "p.ron".into()).expect("a profile"), profile);
    for (from, to, says) in [
        ("bert,2,1,4\n", "", "\"bert\" with a batch of 2 has no rate on 1 GPU"),
        ("bert,2,1,4", "bert,2,1,0", "\"bert\" with a batch of 2 does not run on 1 GPUs, but on more"),
    ] {
        std::fs::write(&path, text.replace(from, to)).expect("a file");
        let wrong = elasticflow(&path).expect_err("it makes no sense").to_string();
        assert!(wrong.contains(says), "{wrong}");
    }
}

#[test]
fn muri_has_the_stages_of_each_gang_of_a_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    let text = "model_name,num_gpu,iteration_time,resource_time_0,resource_time_1,resource_time_2\n\
                vgg16,1,107,117,68,0\nvgg16,8,214,82,75,66\nvgg16,1,107,117,68,0\na3c,2,10,1,9,0\n";
    std::fs::write(&path, text).expect("a file");
    let profile = muri(&path).expect("a profile");
    let of = |name: &str, gpus| {
        profile.workloads[profile.id(name).expect("a workload")].stages(gpus).expect("stages").clone()
    };
    assert_eq!(of("vgg16", 8), Stages { step_s: 0.214, uses_s: vec![0.082, 0.075, 0.066], start_s: 9.0 });
    // As the next smaller gang; of a model that is not in the artifact's table a start takes 10 s.
    assert_eq!((of("vgg16", 4), of("a3c", 1).start_s), (of("vgg16", 1), 10.0));
    assert_eq!(parse(&write(&profile).expect("RON"), "p.ron".into()).expect("a profile"), profile);
    for (from, to, says) in [
        (
            "107,117,68,0\na3c",
            "107,117,69,0\na3c",
            "trace.csv:4: column `model_name`: \"vgg16\" on 1 GPUs took other times",
        ),
        ("10,1,9,0", "10,1,-9,0", "column `resource_time_0`: a time must be 0 or more, found -0.009"),
    ] {
        std::fs::write(&path, text.replace(from, to)).expect("a file");
        let wrong = muri(&path).expect_err("it makes no sense").to_string();
        assert!(wrong.contains(says), "{wrong}");
    }
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
