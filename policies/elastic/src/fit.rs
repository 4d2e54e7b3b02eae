//! Fitting the throughput model to what a job reports (Pollux, OSDI 2021, §4.1): the artifact's loss, its rules for what
//! nothing was seen of, and its way down, L-BFGS-B. The loss has many minima: another way down ends in better ones, and a
//! policy that believes those decides otherwise than the published one.
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), goodput.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use crate::goodput::Theta;
use crate::lbfgsb::minimise;

/// What a job reported once: nodes, GPUs and samples of a pass, and the seconds that it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Nodes.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u32,
    /// Samples of a pass on one GPU.
    pub local: u32,
    /// Seconds of a pass without exchange of gradients.
    pub compute: f64,
    /// Seconds of one with it.
    pub step: f64,
}

const START: [f64; 7] = [0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001];
const LEAST: f64 = 1e-8;
const GAMMA: (f64, f64) = (1.0, 10.0);

/// Which numbers are known beforehand, as nothing was seen that they show in.
fn fixed(seen: &[Observation]) -> [Option<f64>; 7] {
    let mut known = [None; 7];
    if seen.iter().all(|at| at.local == seen[0].local) {
        known[0] = Some(seen.iter().map(|at| at.compute).sum::<f64>() / seen.len() as f64 / 2.0);
    }
    if !seen.iter().any(|at| at.nodes > 1) {
        (known[2], known[3]) = (Some(LEAST), Some(LEAST));
    }
    if !seen.iter().any(|at| at.nodes == 1 && at.gpus > 1) {
        (known[4], known[5]) = (Some(LEAST), Some(LEAST));
    }
    if !seen.iter().any(|at| at.gpus > 2) {
        (known[3], known[5]) = (Some(LEAST), Some(LEAST));
    }
    known
}

/// One observation under a model: logarithms of both times, and their slopes by the logarithms of the parameters, by
/// gamma itself.
fn predict(theta: &[f64; 7], at: &Observation) -> ([f64; 2], [[f64; 7]; 2]) {
    let [ac, bc, an, bn, ar, br, gamma] = *theta;
    let local = f64::from(at.local);
    let compute = ac + bc * local;
    let beyond = (f64::from(at.gpus) - 2.0).max(1e-8);
    let (exchange, of) = match (at.nodes, at.gpus) {
        (_, ..=1) => (1e-8 + 1e-8 * beyond, None),
        (1, _) => (ar + br * beyond, Some((4, ar, br * beyond))),
        _ => (an + bn * beyond, Some((2, an, bn * beyond))),
    };
    let (log_a, log_b) = (libm::log(compute), libm::log(exchange));
    let (high, low) = if log_a >= log_b { (log_a, log_b) } else { (log_b, log_a) };
    let part = libm::exp(gamma * (low - high));
    let excess = libm::log1p(part);
    let whole = high + excess / gamma;
    // How much of the slope belongs to computing, how much to the exchange.
    let minor = part / (1.0 + part);
    let (by_a, by_b) = if log_a >= log_b { (1.0 - minor, minor) } else { (minor, 1.0 - minor) };
    let mut slopes = [[0.0; 7]; 2];
    slopes[0][0] = ac / compute;
    slopes[0][1] = bc * local / compute;
    slopes[1][0] = by_a * slopes[0][0];
    slopes[1][1] = by_a * slopes[0][1];
    if let Some((first, alpha, beta)) = of {
        slopes[1][first] = by_b * alpha / exchange;
        slopes[1][first + 1] = by_b * beta / exchange;
    }
    slopes[1][6] = minor * (low - high) / gamma - excess / (gamma * gamma);
    ([log_a, whole], slopes)
}

/// The loss of a model, and its slope by each parameter: what the published fit minimises.
fn loss_and_slope(theta: &[f64; 7], seen: &[Observation], logs: &[[f64; 2]]) -> (f64, [f64; 7]) {
    let count = seen.len() as f64;
    let (mut squares, mut sums) = ([0.0; 2], [[0.0; 7]; 2]);
    for (at, log) in seen.iter().zip(logs) {
        let (found, slopes) = predict(theta, at);
        for which in 0..2 {
            let residual = found[which] - log[which];
            squares[which] += residual * residual;
            for (sum, slope) in sums[which].iter_mut().zip(slopes[which]) {
                *sum += residual * slope;
            }
        }
    }
    let mut slope = [0.0; 7];
    let mut loss = 0.0;
    for which in 0..2 {
        let error = (squares[which] / count).sqrt();
        loss += error;
        for (slope, sum) in slope.iter_mut().zip(sums[which]) {
            // Nothing is left to be gained: there the root has no slope.
            *slope += if error > 0.0 { sum / (count * error) } else { 0.0 };
        }
    }
    // From slopes by logarithms to slopes; gamma's is its own.
    slope[..6].iter_mut().zip(theta).for_each(|(slope, value)| *slope /= value);
    let gamma = theta[6] - 1.0;
    loss += 1e-3 * gamma * gamma;
    slope[6] += 2e-3 * gamma;
    for first in [2, 4] {
        let ratio = theta[first + 1] / theta[first];
        loss += 1e-2 * ratio * ratio;
        slope[first] -= 2e-2 * ratio * ratio / theta[first];
        slope[first + 1] += 2e-2 * ratio / theta[first];
    }
    (loss, slope)
}

fn logs(seen: &[Observation]) -> Vec<[f64; 2]> {
    seen.iter().map(|at| [libm::log(at.compute), libm::log(at.step)]).collect()
}

/// The loss of a model.
pub fn loss(theta: &Theta, seen: &[Observation]) -> f64 {
    loss_and_slope(&theta.0, seen, &logs(seen)).0
}

/// Fits the model to what was seen.
pub fn fit(seen: &[Observation]) -> Theta {
    let (mut least, mut most) = ([LEAST; 7], [f64::INFINITY; 7]);
    (least[6], most[6]) = GAMMA;
    let mut theta = START;
    for (at, known) in fixed(seen).into_iter().enumerate() {
        if let Some(value) = known {
            (least[at], most[at], theta[at]) = (value, value, value);
        }
    }
    let logs = logs(seen);
    theta = minimise(theta, &least, &most, |theta| loss_and_slope(theta, seen, &logs));
    if !seen.iter().any(|at| at.nodes > 1) {
        // Exchanging gradients between nodes is not cheaper than within one.
        theta[2] = theta[2].max(1.1 * theta[4]);
        theta[3] = theta[3].max(1.1 * theta[5]);
    }
    Theta(theta)
}

#[cfg(test)]
mod tests {
    use sandtable_needs::needs;
    use sandtable_policy::Elasticity;
    use sandtable_policy::testing::data;
    use serde_json::Value;

    use super::*;
    use crate::goodput::{Goodput, Split, pass};

    fn vectors() -> Value {
        serde_json::from_slice(&std::fs::read(data("pollux/reference_vectors.json")).expect("a file")).expect("JSON")
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
    }

    #[needs("data:pollux")]
    #[test]
    fn fits_are_as_good_as_the_published_ones() {
        let vectors = vectors();
        let cases = vectors["fit"].as_array().expect("cases");
        assert_eq!(cases.len(), 24);
        let mut equal = 0;
        for case in cases {
            let rows = case["obs_nodes_replicas_bsz_accumtime_steptime"].as_array().expect("rows");
            let seen: Vec<Observation> = rows
                .iter()
                .map(|row| {
                    let [nodes, gpus, local, compute, step] = numbers(row)[..] else { panic!("{row}") };
                    Observation { nodes: nodes as u32, gpus: gpus as u32, local: local as u32, compute, step }
                })
                .collect();
            let theta = fit(&seen);
            let (found, published) = (loss(&theta, &seen), case["objective"].as_f64().expect("a loss"));
            assert!(found <= published + 1e-3, "{}: {found}, published {published}", case["app"]);
            let near = |(a, b): (&f64, f64)| (a - b).abs() <= 1e-3 * b.abs() + 1e-6;
            equal += u32::from(theta.0.iter().zip(numbers(&case["theta"])).all(near));
        }
        // The same way down ends in the same of the many minima, nearly always.
        assert!(equal >= 16, "{equal} of 24 models are the published ones");
    }

    /// Of a job of one and the same line of times: what is left of the loss is rounding, and its slopes are of any size.
    #[test]
    fn a_perfect_fit_is_of_numbers() {
        let rows = [
            (1, 128, 0.041214832, 0.04121483200000042),
            (2, 185, 0.04651264, 0.056552781247386455),
            (1, 535, 0.07904304, 0.07904304000000018),
            (1, 661, 0.090753984, 0.09075398400000019),
            (1, 817, 0.105253248, 0.10525324800000019),
            (1, 941, 0.116778304, 0.11677830400000012),
            (1, 1010, 0.12319144, 0.12319144000000011),
        ];
        let seen = rows.map(|(gpus, local, compute, step)| Observation { nodes: 1, gpus, local, compute, step });
        for count in 1..=seen.len() {
            let theta = fit(&seen[..count]);
            assert!(theta.0.iter().all(|x| x.is_finite()), "{count}: {theta:?}");
            let is_near = |at: &Observation| {
                (pass(&theta, at.nodes, at.gpus, f64::from(at.local)).1 / at.step - 1.0).abs() < 0.02
            };
            assert!(seen[..count].iter().all(is_near), "{count}: {theta:?}");
        }
    }

    #[needs("data:pollux")]
    #[test]
    fn goodput_is_the_published_one() {
        let vectors = vectors();
        let cases = vectors["goodput"].as_array().expect("cases");
        assert_eq!(cases.len(), 144);
        for case in cases {
            let app = &vectors["apps"][case["app"].as_str().expect("an app")];
            let whole = |key: &str| app[key].as_u64().expect("a number") as u32;
            let job = Elasticity {
                most_gpus: 64,
                batch: 1,
                tunable: true,
                initial_batch: whole("init_batch_size"),
                most_batch: whole("max_batch_size"),
                least_local: whole("min_local_bsz"),
                most_local: whole("max_local_bsz"),
            };
            let theta = Theta(numbers(&app["theta_fit_all"]).try_into().expect("seven numbers"));
            let number = |key: &str| case[key].as_f64().expect("a number");
            let goodput = Goodput { theta, sqr: number("grad_sqr"), variance: number("grad_var") };
            let best = goodput.best(&job, number("nodes") as u32, number("replicas") as u32);
            let split = Split { local: number("atomic_bsz") as u32, accumulation: number("accum_steps") as u32 };
            assert!((best.goodput / number("goodput") - 1.0).abs() < 1e-9, "{case}: {best:?}");
            assert_eq!(best.split, split, "{case}");
        }
    }
}
