//! Qualities of service: whose jobs take GPUs from whose, and how many GPUs their jobs may have.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::{Queue, QueueId};

use super::document::{Preempts, QueueKind, QueuePreempts, State, StateQueue};
use super::jobs::StateJob;
use super::queues::{limited, own_of};
use crate::trace::plain;

impl State {
    /// How high each quality of service stands, by its name: jobs of a higher one take GPUs from those of lower ones that may be preempted. None: that is not how the cluster preempts,
    /// its partitions have tiers beside it, or no numbers say whose jobs take GPUs from whose.
    pub fn standings(&self) -> Option<BTreeMap<&str, usize>> {
        let by_quality = self.source.scheduler.as_ref().and_then(|of| of.preempts) == Some(Preempts::Qos);
        if !by_quality || self.has_tiers() {
            return None;
        }
        let loses = |queue: &&StateQueue| queue.preempt.is_some_and(QueuePreempts::frees);
        let frees: BTreeSet<&str> = self.queues.iter().filter(loses).map(|queue| queue.name.as_str()).collect();
        let all: Vec<(&str, BTreeSet<&str>)> = self
            .qualities()
            .map(|queue| {
                let takes = queue.preempts.iter().map(String::as_str).filter(|name| frees.contains(name));
                (queue.name.as_str(), takes.collect())
            })
            .collect();
        let mut steps: Vec<&BTreeSet<&str>> = all.iter().map(|(_, takes)| takes).collect();
        let nothing = BTreeSet::new();
        steps.push(&nothing);
        steps.sort_by_key(|takes| (takes.len(), *takes));
        steps.dedup();
        let stands = |takes: &BTreeSet<&str>| steps.iter().position(|step| *step == takes);
        let standings: BTreeMap<&str, usize> =
            all.iter().filter_map(|(name, takes)| Some((*name, stands(takes)?))).collect();
        let victims: BTreeSet<&str> = all.iter().flat_map(|(_, takes)| takes.iter().copied()).collect();
        let is_said = |(name, takes): &(&str, BTreeSet<&str>)| {
            victims.iter().all(|victim| {
                let stands = standings.get(victim).zip(standings.get(name));
                stands.is_some_and(|(victim_at, at)| takes.contains(victim) == (at > victim_at))
            })
        };
        all.iter().all(is_said).then_some(standings)
    }

    fn qualities(&self) -> impl Iterator<Item = &StateQueue> {
        self.queues.iter().filter(|queue| queue.kind == QueueKind::Qos)
    }

    /// Whether qualities of service share GPUs out: where some have limits, and accounts do not.
    pub(super) fn limits_qualities(&self) -> bool {
        let changes = self.source.scheduler.as_ref().and_then(|of| of.priority.as_ref());
        let by_accounts = changes.and_then(|of| of.fair_share).is_some_and(|weight| weight > 0.0);
        !by_accounts && self.qualities().any(is_limited)
    }

    /// Qualities of service as queues, and users in those that limit each user.
    pub(super) fn quality_queues(&self) -> Vec<Queue> {
        let mut all: Vec<Queue> = Vec::new();
        for queue in self.qualities() {
            let group = QueueId::at(all.len());
            all.push(limited(self.limit_of(&queue.limit), &plain(queue.name.clone())));
            let of = |job: &StateJob| {
                let (base, each) = self.limiting(job)?;
                let each = each.filter(|_| base.name == queue.name)?;
                Some((self.user_queue(base, each, job)?, self.limit_of(&each.limit_per_user).to_bits()))
            };
            let users: BTreeSet<(String, u64)> = self.jobs.iter().filter_map(of).collect();
            let user =
                |(name, limit): (String, u64)| Queue { parent: Some(group), ..limited(f64::from_bits(limit), &name) };
            all.extend(users.into_iter().map(user));
        }
        all
    }

    /// The quality of service whose queue a job is in, and the one that limits what its user may have. Each limit is that of the partition's, where this has it, and otherwise of the
    /// job's own.
    fn limiting(&self, job: &StateJob) -> Option<(&StateQueue, Option<&StateQueue>)> {
        let of = |names: &[String]| self.qualities().find(|queue| names.contains(&queue.name));
        let partition = job.queues.first().and_then(|name| self.queues.iter().find(|queue| queue.name == *name));
        let both = [partition.and_then(|queue| of(&queue.charges)), of(&job.charges)];
        let with = |limit: fn(&StateQueue) -> &BTreeMap<String, f64>| {
            both.into_iter().flatten().find(|queue| self.limit_of(limit(queue)).is_finite())
        };
        let each = with(|queue| &queue.limit_per_user);
        Some((with(|queue| &queue.limit).or(each).or(both[1])?, each))
    }

    /// The queue of a job's user in that of a quality of service.
    fn user_queue(&self, base: &StateQueue, each: &StateQueue, job: &StateJob) -> Option<String> {
        let user = job.user.as_deref()?;
        Some(plain(match base.name == each.name {
            true => format!("{} of {user}", base.name),
            false => format!("{} of {user} in {}", each.name, base.name),
        }))
    }

    /// The queue of a job among these.
    pub(super) fn quality_of(&self, job: &StateJob) -> Option<String> {
        let (base, each) = self.limiting(job)?;
        let Some(each) = each else { return Some(base.name.clone()) };
        Some(self.user_queue(base, each, job).unwrap_or_else(|| own_of(&base.name)))
    }

    /// How many qualities of service take GPUs from others in a way that is not followed; and how many have limits that are not.
    pub(super) fn qualities_not_followed(&self) -> [u32; 2] {
        let by_quality = self.source.scheduler.as_ref().and_then(|of| of.preempts) == Some(Preempts::Qos);
        let lost = by_quality && self.standings().is_none();
        let takes = self.qualities().filter(|queue| lost && !queue.preempts.is_empty());
        let limited = self.qualities().filter(|queue| !self.limits_qualities() && is_limited(queue));
        [takes.count(), limited.count()].map(|count| count as u32)
    }

    /// The most GPUs in all that a limit leaves, where each kind that the cluster has is limited.
    fn limit_of(&self, limit: &BTreeMap<String, f64>) -> f64 {
        let all = self.kinds();
        let kinds: Option<f64> = all.iter().map(|kind| limit.get(*kind)).sum();
        let [kinds, any] = [kinds.filter(|_| !all.is_empty()), limit.get("*").copied()];
        kinds.unwrap_or(f64::INFINITY).min(any.unwrap_or(f64::INFINITY))
    }
}

/// Whether a quality of service limits its jobs' GPUs.
fn is_limited(quality: &StateQueue) -> bool {
    !(quality.limit.is_empty() && quality.limit_per_user.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(weight: f64, queues: &Value) -> State {
        let job = |id: &str, user: &str, of: &str| json!({"id": id, "user": user, "charges": [of], "state": "waiting", "gpus": 1});
        serde_json::from_value(json!({
            "sandtable": "state@1", "at": "2026-11-29T00:00:00Z", "reservations": [], "unknown": [], "ignored": [], "associations": [],
            "nodes": [{"name": "n", "gpus": 8, "kind": "A100", "state": "up"}],
            "source": {"kind": "slurm", "scheduler": {"preempts": "qos", "priority": {"fair_share": weight}}},
            "queues": queues, "jobs": [job("1", "u", "qos/low"), job("2", "v", "qos/low"), job("3", "u", "qos/high")],
        }))
        .expect("a state")
    }

    fn quality(name: &str, preempt: &str, preempts: &[&str]) -> Value {
        json!({"name": format!("qos/{name}"), "kind": "qos", "preempt": preempt, "preempts": preempts})
    }

    /// Their standings, in the order of their names.
    fn standings(all: &[Value]) -> Option<Vec<usize>> {
        let state = state(0.0, &all.into());
        state.standings().map(|found| found.into_values().collect())
    }

    #[test]
    fn standings_say_whose_jobs_take_gpus_from_whose_or_there_are_none() {
        let of = |high: &[&str], middle: &[&str], ways: [&str; 3]| {
            standings(&[
                quality("high", ways[0], high),
                quality("low", ways[1], &[]),
                quality("middle", ways[2], middle),
            ])
        };
        let usual = ["requeue"; 3];
        assert_eq!(of(&["qos/low", "qos/middle"], &["qos/low"], usual), Some(vec![2, 0, 1]));
        assert_eq!(of(&["qos/low"], &["qos/low"], usual), Some(vec![1, 0, 1]));
        // What loses nothing is as if it were not named.
        assert_eq!(of(&["qos/low", "qos/middle"], &["qos/low"], ["requeue", "off", "requeue"]), Some(vec![1, 0, 0]));
        // The higher takes from the middle, which takes from the low, and not from the low itself.
        assert_eq!(of(&["qos/middle"], &["qos/low"], usual), None);
        // Each takes from the other.
        assert_eq!(of(&["qos/middle"], &["qos/high"], usual), None);
        // Its own.
        assert_eq!(of(&["qos/high"], &[], usual), None);
    }

    #[test]
    fn limits_are_those_of_queues_unless_accounts_share_gpus_out() {
        let with = |limit: &Value, per_user: &Value| {
            let low = json!({"name": "qos/low", "kind": "qos", "limit": limit, "limit_per_user": per_user});
            json!([low, quality("high", "off", &[])])
        };
        let of = |state: &State| {
            let tree = state.queue_tree();
            let parent = |queue: &Queue| queue.parent.map_or("", |id| &tree[id.index()].name).to_string();
            let tree: Vec<(String, f64, String)> =
                tree.iter().map(|queue| (queue.name.clone(), queue.limit, parent(queue))).collect();
            (tree, state.jobs.iter().map(|job| state.queue_of(job)).collect::<Vec<_>>())
        };
        let named = |names: [&str; 3]| names.map(|name| Some(name.to_string())).to_vec();
        let row = |name: &str, limit: f64, parent: &str| (name.to_string(), limit, parent.to_string());
        let endless = f64::INFINITY;
        let (tree, queues) = of(&state(0.0, &with(&json!({"*": 6}), &json!({}))));
        assert_eq!(tree, [row("qos/low", 6.0, ""), row("qos/high", endless, "")]);
        assert_eq!(queues, named(["qos/low", "qos/low", "qos/high"]));
        let (tree, queues) = of(&state(0.0, &with(&json!({}), &json!({"A100": 2}))));
        let users = [row("qos/low of u", 2.0, "qos/low"), row("qos/low of v", 2.0, "qos/low")];
        assert_eq!(tree[..3], [&[row("qos/low", endless, "")], &users[..]].concat());
        assert_eq!(queues, named(["qos/low of u", "qos/low of v", "qos/high"]));
        // The least of several.
        assert_eq!(of(&state(0.0, &with(&json!({"*": 6, "A100": 1}), &json!({})))).0[0].1, 1.0);
        // Of a kind that is not there it is none.
        assert_eq!(of(&state(0.0, &with(&json!({"H100": 2}), &json!({})))).0[0].1, endless);
        let beside = state(1.0, &with(&json!({"*": 6}), &json!({})));
        assert!(of(&beside).0.is_empty() && beside.qualities_not_followed() == [0, 1]);
        // A limit of a partition's takes the place of the same one of its jobs'.
        let of_partition = |limit: &Value, per_user: &Value| {
            let mut queues = with(&json!({"*": 6}), &json!({}));
            let partition = json!({"name": "p", "kind": "partition", "charges": ["qos/part"]});
            let quality = json!({"name": "qos/part", "kind": "qos", "limit": limit, "limit_per_user": per_user});
            queues.as_array_mut().expect("queues").extend([partition, quality]);
            let mut state = state(0.0, &queues);
            state.jobs.iter_mut().for_each(|job| job.queues = vec!["p".into()]);
            of(&state)
        };
        let own = named(["qos/low", "qos/low", "qos/high"]);
        assert_eq!(of_partition(&json!({"*": 1}), &json!({})).1, named(["qos/part"; 3]));
        assert_eq!(of_partition(&json!({}), &json!({})).1, own);
        assert_eq!(of_partition(&json!({"H100": 1}), &json!({})).1, own);
        let (tree, queues) = of_partition(&json!({}), &json!({"*": 2}));
        let users = ["qos/part of u in qos/low", "qos/part of v in qos/low", "qos/part of u"];
        assert_eq!(queues, named(users));
        let row_of = |name: &str| tree.iter().find(|row| row.0 == name).cloned();
        assert_eq!(row_of(users[0]), Some(row(users[0], 2.0, "qos/low")));
        assert_eq!(row_of(users[2]), Some(row(users[2], 2.0, "qos/part")));
        // A job of no user has a queue of its own.
        let mut state = state(0.0, &with(&json!({}), &json!({"*": 2})));
        state.jobs[0].user = None;
        let (tree, queues) = of(&state);
        assert!(
            queues[0].as_deref() == Some("qos/low (its own)") && tree.iter().any(|row| row.0 == "qos/low (its own)")
        );
    }
}
