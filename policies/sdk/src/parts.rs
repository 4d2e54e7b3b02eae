//! The parts that GPUs can be cut into, as sets of slices: a bit each.

use crate::{GpuTypeId, Sharing, Topology};

/// The parts of each type of GPU.
pub(crate) struct Parts {
    types: Vec<Vec<Part>>,
}

/// Slices of a part, by the places that it may have.
struct Part {
    id: u32,
    places: Vec<(u32, u64)>,
}

/// `count` slices from the first one on.
fn slices(first: u32, count: u32) -> u64 {
    (0..64).filter(|slice| *slice >= first && *slice - first < count).fold(0, |all, slice| all | 1 << slice)
}

impl Parts {
    pub(crate) fn new(topology: &Topology) -> Parts {
        let of = |sharing: &Sharing| match sharing {
            Sharing::Parts(profiles) => profiles
                .iter()
                .map(|part| Part {
                    id: part.id,
                    places: part.starts.iter().map(|first| (*first, slices(*first, part.slices))).collect(),
                })
                .collect(),
            Sharing::Exclusive | Sharing::Shares | Sharing::Packed(_) => Vec::new(),
        };
        Parts { types: topology.gpu_types.iter().map(|kind| of(&kind.sharing)).collect() }
    }

    /// Whether any GPU can be cut.
    pub(crate) fn can_cut(&self) -> bool {
        self.types.iter().any(|parts| !parts.is_empty())
    }

    fn places(&self, gpu_type: GpuTypeId, part: u32) -> &[(u32, u64)] {
        let of = self.types[gpu_type as usize].iter().find(|of| of.id == part);
        of.map_or(&[], |of| of.places.as_slice())
    }

    /// Slices of a part that begins at this one.
    pub(crate) fn slices(&self, gpu_type: GpuTypeId, part: u32, first: u32) -> u64 {
        let place = self.places(gpu_type, part).iter().find(|(begins, _)| *begins == first);
        place.map_or(0, |(_, slices)| *slices)
    }

    /// Whether a part has a place beside slices that are taken.
    pub(crate) fn fits(&self, gpu_type: GpuTypeId, part: u32, taken: u64) -> bool {
        self.places(gpu_type, part).iter().any(|(_, slices)| slices & taken == 0)
    }

    /// The first slice of the place for a part that leaves the most places for parts of all sizes; among those the lowest.
    pub(crate) fn best(&self, gpu_type: GpuTypeId, part: u32, taken: u64) -> Option<u32> {
        let left = |taken: u64| {
            let all = self.types[gpu_type as usize].iter().flat_map(|of| &of.places);
            all.filter(|(_, slices)| slices & taken == 0).count()
        };
        let free = self.places(gpu_type, part).iter().filter(|(_, slices)| slices & taken == 0);
        free.min_by_key(|(first, slices)| (std::cmp::Reverse(left(taken | slices)), *first)).map(|(first, _)| *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arrivals, demand, mig, topology};
    use crate::{Action, Cluster, Demand, Placement, StartPart};

    fn parts() -> Parts {
        Parts::new(&mig(&[1]))
    }

    #[test]
    fn a_part_goes_where_it_leaves_the_most_places() {
        let parts = parts();
        // Seven of the smallest, then none; the last that goes is one in the way of a larger one.
        let mut taken = 0;
        let mut order = Vec::new();
        while let Some(first) = parts.best(0, 0, taken) {
            taken |= parts.slices(0, 0, first);
            order.push(first);
        }
        assert_eq!(order, [6, 4, 5, 0, 1, 2, 3]);
        assert_eq!(taken, 0b0111_1111);
        // One with half of the GPU leaves the only place of the other half's larger one free.
        assert_eq!(parts.best(0, 3, 0), Some(4));
        assert_eq!(parts.best(0, 4, slices(4, 4)), Some(0));
        assert_eq!(parts.best(0, 4, slices(2, 1)), None);
        assert!(parts.fits(0, 3, slices(2, 1)) && !parts.fits(0, 3, slices(2, 4)));
        assert_eq!(parts.best(0, 9, 0), None);
        assert_eq!(slices(60, 64), 0xf000_0000_0000_0000);
    }

    #[test]
    fn parts_share_gpus_and_whole_gpus_are_for_others() {
        let mut cluster = Cluster::new(&mig(&[3]));
        let part = |part: u32, share_milli: u32| Demand { part: Some(part), share_milli, ..demand(1) };
        let (batch, new) = arrivals(vec![part(3, 500), part(3, 500), part(0, 125), demand(2), part(4, 500)]);
        cluster.take_in(&batch, new);
        let start = |cluster: &mut Cluster, job: u32| {
            let gpus = Placement::Packed.find(cluster, 0, cluster.job(job).ask())?;
            cluster.start(job, gpus);
            match cluster.take_actions().as_slice() {
                [Action::StartPart(StartPart { gpu, slice, .. })] => Some((*gpu, Some(*slice))),
                [Action::Start(start)] => Some((start.gpus[0], None)),
                actions => panic!("{actions:?}"),
            }
        };
        assert_eq!(start(&mut cluster, 0), Some((0, Some(4))));
        assert_eq!(start(&mut cluster, 1), Some((0, Some(0))));
        assert_eq!(start(&mut cluster, 2), Some((1, Some(6))));
        // The two free GPUs are not enough: one has a part taken.
        assert_eq!(start(&mut cluster, 3), None);
        assert_eq!(start(&mut cluster, 4), Some((1, Some(0))));
        cluster.preempt(1);
        cluster.take_actions();
        // A place that a job leaves is found again; the whole GPU still is not free.
        assert_eq!((cluster.free_gpus(0), cluster.residents(0)), (1, &[0][..]));
        cluster.preempt(0);
        cluster.take_actions();
        assert_eq!(start(&mut cluster, 3), Some((0, None)));
        assert_eq!(cluster.free_gpus(0), 0);
    }

    /// What a random sequence of starts and stops leaves is what a look at all jobs says.
    #[test]
    fn the_index_finds_a_place_where_there_is_one() {
        let mut draws = crate::Draws::new(7);
        let shares = [125, 250, 250, 500, 500, 1000];
        for _ in 0..200 {
            let mut cluster = Cluster::new(&mig(&[2, 3]));
            let parts = parts();
            let wanted: Vec<u32> = (0..60).map(|_| draws.below(6) as u32).collect();
            let of = |part: &u32| Demand { part: Some(*part), share_milli: shares[*part as usize], ..demand(1) };
            let (batch, new) = arrivals(wanted.iter().map(of).collect());
            cluster.take_in(&batch, new);
            let mut held: Vec<(u32, u32, u64)> = Vec::new();
            for (job, part) in (0..).zip(wanted) {
                let taken = |gpu: u32| held.iter().filter(|of| of.1 == gpu).fold(0, |all, of| all | of.2);
                let places = |gpu: u32| parts.fits(0, part, taken(gpu));
                let found = Placement::Packed.find(&cluster, 0, cluster.job(job).ask());
                assert_eq!(found.is_some(), (0..5).any(places), "part {part} beside {held:?}");
                if let Some(gpus) = found {
                    // A used GPU comes before an empty one, and of those the one with the least left.
                    let best = (0..5).filter(|gpu| places(*gpu)).map(|gpu| taken(gpu).count_ones()).max();
                    assert_eq!(Some(taken(gpus[0]).count_ones()), best);
                    cluster.start(job, gpus.clone());
                    let Some(Action::StartPart(start)) = cluster.take_actions().pop() else { panic!("no part") };
                    let slices = parts.slices(0, part, start.slice);
                    assert_eq!((start.gpu, slices & taken(gpus[0]), slices == 0), (gpus[0], 0, false));
                    held.push((job, start.gpu, slices));
                }
                if draws.below(2) == 0 && !held.is_empty() {
                    let (job, ..) = held.swap_remove(draws.below(held.len()));
                    cluster.preempt(job);
                    cluster.take_actions();
                }
            }
        }
    }

    #[test]
    fn what_can_not_be_cut_has_no_parts() {
        let parts = Parts::new(&topology(&[1]));
        assert!(!parts.can_cut() && !parts.fits(0, 0, 0));
    }
}
