//! A metric along the axes of a sweep, and by policy at each point.

use sandtable_core::display::Unit;
use sandtable_plan::Plan;
use sandtable_results::metric::{Better, Metric};
use sandtable_results::rank::Ranking;
use sandtable_results::stats::estimate;
use sandtable_results::status::CellStatus;

use super::{Captioned, Point, at_words, labels};
use crate::axes::{SweepAxis, axes};
use crate::plot::{Axis, Figure, Line};
use crate::table::{PolicyRuns, rows};

const CAPTION: &str = "Means over the seeds, with 95 % intervals (Student's) where there are several.";

/// A curve a policy over each axis of the sweep, the others at their first value; and the policies beside each other at each point.
pub(super) fn figures(plan: &Plan, known: &[CellStatus], points: &[&Point], metric: &Metric) -> Vec<Captioned> {
    let caption = format!("{} {CAPTION}", metric.about);
    let captioned = |figure, point| Captioned { figure, caption: caption.clone(), point, class: None };
    let (labels, all) = (labels(plan), rows(plan, known));
    let by_policy = points
        .iter()
        .enumerate()
        .map(|(number, point)| captioned(by_policy(&labels, &all, point, metric), Some(number)));
    let first = plan.cells.first().map(|cell| cell.variant.as_slice()).unwrap_or_default();
    let along = axes(plan)
        .into_iter()
        .enumerate()
        .map(|(at, axis)| captioned(along(&labels, &all, first, (at, &axis), metric), None));
    let ranks = ranks(&labels, plan, known, metric).into_iter();
    by_policy.chain(along).chain(ranks).collect()
}

/// The mean rank of each policy over the points of a sweep, and the critical difference; none where nothing is swept, where no
/// value of the metric is better than another, or where there are too many policies.
pub(in super::super) fn mean_ranks(plan: &Plan, known: &[CellStatus], metric: &Metric) -> Option<(Vec<f64>, f64)> {
    if metric.better == Better::Neither {
        return None;
    }
    let ranking = Ranking::of("", plan, known, metric);
    let critical = ranking.critical_difference().filter(|_| ranking.settings.len() > 1)?;
    Some((ranking.mean_ranks(), critical))
}

/// Mean ranks with half of the critical difference on each side: two policies differ where these do not overlap.
fn ranks(labels: &[&str], plan: &Plan, known: &[CellStatus], metric: &Metric) -> Option<Captioned> {
    let (ranks, critical) = mean_ranks(plan, known, metric)?;
    let line = |(at, (label, rank)): (usize, (&&str, f64))| Line {
        name: (*label).to_string(),
        points: vec![(at as f64, rank)],
        half: vec![critical / 2.0],
        runs: Vec::new(),
    };
    let names = Axis::Names(labels.iter().map(|label| (*label).to_string()).collect());
    let lines = labels.iter().zip(ranks).enumerate().map(line).collect();
    let title = format!("Mean rank by {}", metric.words());
    let figure = figure("ranks".into(), title, String::new(), "policy", names, metric, lines);
    let caption = "1 is the best; two policies differ at 5 % where their intervals, half of Nemenyi's critical difference on each \
                   side, do not overlap (Demšar 2006)."
        .to_string();
    Some(Captioned {
        figure: Figure { y: "mean rank".into(), unit: Unit::Count, ..figure },
        caption,
        point: None,
        class: None,
    })
}

fn figure(id: String, title: String, at: String, x: &str, axis: Axis, metric: &Metric, lines: Vec<Line>) -> Figure {
    let (y, unit): (String, Unit) = (metric.words(), metric.unit);
    Figure { id, title, at, x: x.into(), y, unit, steps: false, part: false, y_range: None, lines, axis }
}

fn by_policy(labels: &[&str], all: &[PolicyRuns<'_>], point: &Point, metric: &Metric) -> Figure {
    let line = |(at, label): (usize, &&str)| {
        let at = at as f64;
        let runs = all.iter().find(|runs| runs.cell.label == **label && runs.cell.variant == point);
        let values = runs.map_or_else(Vec::new, |runs| runs.values(metric));
        let one: Vec<_> = estimate(&values).into_iter().map(|one| (at, one)).collect();
        let runs = if values.len() > 1 { values.into_iter().map(|value| (at, value)).collect() } else { Vec::new() };
        Line { runs, ..Line::of_estimates(label, &one) }
    };
    let names = labels.iter().map(|label| (*label).to_string()).collect();
    let title = format!("{} by policy", metric.words());
    let lines = labels.iter().enumerate().map(line).collect();
    figure("policies".into(), title, at_words(point), "policy", Axis::Names(names), metric, lines)
}

fn along(
    labels: &[&str],
    all: &[PolicyRuns<'_>],
    first: &Point,
    (at, axis): (usize, &SweepAxis<'_>),
    metric: &Metric,
) -> Figure {
    let others: Vec<(String, String)> = first.iter().filter(|(path, _)| path != axis.path).cloned().collect();
    let numbers = axis.numbers();
    // One value may be written in two ways: its runs are the same ones.
    let mut places = numbers.clone().unwrap_or_else(|| (0..axis.values.len()).map(|at| at as f64).collect());
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    let place = |runs: &PolicyRuns<'_>| {
        let place = axis.place(&runs.cell.variant[at].1)?;
        Some(numbers.as_ref().map_or(place as f64, |numbers| numbers[place]))
    };
    let others_first = |runs: &PolicyRuns<'_>| {
        let pairs = runs.cell.variant.iter().zip(first).enumerate();
        pairs.filter(|(other, _)| *other != at).all(|(_, (own, first))| own == first)
    };
    let line = |label: &&str| {
        let at = |x: f64| {
            let is =
                |runs: &&PolicyRuns<'_>| runs.cell.label == **label && others_first(runs) && place(runs) == Some(x);
            Some((x, estimate(&all.iter().find(is)?.values(metric))?))
        };
        Line::of_estimates(label, &places.iter().filter_map(|x| at(*x)).collect::<Vec<_>>())
    };
    let id = if at == 0 { "sweep".into() } else { format!("sweep{}", at + 1) };
    let names = || Axis::Names(axis.values.iter().map(|value| (*value).to_string()).collect());
    let places = if numbers.is_some() { Axis::Linear } else { names() };
    let title = format!("{} by {}", metric.words(), axis.path);
    figure(id, title, at_words(&others), axis.path, places, metric, labels.iter().map(line).collect())
}
