//! Whose jobs lose their GPUs to others, by the configuration, partitions and qualities of service.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::configured;
use crate::state::document::QueuePreempts;

/// What becomes of a partition's jobs, by its `PreemptMode`; with `GANG` there may be two words.
pub(super) fn mode(text: &str) -> Option<&'static str> {
    let of =
        |word: &str| ["off", "requeue", "suspend", "cancel"].into_iter().find(|known| word.eq_ignore_ascii_case(known));
    text.split(',').find_map(of)
}

/// By what jobs lose their GPUs to others, and the partitions or qualities of service whose jobs do; none: no job does.
pub(super) fn gives_way(
    config: &str,
    partitions: &[Value],
    qualities: &[Value],
) -> Option<(&'static str, BTreeSet<String>)> {
    let loses = |of: &&Value| QueuePreempts::deserialize(&of["preempt"]).is_ok_and(QueuePreempts::frees);
    let losing = |all: &[Value]| -> BTreeSet<String> {
        all.iter().filter(loses).filter_map(|of| of["name"].as_str().map(str::to_string)).collect()
    };
    let (by, names) = match configured(config, "PreemptType")? {
        "preempt/partition_prio" => ("tier", losing(partitions)),
        "preempt/qos" => {
            let named = qualities.iter().flat_map(|of| of["preempts"].as_array().into_iter().flatten());
            let named: BTreeSet<&str> = named.filter_map(Value::as_str).collect();
            ("qos", losing(qualities).into_iter().filter(|name| named.contains(name.as_str())).collect())
        }
        _ => return None,
    };
    (!names.is_empty()).then_some((by, names))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Whether jobs of `low`, `kept` and both are preempted in a document, and by what; modes are those of `low` and `kept`.
    fn captured(preempts: &str, [low, kept]: [&str; 2]) -> (Value, [Value; 3]) {
        let partition =
            |name: &str, mode: &str| format!("PartitionName={name} PriorityTier=1 PreemptMode={mode} State=UP\n");
        let job = |id: u32, of: &str| {
            format!(
                "JobId={id} JobName=j UserId=u(1) Priority=1 JobState=PENDING Reason=Priority TimeLimit=01:00:00 \
                     SubmitTime=2026-11-29T05:00:00 Partition={of} NumNodes=1 TresPerNode=gres:gpu:1\n"
            )
        };
        let outputs: BTreeMap<&str, String> = [
            (
                "scontrol-show-config.txt",
                format!("PreemptType             = {preempts}\nSchedulerType           = sched/builtin\n"),
            ),
            (
                "scontrol-show-node-d.txt",
                "NodeName=n0 CPUTot=4 Gres=gpu:4 State=IDLE Partitions=low,kept\n".to_string(),
            ),
            ("scontrol-show-partition.txt", partition("low", low) + &partition("kept", kept)),
            ("scontrol-show-job-d.txt", job(1, "low") + &job(2, "kept") + &job(3, "kept,low")),
        ]
        .into();
        let at = "2026-11-29T05:01:00Z".parse().expect("an instant");
        let state = super::super::state(&outputs, at, &BTreeMap::new()).expect("a document");
        let jobs = [0, 1, 2].map(|at| state["jobs"][at]["preemptible"].clone());
        (state["source"]["scheduler"]["preempts"].clone(), jobs)
    }

    #[test]
    fn jobs_of_partitions_give_way_as_their_modes_say() {
        let tier = || Value::from("tier");
        let by_partition = |modes| captured("preempt/partition_prio", modes);
        let [yes, no] = [true, false].map(Value::from);
        let mixed = [yes.clone(), no.clone(), yes.clone()];
        for modes in [["REQUEUE", "OFF"], ["GANG,REQUEUE", "GANG,SUSPEND"], ["CANCEL", "SUSPEND"]] {
            assert_eq!(by_partition(modes), (tier(), mixed.clone()), "{modes:?}");
        }
        assert_eq!(by_partition(["REQUEUE", "REQUEUE"]), (tier(), [yes.clone(), yes.clone(), yes]));
        // Where no partition's jobs do, or it goes by quality of service and none is listed, nothing is said.
        for (preempts, modes) in
            [("preempt/partition_prio", ["OFF", "SUSPEND"]), ("preempt/qos", ["REQUEUE", "REQUEUE"])]
        {
            assert_eq!(captured(preempts, modes), (Value::Null, [Value::Null, Value::Null, Value::Null]));
        }
    }
}
