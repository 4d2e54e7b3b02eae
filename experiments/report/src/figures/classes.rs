//! Who waits: jobs by their size, user, queue, partition, workload, kind of GPU, and by when they were submitted.

use std::collections::BTreeMap;

use sandtable_core::display::Unit;
use sandtable_core::error::Error;
use sandtable_hardware::Duration;
use sandtable_results::schema::JobRecord;
use sandtable_results::stats::estimate;
use sandtable_runtime::Distribution;

use super::distributions::slowdown;
use super::{Class, Run, Runs, origin, ran_on};
use crate::plot::{Axis, Figure, Line};

/// Classes that a figure shows; those with the fewest jobs are one.
const MOST: usize = 12;

/// A number of the jobs of a class.
type OfJobs = fn(&[&JobRecord]) -> Option<f64>;

/// What is shown of a class, in words and in the name of the figure.
const SHOWS: &[(&str, &str, Unit, OfJobs)] = &[
    ("mean completion time", "jct", Unit::Seconds, |jobs| mean(jobs.iter().filter_map(|job| job.jct()))),
    ("mean time to the first start", "waiting", Unit::Seconds, |jobs| mean(jobs.iter().filter_map(|job| job.wait()))),
    ("p95 of the time to the first start", "waiting-p95", Unit::Seconds, |jobs| {
        p95(jobs.iter().filter_map(|job| job.wait()))
    }),
    ("mean slowdown", "slowdown", Unit::Times, |jobs| mean(jobs.iter().filter_map(|job| slowdown(job)))),
    ("mean time on GPUs without lasting progress", "overhead", Unit::Seconds, |jobs| {
        mean(jobs.iter().map(|job| overhead(job)))
    }),
];

/// What preemptions, failures and starts have cost a job: the time for which it held its GPUs less that of progress that lasted.
fn overhead(job: &JobRecord) -> f64 {
    (job.held_s.f64() - job.productive_s.f64()).max(0.0)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_usize, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

/// The 95th percentile, as metrics have it.
fn p95(values: impl Iterator<Item = f64>) -> Option<f64> {
    let all: Vec<f64> = values.collect();
    (!all.is_empty()).then(|| Distribution::of_numbers(all).p95)
}

/// What a job's class is, and in which order classes stand: that of their names where jobs have them, by count else.
#[derive(Default)]
struct Division {
    by: &'static str,
    id: &'static str,
    /// The class of each job, by its [`key`]; jobs without one are left out.
    of: BTreeMap<String, String>,
    /// Whether a job's class is its own in each run, and not the same under every policy.
    by_run: bool,
    /// Classes in the order of the axis; empty: by the number of their jobs.
    order: Vec<String>,
}

pub(super) fn figures(all: &[Runs<'_>], at: &str) -> Result<Vec<(Class, Figure, String)>, Error> {
    let mut out = Vec::new();
    for division in divisions(all)? {
        let names = division.names(all);
        if names.len() < 2 {
            continue;
        }
        for (shows, short, unit, of) in SHOWS {
            let lines = all.iter().map(|runs| line(runs, &division, &names, *of)).collect();
            let figure = Figure {
                id: format!("{short}-by-{}", division.id),
                title: format!("{}{} by {}", shows[..1].to_uppercase(), &shows[1..], division.by),
                at: at.into(),
                x: division.by.into(),
                y: (*shows).into(),
                axis: Axis::Names(names.clone()),
                unit: *unit,
                steps: false,
                part: false,
                y_range: None,
                lines,
            };
            let caption =
                "Means over the seeds of what each run gives, with 95 % intervals (Student's) where there are several."
                    .to_string();
            out.push((Class { by: division.by, shows }, figure, caption));
        }
    }
    Ok(out)
}

/// The class that rare ones are put in.
const OTHERS: &str = "others";

impl Division {
    /// The class of a job, if it has one.
    fn class<'a>(&'a self, run: &Run<'_>, job: &JobRecord) -> Option<&'a str> {
        let key = if self.by_run { key_of_run(run, job) } else { key(run, job) };
        self.of.get(&key).map(String::as_str)
    }

    /// The classes that are shown, in the order of the axis.
    fn names(&self, all: &[Runs<'_>]) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for run in all.iter().flat_map(|runs| &runs.all) {
            run.jobs
                .iter()
                .filter_map(|job| self.class(run, job))
                .for_each(|class| *counts.entry(class).or_default() += 1);
        }
        if !self.order.is_empty() {
            return self.order.iter().filter(|name| counts.contains_key(name.as_str())).cloned().collect();
        }
        let mut sorted: Vec<(&str, usize)> = counts.into_iter().collect();
        sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let many = sorted.len() > MOST;
        let kept = sorted.into_iter().take(if many { MOST - 1 } else { MOST }).map(|(name, _)| name.to_string());
        kept.chain(many.then(|| OTHERS.to_string())).collect()
    }
}

/// A job's name is its own under a seed alone.
fn key(run: &Run<'_>, job: &JobRecord) -> String {
    format!("{} {}", run.cell.seed, job.job_id)
}

fn key_of_run(run: &Run<'_>, job: &JobRecord) -> String {
    format!("{} {}", run.cell.id, job.job_id)
}

fn line(runs: &Runs<'_>, division: &Division, names: &[String], of: OfJobs) -> Line {
    let mut means = Vec::new();
    // By run and class.
    let classed: Vec<BTreeMap<usize, Vec<&JobRecord>>> = runs
        .all
        .iter()
        .map(|run| {
            let mut by: BTreeMap<usize, Vec<&JobRecord>> = BTreeMap::new();
            for job in &run.jobs {
                let Some(class) = division.class(run, job) else { continue };
                let at = names
                    .iter()
                    .position(|name| name == class)
                    .or_else(|| names.iter().position(|name| name == OTHERS));
                if let Some(at) = at {
                    by.entry(at).or_default().push(job);
                }
            }
            by
        })
        .collect();
    for at in 0..names.len() {
        let values: Vec<f64> = classed.iter().filter_map(|by| of(by.get(&at)?)).collect();
        means.extend(estimate(&values).map(|one| (at as f64, one)));
    }
    Line::of_estimates(runs.label, &means)
}

/// Every way in which jobs of these runs are told apart.
fn divisions(all: &[Runs<'_>]) -> Result<Vec<Division>, Error> {
    let runs = || all.iter().flat_map(|runs| &runs.all);
    let division = |by: &'static str, id: &'static str| Division { by, id, ..Division::default() };
    let mut sizes = division("GPUs asked for", "gpus");
    let mut starts: BTreeMap<u32, String> = BTreeMap::new();
    let mut kinds = division("kind of GPU", "kind");
    let mut places = Division { by_run: true, ..division("kind of GPU that it ran on", "ran-on") };
    let origin = runs().next().and_then(|run| origin(run.cell));
    // Hours where each of the 168 has some jobs, quarters of days else.
    let jobs = runs().map(|run| run.jobs.len()).max().unwrap_or(0);
    let hours = if jobs >= 168 * OF_AN_HOUR { 1 } else { 6 };
    let mut times = Division { order: weeks(hours), ..division("time of the week", "time") };
    for run in runs() {
        for job in &run.jobs {
            let (least, name) = size(job.gpus);
            starts.entry(least).or_insert_with(|| name.clone());
            sizes.of.entry(key(run, job)).or_insert(name);
            let on = ran_on(run.cell, job);
            if !on.is_empty() {
                places.of.insert(key_of_run(run, job), on.join(" and "));
            }
            if let Some(origin) = origin {
                times.of.entry(key(run, job)).or_insert_with(|| time_of_week(origin, job.submit_s.f64(), hours));
            }
        }
    }
    sizes.order = starts.into_values().collect();
    let [mut users, mut queues, mut partitions, mut workloads] =
        ["user", "queue", "partition", "workload"].map(|by| division(by, by));
    let mut seeds: Vec<u64> = Vec::new();
    for run in runs() {
        if seeds.contains(&run.cell.seed) {
            continue;
        }
        seeds.push(run.cell.seed);
        for row in run.cell.setting.workload.trace(run.cell.seed, &run.cell.fleet)?.rows {
            let partition = row.recorded.as_ref().and_then(|log| log.partition.clone());
            let asked = [
                (&mut users, &row.user),
                (&mut queues, &row.queue),
                (&mut partitions, &partition),
                (&mut workloads, &row.workload),
            ];
            for (division, class) in asked {
                if let Some(class) = class {
                    division.of.insert(format!("{} {}", run.cell.seed, row.name), class.clone());
                }
            }
            if !row.kinds.is_empty() {
                kinds.of.insert(format!("{} {}", run.cell.seed, row.name), row.kinds.join(" or "));
            }
        }
    }
    let mut out = vec![sizes, users, queues, partitions, workloads, kinds, places, times];
    out.retain(|division| !division.of.is_empty());
    Ok(out)
}

/// Sizes of gangs by powers of two: the least of a class, and its name.
fn size(gpus: u32) -> (u32, String) {
    match gpus {
        0..=2 => (gpus, gpus.to_string()),
        _ => {
            let most = gpus.next_power_of_two();
            let least = most / 2 + 1;
            (least, format!("{least}–{most}"))
        }
    }
}

/// Jobs that each hour of the week has, in the mean, where figures are by hours.
const OF_AN_HOUR: usize = 20;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The week in parts of so many hours.
fn weeks(hours: u32) -> Vec<String> {
    DAYS.iter().flat_map(|day| (0..24 / hours).map(move |part| format!("{day} {} h", hours * part))).collect()
}

/// The part of the week, of so many hours, in which a second after an instant of UTC lies.
fn time_of_week(origin: Duration, seconds: f64, hours: u32) -> String {
    let since = origin.as_secs_f64() + seconds;
    let (day, hour) = ((since / 86_400.0).floor(), since.rem_euclid(86_400.0) / 3600.0);
    // 1970-01-01 was a Thursday.
    let day = (day as i64 + 3).rem_euclid(7) as usize;
    format!("{} {} h", DAYS[day], hour as u32 / hours * hours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_and_instants_days_of_the_week() {
        let names: Vec<String> = [1, 2, 3, 4, 5, 8, 9, 100].map(|gpus| size(gpus).1).to_vec();
        assert_eq!(names, ["1", "2", "3–4", "3–4", "5–8", "5–8", "9–16", "65–128"]);
        // 2026-11-28 07:06:40 UTC is a Saturday.
        assert_eq!(time_of_week(Duration::from_secs(1_795_849_600), 0.0, 6), "Sat 6 h");
        assert_eq!(time_of_week(Duration::from_secs(1_795_849_600), 86_400.0, 1), "Sun 7 h");
        assert_eq!(weeks(1).len(), 168);
        assert!(weeks(6).contains(&"Sat 18 h".to_string()) && weeks(6).len() == 28);
        assert!(p95([5.0, 1.0, 3.0].into_iter()).is_some_and(|x| (x - 4.8).abs() < 1e-12));
        assert_eq!(p95(std::iter::empty()), None);
    }
}
