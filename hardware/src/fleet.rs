//! Nodes, their GPUs, and what it costs to start and to stop on them.

use serde::{Deserialize, Serialize};

use crate::elastic::Rescale;
use crate::{Duration, GpuId, HostResources, Instant, Links, NodeId, Parts, Queue, SECOND, TypeId};

/// Which jobs may be on a GPU together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Sharing {
    /// One job at a time.
    #[default]
    Exclusive,
    /// Jobs whose shares add up to at most a whole GPU; each makes the progress that its share was measured with.
    Shares,
    /// At most so many jobs, whatever they ask for; they slow each other down.
    Packed(u32),
    /// Parts that GPUs are cut into ([`Fleet::parts`]), one job on each; they do not disturb each other.
    Parts,
}

/// A type of GPU in a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuType {
    /// Its name in the [catalogue](crate::catalogue), or the user's own.
    pub name: String,
    /// Work done in a microsecond; 1 is the GPU on which the workload's durations hold.
    pub speed: f64,
    /// Device memory, MiB; 0: it is not looked at.
    pub memory_mib: u32,
}

impl GpuType {
    /// A type whose memory is not looked at.
    pub fn new(name: &str, speed: f64) -> GpuType {
        GpuType { name: name.into(), speed, memory_mib: 0 }
    }
}

/// What a node is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pool {
    /// Training jobs.
    #[default]
    Training,
    /// Services; jobs that train there have it on loan.
    Inference,
}

/// What answers requests: a model that a GPU must load before it serves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Loading it onto a GPU.
    pub cold_start: Duration,
    /// The longest that a task may wait until it is served, loading included; none: nothing is promised.
    pub slo: Option<Duration>,
}

/// A node: GPUs of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Index into [`Fleet::types`].
    pub gpu_type: TypeId,
    /// Its first GPU; the others have the ids that follow.
    pub first_gpu: GpuId,
    /// How many.
    pub gpus: u32,
    /// Its domain at each of [`Fleet::levels`].
    pub domains: Vec<u32>,
    /// What it is for.
    pub pool: Pool,
    /// Its CPU and memory.
    pub host: HostResources,
    /// How its owner may take it back; none: it is ours.
    pub revocable: Option<Revocable>,
}

impl Node {
    /// Its GPUs.
    pub fn gpu_ids(&self) -> impl DoubleEndedIterator<Item = GpuId> + Clone + use<> {
        self.gpu_indices().map(GpuId::at)
    }

    /// The part of a list with an item for each GPU of the fleet that is about its GPUs.
    pub fn gpu_indices(&self) -> std::ops::Range<usize> {
        self.first_gpu.index()..self.first_gpu.index() + self.gpus as usize
    }
}

/// What a restart after a preemption costs, where it is not a matter of the clock alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RestartRule {
    /// Added to the work left of a preempted gang of at most `small_gpus` GPUs.
    pub small: Duration,
    /// Added to the work left of a larger one.
    pub large: Duration,
    /// The size up to which a gang is small.
    pub small_gpus: u32,
}

/// GPUs are leased for rounds, as in the simulators of Gavel and Shockwave: policies decide between rounds alone, a job does whole steps in
/// each, and a round is over when the last of its jobs is done with its steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Leases {
    /// A job does as many steps as fit into this.
    pub length: Duration,
    /// Time in which a job that was in no lease of the round before does no steps.
    pub restart: Duration,
    /// A lease of no more than this loses none to a restart.
    pub brief: Duration,
    /// A job is ended when it has been at work for longer than so many times what it takes alone; none: only when its work is done.
    pub limit: Option<f64>,
}

/// What starting and stopping costs. All zero: free and at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// GPUs held without progress at the first start.
    pub start: Duration,
    /// GPUs held without progress while the state is saved.
    pub checkpoint: Duration,
    /// GPUs held without progress at a later start.
    pub restore: Duration,
    /// A job saves its state by itself each time it has progressed so far, at no cost; none: only when preempted.
    pub checkpoint_every: Option<Duration>,
    /// Lucid's simulator adds seconds to the work of a preempted job (its `restore` is 0).
    pub restart_adds_work: Option<RestartRule>,
    /// GPUs held by a job that ran out of memory, before it is back in the queue.
    pub relaunch: Duration,
    /// A job holds its GPUs so long after its last step (Lucid's simulator: one tick).
    pub linger: Duration,
    /// What a start or another change of an elastic job's GPUs costs; none: `start` at first, then `restore`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescale: Option<Rescale>,
    /// GPUs held without progress while an elastic job goes over to another batch.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub batch: Duration,
    /// Epochs of elastic jobs end at the nearest multiple of this (Pollux' simulator: 1 s); 0: when they do.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub epochs_end_on: Duration,
    /// An elastic job holds its GPUs for whole slots of this length, counted from when it begins to make progress on them (EDF in ElasticFlow's simulator: 1 s); 0: until it is done.
    #[serde(skip_serializing_if = "Duration::is_zero")]
    pub slot: Duration,
    /// GPUs are leased for rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leases: Option<Leases>,
    /// Every decision stops all jobs and starts them again (Muri's simulator): a job loses what its workload and those of the jobs beside it take to start, at
    /// most the time since the decision before; not if it ends first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redeploy: bool,
}

/// How nodes fail: each by itself, exponential times to failure and to repair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Failures {
    /// Mean time from repair to the next failure of a node.
    pub mtbf: Duration,
    /// Mean time to repair.
    pub repair: Duration,
}

/// How the owner of a node takes it back, and hands it over again: at exponential times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Revocable {
    /// How long before taking it back the owner says so.
    pub notice: Duration,
    /// Mean time from when it is handed over until the owner wants it back.
    pub held: Duration,
    /// Mean time until it is handed over again.
    pub away: Duration,
}

/// A node is taken down, and is back later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Maintenance {
    /// The node.
    pub node: NodeId,
    /// When this is announced.
    pub announced: Instant,
    /// When it goes down.
    pub from: Instant,
    /// When it is back.
    pub to: Instant,
    /// What runs there goes on: it only takes no jobs, and that is not announced.
    pub jobs_go_on: bool,
}

/// The machines.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fleet {
    /// Types of GPU, in the order in which they were first named.
    pub types: Vec<GpuType>,
    /// Nodes; GPUs are numbered node by node.
    pub nodes: Vec<Node>,
    /// The node of each GPU.
    node_of: Vec<NodeId>,
    /// Names of the levels at which nodes are near each other, from wide to near.
    pub levels: Vec<String>,
    /// What starting and stopping costs.
    pub costs: Costs,
    /// How nodes fail, if they do.
    pub failures: Option<Failures>,
    /// When nodes are taken down.
    pub maintenance: Vec<Maintenance>,
    /// Which jobs may be on a GPU together.
    pub sharing: Sharing,
    /// Which parts they can be cut into.
    pub parts: Parts,
    /// Virtual slots: so many GPUs in a row are one device, whose jobs slow each other down; 1: each is its own.
    pub slots: u32,
    /// How GPUs are connected; none: communication costs nothing.
    pub links: Option<Links>,
    /// Queues that jobs are submitted to, a group before those in it.
    pub queues: Vec<Queue>,
    /// What is served.
    pub services: Vec<Service>,
    /// Whether a GPU keeps a service's model until another job gets the GPU; else each task loads its own.
    pub keeps_models: bool,
}

/// Why a fleet can't be.
#[expect(missing_docs, reason = "the texts of the cases say what their fields are")]
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// Nothing to schedule on.
    #[error("a fleet needs at least one node, found none")]
    Empty,
    /// A node without GPUs.
    #[error("a node needs at least one GPU, found 0")]
    NoGpus,
    /// A type that does nothing, or does it infinitely fast.
    #[error("the speed of {name} must be a number from 0.000001 to 1000, found {speed}")]
    Speed { name: String, speed: f64 },
    /// One name for two things.
    #[error("{name} has two speeds, {other} and {speed}: give one of them another name")]
    TwoSpeeds { name: String, speed: f64, other: f64 },
    /// More than the tool is meant for.
    #[error("a fleet has at most {} GPUs, found {found}", Fleet::MAX_GPUS)]
    TooLarge { found: u64 },
    /// A mean time of zero.
    #[error("the mean times to failure and to repair must be at least 1 s")]
    Failures,
    /// A number of tenants that shares nothing, or too much.
    #[error("packed GPUs take 2 to 64 jobs, found {found}")]
    Tenancy { found: u32 },
    /// A part of a GPU that can't be.
    #[error("the part {part} of {kind}: {why}")]
    Part { part: String, kind: String, why: String },
    /// Parts of GPUs that can't be cut.
    #[error("no part is known that {} could be cut into", kinds.join(" or "))]
    NoParts { kinds: Vec<String> },
    /// Slots that are no part of a node, or shared.
    #[error("a device of {slots} virtual slots must be a part of a node, and its slots exclusive: a node has {gpus}")]
    Slots { slots: u32, gpus: u32 },
    /// Domains of no nodes.
    #[error("a domain of the level {name} needs at least one node, found 0")]
    NoNodes { name: String },
    /// Domains that cross those of a wider level.
    #[error("domains of {nodes} nodes of the level {name} do not fit whole into the {wider} of the level before")]
    Level { name: String, nodes: u32, wider: u32 },
    /// A matrix that fits no node.
    #[error("links between {found} GPUs, a node has {expected}")]
    LinkSize { found: usize, expected: u32 },
    /// A link that nothing can pass, or that differs by direction.
    #[error("the link between GPUs {a} and {b} must be a number above 0, the same both ways, found {found}")]
    Link { a: usize, b: usize, found: f64 },
}

impl Fleet {
    /// Most GPUs of a fleet.
    pub const MAX_GPUS: u64 = 1_000_000;

    /// A fleet of groups of equal nodes: (nodes, GPUs of each, type).
    ///
    /// ```
    /// use sandtable_hardware::{Costs, Fleet, GpuId, GpuType, NodeId, TypeId};
    ///
    /// let groups = [(2, 4, GpuType::new("V100", 1.0)), (1, 8, GpuType::new("A100", 2.0))];
    /// let fleet = Fleet::new(&groups, Costs::default(), None)?;
    /// assert_eq!((fleet.gpus(), fleet.gpus_of(TypeId::new(1)), fleet.node_of(GpuId::new(5))), (16, 8, NodeId::new(1)));
    /// # Ok::<(), sandtable_hardware::FleetError>(())
    /// ```
    ///
    /// # Errors
    /// See [`FleetError`].
    pub fn new(groups: &[(u32, u32, GpuType)], costs: Costs, failures: Option<Failures>) -> Result<Fleet, FleetError> {
        // A node without GPUs is refused below: here it counts as one.
        let size = |(nodes, gpus, _): &(u32, u32, GpuType)| u64::from(*nodes) * u64::from((*gpus).max(1));
        let total = groups.iter().map(size).fold(0, u64::saturating_add);
        if total > Fleet::MAX_GPUS {
            return Err(FleetError::TooLarge { found: total });
        }
        if failures.is_some_and(|failures| failures.mtbf < SECOND || failures.repair < SECOND) {
            return Err(FleetError::Failures);
        }
        let (sharing, links) = (Sharing::default(), None);
        let (services, keeps_models) = (Vec::new(), true);
        let (types, nodes) = (Vec::new(), Vec::new());
        let slots = 1;
        let (levels, maintenance, queues) = (Vec::new(), Vec::new(), Vec::new());
        let mut fleet = Fleet {
            types,
            nodes,
            node_of: Vec::new(),
            levels,
            costs,
            failures,
            maintenance,
            sharing,
            parts: Parts::default(),
            slots,
            links,
            queues,
            services,
            keeps_models,
        };
        let mut first_gpu = GpuId::new(0);
        for (nodes, gpus, kind) in groups {
            if !(1e-6..=1000.0).contains(&kind.speed) {
                return Err(FleetError::Speed { name: kind.name.clone(), speed: kind.speed });
            }
            if *gpus == 0 && *nodes > 0 {
                return Err(FleetError::NoGpus);
            }
            let known = fleet.types.iter().position(|known| known.name == kind.name);
            if let Some(other) = known.map(|index| fleet.types[index].speed).filter(|other| *other != kind.speed) {
                return Err(FleetError::TwoSpeeds { name: kind.name.clone(), speed: kind.speed, other });
            }
            let gpu_type = known.unwrap_or_else(|| {
                fleet.types.push(kind.clone());
                fleet.types.len() - 1
            });
            for _ in 0..*nodes {
                let name = format!("node{}", fleet.nodes.len());
                fleet.nodes.push(Node {
                    name,
                    gpu_type: TypeId::at(gpu_type),
                    first_gpu,
                    gpus: *gpus,
                    domains: Vec::new(),
                    pool: Pool::Training,
                    host: HostResources::UNKNOWN,
                    revocable: None,
                });
                first_gpu = GpuId::new(first_gpu.number() + gpus);
                fleet.node_of.resize(first_gpu.index(), NodeId::at(fleet.nodes.len() - 1));
            }
        }
        if fleet.nodes.is_empty() { Err(FleetError::Empty) } else { Ok(fleet) }
    }

    /// The same fleet with shared GPUs.
    ///
    /// # Errors
    /// See [`FleetError::Tenancy`]. Parts are none by themselves: [`Fleet::cut`] takes what they are.
    pub fn shared(mut self, sharing: Sharing) -> Result<Fleet, FleetError> {
        if sharing == Sharing::Parts {
            return Err(FleetError::NoParts { kinds: self.types.iter().map(|kind| kind.name.clone()).collect() });
        }
        if let Sharing::Packed(found) = sharing
            && !(2..=64).contains(&found)
        {
            return Err(FleetError::Tenancy { found });
        }
        self.sharing = sharing;
        Ok(self)
    }

    /// The same fleet, each device being so many of its GPUs: a GPU has one job, its device several.
    ///
    /// # Errors
    /// See [`FleetError::Slots`].
    pub fn slotted(mut self, slots: u32) -> Result<Fleet, FleetError> {
        let wrong = |node: &&Node| slots == 0 || !node.gpus.is_multiple_of(slots);
        let shared = (slots > 1 && self.sharing != Sharing::Exclusive).then(|| &self.nodes[0]);
        if let Some(node) = self.nodes.iter().find(wrong).or(shared) {
            return Err(FleetError::Slots { slots, gpus: node.gpus });
        }
        self.slots = slots;
        Ok(self)
    }

    /// The same fleet with these levels, from wide to near: the name of each, and how many nodes in their order are one of its domains.
    ///
    /// # Errors
    /// A level of no nodes, or one whose domains are not parts of those of the level before.
    pub fn levelled(mut self, levels: &[(String, u32)]) -> Result<Fleet, FleetError> {
        for (at, (name, nodes)) in levels.iter().enumerate() {
            if *nodes == 0 {
                return Err(FleetError::NoNodes { name: name.clone() });
            }
            let wider = at.checked_sub(1).map_or(*nodes, |before| levels[before].1);
            if !wider.is_multiple_of(*nodes) {
                return Err(FleetError::Level { name: name.clone(), nodes: *nodes, wider });
            }
            self.nodes.iter_mut().zip(0..).for_each(|(node, id): (_, u32)| node.domains.push(id / nodes));
        }
        self.levels = levels.iter().map(|(name, _)| name.clone()).collect();
        Ok(self)
    }

    /// The same fleet with CPU and memory; those of its nodes in their order.
    #[must_use]
    pub fn hosted(mut self, hosts: &[HostResources]) -> Fleet {
        self.nodes.iter_mut().zip(hosts).for_each(|(node, host)| node.host = *host);
        self
    }

    /// The same fleet, of which owners may take nodes back; in the order of its nodes.
    #[must_use]
    pub fn owned(mut self, terms: &[Option<Revocable>]) -> Fleet {
        self.nodes.iter_mut().zip(terms).for_each(|(node, terms)| node.revocable = *terms);
        self
    }

    /// The same fleet, of which nodes are taken down.
    #[must_use]
    pub fn maintained(mut self, maintenance: Vec<Maintenance>) -> Fleet {
        self.maintenance = maintenance;
        self
    }

    /// Whether the CPU or the memory of any node is known.
    pub fn knows_hosts(&self) -> bool {
        self.nodes.iter().any(|node| !node.host.is_unknown())
    }

    /// Whether any queue has a limit.
    pub fn limits_queues(&self) -> bool {
        self.queues.iter().any(|queue| queue.limit.is_finite())
    }

    /// The same fleet, serving these; the pools of its nodes in their order.
    #[must_use]
    pub fn serving(mut self, services: Vec<Service>, keeps_models: bool, pools: &[Pool]) -> Fleet {
        self.services = services;
        self.keeps_models = keeps_models;
        self.nodes.iter_mut().zip(pools).for_each(|(node, pool)| node.pool = *pool);
        self
    }

    /// The same fleet, shared out among these queues.
    #[must_use]
    pub fn queued(mut self, queues: Vec<Queue>) -> Fleet {
        self.queues = queues;
        self
    }

    /// The device that a GPU is, or is a slot of.
    pub fn device_of(&self, gpu: GpuId) -> usize {
        (gpu.number() / self.slots) as usize
    }

    /// Whether jobs on different GPUs, or on one, slow each other down.
    pub fn contended(&self) -> bool {
        self.slots > 1 || matches!(self.sharing, Sharing::Packed(_))
    }

    /// All GPUs.
    pub fn gpus(&self) -> u32 {
        self.nodes.last().map_or(0, |node| node.first_gpu.number() + node.gpus)
    }

    /// GPUs of a type.
    pub fn gpus_of(&self, gpu_type: TypeId) -> u32 {
        self.nodes.iter().filter(|node| node.gpu_type == gpu_type).map(|node| node.gpus).sum()
    }

    /// The type of a GPU, which must exist.
    pub fn type_of(&self, gpu: GpuId) -> TypeId {
        self.nodes[self.node_of(gpu)].gpu_type
    }

    /// The node of a GPU, which must exist.
    pub fn node_of(&self, gpu: GpuId) -> NodeId {
        self.node_of[gpu.index()]
    }
}
