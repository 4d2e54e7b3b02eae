//! The nodes of a Slurm cluster, its partitions and its reservations.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::text::{Text, gpus, hosts, records};
use super::{Capture, host, list, preemption, qos};

/// What Slurm tells of nodes and is mapped.
pub(super) const NODE: [&str; 16] = [
    "NodeName",
    "CPUTot",
    "CPUEfctv",
    "MemSpecLimit",
    "Sockets",
    "CoresPerSocket",
    "ThreadsPerCore",
    "ActiveFeatures",
    "Gres",
    "RealMemory",
    "State",
    "Weight",
    "Partitions",
    "Version",
    "Reason",
    "GresUsed",
];
/// What it tells in vain.
pub(super) const NODE_IN_VAIN: [&str; 32] = [
    "Arch",
    "CPUAlloc",
    "CPULoad",
    "AvailableFeatures",
    "GresDrain",
    "NodeAddr",
    "NodeHostName",
    "Port",
    "OS",
    "AllocMem",
    "FreeMem",
    "Boards",
    "TmpDisk",
    "Owner",
    "MCS_label",
    "BootTime",
    "SlurmdStartTime",
    "LastBusyTime",
    "CfgTRES",
    "AllocTRES",
    "CapWatts",
    "CurrentWatts",
    "AveWatts",
    "ExtSensorsJoules",
    "ExtSensorsWatts",
    "ExtSensorsTemp",
    "Comment",
    "CPUSpecList",
    "CoreSpecCount",
    "ResumeAfterTime",
    "NextState",
    "Extra",
];
pub(super) const PARTITION: [&str; 10] = [
    "PartitionName",
    "DefaultTime",
    "MaxTime",
    "PriorityTier",
    "PriorityJobFactor",
    "State",
    "PreemptMode",
    "GraceTime",
    "QoS",
    "OverSubscribe",
];
pub(super) const PARTITION_IN_VAIN: [&str; 32] = [
    "AllowGroups",
    "AllowAccounts",
    "AllowQos",
    "AllocNodes",
    "Default",
    "DisableRootJobs",
    "ExclusiveUser",
    "Hidden",
    "MaxNodes",
    "MinNodes",
    "LLN",
    "MaxCPUsPerNode",
    "MaxCPUsPerSocket",
    "Nodes",
    "RootOnly",
    "ReqResv",
    "OverTimeLimit",
    "TotalCPUs",
    "TotalNodes",
    "SelectTypeParameters",
    "JobDefaults",
    "DefMemPerNode",
    "MaxMemPerNode",
    "DefMemPerCPU",
    "MaxMemPerCPU",
    "TRES",
    "TRESBillingWeights",
    "DenyAccounts",
    "DenyQos",
    "Alternate",
    "ResumeTimeout",
    "SuspendTime",
];
pub(super) const RESERVATION_IN_VAIN: [&str; 12] = [
    "Duration",
    "NodeCnt",
    "CoreCnt",
    "Features",
    "PartitionName",
    "TRES",
    "Groups",
    "Licenses",
    "State",
    "BurstBuffer",
    "Watts",
    "MaxStartDelay",
];
pub(super) const RESERVATION: [&str; 7] =
    ["ReservationName", "StartTime", "EndTime", "Nodes", "Users", "Accounts", "Flags"];

impl Capture<'_> {
    pub(super) fn node(
        &mut self,
        node: &Text<'_>,
        paths: &BTreeMap<String, Vec<String>>,
        levels: usize,
    ) -> Result<Value, String> {
        let name = node.get("NodeName").unwrap_or("");
        let all = gpus(node.get("Gres").unwrap_or(""))?;
        if all.len() > 1 {
            self.ignore("nodes.Gres: a second kind of GPU on a node, taken for the first".into(), 1);
        }
        // Slurm numbers the GPUs of all kinds of a node together.
        let kind = all.first().and_then(|gpu| gpu.kind.clone());
        let count: u32 = all.iter().map(|gpu| gpu.count).fold(0, u32::saturating_add);
        let state = node.get("State").unwrap_or("");
        if is_powered_off(state) && health(state) == "up" {
            self.ignore("nodes.State: powered off, or on the way, and taken to be up".into(), 1);
        }
        let mut path = paths.get(name).cloned().map(|path| path.into_iter().map(Some).collect::<Vec<_>>());
        if let Some(path) = &mut path {
            path.resize(levels, None);
        }
        Ok(json!({
            "name": name,
            "kind": kind.as_deref().map(|kind| self.kind(kind)),
            "source_kind": kind,
            "gpus": count,
            "cpus": host::cpus_of_node(node)?,
            "ram_mib": host::memory_of_node(node)?,
            "features": list(node.get("ActiveFeatures")),
            "levels": path,
            "weight": node.number("Weight")?,
            "state": health(state),
            "reason": node.get("Reason"),
            "queues": list(node.get("Partitions")),
        }))
    }
}

/// The flags of a node's state: of `MIXED+DRAIN` both words. Marks as those of `idle~` are told apart by who asks.
fn flags(state: &str) -> Vec<&str> {
    state.split('+').map(|word| word.trim_end_matches(['*', '~', '#', '$', '@', '-', '%', '!'])).collect()
}

/// Whether a node saves power, or is on the way from or to that: jobs start on it, once it has been switched on.
fn is_powered_off(state: &str) -> bool {
    let power = ["POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP"];
    flags(state).iter().any(|flag| power.contains(flag)) || state.contains(['~', '#', '%', '!'])
}

/// How a node is, by Slurm's state and flags: `MIXED+DRAIN`.
fn health(state: &str) -> &'static str {
    let flags = flags(state);
    let is = |words: &[&str]| flags.iter().any(|flag| words.contains(flag));
    let busy = is(&["ALLOCATED", "MIXED", "COMPLETING"]);
    if is(&["DRAIN", "DRAINED", "DRAINING"]) {
        return if busy { "draining" } else { "drained" };
    }
    let lost = ["DOWN", "ERROR", "FAIL", "FAILING", "UNKNOWN", "FUTURE", "BLOCKED", "INVAL", "INVALID_REG"];
    // A node that does not answer is marked by a star; one without power does not.
    let silent = is(&["NOT_RESPONDING"]) || state.contains('*');
    if is(&lost) || silent && !is_powered_off(state) { "down" } else { "up" }
}

pub(super) fn partition(of: &Text<'_>) -> Result<Value, String> {
    Ok(json!({
        "name": of.get("PartitionName"),
        "kind": "partition",
        // One that drains takes no new jobs, and starts those that it has.
        "open": of.get("State").map(|state| matches!(state, "UP" | "DRAIN")),
        "charges": of.get("QoS").map(|name| vec![qos::named(name)]),
        "tier": of.number("PriorityTier")?,
        "weight": of.number("PriorityJobFactor")?,
        "default_s": of.span("DefaultTime")?,
        "most_s": of.span("MaxTime")?,
        "preempt": preemption::mode(of.get("PreemptMode").unwrap_or("OFF")),
        "grace_s": of.number("GraceTime")?.filter(|grace| *grace > 0.0),
    }))
}

/// A reservation; none: it always begins so long from now on, so that it is never there.
pub(super) fn reservation(of: &Text<'_>, at: jiff::Timestamp) -> Result<Option<Value>, String> {
    let flags = list(of.get("Flags"));
    if flags.contains(&"TIME_FLOAT") {
        return Ok(None);
    }
    let repeats = REPEATS.iter().find(|(flag, _)| flags.contains(flag)).map(|(_, seconds)| *seconds);
    Ok(Some(json!({
        "name": of.get("ReservationName"),
        "nodes": hosts(of.get("Nodes").unwrap_or(""))?,
        "from_s": of.after("StartTime", at)?.unwrap_or(0.0),
        "to_s": of.after("EndTime", at)?.unwrap_or(0.0),
        "users": list(of.get("Users")),
        "accounts": list(of.get("Accounts")),
        "maintenance": flags.contains(&"MAINT"),
        "over_running": flags.contains(&"IGNORE_JOBS"),
        "repeats_s": repeats,
    })))
}

/// Flags of a reservation that comes again, and after how many seconds at the soonest.
const REPEATS: [(&str, f64); 5] =
    [("HOURLY", 3600.0), ("DAILY", 86_400.0), ("WEEKDAY", 86_400.0), ("WEEKEND", 86_400.0), ("WEEKLY", 604_800.0)];

/// The GPUs of nodes that are used, and by no job of the document, since who asks may not see it or it can't be understood: where all jobs of a node say which
/// they hold, by their numbers.
pub(super) fn used_by_others(node: &Text<'_>, jobs: &[Value]) -> Result<Vec<u32>, String> {
    let name = node.get("NodeName").unwrap_or("");
    let used: BTreeSet<u32> =
        gpus(node.get("GresUsed").unwrap_or(""))?.into_iter().flat_map(|gpu| gpu.numbers).collect();
    if used.is_empty() {
        return Ok(Vec::new());
    }
    let mut held: BTreeSet<u64> = BTreeSet::new();
    let runs = jobs.iter().filter(|job| job["state"] != "ended");
    for on in runs.flat_map(|job| job["on"].as_array().into_iter().flatten()).filter(|on| on["node"] == name) {
        let Some(numbers) = on["gpus"].as_array() else { return Ok(Vec::new()) };
        held.extend(numbers.iter().filter_map(Value::as_u64));
    }
    Ok(used.into_iter().filter(|gpu| !held.contains(&u64::from(*gpu))).collect())
}

/// Switches from the widest down to each node.
pub(super) fn paths(text: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let keys = ["SwitchName", "Level", "LinkSpeed", "Nodes", "Switches"];
    let mut above: BTreeMap<String, String> = BTreeMap::new();
    let mut leaf: BTreeMap<String, String> = BTreeMap::new();
    for switch in records(text, "SwitchName", &keys, &mut BTreeMap::new()) {
        let Some(name) = switch.get("SwitchName") else { continue };
        match switch.get("Switches") {
            Some(below) => hosts(below)?.into_iter().for_each(|below| _ = above.insert(below, name.into())),
            None => hosts(switch.get("Nodes").unwrap_or(""))?
                .into_iter()
                .for_each(|node| _ = leaf.insert(node, name.into())),
        }
    }
    let path = |switch: &String| {
        let mut path = vec![switch.clone()];
        while let Some(wider) = path.last().and_then(|last| above.get(last)).filter(|wider| !path.contains(wider)) {
            path.push(wider.clone());
        }
        path.reverse();
        path
    };
    Ok(leaf.iter().map(|(node, switch)| (node.clone(), path(switch))).collect())
}
