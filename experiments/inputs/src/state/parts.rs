//! Parts of GPUs in a model of a cluster: jobs that run have their part of one GPU each, and those that wait ask for a part of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sandtable_hardware::Job;

use super::document::State;
use super::jobs::{JobState, On, StateJob};
use super::model::{HELD_ELSEWHERE, Holder, Modelled, Modelling, NONE_FOUND, PUT};

/// Parts that are on no GPU of the model.
const NO_PLACE: &str = "parts of GPUs that find no room on their node";

impl StateJob {
    /// Thousandths of a GPU, where it has or asks for a part of one.
    pub fn share(&self) -> Option<u32> {
        let said = self.share_milli.or_else(|| self.on.iter().find_map(|on| on.milli));
        said.map(|share| share.max(1)).filter(|share| *share < Job::WHOLE)
    }

    /// Thousandths of each of these GPUs, where it has a part of them. Where it is said of some what it has of them, it has all of the others.
    pub(super) fn share_of(&self, on: &On) -> Option<u32> {
        let share = self.share()?;
        let said = self.on.iter().any(|on| on.milli.is_some());
        let own = if said { on.milli } else { Some(share) };
        own.map(|own| own.max(1)).filter(|own| *own < Job::WHOLE)
    }
}

impl State {
    /// Whether jobs have or ask for parts of GPUs.
    pub fn knows_parts(&self) -> bool {
        let live = |job: &&StateJob| job.state != JobState::Ended && job.gpus > 0;
        self.jobs.iter().filter(live).any(|job| job.share().is_some())
    }
}

impl Modelled {
    /// Jobs that run and jobs that wait.
    pub fn counts(&self) -> (usize, usize) {
        let parts = self.known.values().filter(|known| known.part_of.is_some()).count();
        (self.holders.len() - parts, self.rows.len() - self.holders.len())
    }
}

impl<'a> Modelling<'a> {
    /// Gives parts of which only the node is known their GPUs: those that are the fullest and have room, the largest parts first. Those
    /// who hold whole GPUs of which only a count is known are left as many.
    pub(super) fn take_parts(&mut self, jobs: impl Iterator<Item = &'a StateJob>) {
        let mut kept: BTreeMap<usize, u32> = BTreeMap::new();
        let mut left: Vec<(u32, (&'a str, usize), usize, u32)> = Vec::new();
        for (job, (place, on)) in jobs.flat_map(|job| job.on.iter().enumerate().map(move |on| (job, on))) {
            let Some(node) = self.nodes.get(on.node.as_str()).copied() else { continue };
            match job.share_of(on) {
                None if on.gpus.is_empty() => *kept.entry(node).or_default() += on.count,
                None => {}
                Some(share) if on.gpus.is_empty() => left.push((share, (&job.id, place), node, on.count)),
                Some(share) => on.gpus.iter().for_each(|gpu| *self.used.entry((node, *gpu)).or_default() += share),
            }
        }
        left.sort_by_key(|(share, of, ..)| (Reverse(*share), *of));
        for (share, of, node, count) in left {
            let mut gpus: Vec<u32> = Vec::new();
            let kept = kept.get(&node).copied().unwrap_or(0) as usize;
            for _ in 0..count {
                let Some(gpu) = self.fullest(node, share, &gpus).or_else(|| self.opened(node, kept)) else { break };
                *self.used.entry((node, gpu)).or_default() += share;
                gpus.push(gpu);
            }
            self.parts.insert(of, gpus);
        }
    }

    /// The GPU of a node that is the fullest of those on which jobs have parts, and has room for one more, but for these.
    fn fullest(&self, node: usize, share: u32, but: &[u32]) -> Option<u32> {
        let there = self.used.range((node, 0)..=(node, u32::MAX));
        let fits = there.filter(|((_, gpu), used)| **used + share <= Job::WHOLE && !but.contains(gpu));
        fits.max_by_key(|((_, gpu), used)| (**used, Reverse(*gpu))).map(|((_, gpu), _)| *gpu)
    }

    /// A GPU of a node of which no job holds anything, if more than `kept` are left.
    fn opened(&mut self, node: usize, kept: usize) -> Option<u32> {
        (self.free[node].len() > kept).then(|| self.free[node].pop_first()).flatten()
    }

    /// Places for the parts of a running job of which none is told: where others have parts already, else on the node with the fewest free GPUs.
    fn parts_anywhere(&mut self, job: &StateJob, share: u32) -> Vec<(usize, u32, u32)> {
        let mut found: Vec<(usize, u32, u32)> = Vec::new();
        for _ in 0..job.gpus {
            let suits = |node: &usize| job.kinds.is_empty() || job.kinds.contains(&self.made.nodes[*node].kind);
            let nodes: Vec<usize> = (0..self.free.len()).filter(suits).collect();
            let but = |node: usize| found.iter().filter(|of| of.0 == node).map(|of| of.1).collect::<Vec<u32>>();
            let shared = nodes.iter().find_map(|node| Some((*node, self.fullest(*node, share, &but(*node))?)));
            let free = |node: &&usize| (self.free[**node].len(), **node);
            let emptiest = nodes.iter().filter(|node| !self.free[**node].is_empty()).min_by_key(free).copied();
            let place = shared.or_else(|| emptiest.and_then(|node| Some((node, self.opened(node, 0)?))));
            let Some((node, gpu)) = place else { return Vec::new() };
            *self.used.entry((node, gpu)).or_default() += share;
            found.push((node, gpu, share));
        }
        self.count(PUT, 1);
        found
    }

    /// A running job that has parts of GPUs: each is a job of the model that goes on until the job ends.
    pub(super) fn runs_in_parts(&mut self, job: &'a StateJob) -> Result<(), String> {
        let mut parts = match job.share() {
            Some(share) if job.on.is_empty() => self.parts_anywhere(job, share),
            _ => Vec::new(),
        };
        let mut lost = 0;
        for (place, on) in job.on.iter().enumerate() {
            let Some(node) = self.nodes.get(on.node.as_str()).copied() else { continue };
            let share = job.share_of(on);
            let gpus: Vec<u32> = match share {
                _ if !on.gpus.is_empty() => on.gpus.clone(),
                Some(_) => self.parts.get(&(job.id.as_str(), place)).cloned().unwrap_or_default(),
                None => (0..on.count).map_while(|_| self.free[node].pop_first()).collect(),
            };
            lost += on.count - gpus.len() as u32;
            parts.extend(gpus.into_iter().map(|gpu| (node, gpu, share.unwrap_or(Job::WHOLE))));
        }
        self.count(NO_PLACE, lost);
        if parts.is_empty() {
            return self.leave_out(if job.on.is_empty() { NONE_FOUND } else { HELD_ELSEWHERE });
        }
        self.notes_of_running(job);
        let (whole, all) = (job.gpus == 1, parts.len());
        self.count("running jobs with parts of several GPUs, which keep them", u32::from(!whole));
        for (number, (node, gpu, share)) in parts.into_iter().enumerate() {
            let on = vec![(node, self.numbered(node, gpu))];
            let (mut row, since, done) = self.running_row(job, &on)?;
            if number > 0 {
                row.name = self.unlike_others(format!("{}@{}", job.id, number + 1)).into();
            }
            (row.share, row.gpus_per_node) = (share, 0);
            row.preemptible &= whole && all == 1;
            let name = row.name.to_string();
            self.made.holders.push(Holder { job: name.clone(), on, node: None, since, done });
            self.keep(job, row, done);
            if let Some(known) = self.made.known.get_mut(&name).filter(|_| number > 0) {
                known.part_of = Some(job.id.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::state::{Modelled, RunTimes, of_bytes};

    fn modelled(jobs: &Value) -> Result<Modelled, String> {
        let document = json!({"sandtable": "state@1", "at": "2026-11-20T00:00:00Z", "source": {"kind": "kai"},
            "nodes": [{"name": "a", "gpus": 3, "state": "up"}], "queues": [], "reservations": [], "unknown": [],
            "ignored": [], "jobs": jobs});
        let state = of_bytes("s.json".as_ref(), document.to_string().as_bytes()).map_err(|error| error.message)?;
        assert_eq!(state.knows_parts(), jobs.to_string().contains("milli"));
        state.modelled(RunTimes { of_limit: 1.0, otherwise: None, without_limits: true })
    }

    fn runs(id: &str, milli: u32, gpus: &[u32]) -> Value {
        json!({"id": id, "state": "running", "gpus": 1, "share_milli": milli, "started_s": -60,
            "on": [{"node": "a", "count": 1, "gpus": gpus, "milli": milli}]})
    }

    /// The GPU of each job that runs, and the part that it has.
    fn places(of: &Modelled) -> Vec<(&str, u32, u32)> {
        let share = |name: &str| of.rows.iter().find(|row| row.name == name).map_or(0, |row| row.share);
        let mut all: Vec<(&str, u32, u32)> =
            of.holders.iter().map(|holder| (holder.job.as_str(), holder.on[0].1, share(&holder.job))).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn parts_lie_together_the_largest_first_and_leave_whole_gpus_to_others() {
        let whole =
            json!({"id": "whole", "state": "running", "gpus": 1, "started_s": -60, "on": [{"node": "a", "count": 1}]});
        let waits = json!({"id": "waits", "state": "waiting", "gpus": 1, "share_milli": 250, "submitted_s": -9});
        // One by one in this order they would take three GPUs.
        let jobs =
            json!([runs("a", 400, &[]), runs("b", 400, &[]), runs("c", 600, &[]), runs("d", 600, &[]), whole, waits]);
        let of = modelled(&jobs).expect("modelled");
        let expected = [("a", 0, 400), ("b", 1, 400), ("c", 0, 600), ("d", 1, 600), ("whole", 2, 1000)];
        assert_eq!((places(&of), of.counts()), (expected.to_vec(), (5, 1)));
        assert_eq!(of.rows.iter().find(|row| row.name == "waits").map(|row| row.share), Some(250));
    }

    #[test]
    fn parts_whose_gpus_are_named_are_there() {
        let of = modelled(&json!([runs("a", 500, &[2]), runs("b", 500, &[]), runs("c", 700, &[])])).expect("modelled");
        assert_eq!(places(&of), [("a", 2, 500), ("b", 2, 500), ("c", 0, 700)]);
        let why = modelled(&json!([runs("a", 500, &[2]), runs("b", 700, &[2])])).expect_err("too much");
        assert_eq!(why, "s.json: job \"b\": GPU 2 of node \"a\" has 1000 thousandths, and jobs hold 1200");
    }

    #[test]
    fn whole_gpus_beside_a_part_are_whole_and_a_part_without_a_place_has_one() {
        let both = json!({"id": "b", "state": "running", "gpus": 2, "started_s": -60,
            "on": [{"node": "a", "count": 1}, {"node": "a", "count": 1, "milli": 500}]});
        let lost = json!({"id": "l", "state": "running", "gpus": 1, "share_milli": 500, "started_s": -60});
        let of = modelled(&json!([lost, both])).expect("modelled");
        assert_eq!(places(&of), [("b", 1, 1000), ("b@2", 0, 500), ("l", 0, 500)]);
        assert_eq!(of.not_modelled[crate::state::model::PUT], 1);
        let many =
            |count: u32| json!({"id": "m", "state": "running", "gpus": count, "share_milli": 600, "started_s": -60});
        assert_eq!(
            places(&modelled(&json!([many(3)])).expect("modelled")),
            [("m", 0, 600), ("m@2", 1, 600), ("m@3", 2, 600)]
        );
        let of = modelled(&json!([many(4)])).expect("modelled");
        assert_eq!((of.holders.len(), of.not_modelled[crate::state::model::NONE_FOUND]), (0, 1));
    }

    #[test]
    fn parts_of_several_gpus_stay_as_they_are_or_are_left_out() {
        let gang = json!({"id": "g", "state": "running", "gpus": 2, "share_milli": 300, "started_s": -60,
            "on": [{"node": "a", "count": 2, "milli": 300}]});
        let waits = json!({"id": "w", "state": "waiting", "gpus": 2, "share_milli": 300, "submitted_s": -9});
        let of = modelled(&json!([gang, waits])).expect("modelled");
        assert_eq!(places(&of), [("g", 0, 300), ("g@2", 1, 300)]);
        assert_eq!((of.counts(), of.not_modelled[crate::state::model::OF_SEVERAL]), ((1, 0), 1));
        assert!(of.rows.iter().all(|row| !row.preemptible));
    }
}
