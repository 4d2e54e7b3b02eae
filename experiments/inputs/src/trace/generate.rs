//! A workload from a seed.
//!
//! Sizes and durations are drawn first; the time over which the jobs arrive then follows from the load, so that the
//! load offered is the load asked for and not only its mean.

use std::collections::BTreeMap;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Duration, Elastic, HostResources, Instant, SECOND};

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
    let (mut sizes, mut lengths) = (Stream::new(seed, "workload/gpus"), Stream::new(seed, "workload/durations"));
    let mut errors = Stream::new(seed, "workload/declared");
    let mut kinds = Stream::new(seed, "workload/workloads");
    let (mut owners, shares) = (Stream::new(seed, "workload/users"), recipe.users.iter().map(|(_, weight)| *weight));
    let shares: Vec<f64> = shares.collect();
    let mut requests = Stream::new(seed, "workload/requests");
    let parts: Vec<f64> = recipe.workloads.iter().map(|(_, weight)| *weight).collect();
    let mix: Vec<(u32, f64)> = match recipe.gpus.is_empty() {
        true => PHILLY_GPUS.into_iter().filter(|(gpus, _)| *gpus <= recipe.fleet.largest).collect(),
        false => recipe.gpus.iter().map(|(gpus, weight)| (*gpus, *weight)).collect(),
    };
    let weights: Vec<f64> = mix.iter().map(|(_, weight)| *weight).collect();
    let mut rows: Vec<Row> = Vec::with_capacity(recipe.jobs as usize);
    for index in 0..recipe.jobs {
        let gpus = mix[sizes.weighted(&weights)].0;
        let micros = match recipe.durations {
            Durations::LogNormal { median, sigma, least, most } => {
                let bound = |span: &Option<sandtable_core::units::Span>, none: f64| {
                    span.map_or(none, |span| span.0.as_micros_f64())
                };
                let drawn = lengths.log_normal(median.0.as_micros_f64(), *sigma);
                drawn.max(bound(least, 0.0)).min(bound(most, f64::INFINITY))
            }
            Durations::Pareto { least, shape } => lengths.pareto(least.0.as_micros_f64(), *shape),
            Durations::Empirical(list) => list[(lengths.uniform() * list.len() as f64) as usize].0.as_micros_f64(),
            Durations::Fixed(span) => span.0.as_micros_f64(),
        };
        // A year bounds the tail: beyond it a sum could leave 2^53 µs.
        let whole = (micros / SECOND.as_micros_f64()).clamp(1.0, 31_536_000.0) as u64;
        let declared = recipe.declared.map(|sigma| {
            let factor = errors.log_normal(1.0, sigma);
            ((whole as f64 * factor).clamp(1.0, 31_536_000.0) as u64) * SECOND
        });
        let workload = match recipe.workloads {
            [] => None,
            all => Some(all[kinds.weighted(&parts)].0.clone()),
        };
        let user = match recipe.users {
            [] => None,
            all => Some(all[owners.weighted(&shares)].0.clone()),
        };
        let mut row =
            Row { declared, workload, user, ..Row::new(index.to_string(), Instant::START, gpus, whole * SECOND) };
        if let Some(elastic) = row.workload.as_deref().and_then(recipe.elastic).filter(|job| !job.requests.is_empty()) {
            let fits: Vec<(u32, u32)> =
                elastic.requests.iter().copied().filter(|(gpus, _)| *gpus <= recipe.fleet.largest).collect();
            let among = if fits.is_empty() { &elastic.requests } else { &fits };
            let (gpus, batch) = among[(requests.uniform() * among.len() as f64) as usize];
            (row.gpus, row.batch, row.declared) = (gpus, Some(batch), None);
            let placement = Elastic::packed(gpus, recipe.fleet.node);
            if elastic.knows(&placement) {
                let seconds = elastic.seconds_from(0, &placement, elastic.split(batch, gpus));
                row.duration = Duration::from_micros_f64(seconds * SECOND.as_micros_f64());
            }
        }
        rows.push(row);
    }
    arrive(&mut rows, recipe, &mut Stream::new(seed, "workload/arrivals"));
    place(&mut rows, recipe, &mut Stream::new(seed, "workload/hosts"));
    prioritise(&mut rows, recipe.priorities, &mut Stream::new(seed, "workload/priorities"));
    enqueue(&mut rows, recipe.queues, &mut Stream::new(seed, "workload/queues"));
    if let Some(draws) = recipe.deadlines {
        set_deadlines(&mut rows, draws, &mut Stream::new(seed, "workload/deadlines"));
    }
    Trace { rows, ..Trace::default() }
}

/// What rigid jobs ask of their nodes.
fn place(rows: &mut [Row], recipe: &Recipe<'_>, stream: &mut Stream) {
    let weights: Vec<f64> = recipe.hosts.iter().map(|host| host.weight).collect();
    for row in rows {
        // Drawn of every job: which are elastic moves nothing of the others.
        let host = (!weights.is_empty()).then(|| recipe.hosts[stream.weighted(&weights)]);
        if row.batch.is_some() {
            continue;
        }
        let whole = |each: f64| (each * f64::from(row.gpus)).round().min(f64::from(u32::MAX)) as u32;
        if let Some(Host { cpus, memory, .. }) = host {
            let memory = memory.map_or(0.0, |bytes| (bytes.0 >> 20) as f64);
            row.host = HostResources { cpu_milli: whole(cpus.unwrap_or(0.0) * 1000.0), memory_mib: whole(memory) };
        }
        // A single GPU is on one node, whatever else is asked.
        if row.gpus == 1 {
            continue;
        }
        row.gpus_per_node = recipe.gpus_per_node.filter(|each| row.gpus.is_multiple_of(*each)).unwrap_or(0);
        if *recipe.near != Near::default() {
            row.near = Some(Box::new(recipe.near.clone()));
        }
    }
}

fn prioritise(rows: &mut [Row], weights: &BTreeMap<i32, f64>, stream: &mut Stream) {
    let (priorities, weights): (Vec<i32>, Vec<f64>) = weights.iter().unzip();
    if !priorities.is_empty() {
        rows.iter_mut().for_each(|row| row.priority = priorities[stream.weighted(&weights)]);
    }
}

fn enqueue(rows: &mut [Row], weights: &BTreeMap<String, f64>, stream: &mut Stream) {
    let (queues, weights): (Vec<&String>, Vec<f64>) = weights.iter().unzip();
    if !queues.is_empty() {
        rows.iter_mut().for_each(|row| row.queue = Some(queues[stream.weighted(&weights)].clone()));
    }
}

/// Deadlines are a multiple of a job's run time after its submission, to the second above.
fn set_deadlines(rows: &mut [Row], draws: Deadlines, stream: &mut Stream) {
    for row in rows {
        // Both are drawn of every job: which jobs have a deadline moves no deadline of the others.
        let (has, factor) = (stream.uniform() < draws.share, stream.uniform());
        let seconds = row.duration.as_secs_f64() * (draws.least + factor * (draws.most - draws.least));
        // Nothing happens after the end of time.
        let time = Duration::from_micros_f64(seconds.ceil() * SECOND.as_micros_f64());
        row.deadline = has.then(|| row.submit.saturating_add(time).min(Instant::END));
    }
}

fn arrive(rows: &mut [Row], recipe: &Recipe<'_>, stream: &mut Stream) {
    let work: f64 = rows.iter().map(|row| f64::from(row.gpus) * row.duration.as_micros_f64()).sum();
    let span = |load: f64| work / recipe.fleet.capacity / load;
    let count = rows.len() as f64;
    // Instants in arbitrary units first, then stretched to the span that gives the load.
    let (mut at, mut last) = (Vec::with_capacity(rows.len()), 0.0);
    let span = match recipe.arrivals {
        Arrivals::AtOnce => return,
        Arrivals::Poisson { load } => {
            for _ in 0..rows.len() {
                last += stream.exponential(1.0);
                at.push(last);
            }
            span(load)
        }
        Arrivals::Bursts { load, size } => {
            while at.len() < rows.len() {
                last += stream.exponential(size);
                // Geometric with mean `size`.
                while at.len() < rows.len() {
                    at.push(last);
                    if stream.uniform() < 1.0 / size {
                        break;
                    }
                }
            }
            span(load)
        }
        Arrivals::Diurnal { load, peak } => {
            let span = span(load);
            let day = 86_400.0 * SECOND.as_micros_f64();
            // A stationary process, then the clock bent so that its rate follows 1 + (peak - 1) sin.
            let rate = count / span;
            for _ in 0..rows.len() {
                last += stream.exponential(1.0) / rate;
                at.push(bend(last, day, peak - 1.0));
            }
            last = bend(last, day, peak - 1.0);
            span
        }
    };
    let stretch = if last > 0.0 { span / last } else { 0.0 };
    let stretch = if matches!(recipe.arrivals, Arrivals::Diurnal { .. }) { 1.0 } else { stretch };
    for (row, at) in rows.iter_mut().zip(at) {
        row.submit = Instant::at((at * stretch / SECOND.as_micros_f64()) as u64 * SECOND);
    }
}

/// The instant t at which the integral of 1 - a cos(2πt/day), a rate whose sine starts at its trough, reaches `mass`.
fn bend(mass: f64, day: f64, a: f64) -> f64 {
    let omega = std::f64::consts::TAU / day;
    let (mut low, mut high) = (mass - day, mass + day);
    for _ in 0..64 {
        let mid = 0.5 * (low + high);
        if mid - a * libm::sin(omega * mid) / omega < mass { low = mid } else { high = mid }
    }
    (0.5 * (low + high)).max(0.0)
}
