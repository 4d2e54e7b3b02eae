//! The jobs of a Slurm cluster.

use serde_json::{Value, json};

use super::text::{Gres, Text, gpus, hosts, ranges};
use super::{Capture, list, qos, whole};

/// What Slurm tells of jobs and is mapped.
pub(super) const MAPPED: [&str; 52] = [
    "JobId",
    "ArrayJobId",
    "ArrayTaskId",
    "ArrayTaskThrottle",
    "HetJobId",
    "HetJobOffset",
    "JobName",
    "UserId",
    "Priority",
    "Nice",
    "Account",
    "QOS",
    "JobState",
    "Reason",
    "Dependency",
    "Requeue",
    "Restarts",
    "RunTime",
    "TimeLimit",
    "TimeMin",
    "SubmitTime",
    "EligibleTime",
    "StartTime",
    "EndTime",
    "Deadline",
    "Partition",
    "ReqNodeList",
    "ExcNodeList",
    "NodeList",
    "SchedNodeList",
    "NumNodes",
    "NumCPUs",
    "CpusPerTres",
    "MinMemoryCPU",
    "MinMemoryNode",
    "MemPerTres",
    "TRES",
    "ReqTRES",
    "AllocTRES",
    "JOB_GRES",
    "Nodes",
    "GRES",
    "Features",
    "OverSubscribe",
    "Switches",
    "Reservation",
    "TresPerNode",
    "TresPerJob",
    "TresPerTask",
    "TresPerSocket",
    "NumTasks",
    "Licenses",
];
/// What it tells in vain.
pub(super) const IN_VAIN: [&str; 51] = [
    "FailedNode",
    "GroupId",
    "MCS_label",
    "BatchFlag",
    "Reboot",
    "ExitCode",
    "DerivedExitCode",
    "AccrueTime",
    "PreemptEligibleTime",
    "PreemptTime",
    "SuspendTime",
    "SecsPreSuspend",
    "LastSchedEval",
    "Scheduler",
    "AllocNode:Sid",
    "BatchHost",
    "CPUs/Task",
    "ReqB:S:C:T",
    "Socks/Node",
    "NtasksPerN:B:S:C",
    "CoreSpec",
    "CPU_IDs",
    "Mem",
    "MinCPUsNode",
    "MinTmpDiskNode",
    "DelayBoot",
    "Contiguous",
    "Network",
    "Command",
    "WorkDir",
    "StdErr",
    "StdIn",
    "StdOut",
    "Power",
    "HetJobIdSet",
    "Comment",
    "AdminComment",
    "SystemComment",
    "MailUser",
    "MailType",
    "NtasksPerTRES",
    "TresBind",
    "TresFreq",
    "BurstBuffer",
    "WCKey",
    "Shared",
    "Extra",
    "PrivateTmp",
    "RequestedNodes",
    "ResizeTime",
    "Container",
];

/// A job's submission, its number, and itself.
type Placed = (f64, u64, Value);

impl Capture<'_> {
    /// The jobs of a record: of an array's waiting tasks all of them; none where it is over, and it is not told since when.
    pub(super) fn jobs(&mut self, of: &Text<'_>) -> Result<Vec<Placed>, String> {
        let state = of.get("JobState").unwrap_or("");
        let reason = of.get("Reason").unwrap_or("");
        let state = match state_of(state, reason, of.number("Priority")?) {
            Some(state) => state,
            None if is_over(state) && of.after("EndTime", self.at)?.is_some() => "ended",
            None if is_over(state) => {
                self.ignore("jobs that are over".into(), 1);
                return Ok(Vec::new());
            }
            None => return Err(format!("JobState: expected one of Slurm's states, found {state:?}")),
        };
        let asked = ["TresPerNode", "TresPerJob", "TresPerTask", "GRES"].into_iter().flat_map(|key| of.all(key));
        if asked.into_iter().any(|text| text.contains("shard:") || text.contains("mps:")) {
            self.ignore("jobs.GRES: parts of GPUs, which others find free".into(), 1);
        }
        for key in ["Licenses", "TresPerSocket", "Switches"] {
            if of.get(key).is_some() {
                self.ignore(format!("jobs.{key}"), 1);
            }
        }
        let number = whole(of, "JobId")?.ok_or("it has no number")?;
        let submitted = of.after("SubmitTime", self.at)?;
        let mut job = self.job(of, state, reason, submitted)?;
        let array = whole(of, "ArrayJobId")?;
        let Some(array) = array else {
            job["id"] = number.to_string().into();
            return Ok(vec![(submitted.unwrap_or(0.0), number, job)]);
        };
        let tasks = of.get("ArrayTaskId").unwrap_or("");
        let tasks = tasks.split_once('%').map_or(tasks, |(tasks, _)| tasks);
        let found = tasks;
        let tasks = indices(tasks)
            .ok_or_else(|| format!("ArrayTaskId: expected at most {MOST_TASKS} numbers as 0-9:3, found {found:?}"))?;
        let most = whole(of, "ArrayTaskThrottle")?.filter(|most| *most > 0);
        let each = tasks.into_iter().map(|index| {
            let mut task = job.clone();
            task["id"] = format!("{array}_{index}").into();
            task["array"] = json!({"id": array.to_string(), "index": index, "at_most": most});
            (submitted.unwrap_or(0.0), number, task)
        });
        Ok(each.collect())
    }

    /// The most time of a job without a limit, in its partition.
    fn longest(&self, of: &Text<'_>) -> Option<f64> {
        list(of.get("Partition")).into_iter().find_map(|partition| self.most.get(partition).copied())
    }

    /// Whether a job has its nodes to itself, by its own word or its partition's.
    fn is_alone(&self, of: &Text<'_>) -> bool {
        let mut partitions = list(of.get("Partition")).into_iter();
        of.get("OverSubscribe") == Some("NO") || partitions.any(|partition| self.whole.contains(partition))
    }

    fn job(&self, of: &Text<'_>, state: &str, reason: &str, submitted: Option<f64>) -> Result<Value, String> {
        let runs = matches!(state, "running" | "suspended" | "ending");
        let over = state == "ended";
        let (least, most) = nodes(of.get("NumNodes").unwrap_or("1"))?;
        let per_node = gpus(of.get("TresPerNode").unwrap_or(""))?;
        let each: u32 = per_node.iter().map(|gpu| gpu.count).sum();
        let asked =
            [&per_node[..], &gpus(of.get("TresPerJob").unwrap_or(""))?, &gpus(of.get("TresPerTask").unwrap_or(""))?]
                .concat();
        let mut kinds: Vec<String> =
            asked.iter().filter_map(|gpu| gpu.kind.as_deref().map(|kind| self.kind(kind))).collect();
        kinds.sort_unstable();
        kinds.dedup();
        // Slurm gives the CPUs of a suspended job to others.
        let on = if runs { held(of, state != "suspended")? } else { Vec::new() };
        let gpus = total(of, &on, u64::from(each) * u64::from(least))?;
        let on =
            if over || on.iter().all(|on| on["count"] == 0) { untold(of, (runs, over), gpus, each, on)? } else { on };
        let shape = (each > 0 || least > 1)
            .then(|| json!({"least": least, "most": most, "gpus_each": (each > 0).then_some(each)}));
        let cpus = self.counted.cpus(of, (runs || over, gpus, least))?;
        let start = of.after("StartTime", self.at)?;
        let eligible = of.after("EligibleTime", self.at)?;
        let features = of.get("Features").filter(|text| !text.contains(['|', '[', '(', '*']));
        Ok(json!({
            // A name may well be `None`.
            "name": of.all("JobName").next().filter(|name| !matches!(*name, "" | "(null)")),
            "user": of.get("UserId").map(|user| user.split_once('(').map_or(user, |(name, _)| name)),
            "account": of.get("Account"),
            "queues": list(of.get("Partition")),
            "charges": of.get("QOS").map(|qos| vec![qos::named(qos)]),
            "state": state,
            "why": (!runs && !over).then(|| why(reason)).flatten(),
            "priority": of.number("Priority")?,
            "nice": of.number("Nice")?.filter(|nice| *nice != 0.0),
            "submitted_s": submitted.map(|submitted| submitted.min(0.0)),
            "eligible_s": eligible,
            "not_before_s": eligible.filter(|_| state == "not-before"),
            "started_s": start.filter(|_| runs || over && !on.is_empty()).map(|start| start.min(0.0)),
            "ended_s": of.after("EndTime", self.at)?.filter(|_| over).map(|end| end.min(0.0)),
            "held_s": if runs { of.span("RunTime")? } else { None },
            "deadline_s": of.after("Deadline", self.at)?,
            "gpus": gpus,
            "nodes": shape,
            "cpus": cpus,
            "ram_mib": self.counted.memory(of, (runs || over, gpus), cpus)?,
            "kinds": kinds,
            "features": features.map(|text| vec![text.split('&').collect::<Vec<_>>()]),
            "nodes_in": hosts(of.get("ReqNodeList").unwrap_or(""))?,
            "nodes_out": hosts(of.get("ExcNodeList").unwrap_or(""))?,
            "whole_nodes": (!runs && self.is_alone(of)).then_some(true),
            "limit_s": of.span("TimeLimit")?.or_else(|| self.longest(of)),
            "least_limit_s": of.span("TimeMin")?,
            "preemptible": self.gives_way.as_ref().map(|names| {
                list(of.get("Partition")).into_iter().any(|of| names.contains(of)) || of.get("QOS").is_some_and(|of| names.contains(&qos::named(of)))
            }),
            "requeues": of.get("Requeue").map(|word| word == "1"),
            "restarts": whole(of, "Restarts")?,
            "on": on,
            "planned_s": start.filter(|_| !runs && !over),
            "planned_on": hosts(of.get("SchedNodeList").unwrap_or(""))?,
            "after": after(of.get("Dependency").unwrap_or(""))?,
            "single": of.get("Dependency").is_some_and(|text| text.contains(SINGLE)).then_some(true),
            "reservation": of.get("Reservation"),
            "together": whole(of, "HetJobId")?.map(|id| format!("het/{id}")),
        }))
    }
}

/// `1`, `2-4`, `1,2,4-8`, `1-15:4`: the fewest and the most.
fn nodes(text: &str) -> Result<(u32, u32), String> {
    let ranges = text.split(',').map(|range| range.split_once(':').map_or(range, |(range, _)| range));
    let all: Option<Vec<u32>> = ranges.flat_map(|range| range.split('-')).map(|word| word.parse().ok()).collect();
    let ends = all.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
    ends.ok_or_else(|| format!("NumNodes: expected numbers of nodes, found {text:?}"))
}

/// What a running job holds: nodes of a group hold the same numbers. Of one without GPUs the nodes are told where it has their CPUs.
fn held(of: &Text<'_>, has_cpus: bool) -> Result<Vec<Value>, String> {
    let mut on = Vec::new();
    for (nodes, text) in of.all("Nodes").zip(of.all("GRES")) {
        let all = gpus(text)?;
        let count: u32 = all.iter().map(|gpu| gpu.count).sum();
        let mut numbers: Vec<u32> = all.into_iter().flat_map(|Gres { numbers, .. }| numbers).collect();
        numbers.sort_unstable();
        if count > 0 {
            let known = numbers.len() == count as usize;
            on.extend(
                hosts(nodes)?
                    .into_iter()
                    .map(|node| json!({"node": node, "count": count, "gpus": known.then_some(&numbers)})),
            );
        }
    }
    if on.is_empty() && has_cpus {
        for nodes in of.all("Nodes") {
            on.extend(hosts(nodes)?.into_iter().map(|node| json!({"node": node, "count": 0})));
        }
    }
    Ok(on)
}

/// Where a job is, or was, of which Slurm does not tell how many GPUs it has on which node: one that is over, and without `-d` all that run. Of one node, or of so many
/// on `each`, that is known all the same.
fn untold(
    of: &Text<'_>,
    (runs, over): (bool, bool),
    gpus: u64,
    each: u32,
    on: Vec<Value>,
) -> Result<Vec<Value>, String> {
    match (over, runs && gpus > 0) {
        (true, _) => was_on(of, gpus),
        (_, true) => {
            Ok(was_on(of, gpus)?.into_iter().filter(|on| on["count"] == gpus || on["count"] == each).collect())
        }
        _ => Ok(on),
    }
}

/// Where a job was that is over: Slurm tells its nodes then, and no GPUs.
fn was_on(of: &Text<'_>, gpus: u64) -> Result<Vec<Value>, String> {
    let nodes = hosts(of.get("NodeList").unwrap_or(""))?;
    let count = gpus / (nodes.len() as u64).max(1);
    Ok(nodes.into_iter().map(|node| json!({"node": node, "count": count})).collect())
}

/// How many GPUs a job asks for in all: as accounted, where GPUs are; else what it holds, or asks of each node, each task or in all.
fn total(of: &Text<'_>, on: &[Value], of_nodes: u64) -> Result<u64, String> {
    for key in ["AllocTRES", "ReqTRES", "TRES"] {
        let counted =
            of.get(key).into_iter().flat_map(|text| text.split(',')).find_map(|word| word.strip_prefix("gres/gpu="));
        if let Some(count) = counted {
            return count.parse().map_err(|_| format!("{key}: expected a number of GPUs, found {count:?}"));
        }
    }
    let holds: u64 = on.iter().filter_map(|on| on["count"].as_u64()).sum();
    if holds > 0 {
        return Ok(holds);
    }
    let sum =
        |key: &str| gpus(of.get(key).unwrap_or("")).map(|all| all.iter().map(|gpu| u64::from(gpu.count)).sum::<u64>());
    let tasks = whole(of, "NumTasks")?.unwrap_or(1);
    let asked = [of_nodes, sum("TresPerJob")?, sum("TresPerTask")? * tasks];
    Ok(asked.into_iter().find(|count| *count > 0).unwrap_or(0))
}

/// In which of our states a job is; none: it is over.
fn state_of(state: &str, reason: &str, priority: Option<f64>) -> Option<&'static str> {
    Some(match state {
        "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => "held",
        "PENDING" | "REQUEUED" => match reason {
            _ if HELD.contains(&reason) => "held",
            "Dependency" => "dependent",
            "BeginTime" => "not-before",
            "Reservation" => "reserved",
            _ if priority == Some(0.0) => "held",
            _ => "waiting",
        },
        "RUNNING" | "CONFIGURING" | "RESIZING" | "SIGNALING" => "running",
        "SUSPENDED" | "STOPPED" => "suspended",
        "COMPLETING" | "STAGE_OUT" => "ending",
        _ => return None,
    })
}

/// Whether a job in this state has ended.
fn is_over(state: &str) -> bool {
    let over = [
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "OUT_OF_MEMORY",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "REVOKED",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
    ];
    over.iter().any(|word| state.starts_with(word))
}

/// Most tasks of an array that are told one by one.
const MOST_TASKS: u64 = 100_000;

/// The tasks of an array: `0-9`, `1,5`, `0-20:5`.
fn indices(text: &str) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let step: usize = step.parse().ok().filter(|step| *step > 0)?;
        for (first, last, _) in ranges(range)? {
            if last - first >= MOST_TASKS || all.len() as u64 >= MOST_TASKS {
                return None;
            }
            all.extend((first..=last).step_by(step));
        }
    }
    Some(all)
}

/// Reasons of a job that waits until it is released.
const HELD: [&str; 5] =
    ["JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch_failed_requeued_held", "job_requeued_in_held_state"];

/// Reasons of a job that can't start as it is.
const NEVER: [&str; 9] = [
    "DependencyNeverSatisfied",
    "BadConstraints",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "QOSNotAllowed",
    "AccountNotAllowed",
    "InvalidAccount",
    "InvalidQOS",
    "DeadLine",
];

/// Whether a reason is a limit on what accounts, users or arrays may have at a time.
fn is_quota(reason: &str) -> bool {
    ["QOS", "Assoc", "MaxGRES", "MaxMemPerLimit", "JobArrayTaskLimit"].iter().any(|begin| reason.starts_with(begin))
        || reason.starts_with("Max") && reason.ends_with("PerAccount")
}

/// Why a job waits: in our words and in Slurm's.
fn why(reason: &str) -> Option<Value> {
    let code = match reason {
        "" => return None,
        "Resources" => "no-free-gpus",
        "Priority" => "behind",
        "Dependency" => "dependency",
        _ if NEVER.contains(&reason) => "never",
        "BeginTime" => "not-before",
        _ if HELD.contains(&reason) => "held",
        "Reservation" => "reservation",
        "Licenses" => "licence",
        "PartitionDown" | "PartitionInactive" => "queue-closed",
        // The names of nodes may follow.
        _ if reason.starts_with("ReqNodeNotAvail") => "node-named",
        "NodeDown" => "node-down",
        _ if reason.starts_with("Nodes required for job are DOWN") || reason.starts_with("Nodes_required_for_job") => {
            "node-down"
        }
        _ if is_quota(reason) => "quota",
        _ => "unknown",
    };
    Some(json!({"code": code, "said": reason}))
}

/// That another job of the user with its name runs, or was there before.
const SINGLE: &str = "singleton(unfulfilled)";

/// `afterok:5(unfulfilled),after:7+10(unfulfilled)`: what is not met yet.
fn after(text: &str) -> Result<Vec<Value>, String> {
    let any = text.contains('?');
    let mut all = Vec::new();
    for one in text.split([',', '?']).filter(|one| one.contains("(unfulfilled)") && *one != SINGLE) {
        let wrong = || format!("Dependency: expected one as afterok:5(unfulfilled), found {one:?}");
        let (word, rest) = one.trim_end_matches("(unfulfilled)").split_once(':').ok_or_else(wrong)?;
        let (job, minutes) = rest.split_once('+').unwrap_or((rest, "0"));
        let minutes: f64 = minutes.parse().map_err(|_| wrong())?;
        let when = match word {
            "afterok" => "ok",
            "afternotok" => "failed",
            "after" => "started",
            "aftercorr" => "same-index",
            _ => "ended",
        };
        let plus = (minutes > 0.0).then_some(minutes * 60.0);
        all.push(json!({"job": job.trim_end_matches("_*"), "when": when, "plus_s": plus, "any": any.then_some(true)}));
    }
    Ok(all)
}
