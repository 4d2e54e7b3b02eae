//! `slurm-backfill` against schedules of a real Slurm.

use sandtable_needs::needs;

use crate::help::{dist, sandtable, told};
use crate::states::real;

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
    let folder = tempfile::tempdir().expect("a folder");
    let mut trace = String::from("job_id,submit_s,gpus,gpus_per_node,duration_s,declared_s\n");
    for job in &real {
        // Half a second more than a job sleeps is what it holds its GPUs for.
        let (gpus, took) = (job.nodes * job.each, job.sleep + 0.5);
        trace.push_str(&format!("{},{},{gpus},{},{took},{}\n", job.id, job.submit, job.each, job.limit));
    }
    std::fs::write(folder.path().join("t.csv"), trace).expect("written");
    let spec = format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 4, gpus: 4, kind: \"x\", speed: 1.0), workload: Trace(file: \"t.csv\"), \
         policies: [Policy(name: \"slurm-backfill\", with: {{{with}}})], predictors: {{\"remaining\": Declared}})"
    );
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let cells = crate::help::cells(&folder.path().join("store"));
    let (_, rows) = cells.iter().find(|(name, _)| name.ends_with("jobs.csv")).expect("rows");
    let rows: Vec<Vec<&str>> =
        std::str::from_utf8(rows).expect("UTF-8").lines().skip(1).map(|line| line.split(',').collect()).collect();
    let mut found = Agrees { jobs: real.len(), near: 0, same_nodes: 0, wait: 0.0, real_wait: 0.0 };
    for job in &real {
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
