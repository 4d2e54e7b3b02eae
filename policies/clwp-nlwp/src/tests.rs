//! Golden costs, worked out apart from this code (`../shared/data/clwp-golden`), where the data are at hand. The decisions
//! themselves are compared through the component (`experiments/tests/all/decisions.rs`).

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
fn nlwp_costs_what_every_golden_case_says() {
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
            let residents = case["residents"][gpu].as_array().expect("a list");
            let of = |task: &Value, key: &str| task[key].as_f64().expect("a number");
            let own: f64 = residents.iter().map(|task| of(task, "perf_new")).product();
            let harm = residents.iter().map(|task| 1.0 - of(task, "perf_res")).sum();
            Seat { gpu, own: own.max(0.05), harm, shared: !residents.is_empty() }
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
