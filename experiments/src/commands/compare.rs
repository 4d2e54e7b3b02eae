//! `sandtable compare`.

mod matrix;
mod written;

use std::path::PathBuf;

use sandtable_core::display::Unit;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame};
use sandtable_results::compare::{self, Change, Comparison, Pair, pair};
use sandtable_results::schema::{Record as _, StayRecord};
use sandtable_results::store::Store;
use sandtable_run::code;
use sandtable_run::execute::Compiled;
use sandtable_run::story::{FirstDivergence, Names, parting, parting_in_words, parting_object};
use serde_json::json;

use super::{SpecArgs, StoreArgs, select};
use crate::commands::Format;
use crate::ui;
use matrix::Matrix;

/// Compare two results: metrics over paired seeds, jobs, the first decision that differs; or more of them by one metric.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable compare --spec experiments/specs/quickstart.ron fifo las
  sandtable compare --spec SPEC fifo srtf --metric jct-mean
  sandtable compare --spec SPEC fifo srtf --brief                        # the metrics alone
  sandtable compare --spec SPEC fifo sjf srtf las                        # a matrix of every pair
  sandtable compare --spec SPEC fifo sjf srtf las -o pairs.tex           # the same for a paper
  sandtable compare before.ron after.ron
  sandtable compare 3f9a2c11e0 8bc04d77aa")]
pub(crate) struct CompareArgs {
    /// A spec, a cell's id, or a label of `--spec`'s policies.
    #[arg(value_name = "A")]
    first: String,
    /// The result to compare with; of more than one, every pair by one metric.
    #[arg(value_name = "B", required = true)]
    others: Vec<String>,
    /// The spec whose policies A and B are.
    #[arg(long = "spec", short = 's', value_name = "SPEC")]
    of: Option<PathBuf>,
    /// Compare only this metric, such as `jct-mean`, `makespan` or `utilisation` [default of more than two results: jct-mean].
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Maximum number of jobs to list.
    #[arg(long, value_name = "N", default_value_t = 5)]
    jobs: usize,
    /// Print the metrics alone: no jobs, and no decision.
    #[arg(long)]
    brief: bool,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Write the metrics to this file instead: `.tex`, `.md`, `.csv` or `.jsonl`.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format without `--output`.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Error> {
    let spec = match &args.of {
        Some(path) => Some((path.clone(), args.spec.expand(path)?)),
        None => None,
    };
    let named = args.of.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let mut words: Vec<&str> = vec![&args.first];
    words.extend(args.others.iter().map(String::as_str));
    let places: Vec<&str> = std::iter::once(named.as_str()).chain(words.iter().copied()).collect();
    let store = select::store_of(&args.store, &places)?;
    let side = |word: &str| select::entries(word, &args.spec, spec.as_ref(), &store);
    if words.len() > 2 {
        let matrix = Matrix::new(args.metric.as_deref(), &words, side, &store)?;
        if let Some(output) = &args.output {
            written::matrix(output, &matrix)?;
            return Ok(ExitCode::Done);
        }
        ui::result(&match args.format {
            Format::Csv => matrix.long().csv(),
            Format::Json => matrix.long().json_lines(),
            Format::Table => {
                let (table, notes, verdicts) = matrix.wide();
                ui::result_with(&(table.text() + "\n" + &notes), &verdicts);
                return Ok(ExitCode::Done);
            }
        });
        return Ok(ExitCode::Done);
    }
    let (all, strangers) = pair(&store, &[side(words[0])?, side(words[1])?])?;
    if !strangers.is_empty() {
        ui::note(&format!("only on one side, and not compared: {}", strangers.join(", ")));
    }
    if let Some(output) = &args.output {
        written::pairs(output, &all, args.metric.as_deref(), &store)?;
        return Ok(ExitCode::Done);
    }
    if let (Format::Csv, Some(first)) = (args.format, all.first()) {
        ui::result(&compare::table(first, &[]).csv_header());
    }
    for (at, comparison) in all.iter().enumerate() {
        if at > 0 && args.format == Format::Table {
            ui::result("\n");
        }
        one(args, comparison, &store)?;
    }
    Ok(ExitCode::Done)
}

fn one(args: &CompareArgs, comparison: &Comparison, store: &Store) -> Result<(), Error> {
    let changes = comparison.changes(args.metric.as_deref(), store)?;
    let names = &comparison.names;
    if !comparison.variant.is_empty() && args.format == Format::Table {
        ui::result(&format!("{}\n", comparison.variant));
    }
    let table = compare::table(comparison, &changes);
    match args.format {
        // A CSV has one kind of row.
        Format::Csv => {
            ui::result(&table.csv_rows());
            return Ok(());
        }
        Format::Json => {
            ui::result(&table.json_lines());
            for (path, a, b) in &comparison.inputs {
                let row = json!({"kind": "input", "path": path, "first": a, "second": b});
                ui::result(&(row.to_string() + "\n"));
            }
        }
        Format::Table => {
            let verdict = |change: &Change| Some((change.verdict(names), change.is_better()?));
            let verdicts: Vec<(String, bool)> = changes.iter().filter_map(verdict).collect();
            ui::result_with(&(table.text() + &compare::notes(comparison)), &verdicts);
        }
    }
    if args.brief {
        return Ok(());
    }
    // The first pair that differs at all.
    let differs = |pair: &Pair| -> Result<bool, Error> {
        let stays = |side: usize| store.read(&pair.sides[side].id, StayRecord::FILE);
        Ok(stays(0)? != stays(1)?)
    };
    let pairs = comparison.pairs.len();
    let mut parted = None;
    for pair in &comparison.pairs {
        if differs(pair)? {
            parted = Some(pair);
            break;
        }
    }
    let Some(pair) = parted else {
        ui::note(&format!("{} and {} never decide differently, in any of {pairs} pairs", names[0], names[1]));
        return Ok(());
    };
    job_by_job(args, pair, names, store)?;
    match decision(comparison, pair, store)? {
        Seen::Parted(parting, told) => ui::result(&match args.format {
            Format::Json => parting_object(&parting, &told, names).to_string() + "\n",
            _ => parting_in_words(&parting, &told, names),
        }),
        Seen::Never => ui::note("the plans are the same: what differs is not the policy's doing"),
        Seen::Unknown(why) => ui::note(why),
    }
    Ok(())
}

fn job_by_job(args: &CompareArgs, pair: &Pair, names: &[String; 2], store: &Store) -> Result<(), Error> {
    let compare::Jobs { changed: jobs, common, once } = compare::jobs(store, pair, args.jobs)?;
    let where_ = match pair.sides[0].variant.is_empty() {
        true => format!("seed {}", pair.sides[0].seed),
        false => format!("{} seed {}", pair.sides[0].variant, pair.sides[0].seed),
    };
    if args.format == Format::Json {
        for job in &jobs {
            let row = json!({
                "kind": "job", "job": job.job, "seed": pair.sides[0].seed, "first_jct_s": job.jct[0],
                "second_jct_s": job.jct[1], "why": job.why,
            });
            ui::result(&(row.to_string() + "\n"));
        }
        for job in &once {
            ui::result(&(json!({"kind": "completed-once", "job": job, "seed": pair.sides[0].seed}).to_string() + "\n"));
        }
        return Ok(());
    }
    if !once.is_empty() {
        let shown: Vec<&str> = once.iter().take(8).map(String::as_str).collect();
        let more = if once.len() > 8 { " …" } else { "" };
        ui::result(&format!("\n{} jobs completed on one side alone: {}{more}\n", once.len(), shown.join(", ")));
    }
    if jobs.is_empty() {
        ui::result(&format!("\nno job's completion time changed ({where_}, {common} jobs)\n"));
        return Ok(());
    }
    let of = |name: &'static str, side: usize| Column::of(name, Unit::Seconds).head(names[side].clone());
    let mut table =
        Frame::new([Column::words("job"), of("first_jct_s", 0), of("second_jct_s", 1), Column::words("why")]);
    for job in &jobs {
        table.push([(&job.job).into(), job.jct[0].into(), job.jct[1].into(), (&job.why).into()]);
    }
    let table = table.text();
    ui::result(&format!("\njobs whose completion time changed most ({where_}, of {common}):\n{table}"));
    Ok(())
}

enum Seen {
    Parted(Box<FirstDivergence>, [Names; 2]),
    Never,
    Unknown(&'static str),
}

/// Runs both sides of a pair once more, until they part.
fn decision(comparison: &Comparison, pair: &Pair, store: &Store) -> Result<Seen, Error> {
    let [Some(first), Some(second)] = [&pair.sides[0].cell, &pair.sides[1].cell] else {
        return Ok(Seen::Unknown("name specs instead of ids to see the first decision that differs"));
    };
    if [first, second].iter().any(|cell| !cell.backend.is_simulated()) {
        return Ok(Seen::Unknown(
            "of recorded and observed runs the decisions are in agreement.json and recording.jsonl",
        ));
    }
    // Jobs are told apart by their numbers, which mean something in one workload alone.
    let same = |path: &str| !["workload", "seed", "ties"].iter().any(|of| path.starts_with(of));
    if !comparison.inputs.iter().all(|(path, ..)| same(path)) {
        return Ok(Seen::Unknown("their jobs are not the same: there is no first decision that differs"));
    }
    let compiled = Compiled::new(&code::settings_beside(store, ui::note), [first, second].into_iter())?;
    Ok(match parting([first, second], &compiled)? {
        Some(parting) => Seen::Parted(Box::new(parting), [Names::of(first)?, Names::of(second)?]),
        None => Seen::Never,
    })
}
