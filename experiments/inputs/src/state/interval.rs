//! What happened on a cluster between a document and a later one: which jobs came, began and ended, so that a policy can be asked what
//! it would have begun.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::Duration;

use super::check::check;
use super::document::State;
use super::jobs::{JobState, StateJob};
use super::model::{KnownJob, OVER};
use crate::trace::Row;

/// What happened between a document and a later one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// From the one to the other.
    pub length: Duration,
    /// How long jobs ran in all that ended in between, by id.
    took: BTreeMap<String, Duration>,
    /// Jobs that waited, or came, and began.
    pub begun: BTreeMap<String, Begun>,
}

/// When and where a job really began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Begun {
    /// Seconds from the earlier document.
    pub at_s: f64,
    /// Its nodes; empty: they are not known.
    pub nodes: BTreeSet<String>,
    /// GPUs on each of them; empty: they are not known.
    pub gpus: BTreeMap<String, u32>,
}

impl Begun {
    /// A job of a document, which says where it is.
    pub(super) fn on(at_s: f64, job: &StateJob) -> Begun {
        let nodes = job.on.iter().map(|on| on.node.clone()).collect();
        let mut gpus: BTreeMap<String, u32> = BTreeMap::new();
        for on in &job.on {
            *gpus.entry(on.node.clone()).or_default() += on.count;
        }
        Begun { at_s, nodes, gpus }
    }
}

impl Interval {
    /// How long a job takes in all that has run for so long: what it took, or longer than until the later document.
    pub(super) fn run_time(&self, row: &Row, known: &KnownJob) -> Duration {
        let age = known.age;
        let least = age + self.length + OVER;
        match self.took.get(known.id(row)) {
            Some(took) => (*took).max(age + Duration::from_micros(1)),
            None => row.declared.filter(|limit| *limit > least).unwrap_or(least),
        }
    }
}

impl State {
    /// The state with the jobs that came until a later document, and without those that went while they waited; and what happened
    /// in between. Where the later document says no end of a job that is gone, it ended when another began on what it held, or else
    /// after the later document. A job that was listed as waiting, and according to its times ran by then, began at once. One that ran and was begun once more comes
    /// again, with `(again)` behind its id. Nodes and priorities stay as they are here.
    ///
    /// # Errors
    /// A document that is not later.
    pub fn until(mut self, next: &State) -> Result<(State, Interval), String> {
        let (from, to) = (self.since_1970(), next.since_1970());
        if to <= from {
            return Err(format!("expected a later document than that of {}, found {}", self.at, next.at));
        }
        self.clock_from = Some(self.instant());
        let length = to.saturating_sub(from);
        let mut all = Between { length_s: length.as_secs_f64(), interval: Interval { length, ..Interval::default() } };
        let later: BTreeMap<&str, &StateJob> = next.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
        for job in &self.jobs {
            all.started(job, later.get(job.id.as_str()).copied());
        }
        let known: BTreeMap<&str, &StateJob> = self.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
        let came: Vec<StateJob> =
            next.jobs.iter().filter_map(|job| all.came(job, known.get(job.id.as_str()).copied())).collect();
        for job in self.jobs.iter().filter(|job| holds(job)) {
            all.ended(job, later.get(job.id.as_str()).copied(), next);
        }
        let stays = |job: &StateJob| {
            let later = later.get(job.id.as_str());
            match job.state {
                JobState::Waiting | JobState::NotBefore => {
                    all.interval.begun.contains_key(&job.id) || later.is_some_and(|later| later.waits())
                }
                // One that waited for something else comes when it no longer does.
                JobState::Held | JobState::Dependent | JobState::Reserved | JobState::Ended => false,
                JobState::Running | JobState::Suspended | JobState::Ending => true,
            }
        };
        self.jobs.retain(stays);
        let there: BTreeSet<&str> = self.jobs.iter().map(|job| job.id.as_str()).collect();
        let came: Vec<StateJob> = came.into_iter().filter(|job| !there.contains(job.id.as_str())).collect();
        self.jobs.extend(came);
        // Queues that no job was in may not have been told of.
        let known: BTreeSet<String> = self.queues.iter().map(|queue| queue.name.clone()).collect();
        self.queues.extend(next.queues.iter().filter(|queue| !known.contains(&queue.name)).cloned());
        check(&self)?;
        Ok((self, all.interval))
    }
}

fn holds(job: &StateJob) -> bool {
    matches!(job.state, JobState::Running | JobState::Suspended | JobState::Ending)
}

struct Between {
    length_s: f64,
    interval: Interval,
}

impl Between {
    /// When a job of the later document began that did not run, or ran before, and when it ended; none: it has not begun, or was over.
    fn began(&self, later: &StateJob) -> Option<(f64, Option<f64>)> {
        let began = (holds(later) || later.state == JobState::Ended).then_some(later.started_s?)? + self.length_s;
        let ended = later.ended_s.map(|end| end + self.length_s);
        (began >= 0.0 || ended.is_none_or(|ended| ended > 0.0)).then(|| (began.max(0.0), ended))
    }

    fn enter(&mut self, later: &StateJob, id: &str) -> bool {
        let Some((at_s, ended)) = self.began(later) else { return false };
        self.interval.begun.insert(id.into(), Begun::on(at_s, later));
        if let Some(ended) = ended {
            self.interval.took.insert(id.into(), seconds(ended - at_s));
        }
        true
    }

    /// Enters the beginning of a job that waited.
    fn started(&mut self, job: &StateJob, later: Option<&StateJob>) {
        if let Some(later) = later.filter(|_| job.waits()) {
            self.enter(later, &later.id);
        }
    }

    /// Whether a job that ran is the same run in the later document: by its start, as far as that is told.
    fn same_run(&self, job: &StateJob, later: &StateJob) -> bool {
        let begun = holds(later) || later.state == JobState::Ended;
        let apart = job.started_s.zip(later.started_s).map(|(a, b)| b + self.length_s - a);
        begun && apart.is_none_or(|apart| apart.abs() < 1.5)
    }

    /// A job that was not there, or waited for what it no longer waits for: as it came.
    fn came(&mut self, later: &StateJob, known: Option<&StateJob>) -> Option<StateJob> {
        let ran = known.is_some_and(holds);
        let new = known.is_none_or(|known| match known.state {
            JobState::Ended | JobState::Running | JobState::Suspended | JobState::Ending => {
                !self.same_run(known, later)
            }
            JobState::Waiting | JobState::NotBefore => false,
            JobState::Held | JobState::Dependent | JobState::Reserved => true,
        });
        let id = if ran { again(&later.id) } else { later.id.clone() };
        if !new || !(self.enter(later, &id) || later.waits()) {
            return None;
        }
        let began = self.interval.begun.get(&id).map_or(f64::INFINITY, |begun| begun.at_s);
        let could = later.not_before_s.filter(|_| later.waits()).or(later.eligible_s).or(later.submitted_s);
        let at_s = (could.unwrap_or(0.0) + self.length_s).min(began).max(0.0);
        Some(StateJob {
            id,
            state: JobState::NotBefore,
            not_before_s: Some(at_s),
            submitted_s: Some((later.submitted_s.unwrap_or(0.0) + self.length_s).min(0.0)),
            eligible_s: None,
            started_s: None,
            ended_s: None,
            held_s: None,
            deadline_s: later.deadline_s.map(|at| at + self.length_s),
            planned_s: None,
            on: Vec::new(),
            ..later.clone()
        })
    }

    /// Enters the end of a job that held GPUs.
    fn ended(&mut self, job: &StateJob, later: Option<&StateJob>, next: &State) {
        let later = later.filter(|later| self.same_run(job, later));
        if later.is_some_and(holds) {
            return;
        }
        let told = later.and_then(|later| later.ended_s).map(|end| end + self.length_s);
        let taken = || {
            let over = next.jobs.iter().filter(|other| other.id != job.id && meets(job, other));
            let begins = over.filter_map(|other| Some(self.interval.begun.get(&other.id)?.at_s));
            let again = self.interval.begun.get(&again(&job.id)).map(|begun| begun.at_s);
            begins.chain(again).reduce(f64::min)
        };
        if let Some(end) = told.or_else(taken) {
            let age = job.held_s.unwrap_or(-job.started_s.unwrap_or(0.0)).max(0.0);
            self.interval.took.insert(job.id.clone(), seconds(age + end.max(0.0)));
        }
    }
}

/// What a job is called that is begun once more.
fn again(id: &str) -> String {
    format!("{id} (again)")
}

/// Whether two jobs are on the same GPUs, or where those are not known on a node.
fn meets(a: &StateJob, b: &StateJob) -> bool {
    a.on.iter().any(|a| {
        let common = |b: &super::jobs::On| {
            let counted = a.gpus.is_empty() || b.gpus.is_empty();
            a.node == b.node && a.count.min(b.count) > 0 && (counted || a.gpus.iter().any(|gpu| b.gpus.contains(gpu)))
        };
        b.on.iter().any(common)
    })
}

fn seconds(value: f64) -> Duration {
    Duration::from_micros_f64(libm::rint(value.max(0.0) * 1e6))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::of_bytes;
    use super::*;

    fn state(at: &str, jobs: &Value) -> State {
        let nodes = json!([{"name": "a", "gpus": 4, "state": "up"}, {"name": "b", "gpus": 4, "state": "up"}]);
        let document = json!({"sandtable": "state@1", "at": format!("2026-11-20T{at}Z"), "source": {"kind": "other"},
            "nodes": nodes, "queues": [], "reservations": [], "unknown": [], "ignored": [], "jobs": jobs});
        of_bytes("s.json".as_ref(), document.to_string().as_bytes()).expect("a state")
    }

    /// Ten minutes: r1 ends, r2 goes on, r3 is gone and w1 has its GPUs; w2 waits on, w3 is gone, d waits for nothing more; c came, and
    /// s came, ran and ended.
    fn ten_minutes() -> (State, Interval) {
        let runs = |id: &str, on: &str, count: u32, since: i32| json!({"id": id, "state": "running", "gpus": count, "started_s": since, "on": [{"node": on, "count": count}]});
        let waits =
            |id: &str, state: &str, since: i32| json!({"id": id, "state": state, "gpus": 1, "submitted_s": since});
        let over = |id: &str, from: i32, to: i32| {
            json!({"id": id, "state": "ended", "gpus": 1, "submitted_s": from, "started_s": from, "ended_s": to,
                "on": [{"node": "a", "count": 1}]})
        };
        let first = json!([
            runs("r1", "a", 1, -50),
            runs("r2", "a", 1, -60),
            runs("r3", "b", 4, -70),
            waits("w1", "waiting", -9),
            waits("w2", "waiting", -8),
            waits("w3", "waiting", -7),
            waits("d", "dependent", -6)
        ]);
        let second = json!([
            runs("r2", "a", 1, -660),
            runs("w1", "b", 1, -200),
            waits("w2", "waiting", -608),
            waits("d", "waiting", -606),
            waits("c", "waiting", -30),
            over("r1", -650, -400),
            over("s", -500, -450)
        ]);
        state("00:00:00", &first).until(&state("00:10:00", &second)).expect("later")
    }

    #[test]
    fn what_came_began_and_ended_is_known() {
        let (from, interval) = ten_minutes();
        let ids: Vec<&str> = from.jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(ids, ["r1", "r2", "r3", "w1", "w2", "d", "c", "s"]);
        let comes: Vec<Option<f64>> = from.jobs[5..].iter().map(|job| job.not_before_s).collect();
        assert_eq!(comes, [0.0, 570.0, 100.0].map(Some));
        let begun: Vec<(&str, f64, usize)> =
            interval.begun.iter().map(|(job, begun)| (job.as_str(), begun.at_s, begun.nodes.len())).collect();
        assert_eq!(begun, [("s", 100.0, 1), ("w1", 400.0, 1)]);
    }

    #[test]
    fn jobs_take_what_they_took_or_go_on_past_the_later_document() {
        let (_, interval) = ten_minutes();
        let takes = |id: &str, age: u64, limit: Option<u64>| {
            let mut row = Row::new(id.to_string(), sandtable_hardware::Instant::START, 1, Duration::ZERO);
            row.declared = limit.map(Duration::from_secs);
            interval.run_time(&row, &KnownJob { age: Duration::from_secs(age), ..KnownJob::default() }).as_secs_f64()
        };
        // r1 ended after 200 s; on what r3 held w1 began after 400 s.
        assert_eq!((takes("r1", 50, Some(9000)), takes("r3", 70, None), takes("s", 0, None)), (250.0, 470.0, 50.0));
        // The others end at their limits, where those are later, or just after.
        assert_eq!(
            (takes("r2", 60, Some(9000)), takes("r2", 60, Some(100)), takes("w2", 0, None)),
            (9000.0, 661.0, 601.0)
        );
    }

    #[test]
    fn a_job_that_is_begun_once_more_comes_again() {
        let runs = |since: i32, node: &str| json!({"id": "r", "state": "running", "gpus": 4, "started_s": since, "on": [{"node": node, "count": 4}]});
        let over = |from: i32, to: i32| json!({"id": "r", "state": "ended", "gpus": 4, "submitted_s": -90, "started_s": from, "ended_s": to, "on": []});
        let between = |first: Value, second: Value| {
            let later = state("00:10:00", &json!([second]));
            let (from, interval) = state("00:00:00", &json!([first])).until(&later).expect("later");
            let ids: Vec<String> = from.jobs.into_iter().map(|job| job.id).collect();
            let begun: Vec<(String, f64)> =
                interval.begun.iter().map(|(job, begun)| (job.clone(), begun.at_s)).collect();
            (ids, begun, interval.took.get("r").map(|took| took.as_secs_f64()))
        };
        let words = |of: &[&str]| of.iter().map(|word| (*word).to_string()).collect::<Vec<String>>();
        let again = vec![("r (again)".to_string(), 580.0)];
        // When the first run ended is not told: by the time when the second began.
        let expected = (words(&["r", "r (again)"]), again, Some(640.0));
        assert_eq!(between(runs(-60, "a"), runs(-20, "b")), expected);
        assert_eq!(between(runs(-60, "a"), over(-20, -5)), expected);
        // One that was over runs again.
        let (ids, begun, _) = between(over(-90, -60), runs(-20, "a"));
        assert_eq!((ids, begun), (words(&["r"]), vec![("r".to_string(), 580.0)]));
        // Over it stays over.
        assert_eq!(between(over(-90, -60), over(-690, -660)), (Vec::new(), Vec::new(), None));
        // A run whose start is not told is the same run.
        let silent = json!({"id": "r", "state": "running", "gpus": 4, "on": [{"node": "a", "count": 4}]});
        assert_eq!(between(silent.clone(), silent), (words(&["r"]), Vec::new(), None));
    }

    #[test]
    fn what_was_listed_before_it_began_began_at_once() {
        // The listing is older than the instant: it says waiting, and at the instant the job ran.
        let waits = json!({"id": "w", "state": "waiting", "gpus": 1, "submitted_s": -9});
        let runs = |id: &str| json!({"id": id, "state": "running", "gpus": 1, "started_s": -601, "on": [{"node": "a", "count": 1}]});
        let later = state("00:10:00", &json!([runs("w"), runs("x")]));
        let (from, interval) = state("00:00:00", &json!([waits])).until(&later).expect("later");
        assert_eq!(from.jobs.len(), 2);
        assert_eq!(interval.begun.values().map(|begun| begun.at_s).collect::<Vec<_>>(), [0.0, 0.0]);
    }

    #[test]
    fn an_earlier_document_is_refused() {
        let at = |at: &str| state(at, &json!([]));
        let why = at("00:10:00").until(&at("00:10:00")).expect_err("not later");
        assert_eq!(why, "expected a later document than that of 2026-11-20T00:10:00Z, found 2026-11-20T00:10:00Z");
    }
}
