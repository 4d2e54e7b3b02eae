//! A policy that starts what it can and does anything else at random. What the judge says of each of its plans has to
//! be what the oracle says.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Job, JobId, PerformanceModel, SECOND};
use sandtable_runtime::cluster::{Cluster, Phase};
use sandtable_runtime::contract::{
    Abilities, Action, Batch, Cadence, Demand, Descriptor, Event, Fresh, NO_QUEUE, Plan, Readiness, RejectCode,
    Rejection, Setup, Sharing, Start, StartPart, Timer,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::judge::{Bench, judge};
use sandtable_runtime::{DecisionContext, Policy};

use crate::cpu::nodes_for;
use crate::mischief::Scene;
use crate::oracle::{Outcome, Refused, Site, oracle};

pub struct Wild {
    stream: Stream,
    uses: Abilities,
    mischief: u64,
    near: bool,
    jobs: Arc<[Job]>,
    laws: Arc<PerformanceModel>,
    setup: Option<Setup>,
    announced: BTreeMap<u32, Demand>,
    queues: BTreeMap<u32, u32>,
    classes: Vec<Demand>,
    /// What the oracle says of the latest plan.
    foretold: Vec<Refused>,
    latest: Vec<Action>,
}

impl Wild {
    pub fn new(
        stream: Stream,
        (uses, mischief, near): (Abilities, u64, bool),
        (jobs, laws): (Arc<[Job]>, Arc<PerformanceModel>),
    ) -> Wild {
        let (announced, queues, classes, foretold, latest) = Default::default();
        Wild { stream, uses, mischief, near, jobs, laws, setup: None, announced, queues, classes, foretold, latest }
    }

    /// Legal starts: whatever is free now, lowest first.
    fn starts(&mut self, world: &mut DecisionContext, setup: &Setup) -> Vec<Action> {
        let (held, _) = world.occupancy();
        let mut free: Vec<u32> = Vec::new();
        for (node, some) in setup.topology.nodes.iter().zip(world.free_gpus()) {
            if some > 0 {
                let gpus = node.first_gpu..node.first_gpu + node.gpus;
                free.extend(gpus.filter(|gpu| held.binary_search(gpu).is_err()));
            }
        }
        let mut actions = Vec::new();
        for (job, info) in &self.announced {
            let gpus = info.gpus as usize;
            // Some are left for what is drawn, some are tried whatever the check says.
            let luck = if self.near && self.mischief > 0 { self.stream.integer() % 4 } else { 1 };
            let left = luck == 0 || (luck == 3 && info.part.is_some());
            if left || (info.part.is_none() && free.len() < gpus) || actions.len() >= setup.max_actions as usize {
                continue;
            }
            let start = match info.part {
                Some(part) => {
                    let before = actions.clone();
                    match places(setup, *job, part).find(|place| fits(world, &before, place)) {
                        Some(place) => place,
                        None => continue,
                    }
                }
                None if gpus == 0 => {
                    let before = actions.clone();
                    match nodes_for(setup, *job).find(|place| fits(world, &before, place)) {
                        Some(place) => place,
                        None => continue,
                    }
                }
                None => Action::Start(Start { job: *job, gpus: free[..gpus].to_vec(), batch: None }),
            };
            let legal = world.check(std::slice::from_ref(&start)).is_empty();
            match &start {
                Action::StartPart(it) => free.retain(|gpu| *gpu != it.gpu),
                _ if legal => drop(free.drain(..gpus)),
                _ => {}
            }
            if legal || luck == 2 {
                actions.push(start);
            }
        }
        actions
    }

    fn draw(&mut self, setup: &Setup, state: &Cluster) -> Vec<Action> {
        let mut actions = Vec::new();
        for _ in 0..self.stream.integer() % (self.mischief + 1) {
            let (stream, announced) = (&mut self.stream, &self.announced);
            actions.push(Scene { stream, setup, announced, state }.action(self.near));
        }
        // More timers than anybody may have.
        if self.mischief > 0 && self.stream.integer().is_multiple_of(500) {
            let timer = |token| Action::SetTimer(Timer { token, at: (state.now + 50 * SECOND).as_micros() });
            actions.extend((0..1030).map(timer));
        }
        actions
    }

    /// The state that the judge leaves of a plan.
    fn after(&self, world: &DecisionContext, setup: &Setup, base: u64, actions: &[Action]) -> Cluster {
        let told = |job: u32| self.announced.get(&job).map_or(0, |info| info.memory_mib);
        let memory: Vec<u32> = (0..self.jobs.len() as u32).map(told).collect();
        let (fleet, jobs, laws, uses) = (world.fleet(), &self.jobs[..], &*self.laws, self.uses);
        let mut state = world.cluster.clone();
        let bench = Bench { fleet, jobs, laws, memory: &memory, uses, max_actions: setup.max_actions };
        judge(&bench, &mut state, base, actions);
        state
    }
}

impl Policy for Wild {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        Ok(Descriptor::stand_in("wild", self.uses))
    }

    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault> {
        self.setup = Some(setup.clone());
        Ok(Readiness::of(Cadence::EVENTS))
    }

    fn decide(
        &mut self,
        batch: &Batch,
        mut world: Box<DecisionContext>,
    ) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        assert_eq!(batch.fresh.contains(Fresh::CLASSES), !world.introductions.classes.is_empty());
        self.classes.extend_from_slice(&world.introductions.classes);
        let mut told = Vec::new();
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => {
                    drop(self.announced.insert(arrival.job, self.classes[arrival.class as usize].clone()));
                    if arrival.queue != NO_QUEUE {
                        self.queues.insert(arrival.job, arrival.queue);
                    }
                }
                Event::Rejected(count) => {
                    told.clone_from(&world.rejections);
                    assert_eq!(*count as usize, told.len());
                }
                _ => {}
            }
        }
        agree(&self.foretold, &told, &self.latest);
        let setup = self.setup.clone().expect("a setup");
        let before = world.cluster.clone();
        let nodes: Vec<(u32, u32)> = setup.topology.nodes.iter().map(|node| (node.first_gpu, node.gpus)).collect();
        agrees_with_itself(&before, &nodes);
        let mut actions = self.starts(&mut world, &setup);
        actions.extend(self.draw(&setup, &before));
        // What the check foretells is what the plan gets, and checking moves nothing.
        let checked = world.check(&actions);
        assert_eq!(before, world.cluster, "check moved something");
        assert_eq!(checked, world.check(&actions));
        let site = Site { setup: &setup, uses: self.uses, announced: &self.announced, queues: &self.queues };
        let Outcome { refused, after } = oracle(&site, &before, batch.seq, &actions);
        agree(&refused, &checked, &actions);
        assert_eq!(self.after(&world, &setup, batch.seq, &actions), after, "{actions:?}");
        // Now and then the plan answers another batch.
        let stale = self.mischief > 0 && self.stream.integer().is_multiple_of(20);
        let base = if stale { batch.seq + 1 } else { batch.seq };
        self.foretold = oracle(&site, &before, base, &actions).refused;
        self.latest.clone_from(&actions);
        (world, Ok(Plan { base, actions }))
    }
}

/// Everywhere that a part may begin.
fn places(setup: &Setup, job: u32, part: u32) -> impl Iterator<Item = Action> {
    let of = move |node: &sandtable_runtime::contract::Node| {
        let starts = match &setup.topology.gpu_types[node.gpu_type as usize].sharing {
            Sharing::Parts(parts) => parts.iter().find(|known| known.id == part).map_or(&[][..], |known| &known.starts),
            _ => &[],
        };
        let gpus = node.first_gpu..node.first_gpu + node.gpus;
        gpus.flat_map(move |gpu| {
            starts.iter().map(move |slice| Action::StartPart(StartPart { job, gpu, slice: *slice }))
        })
    };
    setup.topology.nodes.iter().flat_map(of)
}

/// Whether an action is legal after others.
fn fits(world: &mut DecisionContext, before: &[Action], action: &Action) -> bool {
    let all = [before, std::slice::from_ref(action)].concat();
    world.check(&all).iter().all(|refused| refused.index as usize != before.len())
}

/// The judge refuses what the oracle refuses, and names a rule that is broken and the job that breaks it.
fn agree(foretold: &[Refused], found: &[Rejection], actions: &[Action]) {
    let indices = |found: &[Rejection]| found.iter().map(|it| it.index).collect::<Vec<_>>();
    let expected: Vec<u32> = foretold.iter().map(|it| it.index).collect();
    assert_eq!(indices(found), expected, "judge and oracle, of {actions:?}: {found:?}, {foretold:?}");
    for (judged, refused) in found.iter().zip(foretold) {
        // A plan that is refused whole may be empty.
        let action = actions.get(refused.index as usize);
        assert!(refused.broken.contains(&judged.code), "{action:?}: {judged:?}, {refused:?}");
        let job = match action {
            _ if matches!(judged.code, RejectCode::StalePlan | RejectCode::PlanTooLarge) => None,
            Some(Action::Start(it)) => Some(it.job),
            Some(Action::StartPart(it)) => Some(it.job),
            Some(Action::StartOn(it)) => Some(it.job),
            Some(Action::Preempt(it)) => Some(it.job),
            Some(Action::Throttle(it)) => Some(it.job),
            Some(Action::SetBatch(it)) => Some(it.job),
            Some(Action::Refuse(job)) => Some(*job),
            _ => None,
        };
        assert_eq!(judged.job, job, "{action:?}: {judged:?}");
    }
}

/// Every table of the state says the same of who is where.
pub fn agrees_with_itself(cluster: &Cluster, nodes: &[(u32, u32)]) {
    let mut residents = vec![Vec::new(); cluster.residents.len()];
    for (job, phase) in cluster.phase.iter().enumerate() {
        let gpus = &cluster.held[JobId::at(job)];
        match phase {
            Phase::Starting | Phase::Running => {
                let has_place = !gpus.is_empty() || cluster.cpu_jobs.contains_key(&JobId::at(job));
                assert!(has_place, "job {job} is {phase:?} without GPUs or a node");
                gpus.iter().for_each(|gpu| residents[*gpu].push(JobId::at(job)));
            }
            // Its GPUs are given to others already; `held` says where it still is.
            Phase::Stopping => {}
            Phase::Future | Phase::Queued | Phase::Ended => {
                assert!(gpus.is_empty(), "job {job} is {phase:?} on {gpus:?}");
                assert!(!cluster.cpu_jobs.contains_key(&JobId::at(job)), "job {job} is {phase:?} on a node");
            }
        }
    }
    assert_eq!(cluster.residents, residents);
    assert!(cluster.slices.keys().all(|job| !cluster.held[*job].is_empty()), "{:?}", cluster.slices);
    let free = |(first, gpus): &(u32, u32)| {
        residents[*first as usize..(first + gpus) as usize].iter().filter(|there| there.is_empty()).count() as u32
    };
    assert_eq!(cluster.free, nodes.iter().map(free).collect::<Vec<_>>());
}
