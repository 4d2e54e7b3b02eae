//! A policy compiled in: the same crate that becomes a component, driven through the same `Policy` trait. `environment` has an agent in it;
//! benchmarks compare it with its component, and what it costs to translate the types stands for what a lowering costs that crosses no
//! border.

use std::cell::RefCell;
use std::rc::Rc;

use sandtable_hardware::{JobId, TypeId};
use sandtable_policy as guest;
use sandtable_policy::driver::{Driver, describe};
use sandtable_policy::host::{Host, stand_in};
use sandtable_runtime::contract;
use sandtable_runtime::fault::{Fault, Place};
use sandtable_runtime::{DecisionContext, Policy};

type Lent = Rc<RefCell<Option<Box<DecisionContext>>>>;

struct Asked(Lent);

impl Host for Asked {
    fn estimate(&self, what: guest::Quantity, jobs: &[u32], types: &[u32]) -> Vec<f64> {
        match self.0.borrow_mut().as_mut().filter(|_| what == guest::Quantity::Remaining) {
            Some(world) => world.remaining(&JobId::list(jobs.to_vec()), &TypeId::list(types.to_vec())),
            None => vec![f64::NAN; jobs.len()],
        }
    }

    fn occupancy(&self) -> (Vec<u32>, Vec<u32>) {
        self.0.borrow().as_ref().map(|world| world.occupancy()).unwrap_or_default()
    }

    fn cpu_jobs(&self) -> (Vec<u32>, Vec<u32>) {
        self.0.borrow().as_ref().map(|world| world.cpu_jobs()).unwrap_or_default()
    }

    fn part_slices(&self, jobs: &[u32]) -> Vec<u32> {
        let jobs = JobId::list(jobs.to_vec());
        self.0.borrow().as_ref().map(|world| world.part_slices(&jobs)).unwrap_or_default()
    }
}

/// A policy of this process.
pub struct Native<P> {
    driver: Option<Driver<P>>,
    lent: Lent,
}

impl<P: guest::Policy> Default for Native<P> {
    fn default() -> Native<P> {
        Native::new()
    }
}

impl<P: guest::Policy> Native<P> {
    /// Ready to begin. On its thread it answers the imports from now on.
    pub fn new() -> Native<P> {
        let lent = Lent::default();
        stand_in(Box::new(Asked(lent.clone())));
        Native { driver: None, lent }
    }
}

impl<P: guest::Policy> Policy for Native<P> {
    fn describe(&mut self) -> Result<contract::Descriptor, Fault> {
        let d = describe::<P>("native");
        let abilities = [
            (guest::Abilities::PREEMPT, contract::Abilities::PREEMPT),
            (guest::Abilities::TIMERS, contract::Abilities::TIMERS),
            (guest::Abilities::REFUSE, contract::Abilities::REFUSE),
            (guest::Abilities::SHAPE, contract::Abilities::SHAPE),
            (guest::Abilities::HOST, contract::Abilities::HOST),
            (guest::Abilities::NEAR, contract::Abilities::NEAR),
            (guest::Abilities::DRAIN, contract::Abilities::DRAIN),
            (guest::Abilities::QUEUES, contract::Abilities::QUEUES),
            (guest::Abilities::PARTS, contract::Abilities::PARTS),
        ];
        let used = abilities.into_iter().filter(|(guest, _)| d.uses.contains(*guest));
        let uses = used.fold(contract::Abilities::empty(), |all, (_, host)| all | host);
        let mut needs = contract::Knowledge::empty();
        if d.needs.contains(guest::Knowledge::REMAINING) {
            needs |= contract::Knowledge::REMAINING;
        }
        let (name, version, about, config_schema) = (d.name, d.version, d.about, d.config_schema);
        Ok(contract::Descriptor { name, version, about, uses, needs, config_schema })
    }

    fn init(&mut self, setup: &contract::Setup) -> Result<contract::Readiness, Fault> {
        let mut knowledge = guest::Knowledge::empty();
        if setup.knowledge.contains(contract::Knowledge::REMAINING_IN_EVENTS) {
            knowledge |= guest::Knowledge::REMAINING_IN_EVENTS;
        }
        if setup.knowledge.contains(contract::Knowledge::REMAINING) {
            knowledge |= guest::Knowledge::REMAINING;
        }
        let kinds = setup.topology.gpu_types.iter().map(|kind| guest::GpuType {
            id: kind.id,
            name: kind.name.clone(),
            memory_mib: kind.memory_mib,
            sharing: match &kind.sharing {
                contract::Sharing::Exclusive => guest::Sharing::Exclusive,
                contract::Sharing::Shares => guest::Sharing::Shares,
                contract::Sharing::Packed(most) => guest::Sharing::Packed(*most),
                contract::Sharing::Parts(parts) => guest::Sharing::Parts(parts.iter().map(part).collect()),
            },
        });
        let nodes = setup.topology.nodes.iter().map(|node| guest::Node {
            id: node.id,
            name: node.name.clone(),
            gpu_type: node.gpu_type,
            first_gpu: node.first_gpu,
            gpus: node.gpus,
            health: health(node.health),
            links: node.links.clone(),
            domains: node.domains.clone(),
            pool: guest::Pool::Training,
            host: host(node.host),
            revocable: node.revocable,
        });
        let topology = guest::Topology {
            gpu_types: kinds.collect(),
            levels: setup.topology.levels.clone(),
            nodes: nodes.collect(),
        };
        let (config, seed, max_actions) = (setup.config.clone(), setup.seed, setup.max_actions);
        let made = Driver::new(guest::Setup {
            config,
            seed,
            weights: setup.weights.clone(),
            topology,
            knowledge,
            references: vec![],
            services: vec![],
            queues: setup.queues.iter().map(queue).collect(),
            max_actions,
        });
        let (driver, readiness) = made.map_err(|error| refused(Place::Init, &error))?;
        self.driver = Some(driver);
        let guest::Cadence { round, on_events, ends } = readiness.cadence;
        let ends = match ends {
            guest::Wake::Always => contract::Wake::Always,
            guest::Wake::WhileWaiting => contract::Wake::WhileWaiting,
        };
        let cadence = contract::Cadence { round, on_events, ends };
        Ok(contract::Readiness::of(cadence))
    }

    fn decide(
        &mut self,
        batch: &contract::Batch,
        world: Box<DecisionContext>,
    ) -> (Box<DecisionContext>, Result<contract::Plan, Fault>) {
        let new = introductions(&world);
        self.lent.borrow_mut().replace(world);
        let plan = match &mut self.driver {
            Some(driver) => driver.decide(&batch_of(batch), new),
            None => Err(guest::PolicyError::Internal("no init".into())),
        };
        let plan = plan.map_err(|error| refused(Place::Decide, &error)).and_then(|plan| {
            let actions: Result<_, Fault> = plan.actions.into_iter().map(action).collect();
            Ok(contract::Plan { base: plan.base, actions: actions? })
        });
        let world = self.lent.borrow_mut().take().expect("the world is only lent");
        (world, plan)
    }
}

fn queue(of: &contract::Queue) -> guest::Queue {
    guest::Queue {
        id: of.id,
        name: of.name.clone(),
        parent: of.parent,
        guaranteed: of.guaranteed,
        weight: of.weight,
        limit: of.limit,
        priority: of.priority,
    }
}

fn refused(place: Place, error: &guest::PolicyError) -> Fault {
    Fault::Refused { place, error: contract::PolicyError::Internal(format!("{error:?}")) }
}

fn health(health: contract::NodeHealth) -> guest::NodeHealth {
    match health {
        contract::NodeHealth::Up => guest::NodeHealth::Up,
        contract::NodeHealth::Down => guest::NodeHealth::Down,
        contract::NodeHealth::Draining => guest::NodeHealth::Draining,
    }
}

fn batch_of(batch: &contract::Batch) -> guest::Batch {
    let trigger = match batch.trigger {
        contract::Trigger::Event => guest::Trigger::Event,
        contract::Trigger::Round => guest::Trigger::Round,
        contract::Trigger::Timer => guest::Trigger::Timer,
        contract::Trigger::Resync => guest::Trigger::Resync,
    };
    let events = batch.events.iter().filter_map(event).collect();
    guest::Batch { seq: batch.seq, now: batch.now, trigger, fresh: guest::Fresh::empty(), events }
}

fn host(host: contract::HostResources) -> guest::HostResources {
    guest::HostResources { cpu_milli: host.cpu_milli, memory_mib: host.memory_mib }
}

fn part(part: &contract::PartProfile) -> guest::PartProfile {
    let contract::PartProfile { id, name, slices, memory_mib, starts } = part.clone();
    guest::PartProfile { id, name, slices, memory_mib, starts }
}

/// Demands, users and what running jobs have had: the policies here are told of nothing else.
fn introductions(world: &DecisionContext) -> guest::Introductions {
    let demand = |demand: &contract::Demand| guest::Demand {
        gpus: demand.gpus,
        gpus_per_node: demand.gpus_per_node,
        host: host(demand.host),
        near: guest::Nearness { required: demand.near.required, preferred: demand.near.preferred },
        share_milli: demand.share_milli,
        part: demand.part,
        memory_mib: demand.memory_mib,
        gpu_types: demand.gpu_types.clone(),
        preemptible: demand.preemptible,
        elastic: None,
        service: None,
    };
    let had =
        |of: &contract::AttainedTime| guest::AttainedTime { job: of.job, run_time: of.run_time, gpu_time: of.gpu_time };
    let sandtable_runtime::Introductions { classes, users, attained, .. } = &world.introductions;
    guest::Introductions {
        classes: classes.iter().map(demand).collect(),
        users: users.clone(),
        attained: attained.iter().map(had).collect(),
        ..guest::Introductions::default()
    }
}

fn event(event: &contract::Event) -> Option<guest::Event> {
    Some(match event {
        contract::Event::JobArrived(arrival) => guest::Event::JobArrived(guest::Arrival {
            job: arrival.job,
            class: arrival.class,
            submitted: arrival.submitted,
            user: arrival.user,
            workload: guest::NO_WORKLOAD,
            declared_run_time: arrival.declared_run_time,
            deadline: arrival.deadline,
            priority: arrival.priority,
            queue: arrival.queue,
            remaining: arrival.remaining,
        }),
        contract::Event::JobEnded(end) => guest::Event::JobEnded(guest::JobEnd { job: end.job, at: end.at }),
        contract::Event::JobChanged(change) => guest::Event::JobChanged(guest::PhaseChange {
            job: change.job,
            phase: match change.phase {
                contract::JobPhase::Queued => guest::JobPhase::Queued,
                contract::JobPhase::Starting => guest::JobPhase::Starting,
                contract::JobPhase::Running => guest::JobPhase::Running,
                contract::JobPhase::Stopping => guest::JobPhase::Stopping,
                contract::JobPhase::Ended => guest::JobPhase::Ended,
            },
            at: change.at,
            cause: match change.cause {
                contract::ChangeCause::Asked => guest::ChangeCause::Asked,
                contract::ChangeCause::NodeLost => guest::ChangeCause::NodeLost,
                contract::ChangeCause::NodeTakenBack => guest::ChangeCause::NodeTakenBack,
                contract::ChangeCause::OutOfMemory => guest::ChangeCause::OutOfMemory,
            },
            remaining: change.remaining,
        }),
        contract::Event::RemainingChanged(change) => guest::Event::RemainingChanged(guest::RemainingChange {
            job: change.job,
            at: change.at,
            remaining: change.remaining,
        }),
        contract::Event::NodeChanged(change) => guest::Event::NodeChanged(guest::NodeChange {
            node: change.node,
            at: change.at,
            health: health(change.health),
            until: change.until,
        }),
        contract::Event::LeaseEnded(end) => {
            guest::Event::LeaseEnded(guest::LeaseEnd { job: end.job, seconds: end.seconds, restart: end.restart })
        }
        contract::Event::Timer(token) => guest::Event::Timer(*token),
        contract::Event::Rejected(_) => return None,
    })
}

fn action(action: guest::Action) -> Result<contract::Action, Fault> {
    Ok(match action {
        guest::Action::Start(start) => {
            contract::Action::Start(contract::Start { job: start.job, gpus: start.gpus, batch: None })
        }
        guest::Action::Preempt(preempt) => contract::Action::Preempt(contract::Preempt {
            job: preempt.job,
            mode: match preempt.mode {
                guest::PreemptMode::Checkpoint => contract::PreemptMode::Checkpoint,
                guest::PreemptMode::Kill => contract::PreemptMode::Kill,
            },
        }),
        guest::Action::SetTimer(timer) => {
            contract::Action::SetTimer(contract::Timer { token: timer.token, at: timer.at })
        }
        guest::Action::Throttle(throttle) => {
            contract::Action::Throttle(contract::Throttle { job: throttle.job, milli: throttle.milli })
        }
        guest::Action::CancelTimer(token) => contract::Action::CancelTimer(token),
        guest::Action::Refuse(job) => contract::Action::Refuse(job),
        guest::Action::StartPart(guest::StartPart { job, gpu, slice }) => {
            contract::Action::StartPart(contract::StartPart { job, gpu, slice })
        }
        guest::Action::StartOn(guest::StartOn { job, node }) => {
            contract::Action::StartOn(contract::StartOn { job, node })
        }
        guest::Action::Reassign(_) | guest::Action::SetBatch(_) | guest::Action::Protect(_) => {
            return Err(Fault::Host(
                "a policy that is compiled in moves no job, sets no batch and protects no GPU".into(),
            ));
        }
    })
}
