//! FGD's published runs (Weng et al., ATC 2023): filling a cluster pod by pod, from the spec through the component; every place is met.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sandtable_fragmentation::{Ask, Room, Typical};
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
    let mut text =
        String::from("job_id,submit_s,gpus,gpus_per_node,duration_s,cpus,host_memory_mib,gpu_types,share_milli\n");
    for (at, [cpu_milli, memory_mib, gpus, milli, models]) in pods.iter().enumerate() {
        let cpus = cpu_milli.parse::<f64>().expect("CPU") / 1000.0;
        let share = if gpus == "1" { milli.as_str() } else { "" };
        // A pod is on one node.
        let row = writeln!(text, "{at},{at},{gpus},{gpus},864000000,{cpus},{memory_mib},{models},{share}");
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

/// Our places, and what of the cluster's GPUs typical jobs had no use for in the mean, by the host.
fn found(run: &Run, plan: &sandtable::plan::Plan) -> (Places, f64) {
    let (summary, jobs) = results::<JobRecord>(plan);
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
    (jobs.iter().map(|(_, job)| place(job)).collect(), summary.fragments_window.expect("measured"))
}

/// What of a pod's list is typical.
fn typical(run: &Run, pods: &[[String; 5]]) -> Typical {
    let mut counts = BTreeMap::new();
    for [cpu_milli, _, gpus, milli, models] in pods {
        let (cpu_milli, gpus) = (cpu_milli.parse().expect("CPU"), gpus.parse().expect("GPUs"));
        let milli = milli.parse().expect("thousandths");
        *counts.entry(Ask { cpu_milli, milli, gpus, kinds: models.clone() }).or_default() += 1;
    }
    Typical::of(&counts, 0.95, &models(run))
}

/// The models of GPUs, in the order of their first nodes.
fn models(run: &Run) -> Vec<String> {
    let mut models: Vec<String> = Vec::new();
    for [.., model] in &run.nodes {
        if !models.contains(model) {
            models.push(model.clone());
        }
    }
    models
}

/// After each pod: thousandths of GPUs that were asked for, that are given away, and that typical jobs have no use for.
fn filling(run: &Run, places: &Places, typical: &Typical) -> Vec<(f64, f64, f64)> {
    let models = models(run);
    let kind = |model: &String| models.iter().position(|known| known == model).expect("a model") as u32;
    let mut nodes: Vec<(u32, u64, Vec<u32>)> = run
        .nodes
        .iter()
        .map(|[cpu, _, gpus, model]| (kind(model), cpu.parse().expect("CPU"), vec![1000; gpus.parse().expect("GPUs")]))
        .collect();
    let fragments = |(gpu_type, cpu_milli, left): &(u32, u64, Vec<u32>)| {
        typical.fragments(Room { gpu_type: *gpu_type, cpu_milli: *cpu_milli, left })
    };
    let mut of_node: Vec<f64> = nodes.iter().map(fragments).collect();
    let (mut asked, mut given) = (0.0, 0.0);
    let after = |([cpu_milli, _, gpus, milli, _], place): (&[String; 5], &Option<(usize, Vec<u32>)>)| {
        let milli: u32 = milli.parse().expect("thousandths");
        let all = f64::from(milli) * gpus.parse::<f64>().expect("GPUs");
        asked += all;
        if let Some((node, gpus)) = place {
            given += all;
            nodes[*node].1 -= cpu_milli.parse::<u64>().expect("CPU");
            gpus.iter().for_each(|gpu| nodes[*node].2[*gpu as usize] -= milli);
            of_node[*node] = fragments(&nodes[*node]);
        }
        (asked, given, of_node.iter().sum())
    };
    run.pods.iter().zip(places).map(after).collect()
}

/// Points of the published curves that ours differ from: of what is given away, and of fragments; the greatest difference.
fn curve_differs(run: &Run, filling: &[(f64, f64, f64)], file: &str) -> (usize, usize, usize, f64) {
    let percent = run.nodes.iter().map(|node| node[2].parse::<f64>().expect("GPUs")).sum::<f64>() * 10.0;
    let hundredths = |x: f64| (x * 100.0).round_ties_even() / 100.0;
    let mut points: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
    for (asked, given, fragments) in filling {
        let x = (asked / percent).round_ties_even() as i64;
        points.entry(x).or_default().push((hundredths(given / percent), fragments / percent));
    }
    let text = std::fs::read_to_string(data(file)).expect("a curve");
    let (mut all, mut wrong, mut most) = (0, (0, 0), 0.0f64);
    for line in text.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().expect("a number")).collect();
        let Some(of) = points.get(&(cells[0] as i64)) else { continue };
        let mean = |get: fn(&(f64, f64)) -> f64| hundredths(of.iter().map(get).sum::<f64>() / of.len() as f64);
        let (given, fragments) = (mean(|point| point.0) - cells[1], mean(|point| point.1) - cells[2]);
        all += 1;
        wrong = (wrong.0 + usize::from(given.abs() > 1e-9), wrong.1 + usize::from(fragments.abs() > 1e-9));
        most = most.max(given.abs()).max(fragments.abs());
    }
    (all, wrong.0, wrong.1, most)
}

#[needs("data:fgd", "data:openb-2023")]
#[test]
fn every_pod_goes_where_it_was_published() {
    let scores = ["fgd", "best-fit", "dot-product", "packing", "clustering"];
    let files = ["fgd", "bestfit", "dotprod", "packing", "clustering"];
    for (workload, seed) in [("default", 42), ("gpuspec33", 42), ("multigpu20", 47)] {
        let run = run_of(workload, seed);
        let (of_list, of_run) = (typical(&run, &run.list), typical(&run, &run.pods));
        for (score, file) in scores.into_iter().zip(files) {
            if workload != "default" && !["fgd", "bestfit"].contains(&file) {
                continue;
            }
            let folder = tempfile::tempdir().expect("a folder");
            let plan = planned(&spec(&run, folder.path(), score)).unwrap_or_else(|error| panic!("{error}"));
            let (ours, measured) = found(&run, &plan);
            let theirs = published(&run, &format!("fgd/{workload}.{seed}.{file}.csv.gz"));
            assert_eq!(ours.len(), theirs.len());
            let wrong: Vec<usize> = (0..ours.len()).filter(|at| ours[*at] != theirs[*at]).collect();
            let curve = format!("fgd/{workload}.{seed}.{file}.curve.csv");
            let (points, given, fragments, most) = curve_differs(&run, &filling(&run, &ours, &of_list), &curve);
            told(&format!(
                "fgd: {workload}.{seed} {score}: {} pods, {} elsewhere than published; of {points} points of the curves {given} and {fragments} differ, by up to {most:.2}",
                ours.len(),
                wrong.len()
            ));
            let first = wrong.first().map(|at| (at, &run.pods[*at], &ours[*at], &theirs[*at]));
            assert_eq!(first, None);
            assert_eq!((points, given, fragments), (131, 0, 0));
            // One pod a second: the mean over time until the last comes is that over all before it.
            let over_time = filling(&run, &ours, &of_run);
            let before: Vec<f64> = over_time[..over_time.len() - 1].iter().map(|(.., fragments)| *fragments).collect();
            let gpus: f64 = run.nodes.iter().map(|node| node[2].parse::<f64>().expect("GPUs")).sum();
            let mean = before.iter().sum::<f64>() / before.len() as f64 / 1000.0 / gpus;
            assert!((mean - measured).abs() < 1e-9, "{mean} {measured}");
        }
    }
}
