//! The cluster as Horus sees it: predictions for the jobs on every GPU, kept from events, and the cheapest GPU of
//! each node for each kind of task, worked out anew only where something has changed.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Cluster, Event, GpuId, GpuTypeId, Job, JobId, JobPhase, Knowledge, NodeId, PolicyError, Quantity, Setup, Sharing,
    driver, host,
};

use crate::plan::{Node, Plan, cheapest_of, place};
use crate::score::{Gpu, Rules, Task};

/// What a prediction is about: a workload, or a job whose workload is not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Workload(u32),
    Job(JobId),
}

/// What is told apart of tasks by costs: the bits of their numbers, whether they must be alone, and the type.
type Kind = ([u64; 3], bool, GpuTypeId);

/// Kinds of tasks whose costs are remembered; beyond, all are forgotten.
const MOST_KINDS: usize = 1024;

/// The cheapest GPU of each node as it was at a version of the node.
type Costs = Vec<(u64, Option<(f64, usize)>)>;

/// A node without tasks. Its rack is its domain at the nearest level.
fn bare(node: &sandtable_policy::Node) -> Node {
    Node { rack: node.domains.last().copied().unwrap_or(0), gpus: Vec::new() }
}

/// The cluster as Horus sees it.
pub struct PredictedCluster {
    rules: Rules,
    /// Peak utilisation over the average.
    peak: f64,
    nodes: Vec<Node>,
    kinds: Vec<GpuTypeId>,
    /// Counts the changes of each node.
    versions: Vec<u64>,
    memory: Vec<f64>,
    tasks: BTreeMap<(Subject, bool, GpuTypeId), Task>,
    costs: BTreeMap<Kind, Costs>,
    /// Where each job was put.
    placed: BTreeMap<JobId, Vec<GpuId>>,
    touched: BTreeSet<NodeId>,
    /// Whether the warning about missing predictions has been logged.
    warned: bool,
}

impl PredictedCluster {
    /// A cluster of which nothing is known yet.
    ///
    /// # Errors
    /// Where no predictor is bound to utilisation or memory.
    pub fn new(policy: &str, rules: Rules, peak: f64, setup: &Setup) -> Result<PredictedCluster, PolicyError> {
        driver::needed(policy, Knowledge::UTILISATION | Knowledge::MEMORY, setup.knowledge)?;
        let nodes = &setup.topology.nodes;
        // Whole GPUs, unless they are packed; then as many jobs as the host lets there be.
        let tenancy = setup.topology.gpu_types.iter().map(|kind| match kind.sharing {
            Sharing::Packed(most) => most,
            Sharing::Exclusive | Sharing::Shares | Sharing::Parts(_) => 1,
        });
        let rules = Rules { max_tasks: rules.max_tasks.min(tenancy.min().unwrap_or(1)), ..rules };
        // Unknown memory is no bound.
        let mib = |mib: u32| if mib == 0 { f64::INFINITY } else { f64::from(mib) };
        Ok(PredictedCluster {
            rules,
            peak,
            nodes: nodes.iter().map(bare).collect(),
            kinds: nodes.iter().map(|node| node.gpu_type).collect(),
            versions: vec![1; nodes.len()],
            memory: setup.topology.gpu_types.iter().map(|kind| mib(kind.memory_mib)).collect(),
            tasks: BTreeMap::new(),
            costs: BTreeMap::new(),
            placed: BTreeMap::new(),
            touched: nodes.iter().map(|node| node.id).collect(),
            warned: false,
        })
    }

    /// Brings it up to a batch.
    pub fn take_in(&mut self, events: &[Event], cluster: &Cluster) {
        for event in events {
            match event {
                // One that another policy has placed, or that ran before the run began.
                Event::JobArrived(new) => {
                    if let Some(job) = cluster.get(new.job).filter(|job| job.holds()) {
                        self.touched.extend(job.held.iter().map(|gpu| cluster.node(*gpu)));
                        self.placed.insert(job.id, job.held.clone());
                    }
                }
                Event::JobEnded(end) => {
                    self.left(end.job, cluster);
                    self.forget(end.job);
                }
                Event::JobChanged(change) if !matches!(change.phase, JobPhase::Running | JobPhase::Starting) => {
                    self.left(change.job, cluster);
                }
                Event::NodeChanged(change) => {
                    self.touched.insert(change.node);
                }
                _ => {}
            }
        }
    }

    /// A job has lost its GPUs.
    pub fn left(&mut self, job: JobId, cluster: &Cluster) {
        for gpu in self.placed.remove(&job).unwrap_or_default() {
            self.touched.insert(cluster.node(gpu));
        }
    }

    /// Sees anew what has changed.
    pub fn refresh(&mut self, cluster: &Cluster) {
        for node in std::mem::take(&mut self.touched) {
            let gpus: Vec<Gpu> = cluster.node_gpus(node).map(|gpu| self.seen(cluster, node, gpu)).collect();
            self.nodes[node as usize].gpus = gpus;
            self.versions[node as usize] += 1;
        }
    }

    fn seen(&mut self, cluster: &Cluster, node: NodeId, gpu: GpuId) -> Gpu {
        let kind = self.kinds[node as usize];
        let memory = self.memory[kind as usize];
        let residents = cluster.residents(gpu);
        if residents.is_empty() && cluster.tasks(gpu) > 0 {
            return Gpu::taken(memory);
        }
        let mut seen = Gpu::empty(memory);
        residents.iter().for_each(|job| seen.push(&self.task(cluster.job(*job), kind)));
        seen
    }

    /// What was predicted of a job that is gone.
    fn forget(&mut self, job: JobId) {
        for (alone, kind) in [false, true].into_iter().flat_map(|alone| (0..self.memory.len()).map(move |k| (alone, k)))
        {
            self.tasks.remove(&(Subject::Job(job), alone, kind as GpuTypeId));
        }
    }

    /// What is predicted of a task of a job on a type of GPU. Where its utilisation or its memory is unknown it counts as a
    /// full GPU with all its memory, and is alone.
    pub fn task(&mut self, job: &Job, kind: GpuTypeId) -> Task {
        let (peak, card, margin) = (self.peak, self.memory[kind as usize], self.rules.margin);
        let subject = job.workload.map_or(Subject::Job(job.id), Subject::Workload);
        *self.tasks.entry((subject, job.out_of_memory > 0, kind)).or_insert_with(|| {
            let ask = |what| host::estimate(what, vec![job.id], vec![kind])[0];
            let (used, memory) = (ask(Quantity::Utilisation), ask(Quantity::Memory));
            let unknown = used.is_nan() || memory.is_nan();
            if unknown && !std::mem::replace(&mut self.warned, true) {
                let what = if used.is_nan() { "utilisation" } else { "memory" };
                let taken = "a full GPU with all its memory, which it does not share";
                host::warn(&format!("the {what} of job {} is unknown: assuming {taken}", job.id));
            }
            let util_avg = if unknown { 100.0 } else { 100.0 * used };
            let memory = if unknown { card } else { memory };
            // What is predicted to fit on no card is tried on an empty GPU: a prediction may be wrong.
            let too_much = card.is_finite() && card - memory <= margin;
            let alone = job.out_of_memory > 0 || too_much || unknown;
            Task { util_avg, util_max: (util_avg * peak).min(100.0), memory, alone }
        })
    }

    /// GPUs for all tasks of a job, on one type, or none.
    pub fn plan(&mut self, cluster: &Cluster, job: &Job) -> Option<Vec<GpuId>> {
        let mut best: Option<Plan> = None;
        for kind in job.gpu_types.iter().copied() {
            let task = self.task(job, kind);
            let (nodes, kinds, versions, rules) = (&self.nodes, &self.kinds, &self.versions, &self.rules);
            if self.costs.len() > MOST_KINDS {
                self.costs.clear();
            }
            let numbers = [task.util_avg, task.util_max, task.memory].map(f64::to_bits);
            let known = self.costs.entry((numbers, task.alone, kind)).or_insert_with(|| vec![(0, None); nodes.len()]);
            let cost_of = |at: usize, node: &Node| {
                if known[at].0 != versions[at] {
                    known[at] = (versions[at], cheapest_of(rules, node, &task));
                }
                known[at].1
            };
            let plan = place(rules, nodes, |at| kinds[at] == kind, &task, job.gpus, cost_of);
            best = match (best, plan) {
                (Some(one), Some(other)) if (one.nodes, one.cost) <= (other.nodes, other.cost) => Some(one),
                (one, other) => other.or(one),
            };
        }
        let place = |(node, gpu): &(usize, usize)| cluster.node_gpus(*node as NodeId).start + *gpu as GpuId;
        best.map(|plan| plan.placement.iter().map(place).collect())
    }

    /// Puts a job there.
    pub fn start(&mut self, cluster: &mut Cluster, job: JobId, gpus: Vec<GpuId>) {
        self.touched.extend(gpus.iter().map(|gpu| cluster.node(*gpu)));
        self.placed.insert(job, gpus.clone());
        cluster.start(job, gpus);
        self.refresh(cluster);
    }

    /// Takes a job's GPUs.
    pub fn preempt(&mut self, cluster: &mut Cluster, job: JobId) {
        cluster.preempt(job);
        self.left(job, cluster);
        self.refresh(cluster);
    }
}
