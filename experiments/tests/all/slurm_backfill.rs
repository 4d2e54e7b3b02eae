//! `slurm-backfill` against schedules of a real Slurm.

use sandtable_needs::needs;

use crate::help::{dist, root, sandtable, told};
use crate::states::{Real, real, run_of};

/// How a run of the jobs of a real one agrees with it.
struct Agrees {
    jobs: usize,
    /// Starts within 5 s.
    near: usize,
    same_nodes: usize,
    /// Mean waits, seconds.
    wait: f64,
    real_wait: f64,
}

fn agrees(run: &str, with: &str) -> Agrees {
    let real = real(run);
    let mut trace = String::from("job_id,submit_s,gpus,gpus_per_node,duration_s,declared_s\n");
    for job in &real {
        // Half a second more than a job sleeps is what it holds its GPUs for.
        let (gpus, took) = (job.nodes * job.each, job.sleep + 0.5);
        trace.push_str(&format!("{},{},{gpus},{},{took},{}\n", job.id, job.submit, job.each, job.limit));
    }
    compared(run, &real, &trace, "", with)
}

/// The rows of a table of results, of a run of a trace on the nodes that the real one had.
fn rows(trace: &str, queues: &str, with: &str, table: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.csv"), trace).expect("written");
    let spec = format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 4, gpus: 4, kind: \"x\", speed: 1.0), {queues}workload: Trace(file: \"t.csv\"), \
         policies: [Policy(name: \"slurm-backfill\", with: {{{with}}})], predictors: {{\"remaining\": Declared}})"
    );
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let cells = crate::help::cells(&folder.path().join("store"));
    let (_, rows) = cells.iter().find(|(name, _)| name.ends_with(table)).expect("rows");
    let fields = |line: &str| line.split(',').map(str::to_string).collect();
    std::str::from_utf8(rows).expect("UTF-8").lines().skip(1).map(fields).collect()
}

fn compared(run: &str, real: &[Real], trace: &str, queues: &str, with: &str) -> Agrees {
    let rows = rows(trace, queues, with, "jobs.csv");
    let mut found = Agrees { jobs: real.len(), near: 0, same_nodes: 0, wait: 0.0, real_wait: 0.0 };
    for job in real {
        let row = rows.iter().find(|row| row[0] == job.id).expect("its row");
        let start: f64 = row[3].parse().expect("a start");
        let mut on: Vec<String> =
            row[row.len() - 1].split(';').map(|part| format!("n{}", part.split(':').next().expect("a node"))).collect();
        on.sort();
        let mut real_on = job.on.clone();
        real_on.sort();
        found.near += usize::from((start - job.start).abs() <= 5.0);
        found.same_nodes += usize::from(on == real_on);
        found.wait += (start - job.submit) / real.len() as f64;
        found.real_wait += (job.start - job.submit) / real.len() as f64;
    }
    told(&format!(
        "{run}: {} of {} starts within 5 s, {} on the same nodes, mean wait {:.1} s, of the real one {:.1} s",
        found.near, found.jobs, found.same_nodes, found.wait, found.real_wait
    ));
    found
}

/// The floors are the design page's: shares of starts, and how far the mean wait may be off.
#[needs("data:cluster-state")]
#[test]
fn schedules_are_those_of_a_real_slurm_as_far_as_they_were_understood() {
    // Slurm's defaults, with the phases that its log says.
    let b2 = agrees("b2", "\"phase\": 27.9");
    assert!(b2.near * 100 >= b2.jobs * 95 && b2.same_nodes == b2.jobs);
    let b3 = agrees("b3", "\"phase\": 26.0");
    assert!(b3.near * 100 >= b3.jobs * 55 && (b3.wait / b3.real_wait - 1.0).abs() <= 0.08);
    // A plan each second is not understood: what the prototype reached.
    let each_second = "\"tick\": 1, \"resolution\": 1, \"phase\": 0.5";
    let (b1, b4) = (agrees("b1", each_second), agrees("b4", each_second));
    assert!(b1.near * 100 >= b1.jobs * 47 && b4.near * 100 >= b4.jobs * 56);
    // Without plans it is `sched/builtin`.
    let f3 = agrees("f3", "\"tick\": 0");
    assert!(f3.near == f3.jobs && f3.same_nodes == f3.jobs);
    // A wrong phase costs up to half of it: it is no parameter that does not matter.
    assert!(agrees("b2", "\"phase\": 12").near < b2.near);
}

/// Jobs of a real Slurm with two accounts of 60 and 40 shares, whose priorities change with age and usage; nothing is planned.
#[test]
fn priorities_change_as_those_of_a_real_slurm() {
    let table = std::fs::read_to_string(root().join("experiments/tests/goldens/slurm-fair-share.csv")).expect("a run");
    let real = run_of(&table);
    let mut trace = String::from("job_id,submit_s,gpus,gpus_per_node,duration_s,declared_s,queue,user,job_priority\n");
    for (job, line) in real.iter().zip(table.lines().skip(1)) {
        let [account, user, priority] = [9, 10, 11].map(|at| line.split(',').nth(at).expect("a column"));
        let (gpus, took) = (job.nodes * job.each, job.end - job.start);
        let head = format!("{},{},{gpus},{},{took},{}", job.id, job.submit, job.each, job.limit);
        trace.push_str(&format!("{head},{account},{user},{priority}\n"));
    }
    let queues = "queues: [Queue(name: \"vision\", weight: 60), Queue(name: \"nlp\", weight: 40)], ";
    let with = |more: &str| {
        let base = "\"tick\": 0, \"lag\": 0.1, \"weight_age\": 3000, \"max_age\": 120, \"calc_period\": 60, \"calc_phase\": 45";
        compared("a fair share", &real, &trace, queues, &format!("{base}{more}"))
    };
    let users = "\"associations\": [{\"user\": \"root\"}, {\"queue\": \"vision\", \"user\": \"u1\"}, {\"queue\": \"vision\", \"user\": \"u3\"}, \
                 {\"queue\": \"nlp\", \"user\": \"u2\"}, {\"queue\": \"nlp\", \"user\": \"u4\", \"shares\": 3}]";
    let shared = with(&format!(", \"weight_fair_share\": 10000, \"half_life\": 120, \"count_ends\": false, {users}"));
    assert!(shared.near == shared.jobs && (shared.wait / shared.real_wait - 1.0).abs() <= 0.01);
    // By age alone it is another schedule.
    assert!(with("").near * 2 < shared.near);
}

/// Jobs of two partitions of a real Slurm, the higher of which takes GPUs from the lower.
#[test]
fn jobs_of_a_higher_partition_preempt_those_that_they_preempt_in_a_real_slurm() {
    let table = std::fs::read_to_string(root().join("experiments/tests/goldens/slurm-preemption.csv")).expect("a run");
    let real: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let mut trace = String::from("job_id,submit_s,gpus,gpus_per_node,duration_s,declared_s,job_priority,preemptible\n");
    for job in &real {
        let number = |at: usize| job[at].parse::<f64>().expect("a number");
        let (gpus, took, high) = (number(2) * number(3), number(5) + 0.5, job[6] == "vip");
        let more = if high { "1,false" } else { "0,true" };
        trace.push_str(&format!("{},{},{gpus},{},{took},{},{more}\n", job[0], job[1], job[3], job[4]));
    }
    let stays = rows(&trace, "", "\"tick\": 0, \"lag\": 0.3, \"preempt\": true", "timeline.csv");
    let (mut preempted, mut near, mut high) = (0, 0, 0);
    for job in &real {
        let there: Vec<f64> =
            job[7].split('|').map(|stay| stay.split('-').next().expect("a start").parse().expect("seconds")).collect();
        let mut here: Vec<f64> =
            stays.iter().filter(|stay| stay[0] == job[0]).map(|stay| stay[1].parse().expect("seconds")).collect();
        here.sort_by(f64::total_cmp);
        assert_eq!(here.len(), there.len(), "job {}: {here:?}, {there:?}", job[0]);
        preempted += here.len() - 1;
        if job[6] == "vip" {
            high += 1;
            assert!((here[0] - there[0]).abs() <= 1.0, "job {}: {here:?}, {there:?}", job[0]);
        }
        near += usize::from(here.iter().zip(&there).all(|(here, there)| (here - there).abs() <= 5.0));
    }
    told(&format!(
        "{preempted} preemptions as there, {high} jobs of the higher partition within 1 s, {near} of {} jobs within 5 s",
        real.len()
    ));
    assert!(preempted == 7 && high == 13);
}
