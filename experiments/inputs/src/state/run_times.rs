//! How long the jobs of a cluster really take: what a document does not say, and forecasts rest on.

use std::collections::BTreeMap;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{Duration, Instant};

use super::interval::Interval;
use super::model::{KnownJob, OVER};
use crate::trace::{Row, Trace};

/// A draw that is not more than a job's age is made again, so often.
const TRIES: u32 = 1000;

/// What jobs are alike by, best first.
const LEVELS: [&str; 4] = ["user and name", "user and GPUs", "account", "all"];
type Keys = [Option<String>; LEVELS.len()];

fn keys(user: Option<&str>, name: Option<&str>, gpus: u32, account: Option<&str>) -> Keys {
    [
        user.zip(name).map(|(user, name)| format!("{user}\0{name}")),
        user.map(|user| format!("{user}\0{gpus}")),
        account.map(str::to_string),
        Some(String::new()),
    ]
}

/// How long jobs really take. Every draw is of the seed and the job's name alone: under two policies, or with and without a change
/// to the cluster, a job takes as long.
#[derive(Clone, Debug)]
pub enum RunTimeModel {
    /// Log-normal around a part of the limit.
    Noisy {
        /// The median, as a part of the limit.
        part: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// As one of those that are alike and have ended.
    History(History),
    /// As long as is known by name; others take their limit.
    Known(BTreeMap<String, Duration>),
    /// As a later document shows; those that it shows no end of do not end before it.
    Interval(Interval),
}

impl RunTimeModel {
    /// How long a job takes in all under a seed: more than it has run. What was drawn is cut at its time limit.
    pub fn run_time(&self, row: &Row, known: &KnownJob, seed: u64) -> Duration {
        if known.ends {
            return row.duration;
        }
        if let RunTimeModel::Interval(interval) = self {
            return interval.run_time(row, known);
        }
        let stream = || Stream::new(seed, &format!("run time/{}", known.id(row)));
        let (age, limit) = (known.age, row.declared);
        let drawn = match self {
            RunTimeModel::Known(times) => match times.get(known.id(row)) {
                Some(time) => return if *time > age { *time } else { age + OVER },
                None => None,
            },
            RunTimeModel::Interval(_) => None,
            RunTimeModel::Noisy { part, sigma } => limit.and_then(|limit| {
                let (median, mut stream) = (limit.as_micros_f64() * part, stream());
                let draw = |_| Duration::from_micros_f64(libm::ceil(stream.log_normal(median, *sigma)).min(9e15));
                (0..TRIES).map(draw).find(|drawn| *drawn > age)
            }),
            RunTimeModel::History(history) => {
                let (_, alike) = history.older(&known.keys(row), age);
                (!alike.is_empty()).then(|| alike[stream().below(alike.len())])
            }
        };
        // Where nothing was seen to run for longer and there is no limit, it takes as long again.
        let takes = match (drawn, limit) {
            (Some(drawn), Some(limit)) => drawn.min(limit),
            (Some(drawn), None) => drawn,
            (None, Some(limit)) => limit,
            (None, None) => age + age,
        };
        if takes > age { takes } else { age + OVER }
    }
}

impl KnownJob {
    fn keys(&self, row: &Row) -> Keys {
        keys(row.user.as_deref(), self.name.as_deref(), row.gpus, self.account.as_deref())
    }
}

/// The run times of jobs that have ended.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// A level needs so many run times above a job's age; the last needs one.
    least: usize,
    /// By level: run times by what jobs are alike by, ascending.
    levels: [BTreeMap<String, Vec<Duration>>; LEVELS.len()],
    jobs: usize,
    /// How good it is, where it has jobs enough to say.
    pub calibration: Option<Calibration>,
}

/// What the half of a history that was submitted earlier says of the other one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Jobs of the later half.
    pub held_out: usize,
    /// The share of them that took no longer than the median of those that were alike.
    pub within_p50: f64,
    /// The share that took no longer than their 90th percentile.
    pub within_p90: f64,
}

/// Fewer jobs say nothing of how good a history is.
const ENOUGH: usize = 20;

impl History {
    /// The history of the jobs of a trace that ended by an instant of its clock; later ones are not looked at.
    pub fn of(trace: &Trace, least: usize, until: Option<Duration>) -> History {
        let known = |row: &&Row| ended(row).is_some_and(|end| until.is_none_or(|until| end <= until));
        // By submission, as a trace's rows are: by their ends the long ones would all be in the later half.
        let rows: Vec<&Row> = trace.rows.iter().filter(known).filter(|row| !row.duration.is_zero()).collect();
        let mut history = History::of_rows(&rows, least);
        let (earlier, later) = rows.split_at(rows.len() / 2);
        if later.len() >= ENOUGH {
            let known = History::of_rows(earlier, least);
            let within = |quantile: f64| {
                let fits =
                    later.iter().filter(|row| known.quantile(row, quantile).is_some_and(|at| row.duration <= at));
                fits.count() as f64 / later.len() as f64
            };
            let (within_p50, within_p90) = (within(0.5), within(0.9));
            history.calibration = Some(Calibration { held_out: later.len(), within_p50, within_p90 });
        }
        history
    }

    fn of_rows(rows: &[&Row], least: usize) -> History {
        let mut history = History { least, jobs: rows.len(), ..History::default() };
        for row in rows {
            for (level, key) in history.levels.iter_mut().zip(keys_of(row)) {
                if let Some(key) = key {
                    level.entry(key).or_default().push(row.duration);
                }
            }
        }
        history.levels.iter_mut().flat_map(BTreeMap::values_mut).for_each(|times| times.sort_unstable());
        history
    }

    /// The run times above an age of jobs that are alike, ascending, and the level at which they are; empty: none is known.
    fn older(&self, keys: &Keys, age: Duration) -> (&'static str, &[Duration]) {
        for (at, (level, key)) in self.levels.iter().zip(keys).enumerate() {
            let Some(all) = key.as_ref().and_then(|key| level.get(key)) else { continue };
            let older = &all[all.partition_point(|time| *time <= age)..];
            let enough = if at + 1 == LEVELS.len() { 1 } else { self.least.max(1) };
            if older.len() >= enough {
                return (LEVELS[at], older);
            }
        }
        ("limit", &[])
    }

    /// A quantile of the run times that are like a job's, cut at its limit.
    fn quantile(&self, row: &Row, quantile: f64) -> Option<Duration> {
        let (_, alike) = self.older(&keys_of(row), Duration::ZERO);
        let at = (libm::ceil(quantile * alike.len() as f64 - 1e-9) as usize).max(1) - 1;
        let time = *alike.get(at)?;
        Some(row.declared.map_or(time, |limit| time.min(limit)))
    }

    /// How many jobs it has.
    pub fn len(&self) -> usize {
        self.jobs
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// In words: how many jobs it has, by what those of a cluster are alike to them, and how good it is.
    pub fn in_words<'a>(&self, jobs: impl Iterator<Item = (&'a Row, &'a KnownJob)>) -> String {
        let mut by: BTreeMap<usize, (&str, u32)> = BTreeMap::new();
        for (row, known) in jobs.filter(|(_, known)| !known.ends) {
            let (level, _) = self.older(&known.keys(row), known.age);
            let at = LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len());
            by.entry(at).or_insert((level, 0)).1 += 1;
        }
        let by: Vec<String> = by.values().map(|(level, count)| format!("{level} {count}")).collect();
        let calibration = match self.calibration {
            None => "too few to say how good it is".to_string(),
            Some(Calibration { held_out, within_p50, within_p90 }) => format!(
                "of the later {held_out} {:.0} % took at most their P50 by the earlier ones, {:.0} % their P90",
                within_p50 * 100.0,
                within_p90 * 100.0
            ),
        };
        format!("history of {} jobs (by {}; {calibration})", self.jobs, by.join(", "))
    }
}

fn keys_of(row: &Row) -> Keys {
    let recorded = row.recorded.as_deref();
    let name = recorded.and_then(|recorded| recorded.job_name.as_deref());
    keys(row.user.as_deref(), name, row.gpus, recorded.and_then(|recorded| recorded.account.as_deref()))
}

/// When a job of a trace ended; none: it ran still.
fn ended(row: &Row) -> Option<Duration> {
    match row.recorded.as_deref() {
        Some(recorded) if recorded.outcome.as_deref() == Some("running") => None,
        Some(recorded) if recorded.end.is_some() => recorded.end.map(Instant::since_start),
        _ => Some((row.submit + row.duration).since_start()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::trace::Recorded;
    use sandtable_hardware::SECOND;

    fn ran(user: &str, name: &str, seconds: u64, end: u64) -> Row {
        let mut row = Row::new("j".into(), Instant::START, 1, seconds * SECOND);
        let end = Some(Instant::at(end * SECOND));
        row.recorded = Some(Box::new(Recorded { end, job_name: Some(name.into()), ..Recorded::default() }));
        Arc::make_mut(&mut row.asked).user = Some(user.into());
        row
    }

    fn waits(user: &str, limit: u64, age: u64, name: Option<&str>) -> (Row, KnownJob) {
        let mut row = Row::new("w".into(), Instant::START, 1, limit * SECOND);
        row.declared = Some(limit * SECOND);
        Arc::make_mut(&mut row.asked).user = Some(user.into());
        (row, KnownJob { age: age * SECOND, name: name.map(str::to_string), ..KnownJob::default() })
    }

    fn drawn(model: &RunTimeModel, (row, known): &(Row, KnownJob)) -> Vec<u64> {
        let mut all: Vec<u64> = (0..200).map(|seed| model.run_time(row, known, seed).as_micros() / 1_000_000).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn a_job_takes_as_long_as_one_like_it_that_ran_for_longer_than_it_has() {
        let rows: Vec<Row> = (1..=6)
            .map(|i| ran("ada", "train", 10 * i, i))
            .chain((1..=6).map(|i| ran("bob", "x", 1000 * i, 9)))
            .collect();
        let trace = Trace { rows, ..Trace::default() };
        let model = RunTimeModel::History(History::of(&trace, 3, None));
        assert_eq!(drawn(&model, &waits("ada", 9999, 0, Some("train"))), [10, 20, 30, 40, 50, 60]);
        assert_eq!(drawn(&model, &waits("ada", 9999, 30, Some("train"))), [40, 50, 60]);
        // Two of its name are older, too few: of all users the same, and of all.
        let all = [50, 60, 1000, 2000, 3000, 4000, 5000, 6000];
        assert_eq!(drawn(&model, &waits("ada", 9999, 40, Some("train"))), all);
        // Cut at the limit; older than all: the limit; older than that: a moment more.
        assert_eq!(drawn(&model, &waits("bob", 2500, 0, None)), [1000, 2000, 2500]);
        assert_eq!(drawn(&model, &waits("bob", 9999, 7000, None)), [9999]);
        assert_eq!(drawn(&model, &waits("bob", 100, 7000, None)), [7001]);
        // What ended later is not known.
        let early = RunTimeModel::History(History::of(&trace, 3, Some(3 * SECOND)));
        assert_eq!(drawn(&early, &waits("eve", 9999, 0, None)), [10, 20, 30]);
    }

    #[test]
    fn noise_is_around_a_part_of_the_limit_and_never_below_the_age() {
        let model = RunTimeModel::Noisy { part: 0.5, sigma: 0.5 };
        let times = drawn(&model, &waits("ada", 1000, 0, None));
        assert!(times[0] < 300 && times[times.len() - 1] == 1000, "{times:?}");
        let older = drawn(&model, &waits("ada", 1000, 600, None));
        assert!(older[0] >= 600, "{older:?}");
        let known = RunTimeModel::Known(BTreeMap::from([("w".into(), 77 * SECOND)]));
        assert_eq!(drawn(&known, &waits("ada", 50, 0, None)), [77]);
        assert_eq!(drawn(&known, &waits("ada", 50, 90, None)), [91]);
    }

    #[test]
    fn a_history_says_how_good_it_is() {
        let rows: Vec<Row> = (0..100).map(|i| ran("ada", "train", 1 + (i * 37) % 100, i)).collect();
        let history = History::of(&Trace { rows, ..Trace::default() }, 5, None);
        let calibration = history.calibration.expect("enough jobs");
        assert_eq!(calibration.held_out, 50);
        assert!((calibration.within_p50 - 0.5).abs() < 0.1 && (calibration.within_p90 - 0.9).abs() < 0.08);
        let job = waits("ada", 50, 0, Some("train"));
        let words = history.in_words([(&job.0, &job.1)].into_iter());
        assert!(words.starts_with("history of 100 jobs (by user and name 1; of the later 50 "), "{words}");
    }
}
