//! HyperQueue: an array of tasks without a limit of size, each of which reads its number from the environment.

use sandtable_core::error::Error;

use super::plan_file::Needs;
use super::{Call, quoted};

/// Tasks of an array by default: one costs a tenth of a millisecond, but each reads the spec.
pub(super) const SHARDS: usize = 512;

/// What hands an array over. One that fails leaves the others alone.
pub(super) fn command(call: &Call<'_>, name: &str, shards: usize, needs: Needs, arguments: &[String]) -> Vec<String> {
    let mut all: Vec<String> = ["hq", "--output-mode=quiet", "submit", "--name", name].map(str::to_string).to_vec();
    all.extend(["--array".into(), format!("0-{}", shards - 1), "--cpus".into(), "1".into()]);
    if needs.gpus > 0 {
        all.extend(["--resource".into(), format!("gpus/nvidia={}", needs.gpus)]);
    }
    let log = call.folder.join("log").display().to_string();
    all.extend(["--max-fails".into(), shards.to_string()]);
    all.extend(["--stdout".into(), format!("{log}/hq-%{{TASK_ID}}.out")]);
    all.extend(["--stderr".into(), format!("{log}/hq-%{{TASK_ID}}.log")]);
    all.extend_from_slice(arguments);
    let shard = call.run(&format!("\"$HQ_TASK_ID\"/{shards}"));
    all.extend(["--".into(), "sh".into(), "-c".into(), format!("exec {shard} --jobs 1")]);
    all
}

/// The job's number.
pub(super) fn number(answer: &str) -> Result<String, Error> {
    let word = answer.trim();
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) {
        return Ok(word.to_string());
    }
    Err(Error::usage(format!("hq was expected to print a job's number, printed {}", quoted(word))))
}
