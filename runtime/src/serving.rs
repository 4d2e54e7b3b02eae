//! Metrics of services: how their tasks were served.

use sandtable_hardware::{Duration, Instant, ServiceId};
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::ledger::Ledger;
use crate::pools::Use;
use crate::row::{JobRow, Outcome};

/// Tasks of services; times in seconds, shares in 0..=1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// All services together.
    pub all: Tasks,
    /// GPUs that tasks got the instant a training job let them go.
    pub reclaimed: u64,
    /// GPU-time by use over all GPU-time of the run: training, loaned, serving, protected, idle.
    pub uses: [f64; 5],
    /// By service.
    pub services: Vec<(String, Tasks)>,
}

/// Tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tasks {
    /// How many were asked for.
    pub tasks: usize,
    /// How many were done.
    pub done: usize,
    /// From being asked for to having a GPU.
    pub wait: Distribution,
    /// From being asked for to being served: the wait, and loading the model.
    pub delay: Distribution,
    /// From being asked for to being done.
    pub latency: Distribution,
    /// The share that found its model loaded, of those that were done: those that were served the instant they had a GPU.
    pub warm: f64,
    /// The share that was served in the time that its service promises, of all; 1 where none promises anything.
    pub in_slo: f64,
}

impl Serving {
    /// Of a closed ledger; none where nothing is served.
    pub(crate) fn of(ledger: &Ledger) -> Option<Serving> {
        let pools = ledger.pools.as_ref().filter(|pools| !pools.services.is_empty())?;
        let rows: Vec<JobRow> = ledger.rows().filter(|row| row.service.is_some()).collect();
        let slo = |row: &JobRow| row.service.and_then(|service| pools.services[service].slo);
        let of = |id: usize| rows.iter().filter(move |row| row.service == Some(ServiceId::at(id)));
        let services = pools.services.iter().enumerate();
        let all: u128 = pools.areas.iter().sum();
        let part = |area: u128| if all > 0 { area as f64 / all as f64 } else { 0.0 };
        Some(Serving {
            all: Tasks::of(rows.iter(), slo),
            reclaimed: pools.reclaimed,
            uses: Use::ALL.map(|which| part(pools.areas[which as usize])),
            services: services.map(|(id, service)| (service.name.clone(), Tasks::of(of(id), slo))).collect(),
        })
    }
}

impl Tasks {
    fn of<'a>(rows: impl Iterator<Item = &'a JobRow>, slo: impl Fn(&JobRow) -> Option<Duration>) -> Tasks {
        let rows: Vec<&JobRow> = rows.collect();
        let since = |at: fn(&JobRow) -> Option<Instant>| -> Vec<Duration> {
            rows.iter().filter_map(|row| at(row).map(|at| at - row.submit)).collect()
        };
        let done: Vec<&&JobRow> = rows.iter().filter(|row| row.outcome == Outcome::Completed).collect();
        let warm = done.iter().filter(|row| row.first_run == row.first_start).count();
        let kept = |row: &&&JobRow| {
            let Some(slo) = slo(row) else { return true };
            row.first_run.is_some_and(|at| at - row.submit <= slo)
        };
        let share = |part: usize, of: usize| if of > 0 { part as f64 / of as f64 } else { 1.0 };
        Tasks {
            tasks: rows.len(),
            done: done.len(),
            wait: Distribution::of(since(|row| row.first_start)),
            delay: Distribution::of(since(|row| row.first_run)),
            latency: Distribution::of(done.iter().filter_map(|row| Some(row.end? - row.submit)).collect()),
            warm: share(warm, done.len()),
            in_slo: share(rows.iter().filter(kept).count(), rows.len()),
        }
    }
}
