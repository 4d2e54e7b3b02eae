//! The GPUs of each job. Of millions of jobs few hold any at a time: the others take four bytes each.

use std::ops::Index;

use sandtable_hardware::{GpuId, JobId};

/// GPUs given to each job.
#[derive(Clone, Debug)]
pub struct Held {
    /// The index in `lists` of each job's, or [`NONE`].
    places: Vec<u32>,
    lists: Vec<Vec<GpuId>>,
    /// Indices in `lists` of no job.
    unused: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Held {
    pub(super) fn new(jobs: usize) -> Held {
        Held { places: vec![NONE; jobs], lists: Vec::new(), unused: Vec::new() }
    }

    /// Gives a job these GPUs in place of those that it has.
    pub fn set(&mut self, job: JobId, gpus: Vec<GpuId>) {
        if gpus.is_empty() {
            self.take(job);
            return;
        }
        let place = &mut self.places[job];
        if *place == NONE {
            *place = self.unused.pop().unwrap_or(self.lists.len() as u32);
            if *place as usize == self.lists.len() {
                self.lists.push(Vec::new());
            }
        }
        self.lists[*place as usize] = gpus;
    }

    /// Takes all GPUs of a job.
    pub(super) fn take(&mut self, job: JobId) -> Vec<GpuId> {
        match std::mem::replace(&mut self.places[job], NONE) {
            NONE => Vec::new(),
            place => {
                self.unused.push(place);
                std::mem::take(&mut self.lists[place as usize])
            }
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
    fn lists_are_of_jobs_and_their_places_are_used_again() {
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
