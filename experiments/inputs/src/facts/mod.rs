//! Facts of models: from ONNX files, and of well-known models from the catalogue.
//!
//! # Architecture
//! - [`walk`]: a walk over a graph; `rules` say what operators count, `shapes` how shapes propagate.
//! - [`onnx`]: the messages of a file.
//! - [`zoo`]: graphs of well-known models. `just models` writes the catalogue, `experiments/models.ron`, from them.
//!
//! # Format
//! The catalogue is RON: `[Model(model: NAME, family, source, …)]`, the fields those of [`ModelFacts`].

mod graph;
pub mod onnx;
mod rules;
mod shapes;
#[cfg(test)]
mod tests;
mod walk;
pub mod zoo;

use std::path::Path;
use std::sync::LazyLock;

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_hardware::{ModelFacts, Profile};

pub use walk::{GraphError, OperatorRow, Walked, walk, walk_graph};

static CATALOGUE: LazyLock<Vec<ModelFacts>> =
    LazyLock::new(|| ron::from_str(include_str!("../../../models.ron")).unwrap_or_default());

/// The models of the catalogue, by family.
pub fn catalogue() -> &'static [ModelFacts] {
    &CATALOGUE
}

/// The catalogue as the zoo says it.
///
/// # Errors
/// A graph that can't be walked: a defect of ours.
pub fn from_zoo() -> Result<Vec<ModelFacts>, GraphError> {
    let of = |entry: &zoo::CatalogueEntry| {
        let facts = walk_graph(&zoo::graph(entry), 1)?.facts;
        Ok(ModelFacts { family: entry.family.into(), ..facts })
    };
    zoo::entries().map(of).collect()
}

/// The catalogue's file.
///
/// # Errors
/// Never, as far as we know: facts have nothing that RON lacks.
pub fn render(models: &[ModelFacts]) -> Result<String, Error> {
    let pretty = ron::ser::PrettyConfig::new().struct_names(true).compact_arrays(true).depth_limit(2);
    let text = ron::ser::to_string_pretty(models, pretty).map_err(|error| Error::internal(error.to_string()))?;
    let head = "// Written by `just models` from the graphs in experiments/src/facts/zoo. Counts are for one sample.";
    Ok(format!("{head}\n{text}\n"))
}

/// Reads and walks a file.
///
/// # Errors
/// A file that can't be read or walked.
pub fn of_file(path: &Path, batch: u64) -> Result<Walked, Error> {
    let bytes = sandtable_core::input::read(path, sandtable_core::input::DATA)?;
    let mut walked = walk(&bytes, batch).map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().to_string());
    walked.facts.model = name;
    walked.facts.source = "an ONNX graph".into();
    Ok(walked)
}

/// The facts of a model: of the catalogue, or of a file where the name ends in `.onnx`, relative to `folder`.
///
/// ```
/// let error = sandtable_inputs::facts::find("resnet5O", ".".as_ref()).expect_err("a typo");
/// assert!(error.message.contains("no model \"resnet5O\" in the catalogue"), "{}", error.message);
/// ```
///
/// # Errors
/// A name that the catalogue lacks, or a file that can't be walked.
pub fn find(name: &str, folder: &Path) -> Result<ModelFacts, Error> {
    if name.ends_with(".onnx") {
        return Ok(of_file(&folder.join(name), 1)?.facts);
    }
    catalogue().iter().find(|facts| facts.model == name).cloned().ok_or_else(|| {
        let error = Error::usage(format!("no model {name:?} in the catalogue"));
        match nearest(name, catalogue().iter().map(|facts| facts.model.as_str())) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint("`sandtable model list` has them all; a file's name ends in .onnx"),
        }
    })
}

/// Fills in the facts of workloads that name a model.
///
/// # Errors
/// See [`find`].
pub fn fill(mut profile: Profile, folder: &Path) -> Result<Profile, Error> {
    for workload in &mut profile.workloads {
        if let (Some(model), None) = (&workload.model, &workload.facts) {
            let facts = find(model, folder)?;
            if workload.family.is_empty() {
                workload.family.clone_from(&facts.family);
            }
            workload.facts = Some(facts);
        }
    }
    Ok(profile)
}
