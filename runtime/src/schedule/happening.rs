//! What happens on the machines, from submission to end, as it enters the state, the ledger and the next batch.

use sandtable_hardware::{
    BackendEvent, Cause, Duration, Instant, JobId, NodeId, PartId, QueueId, ServiceId, Standing, TimedEvent,
};

use super::Run;
use super::leased::Rounds;
use crate::cluster::Phase;
use crate::contract::{
    Abilities, Arrival, ChangeCause, Demand, Event, JobEnd, JobPhase, LeaseEnd, NEVER, NO_QUEUE, NodeChange,
    NodeHealth, PhaseChange,
};
use crate::inputs::Happens;
use crate::ledger::AccountingError;
use crate::visibility::{elasticity, host, near};

impl Run {
    /// To the next instant at which something happens, at the latest `until`; returns whether anything did.
    pub(super) fn advance(&mut self, until: Option<Instant>) -> Result<bool, AccountingError> {
        let mut happened = std::mem::take(&mut self.happened);
        let world = self.world();
        world.backend.advance(until, &mut happened);
        world.cluster.now = world.backend.now();
        let now = world.cluster.now;
        self.ledger.advance(now)?;
        let any = !happened.is_empty();
        let outcome = self.take_in(&mut happened, false);
        self.happened = happened;
        outcome.map(|()| any)
    }

    /// Enters what happened; `asked`: at once, as part of carrying out a plan.
    pub(super) fn take_in(&mut self, happened: &mut Vec<TimedEvent>, asked: bool) -> Result<(), AccountingError> {
        for TimedEvent { at, what } in happened.drain(..) {
            match what {
                // What the end of time cuts off is unfinished.
                BackendEvent::Ended(_) if at >= Instant::END => {}
                BackendEvent::Ended(job) => {
                    self.ledger.ended(job, at)?;
                    self.end(job, at);
                    self.keep_model(job);
                }
                BackendEvent::Failed { job, status } => {
                    self.ledger.crashed(job, status);
                    self.end(job, at);
                }
                BackendEvent::Running(job) => {
                    self.ledger.running(job);
                    self.mark_for_report(job);
                    self.world().cluster.set_phase(job, Phase::Running);
                    self.tell(job, JobPhase::Running, at, ChangeCause::Asked);
                }
                BackendEvent::Pace { job, pace } => {
                    self.ledger.pace(job, pace);
                    let change = self.world().remaining_change(job, at);
                    self.events.extend(change);
                }
                BackendEvent::Epoch(job) => {
                    self.mark_for_report(job);
                    self.epoch |= self.world().fleet().costs.epochs_end_on > Duration::ZERO;
                }
                BackendEvent::Stalled(job) => {
                    self.ledger.stopped(job, false);
                    // A plan that sets a job's batch and then preempts it was judged whole: the job is stopping already.
                    let cluster = &mut self.world().cluster;
                    if cluster.phase[job] == Phase::Running {
                        cluster.set_phase(job, Phase::Starting);
                        self.tell(job, JobPhase::Starting, at, ChangeCause::Asked);
                    }
                }
                BackendEvent::Died(job) => {
                    self.ledger.died(job);
                    let world = self.world();
                    world.cluster.take(world.backend.fleet(), job);
                    self.tell(job, JobPhase::Stopping, at, ChangeCause::OutOfMemory);
                    self.wake = true;
                }
                BackendEvent::Released { job, cause, lost } => self.released(job, (cause, lost), at, asked),
                BackendEvent::NodeDown(node) => self.node_changed(node, at, NodeHealth::Down),
                BackendEvent::NodeUp(node) => self.node_changed(node, at, NodeHealth::Up),
                BackendEvent::NodeDrains { node, until } => self.node_drains(node, at, until),
                BackendEvent::LeaseEnded { job, seconds, restart } => self.tell_lease(job, seconds, restart),
                BackendEvent::RoundOver => self.round_over(),
            }
        }
        Ok(())
    }

    /// A job let its GPUs go with work left.
    fn released(&mut self, job: JobId, (cause, lost): (Cause, Duration), at: Instant, asked: bool) {
        self.ledger.stopped(job, false);
        self.ledger.released(job, lost);
        self.change(job, Phase::Queued);
        if matches!(cause, Cause::NodeLost | Cause::NodeTakenBack) {
            self.ledger.failed(job);
        }
        let cause = match cause {
            Cause::Asked => ChangeCause::Asked,
            Cause::NodeLost => ChangeCause::NodeLost,
            Cause::NodeTakenBack => ChangeCause::NodeTakenBack,
            Cause::OutOfMemory => ChangeCause::OutOfMemory,
        };
        self.tell(job, JobPhase::Queued, at, cause);
        self.wake |= !asked || self.leased.is_some();
        // A job that ran until then may run again.
        self.idle = if asked { self.idle } else { 0 };
    }

    /// A round did work, whatever the policy does between two.
    fn round_over(&mut self) {
        self.leased.iter_mut().for_each(Rounds::is_over);
        (self.wake, self.idle) = (true, 0);
    }

    fn tell_lease(&mut self, job: JobId, seconds: f64, restart: f64) {
        self.events.push(Event::LeaseEnded(LeaseEnd { job: job.number(), seconds, restart }));
    }

    fn end(&mut self, job: JobId, at: Instant) {
        self.leave(job, at);
        self.ended = true;
    }

    /// A job is not live any more. The next call tells.
    pub(super) fn leave(&mut self, job: JobId, at: Instant) {
        self.change(job, Phase::Ended);
        self.live -= 1;
        self.dependents.happened(job, Happens::Ended, at, &self.inputs.jobs);
        (self.idle, self.barren) = (0, 0);
        self.events.push(Event::JobEnded(JobEnd { job: job.number(), at: at.as_micros() }));
    }

    pub(super) fn node_changed(&mut self, node: NodeId, at: Instant, health: NodeHealth) {
        let world = self.world();
        world.cluster.up[node] = health == NodeHealth::Up;
        world.cluster.draining.remove(&node);
        if health == NodeHealth::Down {
            let of = &world.backend.fleet().nodes[node];
            let gpus = of.gpu_ids();
            world.cluster.unload(of);
            gpus.for_each(|gpu| self.ledger.protected(gpu, Instant::START));
        }
        self.tell_node(node, at, health, None);
        self.wake = true;
    }

    /// Tells how a node is; of one that drains, until when.
    pub(super) fn tell_node(&mut self, node: NodeId, at: Instant, health: NodeHealth, until: Option<Instant>) {
        let (node, at, until) = (node.number(), at.as_micros(), until.map_or(NEVER, Instant::as_micros));
        self.events.push(Event::NodeChanged(NodeChange { node, at, health, until }));
    }

    /// A node is to go down. A policy that is not told of it goes on as before.
    fn node_drains(&mut self, node: NodeId, at: Instant, until: Instant) {
        let world = self.world();
        let sooner = |known: &Instant| *known <= until;
        if world.cluster.draining.get(&node).is_some_and(sooner) {
            return;
        }
        world.cluster.draining.insert(node, until);
        if world.uses.contains(Abilities::DRAIN) {
            self.tell_node(node, at, NodeHealth::Draining, Some(until));
            self.wake = true;
        }
    }

    pub(super) fn change(&mut self, job: JobId, phase: Phase) {
        let world = self.world();
        world.cluster.release(world.backend.fleet(), job, phase);
    }

    pub(super) fn tell(&mut self, job: JobId, phase: JobPhase, at: Instant, cause: ChangeCause) {
        let (remaining, job, at) = (self.world().remaining_told(job), job.number(), at.as_micros());
        self.events.push(Event::JobChanged(PhaseChange { job, phase, at, cause, remaining }));
    }

    pub(super) fn submit(&mut self, now: Instant) {
        while self.inputs.jobs.get(self.next_job).is_some_and(|job| job.submit <= now) {
            let id = JobId::at(self.next_job);
            self.next_job += 1;
            if !self.dependents.holds(id) {
                self.admit(id);
            }
        }
        while let Some(id) = self.dependents.due(now) {
            self.admit(id);
        }
    }

    /// A job waits from now on.
    fn admit(&mut self, id: JobId) {
        let job = &self.inputs.jobs[id];
        let world = match &mut self.world {
            Some(world) => world,
            None => unreachable!("the world is lent only to a call"),
        };
        // What runs has found its place.
        let runs = self.inputs.beginning.jobs.get(&id).is_some_and(Standing::holds);
        if let Some(reason) = self.capacities.never_fits(&self.inputs.laws, job).filter(|_| !runs) {
            world.cluster.set_phase(id, Phase::Ended);
            world.backend.forget(id);
            self.ledger.rejected(id, reason);
            return;
        }
        world.cluster.set_phase(id, Phase::Queued);
        self.ledger.submitted(id);
        self.live += 1;
        (self.idle, self.barren) = (0, 0);
        let arrival = self.arrival(id);
        self.events.push(arrival);
        self.wake = true;
    }

    /// What a policy is told of a job that comes.
    pub(super) fn arrival(&mut self, id: JobId) -> Event {
        let memory_mib = self.memory_told(id);
        let job = &self.inputs.jobs[id];
        let class = self.introduced.class(Demand {
            gpus: job.gpus,
            gpus_per_node: job.gpus_per_node,
            host: host(job.host),
            near: near(job.near),
            share_milli: job.share,
            part: job.part.map(PartId::number),
            memory_mib,
            gpu_types: job.gpu_types.iter().map(|gpu_type| gpu_type.number()).collect(),
            preemptible: job.preemptible,
            elastic: elasticity(&self.inputs.laws, job),
            service: job.service.map(ServiceId::number),
        });
        let (user, workload) = (self.introduced.user(&job.user), self.introduced.workload(job));
        let submitted = job.submit.as_micros();
        let declared = job.declared.filter(|_| self.inputs.reveal.declared_run_time).map(Duration::as_micros);
        Event::JobArrived(Arrival {
            job: id.number(),
            class,
            submitted,
            user,
            workload,
            declared_run_time: declared.unwrap_or(NEVER),
            deadline: job.deadline.map_or(NEVER, |at| at.as_micros().min(NEVER)),
            priority: job.priority,
            queue: job.queue.map_or(NO_QUEUE, QueueId::number),
            remaining: self.world().remaining_told(id),
        })
    }

    pub(super) fn memory_told(&self, job: JobId) -> u32 {
        self.world.as_ref().map_or(0, |world| world.memory_told(job))
    }

    pub(super) fn fire(&mut self, now: Instant) -> bool {
        let timers = &mut self.world().cluster.timers;
        if timers.values().all(|at| *at > now) {
            return false;
        }
        let due: Vec<u64> = timers.iter().filter(|(_, at)| **at <= now).map(|(token, _)| *token).collect();
        for token in due {
            self.world().cluster.timers.remove(&token);
            self.events.push(Event::Timer(token));
        }
        true
    }
}
