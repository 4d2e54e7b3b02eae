//! What drives the jobs of a cell: a model, a recorded run, or the devices of this machine.

mod devices;
mod live;
mod replay;

use std::path::Path;
use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_hardware::{Backend, Fleet, Job, Pool, SimulatedBackend};
use sandtable_runtime::AccountingError;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::schedule::Finished;
use serde_json::Value;

use crate::Cell;
use crate::recording::{LiveFleetShape, Recording};
use crate::spec::{FleetSpec, Group, Source, Spec};
pub use live::LiveDevices;

/// What drives the jobs of a cell. The defaults are those of a model.
pub trait CellBackend: Send + Sync {
    /// Returns what it is, for a report.
    fn about(&self) -> &'static str;

    /// Returns what the semantics of a cell say of it, if anything.
    fn semantics(&self) -> Option<String> {
        None
    }

    /// Returns the shape of the fleet where the spec does not state one; `None` for a model.
    fn shape(&self) -> Option<&LiveFleetShape> {
        None
    }

    /// Returns its part of a cell's identity, beside the fleet's own; null for a model.
    fn identity(&self) -> Value {
        Value::Null
    }

    /// Whether a result is a function of the cell's inputs: it is stored once, under the cell's id, and can be computed again.
    /// Otherwise each run is an observation, kept beside the others.
    fn is_reproducible(&self) -> bool {
        true
    }

    /// Whether a model computes its runs: it runs any jobs, also none.
    fn is_simulated(&self) -> bool {
        self.shape().is_none()
    }

    /// Returns how many GPUs of a machine a run occupies.
    fn gpus_needed(&self) -> u32 {
        0
    }

    /// Returns the devices, where it is those of this machine.
    fn live(&self) -> Option<&LiveDevices> {
        None
    }

    /// Returns the recording that it follows.
    fn recording(&self) -> Option<&Recording> {
        None
    }

    /// Starts a run of a cell: what the loop drives, and what the loop's inputs have to say for it.
    ///
    /// # Errors
    /// A recording that does not fit the jobs; devices, whose runs are observed and never computed.
    fn start(&self, cell: &Cell, jobs: Arc<[Job]>, inputs: &mut Inputs) -> Result<Box<dyn Backend>, Error>;

    /// Checks what came of a run that [`CellBackend::start`] began.
    ///
    /// # Errors
    /// A ledger that does not balance, which is a defect of ours; a recording that contradicts itself.
    fn finish(&self, finished: Result<Finished, AccountingError>) -> Result<Finished, Error> {
        finished.map_err(|error| Error::internal(format!("conservation is violated: {error}")))
    }
}

/// A modelled fleet.
struct Modelled;

impl CellBackend for Modelled {
    fn about(&self) -> &'static str {
        "a model"
    }

    fn start(&self, cell: &Cell, jobs: Arc<[Job]>, inputs: &mut Inputs) -> Result<Box<dyn Backend>, Error> {
        let beginning = cell.setting.workload.beginning(&jobs, &cell.fleet)?;
        inputs.after = Arc::new(cell.setting.workload.after(&jobs));
        let (fleet, laws) = ((*cell.fleet).clone(), &cell.setting.laws);
        let model = SimulatedBackend::beginning(fleet, jobs, laws, cell.seed, &beginning);
        inputs.beginning = Arc::new(beginning);
        inputs.until = cell.setting.workload.state().and_then(|state| state.until);
        Ok(Box::new(model))
    }
}

/// Resolves the backend of a spec; where this machine has no GPUs, `assumed` is the kind of another machine's.
pub(super) fn resolve(
    source: &Source,
    spec: &Spec,
    folder: &Path,
    assumed: Option<String>,
) -> Result<Arc<dyn CellBackend>, Error> {
    Ok(match &spec.fleet {
        FleetSpec::Model { .. } => Arc::new(Modelled),
        FleetSpec::Replay(file) => {
            let recording = crate::recording::read(&folder.join(file));
            Arc::new(recording.map_err(|error| source.locate(error, "fleet"))?)
        }
        FleetSpec::Nvidia { .. } => Arc::new(live::resolve(source, spec, assumed)?),
    })
}

/// Returns the group of equal nodes that a backend consists of; `None` for a model.
pub(super) fn group(backend: &dyn CellBackend) -> Option<Group> {
    backend.shape().map(|shape| Group {
        nodes: shape.nodes.0,
        gpus: shape.nodes.1,
        kind: shape.kind.clone(),
        speed: Some(1.0),
        memory: None,
        cpus: None,
        host_memory: None,
        revocable: None,
        pool: Pool::Training,
        closed: Vec::new(),
    })
}

/// Returns the fleet that a backend consists of; `None` for a model.
pub(super) fn fleet(backend: &dyn CellBackend, source: &Source) -> Option<Result<Fleet, Error>> {
    let fleet = backend.shape()?.fleet();
    Some(fleet.map_err(|error| source.error("fleet", &error.to_string(), "here")))
}
