//! Jobs that wait for CPU cores or memory of nodes, and not for GPUs.

use serde_json::{Value, json};

use super::{folder_of, folder_with, off, rows, what_if};
use crate::help::{dist, sandtable, told};
use crate::states::document;

/// Captured while 34, 30 and 42 jobs waited, for cores or memory too (`CR_Core_Memory`, cores of two threads), and when they started in the end.
#[test]
fn a_forecast_follows_the_cores_and_memory_of_a_real_slurm() {
    // Under `sched/builtin`, and under `sched/backfill` with a tick of 30 s; in the last seven jobs without GPUs hold cores for a minute or two.
    let runs = [("slurm-hosts", 34, (6.0, 13.0)), ("slurm-hosts-2", 30, (1.0, 5.0)), ("slurm-cpus", 42, (1.0, 15.0))];
    for (run, jobs, bounds) in runs {
        let folder = folder_with(run);
        let off = |more: &[&str]| off(folder.path(), jobs, more);
        let (near, far) = (off(&[]), off(&["--set", "workload.hosts=false"]));
        told(&format!(
            "{run}: off by {:.1} and {:.1} s; {:.1} and {:.1} s by GPUs alone",
            near.0, near.1, far.0, far.1
        ));
        assert!(near.0 <= bounds.0 && near.1 <= bounds.1);
        assert!(far.0 >= 25.0);
    }
}

/// Captured while 20 and 21 jobs with GPUs waited, and 20 and 10 without among them, which hold cores and memory of the same nodes once they run.
#[test]
fn a_forecast_follows_jobs_without_gpus_that_wait_in_a_real_slurm() {
    // Under `sched/builtin`, and under `sched/backfill` with a tick of 30 s.
    let runs = [("slurm-cpu-jobs", (40, 20), (1.0, 2.0)), ("slurm-cpu-jobs-2", (31, 21), (2.5, 16.0))];
    for (run, (jobs, with_gpus), bounds) in runs {
        let folder = folder_with(run);
        let near = off(folder.path(), jobs, &[]);
        let far = off(folder.path(), with_gpus, &["--set", "workload.cpu_jobs=false"]);
        told(&format!(
            "{run}: off by {:.1} and {:.1} s; {:.1} and {:.1} s without those that have no GPU",
            near.0, near.1, far.0, far.1
        ));
        assert!(near.0 <= bounds.0 && near.1 <= bounds.1);
        assert!(far.0 >= 20.0);
    }
}

#[test]
fn a_job_without_gpus_waits_for_cores_of_one_node() {
    let mut state = cluster();
    let waits = |id: &str, gpus: u32, cpus: u32| json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": -9, "limit_s": 10, "cpus": cpus, "ram_mib": 0, "queues": ["q"]});
    let wide = json!({"least": 2, "most": 2});
    let mut on_two = waits("on-two", 0, 4);
    on_two["nodes"] = wide;
    let jobs = [waits("first", 0, 15), waits("behind", 1, 1), waits("huge", 0, 17), on_two];
    state["jobs"].as_array_mut().expect("jobs").splice(2.., jobs);
    state["queues"] = json!([{"name": "q", "kind": "partition"}, {"name": "r", "kind": "partition"}]);
    let folder = folder_of(&state);
    let asked = ["--policy", "slurm-backfill,tick=0", "--policy", "fgd"];
    let said = what_if(folder.path(), &asked);
    let left_out = |jobs: u32| format!("not modelled: {jobs} jobs without GPUs, 2 queues");
    assert!(said.stderr.is_empty() && said.stdout.contains(&left_out(1)), "{}{}", said.stdout, said.stderr);
    let found = rows(folder.path(), &asked);
    let of = |job: &str, policy: &str| &found[&(job.to_string(), policy.to_string(), false)];
    assert_eq!(of("first", "fgd")["why_text"], "no node has CPUs for it free");
    assert_eq!(of("first", "fgd")["after"], json!(["cores"]));
    assert_eq!(of("huge", "fgd")["why_text"], "no node has as much CPU and memory as it asks for");
    let start = |job: &str, policy: &str| of(job, policy)["start_p50_s"].as_f64();
    // The second has room now, but behind the first.
    let slurm = ["first", "behind", "huge"].map(|job| start(job, "slurm-backfill tick=0").map(f64::round));
    assert_eq!((slurm, start("behind", "fgd")), ([Some(101.0), Some(101.0), None], Some(0.0)));
    // With a policy that starts none they are left out for all.
    let other = what_if(folder.path(), &[&asked[..], &["--policy", "fifo"]].concat());
    assert!(other.stderr.starts_with("warning: jobs without GPUs that wait are left out, since "), "{}", other.stderr);
    assert!(other.stdout.contains(&left_out(3)), "{}", other.stdout);
    // Where its queue has nodes without GPUs, or not all that have some, it may go where the model has no node.
    for (gpus, queues) in [(0, ["q", "r"]), (4, ["r", "r"])] {
        let mut other = state.clone();
        let more = json!({"name": "c", "kind": "g", "gpus": gpus, "cpus": 64, "state": "up", "queues": queues});
        other["nodes"].as_array_mut().expect("nodes").push(more);
        let folder = folder_of(&other);
        let said = what_if(folder.path(), &asked);
        assert!(said.stdout.contains("3 jobs without GPUs, "), "{}{}", said.stdout, said.stderr);
    }
}

/// Two nodes of four GPUs, 16 cores and 64 GiB; a job on one GPU of each takes most of what is beside the others.
fn cluster() -> Value {
    let node = |name: &str| json!({"name": name, "kind": "g", "gpus": 4, "cpus": 16, "ram_mib": 65_536, "state": "up"});
    let runs = |id: &str, node: &str, [cpus, mib, left]: [u32; 3]| {
        json!({"id": id, "state": "running", "gpus": 1, "submitted_s": -60, "started_s": -60, "held_s": 60, "limit_s": 60 + left,
            "cpus": cpus, "ram_mib": mib, "on": [{"node": node, "count": 1}]})
    };
    let waits = |id: &str, [gpus, cpus, mib]: [u32; 3]| json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": -9, "limit_s": 10, "cpus": cpus, "ram_mib": mib});
    document(
        &[node("a"), node("b")],
        &[
            runs("cores", "a", [14, 1024, 100]),
            runs("memory", "b", [2, 60_000, 200]),
            waits("both", [1, 4, 30_000]),
            waits("more-memory", [1, 1, 65_000]),
            waits("all", [6, 30, 1024]),
            waits("small", [1, 1, 1024]),
            waits("never", [1, 17, 0]),
        ],
    )
}

const ASKED: [&str; 6] = ["--policy", "fifo,backfill=skip", "--policy", "slurm-backfill", "--policy", "srtf"];

#[test]
fn jobs_wait_for_cores_and_memory_beside_gpus() {
    let folder = folder_of(&cluster());
    let found = rows(folder.path(), &ASKED);
    let of = |job: &str, policy: &str| &found[&(job.to_string(), policy.to_string(), false)];
    let why = |job: &str| {
        let row = of(job, "srtf");
        [&row["why"], &row["why_text"]].map(|word| word.as_str().expect("a word"))
    };
    // Beside the free GPUs of one node there are no cores, and of the other there is no memory.
    assert_eq!(why("both"), ["no-free-cpus", "6 GPUs free, CPUs and memory for 0 of them"]);
    assert_eq!(of("both", "srtf")["after"], json!(["cores"]));
    assert_eq!(why("more-memory"), ["no-free-memory", "6 GPUs free, memory for 0 of them"]);
    assert_eq!(why("all"), ["no-free-cpus", "6 GPUs free, CPUs for 2 of them"]);
    assert_eq!(why("small")[1], "has room; behind others");
    assert_eq!(why("never"), ["never", "1 GPUs with as much CPU and memory as it asks for are not there"]);
    for policy in ["fifo backfill=skip", "slurm-backfill"] {
        let start = |job: &str| of(job, policy)["start_p50_s"].as_f64();
        // Slurm's looks are at whole ticks.
        let near = |job: &str, at: f64| start(job).is_some_and(|start| (at..at + 31.0).contains(&start));
        // It takes five cores beside each GPU, three times on each node.
        let wide = near("all", 200.0);
        let all = [near("both", 100.0), near("more-memory", 100.0), near("small", 0.0), start("never").is_none(), wide];
        assert_eq!(all, [true; 5], "{policy}: {:?}", ["both", "more-memory", "all", "small", "never"].map(start));
    }
}

/// Policies that place jobs by cores and memory, none of which starts a job that asks for no GPU.
const FOLLOW: &str = "fifo; fifo,backfill=skip; fifo,backfill=easy; fifo,backfill=conservative; sjf; srtf; srtf,ties=waiting-first; srsf; las; \
    las,crossing=published; las,within=kept; las,starvation=1; las,round=10; priority; edf; fgd; slurm-backfill; slurm-backfill,preempt=true";

#[test]
fn jobs_without_gpus_hold_cores_until_they_end() {
    let mut state = cluster();
    let runs = |id: &str, on: &[&str], [cpus, left]: [u32; 2]| {
        let on: Vec<Value> = on.iter().map(|node| json!({"node": node, "count": 0})).collect();
        json!({"id": id, "state": "running", "gpus": 0, "submitted_s": -60, "started_s": -60, "held_s": 60, "limit_s": 60 + left, "cpus": cpus, "on": on})
    };
    let waits = |id: &str, gpus: u32, cpus: u32| json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": -9, "limit_s": 10, "cpus": cpus});
    // On one node 14 of 16 cores for 100 s; of both two more each, for 200 s.
    state["jobs"] = json!([
        runs("one", &["a"], [14, 100]),
        runs("both", &["a", "b"], [4, 200]),
        waits("now", 1, 14),
        waits("behind", 1, 12),
        waits("all", 1, 16),
        waits("other", 0, 4),
    ]);
    let folder = folder_of(&state);
    let asked: Vec<&str> = FOLLOW.split("; ").flat_map(|policy| ["--policy", policy.trim()]).collect();
    let said = what_if(folder.path(), &asked);
    assert!(said.stdout.starts_with("3 waiting and 2 running jobs"), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("not modelled: 1 jobs without GPUs\n"), "{}", said.stdout);
    let why = "warning: jobs without GPUs that wait are left out, since ";
    assert!(said.stderr.starts_with(why) && said.stderr.lines().count() == 1, "{}", said.stderr);
    let found = rows(folder.path(), &asked);
    assert_eq!(found.len(), 18 * 3);
    // The second goes where the first was, at its end, or at the next look after it.
    let due = |job: &str| if job == "all" { 200.0 } else { 0.0 };
    for ((job, policy, _), row) in &found {
        let start = row["start_p50_s"].as_f64().unwrap_or(f64::INFINITY);
        let least = if job == "behind" { 10.0 } else { due(job) };
        assert!((least..least + 31.0).contains(&start), "{job} under {policy}: {start}");
    }
    let why = |job: &str| found[&(job.to_string(), "srtf".to_string(), false)]["why_text"].clone();
    assert_eq!(why("all"), "8 GPUs free, CPUs for 0 of them");
    // `show` says the same of a run.
    let spec = "Experiment(title: \"t\", fleet: Model(list: NodeList(file: \"now.json\", format: State), speed: 1.0), predictors: {\"remaining\": Declared}, \
        workload: State(file: \"now.json\", hosts: true), policies: [Policy(name: \"srtf\")])";
    std::fs::write(folder.path().join("s.ron"), spec).expect("written");
    let of_run =
        |words: &[&str]| sandtable(folder.path(), &[words, &["--store", "runs", "--policies", &dist()]].concat());
    assert_eq!(of_run(&["run", "s.ron"]).code, 0);
    let shown = of_run(&["show", "s.ron", "--job", "all", "--why", "3630s"]);
    let lacks = "8 GPUs free, CPUs for 0 of them; there is room once these jobs give their GPUs back: one, both";
    assert!(shown.stdout.contains(lacks), "{}{}", shown.stdout, shown.stderr);
    // Where they are left out, so are these jobs.
    let said = what_if(folder.path(), &["--policy", "srtf", "--set", "workload.hosts=false"]);
    assert!(
        said.stdout.contains("3 waiting and 0 running jobs") && said.stdout.contains("3 jobs without GPUs"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_job_without_gpus_on_several_nodes_is_one_job() {
    let mut state = cluster();
    let runs = |id: &str, on: &[&str], limit: Option<u32>| {
        let on: Vec<Value> = on.iter().map(|node| json!({"node": node, "count": 0})).collect();
        let mut job = json!({"id": id, "state": "running", "gpus": 0, "submitted_s": -60, "started_s": -60, "held_s": 60, "cpus": 8, "on": on});
        if let Some(limit) = limit {
            job["limit_s"] = limit.into();
        }
        job
    };
    let after = |id: &str, of: &str, gpus: u32, cpus: u32| json!({"id": id, "state": "dependent", "gpus": gpus, "submitted_s": -9, "limit_s": 10, "cpus": cpus, "after": [{"job": of, "when": "ended"}]});
    let whole =
        |id: &str| json!({"id": id, "state": "waiting", "gpus": 1, "submitted_s": -9, "limit_s": 10, "cpus": 16});
    // The second is called as a part of the first would be, and one waits for the first, in the end.
    let mut jobs = vec![runs("all", &["a", "b", "b"], Some(360)), runs("all@b", &["b"], Some(160))];
    jobs.extend([whole("w"), after("then", "all", 1, 1), after("last", "then", 1, 1)]);
    state["jobs"] = jobs.into();
    let folder = folder_of(&state);
    let start = |job: &str, more: &[&str]| {
        let found = rows(folder.path(), &[&["--policy", "fifo,backfill=skip", "--job", job], more].concat());
        // With what is changed, where that is asked.
        found.values().next_back().and_then(|row| row["start_p50_s"].as_f64())
    };
    assert_eq!([start("w", &[]), start("then", &[]), start("last", &[])], [Some(300.0), Some(300.0), Some(310.0)]);
    assert_eq!([start("w", &["--kill", "all"]), start("w", &["--kill", "all@b"])], [Some(0.0), Some(300.0)]);
    // Both parts of it take as long as is known of it, or drawn.
    let known = "job_id,submit_s,gpus,duration_s,cpus\nall,0,0,90,1\nall@b,0,0,70,1\nw,0,1,10,1\nthen,0,1,10,1\nlast,0,1,10,1\n";
    std::fs::write(folder.path().join("known.csv"), known).expect("written");
    assert_eq!(start("w", &["--run-times", "known=known.csv"]), Some(30.0));
    let noisy = ["--run-times", "noisy=0.5", "--seeds", "1"];
    assert_eq!(start("w", &noisy), start("then", &noisy));
    // Without cores none of it is there, nor what waits for it.
    let said = what_if(folder.path(), &["--policy", "srtf", "--set", "workload.hosts=false"]);
    assert!(said.stdout.starts_with("1 waiting and 0 running jobs"), "{}", said.stdout);
    let left_out = "2 jobs that wait for others that are not in the model, 2 jobs without GPUs";
    assert!(said.stdout.contains(left_out), "{}", said.stdout);
    // One that may run for ever, of which the file says nothing, is left out.
    state["jobs"] = json!([runs("service", &["a"], None), whole("w")]);
    std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
    assert_eq!(start("w", &["--run-times", "known=known.csv"]), Some(0.0));
}

#[test]
fn cores_and_memory_are_left_out_where_it_is_said_or_a_policy_knows_none() {
    let folder = folder_of(&cluster());
    let starts = |row: &Value| row["start_p50_s"].as_f64().is_some_and(|at| at < 1.0);
    let said = what_if(folder.path(), &["--policy", "srtf", "--set", "workload.hosts=false"]);
    assert!(said.stdout.contains("not modelled: 7 jobs that ask for CPUs or memory of nodes\n"), "{}", said.stdout);
    let found = rows(folder.path(), &["--policy", "srtf", "--set", "workload.hosts=false", "--job", "both"]);
    assert!(found.values().all(starts));
    // One that places jobs by itself does not begin where jobs ask for cores: then all are asked without.
    let other = what_if(folder.path(), &["--policy", "srtf", "--policy", "allox", "--job", "both"]);
    let why = "warning: CPU and memory of nodes are left out, since ";
    assert!(other.code == 0 && other.stderr.contains(why) && other.stderr.contains("`allox`"), "{}", other.stderr);
    assert!(other.stdout.contains("7 jobs that ask for CPUs or memory of nodes"), "{}", other.stdout);
    // A cluster that gives jobs no cores of their own, as Slurm with `select/linear`.
    let mut state = cluster();
    state["source"]["scheduler"] = json!({"counts_cpus": false});
    let folder = folder_of(&state);
    let found = rows(folder.path(), &["--policy", "srtf", "--job", "all"]);
    assert!(found.values().all(starts), "{found:?}");
}

/// A node on which running jobs hold more cores than it has, as where those of a gang are told in sum alone.
#[test]
fn a_node_whose_jobs_hold_too_much_has_room_once_enough_of_them_are_gone() {
    let mut state = cluster();
    let jobs = state["jobs"].as_array_mut().expect("jobs");
    jobs.truncate(2);
    (jobs[0]["cpus"], jobs[1]["cpus"], jobs[1]["on"][0]["node"]) = (json!(12), json!(12), json!("a"));
    jobs.push(
        json!({"id": "w", "state": "waiting", "gpus": 1, "submitted_s": -9, "limit_s": 10, "cpus": 8, "priority": 9}),
    );
    state["nodes"].as_array_mut().expect("nodes").truncate(1);
    let folder = folder_of(&state);
    let preempts = "slurm-backfill,preempt=true,tier_width=1";
    let found = rows(folder.path(), &["--policy", "fifo", "--policy", "slurm-backfill", "--policy", preempts]);
    let starts: Vec<f64> = found.values().filter_map(|row| row["start_p50_s"].as_f64()).collect();
    // Under the last both go at once, and else the one at 100 s is not enough.
    assert_eq!(starts.len(), 3, "{found:?}");
    assert!(starts.iter().filter(|at| **at >= 200.0).count() == 2 && starts.iter().any(|at| *at < 31.0), "{starts:?}");
}

#[test]
fn added_jobs_and_nodes_have_cores_and_memory() {
    let folder = folder_of(&cluster());
    let start = |more: &[&str]| {
        let found = rows(folder.path(), &[&["--policy", "fifo,backfill=skip", "--job", "mine"], more].concat());
        found.values().find_map(|row| row["start_p50_s"].as_f64())
    };
    let add = |more: &str| format!("name=mine,gpus=1,limit=1min{more}");
    assert_eq!(start(&["--add", &add(",cpus=1.5,host_memory=1GiB")]), Some(0.0));
    assert!(start(&["--add", &add(",cpus=15")]).is_some_and(|at| at >= 100.0));
    assert!(start(&["--add", &add(",host_memory=64GiB")]).is_some_and(|at| at >= 100.0));
    // A node more is as the first of its size: another job of 16 cores has no room there.
    let alone = start(&["--add", &add(",cpus=16"), "--add-nodes", "1x4"]);
    assert!(alone.is_some_and(|at| at < 100.0), "{alone:?}");
    assert_eq!(start(&["--add", &add(",cpus=17"), "--add-nodes", "1x4"]), None);
    // Also where no other job says what it takes.
    let mut state = cluster();
    for job in state["jobs"].as_array_mut().expect("jobs").iter_mut().filter_map(Value::as_object_mut) {
        job.retain(|key, _| !matches!(key.as_str(), "cpus" | "ram_mib"));
    }
    std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
    assert_eq!(start(&["--add", &add(",cpus=17")]), None);
    for (add, why) in [
        (",cpus=many", "--add: cpus: expected a number, found \"many\""),
        (",host_memory=64", "--add: host_memory: "),
        (",cpus=-1", "cpus: expected a number from 0 to 1e15, found -1"),
    ] {
        let refused = what_if(folder.path(), &["--add", &format!("name=mine,gpus=1,limit=1min{add}")]);
        assert!(refused.code == 2 && refused.stderr.contains(why), "{}", refused.stderr);
    }
}
