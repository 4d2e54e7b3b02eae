//! What a job still needs, by the epochs that it was planned to train for and by what it has done.
//!
//! Source: Shockwave (Zheng et al., NSDI 2023, §5) and its artifact (commit 8a44f4a).

use std::collections::BTreeMap;

use sandtable_policy::{EpochsOfBatch, TrainingEpochs};

/// How much a job has trained, as its leases show. Like the artifact it takes the rate of each lease to have held since the lease before, and that of the first since the round from
/// which on rounds are counted.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Epochs at these rates, and the rounds until the end of the latest lease.
    epochs: f64,
    rounds: u64,
    /// Epochs that were done then, and the batch of the next lease.
    last: (f64, u32),
    /// Epochs a second with that batch; 0: not seen.
    rate: f64,
    /// What an epoch takes over what was planned.
    factor: f64,
}

impl Default for Measured {
    fn default() -> Measured {
        Measured { epochs: 0.0, rounds: 0, last: (0.0, 0), rate: 0.0, factor: 1.0 }
    }
}

impl Measured {
    /// Looks at a job whose lease of so many seconds at work has ended, with the last of so many rounds of `round_s` seconds.
    pub fn look(&mut self, told: &TrainingEpochs, seconds: f64, rounds: u64, round_s: f64) {
        let (done, batch) = self.last;
        self.last = (told.done, told.batch);
        // A job that goes over to another batch has its epochs rounded up.
        let is_same = told.batch == batch || batch == 0;
        if seconds > 0.0 && (is_same || self.rate == 0.0) {
            let planned = told.planned.iter().find(|of| !is_same && of.batch == batch);
            self.rate = planned.map_or((told.done - done) / seconds, |of| 1.0 / of.epoch_time);
        }
        let rate = if seconds > 0.0 { self.rate } else { 0.0 };
        self.epochs += rate * round_s * rounds.saturating_sub(self.rounds) as f64;
        self.rounds = rounds;
        if !is_same {
            self.rate = 0.0;
        }
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
    /// `tolerance`, all of its epochs are so much shorter or longer, until that is found again.
    pub fn told(told: &TrainingEpochs, measured: &mut Measured, round_s: f64, tolerance: f64) -> Option<Epochs> {
        let whole = |of: &EpochsOfBatch| EpochsOfBatch { epoch_time: libm::rint(of.epoch_time).max(1.0), ..*of };
        let planned: Vec<EpochsOfBatch> = told.planned.iter().map(whole).collect();
        let count = planned.iter().fold(0, |sum: u32, of| sum.saturating_add(of.count));
        let mut epochs = Epochs { planned, count, done: (told.done as u32).min(count), known_s: None };
        let due = epochs.due(measured.rounds as f64 * round_s, measured.factor);
        if due > 0.0 && measured.epochs > 0.0 && (measured.epochs / due - 1.0).abs() > tolerance {
            measured.factor = due / measured.epochs;
        }
        epochs.planned.iter_mut().for_each(|of| of.epoch_time *= measured.factor);
        (count > 0).then_some(epochs)
    }

    /// Those of a job of which only the time left is known: they take a second each.
    pub fn of_time(done_s: f64, left_s: f64) -> Epochs {
        let mut epochs = Epochs { planned: Vec::new(), count: 0, done: 0, known_s: None };
        epochs.set_time(done_s, left_s);
        epochs
    }

    /// As [`Epochs::of_time`], of a job of which that was known before.
    pub fn set_time(&mut self, done_s: f64, left_s: f64) {
        let count = (done_s + left_s).ceil().clamp(1.0, f64::from(u32::MAX)) as u32;
        self.planned.clear();
        self.planned.push(EpochsOfBatch { count, batch: 1, epoch_time: 1.0 });
        (self.count, self.done, self.known_s) = (count, (done_s as u32).min(count - 1), Some(left_s.max(1.0)));
    }

    /// Epochs that were planned for the first so many seconds. Like the artifact it takes the one in which these end, and all beyond the last, to last `factor` times as long.
    fn due(&self, seconds: f64, factor: f64) -> f64 {
        let (mut due, mut left_s) = (0.0, seconds);
        for (at, of) in self.planned.iter().enumerate() {
            let whole = (left_s / of.epoch_time).floor().min(f64::from(of.count));
            due += whole;
            left_s -= whole * of.epoch_time;
            if whole < f64::from(of.count) || at + 1 == self.planned.len() {
                return due + left_s / (of.epoch_time * factor);
            }
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

    /// The epochs of a job of which nothing was measured.
    fn fresh(told: &TrainingEpochs) -> Option<Epochs> {
        Epochs::told(told, &mut Measured::default(), 120.0, 0.4)
    }

    fn told(done: f64) -> TrainingEpochs {
        let of = |count, batch, epoch_time| EpochsOfBatch { count, batch, epoch_time };
        TrainingEpochs { done, batch: 32, planned: vec![of(4, 32, 30.2), of(6, 64, 19.9)] }
    }

    #[test]
    fn what_is_left_leans_on_the_batches_that_were_seen() {
        let first = fresh(&told(0.0)).expect("epochs");
        assert_eq!((first.count, first.done, first.mean_s()), (10, 0, 30.0));
        // Five of each batch and one more of the first, of eleven; scaled to ten, less the one that was begun.
        let (small, large) = (6.0 * 10.0 / 11.0 - 1.0, 5.0 * 10.0 / 11.0);
        assert!((first.left_s() - (small * 30.0 + large * 20.0) * 10.0 / 10.0).abs() < 1e-9, "{}", first.left_s());
        let late = fresh(&told(9.5)).expect("epochs");
        assert_eq!((late.done, late.seconds_before(9)), (9, 4.0 * 30.0 + 5.0 * 20.0));
        assert!(late.left_s() < 40.0 && late.left_s() > 0.0, "{}", late.left_s());
        assert_eq!(fresh(&told(10.0)).expect("epochs").left_s(), 1.0);
    }

    #[test]
    fn a_plan_that_is_far_off_is_corrected_by_what_was_measured() {
        let after = |done: f64| {
            let mut measured = Measured::default();
            measured.look(&told(done), 120.0, 1, 120.0);
            Epochs::told(&told(done), &mut measured, 120.0, 0.4).expect("epochs").mean_s()
        };
        // 120 s are four epochs; two of them took so long. Three in 120 s are within 40 %.
        assert_eq!((after(2.0), after(3.0)), (60.0, 30.0));
    }

    #[test]
    fn a_rate_is_taken_to_have_held_since_the_experiment_began() {
        let mut measured = Measured::default();
        measured.look(&told(2.0), 60.0, 3, 120.0);
        assert_eq!((measured.epochs, measured.rounds), (12.0, 3));
        // In 360 s all ten epochs were planned, and six more of the last kind.
        let epochs = Epochs::told(&told(2.0), &mut measured, 120.0, 0.4).expect("epochs");
        assert_eq!((epochs.due(360.0, 1.0), epochs.mean_s()), (16.0, 30.0));
        measured.look(&told(4.0), 240.0, 8, 120.0);
        assert_eq!((measured.epochs, measured.rounds), (17.0, 8));
        let epochs = Epochs::told(&told(4.0), &mut measured, 120.0, 0.4).expect("epochs");
        let factor = (10.0 + (960.0 - 240.0) / 20.0) / 17.0;
        assert!((measured.factor - factor).abs() < 1e-12 && (epochs.mean_s() - 28.0 * factor).abs() < 1e-12);
    }

    #[test]
    fn epochs_that_are_rounded_up_with_another_batch_are_not_measured() {
        let mut measured = Measured::default();
        measured.look(&told(1.0), 30.0, 1, 120.0);
        measured.look(&TrainingEpochs { batch: 64, ..told(3.0) }, 45.0, 2, 120.0);
        assert_eq!(measured.epochs, 8.0);
        measured.look(&TrainingEpochs { batch: 64, ..told(4.0) }, 20.0, 3, 120.0);
        assert_eq!(measured.epochs, 14.0);
    }

    #[test]
    fn of_a_job_without_epochs_the_time_is_known() {
        assert!(fresh(&TrainingEpochs { done: 0.0, batch: 0, planned: vec![] }).is_none());
        let told = Epochs::of_time(130.0, 500.0);
        assert_eq!((told.count, told.done, told.mean_s(), told.left_s()), (630, 130, 1.0, 500.0));
        let short = Epochs::of_time(0.0, 0.4);
        assert_eq!((short.count, short.done, short.left_s()), (1, 0, 1.0));
    }
}
