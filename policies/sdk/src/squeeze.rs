//! A place for a part of a GPU where jobs that come later hold its slices: a quota counts slices, and not where parts may begin.

use std::cmp::Ordering;

use crate::cluster::MirrorNode;
use crate::{Ask, Cluster, GpuId, GpuTypeId, JobId, rooms};

/// Looks for such places during one walk.
#[derive(Default)]
pub(crate) struct Squeeze {
    /// What found none: later jobs that ask for the same find none either.
    failed: Vec<(Ask, GpuTypeId)>,
}

impl Squeeze {
    /// Starts a job that asks for a part and has found no place, if jobs that may go can make room for it on one GPU; returns those, which
    /// lose their GPUs. `order`: how two of them stand to each other; those that come last go first.
    pub(crate) fn start(
        &mut self,
        cluster: &mut Cluster,
        id: JobId,
        gpu_type: GpuTypeId,
        may_go: impl Fn(JobId) -> bool,
        order: impl Fn(JobId, JobId) -> Ordering,
    ) -> Option<Vec<JobId>> {
        let ask = cluster.job(id).ask();
        if ask.part.is_none() || self.failed.contains(&(ask, gpu_type)) {
            return None;
        }
        let takes = |node: &&MirrorNode| node.up && node.gpu_type == gpu_type && rooms::most_gpus(node, ask, 1) == 1;
        let gpus = cluster.nodes.iter().filter(takes).flat_map(|node| node.first..node.first + node.gpus);
        let mut best: Option<(Vec<JobId>, GpuId)> = None;
        for gpu in gpus {
            let Some(victims) = cluster.victims(gpu, gpu_type, ask, &may_go, &order) else { continue };
            // The first of the victims in the order comes as late as can be.
            let first = |victims: &[JobId]| victims.iter().copied().min_by(|a, b| order(*a, *b));
            let later = |best: &[JobId]| first(&victims).zip(first(best)).is_some_and(|(a, b)| order(a, b).is_gt());
            if best.as_ref().is_none_or(|(best, _)| later(best)) {
                best = Some((victims, gpu));
            }
        }
        let Some((victims, gpu)) = best else {
            self.failed.push((ask, gpu_type));
            return None;
        };
        victims.iter().for_each(|victim| cluster.preempt(*victim));
        cluster.start(id, vec![gpu]);
        Some(victims)
    }
}

impl Cluster {
    /// Jobs that make room for a part on a GPU when they go, no more than have to; none if there are no such jobs.
    fn victims(
        &self,
        gpu: GpuId,
        gpu_type: GpuTypeId,
        ask: Ask,
        may_go: impl Fn(JobId) -> bool,
        order: impl Fn(JobId, JobId) -> Ordering,
    ) -> Option<Vec<JobId>> {
        let parts = &self.residents.parts;
        let fits = |taken: u64| ask.part.is_some_and(|part| parts.fits(gpu_type, part, taken));
        let mut going: Vec<JobId> = self.residents(gpu).iter().copied().filter(|job| may_go(*job)).collect();
        going.sort_by(|a, b| order(*b, *a));
        let mut taken = self.residents(gpu).iter().fold(0, |taken, job| taken | self.slices_of(*job, gpu_type));
        let mut victims = Vec::new();
        for job in going {
            if fits(taken) {
                break;
            }
            taken &= !self.slices_of(job, gpu_type);
            victims.push(job);
        }
        if !fits(taken) {
            return None;
        }
        // Those that come first stay where the part fits beside them.
        for job in victims.clone().into_iter().rev() {
            let with = taken | self.slices_of(job, gpu_type);
            if fits(with) {
                taken = with;
                victims.retain(|other| *other != job);
            }
        }
        Some(victims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arrivals, demand, mig};
    use crate::{Action, Demand};

    const SHARES: [u32; 6] = [125, 250, 250, 500, 500, 1000];

    fn part(part: u32) -> Demand {
        Demand { part: Some(part), share_milli: SHARES[part as usize], ..demand(1) }
    }

    /// Jobs of these parts run on GPUs, in the order of their ids; then one of a part comes that stands at `place` in it.
    fn squeezed(gpus: u32, running: &[(u32, u32)], part_of_new: u32, place: u32) -> Option<(Vec<JobId>, GpuId)> {
        let mut cluster = Cluster::new(&mig(&[gpus]));
        let demands = running.iter().map(|(of, _)| part(*of)).chain([part(part_of_new)]);
        let (batch, new) = arrivals(demands.collect());
        cluster.take_in(&batch, new);
        (0..).zip(running).for_each(|(job, (_, gpu))| cluster.start(job, vec![*gpu]));
        let id = running.len() as u32;
        let rank = |job: JobId| if job == id { (place, 0) } else { (job, 1) };
        let by_rank = |a: JobId, b: JobId| rank(a).cmp(&rank(b));
        cluster.take_actions();
        let victims = Squeeze::default().start(&mut cluster, id, 0, |job| rank(job) > rank(id), by_rank)?;
        match cluster.take_actions().pop() {
            Some(Action::StartPart(start)) => Some((victims, start.gpu)),
            action => panic!("{action:?}"),
        }
    }

    #[test]
    fn the_last_in_the_order_make_room() {
        // Seven of the smallest: the last goes, or none if all come first.
        let seven: Vec<(u32, u32)> = (0..7).map(|_| (0, 0)).collect();
        assert_eq!(squeezed(1, &seven, 0, 3), Some((vec![6], 0)));
        assert_eq!(squeezed(1, &seven, 0, 7), None);
        // Of two GPUs that on which the first that has to go comes last.
        let halves = [(3, 0), (3, 1), (3, 1), (3, 0)];
        assert_eq!(squeezed(2, &halves, 3, 0), Some((vec![3], 0)));
        assert_eq!(squeezed(2, &halves, 5, 0), Some((vec![2, 1], 1)));
        // A whole GPU is never made of one that must stay.
        assert_eq!(squeezed(2, &halves, 5, 2), None);
    }

    #[test]
    fn none_goes_that_need_not() {
        // The first four slices are free when jobs 0 and 1 go; 2 and 3 come later and are not in the way.
        let running = [(2, 0), (2, 0), (2, 0), (0, 0)];
        let (victims, _) = squeezed(1, &running, 4, 0).expect("a place");
        assert!(victims.len() == 2, "{victims:?}");
    }
}
