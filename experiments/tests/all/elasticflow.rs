//! ElasticFlow's published schedules, from the spec through the component: EDF is met job by job and event by event, ElasticFlow's own way GPU by GPU.

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

/// Every GPU of every event is met. A job there is over with the slot in which it is done, or, where it is found to be done at an event within the slot, when it would have been
/// without the cost of its last start; here it is over when it is done.
#[needs("data:elasticflow")]
#[test]
fn published_elasticflow_is_met_gpu_by_gpu() {
    let plan = cell("elasticflow", "");
    let (summary, rows) = results::<JobRecord>(&plan);
    let due = summary.deadlines.as_ref().expect("deadlines");
    assert_eq!((due.jobs, due.met), (100, 100), "all are admitted and meet their deadlines, there and here");
    let (_, stays) = results::<StayRecord>(&plan);
    let events = events("elasticflow/ef-accessctrl.events.csv.gz");
    assert_eq!(events.len(), 186);
    for (at, theirs) in &events {
        assert_eq!(held(&stays, *at), *theirs, "at {at} s");
    }
    let last: BTreeMap<&str, &StayRecord> = stays.iter().map(|stay| (stay.job_id.as_str(), stay)).collect();
    let published: Table = table(&data("elasticflow/ef-accessctrl.jobs.csv"));
    assert_eq!(rows.len(), published.len());
    let mut with_their_slot = 0;
    for (ours, theirs) in rows.iter().zip(&published) {
        assert_eq!(ours.first_start_s.map(Seconds::f64), Some(number(theirs, "start_s")), "{theirs:?}");
        let stay = last[theirs["job_id"].as_str()];
        let (from, to, end) = (stay.from_s.f64(), stay.to_s.f64(), number::<f64>(theirs, "end_s"));
        // The cost of a gang that began at its first GPU before, and of one that did not.
        let costs = [2.0, 4.0 + 2.0 * f64::from(stay.gpus.0.len().ilog2())];
        let with_slot = costs.iter().any(|cost| from + cost + ((to - from - cost) / 240.0).ceil() * 240.0 == end);
        assert!(with_slot || costs.iter().any(|cost| to - cost == end), "{theirs:?}, {from} s to {to} s");
        with_their_slot += usize::from(with_slot);
    }
    assert_eq!(with_their_slot, 92, "the other eight are found to be done within a slot");
    told(&format!("ElasticFlow: {} events as published, GPU by GPU, and {} jobs", events.len(), rows.len()));
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
