//! How long a step takes.
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), goodput.py and applications.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use serde::{Deserialize, Serialize};

use super::Split;

/// How long a pass takes on a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Steps {
    /// Steps a second by the number of GPUs, ascending from 1 on, wherever they are, at the one batch that the workload has; linear in between.
    Scaling(Vec<(u32, f64)>),
    /// By the fitted model.
    Fitted(Theta),
    /// By tables.
    Measured(Timings),
}

/// The numbers of Pollux' throughput model (OSDI 2021, §3.2): time of a pass `compute.0 + compute.1 b`; of the exchange
/// of gradients `across.0 + across.1 (K-2)` between nodes, `within` likewise on one; how much of them overlaps, 1 (none)
/// to 10.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Theta {
    /// Seconds, and seconds a sample.
    pub compute: (f64, f64),
    /// Seconds, and seconds for each GPU beyond two.
    pub across: (f64, f64),
    /// Seconds, and seconds for each GPU beyond two.
    pub within: (f64, f64),
    /// The exponent of their sum.
    pub gamma: f64,
}

/// What was measured with a local batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Samples of a pass on one GPU.
    pub local: f64,
    /// Seconds of a pass with exchange of gradients.
    pub step: f64,
    /// Seconds of that for the exchange, as far as nothing hides it.
    pub sync: f64,
}

/// Measured placements; local batches in between are interpolated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// GPUs on each node, the least of their rotations; ascending.
    pub placements: Vec<(Vec<u32>, Vec<Timing>)>,
    /// For more nodes: their number and that of the GPUs; ascending.
    pub wide: Vec<((u32, u32), Vec<Timing>)>,
}

impl Theta {
    fn of_pass(&self, nodes: usize, gpus: u32, local: u32) -> Timing {
        let compute = self.compute.0 + self.compute.1 * f64::from(local);
        let beyond = (f64::from(gpus) - 2.0).max(1e-8);
        let exchange = match (nodes, gpus) {
            (_, ..=1) => 1e-8 + 1e-8 * beyond,
            (1, _) => self.within.0 + self.within.1 * beyond,
            _ => self.across.0 + self.across.1 * beyond,
        };
        let log = |x: f64| libm::log(x.max(1e-12));
        let sum = libm::exp(self.gamma * log(compute)) + libm::exp(self.gamma * log(exchange));
        let step = libm::exp(libm::log(sum) / self.gamma);
        Timing { local: f64::from(local), step, sync: step - compute }
    }
}

impl Steps {
    /// Seconds of a pass of these many samples on each GPU.
    pub fn of_pass(&self, placement: &[u32], local: u32) -> Timing {
        match self {
            Steps::Scaling(rates) => {
                let Some(rate) = rate(rates, placement.iter().sum()) else {
                    unreachable!("{placement:?} is in no table")
                };
                Timing { local: f64::from(local), step: 1.0 / rate, sync: 0.0 }
            }
            Steps::Fitted(theta) => theta.of_pass(placement.len(), placement.iter().sum(), local),
            Steps::Measured(timings) => {
                let Some(known) = timings.find(placement) else { unreachable!("{placement:?} is in no table") };
                at(known, f64::from(local))
            }
        }
    }

    /// Whether it is known how long steps take there.
    pub fn knows(&self, placement: &[u32]) -> bool {
        match self {
            Steps::Scaling(rates) => rate(rates, placement.iter().sum()).is_some(),
            Steps::Fitted(_) => true,
            Steps::Measured(timings) => timings.find(placement).is_some(),
        }
    }

    /// Seconds of a step: passes that accumulate, and one that exchanges gradients.
    pub fn of_step(&self, placement: &[u32], split: Split) -> f64 {
        let pass = self.of_pass(placement, split.local);
        pass.step + f64::from(split.accumulation) * (pass.step - pass.sync)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let list = |timings: &[Timing], of: String| {
            let good = |timing: &Timing| {
                timing.local > 0.0
                    && timing.step > 0.0
                    && timing.step.is_finite()
                    && (0.0..=timing.step).contains(&timing.sync)
            };
            if timings.is_empty() {
                return Err(format!("{of}: no local batch was measured"));
            }
            if let Some(bad) = timings.iter().find(|timing| !good(timing)) {
                let (local, step, sync) = (bad.local, bad.step, bad.sync);
                return Err(format!(
                    "{of}: expected 0 <= sync <= step, found {sync} and {step} at local batch {local}"
                ));
            }
            match timings.windows(2).all(|pair| pair[0].local < pair[1].local) {
                true => Ok(()),
                false => Err(format!("{of}: local batches must ascend")),
            }
        };
        match self {
            Steps::Scaling(rates) => {
                let good = |(gpus, rate): &(u32, f64)| *gpus > 0 && *rate > 0.0 && rate.is_finite();
                let ascending = rates.windows(2).all(|two| two[0].0 < two[1].0);
                if rates.first().is_none_or(|(gpus, _)| *gpus != 1) || !ascending || !rates.iter().all(good) {
                    return Err(format!(
                        "expected rates above 0 by ascending numbers of GPUs, from 1 on, found {rates:?}"
                    ));
                }
            }
            Steps::Fitted(theta) => {
                let numbers = [theta.compute, theta.across, theta.within];
                let good = numbers.iter().all(|(a, b)| *a > 0.0 && *b >= 0.0 && a.is_finite() && b.is_finite());
                if !good || !(1.0..=10.0).contains(&theta.gamma) {
                    return Err(format!("expected times above 0 and gamma from 1 to 10, found {theta:?}"));
                }
            }
            Steps::Measured(timings) => {
                let sorted = timings.placements.windows(2).all(|two| two[0].0 < two[1].0)
                    && timings.wide.windows(2).all(|two| two[0].0 < two[1].0);
                if !sorted {
                    return Err("placements, and shapes of more nodes, must ascend".into());
                }
                if let Some((turned, _)) = timings.placements.iter().find(|(p, _)| *p != least_rotation(p)) {
                    let least = least_rotation(turned);
                    return Err(format!("placement {turned:?} is a ring: expected its least rotation, {least:?}"));
                }
                for (placement, known) in &timings.placements {
                    list(known, format!("placement {placement:?}"))?;
                }
                for ((nodes, gpus), known) in &timings.wide {
                    list(known, format!("{gpus} GPUs on {nodes} nodes"))?;
                }
            }
        }
        Ok(())
    }
}

impl Timings {
    /// Sorts what was read in any order.
    pub fn sort(&mut self) {
        self.placements.sort_by(|a, b| a.0.cmp(&b.0));
        self.wide.sort_by_key(|(shape, _)| *shape);
        let all =
            self.placements.iter_mut().map(|(_, known)| known).chain(self.wide.iter_mut().map(|(_, known)| known));
        for known in all {
            known.sort_by(|a, b| a.local.total_cmp(&b.local));
            known.dedup_by(|a, b| a.local == b.local);
        }
    }

    pub(super) fn find(&self, placement: &[u32]) -> Option<&[Timing]> {
        let least = least_rotation(placement);
        if let Ok(found) = self.placements.binary_search_by(|(known, _)| known.as_slice().cmp(&least)) {
            return Some(&self.placements[found].1);
        }
        let most = self.wide.last().map_or(0, |((nodes, _), _)| *nodes);
        let shape = ((placement.len() as u32).min(most), placement.iter().sum());
        let found = self.wide.binary_search_by_key(&shape, |(shape, _)| *shape).ok()?;
        Some(&self.wide[found].1)
    }

    /// Looks for what is missing.
    pub(super) fn cover(
        &self,
        nodes: u32,
        gpus_per_node: u32,
        most_gpus: u32,
        least_local: u32,
        most_local: impl Fn(u32) -> u32,
    ) -> Result<(), String> {
        let range = |known: &[Timing], gpus: u32, of: String| {
            let (first, last) = (known.first().map_or(0.0, |t| t.local), known.last().map_or(0.0, |t| t.local));
            let (least, most) = (least_local, most_local(gpus));
            if most < least || (first <= f64::from(least) && last >= f64::from(most)) {
                return Ok(());
            }
            Err(format!("{of}: local batches {first} to {last} were measured, jobs may have {least} to {most}"))
        };
        let largest = self.placements.iter().map(|(placement, _)| placement.len() as u32).max().unwrap_or(0);
        for (placement, known) in &self.placements {
            let gpus = placement.iter().sum();
            if gpus <= most_gpus && placement.len() as u32 <= nodes && placement.iter().all(|n| *n <= gpus_per_node) {
                range(known, gpus, format!("placement {placement:?}"))?;
            }
        }
        let mut wanted = vec![vec![]];
        for _ in 0..largest.min(nodes).min(most_gpus) {
            if wanted.len() * gpus_per_node as usize > 1_000_000 {
                return Err(format!(
                    "placements on {largest} nodes of {gpus_per_node} GPUs are too many to look through"
                ));
            }
            let longer = |shape: &Vec<u32>| (1..=gpus_per_node).map(|n| [shape.as_slice(), &[n]].concat()).collect();
            wanted = wanted.iter().flat_map(|shape: &Vec<u32>| -> Vec<Vec<u32>> { longer(shape) }).collect();
            wanted.retain(|shape| shape.iter().sum::<u32>() <= most_gpus);
            if let Some(hole) = wanted.iter().find(|shape| self.find(shape).is_none()) {
                return Err(format!("placement {hole:?} was not measured"));
            }
        }
        // Beyond the widest that was measured, as there.
        let widest = self.wide.last().map_or(u32::MAX, |((nodes, _), _)| *nodes);
        for n in largest + 1..=nodes.min(most_gpus) {
            let n = n.min(widest);
            for gpus in n..=(nodes * gpus_per_node).min(n * gpus_per_node).min(most_gpus) {
                let of = || format!("{gpus} GPUs on {n} nodes");
                let found = self.wide.iter().find(|(shape, _)| *shape == (n, gpus));
                let Some((_, known)) = found else { return Err(format!("{}: not measured", of())) };
                range(known, gpus, of())?;
            }
        }
        Ok(())
    }
}

/// The lexicographically least rotation: a ring has no beginning.
fn least_rotation(placement: &[u32]) -> Vec<u32> {
    let turned = (0..placement.len().max(1)).map(|by| {
        let (end, start) = placement.split_at(by.min(placement.len()));
        [start, end].concat()
    });
    turned.min().unwrap_or_default()
}

/// Steps a second on so many GPUs; none: fewer or more than in the table.
pub(super) fn rate(rates: &[(u32, f64)], gpus: u32) -> Option<f64> {
    let at = rates.partition_point(|(known, _)| *known < gpus);
    let (high, rate) = *rates.get(at)?;
    if high == gpus {
        return Some(rate);
    }
    let (low, below) = *rates.get(at.checked_sub(1)?)?;
    Some(below + (rate - below) * f64::from(gpus - low) / f64::from(high - low))
}

/// Linear between measured local batches; at the ends as at the nearest.
fn at(known: &[Timing], local: f64) -> Timing {
    let above = known.partition_point(|timing| timing.local < local);
    let (Some(high), Some(low)) = (known.get(above), known.get(above.wrapping_sub(1))) else {
        let nearest = known[above.min(known.len() - 1)];
        return Timing { local, ..nearest };
    };
    let line = |a: f64, b: f64| a + (b - a) / (high.local - low.local) * (local - low.local);
    Timing { local, step: line(low.step, high.step), sync: line(low.sync, high.sync) }
}
