//! A recorded run as a backend: the devices do what they did then, whatever the policy says.

use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_hardware::replay::Replay;
use sandtable_hardware::{Backend, Job};
use sandtable_runtime::AccountingError;
use sandtable_runtime::decision_log::ReplayScript;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::schedule::Finished;
use serde_json::{Value, json};

use super::CellBackend;
use crate::Cell;
use crate::recording::{LiveFleetShape, Recording, jobs_digest};

impl CellBackend for Recording {
    fn about(&self) -> &'static str {
        "a recorded run, followed"
    }

    fn semantics(&self) -> Option<String> {
        Some(format!("recorded run {}", &self.digest[..10]))
    }

    fn shape(&self) -> Option<&LiveFleetShape> {
        Some(&self.header.shape)
    }

    fn identity(&self) -> Value {
        json!({"recording": self.digest})
    }

    fn recording(&self) -> Option<&Recording> {
        Some(self)
    }

    fn start(&self, cell: &Cell, jobs: Arc<[Job]>, inputs: &mut Inputs) -> Result<Box<dyn Backend>, Error> {
        if self.header.jobs != jobs_digest(&jobs) {
            let error = Error::usage("the recording is of other jobs than the spec's workload under this seed");
            return Err(error.hint("replay it with the `workload`, `profile` and seed that it was recorded with"));
        }
        inputs.strict = false;
        inputs.script = ReplayScript::new(self.calls.clone());
        if inputs.script.is_none() {
            return Err(Error::usage("the recording has no call of a policy: there is nothing to compare with"));
        }
        let (fleet, laws) = ((*cell.fleet).clone(), cell.setting.laws.clone());
        Ok(Box::new(Replay::new(fleet, jobs, laws, self.header.tasks.clone(), self.steps.clone())))
    }

    // What does not balance or fit is the file's defect, not ours.
    fn finish(&self, finished: Result<Finished, AccountingError>) -> Result<Finished, Error> {
        let finished = finished.map_err(|error| Error::usage(format!("the recording contradicts itself: {error}")))?;
        let agreement = finished.agreement.clone().unwrap_or_default();
        let calls = self.calls.len() as u64;
        if agreement.lost.is_some() || agreement.calls != calls {
            let found = format!("{} of its {calls} calls fit what happens in it", agreement.calls);
            return Err(Error::usage(format!("the recording contradicts itself: {found}")));
        }
        Ok(finished)
    }
}
