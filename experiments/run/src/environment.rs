//! Runs in which an agent outside of the sandbox decides: a program that learns. What it did is an observation, kept as a tape of its answers, and
//! never the result of a cell; a network that it has learnt comes back as the weights of the policy `mlp`, which decides by the same code
//! ([`sandtable_turns`]).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_hardware::{Instant, Job};
use sandtable_plan::Cell as PlannedCell;
use sandtable_policy::{
    About, Batch, Cadence, Cluster, Config, Event, JobId, Knowledge, Placement, Policy, PolicyError, Setup,
};
use sandtable_results::store::Files;
use sandtable_runtime::fault::Fault;
use sandtable_runtime::{JobOutcome, Ledger, Summary};
use sandtable_turns::{Agent, Answer, Input, Observation, View, in_turns, still_waiting};

use crate::execute::{Compiled, Extras, results, simulate, summary};
use crate::native::Native;

/// What a player is asked.
pub struct Question<'a> {
    /// What it sees.
    pub seen: &'a Observation,
    /// Time that jobs have spent between submission and end so far, together, µs.
    pub job_time: u128,
}

/// An agent.
pub trait Player {
    /// Its answer; none ends the run, without a result.
    fn answer(&mut self, question: &Question<'_>) -> Option<Answer>;
}

/// What an agent is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Of the cluster and of each job.
    pub inputs: Vec<Input>,
    /// Jobs.
    pub slots: usize,
}

/// A run that has ended.
pub struct Episode {
    /// Its metrics.
    pub summary: Summary,
    /// Time that jobs have spent between submission and end, together, µs; to the end of the run for one that has not ended. One that could never
    /// run does not count: no policy is told of it.
    pub job_time: u128,
    /// Its files, as a cell's; none where they are not kept.
    pub files: Option<Files>,
}

/// Runs a cell in which a player decides in place of the policy; none: it ended the run. `keep` says whether its files are made.
///
/// # Errors
/// Inputs that can't be used, a fleet or jobs on which nothing can be decided so, and defects of ours.
pub fn play(
    cell: &PlannedCell,
    compiled: &Compiled,
    shown: &Shown,
    player: Rc<RefCell<dyn Player>>,
    keep: bool,
) -> Result<Option<Episode>, Error> {
    let jobs = cell.jobs()?;
    let predictors = compiled.predictors(cell).map_err(|fault| Error::usage(format!("{}: {fault}", cell.label)))?;
    let (ended, asked) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    SEATED.set(Some(Seat { player, shown: shown.clone(), ended: ended.clone(), asked: asked.clone() }));
    let finished = simulate(cell, jobs.clone(), &mut Native::<Seated>::new(), predictors, Extras::default());
    SEATED.set(None);
    let finished = finished?;
    match &finished.fault {
        Some(_) if ended.get() => return Ok(None),
        Some(fault @ Fault::Host(_)) => return Err(Error::internal(format!("{}: {fault}", cell.label))),
        Some(fault) => return Err(Error::usage(format!("{}: {fault}", cell.label))),
        None => {}
    }
    let summary = summary(&finished);
    let files = if keep { Some(results(cell, &finished, &jobs)?) } else { None };
    Ok(Some(Episode { job_time: job_time(&finished.ledger, &jobs, asked.get()), summary, files }))
}

/// Time that jobs have spent between submission and end, together, µs; the policy was last called at `asked`.
fn job_time(ledger: &Ledger, jobs: &Arc<[Job]>, asked: u64) -> u128 {
    let ends = ledger.rows().filter_map(|row| row.end).map(Instant::as_micros);
    let last = ends.max().unwrap_or(0).max(asked);
    let told = ledger.rows().zip(jobs.iter()).filter(|(row, _)| !matches!(row.outcome, JobOutcome::Rejected(_)));
    told.map(|(row, job)| u128::from(row.end.map_or(last, Instant::as_micros).saturating_sub(job.submit.as_micros())))
        .sum()
}

struct Seat {
    player: Rc<RefCell<dyn Player>>,
    shown: Shown,
    /// Whether the player ended the run.
    ended: Rc<Cell<bool>>,
    /// When the policy was last called.
    asked: Rc<Cell<u64>>,
}

thread_local! {
    /// The player of the run that begins on this thread: a policy is made of its configuration alone.
    static SEATED: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

/// The policy in which a player decides.
struct Seated {
    seat: Seat,
    view: View,
    place: Placement,
    waiting: Vec<JobId>,
    time: JobTime,
}

impl Policy for Seated {
    fn about() -> About {
        About {
            name: "agent",
            about: "an agent outside of the sandbox decides",
            uses: Placement::follows(),
            needs: Knowledge::empty(),
            params: &[Placement::PARAM],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let seat = SEATED.take().ok_or_else(|| PolicyError::Internal("no player is seated".into()))?;
        let view = View::new(&seat.shown.inputs, seat.shown.slots, &setup.topology.nodes);
        let place = Placement::named(config.choice("placement"));
        Ok(Seated { seat, view, place, waiting: Vec::new(), time: JobTime::default() })
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.seat.asked.set(batch.now);
        self.time.take_in(batch);
        still_waiting(&mut self.waiting, batch, cluster);
        let mut asked = Asked { seat: &self.seat, job_time: self.time.until(batch.now) };
        in_turns(&mut asked, &self.view, &mut self.waiting, cluster, self.place)
    }
}

struct Asked<'a> {
    seat: &'a Seat,
    job_time: u128,
}

impl Agent for Asked<'_> {
    fn answer(&mut self, seen: &Observation) -> Result<Answer, PolicyError> {
        let question = Question { seen, job_time: self.job_time };
        let answer = self.seat.player.borrow_mut().answer(&question);
        answer.ok_or_else(|| {
            self.seat.ended.set(true);
            PolicyError::Internal("the player ended the run".into())
        })
    }
}

/// Time that jobs spend between submission and end, from what a policy is told.
#[derive(Default)]
struct JobTime {
    /// When each job was submitted.
    submitted: Vec<u64>,
    /// Jobs that have not ended, and the sum of their submissions.
    live: (u128, u128),
    /// Of those that have.
    ended: u128,
}

impl JobTime {
    fn take_in(&mut self, batch: &Batch) {
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => {
                    let at = arrival.job as usize;
                    self.submitted.resize(self.submitted.len().max(at + 1), 0);
                    self.submitted[at] = arrival.submitted;
                    self.live = (self.live.0 + 1, self.live.1 + u128::from(arrival.submitted));
                }
                Event::JobEnded(end) => {
                    let submitted = self.submitted[end.job as usize];
                    self.live = (self.live.0 - 1, self.live.1 - u128::from(submitted));
                    self.ended += u128::from(end.at.saturating_sub(submitted));
                }
                _ => {}
            }
        }
    }

    fn until(&self, now: u64) -> u128 {
        self.ended + (self.live.0 * u128::from(now)).saturating_sub(self.live.1)
    }
}
