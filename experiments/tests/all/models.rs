//! Facts of models, throughputs by type of GPU, and the policies that decide by them: through the command.

use std::path::Path;

use sandtable::profile;

use crate::help::{data, dist, root, sandtable};
use sandtable_needs::needs;

#[test]
fn facts_are_printed_of_the_catalogue_and_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let ran = sandtable(folder.path(), args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        ran.stdout
    };
    insta::assert_snapshot!("model_list", run(&["model", "list"]));
    insta::assert_snapshot!("model_facts", run(&["model", "facts", "mobilenet_v2", "--batch", "8"]));
    run(&["model", "graph", "mobilenet_v2", "-o", "own.onnx"]);
    let json = |model: &str| -> serde_json::Value {
        serde_json::from_str(&run(&["model", "facts", model, "--json"])).expect("JSON")
    };
    let (own, known) = (json("own.onnx"), json("mobilenet_v2"));
    assert_eq!(own["total"], known["total"]);
    assert_eq!(own["similarity"], known["similarity"]);
    assert_eq!(own["facts"]["model"], "own");
}

#[test]
fn models_that_are_none_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("no.onnx"), b"text, no protobuf").expect("written");
    let mut all = String::new();
    for args in [
        ["model", "facts", "resnet5"],
        ["model", "facts", "xyz"],
        ["model", "facts", "gone.onnx"],
        ["model", "facts", "no.onnx"],
    ] {
        let ran = sandtable(folder.path(), &args);
        all.push_str(&format!("--- {}: exit {}\n{}", args.join(" "), ran.code, ran.stderr));
    }
    insta::assert_snapshot!(all);
}

/// A spec of which each case replaces a part.
const GOOD: &str = r#"Experiment(
    title: "types",
    fleet: Model(groups: [
        (nodes: 1, gpus: 2, kind: "RTX-2080-Ti"),
        (nodes: 1, gpus: 2, kind: "A100-SXM4-40GB"),
    ]),
    profile: Inline((
        about: "written down",
        workloads: [
            (name: "small", family: "", model: "mobilenet_v2"),
            (name: "large", family: "", model: "vgg16", batch: 8.0),
        ],
        gpus: [
            (kind: "RTX-2080-Ti", sources: {}, solo: {
                "small": (throughput: {1: 100.0, 2: 190.0}), "large": (throughput: {1: 50.0, 2: 90.0}),
            }),
            (kind: "A100-SXM4-40GB", sources: {}, solo: {
                "small": (throughput: {1: 110.0, 2: 210.0}), "large": (throughput: {1: 200.0, 2: 390.0}),
            }),
        ],
    )),
    references: ["small", "large"],
    workload: Jobs([
        (submit: "0s", gpus: 1, duration: "100min", workload: "small"),
        (submit: "0s", gpus: 1, duration: "100min", workload: "large", user: "me"),
        (submit: "200min", gpus: 2, duration: "100min", workload: "large"),
    ]),
    reveal: [ModelFacts],
    policies: [Policy(name: "similarity")],
    predictors: {"throughput": Oracle, "remaining": Oracle},
)
"#;

const CASES: &[(&str, &str, &str)] = &[
    ("as it is", "", ""),
    ("no such model", "model: \"vgg16\"", "model: \"vgg61\""),
    ("no such file", "model: \"vgg16\"", "model: \"gone.onnx\""),
    ("a reference without facts", ", model: \"vgg16\"", ""),
    ("facts not revealed", "[ModelFacts]", "[]"),
    ("no references", "references: [\"small\", \"large\"],", ""),
    ("an unknown reference", "[\"small\", \"large\"]", "[\"small\", \"lage\"]"),
    ("a throughput missing on one type", "\"small\": (throughput: {1: 110.0, 2: 210.0}), ", ""),
    ("a negative throughput", "{1: 110.0, 2: 210.0}", "{1: -1.0}"),
    ("a gang of none", "{1: 110.0, 2: 210.0}", "{0: 1.0}"),
    ("durations on another kind", "reveal:", "durations_on: \"T4\",\n    reveal:"),
    ("racks of no node", "    ]),\n    profile", "    ], levels: [Level(name: \"rack\", nodes: 0)]),\n    profile"),
    ("rounds without a remaining time", ", \"remaining\": Oracle},", "},"),
    ("packing without estimates", "\"similarity\")", "\"similarity\", with: {\"packing\": true})"),
    ("a component for throughput", "\"throughput\": Oracle", "\"throughput\": Component(name: \"memory\")"),
    ("a component for steps", "\"throughput\": Oracle", "\"steps\": Component(name: \"memory\")"),
    ("a declared utilisation", "\"throughput\": Oracle", "\"utilisation\": Declared"),
    ("a predictor of something else", "\"throughput\": Oracle", "\"utilisation\": Component(name: \"memory\")"),
    ("nobody bound to memory", "\"similarity\")", "\"horus\")"),
    (
        "nobody bound to throughput",
        "\"similarity\")],\n    predictors: {\"throughput\": Oracle,",
        "\"gavel\")],\n    predictors: {",
    ),
    ("an unknown precision", "Inline((", "Torchvision(file: \"steps.csv\", precision: \"quarter\"),\n    about: ((("),
];

#[test]
fn what_goes_wrong_with_models_and_types_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = String::new();
    for (name, from, to) in CASES {
        let mut text = GOOD.replacen(from, to, usize::from(!from.is_empty()));
        assert!(from.is_empty() || text != GOOD, "{name}: nothing to replace");
        match *name {
            "rounds without a remaining time" => {
                text = text.replace("\"similarity\")", "\"similarity\", with: {\"round\": 360})");
            }
            "an unknown precision" => {
                let (from, to) = (text.find("profile:").expect("a profile"), text.find("references:").expect("some"));
                text.replace_range(
                    from..to,
                    "profile: Torchvision(file: \"steps.csv\", precision: \"quarter\"),\n    ",
                );
                std::fs::write(folder.path().join("steps.csv"), "set,gpu\n").expect("written");
            }
            _ => {}
        }
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--no-progress"]);
        let said: Vec<&str> = ran.stderr.lines().skip_while(|line| !line.starts_with("error")).collect();
        let said = said.into_iter().filter(|line| !line.starts_with("hint: replay") && !line.starts_with("    at "));
        all.push_str(&format!("--- {name}: exit {}\n{}\n", ran.code, said.collect::<Vec<_>>().join("\n")));
    }
    insta::assert_snapshot!(all);
}

/// Rows of `jobs.csv` of the only cell of a store.
fn jobs(store: &Path) -> Vec<Vec<String>> {
    let cells = crate::help::cells(store);
    let (_, bytes) = cells.iter().find(|(path, _)| path.ends_with("jobs.csv")).expect("jobs.csv");
    let text = String::from_utf8_lossy(bytes).to_string();
    text.lines().skip(1).map(|row| row.split(',').map(str::to_string).collect()).collect()
}

#[test]
fn durations_follow_throughputs_by_type_and_gang() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |from: &str, to: &str, store: &str| {
        let text = GOOD.replacen(from, to, 1).replace("reveal:", "durations_on: \"RTX-2080-Ti\",\n    reveal:");
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let args = ["run", "spec.ron", "--policies", &dist(), "--no-progress", "--store", store];
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        jobs(&folder.path().join(store))
    };
    // 100 minutes on a 2080 Ti; the large model's comparative advantage is the A100, four times as fast.
    let rows = run("", "", "a");
    let taken = |row: &Vec<String>| row[4].parse::<f64>().expect("an end") - row[3].parse::<f64>().expect("a start");
    assert_eq!(taken(&rows[0]), 6000.0, "{rows:?}");
    assert_eq!(taken(&rows[1]), 1500.0, "{rows:?}");
    // The gang, of two: 90 against 390.
    assert!((taken(&rows[2]) - 6000.0 * 90.0 / 390.0).abs() < 1.0, "{rows:?}");
    // Told of no reference that is like it, or of nothing, the fastest for the first job is the A100 too.
    let rows = run("\"similarity\")", "\"similarity\", with: {\"match\": \"fastest\"})", "b");
    assert!((taken(&rows[0]) - 6000.0 * 100.0 / 110.0).abs() < 1.0, "{rows:?}");
}

#[test]
fn a_workload_that_does_not_run_on_a_type_never_gets_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |text: &str, store: &str| {
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let args = ["run", "spec.ron", "--policies", &dist(), "--no-progress", "--store", store];
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        (jobs(&folder.path().join(store)), ran.stderr)
    };
    let elsewhere = GOOD.replace("{1: 200.0, 2: 390.0}", "{1: 0.0, 2: 0.0}");
    for policy in ["fifo", "similarity", "gavel", "allox", "gandiva-fair"] {
        let (rows, _) = run(&elsewhere.replace("\"similarity\")", &format!("\"{policy}\")")), policy);
        for row in rows.iter().skip(1) {
            assert!(row.iter().any(|cell| cell == "completed"), "{policy}: {row:?}");
            assert!(row.last().expect("GPUs").starts_with("0:"), "{policy}: {row:?}");
        }
    }
    let nowhere = elsewhere
        .replace("{1: 50.0, 2: 90.0}", "{1: 0.0, 2: 0.0}")
        .replace("references: [\"small\", \"large\"]", "references: [\"small\"]");
    let (rows, warning) = run(&nowhere, "nowhere");
    assert!(warning.contains("2 jobs could never run on this fleet"), "{warning}");
    assert!(rows[1].iter().any(|cell| cell.contains("runs on none of the types that it allows")), "{rows:?}");
}

#[test]
fn throughput_tables_become_profiles() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = "workload,kind,gpus,throughput,model\nr50,T4,1,100,resnet50\nr50,T4,2,180,resnet50\nmine,T4,1,7.5,\n";
    std::fs::write(folder.path().join("t.csv"), table).expect("written");
    let read = profile::throughputs(&folder.path().join("t.csv")).expect("a profile");
    assert_eq!(read.gpus[0].solo["r50"].throughput.get(&2), Some(&180.0));
    assert_eq!((read.workloads[0].family.as_str(), read.workloads[1].family.as_str()), ("resnet", "mine"));
    for (from, to, expected) in [
        ("180", "-1", "t.csv:3: column `throughput`: expected at least one GPU and a rate of at least 0"),
        ("T4,2,", "T4,0,", "t.csv:3: column `gpus`: expected at least one GPU"),
        ("7.5", "fast", "t.csv:4: column `throughput`: expected a number, found \"fast\""),
        ("gpus", "gpu", "t.csv:1: no column `gpus`"),
    ] {
        std::fs::write(folder.path().join("t.csv"), table.replacen(from, to, 1)).expect("written");
        let error = profile::throughputs(&folder.path().join("t.csv")).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[needs("data:gavel", "data:torchvision-gpu-bench")]
#[test]
fn published_throughputs_become_profiles() {
    let table = data("gavel/simulation_throughputs.json");
    let read = profile::gavel_simulation(&table).expect("Gavel's table");
    let v100 = read.gpus.iter().find(|gpu| gpu.kind == "V100-SXM2-16GB").expect("a V100");
    let sizes: Vec<u32> = v100.solo["ResNet-18 (batch size 16)"].throughput.keys().copied().collect();
    assert_eq!(sizes, [1, 2, 4, 8]);
    let error = profile::gavel(&table).expect_err("the other table").to_string();
    assert!(error.contains("GavelSimulation"), "{error}");
    let steps = data("torchvision-gpu-bench/step_ms.csv");
    let read = profile::torchvision(&steps, "half").expect("the benchmark's table");
    assert_eq!((read.workloads.len(), read.gpus.len()), (32, 4));
    assert!(read.workloads.iter().all(|workload| workload.model.is_some()));
}

#[test]
fn horus_puts_back_alone_who_ran_out_of_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    // Four jobs of 14 GiB for two GPUs of 24 GiB, guessed at anything.
    let profile = root().join("experiments/specs/profiles/synthetic.ron");
    let job = |at: u32| {
        format!("Job(submit: \"{at}s\", gpus: 1, duration: \"1h\", memory: \"14GiB\", workload: \"mobile-cnn/b32\"),")
    };
    let spec = format!(
        "Experiment(title: \"memory\", fleet: Model(nodes: 1, gpus: 2, kind: \"RTX-3090\", sharing: Packed(3)), \
         profile: File({profile:?}), workload: Jobs([{}]), policies: [Policy(name: \"horus\")], \
         predictors: {{\"utilisation\": Oracle, \"memory\": Noisy(sigma: 3.0)}}, seeds: Range(0, 5))",
        (0..4).map(job).collect::<String>()
    );
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let policies = dist();
    let args = ["run", "spec.ron", "--policies", &policies, "--no-progress", "--format", "csv"];
    let ran = sandtable(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let mut rows = ran.stdout.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (names, values) = (rows.next().expect("a header"), rows.next().expect("a row"));
    let of = |name: &str| -> f64 {
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("no {name} in {names:?}"));
        values[at].parse().expect("a number")
    };
    assert!(of("out_of_memory") > 0.0, "nobody ran out of memory");
    assert_eq!(of("completed"), of("jobs"), "somebody was lost");
}

#[test]
fn new_policies_give_the_same_on_any_number_of_threads_and_verify() {
    let folder = tempfile::tempdir().expect("a folder");
    for spec in ["thanapol2023/fitted", "thanapol2023/rounds", "horus2022/batch"] {
        let path = root().join(format!("experiments/specs/{spec}.ron")).display().to_string();
        let mut stores = Vec::new();
        for threads in ["1", "2"] {
            let store = folder.path().join(spec).join(threads).display().to_string();
            let args = ["run", &path, "--store", &store, "--jobs", threads, "--no-progress", "--test"];
            assert_eq!(sandtable(folder.path(), &args).code, 0);
            stores.push(crate::help::cells(Path::new(&store)));
        }
        assert!(!stores[0].is_empty() && stores[0] == stores[1], "{spec}");
        let store = folder.path().join(spec).join("1").display().to_string();
        let ran = sandtable(folder.path(), &["verify", &path, "--store", &store, "--test"]);
        assert_eq!(ran.code, 0, "{spec}: {}{}", ran.stdout, ran.stderr);
    }
}

#[needs("data:torchvision-gpu-bench")]
#[test]
fn the_profiles_that_ship_are_what_the_fit_gives() {
    let bench = data("torchvision-gpu-bench");
    let profile = profile::torchvision(&bench.join("step_ms.csv"), "float").expect("the benchmark's table");
    let profile = sandtable::facts::fill(profile, &root()).expect("models of the catalogue");
    let committed = profile::read(&root().join("experiments/specs/profiles/vision-float.ron")).expect("a profile");
    assert_eq!(profile::fitted(&profile, &committed.about), committed);
}

/// Slowdown 1 + S times the sum of the others' A, up to three on a GPU : worked out apart from this code.
#[needs("data:horus-golden")]
#[test]
fn interference_is_the_golden_one() {
    use sandtable_hardware::{
        Backend, Communication, Costs, Duration, Fleet, GpuProfile, GpuType, Instant, Interference, InterferenceModel,
        Job, JobId, PerformanceModel, Profile, ShareMode, Sharing, SimulatedBackend, Solo, TypeId, Workload,
        WorkloadId,
    };
    let folder = data("horus-golden");
    let text = std::fs::read_to_string(folder.join("interference_cases.json")).expect("a file");
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(cases.len(), 4);
    for case in &cases {
        let list = |key: &str| -> Vec<f64> {
            case[key].as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
        };
        let (s, a, slowdown, speed) = (list("S"), list("A"), list("slowdown"), list("speed"));
        let name = |at: usize| format!("w{at}");
        let solo = |at: usize| Solo { sensitivity: Some(s[at]), aggressiveness: Some(a[at]), ..Solo::default() };
        let gpu = GpuProfile {
            kind: "g".into(),
            mode: ShareMode::TimeSlice,
            sources: std::collections::BTreeMap::new(),
            noise: vec![],
            solo: (0..s.len()).map(|at| (name(at), solo(at))).collect(),
            pairs: vec![],
            measured: None,
        };
        let workloads = (0..s.len()).map(|at| Workload { name: name(at), ..Workload::default() }).collect();
        let profile = Profile { about: String::new(), workloads, gpus: vec![gpu] };
        let fleet = Fleet::new(&[(1, 1, GpuType::new("g", 1.0))], Costs::default(), None);
        let fleet = fleet.and_then(|fleet| fleet.shared(Sharing::Packed(3))).expect("a fleet");
        let law = Interference { law: InterferenceModel::Fitted, ..Interference::NONE };
        let ids: Vec<WorkloadId> = WorkloadId::first(s.len()).collect();
        let laws = PerformanceModel::new(profile.into(), &fleet, &ids, law, Communication::default()).expect("laws");
        let job = |id: &WorkloadId| {
            Job::new("j", Instant::START, 1, Duration::from_micros(1)).asking(|request| request.workload = Some(*id))
        };
        let model = SimulatedBackend::new(fleet, ids.iter().map(job).collect(), &laws, 0);
        for at in 0..s.len() {
            let others: Vec<JobId> = JobId::first(s.len()).filter(|other| other.index() != at).collect();
            let found = model.pair_speed(TypeId::new(0), JobId::at(at), &others);
            assert!((found - speed[at]).abs() < 1e-9 && (1.0 / found - slowdown[at]).abs() < 1e-9, "{case}: {found}");
        }
    }
}

/// Every policy that came with models and types, on every way of sharing, with failures and costs, strictly judged:
/// nobody is lost, and no rule is broken.
#[test]
fn nobody_is_lost_on_any_kind_of_fleet() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("p.ron"), profile::write(&profile::synthetic()).expect("RON")).expect("written");
    let policies = [
        "Policy(name: \"similarity\", with: {\"round\": 600})",
        "Policy(name: \"similarity\", label: \"packing\", with: {\"packing\": true})",
        "Policy(name: \"gavel\", with: {\"round\": 600})",
        "Policy(name: \"gavel\", label: \"makespan\", with: {\"objective\": \"makespan\", \"round\": 600})",
        "Policy(name: \"gandiva-fair\", with: {\"round\": 600})",
        "Policy(name: \"gavel-leases\", with: {\"round\": 600})",
        "Policy(name: \"shockwave\", with: {\"round\": 600})",
        "Policy(name: \"muri\")",
        "Policy(name: \"muri\", label: \"muri-l\", with: {\"order\": \"attained\", \"round\": 600})",
        "Policy(name: \"lucid-like\")",
        "Policy(name: \"chronus-like\", with: {\"lease\": 300})",
        "Policy(name: \"allox\")",
        "Policy(name: \"horus\")",
        "Policy(name: \"horus-plus\", with: {\"theta\": 100})",
        "Policy(name: \"packer\", with: {\"rule\": \"gandiva\", \"slice\": 900})",
        "Policy(name: \"packer\", label: \"exclusive\", with: {\"rule\": \"exclusive\"})",
    ];
    for sharing in ["Exclusive", "Packed(2)", "Packed(4)", "Shares"] {
        let spec = format!(
            "Experiment(title: \"all\", fleet: Model(nodes: 3, gpus: 4, levels: [Level(name: \"rack\", nodes: 2)], kind: \"RTX-3090\", \
             sharing: {sharing}, failures: (mtbf: \"4h\", repair: \"20min\")), costs: (checkpoint: \"5s\", restore: \"20s\"), \
             profile: Inline({}), references: [\"small-cnn/b32\"], reveal: [ModelFacts], \
             workload: Generate(jobs: 60, arrivals: Poisson(load: 1.3), durations: LogNormal(median: \"20min\", sigma: 1.0), \
             gpus: {{1: 0.6, 2: 0.2, 4: 0.1, 6: 0.1}}, users: {{\"a\": 1, \"b\": 2}}), policies: [{}], \
             predictors: {{\"remaining\": Oracle, \"throughput\": Oracle, \"utilisation\": Noisy(sigma: 0.3), \
             \"memory\": Noisy(sigma: 0.3), \"pair-speed\": Oracle}}, seeds: Range(0, 2))",
            inline(),
            policies.join(", ")
        );
        std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
        let policies = dist();
        let args = ["run", "spec.ron", "--policies", &policies, "--no-progress", "--format", "csv"];
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0, "{sharing}: {}", ran.stderr);
        let mut rows = ran.stdout.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = rows.next().expect("a header");
        let at = |name: &str| names.iter().position(|known| *known == name).expect("a metric");
        for row in rows {
            assert_eq!(row[at("completed")], row[at("jobs")], "{sharing}: {row:?}");
        }
    }
}

/// The synthetic catalogue with a throughput, as a reference needs one.
fn inline() -> String {
    let mut profile = profile::synthetic();
    let solo = &mut profile.gpus[0].solo;
    solo.values_mut().for_each(|solo| solo.throughput = [(1, 100.0), (4, 350.0)].into());
    let text = profile::write(&profile).expect("RON");
    text.trim_start_matches("#![enable(implicit_some)]").trim().to_string()
}

/// Two jobs, one GPU four times as fast as the other: whoever moves must run on, and dearer moves are not faster.
#[test]
fn rounds_that_move_jobs_leave_no_gpu_idle() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |costs: &str, store: &str| {
        let spec = format!(
            "Experiment(title: \"two\", fleet: Model(groups: [(nodes: 1, gpus: 1, kind: \"A\", speed: 1.0), \
             (nodes: 1, gpus: 1, kind: \"B\", speed: 4.0)]), {costs} workload: Jobs([\
             Job(submit: \"0s\", gpus: 1, duration: \"4h\", user: \"a\"), Job(submit: \"0s\", gpus: 1, duration: \"4h\", user: \"b\")]), \
             predictors: {{\"throughput\": Oracle, \"remaining\": Oracle}}, policies: [Policy(name: \"gavel\"), \
             Policy(name: \"gandiva-fair\", with: {{\"round\": 360}})])"
        );
        std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
        let policies = dist();
        let args = ["run", "spec.ron", "--policies", &policies, "--format", "csv", "--store", store];
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let mut rows = ran.stdout.lines().map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        let names = rows.next().expect("a header");
        let at = |name: &str| names.iter().position(|known| known == name).expect("a metric");
        let of = |row: Vec<String>, name: &str| row[at(name)].parse::<f64>().expect("a number");
        rows.map(|row| (row[0].clone(), of(row.clone(), "utilisation"), of(row, "jct_mean_s"))).collect::<Vec<_>>()
    };
    let (free, dear) = (run("", "a"), run("costs: (checkpoint: \"20s\", restore: \"20s\"),", "b"));
    for ((policy, utilisation, mean), (_, _, dearer)) in free.iter().zip(&dear) {
        assert!(*utilisation > 0.9, "{policy}: {utilisation}");
        assert!(dearer >= mean, "{policy}: {mean} s for nothing, {dearer} s at a cost");
    }
}

/// What `model facts` prints as the features of similarity is what the policy computes, and likewise for Horus'.
#[test]
fn features_are_the_same_on_both_sides() {
    for facts in sandtable::facts::catalogue() {
        let named = sandtable::learn::horus_features(facts, 8.0, false);
        for (name, count) in facts.total.all() {
            let of_batch = if name == "parameter_bytes" { count } else { 8.0 * count };
            let (_, found) = named.iter().find(|(known, _)| *known == format!("ln_{name}")).expect("a feature");
            assert!((libm::expm1(*found) - of_batch).abs() <= 1e-9 * (1.0 + of_batch), "{}: {name}", facts.model);
        }
        let told = sandtable_policy::ModelFacts {
            model: facts.model.clone(),
            parameters: facts.parameters,
            layer_multiply_adds: facts.layer_multiply_adds,
            layer_outputs: facts.layer_outputs,
            layer_traffic: facts.layer_traffic,
            elementwise_outputs: facts.elementwise_outputs,
            depth: facts.depth,
            flops: facts.total.flops,
            multiply_adds: facts.total.multiply_adds,
            additions: facts.total.additions,
            comparisons: facts.total.comparisons,
            divisions: facts.total.divisions,
            exponentials: facts.total.exponentials,
            activation_bytes: facts.total.activation_bytes,
            parameter_bytes: facts.total.parameter_bytes,
            other_bytes: facts.total.other_bytes,
            group_nodes: facts.group_nodes.to_vec(),
            group_flops: facts.group_flops.to_vec(),
        };
        let guest = similarity::table::Features::Core6.of(&told);
        let host: Vec<f64> = facts.core6().iter().map(|(_, x)| *x).collect();
        assert_eq!(guest, host, "{}", facts.model);
    }
}
