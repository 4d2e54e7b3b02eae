//! The GPUs of each job. Of millions of jobs few hold any at a time: the others take four bytes each.

use std::ops::Index;

use sandtable_hardware::{GpuId, JobId};
use slab::Slab;

/// GPUs given to each job.
#[derive(Clone, Debug)]
pub struct Held {
    /// The key in `lists` of each job's, or [`NONE`].
    places: Vec<u32>,
    lists: Slab<Vec<GpuId>>,
}

const NONE: u32 = u32::MAX;

impl Held {
    pub(super) fn new(jobs: usize) -> Held {
        Held { places: vec![NONE; jobs], lists: Slab::new() }
    }

    /// Gives a job these GPUs in place of those that it has.
    pub fn set(&mut self, job: JobId, gpus: Vec<GpuId>) {
        self.take(job);
        if !gpus.is_empty() {
            self.places[job] = self.lists.insert(gpus) as u32;
        }
    }

    /// Takes all GPUs of a job.
    pub(super) fn take(&mut self, job: JobId) -> Vec<GpuId> {
        match std::mem::replace(&mut self.places[job], NONE) {
            NONE => Vec::new(),
            place => self.lists.remove(place as usize),
        }
    }
}

impl Index<JobId> for Held {
    type Output = [GpuId];

    fn index(&self, job: JobId) -> &[GpuId] {
        match self.places[job] {
            NONE => &[],
            place => &self.lists[place as usize],
        }
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        let jobs = self.places.len();
        jobs == other.places.len() && JobId::first(jobs).all(|job| self[job] == other[job])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_its_list() {
        let mut held = Held::new(3);
        let (first, second, gpus) = (JobId::new(0), JobId::new(1), |of: &[u32]| GpuId::list(of.to_vec()));
        held.set(first, gpus(&[3, 1]));
        held.set(second, gpus(&[2]));
        assert_eq!((held.take(first), held[first].len()), (gpus(&[3, 1]), 0));
        held.set(JobId::new(2), gpus(&[7]));
        held.set(second, gpus(&[4]));
        assert_eq!(
            (held[JobId::new(2)].to_vec(), held[second].to_vec(), held.lists.len()),
            (gpus(&[7]), gpus(&[4]), 2)
        );
        let mut other = Held::new(3);
        other.set(second, gpus(&[4]));
        assert_ne!(held, other);
        held.set(JobId::new(2), Vec::new());
        assert_eq!(held, other);
    }
}
