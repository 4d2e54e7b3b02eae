//! GPUs that are cut into parts, from the spec through the components to results, against schedules worked out by hand.

use sandtable_inputs::trace::{self, Options, Stats, TraceFormat};
use sandtable_results::schema::{JobRecord, Seconds, StayRecord};
use sandtable_runtime::Summary;

use crate::help::{dist, planned, results, sandtable};

/// The spec of one policy on nodes of two A100 of 40 GB.
fn spec(fleet: &str, workload: &str, policy: &str) -> String {
    format!(
        "Experiment(title: \"parts\", fleet: Model(gpus: 2, kind: \"A100-SXM4-40GB\", sharing: Parts, {fleet}), workload: {workload}, \
         policies: [{policy}], predictors: {{\"remaining\": Oracle}})"
    )
}

fn ran(fleet: &str, workload: &str, policy: &str) -> (Summary, Vec<JobRecord>) {
    results(&planned(&spec(fleet, workload, policy)).unwrap_or_else(|error| panic!("{error}")))
}

/// Seconds from which to which each job ran, in the order of jobs.
fn times(rows: &[JobRecord]) -> Vec<(f64, f64)> {
    let at = |at: Option<Seconds>| at.map_or(f64::NAN, Seconds::f64);
    rows.iter().map(|row| (at(row.first_start_s), at(row.end_s))).collect()
}

/// The GPUs of each job's last stay.
fn gpus(fleet: &str, workload: &str, policy: &str) -> Vec<String> {
    let plan = planned(&spec(fleet, workload, policy)).unwrap_or_else(|error| panic!("{error}"));
    let (_, mut stays) = results::<StayRecord>(&plan);
    stays.sort_by(|a, b| a.job_id.cmp(&b.job_id));
    stays.into_iter().map(|stay| stay.gpus.to_string()).collect()
}

/// Jobs that are submitted a second after each other: the part, or the GPUs, and how long each takes.
fn jobs(list: &[(&str, u32)]) -> String {
    let job = |(at, (what, seconds)): (usize, &(&str, u32))| {
        let what = if what.starts_with("gpus") { (*what).to_string() } else { format!("gpus: 1, part: {what:?}") };
        format!("Job(submit: \"{at}s\", {what}, duration: \"{seconds}s\")")
    };
    format!("Jobs([{}])", list.iter().enumerate().map(job).collect::<Vec<_>>().join(", "))
}

const SKIP: &str = "Policy(name: \"fifo\", with: {\"backfill\": \"skip\"})";

#[test]
fn jobs_share_gpus_as_their_parts_fit() {
    // Two halves on the first GPU, the smallest part on the second. The whole GPU is free when that has ended. The larger half may begin at the first
    // slice of the second GPU only, of which the seventh is taken.
    let list = jobs(&[("3g.20gb", 100), ("3g.20gb", 50), ("1g.5gb", 40), ("gpus: 1", 30), ("4g.20gb", 10)]);
    let (summary, rows) = ran("nodes: 1", &list, SKIP);
    assert_eq!(times(&rows), [(0.0, 100.0), (1.0, 51.0), (2.0, 42.0), (42.0, 72.0), (4.0, 14.0)]);
    assert_eq!(gpus("nodes: 1", &list, SKIP), ["0", "0", "1", "1", "1"]);
    // Slices of eight: 4 for 100, 50 and 10 s, 1 for 40 s, all for 30 s; of two GPUs for 100 s.
    let held = (4 * (100 + 50 + 10) + 40 + 8 * 30) as f64 / 8.0;
    assert!((summary.throughput * 2.0 * 100.0 - held).abs() < 1e-6, "{}", summary.throughput);
    assert_eq!((summary.completed, summary.preemptions), (5, 0));
}

#[test]
fn a_place_is_a_matter_of_slices_and_not_of_how_many_are_left() {
    // Of each GPU four of eight slices are free, but not four after each other.
    let own = "nodes: 1, parts: {\"A100-SXM4-40GB\": {\"two\": Part(slices: 2, starts: [1, 5]), \
        \"four\": Part(slices: 4, starts: [0, 4]), \"all\": Part(slices: 8, starts: [0])}}";
    let list = jobs(&[("two", 100), ("two", 30), ("two", 20), ("two", 60), ("four", 10), ("all", 5)]);
    let (_, rows) = ran(own, &list, SKIP);
    // Two on each GPU; the third leaves its half at 22 s.
    assert_eq!(times(&rows), [(0.0, 100.0), (1.0, 31.0), (2.0, 22.0), (3.0, 63.0), (22.0, 32.0), (63.0, 68.0)]);
}

#[test]
fn one_that_comes_first_takes_the_place_of_others() {
    // Shortest first: at 4 s a job of a whole GPU stops the halves that have the longest to go.
    let list = jobs(&[("3g.20gb", 100), ("3g.20gb", 90), ("3g.20gb", 80), ("3g.20gb", 70), ("gpus: 1", 10)]);
    let (summary, rows) = ran("nodes: 1", &list, "Policy(name: \"srtf\")");
    let ends: Vec<f64> = times(&rows).into_iter().map(|(_, to)| to).collect();
    // They are those of the first GPU, and go on at 14 s.
    assert_eq!((ends, summary.preemptions), (vec![110.0, 101.0, 82.0, 73.0, 14.0], 2));
}

/// A quota counts slices, of which there are eight; the smallest part has seven places.
#[test]
fn a_part_that_comes_first_takes_a_place_though_slices_are_left() {
    let seven =
        (0..7).map(|_| "Job(submit: \"0s\", gpus: 1, part: \"1g.5gb\", duration: \"10000s\")").collect::<Vec<_>>();
    let short = "Job(submit: \"100s\", gpus: 1, part: \"1g.5gb\", duration: \"10s\", priority: 9, deadline: \"200s\")";
    let list = format!("Jobs([{}, {short}])", seven.join(", "));
    // Under `las` it waits until the others have had the service of the first queue.
    let from = |policy: &str| if policy == "las" { 3250.0 } else { 100.0 };
    for policy in ["srtf", "srsf", "las", "priority", "edf"] {
        let text =
            spec("nodes: 1", &list, &format!("Policy(name: {policy:?})")).replace("gpus: 2, kind", "gpus: 1, kind");
        let (summary, rows) = results::<JobRecord>(&planned(&text).unwrap_or_else(|error| panic!("{error}")));
        let at = from(policy);
        assert_eq!((times(&rows)[7], summary.preemptions), ((at, at + 10.0), 1), "{policy}");
        assert_eq!(summary.unfinished, 0, "{policy}");
    }
}

/// EASY: a GPU that two jobs share is free when both have ended, and a job that would run longer does not take it.
#[test]
fn backfilling_does_not_delay_the_head_where_jobs_share_a_gpu() {
    let job =
        |submit: u32, what: &str, seconds: u32| format!("Job(submit: \"{submit}s\", {what}, duration: \"{seconds}s\")");
    let half = "gpus: 1, part: \"3g.20gb\"";
    let list =
        [job(0, half, 50), job(0, half, 60), job(0, "gpus: 2", 100), job(1, "gpus: 4", 10), job(2, "gpus: 1", 10_000)];
    let easy = "Policy(name: \"fifo\", with: {\"backfill\": \"easy\"})";
    let (_, rows) = ran("nodes: 2", &format!("Jobs([{}])", list.join(", ")), easy);
    assert_eq!(times(&rows)[3..], [(100.0, 110.0), (110.0, 10_110.0)]);
    // A head that asks for a part: its place is free at 60 s, when the half that begins at the first slice ends.
    let list = [job(0, half, 100), job(0, half, 60), job(0, "gpus: 1", 70), job(1, "gpus: 1, part: \"4g.20gb\"", 10)];
    let short = job(2, "gpus: 1, part: \"1g.5gb\"", 5);
    let (_, rows) = ran("nodes: 1", &format!("Jobs([{}, {short}])", list.join(", ")), easy);
    assert_eq!(times(&rows)[3].0, 60.0);
}

#[test]
fn jobs_know_their_memory_and_what_it_is_not_enough_for() {
    // 9,856 MiB of two slices; 40 GB of a GPU.
    let list = |memory: &str| {
        format!(
            "Jobs([Job(submit: \"0s\", gpus: 1, part: \"2g.10gb\", duration: \"9s\", memory: {memory:?}), \
             Job(submit: \"0s\", gpus: 1, part: \"3g.20gb\", duration: \"9s\", memory: \"9GiB\")])"
        )
    };
    let outcome = |memory: &str| {
        let (_, rows) = ran("nodes: 1", &list(memory), SKIP);
        rows.iter().map(|row| format!("{:?}", row.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(outcome("9GiB"), ["Completed", "Completed"]);
    let refused = outcome("12GiB");
    assert!(refused[0].contains("it needs 12288 MiB, the part of a GPU that it asks for has 9856"), "{refused:?}");
    // Where nothing is known of a part it has no more than the GPU.
    let h200 = spec("nodes: 1", &list("160GiB"), SKIP).replace("A100-SXM4-40GB", "H200-SXM-141GB");
    let (_, rows) = results::<JobRecord>(
        &planned(&h200.replace("2g.10gb", "2g.35gb").replace("3g.20gb", "3g.71gb")).expect("a plan"),
    );
    assert!(format!("{:?}", rows[0].outcome).contains("asks for has 143771"), "{:?}", rows[0].outcome);
}

#[test]
fn kinds_that_have_a_part_are_those_that_a_job_may_run_on() {
    let fleet = |kinds: &[&str]| {
        let groups: Vec<String> =
            kinds.iter().map(|kind| format!("Group(nodes: 1, gpus: 2, kind: {kind:?}, speed: 1.0)")).collect();
        format!("groups: [{}], sharing: Parts", groups.join(", "))
    };
    let types = |kinds: &[&str], part: &str, more: &str| {
        let text = format!(
            "Experiment(title: \"t\", fleet: Model({}), workload: Jobs([Job(submit: \"0s\", gpus: 1, part: {part:?}, \
             duration: \"1s\"{more})]), policies: [{SKIP}])",
            fleet(kinds)
        );
        let jobs = planned(&text)?.cells[0].jobs().map_err(|error| error.to_string())?;
        let job = &jobs[0];
        Ok::<_, String>((job.gpu_types.iter().map(|kind| kind.number()).collect::<Vec<_>>(), job.share))
    };
    let all = ["V100-SXM2-16GB", "A100-SXM4-40GB", "H100-SXM5-80GB", "A100-SXM4-80GB"];
    assert_eq!(types(&all, "3g.40gb", ""), Ok((vec![2, 3], 500)));
    assert_eq!(types(&all[2..], "3g.40gb", ""), Ok((vec![], 500)));
    let two = types(&all, "1g.10gb", "").expect_err("two parts of one name");
    assert!(two.contains("\"1g.10gb\", which is 2 slices of A100-SXM4-40GB or 1 slice of H100-SXM5-80GB"), "{two}");
    assert_eq!(types(&all, "1g.10gb", ", kinds: [\"A100-SXM4-40GB\"]"), Ok((vec![1], 250)));
    assert_eq!(types(&all, "1g.10gb", ", kinds: [\"A100-SXM4-80GB\", \"V100-SXM2-16GB\"]"), Ok((vec![3], 125)));
}

/// What jobs are drawn for is the load that is asked for, and every policy that follows parts runs them to their ends.
#[test]
fn drawn_parts_have_their_weights_and_the_load_counts_their_size() {
    let workload = "Generate(jobs: 600, arrivals: Poisson(load: 0.8), durations: Fixed(\"10min\"), gpus: {1: 9, 2: 1}, \
        queues: {\"a\": 2, \"b\": 1}, parts: {\"1g.5gb\": 3, \"3g.20gb\": 2, \"whole\": 1})";
    let easy = "Policy(name: \"fifo\", with: {\"backfill\": \"easy\"})".to_string();
    let named = ["fifo", "sjf", "srtf", "srsf", "las", "edf", "priority", "kai-like", "kueue-like"]
        .map(|name| format!("Policy(name: {name:?})"));
    let queues = "queues: [Queue(name: \"a\", guaranteed: 4), Queue(name: \"b\", guaranteed: 4)], workload:";
    let plan = |policy: &str| {
        let text = spec("nodes: 4", workload, policy).replace("workload:", queues);
        planned(&text).unwrap_or_else(|error| panic!("{error}"))
    };
    let jobs = plan(&easy).cells[0].jobs().expect("jobs");
    let single = jobs.iter().filter(|job| job.gpus == 1).count() as f64;
    let share = |milli: u32| jobs.iter().filter(|job| job.gpus == 1 && job.share == milli).count() as f64 / single;
    assert!((share(125) - 0.5).abs() < 0.06 && (share(500) - 1.0 / 3.0).abs() < 0.06, "{} {}", share(125), share(500));
    assert!(jobs.iter().all(|job| job.part.is_some() == (job.share < 1000) && (job.gpus == 1 || job.part.is_none())));
    let work: f64 = jobs.iter().map(|job| f64::from(job.gpus * job.share) / 1000.0 * 600.0).sum();
    let last = jobs.last().expect("jobs").submit.since_start().as_secs_f64();
    assert!((work / last / 8.0 - 0.8).abs() < 0.02, "{}", work / last / 8.0);
    for policy in named.iter().chain([&easy]) {
        let (summary, _) = results::<JobRecord>(&plan(policy));
        assert_eq!((summary.completed, summary.rejected), (600, 0), "{policy}");
    }
}

#[test]
fn traces_name_parts_and_people_are_told_of_slices() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("t.csv", "submit_s,gpus,duration_s,part\n0,1,100,3g.20gb\n1,1,100,4g.20gb\n2,1,100,4g.20gb\n3,2,9,\n");
    write(
        "spec.ron",
        &format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 1, kind: \"A100-SXM4-40GB\", sharing: Parts), \
             workload: Trace(file: \"t.csv\", jobs: 3), policies: [{SKIP}])"
        ),
    );
    let dist = dist();
    let run = |args: &[&str]| sandtable(folder.path(), &[args, &["--policies", &dist]].concat());
    let ran = run(&["run", "spec.ron"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let said = run(&["show", "spec.ron", "--job", "1"]);
    assert!(said.stdout.contains("start 1 on slices 0 to 3 of GPU 0"), "{}{}", said.stdout, said.stderr);
    let why = run(&["show", "spec.ron", "--job", "2", "--why", "50s"]);
    assert!(why.stdout.contains("fewer GPUs are free than it asks for"), "{}{}", why.stdout, why.stderr);
    // Half of the GPU is free, but not the half that it asks for.
    write("t.csv", "submit_s,gpus,duration_s,part\n0,1,100,1g.5gb\n1,1,100,3g.20gb\n2,1,100,1g.5gb\n3,1,9,4g.20gb\n");
    let spec = std::fs::read_to_string(folder.path().join("spec.ron")).expect("a spec");
    write("spec.ron", &spec.replace("jobs: 3", "jobs: 4"));
    assert_eq!(run(&["run", "spec.ron"]).code, 0);
    let said = run(&["show", "spec.ron", "--job", "0"]);
    assert!(said.stdout.contains("start 0 on slice 6 of GPU 0"), "{}{}", said.stdout, said.stderr);
    write("t.csv", "submit_s,gpus,duration_s,part\n0,1,100,3g.20gb\n1,1,100,4g.20gb\n2,1,100,4g.20gb\n3,2,9,\n");
    write("spec.ron", &spec);
    // The native format and a mapping say the same.
    let read = |format, options: &Options| trace::read(&folder.path().join("t.csv"), format, options).expect("a trace");
    let native = read(TraceFormat::Native, &Options::default());
    let columns = [("submit", "submit_s"), ("gpus", "gpus"), ("duration", "duration_s"), ("part", "part")];
    let columns = columns.map(|(what, column)| (what.to_string(), column.to_string())).into();
    let mapped = read(TraceFormat::Csv, &Options { columns, ..Options::default() });
    let parts = |of: &trace::Trace| of.rows.iter().map(|row| row.part.clone()).collect::<Vec<_>>();
    assert_eq!(parts(&native), [Some("3g.20gb".into()), Some("4g.20gb".into()), Some("4g.20gb".into()), None]);
    assert_eq!(parts(&native), parts(&mapped));
    assert!(native.to_csv().contains(",part\n0,0,1,100,3g.20gb\n"), "{}", native.to_csv());
    assert_eq!(Stats::of(&native).jobs, 4);
    write("t.csv", "submit_s,gpus,duration_s,part\n0,2,100,3g.20gb\n");
    let wrong = run(&["run", "spec.ron"]);
    assert!(wrong.stderr.contains("t.csv:2: column `part`: a part is one of one GPU"), "{}", wrong.stderr);
}

#[test]
fn a_policy_that_does_not_follow_parts_does_not_begin() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 2, kind: \"A100-SXM4-40GB\", sharing: Parts), \
        workload: Generate(jobs: 9, gpus: {1: 1}, parts: {\"1g.5gb\": 1}), predictors: {\"remaining\": Oracle}, policies: [\n\
        Policy(name: \"fifo\"),\n  Policy(name: \"allox\"),\n])";
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "s", "--policies", &dist()]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let why = "its placements do not follow the parts of GPUs that jobs ask for";
    assert!(ran.stderr.contains(why) && ran.stderr.contains("spec.ron:3:"), "{}", ran.stderr);
    // Where no job can ask for a part, any policy begins.
    std::fs::write(folder.path().join("spec.ron"), text.replace("gpus: {1: 1}", "gpus: {2: 1}")).expect("written");
    let ran = sandtable(folder.path(), &["plan", "spec.ron", "--policies", &dist()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn what_is_wrong_with_parts_is_said_at_its_place() {
    let list = |job: &str| format!("Jobs([Job(submit: \"0s\", gpus: 1, duration: \"1s\", {job})])");
    let drawn = |parts: &str| format!("Generate(jobs: 3, {parts})");
    let own = |part: &str| format!("sharing: Parts, parts: {{\"T4\": {{\"p\": Part({part})}}}}");
    let a100 = "kind: \"A100-SXM4-40GB\", sharing: Parts";
    let cases = [
        (a100.to_string(), list("part: \"3g.20g\""), "did you mean \"3g.20gb\"?"),
        (a100.into(), list("part: \"1g.5gb\", share: 0.5"), "job 0: a part is one of one GPU, and in place of a share"),
        (a100.into(), list("share: 0.5"), "asks for a share of a GPU, the fleet's are cut into parts"),
        (a100.into(), drawn("parts: {\"1g\": 1}"), "no GPU has the part \"1g\""),
        (a100.into(), drawn("parts: {\"1g.5gb\": 0}"), "expected weights of at least 0, not all of them 0"),
        (
            "kind: \"T4\"".into(),
            list("part: \"1g.5gb\""),
            "asks for the part \"1g.5gb\" of a GPU, the fleet's are not cut",
        ),
        (
            "kind: \"T4\"".into(),
            drawn("parts: {\"1g.5gb\": 1}"),
            "these jobs ask for parts of GPUs, the fleet's are not cut",
        ),
        ("kind: \"T4\", sharing: Parts".into(), drawn(""), "no part is known that T4 could be cut into"),
        (
            format!("kind: \"T4\", {}", own("slices: 1, memory: \"99GiB\", starts: [0]")),
            drawn(""),
            "it has 101376 MiB, the GPU 15360",
        ),
        (
            format!("kind: \"T4\", {}", own("slices: 1, memory: \"1KiB\", starts: [0]")),
            drawn(""),
            "expected at least 1MiB of memory",
        ),
        (
            format!("kind: \"T4\", {}", own("slices: 1, starts: [0]").replace("\"p\"", "\"\"")),
            drawn(""),
            "expected the name of a part",
        ),
        (a100.into(), list("part: \"whole\""), "parts are 1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb"),
        (format!("kind: \"L4\", {}", own("slices: 1, starts: [0]")), drawn(""), "the fleet has no GPU of kind \"T4\""),
        (format!("kind: \"T4\", {}", own("slices: 0, starts: [0]")), drawn(""), "the part p of T4: it takes no slice"),
        (format!("kind: \"T4\", {}", own("slices: 1, starts: [1, 0]")), drawn(""), "ascending, found [1, 0]"),
        (
            format!("kind: \"T4\", {}", own("slices: 1, starts: [0]").replace("sharing: Parts, ", "")),
            drawn(""),
            "parts are of GPUs that are cut, these are not",
        ),
        (
            format!("kind: \"T4\", {}", own("slices: 1, starts: [0]").replace("\"p\"", "\"whole\"")),
            drawn(""),
            "a part can't be called \"whole\"",
        ),
    ];
    for (fleet, workload, why) in cases {
        let text = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 2, {fleet}), workload: {workload}, policies: [{SKIP}])"
        );
        let found = planned(&text)
            .and_then(|plan| plan.cells[0].jobs().map_err(|error| format!("{error}{:?}", error.hint)).map(drop));
        let said = found.err().unwrap_or_else(|| panic!("{text} is taken")).replace('\\', "");
        assert!(said.contains(why), "{text}: {said}");
    }
    let live = "Experiment(title: \"t\", fleet: Nvidia(devices: StandIn(2), sharing: Parts), workload: Generate(jobs: 3), \
        policies: [Policy(name: \"fifo\")])";
    let error = planned(live).err().expect("no real GPUs are cut");
    assert!(error.contains("real GPUs are not cut into parts"), "{error}");
}
