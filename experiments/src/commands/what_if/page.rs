//! The answer as a page.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_core::display::span;
use sandtable_core::error::Error;
use sandtable_inputs::state::State;
use sandtable_report::Metrics;
use sandtable_report::board::{Board, BoardJob, BoardNode, axis, board, horizon, lanes, starts};
use sandtable_results::forecast::quantile;

use super::standing::text_within;
use super::{Asked, Side, fleet};

/// Most jobs and nodes of a page.
const MOST: (usize, usize) = (1000, 500);

impl Side<'_> {
    /// When a job starts: P10, P50 and P90.
    fn quantiles(&self, job: &str) -> Option<[f64; 3]> {
        let of = &self.forecasts.get(job)?.starts;
        Some([quantile(of, 0.1)?, quantile(of, 0.5)?, quantile(of, 0.9)?])
    }

    /// How long a job that runs has left, and in how many seeds it is preempted, for people.
    fn runs_on(&self, job: &str) -> String {
        let left = text_within(self.left(job), self.length());
        match self.forecasts.get(job).map_or(0.0, |of| of.preempted) {
            0.0 => format!("{job} {left}"),
            share => format!("{job} {left}, preempted in {:.0} %", share * 100.0),
        }
    }

    /// How long a job that runs has left, in the median.
    fn left(&self, job: &str) -> f64 {
        self.forecasts.get(job).and_then(|of| quantile(&of.ends, 0.5)).unwrap_or(f64::INFINITY)
    }
}

impl Asked<'_> {
    /// The page of these jobs.
    pub(super) fn page(&self, state: &State, names: &[String], facts: Vec<(String, String)>) -> Result<String, Error> {
        let planned = |name: &str| self.now(name).and_then(|now| now.planned_s);
        let real = |name: &str| self.recorded.as_ref().and_then(|all| all.get(name)).copied();
        let times = names.iter().flat_map(|name| {
            let of_sides = self.sides.iter().filter_map(|side| side.quantiles(name)).flatten();
            of_sides.chain(planned(name)).chain(real(name)).collect::<Vec<f64>>()
        });
        // What ends long after the last start only would squeeze the queue.
        let until = horizon(times);
        let job = |name: &String| {
            let now = self.now(name)?;
            let by_policy: Vec<Option<[f64; 3]>> = self.sides.iter().map(|side| side.quantiles(name)).collect();
            Some(BoardJob {
                name: name.clone(),
                user: now.row.user.as_ref().map(ToString::to_string).unwrap_or_default(),
                gpus: now.row.gpus,
                waited: self.waited(name).map(span).unwrap_or_default(),
                why: now.why.as_ref().map_or_else(|| "runs".into(), |why| why.text.clone()),
                starts: self.sides.iter().map(|side| self.said(side, name)).collect(),
                svg: starts(&by_policy, planned(name), real(name), until),
            })
        };
        let nodes = self.nodes(until);
        let table = |table| Metrics { table, notes: Vec::new() };
        let page = Board {
            title: format!("What would become of the queue at {}", state.at),
            notes: self.notes(state),
            policies: self.sides.iter().map(|side| self.head_of(side)).collect(),
            drawn: self.seeds > 1,
            planned: names.iter().any(|name| planned(name).is_some()),
            recorded: self.recorded.is_some(),
            axis: axis(until),
            jobs: names.iter().take(MOST.0).filter_map(job).collect(),
            more: names.len().saturating_sub(MOST.0),
            more_nodes: nodes.len().saturating_sub(MOST.1),
            nodes: nodes.into_iter().take(MOST.1).collect(),
            metrics: table(fleet::table(&self.runs())),
            accuracy: self.recorded.as_ref().map(|recorded| table(fleet::accuracy(&self.accuracies(recorded)))),
            facts,
        };
        board(&page)
    }

    /// What a reader must know before the numbers.
    fn notes(&self, state: &State) -> Vec<String> {
        let head = self.head(state);
        let mut notes: Vec<String> = head.lines().filter(|line| !line.is_empty()).map(str::to_string).collect();
        notes.extend(state.unknown.iter().map(|of| format!("unknown: {}: {}", of.what, of.why)));
        notes
    }

    /// The nodes, and what runs there now: what becomes of it is under the first policy.
    fn nodes(&self, until: f64) -> Vec<BoardNode> {
        let Some(side) = self.sides.first() else { return Vec::new() };
        let modelled = &side.jobs.modelled;
        let mut there: Vec<BTreeMap<&str, Vec<u32>>> = vec![BTreeMap::new(); modelled.nodes.len()];
        for holder in &modelled.holders {
            for (node, gpu) in &holder.on {
                there[*node].entry(&holder.job).or_default().push(*gpu);
            }
            if let Some(node) = holder.node {
                there[node].entry(&holder.job).or_default();
            }
        }
        let of = |(node, jobs): (&sandtable_inputs::state::ModelledNode, BTreeMap<&str, Vec<u32>>)| {
            let said: Vec<String> = jobs.keys().map(|job| side.runs_on(job)).collect();
            let held: BTreeSet<u32> = jobs.values().flatten().copied().collect();
            let drawn: Vec<(Vec<u32>, f64)> = jobs.into_iter().map(|(job, gpus)| (gpus, side.left(job))).collect();
            BoardNode {
                name: node.name.clone(),
                kind: node.kind.clone(),
                gpus: node.gpus,
                free: node.gpus.saturating_sub(held.len() as u32),
                jobs: said.join(", "),
                svg: lanes(node.gpus, &drawn, until),
            }
        };
        modelled.nodes.iter().zip(there).map(of).collect()
    }
}
