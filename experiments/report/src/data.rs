//! What the page shows beside its tables.

use serde::Serialize;
use serde_json::Value;

/// A figure, drawn.
#[derive(Serialize)]
pub struct Drawn {
    /// Its name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What to know of it.
    pub caption: String,
    /// Its lines, and the number of each one's colour.
    pub legend: Vec<(String, usize)>,
    /// SVG.
    pub svg: String,
    /// The number of the point of the sweep that it is of; none: it is of the sweep.
    pub point: Option<usize>,
}

/// The GPUs of one run over time.
#[derive(Serialize)]
pub struct Timeline {
    /// Whose.
    pub policy: String,
    /// Which run.
    pub run: String,
    /// SVG.
    pub svg: String,
    /// What each bar is.
    pub bars: Value,
    /// What was left out.
    pub note: String,
}
