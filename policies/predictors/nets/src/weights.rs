//! The file that a predictor is handed.
//!
//! # Format
//! JSON: `{"predictor": NAME, "gpus": {KIND: {…}}}`. Every type of GPU has models of its own: pairs on one say little
//! about pairs on another.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Bias, Features, Forest, Mlp, NeuMf, Rule};

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Which predictor they are for.
    pub predictor: String,
    /// What they were fitted to, for people.
    pub about: String,
    /// By type of GPU.
    pub gpus: BTreeMap<String, Pairs>,
}

/// A workload that was there in training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Its model family.
    pub family: String,
    /// What is known of it alone.
    pub features: Features,
}

/// Models of pairs on one type of GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// The workloads of the matrix, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<Known>,
    /// IASP: their mean is the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neumf: Vec<NeuMf>,
    /// Workloads of which so few pairs are known that the bias model answers for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probed: Vec<usize>,
    /// The bias model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<Bias>,
    /// IAPP: their mean is the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mlp: Vec<Mlp>,
    /// For families that were not there in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Utilisation by what computation graphs show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forest: Option<Forest>,
}

impl Weights {
    /// Checks that the weights are this predictor's and that their shapes are right.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn check(&self, predictor: &str) -> Result<(), String> {
        if self.predictor != predictor {
            return Err(format!("weights are for `{}`, expected `{predictor}`", self.predictor));
        }
        for (kind, pairs) in &self.gpus {
            let count = pairs.known.len();
            let wrong = |why: String| format!("weights for {kind}: {why}");
            for net in &pairs.neumf {
                net.check(count).map_err(wrong)?;
            }
            for net in &pairs.mlp {
                net.check(20).map_err(wrong)?;
            }
            if let Some(forest) = &pairs.forest {
                forest.open().map_err(wrong)?;
            }
            if let Some(bias) = &pairs.bias
                && (bias.victim.len() != count || bias.aggressor.len() != count)
            {
                return Err(wrong(format!("expected {count} terms of each side, found {}", bias.victim.len())));
            }
            if pairs.probed.iter().any(|index| *index >= count) {
                return Err(wrong(format!("a probed workload beyond the {count} known")));
            }
        }
        Ok(())
    }
}

impl Pairs {
    /// IASP's answer for a pair: known workloads by the networks, hardly known ones by the bias model, unknown ones by
    /// their three nearest.
    pub fn filtered(&self, victim: (&str, &Features), corunner: (&str, &Features)) -> f64 {
        let mut sum = 0.0;
        for (i, a) in self.like(victim) {
            for (j, b) in self.like(corunner) {
                sum += a * b * self.entry(i, j);
            }
        }
        sum.clamp(0.05, 1.0)
    }

    /// One entry of the matrix.
    pub fn entry(&self, victim: usize, corunner: usize) -> f64 {
        let hardly = self.probed.contains(&victim) || self.probed.contains(&corunner);
        match (&self.bias, hardly || self.neumf.is_empty()) {
            (Some(bias), true) => bias.forward(victim, corunner),
            _ => self.neumf.iter().map(|net| net.forward(victim, corunner)).sum::<f64>() / self.neumf.len() as f64,
        }
    }

    /// The known workloads that stand for one, with their weights.
    fn like(&self, (name, features): (&str, &Features)) -> Vec<(usize, f64)> {
        match self.known.iter().position(|known| known.name == name) {
            Some(index) => vec![(index, 1.0)],
            None => {
                let known: Vec<Features> = self.known.iter().map(|known| known.features.clone()).collect();
                crate::nearest(features, &known, 3)
            }
        }
    }

    /// IAPP's answer: the networks where the family was there in training, else the rule; none without features.
    pub fn profiled(&self, family: &str, task: &Features, residents: &[&Features]) -> Option<f64> {
        let of = |family: &str| self.known.iter().any(|known| known.family == family);
        let task = task.five()?;
        let beside: Vec<[f64; 5]> = residents.iter().map(|features| features.five()).collect::<Option<_>>()?;
        if self.mlp.is_empty() || !of(family) {
            let together = beside.iter().map(|features| features[0]).sum();
            return Some(self.rule.unwrap_or_default().forward(task[0], together));
        }
        let inputs = Features::inputs(task, &beside);
        Some(self.mlp.iter().map(|net| net.forward(&inputs)).sum::<f64>() / self.mlp.len() as f64)
    }
}
