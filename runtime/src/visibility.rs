//! What a policy is told before its first batch, and what of jobs: as much as the experiment reveals.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandtable_hardware::{Fleet, GpuType, Job, JobId, PerformanceModel, Ring, Sharing, TypeId};

use crate::context::{DecisionContext, VisibleInfo};
use crate::contract::{
    AttainedTime, ClassId, Communication, Demand, Elasticity, HostResources, Knowledge, ModelFacts, NO_WORKLOAD,
    Nearness, Node, NodeHealth, PartProfile, Pool, Queue, Sample, Service, Setup, Sources, Stages, Throughput,
    Topology, UserId, WorkloadId, WorkloadProfile,
};
use crate::inputs::{Inputs, Reveal};
use crate::introductions::Introductions;
use crate::predict::shown;

/// GPU utilisation of each job alone by type of GPU, where it is known of all.
pub(crate) fn utilisation(fleet: &Fleet, inputs: &Inputs) -> Option<Vec<Vec<f64>>> {
    let of = |kind: TypeId| inputs.jobs.iter().map(|job| inputs.laws.utilisation(kind, job)).collect::<Vec<f64>>();
    let all: Vec<Vec<f64>> = TypeId::first(fleet.types.len()).map(of).collect();
    all.iter().flatten().all(|u| !u.is_nan()).then_some(all)
}

pub(crate) fn told(fleet: &Fleet, inputs: &Inputs) -> VisibleInfo {
    let memory = |job: &Job| {
        let types =
            TypeId::first(fleet.types.len()).filter(|kind| job.gpu_types.is_empty() || job.gpu_types.contains(kind));
        types.map(|kind| inputs.laws.memory(kind, job)).max().unwrap_or(0)
    };
    let memory = if inputs.reveal.memory { inputs.jobs.iter().map(memory).collect() } else { Arc::from([]) };
    let profiles =
        (0..inputs.laws.profile().map_or(0, |profile| profile.workloads.len())).map(|id| profile(inputs, id));
    VisibleInfo { memory, profiles: profiles.collect(), progress: inputs.reveal.progress }
}

fn profile(inputs: &Inputs, id: usize) -> WorkloadProfile {
    let Some(profile) = inputs.laws.profile() else { unreachable!("asked for workloads of a profile") };
    let workload = &profile.workloads[id];
    let solo = |gpu: &&sandtable_hardware::GpuProfile| gpu.solo.get(&workload.name).cloned().unwrap_or_default();
    let tables: Vec<sandtable_hardware::Solo> = inputs.laws.tables().iter().map(solo).collect();
    let number = |x: Option<f64>| x.unwrap_or(f64::NAN);
    let rates = tables.iter().enumerate().flat_map(|(kind, solo)| {
        let rate =
            move |(gpus, rate): (&u32, &f64)| Throughput { gpu_type: kind as u32, gpus: *gpus, per_second: *rate };
        solo.throughput.iter().map(rate)
    });
    WorkloadProfile {
        workload: workload.name.clone(),
        family: workload.family.clone(),
        gpu_utilisation: tables.iter().map(|solo| number(solo.utilisation)).collect(),
        memory_utilisation: tables.iter().map(|solo| number(solo.memory_utilisation)).collect(),
        memory_mib: tables.iter().map(|solo| solo.memory_mib.unwrap_or(0)).collect(),
        batch: number(workload.batch),
        mixed_precision: workload.mixed_precision,
        gradient_gb: number(workload.gradient_mb.map(|mb| mb / 1000.0)),
        communication: match workload.communication {
            Ring::Ring => Communication::Ring,
            Ring::ParameterServer => Communication::ParameterServer,
        },
        step_time: tables.iter().map(|solo| number(solo.step_s)).collect(),
        facts: workload.facts.as_ref().map(facts_of),
        throughput: rates.collect(),
        stages: workload.stages.iter().map(stages_of).collect(),
    }
}

fn stages_of((gpus, stages): (&u32, &sandtable_hardware::Stages)) -> Stages {
    Stages { gpus: *gpus, step_time: stages.step_s, uses: stages.uses_s.clone() }
}

fn facts_of(facts: &sandtable_hardware::ModelFacts) -> ModelFacts {
    let total = facts.total;
    ModelFacts {
        model: facts.model.clone(),
        parameters: facts.parameters,
        layer_multiply_adds: facts.layer_multiply_adds,
        layer_outputs: facts.layer_outputs,
        layer_traffic: facts.layer_traffic,
        elementwise_outputs: facts.elementwise_outputs,
        depth: facts.depth,
        flops: total.flops,
        multiply_adds: total.multiply_adds,
        additions: total.additions,
        comparisons: total.comparisons,
        divisions: total.divisions,
        exponentials: total.exponentials,
        activation_bytes: total.activation_bytes,
        parameter_bytes: total.parameter_bytes,
        other_bytes: total.other_bytes,
        group_nodes: facts.group_nodes.to_vec(),
        group_flops: facts.group_flops.to_vec(),
    }
}

/// What an elastic job reports of itself.
pub(crate) fn report(job: JobId, found: &sandtable_hardware::Sample) -> Sample {
    Sample {
        job: job.number(),
        nodes: found.nodes,
        gpus: found.gpus,
        local: found.local,
        step_time: found.step_s,
        sync_time: found.sync_s,
        gradient_sqr: found.sqr,
        gradient_variance: found.variance,
    }
}

/// What policies are told once: each demand, workload and user when the first of its jobs arrives.
pub(crate) struct Introduced {
    /// What is revealed, by workload of the profile; empty: nothing.
    profiles: Vec<WorkloadProfile>,
    /// The policy's number of each workload that it knows.
    numbers: Vec<Option<u32>>,
    known: u32,
    classes: BTreeMap<Demand, ClassId>,
    users: BTreeMap<String, UserId>,
    /// What it has not been told yet.
    new: Introductions,
}

impl Introduced {
    pub(crate) fn new(profiles: &[WorkloadProfile], reveal: Reveal) -> Introduced {
        let all = [(reveal.solo_profile, Sources::SOLO_PROFILE), (reveal.model_facts, Sources::MODEL_FACTS)];
        let reads = all.iter().filter(|(told, _)| *told).fold(Sources::empty(), |all, (_, source)| all | *source);
        let told = profiles.iter().filter(|_| reads != Sources::empty());
        let profiles: Vec<WorkloadProfile> = told.map(|profile| shown(profile, reads)).collect();
        Introduced {
            numbers: vec![None; profiles.len()],
            profiles,
            known: 0,
            classes: BTreeMap::new(),
            users: BTreeMap::new(),
            new: Introductions::default(),
        }
    }

    /// The policy's number of a job's workload; [`NO_WORKLOAD`]: it is told nothing.
    pub(crate) fn workload(&mut self, job: &Job) -> WorkloadId {
        let Some((workload, profile)) =
            job.workload.and_then(|workload| Some((workload.index(), self.profiles.get(workload.index())?)))
        else {
            return NO_WORKLOAD;
        };
        *self.numbers[workload].get_or_insert_with(|| {
            self.new.workloads.push(profile.clone());
            self.known += 1;
            self.known - 1
        })
    }

    /// What a job has had, for a policy that takes over.
    pub(crate) fn attained(&mut self, attained: AttainedTime) {
        self.new.attained.push(attained);
    }

    /// The number of a demand.
    pub(crate) fn class(&mut self, demand: Demand) -> ClassId {
        let next = self.classes.len() as ClassId;
        let new = &mut self.new.classes;
        *self.classes.entry(demand).or_insert_with_key(|demand| {
            new.push(demand.clone());
            next
        })
    }

    /// The number of a user.
    pub(crate) fn user(&mut self, name: &str) -> UserId {
        if let Some(user) = self.users.get(name) {
            return *user;
        }
        let user = self.users.len() as UserId;
        self.new.users.push(name.into());
        self.users.insert(name.into(), user);
        user
    }

    /// Forgets what was told: the policy that decides from now on has been told nothing.
    pub(crate) fn restart(&mut self) {
        self.numbers.iter_mut().for_each(|number| *number = None);
        self.known = 0;
        self.classes.clear();
        self.users.clear();
        self.new = Introductions::default();
    }

    /// Those that the next batch introduces.
    pub(crate) fn take(&mut self) -> Introductions {
        std::mem::take(&mut self.new)
    }
}

/// The types of GPU of a fleet, as the contract has them.
pub fn gpu_types(fleet: &Fleet) -> Vec<crate::contract::GpuType> {
    let parts = |id: usize| {
        let of = fleet.parts.of_type(TypeId::at(id));
        let profiles = of.map(|(part, profile)| PartProfile {
            id: part.number(),
            name: profile.name,
            slices: profile.slices,
            memory_mib: profile.memory_mib,
            starts: profile.starts,
        });
        profiles.collect::<Vec<_>>()
    };
    let sharing = |id: usize| match fleet.sharing_of(TypeId::at(id)) {
        Sharing::Exclusive => crate::contract::Sharing::Exclusive,
        Sharing::Shares => crate::contract::Sharing::Shares,
        Sharing::Packed(most) => crate::contract::Sharing::Packed(most),
        Sharing::Parts => crate::contract::Sharing::Parts(parts(id)),
    };
    let kind = |(id, kind): (usize, &GpuType)| crate::contract::GpuType {
        id: id as u32,
        name: kind.name.clone(),
        memory_mib: kind.memory_mib,
        sharing: sharing(id),
    };
    fleet.types.iter().enumerate().map(kind).collect()
}

pub(crate) fn setup(world: &DecisionContext, inputs: &Inputs) -> Setup {
    let fleet = world.fleet();
    let nodes = fleet.nodes.iter().enumerate().map(|(id, node)| Node {
        id: id as u32,
        name: node.name.clone(),
        gpu_type: node.gpu_type.number(),
        first_gpu: node.first_gpu.number(),
        gpus: node.gpus,
        health: NodeHealth::Up,
        domains: node.domains.clone(),
        pool: match node.pool {
            sandtable_hardware::Pool::Training => Pool::Training,
            sandtable_hardware::Pool::Inference => Pool::Inference,
        },
        host: host(node.host),
        revocable: node.revocable.map(|owner| owner.notice.as_micros()),
        links: fleet.links.as_ref().map_or(Vec::new(), |links| links.within.clone()),
    });
    let facts = [
        (inputs.reveal.declared_run_time, Knowledge::DECLARED_RUN_TIME),
        (inputs.reveal.solo_profile, Knowledge::SOLO_PROFILE),
        (inputs.reveal.model_facts, Knowledge::MODEL_FACTS),
        (!inputs.references.is_empty(), Knowledge::REFERENCES),
        (inputs.reveal.progress, Knowledge::PROGRESS),
        (!inputs.weights.is_empty(), Knowledge::WEIGHTS),
    ];
    let known = facts.iter().filter(|(known, _)| *known);
    Setup {
        config: inputs.config.clone(),
        seed: inputs.seed,
        weights: inputs.weights.to_vec(),
        topology: Topology { gpu_types: gpu_types(fleet), levels: fleet.levels.clone(), nodes: nodes.collect() },
        knowledge: known.fold(world.bound(), |all, (_, fact)| all | *fact),
        references: inputs.references.iter().map(|id| profile(inputs, id.index())).collect(),
        services: fleet
            .services
            .iter()
            .zip(0..)
            .map(|(service, id)| Service {
                id,
                name: service.name.clone(),
                cold_start: service.cold_start.as_micros(),
                stays_loaded: fleet.keeps_models,
            })
            .collect(),
        queues: fleet.queues.iter().zip(0..).map(queue).collect(),
        max_actions: inputs.limits.actions,
    }
}

fn queue((queue, id): (&sandtable_hardware::Queue, u32)) -> Queue {
    Queue {
        id,
        name: queue.name.clone(),
        parent: queue.parent.map(sandtable_hardware::QueueId::number),
        guaranteed: queue.guaranteed,
        weight: queue.weight,
        limit: queue.limit,
        priority: queue.priority,
    }
}

/// CPU and memory, as the contract has them.
pub(crate) fn host(of: sandtable_hardware::HostResources) -> HostResources {
    HostResources { cpu_milli: of.cpu_milli, memory_mib: of.memory_mib }
}

/// How near to each other the nodes of a gang are, as the contract has it.
pub(crate) fn near(of: sandtable_hardware::Nearness) -> Nearness {
    Nearness { required: of.required, preferred: of.preferred }
}

/// How a job may change its size, as policies are told.
pub(crate) fn elasticity(laws: &PerformanceModel, job: &Job) -> Option<Elasticity> {
    let elastic = laws.elastic(job)?;
    Some(Elasticity {
        most_gpus: elastic.most_gpus(),
        batch: job.batch?,
        tunable: elastic.tunable,
        initial_batch: elastic.initial_batch,
        most_batch: elastic.most_batch,
        least_local: elastic.least_local,
        most_local: elastic.most_local,
    })
}
