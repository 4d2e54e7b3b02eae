//! What a job still needs, by the epochs that it was planned to train for and by what it has done.
//!
//! Source: Shockwave (Zheng et al., NSDI 2023, §5) and its artifact, as far as known; how what was measured is set against the plan is a reconstruction.

use std::collections::BTreeMap;

use sandtable_policy::{EpochsOfBatch, TrainingEpochs};

/// How much a job has trained, as its leases show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Epochs, at the rates that were seen.
    epochs: f64,
    /// Seconds at work that they took.
    seconds: f64,
    /// Epochs that were done, their batch, and the seconds at work, when the job was last looked at.
    last: (f64, u32, f64),
    /// Epochs a second then; 0: none was seen with that batch.
    rate: f64,
}

impl Measured {
    /// Looks at a job that was at work for so many seconds in all.
    pub fn look(&mut self, told: &TrainingEpochs, ran_s: f64) {
        let (done, batch, before_s) = self.last;
        let seconds = ran_s - before_s;
        self.last = (told.done, told.batch, ran_s);
        if seconds <= 0.0 {
            return;
        }
        // A job that goes over to another batch has its epochs rounded up: the last rate holds until then.
        let is_same = told.batch == batch || before_s == 0.0;
        let epochs = if is_same { told.done - done } else { self.rate * seconds };
        if epochs > 0.0 {
            (self.epochs, self.seconds) = (self.epochs + epochs, self.seconds + seconds);
        }
        self.rate = if is_same { epochs / seconds } else { 0.0 };
    }
}

/// What is known of a job's epochs.
#[derive(Clone, Debug)]
pub struct Epochs {
    /// Epochs with one batch in a row, in their order; each takes at least a second, and whole ones.
    planned: Vec<EpochsOfBatch>,
    /// All of them.
    pub count: u32,
    /// Whole ones that are done.
    pub done: u32,
    /// Seconds that are left, where they are known as such.
    known_s: Option<f64>,
}

impl Epochs {
    /// Those of a job; none: it is not known to train for a number of epochs. If it has trained more or less than was planned for the same time by more than the part
    /// `tolerance`, all of its epochs are so much shorter or longer.
    pub fn told(told: &TrainingEpochs, measured: &Measured, tolerance: f64) -> Option<Epochs> {
        let whole = |of: &EpochsOfBatch| EpochsOfBatch { epoch_time: libm::rint(of.epoch_time).max(1.0), ..*of };
        let planned: Vec<EpochsOfBatch> = told.planned.iter().map(whole).collect();
        let count = planned.iter().fold(0, |sum: u32, of| sum.saturating_add(of.count));
        let mut epochs = Epochs { planned, count, done: (told.done as u32).min(count), known_s: None };
        let due = epochs.due(measured.seconds);
        if due > 0.0 && measured.epochs > 0.0 && (measured.epochs / due - 1.0).abs() > tolerance {
            epochs.planned.iter_mut().for_each(|of| of.epoch_time *= due / measured.epochs);
        }
        (count > 0).then_some(epochs)
    }

    /// Those of a job of which only the time left is known: they take a second each.
    pub fn of_time(done_s: f64, left_s: f64) -> Epochs {
        let count = (done_s + left_s).ceil().clamp(1.0, f64::from(u32::MAX)) as u32;
        let planned = vec![EpochsOfBatch { count, batch: 1, epoch_time: 1.0 }];
        Epochs { planned, count, done: (done_s as u32).min(count - 1), known_s: Some(left_s.max(1.0)) }
    }

    /// Epochs that were planned for the first so many seconds.
    fn due(&self, seconds: f64) -> f64 {
        let (mut due, mut left_s) = (0.0, seconds);
        for of in &self.planned {
            let epochs = (left_s / of.epoch_time).min(f64::from(of.count));
            due += epochs;
            left_s -= epochs * of.epoch_time;
        }
        due
    }

    /// Epochs with one batch in a row, up to but without epoch `end`.
    fn before(&self, end: u32) -> impl Iterator<Item = (u32, &EpochsOfBatch)> {
        let mut first = 0_u32;
        self.planned.iter().filter_map(move |of| {
            let count = end.saturating_sub(first).min(of.count);
            first = first.saturating_add(of.count);
            (count > 0).then_some((count, of))
        })
    }

    /// Seconds of the epochs before that of this number.
    pub fn seconds_before(&self, end: u32) -> f64 {
        self.before(end).map(|(count, of)| f64::from(count) * of.epoch_time).sum()
    }

    /// Mean seconds of the epochs that are done and of the present one.
    pub fn mean_s(&self) -> f64 {
        let end = (self.done + 1).min(self.count);
        self.seconds_before(end) / f64::from(end)
    }

    /// Seconds that are expected to be left. Which batches the epochs to come have is drawn from a Dirichlet distribution: all planned batches alike at first, each epoch
    /// that was begun adds one of its own.
    pub fn left_s(&self) -> f64 {
        if let Some(known_s) = self.known_s {
            return known_s;
        }
        let left = f64::from(self.count - self.done);
        if left == 0.0 {
            return 1.0;
        }
        let count = f64::from(self.count);
        // By batch: epochs, their seconds, and those of them that were begun.
        let mut batches: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
        for of in &self.planned {
            let entry = batches.entry(of.batch).or_default();
            entry.0 += f64::from(of.count);
            entry.1 += f64::from(of.count) * of.epoch_time;
        }
        for (begun, of) in self.before((self.done + 1).min(self.count)) {
            batches.entry(of.batch).or_default().2 += f64::from(begun);
        }
        let prior = count / batches.len() as f64;
        let sum: f64 = batches.values().map(|(.., begun)| prior + begun).sum();
        let (mut expected, mut weights) = (0.0, 0.0);
        for (epochs, seconds, begun) in batches.values() {
            let scaled = (prior + begun) * count / sum;
            let weight = scaled - begun.min(scaled.floor());
            weights += weight;
            expected += weight * seconds / epochs;
        }
        expected * left / (weights + 1.0).floor().max(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Measured = Measured { epochs: 0.0, seconds: 0.0, last: (0.0, 0, 0.0), rate: 0.0 };

    fn told(done: f64) -> TrainingEpochs {
        let of = |count, batch, epoch_time| EpochsOfBatch { count, batch, epoch_time };
        TrainingEpochs { done, batch: 32, planned: vec![of(4, 32, 30.2), of(6, 64, 19.9)] }
    }

    #[test]
    fn what_is_left_leans_on_the_batches_that_were_seen() {
        let fresh = Epochs::told(&told(0.0), &NOTHING, 0.4).expect("epochs");
        assert_eq!((fresh.count, fresh.done, fresh.mean_s()), (10, 0, 30.0));
        // Five of each batch and one more of the first, of eleven; scaled to ten, less the one that was begun.
        let (first, second) = (6.0 * 10.0 / 11.0 - 1.0, 5.0 * 10.0 / 11.0);
        assert!((fresh.left_s() - (first * 30.0 + second * 20.0) * 10.0 / 10.0).abs() < 1e-9, "{}", fresh.left_s());
        let late = Epochs::told(&told(9.5), &NOTHING, 0.4).expect("epochs");
        assert_eq!((late.done, late.seconds_before(9)), (9, 4.0 * 30.0 + 5.0 * 20.0));
        assert!(late.left_s() < 40.0 && late.left_s() > 0.0, "{}", late.left_s());
        assert_eq!(Epochs::told(&told(10.0), &NOTHING, 0.4).expect("epochs").left_s(), 1.0);
    }

    #[test]
    fn a_plan_that_is_far_off_is_corrected_by_what_was_measured() {
        let after = |done: f64| {
            let mut measured = NOTHING;
            measured.look(&told(done), 120.0);
            Epochs::told(&told(done), &measured, 0.4).expect("epochs").mean_s()
        };
        // 120 s are four epochs; two of them took so long. Three in 120 s are within 40 %.
        assert_eq!((after(2.0), after(3.0)), (60.0, 30.0));
    }

    #[test]
    fn epochs_that_are_rounded_up_with_another_batch_are_not_measured() {
        let mut measured = NOTHING;
        measured.look(&told(1.0), 30.0);
        measured.look(&TrainingEpochs { batch: 64, ..told(3.0) }, 75.0);
        assert_eq!((measured.epochs, measured.seconds), (2.5, 75.0));
        measured.look(&TrainingEpochs { batch: 64, ..told(4.0) }, 95.0);
        assert_eq!((measured.epochs, measured.seconds), (3.5, 95.0));
    }

    #[test]
    fn of_a_job_without_epochs_the_time_is_known() {
        assert!(Epochs::told(&TrainingEpochs { done: 0.0, batch: 0, planned: vec![] }, &NOTHING, 0.4).is_none());
        let told = Epochs::of_time(130.0, 500.0);
        assert_eq!((told.count, told.done, told.mean_s(), told.left_s()), (630, 130, 1.0, 500.0));
        let short = Epochs::of_time(0.0, 0.4);
        assert_eq!((short.count, short.done, short.left_s()), (1, 0, 1.0));
    }
}
