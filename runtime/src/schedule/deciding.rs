//! One decision: the policy is asked, its plan judged and carried out, and what came of it entered.

use sandtable_hardware::{GpuId, Instant, JobId, Move, NodeId, Split, StopMode, TimedEvent};

use super::Run;
use crate::capsule::Step;
use crate::cluster::Phase;
use crate::contract::{
    Action, Batch, BatchSplit, Event, Plan, PreemptMode, Rejection, Start, StartOn, StartPart, Trigger,
};
use crate::decision_log::ReplayScript;
use crate::fault::Fault;
use crate::inputs::Happens;
use crate::ledger::AccountingError;
use crate::policy::Policy;

/// Most that a recording may hold, in bytes; beyond it a failed run leaves no capsule.
const RECORDING: usize = 256 << 20;

impl Run {
    pub(super) fn decide(
        &mut self,
        policy: &mut dyn Policy,
        now: Instant,
        trigger: Trigger,
    ) -> Result<Result<(), Fault>, AccountingError> {
        // Nothing but epochs ended: no other report is due.
        let quiet = trigger == Trigger::Event && !self.wake && !self.ended;
        self.ended = false;
        // Between leases a policy that takes over is called for the round too.
        self.wake = trigger == Trigger::Resync && self.leased.is_some();
        self.leased.iter_mut().for_each(|rounds| rounds.called(now, trigger));
        self.epoch = false;
        self.resync = false;
        self.calls += 1;
        self.idle += 1;
        self.barren += 1;
        let seq = self.calls;
        self.world().cluster.seq = seq;
        let mut introductions = self.introduced.take();
        introductions.samples = self.samples(quiet);
        let fresh = introductions.fresh();
        self.world().introductions = introductions;
        let batch = Batch { seq, now: now.as_micros(), trigger, fresh, events: std::mem::take(&mut self.events) };
        let plan = self.ask(policy, &batch);
        let news = |event: &Event| matches!(event, Event::JobArrived(_) | Event::JobEnded(_) | Event::NodeChanged(_));
        let mut is_decision = batch.events.iter().any(news);
        // The buffer is kept: a batch is the only thing that a call would allocate.
        self.events = batch.events;
        self.events.clear();
        let mut plan = match (plan, &mut self.inputs.script) {
            (Ok(plan), _) => plan,
            // A policy that fails has parted from the recording, which goes on.
            (Err(fault), Some(script)) if !fault.is_no_guests() => {
                script.failed(now);
                Plan { base: seq, actions: Vec::new() }
            }
            (Err(fault), _) => return Ok(Err(fault)),
        };
        if let Some(script) = &mut self.inputs.script {
            plan.actions = script.instead(now, plan.actions);
        }
        let verdict = self.world().judge(plan.base, &plan.actions);
        if !verdict.rejections.is_empty() {
            if self.inputs.strict {
                return Ok(Err(Fault::BadPlan { rejections: verdict.rejections }));
            }
            self.rejections += verdict.rejections.len() as u64;
            self.events.push(Event::Rejected(verdict.rejections.len() as u32));
        }
        let refused = verdict.rejections.iter().any(concerns_the_plan);
        self.world().rejections.clone_from(&verdict.rejections);
        if refused {
            return Ok(Ok(()));
        }
        for (index, action) in plan.actions.iter().enumerate() {
            if verdict.accepted(index) {
                self.carry_out(action)?;
                is_decision |= !matches!(action, Action::SetTimer(_) | Action::CancelTimer(_));
            }
        }
        if is_decision {
            self.world().backend.decided();
        }
        let accepted = plan.actions.into_iter().enumerate().filter(|(index, _)| verdict.accepted(*index));
        self.enter(|decision_log| decision_log.decided(now, trigger, accepted.map(|(_, action)| action).collect()));
        Ok(Ok(()))
    }

    /// Asks the policy that decides now, and records what it was told where a capsule is wanted.
    fn ask(&mut self, policy: &mut dyn Policy, batch: &Batch) -> Result<Plan, Fault> {
        let Some(world) = self.world.take() else { unreachable!("the world is lent only to a call") };
        let mut replacement = self.replacement.take();
        if self.inputs.record.is_some() {
            policy.record(RECORDING - self.recorded);
        }
        let (world, plan) = match &mut replacement {
            // A policy that has parted from the recording knows of another cluster than this: it is not asked any more.
            _ if self.inputs.script.as_ref().is_some_and(ReplayScript::has_parted) => {
                (world, Ok(Plan { base: batch.seq, actions: Vec::new() }))
            }
            Some(replacement) => replacement.decide(batch, world),
            None => policy.decide(batch, world),
        };
        self.replacement = replacement;
        self.world = Some(world);
        if self.inputs.record.is_some() {
            let step = policy.recorded().map(|answers| Step { batch: batch.clone(), answers });
            match step.map(|step| (self.recorded + step.weight(), step)) {
                Some((recorded, step)) if recorded <= RECORDING => {
                    self.recorded = recorded;
                    self.steps.push(step);
                }
                _ => {
                    self.inputs.record = None;
                    self.steps = Vec::new();
                }
            }
        }
        plan
    }

    fn carry_out(&mut self, action: &Action) -> Result<(), AccountingError> {
        let mut happened = std::mem::take(&mut self.happened);
        // A job that may have to wait before it runs or lets its GPUs go, and its phase until then.
        let mut delayed = None;
        match action {
            Action::Start(start) => {
                let (job, gpus) = placement(start);
                self.begin(job, &gpus, start.batch.map(split), &mut happened)?;
                delayed = Some((job, Phase::Starting));
            }
            Action::StartPart(StartPart { job, gpu, .. }) => {
                self.begin(JobId::new(*job), &[GpuId::new(*gpu)], None, &mut happened)?;
                delayed = Some((JobId::new(*job), Phase::Starting));
            }
            Action::StartOn(StartOn { job, node }) => {
                self.begin_on(JobId::new(*job), NodeId::new(*node), &mut happened)?;
                delayed = Some((JobId::new(*job), Phase::Starting));
            }
            Action::Reassign(moves) => {
                self.idle = 0;
                let each = |start: &Start| {
                    let (job, gpus) = placement(start);
                    Move { job, gpus, split: start.batch.map(split) }
                };
                let moves: Vec<Move> = moves.iter().map(each).collect();
                moves.iter().for_each(|to| self.ledger.leaves(to.job, &to.gpus));
                for to in &moves {
                    self.ledger.goes_on(to.job, &to.gpus)?;
                }
                self.world().backend.reassign(moves, &mut happened);
            }
            Action::SetBatch(set) => {
                let job = JobId::new(set.job);
                self.world().backend.set_batch(job, split(set.batch), &mut happened);
                self.mark_for_report(job);
            }
            Action::Protect(protect) => {
                self.ledger.protected(GpuId::new(protect.gpu), Instant::from_micros(protect.until));
            }
            Action::Preempt(preempt) => {
                self.idle = 0;
                let job = JobId::new(preempt.job);
                self.ledger.stopped(job, true);
                let mode = match preempt.mode {
                    PreemptMode::Checkpoint => StopMode::Checkpoint,
                    PreemptMode::Kill => StopMode::Kill,
                };
                self.world().backend.stop(job, mode, &mut happened);
                delayed = Some((job, Phase::Stopping));
            }
            Action::Throttle(throttle) => {
                self.world().backend.throttle(JobId::new(throttle.job), throttle.milli, &mut happened);
            }
            Action::Refuse(job) => self.refuse(JobId::new(*job)),
            Action::SetTimer(_) | Action::CancelTimer(_) => {}
        }
        let outcome = self.take_in(&mut happened, true);
        self.happened = happened;
        if let Some((job, phase)) = delayed {
            let world = self.world();
            if world.cluster.phase[job] == phase {
                let change = world.remaining_change(job, world.cluster.now);
                self.events.extend(change);
            }
        }
        outcome
    }
}

impl Run {
    /// A job that waits ends for good.
    fn refuse(&mut self, job: JobId) {
        self.ledger.refused(job);
        self.world().backend.forget(job);
        let now = self.world().cluster.now;
        self.leave(job, now);
    }

    /// Gives a job that asks for no GPU its node.
    fn begin_on(&mut self, job: JobId, node: NodeId, happened: &mut Vec<TimedEvent>) -> Result<(), AccountingError> {
        self.idle = 0;
        self.ledger.put(job, node)?;
        self.has_begun(job);
        self.world().backend.start_on(job, node, happened);
        Ok(())
    }

    /// What waits for a job to begin may be submitted.
    fn has_begun(&mut self, job: JobId) {
        let now = self.world().cluster.now;
        self.dependents.happened(job, Happens::Started, now, &self.inputs.jobs);
    }

    /// Gives a job its GPUs.
    fn begin(
        &mut self,
        job: JobId,
        gpus: &[GpuId],
        split: Option<Split>,
        happened: &mut Vec<TimedEvent>,
    ) -> Result<(), AccountingError> {
        self.idle = 0;
        self.ledger.given(job, gpus)?;
        self.has_begun(job);
        self.world().backend.start(job, gpus, split, happened);
        Ok(())
    }
}

fn placement(start: &Start) -> (JobId, Vec<GpuId>) {
    (JobId::new(start.job), GpuId::list(start.gpus.clone()))
}

fn split(batch: BatchSplit) -> Split {
    Split { local: batch.local, accumulation: batch.accumulation }
}

fn concerns_the_plan(rejection: &Rejection) -> bool {
    use crate::contract::RejectCode::{PlanTooLarge, StalePlan};
    matches!(rejection.code, StalePlan | PlanTooLarge)
}
