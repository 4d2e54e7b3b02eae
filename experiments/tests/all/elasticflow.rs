//! ElasticFlow's published schedules: from the spec through the component, EDF is met job by job and event by event.

use std::collections::BTreeMap;

use sandtable_needs::needs;
use sandtable_results::schema::{JobRecord, Seconds, StayRecord};

use crate::elastic::summaries;
use crate::help::{data, planned, results, told};
use crate::shockwave::{Table, number, table};

/// A cell of 16 nodes of 8 GPUs under a preset.
fn cell(preset: &str, with: &str) -> sandtable::plan::Plan {
    let (trace, rates) = (data("elasticflow/trace.csv"), data("elasticflow/rates.csv"));
    let spec = format!(
        "Experiment(title: \"elasticflow\", fleet: Model(nodes: 16, gpus: 8, kind: \"A100\", speed: 1.0), \
         profile: ElasticFlow({rates:?}), workload: Trace(file: {trace:?}, format: ElasticFlow, throughputs: {rates:?}), \
         semantics: Semantics(preset: {preset:?}), predictors: {{\"steps\": Oracle}}, \
         policies: [Policy(name: \"elasticflow\", with: {{{with}}})])"
    );
    planned(&spec).unwrap_or_else(|error| panic!("{error}"))
}

/// The GPUs of each job.
type Held = BTreeMap<String, Vec<u32>>;

/// What jobs hold from each instant of an event on, in seconds.
fn events(file: &str) -> Vec<(f64, Held)> {
    let packed = std::fs::File::open(data(file)).expect("the events");
    let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(packed));
    let of = |record: csv::StringRecord| {
        let job = |word: &str| {
            let (job, gpus) = word.split_once('@').expect("job@GPUs");
            let (first, last) = gpus.split_once('-').unwrap_or((gpus, gpus));
            (job.to_string(), (first.parse().expect("a GPU")..=last.parse().expect("a GPU")).collect::<Vec<u32>>())
        };
        (record[0].parse().expect("seconds"), record[1].split_whitespace().map(job).collect())
    };
    reader.records().map(|record| of(record.expect("a row"))).collect()
}

/// What the jobs of a cell hold at an instant.
fn held(stays: &[StayRecord], at: f64) -> Held {
    let there = |stay: &&StayRecord| stay.from_s.f64() <= at && at < stay.to_s.f64();
    let gpus = |stay: &StayRecord| {
        let mut gpus: Vec<u32> = stay.gpus.0.iter().map(|gpu| gpu.number()).collect();
        gpus.sort_unstable();
        gpus
    };
    stays.iter().filter(there).map(|stay| (stay.job_id.clone(), gpus(stay))).collect()
}

fn sizes(held: &Held) -> BTreeMap<&String, usize> {
    held.iter().map(|(job, gpus)| (job, gpus.len())).collect()
}

/// Published ends are printed with six digits.
fn is_printed(ours: f64, theirs: f64) -> bool {
    if theirs < 1e6 { ours == theirs } else { (ours - theirs).abs() <= 5.0 }
}

#[needs("data:elasticflow")]
#[test]
fn published_edf_is_met_job_by_job_and_event_by_event() {
    let plan = cell("elasticflow-edf", "\"variant\": \"edf\"");
    let (_, rows) = results::<JobRecord>(&plan);
    let published: Table = table(&data("elasticflow/edf.jobs.csv"));
    assert_eq!(rows.len(), published.len());
    for (ours, theirs) in rows.iter().zip(&published) {
        let (start, end) = (ours.first_start_s.map(Seconds::f64), ours.end_s.map(Seconds::f64));
        assert_eq!(start, Some(number(theirs, "start_s")), "{theirs:?}");
        assert!(end.is_some_and(|end| is_printed(end, number(theirs, "end_s"))), "{end:?}, {theirs:?}");
    }
    let (_, stays) = results::<StayRecord>(&plan);
    let events = events("elasticflow/edf.events.csv.gz");
    for (at, theirs) in &events {
        assert_eq!(sizes(&held(&stays, *at)), sizes(theirs), "at {at} s");
    }
    assert_eq!(events.len(), 195);
    told(&format!("EDF: {} jobs and {} events as published", rows.len(), events.len()));
}

/// Who gets the GPUs that no deadline takes is not known to the last job: the page on it does not say what an interval is once plans have changed. All that was
/// published of admission and deadlines is met, and every GPU of the first 13 events.
#[needs("data:elasticflow")]
#[test]
fn published_elasticflow_is_met_within_bounds() {
    let plan = cell("elasticflow", "");
    let (summary, rows) = results::<JobRecord>(&plan);
    let published: Table = table(&data("elasticflow/ef-accessctrl.jobs.csv"));
    assert_eq!(rows.len(), published.len());
    let due = summary.deadlines.as_ref().expect("deadlines");
    assert_eq!((due.jobs, due.met), (100, 100), "all are admitted and meet their deadlines, there and here");
    let submitted: BTreeMap<&str, f64> = rows.iter().map(|row| (row.job_id.as_str(), row.submit_s.f64())).collect();
    let theirs = published.iter().map(|row| number::<f64>(row, "end_s") - submitted[row["job_id"].as_str()]);
    let ours = rows.iter().map(|row| row.end_s.map_or(f64::NAN, |end| end.f64() - row.submit_s.f64()));
    let mean = ours.sum::<f64>() / theirs.sum::<f64>() - 1.0;
    let last = published.iter().map(|row| number::<f64>(row, "end_s")).fold(0.0, f64::max);
    let makespan = summary.makespan / last - 1.0;
    let (_, stays) = results::<StayRecord>(&plan);
    let events = events("elasticflow/ef-accessctrl.events.csv.gz");
    let first = events.iter().take_while(|(at, theirs)| held(&stays, *at) == *theirs).count();
    let all = events.iter().filter(|(at, theirs)| held(&stays, *at) == *theirs).count();
    let said = format!(
        "ElasticFlow: mean JCT {:+.1} %, makespan {:+.1} %; {all} of {} events on the same GPUs, the first {first} of them without a gap",
        mean * 100.0,
        makespan * 100.0,
        events.len()
    );
    told(&said);
    assert!(mean.abs() < 0.05 && makespan.abs() < 0.01 && first >= 13 && all >= 38, "{said}");
}

/// A net with these rates by GPUs, whose restarts take so many seconds.
fn net(rates: &str, restart_s: u32) -> String {
    format!(
        "profile: Inline((about: \"a net\", workloads: [(name: \"net\", family: \"net\", elastic: (initial_batch: 32, most_batch: 32, \
         least_local: 1, most_local: 32, epochs: 1, tunable: false, restart_s: {restart_s}, resize_s: 0, requests: [(1, 32), (2, 32), (4, 32)], \
         steps: Scaling([{rates}]), learning: Asked))], gpus: [(kind: \"T4\", sources: {{}}, noise: [], solo: {{}}, pairs: [])])), \
         predictors: {{\"steps\": Oracle}}, "
    )
}

/// Every job is completed or refused, whatever fails.
#[test]
fn nobody_is_lost_through_failures() {
    let of = |label: String, with: String| {
        format!("Policy(name: \"elasticflow\", label: \"{label}\", with: {{\"placement\": {with}}}), ")
    };
    let mut policies = String::new();
    for placement in ["kept", "anew"] {
        policies += &of(format!("edf-{placement}"), format!("{placement:?}, \"variant\": \"edf\""));
        for (spare, admission) in [("least", "each"), ("most", "together")] {
            let with = format!("{placement:?}, \"spare\": {spare:?}, \"admission\": {admission:?}");
            policies += &of(format!("{placement}-{spare}-{admission}"), with);
        }
    }
    let net = net("(1, 1.0), (2, 1.8), (4, 3.0), (8, 4.0)", 30);
    let fleets = [
        "Model(nodes: 3, gpus: 4, kind: \"T4\", failures: (mtbf: \"2h\", repair: \"10min\"))",
        // Fewer GPUs than the largest size, and at times none.
        "Model(nodes: 1, gpus: 5, kind: \"T4\", failures: (mtbf: \"4h\", repair: \"10min\"))",
        "Model(nodes: 4, gpus: 2, kind: \"T4\", revocable: Revocable(held: \"2h\", away: \"10min\", notice: \"1min\"))",
    ];
    for (fleet, deadlines) in
        fleets.iter().flat_map(|fleet| ["", ", deadlines: Deadlines(least: 0.8, most: 3)"].map(|due| (fleet, due)))
    {
        let spec = format!(
            "Experiment(title: \"t\", fleet: {fleet}, {net}costs: Costs(rescale: Full, checkpoint: \"7s\"), workload: Generate(jobs: 40, \
             arrivals: Poisson(load: 1.5), durations: LogNormal(median: \"20min\", sigma: 0.8), gpus: {{1: 1}}, workloads: {{\"net\": 1}}{deadlines}), \
             seeds: Range(1, 3), policies: [{policies}])"
        );
        let mut refused = 0;
        for (label, summary) in summaries(&spec) {
            assert_eq!((summary.completed + summary.refused, summary.unfinished), (40, 0), "{label}");
            refused += summary.refused;
        }
        assert_eq!(refused > 0, !deadlines.is_empty(), "{deadlines}: {refused}");
    }
}

/// Jobs on a fleet of so many nodes and GPUs, with their ends as they should be, under ElasticFlow and EDF.
#[test]
fn jobs_have_what_is_open_and_wait_for_nothing() {
    let four = "(1, 1.0), (2, 1.9), (4, 3.0)";
    let node_away = ", maintenance: [Maintenance(nodes: [0], from: \"0s\", to: \"9h\")]";
    for (nodes, gpus, rates, jobs, ends) in [
        // Half of the fleet is away: jobs have the size that is open.
        (
            (2, node_away),
            2,
            four,
            "Job(submit: \"1s\", gpus: 1, duration: \"190s\", batch: 32, workload: \"net\", deadline: \"1h\")",
            vec![101.0],
        ),
        // Nothing runs when the second comes, within a slot of the first.
        (
            (1, ""),
            4,
            four,
            "Job(submit: \"0s\", gpus: 1, duration: \"30s\", batch: 32, workload: \"net\", deadline: \"1h\"), \
             Job(submit: \"20s\", gpus: 1, duration: \"30s\", batch: 32, workload: \"net\", deadline: \"40s\")",
            vec![10.0, 30.0],
        ),
        // A size that is no power of two, and as long as its user says.
        (
            (1, ""),
            6,
            "(1, 1.0), (6, 5.5)",
            "Job(submit: \"0s\", gpus: 6, duration: \"90.5s\", batch: 32, workload: \"net\", deadline: \"91s\")",
            vec![90.5],
        ),
        // A job that may not be preempted keeps the GPU that it asks for; others know when it is done.
        (
            (1, ""),
            2,
            four,
            "Job(submit: \"0s\", gpus: 1, duration: \"480s\", batch: 32, workload: \"net\", preemptible: false), \
             Job(submit: \"1s\", gpus: 1, duration: \"500s\", batch: 32, workload: \"net\", deadline: \"1000s\")",
            vec![480.0, 616.842105],
        ),
    ] {
        let (nodes, away) = nodes;
        let spec = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: {nodes}, gpus: {gpus}, kind: \"T4\"{away}), {}costs: Costs(rescale: Full), workload: Jobs([{jobs}]), \
             policies: [Policy(name: \"elasticflow\"), Policy(name: \"elasticflow\", label: \"edf\", with: {{\"variant\": \"edf\"}})])",
            net(rates, 0)
        );
        for policy in 0..2 {
            let mut plan = planned(&spec).unwrap_or_else(|error| panic!("{error}"));
            plan.cells = vec![plan.cells.swap_remove(policy)];
            let (_, rows) = results::<JobRecord>(&plan);
            let found: Vec<f64> = rows.iter().map(|row| row.end_s.map_or(f64::NAN, Seconds::f64)).collect();
            let near = found.iter().zip(&ends).all(|(found, end)| (found - end).abs() < 1e-3);
            assert!(near, "{}: {found:?}, expected {ends:?}: {jobs}", plan.cells[0].label);
        }
    }
}
