//! How queues fared, in numbers: against what is worked out by hand.

use sandtable_results::metric;
use sandtable_results::schema::JobRecord;
use sandtable_runtime::QueueUse;

use crate::help::{dist, planned, results, sandtable};
use crate::queues::{HALVES, KAI, TAKEN_BACK, ran, spec};

#[test]
fn numbers_by_queue_are_what_each_held_deserved_and_lacked() {
    // Queue a asks for four GPUs and has them until 100 s; b asks for two all the time, and has them from then on, until 150 s. Until
    // 100 s a deserves its two and one of the other two, b one; then b its two.
    let queues =
        "Queue(name: \"lab\"), Queue(name: \"a\", parent: \"lab\", guaranteed: 2), Queue(name: \"b\", parent: \"lab\")";
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"0s\", gpus: 2, duration: \"50s\", queue: \"b\")])";
    let (summary, _) = ran(queues, jobs, "Policy(name: \"fifo\")");
    let numbers = |of: &QueueUse| [of.held, of.deserved, of.borrowed, of.short].map(|gpus| gpus * 150.0);
    let found: Vec<(&str, bool, usize, [f64; 4])> =
        summary.queues.iter().map(|of| (of.name.as_str(), of.is_group, of.completed, numbers(of))).collect();
    let expected = [
        ("lab", true, 2, [500.0, 500.0, 500.0, 0.0]),
        ("a", false, 1, [400.0, 300.0, 200.0, 0.0]),
        ("b", false, 1, [100.0, 200.0, 100.0, 100.0]),
    ];
    let close = |found: &[f64; 4], other: &[f64; 4]| found.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-9);
    let equal = found.iter().zip(&expected).all(|(a, b)| (a.0, a.1, a.2) == (b.0, b.1, b.2) && close(&a.3, &b.3));
    assert!(found.len() == 3 && equal, "{found:?}");
    assert_eq!((summary.queues[2].jct.mean, summary.queues[2].waiting_total.mean), (150.0, 100.0));
    let metric = |name: &str| metric::find(name).expect("a metric").of(&summary);
    assert!((metric("queues_short") - 0.2).abs() < 1e-12 && (metric("queues_borrowed") - 0.6).abs() < 1e-12);
    // No more than jobs held, whatever the policy does: through failures and preemptions the sums are the ledger's.
    let drawn = "Generate(jobs: 300, arrivals: Poisson(load: 1.3), queues: {\"a\": 1, \"b\": 2}, gpus: {1: 0.6, 2: 0.3, 4: 0.1}, \
        durations: LogNormal(median: \"20min\", sigma: 1.2))";
    let spec =
        spec(queues, drawn, KAI).replace("sharing: Shares)", "failures: Failures(mtbf: \"2d\", repair: \"1h\"))");
    let (summary, _) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
    assert!(summary.preemptions > 10 && summary.failures > 0, "{summary:?}");
    let held = [summary.queues[0].held, summary.queues[1].held + summary.queues[2].held];
    assert!(held.iter().all(|held| (held / 4.0 - summary.utilisation_window).abs() < 1e-9), "{held:?}");
    assert_eq!(summary.preemptions, summary.queues[0].preemptions);
    // What one queue has from the other, the other has given up, and the group nothing.
    let [lab, a, b] = &summary.queues[..] else { panic!("three") };
    let equal = |x: f64, y: f64| (x - y).abs() < 1e-9;
    assert!(a.reclaimed_gpu_h > 0.0 && equal(a.reclaimed_gpu_h, b.given_up_gpu_h), "{a:?}");
    assert!(
        equal(b.reclaimed_gpu_h, a.given_up_gpu_h) && lab.reclaimed_gpu_h == 0.0 && lab.given_up_gpu_h == 0.0,
        "{b:?}"
    );
}

#[test]
fn a_queue_whose_job_never_starts_is_short_until_the_window_ends() {
    // What may not be preempted starts only within what is guaranteed, which is nothing: b waits when a has ended, at 100 s, too.
    let queues = "Queue(name: \"a\", guaranteed: 2), Queue(name: \"b\")";
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"0s\", gpus: 2, duration: \"50s\", queue: \"b\", preemptible: false)])";
    let spec = spec(queues, jobs, KAI).replace("workload:", "measure: Window(until: At(\"300s\")), workload:");
    let (summary, _) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
    let of = &summary.queues[1];
    let found = [of.held, of.deserved, of.short].map(|gpus| (gpus * 300.0 * 1e6).round() / 1e6);
    assert_eq!((found, of.jobs, of.completed), ([0.0, 500.0, 500.0], 1, 0));
    // Of its times nothing is known.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let dist = dist();
    let run = |args: &[&str]| sandtable(folder.path(), &[args, &["--policies", &dist]].concat());
    let ran = run(&["run", "spec.ron"]);
    let line = ran.stdout.lines().find(|line| line.split_whitespace().nth(1) == Some("b")).unwrap_or_default();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        cells,
        ["kai-like", "b", "1", "-", "-", "0.00", "1.67", "0.00", "1.67", "0.0", "GPU-h", "0"],
        "{}",
        ran.stdout
    );
    for (file, text) in [("page.html", "<h2 id=\"queues-h\">Queues</h2>"), ("results.md", "## Queues")] {
        assert_eq!(run(&["report", "spec.ron", "-o", file]).code, 0);
        assert!(std::fs::read_to_string(folder.path().join(file)).expect("a page").contains(text), "{file}");
    }
    assert_eq!(run(&["report", "spec.ron", "-o", "queues.csv", "--rows", "queues"]).code, 0);
    let rows = std::fs::read_to_string(folder.path().join("queues.csv")).expect("rows");
    assert!(rows.lines().nth(2).is_some_and(|row| row.contains(",b,1,0,0,,,,,0,1.66")), "{rows}");
}

/// GPU-seconds by queue: reclaimed, and given up.
fn counted(spec: &str) -> Vec<[f64; 2]> {
    let spec = spec.replace("workload:", "measure: Window(until: AllEnded), workload:");
    let (summary, _) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
    let seconds = |hours: f64| (hours * 3600.0 * 1e3).round() / 1e3;
    summary.queues.iter().map(|of| [seconds(of.reclaimed_gpu_h), seconds(of.given_up_gpu_h)]).collect()
}

#[test]
fn what_a_queue_takes_back_counts_as_long_as_it_holds_it() {
    // Queue b has two GPUs of a from 10 to 60 s. The two that a gives up go back to it: that is no reclaim.
    let grouped =
        format!("Queue(name: \"lab\"), {}", HALVES.replace("guaranteed: 2", "parent: \"lab\", guaranteed: 2"));
    let taken = [[0.0, 100.0], [100.0, 0.0]];
    assert_eq!(counted(&spec(HALVES, TAKEN_BACK, KAI)), taken);
    assert_eq!(counted(&spec(&grouped, TAKEN_BACK, KAI)), [&[[0.0, 0.0]], &taken[..]].concat());
    // A group has from the other what its queue has.
    let apart = "Queue(name: \"x\", guaranteed: 2), Queue(name: \"y\", guaranteed: 2), \
        Queue(name: \"a\", parent: \"x\", guaranteed: 2), Queue(name: \"b\", parent: \"y\", guaranteed: 2)";
    assert_eq!(counted(&spec(apart, TAKEN_BACK, KAI)), [taken, taken].concat());
    // With what it costs to preempt: from 40 s, when the state is saved, to 90 s.
    let costs = spec(HALVES, TAKEN_BACK, KAI).replace("workload:", "costs: Costs(checkpoint: \"30s\"), workload:");
    assert_eq!(counted(&costs), taken);
    // What is preempted within a queue, or not at all, counts for none.
    let within = TAKEN_BACK.replace("queue: \"b\"", "queue: \"a\", priority: 5");
    assert_eq!(counted(&spec(HALVES, &within, KAI)), [[0.0; 2]; 2]);
    assert_eq!(counted(&spec(HALVES, TAKEN_BACK, "Policy(name: \"fifo\")")), [[0.0; 2]; 2]);
    // A job that moves to make room, and goes on a microsecond later, gives nothing up.
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 2, duration: \"1000s\", queue: \"a\"), Job(submit: \"0s\", gpus: 2, duration: \"50s\", queue: \"a\"), \
        Job(submit: \"1s\", gpus: 1, duration: \"1000s\", queue: \"a\"), \
        Job(submit: \"100s\", gpus: 4, duration: \"100s\", queue: \"b\", gpus_per_node: 4)])";
    for costs in ["", "costs: Costs(checkpoint: \"30s\", restore: \"30s\"), "] {
        let moves =
            spec(HALVES, jobs, KAI).replace("nodes: 1", "nodes: 2").replace("sharing: Shares", "sharing: Exclusive");
        let moves = moves.replace("workload:", &format!("{costs}workload:"));
        assert_eq!(counted(&moves), [[0.0; 2]; 2], "{costs}");
        assert_eq!(results::<JobRecord>(&planned(&moves).expect("a plan")).0.preemptions, 1);
    }
}

#[test]
fn what_a_queue_gives_up_is_what_its_jobs_had_as_long_as_they_wait() {
    let job = |at: u32, seconds: u32, queue: &str, share: f64| {
        format!("Job(submit: \"{at}s\", gpus: 1, share: {share}, duration: \"{seconds}s\", queue: {queue:?}),")
    };
    let jobs = |all: &[(u32, u32, &str, f64)]| {
        let all: Vec<String> =
            all.iter().map(|(at, seconds, queue, share)| job(*at, *seconds, queue, *share)).collect();
        format!("Jobs([{}])", all.concat())
    };
    let on_one = |queues: &str, all: &[(u32, u32, &str, f64)], policy: &str| {
        spec(queues, &jobs(all), policy).replace("gpus: 4, kind", "gpus: 1, kind")
    };
    let (two, srtf) = ("Queue(name: \"a\"), Queue(name: \"b\")", "Policy(name: \"srtf\")");
    // Four jobs of b in turn; and one of b that another of b preempts.
    let turns: Vec<(u32, u32, &str, f64)> = (10..14).map(|at| (at, 10, "b", 1.0)).collect();
    let turns = [&[(0, 1000, "a", 1.0)][..], &turns].concat();
    assert_eq!(counted(&on_one(two, &turns, srtf)), [[0.0, 40.0], [40.0, 0.0]]);
    let within = [(0, 1000, "a", 1.0), (10, 100, "b", 1.0), (11, 20, "b", 1.0)];
    assert_eq!(counted(&on_one(two, &within, srtf)), [[0.0, 120.0], [120.0, 0.0]]);
    // Job 0 saves its state until 40 s. Job 1 is to have its GPU and does not get it, since job 2 is shorter: it has lost nothing.
    let three = format!("{two}, Queue(name: \"c\")");
    let awaits = on_one(&three, &[(0, 100, "a", 1.0), (10, 50, "b", 1.0), (20, 20, "c", 1.0)], srtf);
    let awaits = awaits.replace("workload:", "costs: Costs(checkpoint: \"30s\"), workload:");
    assert_eq!(counted(&awaits), [[0.0, 70.0], [50.0, 0.0], [20.0, 0.0]]);
    // Two halves of a GPU; and a fifth of one, of which the other job takes nine tenths.
    let stops = "Policy(name: \"script\", with: {\"source\": \"def decide(w, r, n, c):\\n    b = [j for j in w if j.queue == 1]\\n    \
        if b: return [stop(j) for j in r if j.queue == 0] + [start(j) for j in b]\\n    return [start(j) for j in w]\\n\"})";
    let halves = [(0, 100, "a", 0.5), (0, 100, "a", 0.5), (10, 50, "b", 0.5), (10, 50, "b", 0.5)];
    assert_eq!(counted(&on_one(two, &halves, stops)), [[0.0, 50.0], [50.0, 0.0]]);
    let guaranteed = "Queue(name: \"a\"), Queue(name: \"b\", guaranteed: 1)";
    assert_eq!(counted(&on_one(guaranteed, &halves, KAI)), [[0.0, 50.0], [50.0, 0.0]]);
    let fifth = [(0, 100, "a", 0.2), (10, 50, "b", 0.9)];
    assert_eq!(counted(&on_one(two, &fifth, stops)), [[0.0, 10.0], [10.0, 0.0]]);
}
