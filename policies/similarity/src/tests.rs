use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use sandtable_policy::ModelFacts;
use sandtable_policy::testing::shared;

/// Rows of a CSV as maps.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_path(path).expect("a file").deserialize().map(|row| row.expect("a row")).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {}", row[column]))
}

const SETS: [(&str, &str); 4] =
    [("2080ti(2)", "2080Ti"), ("dgx-a100", "A100"), ("TitanRTX", "TitanRTX"), ("TITANXP", "TitanXp")];

/// Every model of the benchmark, as measured in training at one precision.
fn references(precision: &str) -> Option<Vec<Reference>> {
    let (features, steps) =
        (shared("torchvision-gpu-bench/model_features.csv")?, shared("torchvision-gpu-bench/step_ms.csv")?);
    let mut rates: BTreeMap<String, BTreeMap<(u32, u32), f64>> = BTreeMap::new();
    for row in rows(&steps) {
        let Some(kind) = SETS.iter().position(|(set, _)| *set == row["set"]) else { continue };
        if row["precision"] == precision && row["mode"] == "train" {
            let gpus = number(&row, "n_gpus") as u32;
            let rate = 12.0 * f64::from(gpus) * 1000.0 / number(&row, "median_ms");
            rates.entry(row["model"].clone()).or_default().insert((kind as u32, gpus), rate);
        }
    }
    let of = |row: &BTreeMap<String, String>| {
        let facts = ModelFacts {
            model: row["model"].clone(),
            parameters: number(row, "params"),
            layer_multiply_adds: number(row, "macs"),
            layer_outputs: number(row, "conv_act_elems"),
            elementwise_outputs: number(row, "eltwise_elems"),
            depth: number(row, "depth"),
            layer_traffic: number(row, "conv_io_elems"),
            flops: f64::NAN,
            multiply_adds: f64::NAN,
            additions: f64::NAN,
            comparisons: f64::NAN,
            divisions: f64::NAN,
            exponentials: f64::NAN,
            activation_bytes: f64::NAN,
            parameter_bytes: f64::NAN,
            other_bytes: f64::NAN,
            group_nodes: vec![],
            group_flops: vec![],
        };
        let features = Features::Core6.of(&facts);
        let (model, family) = (facts.model.clone(), row["family"].clone());
        Reference { rates: rates[&model].clone(), model, family, features }
    };
    Some(rows(&features).iter().map(of).collect())
}

/// Mean absolute error of the speed-up over a TITAN Xp, each model left out in turn; checks every line of the golden.
fn leave_one_out(precision: &str) -> Option<f64> {
    let all = references(precision)?;
    let golden = rows(&shared("torchvision-gpu-bench/similarity_golden_lomo.csv")?);
    assert_eq!(golden.len(), 32);
    let mut errors = Vec::new();
    for row in &golden {
        let own = all.iter().find(|reference| reference.model == row["model"]).expect("a model");
        let others = all.iter().filter(|reference| reference.model != own.model).cloned().collect();
        let table = Table::new(others, 4, Measure::Euclid);
        let like = table.like(&own.model, &own.family, &own.features).expect("a likeness");
        assert_eq!(table.references()[like.nearest].model, row["nearest"], "{}", row["model"]);
        assert!((like.distance - number(row, "distance")).abs() < 1e-8, "{}: {}", row["model"], like.distance);
        let predicted = table.predict(&like, &own.features, 1, false);
        for (kind, (_, name)) in SETS.iter().enumerate().filter(|(_, (_, name))| *name != "TitanXp") {
            let found = libm::exp(predicted[kind] - predicted[3]);
            let column = |what: &str| number(row, &format!("{precision}_{name}_{what}"));
            assert!((found - column("pred")).abs() < 1e-6, "{} {name}: {found}", row["model"]);
            errors.push((found / column("true") - 1.0).abs());
        }
    }
    Some(100.0 * errors.iter().sum::<f64>() / errors.len() as f64)
}

#[test]
fn leave_one_out_is_as_measured() {
    for (precision, expected) in [("float", 8.25), ("half", 12.74)] {
        let Some(found) = leave_one_out(precision) else { return };
        assert!((found - expected).abs() <= 0.01, "{precision}: {found}");
    }
}

#[test]
fn fifteen_match_cases_are_exact() {
    let (Some(all), Some(path)) = (references("half"), shared("clwp-golden/match_cases.json")) else { return };
    let golden: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON");
    let chosen = |reference: &&Reference| {
        golden["references"].as_array().expect("names").contains(&reference.model.clone().into())
    };
    let names: Vec<String> = SETS.iter().map(|(_, name)| (*name).to_string()).collect();
    let cases = golden["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 15);
    for case in cases {
        let table = Table::new(all.iter().filter(chosen).cloned().collect(), 4, Measure::Euclid);
        let mut queue: Vec<(u64, &Reference, u32)> = case["queue"]
            .as_array()
            .expect("a queue")
            .iter()
            .map(|job| {
                let model = all.iter().find(|reference| Some(reference.model.as_str()) == job[1].as_str());
                (job[0].as_u64().expect("an id"), model.expect("a model"), job[2].as_u64().expect("a gang") as u32)
            })
            .collect();
        let mut free: Vec<u32> = names.iter().map(|name| case["free"][name].as_u64().expect("GPUs") as u32).collect();
        let mut found = Vec::new();
        // The loop of the policy on bare numbers: `choose` is the same rule on a cluster.
        loop {
            let mut best: Option<(f64, usize, usize)> = None;
            for (at, (_, model, gpus)) in queue.iter().take(32).enumerate() {
                let like = table.like(&model.model, &model.family, &model.features).expect("a likeness");
                let advantage = table.advantage(&table.predict(&like, &model.features, *gpus, false), *gpus);
                for kind in (0..4).filter(|kind| free[*kind] >= *gpus) {
                    let score = choose::rounded(advantage[kind]);
                    if best.is_none_or(|(known, _, _)| score > known) {
                        best = Some((score, at, kind));
                    }
                }
            }
            let Some((score, at, kind)) = best else { break };
            let (id, model, gpus) = queue.remove(at);
            free[kind] -= gpus;
            let like = table.like(&model.model, &model.family, &model.features).expect("a likeness");
            found.push((id, names[kind].clone(), table.references()[like.nearest].model.clone(), score));
        }
        let expected = case["expected"].as_array().expect("decisions");
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.0, expected["job"].as_u64().expect("an id"), "{expected}");
            assert_eq!(found.1, expected["arch"].as_str().expect("a type"), "{expected}");
            assert_eq!(found.2, expected["nearest"].as_str().expect("a model"), "{expected}");
            assert!((found.3 - expected["adv"].as_f64().expect("a score")).abs() < 1e-8, "{found:?} {expected}");
        }
    }
}

fn reference(model: &str, features: &[f64], rates: &[f64]) -> Reference {
    let rates = rates.iter().enumerate().map(|(kind, rate)| ((kind as u32, 1), *rate)).collect();
    Reference { model: model.into(), family: model.into(), features: features.to_vec(), rates }
}

#[test]
fn a_gang_that_nobody_measured_is_worth_its_gpus() {
    let table = Table::new(vec![reference("a", &[1.0], &[10.0, 30.0])], 2, Measure::Euclid);
    let like = table.like("a", "a", &[1.0]).expect("a likeness");
    let (one, eight) = (table.predict(&like, &[1.0], 1, true), table.predict(&like, &[1.0], 8, true));
    assert!(one.iter().zip(&eight).all(|(a, b)| (a - b).abs() < 1e-12), "{one:?} {eight:?}");
}

#[test]
fn measures_agree_on_what_is_the_same_and_differ_on_the_rest() {
    let all = [
        reference("a", &[1.0, 5.0], &[1.0, 2.0]),
        reference("b", &[2.0, 1.0], &[1.0, 3.0]),
        reference("c", &[4.0, 2.0], &[1.0, 4.0]),
    ];
    for word in Measure::WORDS {
        let table = Table::new(all.to_vec(), 2, Measure::named(word));
        for reference in &all {
            let like = table.like("other", "other", &reference.features).expect("a likeness");
            assert_eq!(table.references()[like.nearest].model, reference.model, "{word}");
            assert!(like.distance.abs() < 1e-12, "{word}: {like:?}");
        }
        assert_eq!(table.like("other", "other", &[f64::NAN, 1.0]), None);
    }
}

#[test]
fn a_stranger_is_judged_by_the_regression_too() {
    let all: Vec<Reference> =
        (1..6).map(|x| reference(&format!("r{x}"), &[f64::from(x)], &[1.0, f64::from(x)])).collect();
    let table = Table::new(all, 2, Measure::Euclid);
    let like = table.like("far", "far", &[40.0]).expect("a likeness");
    assert!(like.unseen && like.distance > 3.0);
    let (blended, nearest) = (table.predict(&like, &[40.0], 1, true), table.predict(&like, &[40.0], 1, false));
    // The regression is cut to what the references show: it can't run away.
    assert!((blended[1] - nearest[1]).abs() < 0.5, "{blended:?} {nearest:?}");
    let kin = table.like("near", "r3", &[3.1]).expect("a likeness");
    assert!(!kin.unseen);
}
