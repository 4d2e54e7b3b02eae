//! Free GPUs that typical jobs have no use for, over time (Weng et al., ATC 2023).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandtable_fragmentation::{Ask, Room, Typical};
use sandtable_hardware::{Fleet, GpuId, HostResources, HostUse, Job, JobId, NodeId, Sharing, TypeId};

/// The most common jobs that are this part of all are typical, as in the paper's artifact.
const TYPICAL: f64 = 0.95;

/// What is counted in: 10^-9 GPU, whole numbers so that sums are exact.
pub(crate) const UNIT: f64 = 1e-9;

/// The fragments of each node, and what they depend on.
pub(crate) struct FragmentTracker {
    typical: Typical,
    jobs: Arc<[Job]>,
    nodes: Vec<NodeFragments>,
    /// Nodes to look at again.
    touched: Vec<NodeId>,
    /// Of all nodes.
    sum: u64,
    /// By type and number of free GPUs, where nothing else decides.
    by_free: Option<Vec<Vec<u64>>>,
    /// Thousandths of a core that jobs have of nodes; empty where no node's are known.
    cpu: BTreeMap<JobId, Vec<(NodeId, u64)>>,
    counts_cpu: bool,
}

struct NodeFragments {
    gpu_type: TypeId,
    gpus: std::ops::Range<usize>,
    /// Thousandths of a core; none: unknown.
    cpu_milli: Option<u64>,
    taken: u64,
    fragments: u64,
    is_touched: bool,
}

impl FragmentTracker {
    /// Of a fleet at rest.
    pub(crate) fn of(fleet: &Fleet, jobs: &Arc<[Job]>) -> FragmentTracker {
        let names: Vec<String> = fleet.types.iter().map(|kind| kind.name.clone()).collect();
        let typical = Typical::of(&counts(fleet, jobs), TYPICAL, &names);
        let counts_cpu = fleet.knows_hosts();
        let node = |node: &sandtable_hardware::Node| NodeFragments {
            gpu_type: node.gpu_type,
            gpus: node.gpu_indices(),
            cpu_milli: (node.host.cpu_milli > 0).then_some(u64::from(node.host.cpu_milli)),
            taken: 0,
            fragments: 0,
            is_touched: true,
        };
        let whole = !counts_cpu && matches!(fleet.sharing, Sharing::Exclusive | Sharing::Packed(_));
        let largest = fleet.nodes.iter().map(|node| node.gpus as usize).max().unwrap_or(0);
        let all_free = vec![1000; largest];
        let of_type = |kind: TypeId| {
            let of = |free: usize| in_units(&typical, kind, u64::MAX, &all_free[..free]);
            (0..=largest).map(of).collect()
        };
        let by_free = (whole && largest <= 1024).then(|| TypeId::first(fleet.types.len()).map(of_type).collect());
        FragmentTracker {
            nodes: fleet.nodes.iter().map(node).collect(),
            touched: NodeId::first(fleet.nodes.len()).collect(),
            typical,
            jobs: jobs.clone(),
            sum: 0,
            by_free,
            cpu: BTreeMap::new(),
            counts_cpu,
        }
    }

    /// What is free of a node changes.
    pub(crate) fn touch(&mut self, node: NodeId) {
        if !std::mem::replace(&mut self.nodes[node].is_touched, true) {
            self.touched.push(node);
        }
    }

    /// A job has the CPU that goes with these GPUs, or all of its own on a node without any.
    pub(crate) fn hold(&mut self, job: JobId, nodes: &BTreeMap<NodeId, u32>, without: Option<NodeId>) {
        let (host, asked) = (self.jobs[job].host, self.jobs[job].gpus);
        if !self.counts_cpu || host.cpu_milli == 0 {
            return;
        }
        self.let_go(job);
        let of_gpus = nodes.iter().map(|(node, gpus)| (*node, u64::from(host.part(*gpus, asked).cpu_milli)));
        let all: Vec<(NodeId, u64)> = of_gpus.chain(without.map(|node| (node, u64::from(host.cpu_milli)))).collect();
        for (node, cpu_milli) in &all {
            self.nodes[*node].taken += cpu_milli;
            self.touch(*node);
        }
        self.cpu.insert(job, all);
    }

    /// A job has no CPU any more.
    pub(crate) fn let_go(&mut self, job: JobId) {
        for (node, cpu_milli) in self.cpu.remove(&job).into_iter().flatten() {
            self.nodes[node].taken -= cpu_milli;
            self.touch(node);
        }
    }

    /// Fragments of all nodes, in [`UNIT`], where so many thousandths of each GPU are left.
    pub(crate) fn sum(&mut self, left: impl Fn(GpuId) -> u32) -> u64 {
        let mut all: Vec<u32> = Vec::new();
        for node in std::mem::take(&mut self.touched) {
            let of = &mut self.nodes[node];
            of.is_touched = false;
            all.clear();
            all.extend(of.gpus.clone().map(|gpu| left(GpuId::at(gpu))));
            let fragments = match &self.by_free {
                Some(by_free) => by_free[of.gpu_type][all.iter().filter(|left| **left > 0).count()],
                None => {
                    let cpu = of.cpu_milli.map_or(u64::MAX, |cpu| cpu.saturating_sub(of.taken));
                    in_units(&self.typical, of.gpu_type, cpu, &all)
                }
            };
            self.sum = self.sum + fragments - std::mem::replace(&mut of.fragments, fragments);
        }
        self.sum
    }
}

fn in_units(typical: &Typical, kind: TypeId, cpu_milli: u64, left: &[u32]) -> u64 {
    let fragments = typical.fragments(Room { gpu_type: kind.number(), cpu_milli, left });
    (fragments / 1000.0 / UNIT).round() as u64
}

/// What the jobs of a run that train ask of one node, and how often.
fn counts(fleet: &Fleet, jobs: &[Job]) -> BTreeMap<Ask, u64> {
    // Most jobs share what they ask for.
    let mut by_request: BTreeMap<usize, (u64, &Job)> = BTreeMap::new();
    for job in jobs {
        by_request.entry(Arc::as_ptr(&job.request) as usize).or_insert((0, job)).0 += 1;
    }
    let at_rest: BTreeSet<(TypeId, u32, HostResources)> =
        fleet.nodes.iter().map(|node| (node.gpu_type, node.gpus, node.host)).collect();
    let mut counts = BTreeMap::new();
    for (count, job) in by_request.into_values().filter(|(_, job)| job.service.is_none()) {
        *counts.entry(ask(fleet, &at_rest, job)).or_default() += count;
    }
    counts
}

/// What a job asks of one node: a gang that is of several asks for as many GPUs as it has on each, or as one of them has at most.
fn ask(fleet: &Fleet, at_rest: &BTreeSet<(TypeId, u32, HostResources)>, job: &Job) -> Ask {
    let allowed = |kind: TypeId| job.gpu_types.is_empty() || job.gpu_types.contains(&kind);
    let most = |(kind, gpus, host): &(TypeId, u32, HostResources)| match allowed(*kind) {
        true => host.most_gpus(HostUse::default(), job.host, job.gpus, *gpus),
        false => 0,
    };
    let most = at_rest.iter().map(most).max().unwrap_or(0);
    let gpus = if job.gpus_per_node > 0 { job.gpus_per_node } else { job.gpus.min(most) };
    let host = if job.gpus == 0 { job.host } else { job.host.part(gpus, job.gpus) };
    // A type that the fleet lacks has no name: what only that would do is of use to no job here.
    let name = |kind: &TypeId| fleet.types.get(kind.index()).map_or("?", |kind| kind.name.as_str());
    let names = job.gpu_types.iter().map(name);
    Ask {
        cpu_milli: u64::from(host.cpu_milli),
        milli: if job.gpus == 0 { 0 } else { job.share },
        gpus,
        kinds: names.collect::<Vec<_>>().join("|"),
    }
}
