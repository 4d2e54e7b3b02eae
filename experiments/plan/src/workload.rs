//! The jobs of a cell, and what of them is in its identity.

mod listed;
mod read;
mod state;

use std::sync::{Arc, OnceLock};

use sandtable_core::error::Error;
use sandtable_core::shared::Shared;
use sandtable_hardware::random::Stream;
use sandtable_hardware::regime::First;
use sandtable_hardware::{
    Fleet, HostResources, Job, Nearness, Profile, Regime, Request, ServiceId, Sharing, TypeId, WorkloadId,
};
use sandtable_inputs::trace::{self, Asked, Fill, FleetShape, Packed, Recipe, Resample, Row, Trace};
use sandtable_runtime::Capacities;
use sandtable_runtime::contract::Abilities;

use super::{nodes, parts};
use crate::spec::{Arrivals, Deadlines, DemandSpec, Durations, Host, Near, Ties};
pub(super) use read::{LastTrace, resolve};
pub use state::StateJobs;

/// The jobs of a spec.
pub struct Workload {
    from: From,
    /// What they may be.
    profile: Option<Arc<Profile>>,
    /// Schedulable parts of a GPU, where a preset counts those.
    slots: u32,
    /// What is asked of services, beside what a trace has recorded.
    demand: DemandSpec,
    services: Vec<String>,
    /// The cluster whose jobs they are, where they are those of one at an instant.
    state: Option<Arc<StateJobs>>,
}

/// Where jobs come from, and their part of the identity.
type Keyed = (From, serde_json::Value);

/// Where jobs come from.
enum From {
    /// Drawn anew for every seed.
    Generated(Box<Drawn>),
    /// The same for every seed.
    Fixed(Arc<Packed>),
    /// Those of a trace, which fill the fleet in an order that the seed draws.
    Filled(Arc<Packed>, Fill),
    /// Drawn anew for every seed from those of a trace; about how many.
    Resampled(Arc<Packed>, Resample, OnceLock<usize>),
}

/// What jobs are drawn from: the fields are those of the spec's `Generate`.
struct Drawn {
    jobs: u32,
    arrivals: Arrivals,
    durations: Durations,
    gpus: std::collections::BTreeMap<u32, f64>,
    /// Names and weights.
    workloads: Vec<(String, f64)>,
    users: Vec<(String, f64)>,
    declared: Option<f64>,
    deadlines: Option<Deadlines>,
    priorities: std::collections::BTreeMap<i32, f64>,
    queues: std::collections::BTreeMap<String, f64>,
    gpus_per_node: Option<u32>,
    hosts: Vec<Host>,
    near: Near,
    shares: std::collections::BTreeMap<u32, f64>,
    parts: std::collections::BTreeMap<String, f64>,
}

impl Drawn {
    /// Whether any job may ask for a part of its GPU.
    fn asks_for_parts(&self) -> bool {
        let single = self.gpus.is_empty() || self.gpus.get(&1).is_some_and(|weight| *weight > 0.0);
        single && self.parts.iter().any(|(name, weight)| name != trace::WHOLE && *weight > 0.0)
    }

    /// Whether any job may have several GPUs: Philly's mix has.
    fn has_gangs(&self) -> bool {
        self.gpus.is_empty() || self.gpus.iter().any(|(gpus, weight)| *gpus > 1 && *weight > 0.0)
    }
}

impl Workload {
    /// The trace that it is, where it is one.
    pub fn fixed(&self) -> Option<&Packed> {
        match &self.from {
            From::Fixed(trace) => Some(trace),
            From::Filled(..) | From::Resampled(..) | From::Generated(_) => None,
        }
    }

    /// The trace that its jobs are of, where there is one.
    pub fn of_trace(&self) -> Option<&Packed> {
        match &self.from {
            From::Fixed(trace) | From::Filled(trace, _) | From::Resampled(trace, ..) => Some(trace),
            From::Generated(_) => None,
        }
    }

    /// The cluster whose jobs they are, where they are those of one at an instant.
    pub fn state(&self) -> Option<&StateJobs> {
        self.state.as_deref()
    }

    /// How many jobs it has on a fleet, about: the cost of a cell, as far as it can be told before it runs.
    pub fn len(&self, fleet: &Fleet) -> usize {
        match &self.from {
            From::Fixed(trace) | From::Filled(trace, _) => trace.len(),
            From::Resampled(trace, how, about) => {
                *about.get_or_init(|| how.about(trace.rows(), shape(fleet), |row| takes(row, fleet)))
            }
            From::Generated(drawn) => drawn.jobs as usize,
        }
    }

    /// Whether any job's user declares how long it will run.
    pub fn declares(&self) -> bool {
        match &self.from {
            From::Fixed(trace) | From::Resampled(trace, ..) => trace.declares(),
            From::Filled(..) => false,
            From::Generated(drawn) => drawn.declared.is_some(),
        }
    }

    /// The demands of its jobs that not every policy follows, on a fleet.
    pub fn follow(&self, fleet: &Fleet) -> Abilities {
        // A single GPU is on one node, whatever else is asked.
        let gang = |asked: &Asked| asked.gpus > 1 || self.slots > 1;
        let any = |is: &dyn Fn(&Asked) -> bool, drawn: &dyn Fn(&Drawn) -> bool| match &self.from {
            From::Fixed(trace) | From::Filled(trace, _) | From::Resampled(trace, ..) => trace.asked().any(is),
            From::Generated(of) => drawn(of),
        };
        let demands = [
            (
                Abilities::SHAPE,
                any(&|asked| gang(asked) && asked.gpus_per_node > 0, &|drawn| {
                    drawn.gpus_per_node.is_some() && drawn.has_gangs()
                }),
            ),
            (
                Abilities::HOST,
                fleet.knows_hosts() && any(&|asked| !asked.host.is_unknown(), &|drawn| !drawn.hosts.is_empty()),
            ),
            (
                Abilities::NEAR,
                any(&|asked| gang(asked) && asked.near.is_some(), &|drawn| {
                    drawn.near != Near::default() && drawn.has_gangs()
                }),
            ),
            (Abilities::PARTS, any(&|asked| asked.part.is_some(), &Drawn::asks_for_parts)),
            (
                Abilities::CPU_JOBS,
                // Those of a cluster that run stay where they are, unless a node fails.
                (self.state.as_ref().is_none_or(|state| state.has_cpu_jobs()) || fleet.failures.is_some())
                    && any(&|asked| asked.gpus == 0, &|drawn| drawn.gpus.get(&0).is_some_and(|weight| *weight > 0.0)),
            ),
            (Abilities::QUEUES, fleet.limits_queues()),
        ];
        demands.iter().filter(|(_, there)| *there).fold(Abilities::empty(), |all, (demand, _)| all | *demand)
    }

    /// Whether it has no job.
    pub fn is_empty(&self) -> bool {
        match &self.from {
            From::Fixed(trace) | From::Filled(trace, _) | From::Resampled(trace, ..) => trace.is_empty(),
            From::Generated(drawn) => drawn.jobs == 0,
        }
    }

    /// The rows under a seed.
    ///
    /// # Errors
    /// Jobs that never fill the fleet.
    pub fn trace(&self, seed: u64, fleet: &Fleet) -> Result<Trace, Error> {
        let mut all = match &self.from {
            From::Fixed(trace) => {
                let mut all = trace.trace();
                if let Some(state) = &self.state {
                    all.rows = all.rows.into_iter().map(|row| state.timed(row, seed)).collect();
                }
                all
            }
            From::Filled(trace, how) => filled(trace, *how, seed, fleet.gpus() / self.slots)?,
            From::Resampled(trace, how, _) => resampled(trace, how, seed, fleet)?,
            From::Generated(drawn) => self.recipe(drawn, fleet, |recipe| trace::generate(recipe, seed)),
        };
        if self.demand != DemandSpec::Recorded {
            all.rows.extend(trace::tasks(&self.demand, &self.services, seed));
            // Jobs before tasks of the same instant.
            all.rows.sort_by_key(|row| row.submit);
        }
        Ok(all)
    }

    /// Uses what jobs are drawn from on a fleet.
    fn recipe<T>(&self, drawn: &Drawn, fleet: &Fleet, with: impl FnOnce(&Recipe<'_>) -> T) -> T {
        let elastic = |name: &str| {
            let profile = self.profile.as_ref()?;
            profile.workloads[profile.id(name)?].elastic.as_ref()
        };
        with(&Recipe {
            jobs: drawn.jobs,
            arrivals: drawn.arrivals,
            durations: &drawn.durations,
            gpus: &drawn.gpus,
            workloads: &drawn.workloads,
            users: &drawn.users,
            declared: drawn.declared,
            deadlines: drawn.deadlines,
            priorities: &drawn.priorities,
            queues: &drawn.queues,
            gpus_per_node: drawn.gpus_per_node,
            hosts: &drawn.hosts,
            near: &drawn.near,
            shares: &drawn.shares,
            parts: &drawn.parts,
            part_size: &|name| parts::size(fleet, name),
            elastic: &elastic,
            fleet: shape(fleet),
        })
    }

    /// The jobs under a seed, numbered by submission and then by the rule for ties; `narrow` may change what each asks for.
    pub(super) fn jobs(
        &self,
        seed: u64,
        ties: Ties,
        fleet: &Fleet,
        narrow: impl Fn(&mut Job),
    ) -> Result<Vec<Job>, Error> {
        // A policy may look for a place on the first type with enough GPUs: of the others none is told.
        let capacities = (fleet.types.len() > 1).then(|| Capacities::of(fleet));
        let mut requests = Shared::default();
        let mut jobs = Vec::with_capacity(self.len(fleet));
        let mut add = |row: Row| {
            let mut job = self.job(&row, fleet)?;
            if let Some(capacities) = capacities.as_ref().filter(|_| nodes::is_bound(&job)) {
                let types = capacities.types_with_room(&job);
                job = job.asking(|request| request.gpu_types = types);
            }
            narrow(&mut job);
            // Jobs that ask for the same share it.
            (_, job.request) = requests.of(job.request);
            jobs.push(job);
            Ok::<_, Error>(())
        };
        let is_recorded = self.demand == DemandSpec::Recorded;
        match &self.from {
            From::Generated(drawn) if is_recorded => {
                self.recipe(drawn, fleet, |recipe| trace::draw(recipe, seed).try_for_each(&mut add))?;
            }
            From::Fixed(trace) if is_recorded => match &self.state {
                Some(state) => trace.rows().map(|row| state.timed(row, seed)).try_for_each(add)?,
                None => trace.rows().try_for_each(add)?,
            },
            // These need all rows at once.
            _ => self.trace(seed, fleet)?.rows.into_iter().try_for_each(add)?,
        }
        match ties {
            // Sorting takes memory for half of them once more.
            Ties::RowOrder if jobs.is_sorted_by_key(|job| job.submit) => {}
            Ties::RowOrder => jobs.sort_by_key(|job| job.submit),
            Ties::JobName => {
                jobs.sort_by(|a, b| {
                    let key = |of: &Job| (of.submit, of.name.len());
                    key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
                });
            }
            Ties::ShortestFirst => jobs.sort_by_key(|job| (job.submit, job.work)),
            Ties::LongestFirst => jobs.sort_by_key(|job| (job.submit, std::cmp::Reverse(job.work))),
            Ties::Shuffled => {
                let mut stream = Stream::new(seed, "ties");
                let mut drawn: Vec<(u64, Job)> = jobs.into_iter().map(|job| (stream.integer(), job)).collect();
                drawn.sort_by_key(|(draw, job)| (job.submit, *draw));
                jobs = drawn.into_iter().map(|(_, job)| job).collect();
            }
        }
        Ok(jobs)
    }
}

/// What of a fleet decides what is drawn.
fn shape(fleet: &Fleet) -> FleetShape {
    let of = |kind: TypeId| fleet.gpus_of(kind);
    let kinds = || TypeId::first(fleet.types.len());
    FleetShape {
        capacity: kinds().map(|kind| f64::from(of(kind)) * fleet.types[kind].speed).sum(),
        largest: kinds().map(of).max().unwrap_or(0),
        node: fleet.nodes.iter().map(|node| node.gpus).max().unwrap_or(1),
    }
}

/// The part of each of its GPUs that a job has on a fleet: all of it, but for parts and where GPUs are shared by shares.
fn takes(row: &Row, fleet: &Fleet) -> f64 {
    match (&row.part, fleet.sharing) {
        (Some(part), _) => parts::size(fleet, part),
        (None, Sharing::Shares) => f64::from(row.share) / f64::from(Job::WHOLE),
        _ => 1.0,
    }
}

/// Jobs drawn from those of a trace, for a fleet.
fn resampled(trace: &Packed, how: &Resample, seed: u64, fleet: &Fleet) -> Result<Trace, Error> {
    let all = trace.trace();
    let rows = trace::resample(&all.rows, how, shape(fleet), |row| takes(row, fleet), seed);
    let rows = rows.map_err(|why| Error::usage(format!("the workload's jobs are drawn again: {why}")))?;
    Ok(Trace { rows, ..all })
}

/// The jobs of a trace, which fill a fleet of so many GPUs.
fn filled(trace: &Packed, how: Fill, seed: u64, gpus: u32) -> Result<Trace, Error> {
    let all = trace.trace();
    let rows = trace::fill(&all.rows, how, u64::from(gpus), seed);
    let rows = rows.map_err(|why| Error::usage(format!("the workload's jobs fill the fleet: {why}")))?;
    Ok(Trace { rows, ..all })
}

/// A row's workload; that of one with a batch must be elastic or have a regime, and the batch be one that it can have.
fn workload_of(row: &Row, profile: Option<&Profile>) -> Result<Option<WorkloadId>, Error> {
    let id = row.workload.as_ref().map(|name| workload_id(name, profile)).transpose()?;
    let found = id.zip(profile).map(|(id, profile)| &profile.workloads[id]);
    if let Some(regime) = found.and_then(|workload| workload.regime.as_ref()) {
        return fits_regime(row, regime).map(|()| id);
    }
    let Some(batch) = row.batch else { return Ok(id) };
    let Some(elastic) = found.and_then(|workload| workload.elastic.as_ref()) else {
        let of = row.workload.as_deref().map_or("none".into(), |name| format!("{name:?}, which is not elastic"));
        let error = Error::usage(format!("job {:?} has a batch of {batch}, its workload is {of}", row.name));
        return Err(error.hint("only workloads of the `profile` that are elastic or have a `regime` have batches"));
    };
    let empty = (batch == 0).then(|| "a step takes at least one sample".to_string());
    let endless = (elastic.counts_steps() && row.duration.is_zero())
        .then(|| "it has no duration: that says how many steps it has".to_string());
    match empty
        .or(endless)
        .or_else(|| elastic.refuses_batch(batch))
        .or_else(|| elastic.refuses(row.gpus, elastic.split(batch, row.gpus)))
    {
        None => Ok(id),
        Some(why) => {
            let asked = format!("job {:?} asks for {} GPUs and a batch of {batch}", row.name, row.gpus);
            Err(Error::usage(format!("{asked}: {why}")))
        }
    }
}

/// Most epochs of a job that changes its batch: each is looked at.
const MOST_EPOCHS: f64 = 1e6;

/// Checks that a job of a workload that changes its batch says what it needs to.
fn fits_regime(row: &Row, regime: &Regime) -> Result<(), Error> {
    let (name, workload) = (row.name.as_str(), row.workload.as_deref().unwrap_or_default());
    let Some(batch) = row.batch else {
        let error = Error::usage(format!("job {name:?} has no batch: those of {workload:?} change theirs"));
        return Err(error.hint("the batch of its first steps; without changes leave the `regime` out of the profile"));
    };
    if row.duration.is_zero() {
        let message =
            format!("job {name:?} has no duration: that at the batch of its first steps says how many there are");
        return Err(Error::usage(message));
    }
    let asks = format!("job {name:?} asks for {} GPUs and a batch of {batch}", row.gpus);
    match regime.epochs(First { gpus: row.gpus, batch }, row.duration.as_secs_f64()) {
        None => Err(Error::usage(format!("{asks}: the profile has no rate of {workload:?} so"))),
        Some(epochs) if epochs > MOST_EPOCHS => {
            Err(Error::usage(format!("{asks}: its duration is {epochs} epochs, expected at most {MOST_EPOCHS}")))
        }
        Some(_) => Ok(()),
    }
}

/// A row's service.
fn service_of(row: &Row, name: &str, fleet: &Fleet) -> Result<ServiceId, Error> {
    let known = || fleet.services.iter().map(|service| service.name.as_str());
    known().position(|service| service == name).map(ServiceId::at).ok_or_else(|| {
        let error =
            Error::usage(format!("{:?} is a task of the service {name:?}, which `serving` does not name", row.name));
        match sandtable_core::text::nearest(name, known()) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint("serving: Serving(services: {\"NAME\": Service(cold_start: \"6s\")})"),
        }
    })
}

/// A workload of a profile.
fn workload_id(name: &str, profile: Option<&Profile>) -> Result<WorkloadId, Error> {
    let Some(profile) = profile else {
        return Err(Error::usage(format!("a job is of the workload {name:?}, the spec names no `profile`")));
    };
    profile.id(name).ok_or_else(|| {
        let known = || profile.workloads.iter().map(|workload| workload.name.as_str());
        let error = Error::usage(format!("the profile has no workload {name:?}"));
        match sandtable_core::text::nearest(name, known()) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint(format!("it has {}", known().collect::<Vec<_>>().join(", "))),
        }
    })
}

impl Workload {
    /// The workloads of the profile that jobs may be of.
    ///
    /// # Errors
    /// A name that the profile lacks.
    pub(super) fn workloads(&self) -> Result<Vec<WorkloadId>, Error> {
        let profile = self.profile.as_deref();
        let mut ids: Vec<WorkloadId> = match &self.from {
            From::Generated(drawn) => {
                let there = drawn.workloads.iter().filter(|(_, weight)| *weight > 0.0);
                there.map(|(name, _)| workload_id(name, profile)).collect::<Result<_, _>>()?
            }
            From::Fixed(trace) | From::Filled(trace, _) | From::Resampled(trace, ..) => {
                let mut names: Vec<&String> = trace.asked().filter_map(|asked| asked.workload.as_ref()).collect();
                if let From::Resampled(_, how, _) = &self.from {
                    names.extend(how.workloads.iter().filter(|(_, weight)| *weight > 0.0).map(|(name, _)| name));
                }
                names.sort_unstable();
                names.dedup();
                names.into_iter().map(|name| workload_id(name, profile)).collect::<Result<_, _>>()?
            }
        };
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    fn job(&self, row: &Row, fleet: &Fleet) -> Result<Job, Error> {
        if row.service.is_some() && (row.gpus != 1 || row.batch.is_some()) {
            let found = row.batch.map_or(format!("{} GPUs", row.gpus), |batch| format!("a batch of {batch}"));
            return Err(Error::usage(format!(
                "{:?} is a task of a service: it has one GPU and no batch, found {found}",
                row.name
            )));
        }
        if row.gpus == 0 && (row.batch.is_some() || fleet.costs.leases.is_some()) {
            let why =
                if row.batch.is_some() { "it has a batch" } else { "GPUs are leased for rounds, and nothing else" };
            return Err(Error::usage(format!("job {:?} asks for no GPU: {why}", row.name)));
        }
        let of_kind = |kind: &String| {
            let found = fleet.types.iter().position(|known| known.name == *kind);
            found.map(TypeId::at).ok_or_else(|| {
                let known: Vec<&str> = fleet.types.iter().map(|known| known.name.as_str()).collect();
                let error = Error::usage(format!("job {:?} wants a GPU of kind {kind:?}", row.name));
                error.hint(format!("the fleet has {}", known.join(", ")))
            })
        };
        // Where a preset counts parts of GPUs, a job of any share is a gang of parts.
        let slots =
            (u64::from(row.gpus) * u64::from(self.slots) * u64::from(row.share)).div_ceil(u64::from(Job::WHOLE));
        let (gpus, share) =
            if self.slots > 1 { (slots.min(u64::from(u32::MAX)) as u32, Job::WHOLE) } else { (row.gpus, row.share) };
        let kinds = row.kinds.iter().map(of_kind).collect::<Result<_, _>>()?;
        let parts::Piece { part, share, gpu_types } = parts::of_row(row, share, kinds, fleet)?;
        let request = Request {
            priority: row.priority,
            queue: super::queues::of_row(row, &fleet.queues)?,
            gpus_per_node: nodes::gpus_per_node(row, gpus)?,
            host: if row.host.is_unknown() || fleet.knows_hosts() { row.host } else { HostResources::UNKNOWN },
            near: if gpus > 1 { nodes::near(row, fleet)? } else { Nearness::ANY },
            gpu_types,
            part,
            // A task is done in one go.
            preemptible: row.preemptible && row.service.is_none(),
            share,
            memory_mib: row.memory_mib,
            workload: workload_of(row, self.profile.as_deref())?,
            batch: row.batch,
            service: row.service.as_ref().map(|name| service_of(row, name, fleet)).transpose()?,
            user: row.user.clone().unwrap_or_default(),
            gpus,
        };
        Ok(Job {
            name: row.name.as_str().into(),
            submit: row.submit,
            work: row.duration,
            declared: row.declared,
            deadline: row.deadline,
            request: Arc::new(request),
        })
    }
}
