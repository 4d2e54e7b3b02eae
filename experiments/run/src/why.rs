//! Why a job waits at an instant of a run, as its policy sees it: the run is made again up to there, and the policy is asked.

use sandtable_core::error::Error;
use sandtable_hardware::{Instant, JobId};
use sandtable_plan::Cell;
use sandtable_runtime::cluster::Phase;
use sandtable_runtime::contract::{Action, Batch, Descriptor, Event, JobPhase, Plan, Readiness, Reason, Setup};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::sandbox::Sandboxed;
use sandtable_runtime::{DecisionContext, Policy};

use crate::execute::{Compiled, Extras, simulate};
use crate::story::{self, failed};

/// What becomes of a job at an instant.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It has not been submitted.
    NotSubmitted,
    /// It waits, and its policy has not been called since that is so.
    Unseen,
    /// It waits; none: the policy does not say why.
    Waits(Option<Reason>),
    /// The decision starts it.
    Starts,
    /// The decision preempts it.
    Stops,
    /// The decision refuses it.
    Refused,
    /// It holds GPUs, but does not make progress yet.
    Starting,
    /// It makes progress.
    Running,
    /// It saves its state.
    Stopping,
    /// It is over.
    Ended,
}

/// What a job does at an instant, and when the latest decision was that was not later; none: there was no decision yet.
///
/// # Errors
/// See [`story::tell`]; a fault of the policy while it was asked.
pub fn why(cell: &Cell, compiled: &Compiled, job: JobId, at: Instant) -> Result<Option<(Instant, Standing)>, Error> {
    // Which decision is the latest shows only at the next: they are counted first.
    let (mut calls, mut decided, mut since) = (0, Instant::START, None);
    let finished = story::tell(cell, compiled, |call| {
        let now = Instant::from_micros(call.batch.now);
        if now > at {
            // What happened after that decision, and by the instant, the next call is told.
            since = call.batch.events.iter().rev().find_map(|event| became(event, job, at));
            return false;
        }
        (calls, decided) = (calls + 1, now);
        true
    })?;
    if calls == 0 {
        return Ok(since.map(|standing| (Instant::START, standing)));
    }
    if finished.ledger.row(job).end.is_some_and(|end| end <= at) {
        return Ok(Some((decided, Standing::Ended)));
    }
    // At the instant of the decision it is the decision that people ask about.
    if let Some(standing) = since.filter(|_| at > decided) {
        return Ok(Some((decided, standing)));
    }
    let component = compiled.get(&cell.policy.digest).map_err(|fault| failed(cell, &fault))?;
    let policy = Sandboxed::new(component, cell.setting.limits).map_err(|fault| failed(cell, &fault))?;
    let mut asked = Asked { policy, job, left: calls, found: None };
    let predictors = compiled.predictors(cell).map_err(|fault| failed(cell, &fault))?;
    simulate(cell, cell.jobs()?, &mut asked, predictors, Extras::default())?;
    match asked.found {
        Some(Ok(standing)) => Ok(Some((decided, standing))),
        Some(Err(fault)) => Err(failed(cell, &fault)),
        None => Err(Error::internal("the run ended otherwise the second time")),
    }
}

/// What an event of a job, not later than `at`, made of it.
fn became(event: &Event, job: JobId, at: Instant) -> Option<Standing> {
    match event {
        Event::JobArrived(arrival) if arrival.job == job.number() && arrival.submitted <= at.as_micros() => {
            Some(Standing::Unseen)
        }
        Event::JobChanged(change) if change.job == job.number() && change.at <= at.as_micros() => {
            Some(match change.phase {
                JobPhase::Queued => Standing::Unseen,
                JobPhase::Starting => Standing::Starting,
                JobPhase::Running => Standing::Running,
                JobPhase::Stopping => Standing::Stopping,
                JobPhase::Ended => Standing::Ended,
            })
        }
        _ => None,
    }
}

/// A policy that is asked after so many decisions; then the run ends.
struct Asked {
    policy: Sandboxed,
    job: JobId,
    left: u64,
    found: Option<Result<Standing, Fault>>,
}

impl Asked {
    fn ask(&mut self, plan: &Plan, mut world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Standing, Fault>) {
        let refused = world.check(&plan.actions);
        let carried_out = |at: &u32| refused.iter().all(|refusal| refusal.index != *at);
        let own = (0..).zip(&plan.actions).filter(|(at, _)| carried_out(at)).find_map(|(_, action)| match action {
            Action::Start(start) if start.job == self.job.number() => Some(Standing::Starts),
            Action::StartPart(start) if start.job == self.job.number() => Some(Standing::Starts),
            Action::StartOn(start) if start.job == self.job.number() => Some(Standing::Starts),
            Action::Preempt(preempt) if preempt.job == self.job.number() => Some(Standing::Stops),
            Action::Refuse(job) if *job == self.job.number() => Some(Standing::Refused),
            _ => None,
        });
        if let Some(standing) = own {
            return (world, Ok(standing));
        }
        let standing = match world.cluster.phase[self.job] {
            Phase::Queued => {
                let (world, reasons) = self.policy.explain(&[self.job.number()], world);
                let reason = reasons.map(|reasons| reasons.and_then(|reasons| reasons.into_iter().next()));
                return (world, reason.map(Standing::Waits));
            }
            Phase::Future => Standing::NotSubmitted,
            Phase::Starting => Standing::Starting,
            Phase::Running => Standing::Running,
            Phase::Stopping => Standing::Stopping,
            Phase::Ended => Standing::Ended,
        };
        (world, Ok(standing))
    }
}

impl Policy for Asked {
    fn describe(&mut self) -> Result<Descriptor, Fault> {
        self.policy.describe()
    }

    fn init(&mut self, setup: &Setup) -> Result<Readiness, Fault> {
        self.policy.init(setup)
    }

    fn decide(&mut self, batch: &Batch, world: Box<DecisionContext>) -> (Box<DecisionContext>, Result<Plan, Fault>) {
        let (world, plan) = self.policy.decide(batch, world);
        self.left -= 1;
        match plan {
            Ok(plan) if self.left == 0 => {
                let (world, found) = self.ask(&plan, world);
                self.found = Some(found);
                (world, Err(Fault::Host("enough was seen".into())))
            }
            plan => (world, plan),
        }
    }
}
