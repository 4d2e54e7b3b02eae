//! A metric along the axes of a sweep, and by policy at each point.

use sandtable_plan::{Cell, Plan};
use sandtable_results::metric::Metric;
use sandtable_results::stats::{Estimate, estimate};
use sandtable_results::status::CellStatus;

use super::{Captioned, Point, at_words, labels};
use crate::plot::{Axis, Figure, Line};

const CAPTION: &str = "Means over the seeds, with 95 % intervals (Student's) where there are several.";

/// The values of a metric of those cells that have one and that `is` takes, one value a run: of cells that are the same run one.
fn values(plan: &Plan, known: &[CellStatus], metric: &Metric, is: impl Fn(&Cell) -> bool) -> Vec<f64> {
    let mut seen = Vec::new();
    let mut all = Vec::new();
    for (cell, known) in plan.cells.iter().zip(known) {
        if !is(cell) {
            continue;
        }
        let CellStatus::Done(summary) = known else { continue };
        if !seen.contains(&summary) {
            seen.push(summary);
            all.push(metric.of(summary));
        }
    }
    all.retain(|value| value.is_finite());
    all
}

/// A curve a policy over each axis of the sweep, the others at their first value; and the policies beside each other at each point.
pub(super) fn figures(plan: &Plan, known: &[CellStatus], points: &[&Point], metric: &Metric) -> Vec<Captioned> {
    let Some(first) = plan.cells.first() else { return Vec::new() };
    let caption = || format!("{} {CAPTION}", metric.about);
    let mut all: Vec<Captioned> = Vec::new();
    for (number, point) in points.iter().enumerate() {
        let figure = by_policy(plan, known, point, metric);
        all.push(Captioned { figure, caption: caption(), point: Some(number), class: None });
    }
    for (axis, (path, _)) in first.variant.iter().enumerate() {
        let figure = along(plan, known, axis, path, metric);
        all.push(Captioned { figure, caption: caption(), point: None, class: None });
    }
    all
}

fn by_policy(plan: &Plan, known: &[CellStatus], point: &Point, metric: &Metric) -> Figure {
    let names: Vec<String> = labels(plan).into_iter().map(str::to_string).collect();
    let line = |(at, name): (usize, &String)| {
        let runs = values(plan, known, metric, |cell| cell.label == *name && cell.variant == point);
        let one = estimate(&runs);
        let half = one.iter().map(half).collect();
        let points = one.iter().map(|one| (at as f64, one.mean)).collect();
        let runs = if runs.len() > 1 { runs.into_iter().map(|value| (at as f64, value)).collect() } else { Vec::new() };
        Line { name: name.clone(), points, half, runs }
    };
    Figure {
        id: "policies".into(),
        title: format!("{} by policy{}", metric.name, at_words(point)),
        x: "policy".into(),
        y: metric.name.into(),
        unit: metric.unit,
        steps: false,
        part: false,
        y_range: None,
        lines: names.iter().enumerate().map(line).collect(),
        axis: Axis::Names(names),
    }
}

/// Half the interval, 0 where there is none.
fn half(one: &Estimate) -> f64 {
    if one.half.is_finite() { one.half } else { 0.0 }
}

fn along(plan: &Plan, known: &[CellStatus], axis: usize, path: &str, metric: &Metric) -> Figure {
    let first = &plan.cells[0].variant;
    let others: Vec<(String, String)> = first.iter().filter(|(other, _)| other != path).cloned().collect();
    let others_first = |cell: &Cell| {
        let others = cell.variant.iter().zip(first).enumerate().filter(|(at, _)| *at != axis);
        others.map(|(_, pair)| pair).all(|(own, first)| own == first)
    };
    let mut names: Vec<&str> = Vec::new();
    for cell in &plan.cells {
        let value = cell.variant[axis].1.trim();
        if !names.contains(&value) {
            names.push(value);
        }
    }
    let numbers: Option<Vec<f64>> = names.iter().map(|name| name.parse().ok()).collect();
    // One value may be written in two ways.
    let mut places = numbers.clone().unwrap_or_else(|| (0..names.len()).map(|at| at as f64).collect());
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    let place = |cell: &Cell| {
        let value = cell.variant[axis].1.trim();
        let named = || names.iter().position(|name| *name == value).map(|at| at as f64);
        if numbers.is_some() { value.parse::<f64>().ok() } else { named() }
    };
    let lines = labels(plan).into_iter().map(|label| {
        let at = |x: f64| {
            let is = |cell: &Cell| cell.label == label && others_first(cell) && place(cell) == Some(x);
            Some((x, estimate(&values(plan, known, metric, is))?))
        };
        let measured: Vec<(f64, Estimate)> = places.iter().filter_map(|x| at(*x)).collect();
        Line {
            name: label.to_string(),
            points: measured.iter().map(|(x, one)| (*x, one.mean)).collect(),
            half: measured.iter().map(|(_, one)| half(one)).collect(),
            runs: Vec::new(),
        }
    });
    Figure {
        id: if axis == 0 { "sweep".into() } else { format!("sweep{}", axis + 1) },
        title: format!("{} by {path}{}", metric.name, at_words(&others)),
        x: path.into(),
        y: metric.name.into(),
        unit: metric.unit,
        steps: false,
        part: false,
        y_range: None,
        lines: lines.collect(),
        axis: if numbers.is_some() {
            Axis::Linear
        } else {
            Axis::Names(names.iter().map(|name| (*name).to_string()).collect())
        },
    }
}
