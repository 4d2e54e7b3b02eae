//! Jobs drawn from those of a trace, for a fleet and a load of one's own.

use compact_str::ToCompactString as _;
use sandtable_hardware::Duration;
use sandtable_hardware::random::Stream;

use super::arrivals::Instants;
use super::generate::{FleetShape, Weighted};
use super::{Arrivals, MAX_JOBS, Row};

/// What to draw.
#[derive(Clone, Debug)]
pub struct Resample {
    /// For how long they come.
    pub span: Duration,
    /// How they come; with a load.
    pub arrivals: Arrivals,
    /// Most GPUs that one asks for; none: as many as the fleet has.
    pub most_gpus: Option<u32>,
    /// Names and weights of workloads of the profile, for jobs that are of none; empty: they stay so.
    pub workloads: Vec<(String, f64)>,
}

impl Resample {
    /// Most GPUs that a job asks for.
    fn most(&self, fleet: FleetShape) -> u32 {
        self.most_gpus.map_or(fleet.largest, |most| most.min(fleet.largest))
    }

    fn may_be(&self, row: &Row, fleet: FleetShape) -> bool {
        (1..=self.most(fleet)).contains(&row.gpus)
    }

    /// How many jobs are drawn of a trace, about; `takes` as for [`resample`].
    pub fn about(&self, trace: impl Iterator<Item = Row>, fleet: FleetShape, takes: impl Fn(&Row) -> f64) -> usize {
        let works = trace.filter(|row| self.may_be(row, fleet)).map(|row| work_of(&row, &takes));
        let (count, work) = works.fold((0.0, 0.0), |(count, sum), work| (count + 1.0, sum + work));
        let offered = self.arrivals.load().unwrap_or(0.0) * fleet.capacity * self.span.as_micros_f64();
        if work > 0.0 { (offered / work * count) as usize } else { 0 }
    }
}

/// GPU-µs of a job.
fn work_of(row: &Row, takes: &impl Fn(&Row) -> f64) -> f64 {
    f64::from(row.gpus) * takes(row) * row.duration.as_micros_f64()
}

/// Jobs of a trace, drawn with replacement, each as likely as any other, but for those that ask for more GPUs than the fleet's largest type has, or than are asked for at most, and for those that ask for none: as many as offer the load over
/// the span. They come by an arrival process. Of what a log says of their runs nothing is left; a deadline is as long after the submission as in the trace. `takes`: the part of each of its
/// GPUs that a job has.
///
/// # Errors
/// In words: no load is asked for; no job of the trace asks for GPUs that the fleet has; a job is no plain one: it has a batch, or is a task of a service; too many jobs would be drawn.
pub fn resample(
    trace: &[Row],
    how: &Resample,
    fleet: FleetShape,
    takes: impl Fn(&Row) -> f64,
    seed: u64,
) -> Result<Vec<Row>, String> {
    if let Some(row) = trace.iter().find(|row| row.batch.is_some() || row.service.is_some()) {
        return Err(format!("{:?} has a batch or is a task of a service: only plain jobs are drawn again", row.name));
    }
    let from: Vec<usize> = (0..trace.len()).filter(|index| how.may_be(&trace[*index], fleet)).collect();
    if from.is_empty() {
        return Err(format!("none of its jobs asks for 1 to {} GPUs", how.most(fleet)));
    }
    let Some(load) = how.arrivals.load() else {
        return Err("jobs that come at once offer no load: expected Poisson, Bursts or Diurnal arrivals".into());
    };
    let mut stream = Stream::new(seed, "resample");
    let (mut drawn, mut work) = (Vec::new(), 0.0);
    while work < load * fleet.capacity * how.span.as_micros_f64() {
        let index = from[stream.below(from.len())];
        let row = &trace[index];
        work += work_of(row, &takes);
        drawn.push(index);
        if drawn.len() > MAX_JOBS {
            return Err(format!("more than {MAX_JOBS} jobs offer the load over that time"));
        }
    }
    let mut instants = Instants::new((how.arrivals, drawn.len() as u32), fleet.capacity, seed, || work);
    let mut workloads = Weighted::new(Stream::new(seed, "resample/workloads"), how.workloads.iter().cloned());
    let rows = drawn.iter().enumerate().map(|(at, index)| {
        let of = &trace[*index];
        let mut row = Row { name: at.to_compact_string(), submit: instants.next(), ..of.clone() };
        let due = of.deadline.map(|deadline| deadline.saturating_since(of.submit));
        row.deadline = due.map(|due: Duration| row.submit.saturating_add(due).min(sandtable_hardware::Instant::END));
        row.recorded = None;
        // Drawn of every job: which of them have a workload moves nothing of the others.
        let workload = workloads.draw();
        if row.workload.is_none() {
            row.workload = workload;
        }
        row
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use sandtable_hardware::{Instant, SECOND};

    use super::*;

    fn trace() -> Vec<Row> {
        let row = |(at, (gpus, hours)): (usize, &(u32, u64))| {
            let mut row = Row::new(format!("j{at}"), Instant::at(at as u64 * SECOND), *gpus, hours * 3600 * SECOND);
            row.deadline = Some(row.submit + 7200 * SECOND);
            row
        };
        [(1, 1), (2, 3), (8, 2), (64, 9), (0, 1)].iter().enumerate().map(row).collect()
    }

    const FLEET: FleetShape = FleetShape { capacity: 16.0, largest: 16, node: 8 };

    const DAYS: Duration = Duration::from_secs(30 * 86_400);
    const POISSON: Arrivals = Arrivals::Poisson { load: 0.8 };

    #[test]
    fn they_offer_the_load_with_what_fits() {
        let how = Resample { span: DAYS, arrivals: POISSON, most_gpus: None, workloads: vec![] };
        for seed in 0..3 {
            let rows = resample(&trace(), &how, FLEET, |_| 1.0, seed).expect("rows");
            let about = how.about(trace().into_iter(), FLEET, |_| 1.0) as f64;
            assert!((rows.len() as f64 / about - 1.0).abs() < 0.1, "{}, about {about}", rows.len());
            assert!(rows.iter().all(|row| (1..=8).contains(&row.gpus)));
            assert!(rows.is_sorted_by_key(|row| row.submit));
            assert!(rows.iter().all(|row| row.deadline == Some(row.submit + 7200 * SECOND)));
            let work: f64 = rows.iter().map(|row| f64::from(row.gpus) * row.duration.as_secs_f64()).sum();
            let span = rows.last().expect("a row").submit.as_micros() as f64 / 1e6;
            assert!((work / span / 16.0 - 0.8).abs() < 1e-3, "{}", work / span / 16.0);
            assert!((span / DAYS.as_secs_f64() - 1.0).abs() < 0.01, "{span}");
        }
        // Jobs that take half a GPU each are twice as many.
        let count = |takes: f64| resample(&trace(), &how, FLEET, |_| takes, 1).expect("rows").len();
        assert!((1.8..2.2).contains(&(count(0.5) as f64 / count(1.0) as f64)));
        let names =
            |seed| resample(&trace(), &how, FLEET, |_| 1.0, seed).expect("rows").into_iter().map(|row| row.gpus);
        assert!(names(1).eq(names(1)) && !names(1).eq(names(2)));
    }

    #[test]
    fn jobs_that_are_of_no_workload_get_one() {
        let mut trace = trace();
        trace[0].workload = Some("own".into());
        let workloads = vec![("a".to_string(), 1.0), ("b".to_string(), 3.0)];
        let how = Resample { span: DAYS, arrivals: POISSON, most_gpus: None, workloads };
        let rows = resample(&trace, &how, FLEET, |_| 1.0, 1).expect("rows");
        let of = |name: &str| rows.iter().filter(|row| row.workload.as_deref() == Some(name)).count();
        let all = rows.len();
        assert!(of("own") > all / 4 && of("a") > all / 10 && of("b") > all / 3, "{all}");
        assert_eq!(of("own") + of("a") + of("b"), all);
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let how = Resample { span: DAYS, arrivals: POISSON, most_gpus: None, workloads: vec![] };
        let small = FleetShape { largest: 0, ..FLEET };
        assert_eq!(resample(&trace(), &how, small, |_| 1.0, 0), Err("none of its jobs asks for 1 to 0 GPUs".into()));
        let two = Resample { most_gpus: Some(2), ..how.clone() };
        assert!(resample(&trace(), &two, FLEET, |_| 1.0, 0).expect("rows").iter().all(|row| row.gpus <= 2));
        let at_once = Resample { arrivals: Arrivals::AtOnce, ..how.clone() };
        assert!(
            resample(&trace(), &at_once, FLEET, |_| 1.0, 0).is_err_and(|why| why.starts_with("jobs that come at once"))
        );
        let mut trace = trace();
        trace[1].batch = Some(32);
        assert!(resample(&trace, &how, FLEET, |_| 1.0, 0).is_err_and(|why| why.starts_with("\"j1\" has a batch")));
        let empty: Vec<Row> = vec![Row::new("j".into(), Instant::START, 1, Duration::ZERO)];
        assert!(resample(&empty, &how, FLEET, |_| 1.0, 0).is_err_and(|why| why.starts_with("more than")));
    }
}
