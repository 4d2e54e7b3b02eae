//! The jobs that typically come: those of a trace, or those that have come so far.

use std::collections::BTreeMap;

use sandtable_fragmentation::{Ask, Typical};
use sandtable_policy::{Job, Setup};

/// What jobs have asked for.
pub struct History {
    counts: BTreeMap<Ask, u64>,
    /// How many jobs.
    seen: u64,
    /// With how many what is typical is looked at again; none: never.
    again: Option<u64>,
    /// Part of all jobs that the typical ones are.
    share: f64,
    /// Names of types.
    types: Vec<String>,
    typical: Typical,
}

impl History {
    /// Of the jobs of a trace, where the experiment names one.
    ///
    /// # Errors
    /// What is wrong with the trace, and in which line.
    pub fn new(setup: &Setup, share: f64) -> Result<History, String> {
        let types: Vec<String> = setup.topology.gpu_types.iter().map(|kind| kind.name.clone()).collect();
        let counts = if setup.weights.is_empty() { BTreeMap::new() } else { counts(&setup.weights)? };
        let again = counts.is_empty().then_some(1);
        let typical = Typical::of(&counts, share, &types);
        Ok(History { counts, seen: 0, again, share, types, typical })
    }

    /// The typical jobs.
    pub fn typical(&self) -> &Typical {
        &self.typical
    }

    /// Counts jobs that came; whether others are typical now: looked at whenever a tenth more have come.
    pub fn take_in<'a>(&mut self, came: impl Iterator<Item = &'a Job>) -> bool {
        let Some(again) = &mut self.again else { return false };
        for job in came {
            *self.counts.entry(ask(job, &self.types)).or_default() += 1;
            self.seen += 1;
        }
        if self.seen < *again {
            return false;
        }
        *again = self.seen + self.seen.div_ceil(10);
        let typical = Typical::of(&self.counts, self.share, &self.types);
        let changed = typical != self.typical;
        self.typical = typical;
        changed
    }
}

/// What a job asks for.
fn ask(job: &Job, types: &[String]) -> Ask {
    let all = job.gpu_types.len() == types.len();
    let names = job.gpu_types.iter().map(|kind| types[*kind as usize].as_str());
    Ask {
        cpu_milli: u64::from(job.host.cpu_milli),
        milli: if job.gpus == 0 { 0 } else { job.share },
        gpus: job.gpus,
        kinds: if all { String::new() } else { names.collect::<Vec<_>>().join("|") },
    }
}

/// The columns of a native trace and of Alibaba's openb, and how many of its units are thousandths of a core.
const FORMATS: [([&str; 4], f64); 2] =
    [(["gpus", "cpus", "share_milli", "gpu_types"], 1000.0), (["num_gpu", "cpu_milli", "gpu_milli", "gpu_spec"], 1.0)];

/// What the jobs of a trace ask for.
fn counts(bytes: &[u8]) -> Result<BTreeMap<Ask, u64>, String> {
    // What an import says of itself stands before the header.
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(bytes);
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let column = |name: &str| header.iter().position(|known| known == name);
    let format = FORMATS.iter().find(|(names, _)| column(names[0]).is_some());
    let (names, milli_cores) =
        format.ok_or("expected a trace, native or openb, found no column `gpus` or `num_gpu`")?;
    let [gpus, cpus, share, kinds] = names.map(column);
    let mut counts = BTreeMap::new();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        let line = row.position().map_or(0, csv::Position::line);
        let text = |column: Option<usize>| column.and_then(|at| row.get(at)).unwrap_or("");
        let number = |at: usize, column: Option<usize>, absent: f64, most: f64| match text(column) {
            "" => Ok(absent),
            text => {
                let found = text.parse::<f64>().ok().filter(|found| (0.0..=most).contains(found));
                let name = names[at];
                found.ok_or_else(|| format!("line {line}: `{name}`: expected a number up to {most}, found {text:?}"))
            }
        };
        let gpus = number(0, gpus, 0.0, 1e6)? as u32;
        let milli = if gpus > 1 { 1000 } else { number(2, share, 1000.0, 1000.0)? as u32 };
        let ask = Ask {
            cpu_milli: (number(1, cpus, 0.0, 4e9)? * milli_cores + 0.5) as u64,
            milli: if gpus == 0 { 0 } else { milli },
            gpus,
            kinds: text(kinds).into(),
        };
        *counts.entry(ask).or_default() += 1;
    }
    if counts.is_empty() { Err("no job in it".into()) } else { Ok(counts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_says_what_is_typical() {
        let trace = b"job_id,submit_s,gpus,duration_s,cpus,share_milli,gpu_types\na,0,1,1,2.5,300,\nb,1,0,1,4,,\nc,1,1,1,2.5,300,\nd,2,2,1,,,A|B\n";
        let ask = |cpu_milli, milli, gpus, kinds: &str| Ask { cpu_milli, milli, gpus, kinds: kinds.into() };
        let expected = [(ask(2500, 300, 1, ""), 2), (ask(4000, 0, 0, ""), 1), (ask(0, 1000, 2, "A|B"), 1)];
        assert_eq!(counts(trace), Ok(expected.into()));
        let openb =
            b"name,cpu_milli,num_gpu,gpu_milli,gpu_spec\na,2500,1,300,\nb,4000,0,0,\nc,2500,1,300,\nd,0,2,1000,A|B\n";
        assert_eq!(counts(openb), counts(trace));
    }

    #[test]
    fn another_file_is_refused() {
        let why = |text: &str| counts(text.as_bytes()).unwrap_err();
        assert_eq!(why("{}"), "expected a trace, native or openb, found no column `gpus` or `num_gpu`");
        assert_eq!(why("gpus\n"), "no job in it");
        assert_eq!(why("gpus\n1\nmany\n"), "line 3: `gpus`: expected a number up to 1000000, found \"many\"");
    }
}
