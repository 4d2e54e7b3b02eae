//! The timeline of GPUs: a lane each, jobs on it as bars, side by side where several are there at once.
//!
//! Stays too short to be seen are drawn together, so that a page of ten thousand jobs stays a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sandtable_core::display::span;
use sandtable_hardware::GpuId;
use sandtable_results::reader::rowed;
use sandtable_results::schema::{JobRecord, StayRecord};
use serde_json::{Value, json};

/// Lanes that are drawn; a fleet that has more shows the first.
pub const MOST_LANES: u32 = 128;
/// Bars that are drawn at most.
const MOST_BARS: usize = 4_000;
/// Width of the drawing, in its own units.
const WIDTH: f64 = 1200.0;
/// Where bars begin: the names of nodes are to their left.
const LEFT: f64 = 96.0;

/// A bar: some stays on one GPU.
#[derive(Clone, Debug, PartialEq)]
struct Bar {
    gpu: GpuId,
    from: f64,
    to: f64,
    /// Which of the bars beside each other.
    row: usize,
    /// Index of the job; none: several short ones.
    job: Option<usize>,
    count: usize,
    /// Whether it is too short to be seen alone.
    short: bool,
}

/// A timeline: the drawing, and the words that are shown when a reader points at a bar.
pub struct Lanes {
    /// SVG.
    pub svg: String,
    /// By bar: what is said of it.
    pub bars: Value,
    /// What was left out, in words; empty: nothing.
    pub note: String,
}

/// The timeline of a run.
pub fn lanes(nodes: &[(String, u32)], jobs: &[JobRecord], stays: &[StayRecord]) -> Lanes {
    let gpus: u32 = nodes.iter().map(|(_, gpus)| gpus).sum();
    let shown = gpus.min(MOST_LANES);
    let end = stays.iter().map(|stay| stay.to_s).max().unwrap_or_default().f64();
    let index: BTreeMap<&str, usize> = jobs.iter().enumerate().map(|(at, row)| (row.job_id.as_str(), at)).collect();
    let (all, rows) = stacked(stays, &index, shown);
    let scale = if end > 0.0 { (WIDTH - LEFT) / end } else { 0.0 };
    // The least width that leaves few enough bars.
    let mut least = 0.75;
    let mut bars = merged(&all, least / scale.max(1e-12));
    while bars.len() > MOST_BARS && least < WIDTH {
        least *= 2.0;
        bars = merged(&all, least / scale.max(1e-12));
    }
    let together: usize = bars.iter().filter(|bar| bar.count > 1).map(|bar| bar.count).sum();
    let mut notes = Vec::new();
    if shown < gpus {
        notes.push(format!("the first {shown} of {gpus} GPUs"));
    }
    if together > 0 {
        notes.push(format!("{together} stays too short to be seen are drawn together, in grey"));
    }
    let tall = if shown <= 32 { 18.0 } else { 11.0 };
    let (top, height) = (8.0, 8.0 + f64::from(shown) * tall + 30.0);
    let mut svg = format!(
        "<svg class=\"lanes\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" tabindex=\"0\" \
         role=\"application\" aria-label=\"GPUs over time; arrow keys go from job to job\">"
    );
    bands(&mut svg, nodes, shown, (top, tall));
    let mut told = Vec::new();
    for (at, bar) in bars.iter().enumerate() {
        let beside = rows.get(&bar.gpu).copied().unwrap_or(1).max(1) as f64;
        let thick = (tall - 2.0) / beside;
        let (x, y) = (LEFT + bar.from * scale, top + f64::from(bar.gpu.number()) * tall + 1.0 + bar.row as f64 * thick);
        let wide = ((bar.to - bar.from) * scale).max(0.4);
        let class = bar.job.map_or("m".to_string(), |job| format!("b{}", job % 12));
        let _ = write!(
            svg,
            "<rect class=\"bar {class}\" data-i=\"{at}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{wide:.2}\" height=\"{:.2}\"/>",
            (thick - 0.6).max(0.8)
        );
        told.push(words(bar, jobs));
    }
    let foot = top + f64::from(shown) * tall;
    axis(&mut svg, end, foot);
    svg.push_str("</svg>");
    Lanes { svg, bars: Value::Array(told), note: notes.join("; ") }
}

/// Draws the nodes behind the bars, in two shades by turns.
fn bands(svg: &mut String, nodes: &[(String, u32)], shown: u32, (top, tall): (f64, f64)) {
    let mut first = 0;
    for (at, (kind, gpus)) in nodes.iter().enumerate() {
        if first >= shown {
            break;
        }
        let count = (*gpus).min(shown - first);
        let (y, tall_node) = (top + f64::from(first) * tall, f64::from(count) * tall);
        let shade = if at % 2 == 0 { "even" } else { "odd" };
        let _ = write!(
            svg,
            "<rect class=\"{shade}\" x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"{tall_node}\"/>",
            WIDTH - LEFT
        );
        let (middle, kind) = (y + tall_node / 2.0 + 4.0, escaped(kind));
        let _ = match tall_node >= 24.0 {
            true => write!(
                svg,
                "<text x=\"4\" y=\"{}\">node {at}</text><text class=\"kind\" x=\"4\" y=\"{}\">{}</text>",
                middle - 6.0,
                middle + 6.0,
                kind.chars().take(14).collect::<String>()
            ),
            false => write!(svg, "<text x=\"4\" y=\"{middle}\">node {at}</text>"),
        };
        first += gpus;
    }
}

/// Draws the axis of time below the bars.
fn axis(svg: &mut String, end: f64, foot: f64) {
    for part in 0..=6 {
        let (at, x) = (end * f64::from(part) / 6.0, LEFT + (WIDTH - LEFT) * f64::from(part) / 6.0);
        let anchor = match part {
            0 => "start",
            6 => "end",
            _ => "middle",
        };
        let _ =
            write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>", foot + 20.0, clock(at));
    }
}

/// What a reader is told of a bar: lines, the first of which is its name.
fn words(bar: &Bar, jobs: &[JobRecord]) -> Value {
    match bar.job {
        Some(job) => {
            let row = &jobs[job];
            json!([
                row.job_id,
                format!("{} to {}", clock(bar.from), clock(bar.to)),
                format!("GPU {} of {} asked for", bar.gpu, row.gpus),
                format!("submitted at {}, waited {}", clock(row.submit_s.f64()), row.wait().map_or("-".into(), span)),
                format!(
                    "{}, {} preemptions",
                    row.jct().map_or(row.outcome.to_string(), |jct| format!("completed in {}", span(jct))),
                    row.preemptions
                ),
            ])
        }
        None => json!([
            format!("{} short stays", bar.count),
            format!("{} to {}", clock(bar.from), clock(bar.to)),
            format!("GPU {}", bar.gpu)
        ]),
    }
}

/// An instant or a length for people.
fn clock(seconds: f64) -> String {
    if seconds == 0.0 { "0".into() } else { span(seconds) }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Every stay on its row of its GPU, and how many rows each GPU needs.
fn stacked(stays: &[StayRecord], index: &BTreeMap<&str, usize>, shown: u32) -> (Vec<Bar>, BTreeMap<GpuId, usize>) {
    let (placed, rows) = rowed(stays);
    let bar = |(stay, gpu, row): (&StayRecord, GpuId, usize)| {
        let job = index.get(stay.job_id.as_str()).copied();
        Bar { gpu, from: stay.from_s.f64(), to: stay.to_s.f64(), row, job, count: 1, short: false }
    };
    (placed.into_iter().filter(|(_, gpu, _)| gpu.number() < shown).map(bar).collect(), rows)
}

/// Bars of at least this length; shorter neighbours of one row become one.
fn merged(bars: &[Bar], least: f64) -> Vec<Bar> {
    let mut sorted: Vec<&Bar> = bars.iter().collect();
    sorted.sort_by(|a, b| a.gpu.cmp(&b.gpu).then(a.row.cmp(&b.row)).then(a.from.total_cmp(&b.from)));
    let mut out: Vec<Bar> = Vec::new();
    for bar in sorted {
        if bar.to - bar.from >= least {
            out.push(bar.clone());
            continue;
        }
        match out.last_mut() {
            // Close enough to the last group of short ones: part of it.
            Some(last) if last.short && (last.gpu, last.row) == (bar.gpu, bar.row) && bar.from - last.to < least => {
                last.to = last.to.max(bar.to);
                last.count += 1;
                last.job = None;
            }
            _ => out.push(Bar { short: true, ..bar.clone() }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_results::schema::{GpuSet, Seconds};

    fn stay(job: &str, from: f64, to: f64, gpus: &[u32]) -> StayRecord {
        let seconds = |x: f64| Seconds((x * 1e6) as u64);
        StayRecord {
            job_id: job.into(),
            from_s: seconds(from),
            to_s: seconds(to),
            gpus: GpuSet(GpuId::list(gpus.to_vec())),
        }
    }

    #[test]
    fn whoever_is_there_at_once_stands_side_by_side() {
        let stays = [stay("a", 0.0, 10.0, &[0]), stay("b", 5.0, 20.0, &[0, 1]), stay("c", 10.0, 12.0, &[0])];
        let index = BTreeMap::from([("a", 0), ("b", 1), ("c", 2)]);
        let (bars, rows) = stacked(&stays, &index, 2);
        let of = |job, gpu| bars.iter().find(|bar| bar.job == Some(job) && bar.gpu.number() == gpu).expect("a bar").row;
        assert_eq!((of(0, 0), of(1, 0), of(2, 0), of(1, 1)), (0, 1, 0, 0));
        assert_eq!(rows, BTreeMap::from([(GpuId::new(0), 2), (GpuId::new(1), 1)]));
    }

    #[test]
    fn short_stays_become_one_bar_and_none_is_lost() {
        let stays: Vec<StayRecord> = (0..100).map(|at| stay("a", f64::from(at), f64::from(at) + 0.5, &[0])).collect();
        let (bars, _) = stacked(&stays, &BTreeMap::from([("a", 0)]), 1);
        let merged = merged(&bars, 1.0);
        assert_eq!((merged.len(), merged[0].count), (1, 100));
        assert_eq!((merged[0].from, merged[0].to), (0.0, 99.5));
    }
}
