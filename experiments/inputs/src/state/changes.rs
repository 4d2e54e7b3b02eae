//! What would be otherwise: changes to a cluster's state, of which a user asks what would become of it.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_core::text::nearest;
use sandtable_core::units::{Bytes, Span};
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::check;
use super::dependencies::Others;
use super::document::{Drain, NodeState, Preempts, QueueKind, QueuePreempts, State, StateNode};
use super::jobs::{After, AfterWhen, JobState, Shape, StateJob};

/// A change to a cluster's state. Times are counted from its instant.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub enum Change {
    /// There is a job more, which waits.
    Add {
        /// What it is called.
        name: String,
        /// GPUs of its gang.
        gpus: u32,
        /// GPUs on each of its nodes; by default they are split over nodes in any way.
        #[serde(default)]
        gpus_per_node: Option<u32>,
        /// Its time limit.
        #[serde(default)]
        limit: Option<Span>,
        /// When it is submitted; at once by default.
        #[serde(default)]
        at: Option<Span>,
        /// Its user.
        #[serde(default)]
        user: Option<String>,
        /// Its account.
        #[serde(default)]
        account: Option<String>,
        /// Its queue, or partition.
        #[serde(default)]
        queue: Option<String>,
        /// Kinds of GPU that it may run on; any by default.
        #[serde(default)]
        kinds: Vec<String>,
        /// Its priority, as the cluster counts it.
        #[serde(default)]
        priority: Option<f64>,
        /// CPU cores that it takes of its nodes in all.
        #[serde(default)]
        cpus: Option<f64>,
        /// Memory that it takes of its nodes in all.
        #[serde(default)]
        host_memory: Option<Bytes>,
    },
    /// There are nodes more, after the others: their CPU and memory are those of the first node that has as many GPUs of their kind.
    AddNodes {
        /// How many.
        nodes: u32,
        /// GPUs of each.
        gpus: u32,
        /// Their kind; that of the first node by default.
        #[serde(default)]
        kind: Option<String>,
    },
    /// A node takes no jobs; those that run there go on.
    Drain {
        /// Its name.
        node: String,
        /// From then on; at once by default.
        #[serde(default)]
        from: Option<Span>,
        /// Until then; for good by default.
        #[serde(default)]
        to: Option<Span>,
    },
    /// A node takes jobs again that did not.
    Resume(String),
    /// A job that waits is held.
    Hold(String),
    /// A job that is held waits.
    Release(String),
    /// A job is gone, and what it held is free.
    Kill(String),
    /// A job has another priority, as the cluster counts it.
    Priority(String, f64),
    /// A queue has another limit: most GPUs that its jobs hold together, at least 1. It matters where GPUs are shared out among queues.
    Limit(String, u32),
}

impl State {
    /// The state with these changes, one after the other.
    ///
    /// # Errors
    /// A change of what is not there, or that contradicts what is.
    pub fn changed(mut self, changes: &[Change]) -> Result<State, String> {
        // What runs on the model's clock stays at its instants.
        self.clock_from = Some(self.instant());
        for change in changes {
            self.change(change)?;
        }
        check(&self)?;
        Ok(self)
    }

    fn change(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Add { queue, .. } => {
                let job = self.in_queue(added(change)?, queue.as_deref())?;
                self.jobs.push(job);
            }
            Change::AddNodes { nodes, gpus, kind } => self.add_nodes(*nodes, *gpus, kind.as_ref())?,
            Change::Drain { node, from, to } => {
                let (from_s, to_s) = (from.map_or(0.0, seconds), to.map(seconds));
                if to_s.is_some_and(|to| to <= from_s) {
                    return Err(format!("node {node:?}: expected an end of the drain after its beginning"));
                }
                let found = self.node(node)?;
                // Of a node that takes no jobs already, the end is said.
                let closed = found.state != NodeState::Up;
                let from_s = if closed { 0.0 } else { from_s };
                if closed && to_s.is_some() {
                    found.state = NodeState::Up;
                }
                self.drains.push(Drain { node: node.clone(), from_s, to_s });
            }
            Change::Resume(node) => {
                self.node(node)?.state = NodeState::Up;
                self.drains.retain(|drain| drain.node != *node);
            }
            Change::Hold(job) => {
                let found = self.job(job)?;
                if !found.on.is_empty()
                    || !matches!(
                        found.state,
                        JobState::Waiting | JobState::NotBefore | JobState::Dependent | JobState::Held
                    )
                {
                    return Err(format!("job {job:?} does not wait: only one that waits is held"));
                }
                found.state = JobState::Held;
            }
            Change::Release(job) => self.release(job)?,
            Change::Kill(job) => self.kill(job)?,
            Change::Limit(queue, gpus) => self.limit(queue, *gpus)?,
            Change::Priority(job, priority) if priority.is_finite() => self.job(job)?.priority = Some(*priority),
            Change::Priority(job, priority) => {
                return Err(format!("job {job:?}: expected a number as its priority, found {priority}"));
            }
        }
        Ok(())
    }

    fn add_nodes(&mut self, nodes: u32, gpus: u32, kind: Option<&String>) -> Result<(), String> {
        if nodes == 0 || nodes > 1_000_000 || gpus == 0 {
            return Err(format!("expected 1 to 1000000 nodes of at least 1 GPU, found {nodes} of {gpus}"));
        }
        let kind = kind.cloned().or_else(|| self.nodes.iter().find_map(|node| node.kind.clone()));
        let known: BTreeSet<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let names = (1..).map(|at| format!("added-{at}")).filter(|name| !known.contains(name.as_str()));
        let names: Vec<String> = names.take(nodes as usize).collect();
        // Jobs of every queue may be there.
        let queues: Vec<String> = match self.nodes.iter().all(|node| node.queues.is_empty()) {
            true => Vec::new(),
            false => self.queues.iter().map(|queue| queue.name.clone()).collect(),
        };
        let alike = self.nodes.iter().find(|node| (node.gpus, &node.kind) == (gpus, &kind));
        let (cpus, ram_mib) = alike.map_or((None, None), |node| (node.cpus, node.ram_mib));
        let node = |name| StateNode {
            name,
            gpus,
            kind: kind.clone(),
            cpus,
            ram_mib,
            queues: queues.clone(),
            ..StateNode::default()
        };
        self.nodes.extend(names.into_iter().map(node));
        Ok(())
    }

    fn kill(&mut self, job: &str) -> Result<(), String> {
        let gone = self.job(job)?.clone();
        self.jobs.retain(|known| known.id != job);
        self.frees_its_name(&gone);
        // What waited for its end, however it came, has it.
        for waiting in &mut self.jobs {
            let met = |after: &After| after.job == job && after.when == AfterWhen::Ended;
            if !waiting.after.iter().any(met) {
                continue;
            }
            let any = waiting.after.iter().any(|after| after.any == Some(true));
            waiting.after.retain(|after| !any && !met(after));
            if waiting.state == JobState::Dependent && waiting.after.is_empty() {
                waiting.state = JobState::Waiting;
            }
        }
        Ok(())
    }

    /// Jobs of its name that wait to run alone of it, and waited for none but this, wait for none.
    fn frees_its_name(&mut self, gone: &StateJob) {
        let is_alike = |of: &&StateJob| (&of.name, &of.user) == (&gone.name, &gone.user);
        let others = Others::of(self);
        let alone = self.jobs.iter().filter(|of| of.single == Some(true)).filter(is_alike);
        let free: BTreeSet<String> =
            alone.filter(|of| others.of_its_name(of).is_empty()).map(|of| of.id.clone()).collect();
        for job in self.jobs.iter_mut().filter(|of| free.contains(&of.id)) {
            job.single = None;
            if job.state == JobState::Dependent && job.after.is_empty() {
                job.state = JobState::Waiting;
            }
        }
    }

    fn release(&mut self, job: &str) -> Result<(), String> {
        let found = self.job(job)?.clone();
        if found.state != JobState::Held {
            return Err(format!("job {job:?} is not held: only one that is held is released"));
        }
        let alone = found.single == Some(true) && !Others::of(self).of_its_name(&found).is_empty();
        let released = self.job(job)?;
        released.single = alone.then_some(true);
        released.state = match (found.after.is_empty() && !alone, found.not_before_s) {
            (false, _) => JobState::Dependent,
            (true, Some(at)) if at > 0.0 => JobState::NotBefore,
            _ => JobState::Waiting,
        };
        Ok(())
    }

    fn limit(&mut self, queue: &str, gpus: u32) -> Result<(), String> {
        if gpus == 0 {
            return Err(format!("queue {queue:?}: expected a limit of at least 1 GPU, found 0"));
        }
        let Some(at) = self.queues.iter().position(|known| known.name == queue) else {
            let near = nearest(queue, self.queues.iter().map(|known| known.name.as_str()));
            return Err(format!("no queue {queue:?}{}", suggested(near)));
        };
        if let (QueueKind::LocalQueue, Some(parent)) = (self.queues[at].kind, &self.queues[at].parent) {
            return Err(format!("queue {queue:?} has no limit of its own: its jobs are in {parent:?}"));
        }
        self.queues[at].limit = BTreeMap::from([("*".into(), f64::from(gpus))]);
        Ok(())
    }

    fn node(&mut self, name: &str) -> Result<&mut StateNode, String> {
        let there = self.nodes.iter().position(|node| node.name == name);
        let Some(at) = there else {
            let near = nearest(name, self.nodes.iter().map(|node| node.name.as_str()));
            return Err(format!("no node {name:?}{}", suggested(near)));
        };
        Ok(&mut self.nodes[at])
    }

    fn job(&mut self, id: &str) -> Result<&mut StateJob, String> {
        let there = self.jobs.iter().position(|job| job.id == id);
        let Some(at) = there else {
            let near = nearest(id, self.jobs.iter().map(|job| job.id.as_str()));
            return Err(format!("no job {id:?}{}", suggested(near)));
        };
        Ok(&mut self.jobs[at])
    }

    /// A job that is added, in its queue.
    fn in_queue(&self, mut job: StateJob, name: Option<&str>) -> Result<StateJob, String> {
        let Some(name) = name else { return Ok(job) };
        let Some(queue) = self.queues.iter().find(|queue| queue.name == name) else {
            let names: Vec<&str> = self.queues.iter().map(|queue| queue.name.as_str()).collect();
            let near = nearest(name, names.iter().copied());
            let known = || match names.is_empty() {
                true => ", there are none".to_string(),
                false => format!(": expected one of {}", names.join(", ")),
            };
            return Err(format!(
                "job {:?}: no queue {name:?}{}",
                job.id,
                near.map_or_else(known, |near| suggested(Some(near)))
            ));
        };
        if let (Some(limit), Some(most)) = (job.limit_s, queue.most_s)
            && limit > most
        {
            return Err(format!("job {:?}: expected a limit of at most {most} s in {name:?}, found {limit} s", job.id));
        }
        let (names, by) = match queue.kind {
            QueueKind::Qos => (&mut job.charges, Preempts::Qos),
            _ => (&mut job.queues, Preempts::Tier),
        };
        names.push(queue.name.clone());
        let preempts = self.source.scheduler.as_ref().and_then(|of| of.preempts) == Some(by);
        let is_named = || self.queues.iter().any(|of| of.preempts.contains(&queue.name));
        job.preemptible =
            preempts.then(|| queue.preempt.is_some_and(QueuePreempts::frees) && (by == Preempts::Tier || is_named()));
        Ok(job)
    }
}

fn suggested(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(": did you mean {near:?}?"))
}

fn added(change: &Change) -> Result<StateJob, String> {
    let Change::Add { name, gpus, gpus_per_node, limit, at, user, account, kinds, priority, cpus, host_memory, .. } =
        change
    else {
        unreachable!("only an added job is made");
    };
    if *gpus == 0 || gpus_per_node.is_some_and(|each| each == 0 || !gpus.is_multiple_of(each)) {
        return Err(format!("job {name:?}: expected at least 1 GPU, and a divisor of its GPUs on each node"));
    }
    if priority.is_some_and(|priority| !priority.is_finite()) {
        return Err(format!("job {name:?}: expected a number as its priority"));
    }
    let shape = |each| Shape { least: None, most: None, gpus_each: Some(each) };
    Ok(StateJob {
        id: name.clone(),
        user: user.clone(),
        account: account.clone(),
        state: if at.is_some() { JobState::NotBefore } else { JobState::Waiting },
        not_before_s: at.map(seconds),
        submitted_s: Some(0.0),
        gpus: *gpus,
        nodes: gpus_per_node.map(shape),
        limit_s: limit.map(seconds),
        kinds: kinds.clone(),
        priority: *priority,
        cpus: *cpus,
        ram_mib: host_memory.map(|bytes| bytes.0 as f64 / f64::from(1 << 20)),
        ..StateJob::default()
    })
}

fn seconds(span: Span) -> f64 {
    span.0.as_secs_f64()
}
