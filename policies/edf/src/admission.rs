//! Which jobs are refused.

use std::collections::BTreeSet;

use sandtable_policy::{Batch, Cluster, Event, Instant, Job, JobId, JobMap, JobPhase, Trigger};

/// When a job is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// It waits, and would miss its deadline if it started now.
    Hopeful,
    /// As it comes, it would miss its deadline, or make a job miss its own that would meet it otherwise.
    Feasible,
}

impl Rule {
    pub(crate) const WORDS: &'static [&'static str] = &["all", "hopeful", "feasible"];

    pub(crate) fn named(word: &str) -> Option<Rule> {
        match word {
            "hopeful" => Some(Rule::Hopeful),
            "feasible" => Some(Rule::Feasible),
            _ => None,
        }
    }
}

pub(crate) struct Admission {
    rule: Rule,
    /// Jobs with a deadline that wait, by the instant at which they must start at the latest.
    starts: BTreeSet<(Instant, JobId)>,
    /// The instant of each.
    latest: JobMap<Instant>,
}

impl Admission {
    pub(crate) fn new(rule: Rule) -> Admission {
        Admission { rule, starts: BTreeSet::new(), latest: JobMap::default() }
    }

    /// The jobs that are refused now, all of which wait.
    pub(crate) fn refused(&mut self, batch: &Batch, cluster: &Cluster) -> Vec<JobId> {
        match self.rule {
            Rule::Hopeful => self.hopeless(batch, cluster),
            Rule::Feasible => infeasible(batch, cluster),
        }
    }

    fn hopeless(&mut self, batch: &Batch, cluster: &Cluster) -> Vec<JobId> {
        let queued = batch.events.iter().flat_map(|event| cluster.queued_by(event));
        let due: Vec<&Job> = queued.filter(|job| job.deadline.is_some()).collect();
        let ids: Vec<JobId> = due.iter().map(|job| job.id).collect();
        let mut late: Vec<JobId> = Vec::new();
        for (job, left) in due.into_iter().zip(lasts(cluster, &ids)) {
            self.forget(job.id);
            let (Some(deadline), Some(left)) = (job.deadline, left) else { continue };
            match deadline.checked_sub(left) {
                Some(latest) => {
                    self.starts.insert((latest, job.id));
                    self.latest.insert(job.id, latest);
                }
                None => late.push(job.id),
            }
        }
        late.extend(self.starts.range(..(cluster.now(), 0)).map(|(_, id)| *id));
        late.iter().for_each(|id| self.forget(*id));
        late.into_iter().filter(|id| cluster.get(*id).is_some_and(Job::waits)).collect()
    }

    fn forget(&mut self, id: JobId) {
        if let Some(latest) = self.latest.remove(id) {
            self.starts.remove(&(latest, id));
        }
    }
}

/// What is left of each job, µs; none where it is unknown.
fn lasts(cluster: &Cluster, ids: &[JobId]) -> Vec<Option<u64>> {
    let micros = |left: f64| (!left.is_nan()).then(|| (left * 1e6).round() as u64);
    cluster.remaining(ids).into_iter().map(micros).collect()
}

/// Jobs that come with this batch, one after the other, laid out by deadline with those that are here. Those that were here before the
/// policy took over have been admitted.
fn infeasible(batch: &Batch, cluster: &Cluster) -> Vec<JobId> {
    let came = batch.events.iter().filter_map(|event| match event {
        Event::JobArrived(arrival) => cluster.get(arrival.job),
        _ => None,
    });
    let came: BTreeSet<JobId> = came.filter(|job| job.waits() && job.deadline.is_some()).map(|job| job.id).collect();
    if came.is_empty() || batch.trigger == Trigger::Resync {
        return Vec::new();
    }
    let of = |job: &Job| job.deadline.is_some() && job.phase != JobPhase::Ended;
    let ids: Vec<JobId> = cluster.jobs().filter(|job| of(job)).map(|job| job.id).collect();
    // A job of unknown length is neither refused nor in the way of others.
    let asks = ids.iter().zip(lasts(cluster, &ids)).filter_map(|(id, left)| {
        let job = cluster.job(*id);
        let milli = u64::from(job.gpus) * u64::from(if cluster.is_fraction(job.share) { job.share } else { 1000 });
        Some(Due { id: *id, deadline: job.deadline?, milli, left: left? })
    });
    let (mut dues, new): (Vec<Due>, Vec<Due>) = asks.partition(|due| !came.contains(&due.id));
    dues.sort_unstable_by_key(|due| (due.deadline, due.id));
    let capacity = 1000 * u64::from(cluster.all_up_gpus());
    let mut missed = missed(&dues, cluster.now(), capacity);
    let mut refused = Vec::new();
    for due in new {
        let at = dues.partition_point(|other| (other.deadline, other.id) < (due.deadline, due.id));
        dues.insert(at, due);
        let then = self::missed(&dues, cluster.now(), capacity);
        if then.iter().all(|id| missed.contains(id)) {
            missed = then;
        } else {
            dues.remove(at);
            refused.push(due.id);
        }
    }
    refused
}

/// A job with a deadline.
#[derive(Clone, Copy)]
struct Due {
    id: JobId,
    deadline: Instant,
    /// Thousandths of a GPU.
    milli: u64,
    /// µs.
    left: u64,
}

/// The jobs that miss their deadline where each, by deadline, gets its GPUs as early as those before leave them, in as many pieces as
/// it takes.
fn missed(dues: &[Due], now: Instant, capacity: u64) -> BTreeSet<JobId> {
    // Free thousandths of GPUs from each instant on.
    let mut profile: Vec<(Instant, u64)> = vec![(now, capacity)];
    let mut missed = BTreeSet::new();
    for due in dues {
        let (mut left, mut at) = (due.left, 0);
        while left > 0 && at < profile.len() {
            let (from, free) = profile[at];
            if free >= due.milli {
                let end = from.saturating_add(left);
                let until = profile.get(at + 1).map_or(Instant::MAX, |(next, _)| *next);
                if end < until {
                    profile.insert(at + 1, (end, free));
                }
                profile[at].1 -= due.milli;
                left -= (end.min(until) - from).min(left);
            }
            at += 1;
        }
        let end = if left > 0 { Instant::MAX } else { profile.get(at).map_or(Instant::MAX, |(from, _)| *from) };
        if end > due.deadline {
            missed.insert(due.id);
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(id: JobId, deadline: Instant, milli: u64, left: u64) -> Due {
        Due { id, deadline, milli, left }
    }

    #[test]
    fn jobs_are_laid_out_by_deadline_in_what_those_before_leave() {
        let all = [due(0, 10, 2, 10), due(1, 20, 3, 10), due(2, 20, 1, 15), due(3, 25, 1, 5)];
        assert_eq!(missed(&all, 0, 3), BTreeSet::from([2]), "job 2 has one GPU from 0 to 10, and again from 20 on");
        assert_eq!(missed(&all, 0, 4), BTreeSet::new());
        assert_eq!(missed(&all, 0, 1), BTreeSet::from([0, 1]), "gangs that the cluster can't hold");
        assert_eq!(missed(&[due(0, 5, 1, u64::MAX)], 7, 1), BTreeSet::from([0]), "one that never ends");
    }
}
