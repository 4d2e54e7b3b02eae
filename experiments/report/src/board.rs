//! What would become of a cluster's queue, as a page that needs no network and no script.

use std::fmt::Write as _;

use sandtable_core::display::span;
use sandtable_core::error::Error;
use serde::Serialize;

use crate::Metrics;

/// All of the page. Times are seconds from now on; what never comes is infinite.
#[derive(Serialize)]
pub struct Board {
    /// What is asked.
    pub title: String,
    /// What a reader must know before the numbers: what is not modelled, and what the source does not tell.
    pub notes: Vec<String>,
    /// The policies, on the cluster as it is or changed.
    pub policies: Vec<String>,
    /// Whether run times are drawn.
    pub drawn: bool,
    /// Whether the cluster's own plans are known of any job.
    pub planned: bool,
    /// Whether it is known of any job when it really started.
    pub recorded: bool,
    /// The time axis, drawn.
    pub axis: String,
    /// The jobs that wait.
    pub jobs: Vec<BoardJob>,
    /// How many more wait.
    pub more: usize,
    /// The nodes, and what runs there.
    pub nodes: Vec<BoardNode>,
    /// How many more there are.
    pub more_nodes: usize,
    /// What becomes of all jobs together.
    pub metrics: Metrics,
    /// How forecasts agree with what happened, where that is known.
    pub accuracy: Option<Metrics>,
    /// Where all of it comes from.
    pub facts: Vec<(String, String)>,
}

/// A job that waits.
#[derive(Serialize)]
pub struct BoardJob {
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Size of its gang.
    pub gpus: u32,
    /// For how long it has waited, in words.
    pub waited: String,
    /// What it waits for.
    pub why: String,
    /// When it starts, by policy, in words.
    pub starts: Vec<String>,
    /// The same, drawn.
    pub svg: String,
}

/// A node.
#[derive(Serialize)]
pub struct BoardNode {
    /// Its name.
    pub name: String,
    /// The kind of its GPUs.
    pub kind: String,
    /// Its GPUs.
    pub gpus: u32,
    /// Those that no job holds.
    pub free: u32,
    /// What runs there, in words.
    pub jobs: String,
    /// The same, drawn.
    pub svg: String,
}

/// The page's template.
const BOARD: &str = include_str!("board.html");

/// The page.
///
/// # Errors
/// None that can happen: the template is this crate's.
pub fn board(of: &Board) -> Result<String, Error> {
    crate::rendered(BOARD, of)
}

/// Units of a drawing from now to its end.
const WIDE: f64 = 400.0;

/// The time that drawings show: a little more than the latest of these that comes.
pub fn horizon(times: impl Iterator<Item = f64>) -> f64 {
    times.filter(|at| at.is_finite()).fold(1.0, f64::max) * 1.05
}

fn x(at: f64, horizon: f64) -> f64 {
    (at / horizon).clamp(0.0, 1.0) * WIDE
}

/// The axis of drawings up to a horizon.
pub fn axis(horizon: f64) -> String {
    let mut out = format!(r#"<svg class="board" viewBox="0 0 {WIDE} 14" aria-hidden="true">"#);
    for part in 0..5 {
        let at = horizon * f64::from(part) / 5.0;
        let said = if part == 0 { "now".to_string() } else { span(at) };
        let _ = write!(out, r#"<text x="{:.1}" y="11">{said}</text>"#, x(at, horizon) + 2.0);
    }
    out + "</svg>"
}

fn grid(out: &mut String, high: usize) {
    for part in 0..5 {
        let at = WIDE * f64::from(part) / 5.0;
        let _ = write!(out, r#"<line class="grid" x1="{at}" y1="0" x2="{at}" y2="{high}"/>"#);
    }
}

/// When a job starts by policy, as P10, P50 and P90; where its own scheduler plans it, and when it really started.
pub fn starts(by_policy: &[Option<[f64; 3]>], planned: Option<f64>, real: Option<f64>, horizon: f64) -> String {
    let high = by_policy.len() * 10 + 4;
    let mut out = format!(r#"<svg class="board" viewBox="0 0 {WIDE} {high}" aria-hidden="true">"#);
    grid(&mut out, high);
    for (at, of) in by_policy.iter().enumerate() {
        let Some([p10, p50, p90]) = of else { continue };
        let (y, colour) = (at * 10 + 3, at % 8);
        if p10.is_finite() {
            let (from, to) = (x(*p10, horizon), x(*p90, horizon));
            let wide = (to - from).max(2.0);
            let _ = write!(
                out,
                r#"<rect class="c{colour}" x="{from:.1}" y="{y}" width="{wide:.1}" height="7" opacity="0.6"/>"#
            );
        }
        if p50.is_finite() {
            let at = x(*p50, horizon);
            let _ = write!(out, r#"<line class="at" x1="{at:.1}" y1="{y}" x2="{at:.1}" y2="{}"/>"#, y + 7);
        }
    }
    if let Some(at) = planned.map(|at| x(at, horizon)) {
        let middle = high / 2;
        let _ = write!(out, r#"<path class="own" d="M{at:.1} {} l4 4 l-4 4 l-4 -4 z"/>"#, middle.saturating_sub(4));
    }
    if let Some(at) = real.map(|at| x(at, horizon)) {
        let _ = write!(out, r#"<line class="real" x1="{at:.1}" y1="0" x2="{at:.1}" y2="{high}"/>"#);
    }
    out + "</svg>"
}

/// What runs on a node: of each job its GPUs and the time that it has left.
pub fn lanes(gpus: u32, jobs: &[(Vec<u32>, f64)], horizon: f64) -> String {
    // Of large nodes the lanes are thin.
    let each = if gpus > 8 { 4 } else { 8 };
    let high = gpus.min(64) as usize * each + 2;
    let mut out = format!(r#"<svg class="board" viewBox="0 0 {WIDE} {high}" aria-hidden="true">"#);
    grid(&mut out, high);
    for (at, (held, left)) in jobs.iter().enumerate() {
        let wide = x(*left, horizon).max(2.0);
        for gpu in held.iter().filter(|gpu| **gpu < 64) {
            // Jobs that have parts of a GPU lie in its lane one below the other.
            let here = |jobs: &[(Vec<u32>, f64)]| jobs.iter().filter(|(held, _)| held.contains(gpu)).count();
            let (all, above) = (here(jobs), here(&jobs[..at]));
            let high = (each - 1) as f64 / all.max(1) as f64;
            let y = (*gpu as usize * each + 1) as f64 + high * above as f64;
            let (y, high) = ((y * 100.0).round() / 100.0, (high * 100.0).round() / 100.0);
            let _ = write!(out, r#"<rect class="b{}" x="0" y="{y}" width="{wide:.1}" height="{high}"/>"#, at % 12);
        }
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_within_the_drawing_and_what_never_comes_is_not_drawn() {
        assert_eq!(horizon([3.0, f64::INFINITY, 100.0].into_iter()), 105.0);
        let never = [f64::INFINITY; 3];
        let svg = starts(&[Some([10.0, 20.0, f64::INFINITY]), Some(never), None], Some(500.0), None, 100.0);
        assert_eq!(svg.matches("<rect").count(), 1);
        assert!(svg.contains(r#"x="40.0" y="3" width="360.0""#), "{svg}");
        assert_eq!(svg.matches(r#"class="at""#).count(), 1);
        // A plan behind the end stands at it.
        assert!(svg.contains("M400.0 "), "{svg}");
    }

    #[test]
    fn a_lane_is_a_gpu() {
        let svg = lanes(4, &[(vec![0, 1], 50.0), (vec![3], f64::INFINITY)], 100.0);
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains(r#"y="25" width="400.0""#), "{svg}");
        // Two parts of a GPU are half as high.
        let svg = lanes(4, &[(vec![1], 50.0), (vec![1], 80.0)], 100.0);
        assert!(svg.contains(r#"y="9" width="200.0" height="3.5""#), "{svg}");
        assert!(svg.contains(r#"y="12.5" width="320.0" height="3.5""#), "{svg}");
    }
}
