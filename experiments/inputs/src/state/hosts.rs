//! CPU and memory of nodes in a model of a cluster: there where both nodes and jobs say them, or left out.

use sandtable_hardware::HostResources;

use super::document::State;
use super::jobs::{JobState, StateJob};
use super::model::{Holder, Modelled, Modelling, OVER, WITHOUT_GPUS, seconds};

/// The jobs that are not modelled as they are where CPU and memory are left out.
const HOSTS: &str = "jobs that ask for CPUs or memory of nodes";

impl Modelled {
    /// Whether jobs ask for CPU or memory that a node says how much it has of.
    fn knows_hosts(&self) -> bool {
        let both = |of: &dyn Fn(HostResources) -> u32| {
            self.nodes.iter().any(|node| of(node.host) > 0) && self.rows.iter().any(|row| of(row.host) > 0)
        };
        both(&|host| host.cpu_milli) || both(&|host| host.memory_mib)
    }

    /// Leaves CPU and memory out.
    #[must_use]
    pub fn without_hosts(mut self) -> Modelled {
        let asked = self.rows.iter().filter(|row| !row.host.is_unknown()).count() as u32;
        if self.knows_hosts() {
            self.not_modelled.insert(HOSTS.into(), asked);
        }
        let without = self.rows.iter().filter(|row| row.gpus == 0).count() as u32;
        if without > 0 {
            *self.not_modelled.entry(WITHOUT_GPUS.into()).or_default() += without;
            self.rows.iter().filter(|row| row.gpus == 0).for_each(|row| drop(self.known.remove(row.name.as_str())));
            self.rows.retain(|row| row.gpus > 0);
            self.holders.retain(|holder| holder.node.is_none());
        }
        self.rows.iter_mut().filter(|row| !row.host.is_unknown()).for_each(|row| row.host = HostResources::UNKNOWN);
        self.nodes.iter_mut().for_each(|node| node.host = HostResources::UNKNOWN);
        self
    }
}

impl State {
    /// Whether jobs with GPUs ask for CPU or memory that a node with GPUs says how much it has of, and the cluster gives jobs their own.
    pub fn knows_hosts(&self) -> bool {
        let counts = self.source.scheduler.as_ref().and_then(|of| of.counts_cpus).unwrap_or(true);
        let (nodes, jobs) =
            (|| self.nodes.iter().filter(|of| of.gpus > 0), || self.jobs.iter().filter(|of| of.gpus > 0));
        let cpus = nodes().any(|of| of.cpus > Some(0)) && jobs().any(|of| of.cpus > Some(0.0));
        let memory = nodes().any(|of| of.ram_mib > Some(0)) && jobs().any(|of| of.ram_mib > Some(0.0));
        counts && cpus || memory
    }
}

impl Modelling<'_> {
    /// A job that has no GPU: where it runs it has CPU and memory of nodes until it ends; no policy starts one that waits. On several nodes it is one of the model on each.
    pub(super) fn without_gpus(&mut self, job: &StateJob) -> Result<(), String> {
        let runs = matches!(job.state, JobState::Running | JobState::Ending);
        let parts = job.on.len().max(1) as f64;
        let host = self.host(job.cpus.map(|all| all / parts), job.ram_mib.map(|all| all / parts));
        let there = job.on.iter().filter_map(|on| Some((on.node.as_str(), *self.nodes.get(on.node.as_str())?)));
        let there: Vec<(&str, usize)> = there.filter(|_| runs && !host.is_unknown()).collect();
        if there.is_empty() {
            return self.leave_out(WITHOUT_GPUS);
        }
        let started = job.started_s.unwrap_or(0.0);
        let (since, done) = (self.instant(started), seconds(job.held_s.unwrap_or(-started).max(0.0)));
        // One that may run for ever is no reason to ask for a limit.
        let Ok(limit) = self.limit(job) else { return self.leave_out(WITHOUT_GPUS) };
        for (name, at) in there {
            let mut row = self.row(job, 0, job.submitted_s.unwrap_or(started).min(started));
            if job.on.len() > 1 {
                row.name = format!("{}@{name}", job.id).into();
            }
            (row.host, row.preemptible, row.kinds) = (host, false, Vec::new());
            let ends = job.state == JobState::Ending;
            (row.declared, row.duration) = (limit, if ends { done + OVER } else { self.takes(limit, done) });
            self.made.holders.push(Holder { job: row.name.to_string(), on: Vec::new(), node: Some(at), since, done });
            self.keep(job, row, done);
        }
        Ok(())
    }
}
