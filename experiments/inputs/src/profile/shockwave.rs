//! Shockwave's five models (Zheng et al., NSDI 2023): rates of gangs by batch from the user's copy of the artifact's table, and the rules by which
//! jobs of each change their batch.
//
// The numbers below are facts of Shockwave's artifact (github.com/uw-mad-dash/shockwave, commit 8a44f4a, scheduler/; MIT, Copyright (c) 2022 Data
// and Systems Hub at UW-Madison).

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::regime::{Epochs, Growth, Regime};
use sandtable_hardware::{GpuProfile, Profile, Workload};

use crate::trace::RegimeMode;
use crate::trace::rates::{Rates, SHOCKWAVE};

/// What the artifact's code says of a model.
struct Known {
    name: &'static str,
    samples: u32,
    most_batch: u32,
    /// Critical epochs under Accordion, by first batches, and after how many epochs they come again; empty: it never changes.
    critical: &'static [(&'static [u32], &'static [Epochs])],
    every: Option<u32>,
    /// Epochs that are critical in the plan alone.
    planned: &'static [Epochs],
    /// Epochs in which the batch doubles, by GPUs and first batch.
    doubling: &'static [(u32, u32, &'static [u32])],
}

const KIND: &str = "V100";

const MODELS: [Known; 5] = [
    Known {
        name: "ResNet-18",
        samples: 50_000,
        most_batch: 256,
        critical: &[(&[16, 32, 64, 128], &[(0, 10), (150, 160), (250, 260)])],
        every: None,
        planned: &[],
        doubling: &[
            (1, 16, &[31, 41, 51, 71]),
            (1, 32, &[21, 31, 51]),
            (1, 64, &[11, 31]),
            (1, 128, &[11]),
            (2, 16, &[21, 31, 91, 111]),
            (2, 32, &[11, 21, 41]),
            (2, 64, &[21, 41]),
            (2, 128, &[41]),
            (4, 16, &[11, 21, 81, 91]),
            (4, 32, &[21, 31, 61]),
            (4, 64, &[11, 61]),
            (4, 128, &[11]),
        ],
    },
    Known {
        name: "ResNet-50",
        samples: 100_000,
        most_batch: 128,
        critical: &[(&[16, 32, 64], &[(0, 10)])],
        every: Some(30),
        planned: &[],
        doubling: &[(1, 64, &[101]), (2, 32, &[101, 111]), (2, 64, &[81]), (4, 32, &[131, 221]), (4, 64, &[191])],
    },
    Known {
        name: "Transformer",
        samples: 10_000,
        most_batch: 128,
        critical: &[],
        every: None,
        planned: &[],
        doubling: &[],
    },
    Known {
        name: "LM",
        samples: 59_675,
        most_batch: 80,
        critical: &[(&[5, 10, 20, 40], &[(0, 10)])],
        every: None,
        planned: &[],
        doubling: &[
            (1, 5, &[31, 41, 61, 71]),
            (1, 10, &[11, 21, 41]),
            (1, 20, &[11, 41]),
            (1, 40, &[11]),
            (2, 5, &[31, 51, 61, 71]),
            (2, 10, &[11, 31, 41]),
            (2, 20, &[31, 41]),
            (2, 40, &[11]),
            (4, 5, &[11, 31, 71, 91]),
            (4, 10, &[11, 31, 61]),
            (4, 20, &[11, 61]),
            (4, 40, &[61]),
        ],
    },
    Known {
        name: "Recommendation",
        samples: 117_907,
        most_batch: 8192,
        critical: &[(&[512, 1024], &[(0, 30)]), (&[2048], &[(0, 40)]), (&[4096], &[(0, 10)])],
        every: None,
        planned: &[(60, 70), (80, 90)],
        doubling: &[(1, 512, &[21, 41, 71, 91]), (1, 1024, &[21, 51, 91]), (1, 2048, &[21, 41]), (1, 4096, &[41])],
    },
];

impl Known {
    fn growth(&self, mode: RegimeMode) -> Growth {
        match mode {
            RegimeMode::Accordion if !self.critical.is_empty() => {
                let of_batches = |(batches, epochs): &(&[u32], &[Epochs])| {
                    batches.iter().map(|batch| (*batch, epochs.to_vec())).collect::<Vec<_>>()
                };
                let critical = self.critical.iter().flat_map(of_batches).collect();
                Growth::Accordion { critical, every: self.every, planned: self.planned.to_vec() }
            }
            RegimeMode::Gns => {
                let mut epochs: BTreeMap<u32, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
                for (gpus, batch, of) in self.doubling {
                    epochs.entry(*gpus).or_default().insert(*batch, of.to_vec());
                }
                Growth::Doubling(epochs)
            }
            RegimeMode::Accordion | RegimeMode::Static => Growth::Fixed,
        }
    }
}

/// Reads a table of rates: `model`, `batch`, `gpus`, `steps_per_s` of the whole gang. Its workloads are the models in each of their modes:
/// `ResNet-18 static`, `ResNet-18 accordion`, `ResNet-18 gns`.
///
/// # Errors
/// A file that can't be read or is no such table; a model that is none of Shockwave's.
pub fn shockwave(path: &Path) -> Result<Profile, Error> {
    let mut of_models: BTreeMap<&str, BTreeMap<u32, BTreeMap<u32, f64>>> = BTreeMap::new();
    for ((model, batch, gpus), rate) in Rates::read(path, SHOCKWAVE)? {
        let Some(known) = MODELS.iter().find(|known| known.name == model) else {
            let names: Vec<&str> = MODELS.iter().map(|known| known.name).collect();
            let expected = format!("expected one of {}, found {model:?}", names.join(", "));
            return Err(Error::usage(format!("{}: column `model`: {expected}", path.display())));
        };
        if rate > 0.0 {
            of_models.entry(known.name).or_default().entry(gpus).or_default().insert(batch, rate);
        }
    }
    let workload = |(name, rates): (&str, &BTreeMap<u32, BTreeMap<u32, f64>>), mode: RegimeMode| {
        let known = MODELS.iter().find(|known| known.name == name)?;
        let regime = Regime {
            samples: known.samples,
            most_batch: known.most_batch,
            growth: known.growth(mode),
            rates: rates.clone(),
        };
        Some(Workload {
            name: mode.workload(name),
            family: name.to_string(),
            regime: Some(regime),
            ..Workload::default()
        })
    };
    let of_model = |(name, rates): (&&str, _)| RegimeMode::ALL.map(|mode| workload((name, rates), mode));
    let workloads = of_models.iter().flat_map(of_model).flatten().collect();
    let gpu = GpuProfile {
        kind: KIND.into(),
        sources: BTreeMap::from([("rates".to_string(), "Shockwave's artifact, the user's copy".to_string())]),
        ..GpuProfile::default()
    };
    let about = "Shockwave's models and the rules by which their batches change (Zheng et al., NSDI 2023)";
    let profile = Profile { about: about.into(), workloads, gpus: vec![gpu] };
    profile.check().map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    Ok(profile)
}
