//! FGD's published runs (Weng et al., ATC 2023): filling a cluster pod by pod, from the spec through the component; every place is met.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sandtable_needs::needs;
use sandtable_results::schema::{JobRecord, StayRecord};
use sandtable_runtime::JobOutcome;

use crate::help::{data, planned, results, told};

/// The rows of a compressed CSV.
fn rows(file: &str) -> Vec<csv::StringRecord> {
    let packed = std::fs::File::open(data(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(packed));
    reader.records().map(|record| record.expect("a row")).collect()
}

/// A cluster, in the order by which ties are broken, and the pods in the order in which they come.
struct Run {
    /// CPU, memory, GPUs and their model.
    nodes: Vec<[String; 4]>,
    names: Vec<String>,
    /// CPU, memory, GPUs, thousandths of each, models.
    pods: Vec<[String; 5]>,
    /// All pods that may come.
    list: Vec<[String; 5]>,
}

fn fields<const N: usize>(row: &csv::StringRecord, from: usize) -> [String; N] {
    std::array::from_fn(|at| row.get(from + at).unwrap_or("").to_string())
}

/// The inputs of a published run.
fn run_of(workload: &str, seed: u32) -> Run {
    let known: BTreeMap<String, [String; 4]> =
        rows("openb-2023/openb_node_list_gpu_node.csv.gz").iter().map(|row| (row[0].into(), fields(row, 1))).collect();
    let list: Vec<(String, [String; 5])> = rows(&format!("openb-2023/openb_pod_list_{workload}.csv.gz"))
        .iter()
        .map(|row| (row[0].into(), fields(row, 1)))
        .collect();
    let by_name: BTreeMap<&String, &[String; 5]> = list.iter().map(|(name, pod)| (name, pod)).collect();
    let ranks = rows(&format!("fgd/{workload}.{seed}.nodes.csv.gz"));
    let names: Vec<String> = ranks.iter().map(|row| row[1].to_string()).collect();
    let order = rows(&format!("fgd/{workload}.{seed}.order.csv.gz"));
    Run {
        nodes: names.iter().map(|name| known[name].clone()).collect(),
        names,
        pods: order.iter().map(|row| by_name[&row[0].to_string()].clone()).collect(),
        list: list.iter().map(|(_, pod)| pod.clone()).collect(),
    }
}

/// Pods as a native trace: one a second, none of which ends before the last has come.
fn trace(pods: &[[String; 5]]) -> String {
    let mut text = String::from("job_id,submit_s,gpus,duration_s,cpus,host_memory_mib,gpu_types,share_milli\n");
    for (at, [cpu_milli, memory_mib, gpus, milli, models]) in pods.iter().enumerate() {
        let cpus = cpu_milli.parse::<f64>().expect("CPU") / 1000.0;
        let share = if gpus == "1" { milli.as_str() } else { "" };
        let row = writeln!(text, "{at},{at},{gpus},864000000,{cpus},{memory_mib},{models},{share}");
        row.expect("a line");
    }
    text
}

/// A spec of the run under a score.
fn spec(run: &Run, folder: &std::path::Path, score: &str) -> String {
    let node = |node: &[String; 4]| node.join(",") + "\n";
    let all: String = run.nodes.iter().map(node).collect();
    let (nodes, pods, list) = (folder.join("nodes.csv"), folder.join("pods.csv"), folder.join("list.csv"));
    std::fs::write(&nodes, format!("cpu_milli,memory_mib,gpu,model\n{all}")).expect("written");
    std::fs::write(&pods, trace(&run.pods)).expect("written");
    std::fs::write(&list, trace(&run.list)).expect("written");
    format!(
        "Experiment(title: \"fgd\", fleet: Model(list: NodeList(file: {nodes:?}, format: Openb), speed: 1.0, sharing: Shares), \
         workload: Trace(file: {pods:?}), \
         policies: [Policy(name: \"fgd\", with: {{\"score\": {score:?}, \"without_place\": \"refuse\"}}, weights: {list:?})])"
    )
}

/// The node of each pod, by its rank, and its GPUs there; none: it was dropped.
type Places = Vec<Option<(usize, Vec<u32>)>>;

fn published(run: &Run, file: &str) -> Places {
    let ranks: BTreeMap<&str, usize> = run.names.iter().enumerate().map(|(rank, name)| (name.as_str(), rank)).collect();
    let gpus =
        |text: &str| text.split(';').filter(|gpu| !gpu.is_empty()).map(|gpu| gpu.parse().expect("a GPU")).collect();
    rows(file).iter().map(|row| Some((*ranks.get(&row[0])?, gpus(&row[1])))).collect()
}

fn found(run: &Run, plan: &sandtable::plan::Plan) -> Places {
    let (_, jobs) = results::<JobRecord>(plan);
    let (_, stays) = results::<StayRecord>(plan);
    let mut first = vec![0];
    run.nodes.iter().for_each(|node| first.push(first.last().unwrap_or(&0) + node[2].parse::<u32>().expect("GPUs")));
    let gpus: BTreeMap<String, Vec<u32>> =
        stays.into_iter().map(|stay| (stay.job_id, stay.gpus.0.iter().map(|gpu| gpu.number()).collect())).collect();
    let place = |job: &JobRecord| {
        let nodes: Vec<usize> = job.last_placement.0.keys().map(|node| node.index()).collect();
        assert_eq!(nodes.len(), usize::from(job.outcome == JobOutcome::Completed), "{job:?}");
        let node = *nodes.first()?;
        Some((node, gpus[&job.job_id].iter().map(|gpu| gpu - first[node]).collect()))
    };
    let mut jobs: Vec<(usize, JobRecord)> =
        jobs.into_iter().map(|job| (job.job_id.parse().expect("a number"), job)).collect();
    jobs.sort_by_key(|(at, _)| *at);
    jobs.iter().map(|(_, job)| place(job)).collect()
}

/// How many places differ, and the first.
fn differ(run: &Run, workload: &str, seed: u32, score: &str, file: &str) -> (usize, Places) {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = planned(&spec(run, folder.path(), score)).unwrap_or_else(|error| panic!("{error}"));
    let (ours, theirs) = (found(run, &plan), published(run, &format!("fgd/{workload}.{seed}.{file}.csv.gz")));
    assert_eq!(ours.len(), theirs.len());
    let wrong: Vec<usize> = (0..ours.len()).filter(|at| ours[*at] != theirs[*at]).collect();
    if let Some(at) = wrong.first() {
        told(&format!(
            "fgd: {workload}.{seed} {score}: pod {at} {:?}: {:?}, published {:?}",
            run.pods[*at], ours[*at], theirs[*at]
        ));
    }
    (wrong.len(), ours)
}

#[test]
#[needs("data:fgd", "data:openb-2023")]
fn every_pod_goes_where_it_was_published() {
    let scores = ["fgd", "best-fit", "dot-product", "packing", "clustering"];
    let files = ["fgd", "bestfit", "dotprod", "packing", "clustering"];
    for (workload, seed) in [("default", 42), ("gpuspec33", 42), ("multigpu20", 47)] {
        let run = run_of(workload, seed);
        for (score, file) in scores.into_iter().zip(files) {
            if workload != "default" && !["fgd", "bestfit"].contains(&file) {
                continue;
            }
            let (wrong, _) = differ(&run, workload, seed, score, file);
            told(&format!("fgd: {workload}.{seed} {score}: {} pods, {wrong} elsewhere than published", run.pods.len()));
        }
    }
}
