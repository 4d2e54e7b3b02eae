//! `sandtable rank`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sandtable_core::display::percent;
use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_core::output;
use sandtable_plan::Plan;
use sandtable_results::metric::{Better, Metric, named};
use sandtable_results::producer::Producer;
use sandtable_results::rank::{Ranking, Setting};
use sandtable_results::status::{CellStatus, known};

use super::claims::{name_of, specs_in};
use super::{Format, SpecArgs, StoreArgs};
use crate::engine::times::Times;
use crate::ui;

/// Rank the policies of specs over all points of their sweeps, from the results in the store; runs nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In every setting policies are ranked by the mean of the metric over the seeds. Specs with the same policies are one ranking. Mean ranks
that are nearer to each other than Nemenyi's critical difference (5 %) are not shown to differ.

Examples:
  sandtable rank experiments/specs/tournament --test
  sandtable rank experiments/specs/tournament -o tournament.md
  sandtable rank SPEC --metric bounded_slowdown_mean,makespan_s")]
pub(crate) struct RankArgs {
    /// Specs, or folders of specs.
    #[arg(required = true, value_name = "SPEC")]
    specs: Vec<PathBuf>,
    /// Metrics; settings are shown by the first.
    #[arg(
        long,
        value_name = "METRIC",
        value_delimiter = ',',
        default_value = "jct_mean_s,bounded_slowdown_mean,fairness_p99,makespan_s"
    )]
    metric: Vec<String>,
    /// Write a Markdown page to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Output format without `--output`.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &RankArgs) -> Result<ExitCode, Error> {
    let mut paths = Vec::new();
    for path in &args.specs {
        specs_in(path, &mut paths)?;
    }
    // A folder and a spec in it name that one twice.
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    if paths.is_empty() {
        return Err(Error::usage("there is no spec: expected files that end in `.ron`, or folders of them"));
    }
    let metrics = args.metric.iter().map(|name| metric(name)).collect::<Result<Vec<_>, _>>()?;
    let (mut specs, mut missing) = (Vec::new(), 0);
    let store = args.store.look(paths.first().map(PathBuf::as_path))?;
    let times = Times::of(&store);
    for path in &paths {
        let plan = args.spec.expand(path)?;
        let known = known(&plan, &store)?;
        missing += known.iter().filter(|one| matches!(one, CellStatus::Missing | CellStatus::TimedOut)).count();
        specs.push((name_of(path), plan, known));
    }
    let by_metric: Vec<Vec<Ranking>> = metrics.iter().map(|metric| Ranking::all(&specs, metric)).collect();
    let mut page = String::from(HEAD);
    page.push_str(&format!("\nComputed by {}.\n", producers(&specs, &store)?));
    let groups = by_metric.first().map_or(0, Vec::len);
    for group in 0..groups {
        let of_metrics: Vec<&Ranking> = by_metric.iter().map(|rankings| &rankings[group]).collect();
        let overall = overall(&metrics, &of_metrics, &times);
        let first = of_metrics[0];
        let words = in_words(first);
        match (&args.output, args.format) {
            (Some(_), _) => {
                let of: Vec<String> = names_of(first).iter().map(|name| format!("`{name}`")).collect();
                page.push_str(&format!("\n## {}\n\n{}\n{words}\n", of.join(", "), overall.markdown()));
                for (name, plan, _) in specs.iter().filter(|(name, ..)| names_of(first).contains(&name.as_str())) {
                    page.push_str(&format!("\n### {}: {}\n\n", name, plan.title));
                    page.push_str(&by_setting(metrics[0], first, name).markdown());
                }
            }
            (None, Format::Table) => {
                ui::result(&format!("{}:\n{}{words}\n", names_of(first).join(", "), overall.text()));
            }
            (None, format) => ui::result(&format.of(&overall)),
        }
    }
    if let Some(output) = &args.output {
        output::write(output, &page)?;
    }
    if missing > 0 {
        ui::note(&format!("{missing} cells have no result: their policies are last where they are missing"));
    }
    Ok(if missing > 0 { ExitCode::Missing } else { ExitCode::Done })
}

const HEAD: &str = "\
# Policies by rank

Made by `sandtable rank`. In every setting policies are ranked by the mean of a metric over the seeds, 1 is the best, and the last who failed or
left jobs behind; the table has the mean of these ranks. *First* counts the settings in which no policy is better in the first metric. *s / 10,000 jobs* is the processor time of a run, the host's included, of all that ran with the policy's
component. Settings of one trace are not independent of each other: read the critical difference as a lower bound.

In the tables by setting the best policy has its value, the others what they are off from it, with the 95 % interval over paired seeds; `=` marks those whose interval includes
0. It is Student's, of the mean ratio, and not corrected for the number of policies: one run that is far off widens it.
";

/// A metric of which some values are better, by its name, as it may be written.
pub(super) fn metric(name: &str) -> Result<&'static Metric, Error> {
    match named(name)? {
        metric if metric.better == Better::Neither => {
            Err(Error::usage(format!("`{}` describes a run: no value of it is better than another", metric.name)))
        }
        metric => Ok(metric),
    }
}

/// Who computed the results.
fn producers(
    specs: &[(String, Plan, Vec<CellStatus>)],
    store: &sandtable_results::store::Store,
) -> Result<String, Error> {
    let mut words: Vec<String> = Vec::new();
    for cell in specs.iter().flat_map(|(_, plan, _)| &plan.cells).filter(|cell| store.has(&cell.id)) {
        let producer = store.producer(&cell.id)?.as_ref().map_or("an unknown build".to_string(), Producer::in_words);
        if !words.contains(&producer) {
            words.push(producer);
        }
    }
    Ok(if words.is_empty() { "no build yet".into() } else { words.join("; ") })
}

/// The specs of a ranking.
fn names_of(ranking: &Ranking) -> Vec<&str> {
    let mut names: Vec<&str> = ranking.settings.iter().map(|setting| setting.spec.as_str()).collect();
    names.dedup();
    names
}

fn in_words(ranking: &Ranking) -> String {
    let plural = |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let met = plural(ranking.policies.len(), "policy", "policies")
        + ", "
        + &plural(ranking.settings.len(), "setting", "settings");
    match ranking.critical_difference() {
        Some(least) => format!("{met}: mean ranks less than {least:.2} apart are not shown to differ."),
        None => format!("{met}: for so many policies there is no critical difference (2 to 20 have one)."),
    }
}

/// The policies by their mean rank in the first metric.
fn overall(metrics: &[&Metric], rankings: &[&Ranking], times: &Times) -> Frame {
    let mut columns = vec![Column::words("policy")];
    columns.extend(metrics.iter().map(|metric| Column::number(format!("rank_{}", metric.name)).head(metric.name)));
    columns.push(Column::count("first"));
    columns.push(Column::number("seconds_of_10000_jobs").head("s / 10,000 jobs"));
    let mut frame = Frame::new(columns);
    let ranks: Vec<Vec<f64>> = rankings.iter().map(|ranking| ranking.mean_ranks()).collect();
    let firsts = rankings[0].firsts();
    let mut order: Vec<usize> = (0..firsts.len()).collect();
    order.sort_by(|a, b| ranks[0][*a].total_cmp(&ranks[0][*b]));
    for policy in order {
        let one = &rankings[0].policies[policy];
        let seconds = times.estimate(&one.component, 10_000);
        let mut row = vec![Value::Text(one.label.clone())];
        row.extend(ranks.iter().map(|ranks| Value::Number(ranks[policy]).shown(format!("{:.2}", ranks[policy]))));
        row.push(Value::Count(firsts[policy] as u64));
        row.push(seconds.map_or(Value::Unknown, |s| Value::Number(s).shown(format!("{s:.2}"))));
        frame.push(row);
    }
    frame
}

/// What each policy is off from the best, in each setting of a spec.
fn by_setting(metric: &Metric, ranking: &Ranking, spec: &str) -> Frame {
    let settings: Vec<&Setting> = ranking.settings.iter().filter(|setting| setting.spec == spec).collect();
    let mut columns = vec![Column::words("policy")];
    columns.extend(settings.iter().map(|setting| Column::words(point(&setting.point))));
    let mut frame = Frame::new(columns);
    let ranks = ranking.mean_ranks();
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by(|a, b| ranks[*a].total_cmp(&ranks[*b]));
    for policy in order {
        let cell = |setting: &&Setting| {
            let Some(mean) = setting.mean(policy) else { return "jobs left or failed".to_string() };
            if setting.is_best(policy, ranking.better) {
                return format!("**{}**", metric.unit.text(mean));
            }
            // What is off from 0 has no ratio.
            let Some(off) = setting.best(ranking.better).and_then(|best| setting.off(policy, best)) else {
                return metric.unit.text(mean);
            };
            let same = if off.differs() == Some(true) { "" } else { " =" };
            let half = off.interval().map_or(String::new(), |_| format!(" ± {:.1}", 100.0 * off.half));
            format!("{}{half}{same}", percent(off.mean, true))
        };
        let mut row = vec![Value::Text(ranking.policies[policy].label.clone())];
        row.extend(settings.iter().map(|setting| Value::Text(cell(setting))));
        frame.push(row);
    }
    frame
}

/// A point of a sweep as the head of a column: values by the last word of their paths.
fn point(values: &[(String, String)]) -> String {
    let short = |(path, value): &(String, String)| format!("{} {value}", path.rsplit('.').next().unwrap_or(path));
    if values.is_empty() { "as it is".into() } else { values.iter().map(short).collect::<Vec<_>>().join(", ") }
}
