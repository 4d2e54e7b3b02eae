//! `sandtable compare`.

use std::path::PathBuf;

use serde_json::json;

use super::{SpecArgs, StoreArgs, select};
use crate::code;
use crate::columns::columns;
use crate::compare::{self, Comparison, Pair, pair};
use crate::error::{Error, ExitCode};
use crate::execute::Compiled;
use crate::metric::span;
use crate::plan::Machines;
use crate::store::Store;
use crate::story::{Names, Parting, parting};
use crate::table::Format;
use crate::ui;

/// What changed between two results: metrics over paired seeds, jobs, the first decision that differs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sandtable compare --spec experiments/specs/quickstart.ron fifo tiresias
  sandtable compare --spec SPEC fifo srtf --metric jct-mean
  sandtable compare before.ron after.ron
  sandtable compare 3f9a2c11e0 8bc04d77aa")]
pub(crate) struct CompareArgs {
    /// A spec, a cell's id, or a label of `--spec`'s policies.
    #[arg(value_name = "A")]
    first: String,
    /// What it is compared with.
    #[arg(value_name = "B")]
    second: String,
    /// The spec whose policies A and B are.
    #[arg(long = "spec", short = 's', value_name = "SPEC")]
    of: Option<PathBuf>,
    /// One metric: `jct-mean`, `makespan`, `utilisation` …
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Jobs that are listed.
    #[arg(long, value_name = "N", default_value_t = 5)]
    jobs: usize,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Error> {
    let spec = match &args.of {
        Some(path) => Some((path.clone(), args.spec.expand(path)?)),
        None => None,
    };
    let named = args.of.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let store = select::store_of(&args.store, &[&named, &args.first, &args.second])?;
    let side = |word: &str| select::entries(word, &args.spec, spec.as_ref(), &store);
    let (all, strangers) = pair(&store, &[side(&args.first)?, side(&args.second)?])?;
    if !strangers.is_empty() {
        ui::note(&format!("only on one side, and not compared: {}", strangers.join(", ")));
    }
    if args.format == Format::Csv {
        ui::result("variant,first,second,metric,first_mean,second_mean,change,low,high,pairs,holm,verdict\n");
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
    match args.format {
        Format::Csv => {
            for change in &changes {
                let (low, high) = change.effect.and_then(|effect| effect.interval()).unzip();
                let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
                let row = [
                    comparison.variant.clone(),
                    names[0].clone(),
                    names[1].clone(),
                    change.metric.to_string(),
                    change.means[0].to_string(),
                    change.means[1].to_string(),
                    number(change.effect.map(|effect| effect.mean)),
                    number(low),
                    number(high),
                    comparison.pairs.len().to_string(),
                    change.survives.to_string(),
                    change.verdict(names),
                ];
                let cells: Vec<String> = row.iter().map(|cell| crate::trace::csv_cell(cell)).collect();
                ui::result(&(cells.join(",") + "\n"));
            }
            // A CSV has one kind of row.
            return Ok(());
        }
        Format::Json => {
            for change in &changes {
                let interval = change.effect.and_then(|effect| effect.interval());
                let row = json!({
                    "kind": "metric", "variant": comparison.variant, "first": names[0], "second": names[1], "metric": change.metric,
                    "first_mean": change.means[0], "second_mean": change.means[1],
                    "change": change.effect.map(|effect| effect.mean), "interval_95": interval.map(|(a, b)| [a, b]),
                    "pairs": comparison.pairs.len(), "holm": change.survives, "verdict": change.verdict(names),
                });
                ui::result(&(row.to_string() + "\n"));
            }
            for (path, a, b) in &comparison.inputs {
                let row = json!({"kind": "input", "path": path, "first": a, "second": b});
                ui::result(&(row.to_string() + "\n"));
            }
        }
        Format::Table => ui::result(&compare::render(comparison, &changes)),
    }
    // The first pair that differs at all.
    let differs = |pair: &&Pair| {
        let [a, b] = [&pair.sides[0].id, &pair.sides[1].id].map(|id| store.read(id, "timeline.csv").ok());
        a != b
    };
    let pairs = comparison.pairs.len();
    let Some(pair) = comparison.pairs.iter().find(differs) else {
        ui::note(&format!("{} and {} never decide differently, in any of {pairs} pairs", names[0], names[1]));
        return Ok(());
    };
    job_by_job(args, pair, names, store)?;
    match decision(comparison, pair, store)? {
        Seen::Parted(parting, told) => ui::result(&match args.format {
            Format::Json => compare::parting_object(&parting, &told, names).to_string() + "\n",
            _ => compare::parting_in_words(&parting, &told, names),
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
    let mut rows = vec![vec!["job".to_string(), names[0].clone(), names[1].clone(), "why".into()]];
    rows.extend(jobs.iter().map(|job| vec![job.job.clone(), span(job.jct[0]), span(job.jct[1]), job.why.clone()]));
    let table = columns(&rows);
    ui::result(&format!("\njobs whose completion time changed most ({where_}, of {common}):\n{table}"));
    Ok(())
}

enum Seen {
    Parted(Box<Parting>, [Names; 2]),
    Never,
    Unknown(&'static str),
}

/// Runs both sides of a pair once more, until they part.
fn decision(comparison: &Comparison, pair: &Pair, store: &Store) -> Result<Seen, Error> {
    let [Some(first), Some(second)] = [&pair.sides[0].cell, &pair.sides[1].cell] else {
        return Ok(Seen::Unknown("name specs instead of ids to see the first decision that differs"));
    };
    if [first, second].iter().any(|cell| !matches!(cell.machines, Machines::Model)) {
        return Ok(Seen::Unknown(
            "of recorded and observed runs the decisions are in agreement.json and recording.jsonl",
        ));
    }
    // Jobs are told apart by their numbers, which mean something in one workload alone.
    let same = |path: &str| !["workload", "seed", "ties"].iter().any(|of| path.starts_with(of));
    if !comparison.inputs.iter().all(|(path, ..)| same(path)) {
        return Ok(Seen::Unknown("their jobs are not the same: there is no first decision that differs"));
    }
    let compiled = Compiled::new(&code::settings_beside(store), [first, second].into_iter())?;
    Ok(match parting([first, second], &compiled)? {
        Some(parting) => Seen::Parted(Box::new(parting), [Names::of(first)?, Names::of(second)?]),
        None => Seen::Never,
    })
}
