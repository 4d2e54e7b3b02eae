//! `sandtable claims`.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input::sorted;
use sandtable_core::output;
use sandtable_plan::{Options, plan};
use sandtable_report::plot::Forest;
use sandtable_results::claim::{ClaimRow, ExpectedFailures, Measured, data, in_words, measure, notes, render, table};
use sandtable_results::status::known;

use super::StoreArgs;
use crate::commands::Format;
use crate::ui;

/// Print every claim of specs beside what the results in the store show; runs nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable claims experiments/specs/geng2020
  sandtable claims experiments/specs --expected experiments/expected-failures.ron -o claims.md")]
pub(crate) struct ClaimsArgs {
    /// Specs, or folders of specs.
    #[arg(required = true, value_name = "SPEC")]
    specs: Vec<PathBuf>,
    /// File of claims that are known to fail, with reasons.
    #[arg(long, value_name = "FILE")]
    expected: Option<PathBuf>,
    /// Write a Markdown page to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw every comparison of two policies with its interval into this SVG file.
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Output format without `--output`.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The specs below a folder, by path.
pub(super) fn specs_in(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    if !path.is_dir() {
        found.push(path.to_path_buf());
        return Ok(());
    }
    for entry in sorted(path)? {
        // Profiles are RON too, and no specs.
        let is_spec = entry.extension().is_some_and(|ending| ending == "ron")
            && path.file_name().is_none_or(|name| name != "profiles");
        if entry.is_dir() || is_spec {
            specs_in(&entry, found)?;
        }
    }
    Ok(())
}

pub(crate) fn run(args: &ClaimsArgs) -> Result<ExitCode, Error> {
    let mut specs = Vec::new();
    for path in &args.specs {
        specs_in(path, &mut specs)?;
    }
    let expected = args.expected.as_deref().map_or_else(|| Ok(ExpectedFailures::default()), ExpectedFailures::read)?;
    let mut page = String::from(HEAD);
    let mut drawn: Vec<(String, f64, (f64, f64))> = Vec::new();
    let (mut count, mut failing, mut unsure, mut unknown) = (0, 0, 0, 0);
    for spec in &specs {
        // What has no claim is not expanded: it may need data that are not here.
        let text = sandtable_plan::spec_text(spec)?;
        if !text.contains("claims") {
            continue;
        }
        let plan = plan(spec, &Options::default())?;
        let store = args.store.look(Some(spec))?;
        let measured = measure(&plan, &known(&plan, &store)?);
        if measured.is_empty() {
            continue;
        }
        count += measured.len();
        failing += measured.iter().filter(|one| one.holds() == Some(false)).count();
        let open = |one: &&Measured<'_>| one.verdict().is_inconclusive();
        unsure += measured.iter().filter(open).count();
        unknown += measured.iter().filter(|one| one.holds().is_none() && !open(one)).count();
        drawn.extend(rows(&measured));
        match (&args.output, args.format) {
            (None, Format::Table) if args.figure.is_some() => {}
            (None, Format::Json) => ui::result(&data(&measured).json_lines()),
            (None, _) => ui::result(&format!("{}\n{}\n", spec.display(), render(&measured))),
            (Some(_), _) => {
                let rows: Vec<ClaimRow> = measured.iter().map(in_words).collect();
                let reasons = measured.iter().map(|one| expected.reason(spec, one).map(str::to_string)).collect();
                page.push_str(&section(&name_of(spec), &plan.title, &rows, reasons));
            }
        }
    }
    if let Some(output) = &args.output {
        output::write(output, &page)?;
    }
    if let Some(figure) = &args.figure {
        if drawn.is_empty() {
            return Err(Error::usage("no claim of these specs compares two policies and is measured: nothing to draw"));
        }
        let title = args.specs.iter().map(|spec| name_of(spec)).collect::<Vec<_>>().join(", ");
        let forest = Forest { title, x: "change, % (95 % CI)".into(), rows: drawn };
        output::write(figure, forest.svg()?)?;
    }
    ui::note(&format!("{count} claims: {failing} fail, {unsure} are inconclusive, {unknown} are not measured"));
    Ok(if unknown > 0 { ExitCode::Missing } else { ExitCode::Done })
}

/// Comparisons as rows of a figure, in per cent. A long value of the sweep is named by its number.
fn rows(measured: &[Measured<'_>]) -> Vec<(String, f64, (f64, f64))> {
    const LONG: usize = 24;
    let mut long: Vec<(&str, &str)> = Vec::new();
    let mut rows = Vec::new();
    for one in measured {
        let (Some(against), Some(estimate)) = (&one.claim.spec.against, one.estimate) else { continue };
        let mut name = format!("{} against {against}", one.claim.spec.of);
        for (path, value) in &one.claim.at {
            let last = path.rsplit('.').next().unwrap_or_default();
            if value.len() <= LONG {
                name.push_str(&format!(", {last} {}", value.replace('"', "")));
                continue;
            }
            let known = long.iter().position(|seen| *seen == (path.as_str(), value.as_str()));
            let at = known.unwrap_or_else(|| {
                long.push((path, value));
                long.len() - 1
            });
            let number = long[..=at].iter().filter(|(other, _)| other == path).count();
            name.push_str(&format!(", {last} {number}"));
        }
        let half = if estimate.half.is_finite() { estimate.half } else { 0.0 };
        let percent = |x: f64| 100.0 * x;
        let interval = (percent(estimate.mean - half), percent(estimate.mean + half));
        rows.push((format!("{name}: {}", one.claim.spec.metric), percent(estimate.mean), interval));
    }
    rows
}

const HEAD: &str = "\
# Every claim, as measured

Made by `sandtable claims` from full runs (`just figures`). *Published* is what a publication prints, *reference* what somebody's code
gave when it was run; *measured* is ours, with its 95 % interval (Student's) over independent runs. The verdict is about our own bound:
*inconclusive* where the interval has values on both sides of it. The last column says whether the published or reference figure lies
within the measured interval. A claim that fails is named as failing, with what is known of the reason.
";

/// The spec's path below the folder of specs, without its ending.
pub(super) fn name_of(spec: &Path) -> String {
    let parts: Vec<String> =
        spec.with_extension("").components().map(|part| part.as_os_str().to_string_lossy().to_string()).collect();
    let from = parts.iter().rposition(|part| part == "specs").map_or(0, |at| at + 1);
    parts[from..].join("/")
}

fn section(name: &str, title: &str, rows: &[ClaimRow], reasons: Vec<Option<String>>) -> String {
    let mut out = format!("\n## {name}\n\n{title}\n\n{}", table(rows).markdown());
    let mut below = notes(rows);
    for (row, reason) in rows.iter().zip(reasons) {
        if let Some(reason) = reason {
            below.push(format!("{}, {}: {reason}", row.says, row.of));
        }
    }
    if !below.is_empty() {
        out.push('\n');
        below.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
    }
    out
}
