//! Jobs that ask for no GPU, and the CPU that jobs have of nodes.

use std::collections::BTreeMap;

use sandtable_hardware::{JobId, NodeId};

use super::{AccountingError, Ledger};

impl Ledger {
    /// A job that asks for no GPU is given a node.
    ///
    /// # Errors
    /// None: nothing is promised to another.
    pub(crate) fn put(&mut self, job: JobId, node: NodeId) -> Result<(), AccountingError> {
        self.cpu_jobs.insert(job, node);
        self.given(job, &[])
    }

    /// The node that a job which asks for no GPU is on, or was on last.
    pub fn cpu_node(&self, job: JobId) -> Option<NodeId> {
        self.cpu_jobs.get(&job).copied()
    }

    /// A job has the CPU of nodes that goes with what it was given.
    pub(super) fn hold_cpu(&mut self, job: JobId) {
        let mut nodes: BTreeMap<NodeId, u32> = BTreeMap::new();
        for gpu in &self.rows[job].last_gpus {
            *nodes.entry(self.node_of[*gpu]).or_default() += 1;
        }
        let without = self.cpu_node(job);
        self.fragments.hold(job, &nodes, without);
    }
}
