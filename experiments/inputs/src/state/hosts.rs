//! CPU and memory of nodes in a model of a cluster: there where both nodes and jobs say them, or left out.

use sandtable_hardware::HostResources;

use super::document::State;
use super::model::Modelled;

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
