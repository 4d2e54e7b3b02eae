//! Jobs that hold whole GPUs in a model of a cluster: where they are, and for how long they go on.

use std::cmp::Reverse;

use sandtable_hardware::{Duration, Instant};

use super::jobs::{JobState, StateJob};
use super::model::{HELD_ELSEWHERE, Holder, Modelling, NONE_FOUND, OVER, PUT, seconds};
use crate::trace::Row;

impl<'a> Modelling<'a> {
    /// GPUs that are held by their numbers are not chosen for jobs of which only a count is known.
    pub(super) fn take_named(&mut self, job: &StateJob) {
        for on in &job.on {
            if let Some(at) = self.nodes.get(on.node.as_str()) {
                on.gpus.iter().for_each(|gpu| _ = self.free[*at].remove(gpu));
            }
        }
    }

    /// A job that holds GPUs. What it holds of nodes that take no jobs is nothing that another could have.
    pub(super) fn runs(&mut self, job: &'a StateJob) -> Result<(), String> {
        let mut on = if job.on.is_empty() { self.anywhere(job) } else { Vec::new() };
        for held in &job.on {
            let Some(at) = self.nodes.get(held.node.as_str()).copied() else { continue };
            let gpus: Vec<u32> = match held.gpus.is_empty() {
                false => held.gpus.clone(),
                true => (0..held.count).filter_map(|_| self.free[at].pop_first()).collect(),
            };
            if gpus.len() < held.count as usize {
                return Err(format!(
                    "it holds {} GPUs of node {:?}, which has not so many left",
                    held.count, held.node
                ));
            }
            on.extend(gpus.into_iter().map(|gpu| (at, self.numbered(at, gpu))));
        }
        if on.is_empty() {
            return self.leave_out(if job.on.is_empty() { NONE_FOUND } else { HELD_ELSEWHERE });
        }
        self.notes_of_running(job);
        // What it is given again would be what it asks for, and the model has only a part of it.
        let whole = on.len() == job.gpus as usize;
        if !whole {
            self.count("running jobs of which a part is here, which keep it", 1);
        }
        let (mut row, since, done) = self.running_row(job, &on)?;
        row.preemptible &= whole;
        self.made.holders.push(Holder { job: row.name.to_string(), on, node: None, since, done });
        self.keep(job, row, done);
        Ok(())
    }

    /// A place for a running job of which none is told: on the node that it fills best, or on as few as there are for it.
    fn anywhere(&mut self, job: &StateJob) -> Vec<(usize, u32)> {
        let suits = |node: &usize| {
            let kind = &self.made.nodes[*node].kind;
            job.kinds.is_empty() || job.kinds.contains(kind)
        };
        let free = |node: &usize| self.free[*node].len() as u32;
        let nodes: Vec<usize> = (0..self.free.len()).filter(suits).filter(|node| free(node) > 0).collect();
        let one = nodes.iter().copied().filter(|node| free(node) >= job.gpus).min_by_key(|node| (free(node), *node));
        let mut order = one.map_or(nodes, |node| vec![node]);
        order.sort_by_key(|node| (Reverse(free(node)), *node));
        if order.iter().map(free).sum::<u32>() < job.gpus {
            return Vec::new();
        }
        self.count(PUT, 1);
        let mut on = Vec::new();
        for node in order {
            while on.len() < job.gpus as usize
                && let Some(gpu) = self.free[node].pop_first()
            {
                on.push((node, self.numbered(node, gpu)));
            }
        }
        on
    }

    /// The number of a node's GPU in the model, where those that others hold are not there.
    pub(super) fn numbered(&self, node: usize, gpu: u32) -> u32 {
        gpu - self.taken[node].iter().filter(|other| **other < gpu).count() as u32
    }

    /// Counts how a running job is taken that does not just run.
    pub(super) fn notes_of_running(&mut self, job: &StateJob) {
        match job.state {
            JobState::Suspended => self.count("suspended jobs, which are taken to run", 1),
            JobState::Ending => self.count("jobs that are ending, for a second more", 1),
            _ => {}
        }
    }

    /// A job that runs here, since when, and for how long it has made progress.
    pub(super) fn running_row(&self, job: &StateJob, on: &[(usize, u32)]) -> Result<(Row, Instant, Duration), String> {
        let started = job.started_s.unwrap_or(0.0);
        let done = seconds(job.held_s.unwrap_or(-started).max(0.0));
        let mut row = self.row(job, on.len() as u32, job.submitted_s.unwrap_or(started).min(started));
        // Where it runs it may run.
        row.kinds.retain(|kind| on.iter().all(|(at, _)| self.made.nodes[*at].kind == *kind));
        row.duration = match job.state {
            JobState::Ending => done + OVER,
            _ => {
                let limit = self.limit(job)?;
                row.declared = limit;
                self.takes(limit, done)
            }
        };
        Ok((row, self.instant(started), done))
    }
}
