//! What no cluster can be: names that stand for two things or for none, GPUs that two jobs hold, times that are none.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Association, SharingMode, State, StateNode};
use super::jobs::{JobState, StateJob};
use sandtable_hardware::Job;

/// Times in a document are at most so many seconds from its instant: three hundred years.
pub(super) const FARTHEST_S: f64 = 1e10;
/// Most GPUs of a node, and of a job.
const MOST_GPUS: (u32, u32) = (1024, 10_000_000);

/// What contradicts itself, with the place of it.
pub(super) fn check(state: &State) -> Result<(), String> {
    state
        .at
        .parse::<jiff::Timestamp>()
        .map_err(|_| format!("at: expected an instant as in \"2026-11-20T01:05:32Z\", found {:?}", state.at))?;
    once("nodes", state.nodes.iter().map(|node| node.name.as_str()))?;
    once("queues", state.queues.iter().map(|queue| queue.name.as_str()))?;
    once("jobs", state.jobs.iter().map(|job| job.id.as_str()))?;
    let queues: BTreeMap<&str, Option<&str>> =
        state.queues.iter().map(|queue| (queue.name.as_str(), queue.parent.as_deref())).collect();
    acyclic(&queues)?;
    for queue in &state.queues {
        if let Some(other) = queue.preempts.iter().find(|other| !queues.contains_key(other.as_str())) {
            return Err(format!("queue {:?}: preempts: no queue {other:?}", queue.name));
        }
        if let Some(other) = queue.charges.iter().find(|other| !queues.contains_key(other.as_str())) {
            return Err(format!("queue {:?}: charges: no queue {other:?}", queue.name));
        }
    }
    associations(&state.associations)?;
    for of in &state.reservations {
        let sane = |at: f64| at.is_finite() && at.abs() <= FARTHEST_S;
        if !(sane(of.from_s) && sane(of.to_s) && of.from_s < of.to_s) {
            return Err(format!(
                "reservation {:?}: expected an end after its beginning, found {} to {}",
                of.name, of.from_s, of.to_s
            ));
        }
    }
    jobs(state, &queues)
}

/// Jobs hold what there is, each GPU once.
fn jobs(state: &State, queues: &BTreeMap<&str, Option<&str>>) -> Result<(), String> {
    let nodes: BTreeMap<&str, &StateNode> = state.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let (mut held, mut counts) = (BTreeMap::new(), BTreeMap::<&str, u64>::new());
    for node in &state.nodes {
        if node.gpus > MOST_GPUS.0 {
            return Err(format!("node {:?}: expected at most {} GPUs, found {}", node.name, MOST_GPUS.0, node.gpus));
        }
        for gpu in &node.taken {
            give(&mut held, node, (*gpu, None), "`taken`").map_err(|why| format!("node {:?}: {why}", node.name))?;
        }
    }
    for job in &state.jobs {
        let wrong = |why: String| format!("job {:?}: {why}", job.id);
        if job.gpus > MOST_GPUS.1 {
            return Err(wrong(format!("expected at most {} GPUs, found {}", MOST_GPUS.1, job.gpus)));
        }
        times(job).map_err(wrong)?;
        for (name, value) in [("cpus", job.cpus), ("ram_mib", job.ram_mib)] {
            if let Some(value) = value.filter(|value| !(0.0..=1e15).contains(value)) {
                return Err(wrong(format!("{name}: expected a number from 0 to 1e15, found {value}")));
            }
        }
        if let Some(queue) = job.queues.iter().chain(&job.charges).find(|queue| !queues.contains_key(queue.as_str())) {
            return Err(wrong(format!("no queue {queue:?}")));
        }
        if job.state == JobState::Ended {
            over(job).map_err(wrong)?;
        } else {
            places(job, &nodes, &mut held).map_err(wrong)?;
            let holds = matches!(job.state, JobState::Running | JobState::Suspended | JobState::Ending);
            if !holds && job.on.iter().any(|on| on.count > 0) {
                return Err(wrong("it does not run, and holds GPUs".into()));
            }
            for on in &job.on {
                let each = u64::from(job.share_of(on).unwrap_or(Job::WHOLE));
                *counts.entry(&on.node).or_default() += u64::from(on.count) * each;
            }
        }
    }
    let counts = nodes
        .values()
        .filter(|node| is_exclusive(node))
        .map(|node| (node, counts.get(node.name.as_str()).copied().unwrap_or(0)))
        .map(|(node, milli)| (node, milli.div_ceil(u64::from(Job::WHOLE)) + node.taken.len() as u64));
    match counts.into_iter().find(|(node, count)| *count > u64::from(node.gpus)) {
        Some((node, count)) => Err(format!("node {:?} has {} GPUs, and jobs hold {count}", node.name, node.gpus)),
        None => Ok(()),
    }
}

/// Accounts come before those in them and before their users, and each once.
fn associations(all: &[Association]) -> Result<(), String> {
    let mut known: BTreeSet<(Option<&str>, Option<&str>)> = BTreeSet::new();
    for (at, of) in all.iter().enumerate() {
        let wrong = |why: String| Err(format!("associations[{at}]: {why}"));
        let (account, user) = (of.account.as_deref(), of.user.as_deref());
        if account.is_none() && user.is_none() {
            return wrong("expected an account or a user".into());
        }
        let above = if user.is_some() { account } else { of.within.as_deref() };
        if let Some(above) = above.filter(|above| !known.contains(&(Some(above), None))) {
            return wrong(format!("no account {above:?} comes before it"));
        }
        for (what, value) in [("shares", of.shares), ("used", of.used)] {
            if let Some(value) = value.filter(|value| !(0.0..=1e15).contains(value)) {
                return wrong(format!("`{what}`: expected a number from 0 to 1e15, found {value}"));
            }
        }
        if !known.insert((account, user)) {
            return wrong(format!("{:?} is there twice", user.or(account).unwrap_or_default()));
        }
    }
    Ok(())
}

fn once<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("{what}: one has no name"));
        }
        if !seen.insert(name) {
            return Err(format!("{what}: two are called {name:?}"));
        }
    }
    Ok(())
}

/// Queues are in others that there are, and in the end in none.
fn acyclic(queues: &BTreeMap<&str, Option<&str>>) -> Result<(), String> {
    for queue in queues.keys() {
        let (mut at, mut steps) = (*queue, 0);
        while let Some(Some(parent)) = queues.get(at) {
            if !queues.contains_key(parent) {
                return Err(format!("queue {at:?}: no queue {parent:?}"));
            }
            steps += 1;
            if steps > queues.len() {
                return Err(format!("queue {queue:?} is in itself, by {parent:?}"));
            }
            at = parent;
        }
    }
    Ok(())
}

fn times(job: &StateJob) -> Result<(), String> {
    let named = [
        ("submitted_s", job.submitted_s),
        ("eligible_s", job.eligible_s),
        ("not_before_s", job.not_before_s),
        ("started_s", job.started_s),
        ("ended_s", job.ended_s),
        ("deadline_s", job.deadline_s),
        ("held_s", job.held_s),
        ("limit_s", job.limit_s),
    ];
    let plus = job.after.iter().map(|after| ("after.plus_s", after.plus_s));
    for (name, value) in named.into_iter().chain(plus) {
        let Some(value) = value else { continue };
        if value.is_nan() || value.abs() > FARTHEST_S {
            return Err(format!("{name}: expected at most {FARTHEST_S:e} s, found {value}"));
        }
        let (past, span) =
            (matches!(name, "submitted_s" | "started_s" | "ended_s"), matches!(name, "held_s" | "limit_s"));
        if past && value > 0.0 || span && value < 0.0 {
            return Err(format!("{name}: expected {} 0, found {value}", if past { "at most" } else { "at least" }));
        }
    }
    Ok(())
}

fn is_exclusive(node: &StateNode) -> bool {
    node.sharing.as_ref().is_none_or(|sharing| sharing.mode == SharingMode::Exclusive)
}

/// Who holds a GPU, and thousandths of it that are held.
type Held<'a> = BTreeMap<(&'a str, u32), (String, u32)>;

fn give<'a>(
    held: &mut Held<'a>,
    node: &'a StateNode,
    (gpu, part): (u32, Option<u32>),
    who: &str,
) -> Result<(), String> {
    if gpu >= node.gpus {
        return Err(format!("GPU {gpu} of node {:?}, which has {}", node.name, node.gpus));
    }
    let share = part.unwrap_or(Job::WHOLE);
    let Some((other, before)) = held.get(&(node.name.as_str(), gpu)).filter(|_| is_exclusive(node)) else {
        held.insert((&node.name, gpu), (who.to_string(), share));
        return Ok(());
    };
    let all = before + share;
    if part.is_none() || *before == Job::WHOLE {
        return Err(format!("GPU {gpu} of node {:?} is held by {other} too", node.name));
    }
    if all > Job::WHOLE {
        let whole = Job::WHOLE;
        return Err(format!("GPU {gpu} of node {:?} has {whole} thousandths, and jobs hold {all}", node.name));
    }
    held.insert((&node.name, gpu), (who.to_string(), all));
    Ok(())
}

/// A job that is over holds nothing, and says when it ended. The nodes that it had may be gone.
fn over(job: &StateJob) -> Result<(), String> {
    let ended = job.ended_s.ok_or("it is over, and does not say when it ended: `ended_s`")?;
    if job.started_s.is_some_and(|started| started > ended) {
        return Err(format!("expected an end after its start, found {ended}"));
    }
    Ok(())
}

fn places<'a>(job: &'a StateJob, nodes: &BTreeMap<&str, &'a StateNode>, held: &mut Held<'a>) -> Result<(), String> {
    let mut count = 0u32;
    for on in &job.on {
        let node = nodes.get(on.node.as_str()).ok_or_else(|| format!("on: no node {:?}", on.node))?;
        if !on.gpus.is_empty() && on.gpus.len() != on.count as usize {
            return Err(format!(
                "on: {} GPUs of node {:?} are named, and {} counted",
                on.gpus.len(),
                on.node,
                on.count
            ));
        }
        on.gpus.iter().try_for_each(|gpu| give(held, node, (*gpu, job.share_of(on)), &format!("job {:?}", job.id)))?;
        count = count.saturating_add(on.count);
    }
    if count > job.gpus {
        return Err(format!("it has {} GPUs, and holds {count}", job.gpus));
    }
    Ok(())
}
