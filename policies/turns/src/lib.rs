//! Decisions in turns: an agent is shown the jobs that have waited longest, and names the one that starts, until it waits or none of them
//! fits. The agent is a network, or, in `sandtable env`, a program at the other end of a pipe: both are asked here.

mod inputs;

use sandtable_policy::{Batch, Cluster, Job, JobId, Node, Placement, PolicyError, Shapes};

use inputs::free_on;
pub use inputs::{Input, Known};

/// Jobs that an agent may be shown together.
pub const MOST_SLOTS: usize = 4096;

/// What an agent is shown: numbers of the cluster, then of each slot `there`, `fits` and the numbers of its job, all 0 where it has none.
#[derive(Clone, Debug)]
pub struct View {
    cluster: Vec<Input>,
    job: Vec<Input>,
    slots: usize,
    nodes: Vec<Node>,
}

/// What an agent is asked with.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// As [`View`] orders them.
    pub values: Vec<f32>,
    /// Whether the job of each slot has a place now.
    pub fits: Vec<bool>,
    /// Whether it may answer that no job starts: some job holds its place, so that time goes on.
    pub may_wait: bool,
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The job of this slot starts. One without a place: taken as waiting, and, where the agent may not wait, as the first that fits.
    Start(usize),
    /// No job starts until something happens.
    Wait,
    /// Jobs that fit start, the highest number first; among equals the lowest slot. NaN comes last.
    Order(Vec<f64>),
}

/// What decides.
pub trait Agent {
    /// Answers an observation in which at least one job fits.
    ///
    /// # Errors
    /// Any ends the run.
    fn answer(&mut self, observation: &Observation) -> Result<Answer, PolicyError>;
}

impl View {
    /// What is shown of a cluster of these nodes, and of so many jobs. Inputs of the cluster come before those of jobs, else in this order.
    pub fn new(inputs: &[Input], slots: usize, nodes: &[Node]) -> View {
        let (cluster, job) = inputs.iter().partition(|input| input.is_of_cluster());
        View { cluster, job, slots, nodes: nodes.to_vec() }
    }

    /// Jobs that are shown.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The inputs of the cluster, then those of a job.
    pub fn inputs(&self) -> (&[Input], &[Input]) {
        (&self.cluster, &self.job)
    }

    /// Numbers of the cluster.
    pub fn of_cluster(&self) -> usize {
        self.cluster.iter().map(|input| input.width(self.nodes.len())).sum()
    }

    /// Numbers of a slot.
    pub fn of_slot(&self) -> usize {
        2 + self.job.len()
    }

    /// Numbers of an observation.
    pub fn width(&self) -> usize {
        self.of_cluster() + self.slots * self.of_slot()
    }

    /// What an agent is shown of these jobs, the first of those that wait.
    fn observe(&self, cluster: &Cluster, waiting: &[JobId], fits: &[bool]) -> Vec<f32> {
        let known = Known::of(cluster, waiting.len());
        let shown = &waiting[..fits.len()];
        let seconds = match self.job.contains(&Input::Seconds) {
            true => cluster.remaining(shown),
            false => vec![f64::NAN; shown.len()],
        };
        let mut values: Vec<f32> = Vec::with_capacity(self.width());
        for input in &self.cluster {
            match input {
                Input::Nodes => values.extend(self.nodes.iter().map(|node| free_on(cluster, node) as f32)),
                _ => values.push(known.of_cluster(*input) as f32),
            }
        }
        for ((id, fits), seconds) in shown.iter().zip(fits).zip(seconds) {
            let job = cluster.job(*id);
            values.extend([1.0, f32::from(u8::from(*fits))]);
            values.extend(self.job.iter().map(|input| known.of_job(*input, job, cluster.now(), seconds) as f32));
        }
        values.resize(self.width(), 0.0);
        values
    }
}

/// Starts the jobs that an agent names, of these that wait, and takes them out.
///
/// # Errors
/// Those of the agent.
pub fn in_turns(
    agent: &mut dyn Agent,
    view: &View,
    waiting: &mut Vec<JobId>,
    cluster: &mut Cluster,
    rule: Placement,
) -> Result<(), PolicyError> {
    // Within a call nothing is given back: what has found no place finds none later.
    let mut shapes = Shapes::default();
    loop {
        let shown = &waiting[..waiting.len().min(view.slots)];
        let mut places: Vec<_> = shown.iter().map(|id| shapes.place(rule, cluster, cluster.job(*id))).collect();
        let fits: Vec<bool> = places.iter().map(Option::is_some).collect();
        let Some(first) = fits.iter().position(|fits| *fits) else { return Ok(()) };
        let values = view.observe(cluster, waiting, &fits);
        let may_wait = cluster.holders().len() > 0;
        let slot = match agent.answer(&Observation { values, fits: fits.clone(), may_wait })? {
            Answer::Order(scores) => {
                order(&scores, view.slots, waiting, cluster, (rule, &mut shapes));
                continue;
            }
            Answer::Start(slot) if fits.get(slot) == Some(&true) => slot,
            _ if may_wait => return Ok(()),
            _ => first,
        };
        if let Some(gpus) = places[slot].take() {
            cluster.start(waiting.remove(slot), gpus);
        }
    }
}

/// Starts those of the first jobs that fit in the order of their scores.
fn order(
    scores: &[f64],
    slots: usize,
    waiting: &mut Vec<JobId>,
    cluster: &mut Cluster,
    (rule, shapes): (Placement, &mut Shapes),
) {
    let score = |slot: usize| scores.get(slot).copied().filter(|score| !score.is_nan()).unwrap_or(f64::NEG_INFINITY);
    let mut order: Vec<(usize, JobId)> = waiting.iter().copied().take(slots).enumerate().collect();
    order.sort_by(|(a, _), (b, _)| score(*b).total_cmp(&score(*a)).then(a.cmp(b)));
    for (_, id) in order {
        if let Some(gpus) = shapes.place(rule, cluster, cluster.job(id)) {
            cluster.start(id, gpus);
            waiting.retain(|other| *other != id);
        }
    }
}

/// Takes in what has begun to wait, in the order in which jobs were submitted, and leaves out what waits no more.
pub fn still_waiting(waiting: &mut Vec<JobId>, batch: &Batch, cluster: &Cluster) {
    waiting.extend(batch.events.iter().flat_map(|event| cluster.queued_by(event)).map(|job| job.id));
    waiting.sort_unstable();
    waiting.dedup();
    waiting.retain(|id| cluster.get(*id).is_some_and(Job::waits));
}

#[cfg(test)]
mod tests {
    use sandtable_policy::testing::topology;

    use super::*;

    #[test]
    fn a_view_has_its_numbers_in_one_order() {
        let view = View::new(&[Input::Gpus, Input::Nodes, Input::Waited, Input::Free], 3, &topology(&[4; 5]).nodes);
        assert_eq!(view.inputs(), (&[Input::Nodes, Input::Free][..], &[Input::Gpus, Input::Waited][..]));
        assert_eq!((view.of_cluster(), view.of_slot(), view.width()), (6, 4, 18));
    }
}
