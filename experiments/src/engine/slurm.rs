//! Slurm: an array of shards, and a job that merges after it. Only `--parsable` and `-o` are read, which every version prints
//! alike; accounting is never asked, since many sites have none.

use std::path::Path;

use super::handed::Needs;
use super::{Call, ask};
use crate::error::Error;

/// Shards of an array where nobody says: sites ask for few and long tasks.
pub(super) const SHARDS: usize = 64;

/// `MaxArraySize` of a Slurm that was not told otherwise. Indices go from 0 to it minus 1: it is the greatest count, too.
const MOST: usize = 1001;

/// What runs and what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Shards that run.
    pub running: usize,
    /// Shards that wait.
    pub queued: usize,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_string()).collect()
}

/// The greatest array that this site takes; the usual one where it does not say.
pub(super) fn most() -> usize {
    ask(&["scontrol", "show", "config"]).ok().and_then(|text| max_array_size(&text)).unwrap_or(MOST)
}

fn max_array_size(config: &str) -> Option<usize> {
    let value = config.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "MaxArraySize"));
    value?.1.trim().parse().ok().filter(|most| *most > 0)
}

/// A path in a directive, where `%` begins a pattern and a blank ends a word.
fn pattern(folder: &Path, file: &str) -> String {
    let folder = folder.display().to_string().replace('%', "%%");
    let word = format!("{folder}/log/{file}");
    match word.chars().any(|c| c.is_whitespace() || "\"'\\#".contains(c)) {
        true => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
        false => word,
    }
}

/// The script of an array. The number of shards stands in it as a number, so that one of them can be sent again by hand.
pub(super) fn script(call: &Call<'_>, name: &str, shards: usize, needs: Needs) -> String {
    let last = shards - 1;
    let log = pattern(call.folder, "%A_%a.log");
    let gpus = match needs.gpus {
        0 => String::new(),
        gpus => format!("#SBATCH --gres=gpu:{gpus} --exclusive\n"),
    };
    format!(
        "#!/bin/sh\n#SBATCH --job-name={name}\n#SBATCH --array=0-{last}\n#SBATCH --ntasks=1 --cpus-per-task=1\n{gpus}\
         #SBATCH --requeue --open-mode=append\n#SBATCH --output={log}\nexec {} --jobs \"$SLURM_CPUS_PER_TASK\"\n",
        call.run(&format!("\"$SLURM_ARRAY_TASK_ID\"/{shards}"))
    )
}

/// The script of the merge.
pub(super) fn merge(call: &Call<'_>, name: &str, settle: u64) -> String {
    let log = pattern(call.folder, "merge-%j.log");
    let out = super::quoted(&call.folder.join("merged.csv").display().to_string());
    format!(
        "#!/bin/sh\n#SBATCH --job-name={name}-merge\n#SBATCH --ntasks=1 --cpus-per-task=1\n#SBATCH --output={log}\n\
         exec {} --settle {settle}s --format csv --output {out}\n",
        call.of("merge")
    )
}

/// What hands a script over.
pub(super) fn command(script: &Path, arguments: &[String]) -> Vec<String> {
    let mut all = words(&["sbatch", "--parsable"]);
    all.extend_from_slice(arguments);
    all.push(script.display().to_string());
    all
}

/// What hands the merge over, to begin when these have ended in whatever way.
pub fn merge_command(script: &Path, after: &[&str], arguments: &[String]) -> Vec<String> {
    let mut all = words(&["sbatch", "--parsable"]);
    all.extend_from_slice(arguments);
    all.push(format!("--dependency=afterany:{}", after.join(":")));
    all.push(script.display().to_string());
    all
}

/// The job's number, of `123` or `123;cluster`.
pub(super) fn number(answer: &str) -> Result<String, Error> {
    let first = answer.trim().split(';').next().unwrap_or_default();
    if !first.is_empty() && first.chars().all(|c| c.is_ascii_digit()) {
        return Ok(first.to_string());
    }
    Err(Error::usage(format!("sbatch was expected to print a job's number, printed {:?}", answer.trim())))
}

/// What of this name runs and waits. By name and not by number: a controller that lost its state gives numbers again.
pub(super) fn live(name: &str) -> Result<Live, Error> {
    let text = ask(&["squeue", "--noheader", "--array", "--me", "--name", name, "-o", "%T"])?;
    Ok(counted(&text))
}

fn counted(states: &str) -> Live {
    let mut live = Live::default();
    for state in states.split_whitespace() {
        match state {
            "RUNNING" | "COMPLETING" => live.running += 1,
            _ => live.queued += 1,
        }
    }
    live
}

/// Ends what of this name runs and waits, and the merge after it.
pub(super) fn cancel(name: &str) -> Result<(), Error> {
    for name in [format!("{name}-merge"), name.to_string()] {
        ask(&["scancel", "--me", "--name", &name])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_prints_is_read() {
        assert_eq!(max_array_size("MaxArraySize            = 1001\nMaxBatchRequeue         = 5\n"), Some(1001));
        assert_eq!(max_array_size("MaxArraySize = none"), None);
        assert_eq!(max_array_size(""), None);
        assert_eq!(number("123\n").expect("a number"), "123");
        assert_eq!(number("123;cluster\n").expect("a number"), "123");
        let error = number("Submitted batch job 7").expect_err("no number");
        assert_eq!(error.message, "sbatch was expected to print a job's number, printed \"Submitted batch job 7\"");
        assert_eq!(counted("RUNNING\nPENDING\nPENDING\nCOMPLETING\n"), Live { running: 2, queued: 2 });
    }

    #[test]
    fn paths_of_directives_are_no_patterns() {
        assert_eq!(pattern(Path::new("/s/100%/p"), "%a.log"), "/s/100%%/p/log/%a.log");
        assert_eq!(pattern(Path::new("/my store"), "%a.log"), "\"/my store/log/%a.log\"");
    }
}
