//! CPU and memory of nodes in a model of a cluster: there where both nodes and jobs say them, or left out.

use std::collections::BTreeSet;

use compact_str::CompactString;
use sandtable_hardware::HostResources;

use super::dependencies::Dependent;
use super::document::State;
use super::jobs::{JobState, StateJob};
use super::model::{Holder, KnownJob, Modelled, Modelling, OVER, WAITS_FOR_OTHERS, WITHOUT_GPUS, seconds};
use crate::trace::Row;

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
        self.leave_out_without_gpus(|_| true);
        self.rows.iter_mut().filter(|row| !row.host.is_unknown()).for_each(|row| row.host = HostResources::UNKNOWN);
        self.nodes.iter_mut().for_each(|node| node.host = HostResources::UNKNOWN);
        self
    }
}

impl Modelled {
    /// Leaves out jobs without GPUs that have no time limit, of which it is not known either how long they take.
    pub fn leave_out_endless(&mut self, is_known: impl Fn(&str) -> bool) {
        let known = &self.known;
        let is_endless = |row: &Row| {
            let of = known.get(row.name.as_str());
            let is_over = of.is_some_and(|of| of.ends);
            row.declared.is_none() && !is_over && !is_known(of.map_or(&row.name, |of| of.id(row)))
        };
        let endless: BTreeSet<CompactString> =
            self.rows.iter().filter(|row| is_endless(row)).map(|row| row.name.clone()).collect();
        self.leave_out_without_gpus(|row| endless.contains(&row.name));
    }

    /// Leaves out jobs without GPUs, and what waits for them.
    fn leave_out_without_gpus(&mut self, which: impl Fn(&Row) -> bool) {
        let rows = self.rows.iter().filter(|row| row.gpus == 0 && which(row));
        let mut gone: BTreeSet<String> = rows.map(|row| row.name.to_string()).collect();
        if gone.is_empty() {
            return;
        }
        let whole = gone.iter().filter(|name| self.known.get(*name).is_some_and(|of| of.part_of.is_none())).count();
        *self.not_modelled.entry(WITHOUT_GPUS.into()).or_default() += whole as u32;
        loop {
            let waits_for_ever = |waits: &&Dependent| {
                let mut until = waits.all.iter().map(|until| gone.contains(&until.job));
                !gone.contains(&waits.job) && if waits.any { until.all(|gone| gone) } else { until.any(|gone| gone) }
            };
            let more: Vec<String> = self.after.iter().filter(waits_for_ever).map(|waits| waits.job.clone()).collect();
            if more.is_empty() {
                break;
            }
            *self.not_modelled.entry(WAITS_FOR_OTHERS.into()).or_default() += more.len() as u32;
            gone.extend(more);
        }
        self.after.retain(|waits| !gone.contains(&waits.job));
        self.after.iter_mut().for_each(|waits| waits.all.retain(|until| !gone.contains(&until.job)));
        self.rows.retain(|row| !gone.contains(row.name.as_str()));
        self.holders.retain(|holder| !gone.contains(&holder.job));
        self.known.retain(|name, _| !gone.contains(name));
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
    /// A job that has no GPU and runs: it has CPU and memory of nodes until it ends. On several nodes it is one of the model on each.
    pub(super) fn without_gpus(&mut self, job: &StateJob) -> Result<(), String> {
        let runs = matches!(job.state, JobState::Running | JobState::Ending);
        let on: BTreeSet<&str> = job.on.iter().map(|on| on.node.as_str()).collect();
        let parts = on.len().max(1) as f64;
        let host = self.host(job.cpus.map(|all| all / parts), job.ram_mib.map(|all| all / parts));
        let there = on.into_iter().filter_map(|node| Some((node, *self.nodes.get(node)?)));
        let there: Vec<(&str, usize)> = there.filter(|_| runs && !host.is_unknown()).collect();
        if there.is_empty() {
            return self.leave_out(WITHOUT_GPUS);
        }
        let started = job.started_s.unwrap_or(0.0);
        let (since, done) = (self.instant(started), seconds(job.held_s.unwrap_or(-started).max(0.0)));
        // One that may run for ever is no reason to ask for a limit.
        let Ok(limit) = self.limit(job) else { return self.leave_out(WITHOUT_GPUS) };
        for (number, (node, at)) in there.into_iter().enumerate() {
            let mut row = self.row(job, 0, job.submitted_s.unwrap_or(started).min(started));
            if number > 0 {
                row.name = self.unlike_others(format!("{}@{node}", job.id)).into();
            }
            (row.host, row.preemptible, row.kinds) = (host, false, Vec::new());
            let ends = job.state == JobState::Ending;
            (row.declared, row.duration) = (limit, if ends { done + OVER } else { self.takes(limit, done) });
            self.made.holders.push(Holder { job: row.name.to_string(), on: Vec::new(), node: Some(at), since, done });
            let name = row.name.to_string();
            self.keep(job, row, done);
            if let Some(known) = self.made.known.get_mut(&name).filter(|_| number > 0) {
                known.part_of = Some(job.id.clone());
            }
        }
        Ok(())
    }

    /// A name that no job of the document has.
    pub(super) fn unlike_others(&self, mut name: String) -> String {
        while self.state.jobs.iter().any(|job| job.id == name) {
            name.push('+');
        }
        name
    }
}

impl KnownJob {
    /// The job of the document that a row is of.
    pub fn id<'a>(&'a self, row: &'a Row) -> &'a str {
        self.part_of.as_deref().unwrap_or(row.name.as_str())
    }
}
