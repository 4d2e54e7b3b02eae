//! `sandtable report`.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::input;
use sandtable_core::output;
use sandtable_core::text::word;
use sandtable_report::parquet::parquet;
use sandtable_report::plot::{FigureStyle, side_by_side};
use sandtable_report::rows::{Rows, rows};
use sandtable_report::{Captioned, PAGE, figures, gather, html, markdown, tex};
use sandtable_results::status::known;

use super::{SpecArgs, StoreArgs};
use crate::ui;

/// Results as a page, a figure or a table; the ending of the file says which.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable report experiments/specs/quickstart.ron                      # quickstart.html
  sandtable report SPEC -o results.md                                    # for a pull request
  sandtable report SPEC -o jct.svg --figure jct                          # for a paper
  sandtable report SPEC -o tables.tex                                    # its tables, with booktabs
  sandtable report SPEC -o jobs.csv --rows jobs                          # .jsonl and .parquet likewise")]
pub(crate) struct ReportArgs {
    /// The spec.
    #[arg(value_name = "SPEC")]
    path: PathBuf,
    /// Output file: `.html`, `.md`, `.tex`, `.svg`, `.csv`, `.jsonl` or `.parquet` [default: the spec's name with `.html`,
    /// in the current folder].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Figure of an SVG: `jct`, `waiting`, `utilisation` or `sweep` [default: jct].
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Draw the figure for every point of the sweep, two per row, instead of the first point that `--at` selects.
    #[arg(long)]
    every_point: bool,
    /// What a row of a table describes.
    #[arg(long, value_enum, default_value_t)]
    rows: Rows,
    /// Template of the page (minijinja).
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, Error> {
    let plan = args.spec.expand(&args.path)?;
    let store = args.store.open(Some(&args.path))?;
    if !plan.cells.iter().any(|cell| store.has(&cell.id)) {
        let error =
            Error { exit: ExitCode::Missing, ..Error::usage(format!("{}: no cell has a result", args.path.display())) };
        return Err(error.hint(format!("sandtable run {}", args.path.display())));
    }
    let named = || PathBuf::from(args.path.file_stem().unwrap_or_default()).with_extension("html");
    let output = args.output.clone().unwrap_or_else(named);
    let beside = args.path.parent().unwrap_or(Path::new(""));
    let inputs = plan.files.iter().map(|name| beside.join(name)).chain(std::iter::once(args.path.clone()));
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if real(&output).is_some_and(|own| inputs.map(|path| real(&path)).any(|input| input.as_ref() == Some(&own))) {
        return Err(Error::usage(format!("{}: the spec reads this file: it is not written over", output.display())));
    }
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if (args.figure.is_some() || args.every_point) && ending != "svg" {
        let error = Error::usage(format!("{}: a figure alone is an SVG", output.display()));
        return Err(error.hint("-o FILE.svg"));
    }
    let bytes = match ending {
        "html" | "htm" | "md" | "tex" => {
            let gathered = gather(&plan, &store, &args.path, &command(), &today())?;
            match ending {
                "md" => markdown(&gathered),
                "tex" => tex(&gathered),
                _ => html(&gathered, &template(args.template.as_deref())?)?,
            }
            .into_bytes()
        }
        "svg" => {
            let all = figures(&plan, &store, &known(&plan, &store)?)?;
            let wanted = args.figure.as_deref().unwrap_or("jct");
            let of: Vec<&Captioned> = all.iter().filter(|one| one.figure.id == wanted).collect();
            let Some(first) = of.first() else {
                let mut names: Vec<&str> = Vec::new();
                for one in &all {
                    if !names.contains(&one.figure.id.as_str()) {
                        names.push(&one.figure.id);
                    }
                }
                let error = Error::usage(format!("no figure `{wanted}` of these results"));
                return Err(error.hint(format!(
                    "expected one of: {}",
                    if names.is_empty() { "none".into() } else { names.join(", ") }
                )));
            };
            match args.every_point {
                true => side_by_side(&of.iter().map(|one| &one.figure).collect::<Vec<_>>())?.into_bytes(),
                false => first.figure.svg(FigureStyle::Paper)?.into_bytes(),
            }
        }
        "csv" => rows(&plan, &store, args.rows)?.csv().into_bytes(),
        "jsonl" => rows(&plan, &store, args.rows)?.json_lines().into_bytes(),
        "parquet" => parquet(&rows(&plan, &store, args.rows)?)?,
        other => {
            let error = Error::usage(format!("{}: no report ends in `.{other}`", output.display()));
            return Err(error.hint("expected .html, .md, .tex, .svg, .csv, .jsonl or .parquet"));
        }
    };
    output::write(&output, &bytes)?;
    let missing = plan.cells.iter().filter(|cell| !store.has(&cell.id)).count();
    ui::note(&format!("{}: {} kB, {} cells", output.display(), bytes.len().div_ceil(1000), plan.cells.len() - missing));
    if missing > 0 {
        ui::note(&format!("warning: {missing} cells have no result yet"));
        return Ok(ExitCode::Missing);
    }
    Ok(ExitCode::Done)
}

fn template(path: Option<&Path>) -> Result<String, Error> {
    let Some(path) = path else { return Ok(PAGE.to_string()) };
    input::text(path, input::SPEC)
}

/// The command as it was typed: a report says how to get it again.
fn command() -> String {
    let words = std::env::args().skip(1).map(|given| word(&given)).collect::<Vec<_>>();
    format!("sandtable {}", words.join(" "))
}

/// The date for the page, or that of `SOURCE_DATE_EPOCH` (seconds), so that a page too can be the same to the byte.
fn today() -> String {
    #[expect(clippy::disallowed_methods, reason = "a date is shown, and moves nothing")]
    let (told, now) = (std::env::var("SOURCE_DATE_EPOCH").ok(), std::time::SystemTime::now());
    let stamp = match told.and_then(|text| text.parse::<i64>().ok()) {
        Some(seconds) => jiff::Timestamp::from_second(seconds).ok(),
        None => jiff::Timestamp::try_from(now).ok(),
    };
    stamp.map_or(String::new(), |stamp| stamp.strftime("%Y-%m-%d %H:%M UTC").to_string())
}
