//! Horus' utilisation predictor: a random forest on the facts of a job's computation graph (Yeung et al., HotCloud
//! 2020; learner and sizes are ours). It sees no measurement.

use std::collections::BTreeMap;

use sandtable_nets::Grown;
use sandtable_nets::guest::{facts, open};
use sandtable_policy::predictor::{About, Predictor, Quantities, Setup, SoloQuantity, Sources};
use sandtable_policy::{Config, GpuType, PolicyError, WorkloadProfile};

/// The predictor.
pub struct Forest {
    grown: BTreeMap<String, Grown>,
}

impl Predictor for Forest {
    fn about() -> About {
        About {
            name: "forest",
            about: "GPU utilisation by a random forest on the computation graph (Yeung et al. 2020; learner and sizes are ours)",
            answers: Quantities::UTILISATION,
            reads: Sources::MODEL_FACTS,
            needs_weights: true,
            params: &[],
        }
    }

    fn new(_: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let weights = open(setup, "forest", |pairs| pairs.forest.is_some())?;
        let mut grown = BTreeMap::new();
        for (kind, pairs) in weights.gpus {
            if let Some(forest) = pairs.forest {
                grown.insert(kind, forest.open().map_err(PolicyError::BadConfig)?);
            }
        }
        Ok(Forest { grown })
    }

    fn estimate(&self, _: SoloQuantity, kind: &GpuType, workload: &WorkloadProfile) -> f64 {
        let (Some(known), Some(grown)) = (facts(workload), self.grown.get(&kind.name)) else { return f64::NAN };
        let feature = |name: &String| known.iter().find(|(own, _)| own == name).map(|(_, x)| *x);
        let row: Option<Vec<f64>> = grown.features().iter().map(feature).collect();
        row.map_or(f64::NAN, |row| grown.predict(&row) / 100.0)
    }
}

sandtable_policy::export_predictor!(Forest);
