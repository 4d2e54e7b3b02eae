//! What a step is worth: statistical efficiency by the noise of gradients (Pollux, OSDI 2021, §3.1).
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), goodput.py and applications.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use serde::{Deserialize, Serialize};

/// What a step is worth, epoch by epoch. Progress is counted in steps at the initial batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Learning {
    /// Every step is worth the same. A job has as many as its run time is, with the GPUs and the batch that its user asks for.
    Asked,
    /// By a noise scale that grows.
    Fitted {
        /// Progress of an epoch.
        steps: f64,
        /// Gradient noise scale, in samples, by the part of the training that is done; interpolated, in its logarithm.
        noise: Vec<(f64, f64)>,
    },
    /// By recorded runs, ascending by their batch.
    Measured(Vec<Run>),
}

/// One recorded training, a row an epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its batch.
    pub batch: u32,
    /// Progress at the end of each epoch.
    pub progress: Vec<f64>,
    /// Steps at the end of each epoch.
    pub steps: Vec<f64>,
    /// Squared norm of the gradient, at the scale of the initial batch.
    pub sqr: Vec<f64>,
    /// Trace of the gradient's covariance, likewise.
    pub variance: Vec<f64>,
}

impl Learning {
    /// Progress when so many epochs are done.
    pub fn progress(&self, epochs: u32) -> f64 {
        match (self, epochs) {
            (_, 0) => 0.0,
            // Each job says how many it has.
            (Learning::Asked, _) => f64::NAN,
            (Learning::Fitted { steps, .. }, _) => steps * f64::from(epochs),
            (Learning::Measured(runs), _) => {
                let at = |run: &Run| run.progress[(epochs as usize - 1).min(run.progress.len() - 1)];
                runs.iter().map(at).fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// Squared norm and variance of gradients.
    pub fn gradient(&self, batch: f64, initial: f64, part: f64, epoch: u32) -> (f64, f64) {
        match self {
            Learning::Asked => (1.0, 0.0),
            Learning::Fitted { noise, .. } => {
                let above = noise.partition_point(|(at, _)| *at < part);
                let scale = match (above.checked_sub(1).and_then(|below| noise.get(below)), noise.get(above)) {
                    (Some((x, low)), Some((y, high))) => {
                        let (low, high) = (libm::log(*low), libm::log(*high));
                        libm::exp(low + (high - low) * (part - x) / (y - x))
                    }
                    (Some((_, only)), None) | (None, Some((_, only))) => *only,
                    (None, None) => 0.0,
                };
                (1.0, scale / initial)
            }
            Learning::Measured(runs) => {
                (between(runs, batch, epoch, |run| &run.sqr), between(runs, batch, epoch, |run| &run.variance))
            }
        }
    }

    /// Progress of a step.
    pub fn gain(&self, batch: f64, initial: f64, part: f64, epoch: u32) -> f64 {
        let (sqr, variance) = self.gradient(batch, initial, part, epoch);
        let below = variance / (batch / initial) + sqr;
        if below > 0.0 { (variance + sqr) / below } else { 1.0 }
    }

    /// Steps left with this batch when an epoch begins.
    pub fn steps_left(&self, batch: f64, initial: f64, epoch: u32, epochs: u32) -> f64 {
        match self {
            Learning::Asked => f64::NAN,
            Learning::Fitted { steps, .. } => {
                let of = |e: u32| steps / self.gain(batch, initial, f64::from(e) / f64::from(epochs), e);
                (epoch..epochs).map(of).sum()
            }
            Learning::Measured(_) if epochs - 1 <= epoch => 1.0,
            Learning::Measured(runs) => {
                let at = |row: u32| between(runs, batch, row, |run| &run.steps);
                at(epochs - 1) - at(epoch)
            }
        }
    }

    pub(super) fn check(&self, epochs: u32, initial: u32) -> Result<(), String> {
        match self {
            Learning::Asked if epochs != 1 => {
                return Err(format!("a job that counts its own steps has one epoch, found {epochs}"));
            }
            Learning::Asked => {}
            Learning::Fitted { steps, noise } => {
                if !(*steps > 0.0 && steps.is_finite()) {
                    return Err(format!("expected an epoch of more than 0 steps, found {steps}"));
                }
                let ascending = noise.windows(2).all(|pair| pair[0].0 < pair[1].0);
                if noise.is_empty() || !ascending || noise.iter().any(|(_, scale)| !(*scale > 0.0 && scale.is_finite()))
                {
                    return Err("expected noise scales above 0 by ascending parts of the training".into());
                }
            }
            Learning::Measured(runs) => {
                if runs.is_empty()
                    || runs[0].batch != initial
                    || runs.windows(2).any(|two| two[0].batch >= two[1].batch)
                {
                    return Err(format!("expected recorded runs by ascending batch, the first with {initial}"));
                }
                for run in runs {
                    let columns = [&run.progress, &run.steps, &run.sqr, &run.variance];
                    if let Some(short) = columns.iter().find(|column| column.len() < epochs as usize) {
                        let (batch, found) = (run.batch, short.len());
                        return Err(format!("the run of batch {batch} has {found} epochs, expected {epochs}"));
                    }
                    let grows = |column: &[f64]| column[0] > 0.0 && column.windows(2).all(|two| two[0] < two[1]);
                    if !grows(&run.progress) || !grows(&run.steps) {
                        return Err(format!("the run of batch {}: progress and steps must grow", run.batch));
                    }
                    let bad = |x: &&f64| !x.is_finite() || **x < 0.0;
                    if let Some(found) = run.sqr.iter().chain(&run.variance).find(bad) {
                        return Err(format!(
                            "the run of batch {}: expected gradients of 0 or more, found {found}",
                            run.batch
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Linear between the recorded batches, in the row of an epoch.
fn between(runs: &[Run], batch: f64, row: u32, column: impl Fn(&Run) -> &Vec<f64>) -> f64 {
    let at = |run: &Run| column(run)[(row as usize).min(column(run).len() - 1)];
    let above = runs.partition_point(|run| f64::from(run.batch) < batch);
    match (above.checked_sub(1).and_then(|below| runs.get(below)), runs.get(above)) {
        (Some(low), Some(high)) => {
            let (x, y) = (f64::from(low.batch), f64::from(high.batch));
            at(low) + (at(high) - at(low)) / (y - x) * (batch - x)
        }
        (Some(only), None) | (None, Some(only)) => at(only),
        (None, None) => f64::NAN,
    }
}
