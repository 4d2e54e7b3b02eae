//! One parameter on summed utilisation: nothing is lost until the GPU is full, then in proportion to what is too much
//! (ours, fitted to Lucid's pairs). No shipped predictor is better on pairs of model families without measurements.

use std::collections::BTreeMap;

use sandtable_nets::Rule;
use sandtable_nets::guest::open;
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup, Sources};
use sandtable_policy::{Config, GpuType, Kind, Param, PolicyError, WorkloadProfile};

/// The predictor.
pub struct Utilisation {
    /// For types of GPU that no weights are given for.
    rule: Rule,
    fitted: BTreeMap<String, Rule>,
}

impl Predictor for Utilisation {
    fn about() -> About {
        About {
            name: "utilisation",
            about: "one-parameter rule on summed GPU utilisation: 1 - a max(0, u + U - 1)",
            answers: Quantities::SIMILARITY | Quantities::PAIR_SPEED,
            reads: Sources::SOLO_PROFILE,
            needs_weights: false,
            params: &[Param {
                name: "a",
                kind: Kind::Number { min: 0.0, max: 10.0 },
                default: "0.41",
                about: "Speed lost for each GPU's worth of utilisation too much, where no weights say it; 0.41 is our least-squares fit to the 2,776 speeds of Lucid's pairs (RTX 3090).",
            }],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let mut fitted = BTreeMap::new();
        if !setup.weights.is_empty() {
            let weights = open(setup, "utilisation", |pairs| pairs.rule.is_some())?;
            fitted = weights.gpus.into_iter().filter_map(|(kind, pairs)| Some((kind, pairs.rule?))).collect();
        }
        Ok(Utilisation { rule: Rule { a: config.number("a") }, fitted })
    }

    fn pair_speed(&self, kind: &GpuType, job: &WorkloadProfile, residents: &[&WorkloadProfile]) -> f64 {
        let of = |profile: &WorkloadProfile| profile.gpu_utilisation.get(kind.id as usize).copied().unwrap_or(f64::NAN);
        let residents = residents.iter().fold(0.0, |sum, other| sum + of(other));
        // `max` would make a number of NaN.
        if (of(job) + residents).is_nan() {
            return f64::NAN;
        }
        self.fitted.get(&kind.name).unwrap_or(&self.rule).forward(of(job), residents)
    }
}

sandtable_policy::export_predictor!(Utilisation);

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_policy::{Communication, Sharing};

    fn profile(utilisation: f64) -> WorkloadProfile {
        WorkloadProfile {
            workload: "w".into(),
            family: "f".into(),
            gpu_utilisation: vec![utilisation],
            memory_utilisation: vec![],
            memory_mib: vec![],
            batch: f64::NAN,
            mixed_precision: false,
            gradient_gb: f64::NAN,
            communication: Communication::Ring,
            facts: None,
            step_time: vec![],
            throughput: vec![],
            stages: vec![],
        }
    }

    #[test]
    fn nothing_is_lost_until_the_gpu_is_full() {
        let rule = Utilisation { rule: Rule::default(), fitted: BTreeMap::new() };
        let kind = GpuType { id: 0, name: "g".into(), memory_mib: 0, sharing: Sharing::Packed(2) };
        let speed = |u: f64, r: f64| rule.pair_speed(&kind, &profile(u), &[&profile(r)]);
        assert_eq!(speed(0.5, 0.5), 1.0);
        assert!((speed(0.9, 0.9) - (1.0 - 0.41 * 0.8)).abs() < 1e-12);
        assert!(speed(f64::NAN, 0.5).is_nan());
    }
}
