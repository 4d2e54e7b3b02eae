//! Slurm: an array of shards, and a job that merges after it. Only `--parsable` and `-o` are read, which every version prints
//! alike; accounting is never asked, since many sites have none.

use std::path::Path;

use sandtable_core::error::Error;

use super::plan_file::Needs;
use super::{Call, ask};

/// Shards of an array by default: sites ask for few and long tasks.
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

pub(super) fn max_array_size(config: &str) -> Option<usize> {
    let value = config.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "MaxArraySize"));
    value?.1.trim().parse().ok().filter(|most| *most > 0)
}

/// A path in a directive, where `%` begins a pattern and a blank ends a word.
fn pattern(folder: &Path, file: &str) -> String {
    let folder = folder.display().to_string().replace('%', "%%");
    let word = format!("{folder}/log/{file}");
    match word.chars().any(|c| c.is_whitespace() || "\"'#".contains(c)) {
        true => format!("\"{}\"", word.replace('"', "\\\"")),
        false => word,
    }
}

/// The script of an array. It has the number of shards as a number, so that one of them can be sent again by hand.
pub(super) fn script(call: &Call<'_>, name: &str, shards: usize, needs: Needs) -> String {
    let last = shards - 1;
    let log = pattern(call.folder, "%A_%a.log");
    // What is observed is not observed again unasked.
    let (gpus, again) = match needs.gpus {
        0 => (String::new(), "--requeue"),
        gpus => (format!("#SBATCH --gres=gpu:{gpus} --exclusive\n"), "--no-requeue"),
    };
    format!(
        "#!/bin/sh\n#SBATCH --job-name={name}\n#SBATCH --array=0-{last}\n#SBATCH --ntasks=1 --cpus-per-task=1\n{gpus}\
         #SBATCH {again} --open-mode=append\n#SBATCH --output={log}\nexec {} --jobs \"$SLURM_CPUS_PER_TASK\"\n",
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

/// Refuses what would have us lose sight of the jobs.
pub(super) fn refuse(arguments: &[String]) -> Result<(), Error> {
    const OURS: [(&str, &str, &str); 5] = [
        ("--array", "-a", "how many there are says `--shards`"),
        ("--job-name", "-J", "by its name `status` and `cancel` find it"),
        ("--wait", "-W", "the merge waits, `status` counts"),
        ("--wrap", "", "the script is ours"),
        ("--test-only", "", "`submit --print` shows what would be handed over"),
    ];
    for argument in arguments {
        let word = argument.split('=').next().unwrap_or_default();
        let short = |known: &str| !known.is_empty() && !word.starts_with("--") && word.starts_with(known);
        if let Some((long, _, why)) = OURS.iter().find(|(long, known, _)| word == *long || short(known)) {
            return Err(Error::usage(format!("`{argument}` is not handed on to sbatch")).hint(format!("{long}: {why}")));
        }
    }
    Ok(())
}

/// What hands a script over. The name comes last: whatever the user's environment says, by it we find the job.
pub(super) fn command(script: &Path, name: &str, arguments: &[String]) -> Vec<String> {
    let mut all = words(&["sbatch", "--parsable"]);
    all.extend_from_slice(arguments);
    all.extend([format!("--job-name={name}"), script.display().to_string()]);
    all
}

/// What hands the merge over, to begin when these have ended in whatever way.
pub fn merge_command(script: &Path, name: &str, after: &[&str], arguments: &[String]) -> Vec<String> {
    let mut all = command(script, &format!("{name}-merge"), arguments);
    all.insert(all.len() - 1, format!("--dependency=afterany:{}", after.join(":")));
    all
}

/// The job's number, of `123` or `123;cluster`, and the cluster.
pub(super) fn number(answer: &str) -> Result<(String, Option<String>), Error> {
    let (first, cluster) = answer.trim().split_once(';').unzip();
    let first = first.unwrap_or(answer.trim());
    if !first.is_empty() && first.chars().all(|c| c.is_ascii_digit()) {
        return Ok((first.to_string(), cluster.map(str::to_string)));
    }
    Err(Error::usage(format!("sbatch was expected to print a job's number, printed {:?}", answer.trim())))
}

/// A question about all of this name that is ours. By name and not by number: a controller that lost its state gives numbers
/// again.
fn about<'a>(tool: &'a str, name: &'a str, clusters: &'a str) -> Vec<&'a str> {
    let mut all = vec![tool, "--me", "--name", name];
    if !clusters.is_empty() {
        all.extend(["--clusters", clusters]);
    }
    all
}

/// What of this name runs and waits.
pub(super) fn live(name: &str, clusters: &[String]) -> Result<Live, Error> {
    let clusters = clusters.join(",");
    let mut words = about("squeue", name, &clusters);
    words.extend(["--noheader", "--array", "-o", "%T"]);
    ask(&words).map(|text| counted(&text))
}

/// Running and waiting jobs, of a state a line.
pub(super) fn counted(states: &str) -> Live {
    let mut live = Live::default();
    // Of several clusters each has a heading.
    for state in states.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("CLUSTER:")) {
        match state {
            "RUNNING" | "COMPLETING" => live.running += 1,
            _ => live.queued += 1,
        }
    }
    live
}

/// Ends what of this name runs and waits, and the merge after it.
pub(super) fn cancel(name: &str, clusters: &[String]) -> Result<(), Error> {
    let clusters = clusters.join(",");
    for name in [format!("{name}-merge"), name.to_string()] {
        ask(&about("scancel", &name, &clusters))?;
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
        assert_eq!(number("123\n").expect("a number"), ("123".to_string(), None));
        assert_eq!(number("123;site\n").expect("a number"), ("123".to_string(), Some("site".to_string())));
        let error = number("Submitted batch job 7").expect_err("no number");
        assert_eq!(error.message, "sbatch was expected to print a job's number, printed \"Submitted batch job 7\"");
        assert_eq!(counted("CLUSTER: one\nRUNNING\nPENDING\nPENDING\nCOMPLETING\n"), Live { running: 2, queued: 2 });
    }

    #[test]
    fn what_would_lose_the_jobs_is_refused() {
        let refused = |word: &str| refuse(&[word.to_string()]).is_err();
        for word in ["--array=0-3", "-a0-3", "-J", "-Jname", "--job-name=x", "--wait", "-W", "--wrap=true"] {
            assert!(refused(word), "{word}");
        }
        for word in
            ["--account=me", "-A", "-p", "--time=1", "--wait-all-nodes=1", "--wckey=a", "--dependency=singleton"]
        {
            assert!(!refused(word), "{word}");
        }
    }

    #[test]
    fn paths_of_directives_are_no_patterns() {
        assert_eq!(pattern(Path::new("/s/100%/p"), "%a.log"), "/s/100%%/p/log/%a.log");
        assert_eq!(pattern(Path::new("/my store"), "%a.log"), "\"/my store/log/%a.log\"");
    }
}
