//! The `sandtable` command: its grammar and its exit codes.

use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};
use sandtable_core::error::{Error, ExitCode};
use sandtable_runtime::sandbox::{Budget, Flags, serve};

use crate::ui::{self, Colour, Talk};
use crate::{commands, complete};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a check failed: a result differs, a claim does not hold
  2    usage, or an input that can't be used
  3    a policy failed; the other cells are complete
  4    cells are missing
  5    hardware is not as asked
  70   a defect of sandtable
  74   stdout can't be written
  130  interrupted; what is complete is kept

Examples:
  sandtable run quickstart
  sandtable new && sandtable run experiment.ron
  sandtable run SPEC --set workload.arrivals.load=1.2 --sweep policies.las.with.starvation=0,2,8
  sandtable report experiments/specs/quickstart.ron
  sandtable compare --spec SPEC fifo srtf
  sandtable submit SPEC --engine slurm -- --time=2:00:00
  sandtable policy new my-policy --lang python
  sandtable trace stats philly.csv.gz --format philly";

/// Try GPU-cluster scheduling policies before you trust them.
#[derive(Debug, Parser)]
#[command(name = "sandtable", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Say only results and what went wrong.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Say more: which cells have results and which take how long.
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// When to colour errors and verdicts.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: Colour,
}

/// The commands by what they are for, in the order of the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Experiments", &["new", "check", "run", "plan", "verify", "explain"]),
    ("Results", &["report", "compare", "show", "claims", "rank", "bundle", "store"]),
    ("Clusters", &["capture", "what-if", "shadow", "trace"]),
    ("Sweeps on other machines", &["submit", "status", "cancel", "merge"]),
    ("Policies and predictors", &["policy", "score", "env", "predictor", "model"]),
    ("This machine and this program", &["hardware", "completions", "man", "reference", "help"]),
];

/// The command line, its help in groups.
pub(crate) fn grammar() -> clap::Command {
    let command = Cli::command();
    let mut list = String::new();
    for (heading, names) in GROUPS {
        list.push_str(&format!("\n{heading}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map_or("Print this message, or the help of a command".into(), ToString::to_string);
            list.push_str(&format!("  {name:<12} {about}\n"));
        }
    }
    let template = format!("{{about}}\n\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}{{after-help}}");
    command.help_template(template)
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a spec to begin with.
    New(commands::new::NewArgs),
    /// Run the cells of specs that have no result yet, and print the results.
    Run(commands::run::RunArgs),
    /// Show the cells of a spec and why each would run; runs nothing.
    Plan(commands::plan::PlanArgs),
    /// Check specs: all that they name is read, every policy begins; runs nothing.
    Check(commands::check::CheckArgs),
    /// Write results as a page, a figure or a table: HTML, Markdown, LaTeX, SVG, PDF, PNG, CSV, JSON Lines.
    Report(commands::report::ReportArgs),
    /// Print every claim of specs beside what the results in the store show; runs nothing.
    Claims(commands::claims::ClaimsArgs),
    /// Rank the policies of specs over all points of their sweeps; runs nothing.
    Rank(commands::rank::RankArgs),
    /// Score candidate policies for a program: JSON lines in, JSON lines out.
    Score(commands::score::ScoreArgs),
    /// Let a program decide in an episode: an environment for reinforcement learning.
    Env(commands::env::EnvArgs),
    /// Compare two results by metric and by job, and show the first decision that differs; or many.
    Compare(commands::compare::CompareArgs),
    /// Explain what a cell's id is made of, and why a cell would run again.
    Explain(commands::explain::ExplainArgs),
    /// Show one result: its metrics, the life of a job, its timeline for other tools.
    Show(commands::show::ShowArgs),
    /// Pack a spec with everything that it needs to run elsewhere.
    Bundle(commands::bundle::BundleArgs),
    /// Submit the cells without a result to an engine: Slurm, HyperQueue.
    Submit(commands::submit::SubmitArgs),
    /// Show the progress of a sweep.
    Status(commands::submit::StatusArgs),
    /// Cancel the jobs of a sweep; results are kept.
    Cancel(commands::submit::CancelArgs),
    /// Merge the results of a sweep into one table, a row per cell.
    Merge(commands::merge::MergeArgs),
    /// Run cells again with canonical NaNs and compare byte for byte with the store.
    Verify(commands::verify::VerifyArgs),
    /// Manage the store.
    #[command(subcommand)]
    Store(commands::store::StoreCommand),
    /// Read a cluster as it is, for a run that begins there.
    #[command(subcommand)]
    Capture(commands::capture::CaptureCommand),
    /// Forecast when the waiting jobs of a cluster start, under policies, and with changes to it.
    WhatIf(commands::what_if::WhatIfArgs),
    /// Watch a cluster, change nothing, and say what policies would have started.
    #[command(subcommand)]
    Shadow(commands::shadow::ShadowCommand),
    /// Import, generate and describe traces.
    #[command(subcommand)]
    Trace(commands::trace::TraceCommand),
    /// List, inspect, build, replay and measure policies.
    #[command(subcommand)]
    Policy(commands::policy::PolicyCommand),
    /// Show facts of models: from ONNX files, and the catalogue.
    #[command(subcommand)]
    Model(commands::model::ModelCommand),
    /// List, fit and measure predictors.
    #[command(subcommand)]
    Predictor(commands::predictor::PredictorCommand),
    /// List, probe, watch and measure GPUs.
    #[command(subcommand)]
    Hardware(commands::hardware::HardwareCommand),
    #[command(hide = true, name = sandtable_run::code::COMMAND)]
    CompileComponent(CompileArgs),
    #[command(hide = true, name = "hw-job")]
    HwJob(commands::job::WorkArgs),
    #[command(hide = true)]
    JobShim(commands::job::ShimArgs),
    #[command(hide = true)]
    JobGuard(commands::job::GuardArgs),
    /// Print the function by which a shell completes words.
    Completions(commands::generate::CompletionsArgs),
    /// Print the manual page, or write those of all commands to a folder.
    Man(commands::generate::ManArgs),
    /// Print a reference: commands, specs, the contract, third-party notices.
    Reference(commands::generate::ReferenceArgs),
}

/// How the host has a component compiled; see [`sandtable_run::code`].
#[derive(Debug, clap::Args)]
struct CompileArgs {
    #[arg(long)]
    seconds: u64,
    #[arg(long)]
    bytes: u64,
    flags: Vec<String>,
}

/// Signals whose fate is inherited from the parent process: ends of children must be told, and a file that
/// may not grow is an error to be named. What this process starts has them as the system does.
fn hear() {
    for signal in [signal_hook::consts::SIGCHLD, signal_hook::consts::SIGXFSZ] {
        // Where that is refused all goes on as before.
        let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
    }
}

/// Runs the command line; what the process ends with.
pub fn main() -> u8 {
    match complete::answered(grammar) {
        Ok(false) => {}
        Ok(true) => return ExitCode::Done as u8,
        Err(error) => {
            let _ = error.print();
            return ExitCode::Usage as u8;
        }
    }
    let parsed = grammar().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done } as u8;
        }
    };
    ui::talk(&Talk { quiet: cli.quiet, verbose: cli.verbose, colour: cli.color });
    hear();
    sandtable_run::code::compile_in_a_child();
    let ended = match cli.command {
        Command::CompileComponent(CompileArgs { seconds, bytes, flags }) => {
            return serve(Flags::named(&flags), Budget { seconds, bytes });
        }
        // A job ends with its own code.
        Command::HwJob(args) => commands::job::work(&args),
        command => dispatch(command).map(|code| code as u8),
    };
    ended.unwrap_or_else(|error| {
        crate::ui::note(&error.to_string());
        error.exit as u8
    })
}

fn dispatch(command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::New(args) => commands::new::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Claims(args) => commands::claims::run(&args),
        Command::Rank(args) => commands::rank::run(&args),
        Command::Score(args) => commands::score::run(&args),
        Command::Env(args) => commands::env::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Bundle(args) => commands::bundle::run(&args),
        Command::Submit(args) => commands::submit::submit(&args),
        Command::Status(args) => commands::submit::status(&args),
        Command::Cancel(args) => commands::submit::cancel(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Store(command) => commands::store::run(&command),
        Command::Capture(command) => commands::capture::run(&command),
        Command::WhatIf(args) => commands::what_if::run(&args),
        Command::Shadow(command) => commands::shadow::run(&command),
        Command::Trace(command) => commands::trace::run(&command),
        Command::Policy(command) => commands::policy::run(&command),
        Command::Model(command) => commands::model::run(&command),
        Command::Predictor(command) => commands::predictor::run(&command),
        Command::Hardware(command) => commands::hardware::run(&command),
        Command::HwJob(_) | Command::CompileComponent(_) => unreachable!("taken by `main`"),
        Command::JobShim(args) => Err(commands::job::shim(&args)),
        Command::JobGuard(args) => commands::job::guard(&args),
        Command::Completions(args) => commands::generate::completions(&args),
        Command::Man(args) => commands::generate::man(&args, Cli::command()),
        Command::Reference(args) => commands::generate::reference(&args, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let mut there: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name).collect();
        // `help` is clap's own.
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        there.sort_unstable();
        listed.sort_unstable();
        assert_eq!(there, listed);
    }
}
