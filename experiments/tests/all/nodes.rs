//! What gangs ask of nodes beside GPUs, from the spec through the components to results, against schedules worked out by hand.

use std::collections::BTreeMap;

use sandtable_inputs::trace::{self, Options, Row, TraceFormat};
use sandtable_needs::needs;
use sandtable_results::schema::{JobRecord, Seconds, StayRecord};
use sandtable_runtime::Summary;

use crate::help::{data, dist, planned, results, sandtable};

/// The spec of one policy on nodes of four GPUs.
fn spec(fleet: &str, workload: &str, policy: &str) -> String {
    format!(
        "Experiment(title: \"nodes\", fleet: Model(kind: \"g\", speed: 1.0, gpus: 4, {fleet}), workload: {workload}, \
         policies: [{policy}], predictors: {{\"remaining\": Oracle}})"
    )
}

fn ran(fleet: &str, workload: &str, policy: &str) -> (Summary, Vec<JobRecord>) {
    results(&planned(&spec(fleet, workload, policy)).unwrap_or_else(|error| panic!("{error}")))
}

/// Seconds at which each job started, and the nodes of its last placement.
fn starts(rows: &[JobRecord]) -> Vec<(f64, String)> {
    let of = |row: &JobRecord| (row.first_start_s.map_or(f64::NAN, Seconds::f64), row.last_placement.to_string());
    rows.iter().map(of).collect()
}

const SKIP: &str = "Policy(name: \"fifo\", with: {\"backfill\": \"skip\"})";

#[test]
fn a_gang_waits_for_nodes_that_each_have_room_for_its_part() {
    // The first leaves one GPU on node 0: of four GPUs, two on each node, there is room at 100 s alone; split in any way there
    // is room at once.
    let jobs = |shape: &str| {
        format!(
            "Jobs([Job(submit: \"0s\", gpus: 3, duration: \"100s\"), Job(submit: \"1s\", gpus: 4, duration: \"10s\"{shape}), \
             Job(submit: \"2s\", gpus: 1, duration: \"300s\")])"
        )
    };
    let (_, rows) = ran("nodes: 2", &jobs(", gpus_per_node: 2"), SKIP);
    assert_eq!(starts(&rows), [(0.0, "0:3".into()), (100.0, "0:2;1:2".into()), (2.0, "0:1".into())]);
    let (_, rows) = ran("nodes: 2", &jobs(""), SKIP);
    assert_eq!(starts(&rows)[1], (1.0, "1:4".into()));
    // While it waits, five GPUs are free.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), spec("nodes: 2", &jobs(", gpus_per_node: 2"), SKIP))
        .expect("written");
    let dist = dist();
    let run = |args: &[&str]| sandtable(folder.path(), &[args, &["--policies", &dist]].concat());
    assert_eq!(run(&["run", "spec.ron"]).code, 0);
    let said = run(&["show", "spec.ron", "--job", "1", "--why", "1min", "--format", "json"]);
    let row: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(row["why"], "enough GPUs are free, but they are no place for it", "{}", said.stderr);
    assert_eq!((row["lacks"].as_str(), row["after"].as_array().map(Vec::len)), (Some("fragmented"), Some(1)), "{row}");
    assert_eq!((row["state"].as_str(), row["decided_s"].as_f64()), (Some("waits"), Some(2.0)));
}

#[test]
fn kueue_like_gives_gangs_the_nodes_that_kueue_gives_them() {
    let job = |at: u32, gpus: u32, more: &str| {
        format!("Job(submit: \"{at}s\", gpus: {gpus}, duration: \"100s\", queue: \"q\"{more})")
    };
    let placed = |jobs: &[String]| {
        let fleet = "nodes: 4, levels: [Level(name: \"rack\", nodes: 2)]";
        let jobs = format!("Jobs([{}])", jobs.join(", "));
        let queues = "queues: [Queue(name: \"q\", guaranteed: 16)], workload:";
        let spec = spec(fleet, &jobs, "Policy(name: \"kueue-like\")").replace("workload:", queues);
        let (_, rows) = results::<JobRecord>(&planned(&spec).unwrap_or_else(|error| panic!("{error}")));
        starts(&rows)
    };
    // One node for three GPUs; the nodes with the least room for six; of the rack that has seven left the whole node, and then the tightest.
    let rack = ", near: Near(preferred: \"rack\")";
    let expected = [(0.0, "0:3".into()), (1.0, "0:1;1:4;2:1".into()), (2.0, "2:2;3:4".into())];
    assert_eq!(placed(&[job(0, 3, ""), job(1, 6, ""), job(2, 6, rack)]), expected);
    // Within a rack or not at all; where a rack is only preferred and none has room, the largest first.
    let required = ", near: Near(required: \"rack\")";
    let expected = [(0.0, "0:4;1:3".into()), (1.0, "2:4;3:1".into()), (100.0, "0:4;1:4".into())];
    assert_eq!(placed(&[job(0, 7, rack), job(1, 5, rack), job(2, 8, required)]), expected);
    let expected = [(0.0, "0:1".into()), (1.0, "1:4;2:4;3:4".into())];
    assert_eq!(placed(&[job(0, 1, ""), job(1, 12, rack)]), expected);
}

#[test]
fn jobs_wait_for_the_cpu_and_memory_of_their_nodes() {
    // 16 cores a node. The first two take 12 of node 0 and of node 1; the third has no room until 100 s; the fourth takes 3 for each of
    // its two GPUs, one on each node.
    let jobs = "Jobs([
        Job(submit: \"0s\", gpus: 3, duration: \"100s\", cpus: 12),
        Job(submit: \"0s\", gpus: 3, duration: \"200s\", cpus: 12),
        Job(submit: \"1s\", gpus: 1, duration: \"50s\", cpus: 4.001),
        Job(submit: \"2s\", gpus: 2, duration: \"50s\", cpus: 6),
        Job(submit: \"3s\", gpus: 1, duration: \"10s\", host_memory: \"65GiB\"),
    ])";
    let (summary, rows) = ran("nodes: 2, cpus: 16, host_memory: \"64GiB\"", jobs, SKIP);
    let expected = [(0.0, "0:3"), (0.0, "1:3"), (100.0, "0:1"), (2.0, "0:1;1:1")];
    assert_eq!(starts(&rows)[..4], expected.map(|(at, on)| (at, on.to_string())));
    assert_eq!((summary.completed, summary.rejected), (4, 1));
    let reason = "rejected: it asks for 1 GPUs, 66560 MiB of host memory: the fleet has room for 0 of its GPUs";
    assert_eq!(rows[4].outcome.to_string(), reason);
    // Without cores of nodes nothing is counted, and everything starts as GPUs are free.
    let (_, rows) = ran("nodes: 2", jobs, SKIP);
    assert_eq!(starts(&rows)[2], (1.0, "0:1".into()));
    assert_eq!((starts(&rows)[3].0, starts(&rows)[4].0), (51.0, 3.0));
}

#[test]
fn gangs_are_within_one_domain_where_they_must_or_can_be() {
    // Racks of two nodes. The first four jobs leave one GPU of the first rack and six of the second.
    let jobs = |near: &str| {
        format!(
            "Jobs([Job(submit: \"0s\", gpus: 3, duration: \"100s\"), Job(submit: \"0s\", gpus: 2, duration: \"100s\"), \
             Job(submit: \"0s\", gpus: 2, duration: \"100s\"), Job(submit: \"0s\", gpus: 2, duration: \"20s\"), \
             Job(submit: \"1s\", gpus: 5, duration: \"10s\", near: Near({near}))])"
        )
    };
    let racks = "nodes: 4, levels: [Level(name: \"row\", nodes: 4), Level(name: \"rack\", nodes: 2)]";
    let (_, rows) = ran(racks, &jobs("required: \"rack\""), SKIP);
    let held = [(0.0, "0:3"), (0.0, "1:2"), (0.0, "1:2"), (0.0, "2:2")].map(|(at, on)| (at, on.to_string()));
    assert_eq!(starts(&rows)[..4], held);
    assert_eq!(starts(&rows)[4], (1.0, "2:1;3:4".into()));
    let six = |near: &str| jobs(near).replace("gpus: 5", "gpus: 7");
    assert_eq!(starts(&ran(racks, &six("required: \"rack\""), SKIP).1)[4], (20.0, "2:4;3:3".into()));
    assert_eq!(starts(&ran(racks, &six("preferred: \"rack\""), SKIP).1)[4], (1.0, "0:1;2:2;3:4".into()));
    assert_eq!(starts(&ran(racks, &six("required: \"row\", preferred: \"rack\""), SKIP).1)[4].0, 1.0);
}

#[test]
fn a_job_is_placed_on_a_type_whose_nodes_have_room_for_it() {
    // Of the first type there are more GPUs, and no node has eight.
    for policy in ["las", "srtf", "priority", "edf", "fifo"] {
        let spec = format!(
            "Experiment(title: \"t\", fleet: Model(groups: [Group(nodes: 4, gpus: 4, kind: \"a\", speed: 1.0), \
             Group(nodes: 1, gpus: 8, kind: \"b\", speed: 1.0)]), predictors: {{\"remaining\": Oracle}}, workload: Jobs([ \
             Job(submit: \"0s\", gpus: 8, duration: \"10s\", gpus_per_node: 8), Job(submit: \"0s\", gpus: 8, duration: \"10s\")]), \
             policies: [Policy(name: {policy:?})])"
        );
        let (summary, _) = results::<JobRecord>(&planned(&spec).expect("a plan"));
        assert_eq!((summary.completed, summary.makespan), (2, 10.0), "{policy}");
    }
}

/// One job of two GPUs on two nodes of four; the first node is down from 60 s to 80 s.
fn around_maintenance(notice: &str, submit: &str, policy: &str) -> (f64, f64) {
    let fleet = format!("nodes: 2, maintenance: [Maintenance(nodes: [0], from: \"60s\", to: \"80s\"{notice})]");
    let jobs = format!("Jobs([Job(submit: {submit:?}, gpus: 2, duration: \"100s\")])");
    let (_, rows) = ran(&fleet, &jobs, policy);
    (rows[0].end_s.map_or(f64::NAN, Seconds::f64), rows[0].lost_s.f64())
}

#[test]
fn what_runs_on_a_node_that_goes_down_is_lost_unless_it_moves_in_time() {
    let told = ", notice: \"20s\"";
    assert_eq!(around_maintenance(told, "0s", "Policy(name: \"priority\")"), (160.0, 60.0));
    // Saved at 40 s, and placed again at the next microsecond.
    let moves = "Policy(name: \"priority\", with: {\"draining\": \"move\"})";
    assert_eq!(around_maintenance(told, "0s", moves), (100.000_001, 0.0));
    assert_eq!(around_maintenance("", "0s", moves), (160.0, 60.0));
    let waits = "Policy(name: \"edf\", with: {\"draining\": \"move\", \"preempt\": false})";
    assert_eq!(around_maintenance(told, "0s", waits), (100.000_001, 0.0));
}

#[test]
fn nothing_starts_on_a_node_that_drains_where_the_policy_is_told() {
    let told = ", notice: \"20s\"";
    assert_eq!(around_maintenance(told, "50s", "Policy(name: \"fifo\")"), (150.0, 0.0));
    // Another policy is not told, and nothing is held against it.
    assert_eq!(around_maintenance(told, "50s", "Policy(name: \"allox\")"), (160.0, 10.0));
    assert_eq!(around_maintenance("", "50s", "Policy(name: \"fifo\")"), (160.0, 10.0));
    // From 80 s on the node is there again.
    assert_eq!(around_maintenance(told, "90s", "Policy(name: \"fifo\")"), (190.0, 0.0));
}

#[test]
fn under_allox_a_gang_of_more_than_is_up_holds_up_no_other() {
    let fleet = "nodes: 2, maintenance: [Maintenance(nodes: [0], from: \"5s\", to: \"500s\")]";
    let jobs =
        "Jobs([Job(submit: \"10s\", gpus: 8, duration: \"10s\"), Job(submit: \"20s\", gpus: 2, duration: \"100s\")])";
    let (_, rows) = ran(fleet, jobs, "Policy(name: \"allox\")");
    let starts: Vec<f64> = rows.iter().map(|row| row.first_start_s.map_or(f64::NAN, Seconds::f64)).collect();
    assert_eq!(starts, [500.0, 20.0]);
}

#[test]
fn announcements_end_no_run_and_windows_may_meet() {
    let down = |node: u32, from: u32, to: u32, notice: &str| {
        format!("Maintenance(nodes: [{node}], from: \"{from}s\", to: \"{to}s\"{notice})")
    };
    let ends = |windows: &[String], jobs: &str, policy: &str| {
        let fleet = format!("nodes: 2, maintenance: [{}]", windows.join(", "));
        ran(&fleet, jobs, policy).1.iter().map(|row| row.end_s.map_or(f64::NAN, Seconds::f64)).collect::<Vec<_>>()
    };
    let wide = "Jobs([Job(submit: \"20s\", gpus: 8, duration: \"10s\")])";
    let told = ", notice: \"20s\"";
    // Nobody has to be called at 40 s.
    let windows = [down(0, 10, 100, ""), down(1, 60, 80, told)];
    assert_eq!(ends(&windows, wide, "Policy(name: \"allox\")"), [110.0]);
    let windows = [down(0, 10, 100, ""), down(1, 60, 80, ", notice: \"40s\""), down(1, 200, 300, ", notice: \"160s\"")];
    assert_eq!(ends(&windows, wide, SKIP), [310.0], "from 80 s on the second is announced: node 1 drains until 200 s");
    // Windows of one node that meet are one; a node may be named twice.
    let windows = [down(0, 10, 50, ""), down(0, 40, 90, ""), down(0, 40, 90, "")];
    assert_eq!(ends(&windows, wide, SKIP), [100.0]);
}

#[test]
fn a_job_on_a_draining_node_is_not_preempted_for_one_that_could_not_start_there() {
    let fleet = "nodes: 2, maintenance: [Maintenance(nodes: [0], from: \"1000s\", to: \"1001s\", notice: \"999s\")]";
    let jobs = |second: i32| {
        format!(
            "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"100s\", priority: 1), \
             Job(submit: \"0.5s\", gpus: 4, duration: \"50s\", priority: {second}), \
             Job(submit: \"10s\", gpus: 4, duration: \"20s\", priority: 3)])"
        )
    };
    let ends = |second| {
        let (summary, rows) = ran(fleet, &jobs(second), "Policy(name: \"priority\")");
        (summary.preemptions, rows.iter().map(|row| row.end_s.map_or(f64::NAN, Seconds::f64)).collect::<Vec<_>>())
    };
    // The third takes the GPUs of the second, if that comes after it, and none of the first.
    assert_eq!(ends(5), (0, vec![100.0, 50.5, 70.5]));
    assert_eq!(ends(2), (1, vec![100.0, 70.5, 30.0]));
}

#[test]
fn a_policy_that_does_not_follow_a_demand_does_not_begin() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("", "gpus_per_node: 2", "its placements do not follow the number of GPUs that gangs ask for on each node"),
        (", cpus: 8", "hosts: [Host(cpus: 2)]", "its placements do not follow the CPU and memory that jobs ask for"),
        (
            ", levels: [Level(name: \"rack\", nodes: 2)]",
            "near: Near(preferred: \"rack\")",
            "its placements do not follow how near to each other gangs ask their nodes to be",
        ),
    ];
    for (fleet, demand, why) in cases {
        let text = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 4, gpus: 4, kind: \"K80\"{fleet}), workload: Generate(jobs: 9, {demand}), \
             predictors: {{\"remaining\": Oracle}}, \
             policies: [\n  Policy(name: \"fifo\"),\n  Policy(name: \"allox\"),\n])"
        );
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "s", "--policies", &dist()]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(why) && ran.stderr.contains("spec.ron:3:"), "{}", ran.stderr);
    }
}

#[test]
fn drawn_demands_have_their_weights_and_leave_elastic_jobs_alone() {
    let workload = "Generate(jobs: 4000, gpus: {1: 1, 4: 1, 6: 1}, gpus_per_node: 4, near: Near(required: \"rack\"), \
        hosts: [Host(cpus: 2.5, memory: \"1GiB\", weight: 3), Host(cpus: 7)])";
    let fleet = "nodes: 4, cpus: 32, levels: [Level(name: \"rack\", nodes: 2)]";
    let jobs = planned(&spec(fleet, workload, SKIP)).expect("a plan").cells[0].jobs().expect("jobs");
    let light = jobs.iter().filter(|job| job.host.cpu_milli == 2500 * job.gpus).count();
    assert!((light as f64 / 4000.0 - 0.75).abs() < 0.03, "{light}");
    for job in jobs.iter() {
        let memory = if job.host.cpu_milli == 2500 * job.gpus { 1024 * job.gpus } else { 0 };
        assert_eq!((job.host.memory_mib, job.near.required.is_some()), (memory, job.gpus > 1));
        assert_eq!(job.gpus_per_node, if job.gpus == 4 { 4 } else { 0 });
    }
}

#[test]
fn what_is_wrong_with_demands_is_said_at_its_place() {
    let list = |job: &str| format!("Jobs([Job(submit: \"0s\", gpus: 6, duration: \"1s\", {job})])");
    let drawn = |demand: &str| format!("Generate(jobs: 3, {demand})");
    let cases = [
        ("", list("gpus_per_node: 4"), "job 0: expected a divisor of its 6 GPUs on each node, found 4"),
        ("", list("cpus: -1"), "job 0: expected a number of CPU cores from 0.001 to 4000000, found -1"),
        ("", list("host_memory: \"512KiB\""), "job 0: expected at least 1MiB of memory, found 524288 B"),
        ("", list("near: Near(required: \"rack\")"), "asks for nodes of one \"rack\", a level that the fleet lacks"),
        (
            ", levels: [Level(name: \"rack\", nodes: 2)]",
            list("near: Near(preferred: \"rak\")"),
            "did you mean \"rack\"?",
        ),
        ("", drawn("gpus_per_node: 0"), "expected at least 1, found 0"),
        ("", drawn("hosts: [Host(weight: 0)]"), "expected a weight from above 0 to 10^12, found 0"),
        (", cpus: 0", drawn(""), "expected a number of CPU cores from 0.001 to 4000000, found 0"),
        (", levels: [Level(name: \"\", nodes: 2)]", drawn(""), "expected a name without control characters"),
        (", maintenance: [Maintenance(nodes: [4], from: \"1s\", to: \"2s\")]", drawn(""), "no node 4: the last is 3"),
        (
            ", maintenance: [Maintenance(nodes: [0], from: \"2s\", to: \"2s\")]",
            drawn(""),
            "expected an end after the beginning",
        ),
        (
            ", maintenance: [Maintenance(domain: (\"rack\", 0), from: \"1s\", to: \"2s\")]",
            drawn(""),
            "has no level \"rack\"",
        ),
        (", maintenance: [Maintenance(from: \"1s\", to: \"2s\")]", drawn(""), "expected at least one node, found none"),
        (
            ", levels: [Level(name: \"a\", nodes: 4), Level(name: \"b\", nodes: 3)]",
            drawn(""),
            "domains of 3 nodes of the level b do not fit whole into the 4 of the level before",
        ),
        (
            ", levels: [Level(name: \"a\", nodes: 4), Level(name: \"a\", nodes: 2)]",
            drawn(""),
            "two levels are called \"a\"",
        ),
        (", levels: [Level(name: \"a\", nodes: 0)]", drawn(""), "needs at least one node"),
        (
            ", revocable: Revocable(held: \"1h\", away: \"0s\")",
            drawn(""),
            "the mean times that a node is held and away must be at least 1 s",
        ),
    ];
    for (fleet, workload, says) in cases {
        let found = planned(&spec(&format!("nodes: 4{fleet}"), &workload, SKIP));
        let error =
            match found.and_then(|plan| plan.cells[0].jobs().map_err(|error| format!("{error}{:?}", error.hint))) {
                Err(error) => error,
                Ok(_) => panic!("{workload} on {fleet} is taken"),
            };
        assert!(error.replace('\\', "").contains(says), "{error}");
    }
}

#[test]
fn owners_take_nodes_back_and_what_was_told_of_it_is_saved() {
    // One node of ours and two of others, which are away for an hour after six on average.
    let own = "groups: [Group(nodes: 2, gpus: 4, kind: \"g\", speed: 1.0, revocable: Revocable(held: \"6h\", away: \"1h\"NOTICE)), \
        Group(nodes: 1, gpus: 4, kind: \"g\", speed: 1.0)]";
    let ran = |notice: &str, policy: &str, jobs: &str| {
        let text = spec("FLEET", jobs, policy)
            .replace("kind: \"g\", speed: 1.0, gpus: 4, FLEET", &own.replace("NOTICE", notice));
        results::<JobRecord>(&planned(&text).unwrap_or_else(|error| panic!("{error}")))
    };
    let jobs = "Generate(jobs: 60, arrivals: Poisson(load: 0.5), durations: LogNormal(median: \"2h\", sigma: 0.5), gpus: {1: 1, 2: 1})";
    let lost = |rows: &[JobRecord]| rows.iter().map(|row| row.lost_s.f64()).sum::<f64>();
    let moving = "Policy(name: \"priority\", with: {\"draining\": \"move\"})";
    let (summary, rows) = ran("", moving, jobs);
    assert!(summary.failures > 5 && lost(&rows) > 0.0 && summary.completed == 60, "{summary:?}");
    // Two minutes are time enough to save what costs nothing to save: no job is there when a node goes.
    let (summary, rows) = ran(", notice: \"2min\"", moving, jobs);
    assert_eq!((summary.failures, lost(&rows), summary.completed), (0, 0.0, 60));
    assert!(summary.preemptions > 5, "{summary:?}");
    let (summary, rows) = ran(", notice: \"2min\"", "Policy(name: \"priority\")", jobs);
    assert!(summary.failures > 5 && lost(&rows) > 0.0, "{summary:?}");
    // A gang of four that may not be preempted gets the node of ours, which is the last; the next does not wait for it.
    let firm = "Jobs([Job(submit: \"0s\", gpus: 4, duration: \"1h\", preemptible: false), Job(submit: \"0s\", gpus: 4, duration: \"1h\", \
        preemptible: false)])";
    for policy in ["fifo", "priority", "srtf", "las"] {
        let (_, rows) = ran("", &format!("Policy(name: \"{policy}\")"), firm);
        assert_eq!(rows[0].last_placement.to_string(), "2:4", "{policy}");
        assert_ne!(rows[1].first_start_s, None, "{policy}");
    }
}

/// Alibaba's pods with their CPU and memory: of no node more is ever taken than it has, by a sum over all stays; where nothing is counted, more is.
#[needs("data:openb-2023")]
#[test]
fn no_node_gives_more_cpu_or_memory_than_it_has() {
    let pods = data("openb-2023").join("openb_pod_list_default.csv.gz");
    let workload = format!("Trace(file: {:?}, format: Openb, jobs: 3000)", pods.display().to_string());
    let most = |fleet: &str| {
        let plan = planned(&spec(fleet, &workload, "Policy(name: \"las\")")).expect("a plan");
        let (_, stays) = results::<StayRecord>(&plan);
        let read = Options { jobs: Some(3000), ..Options::default() };
        let trace = trace::read(&pods, TraceFormat::Openb, &read).expect("a trace");
        let asked: BTreeMap<&str, &Row> = trace.rows.iter().map(|row| (row.name.as_str(), row)).collect();
        // Ends before starts of the same instant.
        let mut changes: Vec<(Seconds, bool, usize, [i64; 2])> = Vec::new();
        for stay in &stays {
            let row = asked[stay.job_id.as_str()];
            let mut nodes: BTreeMap<usize, u64> = BTreeMap::new();
            stay.gpus.0.iter().for_each(|gpu| *nodes.entry(gpu.index() / 4).or_default() += 1);
            for (node, gpus) in nodes {
                let part = |all: u32| (u64::from(all) * gpus).div_ceil(u64::from(row.gpus)) as i64;
                let [cpu, memory] = [part(row.host.cpu_milli), part(row.host.memory_mib)];
                changes.push((stay.from_s, true, node, [cpu, memory]));
                changes.push((stay.to_s, false, node, [-cpu, -memory]));
            }
        }
        changes.sort_by_key(|(at, starts, ..)| (*at, *starts));
        let (mut taken, mut most) = ([[0; 2]; 12], [0; 2]);
        for (_, _, node, change) in changes {
            for (of, change) in change.into_iter().enumerate() {
                taken[node][of] += change;
                most[of] = most[of].max(taken[node][of]);
            }
        }
        (stays.len(), most)
    };
    let (counted, [cpu, memory]) = most("nodes: 12, cpus: 40, host_memory: \"128GiB\", sharing: Shares");
    assert!(counted > 2_500 && cpu <= 40_000 && memory <= 128 << 10, "{counted} stays, {cpu} and {memory}");
    assert!(cpu > 38_000, "{cpu}");
    let (_, [cpu, _]) = most("nodes: 12, sharing: Shares");
    assert!(cpu > 40_000, "{cpu}");
}
