//! Results as people read them: one page that needs no network, Markdown for a pull request, figures for a paper.
//!
//! # Architecture
//! - [`gather`]: what there is to say of a spec's results, as data.
//! - [`figures`](mod@figures): which figures results give; [`plot`]: those for a paper; `data`: those of the page, as columns.
//! - `lanes`: the timeline of GPUs.
//! - [`rows`]: the same results as rows for other programs; [`parquet`]: those as Parquet.
//! - [`tex`](fn@tex): tables for a paper.
//! - [`board`]: a cluster's queue and its nodes, as a page.
//! - `page.html`: the page, a minijinja template that users may replace; `page/`: its scripts, and uPlot, which draws its lines.

mod axes;
pub mod board;
pub mod chrome;
mod data;
mod figures;
mod gather;
mod lanes;
pub mod parquet;
pub mod plot;
pub mod rows;
pub mod table;
mod tex;

use sandtable_core::error::Error;
use sandtable_core::frame::Frame;

pub use figures::{Captioned, Class, figures};
pub use gather::{Gathered, Metrics, Provenance, gather};
pub use tex::{tex, tex_table};

/// The page's template.
pub const PAGE: &str = include_str!("page.html");
/// How pages look: what templates include as `style`.
const STYLE: &str = include_str!("style.css");
/// What draws lines on pages, with its style: uPlot (`page/uplot/README.md`).
const UPLOT: [&str; 2] = [include_str!("page/uplot/uPlot.iife.min.js"), include_str!("page/uplot/uPlot.min.css")];
/// The page's scripts, in the order in which they need each other.
const SCRIPTS: [&str; 4] = [
    include_str!("page/charts.js"),
    include_str!("page/lanes.js"),
    include_str!("page/pairs.js"),
    include_str!("page/page.js"),
];

/// The page.
///
/// # Errors
/// A template that does not render; the shipped one does.
pub fn html(gathered: &Gathered, template: &str) -> Result<String, Error> {
    rendered(template, gathered)
}

/// A template with values.
fn rendered(template: &str, values: impl serde::Serialize) -> Result<String, Error> {
    let mut environment = minijinja::Environment::new();
    let wrong = |error: minijinja::Error| Error::usage(format!("the template: {error:#}"));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    let [uplot, uplot_style] = UPLOT;
    let parts = [
        ("style", STYLE.into()),
        ("uplot", uplot.into()),
        ("uplot_style", uplot_style.into()),
        ("script", SCRIPTS.concat()),
    ];
    for (name, text) in parts {
        // They are no templates: braces in them are their own.
        environment.add_template_owned(name, format!("{{% raw %}}{text}{{% endraw %}}")).map_err(wrong)?;
    }
    environment.add_filter("tojson", compact);
    environment.add_template("page", template).map_err(wrong)?;
    environment.get_template("page").and_then(|page| page.render(minijinja::value::Serde(values))).map_err(wrong)
}

/// A value as JSON that may stand in a page: minijinja's own puts a space behind every comma, an eighth of a page.
fn compact(value: &minijinja::Value) -> Result<minijinja::Value, minijinja::Error> {
    let text = serde_json::to_string(value)
        .map_err(|why| minijinja::Error::new(minijinja::ErrorKind::BadSerialization, why.to_string()))?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\'' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(minijinja::Value::from_safe_string(out))
}

/// The same for a pull request or a notebook: no figure.
pub fn markdown(gathered: &Gathered) -> String {
    let plain = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace(['\n', '\r'], " ");
    let cell = |text: &str| plain(text).replace('|', "\\|");
    let table = |out: &mut String, frame: &Frame| {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        out.push_str(&line(frame.heads().iter().map(|text| cell(text)).collect()));
        out.push_str(&format!("|{}\n", " --- |".repeat(frame.heads().len())));
        frame.texts().for_each(|row| out.push_str(&line(row.iter().map(|(text, _)| cell(text)).collect())));
    };
    let mut out = format!("# {}\n\n", plain(&gathered.title));
    gathered.notes.iter().for_each(|note| out.push_str(&format!("> {}\n\n", plain(note))));
    if !gathered.claims.is_empty() {
        out.push_str("## Claims\n\n");
        table(&mut out, &sandtable_results::claim::table(&gathered.claims));
        out.push('\n');
        sandtable_results::claim::notes(&gathered.claims)
            .iter()
            .for_each(|note| out.push_str(&format!("- {}\n", plain(note))));
        out.push('\n');
    }
    out.push_str("## Metrics\n\n");
    table(&mut out, &gathered.metrics.table);
    if !gathered.metrics.notes.is_empty() {
        out.push('\n');
        gathered.metrics.notes.iter().for_each(|note| out.push_str(&format!("- {}\n", plain(note))));
    }
    if !gathered.queues.table.is_empty() {
        out.push_str("\n## Queues\n\n");
        table(&mut out, &gathered.queues.table);
    }
    if !gathered.predictors.is_empty() {
        out.push_str("\n## Predictors\n\n");
        table(&mut out, &gathered.predictors);
    }
    out.push_str("\n## Provenance\n\n");
    gathered.provenance.facts.iter().for_each(|(name, value)| out.push_str(&format!("- {name}: `{value}`\n")));
    out
}
