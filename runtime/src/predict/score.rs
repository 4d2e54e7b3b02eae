//! How far the answers of predictors are from the truth.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::Quantity;

/// How good the answers for a quantity were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// What was asked for.
    pub quantity: Quantity,
    /// Different questions that were answered.
    pub answers: u64,
    /// Mean absolute error, in the quantity's unit.
    pub mae: f64,
    /// Mean of answer less truth.
    pub bias: f64,
    /// By the truth, ascending; those of which it is above 0. Empty: every answer was the truth.
    #[serde(default)]
    pub bins: Vec<ScoreBin>,
}

/// How good the answers were to questions of which the truth is about the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreBin {
    /// The least truth that is in it: a power of two, or one and a half times one. The next one ends it.
    pub from: f64,
    /// Different questions that were answered.
    pub answers: u64,
    /// Mean of answer over truth.
    pub ratio: f64,
    /// Standard deviation of answer over truth.
    pub deviation: f64,
}

/// Sums of errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    count: u64,
    absolute: f64,
    signed: f64,
    /// By the exponent of the truth and the first bit of its fraction: how many, and the sums of answer over truth and of its square.
    bins: BTreeMap<u64, (u64, f64, f64)>,
}

/// Bits of a number's fraction below the first.
const BELOW: u32 = f64::MANTISSA_DIGITS - 2;

impl Errors {
    pub(crate) fn add(&mut self, answer: f64, truth: f64) {
        if !answer.is_finite() || !truth.is_finite() {
            return;
        }
        self.count += 1;
        self.absolute += (answer - truth).abs();
        self.signed += answer - truth;
        if truth > 0.0 {
            let ratio = answer / truth;
            let (count, sum, squares) = self.bins.entry(truth.to_bits() >> BELOW).or_default();
            (*count, *sum, *squares) = (*count + 1, *sum + ratio, *squares + ratio * ratio);
        }
    }

    pub(crate) fn score(&self, quantity: Quantity) -> Option<Score> {
        let count = self.count as f64;
        let bin = |(bits, (answers, sum, squares)): (&u64, &(u64, f64, f64))| {
            let (of, ratio) = (*answers as f64, sum / *answers as f64);
            let deviation = (squares / of - ratio * ratio).max(0.0).sqrt();
            ScoreBin { from: f64::from_bits(bits << BELOW), answers: *answers, ratio, deviation }
        };
        let bins = if self.absolute > 0.0 { self.bins.iter().map(bin).collect() } else { Vec::new() };
        (self.count > 0).then(|| Score {
            quantity,
            answers: self.count,
            mae: self.absolute / count,
            bias: self.signed / count,
            bins,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart_by_what_is_true() {
        let mut errors = Errors::default();
        for (answer, truth) in [(2.0, 1.0), (1.3, 1.3), (3.0, 1.5), (0.0, 100.0), (5.0, 0.0), (f64::NAN, 1.0)] {
            errors.add(answer, truth);
        }
        let score = errors.score(Quantity::Memory).expect("answers");
        assert_eq!((score.answers, score.mae, score.bias), (5, 107.5 / 5.0, -92.5 / 5.0));
        let bins: Vec<(f64, u64, f64, f64)> =
            score.bins.iter().map(|bin| (bin.from, bin.answers, bin.ratio, bin.deviation)).collect();
        assert_eq!(bins, [(1.0, 2, 1.5, 0.5), (1.5, 1, 2.0, 0.0), (96.0, 1, 0.0, 0.0)]);
        let mut exact = Errors::default();
        exact.add(3.0, 3.0);
        assert_eq!(exact.score(Quantity::Memory).expect("one").bins, []);
    }
}
