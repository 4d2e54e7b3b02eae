//! Which figures a spec's results give.

use sandtable_core::error::Error;
use sandtable_inputs::trace::{Packed, date};
use sandtable_plan::{Cell, Plan};
use sandtable_results::reader;
use sandtable_results::schema::JobRecord;
use sandtable_results::stats::{ecdf, estimate};
use sandtable_results::status::CellStatus;
use sandtable_results::store::Store;

use super::data::{Drawn, Timeline};
use super::lanes::lanes;
use super::plot::{COLOURS, DRAWS, Figure, FigureStyle, Line};
use crate::chrome::held;

/// Steps of a line over time.
const BINS: usize = 300;

/// Labels in the order of the spec.
fn labels(plan: &Plan) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for cell in &plan.cells {
        if !all.contains(&cell.label.as_str()) {
            all.push(&cell.label);
        }
    }
    all
}

/// A point of a sweep: a path and its value, for each axis.
type Point = [(String, String)];

/// Points of the sweep that have a result, in the order of the spec; one without axes where nothing is swept.
fn points<'a>(plan: &'a Plan, store: &Store) -> Vec<&'a Point> {
    let mut all: Vec<&Point> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| store.has(&cell.id) && !store.has_failed(&cell.id)) {
        if !all.contains(&cell.variant.as_slice()) {
            all.push(&cell.variant);
        }
    }
    all
}

/// Cells of a policy at a point that have a result.
fn cells_at<'a>(plan: &'a Plan, store: &Store, label: &str, point: &Point) -> Vec<&'a Cell> {
    let fits = |cell: &&Cell| cell.label == label && cell.variant == point;
    plan.cells.iter().filter(fits).filter(|cell| store.has(&cell.id) && !store.has_failed(&cell.id)).collect()
}

/// `, at load=0.6`; nothing where nothing is swept. A path is called by its last word where that tells it from the others.
fn at_words(point: &Point) -> String {
    let last = |path: &'_ str| path.rsplit('.').next().unwrap_or_default().to_string();
    let short = |path: &str| match point.iter().filter(|(other, _)| last(other) == last(path)).count() {
        1 => last(path),
        _ => path.to_string(),
    };
    let words: Vec<String> = point.iter().map(|(path, value)| format!("{}={value}", short(path))).collect();
    if words.is_empty() { String::new() } else { format!(", at {}", words.join(" ")) }
}

/// The unit in which so many seconds are read.
fn unit(most: f64) -> (&'static str, f64) {
    match most {
        s if s < 600.0 => ("s", 1.0),
        s if s < 36_000.0 => ("min", 60.0),
        s if s < 864_000.0 => ("h", 3600.0),
        _ => ("d", 86_400.0),
    }
}

/// A distribution function by policy, over every seed.
fn distribution(id: &str, title: String, axis: &str, all: &[(String, Vec<f64>)]) -> Figure {
    let positive = || all.iter().flat_map(|(_, values)| values).copied().filter(|x| *x > 0.0);
    let (least, most) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
    let line = |(name, values): &(String, Vec<f64>)| {
        // A logarithm has no zero: the part of those that are zero is at the edge.
        let zeros = values.iter().filter(|x| **x <= 0.0).count() as f64 / values.len().max(1) as f64;
        let mut points = vec![(least, zeros)];
        points.extend(ecdf(values).into_iter().filter(|(x, _)| *x > 0.0));
        // Of several at one place the last says how many there are.
        points.reverse();
        points.dedup_by(|next, kept| next.0 == kept.0);
        points.reverse();
        // Every line goes from one edge to the other: a policy without waits is a line at the top.
        if let Some(last) = points.last().copied().filter(|last| last.0 < most) {
            points.push((most, last.1));
        }
        if values.is_empty() || most <= 0.0 {
            points.clear();
        }
        Line { name: name.clone(), points, band: Vec::new() }
    };
    Figure {
        id: id.into(),
        title,
        x: axis.into(),
        y: "part of the jobs".into(),
        steps: true,
        time_x: most > 0.0,
        y_range: Some((0.0, 1.0)),
        lines: all.iter().map(line).collect(),
    }
}

/// A figure, with what to know of it.
pub struct Captioned {
    /// The figure.
    pub figure: Figure,
    /// What to know of it.
    pub caption: String,
    /// The number of the point of the sweep that it is of; none: it is of the sweep.
    pub point: Option<usize>,
}

/// A page has figures at at most so many points of a sweep: it is not an archive.
const POINTS: usize = 12;

/// The points of a sweep that a page has figures of, in words, and how many it has none of.
pub(super) fn drawn_points(plan: &Plan, store: &Store) -> (Vec<String>, usize) {
    let all = points(plan, store);
    let words = |point: &&Point| at_words(point).trim_start_matches(", at ").to_string();
    (all.iter().take(POINTS).map(words).collect(), all.len().saturating_sub(POINTS))
}

/// Every figure that the results give: those of each point of the sweep, then those of the sweep.
///
/// # Errors
/// A file of the store that can't be read.
pub fn figures(plan: &Plan, store: &Store, known: &[CellStatus]) -> Result<Vec<Captioned>, Error> {
    figures_of(plan, store, known, usize::MAX)
}

/// The same, for so many points.
fn figures_of(plan: &Plan, store: &Store, known: &[CellStatus], most: usize) -> Result<Vec<Captioned>, Error> {
    let mut all = Vec::new();
    for (number, point) in points(plan, store).into_iter().take(most).enumerate() {
        let of = of_point(plan, store, point)?;
        all.extend(of.into_iter().map(|(figure, caption)| Captioned { figure, caption, point: Some(number) }));
    }
    let swept = sweeps(plan, known).into_iter();
    all.extend(swept.map(|(figure, caption)| Captioned { figure, caption, point: None }));
    all.retain(|one| !one.figure.is_empty());
    Ok(all)
}

fn of_point(plan: &Plan, store: &Store, point: &Point) -> Result<Vec<(Figure, String)>, Error> {
    let (mut jcts, mut waits, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    let mut seeds = 0;
    for label in labels(plan) {
        let cells = cells_at(plan, store, label, point);
        seeds = seeds.max(cells.len());
        let (mut jct, mut wait) = (Vec::new(), Vec::new());
        for cell in &cells {
            let rows = reader::measured_jobs(store, &cell.id)?;
            jct.extend(rows.iter().filter_map(JobRecord::jct));
            wait.extend(rows.iter().filter_map(JobRecord::wait));
        }
        jcts.push((label.to_string(), jct));
        waits.push((label.to_string(), wait));
        if let Some(cell) = cells.first() {
            lines.push(busy(cell, store)?);
        }
    }
    let runs = if seeds > 1 { format!("over {seeds} seeds") } else { "of one seed".into() };
    let at = at_words(point);
    let spread =
        |whose: &str| format!("{whose}, {runs}; the axis counts by factors, those of 0 are the part at its edge.");
    let end = lines.iter().flat_map(|line| line.points.last()).map(|(x, _)| *x).fold(0.0, f64::max);
    let (word, scale) = unit(end);
    for line in &mut lines {
        line.points.iter_mut().for_each(|(x, _)| *x /= scale);
    }
    let here = plan.cells.iter().find(|cell| cell.variant == point);
    let origin = here.and_then(|cell| cell.setting.workload.fixed()).and_then(Packed::origin);
    let since = origin.map_or(String::new(), |origin| format!(" since {}", date(origin)));
    let utilisation = Figure {
        id: "utilisation".into(),
        title: format!("GPUs in use{at}"),
        x: format!("time{since} ({word})"),
        y: "part of the GPUs".into(),
        steps: true,
        time_x: false,
        y_range: None,
        lines,
    };
    let waiting = "time to the first GPUs given";
    Ok(vec![
        (
            distribution("jct", format!("Job completion time{at}"), "completion time", &jcts),
            spread("Jobs that completed"),
        ),
        (
            distribution("waiting", format!("Time to the first GPUs{at}"), waiting, &waits),
            spread("Jobs that ever got GPUs"),
        ),
        (
            utilisation,
            format!("Means of {BINS} equal stretches of each policy's first run; above 1 where GPUs are shared."),
        ),
    ])
}

/// The part of the GPUs that is held, over time.
fn busy(cell: &Cell, store: &Store) -> Result<Line, Error> {
    let steps = held(&reader::stays(store, &cell.id)?).into_iter();
    let steps: Vec<(f64, i64)> = steps.map(|(at, count)| (at.f64(), count)).collect();
    let (end, gpus) = (steps.last().map_or(0.0, |(at, _)| *at), f64::from(cell.fleet.gpus().max(1)));
    if end <= 0.0 {
        return Ok(Line { name: cell.label.clone(), points: Vec::new(), band: Vec::new() });
    }
    let width = end / BINS as f64;
    let mut sums = vec![0.0; BINS];
    for pair in steps.windows(2) {
        let [(from, count), (to, _)] = pair else { continue };
        let (mut at, last) = (*from, (to / width).min(BINS as f64));
        // Every bin that the stretch touches.
        let mut bin = ((at / width) as usize).min(BINS - 1);
        while at < *to && (bin as f64) < last {
            let until = ((bin + 1) as f64 * width).min(*to);
            sums[bin] += *count as f64 * (until - at);
            (at, bin) = (until, bin + 1);
        }
    }
    let point = |(bin, sum): (usize, &f64)| (bin as f64 * width, if width > 0.0 { sum / width / gpus } else { 0.0 });
    Ok(Line { name: cell.label.clone(), points: sums.iter().enumerate().map(point).collect(), band: Vec::new() })
}

/// A curve a policy over each axis of the sweep whose values are numbers, the others at their first value.
fn sweeps(plan: &Plan, known: &[CellStatus]) -> Vec<(Figure, String)> {
    let Some(first) = plan.cells.first() else { return Vec::new() };
    let mut all = Vec::new();
    for (axis, (path, _)) in first.variant.iter().enumerate() {
        let others_first = |cell: &Cell| {
            let others = cell.variant.iter().zip(&first.variant).enumerate().filter(|(at, _)| *at != axis);
            others.map(|(_, pair)| pair).all(|(own, first)| own == first)
        };
        let others: Vec<(String, String)> = first.variant.iter().filter(|(other, _)| other != path).cloned().collect();
        let mut lines = Vec::new();
        for label in labels(plan) {
            let mut by_value: Vec<(f64, Vec<f64>)> = Vec::new();
            // One value may be written in two ways: its runs are the same ones.
            let mut seen: Vec<&str> = Vec::new();
            for (cell, known) in plan.cells.iter().zip(known) {
                let (CellStatus::Done(summary), Ok(x)) = (known, cell.variant[axis].1.trim().parse::<f64>()) else {
                    continue;
                };
                if cell.label != label || !others_first(cell) || seen.contains(&cell.id.as_str()) {
                    continue;
                }
                seen.push(&cell.id);
                match by_value.iter_mut().find(|(known, _)| *known == x) {
                    Some((_, values)) => values.push(summary.jct.mean),
                    None => by_value.push((x, vec![summary.jct.mean])),
                }
            }
            by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
            let measured: Vec<(f64, f64, f64)> = by_value
                .iter()
                .filter_map(|(x, values)| estimate(values).map(|one| (*x, one.mean, one.half)))
                .collect();
            let points: Vec<(f64, f64)> = measured.iter().map(|(x, mean, _)| (*x, *mean)).collect();
            let banded = !measured.is_empty() && measured.iter().all(|(_, _, half)| half.is_finite());
            let band = if banded { measured.iter().map(|(_, _, half)| *half).collect() } else { Vec::new() };
            lines.push(Line { name: label.to_string(), points, band });
        }
        let most = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(0.0, f64::max);
        let (word, scale) = unit(most);
        for line in &mut lines {
            line.points.iter_mut().for_each(|(_, y)| *y /= scale);
            line.band.iter_mut().for_each(|half| *half /= scale);
        }
        let figure = Figure {
            id: if axis == 0 { "sweep".into() } else { format!("sweep{}", axis + 1) },
            title: format!("Mean completion time by {path}{}", at_words(&others)),
            x: path.clone(),
            y: format!("JCT ({word})"),
            steps: false,
            time_x: false,
            y_range: None,
            lines,
        };
        all.push((
            figure,
            "Means over the seeds, with 95 % intervals (Student's) where there are several.".to_string(),
        ));
    }
    all
}

/// Figures for the page.
pub(super) fn drawn(plan: &Plan, store: &Store, known: &[CellStatus]) -> Result<Vec<Drawn>, Error> {
    if !DRAWS {
        return Ok(Vec::new());
    }
    let draw = |Captioned { figure, caption, point }: Captioned| {
        Ok(Drawn {
            svg: figure.svg(FigureStyle::Page)?,
            legend: figure.lines.iter().enumerate().map(|(at, line)| (line.name.clone(), at % COLOURS.len())).collect(),
            // Anchors are told apart.
            id: match point {
                None | Some(0) => figure.id,
                Some(number) => format!("{}-{}", figure.id, number + 1),
            },
            title: figure.title,
            caption,
            point,
        })
    };
    figures_of(plan, store, known, POINTS)?.into_iter().map(draw).collect()
}

/// Timelines of at most so many policies: a page is not an archive.
const TIMELINES: usize = 6;

/// The GPUs of each policy's first run at the first point over time.
pub(super) fn timelines(plan: &Plan, store: &Store) -> Result<Vec<Timeline>, Error> {
    let mut all = Vec::new();
    let Some(point) = points(plan, store).into_iter().next() else { return Ok(all) };
    for label in labels(plan).into_iter().take(TIMELINES) {
        let Some(cell) = cells_at(plan, store, label, point).into_iter().next() else { continue };
        let (jobs, stays) = (reader::jobs(store, &cell.id)?, reader::stays(store, &cell.id)?);
        let drawn = lanes(&reader::nodes(store, &cell.id)?, &jobs, &stays);
        let variant = cell.variant_text();
        let space = if variant.is_empty() { "" } else { " " };
        all.push(Timeline {
            policy: label.to_string(),
            run: format!("{variant}{space}seed {}", cell.seed),
            svg: drawn.svg,
            bars: drawn.bars,
            note: drawn.note,
        });
    }
    Ok(all)
}
