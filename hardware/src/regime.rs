//! Jobs whose batch changes while they train, by a rule of their own: Accordion's critical epochs, or a batch that doubles as the noise
//! of gradients grows. Their work is steps; a step of another batch takes another time.
//!
//! Source of the arithmetic: the simulator of Shockwave (Zheng et al., NSDI 2023), as `docs/src/papers.md` says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::EpochsOfBatch;

/// How jobs of a workload go over to other batches, and how fast they are with each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regime {
    /// Samples of an epoch.
    pub samples: u32,
    /// The largest batch of a step.
    pub most_batch: u32,
    /// When a job goes over to another batch.
    pub growth: Growth,
    /// Steps a second of the whole gang, by its GPUs and the batch of a step, on GPUs of speed 1.
    pub rates: BTreeMap<u32, BTreeMap<u32, f64>>,
}

/// Epochs, from the first number up to but without the second.
pub type Epochs = (u32, u32);

/// When a job goes over to another batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Growth {
    /// It keeps the batch that its user asks for.
    Fixed,
    /// Accordion (Agarwal et al., MLSys 2021): the batch that its user asks for in critical epochs, the largest in all others.
    Accordion {
        /// Critical epochs, by the batch that the user asks for.
        critical: BTreeMap<u32, Vec<Epochs>>,
        /// Critical epochs come again every so many epochs; none: they do not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<u32>,
        /// Epochs that are critical in the plan of a job alone, though they are not when it runs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        planned: Vec<Epochs>,
    },
    /// It doubles in these epochs, by GPUs and by the batch that the user asks for (gradient noise scale, McCandlish et al. 2018).
    Doubling(BTreeMap<u32, BTreeMap<u32, Vec<u32>>>),
}

/// The part of its epochs for which the plan of a job under [`Growth::Accordion`] keeps the first batch.
const PLANNED_FIRST: f64 = 0.3;

/// What a job asks for: its GPUs and the batch of its first steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Size of its gang.
    pub gpus: u32,
    /// Samples of a step.
    pub batch: u32,
}

/// Steps, all and done, at the present batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The present batch.
    pub batch: u32,
    /// All steps of the job, were all of this batch.
    pub all: u64,
    /// Those that are done.
    pub done: u64,
}

impl Regime {
    /// Steps a second of a gang with a batch, if that was measured.
    pub fn rate(&self, gpus: u32, batch: u32) -> Option<f64> {
        self.rates.get(&gpus)?.get(&batch).copied()
    }

    /// Steps of an epoch.
    fn per_epoch(&self, batch: u32) -> u64 {
        u64::from(self.samples.div_ceil(batch.max(1))).max(1)
    }

    /// The batch that a job is to have from now on, if that is another one.
    pub fn wants(&self, first: First, steps: Steps) -> Option<u32> {
        if first.batch >= self.most_batch {
            return None;
        }
        let epoch = u32::try_from(steps.done.div_ceil(self.per_epoch(steps.batch))).unwrap_or(u32::MAX);
        match &self.growth {
            Growth::Fixed => None,
            Growth::Accordion { .. } => {
                let batch = if self.is_critical(first.batch, epoch) { first.batch } else { self.most_batch };
                (batch != steps.batch).then_some(batch)
            }
            // A job looks one epoch ahead.
            Growth::Doubling(_) => {
                let ahead = self.doubled(first, epoch.saturating_add(1));
                (ahead > steps.batch).then(|| steps.batch.saturating_mul(2).min(self.most_batch))
            }
        }
        .filter(|batch| self.rate(first.gpus, *batch).is_some())
    }

    fn is_critical(&self, first: u32, epoch: u32) -> bool {
        let Growth::Accordion { critical, every, .. } = &self.growth else { return false };
        let epoch = every.map_or(epoch, |every| epoch % every.max(1));
        critical.get(&first).is_some_and(|all| within(all, epoch))
    }

    /// The batch of an epoch under [`Growth::Doubling`].
    fn doubled(&self, first: First, epoch: u32) -> u32 {
        let Growth::Doubling(epochs) = &self.growth else { return first.batch };
        let of_job = epochs.get(&first.gpus).and_then(|of| of.get(&first.batch));
        let times = of_job.map_or(0, |all| all.iter().filter(|at| **at <= epoch).count());
        (0..times).fold(first.batch, |batch, _| batch.saturating_mul(2)).min(self.most_batch)
    }

    /// A job goes over to another batch: what it has done is rounded up to whole epochs.
    pub fn rescaled(&self, steps: Steps, batch: u32) -> Steps {
        let (before, after) = (self.per_epoch(steps.batch), self.per_epoch(batch));
        let epochs = steps.all.div_ceil(before);
        let scaled = (steps.all as f64 * (1.0 / (f64::from(batch) / f64::from(steps.batch)))).ceil() as u64;
        let all = if scaled.div_ceil(after) == epochs { scaled } else { after * epochs };
        Steps { batch, all, done: steps.done.div_ceil(before) * after }
    }

    /// Seconds that a job of so many steps takes alone, as it is planned: epoch by epoch with the batch of each. A batch whose rate is not known
    /// is not gone over to.
    pub fn alone_s(&self, first: First, steps: u64) -> f64 {
        self.planned_epochs(first, steps).fold(0.0, |sum, (_, seconds)| sum + seconds)
    }

    /// The batch and the seconds of each epoch of a job of so many steps alone, as it is planned.
    fn planned_epochs(&self, first: First, steps: u64) -> impl Iterator<Item = (u32, f64)> {
        let epochs = u32::try_from(steps.div_ceil(self.per_epoch(first.batch))).unwrap_or(u32::MAX);
        let own = self.rate(first.gpus, first.batch).unwrap_or(f64::NAN);
        (0..epochs).map(move |epoch| {
            let batch = self.planned(first, epochs, epoch);
            let (batch, rate) = self.rate(first.gpus, batch).map_or((first.batch, own), |rate| (batch, rate));
            (batch, f64::from(self.samples) / f64::from(batch) / rate)
        })
    }

    /// The plan of a job of so many steps alone, on GPUs of this speed: epochs of one batch in a row.
    pub fn plan(&self, first: First, steps: u64, speed: f64) -> Vec<EpochsOfBatch> {
        let mut plan: Vec<EpochsOfBatch> = Vec::new();
        for (batch, seconds) in self.planned_epochs(first, steps) {
            match plan.last_mut().filter(|last| last.batch == batch) {
                Some(last) => last.count += 1,
                None => plan.push(EpochsOfBatch { count: 1, batch, epoch_s: seconds / speed }),
            }
        }
        plan
    }

    /// Epochs that are done, the part of the present one included.
    pub fn done(&self, steps: Steps) -> f64 {
        steps.done as f64 / self.per_epoch(steps.batch) as f64
    }

    /// The batch of an epoch, of so many, in the plan of a job.
    fn planned(&self, first: First, epochs: u32, epoch: u32) -> u32 {
        if first.batch >= self.most_batch {
            return first.batch;
        }
        match &self.growth {
            Growth::Fixed => first.batch,
            Growth::Accordion { planned, .. } => {
                let early = f64::from(epoch) <= PLANNED_FIRST * f64::from(epochs);
                let keeps = early || self.is_critical(first.batch, epoch) || within(planned, epoch);
                if keeps { first.batch } else { self.most_batch }
            }
            Growth::Doubling(_) => {
                let batch = self.doubled(first, epoch);
                let falls_back = epoch + 1 == epochs && batch >= first.batch.saturating_mul(4);
                if falls_back { first.batch } else { batch }
            }
        }
    }

    /// Checks that numbers make sense.
    ///
    /// # Errors
    /// The first that does not, with what was expected.
    pub fn check(&self) -> Result<(), String> {
        let samples = self.samples;
        if samples == 0 || !(1..=samples).contains(&self.most_batch) {
            let found = self.most_batch;
            return Err(format!("expected a largest batch of 1 to the {samples} samples of an epoch, found {found}"));
        }
        if self.rates.values().all(BTreeMap::is_empty) {
            return Err("a regime needs at least one rate".into());
        }
        for (gpus, rates) in &self.rates {
            for (batch, rate) in rates {
                let good = *gpus > 0 && (1..=samples).contains(batch) && rate.is_finite() && *rate > 0.0;
                if !good {
                    return Err(format!(
                        "expected GPUs and steps a second above 0 and batches of 1 to {samples}, found {rate} for {gpus} GPUs and batch {batch}"
                    ));
                }
            }
        }
        if let Growth::Accordion { critical, every, planned } = &self.growth {
            if *every == Some(0) {
                return Err("expected critical epochs to come again after at least one epoch, found 0".into());
            }
            if let Some((from, to)) = critical.values().flatten().chain(planned).find(|(from, to)| from >= to) {
                return Err(format!("expected epochs from a number to a higher one, found {from} to {to}"));
            }
        }
        Ok(())
    }

    /// Steps of a job that would take so long with the batch of its first; none: no rate is known of it so.
    pub fn steps(&self, first: First, work_s: f64) -> Option<f64> {
        Some(libm::rint(work_s * self.rate(first.gpus, first.batch)?))
    }

    /// Epochs of the same job.
    pub fn epochs(&self, first: First, work_s: f64) -> Option<f64> {
        Some((self.steps(first, work_s)? / self.per_epoch(first.batch) as f64).ceil())
    }
}

fn within(all: &[Epochs], epoch: u32) -> bool {
    all.iter().any(|(from, to)| (*from..*to).contains(&epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regime(growth: Growth) -> Regime {
        let rates = BTreeMap::from([(1, BTreeMap::from([(10, 5.0), (20, 4.0), (40, 3.0), (80, 1.6)]))]);
        Regime { samples: 100, most_batch: 80, growth, rates }
    }

    const FIRST: First = First { gpus: 1, batch: 10 };

    fn at(batch: u32, all: u64, done: u64) -> Steps {
        Steps { batch, all, done }
    }

    #[test]
    fn a_batch_doubles_one_epoch_ahead_and_not_beyond_the_largest() {
        let doubling = regime(Growth::Doubling(BTreeMap::from([(1, BTreeMap::from([(10, vec![3, 5, 6, 7])]))])));
        // Ten steps are an epoch: at the end of the second the third is ahead.
        assert_eq!(doubling.wants(FIRST, at(10, 100, 10)), None);
        assert_eq!(doubling.wants(FIRST, at(10, 100, 11)), Some(20));
        // Two doublings that were missed are made up one by one.
        assert_eq!(doubling.wants(FIRST, at(10, 100, 60)), Some(20));
        assert_eq!(doubling.wants(First { batch: 80, ..FIRST }, at(80, 100, 60)), None);
        assert_eq!(doubling.doubled(FIRST, 7), 80);
        // Nothing is known of two GPUs.
        assert_eq!(doubling.wants(First { gpus: 2, ..FIRST }, at(10, 100, 60)), None);
    }

    #[test]
    fn critical_epochs_have_the_first_batch() {
        let critical = BTreeMap::from([(10, vec![(0, 2)])]);
        let accordion = |every| regime(Growth::Accordion { critical: critical.clone(), every, planned: vec![(9, 10)] });
        assert_eq!(accordion(None).wants(FIRST, at(10, 100, 10)), None);
        assert_eq!(accordion(None).wants(FIRST, at(10, 100, 11)), Some(80));
        assert_eq!(accordion(Some(5)).wants(FIRST, at(80, 20, 10)), Some(10));
        // Of ten epochs the plan keeps the first batch up to 3, and in the ninth: five of ten steps, five of 100 / 80.
        let expected = 5.0 * 100.0 / 10.0 / 5.0 + 5.0 * 100.0 / 80.0 / 1.6;
        assert!((accordion(None).alone_s(FIRST, 100) - expected).abs() < 1e-9);
        assert!((regime(Growth::Fixed).alone_s(FIRST, 100) - 20.0).abs() < 1e-12);
    }

    #[test]
    fn a_plan_is_the_epochs_of_each_batch_in_a_row() {
        let doubling = regime(Growth::Doubling(BTreeMap::from([(1, BTreeMap::from([(10, vec![3, 5])]))])));
        let plan = doubling.plan(FIRST, 100, 2.0);
        let counts: Vec<(u32, u32)> = plan.iter().map(|of| (of.count, of.batch)).collect();
        // The last of ten epochs falls back to the first batch.
        assert_eq!(counts, [(3, 10), (2, 20), (4, 40), (1, 10)]);
        let sum: f64 = plan.iter().map(|of| f64::from(of.count) * of.epoch_s).sum();
        assert!((sum * 2.0 - doubling.alone_s(FIRST, 100)).abs() < 1e-9);
        assert_eq!(doubling.done(at(20, 50, 12)), 2.4);
    }

    #[test]
    fn what_is_done_is_rounded_up_to_whole_epochs() {
        let fixed = regime(Growth::Fixed);
        // 95 steps are ten epochs of ten; with batch 20 an epoch has five.
        assert_eq!(fixed.rescaled(at(10, 95, 11), 20), at(20, 48, 10));
        // 100 / 80 = 1.25 steps are two: twelve of them are not ten epochs.
        assert_eq!(fixed.rescaled(at(10, 95, 95), 80), at(80, 20, 20));
        assert_eq!(fixed.rescaled(at(80, 20, 3), 10), at(10, 100, 20));
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let wrong = |change: fn(&mut Regime)| {
            let mut regime = regime(Growth::Fixed);
            change(&mut regime);
            regime.check().is_err()
        };
        assert!(regime(Growth::Fixed).check().is_ok());
        assert!(wrong(|regime| regime.samples = 0));
        assert!(wrong(|regime| regime.most_batch = 101));
        assert!(wrong(|regime| regime.rates.clear()));
        let accordion =
            |every, to| Growth::Accordion { critical: BTreeMap::from([(10, vec![(2, to)])]), every, planned: vec![] };
        assert!(regime(accordion(Some(3), 3)).check().is_ok());
        assert!(regime(accordion(Some(0), 3)).check().is_err() && regime(accordion(None, 2)).check().is_err());
        assert!(wrong(|regime| drop(regime.rates.insert(0, BTreeMap::from([(1, 1.0)])))));
        assert!(wrong(|regime| drop(regime.rates.insert(1, BTreeMap::from([(1, f64::NAN)])))));
    }
}
