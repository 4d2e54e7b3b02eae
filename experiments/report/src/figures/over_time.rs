//! What is in use and who waits over time, of each policy's first run.

use sandtable_core::display::Unit;
use sandtable_core::error::Error;
use sandtable_hardware::Duration;
use sandtable_inputs::trace::date;
use sandtable_results::reader;
use sandtable_results::schema::UseRecord;
use sandtable_results::store::Store;

use super::{Runs, origin};
use crate::chrome::{held, waiting};
use crate::plot::{Axis, Figure, Line};

/// Stretches of time that a line tells the means of.
const BINS: usize = 300;

/// What counts from instants on, in seconds.
type Steps = Vec<(f64, f64)>;

pub(super) fn figures(all: &[Runs<'_>], store: &Store, at: &str) -> Result<Vec<(Figure, String)>, Error> {
    let (mut busy, mut queue, mut loaned) = (Vec::new(), Vec::new(), Vec::new());
    for runs in all {
        let (Some(run), Some((jobs, stays))) = (runs.all.first(), &runs.first) else { continue };
        let gpus = f64::from(run.cell.fleet.gpus().max(1));
        let steps = |all: Vec<(sandtable_results::schema::Seconds, i64)>, over: f64| -> Steps {
            all.into_iter().map(|(at, count)| (at.f64(), count as f64 / over)).collect()
        };
        busy.push((runs.label, steps(held(stays), gpus)));
        queue.push((runs.label, steps(waiting(jobs, stays), 1.0)));
        if !run.cell.fleet.services.is_empty() {
            let uses = reader::table::<UseRecord>(store, &run.cell.id)?;
            let end = stays.iter().map(|stay| stay.to_s.f64()).fold(0.0, f64::max);
            let mut steps: Steps = uses.iter().map(|row| (row.from_s.f64(), f64::from(row.loaned))).collect();
            steps.push((end, 0.0));
            loaned.push((runs.label, steps));
        }
    }
    let here = all.iter().flat_map(|runs| &runs.all).next();
    let origin = here.and_then(|run| origin(run.cell));
    let since = origin.map_or(String::new(), |origin| format!(" since {}", date(origin)));
    let figure = |id: &str, title: &str, y: &str, of: Vec<(&str, Steps)>| Figure {
        id: id.into(),
        title: title.into(),
        at: at.into(),
        x: format!("time{since}"),
        y: y.into(),
        axis: Axis::Seconds(origin.map(Duration::as_secs_f64)),
        unit: Unit::Times,
        steps: true,
        part: false,
        y_range: None,
        lines: lines(of),
    };
    let caption = |what: &str| format!("Means of {BINS} equal stretches of time, of each policy's first run{what}.");
    let mut out = vec![
        (figure("utilisation", "GPUs in use", "part of the GPUs", busy), caption("; above 1 where GPUs are shared")),
        (figure("queue", "Jobs that wait", "jobs", queue), caption("; jobs that were preempted wait too")),
    ];
    if !loaned.is_empty() {
        out.push((figure("loaned", "GPUs on loan to training", "GPUs", loaned), caption("")));
    }
    Ok(out)
}

/// Lines that share their places, up to the end of each.
fn lines(of: Vec<(&str, Steps)>) -> Vec<Line> {
    let end_of = |steps: &Steps| steps.last().map_or(0.0, |(at, _)| *at);
    let end = of.iter().map(|(_, steps)| end_of(steps)).fold(0.0, f64::max);
    let width = end / BINS as f64;
    let line = |(label, steps): (&str, Steps)| {
        let own = if width > 0.0 { (end_of(&steps) / width).ceil() as usize } else { 0 };
        let means = means(&steps, width);
        let points = means.into_iter().take(own.min(BINS)).enumerate();
        Line {
            name: label.to_string(),
            points: points.map(|(bin, mean)| (bin as f64 * width, mean)).collect(),
            half: Vec::new(),
            runs: Vec::new(),
        }
    };
    of.into_iter().map(line).collect()
}

/// The mean of each stretch of this width.
fn means(steps: &Steps, width: f64) -> Vec<f64> {
    let mut sums = vec![0.0; BINS];
    for pair in steps.windows(2) {
        let [(from, count), (to, _)] = pair else { continue };
        let last = (to / width).min(BINS as f64);
        let mut at = *from;
        // Every stretch that it touches.
        let mut bin = ((at / width) as usize).min(BINS - 1);
        while at < *to && (bin as f64) < last {
            let until = ((bin + 1) as f64 * width).min(*to);
            sums[bin] += count * (until - at);
            (at, bin) = (until, bin + 1);
        }
    }
    sums.into_iter().map(|sum| if width > 0.0 { sum / width } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_share_their_places_and_end_when_their_run_does() {
        let all = lines(vec![
            ("long", vec![(0.0, 2.0), (300.0, 0.0)]),
            ("short", vec![(0.0, 4.0), (0.5, 1.0), (150.0, 0.0)]),
        ]);
        assert_eq!((all[0].points.len(), all[1].points.len()), (300, 150));
        assert_eq!(all[0].points[7], (7.0, 2.0));
        assert_eq!((all[1].points[0], all[1].points[149]), ((0.0, 2.5), (149.0, 1.0)));
    }
}
