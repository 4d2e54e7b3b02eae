//! Predictors: how good those that are trained here are, that what ships is what training gives, and what is said where
//! one refuses, crashes, or is handed the wrong thing.

use std::path::Path;

use sandtable::learn::{Dataset, Measured, Split, Training, cross_validate, evaluate, memory_errors, weights};
use sandtable::profile;
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve};

use crate::help::{data, dist, root, sandtable};
use sandtable_needs::needs;

fn error_of(errors: &[(String, f64)], name: &str) -> f64 {
    errors.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name} in {errors:?}")).1
}

#[needs("data:gavel")]
#[test]
fn iasp_beats_the_bias_model_on_measured_pairs() {
    let folder = data("gavel");
    let profile = profile::gavel(&folder.join("oracle_throughputs.json")).expect("Gavel's table");
    let data = Dataset::new(&profile, "V100-SXM2-16GB").expect("a V100");
    let of = |seed| evaluate("iasp", &data, Split::Pairs, 0.8, 0, seed).expect("errors");
    let runs: Vec<_> = (0..5).map(of).collect();
    let mean = |name: &str| runs.iter().map(|errors| error_of(errors, name)).sum::<f64>() / 5.0;
    let (iasp, bias) = (mean("iasp"), mean("bias"));
    assert!(iasp <= 0.085 && iasp <= 0.8 * bias, "iasp {iasp}, bias {bias}");
}

#[needs("data:lucid")]
#[test]
fn iapp_is_good_on_lucids_table() {
    let folder = data("lucid");
    let profile = profile::lucid(&folder).expect("Lucid's tables");
    let data = Dataset::new(&profile, "RTX-3090").expect("an RTX 3090");
    // One seed: five take half a minute; `predictor evaluate` prints them.
    let pairs = evaluate("iapp", &data, Split::Pairs, 0.8, 0, 0).expect("errors");
    assert!(error_of(&pairs, "iapp") <= 0.042, "{pairs:?}");
    // On unseen families, of the 2,458 speeds that were measured: the 318 that Lucid's table gives as exactly 1 (PPO, TD3)
    // are left out.
    let families = evaluate("utilisation", &data, Split::Family, 1.0, 0, 0).expect("errors");
    assert!((error_of(&families, "utilisation") - 0.0601).abs() < 1e-4, "{families:?}");
}

#[needs("data:gpumemnet")]
#[test]
fn the_forest_is_good_on_3000_measured_networks() {
    let folder = data("gpumemnet");
    let profile = profile::gpumemnet(&folder.join("mlp_util_mem.csv")).expect("GPUMemNet's table");
    let data = Measured::new(&profile, "unnamed").expect("workloads");
    assert_eq!(data.count(), 3000);
    let errors = cross_validate(&data, 0);
    let of = |name: &str| errors.iter().find(|error| error.model == name).expect("a model").rmsle;
    assert!(of("forest") <= 0.16 && of("mean") > 0.4, "{errors:?}");
    // What ships must fit into a weights file.
    let all = Training { observed: 1.0, hold_out: 0.0, seed: 0, used_on: None };
    let file = weights("forest", &profile, &[], &all).expect("weights");
    assert!(serde_json::to_string(&file).expect("JSON").len() <= sandtable::plan::MAX_WEIGHTS);
    // The formulas err by 351 % and 32 % in the median, as worked out apart from this code.
    let memory = memory_errors(&data);
    assert!((memory[0].median - 3.51).abs() < 0.01 && (memory[1].median - 0.32).abs() < 0.01, "{memory:?}");
}

#[test]
fn the_weights_that_ship_are_what_training_gives() {
    let committed = |name: &str| {
        let path = root().join("policies/predictors/weights").join(name);
        std::fs::read_to_string(path).expect("committed weights")
    };
    let synthetic = profile::read(&root().join("experiments/specs/profiles/synthetic.ron")).expect("a profile");
    let fit = profile::read(&root().join("experiments/specs/profiles/gavel-fit.ron")).expect("a profile");
    let half = Training { observed: 0.5, hold_out: 0.0, seed: 0, used_on: None };
    let of = |predictor: &str, profile, kinds: &[&str], training: &Training| {
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        let weights = weights(predictor, profile, &kinds, training).expect("weights");
        serde_json::to_string(&weights).expect("JSON") + "\n"
    };
    let made = |predictor: &str, profile| of(predictor, profile, &[], &half);
    let (v100, fifth) = ("V100-SXM2-16GB", Training { observed: 0.2, ..half.clone() });
    let twentieth = Training { observed: 0.05, ..half.clone() };
    let held_out = Training { hold_out: 0.3, ..half.clone() };
    let elsewhere = Training { used_on: Some(v100.into()), ..half.clone() };
    for (name, kind, training) in [
        ("fifth", v100, &fifth),
        ("twentieth", v100, &twentieth),
        ("held-out", v100, &held_out),
        ("p100", "P100-PCIE-16GB", &elsewhere),
        ("k80", "K80", &elsewhere),
    ] {
        let name = format!("iasp-gavel-fit-{name}.json");
        assert!(of("iasp", &fit, &[kind], training) == committed(&name), "{name}");
    }
    // Same seed, same bytes: on this machine, and on the one that wrote them.
    assert!(made("iasp", &fit) == committed("iasp-gavel-fit.json"), "iasp-gavel-fit.json");
    assert!(made("iasp", &synthetic) == committed("iasp-synthetic.json"), "iasp-synthetic.json");
    assert!(made("iapp", &synthetic) == committed("iapp-synthetic.json"), "iapp-synthetic.json");
    assert!(made("bias", &synthetic) == committed("bias-synthetic.json"), "bias-synthetic.json");
    let facts = sandtable::facts::fill(synthetic.clone(), &root()).expect("models of the catalogue");
    assert!(made("forest", &facts) == committed("forest-synthetic.json"), "forest-synthetic.json");
}

#[needs("data:gavel")]
#[test]
fn the_weights_of_measured_pairs_are_what_training_gives() {
    let measured = profile::gavel(&data("gavel/oracle_throughputs.json")).expect("Gavel's table");
    let half = Training { observed: 0.5, hold_out: 0.0, seed: 0, used_on: None };
    let weights = weights("iasp", &measured, &[], &half).expect("weights");
    let path = root().join("policies/predictors/weights/iasp-gavel-measured.json");
    let committed = std::fs::read_to_string(path).expect("committed weights");
    assert!(serde_json::to_string(&weights).expect("JSON") + "\n" == committed, "iasp-gavel-measured.json");
}

/// A predictor whose every function traps.
fn crashing() -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit")).expect("the contract");
    let world = resolve.select_world(&[package], Some("predictor-component")).expect("a world");
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("metadata");
    let mut encoder = ComponentEncoder::default();
    encoder.module(&module).expect("a module");
    encoder.encode().expect("a component")
}

/// A spec of which each case replaces a part.
const GOOD: &str = r#"Experiment(
    title: "shared",
    fleet: Model(nodes: 1, gpus: 4, kind: "RTX-3090", sharing: Packed(2)),
    profile: File("./synthetic.ron"),
    workload: Generate(jobs: 20, arrivals: Poisson(load: 1.2), durations: Fixed("10min"), gpus: {1: 1.0}),
    reveal: [SoloProfile, Memory],
    policies: [Policy(name: "clwp-nlwp")],
    predictors: {
        "similarity": Component(name: "iasp", weights: "./iasp-synthetic.json"),
        "pair-speed": Component(name: "iapp", weights: "./iapp-synthetic.json"),
    },
)
"#;

const CASES: &[(&str, &str, &str)] = &[
    ("as it is", "", ""),
    ("weights of another predictor", "name: \"iapp\", weights: \"./iapp", "name: \"iapp\", weights: \"./iasp"),
    ("weights that are none", "./iapp-synthetic.json", "./none.json"),
    ("weights of another shape", "./iasp-synthetic.json", "./shape.json"),
    ("weights that are too large", "./iasp-synthetic.json", "./large.json"),
    ("weights that are not there", "./iasp-synthetic.json", "./gone.json"),
    ("weights for another GPU", "./iasp-synthetic.json", "./iasp-gavel-fit.json"),
    ("no weights", ", weights: \"./iasp-synthetic.json\"", ""),
    (
        "a parameter that is none",
        "weights: \"./iasp-synthetic.json\"",
        "weights: \"./iasp-synthetic.json\", with: {\"k\": 3}",
    ),
    (
        "a predictor that crashes",
        "Component(name: \"iapp\", weights: \"./iapp-synthetic.json\")",
        "Component(name: \"./crash.wasm\")",
    ),
    (
        "a predictor of something else",
        "Component(name: \"iapp\", weights: \"./iapp-synthetic.json\")",
        "Component(name: \"cosine\")",
    ),
    (
        "a policy as predictor",
        "Component(name: \"iapp\", weights: \"./iapp-synthetic.json\")",
        "Component(name: \"fifo\")",
    ),
    ("a predictor as policy", "Policy(name: \"clwp-nlwp\")", "Policy(name: \"iasp\")"),
    ("nobody bound", "\"pair-speed\": Component(name: \"iapp\", weights: \"./iapp-synthetic.json\"),", ""),
    ("profiles not revealed", "[SoloProfile, Memory]", "[]"),
    ("a component for remaining", "\"similarity\":", "\"remaining\":"),
    ("a declared similarity", "Component(name: \"iasp\", weights: \"./iasp-synthetic.json\")", "Declared"),
    ("no such profile", "./synthetic.ron", "./gone.ron"),
    ("a broken profile", "./synthetic.ron", "./broken.ron"),
    ("a pair missing from the table", "./synthetic.ron", "./hole.ron"),
    ("another GPU than the profile's", "kind: \"RTX-3090\"", "kind: \"T4\""),
    ("another way of sharing", "    workload:", "    interference: Interference(mode: Mps),\n    workload:"),
    ("a scale that is none", "    workload:", "    interference: Interference(scale: -1.0),\n    workload:"),
    ("no such workload", "gpus: {1: 1.0}", "gpus: {1: 1.0}, workloads: {\"small-cnn/b31\": 1}"),
    ("a tenancy of one", "Packed(2)", "Packed(1)"),
    ("a matrix of another size", "sharing: Packed(2)", "sharing: Packed(2), links: Matrix([[0, 1], [1, 0]])"),
    (
        "a matrix without a link",
        "gpus: 4, kind: \"RTX-3090\"",
        "gpus: 2, kind: \"RTX-3090\", links: Matrix([[0, 0], [0, 0]])",
    ),
    (
        "a share of two GPUs",
        "Generate(jobs: 20, arrivals: Poisson(load: 1.2), durations: Fixed(\"10min\"), gpus: {1: 1.0})",
        "Jobs([Job(submit: \"0s\", gpus: 2, duration: \"1s\", share: 0.5)])",
    ),
    ("a relaunch in no time", "    workload:", "    costs: Costs(relaunch: \"0s\"),\n    workload:"),
    (
        "a claim of nobody",
        "    predictors",
        "    claims: [Claim(says: \"\", of: \"clwp\", metric: \"jct_mean_s\", holds: AtMost(0))],\n    predictors",
    ),
    (
        "a claim of nothing",
        "    predictors",
        "    claims: [Claim(says: \"\", of: \"clwp-nlwp\", metric: \"jct_man_s\", holds: AtMost(0))],\n    predictors",
    ),
    (
        "a claim where nothing is swept",
        "    predictors",
        "    claims: [Claim(says: \"\", of: \"clwp-nlwp\", metric: \"jct_mean_s\", holds: AtMost(0), at: {\"a.b\": 1})],\n    predictors",
    ),
];

fn files(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("written");
    let weights = root().join("policies/predictors/weights/iasp-synthetic.json");
    let good = std::fs::read_to_string(weights).expect("weights");
    let mut shape: serde_json::Value = serde_json::from_str(&good).expect("JSON");
    shape["gpus"]["RTX-3090"]["neumf"][0]["dense1_b"] = serde_json::json!([1.0, 2.0]);
    write("shape.json", shape.to_string().as_bytes());
    write("none.json", b"{\"predictor\": 3}");
    write("large.json", &vec![b' '; (1 << 20) + 1]);
    write("crash.wasm", &crashing());
    write("broken.ron", b"(about: \"\", workloads: [], gpu: [])");
    for name in ["iasp-synthetic.json", "iapp-synthetic.json", "iasp-gavel-fit.json"] {
        write(name, &std::fs::read(root().join("policies/predictors/weights").join(name)).expect("weights"));
    }
    let mut synthetic = profile::synthetic();
    write("synthetic.ron", profile::write(&synthetic).expect("RON").as_bytes());
    let solo = synthetic.gpus[0].solo.get_mut("gan/b64").expect("a workload");
    (solo.sensitivity, solo.utilisation) = (None, None);
    write("hole.ron", profile::write(&synthetic).expect("RON").as_bytes());
}

#[test]
fn what_goes_wrong_with_predictors_and_profiles_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    let mut all = String::new();
    for (name, from, to) in CASES {
        let text = GOOD.replacen(from, to, usize::from(!from.is_empty()));
        assert!(from.is_empty() || text != GOOD, "{name}: nothing to replace");
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--no-progress"]);
        let said: Vec<&str> = ran.stderr.lines().skip_while(|line| !line.starts_with("error")).collect();
        let said = said.into_iter().filter(|line| !line.starts_with("hint: replay") && !line.starts_with("    at "));
        all.push_str(&format!("--- {name}: exit {}\n{}\n", ran.code, said.collect::<Vec<_>>().join("\n")));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_job_too_big_for_any_gpu_is_rejected_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = "Experiment(title: \"big\", fleet: Model(nodes: 1, gpus: 2, kind: \"T4\", sharing: Packed(2)), \
        workload: Jobs([Job(submit: \"0s\", gpus: 1, duration: \"10s\", memory: \"20GiB\"), \
        Job(submit: \"0s\", gpus: 1, duration: \"10s\")]), policies: [Policy(name: \"share\")])";
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--no-progress"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("warning: 1 jobs could never run on this fleet"), "{}", ran.stderr);
    let cells = crate::help::cells(&folder.path().join("store"));
    let (_, jobs) = cells.iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("jobs.csv");
    let jobs = String::from_utf8_lossy(jobs);
    assert!(jobs.contains("it needs 20480 MiB on each GPU, the largest that it allows has 15360"), "{jobs}");
}

#[test]
fn claims_are_printed_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = |bound: &str| {
        format!(
            "Experiment(title: \"claims\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), \
             workload: Generate(jobs: 60, arrivals: Poisson(load: 1.5), durations: LogNormal(median: \"10min\", sigma: 1.0), \
             gpus: {{1: 1.0}}), policies: [Policy(name: \"fifo\"), Policy(name: \"srtf\")], predictors: {{\"remaining\": Oracle}}, \
             seeds: Range(0, 4), claims: [Claim(says: \"SRTF halves it\", of: \"srtf\", against: \"fifo\", \
             metric: \"jct_mean_s\", published: -0.5, holds: AtMost({bound}))])"
        )
    };
    let run = |bound: &str, flags: &[&str]| {
        std::fs::write(folder.path().join("spec.ron"), spec(bound)).expect("written");
        let policies = dist();
        let mut args = vec!["run", "spec.ron", "--policies", &policies, "--no-progress"];
        args.extend(flags);
        sandtable(folder.path(), &args)
    };
    let held = run("-0.1", &["--check"]);
    assert_eq!(held.code, 0, "{}{}", held.stdout, held.stderr);
    let line = held.stdout.lines().find(|line| line.starts_with("SRTF halves it")).expect("the claim");
    assert!(line.contains("-50.0 %") && line.contains(" at most -10.0 %  holds"), "{line}");
    let failed = run("-0.99", &["--check"]);
    assert_eq!(failed.code, 1, "{}", failed.stdout);
    assert!(failed.stderr.contains("error: 1 of 1 claims do not hold"), "{}", failed.stderr);
    assert_eq!(run("-0.99", &[]).code, 0, "without --check a claim is a report");
    // Without the policy that it is about there is nothing to hold.
    assert_eq!(run("-0.1", &["--check", "--only", "fifo"]).code, 1);
    let json = run("-0.1", &["--format", "json"]).stdout;
    let last: serde_json::Value = serde_json::from_str(json.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["claim"], &last["holds"]), (&"SRTF halves it".into(), &true.into()));
}

#[test]
fn shared_runs_are_the_same_on_any_number_of_threads_and_verify() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = root().join("experiments/specs/geng2020/v100.ron").display().to_string();
    let set = ["--test", "--set", "workload.jobs=40", "--set", "seeds=Range(0, 2)"];
    let mut stores = Vec::new();
    for threads in ["1", "2"] {
        let store = folder.path().join(threads).display().to_string();
        let mut args = vec!["run", &spec, "--store", &store, "--jobs", threads, "--no-progress"];
        args.extend(set);
        assert_eq!(sandtable(folder.path(), &args).code, 0);
        stores.push(crate::help::cells(Path::new(&store)));
    }
    assert!(!stores[0].is_empty() && stores[0] == stores[1]);
    let store = folder.path().join("1").display().to_string();
    let mut args = vec!["verify", &spec, "--store", &store];
    args.extend(set);
    let ran = sandtable(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[needs("data:gavel")]
#[test]
fn measured_tables_become_profiles() {
    let gavel = data("gavel");
    let folder = tempfile::tempdir().expect("a folder");
    let table = gavel.join("oracle_throughputs.json").display().to_string();
    let ran = sandtable(folder.path(), &["trace", "import", "gavel", &table, "-o", "p.ron"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stderr, "a profile of 26 workloads on 3 types of GPU written to p.ron\n");
    let profile = profile::read(&folder.path().join("p.ron")).expect("a profile");
    assert_eq!(profile.gpus.iter().map(|gpu| gpu.pairs.len()).collect::<Vec<_>>(), [351; 3]);
}

#[test]
fn a_job_goes_only_where_its_memory_does() {
    // One T4 of 15 GiB and one A100 of 40: the large job waits for the A100, under every policy, told or not.
    let folder = tempfile::tempdir().expect("a folder");
    for reveal in ["[Memory, SoloProfile]", "[SoloProfile]"] {
        let spec = format!(
            "Experiment(title: \"mixed\", fleet: Model(groups: [Group(nodes: 1, gpus: 1, kind: \"T4\"), \
             Group(nodes: 1, gpus: 1, kind: \"A100-SXM4-40GB\")], sharing: Packed(2)), reveal: {reveal}, \
             workload: Jobs([Job(submit: \"0s\", gpus: 1, duration: \"1h\", memory: \"20GiB\"), \
             Job(submit: \"1s\", gpus: 1, duration: \"1h\", memory: \"30GiB\")]), predictors: {{\"remaining\": Oracle, \
             \"similarity\": Oracle, \"pair-speed\": Oracle}}, policies: [Policy(name: \"fifo\"), Policy(name: \"las\"), \
             Policy(name: \"share\", with: {{\"max_share\": 1}}), Policy(name: \"gandiva-like\"), Policy(name: \"antman-like\")])"
        );
        std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
        let store = folder.path().join("store");
        let ran =
            sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--no-progress", "--store", "store"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for (path, bytes) in crate::help::cells(&store) {
            let text = String::from_utf8_lossy(&bytes).to_string();
            // Both ran on node 1, and ended.
            if path.ends_with("jobs.csv") {
                assert!(text.lines().skip(1).all(|row| row.ends_with(",completed,1:1")), "{text}");
            }
        }
    }
}

#[test]
fn a_gang_that_no_node_holds_blocks_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let jobs = |extra: &str| {
        let small: Vec<String> =
            (0..60).map(|at| format!("Job(submit: \"{}min\", gpus: 1, duration: \"100min\")", at * 8)).collect();
        format!(
            "Experiment(title: \"wide\", fleet: Model(nodes: 3, gpus: 4, kind: \"T4\", sharing: Packed(2)), \
             workload: Jobs([{extra}{}, Job(submit: \"100min\", gpus: 4, duration: \"10min\", name: \"wide\")]), \
             policies: [Policy(name: \"share\", with: {{\"max_share\": 1}})])",
            small.join(", ")
        )
    };
    let start = |extra: &str, store: &str| {
        std::fs::write(folder.path().join("spec.ron"), jobs(extra)).expect("written");
        let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--store", store, "--log"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let cells = crate::help::cells(&folder.path().join(store));
        let (_, bytes) = cells.iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("jobs.csv");
        let text = String::from_utf8_lossy(bytes).to_string();
        let row = text.lines().find(|row| row.starts_with("wide,")).expect("the wide job");
        (row.split(',').nth(3).expect("a start").to_string(), ran.stderr)
    };
    let (alone, _) = start("", "a");
    let (beside, log) = start("Job(submit: \"0s\", gpus: 8, duration: \"1s\"), ", "b");
    assert_eq!(alone, beside, "an impossible gang moves nobody");
    assert!(log.contains("waits for ever: it asks for 8 GPUs of one node, the largest has 4"), "{log}");
}
