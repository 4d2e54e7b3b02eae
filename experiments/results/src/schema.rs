//! The files of the store: each has one type, which writes it and reads it.
//!
//! # Format
//! A JSON document is an object whose field `schema` is [`SCHEMA`]. A table is CSV with a header, which the store packs. Times are decimal seconds since
//! the run's start, exact to the microsecond. `cell.json`, whose hash is the cell's id, is canonical JSON and belongs to
//! [`sandtable_plan`].

mod values;

use std::collections::BTreeMap;
use std::io::Write;

use sandtable_core::error::Error;
use sandtable_hardware::{Fleet, TypeId};
use sandtable_plan::SCHEMA;
use sandtable_runtime::decision_log::Agreement;
use sandtable_runtime::fault::Fault;
use sandtable_runtime::{JobOutcome, Pools, Summary, Window};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::producer::Producer;

pub use values::{GpuSet, Placement, Seconds, ranges};

/// The inputs of a cell: canonical JSON, whose blake3 is the cell's id.
pub const CELL: &str = "cell.json";
/// The recorded calls of a policy that failed, packed with Zstandard.
pub const CAPSULE: &str = "capsule.json.zst";
/// What a live run's devices reported, a row a reading.
pub const READINGS: &str = "readings.csv";
/// A live run, so that it can be replayed.
pub const RECORDING: &str = "recording.jsonl";
/// What the jobs of a live run printed.
pub const LOGS: &str = "logs.txt";

/// A stored JSON document.
pub trait Document: Serialize + DeserializeOwned {
    /// The file's name in a cell's folder.
    const FILE: &'static str;
}

/// A row of a stored table.
pub trait Record: Serialize + DeserializeOwned {
    /// The file's name in a cell's folder.
    const FILE: &'static str;
    /// The names of the columns, in the order of the fields.
    const HEAD: &'static [&'static str];
}

impl Document for Summary {
    const FILE: &'static str = "summary.json";
}

impl Document for Agreement {
    const FILE: &'static str = "agreement.json";
}

impl Document for Producer {
    const FILE: &'static str = "producer.json";
}

/// What a reader of a result needs to know of its cell: `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// blake3 of the policy's component.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// The part of the run that its metrics are of.
    pub measured: Window,
    /// The nodes of the fleet, in their order.
    pub nodes: Vec<NodesRecord>,
}

impl Document for RunRecord {
    const FILE: &'static str = "run.json";
}

/// Adjacent nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesRecord {
    /// The type of their GPUs.
    pub gpu_type: String,
    /// How many nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
}

impl NodesRecord {
    /// Those of a fleet.
    pub fn of(fleet: &Fleet) -> Vec<NodesRecord> {
        let name = |kind: TypeId| fleet.types[kind].name.clone();
        let mut all: Vec<NodesRecord> = Vec::new();
        for node in &fleet.nodes {
            let gpu_type = name(node.gpu_type);
            match all.last_mut() {
                Some(last) if last.gpu_type == gpu_type && last.gpus_per_node == node.gpus => last.nodes += 1,
                _ => all.push(NodesRecord { gpu_type, nodes: 1, gpus_per_node: node.gpus }),
            }
        }
        all
    }
}

/// How a policy failed: `failure.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// The stable name of the fault.
    pub kind: String,
    /// What went wrong.
    pub message: String,
    /// The guest's functions, innermost first.
    pub backtrace: Vec<String>,
    /// When, in the time of the run; `None` before its first call.
    pub at_s: Option<Seconds>,
    /// The number of the batch that it was called with.
    pub batch: Option<u64>,
    /// The fault.
    pub fault: Fault,
}

impl Document for FailureRecord {
    const FILE: &'static str = "failure.json";
}

/// What a live run was observed on: `machine.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// Which build observed it.
    pub producer: Producer,
    /// Versions, devices and their settings, by name.
    pub machine: BTreeMap<String, String>,
    /// Settings of the devices that changed during the run.
    pub changed: Vec<String>,
    /// Policies that took over.
    pub takeovers: Vec<TakeoverRecord>,
    /// Actions that were refused.
    pub refused_actions: u64,
}

impl Document for MachineRecord {
    const FILE: &'static str = "machine.json";
}

/// A policy that took over from another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TakeoverRecord {
    /// When.
    pub at_s: Seconds,
    /// What it is called.
    pub to: String,
    /// Whether it began to decide.
    pub begun: bool,
    /// What went wrong, if anything did.
    pub fault: Option<String>,
}

/// What happened to a job: a row of `jobs.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its name in the trace.
    pub job_id: String,
    /// When it was submitted.
    pub submit_s: Seconds,
    /// GPUs that it asks for.
    pub gpus: u32,
    /// When it was first given GPUs.
    pub first_start_s: Option<Seconds>,
    /// When it ended, or was refused.
    pub end_s: Option<Seconds>,
    /// How long it held all its GPUs.
    pub held_s: Seconds,
    /// How long it made progress that lasted.
    pub productive_s: Seconds,
    /// How long it made progress that was lost.
    pub lost_s: Seconds,
    /// How often the policy took its GPUs.
    pub preemptions: u32,
    /// How often a node failed under it.
    pub failures: u32,
    /// How often it ran out of memory.
    pub out_of_memory: u32,
    /// How often it went on with other GPUs.
    pub reassignments: u32,
    /// When it first made progress; of a task: when it was served.
    pub first_run_s: Option<Seconds>,
    /// What it would have taken with a fair share of the contended cluster; of a job that trained and completed. See [`JobRecord::rho`].
    pub fair_s: Option<Seconds>,
    /// The service that it is a task of; `None`: it trains.
    pub service: Option<String>,
    /// How it ended.
    #[serde(with = "values::outcome")]
    pub outcome: JobOutcome,
    /// The nodes of its last placement.
    pub last_placement: Placement,
}

impl Record for JobRecord {
    const FILE: &'static str = "jobs.csv";
    const HEAD: &'static [&'static str] = &[
        "job_id",
        "submit_s",
        "gpus",
        "first_start_s",
        "end_s",
        "held_s",
        "productive_s",
        "lost_s",
        "preemptions",
        "failures",
        "out_of_memory",
        "reassignments",
        "first_run_s",
        "fair_s",
        "service",
        "outcome",
        "last_placement",
    ];
}

impl JobRecord {
    /// Job completion time in seconds, of a job that completed.
    pub fn jct(&self) -> Option<f64> {
        (self.outcome == JobOutcome::Completed).then_some(())?;
        Some(self.end_s?.since(self.submit_s))
    }

    /// Finish-time fairness ρ (Themis, NSDI 2020) of a job that trained and completed: its completion time over what it would have taken with a fair share of the contended
    /// cluster.
    pub fn rho(&self) -> Option<f64> {
        let jct = self.jct().filter(|_| self.service.is_none())?;
        Some(self.fair_s.map_or(1.0, |fair| jct / fair.f64()))
    }

    /// How long it waited for its first GPUs, in seconds.
    pub fn wait(&self) -> Option<f64> {
        Some(self.first_start_s?.since(self.submit_s))
    }
}

/// A stay of a job on GPUs: a row of `timeline.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StayRecord {
    /// The job's name.
    pub job_id: String,
    /// When it was given the GPUs.
    pub from_s: Seconds,
    /// When it let them go.
    pub to_s: Seconds,
    /// The GPUs.
    pub gpus: GpuSet,
}

impl Record for StayRecord {
    const FILE: &'static str = "timeline.csv";
    const HEAD: &'static [&'static str] = &["job_id", "from_s", "to_s", "gpus"];
}

/// GPUs by use, from an instant on: a row of `uses.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseRecord {
    /// From when on.
    pub from_s: Seconds,
    /// Those of the training pool on which jobs train.
    pub training: u32,
    /// Those of the inference pool on which jobs train.
    pub loaned: u32,
    /// Those that serve, or have a model loaded.
    pub serving: u32,
    /// Free ones that are kept for a service.
    pub protected: u32,
    /// Free ones.
    pub idle: u32,
}

impl Record for UseRecord {
    const FILE: &'static str = "uses.csv";
    const HEAD: &'static [&'static str] = &["from_s", "training", "loaned", "serving", "protected", "idle"];
}

impl UseRecord {
    /// The rows of a run.
    pub fn of(pools: &Pools) -> impl Iterator<Item = UseRecord> {
        pools.timeline.iter().map(|(at, [training, loaned, serving, protected, idle])| UseRecord {
            from_s: Seconds::from(*at),
            training: *training,
            loaned: *loaned,
            serving: *serving,
            protected: *protected,
            idle: *idle,
        })
    }
}

/// The bytes of a document.
///
/// # Errors
/// None that can happen: every document is JSON.
pub fn document<T: Document>(value: &T) -> Result<(String, Vec<u8>), Error> {
    let stored = Stored { schema: SCHEMA, body: value };
    let mut text = serde_json::to_vec_pretty(&stored).map_err(|error| Error::internal(error.to_string()))?;
    text.push(b'\n');
    Ok((T::FILE.into(), text))
}

/// The bytes of a table.
///
/// # Errors
/// None that can happen: every row is one of CSV.
pub fn table<T: Record>(rows: impl IntoIterator<Item = T>) -> Result<(String, Vec<u8>), Error> {
    let mut bytes = Vec::new();
    write_table(rows, &mut bytes).map_err(|error| Error::internal(format!("{}: {error}", T::FILE)))?;
    Ok((T::FILE.into(), bytes))
}

/// Writes a table, row by row.
///
/// # Errors
/// Those of the writer.
pub fn write_table<T: Record>(rows: impl IntoIterator<Item = T>, to: impl Write) -> std::io::Result<()> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(to);
    writer.write_record(T::HEAD)?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()
}

/// Reads a document.
///
/// # Errors
/// Bytes that are not what this version writes, in words.
pub fn read_document<T: Document>(bytes: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Version {
        schema: Option<u32>,
    }
    let found: Version = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match found.schema {
        Some(SCHEMA) => {}
        Some(other) => return Err(format!("expected schema {SCHEMA}, found {other}")),
        None => return Err(format!("expected schema {SCHEMA}, found none")),
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Reads a table.
///
/// ```
/// use sandtable_results::schema::{StayRecord, read_table};
///
/// let stays: Vec<StayRecord> = read_table(b"job_id,from_s,to_s,gpus\n7,0,1.5,0-2 8\n")?;
/// assert_eq!((stays[0].to_s.f64(), stays[0].gpus.to_string()), (1.5, "0-2 8".into()));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// Bytes that are not what this version writes, in words.
pub fn read_table<T: Record>(bytes: &[u8]) -> Result<Vec<T>, String> {
    let mut reader = csv::Reader::from_reader(bytes);
    let found = reader.headers().map_err(|error| error.to_string())?;
    if !found.iter().eq(T::HEAD.iter().copied()) {
        let found = found.iter().collect::<Vec<&str>>().join(",");
        return Err(format!("expected the columns {}, found {found:?}", T::HEAD.join(",")));
    }
    reader.into_deserialize().collect::<Result<Vec<T>, csv::Error>>().map_err(|error| error.to_string())
}

/// A document as it is written: its schema comes first.
#[derive(Serialize)]
struct Stored<'a, T> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
}

#[cfg(test)]
mod tests {
    use sandtable_hardware::{GpuId, NodeId};

    use super::*;

    fn job() -> JobRecord {
        JobRecord {
            job_id: "a,\"b\"".into(),
            submit_s: Seconds(1),
            gpus: 3,
            first_start_s: Some(Seconds(1_500_000)),
            end_s: None,
            held_s: Seconds(0),
            productive_s: Seconds(0),
            lost_s: Seconds(0),
            preemptions: 2,
            failures: 0,
            out_of_memory: 0,
            reassignments: 0,
            first_run_s: None,
            fair_s: None,
            service: Some("chat".into()),
            outcome: JobOutcome::Failed("the process ended: at 3 s".into()),
            last_placement: Placement([(NodeId::new(0), 2), (NodeId::new(7), 1)].into()),
        }
    }

    /// The header that serde would write.
    fn head_of<T: Record>(row: &T) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(row).expect("a row");
        let text = String::from_utf8(writer.into_inner().expect("bytes")).expect("text");
        text.lines().next().unwrap_or_default().to_string()
    }

    #[test]
    fn heads_are_the_fields() {
        let stay =
            StayRecord { job_id: "a".into(), from_s: Seconds(0), to_s: Seconds(1), gpus: GpuSet(vec![GpuId::new(1)]) };
        let used = UseRecord { from_s: Seconds(0), training: 1, loaned: 2, serving: 3, protected: 4, idle: 5 };
        assert_eq!(head_of(&job()), JobRecord::HEAD.join(","));
        assert_eq!(head_of(&stay), StayRecord::HEAD.join(","));
        assert_eq!(head_of(&used), UseRecord::HEAD.join(","));
        assert_eq!(UseRecord::HEAD[1..], sandtable_runtime::Use::ALL.map(sandtable_runtime::Use::name));
    }

    #[test]
    fn tables_are_read_as_they_were_written() {
        let (name, bytes) = table([job()]).expect("bytes");
        let text = String::from_utf8(bytes.clone()).expect("text");
        let row = "\"a,\"\"b\"\"\",0.000001,3,1.5,,0,0,0,2,0,0,0,,,chat,failed: the process ended: at 3 s,0:2;7:1";
        assert_eq!((name.as_str(), text.lines().nth(1)), ("jobs.csv", Some(row)));
        assert_eq!(read_table::<JobRecord>(&bytes), Ok(vec![job()]));
        let (_, empty) = table::<StayRecord>([]).expect("bytes");
        assert_eq!(empty, b"job_id,from_s,to_s,gpus\n");
        assert_eq!(read_table::<StayRecord>(&empty), Ok(Vec::new()));
    }

    #[test]
    fn documents_of_another_schema_are_refused() {
        let record = RunRecord { policy: "ab".into(), seed: 7, measured: Window::default(), nodes: Vec::new() };
        let (_, bytes) = document(&record).expect("bytes");
        assert_eq!(read_document(&bytes), Ok(record));
        let old = String::from_utf8(bytes).expect("text").replace("\"schema\": 3", "\"schema\": 1");
        assert_eq!(read_document::<RunRecord>(old.as_bytes()), Err("expected schema 3, found 1".into()));
    }

    #[test]
    fn a_table_that_lacks_a_column_is_refused() {
        let lacks = read_table::<StayRecord>(b"job_id,from_s,to_s\na,0,1\n");
        assert_eq!(lacks, Err("expected the columns job_id,from_s,to_s,gpus, found \"job_id,from_s,to_s\"".into()));
        assert!(read_table::<StayRecord>(b"").is_err());
    }

    #[test]
    fn what_is_no_table_is_refused_at_its_line() {
        let wrong = |cells: &str| {
            let text = format!("job_id,from_s,to_s,gpus\na,0,1,0-3 5\n{cells}\n");
            read_table::<StayRecord>(text.as_bytes()).expect_err("a mistake")
        };
        for cells in ["a,0,1", "a,-1,1,0", "a,0,1,3-2", "a,0,1,0-999999999", "a,0,1e3,0", "a,0,1.0000001,0"] {
            assert!(wrong(cells).contains("line: 3"), "{cells}: {}", wrong(cells));
        }
    }
}
