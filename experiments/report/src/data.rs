//! What the page draws, as columns that its script reads.

use std::collections::BTreeMap;

use sandtable_core::display::Unit;
use sandtable_plan::Plan;
use sandtable_results::metric::METRICS;
use sandtable_results::stats::t_quantile;
use sandtable_results::status::CellStatus;
use sandtable_results::store::Store;
use serde::Serialize;
use serde_json::{Value, json};

use super::axes::{SweepAxis, axes};
use super::figures::{Captioned, Class, labels, mean_ranks, points};
use super::lanes::{Named, Timeline};
use super::plot::{Axis, Figure};

/// A figure of the page: its place in the data, and the words around it.
#[derive(Serialize)]
pub struct Drawn {
    /// Its name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The same without the point of the sweep.
    pub name: String,
    /// What to know of it.
    pub caption: String,
    /// The number of the point of the sweep that it is of.
    pub point: Option<usize>,
    /// Where jobs are told apart.
    pub class: Option<Class>,
}

/// Bytes that a figure takes in a page.
pub(super) fn size(figure: &Figure) -> usize {
    columns(figure, &[]).to_string().len()
}

/// The words around figures.
pub(super) fn in_words(figures: &[Captioned]) -> Vec<Drawn> {
    let one = |of: &Captioned| Drawn {
        // Anchors are told apart.
        id: match of.point {
            None | Some(0) => of.figure.id.clone(),
            Some(number) => format!("{}-{}", of.figure.id, number + 1),
        },
        title: of.figure.heading(),
        name: of.figure.title.clone(),
        caption: of.caption.clone(),
        point: of.point,
        class: of.class,
    };
    figures.iter().map(one).collect()
}

/// A number with so many digits that no pixel moves; none where it is not finite.
fn short(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    match rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        true => json!(rounded as i64),
        false => json!(rounded),
    }
}

/// What the script calls a unit.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Share => "share",
        Unit::Times => "times",
        Unit::GpuHours => "gpu-h",
        Unit::Count => "count",
    }
}

/// A figure as columns: the places once, and the values of each line there.
fn columns(figure: &Figure, labels: &[&str]) -> Value {
    let mut places: Vec<f64> = match &figure.axis {
        Axis::Names(names) => (0..names.len()).map(|at| at as f64).collect(),
        _ => figure.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).collect(),
    };
    places.sort_unstable_by(f64::total_cmp);
    places.dedup();
    let lines = figure.lines.iter().map(|line| {
        let mut own =
            line.points.iter().zip(line.half.iter().copied().map(Some).chain(std::iter::repeat(None))).peekable();
        let (mut ys, mut half) = (Vec::new(), Vec::new());
        for place in &places {
            let here = own.next_if(|((x, _), _)| x == place);
            ys.push(here.map_or(Value::Null, |((_, y), _)| short(*y)));
            half.push(here.and_then(|(_, half)| half).map_or(Value::Null, short));
        }
        let label = labels.iter().position(|label| *label == line.name);
        match line.half.is_empty() {
            true => json!({"label": label, "ys": ys}),
            false => json!({"label": label, "ys": ys, "half": half}),
        }
    });
    let (axis, names) = match &figure.axis {
        Axis::Linear => ("linear", None),
        Axis::Log => ("log", None),
        Axis::Seconds(_) => ("seconds", None),
        Axis::LogSeconds => ("time", None),
        Axis::Names(names) => ("names", Some(names)),
    };
    let lines: Vec<Value> = lines.collect();
    let origin = if let Axis::Seconds(origin) = figure.axis { origin } else { None };
    json!({
        "title": figure.heading(), "x": figure.x, "y": figure.y, "unit": unit(figure.unit), "axis": axis, "names": names, "origin": origin,
        "steps": figure.steps, "part": figure.part, "range": figure.y_range.map(|(least, most)| [least, most]),
        "xs": places.iter().map(|x| short(*x)).collect::<Vec<_>>(), "lines": lines,
    })
}

/// All that the page's script reads.
pub(super) fn data(
    plan: &Plan,
    store: &Store,
    known: &[CellStatus],
    figures: &[Captioned],
    timelines: &[Timeline],
    named: Named,
) -> Value {
    let labels = labels(plan);
    let axes = axes(plan);
    let place = |variant: &[(String, String)]| -> Vec<usize> {
        let at = |(axis, (_, value)): (&SweepAxis<'_>, &(String, String))| axis.place(value).unwrap_or(0);
        axes.iter().zip(variant).map(at).collect()
    };
    let points = points(plan, store);
    let mut seen: BTreeMap<(usize, &str), Vec<&sandtable_runtime::Summary>> = BTreeMap::new();
    let (mut label, mut point, mut seed, mut again, mut runs) = (vec![], vec![], vec![], vec![], vec![]);
    for (cell, known) in plan.cells.iter().zip(known) {
        let CellStatus::Done(summary) = known else { continue };
        let Some(at) = points.iter().position(|point| **point == cell.variant) else { continue };
        let same = seen.entry((at, &cell.label)).or_default();
        again.push(u8::from(same.contains(&&**summary)));
        same.push(summary);
        label.push(labels.iter().position(|label| *label == cell.label));
        point.push(at);
        seed.push(cell.seed);
        runs.push(&**summary);
    }
    let most = seen.values().map(Vec::len).max().unwrap_or(0);
    let mut critical = None;
    let metrics: Vec<Value> = METRICS
        .iter()
        .filter_map(|metric| {
            let values: Vec<Value> = runs.iter().map(|run| short(metric.of(run))).collect();
            if values.iter().all(Value::is_null) {
                return None;
            }
            let ranking = mean_ranks(plan, known, metric);
            let ranks = ranking.as_ref().map(|(ranks, _)| ranks.iter().map(|rank| short(*rank)).collect::<Vec<_>>());
            critical = critical.or(ranking.map(|(_, critical)| critical));
            Some(json!({"name": metric.name, "words": metric.words(), "unit": unit(metric.unit), "about": metric.about, "values": values, "ranks": ranks}))
        })
        .collect();
    json!({
        "labels": labels,
        "axes": axes.iter().map(|axis| json!({"path": axis.path, "values": axis.values})).collect::<Vec<_>>(),
        "points": points.iter().map(|point| place(point)).collect::<Vec<_>>(),
        "cells": {"label": label, "point": point, "seed": seed, "again": again},
        "metrics": metrics,
        "critical": critical.map(short),
        // Student's t by the number of runs.
        "t": (0..=most).map(|runs| if runs > 1 { short(t_quantile(runs - 1)) } else { Value::Null }).collect::<Vec<_>>(),
        "figures": figures.iter().map(|one| columns(&one.figure, &labels)).collect::<Vec<_>>(),
        "jobs": named.columns(),
        "timelines": timelines.iter().map(|one| &one.data).collect::<Vec<_>>(),
    })
}
