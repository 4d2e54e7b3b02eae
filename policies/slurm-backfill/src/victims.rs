//! Which running jobs make room for one of a higher tier.

use sandtable_policy::JobId;

use crate::part::{Need, Nodes, Part, Place};

/// A running job that may be preempted, and what it holds of nodes.
pub struct Candidate {
    pub job: JobId,
    pub tier: i64,
    pub on: Vec<(usize, Part)>,
}

/// Who is preempted, and where the job that they make room for goes.
pub type Room = (Vec<Candidate>, Vec<(usize, Part)>);

/// Candidates in the order in which they leave: those of the lowest tier first, and of these those on the fewest nodes.
pub fn in_order(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by_key(|candidate| (candidate.tier, candidate.on.len(), candidate.job));
    candidates
}

/// Room for a job of a tier: candidates of lower ones leave one after the other until there is a place; those that hold nothing there stay, and the others
/// are candidates no more.
pub fn room(
    mut free: Nodes,
    (need, tier): (&Need, i64),
    place: Place,
    candidates: &mut Vec<Candidate>,
) -> Option<Room> {
    for last in 0..candidates.partition_point(|candidate| candidate.tier < tier) {
        free.give_back(&candidates[last].on);
        let Some(on) = free.find(need, place) else { continue };
        let is_there =
            |candidate: &Candidate| candidate.on.iter().any(|(node, _)| on.iter().any(|(there, _)| there == node));
        let victims = candidates.extract_if(..=last, |candidate| is_there(candidate)).collect();
        return Some((victims, on));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_on_the_fewest_nodes_leave_first_and_only_where_they_are_in_the_way() {
        let free =
            || Nodes { free: [0, 1, 2].map(Part::bare).to_vec(), all: vec![Part::bare(4); 3], types: vec![0; 3] };
        let need = |nodes, each| Need { nodes, each: Part::gpus(each), rest: Part::default(), types: vec![0] };
        let candidates = || {
            let parts = |on: &[(usize, u32)]| on.iter().map(|(node, gpus)| (*node, Part::gpus(*gpus))).collect();
            let of = |job, on| Candidate { job, tier: 0, on: parts(on) };
            in_order(vec![of(1, &[(0, 4), (1, 3)]), of(2, &[(2, 1)]), of(3, &[(2, 1)])])
        };
        let who = |free: Nodes, need: Need| {
            let mut all = candidates();
            let (victims, on) = room(free, (&need, 1), Place::Neighbours, &mut all)?;
            assert_eq!(victims.len() + all.len(), 3);
            let on = on.iter().map(|(node, part)| (*node, part.gpus)).collect::<Vec<_>>();
            Some((victims.iter().map(|victim| victim.job).collect::<Vec<JobId>>(), on))
        };
        assert_eq!(who(free(), need(1, 4)), Some((vec![2, 3], vec![(2, 4)])));
        // Two leave for nothing, and go on.
        assert_eq!(who(free(), need(2, 4)), Some((vec![1], vec![(0, 4), (1, 4)])));
        assert_eq!(who(free(), need(1, 5)), None);
        // What another job waits for is left out.
        let mut less = free();
        less.all[2] = Part::default();
        assert_eq!(who(less, need(1, 4)), Some((vec![1], vec![(0, 4)])));
    }

    #[test]
    fn jobs_of_the_lowest_tier_leave_first_and_none_of_the_same() {
        let free = || Nodes { free: vec![Part::bare(0); 3], all: vec![Part::bare(4); 3], types: vec![0; 3] };
        let candidates = || {
            let of = |job, tier, node| Candidate { job, tier, on: vec![(node, Part::gpus(4))] };
            in_order(vec![of(1, 5, 0), of(2, 1, 1), of(3, 9, 2)])
        };
        let need = |nodes| Need { nodes, each: Part::gpus(4), rest: Part::default(), types: vec![0] };
        let who = |tier, nodes| {
            let (victims, _) = room(free(), (&need(nodes), tier), Place::Neighbours, &mut candidates())?;
            Some(victims.iter().map(|victim| victim.job).collect::<Vec<JobId>>())
        };
        assert_eq!((who(9, 1), who(9, 2), who(9, 3)), (Some(vec![2]), Some(vec![2, 1]), None));
        assert_eq!((who(5, 1), who(5, 2), who(1, 1)), (Some(vec![2]), None, None));
    }
}
