//! A cluster that Slurm schedules, from what its commands print: read-only ones, with times in UTC. Slurm 22.05; others by the same
//! names.

mod fleet;
mod host;
mod jobs;
mod preemption;
mod qos;
mod shares;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::lean::lean;
use fleet::{NODE, NODE_IN_VAIN, PARTITION, PARTITION_IN_VAIN, RESERVATION, RESERVATION_IN_VAIN};
use host::Counted;
pub(super) use text::hosts;
use text::{Text, records};

/// A command whose output is read, and the file that holds it.
pub struct Command {
    /// The file's name in a folder of outputs.
    pub file: &'static str,
    /// The program and its arguments.
    pub argv: &'static [&'static str],
    /// Whether there is no state without it.
    pub needed: bool,
}

const fn command(file: &'static str, argv: &'static [&'static str], needed: bool) -> Command {
    Command { file, argv, needed }
}

/// All that is ever run: commands that read. `TZ=UTC` is set for them.
pub const COMMANDS: [Command; 9] = [
    // It says the instant: what began before the jobs are listed began by then.
    command("scontrol-show-config.txt", &["scontrol", "show", "config"], false),
    command("scontrol-show-job-d.txt", &["scontrol", "show", "job", "-a", "-d", "-o"], true),
    command("scontrol-show-node-d.txt", &["scontrol", "show", "node", "-a", "-d", "-o"], true),
    command("scontrol-show-partition.txt", &["scontrol", "show", "partition", "-a", "-o"], true),
    command("scontrol-show-reservation.txt", &["scontrol", "show", "reservation", "-o"], false),
    command("scontrol-show-topology.txt", &["scontrol", "show", "topology"], false),
    command("sdiag.txt", &["sdiag"], false),
    // It asks the controller. A cluster without accounting has none.
    command("sshare-alP.txt", &["sshare", "-a", "-l", "-P"], false),
    // It asks the database, and could not change it.
    command("sacctmgr-show-qos.txt", &["sacctmgr", "--readonly", "--parsable2", "show", "qos"], false),
];

/// What the commands printed, by the file's name.
pub type Outputs = BTreeMap<&'static str, String>;

/// A cluster as a document `sandtable/state@1`; `kinds` are names of GPU kinds by what the site calls them.
///
/// # Errors
/// What can't be understood: the record, the field, what was found and expected.
pub fn state(outputs: &Outputs, at: jiff::Timestamp, kinds: &BTreeMap<String, String>) -> Result<Value, String> {
    let counted = Counted { cpus: None, memory: false, threads: 1 };
    let (most, whole, ignored) = Default::default();
    let mut capture = Capture { at, kinds, most, whole, gives_way: None, counted, ignored };
    let of = |file: &str| outputs.get(file).map_or("", String::as_str);
    let config = of("scontrol-show-config.txt");
    let paths = fleet::paths(of("scontrol-show-topology.txt"))?;
    let levels = paths.values().map(Vec::len).max().unwrap_or(0);
    let nodes = capture.read("nodes", of("scontrol-show-node-d.txt"), "NodeName", &NODE, &NODE_IN_VAIN);
    capture.counted = Counted::of(config, &nodes);
    let version = nodes.iter().find_map(|node| node.get("Version")).map(str::to_string);
    let mut fleet = named(&nodes, "NodeName", |node| capture.node(node, &paths, levels))?;
    let partitions =
        capture.read("partitions", of("scontrol-show-partition.txt"), "PartitionName", &PARTITION, &PARTITION_IN_VAIN);
    let mut queues = named(&partitions, "PartitionName", fleet::partition)?;
    let whole = partitions.iter().filter(|of| of.get("OverSubscribe") == Some("EXCLUSIVE"));
    capture.whole = whole.filter_map(|of| of.get("PartitionName")).map(str::to_string).collect();
    let most = queues.iter().filter_map(|queue| Some((queue["name"].as_str()?.to_string(), queue["most_s"].as_f64()?)));
    capture.most = most.collect();
    let qos = of("sacctmgr-show-qos.txt");
    let qualities = qos::qualities(qos, configured(config, "PreemptMode"), |word| capture.kind(word));
    let (qualities, mut refused) =
        qualities.unwrap_or_else(|why| (Vec::new(), vec![json!({"what": "queues", "id": null, "why": why})]));
    let associations = shares::associations(of("sshare-alP.txt")).unwrap_or_else(|why| {
        refused.push(json!({"what": "associations", "id": null, "why": why}));
        Vec::new()
    });
    let mut scheduler = scheduler(config, backfilled(of("sdiag.txt"), at));
    if capture.counted.cpus == Some(false) {
        scheduler["counts_cpus"] = false.into();
    }
    if let Some((by, names)) = preemption::gives_way(config, &queues, &qualities) {
        scheduler["preempts"] = by.into();
        capture.gives_way = Some(names);
    }
    queues.extend(qualities);
    let reservations = capture.reservations(of("scontrol-show-reservation.txt"))?;
    let (all, misread) = capture.all_jobs(of("scontrol-show-job-d.txt"), &mut refused);
    // Between two outputs a job may have begun: what no job holds is only then another's where some are not told of.
    let hidden = list(configured(config, "PrivateData")).contains(&"jobs");
    for (node, text) in fleet.iter_mut().zip(&nodes) {
        let name = text.get("NodeName").unwrap_or("");
        if hidden || misread.contains(name) {
            let others = fleet::used_by_others(text, &all).map_err(|why| format!("NodeName {name}: {why}"))?;
            node["taken"] = others.into();
        }
    }
    queues.extend(unlisted(&all, &queues));
    let level_names: Vec<String> = (0..levels).map(|level| format!("level-{level}")).collect();
    let unknown = [
        ("jobs.checkpoint", "Slurm does not know what a job has saved"),
        ("nodes.memory_mib", "Slurm does not know the memory of GPUs"),
        ("queues.limit", if qos.is_empty() { NO_LIMITS } else { SOME_LIMITS }),
    ];
    Ok(lean(json!({
        "sandtable": super::FORM,
        "at": at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "source": {"kind": "slurm", "version": version, "scheduler": scheduler},
        "levels": level_names,
        "nodes": fleet,
        "queues": queues,
        "associations": associations,
        "jobs": all,
        "reservations": reservations,
        "unknown": unknown.map(|(what, why)| json!({"what": what, "why": why})),
        "refused": refused,
        "ignored": capture.ignored.iter().map(|(what, count)| json!({"what": what, "count": count})).collect::<Vec<_>>(),
    })))
}

/// What is not known of limits, without and with those of qualities of service.
const NO_LIMITS: &str =
    "limits of accounts are in a database that is not asked, and sacctmgr says none of quality of service";
const SOME_LIMITS: &str = "limits of accounts are in a database that is not asked";

/// Queues that jobs name and that are not listed: partitions may be hidden from who asks, and qualities of service are in a database that may not answer.
fn unlisted(jobs: &[Value], queues: &[Value]) -> Vec<Value> {
    let named = |key: &'static str| {
        let all = jobs.iter().flat_map(move |job| job[key].as_array().into_iter().flatten());
        all.filter_map(Value::as_str).collect::<BTreeSet<&str>>()
    };
    let known: BTreeSet<&str> = queues.iter().filter_map(|queue| queue["name"].as_str()).collect();
    let of_queues: BTreeSet<&str> =
        queues.iter().flat_map(|of| of["charges"].as_array().into_iter().flatten()).filter_map(Value::as_str).collect();
    let hidden = |key, kind: &'static str| {
        let all = if kind == "qos" { &named(key) | &of_queues } else { named(key) };
        let names = all.into_iter().filter(|name| !known.contains(name));
        names.map(|name| json!({"name": name, "kind": kind})).collect::<Vec<Value>>()
    };
    [hidden("queues", "partition"), hidden("charges", "qos")].concat()
}

/// The instant of the outputs, where the configuration's says it.
pub fn instant(outputs: &Outputs) -> Option<jiff::Timestamp> {
    let first = outputs.get("scontrol-show-config.txt")?.lines().next()?;
    let time: jiff::civil::DateTime = first.strip_prefix("Configuration data as of ")?.trim().parse().ok()?;
    jiff::tz::TimeZone::UTC.to_timestamp(time).ok()
}

struct Capture<'a> {
    at: jiff::Timestamp,
    kinds: &'a BTreeMap<String, String>,
    /// The most time of a job, by partition.
    most: BTreeMap<String, f64>,
    /// Partitions whose jobs have their nodes to themselves.
    whole: BTreeSet<String>,
    /// Partitions or qualities of service whose jobs lose their GPUs to others; none: no job does.
    gives_way: Option<BTreeSet<String>>,
    counted: Counted,
    ignored: BTreeMap<String, u32>,
}

impl Capture<'_> {
    /// The records of an output; what of them is not mapped is counted.
    fn read<'t>(&mut self, what: &str, text: &'t str, first: &str, mapped: &[&str], in_vain: &[&str]) -> Vec<Text<'t>> {
        let keys: Vec<&str> = mapped.iter().chain(in_vain).copied().collect();
        let mut unknown = BTreeMap::new();
        let found = records(text, first, &keys, &mut unknown);
        for (key, count) in unknown {
            self.ignore(format!("{what}.{key}"), count);
        }
        for (key, _) in
            found.iter().flat_map(Text::fields).filter(|(key, value)| in_vain.contains(key) && is_said(value))
        {
            self.ignore(format!("{what}.{key}"), 1);
        }
        found
    }

    fn ignore(&mut self, what: String, count: u32) {
        *self.ignored.entry(what).or_default() += count;
    }

    fn reservations(&mut self, text: &str) -> Result<Vec<Value>, String> {
        let records = self.read("reservations", text, "ReservationName", &RESERVATION, &RESERVATION_IN_VAIN);
        let all = named(&records, "ReservationName", |of| fleet::reservation(of, self.at))?;
        let floating = all.iter().filter(|of| of.is_none()).count() as u32;
        if floating > 0 {
            self.ignore("reservations.Flags: TIME_FLOAT, always so long from now on".into(), floating);
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// All jobs by their submission, and the nodes of those that are refused.
    fn all_jobs(&mut self, text: &str, refused: &mut Vec<Value>) -> (Vec<Value>, BTreeSet<String>) {
        let (mut all, mut misread): (Vec<(f64, u64, Value)>, _) = (Vec::new(), BTreeSet::new());
        for record in self.read("jobs", text, "JobId", &jobs::MAPPED, &jobs::IN_VAIN) {
            match self.jobs(&record) {
                Ok(jobs) => all.extend(jobs),
                Err(why) => {
                    refused.push(json!({"what": "jobs", "id": record.get("JobId"), "why": why}));
                    misread.extend(hosts(record.get("NodeList").unwrap_or("")).unwrap_or_default());
                }
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        (all.into_iter().map(|(_, _, job)| job).collect(), misread)
    }

    /// The catalogue's name of a kind of GPU.
    fn kind(&self, word: &str) -> String {
        self.kinds.get(word).cloned().unwrap_or_else(|| word.to_string())
    }
}

/// Whether a field says anything.
fn is_said(value: &str) -> bool {
    !matches!(value, "" | "(null)" | "N/A" | "None" | "0" | "NO" | "n/a" | "*" | "0:0")
}

fn list(text: Option<&str>) -> Vec<&str> {
    text.into_iter().flat_map(|text| text.split(',')).filter(|word| !word.is_empty()).collect()
}

fn whole(of: &Text<'_>, key: &str) -> Result<Option<u64>, String> {
    let Some(number) = of.number(key)? else { return Ok(None) };
    let is_whole = number >= 0.0 && number == libm::trunc(number) && number < 9e15;
    if is_whole { Ok(Some(number as u64)) } else { Err(format!("{key}: expected a whole number, found {number}")) }
}

/// When the backfill last looked, seconds from an instant; none: sdiag does not say it, or it has not looked yet.
fn backfilled(sdiag: &str, at: jiff::Timestamp) -> Option<f64> {
    let (_, backfilling) = sdiag.split_once("Backfilling stats")?;
    let line = backfilling.lines().find_map(|line| line.trim().strip_prefix("Last cycle when:"))?;
    let (_, epoch) = line.trim().strip_suffix(')')?.rsplit_once('(')?;
    let epoch: i64 = epoch.parse().ok().filter(|epoch| *epoch > 0)?;
    Some((epoch - at.as_second()) as f64)
}

/// What the configuration says of a key.
fn configured<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let line = config.lines().find(|line| line.split('=').next().is_some_and(|word| word.trim() == key))?;
    line.split_once('=').map(|(_, value)| value.trim())
}

/// How the cluster is scheduled, by its configuration.
fn scheduler(config: &str, backfilled: Option<f64>) -> Value {
    let of = |key: &str| configured(config, key);
    let parameter = |name: &str| {
        let all = of("SchedulerParameters")?;
        all.split(',').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok())
    };
    let Some(kind) = of("SchedulerType") else { return Value::Null };
    // An interval of -1 turns it off.
    let backfill = kind == "sched/backfill" && parameter("bf_interval") != Some(-1.0);
    json!({
        "kind": kind,
        "order": if of("PriorityType") == Some("priority/multifactor") { "priority" } else { "fifo" },
        "backfill": backfill,
        "backfill_tick_s": backfill.then(|| parameter("bf_interval").unwrap_or(30.0)),
        "resolution_s": backfill.then(|| parameter("bf_resolution").unwrap_or(60.0)),
        "backfilled_s": backfilled.filter(|_| backfill),
        "depth": backfill.then(|| parameter("bf_max_job_test").unwrap_or(500.0)),
        "window_s": backfill.then(|| parameter("bf_window").unwrap_or(1440.0) * 60.0),
        "priority": shares::multifactor(of),
    })
}

fn named<T>(
    all: &[Text<'_>],
    key: &str,
    mut one: impl FnMut(&Text<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let of = |text: &Text<'_>| one(text).map_err(|why| format!("{key} {}: {why}", text.get(key).unwrap_or("")));
    all.iter().map(of).collect()
}
