//! How good forecasts from a folder's documents were: of jobs that waited, against when later documents say that they started.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_inputs::state::jobs::StateJob;
use sandtable_inputs::state::{self, State};
use sandtable_plan::{Cell, Options};
use sandtable_results::forecast::quantile;
use sandtable_run::code;
use sandtable_run::execute::{Compiled, Workers, execute, in_parallel};

use super::folder::Document;
use crate::commands::what_if::fleet::Accuracy;
use crate::commands::what_if::hosts::{self, Hosts};
use crate::commands::what_if::spec::{Times, policies, shares_out};
use crate::ui;

/// What forecasts are made of.
pub(super) struct Asked<'a> {
    pub(super) policies: &'a [String],
    pub(super) folder: Option<PathBuf>,
    pub(super) times: &'a Times,
    /// From so many documents.
    pub(super) from: usize,
    pub(super) threads: usize,
}

/// When jobs first started, by id: seconds from 1970.
fn starts(documents: &[Document]) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for document in documents {
        // That it can't be read was said where intervals are compared.
        let Ok(state) = state::read(&document.path, input::DATA) else { continue };
        let at = state.since_1970().as_secs_f64();
        for job in &state.jobs {
            if let Some(started) = job.started_s {
                let first = all.entry(job.id.clone()).or_insert(f64::INFINITY);
                *first = first.min(at + started);
            }
        }
    }
    all
}

/// How the forecasts of each policy, and the cluster's own plans, agree with what happened. A job counts once for each document that it waits in and that is
/// forecast from, if it started before the last document.
pub(super) fn accuracies(documents: &[Document], asked: &Asked<'_>) -> Result<Vec<Accuracy>, Error> {
    let Some((last, before)) = documents.split_last() else { return Ok(Vec::new()) };
    let real = starts(documents);
    let many = asked.from.min(before.len());
    let from: BTreeSet<usize> = (0..many).map(|of| of * before.len() / many).collect();
    let mut all: Vec<Accuracy> = Vec::new();
    let mut planned = Vec::new();
    for document in from.into_iter().filter_map(|at| before.get(at)) {
        let Ok(state) = state::read(&document.path, input::DATA) else { continue };
        if !state.jobs.iter().any(StateJob::waits) {
            continue;
        }
        let at = state.since_1970().as_secs_f64();
        let really = |job: &str| real.get(job).map(|start| start - at).filter(|start| *start >= 0.0);
        planned.extend(state.jobs.iter().filter_map(|job| Some(([job.planned_s?; 3], really(&job.id)?))));
        let within = document.until(last).as_secs_f64();
        // What one document lacks stops nothing.
        let forecast = match forecast(document, &state, within, asked) {
            Ok(forecast) => forecast,
            Err(error) => {
                ui::note(&format!("warning: no forecast from {}: {}", document.at, error.message));
                continue;
            }
        };
        for (label, seeds, by_job) in forecast {
            let index = all.iter().position(|of| of.head == label).unwrap_or_else(|| {
                all.push(Accuracy { head: label.clone(), jobs: Vec::new(), drawn: seeds > 1 });
                all.len() - 1
            });
            let jobs = by_job.iter().filter_map(|(job, starts)| {
                let of = |share: f64| quantile(starts, share);
                Some(([of(0.1)?, of(0.5)?, of(0.9)?], really(job)?))
            });
            all[index].jobs.extend(jobs);
        }
    }
    if !planned.is_empty() {
        all.push(Accuracy { head: "its own plan".into(), jobs: planned, drawn: false });
    }
    Ok(all)
}

/// When the jobs that wait in a document start, by job, ascending over seeds; of each policy, with the number of seeds.
type Forecast = (String, usize, BTreeMap<String, Vec<f64>>);

fn forecast(document: &Document, state: &State, within: f64, asked: &Asked<'_>) -> Result<Vec<Forecast>, Error> {
    let listed = policies(asked.policies, state)?;
    let queues = if shares_out(&listed, state) { ", queues: true" } else { "" };
    let spec = |hosts: Hosts| {
        let more = format!(", until: \"{within}s\"{queues}{}", hosts.said());
        Ok(asked.times.spec(&document.path, state, &listed, &more)? + ")\n")
    };
    let options = Options { policies: asked.folder.clone(), ..Options::default() };
    // That they are left out was said where intervals are compared.
    let (plan, _) = hosts::planned("shadow.ron", (state, false), &options, spec)?;
    let compiled = Compiled::new(&code::settings(ui::note), plan.cells.iter())?;
    let cells: Vec<&Cell> = plan.cells.iter().collect();
    let workers = Workers { threads: asked.threads, stop: &AtomicBool::new(false), done: &|_: &Cell| {} };
    let ran = in_parallel(&cells, &workers, |cell| execute(cell, &compiled))?;
    let mut all: Vec<Forecast> = Vec::new();
    for (cell, ran) in cells.iter().zip(ran) {
        let Some(jobs) = cell.setting.workload.state() else { continue };
        let Some(ran) = ran else { continue };
        if let Err(failure) = &ran.outcome {
            ui::note(&format!("warning: no forecast of {} from {}: {}", cell.label, document.at, failure.message));
            continue;
        }
        if all.last().is_none_or(|(label, ..)| *label != cell.label) {
            all.push((cell.label.clone(), 0, BTreeMap::new()));
        }
        let Some((_, seeds, by_job)) = all.last_mut() else { continue };
        *seeds += 1;
        let held = jobs.modelled.running();
        let waiting = jobs.modelled.rows.iter().map(|row| row.name.as_str()).filter(|job| !held.contains(job));
        let mut starts: BTreeMap<&str, f64> = waiting.map(|job| (job, f64::INFINITY)).collect();
        for start in ran.starts() {
            if let Some(known) = starts.get_mut(start.job) {
                *known = start.at.saturating_since(jobs.modelled.at).as_secs_f64();
            }
        }
        for (job, start) in starts {
            by_job.entry(job.to_string()).or_default().push(start);
        }
    }
    all.iter_mut().flat_map(|(.., by_job)| by_job.values_mut()).for_each(|starts| starts.sort_by(f64::total_cmp));
    Ok(all)
}
