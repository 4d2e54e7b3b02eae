//! Results as people read them: one page that needs no network, Markdown for a pull request, figures for a paper.
//!
//! # Architecture
//! - [`gather`]: what there is to say of a spec's results, as data.
//! - [`plot`]: figures, the only place that names kuva; [`lanes`]: the timeline of GPUs.
//! - [`frame`]: the same results as columns: CSV, JSON Lines, Parquet.
//! - `page.html`: the page, a minijinja template that users may replace.

mod data;
mod figures;
pub mod frame;
mod gather;
mod lanes;
pub mod plot;

use crate::error::Error;

pub use figures::{Captioned, figures};
pub use gather::{Gathered, Provenance, gather};

/// The page's template.
pub const PAGE: &str = include_str!("page.html");

/// The page.
///
/// # Errors
/// A template that does not render; the shipped one does.
pub fn html(gathered: &Gathered, template: &str) -> Result<String, Error> {
    let mut environment = minijinja::Environment::new();
    let wrong = |error: minijinja::Error| Error::usage(format!("the template: {error:#}"));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    environment.add_template("page", template).map_err(wrong)?;
    environment.get_template("page").and_then(|page| page.render(minijinja::value::Serde(gathered))).map_err(wrong)
}

/// The same for a pull request or a notebook: no figure.
pub fn markdown(gathered: &Gathered) -> String {
    let plain = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace(['\n', '\r'], " ");
    let cell = |text: &str| plain(text).replace('|', "\\|");
    let table = |out: &mut String, head: &[String], rows: &[Vec<String>]| {
        let line =
            |cells: &[String]| format!("| {} |\n", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "));
        out.push_str(&line(head));
        out.push_str(&format!("|{}\n", " --- |".repeat(head.len())));
        rows.iter().for_each(|row| out.push_str(&line(row)));
    };
    let mut out = format!("# {}\n\n", plain(&gathered.title));
    gathered.notes.iter().for_each(|note| out.push_str(&format!("> {}\n\n", plain(note))));
    if !gathered.claims.is_empty() {
        out.push_str("## Claims\n\n");
        let (head, rows) = crate::claim::table(&gathered.claims);
        table(&mut out, &head, &rows);
        out.push('\n');
        crate::claim::notes(&gathered.claims).iter().for_each(|note| out.push_str(&format!("- {}\n", plain(note))));
        out.push('\n');
    }
    out.push_str("## Metrics\n\n");
    let rows: Vec<Vec<String>> =
        gathered.metrics.rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect()).collect();
    table(&mut out, &gathered.metrics.head, &rows);
    if !gathered.metrics.notes.is_empty() {
        out.push('\n');
        gathered.metrics.notes.iter().for_each(|note| out.push_str(&format!("- {}\n", plain(note))));
    }
    if !gathered.predictors.is_empty() {
        out.push_str("\n## Predictors\n\n");
        let head = ["predictor", "quantity", "answers a run", "MAE", "bias", "in"].map(str::to_string);
        table(&mut out, &head, &gathered.predictors);
    }
    out.push_str("\n## Provenance\n\n");
    gathered.provenance.facts.iter().for_each(|(name, value)| out.push_str(&format!("- {name}: `{value}`\n")));
    out
}
