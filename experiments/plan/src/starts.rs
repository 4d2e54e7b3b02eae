//! When, and where, the jobs of a workload really started, for a policy that is told.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use sandtable_core::digest::digest;
use sandtable_core::error::Error;
use sandtable_hardware::{Duration, Instant, Job, NodeId, SECOND};
use sandtable_inputs::state::{Begun, recorded_starts};
use sandtable_inputs::trace::{Packed, ReadLimits, Row, read_bytes};
use serde_json::{Value, json};

use super::bind::Weights;
use super::workload::{StateJobs, Workload};
use crate::spec::{PolicySpec, Source, StartsSpec};

/// The first line of a table of starts; `recorded` reads it.
const HEAD: &str = "starts 1\n";

/// The starts of jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Starts {
    /// Those that the workload's own trace has.
    Log,
    /// Those of a file, by name, on the clock of the run.
    File {
        /// blake3 of the file.
        digest: String,
        /// When each started, and on which nodes of the fleet, with the GPUs there; none: they are not known.
        of: BTreeMap<String, Started>,
    },
}

/// What a policy of a spec is told beside its parameters: its weights, or starts of jobs.
pub(super) fn told(
    source: &Source,
    policy: &PolicySpec,
    place: &str,
    workload: &Workload,
    (folder, limits): (&Path, ReadLimits),
) -> Result<(Weights, Option<Starts>), Error> {
    let weights = Weights::named(source, place, folder, policy.weights.as_deref())?;
    Ok((weights, named(source, policy, place, workload, (folder, limits))?))
}

/// When a job started, and its nodes, with the GPUs on each where that is known.
type Started = (Instant, Vec<(NodeId, Option<u32>)>);

/// The starts that a policy of a spec is told, if any.
fn named(
    source: &Source,
    policy: &PolicySpec,
    place: &str,
    workload: &Workload,
    (folder, limits): (&Path, ReadLimits),
) -> Result<Option<Starts>, Error> {
    let Some(asked) = &policy.starts else { return Ok(None) };
    let place = format!("{place}.starts");
    if policy.weights.is_some() {
        return Err(source.error(&place, "a policy is told of starts or has weights, not both", "here"));
    }
    match (asked, workload.state()) {
        (StartsSpec::Log, None) => match workload.fixed().is_some_and(Packed::logs_starts) {
            true => Ok(Some(Starts::Log)),
            false => {
                let error = source.error(&place, "no job of the workload has a recorded start", "here");
                Err(error
                    .hint("a trace with the column `start_s`, as `trace import` writes it, of which all jobs come"))
            }
        },
        (StartsSpec::Log, Some(_)) => {
            let error = source.error(&place, "the state of a cluster does not say when its waiting jobs start", "here");
            Err(error.hint("File(\"later.json\"), or what sacct printed later"))
        }
        (StartsSpec::File(_), None) => {
            let why = "only of a cluster's state another file says when its jobs started";
            Err(source.error(&place, why, "here").hint("starts: Log"))
        }
        (StartsSpec::File(file), Some(state)) => {
            let path = folder.join(file);
            let found = read_bytes(&path, limits.bytes).and_then(|bytes| {
                let of = clocked(recorded_starts(state.taken, &path, &bytes)?, state);
                let running = state.modelled.running();
                let known = |row: &Row| !running.contains(row.name.as_str()) && of.contains_key(row.name.as_str());
                match state.modelled.rows.iter().any(known) {
                    true => Ok(Starts::File { digest: digest(&bytes), of }),
                    false => {
                        let why = format!("{}: no start of a job that waits in the cluster's state", path.display());
                        Err(Error::usage(why))
                    }
                }
            });
            found.map(Some).map_err(|error| {
                let shown = source.error(&place, &error.message, "this file");
                Error { hint: error.hint, ..shown }
            })
        }
    }
}

/// The starts of jobs that wait, on the clock of a run and on its nodes.
fn clocked(all: BTreeMap<String, Begun>, state: &StateJobs) -> BTreeMap<String, Started> {
    let modelled = &state.modelled;
    let nodes: BTreeMap<&str, NodeId> =
        modelled.nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), NodeId::at(at))).collect();
    let start = |(name, begun): (String, Begun)| {
        let since = Duration::from_micros((begun.at_s.max(0.0) * SECOND.as_micros_f64()).round() as u64);
        // Where the fleet lacks one of them, it is not known where the job would have been.
        let on = begun.nodes.iter().map(|node| Some((*nodes.get(node.as_str())?, begun.gpus.get(node).copied())));
        let on: Option<Vec<(NodeId, Option<u32>)>> = on.collect();
        (name, (modelled.at + since, on.unwrap_or_default()))
    };
    all.into_iter().map(start).collect()
}

impl Starts {
    /// Their part of a cell's identity, beside the workload's.
    pub(crate) fn key(&self) -> Value {
        match self {
            Starts::Log => json!("log"),
            Starts::File { digest, .. } => json!({"blake3": digest}),
        }
    }

    /// The table that a policy gets: a line a job that has a start, its id, microseconds and nodes.
    pub(crate) fn table(&self, jobs: &[Job], workload: &Workload) -> Arc<[u8]> {
        let mut table = String::from(HEAD);
        match self {
            Starts::File { of, .. } => {
                for (id, job) in jobs.iter().enumerate() {
                    let Some((at, nodes)) = of.get(&*job.name) else { continue };
                    let _ = write!(table, "{id} {}", at.as_micros());
                    for (node, gpus) in nodes {
                        let _ = write!(table, " {}", node.number());
                        gpus.iter().for_each(|gpus| _ = write!(table, ":{gpus}"));
                    }
                    table.push('\n');
                }
            }
            Starts::Log => {
                // A trace may give a name twice: then submission and size tell the jobs apart, or else their order does.
                let mut waits: BTreeMap<(String, Instant, u32), VecDeque<Option<Duration>>> = BTreeMap::new();
                for row in workload.fixed().into_iter().flat_map(Packed::rows) {
                    let start = row.recorded.as_ref().and_then(|recorded| recorded.start);
                    // Clocks that differ may have a start before its submission.
                    let wait = start.map(|start| start.saturating_since(row.submit));
                    waits.entry((row.name.to_string(), row.submit, row.gpus)).or_default().push_back(wait);
                }
                for (id, job) in jobs.iter().enumerate() {
                    let key = (job.name.to_string(), job.submit, job.gpus);
                    if let Some(wait) = waits.get_mut(&key).and_then(VecDeque::pop_front).flatten() {
                        let _ = writeln!(table, "{id} {}", (job.submit + wait).as_micros());
                    }
                }
            }
        }
        table.into_bytes().into()
    }
}
