//! Golden decisions, worked out apart from this code (`../shared/data/clwp-golden`), where the data are at hand.

use sandtable_needs::needs;
use sandtable_policy::Communication;
use sandtable_policy::testing::data;
use serde_json::Value;

use crate::clwp::Aggregate;
use crate::nlwp::{Gang, Seat, Trade, best_step, choose};

fn golden(file: &str) -> Value {
    let text = std::fs::read_to_string(data(&format!("clwp-golden/{file}"))).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn close(a: f64, b: &Value) -> bool {
    (a - b.as_f64().expect("a number")).abs() <= 1e-8
}

#[needs("data:clwp-golden")]
#[test]
fn clwp_orders_the_nodes_of_every_golden_case() {
    let (cases, net) = (golden("clwp_cases.json"), golden("neumf_gavel_v100.json"));
    let f = |i: usize, j: usize| net["expected"][i][j].as_f64().expect("a number");
    let mut count = 0;
    for case in cases["cases"].as_array().expect("a list") {
        let number = |key: &str| case[key].as_f64().expect("a number");
        let (job, k) = (number("job") as usize, number("k") as usize);
        let mut ranked: Vec<(f64, usize, usize)> = Vec::new();
        for (index, node) in case["nodes"].as_array().expect("a list").iter().enumerate() {
            let gpus = node.as_array().expect("a list");
            let mut eligible = 0;
            let mut residents: Vec<(u64, usize, usize)> = Vec::new();
            for gpu in gpus {
                let there = gpu.as_array().expect("a list");
                let used: f64 = there.iter().map(|task| task["mem"].as_f64().expect("a number")).sum();
                let room = used + number("mem_gib") <= number("cap_gib") + 1e-9;
                eligible += usize::from(there.len() < number("max_share") as usize && room);
                for task in there {
                    let id = task["id"].as_u64().expect("an id");
                    match residents.iter_mut().find(|(known, _, _)| *known == id) {
                        Some((_, _, tasks)) => *tasks += 1,
                        None => residents.push((id, task["job"].as_u64().expect("a type") as usize, 1)),
                    }
                }
            }
            if eligible < k {
                continue;
            }
            let similar: Vec<(usize, f64)> =
                residents.iter().map(|(_, of, tasks)| (*tasks, 1.0 - (f(job, *of) + f(*of, job)) / 2.0)).collect();
            let tasks = residents.iter().map(|(_, _, tasks)| tasks).sum();
            ranked.push((Aggregate::LoadSum.score(&similar, gpus.len()), tasks, index));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let order: Vec<u64> = ranked.iter().map(|(_, _, index)| *index as u64).collect();
        let expected: Vec<u64> =
            case["expected_order"].as_array().expect("a list").iter().map(|x| x.as_u64().expect("a node")).collect();
        assert_eq!(order, expected, "case {count}");
        for ((score, _, _), expected) in ranked.iter().zip(case["expected_scores"].as_array().expect("a list")) {
            assert!(close(*score, expected), "case {count}: {score}, expected {expected}");
        }
        count += 1;
    }
    assert_eq!(count, 20);
}

#[needs("data:clwp-golden")]
#[test]
fn nlwp_takes_the_gpus_of_every_golden_case() {
    let cases = golden("nlwp_cases.json");
    let mut count = 0;
    for case in cases["cases"].as_array().expect("a list") {
        let number = |key: &str| case[key].as_f64().expect("a number");
        let rows = case["bandwidth_gb_s"].as_array().expect("a list");
        let links: Vec<f64> =
            rows.iter().flat_map(|row| row.as_array().expect("a list")).map(|x| x.as_f64().expect("GB/s")).collect();
        let communication = match case["mode"].as_str() {
            Some("ring") => Communication::Ring,
            Some("ps") => Communication::ParameterServer,
            other => panic!("{other:?}"),
        };
        let gang =
            Gang { count: number("k") as usize, step: number("tau_s"), gradient: number("grad_gb"), communication };
        let trade = Trade { phi: number("phi"), latency: number("alpha_s"), beta: number("beta") };
        let seat = |gpu: &Value| {
            let gpu = gpu.as_u64().expect("an index") as usize;
            let there = case["residents"][gpu].as_array().expect("a list");
            let of = |task: &Value, key: &str| task[key].as_f64().expect("a number");
            let own: f64 = there.iter().map(|task| of(task, "perf_new")).product();
            let harm = there.iter().map(|task| 1.0 - of(task, "perf_res")).sum();
            Seat { gpu, own: own.max(0.05), harm, shared: !there.is_empty() }
        };
        let seats: Vec<Seat> = case["eligible"].as_array().expect("a list").iter().map(seat).collect();
        let best = best_step(&links, rows.len(), &gang, &trade);
        let expected = &case["expected"];
        assert!(close(best, &expected["step_best"]), "case {count}: {best}");
        let choice = choose(&links, rows.len(), &seats, &gang, &trade, best).expect("a choice");
        let gpus: Vec<u64> =
            expected["gpus"].as_array().expect("a list").iter().map(|x| x.as_u64().unwrap_or(99)).collect();
        assert_eq!(choice.gpus.iter().map(|gpu| *gpu as u64).collect::<Vec<_>>(), gpus, "case {count}");
        for (found, key) in [(choice.cost, "J"), (choice.own, "own"), (choice.harm, "harm"), (choice.gain, "gain")] {
            assert!(close(found, &expected[key]), "case {count}, {key}: {found}, expected {}", expected[key]);
        }
        assert_eq!(choice.shares, expected["shares"].as_bool().expect("a flag"), "case {count}");
        if let Some(admitted) = expected.get("admitted") {
            let own = !choice.shares || choice.gain >= number("delta");
            assert_eq!(own, admitted.as_bool().expect("a flag"), "case {count}");
        }
        count += 1;
    }
    assert_eq!(count, 40);
}

#[test]
fn aggregates_differ_where_a_node_is_half_full() {
    let residents = [(1, 0.2), (3, 0.6)];
    assert_eq!(Aggregate::LoadSum.score(&residents, 4), (0.2 + 3.0 * 0.6) / 4.0);
    assert_eq!(Aggregate::Mean.score(&residents, 8), (0.2 + 3.0 * 0.6) / 4.0);
    assert_eq!(Aggregate::Max.score(&residents, 8), 0.6);
    assert_eq!(Aggregate::Mean.score(&[], 8), 0.0);
}
