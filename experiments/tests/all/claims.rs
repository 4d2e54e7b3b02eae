//! Claims: where they are stated, what they rest on, and the table of all of them in the book.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sandtable::claim::{ExpectedFailures, scope};
use sandtable::input::sorted;
use sandtable::plan::{Options, plan};
use sandtable_needs::needs;

use crate::help::{Ran, dist, root, sandtable};

/// Runs a spec of FIFO and SRTF with these claims, sweep and seeds.
fn run(folder: &Path, sweep: &str, claims: &str, flags: &[&str]) -> Ran {
    let spec = format!(
        "Experiment(title: \"claims\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), \
         workload: Generate(jobs: 40, arrivals: Poisson(load: 1.5), durations: LogNormal(median: \"10min\", sigma: 1.0), \
         gpus: {{1: 1.0}}), policies: [Policy(name: \"fifo\"), Policy(name: \"srtf\")], \
         predictors: {{\"remaining\": Oracle}}, seeds: Range(0, 3), sweep: {{{sweep}}}, claims: [{claims}])"
    );
    std::fs::write(folder.join("spec.ron"), spec).expect("written");
    let policies = dist();
    let mut args = vec!["run", "spec.ron", "--store", "store", "--policies", &policies, "--no-progress"];
    args.extend(flags);
    sandtable(folder, &args)
}

const LOADS: &str = "\"workload.arrivals.load\": [0.9, 1.5]";
const SHORTER: &str = "says: \"shorter\", of: \"srtf\", against: \"fifo\", metric: \"jct_mean_s\", holds: AtMost(0.0)";

fn rows(ran: &Ran) -> Vec<&str> {
    ran.stdout.lines().filter(|line| line.starts_with("shorter")).collect()
}

#[test]
fn a_claim_says_for_which_values_of_the_sweep_it_is_stated() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = run(folder.path(), LOADS, &format!("Claim({SHORTER})"), &[]);
    assert_eq!(open.code, 2, "{}", open.stdout);
    assert!(open.stderr.contains("the claim leaves open `workload.arrivals.load` (0.9, 1.5)"), "{}", open.stderr);
    assert!(open.stderr.contains("`at: Each`") && open.stderr.contains("over:"), "{}", open.stderr);
    let each = run(folder.path(), LOADS, &format!("Claim({SHORTER}, at: Each)"), &[]);
    assert_eq!((each.code, rows(&each).len()), (0, 2), "{}", each.stderr);
    assert!(rows(&each)[0].contains("srtf vs fifo workload.arrivals.load=0.9"), "{}", each.stdout);
    let one = run(folder.path(), LOADS, &format!("Claim({SHORTER}, at: {{\"workload.arrivals.load\": 1.5}})"), &[]);
    assert_eq!(rows(&one).len(), 1, "{}", one.stdout);
    // Averaged within each seed: three runs, not six.
    let over = run(
        folder.path(),
        LOADS,
        &format!("Claim({SHORTER}, over: [\"workload.arrivals.load\"])"),
        &["--format", "json"],
    );
    assert!(
        over.stdout.contains("\"over\":[\"workload.arrivals.load\"]") && over.stdout.contains("\"runs\":3"),
        "{}",
        over.stdout
    );
    let added = run(folder.path(), "", &format!("Claim({SHORTER})"), &["--sweep", "fleet.nodes=1,2"]);
    assert_eq!((added.code, rows(&added).len()), (0, 2), "{}", added.stderr);
    for (claim, expected) in [
        (format!("Claim({SHORTER}, over: [\"fleet.nodes\"], at: Each)"), "`fleet.nodes` is not swept"),
        (
            format!("Claim({SHORTER}, over: [\"workload.arrivals.load\"], at: {{\"workload.arrivals.load\": 1.5}})"),
            "`workload.arrivals.load` is in `at` too",
        ),
        (format!("Claim({SHORTER}, at: {{\"workload.arrivals.load\": 7}})"), "the sweep never has these values"),
        (format!("Claim({SHORTER}, at: Each, published: (0.2, 0.1))"), "a range has the smaller figure first"),
        (format!("Claim({SHORTER}, at: Every)"), "expected `Each`, or values of the sweep by path"),
    ] {
        let ran = run(folder.path(), LOADS, &claim, &[]);
        assert_eq!(ran.code, 2, "{claim}: {}", ran.stdout);
        assert!(ran.stderr.contains(expected), "{claim}: {}", ran.stderr);
    }
}

#[test]
fn comparisons_are_drawn_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let draw = || sandtable(folder.path(), &["claims", "spec.ron", "--store", "store", "--figure", "f.svg"]);
    run(folder.path(), LOADS, &format!("Claim({SHORTER}, at: Each)"), &[]);
    assert_eq!(draw().code, 0);
    let svg = std::fs::read_to_string(folder.path().join("f.svg")).expect("a figure");
    for row in ["srtf against fifo, load 0.9: jct_mean_s", "srtf against fifo, load 1.5: jct_mean_s"] {
        assert!(svg.contains(row), "{svg}");
    }
    run(folder.path(), "", "Claim(says: \"s\", of: \"fifo\", metric: \"jct_mean_s\", holds: AtMost(1e9))", &[]);
    let none = draw();
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("nothing to draw"), "{}", none.stderr);
}

#[test]
fn a_failed_cell_is_a_line_of_its_claim() {
    let folder = tempfile::tempdir().expect("a folder");
    // Fuel that some seeds get along with: none here, so every run fails.
    let ran = run(folder.path(), "", &format!("Claim({SHORTER})"), &["--set", "limits=(fuel: 2000)", "--check"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(rows(&ran)[0].contains("CELLS FAILED"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("failed: srtf seed 0:") && ran.stdout.contains("failed: fifo seed 2:"),
        "{}",
        ran.stdout
    );
}

#[test]
fn runs_that_are_the_same_count_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = format!(
        "Experiment(title: \"same\", fleet: Model(nodes: 1, gpus: 1, kind: \"T4\"), workload: Jobs([\
         Job(submit: \"0s\", gpus: 1, duration: \"1h\"), Job(submit: \"1s\", gpus: 1, duration: \"10min\")]), \
         policies: [Policy(name: \"fifo\"), Policy(name: \"srtf\")], predictors: {{\"remaining\": Oracle}}, \
         seeds: Range(0, 20), claims: [Claim({SHORTER})])"
    );
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert!(rows(&ran)[0].contains("holds, one run"), "{}", ran.stdout);
    assert!(ran.stdout.contains("19 further seeds gave the same results and count once"), "{}", ran.stdout);
}

#[test]
fn an_unexpected_pass_is_an_error_as_an_unexpected_failure_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let listed = |says: &str| {
        let entry = format!("[(spec: \"spec\", says: \"{says}\", of: \"srtf vs fifo\", because: \"so it is\")]");
        std::fs::write(folder.path().join("expected.ron"), entry).expect("written");
    };
    let flags = ["--check", "--expected", "expected.ron"];
    let (holds, fails) = (format!("Claim({SHORTER})"), format!("Claim({})", SHORTER.replace("0.0", "-0.99")));
    listed("shorter");
    assert_eq!(run(folder.path(), "", &fails, &flags).code, 0);
    let passed = run(folder.path(), "", &holds, &flags);
    assert_eq!(passed.code, 1);
    assert!(passed.stderr.contains("`shorter`, srtf vs fifo: holds, expected to fail"), "{}", passed.stderr);
    listed("longer");
    let failed = run(folder.path(), "", &fails, &flags);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("`shorter`, srtf vs fifo: FAILS"), "{}", failed.stderr);
    assert!(
        failed.stderr.contains("`longer`, srtf vs fifo: expected to fail, but there is no such claim"),
        "{}",
        failed.stderr
    );
}

fn specs(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in sorted(folder).expect("a folder") {
        match path.is_dir() {
            true if !path.ends_with("profiles") => specs(&path, found),
            false if path.extension().is_some_and(|ending| ending == "ron") => found.push(path),
            _ => {}
        }
    }
}

/// The table in the book has every claim of every spec and no other; what it says fails is what the list of expected failures
/// has.
#[needs("data:pollux", "data:deepboot", "data:gavel", "data:lucid", "data:torchvision-gpu-bench")]
#[test]
fn the_table_of_claims_is_the_specs_claims() {
    let page = std::fs::read_to_string(root().join("docs/src/reference/claims.md")).expect("the table");
    let (mut section, mut shown, mut failing) = (String::new(), BTreeSet::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            section = name.to_string();
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if line.starts_with("| ") && !["claim", "---"].contains(&cells[0]) {
            let row = (section.clone(), cells[0].to_string(), cells[1].to_string());
            assert!(!cells.contains(&"not measured") && !cells.contains(&"incomplete"), "{line}");
            // One whose mean fails is listed too, however sure it is.
            if cells.iter().any(|cell| cell.starts_with("FAILS") || *cell == "inconclusive, mean fails") {
                failing.insert(row.clone());
            }
            assert!(shown.insert(row), "{line} stands twice");
        }
    }
    let folder = root().join("experiments/specs");
    let (mut all, mut claims) = (Vec::new(), BTreeSet::new());
    specs(&folder, &mut all);
    for path in all {
        if !std::fs::read_to_string(&path).expect("a spec").contains("claims:") {
            continue;
        }
        let plan = plan(&path, &Options { policies: Some(dist().into()), ..Options::default() }).expect("a plan");
        let name = path.strip_prefix(&folder).expect("below").with_extension("").display().to_string();
        claims.extend(plan.claims.iter().map(|claim| (name.clone(), claim.spec.says.clone(), scope(claim))));
    }
    let odd: Vec<_> = shown.symmetric_difference(&claims).collect();
    assert!(odd.is_empty(), "in one of table and specs alone (`just figures`, `just claims`): {odd:#?}");
    let expected = ExpectedFailures::read(&root().join("experiments/expected-failures.ron")).expect("the list");
    let listed: BTreeSet<_> =
        expected.entries().iter().map(|one| (one.spec.clone(), one.says.clone(), one.of.clone())).collect();
    assert_eq!(failing, listed, "experiments/expected-failures.ron names every claim whose mean fails, and no other");
}
