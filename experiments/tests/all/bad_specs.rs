//! Every kind of mistake in a spec, with the diagnostic that it gives: the picture is the test.

use crate::help::{dist, sandtable};

/// A good spec; each mistake replaces one part of it.
const GOOD: &str = r#"Experiment(
    title: "a spec",
    fleet: Model(nodes: 2, gpus: 4, kind: "V100-SXM2-16GB"),
    workload: Generate(jobs: 5, arrivals: Poisson(load: 0.8), durations: Fixed("60s"), gpus: {1: 1.0}),
    policies: [Policy(name: "fifo"), Policy(name: "las", label: "tiresias")],
    predictors: {"remaining": Oracle},
    seeds: Range(0, 2),
)
"#;

/// Name, what is replaced, by what. With the empty file: every one says what was expected, and shows it.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("unknown field", "title:", "titel:"),
    ("unknown choice", "Poisson", "Poison"),
    ("missing field", "title: \"a spec\",", ""),
    ("twice", "seeds: Range(0, 2)", "seeds: Range(0, 2), seeds: Range(0, 2)"),
    ("not a number", "nodes: 2", "nodes: \"2\""),
    ("out of range", "nodes: 2", "nodes: -2"),
    ("bracket", "Range(0, 2),\n)", "Range(0, 2),\n"),
    ("time without unit", "\"60s\"", "\"60\""),
    ("time as a number", "\"60s\"", "60"),
    ("unknown GPU", "V100-SXM2-16GB", "V100-SXM-16GB"),
    ("both shapes of a fleet", "kind: \"V100-SXM2-16GB\"", "groups: [Group(nodes: 1, gpus: 1, kind: \"K80\")]"),
    ("no node", "nodes: 2", "nodes: 0"),
    ("no GPU", "gpus: 4", "gpus: 0"),
    ("speed", "kind: \"V100-SXM2-16GB\"", "kind: \"mine\", speed: -1.0"),
    ("unknown policy", "name: \"fifo\"", "name: \"fife\""),
    ("no such file", "name: \"fifo\"", "name: \"./mine.wasm\""),
    ("two of a name", "label: \"tiresias\"", "label: \"fifo\""),
    ("no policy", "[Policy(name: \"fifo\"), Policy(name: \"las\", label: \"tiresias\")]", "[]"),
    ("load", "load: 0.8", "load: 0.0"),
    ("no jobs", "jobs: 5", "jobs: 0"),
    ("gang of none", "{1: 1.0}", "{0: 1.0}"),
    ("weights", "{1: 1.0}", "{1: 0.0}"),
    ("quantity", "\"remaining\": Oracle", "\"left\": Oracle"),
    ("sigma", "Oracle", "Noisy(sigma: -1.0)"),
    ("no seed", "Range(0, 2)", "Range(2, 2)"),
    ("seed twice", "Range(0, 2)", "List([1, 1])"),
    (
        "no trace",
        "Generate(jobs: 5, arrivals: Poisson(load: 0.8), durations: Fixed(\"60s\"), gpus: {1: 1.0})",
        "Trace(file: \"no.csv\")",
    ),
    ("preset", "seeds:", "semantics: Semantics(preset: \"tiresias\"), seeds:"),
    ("sweep into nothing", "seeds:", "sweep: {\"workload.arrivals.lod\": [0.5]}, seeds:"),
    ("sweep of a wrong value", "seeds:", "sweep: {\"workload.arrivals.load\": [0.5, \"high\"]}, seeds:"),
    ("fuel", "seeds:", "limits: Limits(fuel: 0), seeds:"),
    ("memory", "seeds:", "limits: Limits(memory: \"many\"), seeds:"),
    ("seeds as a number", "Range(0, 2)", "5"),
    ("seeds as a list", "Range(0, 2)", "[1, 2]"),
    ("median as a number", "Fixed(\"60s\")", "LogNormal(median: 1200, sigma: 1.0)"),
    ("half a node", "nodes: 2", "nodes: 2.5"),
    ("negative jobs", "jobs: 5", "jobs: -5"),
    ("jobs as a power", "jobs: 5", "jobs: 5e3"),
    ("JSON", "title:", "\"title\":"),
    ("no closing bracket of a policy", "Policy(name: \"fifo\")", "Policy(name: \"fifo\""),
    ("a policy's name alone", "Policy(name: \"fifo\")", "\"fifo\""),
    ("a policy as a word", "Policy(name: \"fifo\")", "fifo"),
    ("a load without its name", "Poisson(load: 0.8)", "Poisson(0.8)"),
    ("arrivals as a number", "Poisson(load: 0.8)", "0.8"),
    ("a predictor as a flag", "Oracle", "true"),
    ("a predictor as a text", "Oracle", "\"Oracle\""),
    ("a kind without quotes", "\"V100-SXM2-16GB\"", "V100"),
    ("a list for a map", "{1: 1.0}", "[1, 2]"),
    ("a key as a text", "{1: 1.0}", "{\"1\": 1.0}"),
    ("a small letter", "Model(nodes", "model(nodes"),
    ("no comma", "\"a spec\",", "\"a spec\""),
    ("equals", "nodes: 2", "nodes = 2"),
    ("single quotes", "\"a spec\"", "'a spec'"),
    ("no quotes", "\"a spec\",", "a spec,"),
    ("a unit in words", "\"60s\"", "\"60 seconds\""),
];

#[test]
fn every_mistake_is_shown_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = String::new();
    for (name, from, to) in MISTAKES {
        assert!(GOOD.contains(from), "{name}");
        std::fs::write(folder.path().join("spec.ron"), GOOD.replacen(from, to, 1)).expect("written");
        let ran = sandtable(folder.path(), &["plan", "spec.ron"]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{name}");
        all.push_str(&format!("=== {name}\n{}\n", ran.stderr));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn bad_flags_say_what_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), GOOD).expect("written");
    let mut all = String::new();
    for flags in [
        ["--set", "fleet.node=3"],
        ["--set", "fleet.nodes"],
        ["--set", "fleet.nodes=many"],
        ["--only", "srtf"],
        ["--sweep", "policies.las.with=1"],
    ] {
        let ran = sandtable(folder.path(), &["plan", "spec.ron", flags[0], flags[1]]);
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.stdout);
        all.push_str(&format!("=== {} {}\n{}\n", flags[0], flags[1], ran.stderr));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_byte_order_mark_is_no_mistake_and_an_empty_file_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), format!("\u{feff}{GOOD}")).expect("written");
    let ran = sandtable(folder.path(), &["plan", "spec.ron"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    std::fs::write(folder.path().join("spec.ron"), "\n").expect("written");
    let ran = sandtable(folder.path(), &["plan", "spec.ron"]);
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("the file is empty: expected `Experiment("), "{}", ran.stderr);
}

#[test]
fn what_cannot_work_is_found_before_it_runs() {
    let base = |policy: &str, more: &str| {
        format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0), workload: Generate(jobs: 20, \
             arrivals: Poisson(load: 0.5)), policies: [Policy(name: \"fifo\"), {policy}], seeds: Range(0, 5), {more})"
        )
    };
    let (folder, policies) = (tempfile::tempdir().expect("a folder"), dist());
    let fifo = "Policy(name: \"fifo\", label: \"b\")";
    let claim =
        |holds: &str| format!("claims: [Claim(says: \"s\", of: \"b\", metric: \"jct_mean_s\", holds: {holds})]");
    for (spec, why) in [
        (base("Policy(name: \"srtf\")", ""), "srtf needs to be told remaining"),
        (base("Policy(name: \"las\", with: {\"limits\": [7, 3]})", ""), "expected a list of ascending numbers"),
        (base("Policy(name: \"las\", with: {\"limit\": 7})", ""), "no parameter `limit`"),
        (base("Policy(name: \"srtf\")", "predictors: {\"remaining\": Declared}"), "no job declares it"),
        (
            base("Policy(name: \"mlp\")", ""),
            "mlp needs to be told weights: name a file of them, `weights` of the policy",
        ),
        (base("Policy(name: \"mlp\", weights: \"./none.json\")", ""), "none.json: No such file or directory"),
        (base("Policy(name: \"mlp\", weights: \"iasp-synthetic.json\")", ""), "weights: unknown field"),
        (
            base("Policy(name: \"kai-like\", with: {\"victims\": \"least-done\"})", "queues: [Queue(name: \"a\")]")
                .replace("load: 0.5)", "load: 0.5), queues: {\"a\": 1}"),
            "`victims` of kai-like needs to be told progress: reveal it",
        ),
        (
            base("Policy(name: \"kai-like\", with: {\"usage\": {\"b\": 0.5}})", "queues: [Queue(name: \"a\")]")
                .replace("load: 0.5)", "load: 0.5), queues: {\"a\": 1}"),
            "`usage`: no queue is called \"b\"",
        ),
        (base(fifo, &claim("Between(5, 1)")), "the smaller first"),
        (base(fifo, &claim("AtMost(NaN)")), "the smaller first"),
        (base(fifo, &claim("AtMost(1)").replace("jct_mean_s", "jct_men_s")), "did you mean `jct_mean_s`?"),
    ] {
        std::fs::write(folder.path().join("spec.ron"), &spec).expect("written");
        let args = ["run", "spec.ron", "--no-progress", "--store", "store", "--policies", &policies];
        let ran = sandtable(folder.path(), &args);
        assert_eq!(ran.code, 2, "{spec}: {}", ran.stderr);
        assert!(ran.stderr.contains(why) && ran.stderr.contains("spec.ron:1:"), "{why}: {}", ran.stderr);
        assert!(!ran.stderr.contains("cells executed"), "{}", ran.stderr);
    }
}
