//! `sandtable report`.

mod paper;

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame};
use sandtable_core::input;
use sandtable_core::output;
use sandtable_core::text::word;
use sandtable_plan::Plan;
use sandtable_report::parquet::parquet;
use sandtable_report::plot::{Figure, outlined, pdf, png, side_by_side};
use sandtable_report::rows::{Rows, rows};
use sandtable_report::table::chosen;
use sandtable_report::{Captioned, PAGE, figures, gather, html, markdown, tex};
use sandtable_results::metric;
use sandtable_results::status::known;
use sandtable_results::store::Store;

use self::paper::PaperArgs;
use super::{SpecArgs, StoreArgs};
use crate::ui;

/// Results as a page, a figure or a table; the ending of the file says which.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable report experiments/specs/quickstart.ron                      # quickstart.html
  sandtable report SPEC -o results.md                                    # for a pull request
  sandtable report SPEC --figure list                                    # which figures there are
  sandtable report SPEC -o jct.pdf --figure jct --width 3.3in --font Times --no-title --only fifo,las
  sandtable report SPEC -o tables.tex                                    # its tables, with booktabs
  sandtable report SPEC -o jobs.csv --rows jobs                          # .jsonl likewise")]
pub(crate) struct ReportArgs {
    /// The spec.
    #[arg(value_name = "SPEC")]
    path: PathBuf,
    /// Output file: `.html`, `.md`, `.tex`, `.svg`, `.pdf`, `.png`, `.csv` or `.jsonl` [default: the spec's name with `.html`, in
    /// the current folder]. A build with the feature `parquet` writes `.parquet` too.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Figure of an SVG, PDF or PNG; `list` names those of these results [default: jct].
    #[arg(long, value_name = "FIGURE", help_heading = "Figures")]
    figure: Option<String>,
    /// Draw the figure for every point of the sweep, two per row, instead of the first point that `--at` selects.
    #[arg(long, help_heading = "Figures")]
    every_point: bool,
    #[command(flatten)]
    paper: PaperArgs,
    /// What a row of a table describes.
    #[arg(long, value_enum, default_value_t)]
    rows: Rows,
    /// Metrics of a `.tex` table, such as `jct-mean,jct-p99,makespan` [default: those of the table that `run` prints].
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    columns: Vec<String>,
    /// Template of the page (minijinja).
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// The figure that is asked for, drawn.
fn drawing(args: &ReportArgs, styled: &PaperArgs, plan: &Plan, store: &Store, ending: &str) -> Result<Vec<u8>, Error> {
    let metric = args.paper.metric()?;
    let all = figures(plan, store, &known(plan, store)?, metric)?;
    let wanted = args.figure.as_deref().unwrap_or("jct");
    let of_metrics = ["policies", "ranks"].contains(&wanted) || wanted.starts_with("sweep");
    if args.paper.metric.is_some() && !of_metrics {
        let error = Error::usage(format!("`{wanted}` is of jobs, and has no metric"));
        return Err(error.hint("--metric is of the figures `policies`, `ranks` and `sweep`"));
    }
    let of: Vec<&Figure> = all.iter().filter(|one| one.figure.id == wanted).map(|one| &one.figure).collect();
    let Some(first) = of.first() else {
        let of = if of_metrics { format!("`{}` in ", metric.name) } else { String::new() };
        let error = Error::usage(format!("no figure `{wanted}` of {of}these results"));
        let names = names(&all);
        return Err(
            error.hint(format!("expected one of: {}", if names.is_empty() { "none".into() } else { names.join(", ") }))
        );
    };
    let paper = styled.paper()?;
    let svg = match args.every_point {
        true => side_by_side(&of, &paper)?,
        false => first.svg(&paper)?,
    };
    match ending {
        "pdf" => pdf(&svg, &paper.font),
        "png" => png(&svg, &paper.font),
        _ if styled.outlines() => Ok(outlined(&svg, &paper.font)?.into_bytes()),
        _ => Ok(svg.into_bytes()),
    }
}

/// The names of figures, each once.
fn names(all: &[Captioned]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for one in all {
        if !names.contains(&one.figure.id.as_str()) {
            names.push(&one.figure.id);
        }
    }
    names
}

/// What `--figure list` prints.
fn list(all: &[Captioned]) -> Frame {
    let mut frame = Frame::new(vec![Column::words("figure"), Column::words("shows")]);
    for name in names(all) {
        let Some(one) = all.iter().find(|one| one.figure.id == name) else { continue };
        frame.push(vec![name.into(), one.figure.title.as_str().into()]);
    }
    frame
}

pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, Error> {
    let plan = args.spec.expand(&args.path)?;
    let store = args.store.open(Some(&args.path))?;
    if !plan.cells.iter().any(|cell| store.has(&cell.id)) {
        let error =
            Error { exit: ExitCode::Missing, ..Error::usage(format!("{}: no cell has a result", args.path.display())) };
        return Err(error.hint(format!("sandtable run {}", args.path.display())));
    }
    if args.figure.as_deref() == Some("list") {
        let all = figures(&plan, &store, &known(&plan, &store)?, args.paper.metric()?)?;
        ui::result(&list(&all).text());
        return Ok(ExitCode::Done);
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
    if !args.columns.is_empty() && ending != "tex" {
        return Err(Error::usage(format!("{}: --columns are those of a `.tex` table", output.display())));
    }
    if (args.figure.is_some() || args.every_point || args.paper.is_asked()) && !["svg", "pdf", "png"].contains(&ending)
    {
        let error = Error::usage(format!("{}: a figure alone is an SVG, a PDF or a PNG", output.display()));
        return Err(error.hint("-o FILE.svg"));
    }
    let mut paper = args.paper.clone();
    let style = paper.styled(&args.path)?;
    let bytes = match ending {
        "html" | "htm" | "md" | "tex" => {
            let mut gathered = gather(&plan, &store, &args.path, &command(), &today())?;
            let columns = if args.columns.is_empty() && ending == "tex" { &style.columns } else { &args.columns };
            if !columns.is_empty() {
                let metrics = columns.iter().map(|name| metric::named(name)).collect::<Result<Vec<_>, Error>>()?;
                gathered.metrics.table = chosen(&plan, &known(&plan, &store)?, &metrics);
            }
            match ending {
                "md" => markdown(&gathered),
                "tex" => tex(&gathered),
                _ => html(&gathered, &template(args.template.as_deref())?)?,
            }
            .into_bytes()
        }
        "svg" | "pdf" | "png" => drawing(args, &paper, &plan, &store, ending)?,
        "csv" => rows(&plan, &store, args.rows)?.csv().into_bytes(),
        "jsonl" => rows(&plan, &store, args.rows)?.json_lines().into_bytes(),
        "parquet" => parquet(&rows(&plan, &store, args.rows)?)?,
        other => {
            let error = Error::usage(format!("{}: no report ends in `.{other}`", output.display()));
            return Err(error.hint("expected .html, .md, .tex, .svg, .pdf, .png, .csv, .jsonl or .parquet"));
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
