//! What metrics say, against cases computed by hand.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable::execute::execute;
use sandtable::plan::{Options, plan};
use sandtable_needs::needs;
use sandtable_policy::testing::data;
use sandtable_runtime::Summary;

use crate::help::{Ran, compiled, dist, root, sandtable};

/// The spec of a policy on one GPU; `jobs`: submission and duration, s.
fn spec(policy: &str, jobs: &[(u32, u32)], more: &str) -> String {
    let job = |(submit, s): &(u32, u32)| format!("Job(submit: \"{submit}s\", gpus: 1, duration: \"{s}s\"), ");
    let jobs: String = jobs.iter().map(job).collect();
    format!(
        "Experiment(title: \"measured\", fleet: Model(nodes: 1, gpus: 1, kind: \"g\", speed: 1.0), workload: Jobs([{jobs}]), \
         policies: [Policy(name: \"{policy}\")], predictors: {{\"remaining\": Oracle}}, {more})"
    )
}

fn summary(policy: &str, jobs: &[(u32, u32)], more: &str) -> Summary {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spec.ron");
    std::fs::write(&path, spec(policy, jobs, more)).expect("written");
    let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
    let plan = plan(&path, &options).unwrap_or_else(|error| panic!("{error}"));
    let compiled = compiled(&plan);
    execute(&plan.cells[0], &compiled).expect("a result").outcome.expect("a summary")
}

/// FIFO runs them from 0 to 100, 100 to 200, 200 to 300, and 400 to 410.
const FOUR: &[(u32, u32)] = &[(0, 100), (50, 100), (120, 100), (400, 10)];

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
}

#[test]
fn a_window_counts_what_lies_in_it_and_whom_it_sees_come() {
    let of = |window: &str| summary("fifo", FOUR, window);
    let plain = of("");
    assert_eq!((plain.jobs, plain.left_out), (4, 0));
    near(plain.utilisation_window, 300.0 / 400.0);
    near(plain.utilisation, 310.0 / 410.0);
    assert_eq!((plain.window, plain.run), (400.0, 410.0));
    // The second and the third are submitted in it; the third ends in it, as does the second.
    let middle = of("measure: Window(warm_up: \"40s\", until: At(\"350s\"))");
    assert_eq!((middle.jobs, middle.left_out, middle.completed), (2, 2, 2));
    near(middle.utilisation_window, 260.0 / 310.0);
    near(middle.jct.mean, (150.0 + 180.0) / 2.0);
    near(middle.waiting_total.mean, (50.0 + 80.0) / 2.0);
    near(middle.bounded_slowdown.mean, (1.5 + 1.8) / 2.0);
    near(middle.makespan, 410.0);
    // The third is submitted in it and ends after it.
    let early = of("measure: Window(warm_up: \"110s\", until: At(\"130s\"))");
    assert_eq!((early.jobs, early.completed), (1, 1));
    near(early.jct.mean, 180.0);
    near(early.utilisation_window, 1.0);
    let late = of("measure: Window(warm_up: \"40s\", until: AllEnded)");
    assert_eq!(late.jobs, 3);
    near(late.utilisation_window, 270.0 / 370.0);
    // As long whoever ends before it does: what is left of it is idle.
    let long = of("measure: Window(until: At(\"1000s\"))");
    assert_eq!(long.window, 1000.0);
    near(long.utilisation_window, 310.0 / 1000.0);
    near(long.utilisation, 310.0 / 410.0);
    // All at once: there is no time before the last submission.
    let batch = summary("fifo", &[(0, 100), (0, 100)], "");
    near(batch.utilisation_window, 1.0);
    near(batch.window, 200.0);
}

#[test]
fn whoever_is_put_aside_waits_too() {
    // The short one runs from 10 to 30, the long one before and after.
    let both = summary("srtf", &[(0, 100), (10, 20)], "");
    near(both.waiting_total.max, 20.0);
    near(both.waiting_total.mean, 10.0);
    near(both.first_wait.max, 0.0);
    near(both.suspended.max, 20.0);
    // Without preemption the other one waits, for its first GPU.
    let fifo = summary("fifo", &[(0, 100), (10, 20)], "");
    near(fifo.first_wait.max, 90.0);
    near(fifo.suspended.max, 0.0);
}

#[test]
fn a_start_that_is_cut_short_is_no_wait() {
    // The long one holds the GPU from 0 to 50, and again from 80 + what saving takes: nothing here.
    let cut = summary("srtf", &[(0, 1000), (50, 20)], "costs: Costs(start: \"100s\", restore: \"30s\")");
    near(cut.first_wait.max, 0.0);
    near(cut.suspended.max, 120.0);
    // From 170 on: 30 s to restore, 1000 s of work. Alone it would have taken 100 and 1000.
    near(cut.jct.max, 1200.0);
    near(cut.bounded_slowdown.max, 1200.0 / 1100.0);
}

#[test]
fn where_nobody_counts_nothing_is_claimed() {
    let claim = "claims: [Claim(says: \"s\", of: \"fifo\", metric: \"jct_mean_s\", holds: AtMost(100))], measure: \
                 Window(warm_up: \"10h\")";
    let ran = run(&spec("fifo", FOUR, claim), &["--check"]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("note: 4 of 4 jobs were submitted outside of the window"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("holds"), "{}", ran.stdout);
    // And where a policy left jobs behind, its times claim nothing.
    let starving = "claims: [Claim(says: \"s\", of: \"fifo\", metric: \"jct_mean_s\", holds: AtMost(1e12))]";
    let slow = spec("fifo", &[(0, 5), (10, 900_000_000)], starving).replace("speed: 1.0", "speed: 0.01");
    let ran = run(&slow, &["--check"]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("JOBS UNFINISHED"), "{}", ran.stdout);
}

#[test]
fn a_first_start_is_nobodys_unfairness() {
    // Each has the GPU to itself; the start takes twice as long as the work.
    let alone = summary("fifo", &[(0, 5), (100, 5), (200, 5)], "costs: Costs(start: \"10s\")");
    near(alone.jct.mean, 15.0);
    near(alone.fairness_worst, 1.0);
    near(alone.fairness_p99, 1.0);
    near(alone.fairness_jain, 1.0);
    near(alone.bounded_slowdown.max, 1.0);
    // Two that come at once: the second waits 15 s; contention is 2 for 15 s of 30, so 1.5 on the mean.
    let two = summary("fifo", &[(0, 5), (0, 5)], "costs: Costs(start: \"10s\")");
    near(two.fairness_worst, 30.0 / (15.0 * 1.5));
    // Bounded: a job of a second counts as one of ten.
    let short = summary("fifo", &[(0, 20), (0, 1)], "");
    near(short.bounded_slowdown.max, 2.1);
}

/// A command on the store and the policies of a test.
fn stored(folder: &Path, args: &[&str]) -> Ran {
    let policies = dist();
    let mut all = args.to_vec();
    all.extend(["--store", "store", "--policies", &policies]);
    sandtable(folder, &all)
}

/// What `run` prints of a spec, and its exit code.
fn run(spec: &str, flags: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let mut args = vec!["run", "spec.ron", "--no-progress"];
    args.extend(flags);
    stored(folder.path(), &args)
}

#[test]
fn a_table_says_what_its_reader_must_know() {
    let noted = |spec: &str| {
        let ran = run(spec, &[]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    let idle = noted(&spec("fifo", &[(0, 10), (100, 10)], ""));
    assert!(idle.contains("note: no job ever waited"), "{idle}");
    let drain = noted(&spec("fifo", &[(0, 900), (100, 900)], ""));
    assert!(drain.contains("note: the window fills 6 % of the runs"), "{drain}");
    assert!(drain.contains("100.0 %"), "utilisation is of the window: {drain}");
    let mut heavy: Vec<(u32, u32)> = (0..100).map(|job| (job, 10)).collect();
    heavy[50] = (50, 1000);
    let heavy = noted(&spec("fifo", &heavy, ""));
    assert!(heavy.contains("note: 1 % of the jobs is 50 % of the work"), "{heavy}");
    let good = noted(&spec("fifo", FOUR, ""));
    assert!(!good.contains("note:"), "{good}");
}

#[test]
fn intervals_and_deviations_stand_apart() {
    let generated = "Experiment(title: \"seeds\", fleet: Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0), workload: \
                     Generate(jobs: 30, arrivals: Poisson(load: 1.5), gpus: {1: 1.0}), policies: [Policy(name: \"fifo\")], \
                     seeds: Range(0, 4))";
    let table = run(generated, &[]).stdout;
    assert!(table.contains("JCT mean ± 95 % CI") && table.contains("SD over seeds"), "{table}");
    let row: serde_json::Value =
        serde_json::from_str(run(generated, &["--format", "json"]).stdout.lines().next().expect("a row"))
            .expect("JSON");
    let (sd, half) = (&row["jct_mean_s"]["sd"], &row["jct_mean_s"]["ci95"]);
    let (sd, half) = (sd.as_f64().expect("a deviation"), half.as_f64().expect("a half"));
    // Student's t of three degrees of freedom at 97.5 %: 3.182.
    assert!((half - 3.182_446 * sd / 2.0).abs() < 1e-4 * half, "{half} of {sd}");
}

#[test]
fn a_claim_that_the_runs_do_not_settle_is_inconclusive() {
    let claimed = |holds: &str| {
        format!(
            "Experiment(title: \"c\", fleet: Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0), workload: Generate(jobs: 30, \
             arrivals: Poisson(load: 1.5), gpus: {{1: 1.0}}), policies: [Policy(name: \"fifo\")], seeds: Range(0, 4), claims: \
             [Claim(says: \"s\", of: \"fifo\", metric: \"jct_mean_s\", holds: {holds})])"
        )
    };
    let mean = {
        let row = run(&claimed("AtLeast(0)"), &["--format", "json"]).stdout;
        let row: serde_json::Value = serde_json::from_str(row.lines().next().expect("a row")).expect("JSON");
        row["jct_mean_s"]["mean"].as_f64().expect("a mean")
    };
    let close = claimed(&format!("AtMost({:.1})", mean * 1.001));
    let unsettled = run(&close, &["--check"]);
    assert_eq!(unsettled.code, 1, "{}", unsettled.stdout);
    assert!(unsettled.stdout.contains("inconclusive, mean holds"), "{}", unsettled.stdout);
    assert!(unsettled.stderr.contains("--allow-inconclusive"), "{}", unsettled.stderr);
    assert_eq!(run(&close, &["--check", "--allow-inconclusive"]).code, 0);
    assert_eq!(run(&claimed("AtLeast(0)"), &["--check"]).code, 0);
    assert_eq!(run(&claimed("AtMost(0.1)"), &["--check", "--allow-inconclusive"]).code, 1);
}

/// A verdict is the same whoever reads it.
#[test]
fn stdout_that_is_full_or_closed_changes_no_verdict() {
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().expect("a folder");
    let claim = "claims: [Claim(says: \"s\", of: \"fifo\", metric: \"jct_mean_s\", holds: AtMost(0.1))]";
    std::fs::write(folder.path().join("spec.ron"), spec("fifo", FOUR, claim)).expect("written");
    let policies = dist();
    let to = |stdout: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandtable"));
        let args = ["run", "spec.ron", "--store", "store", "--policies", &policies, "--no-progress", "--check"];
        command.current_dir(folder.path()).args(args).stdout(stdout).stderr(Stdio::null());
        command.status().expect("it runs").code()
    };
    assert_eq!(to(Stdio::null()), Some(1));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(to(writer.into()), Some(1), "nobody reads");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    if let Ok(full) = full {
        assert_eq!(to(full.into()), Some(74), "no room");
    }
}

#[test]
fn work_that_the_end_of_time_cuts_off_is_unfinished() {
    // 9e10 s, where 2^53 µs are 9e9 s.
    let cut = summary("fifo", &[(0, 900_000_000), (5, 5)], "");
    assert_eq!((cut.completed, cut.unfinished), (2, 0));
    let folder = tempfile::tempdir().expect("a folder");
    let slow = spec("fifo", &[(0, 900_000_000), (5, 5)], "").replace("speed: 1.0", "speed: 0.01");
    std::fs::write(folder.path().join("spec.ron"), &slow).expect("written");
    let ran = run(&slow, &[]);
    assert!(ran.stdout.contains("* 2 of 2 jobs never ended under fifo"), "{}", ran.stdout);
    assert_eq!(run(&slow, &["--check"]).code, 1);
    let none = run(&slow.replace("speed: 0.01", "speed: 1e-300"), &[]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("must be a number from 0.000001 to 1000"), "{}", none.stderr);
}

#[test]
fn preemptions_that_leave_no_time_for_progress_are_noted() {
    // Two jobs take turns on one GPU, a minute each, of which saving and restoring take 40 s.
    let of = |state: &str| {
        let costs = format!("costs: Costs(checkpoint: {state:?}, restore: {state:?})");
        let text = spec("gavel", &[(0, 600), (0, 600)], &costs);
        let text = text.replace("name: \"gavel\"", "name: \"gavel\", with: {\"round\": 60}");
        run(&text.replace("\"remaining\"", "\"throughput\": Oracle, \"remaining\""), &[]).stdout
    };
    let note = "of the time that GPUs were held under gavel made progress that lasted";
    assert!(
        of("20s")
            .contains(&format!("36 % {note}, with 27.0 preemptions for each job: is the time between them longer")),
        "{}",
        of("20s")
    );
    assert!(!of("2s").contains(note), "{}", of("2s"));
}

/// A policy that leaves jobs behind is not the better one for it.
#[test]
fn whoever_starves_jobs_is_compared_on_those_that_ended_under_both() {
    let folder = tempfile::tempdir().expect("a folder");
    // A gang of two in front: FIFO waits for it for ever, since the second GPU never comes free of a job that has no end.
    let jobs = "Job(submit: \"0s\", gpus: 1, duration: \"5s\"), Job(submit: \"0s\", gpus: 1, duration: \"104000d\"), Job(submit: \"1s\", gpus: 2, duration: \"10s\"), \
                Job(submit: \"2s\", gpus: 1, duration: \"10s\"), Job(submit: \"3s\", gpus: 1, duration: \"20s\")";
    let spec = format!(
        "Experiment(title: \"starving\", fleet: Model(nodes: 1, gpus: 2, kind: \"g\", speed: 0.5), workload: Jobs([{jobs}]), \
         policies: [Policy(name: \"fifo\"), Policy(name: \"fifo\", label: \"skip\", with: {{\"backfill\": \"skip\"}})])"
    );
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let own = |args: &[&str]| stored(folder.path(), args);
    let ran = own(&["run", "spec.ron", "--no-progress"]);
    assert!(ran.stdout.contains("* 4 of 5 jobs never ended under fifo"), "{}", ran.stdout);
    assert!(ran.stdout.contains("* 2 of 5 jobs never ended under skip"), "{}", ran.stdout);
    let compared = own(&["compare", "--spec", "spec.ron", "fifo", "skip"]);
    assert!(compared.stdout.contains("* 4 of 5 jobs never completed under fifo, 2 under skip"), "{}", compared.stdout);
    // The one that ended under both took 10 s under both.
    let row = compared.stdout.lines().find(|line| line.starts_with("jct_mean_s")).expect("a row");
    assert!(row.contains("10.0 s") && row.contains("the same"), "{}", compared.stdout);
    assert!(!compared.stdout.contains("waiting_total"), "{}", compared.stdout);
}

#[test]
fn what_is_set_is_what_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let claim = "Claim(says: \"s\", of: \"fifo\", metric: \"jct_mean_s\", holds: AtLeast(0), at: {\"workload.arrivals.load\": 0.6})";
    let spec = format!(
        "Experiment(title: \"swept\", fleet: Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0), workload: Generate(jobs: 20, \
         arrivals: Poisson(load: 0.5)), policies: [Policy(name: \"fifo\")], sweep: {{\"workload.arrivals.load\": [0.6, 1.2]}}, \
         claims: [{claim}])"
    );
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let own = |args: &[&str]| stored(folder.path(), args);
    let whole = own(&["run", "spec.ron", "--no-progress"]);
    let line = |text: &str, at: &str| text.lines().find(|line| line.contains(at)).map(str::to_string);
    let wanted = line(&whole.stdout, "load=1.2").expect("a row");
    for flags in [["--set", "workload.arrivals.load=1.2"], ["--at", "workload.arrivals.load=1.2"]] {
        let one = own(&["run", "spec.ron", "--no-progress", flags[0], flags[1]]);
        assert!(one.stderr.contains("1 cells, 1 cached"), "{}: {}", flags[0], one.stderr);
        assert_eq!(line(&one.stdout, "load=1.2"), Some(wanted.clone()), "{}", flags[0]);
        assert!(line(&one.stdout, "load=0.6").is_some_and(|row| row.contains("not measured")), "{}", one.stdout);
    }
    // A bundle of a part is that part wherever it is verified.
    let packed = own(&["bundle", "spec.ron", "--at", "workload.arrivals.load=1.2", "-o", "part.tar.zst"]);
    assert_eq!(packed.code, 0, "{}", packed.stderr);
    let verified = sandtable(folder.path(), &["verify", "part.tar.zst"]);
    assert!(
        verified.stdout.contains("1 cells identical, 0 different, 0 missing"),
        "{}{}",
        verified.stdout,
        verified.stderr
    );
    let shown = own(&["show", "spec.ron", "--at", "workload.arrivals.load=1.2"]);
    assert!(shown.stdout.contains("workload.arrivals.load=1.2"), "{}", shown.stdout);
    let never = own(&["plan", "spec.ron", "--at", "workload.arrivals.load=0.7"]);
    assert_eq!(never.code, 2);
    assert!(never.stderr.contains("never has the value 0.7") && never.stderr.contains("0.6, 1.2"), "{}", never.stderr);
    let unswept = own(&["plan", "spec.ron", "--at", "fleet.nodes=2"]);
    assert!(unswept.stderr.contains("`fleet.nodes` is not swept"), "{}", unswept.stderr);
}

#[test]
fn a_sample_of_the_cells_is_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = "Experiment(title: \"many\", fleet: Model(nodes: 1, gpus: 1, kind: \"g\", speed: 1.0), workload: Generate(jobs: 3, \
                gpus: {1: 1.0}), policies: [Policy(name: \"fifo\")], seeds: Range(0, 40))";
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let own = |args: &[&str]| stored(folder.path(), args);
    assert_eq!(own(&["run", "spec.ron", "--no-progress"]).code, 0);
    let sampled = own(&["verify", "spec.ron", "--sample", "5%"]);
    assert_eq!(sampled.stdout, "many: 2 cells identical, 0 different, 0 missing, 38 not drawn\n");
    let none = own(&["verify", "spec.ron", "--sample", "500%"]);
    assert!(none.code == 2 && none.stderr.contains("from 0% to 100%"), "{}", none.stderr);
}

#[test]
fn jobs_that_fit_nowhere_are_named_before_they_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let wide = spec("fifo", FOUR, "").replace("gpus: 1, duration: \"10s\"", "gpus: 9, duration: \"10s\"");
    std::fs::write(folder.path().join("spec.ron"), wide).expect("written");
    for command in ["plan", "run"] {
        let ran = stored(folder.path(), &[command, "spec.ron"]);
        let warning = "warning: spec.ron: 1 of 4 jobs can never run: the first, since it asks for 9 GPUs of one type that it \
                       allows, the fleet has 1";
        assert!(ran.code == 0 && ran.stderr.contains(warning), "{command}: {}", ran.stderr);
    }
    // Nor does `plan` leave to `run` to find that a policy refuses.
    std::fs::write(
        folder.path().join("spec.ron"),
        spec("fifo", FOUR, "").replace("\"fifo\"", "\"fifo\", with: {\"x\": 1}"),
    )
    .expect("written");
    let refused = stored(folder.path(), &["plan", "spec.ron"]);
    assert!(refused.code == 2 && refused.stderr.contains("no parameter `x`"), "{}", refused.stderr);
}

#[test]
fn a_page_has_every_point_of_a_sweep_and_a_figure_names_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = "Experiment(title: \"swept\", fleet: Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0), workload: Generate(jobs: 20), \
                policies: [Policy(name: \"fifo\")], sweep: {\"workload.arrivals\": [Poisson(load: 0.6), Poisson(load: 1.2)]})";
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let own = |args: &[&str]| {
        let ran = stored(folder.path(), args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    };
    let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).expect("a file");
    own(&["run", "spec.ron", "--no-progress"]);
    own(&["report", "spec.ron", "-o", "page.html"]);
    let page = read("page.html");
    for (point, load) in ["0.6", "1.2"].into_iter().enumerate() {
        assert!(page.contains(&format!("data-point=\"{point}\"")));
        assert!(page.contains(&format!("Job completion time, at arrivals=Poisson(load: {load})")), "{load}");
    }
    own(&["report", "spec.ron", "-o", "one.svg", "--at", "workload.arrivals=Poisson(load: 1.2)"]);
    assert!(read("one.svg").contains("load: 1.2") && !read("one.svg").contains("load: 0.6"));
    own(&["report", "spec.ron", "-o", "both.svg", "--every-point"]);
    assert!(read("both.svg").contains("load: 1.2") && read("both.svg").contains("load: 0.6"));
}

/// Forty jobs on a real Slurm of four nodes with four GPUs each (`sched/builtin`, ticks of a second), and the same under FIFO.
#[needs("data:cluster-state")]
#[test]
fn waits_of_a_real_slurm_are_the_models() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = data("cluster-state/slurm-runs/f1.csv");
    let mut log = String::from("job,submit,gpus,start,end\n");
    for row in csv::Reader::from_path(runs).expect("a table").into_deserialize::<BTreeMap<String, String>>() {
        let row = row.expect("a row");
        let number = |column: &str| row[column].parse::<u32>().expect("a number");
        let gpus = number("nodes") * number("gpus_each");
        log += &format!("{},{},{gpus},{},{}\n", row["job_id"], row["submit_s"], row["start_s"], row["end_s"]);
    }
    std::fs::write(folder.path().join("log.csv"), log).expect("written");
    let map = "name=job,submit=submit,gpus=gpus,start=start,end=end";
    let imported = sandtable(folder.path(), &["trace", "import", "csv", "log.csv", "--map", map, "-o", "jobs.csv"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let spec = "Experiment(title: \"Slurm\", fleet: Model(nodes: 4, gpus: 4, kind: \"g\", speed: 1.0), workload: Trace(file: \
                \"jobs.csv\"), costs: Costs(start: \"0.5s\"), policies: [Policy(name: \"fifo\", with: {\"placement\": \
                \"consolidate\"})])";
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let found = stored(folder.path(), &["trace", "calibrate", "spec.ron", "--format", "json"]);
    let all: serde_json::Value = serde_json::from_str(found.stdout.lines().next().expect("a row")).expect("JSON");
    assert_eq!((all["group"].as_str(), all["jobs"].as_u64()), (Some("all"), Some(40)));
    for quantile in ["mean", "median", "p95"] {
        let of = |whose: &str| all[whose][quantile].as_f64().expect("a wait");
        let (recorded, modelled) = (of("recorded_s"), of("modelled_s"));
        assert!((recorded - modelled).abs() < 1.0, "{quantile}: {recorded} s recorded, {modelled} s modelled");
    }
}

#[test]
fn flags_that_say_nothing_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), spec("fifo", FOUR, "")).expect("written");
    let own = |args: &[&str]| sandtable(folder.path(), args);
    assert_eq!(own(&["run", "spec.ron", "--no-progress", "--store", "store"]).code, 0);
    for (args, why) in [
        (vec!["run", "spec.ron", "-j", "0"], "invalid value '0'"),
        (vec!["store", "list", "--store", "nope"], "no store at nope"),
        (vec!["report", "spec.ron", "--store", "store", "-o", "r.html", "--figure", "jct"], "a figure alone is an SVG"),
        (vec!["verify", "b.tar.zst", "--only", "fifo"], "a bundle is verified whole"),
        (vec!["plan", "spec.ron", "--set", "fleet.gpus=3", "--sweep", "fleet.gpus=2,4"], "`fleet.gpus` is given twice"),
        (
            vec!["plan", "spec.ron", "--set", "workload=Jobs([])", "--sweep", "workload.0.gpus=1,2"],
            "the sweep of `workload.0.gpus` would overwrite a part of it",
        ),
    ] {
        let ran = own(&args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stdout);
        assert!(ran.stderr.contains(why), "{args:?}: {}", ran.stderr);
    }
    let trace = "id,at,n,s,vc\nx,0,1,10,a\n";
    std::fs::write(folder.path().join("t.csv"), trace).expect("written");
    let map = ["--map", "name=id", "--map", "submit=at", "--map", "gpus=n", "--map", "duration=s"];
    let import = |more: &[&str]| {
        let mut args = vec!["trace", "import", "csv", "t.csv"];
        args.extend(map);
        args.extend(more);
        own(&args)
    };
    assert_eq!(import(&[]).code, 0, "{}", import(&[]).stderr);
    assert!(import(&["--where", "vc=a", "--where", "vc=b"]).stderr.contains("\"vc\" is given twice"));
    assert!(import(&["--map", "gpus=s"]).stderr.contains("\"gpus\" is given twice"));
    std::fs::write(folder.path().join("t.csv"), trace.replace("vc", "s")).expect("written");
    assert!(import(&[]).stderr.contains("two columns are called `s`"), "{}", import(&[]).stderr);
}

#[test]
fn types_of_gpu_are_as_fast_as_the_catalogue_estimates_or_as_is_said() {
    let two = "Experiment(title: \"two\", fleet: Model(groups: [Group(nodes: 1, gpus: 1, kind: \"T4\"), Group(nodes: 1, gpus: 1, \
               kind: \"V100-SXM2-16GB\")]), workload: Jobs([Job(submit: \"0s\", gpus: 1, duration: \"100s\")]), policies: \
               [Policy(name: \"fifo\"), Policy(name: \"fifo\", label: \"fastest\", with: {\"placement\": \"fastest\"}, \
               predictors: {\"throughput\": Oracle})], durations_on: \"V100-SXM2-16GB\")";
    let ran = run(two, &["--format", "csv"]);
    assert!(ran.stderr.contains("speeds estimated from the catalogue: T4 0.4291, V100-SXM2-16GB 1"), "{}", ran.stderr);
    let jct = |policy: &str| {
        let row = ran.stdout.lines().find(|line| line.starts_with(policy)).expect("a row");
        row.split(',').nth(5).and_then(|mean| mean.parse::<f64>().ok()).expect("a mean")
    };
    // The first type is the slower one: only who asks for the fastest leaves it.
    assert!((jct("fifo") - 100.0 / 0.4291).abs() < 1e-3, "{}", ran.stdout);
    assert_eq!(jct("fastest"), 100.0);
    let untold = run(&two.replace(", predictors: {\"throughput\": Oracle}", ""), &[]);
    assert_eq!(untold.code, 2);
    assert!(untold.stderr.contains("placement \"fastest\" needs to be told throughput"), "{}", untold.stderr);
    let half = two.replace("kind: \"T4\"", "kind: \"T4\", speed: 0.5");
    let silent = run(&half.replace(", durations_on: \"V100-SXM2-16GB\"", ""), &[]);
    assert!(silent.stderr.contains("other groups say their `speed`, V100-SXM2-16GB does not"), "{}", silent.stderr);
    let said = half.replace("kind: \"V100-SXM2-16GB\"", "kind: \"V100-SXM2-16GB\", speed: 1.0");
    let clash = run(&said, &[]);
    assert!(clash.stderr.contains("durations hold on a GPU of speed 1"), "{}", clash.stderr);
    let said = run(&said.replace(", durations_on: \"V100-SXM2-16GB\"", ""), &[]);
    assert!(said.code == 0 && !said.stderr.contains("estimated"), "{}", said.stderr);
}
