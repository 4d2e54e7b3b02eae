//! Parts of GPUs in the mirror.

use super::Cluster;
use crate::{Action, GpuId, GpuTypeId, JobId, PartId, StartPart};

impl Cluster {
    pub(super) fn start_part(&mut self, id: JobId, part: PartId, gpu: GpuId) {
        let gpu_type = self.nodes[self.node_of(gpu)].gpu_type;
        let slice = self.residents.parts.best(gpu_type, part, self.residents.taken(gpu));
        let slice = slice.unwrap_or_else(|| panic!("GPU {gpu} has no room for the part that job {id} asks for"));
        self.place(id, Some(slice));
        self.hold(id, &[gpu]);
        self.actions.push(Action::StartPart(StartPart { job: id, gpu, slice }));
    }

    /// Slices that a job has of a GPU that it holds, a bit each; all where it has no part of it.
    pub(crate) fn slices_of(&self, id: JobId, gpu_type: GpuTypeId) -> u64 {
        let job = self.job(id);
        job.part.zip(job.slice).map_or(u64::MAX, |(part, slice)| self.residents.parts.slices(gpu_type, part, slice))
    }

    /// Notes where on its GPU a job's part begins.
    pub(super) fn place(&mut self, id: JobId, slice: Option<u32>) {
        if let Some(job) = self.job_mut(id) {
            job.slice = slice;
        }
    }
}
