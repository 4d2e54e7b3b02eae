//! Results as people read them: reports in every format, comparisons, explanations, lives of jobs, bundles.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::guest::{Act, Parts, guest, then_decide};
use crate::help::{Ran, dist, root, sandtable};

pub(crate) const SPEC: &str = r#"Experiment(
    title: "Two <policies> & \"more\"",
    fleet: Model(nodes: 2, gpus: 4, kind: "V100-SXM2-16GB"),
    costs: Costs(checkpoint: "5s", restore: "10s"),
    workload: Generate(jobs: 50, arrivals: Poisson(load: 1.3), durations: LogNormal(median: "10min", sigma: 1.2), gpus: {1: 0.6, 2: 0.3, 8: 0.1}),
    policies: [Policy(name: "fifo"), Policy(name: "fifo", label: "again"), Policy(name: "las")],
    seeds: Range(0, 6),
)
"#;

/// The spec at two loads.
pub(crate) fn swept() -> String {
    SPEC.replace("seeds: Range(0, 6),", "seeds: Range(0, 6),\n    sweep: {\"workload.arrivals.load\": [0.8, 1.3]},")
}

/// A folder with results of the spec.
pub(crate) fn results(spec: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let ran = ask(folder.path(), &["run", "spec.ron"]);
    assert!(ran.code == 0 || ran.code == 3, "{}", ran.stderr);
    folder
}

pub(crate) fn ask(folder: &Path, args: &[&str]) -> Ran {
    let dist = dist();
    let mut all = args.to_vec();
    all.extend(["--policies", &dist, "--store", "store"]);
    sandtable(folder, &all)
}

pub(crate) fn lines(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn reports_come_in_every_format_and_a_page_is_the_same_to_the_byte() {
    let folder = results(SPEC);
    let page = || {
        let dist = dist();
        let args = ["report", "spec.ron", "--policies", &dist, "--store", "store"];
        let output = crate::help::command(folder.path(), &args).env("SOURCE_DATE_EPOCH", "1790000000").output();
        assert!(output.expect("it runs").status.success());
        std::fs::read_to_string(folder.path().join("spec.html")).expect("a page")
    };
    let first = page();
    assert!(first == page(), "two pages differ");
    assert!(first.contains("2026-09-21") && first.contains("Two &lt;policies&gt; &amp;"), "dated, and escaped");
    // Nothing is fetched: every address of the page is its own.
    for attribute in ["src=", "url(h", "url(/", "@import", "<link rel=\"stylesheet", "fetch("] {
        assert!(!first.contains(attribute), "{attribute}");
    }
    let report = |args: &[&str]| {
        let mut all = vec!["report", "spec.ron"];
        all.extend(args);
        let ran = ask(folder.path(), &all);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    report(&["-o", "r.md"]);
    assert!(read("r.md").contains("| las | 6 |"), "{}", read("r.md"));
    report(&["-o", "r.svg", "--figure", "waiting"]);
    assert!(read("r.svg").starts_with("<svg") && !read("r.svg").contains("var("));
    report(&["-o", "r.csv", "--rows", "jobs"]);
    assert_eq!(read("r.csv").lines().count(), 1 + 3 * 6 * 50);
    report(&["-o", "r.jsonl"]);
    let rows: Vec<Value> = read("r.jsonl").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 18);
    assert!(rows.iter().all(|row| row["jct_mean_s"].as_f64() > Some(0.0) && row["task_wait_mean_s"].is_null()));
    for (args, why) in [
        (vec!["-o", "r.docx"], "no report ends in `.docx`"),
        (vec!["-o", "r.svg", "--figure", "jtc"], "expected one of: jct, waiting, slowdown, rho, utilisation"),
        (vec!["-o", "r.svg", "--width", "3.3"], "expected a number and a unit"),
        (vec!["-o", "r.svg", "--metric", "jct"], "no metric `jct`"),
        (vec!["-o", "r.svg", "--metric", "makespan"], "`jct` is of jobs"),
        (
            vec!["-o", "r.svg", "--figure", "policies", "--metric", "queues-short"],
            "no figure `policies` of `queues_short`",
        ),
        (vec!["-o", "r.svg", "--height", "1in", "--width", "3in", "--size", "10"], "no room for words of 10 points"),
        (vec!["-o", "r.html", "--width", "3in"], "a figure alone is"),
        (vec!["-o", "r.csv", "--columns", "makespan"], "--columns are those of"),
        (vec!["--set", "fleet.nodes=3"], "no cell has a result"),
        (vec!["--template", "spec.ron", "-o", "none/x.html"], "cannot write none/x.html"),
    ] {
        let mut all = vec!["report", "spec.ron"];
        all.extend(args);
        let ran = ask(folder.path(), &all);
        assert!(ran.code != 0 && ran.stderr.contains(why), "{why}: {}", ran.stderr);
    }
}

#[test]
fn comparisons_pair_seeds_and_show_where_two_policies_part() {
    let folder = results(SPEC);
    let same = ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "again"]);
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert!(same.stderr.contains("never decide differently, in any of 6 pairs"), "{}", same.stderr);
    assert!(!same.stdout.contains("higher") && !same.stdout.contains("lower"), "{}", same.stdout);

    let other =
        ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "las", "--format", "json", "--jobs", "3"]);
    let rows = lines(&other);
    let metric = rows.iter().find(|row| row["metric"] == "jct_mean_s").expect("a metric");
    let [low, high] = [0, 1].map(|at| metric["interval_95"][at].as_f64().expect("a bound"));
    let mean = metric["change"].as_f64().expect("a change");
    assert!(low <= mean && mean <= high && metric["pairs"] == 6, "{metric}");
    assert_eq!(rows.iter().filter(|row| row["kind"] == "job").count(), 3);
    let decision = rows.iter().find(|row| row["kind"] == "decision").expect("a decision");
    assert_ne!(decision["first"], decision["second"]);
    // What it says is so: until then nobody's start differs, then somebody's does.
    let at = decision["at_s"].as_f64().expect("an instant");
    let starts = |label: &str| {
        let ran = ask(folder.path(), &["report", "spec.ron", "--only", label, "--rows", "stays", "-o", "stays.jsonl"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let text = std::fs::read_to_string(folder.path().join("stays.jsonl")).expect("a file");
        let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let rows = rows.filter(|row| row["seed"] == 0);
        let mut all: Vec<(u64, String, String)> = rows
            .map(|row| {
                (
                    (row["from_s"].as_f64().expect("a number") * 1e6) as u64,
                    row["job_id"].to_string(),
                    row["gpus"].to_string(),
                )
            })
            .collect();
        all.sort();
        all
    };
    let until = (at * 1e6) as u64;
    let before = |all: &[(u64, String, String)]| all.iter().filter(|one| one.0 < until).cloned().collect::<Vec<_>>();
    let (fifo, las) = (starts("fifo"), starts("las"));
    assert_eq!(before(&fifo), before(&las));
    assert_ne!(fifo, las);

    // Two specs, label by label, and what differs beside the policy.
    std::fs::write(folder.path().join("other.ron"), SPEC.replace("restore: \"10s\"", "restore: \"90s\""))
        .expect("written");
    assert_eq!(ask(folder.path(), &["run", "other.ron"]).code, 0);
    let specs = ask(folder.path(), &["compare", "spec.ron", "other.ron", "--metric", "jct-mean"]);
    assert_eq!(specs.code, 0, "{}", specs.stderr);
    assert!(specs.stdout.contains("fleet.costs.restore: 10000000 -> 90000000"), "{}", specs.stdout);
    // Two cells, by their ids.
    let plan = ask(folder.path(), &["plan", "spec.ron", "--format", "csv"]);
    let ids: Vec<&str> = plan.stdout.lines().skip(1).map(|line| &line[..12]).collect();
    let cells = ask(folder.path(), &["compare", ids[0], ids[12]]);
    // `compare` of ids reads no spec.
    assert_eq!(cells.code, 0, "{}", cells.stderr);
    assert!(
        cells.stdout.contains("(single run)") && cells.stderr.contains("name specs instead of ids"),
        "{}",
        cells.stdout
    );
    for (args, why) in [
        (vec!["compare", "fifo", "las"], "a policy's label needs its spec"),
        (vec!["compare", "--spec", "spec.ron", "fifo", "lsa"], "spec.ron has again, fifo, las"),
        (vec!["compare", "--spec", "spec.ron", "fifo", "las", "--metric", "jct_meann"], "did you mean `jct_mean`?"),
        (vec!["compare", "abcdef0123", "las"], "no cell `abcdef0123…`"),
        (vec!["compare", "spec.ron", "spec.ron", "--set", "fleet.nodes=3"], "have no result yet"),
    ] {
        let ran = ask(folder.path(), &args);
        assert!(ran.code != 0 && ran.stderr.contains(why), "{why}: {}", ran.stderr);
    }
}

#[test]
fn the_life_of_a_job_and_a_timeline_for_other_tools() {
    let folder = results(SPEC);
    let life = ask(folder.path(), &["show", "spec.ron", "--only", "las", "--job", "7", "--format", "json"]);
    let moments = lines(&life);
    let said: Vec<&str> = moments.iter().filter_map(|row| row["what"].as_str()).collect();
    assert!(said[0].starts_with("job 7 arrived") && said.last().expect("an end").ends_with("job 7 ended"), "{said:?}");
    assert!(
        moments
            .iter()
            .any(|row| row["policy"] == "says" && row["what"].as_str().expect("words").starts_with("start 7"))
    );
    let times: Vec<f64> = moments.iter().filter_map(|row| row["at_s"].as_f64()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let unknown = ask(folder.path(), &["show", "spec.ron", "--only", "las", "--job", "seven"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("jobs are 0 to 49"), "{}", unknown.stderr);
    let several = ask(folder.path(), &["show", "spec.ron"]);
    assert!(several.code == 2 && several.stderr.contains("--only LABEL: again, fifo, las"), "{}", several.stderr);

    let traced = ask(folder.path(), &["show", "spec.ron", "--only", "las", "--chrome-trace", "-"]);
    let trace: Value = serde_json::from_str(&traced.stdout).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    for event in events {
        // What the format asks of each kind of event.
        let is = |key: &str| event[key].is_u64();
        let whole = match event["ph"].as_str().expect("a kind") {
            "M" => event["args"]["name"].is_string(),
            "X" => is("ts") && is("dur") && is("pid") && is("tid") && event["name"].is_string(),
            "C" => is("ts") && event["args"]["count"].as_i64() >= Some(0),
            _ => false,
        };
        assert!(whole, "{event}");
    }
    // GPU-time of the trace is that of the timeline.
    let held: u64 = events.iter().filter(|event| event["ph"] == "X").filter_map(|event| event["dur"].as_u64()).sum();
    let rows = ask(folder.path(), &["report", "spec.ron", "--only", "las", "--rows", "jobs", "-o", "jobs.jsonl"]);
    assert_eq!(rows.code, 0, "{}", rows.stderr);
    let text = std::fs::read_to_string(folder.path().join("jobs.jsonl")).expect("a file");
    let rows =
        text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).filter(|row| row["seed"] == 0);
    let expected: f64 =
        rows.map(|row| row["held_s"].as_f64().unwrap_or(0.0) * row["gpus"].as_f64().unwrap_or(0.0)).sum();
    assert!((held as f64 / 1e6 - expected).abs() < 0.01, "{held} {expected}");
}

#[test]
fn explanations_name_what_would_have_a_cell_run_again() {
    let folder = results(SPEC);
    let done = ask(folder.path(), &["explain", "spec.ron", "--only", "las"]);
    assert!(done.stdout.contains("done: nothing would run") && done.stdout.contains("b3sum"), "{}", done.stdout);
    // The proof that it offers holds.
    let line = done.stdout.lines().find(|line| line.contains("b3sum")).expect("a command");
    let file = line.rsplit(' ').next().expect("a file");
    let id = Path::new(file).parent().and_then(Path::file_name).expect("an id").to_string_lossy().to_string();
    assert_eq!(sandtable::digest::digest(&std::fs::read(file).expect("cell.json")), id);
    let other =
        ask(folder.path(), &["explain", "spec.ron", "--only", "las", "--set", "fleet.nodes=3", "--format", "json"]);
    let first = &lines(&other)[0];
    assert_eq!(first["differences"][0]["path"], "fleet.nodes");
    assert_eq!(first["differences"].as_array().expect("a list").len(), 1);
    let plan = ask(folder.path(), &["plan", "spec.ron", "--only", "las", "--set", "fleet.nodes=3"]);
    assert!(plan.stdout.contains("missing, changed: fleet.nodes"), "{}", plan.stdout);
    let with = ask(
        folder.path(),
        &["plan", "spec.ron", "--only", "fifo", "--set", "policies.fifo.with={\"backfill\": \"skip\"}"],
    );
    assert!(with.stdout.contains("missing, changed: policy.config"), "{}", with.stdout);
}

#[test]
fn failed_cells_and_rejected_jobs_are_shown_for_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let parts = Parts { plans: vec![vec![Act::Start(99, vec![0])]], decide: then_decide(""), ..Parts::default() };
    std::fs::write(folder.path().join("evil.wasm"), guest(&parts)).expect("written");
    let spec = SPEC.replace("Policy(name: \"las\")", "Policy(name: \"./evil.wasm\")").replace("8: 0.1", "64: 0.1");
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    assert_eq!(ask(folder.path(), &["run", "spec.ron"]).code, 3);
    let page = ask(folder.path(), &["report", "spec.ron", "-o", "page.html"]);
    assert_eq!(page.code, 0, "{}", page.stderr);
    let text = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(text.contains("6 cells failed") && text.contains("failed</td>"));
    let shown = ask(folder.path(), &["show", "spec.ron", "--only", "evil"]);
    assert!(shown.code == 3 && shown.stdout.contains("bad-plan"), "{}", shown.stdout);
    let compared = ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "evil"]);
    assert!(compared.code != 0 && compared.stderr.contains("a policy failed"), "{}", compared.stderr);
    // A job that no fleet of this size holds never starts: its life says so.
    let jobs = ask(folder.path(), &["report", "spec.ron", "--only", "fifo", "--rows", "jobs", "-o", "jobs.jsonl"]);
    assert_eq!(jobs.code, 0, "{}", jobs.stderr);
    let text = std::fs::read_to_string(folder.path().join("jobs.jsonl")).expect("a file");
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let large = all.iter().find(|row| row["seed"] == 0 && row["gpus"] == 64).expect("a large job");
    let life =
        ask(folder.path(), &["show", "spec.ron", "--only", "fifo", "--job", large["job_id"].as_str().expect("a name")]);
    assert!(life.code == 0 && life.stdout.contains("rejected"), "{}{}", life.stdout, life.stderr);
}

#[test]
fn a_bundle_is_the_same_bytes_and_verifies_anywhere_else() {
    let folder = results(SPEC);
    let bundle = |name: &str| ask(folder.path(), &["bundle", "spec.ron", "-o", name]);
    assert_eq!(bundle("a.tar.zst").code, 0);
    assert_eq!(bundle("b.tar.zst").code, 0);
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).expect("a bundle");
    assert!(bytes("a.tar.zst") == bytes("b.tar.zst"), "two bundles differ");
    let elsewhere = tempfile::tempdir().expect("a folder");
    std::fs::copy(folder.path().join("a.tar.zst"), elsewhere.path().join("a.tar.zst")).expect("copied");
    let verified = sandtable(elsewhere.path(), &["verify", "a.tar.zst"]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
    assert!(verified.stdout.contains("18 cells identical, 0 different, 0 missing"), "{}", verified.stdout);

    // A changed result, a changed policy, half a file, no bundle at all.
    let unpacked = zstd::decode_all(bytes("a.tar.zst").as_slice()).expect("zstd");
    let repack = |change: &dyn Fn(&str, &mut Vec<u8>)| {
        let mut archive = tar::Archive::new(unpacked.as_slice());
        let mut out = tar::Builder::new(Vec::new());
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let name = entry.path().expect("a path").display().to_string();
            let mut contents = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut contents).expect("bytes");
            change(&name, &mut contents);
            let mut header = tar::Header::new_gnu();
            header.set_size(contents.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            out.append_data(&mut header, name, contents.as_slice()).expect("appended");
        }
        zstd::encode_all(out.into_inner().expect("a tar").as_slice(), 1).expect("zstd")
    };
    let spoilt = |name: &str, contents: &mut Vec<u8>| {
        if name.ends_with("jobs.csv") {
            contents[100] ^= 1;
        }
    };
    // One that hides it: the hash in bundle.json is that of the changed file.
    let forged = |name: &str, contents: &mut Vec<u8>| {
        if name == "bundle.json" {
            let text = String::from_utf8(contents.clone()).expect("text");
            let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
            let files = manifest["files"].as_object_mut().expect("files");
            for (_, hash) in files.iter_mut().filter(|(file, _)| file.ends_with("summary.json")) {
                *hash = Value::from(sandtable::digest::digest(b"{}"));
            }
            *contents = manifest.to_string().into_bytes();
        } else if name.ends_with("summary.json") {
            *contents = b"{}".to_vec();
        }
    };
    // Names that lead somewhere else: compiled code for the cache, files outside, cells that are none.
    let manifest = |edit: &'static dyn Fn(&mut Value)| {
        repack(&move |name, contents| {
            if name == "bundle.json" {
                let mut manifest: Value = serde_json::from_slice(contents).expect("JSON");
                edit(&mut manifest);
                *contents = manifest.to_string().into_bytes();
            }
        })
    };
    let smuggled = {
        let mut out = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        header.set_cksum();
        out.append_data(&mut header, "code/modules/wasmtime", &b"code"[..]).expect("appended");
        zstd::encode_all(out.into_inner().expect("a tar").as_slice(), 1).expect("zstd")
    };
    let cut = bytes("a.tar.zst")[..2000].to_vec();
    for (what, code, why) in [
        (repack(&spoilt), 1, "was changed"),
        (repack(&forged), 1, "differs in summary.json"),
        (cut, 2, "not a bundle of Sandtable"),
        (smuggled, 2, "code/modules/wasmtime has no place in one"),
        (manifest(&|of| of["left_out"] = serde_json::json!({"tree/../../x": "00"})), 2, "is not in its tree"),
        (manifest(&|of| of["left_out"] = serde_json::json!({"/tmp/x": "00"})), 2, "is not in its tree"),
        (manifest(&|of| of["spec"] = "/etc/passwd".into()), 2, "is not in its tree"),
        (manifest(&|of| of["cells"] = serde_json::json!(["x", "y"])), 1, "is another experiment here"),
        (b"none".to_vec(), 2, "not a bundle of Sandtable"),
    ] {
        std::fs::write(elsewhere.path().join("x.tar.zst"), what).expect("written");
        let ran = sandtable(elsewhere.path(), &["verify", "x.tar.zst"]);
        assert_eq!(ran.code, code, "{why}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
    }
    let unfinished = ask(folder.path(), &["bundle", "spec.ron", "--set", "fleet.nodes=3", "-o", "c.tar.zst"]);
    assert_eq!(unfinished.code, 4, "{}", unfinished.stderr);
}

/// Predictors, weights, profiles and recordings travel too; traces may stay at home.
#[test]
fn a_bundle_says_what_it_is_to_archives_and_to_reviewers() {
    let folder = results(SPEC);
    let words = [
        "bundle",
        "spec.ron",
        "-o",
        "a.tar.zst",
        "--appendix",
        "a.md",
        "--license",
        "CC-BY-4.0",
        "--date",
        "2026-11-28",
    ];
    assert_eq!(ask(folder.path(), &words).code, 0);
    let unpacked =
        zstd::decode_all(std::fs::File::open(folder.path().join("a.tar.zst")).expect("a bundle")).expect("zstd");
    let mut archive = tar::Archive::new(unpacked.as_slice());
    let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).expect("bytes");
        found.insert(entry.path().expect("a path").display().to_string(), bytes);
    }
    let about: Value = serde_json::from_slice(&found["ro-crate-metadata.json"]).expect("JSON");
    let entities = about["@graph"].as_array().expect("a graph");
    let of = |id: &str| entities.iter().find(|entity| entity["@id"] == id).unwrap_or_else(|| panic!("no {id}"));
    assert_eq!(of("ro-crate-metadata.json")["conformsTo"]["@id"], "https://w3id.org/ro/crate/1.1");
    assert_eq!(
        (&of("./")["datePublished"], &of("./")["license"]["@id"]),
        (&"2026-11-28".into(), &"https://spdx.org/licenses/CC-BY-4.0".into())
    );
    // Each file but the two that list them, each with its hash; and nothing is referred to that is not there.
    for (name, bytes) in
        found.iter().filter(|(name, _)| !["bundle.json", "ro-crate-metadata.json"].contains(&name.as_str()))
    {
        assert_eq!(of(name)["identifier"], format!("blake3:{}", sandtable_core::digest::digest(bytes)));
    }
    for part in ["hasPart", "mentions"].iter().flat_map(|part| of("./")[*part].as_array().cloned().unwrap_or_default())
    {
        of(part["@id"].as_str().expect("an id"));
    }
    assert_eq!(
        of("#run")["result"].as_array().map(Vec::len),
        Some(found.keys().filter(|name| name.starts_with("results/")).count())
    );
    let appendix = std::fs::read_to_string(folder.path().join("a.md")).expect("an appendix");
    for part in [
        "## Abstract",
        "## Check-list",
        "18 runs",
        "**Time to run**: about ",
        "$ sandtable verify a.tar.zst",
        "## Customisation",
    ] {
        assert!(appendix.contains(part), "{part}: {appendix}");
    }
    let wrong = ask(folder.path(), &["bundle", "spec.ron", "-o", "a.tar.zst", "--date", "2026-02-30"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("--date"), "{}", wrong.stderr);
}

#[test]
fn a_bundle_has_all_that_a_spec_names() {
    let folder = tempfile::tempdir().expect("a folder");
    for spec in ["geng2020/v100.ron", "hardware/replay.ron", "horus2022/batch.ron", "deepboot2023/mechanisms.ron"] {
        let path = root().join("experiments/specs").join(spec).display().to_string();
        let ran = sandtable(folder.path(), &["run", &path, "--test", "--store", "store"]);
        assert_eq!(ran.code, 0, "{spec}: {}", ran.stderr);
        let packed = sandtable(folder.path(), &["bundle", &path, "--test", "--store", "store", "-o", "x.tar.zst"]);
        assert_eq!(packed.code, 0, "{spec}: {}", packed.stderr);
        let verified = sandtable(folder.path(), &["verify", "x.tar.zst"]);
        assert_eq!(verified.code, 0, "{spec}: {}", verified.stderr);
    }
    // A trace beside the spec's folder, left out.
    std::fs::create_dir_all(folder.path().join("data")).expect("made");
    std::fs::create_dir_all(folder.path().join("specs")).expect("made");
    std::fs::write(folder.path().join("data/jobs.csv"), "submit_s,gpus,duration_s\n0,1,60\n5,2,30\n").expect("written");
    let spec = SPEC.split("    workload:").next().expect("a head").to_string()
        + "    workload: Trace(file: \"../data/jobs.csv\"), policies: [Policy(name: \"fifo\")])";
    std::fs::write(folder.path().join("specs/spec.ron"), spec).expect("written");
    assert_eq!(ask(folder.path(), &["run", "specs/spec.ron"]).code, 0);
    let packed = ask(folder.path(), &["bundle", "specs/spec.ron", "--without-data", "-o", "y.tar.zst"]);
    assert!(packed.code == 0 && packed.stderr.contains("left out: data/jobs.csv"), "{}", packed.stderr);
    let alone = sandtable(folder.path(), &["verify", "y.tar.zst"]);
    assert!(alone.code == 2 && alone.stderr.contains("--data DIR"), "{}", alone.stderr);
    let given = sandtable(folder.path(), &["verify", "y.tar.zst", "--data", "data"]);
    assert_eq!(given.code, 0, "{}", given.stderr);
}

/// What a stranger's spec names is read below its bundle alone, the graphs of its profile too.
#[test]
fn nothing_outside_of_a_bundle_is_read() {
    use sandtable::plan::{Options, plan};
    let outside = tempfile::tempdir().expect("a folder");
    let root = outside.path().join("tree");
    std::fs::create_dir(&root).expect("made");
    std::fs::write(outside.path().join("secret.onnx"), "a secret").expect("written");
    let options = Options { policies: Some(dist().into()), within: Some(root.clone()), ..Options::default() };
    for model in ["../secret.onnx".to_string(), outside.path().join("secret.onnx").display().to_string()] {
        let profile = format!(
            "Profile(about: \"x\", workloads: [(name: \"a\", family: \"f\", model: {model:?})], \
             gpus: [Gpu(kind: \"K80\", sources: {{\"all\": \"x\"}}, solo: {{}})])"
        );
        std::fs::write(root.join("profile.ron"), &profile).expect("written");
        for named in ["File(\"profile.ron\")".to_string(), format!("Inline({profile})")] {
            let spec = format!(
                "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 1, kind: \"K80\"), profile: {named}, \
                 workload: Jobs([Job(submit: \"0s\", gpus: 1, duration: \"1s\", workload: \"a\")]), policies: [Policy(name: \"fifo\")])"
            );
            let path = root.join("spec.ron");
            std::fs::write(&path, spec).expect("written");
            let error = plan(&path, &options).map(drop).expect_err("it leads out");
            assert!(error.message.contains("leads out of the bundle"), "{}", error.message);
        }
    }
}
