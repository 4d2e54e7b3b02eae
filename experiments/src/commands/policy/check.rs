//! `sandtable policy check`.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::frame::{Column, Frame};
use sandtable_core::input;
use sandtable_plan::MAX_WEIGHTS;
use sandtable_plan::artifact::{Finder, SCRIPT, is_script};
use sandtable_plan::spec::short_name;
use sandtable_run::policy_check::{Effort, Report, Verdict, check};

use crate::authoring::guests::{build_folder, name_of};
use crate::commands::{Format, in_script};
use crate::ui;

/// Check policies: contract, configuration, random legal histories, determinism, resync, ignorance, budget.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Files, of components or scripts, names of shipped policies, or folders of policies. A folder is built twice, and both builds must
    /// decide alike.
    #[arg(required = true, value_name = "POLICY")]
    policies: Vec<String>,
    /// Number of random histories for each kind of fleet.
    #[arg(long, value_name = "N", default_value_t = 8)]
    histories: u64,
    /// Weights for policies that want some.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Error> {
    let mut finder = Finder::new(Path::new("."), None);
    let mut code = ExitCode::Done;
    if args.format == Format::Csv {
        ui::result(&columns().csv_header());
    }
    let weights = super::weights(args.weights.as_deref())?;
    let effort = Effort { histories: args.histories.max(1), weights, script: None };
    for policy in &args.policies {
        let folder = Path::new(policy).is_dir();
        let script = match !folder && is_script(policy) {
            true => Some(input::text(Path::new(policy), MAX_WEIGHTS as u64)?),
            false => None,
        };
        let report = match &script {
            _ if folder => built_twice(Path::new(policy), &effort)?,
            Some(_) => {
                let file = finder.find(SCRIPT).map_err(Error::usage)?;
                check(SCRIPT, &file.bytes, &Effort { script: script.clone(), ..effort.clone() })?
            }
            None => {
                let file = finder.find(policy).map_err(Error::usage)?;
                check(short_name(policy), &file.bytes, &effort)?
            }
        };
        match args.format {
            Format::Table => {
                ui::result(&for_people(policy, &report));
                drawn_in_script(policy, script.as_deref().unwrap_or_default(), &report);
            }
            Format::Json => ui::result(&table(policy, &report).json_lines()),
            Format::Csv => ui::result(&table(policy, &report).csv_rows()),
        }
        if !report.passed() {
            code = ExitCode::CheckFailed;
        }
    }
    Ok(code)
}

/// The lines of a script that checks fell over, each once.
fn drawn_in_script(policy: &str, script: &str, report: &Report) {
    let mut drawn: Vec<String> = Vec::new();
    for check in report.checks.iter().filter(|check| check.verdict == Verdict::Fail) {
        match in_script::drawn(policy, script, &check.found) {
            Some(at) if !drawn.contains(&at) => drawn.push(at),
            _ => {}
        }
    }
    drawn.iter().for_each(|at| ui::note(at));
}

/// Checks the policy of a folder, and whether anything of a build is in its decisions.
fn built_twice(folder: &Path, effort: &Effort) -> Result<Report, Error> {
    let name = name_of(folder)?;
    let (first, second) = (build_folder(folder)?, build_folder(folder)?);
    let mut report = check(&name, &first, effort)?;
    let what = "two builds";
    if first == second {
        report.add(what, Verdict::Ok, "the same bytes", "");
        return Ok(report);
    }
    let other = check(&name, &second, effort)?;
    if report.plans.is_empty() {
        report.add(what, Verdict::Skip, "no history ran to its end", "");
        return Ok(report);
    }
    match other.plans == report.plans {
        true => {
            let found = format!("decide alike in {} histories; their bytes differ", other.plans.len());
            let advice = "ids of results are of the bytes: keep the component, or its id changes with every build";
            report.add(what, Verdict::Ok, found, advice);
        }
        false => {
            let advice = "no luck of the build may reach a plan: in Python hashes of strings, and so the order of sets of them, are another in each build: sort them";
            report.add(what, Verdict::Fail, "decide differently", advice);
        }
    }
    Ok(report)
}

fn columns() -> Frame {
    Frame::new(["policy", "check", "verdict", "found", "advice"].map(Column::words))
}

/// A row a check.
fn table(policy: &str, report: &Report) -> Frame {
    let mut table = columns();
    for check in &report.checks {
        let verdict = check.verdict.word().into();
        table.push([policy.into(), (&check.what).into(), verdict, (&check.found).into(), check.advice.into()]);
    }
    table
}

/// The report as its author reads it: a line a check, and below it what to do.
pub(crate) fn for_people(policy: &str, report: &Report) -> String {
    let mut out = format!("{policy}\n");
    let mut table = Frame::new(["verdict", "check", "found"].map(Column::words));
    for check in &report.checks {
        table.push([format!("  {}", check.verdict.word()).into(), (&check.what).into(), one_line(&check.found).into()]);
    }
    let table = table.text_rows();
    for (line, check) in table.lines().zip(&report.checks) {
        out.push_str(&format!("{}\n", line.trim_end()));
        if !check.advice.is_empty() {
            out.push_str(&format!("            {}\n", check.advice));
        }
    }
    let (failed, warned) = (report.count(Verdict::Fail), report.count(Verdict::Warn));
    out.push_str(&match (failed, warned) {
        (0, 0) => "passes\n".to_string(),
        (0, warned) => format!("passes, with {warned} warnings\n"),
        (failed, _) => format!("{failed} of {} checks FAIL\n", report.checks.len()),
    });
    out
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
