//! A workload from a seed.
//!
//! Sizes and durations are drawn first; the time over which the jobs arrive then follows from the load, so that the
//! load offered is the load asked for and not only its mean.

use std::collections::BTreeMap;

use compact_str::ToCompactString as _;
use sandtable_hardware::random::Stream;
use sandtable_hardware::{Duration, Elastic, HostResources, Instant, Job, SECOND};

use super::arrivals::Instants;
use super::{Arrivals, Deadlines, Durations, Host, Near, Row, Trace};

/// Gang sizes of the 71,149 public Philly jobs at hand (Jeon et al., ATC 2019, CC-BY-4.0).
pub const PHILLY_GPUS: [(u32, f64); 10] = [
    (1, 67_305.0),
    (2, 1_777.0),
    (4, 1_135.0),
    (8, 716.0),
    (12, 7.0),
    (16, 177.0),
    (24, 7.0),
    (32, 16.0),
    (64, 6.0),
    (128, 3.0),
];

/// What stands for no part where parts of GPUs are drawn.
pub const WHOLE: &str = "whole";

/// What to draw.
pub struct Recipe<'a> {
    /// How many.
    pub jobs: u32,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// How long they run.
    pub durations: &'a Durations,
    /// Weights of gang sizes; empty: Philly's, up to the fleet's size.
    pub gpus: &'a BTreeMap<u32, f64>,
    /// Names and weights of workloads of the profile; empty: jobs have none.
    pub workloads: &'a [(String, f64)],
    /// Names and weights of users; empty: jobs have no user.
    pub users: &'a [(String, f64)],
    /// Sigma of the users' error.
    pub declared: Option<f64>,
    /// When jobs should have ended.
    pub deadlines: Option<Deadlines>,
    /// Weights of priorities; empty: all have 0.
    pub priorities: &'a BTreeMap<i32, f64>,
    /// Names and weights of queues; empty: jobs are in none.
    pub queues: &'a BTreeMap<String, f64>,
    /// Gangs of a multiple of this many GPUs have so many on each node.
    pub gpus_per_node: Option<u32>,
    /// What jobs take of their nodes for each GPU; empty: nothing.
    pub hosts: &'a [Host],
    /// How near to each other the nodes of gangs of several GPUs are.
    pub near: &'a Near,
    /// Weights of what jobs of one GPU ask for of it, in thousandths; empty: all of it.
    pub shares: &'a BTreeMap<u32, f64>,
    /// Names and weights of the parts that jobs of one GPU ask for, `whole` for none; empty: none does.
    pub parts: &'a BTreeMap<String, f64>,
    /// How much of a GPU each is, 0 to 1.
    pub part_size: &'a dyn Fn(&str) -> f64,
    /// Which of the workloads are elastic: their jobs draw what users ask for, and take as long as that does.
    pub elastic: &'a dyn Fn(&str) -> Option<&'a Elastic>,
    /// For which machines.
    pub fleet: FleetShape,
}

/// What of a fleet decides what is drawn.
#[derive(Clone, Copy)]
pub struct FleetShape {
    /// Its GPUs, each by its speed: what it could do.
    pub capacity: f64,
    /// Largest gang that Philly's mix may ask for.
    pub largest: u32,
    /// GPUs of a node.
    pub node: u32,
}

/// Draws a workload. Durations are whole seconds, at least one: so are the published traces.
pub fn generate(recipe: &Recipe<'_>, seed: u64) -> Trace {
    Trace { rows: draw(recipe, seed).collect(), ..Trace::default() }
}

/// The rows of a workload, by submission: as [`generate`] gives them, but never all of them at once.
pub fn draw<'r, 'a>(recipe: &'r Recipe<'a>, seed: u64) -> impl Iterator<Item = Row> + use<'r, 'a> {
    let sizes = Sizes::new(recipe, seed);
    let mut instants = Instants::new((recipe.arrivals, recipe.jobs), recipe.fleet.capacity, seed, || {
        // The same draws, once for their sum.
        let all = Sizes::new(recipe, seed).take(recipe.jobs as usize);
        let size = |row: &Row| row.part.as_deref().map_or(f64::from(row.share) / 1000.0, recipe.part_size);
        all.map(|row| f64::from(row.gpus) * size(&row) * row.duration.as_micros_f64()).sum()
    });
    let stream = |name: &str| Stream::new(seed, name);
    let mut hosts = Weighted::new(stream("workload/hosts"), recipe.hosts.iter().map(|host| (*host, host.weight)));
    let mut priorities =
        Weighted::new(stream("workload/priorities"), recipe.priorities.iter().map(|(of, w)| (*of, *w)));
    let mut queues = Weighted::new(stream("workload/queues"), recipe.queues.iter().map(|(of, w)| (of.clone(), *w)));
    let mut due = stream("workload/deadlines");
    (0..recipe.jobs).zip(sizes).map(move |(index, row)| {
        let mut row = Row { name: index.to_compact_string(), submit: instants.next(), ..row };
        place(&mut row, recipe, hosts.draw());
        row.priority = priorities.draw().unwrap_or(0);
        row.queue = queues.draw();
        if let Some(draws) = recipe.deadlines {
            set_deadline(&mut row, draws, &mut due);
        }
        row
    })
}

/// Draws of items by weight; none where there are none.
pub(super) struct Weighted<T> {
    stream: Stream,
    items: Vec<T>,
    weights: Vec<f64>,
}

impl<T: Clone> Weighted<T> {
    pub(super) fn new(stream: Stream, items: impl Iterator<Item = (T, f64)>) -> Weighted<T> {
        let (items, weights) = items.unzip();
        Weighted { stream, items, weights }
    }

    pub(super) fn draw(&mut self) -> Option<T> {
        if self.items.is_empty() {
            return None;
        }
        Some(self.items[self.stream.weighted(&self.weights)].clone())
    }
}

/// How large jobs are, how long they take and what they are: as many rows as are asked for, without names and instants.
struct Sizes<'r, 'a> {
    recipe: &'r Recipe<'a>,
    gpus: Weighted<u32>,
    lengths: Stream,
    errors: Stream,
    workloads: Weighted<String>,
    users: Weighted<String>,
    requests: Stream,
    parts: Weighted<String>,
    shares: Weighted<u32>,
}

impl<'r, 'a> Sizes<'r, 'a> {
    fn new(recipe: &'r Recipe<'a>, seed: u64) -> Sizes<'r, 'a> {
        let stream = |name: &str| Stream::new(seed, name);
        let named = |all: &[(String, f64)], name: &str| Weighted::new(stream(name), all.iter().cloned());
        let mix: Vec<(u32, f64)> = match recipe.gpus.is_empty() {
            true => PHILLY_GPUS.into_iter().filter(|(gpus, _)| *gpus <= recipe.fleet.largest).collect(),
            false => recipe.gpus.iter().map(|(gpus, weight)| (*gpus, *weight)).collect(),
        };
        Sizes {
            recipe,
            gpus: Weighted::new(stream("workload/gpus"), mix.into_iter()),
            lengths: stream("workload/durations"),
            errors: stream("workload/declared"),
            workloads: named(recipe.workloads, "workload/workloads"),
            users: named(recipe.users, "workload/users"),
            requests: stream("workload/requests"),
            parts: Weighted::new(
                stream("workload/parts"),
                recipe.parts.iter().map(|(name, weight)| (name.clone(), *weight)),
            ),
            shares: Weighted::new(
                stream("workload/shares"),
                recipe.shares.iter().map(|(milli, weight)| (*milli, *weight)),
            ),
        }
    }

    /// A duration in microseconds.
    fn micros(&mut self) -> f64 {
        match self.recipe.durations {
            Durations::LogNormal { median, sigma, least, most } => {
                let bound = |span: &Option<sandtable_core::units::Span>, none: f64| {
                    span.map_or(none, |span| span.0.as_micros_f64())
                };
                let drawn = self.lengths.log_normal(median.0.as_micros_f64(), *sigma);
                drawn.max(bound(least, 0.0)).min(bound(most, f64::INFINITY))
            }
            Durations::Pareto { least, shape } => self.lengths.pareto(least.0.as_micros_f64(), *shape),
            Durations::Empirical(list) => list[(self.lengths.uniform() * list.len() as f64) as usize].0.as_micros_f64(),
            Durations::Fixed(span) => span.0.as_micros_f64(),
        }
    }
}

impl Iterator for Sizes<'_, '_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let recipe = self.recipe;
        let gpus = self.gpus.draw()?;
        // A year bounds the tail: beyond it a sum could leave 2^53 µs.
        let whole = (self.micros() / SECOND.as_micros_f64()).clamp(1.0, 31_536_000.0) as u64;
        let declared = recipe.declared.map(|sigma| {
            let factor = self.errors.log_normal(1.0, sigma);
            ((whole as f64 * factor).clamp(1.0, 31_536_000.0) as u64) * SECOND
        });
        // One without GPUs is of no workload: those say what GPUs do.
        let (workload, user) = (self.workloads.draw().filter(|_| gpus > 0), self.users.draw());
        let part = self.parts.draw().filter(|part| gpus == 1 && part != WHOLE);
        let share = self.shares.draw().filter(|_| gpus == 1);
        let mut row = Row { declared, ..Row::new(String::new(), Instant::START, gpus, whole * SECOND) };
        row.part = part;
        row.share = share.unwrap_or(Job::WHOLE);
        (row.workload, row.user) = (workload, user);
        if let Some(elastic) = row.workload.as_deref().and_then(recipe.elastic).filter(|job| !job.requests.is_empty()) {
            let fits: Vec<(u32, u32)> =
                elastic.requests.iter().copied().filter(|(gpus, _)| *gpus <= recipe.fleet.largest).collect();
            let among = if fits.is_empty() { &elastic.requests } else { &fits };
            let (gpus, batch) = among[(self.requests.uniform() * among.len() as f64) as usize];
            (row.gpus, row.batch, row.declared, row.part) = (gpus, Some(batch), None, None);
            row.share = Job::WHOLE;
            let placement = Elastic::packed(gpus, recipe.fleet.node);
            // Where the workload does not say how long jobs take, they take what was drawn.
            if elastic.steps.knows(&placement) && !elastic.counts_steps() {
                let seconds = elastic.seconds_from(&elastic.steps, 0, &placement, elastic.split(batch, gpus));
                row.duration = Duration::from_micros_f64(seconds * SECOND.as_micros_f64());
            }
        }
        Some(row)
    }
}

/// What rigid jobs ask of their nodes. The host is drawn of every job: which are elastic moves nothing of the others.
fn place(row: &mut Row, recipe: &Recipe<'_>, host: Option<Host>) {
    if row.batch.is_some() {
        return;
    }
    // A job without GPUs takes as much as one of one.
    let whole = |each: f64| (each * f64::from(row.gpus.max(1))).round().min(f64::from(u32::MAX)) as u32;
    if let Some(Host { cpus, memory, .. }) = host {
        let memory = memory.map_or(0.0, |bytes| (bytes.0 >> 20) as f64);
        row.host = HostResources { cpu_milli: whole(cpus.unwrap_or(0.0) * 1000.0), memory_mib: whole(memory) };
    }
    // A single GPU is on one node, whatever else is asked.
    if row.gpus <= 1 {
        return;
    }
    row.gpus_per_node = recipe.gpus_per_node.filter(|each| row.gpus.is_multiple_of(*each)).unwrap_or(0);
    if *recipe.near != Near::default() {
        row.near = Some(Box::new(recipe.near.clone()));
    }
}

/// Deadlines are a multiple of a job's run time after its submission, to the second above.
fn set_deadline(row: &mut Row, draws: Deadlines, stream: &mut Stream) {
    // Both are drawn of every job: which jobs have a deadline moves no deadline of the others.
    let (has, factor) = (stream.uniform() < draws.share, stream.uniform());
    let seconds = row.duration.as_secs_f64() * (draws.least + factor * (draws.most - draws.least));
    // Nothing happens after the end of time.
    let time = Duration::from_micros_f64(seconds.ceil() * SECOND.as_micros_f64());
    row.deadline = has.then(|| row.submit.saturating_add(time).min(Instant::END));
}
