//! Resolves what answers for each predicted quantity of a spec: the truth, an error on it, or a component with its weights.

use std::path::Path;
use std::sync::Arc;

use sandtable_core::digest::{canonical, digest};
use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_runtime::Remaining;
use sandtable_runtime::contract::Quantity;
use serde_json::{Value, json};

use super::number;
use crate::artifact::{Finder, PolicyFile, data, workspace_above};
use crate::spec::{PolicySpec, PredictorSpec, Source, Spec};

/// Largest weights file, bytes.
pub const MAX_WEIGHTS: usize = 1 << 20;

/// What answers for a quantity; a seed makes it an answerer.
#[derive(Clone, Debug, Default)]
pub enum PredictorBinding {
    /// Unbound: every answer is NaN.
    #[default]
    Unbound,
    /// The truth.
    Oracle,
    /// The truth with an error.
    Noisy {
        /// Standard deviation of the error's logarithm.
        sigma: f64,
    },
    /// The user's word.
    Declared,
    /// A component.
    Component(Arc<PredictorArtifact>),
}

/// A predictor component with what it is handed.
#[derive(Debug)]
pub struct PredictorArtifact {
    /// What results call it.
    pub name: String,
    /// The component.
    pub file: Arc<PolicyFile>,
    /// Its parameters: canonical JSON.
    pub config: String,
    /// Its weights.
    pub weights: Weights,
}

/// The contents of a file of weights.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// Empty: none.
    pub bytes: Arc<[u8]>,
    /// Where they were found without a path: their name among the shipped ones.
    pub name: Option<String>,
}

/// The bindings of one policy, by quantity.
#[derive(Clone, Debug, Default)]
pub struct Bindings([PredictorBinding; Quantity::ALL.len()]);

impl PredictorBinding {
    /// Returns what answers for the time left, under a seed.
    pub fn remaining(&self, seed: u64) -> Remaining {
        match self {
            PredictorBinding::Unbound | PredictorBinding::Component(_) => Remaining::Unbound,
            PredictorBinding::Oracle => Remaining::Oracle,
            PredictorBinding::Noisy { sigma } => Remaining::Noisy { sigma: *sigma, seed },
            PredictorBinding::Declared => Remaining::Declared,
        }
    }

    pub(crate) fn key(&self) -> Value {
        match self {
            PredictorBinding::Unbound => Value::Null,
            PredictorBinding::Oracle => json!("oracle"),
            PredictorBinding::Noisy { sigma } => json!({"noisy": number(*sigma)}),
            PredictorBinding::Declared => json!("declared"),
            PredictorBinding::Component(bundle) => json!({
                "component": bundle.file.digest, "weights": digest(&bundle.weights.bytes), "config": bundle.config,
            }),
        }
    }

    /// How `plan` and results call it.
    pub fn describe(&self) -> String {
        match self {
            PredictorBinding::Unbound => "unbound".into(),
            PredictorBinding::Oracle => "oracle".into(),
            PredictorBinding::Noisy { sigma } => format!("oracle with noise {sigma}"),
            PredictorBinding::Declared => "declared".into(),
            PredictorBinding::Component(bundle) => bundle.name.clone(),
        }
    }
}

impl Bindings {
    /// All of them, by quantity.
    pub fn all(&self) -> impl Iterator<Item = (Quantity, &PredictorBinding)> {
        Quantity::ALL.into_iter().zip(&self.0)
    }

    /// Returns the binding of a quantity.
    pub fn of(&self, quantity: Quantity) -> &PredictorBinding {
        &self.0[quantity as usize]
    }

    /// Their part of a cell's identity.
    pub fn key(&self) -> Value {
        let bound = self.all().filter(|(_, bound)| !matches!(bound, PredictorBinding::Unbound));
        bound.map(|(quantity, bound)| (quantity.to_string(), bound.key())).collect()
    }
}

/// The bindings of a policy: its own before the experiment's.
pub(super) fn bindings(
    source: &Source,
    spec: &Spec,
    policy: &PolicySpec,
    place: &str,
    folder: &Path,
    finder: &mut Finder,
) -> Result<Bindings, Error> {
    let mut bindings = Bindings::default();
    let common = spec.predictors.iter().map(|entry| (entry, "predictors".to_string()));
    let own = policy.predictors.iter().map(|entry| (entry, format!("{place}.predictors")));
    for ((quantity, predictor), place) in common.chain(own) {
        let Some(quantity) = Quantity::find(quantity) else {
            let known = Quantity::ALL.map(Quantity::name).join(", ");
            return Err(source.error(&place, &format!("no quantity `{quantity}`: expected one of: {known}"), "here"));
        };
        let place = format!("{place}.{quantity}");
        let wrong = |message: &str| Err(source.error(&place, message, "here"));
        bindings.0[quantity as usize] = match predictor {
            PredictorSpec::Oracle => PredictorBinding::Oracle,
            PredictorSpec::Declared if quantity == Quantity::Remaining => PredictorBinding::Declared,
            PredictorSpec::Declared => return wrong("users declare run times only"),
            PredictorSpec::Noisy { sigma } if (0.0..=10.0).contains(sigma) => PredictorBinding::Noisy { sigma: *sigma },
            PredictorSpec::Noisy { sigma } => {
                return wrong(&format!("expected a sigma from 0 to 10, found {sigma}"));
            }
            PredictorSpec::Component { .. } if quantity.answers().is_none() => {
                let may = if quantity == Quantity::Remaining { "Oracle, Noisy or Declared" } else { "Oracle or Noisy" };
                return wrong(&format!("no component answers for {quantity}: it is {may}"));
            }
            PredictorSpec::Component { name, weights, with } => {
                let file = finder.find(name).map_err(|why| source.error(&place, &why, "this predictor"))?;
                let weights = Weights::named(source, &place, folder, weights.as_deref())?;
                let config = canonical(&with.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
                let name = crate::spec::short_name(name).to_string();
                PredictorBinding::Component(Arc::new(PredictorArtifact { name, file, config, weights }))
            }
        };
    }
    Ok(bindings)
}

impl Weights {
    /// What a spec names at `weights` of a place, if it names any.
    pub(super) fn named(source: &Source, place: &str, folder: &Path, name: Option<&str>) -> Result<Weights, Error> {
        let read = name.map(|name| Weights::read(folder, name)).transpose();
        let read = read.map_err(|why| source.error(&format!("{place}.weights"), &why, "these weights"))?;
        Ok(read.unwrap_or_default())
    }

    /// Those of a name: of a file relative to the spec's folder where it has a slash, else shipped ones.
    fn read(folder: &Path, name: &str) -> Result<Weights, String> {
        let shipped = |root: &Path| root.join("policies/predictors/weights").join(name);
        let read = |path: &Path| {
            let bytes = sandtable_inputs::trace::read_bytes(path, MAX_WEIGHTS as u64).map_err(|error| error.message)?;
            Ok::<Arc<[u8]>, String>(bytes.into())
        };
        if name.contains('/') {
            return Ok(Weights { bytes: read(&folder.join(name))?, name: None });
        }
        let bytes = match workspace_above(folder).map(|root| shipped(&root)).filter(|path| path.exists()) {
            Some(path) => read(&path)?,
            None => {
                let all = || data::weight_names().collect::<Vec<_>>().join(", ");
                let near = nearest(name, data::weight_names())
                    .map_or_else(|| format!("shipped are {}", all()), |near| format!("did you mean `{near}`?"));
                let lacking = || format!("no weights `{name}`: {near}; a file is named by a path, ./FILE");
                Arc::from(data::weights(name).ok_or_else(lacking)?)
            }
        };
        Ok(Weights { bytes, name: Some(name.to_string()) })
    }
}
