//! The jobs of a cell, and what of them is in its identity.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::random::Stream;
use sandtable_hardware::{Fleet, Job, Profile, WorkloadId};
use sandtable_inputs::trace::{self, FleetShape, ReadLimits, Recipe, Row, Trace};
use serde_json::{Value, json};

use super::number;
use crate::spec::{Arrivals, DemandSpec, Durations, ServingSpec, Source, Ties, TraceFormat, WorkloadSpec};

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
}

/// The trace that was read last, and its part of the identity: the variants of a sweep mostly have the same.
#[derive(Default)]
pub(super) struct LastTrace(Option<(PathBuf, TraceFormat, trace::Options, Arc<Trace>, Value)>);

impl LastTrace {
    /// Reads a trace, or returns the last one where it is the same file, read in the same way.
    fn read(
        &mut self,
        path: PathBuf,
        format: TraceFormat,
        options: trace::Options,
    ) -> Result<(Arc<Trace>, Value), Error> {
        if let Some((known, as_format, with, trace, key)) = &self.0
            && (known, *as_format, with) == (&path, format, &options)
        {
            return Ok((trace.clone(), key.clone()));
        }
        // How a trace is compressed moves no result.
        let bytes = trace::read_bytes(&path, options.limits.bytes)?;
        let table = options.throughputs.as_deref().map(table_digest).transpose()?;
        let trace = Arc::new(trace::of_bytes(&path, &bytes, format, &options)?);
        let key = json!({"trace": {
            "blake3": digest(&bytes), "format": format, "jobs": options.jobs, "where": options.filter,
            "columns": options.columns, "throughputs": table,
        }});
        self.0 = Some((path, format, options, trace.clone(), key.clone()));
        Ok((trace, key))
    }
}

/// Where jobs come from: the fields are those of the spec's `Generate`.
enum From {
    /// Drawn anew for every seed.
    Generated {
        jobs: u32,
        arrivals: Arrivals,
        durations: Durations,
        gpus: std::collections::BTreeMap<u32, f64>,
        /// Names and weights.
        workloads: Vec<(String, f64)>,
        users: Vec<(String, f64)>,
        declared: Option<f64>,
    },
    /// The same for every seed.
    Fixed(Arc<Trace>),
}

impl Workload {
    /// The trace that it is, where it is one.
    pub fn fixed(&self) -> Option<&Trace> {
        match &self.from {
            From::Fixed(trace) => Some(trace),
            From::Generated { .. } => None,
        }
    }

    /// How many jobs it has: the cost of a cell, as far as it can be told before it runs.
    pub fn len(&self) -> usize {
        match &self.from {
            From::Fixed(trace) => trace.rows.len(),
            From::Generated { jobs, .. } => *jobs as usize,
        }
    }

    /// Whether any job's user declares how long it will run.
    pub fn declares(&self) -> bool {
        match &self.from {
            From::Fixed(trace) => trace.rows.iter().any(|row| row.declared.is_some()),
            From::Generated { declared, .. } => declared.is_some(),
        }
    }

    /// Whether it has no job.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows under a seed.
    pub fn trace(&self, seed: u64, fleet: &Fleet) -> Arc<Trace> {
        let jobs = self.jobs_of(seed, fleet);
        if self.demand == DemandSpec::Recorded {
            return jobs;
        }
        let mut all = (*jobs).clone();
        all.rows.extend(trace::tasks(&self.demand, &self.services, seed));
        // Jobs before tasks of the same instant.
        all.rows.sort_by_key(|row| row.submit);
        Arc::new(all)
    }

    fn jobs_of(&self, seed: u64, fleet: &Fleet) -> Arc<Trace> {
        match &self.from {
            From::Fixed(trace) => trace.clone(),
            From::Generated { jobs, arrivals, durations, gpus, workloads, users, declared } => {
                let of = |kind: usize| fleet.gpus_of(kind as u32);
                let capacity = fleet.types.iter().enumerate().map(|(kind, t)| f64::from(of(kind)) * t.speed).sum();
                let largest = (0..fleet.types.len()).map(of).max().unwrap_or(0);
                let (jobs, arrivals, declared) = (*jobs, *arrivals, *declared);
                let elastic = |name: &str| {
                    let profile = self.profile.as_ref()?;
                    profile.workloads[profile.id(name)? as usize].elastic.as_ref()
                };
                let node = fleet.nodes.iter().map(|node| node.gpus).max().unwrap_or(1);
                let fleet = FleetShape { capacity, largest, node };
                let recipe =
                    Recipe { jobs, arrivals, durations, gpus, workloads, users, declared, elastic: &elastic, fleet };
                Arc::new(trace::generate(&recipe, seed))
            }
        }
    }

    /// The jobs under a seed, numbered by submission and then by the rule for ties.
    pub(super) fn jobs(&self, seed: u64, ties: Ties, fleet: &Fleet) -> Result<Vec<Job>, Error> {
        let trace = self.trace(seed, fleet);
        let mut order: Vec<usize> = (0..trace.rows.len()).collect();
        let rows = &trace.rows;
        match ties {
            Ties::RowOrder => order.sort_by_key(|i| rows[*i].submit),
            Ties::JobName => order.sort_by(|a, b| {
                let key = |i: usize| (rows[i].submit, rows[i].name.len(), rows[i].name.as_str());
                key(*a).cmp(&key(*b))
            }),
            Ties::ShortestFirst => order.sort_by_key(|i| (rows[*i].submit, rows[*i].duration)),
            Ties::LongestFirst => order.sort_by_key(|i| (rows[*i].submit, std::cmp::Reverse(rows[*i].duration))),
            Ties::Shuffled => {
                let mut stream = Stream::new(seed, "ties");
                let draws: Vec<u64> = rows.iter().map(|_| stream.integer()).collect();
                order.sort_by_key(|i| (rows[*i].submit, draws[*i]));
            }
        }
        order.into_iter().map(|i| self.job(&rows[i], fleet)).collect()
    }
}

/// A row's workload; that of one with a batch must be elastic, and the batch one that it can have.
fn workload_of(row: &Row, profile: Option<&Profile>) -> Result<Option<WorkloadId>, Error> {
    let id = row.workload.as_ref().map(|name| workload_id(name, profile)).transpose()?;
    let Some(batch) = row.batch else { return Ok(id) };
    let found = id.zip(profile).map(|(id, profile)| &profile.workloads[id as usize]);
    let Some(elastic) = found.and_then(|workload| workload.elastic.as_ref()) else {
        let of = row.workload.as_deref().map_or("none".into(), |name| format!("{name:?}, which is not elastic"));
        let error = Error::usage(format!("job {:?} has a batch of {batch}, its workload is {of}", row.name));
        return Err(error.hint("only elastic workloads of the `profile` have batches"));
    };
    let empty = (batch == 0).then(|| "a step takes at least one sample".to_string());
    match empty.or_else(|| elastic.refuses(row.gpus, elastic.split(batch, row.gpus))) {
        None => Ok(id),
        Some(why) => {
            let asked = format!("job {:?} asks for {} GPUs and a batch of {batch}", row.name, row.gpus);
            Err(Error::usage(format!("{asked}: {why}")))
        }
    }
}

/// The number of a row's service.
fn service_of(row: &Row, name: &str, fleet: &Fleet) -> Result<u32, Error> {
    let known = || fleet.services.iter().map(|service| service.name.as_str());
    known().position(|service| service == name).map(|id| id as u32).ok_or_else(|| {
        let error =
            Error::usage(format!("{:?} is a task of the service {name:?}, which `serving` does not name", row.name));
        match sandtable_core::text::nearest(name, known()) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint("serving: Serving(services: {\"NAME\": Service(cold_start: \"6s\")})"),
        }
    })
}

/// The number of a workload in a profile.
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
            From::Generated { workloads, .. } => {
                let there = workloads.iter().filter(|(_, weight)| *weight > 0.0);
                there.map(|(name, _)| workload_id(name, profile)).collect::<Result<_, _>>()?
            }
            From::Fixed(trace) => {
                let mut names: Vec<&String> = trace.rows.iter().filter_map(|row| row.workload.as_ref()).collect();
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
        let of_kind = |kind: &String| {
            let found = fleet.types.iter().position(|known| known.name == *kind);
            found.map(|index| index as u32).ok_or_else(|| {
                let known: Vec<&str> = fleet.types.iter().map(|known| known.name.as_str()).collect();
                let error = Error::usage(format!("job {:?} wants a GPU of kind {kind:?}", row.name));
                error.hint(format!("the fleet has {}", known.join(", ")))
            })
        };
        // Where a preset counts parts of GPUs, a job of any share is a gang of parts.
        let parts =
            (u64::from(row.gpus) * u64::from(self.slots) * u64::from(row.share)).div_ceil(u64::from(Job::WHOLE));
        let (gpus, share) =
            if self.slots > 1 { (parts.min(u64::from(u32::MAX)) as u32, Job::WHOLE) } else { (row.gpus, row.share) };
        Ok(Job {
            declared: row.declared,
            gpu_types: row.kinds.iter().map(of_kind).collect::<Result<_, _>>()?,
            // A task is done in one go.
            preemptible: row.preemptible && row.service.is_none(),
            share,
            memory_mib: row.memory_mib,
            workload: workload_of(row, self.profile.as_deref())?,
            batch: row.batch,
            service: row.service.as_ref().map(|name| service_of(row, name, fleet)).transpose()?,
            user: row.user.clone().unwrap_or_default(),
            ..Job::new(&row.name, row.submit, gpus, row.duration)
        })
    }
}

/// Reads what a spec says of its workload; the second is its part of the identity.
pub(super) fn resolve(
    source: &Source,
    spec: &WorkloadSpec,
    folder: &Path,
    profile: Option<Arc<Profile>>,
    (slots, serving, limits): (u32, Option<&ServingSpec>, ReadLimits),
    last: &mut LastTrace,
) -> Result<(Workload, Value), Error> {
    let (from, mut key) = read(source, spec, (folder, limits), profile.as_deref(), last)?;
    let demand = serving.map(|serving| serving.demand.clone()).unwrap_or_default();
    let services = serving.map_or_else(Vec::new, |serving| serving.services.keys().cloned().collect());
    let asked = super::serving::demand_key(serving);
    if !asked.is_null() {
        key["demand"] = asked;
    }
    Ok((Workload { from, profile, slots, demand, services }, key))
}

fn read(
    source: &Source,
    spec: &WorkloadSpec,
    (folder, limits): (&Path, ReadLimits),
    profile: Option<&Profile>,
    last: &mut LastTrace,
) -> Result<(From, Value), Error> {
    match spec {
        WorkloadSpec::Generate { jobs, arrivals, durations, gpus, workloads, users, declared } => {
            let users: Vec<(String, f64)> = users.iter().map(|(name, weight)| (name.clone(), *weight)).collect();
            let workloads: Vec<(String, f64)> = match (workloads.is_empty(), profile) {
                (true, Some(profile)) => profile.workloads.iter().map(|of| (of.name.clone(), 1.0)).collect(),
                _ => workloads.iter().map(|(name, weight)| (name.clone(), *weight)).collect(),
            };
            let bad = |weight: &f64| !(0.0..=1e12).contains(weight);
            for (place, weights) in [("workload.workloads", &workloads), ("workload.users", &users)] {
                if weights.iter().any(|(_, weight)| bad(weight))
                    || (!weights.is_empty() && weights.iter().all(|(_, weight)| *weight == 0.0))
                {
                    let message = "expected weights of at least 0, not all of them 0";
                    return Err(source.error(place, message, "here"));
                }
            }
            check(source, *jobs, *arrivals, durations, gpus, *declared)?;
            let key = json!({"generate": {
                "jobs": jobs, "arrivals": arrivals_key(*arrivals), "durations": durations_key(durations),
                "gpus": gpus.iter().map(|(size, weight)| json!([size, number(*weight)])).collect::<Vec<_>>(),
                "declared": declared.map(number),
                "workloads": workloads.iter().map(|(name, weight)| json!([name, number(*weight)])).collect::<Vec<_>>(),
                "users": users.iter().map(|(name, weight)| json!([name, number(*weight)])).collect::<Vec<_>>(),
            }});
            let (jobs, arrivals, declared) = (*jobs, *arrivals, *declared);
            Ok((
                From::Generated {
                    jobs,
                    arrivals,
                    durations: durations.clone(),
                    gpus: gpus.clone(),
                    workloads,
                    users,
                    declared,
                },
                key,
            ))
        }
        WorkloadSpec::Trace { file, format, jobs, filter, columns, throughputs } => {
            let path = folder.join(file);
            sandtable_core::input::open(&path).map_err(|error| {
                let shown = source.error("workload.file", &error.message, "this file");
                Error { hint: error.hint, ..shown }
            })?;
            let throughputs = throughputs.as_ref().map(|file| folder.join(file));
            let (filter, columns) = (filter.clone(), columns.clone());
            let options = trace::Options { jobs: *jobs, filter, columns, throughputs, limits };
            let (trace, key) = last.read(path, *format, options)?;
            Ok((From::Fixed(trace), key))
        }
        WorkloadSpec::Jobs(list) => {
            if list.is_empty() {
                return Err(source.error("workload", "a workload needs at least one job, found none", "no job"));
            }
            for (index, job) in list.iter().enumerate() {
                let wrong = |share: f64| !(share > 0.0 && share <= 1.0) || (share < 1.0 && job.gpus != 1);
                if let Some(share) = job.share.filter(|share| wrong(*share)) {
                    let found = format!("found {share} of {}", job.gpus);
                    let message = format!("job {index}: a share is a part of one GPU, above 0 and at most 1: {found}");
                    return Err(source.error("workload", &message, "these jobs"));
                }
            }
            let lacks = |job: &crate::spec::JobSpec| job.duration.is_none() && job.batch.is_none();
            if let Some(index) = list.iter().position(lacks) {
                let message = format!("job {index} needs a `duration`, or as an elastic one a `batch`");
                return Err(source.error("workload", &message, "these jobs"));
            }
            if let Some(index) = list.iter().position(|job| job.service.is_some() && job.gpus != 1) {
                let message = format!("job {index}: a task of a service has one GPU, found {}", list[index].gpus);
                return Err(source.error("workload", &message, "these jobs"));
            }
            let rows = list.iter().enumerate().map(|(index, job)| Row {
                declared: job.declared.map(|span| span.0),
                kinds: job.kinds.clone(),
                preemptible: job.preemptible.unwrap_or(true),
                share: job.share.map_or(Job::WHOLE, |share| ((share * 1000.0 + 0.5) as u32).max(1)),
                memory_mib: job.memory.map(|bytes| (bytes.0 >> 20) as u32),
                workload: job.workload.clone(),
                user: job.user.clone(),
                batch: job.batch,
                service: job.service.clone(),
                ..Row::new(
                    job.name.clone().unwrap_or_else(|| index.to_string()),
                    job.submit.0,
                    job.gpus,
                    job.duration.map_or(0, |span| span.0),
                )
            });
            let mut trace = Trace { rows: rows.collect(), ..Trace::default() };
            let key = json!({"trace": {"blake3": digest(trace.to_csv().as_bytes()), "format": "Native"}});
            trace.rows.sort_by_key(|row| row.submit);
            Ok((From::Fixed(Arc::new(trace)), key))
        }
    }
}

/// blake3 of a file, or of the names and digests of a folder's files.
fn table_digest(path: &Path) -> Result<String, Error> {
    let read = |path: &Path| sandtable_core::input::read(path, sandtable_core::input::DATA);
    if !path.is_dir() {
        return Ok(digest(&read(path)?));
    }
    let mut all = String::new();
    for file in sandtable_core::input::sorted(path)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_string();
        all.push_str(&format!("{name} {}\n", table_digest(&file)?));
    }
    Ok(digest(all.as_bytes()))
}

fn check(
    source: &Source,
    jobs: u32,
    arrivals: Arrivals,
    durations: &Durations,
    gpus: &std::collections::BTreeMap<u32, f64>,
    declared: Option<f64>,
) -> Result<(), Error> {
    let wrong = |place: &str, message: &str| Err(source.error(&format!("workload.{place}"), message, "here"));
    if jobs == 0 || jobs as usize > trace::MAX_JOBS {
        return wrong("jobs", &format!("expected 1 to {} jobs, found {jobs}", trace::MAX_JOBS));
    }
    let load = match arrivals {
        Arrivals::Poisson { load } | Arrivals::Bursts { load, .. } | Arrivals::Diurnal { load, .. } => load,
        Arrivals::AtOnce => 1.0,
    };
    if !(0.001..=1000.0).contains(&load) {
        return wrong("arrivals.load", &format!("expected a load from 0.001 to 1000, found {load}"));
    }
    match arrivals {
        Arrivals::Bursts { size, .. } if !(1.0..=1e6).contains(&size) => {
            return wrong("arrivals.size", &format!("expected a mean burst of at least 1 job, found {size}"));
        }
        Arrivals::Diurnal { peak, .. } if !(1.0..=2.0).contains(&peak) => {
            return wrong("arrivals.peak", &format!("expected a peak from 1 to 2 times the mean, found {peak}"));
        }
        _ => {}
    }
    match durations {
        Durations::LogNormal { sigma, .. } if !(0.0..=10.0).contains(sigma) => {
            return wrong("durations.sigma", &format!("expected a sigma from 0 to 10, found {sigma}"));
        }
        Durations::Pareto { shape, .. } if !(0.1..=100.0).contains(shape) => {
            return wrong("durations.shape", &format!("expected a shape from 0.1 to 100, found {shape}"));
        }
        Durations::Empirical(list) if list.is_empty() => return wrong("durations", "expected at least one duration"),
        _ => {}
    }
    if gpus.contains_key(&0) {
        return wrong("gpus", "expected gangs of at least one GPU, found 0");
    }
    if gpus.values().any(|weight| !(0.0..=1e12).contains(weight))
        || (!gpus.is_empty() && gpus.values().sum::<f64>() <= 0.0)
    {
        return wrong("gpus", "expected weights of at least 0, not all of them 0");
    }
    if declared.is_some_and(|sigma| !(0.0..=10.0).contains(&sigma)) {
        return wrong("declared", "expected a sigma from 0 to 10");
    }
    Ok(())
}

fn arrivals_key(arrivals: Arrivals) -> Value {
    match arrivals {
        Arrivals::Poisson { load } => json!({"poisson": {"load": number(load)}}),
        Arrivals::Bursts { load, size } => json!({"bursts": {"load": number(load), "size": number(size)}}),
        Arrivals::Diurnal { load, peak } => json!({"diurnal": {"load": number(load), "peak": number(peak)}}),
        Arrivals::AtOnce => json!("at-once"),
    }
}

fn durations_key(durations: &Durations) -> Value {
    match durations {
        Durations::LogNormal { median, sigma, least, most } => json!({"log-normal": {
            "median": median.0, "sigma": number(*sigma), "least": least.map(|span| span.0), "most": most.map(|span| span.0),
        }}),
        Durations::Pareto { least, shape } => json!({"pareto": {"least": least.0, "shape": number(*shape)}}),
        Durations::Empirical(list) => json!({"empirical": list.iter().map(|span| span.0).collect::<Vec<_>>()}),
        Durations::Fixed(span) => json!({"fixed": span.0}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_once_for_all_variants_that_have_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        std::fs::write(&path, "submit_s,gpus,duration_s\n0,1,60\n5,1,60\n").expect("written");
        let mut last = LastTrace::default();
        let mut read = |jobs| {
            let options = trace::Options { jobs, ..trace::Options::default() };
            last.read(path.clone(), TraceFormat::Native, options).expect("a trace")
        };
        let (first, key) = read(None);
        let (second, same) = read(None);
        assert!(Arc::ptr_eq(&first, &second) && key == same);
        let (cut, other) = read(Some(1));
        assert!(cut.rows.len() == 1 && key != other);
        assert_eq!(read(None).0.rows.len(), 2);
    }
}
