//! Reads what a spec says of its workload: a trace, a list of jobs, or how jobs are drawn.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::{Duration, Job, Profile, SECOND};
use sandtable_inputs::trace::{self, Fill, Packed, ReadLimits, Resample};
use serde_json::{Value, json};

use super::{Drawn, From, Keyed, Workload};
use crate::spec::{
    Arrivals, Deadlines, Durations, FillSpec, Host, Near, ResampleSpec, ServingSpec, Source, TraceFormat, WorkloadSpec,
};
use crate::{nodes, number};

/// The trace that was read last, and its part of the identity: the variants of a sweep mostly have the same.
#[derive(Default)]
pub(crate) struct LastTrace(Option<(PathBuf, TraceFormat, trace::Options, Arc<Packed>, Value)>);

impl LastTrace {
    /// Reads a trace, or returns the last one where it is the same file, read in the same way.
    fn read(
        &mut self,
        path: PathBuf,
        format: TraceFormat,
        options: trace::Options,
    ) -> Result<(Arc<Packed>, Value), Error> {
        if let Some((known, as_format, with, trace, key)) = &self.0
            && (known, *as_format, with) == (&path, format, &options)
        {
            return Ok((trace.clone(), key.clone()));
        }
        // How a trace is compressed moves no result.
        let bytes = trace::read_bytes(&path, options.limits.bytes)?;
        let table = options.throughputs.as_deref().map(table_digest).transpose()?;
        let trace = Arc::new(Packed::of(trace::of_bytes(&path, &bytes, format, &options)?));
        let mut key = json!({"trace": {
            "blake3": digest(&bytes), "format": format, "jobs": options.jobs, "where": options.filter,
            "columns": options.columns, "throughputs": table,
        }});
        if options.cpu_jobs {
            key["trace"]["cpu_jobs"] = json!(true);
        }
        if let Some(of) = options.queue {
            key["trace"]["queue"] = json!(of);
        }
        self.0 = Some((path, format, options, trace.clone(), key.clone()));
        Ok((trace, key))
    }
}

/// Reads what a spec says of its workload; the second is its part of the identity.
pub(crate) fn resolve(
    source: &Source,
    spec: &WorkloadSpec,
    folder: &Path,
    profile: Option<Arc<Profile>>,
    (slots, serving, limits): (u32, Option<&ServingSpec>, ReadLimits),
    last: &mut LastTrace,
) -> Result<(Workload, Value), Error> {
    let ((from, mut key), state) = match spec {
        WorkloadSpec::Generate { .. } => (generated(source, spec, profile.as_deref())?, None),
        WorkloadSpec::Trace { .. } => (traced(source, spec, (folder, limits), last)?, None),
        WorkloadSpec::Jobs(list) => (super::listed::read(source, list)?, None),
        WorkloadSpec::State { file, run_times, changes, queues, hosts, cpu_jobs, until, next } => {
            let (until, next) = (until.map(|span| span.0), next.as_deref());
            let (queues, hosts, cpu_jobs) = (*queues, *hosts, *cpu_jobs);
            let asked = super::state::Asked { file, run_times, changes, queues, hosts, cpu_jobs, until, next };
            super::state::read(source, folder, asked, limits)?
        }
    };
    let demand = serving.map(|serving| serving.demand.clone()).unwrap_or_default();
    let services = serving.map_or_else(Vec::new, |serving| serving.services.keys().cloned().collect());
    let asked = crate::serving::demand_key(serving);
    if !asked.is_null() {
        key["demand"] = asked;
    }
    Ok((Workload { from, profile, slots, demand, services, state }, key))
}

/// The jobs of a trace.
fn traced(
    source: &Source,
    spec: &WorkloadSpec,
    (folder, limits): (&Path, ReadLimits),
    last: &mut LastTrace,
) -> Result<Keyed, Error> {
    let WorkloadSpec::Trace { file, format, jobs, filter, columns, throughputs, cpu_jobs, queue, fill, resample } =
        spec
    else {
        return Err(Error::internal("only a trace is read from a table"));
    };
    let path = folder.join(file);
    sandtable_core::input::open(&path).map_err(|error| {
        let shown = source.error("workload.file", &error.message, "this file");
        Error { hint: error.hint, ..shown }
    })?;
    let throughputs = throughputs.as_ref().map(|file| folder.join(file));
    let (filter, columns) = (filter.clone(), columns.clone());
    let (cpu_jobs, timeless) = (*cpu_jobs, fill.is_some());
    let options = trace::Options {
        jobs: *jobs,
        filter,
        columns,
        throughputs,
        cpu_jobs,
        queue: *queue,
        timeless,
        times_only: false,
        limits,
    };
    let (trace, mut key) = last.read(path, *format, options)?;
    match (fill, resample) {
        (None, None) => Ok((From::Fixed(trace), key)),
        (Some(fill), None) => {
            let fill = checked_fill(source, *fill)?;
            key["fill"] = json!([number(fill.share), fill.every]);
            Ok((From::Filled(trace, fill), key))
        }
        (None, Some(resample)) => {
            let (how, drawn) = checked_resample(source, resample)?;
            key["resample"] = drawn;
            Ok((From::Resampled(trace, how, OnceLock::new()), key))
        }
        (Some(_), Some(_)) => {
            Err(source.error("workload.resample", "jobs fill the fleet or are drawn again", "this and `fill`"))
        }
    }
}

/// How a cluster is filled.
fn checked_fill(source: &Source, FillSpec { share, every }: FillSpec) -> Result<Fill, Error> {
    let every = every.map_or(SECOND, |every| every.0);
    if !(share > 0.0 && share <= 1000.0) {
        let message = format!("expected a share of the fleet's GPUs above 0 and at most 1000, found {share}");
        return Err(source.error("workload.fill.share", &message, "here"));
    }
    if every.is_zero() || every > Duration::from_secs(86_400) {
        return Err(source.error("workload.fill.every", "expected a time above 0 and at most a day", "here"));
    }
    Ok(Fill { share, every })
}

/// How jobs are drawn from those of a trace, and its part of the identity.
fn checked_resample(source: &Source, spec: &ResampleSpec) -> Result<(Resample, Value), Error> {
    check_arrivals(source, "workload.resample", spec.arrivals)?;
    if spec.arrivals.load().is_none() {
        let message = "expected Poisson, Bursts or Diurnal arrivals: jobs that come at once offer no load";
        return Err(source.error("workload.resample.arrivals", message, "here"));
    }
    if spec.span.0.is_zero() {
        return Err(source.error("workload.resample.span", "expected a time above 0", "here"));
    }
    if spec.most_gpus == Some(0) {
        return Err(source.error("workload.resample.most_gpus", "expected at least 1, found 0", "here"));
    }
    check_weights(source, "workload.resample.workloads", spec.workloads.values())?;
    let mut key = json!({"span": spec.span.0, "arrivals": arrivals_key(spec.arrivals)});
    if let Some(most) = spec.most_gpus {
        key["most_gpus"] = json!(most);
    }
    weights_key(&mut key, "workloads", &spec.workloads);
    let workloads = spec.workloads.iter().map(|(name, weight)| (name.clone(), *weight)).collect();
    let (span, arrivals, most_gpus) = (spec.span.0, spec.arrivals, spec.most_gpus);
    Ok((Resample { span, arrivals, most_gpus, workloads }, key))
}

/// Checks how jobs come.
fn check_arrivals(source: &Source, place: &str, arrivals: Arrivals) -> Result<(), Error> {
    let wrong = |field: &str, message: &str| Err(source.error(&format!("{place}.{field}"), message, "here"));
    let load = arrivals.load().unwrap_or(1.0);
    if !(0.001..=1000.0).contains(&load) {
        return wrong("arrivals.load", &format!("expected a load from 0.001 to 1000, found {load}"));
    }
    match arrivals {
        Arrivals::Bursts { size, .. } if !(1.0..=1e6).contains(&size) => {
            wrong("arrivals.size", &format!("expected a mean burst of at least 1 job, found {size}"))
        }
        Arrivals::Diurnal { peak, .. } if !(1.0..=2.0).contains(&peak) => {
            wrong("arrivals.peak", &format!("expected a peak from 1 to 2 times the mean, found {peak}"))
        }
        _ => Ok(()),
    }
}

/// Jobs that are drawn by the parameters of a spec.
fn generated(source: &Source, spec: &WorkloadSpec, profile: Option<&Profile>) -> Result<Keyed, Error> {
    let WorkloadSpec::Generate {
        jobs,
        arrivals,
        durations,
        gpus,
        workloads,
        users,
        declared,
        deadlines,
        priorities,
        queues,
        gpus_per_node,
        hosts,
        near,
        shares,
        parts,
    } = spec
    else {
        return Err(Error::internal("only `Generate` draws jobs"));
    };
    let users: Vec<(String, f64)> = users.iter().map(|(name, weight)| (name.clone(), *weight)).collect();
    let workloads: Vec<(String, f64)> = match (workloads.is_empty(), profile) {
        (true, Some(profile)) => profile.workloads.iter().map(|of| (of.name.clone(), 1.0)).collect(),
        _ => workloads.iter().map(|(name, weight)| (name.clone(), *weight)).collect(),
    };
    check_weights(source, "workload.workloads", workloads.iter().map(|(_, weight)| weight))?;
    check_weights(source, "workload.users", users.iter().map(|(_, weight)| weight))?;
    check(source, (*jobs, *arrivals), durations, gpus, *declared)?;
    deadlines.map_or(Ok(()), |draws| check_deadlines(source, draws))?;
    check_weights(source, "workload.priorities", priorities.values())?;
    check_weights(source, "workload.queues", queues.values())?;
    check_weights(source, "workload.parts", parts.values())?;
    check_shares(source, shares, parts)?;
    check_cpu_jobs(source, gpus, hosts)?;
    check_demands(source, *gpus_per_node, hosts)?;
    let weighted = |all: &[(String, f64)]| all.iter().map(|(name, weight)| json!([name, number(*weight)])).collect();
    let (workload_weights, user_weights): (Vec<Value>, Vec<Value>) = (weighted(&workloads), weighted(&users));
    let mut key = json!({"generate": {
        "jobs": jobs, "arrivals": arrivals_key(*arrivals), "durations": durations_key(durations),
        "gpus": gpus.iter().map(|(size, weight)| json!([size, number(*weight)])).collect::<Vec<_>>(),
        "declared": declared.map(number), "workloads": workload_weights, "users": user_weights,
    }});
    if let Some(draws) = deadlines {
        key["generate"]["deadlines"] = json!([number(draws.least), number(draws.most), number(draws.share)]);
    }
    weights_key(&mut key["generate"], "priorities", priorities);
    weights_key(&mut key["generate"], "queues", queues);
    weights_key(&mut key["generate"], "shares", shares);
    weights_key(&mut key["generate"], "parts", parts);
    demands_key(&mut key["generate"], *gpus_per_node, hosts, near);
    let drawn = Drawn {
        jobs: *jobs,
        arrivals: *arrivals,
        durations: durations.clone(),
        gpus: gpus.clone(),
        workloads,
        users,
        declared: *declared,
        deadlines: *deadlines,
        priorities: priorities.clone(),
        queues: queues.clone(),
        gpus_per_node: *gpus_per_node,
        hosts: hosts.clone(),
        near: near.clone(),
        shares: shares.clone(),
        parts: parts.clone(),
    };
    Ok((From::Generated(Box::new(drawn)), key))
}

/// What weights of a field add to the identity; nothing where there are none.
fn weights_key<T: serde::Serialize>(key: &mut Value, field: &str, weights: &std::collections::BTreeMap<T, f64>) {
    if !weights.is_empty() {
        key[field] = weights.iter().map(|(item, weight)| json!([item, number(*weight)])).collect();
    }
}

/// Checks the weights of what is drawn: there may be none, but not only such of 0.
fn check_weights<'a>(source: &Source, place: &str, weights: impl Iterator<Item = &'a f64>) -> Result<(), Error> {
    let weights: Vec<f64> = weights.copied().collect();
    let bad = weights.iter().any(|weight| !(0.0..=1e12).contains(weight));
    if bad || (!weights.is_empty() && weights.iter().all(|weight| *weight == 0.0)) {
        return Err(source.error(place, "expected weights of at least 0, not all of them 0", "here"));
    }
    Ok(())
}

/// Checks the shares of GPUs that jobs are drawn to ask for.
fn check_shares(
    source: &Source,
    shares: &std::collections::BTreeMap<u32, f64>,
    parts: &std::collections::BTreeMap<String, f64>,
) -> Result<(), Error> {
    check_weights(source, "workload.shares", shares.values())?;
    if let Some(milli) = shares.keys().find(|milli| !(1..=Job::WHOLE).contains(*milli)) {
        let message = format!("expected shares of 1 to 1000 thousandths of a GPU, found {milli}");
        return Err(source.error("workload.shares", &message, "here"));
    }
    if !shares.is_empty() && !parts.is_empty() {
        return Err(source.error("workload.shares", "jobs ask for shares of GPUs or for parts", "these and `parts`"));
    }
    Ok(())
}

/// Checks that jobs without GPUs take something.
fn check_cpu_jobs(source: &Source, gpus: &std::collections::BTreeMap<u32, f64>, hosts: &[Host]) -> Result<(), Error> {
    if gpus.get(&0).is_some_and(|weight| *weight > 0.0) && hosts.is_empty() {
        let error = source.error("workload.gpus", "jobs of 0 GPUs take CPU and memory, which `hosts` says", "here");
        return Err(error.hint("hosts: [Host(cpus: 4, memory: \"16GiB\")]"));
    }
    if !gpus.is_empty() && gpus.iter().all(|(size, weight)| *size == 0 || *weight == 0.0) {
        return Err(source.error("workload.gpus", "expected gangs of at least one GPU too", "here"));
    }
    Ok(())
}

/// Checks what jobs are drawn to ask of nodes.
fn check_demands(source: &Source, gpus_per_node: Option<u32>, hosts: &[Host]) -> Result<(), Error> {
    if gpus_per_node == Some(0) {
        return Err(source.error("workload.gpus_per_node", "expected at least 1, found 0", "here"));
    }
    for (at, host) in hosts.iter().enumerate() {
        let wrong = nodes::host(host.cpus, host.memory).err();
        let weight = || format!("expected a weight from above 0 to 10^12, found {}", host.weight);
        if let Some(message) = wrong.or_else(|| (!(host.weight > 0.0 && host.weight <= 1e12)).then(weight)) {
            return Err(source.error(&format!("workload.hosts.{at}"), &message, "here"));
        }
    }
    Ok(())
}

/// Their part of the identity.
fn demands_key(key: &mut Value, gpus_per_node: Option<u32>, hosts: &[Host], near: &Near) {
    if let Some(each) = gpus_per_node {
        key["gpus_per_node"] = json!(each);
    }
    if !hosts.is_empty() {
        let mib = |host: &Host| host.memory.map_or(0, |bytes| bytes.0 >> 20);
        let hosts = hosts.iter().map(|host| json!([host.cpus.map(number), mib(host), number(host.weight)]));
        key["hosts"] = hosts.collect();
    }
    if *near != Near::default() {
        key["near"] = json!([near.required, near.preferred]);
    }
}

/// Checks how deadlines are drawn.
fn check_deadlines(source: &Source, Deadlines { least, most, share }: Deadlines) -> Result<(), Error> {
    let wrong =
        |field: &str, message: String| Err(source.error(&format!("workload.deadlines.{field}"), &message, "here"));
    if !(0.0..=1e6).contains(&least) {
        return wrong("least", format!("expected a factor of run times from 0 to 10^6, found {least}"));
    }
    if !(least..=1e6).contains(&most) {
        return wrong("most", format!("expected a factor from `least`, {least}, to 10^6, found {most}"));
    }
    if !(share > 0.0 && share <= 1.0) {
        return wrong("share", format!("expected a part of the jobs above 0 and at most 1, found {share}"));
    }
    Ok(())
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
    (jobs, arrivals): (u32, Arrivals),
    durations: &Durations,
    gpus: &std::collections::BTreeMap<u32, f64>,
    declared: Option<f64>,
) -> Result<(), Error> {
    let wrong = |place: &str, message: &str| Err(source.error(&format!("workload.{place}"), message, "here"));
    if jobs == 0 || jobs as usize > trace::MAX_JOBS {
        return wrong("jobs", &format!("expected 1 to {} jobs, found {jobs}", trace::MAX_JOBS));
    }
    check_arrivals(source, "workload", arrivals)?;
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
        assert!(cut.len() == 1 && key != other);
        assert_eq!(read(None).0.len(), 2);
    }
}
