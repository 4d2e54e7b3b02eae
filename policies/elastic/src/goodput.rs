//! Goodput: throughput times statistical efficiency (Pollux, OSDI 2021, §3).
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), goodput.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use sandtable_policy::{BatchSplit, Elasticity};

/// How a gang works through a batch: samples of a pass on one GPU, and passes beside the one that exchanges gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Samples of a pass on one GPU.
    pub local: u32,
    /// Passes of a step beside the one that exchanges gradients.
    pub accumulation: u32,
}

impl From<Split> for BatchSplit {
    fn from(split: Split) -> BatchSplit {
        BatchSplit { local: split.local, accumulation: split.accumulation }
    }
}

/// The seven numbers of the throughput model: (α, β) of computing, of exchanging gradients between nodes and within
/// one, and γ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theta(pub [f64; 7]);

/// Seconds of a pass of `local` samples on each of `gpus` GPUs of `nodes` nodes: computing, and the whole of it.
pub fn pass(theta: &Theta, nodes: u32, gpus: u32, local: f64) -> (f64, f64) {
    let [ac, bc, an, bn, ar, br, gamma] = theta.0;
    let compute = ac + bc * local;
    let beyond = (f64::from(gpus) - 2.0).max(1e-8);
    let exchange = match (nodes, gpus) {
        (_, ..=1) => 1e-8 + 1e-8 * beyond,
        (1, _) => ar + br * beyond,
        _ => an + bn * beyond,
    };
    (compute, together(compute, exchange, gamma))
}

/// `(a^γ + b^γ)^(1/γ)`.
fn together(a: f64, b: f64, gamma: f64) -> f64 {
    let (high, low) = if a >= b { (a, b) } else { (b, a) };
    if low * 1e12 < high && gamma > 1.5 {
        return high;
    }
    high * libm::exp(libm::log1p(libm::exp(gamma * libm::log(low / high))) / gamma)
}

/// What a job has shown of itself.
#[derive(Clone, Copy, Debug)]
pub struct Goodput {
    /// How fast it is.
    pub theta: Theta,
    /// Squared norm of its gradient.
    pub sqr: f64,
    /// Trace of its gradient's covariance.
    pub variance: f64,
}

/// The best that a job can do with some GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Samples a second, each worth a sample at the initial batch.
    pub goodput: f64,
    /// How it works through its batch then.
    pub split: Split,
}

/// Batches that are tried.
const CANDIDATES: u32 = 50;

impl Goodput {
    /// Samples a second with this split, each worth one at the initial batch.
    pub fn at(&self, job: &Elasticity, nodes: u32, gpus: u32, split: Split) -> f64 {
        let (compute, whole) = pass(&self.theta, nodes, gpus, f64::from(split.local));
        let batch = f64::from(gpus) * f64::from(split.local) * f64::from(split.accumulation + 1);
        let scale = batch / f64::from(job.initial_batch);
        let below = self.variance / scale + self.sqr;
        let gain = if below > 0.0 { (self.variance + self.sqr) / below } else { 1.0 };
        batch / (f64::from(split.accumulation) * compute + whole) * gain / scale
    }

    /// The best of 50 batches, evenly spread by their logarithm, on so many GPUs of so many nodes (as the
    /// artifact's `GoodputFunction.optimize`).
    pub fn best(&self, job: &Elasticity, nodes: u32, gpus: u32) -> Best {
        let (initial, most) = (f64::from(job.initial_batch), f64::from(job.most_batch));
        let first = initial.max(f64::from(job.least_local) * f64::from(gpus));
        let step = libm::log(most / first) / f64::from(CANDIDATES - 1);
        let mut best = Best { goodput: 0.0, split: Split { local: 0, accumulation: 0 } };
        let mut last = None;
        for candidate in 0..CANDIDATES {
            let total = match candidate {
                0 => first,
                _ if candidate == CANDIDATES - 1 => most,
                _ => first * libm::exp(step * f64::from(candidate)),
            };
            let split = split_of(job, total, gpus);
            if last == Some(split) || split.local < job.least_local || split.local > job.most_local {
                continue;
            }
            last = Some(split);
            let goodput = self.at(job, nodes, gpus, split);
            if goodput > best.goodput {
                best = Best { goodput, split };
            }
        }
        best
    }
}

/// How a gang works through a batch that need not be whole.
pub fn split_of(job: &Elasticity, total: f64, gpus: u32) -> Split {
    let each = total / f64::from(gpus);
    let mut accumulation = ((each / f64::from(job.most_local) - 1e-8).ceil() - 1.0).max(0.0);
    if gpus == 1 && each > f64::from(job.initial_batch) + 1e-8 {
        accumulation = accumulation.max(1.0);
    }
    let local = (each / (accumulation + 1.0) - 1e-8).ceil();
    Split { local: local as u32, accumulation: accumulation as u32 }
}

/// The same split where it stays within the largest batch.
pub fn clipped(job: &Elasticity, split: Split, gpus: u32) -> Split {
    let most = job.most_batch / (gpus * (split.accumulation + 1)).max(1);
    Split { local: split.local.min(most), ..split }
}
