//! Queues that share the GPUs, from the spec through the components to results, against schedules worked out by hand.

use sandtable_results::schema::{JobRecord, Seconds};
use sandtable_runtime::Summary;

use crate::help::{dist, planned, results, sandtable};

/// The spec of one policy on one node of four GPUs.
pub(crate) fn spec(queues: &str, workload: &str, policy: &str) -> String {
    format!(
        "Experiment(title: \"queues\", fleet: Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0, sharing: Shares), \
         queues: [{queues}], workload: {workload}, policies: [{policy}], predictors: {{\"remaining\": Oracle}})"
    )
}

pub(crate) fn ran(queues: &str, workload: &str, policy: &str) -> (Summary, Vec<JobRecord>) {
    results(&planned(&spec(queues, workload, policy)).unwrap_or_else(|error| panic!("{error}")))
}

/// Seconds at which each job ended.
fn ends(queues: &str, workload: &str, policy: &str) -> Vec<f64> {
    let (_, rows) = ran(queues, workload, policy);
    rows.iter().map(|row| row.end_s.map_or(f64::NAN, Seconds::f64)).collect()
}

pub(crate) const KAI: &str = "Policy(name: \"kai-like\")";
const KUEUE: &str = "Policy(name: \"kueue-like\")";
pub(crate) const HALVES: &str = "Queue(name: \"a\", guaranteed: 2), Queue(name: \"b\", guaranteed: 2)";

/// Queue a has all four GPUs until b asks for two at 10 s.
pub(crate) const TAKEN_BACK: &str = "Jobs([Job(submit: \"0s\", gpus: 2, duration: \"100s\", queue: \"a\"), \
    Job(submit: \"0s\", gpus: 2, duration: \"100s\", queue: \"a\"), Job(submit: \"10s\", gpus: 2, duration: \"50s\", queue: \"b\")])";

#[test]
fn a_queue_takes_back_what_another_has_above_its_share() {
    // The later job of a stops, and goes on at 60 s.
    let jobs = TAKEN_BACK;
    assert_eq!(ends(HALVES, jobs, KAI), [100.0, 150.0, 60.0]);
    let keeps = "Policy(name: \"kai-like\", with: {\"reclaim\": false})";
    assert_eq!(ends(HALVES, jobs, keeps), [100.0, 100.0, 150.0]);
    // Without limits any policy runs, and looks at no queue.
    assert_eq!(ends(HALVES, jobs, "Policy(name: \"fifo\")"), [100.0, 100.0, 150.0]);
    // What may not be preempted is not taken back, and starts only within what is guaranteed: the second waits for the first.
    let firm = jobs.replace("queue: \"a\"", "queue: \"a\", preemptible: false");
    assert_eq!(ends(HALVES, &firm, KAI), [100.0, 200.0, 60.0]);
}

fn kueue(with: &str) -> String {
    format!("Policy(name: \"kueue-like\", with: {{{with}}})")
}

#[test]
fn quotas_are_lent_and_taken_back() {
    // Queue b stays within its two GPUs: of those of a, which began at the same time, the first goes.
    let jobs = TAKEN_BACK;
    assert_eq!(ends(HALVES, jobs, KUEUE), [150.0, 100.0, 60.0]);
    assert_eq!(ends(HALVES, jobs, &kueue("\"reclaim\": \"never\"")), [100.0, 100.0, 150.0]);
    let firm = jobs.replacen("queue: \"a\"", "queue: \"a\", preemptible: false", 1);
    assert_eq!(ends(HALVES, &firm, KUEUE), [100.0, 150.0, 60.0]);
    // Killed, it begins again.
    assert_eq!(ends(HALVES, jobs, &kueue("\"evict\": \"kill\"")), [160.0, 100.0, 60.0]);
    // What a group is guaranteed is for those in it: one may use all of it, and none of the other two GPUs until they are free.
    let group = "Queue(name: \"x\", guaranteed: 2), Queue(name: \"a\", parent: \"x\"), Queue(name: \"b\", guaranteed: 2, limit: 2)";
    assert_eq!(ends(group, jobs, KUEUE), [150.0, 100.0, 60.0]);
    // A queue has no more than its limit.
    let limited = HALVES.replace("guaranteed: 2)", "guaranteed: 2, limit: 2)");
    assert_eq!(ends(&limited, jobs, KUEUE), [100.0, 200.0, 60.0]);
}

#[test]
fn queues_that_borrow_preempt_by_their_shares() {
    let jobs = |a: u32, b: u32| {
        let job =
            |at: u32, queue: &str| format!("Job(submit: \"{at}s\", gpus: 1, duration: \"100s\", queue: \"{queue}\"),");
        format!("Jobs([{}{}])", job(0, "a").repeat(a as usize), job(10, "b").repeat(b as usize))
    };
    // Of four GPUs that no queue owns a has all. Each job of b preempts one of a while its share with it is at most that of a
    // without the other: two. At 100 s those of a come first, whose share is then the smaller.
    let equal = "Queue(name: \"a\"), Queue(name: \"b\")";
    let two_each = [190.0, 190.0, 100.0, 100.0, 110.0, 110.0, 210.0, 210.0];
    assert_eq!(ends(equal, &jobs(4, 4), KUEUE), two_each);
    assert_eq!(ends(equal, &jobs(4, 4), &kueue("\"strategies\": \"final-share\"")), two_each);
    // By weight three to one: three.
    let weighted = "Queue(name: \"a\"), Queue(name: \"b\", weight: 3)";
    assert_eq!(ends(weighted, &jobs(4, 3), KUEUE), [190.0, 200.0, 200.0, 100.0, 110.0, 110.0, 110.0]);
    // A queue of weight 0 that borrows has an infinite share: it preempts none, and all preempt of it.
    let none = "Queue(name: \"a\"), Queue(name: \"b\", weight: 0)";
    assert_eq!(ends(none, &jobs(4, 1), KUEUE), [100.0, 100.0, 100.0, 100.0, 200.0]);
    // One job of four GPUs: with it b would have what a has now, and the second strategy asks for less.
    let large = "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"10s\", gpus: 3, duration: \"100s\", queue: \"b\")])";
    assert_eq!(ends(equal, large, KUEUE), [200.0, 110.0]);
    assert_eq!(ends(equal, large, &kueue("\"strategies\": \"final-share\"")), [100.0, 200.0]);
}

#[test]
fn without_shares_only_quota_or_priority_takes_from_other_queues() {
    let classical = |with: &str| kueue(&format!("\"preemption\": \"classical\"{with}"));
    assert_eq!(ends(HALVES, TAKEN_BACK, &classical("")), ends(HALVES, TAKEN_BACK, KUEUE));
    // Of four GPUs that no queue owns b takes none, unless its job is more important and it may borrow meanwhile.
    let jobs = |priority: u32| {
        format!(
            "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", queue: \"a\"), \
             Job(submit: \"10s\", gpus: 3, duration: \"100s\", queue: \"b\", priority: {priority})])"
        )
    };
    let borrows = classical(", \"borrow_within\": \"lower-priority\", \"borrow_threshold\": 0");
    let equal = "Queue(name: \"a\"), Queue(name: \"b\")";
    assert_eq!(ends(equal, &jobs(1), &classical("")), [100.0, 200.0]);
    assert_eq!(ends(equal, &jobs(0), &borrows), [100.0, 200.0]);
    assert_eq!(ends(equal, &jobs(1), &borrows), [200.0, 110.0]);
}

#[test]
fn rules_that_lead_in_a_circle_lead_to_an_end() {
    // Job 1 takes the GPUs of job 0, which is in its queue, job 2 those of job 1, which borrows more, and job 0 those of job 2, since it
    // stays within its quota: each runs for a second before it goes.
    let queues = "Queue(name: \"a\", guaranteed: 2), Queue(name: \"b\", guaranteed: 3)";
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 2, duration: \"100s\", queue: \"a\", priority: 1), \
        Job(submit: \"1s\", gpus: 5, duration: \"100s\", queue: \"a\", priority: 2), \
        Job(submit: \"2s\", gpus: 4, duration: \"100s\", queue: \"b\", priority: 2)])";
    for with in ["", "\"least_run\": 10"] {
        let spec = spec(queues, jobs, &kueue(with)).replace("gpus: 4, kind", "gpus: 5, kind");
        let (summary, rows) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
        let most = if with.contains("least") { 10.0 } else { 1.0 };
        assert_eq!(summary.unfinished, 0, "{with}");
        assert!(rows.iter().all(|row| f64::from(row.preemptions) * most <= row.held_s.f64()), "{with}");
    }
}

#[test]
fn jobs_on_a_node_that_drains_leave_quota_on_the_others() {
    // Node 0 drains from 10 s on while a has it; b has node 1.
    let fleet = "Model(nodes: 2, gpus: 4, kind: \"g\", speed: 1.0, \
        maintenance: [Maintenance(nodes: [0], from: \"50s\", to: \"60s\", notice: \"40s\")])";
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"20s\", gpus: 4, duration: \"10s\", queue: \"b\")])";
    let spec = spec("Queue(name: \"a\"), Queue(name: \"b\", guaranteed: 4)", jobs, KUEUE)
        .replace("Model(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0, sharing: Shares)", fleet);
    let (_, rows) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(rows[1].end_s.map(Seconds::f64), Some(30.0));
}

#[test]
fn jobs_of_a_queue_pass_each_other_or_wait() {
    assert_eq!(ends("Queue(name: \"a\")", &WAITING.replace("\"b\"", "\"a\""), KUEUE), [100.0, 110.0, 12.0]);
    let strict = kueue("\"queueing\": \"strict\"");
    assert_eq!(ends("Queue(name: \"a\")", &WAITING.replace("\"b\"", "\"a\""), &strict), [100.0, 110.0, 120.0]);
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"10s\", gpus: 2, duration: \"50s\", queue: \"a\", priority: 1)])";
    assert_eq!(ends("Queue(name: \"a\")", jobs, KUEUE), [150.0, 60.0]);
    assert_eq!(ends("Queue(name: \"a\")", jobs, &kueue("\"within_queue\": \"never\"")), [100.0, 150.0]);
}

#[test]
fn the_cheapest_victim_goes_first_where_that_is_asked() {
    // At 40 s queue a asks for two GPUs: of those of b one job has done 40 of 1000 s, one that came later 30 of 50.
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 2, duration: \"1000s\", queue: \"b\"), \
        Job(submit: \"10s\", gpus: 2, duration: \"50s\", queue: \"b\"), \
        Job(submit: \"40s\", gpus: 2, duration: \"50s\", queue: \"a\")])";
    let ends = |with: &str, costs: &str| {
        let policy = format!("Policy(name: \"kai-like\", with: {{{with}}})");
        let spec = spec(HALVES, jobs, &policy).replace("workload:", &format!("{costs} reveal: [Progress], workload:"));
        let (_, rows) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
        let ends: Vec<f64> = rows.iter().map(|row| row.end_s.map_or(f64::NAN, Seconds::f64)).collect();
        (ends, rows.iter().map(|row| row.lost_s.f64()).sum::<f64>())
    };
    assert_eq!(ends("", ""), (vec![1000.0, 110.0, 90.0], 0.0));
    assert_eq!(ends("\"victims\": \"least-done\"", ""), (vec![1020.0, 60.0, 90.0], 0.0));
    // Killed, each repeats what it did since it last saved its state: the second 10 s, the first nothing.
    let saves = "costs: Costs(checkpoint_every: \"20s\"),";
    assert_eq!(ends("\"evict\": \"kill\"", saves), (vec![1000.0, 120.0, 90.0], 10.0));
    assert_eq!(ends("\"evict\": \"kill\", \"victims\": \"least-lost\"", saves), (vec![1020.0, 60.0, 90.0], 0.0));
    // With a state that is saved each 15 s it is the other way round: 10 s are lost of the first, nothing of the second.
    let saves = "costs: Costs(checkpoint_every: \"15s\"),";
    assert_eq!(ends("\"evict\": \"kill\", \"victims\": \"least-lost\"", saves), (vec![1000.0, 110.0, 90.0], 0.0));
}

/// One node of four GPUs, two of them held by job 0 until 100 s; a large job waits, and a small one behind it.
const WAITING: &str = "Jobs([Job(submit: \"0s\", gpus: 2, duration: \"100s\", queue: \"a\"), \
    Job(submit: \"1s\", gpus: 4, duration: \"10s\", queue: \"b\"), Job(submit: \"2s\", gpus: 1, duration: \"10s\", queue: \"a\")])";

#[test]
fn people_are_told_why_a_job_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let asked = |queues: &str, policy: &str, jobs: &str, job: &str, at: &str| {
        std::fs::write(folder.path().join("spec.ron"), spec(queues, jobs, policy)).expect("written");
        let run = |args: &[&str]| sandtable(folder.path(), &[args, &["--policies", &dist()]].concat());
        let ran = run(&["run", "spec.ron"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let said = run(&["show", "spec.ron", "--job", job, "--why", at]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        said.stdout
    };
    let ask = |queues: &str, policy: &str, job: &str, at: &str| asked(queues, policy, WAITING, job, at);
    let fifo = "Policy(name: \"fifo\")";
    let said = |queues: &str, policy: &str, job: &str| ask(queues, policy, job, "50s");
    let room = "  2 of 4 GPUs free; there is room once these jobs give their GPUs back: 0\n";
    let told = "job 1 at 50 s (decision at 2 s): waits: fewer GPUs are free than it asks for\n";
    assert_eq!(said(HALVES, fifo, "1"), format!("{told}{room}"));
    assert_eq!(said(HALVES, fifo, "2"), "job 2 at 50 s (decision at 2 s): waits: it comes after 1\n");
    assert_eq!(said(HALVES, fifo, "0"), "job 0 at 50 s (decision at 2 s): runs\n");
    assert_eq!(ask(HALVES, fifo, "1", "500ms"), "job 1 at 0.5 s (decision at 0 s): not submitted yet\n");
    assert_eq!(ask(HALVES, fifo, "1", "100s"), "job 1 at 100 s (decision at 100 s): is started\n");
    assert_eq!(ask(HALVES, fifo, "0", "1h"), "job 0 at 3600 s (decision at 110 s): has ended\n");
    // It has ended since the latest decision, which started it.
    assert_eq!(ask(HALVES, fifo, "2", "115s"), "job 2 at 115 s (decision at 110 s): is started\n");
    assert_eq!(ask(HALVES, fifo, "2", "1h"), "job 2 at 3600 s (decision at 110 s): has ended\n");
    // What may not be preempted starts within what is guaranteed: here that is nothing.
    let firm = WAITING.replace("queue: \"b\"", "queue: \"b\", preemptible: false");
    let told = "job 1 at 50 s (decision at 12 s): waits: it may not be preempted, and with it such jobs would hold more than its queue or a \
                group above it is guaranteed\n";
    assert_eq!(asked("Queue(name: \"a\"), Queue(name: \"b\")", KAI, &firm, "1", "50s"), format!("{told}{room}"));
    let lacks = "job 1 at 50 s (decision at 12 s): waits: its queue has no quota left for it, of its own or lent, and may take none back\n";
    assert_eq!(said(HALVES, KUEUE, "1"), format!("{lacks}{room}"));
    // The limit of a queue stands before what is free.
    let limited = HALVES.replace("guaranteed: 2), Queue(name: \"b\"", "limit: 2), Queue(name: \"b\"");
    let full = "job 2 at 50 s (decision at 2 s): waits: queue a would be above its limit\n";
    assert_eq!(said(&limited, KAI, "2"), full);
}

#[test]
fn what_no_queue_is_guaranteed_goes_by_weight() {
    // Three parts to one: three jobs of a and one of b run at first, then the other way round.
    let queues = "Queue(name: \"a\", weight: 3), Queue(name: \"b\", weight: 1)";
    let job = |queue: &str| format!("Job(submit: \"0s\", gpus: 1, duration: \"100s\", queue: \"{queue}\"),");
    let jobs = format!("Jobs([{}{}])", job("b").repeat(4), job("a").repeat(4));
    assert_eq!(ends(queues, &jobs, KAI), [100.0, 200.0, 200.0, 200.0, 100.0, 100.0, 100.0, 200.0]);
    // The one with the higher priority takes all that it can use.
    let first = queues.replace("weight: 1", "weight: 1, priority: 1");
    assert_eq!(ends(&first, &jobs, KAI), [100.0, 100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 200.0]);
}

#[test]
fn a_job_takes_gpus_of_a_lower_priority_in_its_own_queue() {
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"10s\", gpus: 2, duration: \"50s\", queue: \"a\", priority: 1)])";
    // From 10 to 60 s.
    assert_eq!(ends("Queue(name: \"a\")", jobs, KAI), [150.0, 60.0]);
    let keeps = "Policy(name: \"kai-like\", with: {\"preempt\": false})";
    assert_eq!(ends("Queue(name: \"a\")", jobs, keeps), [100.0, 150.0]);
    // Beside it there would be room, but not within the limit of the group.
    let small = jobs.replace("gpus: 4", "gpus: 2");
    let limited = "Queue(name: \"lab\", limit: 3), Queue(name: \"a\", parent: \"lab\")";
    assert_eq!(ends(limited, &small, KAI), [150.0, 60.0]);
}

/// One-GPU jobs of queue b that hold eight GPUs, each for 1000 s; the later the second at which it came.
fn eight(priority: fn(u32) -> u32) -> String {
    let job = |at: u32| {
        let priority = priority(at);
        format!("Job(submit: \"{at}s\", gpus: 1, duration: \"1000s\", queue: \"b\", priority: {priority}),")
    };
    (0..8).map(job).collect()
}

/// What becomes of jobs of queues, without preemption in a queue, on these machines.
fn machines(fleet: &str, queues: &str, jobs: &str) -> Vec<JobRecord> {
    let text = format!(
        "Experiment(title: \"queues\", fleet: Model(kind: \"g\", speed: 1.0, {fleet}), queues: [{queues}], \
         workload: Jobs([{jobs}]), policies: [Policy(name: \"kai-like\", with: {{\"preempt\": false}})])"
    );
    results(&planned(&text).unwrap_or_else(|error| panic!("{error}"))).1
}

fn preemptions(rows: &[JobRecord]) -> Vec<u32> {
    rows.iter().map(|row| row.preemptions).collect()
}

const A_FOUR: &str = "Queue(name: \"a\", guaranteed: 4), Queue(name: \"b\")";

#[test]
fn no_more_jobs_go_than_must() {
    // A gang of four on one node: those of even seconds go first, and are on both nodes; the four of one node suffice.
    let gang = "Job(submit: \"20s\", gpus: 4, gpus_per_node: 4, duration: \"100s\", queue: \"a\"),";
    let rows = machines("nodes: 2, gpus: 4", A_FOUR, &(eight(|at| at % 2) + gang));
    assert_eq!(preemptions(&rows).iter().sum::<u32>(), 4, "{:?}", preemptions(&rows));
    assert_eq!(rows[8].first_start_s.map(Seconds::f64), Some(20.0));
    // A gang of eight that lets go makes room for two jobs of four.
    let weights = "Queue(name: \"a\", weight: 6), Queue(name: \"b\", weight: 10)";
    let job = |at: u32, gpus: u32, queue: &str| {
        format!("Job(submit: \"{at}s\", gpus: {gpus}, duration: \"1000s\", queue: \"{queue}\"),")
    };
    let jobs = [job(0, 8, "a"), job(0, 8, "a"), job(9, 4, "b"), job(9, 4, "b"), job(9, 16, "b")].concat();
    let rows = machines("nodes: 2, gpus: 8", weights, &jobs);
    assert_eq!(preemptions(&rows), [0, 1, 0, 0, 0]);
}

#[test]
fn jobs_on_a_node_that_drains_are_not_taken_for_others() {
    let drains =
        "nodes: 2, gpus: 4, maintenance: [Maintenance(nodes: [1], from: \"500s\", to: \"600s\", notice: \"490s\")]";
    let one = "Job(submit: \"20s\", gpus: 1, duration: \"100s\", queue: \"a\"),";
    let rows = machines(drains, A_FOUR, &(eight(|_| 0) + one));
    assert_eq!(rows[8].first_start_s.map(Seconds::f64), Some(20.0));
    // The latest of those on the node that stays up; the four on the other are lost with it, which is no preemption.
    assert_eq!(preemptions(&rows), [0, 0, 0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_group_above_its_share_is_left_alone_where_the_swap_is_inside_it() {
    // The group x has five GPUs and a share of four, since c waits: for a one of its own jobs goes, and not the gang of four too.
    let queues =
        "Queue(name: \"x\"), Queue(name: \"a\", parent: \"x\"), Queue(name: \"b\", parent: \"x\"), Queue(name: \"c\")";
    let job = |at: u32, gpus: u32, queue: &str| {
        format!("Job(submit: \"{at}s\", gpus: {gpus}, duration: \"1000s\", queue: \"{queue}\"),")
    };
    let jobs = [job(0, 4, "b"), job(0, 1, "b"), job(0, 3, "c"), job(2, 5, "c"), job(10, 1, "a")].concat();
    let rows = machines("nodes: 1, gpus: 8", queues, &jobs);
    assert_eq!(preemptions(&rows), [0, 1, 0, 0, 0]);
    assert_eq!(rows[4].first_start_s.map(Seconds::f64), Some(10.0));
}

#[test]
fn shares_of_gpus_add_up_exactly() {
    // Three tenths are three times a tenth: all three start, though none may be taken back.
    let job = "Job(submit: \"0s\", gpus: 1, share: 0.1, duration: \"100s\", queue: \"a\", preemptible: false),";
    let jobs = format!("Jobs([{}])", job.repeat(3));
    assert_eq!(ends("Queue(name: \"a\", guaranteed: 0.3)", &jobs, KAI), [100.0; 3]);
    assert_eq!(ends("Queue(name: \"a\", guaranteed: 0.299)", &jobs, KAI), [100.0, 100.0, 200.0]);
}

#[test]
fn queues_do_not_take_from_each_other_for_ever() {
    // Guarantees beyond the cluster, parts of GPUs, priorities: with each, queues once took turns every microsecond.
    let queues = "Queue(name: \"x\", guaranteed: 20, weight: 2, priority: 1), Queue(name: \"y\", parent: \"x\", guaranteed: 4, weight: 0), \
        Queue(name: \"a\", parent: \"y\", weight: 0.1), Queue(name: \"b\", parent: \"y\", guaranteed: 20, weight: 3, priority: 1), \
        Queue(name: \"c\", parent: \"x\", guaranteed: 0.5), Queue(name: \"d\", guaranteed: 4, weight: 0, priority: -1)";
    let kills = &kueue(
        "\"evict\": \"kill\", \"within_queue\": \"lower-or-newer-equal-priority\", \"strategies\": \"initial-share\"",
    );
    let classical = &kueue("\"preemption\": \"classical\", \"borrow_within\": \"lower-priority\"");
    for (seed, policy) in (0..60).flat_map(|seed| [(seed, KAI), (seed, KUEUE), (seed, kills), (seed, classical)]) {
        let text = format!(
            "Experiment(title: \"turns\", fleet: Model(nodes: 3, gpus: 4, kind: \"g\", speed: 1.0, sharing: Shares), queues: [{queues}], \
         workload: Generate(jobs: 60, arrivals: Bursts(load: 3, size: 10), durations: LogNormal(median: \"1min\", sigma: 2), \
         gpus: {{1: 3, 2: 2, 6: 1}}, queues: {{\"a\": 1, \"b\": 2, \"c\": 2, \"d\": 1}}, priorities: {{0: 2, 1: 1, 2: 1}}), \
         policies: [{policy}], seeds: List([{seed}]))"
        );
        let (summary, rows) = results(&planned(&text).unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(summary.unfinished, 0, "{policy}, seed {seed}");
        // Before each a job has run for a second.
        let bounded = |row: &JobRecord| f64::from(row.preemptions) <= row.held_s.f64();
        assert!(rows.iter().all(bounded), "seed {seed}: {:?}", preemptions(&rows));
    }
}

#[test]
fn no_queue_or_group_has_more_than_its_limit() {
    let queues = "Queue(name: \"lab\", limit: 2.5), Queue(name: \"a\", parent: \"lab\", limit: 1), \
        Queue(name: \"b\", parent: \"lab\"), Queue(name: \"c\")";
    let jobs = "Jobs([Job(submit: \"0s\", gpus: 1, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"0s\", gpus: 1, duration: \"100s\", queue: \"a\"), \
        Job(submit: \"0s\", gpus: 1, duration: \"100s\", queue: \"b\"), \
        Job(submit: \"0s\", gpus: 1, duration: \"100s\", queue: \"b\"), \
        Job(submit: \"0s\", gpus: 1, share: 0.5, duration: \"100s\", queue: \"b\"), \
        Job(submit: \"0s\", gpus: 3, duration: \"100s\", queue: \"b\")])";
    // At once one job of a, one of b, and the half GPU; then one of each again. Three GPUs are more than the lab may ever have.
    let (summary, rows) = ran(queues, jobs, KAI);
    let ends: Vec<f64> = rows.iter().map(|row| row.end_s.map_or(f64::NAN, Seconds::f64)).collect();
    assert_eq!(ends[..5], [100.0, 200.0, 100.0, 200.0, 100.0]);
    assert_eq!((summary.completed, summary.rejected), (5, 1));
    let reason = "rejected: it asks for 3 GPUs, the jobs of the queue \"lab\" may hold 2.5 together";
    assert_eq!(rows[5].outcome.to_string(), reason);
}

#[test]
fn a_policy_that_does_not_keep_to_limits_does_not_begin() {
    let folder = tempfile::tempdir().expect("a folder");
    let jobs = "Generate(jobs: 9, queues: {\"a\": 1})";
    let text =
        spec("Queue(name: \"a\", limit: 2)", jobs, "\n  Policy(name: \"kai-like\"),\n  Policy(name: \"fifo\"),\n");
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "s", "--policies", &dist()]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let says = |text: &str| assert!(ran.stderr.contains(text), "{}", ran.stderr);
    says("it does not keep to the limits of queues");
    says("spec.ron:3:");
}

#[test]
fn queues_are_drawn_by_weight() {
    let workload = "Generate(jobs: 4000, queues: {\"a\": 3, \"b\": 1})";
    let jobs = planned(&spec(HALVES, workload, KAI)).expect("a plan").cells[0].jobs().expect("jobs");
    let of_a = jobs.iter().filter(|job| job.queue.is_some_and(|queue| queue.index() == 0)).count();
    assert!((of_a as f64 / 4000.0 - 0.75).abs() < 0.03, "{of_a}");
}

#[test]
fn bad_queues_are_refused_with_what_was_expected() {
    let job = |queue: &str| format!("Jobs([Job(submit: \"0s\", gpus: 1, duration: \"1s\"{queue})])");
    let cases = [
        ("Queue(name: \"\")", "", "expected a name without control characters, found \"\""),
        ("Queue(name: \"a\"), Queue(name: \"a\")", "", "two queues are called \"a\""),
        ("Queue(name: \"a\", parent: \"b\"), Queue(name: \"b\")", "", "no queue \"b\" comes before \"a\""),
        ("Queue(name: \"a\", weight: -1)", "", "expected a number from 0 to 10^6, found -1"),
        ("Queue(name: \"a\", guaranteed: 2e6)", "", "expected GPUs from 0 to 10^6, to a thousandth, found 2000000"),
        ("Queue(name: \"a\", limit: 0)", "", "expected GPUs from 0.001 to 10^6, to a thousandth, found 0"),
        ("Queue(name: \"a\", limit: 0.0015)", "", "expected GPUs from 0.001 to 10^6, to a thousandth, found 0.0015"),
        ("Queue(name: \"a\")", "", "job \"0\" names no queue"),
        ("Queue(name: \"team\")", ", queue: \"tema\"", "job \"0\" is submitted to a queue \"tema\" that there is not"),
        (
            "Queue(name: \"lab\"), Queue(name: \"a\", parent: \"lab\")",
            ", queue: \"lab\"",
            "job \"0\" is submitted to \"lab\", a group of queues",
        ),
    ];
    for (queues, queue, why) in cases {
        let text = spec(queues, &job(queue), "Policy(name: \"fifo\")");
        let found = planned(&text).and_then(|plan| plan.cells[0].jobs().map(drop).map_err(|error| error.to_string()));
        assert!(found.as_ref().is_err_and(|error| error.contains(why)), "{queues}: {found:?}");
    }
    let drawn = [
        ("Queue(name: \"a\")", "", "drawn jobs are in no queue: expected `queues` with the weight of each"),
        ("Queue(name: \"a\")", ", queues: {\"a\": 1, \"b\": 0}", "jobs are drawn to a queue \"b\" that there is not"),
        ("", ", queues: {\"a\": 1}", "jobs are drawn to a queue \"a\" that there is not"),
    ];
    for (queues, weights, why) in drawn {
        let text = spec(queues, &format!("Generate(jobs: 1{weights})"), "Policy(name: \"fifo\")");
        let found = planned(&text).map(drop);
        assert!(found.as_ref().is_err_and(|error| error.contains(why)), "{queues}: {found:?}");
    }
    let chain = |count: usize| {
        let link = |at: usize| format!("Queue(name: \"q{at}\", parent: \"q{}\"),", at - 1);
        format!("Queue(name: \"q0\"),{}", (1..count).map(link).collect::<String>())
    };
    let in_chain =
        |count: usize| planned(&spec(&chain(count), &job(&format!(", queue: \"q{}\"", count - 1)), KAI)).map(drop);
    assert_eq!(in_chain(33), Ok(()));
    assert!(in_chain(34).is_err_and(|error| error.contains("expected at most 32 groups above \"q33\"")));
    // Where the experiment has no queues, what a job says of one moves nothing.
    assert!(planned(&spec("", &job(", queue: \"x\""), "Policy(name: \"fifo\")")).is_ok());
    let (_, rows) = ran("", &job(", queue: \"x\""), "Policy(name: \"fifo\")");
    assert_eq!(rows.len(), 1);
}
