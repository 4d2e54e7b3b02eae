//! Fitting the throughput model to what a job reports (Pollux, OSDI 2021, §4.1): the same loss and the same rules for
//! what nothing was seen of; another way down.
//!
//! The loss is a sum of two root mean squares and of penalties. Each step bounds the roots from above by squares and
//! takes a damped Gauss-Newton step in logarithms of the parameters, within their bounds.

use crate::goodput::Theta;

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
/// Below this a root mean square counts as none: there its slope has no end.
const FLOOR: f64 = 1e-5;

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

/// The loss of a model: what the published fit minimises.
pub fn loss(theta: &Theta, seen: &[Observation]) -> f64 {
    let logs: Vec<[f64; 2]> = seen.iter().map(|at| [libm::log(at.compute), libm::log(at.step)]).collect();
    let (squares, penalties) = squares(&theta.0, seen, &logs);
    let count = seen.len() as f64;
    (squares[0] / count).sqrt() + (squares[1] / count).sqrt() + penalties
}

fn squares(theta: &[f64; 7], seen: &[Observation], logs: &[[f64; 2]]) -> ([f64; 2], f64) {
    let mut squares = [0.0; 2];
    for (at, log) in seen.iter().zip(logs) {
        let (found, _) = predict(theta, at);
        squares[0] += (found[0] - log[0]) * (found[0] - log[0]);
        squares[1] += (found[1] - log[1]) * (found[1] - log[1]);
    }
    let ratio = |a: f64, b: f64| (b / a) * (b / a);
    let gamma = theta[6] - 1.0;
    (squares, 1e-3 * gamma * gamma + 1e-2 * (ratio(theta[2], theta[3]) + ratio(theta[4], theta[5])))
}

/// Fits the model to what was seen, from the published start and from `before`; the better of the two.
pub fn fit(seen: &[Observation], before: Option<Theta>) -> Theta {
    let known = fixed(seen);
    let starts = [Some(START), before.map(|theta| theta.0)];
    let tried = starts.into_iter().flatten().map(|start| descend(seen, &known, start));
    let (mut theta, _) = tried.reduce(|a, b| if b.1 < a.1 { b } else { a }).unwrap_or((START, f64::INFINITY));
    if !seen.iter().any(|at| at.nodes > 1) {
        // Exchanging gradients between nodes is not cheaper than within one.
        theta[2] = theta[2].max(1.1 * theta[4]);
        theta[3] = theta[3].max(1.1 * theta[5]);
    }
    Theta(theta)
}

fn descend(seen: &[Observation], known: &[Option<f64>; 7], start: [f64; 7]) -> ([f64; 7], f64) {
    let count = seen.len() as f64;
    let logs: Vec<[f64; 2]> = seen.iter().map(|at| [libm::log(at.compute), libm::log(at.step)]).collect();
    let mut theta = start;
    for (value, fixed) in theta.iter_mut().zip(known) {
        *value = fixed.unwrap_or(value.max(LEAST));
    }
    let value = |theta: &[f64; 7]| {
        let (squares, penalties) = squares(theta, seen, &logs);
        (squares[0] / count).sqrt() + (squares[1] / count).sqrt() + penalties
    };
    let mut best = value(&theta);
    let mut damping = 1e-2;
    let mut idle = 0;
    for _ in 0..60 {
        let (squares, _) = squares(&theta, seen, &logs);
        let weights = squares.map(|sum| 0.5 / (sum / count).sqrt().max(FLOOR) / count);
        // Normal equations of the bound; every residual has weight 2w in them.
        let (mut normal, mut slope) = ([[0.0; 7]; 7], [0.0; 7]);
        for (at, log) in seen.iter().zip(&logs) {
            let (found, slopes) = predict(&theta, at);
            for which in 0..2 {
                add(&mut normal, &mut slope, &slopes[which], found[which] - log[which], weights[which]);
            }
        }
        let mut row = [0.0; 7];
        row[6] = 1.0;
        add(&mut normal, &mut slope, &row, theta[6] - 1.0, 1e-3);
        for first in [2, 4] {
            let ratio = theta[first + 1] / theta[first];
            let mut row = [0.0; 7];
            (row[first], row[first + 1]) = (-ratio, ratio);
            add(&mut normal, &mut slope, &row, ratio, 1e-2);
        }
        let free: Vec<usize> = (0..7)
            .filter(|i| {
                let stuck = match i {
                    6 => (theta[6] <= GAMMA.0 && slope[6] > 0.0) || (theta[6] >= GAMMA.1 && slope[6] < 0.0),
                    _ => theta[*i] <= LEAST && slope[*i] > 0.0,
                };
                known[*i].is_none() && !stuck
            })
            .collect();
        if free.is_empty() {
            break;
        }
        let mut moved = false;
        for _ in 0..8 {
            let Some(step) = solve(&normal, &slope, &free, damping) else {
                damping *= 10.0;
                continue;
            };
            let mut next = theta;
            for (i, by) in free.iter().zip(&step) {
                next[*i] = match i {
                    6 => (theta[6] - by).clamp(GAMMA.0, GAMMA.1),
                    // A factor of e³ at a time.
                    _ => (theta[*i] * libm::exp((-by).clamp(-3.0, 3.0))).max(LEAST),
                };
            }
            let found = value(&next);
            if found < best {
                idle = if best - found < 1e-7 { idle + 1 } else { 0 };
                (theta, best, moved) = (next, found, true);
                damping = (damping * 0.3).max(1e-9);
                break;
            }
            damping *= 4.0;
        }
        if !moved || idle >= 3 {
            break;
        }
    }
    (theta, best)
}

fn add(normal: &mut [[f64; 7]; 7], slope: &mut [f64; 7], row: &[f64; 7], residual: f64, weight: f64) {
    for i in 0..7 {
        if row[i] == 0.0 {
            continue;
        }
        slope[i] += 2.0 * weight * row[i] * residual;
        for j in 0..7 {
            normal[i][j] += 2.0 * weight * row[i] * row[j];
        }
    }
}

/// Solves the damped equations of the free parameters by Cholesky's decomposition.
fn solve(normal: &[[f64; 7]; 7], slope: &[f64; 7], free: &[usize], damping: f64) -> Option<Vec<f64>> {
    let n = free.len();
    let mut low = [[0.0; 7]; 7];
    for i in 0..n {
        for j in 0..=i {
            let mut sum = normal[free[i]][free[j]];
            if i == j {
                sum += damping * (sum + 1e-9);
            }
            for (a, b) in low[i].iter().zip(&low[j]).take(j) {
                sum -= a * b;
            }
            if i == j {
                if sum <= 0.0 {
                    return None;
                }
                low[i][i] = sum.sqrt();
            } else {
                low[i][j] = sum / low[j][j];
            }
        }
    }
    let mut x = vec![0.0; n];
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| low[i][k] * x[k]).sum();
        x[i] = (slope[free[i]] - sum) / low[i][i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| low[k][i] * x[k]).sum();
        x[i] = (x[i] - sum) / low[i][i];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use sandtable_policy::Elasticity;
    use sandtable_policy::testing::shared;
    use serde_json::Value;

    use super::*;
    use crate::goodput::{Goodput, Split};

    fn vectors() -> Option<Value> {
        let path = shared("pollux/reference_vectors.json")?;
        Some(serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON"))
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
    }

    #[test]
    fn fits_are_as_good_as_the_published_ones() {
        let Some(vectors) = vectors() else { return };
        let cases = vectors["fit"].as_array().expect("cases");
        assert_eq!(cases.len(), 24);
        let mut worst = f64::NEG_INFINITY;
        for case in cases {
            let rows = case["obs_nodes_replicas_bsz_accumtime_steptime"].as_array().expect("rows");
            let seen: Vec<Observation> = rows
                .iter()
                .map(|row| {
                    let [nodes, gpus, local, compute, step] = numbers(row)[..] else { panic!("{row}") };
                    Observation { nodes: nodes as u32, gpus: gpus as u32, local: local as u32, compute, step }
                })
                .collect();
            let found = loss(&fit(&seen, None), &seen);
            let published = case["objective"].as_f64().expect("a loss");
            worst = worst.max(found - published);
            assert!(found <= published + 1e-3, "{}: {found}, published {published}", case["app"]);
        }
        assert!(worst <= 1e-3, "{worst}");
    }

    #[test]
    fn goodput_is_the_published_one() {
        let Some(vectors) = vectors() else { return };
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
