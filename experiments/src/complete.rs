//! What a shell is offered to complete a word with: labels, metrics, policies, specs and the paths of their values.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use clap_complete::env::{CompleteEnv, Shells};
use sandtable_core::error::Error;
use sandtable_plan::artifact::shipped;
use sandtable_plan::spec::Places;
use sandtable_plan::{QUICKSTART, is_spec, spec_text};
use sandtable_results::metric;

use crate::authoring::template;

/// Variable by which the shell's function asks, with the shell's name.
const VARIABLE: &str = "SANDTABLE_COMPLETE";

/// Figures that all results have.
const FIGURES: [&str; 10] = [
    "jct",
    "waiting",
    "slowdown",
    "rho",
    "utilisation",
    "queue",
    "jct-by-gpus",
    "waiting-by-gpus",
    "waiting-p95-by-gpus",
    "policies",
];

/// What is offered for a value that begins like this.
type Offer = fn(&OsStr) -> Vec<CompletionCandidate>;

/// By what the help calls the value.
const OFFERS: [(&str, Offer); 12] = [
    ("LABEL", labels),
    ("A", results),
    ("B", results),
    ("METRIC", metrics),
    ("PATH=VALUE", paths),
    ("PATH=A,B", paths),
    ("POLICY", policies),
    ("FIGURE", figures),
    ("SHIPPED", beginnings),
    ("NAME[,KEY=VALUE]", policies),
    ("RESULT", specs),
    ("SPEC", specs),
];

/// Answers a shell that asks; false: none does.
pub(crate) fn answered(grammar: fn() -> clap::Command) -> clap::error::Result<bool> {
    let asked = CompleteEnv::with_factory(|| offering(grammar())).var(VARIABLE);
    asked.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref())
}

/// The function that a shell is to read: it asks this program, by the name that it was called with.
pub(crate) fn function(shell: clap_complete::Shell) -> Result<Vec<u8>, Error> {
    let name = shell.to_string();
    let called = std::env::args_os().next().unwrap_or_else(|| "sandtable".into());
    let called =
        if Path::new(&called).components().count() > 1 { std::path::absolute(&called) } else { Ok(called.into()) };
    let (mut out, shells) = (Vec::new(), Shells::builtins());
    let written = called.and_then(|called| {
        let completer = shells.completer(&name).ok_or_else(|| std::io::Error::other("an unknown shell"))?;
        completer.write_registration(VARIABLE, "sandtable", "sandtable", &called.to_string_lossy(), &mut out)
    });
    written.map_err(|error| Error::internal(format!("completions of {name}: {error}")))?;
    Ok(out)
}

/// The commands with what is offered for their arguments.
fn offering(command: clap::Command) -> clap::Command {
    let offered = |argument: &clap::Arg| {
        let value = argument.get_value_names().and_then(<[_]>::first)?;
        OFFERS.iter().find(|(name, _)| *name == value.as_str()).map(|(_, offer)| *offer)
    };
    let with = |argument: clap::Arg| match offered(&argument) {
        Some(offer) => argument.add(ArgValueCompleter::new(offer)),
        None => argument,
    };
    command.mut_args(with).mut_subcommands(offering)
}

/// Those of the names that begin like this.
fn of(names: impl IntoIterator<Item = String>, begun: &OsStr) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    names.into_iter().filter(|name| name.starts_with(begun)).map(CompletionCandidate::new).collect()
}

/// What the first spec on the command line names.
fn places() -> Places {
    // `-- sandtable run SPEC …`, as the shell's function asks.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(2);
    let value = |word: OsString| match word.to_str().and_then(|word| word.strip_prefix("--")?.split_once('=')) {
        Some((_, value)) => value.into(),
        None => word,
    };
    let read = |word: OsString| {
        let path = Path::new(&word);
        let is_named = word != "-" && is_spec(path);
        is_named.then(|| Places::of(&spec_text(path).ok()?)).flatten()
    };
    words.map(value).find_map(read).unwrap_or_default()
}

fn labels(begun: &OsStr) -> Vec<CompletionCandidate> {
    of(places().labels, begun)
}

fn paths(begun: &OsStr) -> Vec<CompletionCandidate> {
    of(places().paths.into_iter().map(|path| path + "="), begun)
}

fn metrics(begun: &OsStr) -> Vec<CompletionCandidate> {
    of(metric::names().map(str::to_string), begun)
}

fn policies(begun: &OsStr) -> Vec<CompletionCandidate> {
    let files = PathCompleter::any().filter(|path| ends_with(path, &["wasm", "star"])).complete(begun);
    of(shipped().map(str::to_string), begun).into_iter().chain(files).collect()
}

/// Those that all results have; `--figure list` names those of some.
fn figures(begun: &OsStr) -> Vec<CompletionCandidate> {
    of(["list"].into_iter().chain(FIGURES).map(str::to_string), begun)
}

fn beginnings(begun: &OsStr) -> Vec<CompletionCandidate> {
    of(template::beginnings().map(str::to_string), begun)
}

fn specs(begun: &OsStr) -> Vec<CompletionCandidate> {
    let files = PathCompleter::any().filter(|path| ends_with(path, &["ron", "json"])).complete(begun);
    of([QUICKSTART.to_string()], begun).into_iter().chain(files).collect()
}

fn results(begun: &OsStr) -> Vec<CompletionCandidate> {
    match places().labels {
        none if none.is_empty() => specs(begun),
        labels => of(labels, begun),
    }
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|found| endings.iter().any(|ending| found == *ending))
}
