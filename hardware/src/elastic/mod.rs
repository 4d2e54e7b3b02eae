//! Elastic training: how long a step takes on any placement with any batch, and how much a step is worth.
//!
//! The law is Pollux' (Qiao et al., OSDI 2021): goodput is throughput times statistical efficiency. Throughput comes
//! from seven fitted numbers or from measured tables, efficiency from the noise of gradients, epoch by epoch. What a
//! policy believes of this it must find out by itself.

mod learning;
mod rescale;
mod timings;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::GpuType;

pub use learning::{Learning, Run};
pub use rescale::Rescale;
pub use timings::{Steps, Theta, Timing, Timings};

/// How a gang works through a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Samples of a pass on one GPU.
    pub local: u32,
    /// Passes of a step beside the one that exchanges gradients.
    pub accumulation: u32,
}

impl Split {
    /// Samples of a step of so many GPUs.
    pub fn total(self, gpus: u32) -> u64 {
        (u64::from(self.local) * u64::from(gpus)).saturating_mul(u64::from(self.accumulation) + 1)
    }
}

/// A workload whose jobs may change their size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elastic {
    /// The smallest batch of a step: there efficiency is 1.
    pub initial_batch: u32,
    /// The largest.
    pub most_batch: u32,
    /// Fewest samples of a pass on one GPU.
    pub least_local: u32,
    /// Most: what device memory holds.
    pub most_local: u32,
    /// After so many epochs a job is done.
    pub epochs: u32,
    /// Most GPUs; by default as many as there are local batches in the largest batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Whether the batch may be changed.
    #[serde(default = "yes")]
    pub tunable: bool,
    /// Seconds that a restart from a checkpoint takes.
    pub restart_s: f64,
    /// Seconds until replicas that stay have formed a group anew.
    pub resize_s: f64,
    /// What users ask for: GPUs, and the batch of a step.
    pub requests: Vec<(u32, u32)>,
    /// How long a step takes on a GPU of speed 1.
    pub steps: Steps,
    /// How long it takes on GPUs of these kinds, whatever their speed. Fitted numbers only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, Steps>,
    /// What a step is worth.
    pub learning: Learning,
}

fn yes() -> bool {
    true
}

/// A measurement of a running job, as the job itself would report it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Nodes that it spans.
    pub nodes: u32,
    /// Its GPUs.
    pub gpus: u32,
    /// Samples of a pass on one GPU.
    pub local: u32,
    /// Seconds of a pass with exchange of gradients.
    pub step_s: f64,
    /// Seconds of that for the exchange.
    pub sync_s: f64,
    /// Squared norm of the gradient, at the scale of the initial batch.
    pub sqr: f64,
    /// Trace of the gradient's covariance, likewise.
    pub variance: f64,
}

impl Elastic {
    /// Most GPUs of a job.
    pub fn most_gpus(&self) -> u32 {
        let by_batch = self.most_batch / self.least_local.max(1);
        let known = match &self.steps {
            Steps::Scaling(rates) => rates.last().map_or(1, |(gpus, _)| *gpus),
            _ => u32::MAX,
        };
        self.gpus.unwrap_or(by_batch).min(by_batch).min(known).max(1)
    }

    /// How a gang works through a batch of this size (Pollux' simulator): the fewest passes that memory allows; one GPU
    /// with more than the initial batch takes two at least.
    pub fn split(&self, batch: u32, gpus: u32) -> Split {
        let gpus = gpus.max(1);
        let each = batch.div_ceil(gpus).max(1);
        let mut accumulation = each.div_ceil(self.most_local.max(1)) - 1;
        if gpus == 1 && batch > self.initial_batch {
            accumulation = accumulation.max(1);
        }
        let local = each.div_ceil(accumulation + 1);
        let most = self.most_batch / (gpus.saturating_mul(accumulation + 1)).max(1);
        Split { local: local.min(most), accumulation }
    }

    /// Whether each job says by its run time how many steps it has.
    pub fn counts_steps(&self) -> bool {
        self.learning == Learning::Asked
    }

    /// Why a job can't have this batch, if it can't: rates by GPUs alone are those of one.
    pub fn refuses_batch(&self, batch: u32) -> Option<String> {
        let one = matches!(self.steps, Steps::Scaling(_)) && batch != self.initial_batch;
        one.then(|| format!("its rates are those of a batch of {}", self.initial_batch))
    }

    /// Why a gang can't work so, if it can't.
    pub fn refuses(&self, gpus: u32, split: Split) -> Option<String> {
        if gpus == 0 || gpus > self.most_gpus() {
            return Some(format!("it may have 1 to {} GPUs, found {gpus}", self.most_gpus()));
        }
        let (least, most, local) = (self.least_local, self.most_local, split.local);
        if local < least || local > most {
            return Some(format!("a pass on a GPU takes {least} to {most} samples, found {local}"));
        }
        let total = split.total(gpus);
        (total > u64::from(self.most_batch))
            .then(|| format!("a step takes at most {} samples, found {total}", self.most_batch))
    }

    /// How long steps take on GPUs of a type, and by what they are faster than that.
    pub fn on_type(&self, gpu_type: &GpuType) -> (&Steps, f64) {
        self.on.get(&gpu_type.name).map_or((&self.steps, gpu_type.speed), |steps| (steps, 1.0))
    }

    /// Progress in a second by these steps, in steps at the initial batch, and in which epoch.
    pub fn rate(&self, steps: &Steps, placement: &[u32], split: Split, epoch: u32) -> f64 {
        let gpus = placement.iter().sum();
        let batch = split.total(gpus) as f64;
        self.learning.gain(batch, f64::from(self.initial_batch), self.part(epoch), epoch)
            / steps.of_step(placement, split)
    }

    /// Progress from the beginning of an epoch, counted from 0, to its end.
    pub fn epoch(&self, epoch: u32) -> f64 {
        self.learning.progress(epoch + 1) - self.learning.progress(epoch)
    }

    /// The part of the training that is done when an epoch begins.
    fn part(&self, epoch: u32) -> f64 {
        f64::from(epoch) / f64::from(self.epochs)
    }

    /// What a job would report in this epoch; `scale` is its slowness beside its own time alone.
    pub fn sample(&self, steps: &Steps, placement: &[u32], split: Split, epoch: u32, scale: f64) -> Sample {
        let gpus: u32 = placement.iter().sum();
        let timing = steps.of_pass(placement, split.local);
        let batch = split.total(gpus) as f64;
        let (sqr, variance) = self.learning.gradient(batch, f64::from(self.initial_batch), self.part(epoch), epoch);
        let (step_s, sync_s) = (timing.step * scale, timing.sync * scale);
        Sample { nodes: placement.len() as u32, gpus, local: split.local, step_s, sync_s, sqr, variance }
    }

    /// Steps that a job with this batch has left when an epoch begins.
    pub fn steps_left(&self, batch: f64, epoch: u32) -> f64 {
        self.learning.steps_left(batch, f64::from(self.initial_batch), epoch, self.epochs)
    }

    /// Steps of a job that takes so many seconds with the GPUs and the batch that its user asks for; none: the workload says how many.
    pub fn steps_asked(&self, gpus: u32, batch: u32, seconds: f64) -> Option<f64> {
        self.counts_steps().then(|| {
            let rate = self.rate(&self.steps, &[gpus], self.split(batch, gpus), 0);
            let (steps, whole) = (seconds * rate, libm::rint(seconds * rate));
            // Run times are whole microseconds: within one, steps that were counted are whole again.
            if (steps - whole).abs() <= 1e-6 * rate { whole } else { steps }
        })
    }

    /// Seconds from the beginning of an epoch to the end of the training.
    pub fn seconds_from(&self, steps: &Steps, epoch: u32, placement: &[u32], split: Split) -> f64 {
        (epoch..self.epochs).map(|e| self.epoch(e) / self.rate(steps, placement, split, e)).sum()
    }

    /// As few nodes of this size as hold so many GPUs.
    pub fn packed(gpus: u32, node: u32) -> Vec<u32> {
        let node = node.max(1);
        let rest = gpus % node;
        (0..gpus / node).map(|_| node).chain((rest > 0).then_some(rest)).collect()
    }

    /// Checks that numbers make sense.
    ///
    /// # Errors
    /// The first that does not, with what was expected.
    pub fn check(&self) -> Result<(), String> {
        let expect = |good: bool, what: String| if good { Ok(()) } else { Err(what) };
        let (initial, most) = (self.initial_batch, self.most_batch);
        expect(
            initial > 0 && initial <= most,
            format!("expected batches 0 < initial <= most, found {initial}, {most}"),
        )?;
        let (least, local) = (self.least_local, self.most_local);
        expect(
            least > 0 && least <= local,
            format!("expected local batches 0 < least <= most, found {least}, {local}"),
        )?;
        expect(local <= most, format!("expected a local batch of at most {most}, found {local}"))?;
        expect(self.epochs > 0, "expected at least one epoch, found 0".into())?;
        expect(self.gpus != Some(0), "expected at least one GPU, found 0".into())?;
        for (what, found) in [("restart_s", self.restart_s), ("resize_s", self.resize_s)] {
            expect((0.0..=1e6).contains(&found), format!("expected {what} from 0 to 1000000, found {found}"))?;
        }
        let (restart, resize) = (self.restart_s, self.resize_s);
        expect(resize <= restart, format!("expected a resize to take at most a restart, {restart} s, found {resize}"))?;
        self.steps.check()?;
        for (kind, steps) in &self.on {
            let wrong = |why| format!("`on` {kind:?}: {why}");
            steps.check().map_err(wrong)?;
            expect(
                matches!((steps, &self.steps), (Steps::Fitted(_), Steps::Fitted(_))),
                wrong("expected `Fitted(…)`, as `steps`".into()),
            )?;
        }
        if let Some(why) = self.refuses(1, self.split(initial, 1)) {
            return Err(format!("the initial batch {initial} on one GPU: {why}"));
        }
        if self.counts_steps() && !matches!(self.steps, Steps::Scaling(_)) {
            return Err("`learning: Asked` counts steps at rates by GPUs: expected `steps: Scaling(…)`".into());
        }
        if matches!(self.steps, Steps::Scaling(_)) && (self.tunable || initial != most || local != most) {
            let expected = "one number as `initial_batch`, `most_batch` and `most_local`, and `tunable: false`";
            let found = format!("{initial}, {most}, {local} and {}", self.tunable);
            return Err(format!("rates by GPUs alone are those of one batch: expected {expected}, found {found}"));
        }
        for (gpus, batch) in &self.requests {
            expect(*batch >= 1, format!("expected requests of at least one sample, found {batch}"))?;
            let split = self.split(*batch, *gpus);
            if let Some(why) = self.refuses_batch(*batch).or_else(|| self.refuses(*gpus, split)) {
                return Err(format!("request of {gpus} GPUs and batch {batch}: {why}"));
            }
        }
        self.learning.check(self.epochs, initial)
    }

    /// Checks that nothing is missing for placements on nodes of these many GPUs.
    ///
    /// # Errors
    /// The hole of the table.
    pub fn covers(&self, nodes: u32, gpus_per_node: u32) -> Result<(), String> {
        let Steps::Measured(timings) = &self.steps else { return Ok(()) };
        let most = |gpus: u32| self.most_local.min(self.most_batch.div_ceil(gpus));
        timings.cover(nodes, gpus_per_node, self.most_gpus(), self.least_local, most)
    }
}

/// Lengths of runs of equal numbers: the nodes of a gang in the order of its ring.
pub fn placement(nodes: impl Iterator<Item = crate::NodeId>) -> Vec<u32> {
    let mut runs: Vec<u32> = Vec::new();
    let mut last = None;
    for node in nodes {
        match runs.last_mut() {
            Some(run) if last == Some(node) => *run += 1,
            _ => runs.push(1),
        }
        last = Some(node);
    }
    runs
}

#[cfg(test)]
mod tests;
