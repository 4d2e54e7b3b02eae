//! Nodes of a fleet, from a file: a row each, in the order of their numbers.

use std::path::Path;

use sandtable_core::error::Error;
use sandtable_hardware::{HostResources, Instant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::state::{Change, ModelledNode};
use crate::trace::native::cores;
use crate::trace::table::{Record, Table, TraceError};
use crate::trace::{Options, read_bytes};

/// A node's own words: its GPUs and what is beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    /// How many GPUs it has.
    pub gpus: u32,
    /// Their kind.
    pub kind: String,
    /// Its CPU and memory.
    pub host: HostResources,
    /// Work that its GPUs do in a second, where the file says it.
    pub speed: Option<f64>,
    /// When it takes no jobs: from and to. Those that run there go on.
    pub closed: Vec<(Instant, Instant)>,
}

/// The columns of a list of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeFormat {
    /// Our own: `gpus`, `kind`, and if there are such `cpus` (cores), `host_memory_mib` and `speed`; `name` is not read.
    #[default]
    Native,
    /// Alibaba's openb: `gpu`, `model`, `cpu_milli`, `memory_mib`.
    Openb,
    /// A cluster at one instant, `sandtable/state@1`: the nodes that take jobs then. No CSV but JSON.
    State,
}

const NATIVE: [&str; 6] = ["gpus", "kind", "cpus", "host_memory_mib", "speed", "name"];

/// How a row of a format is read.
type ReadRow = fn(&Record<'_>) -> Result<NodeRow, TraceError>;

/// Reads a list of nodes, compressed or not; of a cluster's state with these changes, and with its CPU and memory where `hosts` says so.
///
/// # Errors
/// A file that can't be read, or a row that can't be understood: file, line, column, what was found and expected.
pub fn read(path: &Path, format: NodeFormat, (changes, hosts): (&[Change], bool)) -> Result<Vec<NodeRow>, Error> {
    let options = Options::default();
    let bytes = read_bytes(path, options.limits.bytes)?;
    let (needed, one): (&[&str], ReadRow) = match format {
        NodeFormat::Native => (&["gpus", "kind"], native),
        NodeFormat::Openb => (&["gpu", "model", "cpu_milli", "memory_mib"], openb),
        NodeFormat::State => return of_state(path, &bytes, changes, hosts),
    };
    let table = Table::new(path, &bytes, b',', true)?;
    table.need(needed)?;
    let unknown = |name: &&String| !NATIVE.contains(&name.as_str());
    if let (NodeFormat::Native, Some(name)) = (format, table.names().iter().find(unknown)) {
        let error = Error::usage(format!("{}:1: a list of nodes has no column `{name}`", path.display()));
        return Err(error.hint(format!("it has {}", NATIVE.join(", "))));
    }
    let mut nodes = Vec::new();
    table.each(&options, |row| {
        nodes.push(one(row)?);
        Ok(())
    })?;
    if nodes.is_empty() { Err(Error::usage(format!("{}: no node in it", path.display()))) } else { Ok(nodes) }
}

/// The nodes of a cluster that take jobs.
fn of_state(path: &Path, bytes: &[u8], changes: &[Change], hosts: bool) -> Result<Vec<NodeRow>, Error> {
    let state = crate::state::of_bytes(path, bytes)?.changed(changes);
    let nodes = state.map_err(|why| Error::usage(format!("{}, changed: {why}", path.display())))?.modelled_nodes();
    if nodes.is_empty() {
        return Err(Error::usage(format!("{}: no node that takes jobs", path.display())));
    }
    let of = |node: ModelledNode| {
        let ModelledNode { gpus, kind, closed, host, .. } = node;
        NodeRow { gpus, kind, host: if hosts { host } else { HostResources::UNKNOWN }, speed: None, closed }
    };
    Ok(nodes.into_iter().map(of).collect())
}

fn openb(row: &Record<'_>) -> Result<NodeRow, TraceError> {
    let host = HostResources { cpu_milli: row.whole("cpu_milli")?, memory_mib: row.whole("memory_mib")? };
    Ok(NodeRow { gpus: gpus(row, "gpu")?, kind: kind(row, "model")?, host, speed: None, closed: Vec::new() })
}

fn native(row: &Record<'_>) -> Result<NodeRow, TraceError> {
    let given = |column: &str| row.find(column).is_some_and(|text| !text.is_empty());
    let cpu_milli = if given("cpus") { cores(row, "cpus")? } else { 0 };
    let memory_mib = if given("host_memory_mib") { row.whole("host_memory_mib")? } else { 0 };
    let speed = if given("speed") { Some(row.number("speed")?) } else { None };
    let host = HostResources { cpu_milli, memory_mib };
    Ok(NodeRow { gpus: gpus(row, "gpus")?, kind: kind(row, "kind")?, host, speed, closed: Vec::new() })
}

fn kind(row: &Record<'_>, column: &str) -> Result<String, TraceError> {
    match row.text(column)? {
        "" => Err(row.wrong(column, "expected a kind of GPU, found nothing")),
        kind => Ok(kind.to_string()),
    }
}

fn gpus(row: &Record<'_>, column: &str) -> Result<u32, TraceError> {
    match row.whole(column)? {
        0 => Err(row.wrong(column, "expected a node with GPUs, found 0")),
        gpus => Ok(gpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, format: NodeFormat) -> Result<Vec<NodeRow>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nodes.csv");
        std::fs::write(&path, text).expect("written");
        read(&path, format, (&[], false))
            .map_err(|error| error.message.replace(&format!("{}", path.display()), "nodes.csv"))
    }

    #[test]
    fn both_formats_say_the_same() {
        let host = HostResources { cpu_milli: 96_500, memory_mib: 4096 };
        let expected = |speed| vec![NodeRow { gpus: 8, kind: "T4".into(), host, speed, closed: Vec::new() }];
        let native = "name,gpus,kind,cpus,host_memory_mib,speed\na,8,T4,96.5,4096,0.5\n";
        assert_eq!(read_text(native, NodeFormat::Native), Ok(expected(Some(0.5))));
        let openb = "sn,cpu_milli,memory_mib,gpu,model\na,96500,4096,8,T4\n";
        assert_eq!(read_text(openb, NodeFormat::Openb), Ok(expected(None)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let why = |text: &str| read_text(text, NodeFormat::Native).expect_err("refused");
        assert_eq!(why("gpus,kind\n"), "nodes.csv: no node in it");
        assert_eq!(why("gpus,kind,cpu\n1,T4,2\n"), "nodes.csv:1: a list of nodes has no column `cpu`");
        assert_eq!(why("gpus,kind\n1,T4\n0,T4\n"), "nodes.csv:3: column `gpus`: expected a node with GPUs, found 0");
        assert_eq!(why("kind\nT4\n"), "nodes.csv:1: no column `gpus`: found kind");
    }
}
