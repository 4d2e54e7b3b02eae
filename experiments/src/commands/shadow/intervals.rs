//! From a document to the next: what the cluster started, and what policies would have started in its place.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_hardware::Queue;
use sandtable_inputs::state::{self, Begun, RunTimes};
use sandtable_plan::{Cell, Options, Plan, plan_text};
use sandtable_run::code;
use sandtable_run::execute::{Compiled, Workers, execute, in_parallel};

use super::folder::Document;
use crate::commands::begin::all_begin;
use crate::commands::what_if::hosts::Hosts;
use crate::commands::what_if::spec::{policies, shares, shares_out};
use crate::ui;

/// What came of an interval.
pub(super) struct Judged {
    pub(super) from: String,
    pub(super) to: String,
    /// By policy.
    pub(super) decided: Vec<Decided>,
    /// Why it was not compared.
    pub(super) not_judged: Option<String>,
}

/// What a policy would have started, beside what was started.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    pub(super) policy: String,
    /// Jobs that the cluster started.
    pub(super) real: BTreeSet<String>,
    /// Jobs that the policy would have started.
    pub(super) would: BTreeSet<String>,
    /// Of those in both: the ones on the same nodes, and of how many nodes are known.
    pub(super) same_nodes: (usize, usize),
    /// Jobs that the cluster started and the model has not.
    pub(super) not_modelled: usize,
    /// Jobs that it would have preempted.
    pub(super) preempted: usize,
    /// What it did wrong.
    pub(super) fault: Option<String>,
}

/// Asks policies.
pub(super) struct Judge {
    /// The policies that are asked for; none: those that a cluster is nearest to.
    asked: Vec<String>,
    /// What a spec lists for the first document, and what results call them.
    listed: String,
    labels: Vec<String>,
    options: Options,
    compiled: Compiled,
    /// Whether all policies follow CPU and memory of nodes.
    hosts: bool,
}

impl Judge {
    /// One that asks these policies, or those that this document suggests.
    pub(super) fn new(asked: &[String], folder: Option<PathBuf>, first: &Document) -> Result<Judge, Error> {
        let state = state::read(&first.path, input::DATA)?;
        let listed = policies(asked, &state)?;
        let queues = if shares_out(&listed, &state) { state.queue_tree() } else { Vec::new() };
        let listed = listed.concat();
        let options = Options { policies: folder, ..Options::default() };
        // The fleet and the jobs of a spec do not matter here: components are compiled once, and parameters are looked at.
        let (named, drawn) = of_queues(&queues);
        let plan = |[has, asks]: [&str; 2]| {
            let fleet = format!("Model(nodes: 1, gpus: 1, kind: \"A100-SXM4-80GB\"{has}){named}");
            let jobs = format!("Generate(jobs: 1, arrivals: AtOnce, declared: 1.0{drawn}{asks})");
            plan_text(Path::new("shadow.ron"), spec(&fleet, &jobs, &listed, true), &options)
        };
        let (of_gpus, of_hosts) = (plan(["", ""])?, plan([", cpus: 1", ", hosts: [Host(cpus: 1)]"])?);
        let compiled = Compiled::new(&code::settings(ui::note), of_gpus.cells.iter())?;
        let begin = |plan: &Plan| all_begin(plan, &plan.cells.iter().collect::<Vec<&Cell>>(), &compiled);
        begin(&of_gpus)?;
        let hosts = begin(&of_hosts).is_ok();
        if !hosts && state.knows_hosts() {
            ui::note("warning: CPU and memory of nodes are left out: not all policies follow them");
        }
        let labels = of_gpus.cells.iter().map(|cell| cell.label.clone()).collect();
        Ok(Judge { asked: asked.to_vec(), listed, labels, options, compiled, hosts })
    }

    /// Asks of all these intervals, in parallel.
    pub(super) fn all(
        &self,
        pairs: &[(Document, Document)],
        threads: usize,
        done: &(dyn Fn(&(Document, Document)) + Sync),
    ) -> Result<Vec<Judged>, Error> {
        let workers = Workers { threads, stop: &AtomicBool::new(false), done };
        let of: Vec<&(Document, Document)> = pairs.iter().collect();
        Ok(in_parallel(&of, &workers, |pair| Ok(self.one(pair)))?.into_iter().flatten().collect())
    }

    /// Asks of one interval.
    pub(super) fn one(&self, pair: &(Document, Document)) -> Judged {
        let (from, to) = (pair.0.at.clone(), pair.1.at.clone());
        match self.decide(pair) {
            Ok(decided) => Judged { from, to, decided, not_judged: None },
            Err(error) => {
                let why = format!("{}: {}", from, error.message);
                Judged { from, to, decided: Vec::new(), not_judged: Some(why) }
            }
        }
    }

    fn decide(&self, (from, to): &(Document, Document)) -> Result<Vec<Decided>, Error> {
        let path = |document: &Document| match document.path.to_str() {
            Some(path) => Ok(format!("{path:?}")),
            None => Err(Error::usage(format!("{}: not UTF-8", document.path.display()))),
        };
        let (state, later) = (state::read(&from.path, input::DATA)?, state::read(&to.path, input::DATA)?);
        let (shown, until) = (path(from)?, path(to)?);
        // Of Slurm's backfill it says when it looks next, which is of this document.
        let listed = policies(&self.asked, &state)?;
        let queues = if shares_out(&listed, &state) { ", queues: true" } else { "" };
        let listed = listed.concat();
        // Where one without GPUs starts is not compared.
        let hosts = if self.hosts && state.knows_hosts() { Hosts::Held } else { Hosts::LeftOut };
        let wrong = |document: &Document, why| Error::usage(format!("{}: {why}", document.path.display()));
        let parts = shares(state.knows_parts() || later.knows_parts());
        let (between, interval) = state.until(&later).map_err(|why| wrong(to, why))?;
        let any = RunTimes { of_limit: 1.0, otherwise: None, without_limits: true };
        let modelled = between.modelled(any).map_err(|why| wrong(from, why))?;
        if modelled.rows.len() == modelled.holders.len() {
            // Where no job waits no policy starts one.
            let not_modelled = interval.begun.len();
            let idle = |label: &String| Decided { policy: label.clone(), not_modelled, ..Decided::default() };
            return Ok(self.labels.iter().map(idle).collect());
        }
        let declared = modelled.rows.iter().any(|row| row.declared.is_some());
        let (from, to) = (shown, until);
        let fleet = format!("Model(list: NodeList(file: {from}, format: State), speed: 1.0{parts})");
        let jobs = format!("State(file: {from}, next: {to}{queues}{})", hosts.said());
        let plan =
            |listed: &str| plan_text(Path::new("shadow.ron"), spec(&fleet, &jobs, listed, declared), &self.options);
        let mut asked: Plan = plan(&listed)?;
        // Where the cluster has another scheduler by now, those of the first document go on being asked.
        if !asked.cells.iter().map(|cell| &cell.label).eq(&self.labels) {
            asked = plan(&self.listed)?;
        }
        asked.cells.iter().map(|cell| self.of_cell(cell)).collect()
    }

    fn of_cell(&self, cell: &Cell) -> Result<Decided, Error> {
        let lost = || Error::internal("an interval without a document");
        let jobs = cell.setting.workload.state().ok_or_else(lost)?;
        let begun = &jobs.interval().ok_or_else(lost)?.begun;
        let executed = execute(cell, &self.compiled)?;
        let mut decided = Decided { policy: cell.label.clone(), ..Decided::default() };
        if let Err(failure) = &executed.outcome {
            decided.fault = Some(failure.message.clone());
            return Ok(decided);
        }
        let held = jobs.modelled.running();
        let waits = |job: &str| jobs.modelled.known.contains_key(job) && !held.contains(job);
        decided.real = begun.keys().filter(|job| waits(job)).cloned().collect();
        decided.not_modelled = begun.len() - decided.real.len();
        for start in executed.starts() {
            decided.preempted += usize::from(start.preempted);
            if !waits(start.job) {
                continue;
            }
            decided.would.insert(start.job.to_string());
            let nodes =
                start.nodes.iter().filter_map(|node| Some(jobs.modelled.nodes.get(node.index())?.name.as_str()));
            decided.compare(begun.get(start.job), &nodes.collect());
        }
        Ok(decided)
    }
}

impl Decided {
    /// Enters where a job was that both started.
    fn compare(&mut self, begun: Option<&Begun>, nodes: &BTreeSet<&str>) {
        if let Some(begun) = begun.filter(|begun| !begun.nodes.is_empty()) {
            self.same_nodes.1 += 1;
            self.same_nodes.0 += usize::from(begun.nodes.iter().map(String::as_str).eq(nodes.iter().copied()));
        }
    }
}

/// Queues of a spec, which parameters may name, and the one of a drawn job.
fn of_queues(queues: &[Queue]) -> (String, String) {
    let one = |queue: &Queue| {
        let parent = queue.parent.map_or_else(String::new, |group| format!(", parent: {:?}", queues[group].name));
        format!("Queue(name: {:?}{parent})", queue.name)
    };
    let is_group = |name: &str| queues.iter().any(|queue| queue.parent.is_some_and(|group| queues[group].name == name));
    let Some(leaf) = queues.iter().find(|queue| !is_group(&queue.name)) else { return Default::default() };
    let all: Vec<String> = queues.iter().map(one).collect();
    (format!(",\n    queues: [{}]", all.join(", ")), format!(", queues: {{{:?}: 1}}", leaf.name))
}

fn spec(fleet: &str, workload: &str, policies: &str, declared: bool) -> String {
    let mut text = String::from("Experiment(\n    title: \"What policies would have started\",\n");
    let _ = writeln!(text, "    fleet: {fleet},\n    workload: {workload},\n    policies: [\n{policies}    ],");
    if declared {
        text.push_str("    predictors: {\"remaining\": Declared},\n");
    }
    text.push_str(")\n");
    text
}
