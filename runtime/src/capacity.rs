//! What a fleet has at most, and which jobs it can never run.

use std::collections::BTreeMap;

use sandtable_hardware::{
    Fleet, HostResources, HostUse, Job, PartId, PerformanceModel, Queue, TypeId, queue_and_groups,
};

/// What a fleet has of each type of GPU while all of its nodes are up.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacities {
    types: Vec<Capacity>,
    /// Names of levels.
    levels: Vec<String>,
    queues: Vec<Queue>,
}

#[derive(Clone, Debug, PartialEq)]
struct Capacity {
    gpus: u32,
    /// Memory of each, MiB; 0: unknown.
    memory_mib: u32,
    /// That of the parts that each can be cut into.
    parts: Vec<(PartId, u32)>,
    nodes: Vec<Nodes>,
}

/// Nodes that are alike, one after the other.
#[derive(Clone, Debug, PartialEq)]
struct Nodes {
    count: u32,
    gpus: u32,
    host: HostResources,
    domains: Vec<u32>,
}

impl Capacities {
    /// Those of a fleet.
    pub fn of(fleet: &Fleet) -> Capacities {
        let empty = |(id, kind): (TypeId, &sandtable_hardware::GpuType)| Capacity {
            gpus: 0,
            memory_mib: kind.memory_mib,
            parts: fleet.parts.of_type(id).map(|(part, profile)| (part, profile.memory_mib)).collect(),
            nodes: vec![],
        };
        let mut types: Vec<Capacity> = TypeId::first(fleet.types.len()).zip(&fleet.types).map(empty).collect();
        for node in &fleet.nodes {
            let of = &mut types[node.gpu_type];
            of.gpus += node.gpus;
            let alike =
                |last: &&mut Nodes| last.gpus == node.gpus && last.host == node.host && last.domains == node.domains;
            match of.nodes.last_mut().filter(alike) {
                Some(last) => last.count += 1,
                None => {
                    of.nodes.push(Nodes { count: 1, gpus: node.gpus, host: node.host, domains: node.domains.clone() });
                }
            }
        }
        Capacities { types, levels: fleet.levels.clone(), queues: fleet.queues.clone() }
    }

    /// Why a job can never run on this fleet, if so: it would block a queue for ever.
    ///
    /// ```
    /// use sandtable_hardware::{Costs, Fleet, GpuType, Instant, Job, PerformanceModel, SECOND};
    /// use sandtable_runtime::Capacities;
    ///
    /// let fleet = Fleet::new(&[(2, 4, GpuType::new("V100", 1.0))], Costs::default(), None)?;
    /// let why = |job: &Job| Capacities::of(&fleet).never_fits(&PerformanceModel::none(), job);
    /// let wide = Job::new("wide", Instant::START, 16, SECOND);
    /// assert_eq!(why(&wide).as_deref(), Some("it asks for 16 GPUs of one type that it allows, the fleet has 8"));
    /// let tall = Job::new("tall", Instant::START, 8, SECOND).asking(|request| request.gpus_per_node = 8);
    /// assert_eq!(why(&tall).as_deref(), Some("it asks for 8 GPUs, 8 on each node: the fleet has room for 0 of its GPUs"));
    /// # Ok::<(), sandtable_hardware::FleetError>(())
    /// ```
    pub fn never_fits(&self, laws: &PerformanceModel, job: &Job) -> Option<String> {
        let allowed = |kind: &TypeId| job.gpu_types.is_empty() || job.gpu_types.contains(kind);
        let types = || TypeId::first(self.types.len()).filter(allowed).map(|kind| (kind, &self.types[kind]));
        let most = types().map(|(_, capacity)| capacity.gpus).max().unwrap_or(0);
        if types().all(|(kind, _)| laws.throughput(kind, job) == Some(0.0)) {
            return Some("its workload runs on none of the types that it allows".into());
        }
        if job.gpus > most {
            return Some(format!("it asks for {} GPUs of one type that it allows, the fleet has {most}", job.gpus));
        }
        let asks = u64::from(job.gpus) * u64::from(job.share);
        let mut groups = job.queue.into_iter().flat_map(|queue| queue_and_groups(&self.queues, queue));
        if let Some(queue) = groups.find(|queue| self.queues[*queue].limit_milli() < asks) {
            let Queue { name, limit, .. } = &self.queues[queue];
            let asks = asks as f64 / 1000.0;
            return Some(format!("it asks for {asks} GPUs, the jobs of the queue {name:?} may hold {limit} together"));
        }
        if job.gpus == 0 {
            let fits = types().any(|(_, capacity)| capacity.nodes.iter().any(|nodes| nodes.takes(job.host)));
            return (!fits).then(|| format!("it asks for {}: no node has as much", job.asks(&self.levels)));
        }
        if job.gpus_per_node > 0 || !job.host.is_unknown() || job.near.required.is_some() {
            let most = types().map(|(_, capacity)| capacity.most_gpus(job)).max().unwrap_or(0);
            if most < u64::from(job.gpus) {
                return Some(format!(
                    "it asks for {}: the fleet has room for {most} of its GPUs",
                    job.asks(&self.levels)
                ));
            }
        }
        let short = |(kind, capacity): (TypeId, &Capacity)| {
            let (needs, memory) = (laws.memory(kind, job), capacity.memory_of(job));
            (memory > 0 && needs > memory).then_some((needs, memory))
        };
        let short: Option<Vec<(u32, u32)>> = types().map(short).collect();
        let (needs, memory) = short?.into_iter().max_by_key(|(_, memory)| *memory)?;
        Some(match job.part {
            None => format!("it needs {needs} MiB on each GPU, the largest that it allows has {memory}"),
            Some(_) => format!("it needs {needs} MiB, the part of a GPU that it asks for has {memory}"),
        })
    }

    /// The types that a job allows and whose nodes, where nothing else runs, have room for what it asks of them; all that it allows
    /// where none has.
    pub fn types_with_room(&self, job: &Job) -> Vec<TypeId> {
        let allowed: Vec<TypeId> =
            if job.gpu_types.is_empty() { TypeId::first(self.types.len()).collect() } else { job.gpu_types.clone() };
        let has_room = |kind: &TypeId| self.types[*kind].most_gpus(job) >= u64::from(job.gpus);
        let with_room: Vec<TypeId> = allowed.iter().copied().filter(has_room).collect();
        if with_room.is_empty() || with_room.len() == allowed.len() { job.gpu_types.clone() } else { with_room }
    }
}

impl Nodes {
    /// Whether a node where nothing else runs takes a job without GPUs.
    fn takes(&self, asked: HostResources) -> bool {
        let enough = |has: u32, asked: u32| has == 0 || asked <= has;
        enough(self.host.cpu_milli, asked.cpu_milli) && enough(self.host.memory_mib, asked.memory_mib)
    }
}

impl Capacity {
    /// Memory that a job has on each GPU, or on its part of one, MiB; 0: unknown.
    fn memory_of(&self, job: &Job) -> u32 {
        let own = job.part.and_then(|part| self.parts.iter().find(|(known, _)| *known == part));
        own.filter(|(_, mib)| *mib > 0).map_or(self.memory_mib, |(_, memory_mib)| *memory_mib)
    }

    /// Most GPUs that a gang like this job can have where nothing else runs.
    fn most_gpus(&self, job: &Job) -> u64 {
        let on = |nodes: &Nodes| {
            let most = nodes.host.most_gpus(HostUse::default(), job.host, job.gpus, nodes.gpus);
            let each = match job.gpus_per_node {
                0 => most,
                each if most >= each => each,
                _ => 0,
            };
            u64::from(each) * u64::from(nodes.count)
        };
        let Some(level) = job.near.required else { return self.nodes.iter().map(on).sum() };
        let mut by_domain: BTreeMap<u32, u64> = BTreeMap::new();
        for nodes in &self.nodes {
            if let Some(domain) = nodes.domains.get(level as usize) {
                *by_domain.entry(*domain).or_default() += on(nodes);
            }
        }
        by_domain.into_values().max().unwrap_or(0)
    }
}
