//! Presets that stand for published simulators, on traces that nobody tuned to: every job's start, end, preemptions
//! and, for Lucid, nodes, from the real components and from slow references that are not ours (`reference`).
//!
//! `SANDTABLE_FUZZ_TRACES` says how many traces a preset gets, `SANDTABLE_FUZZ_ONLY` which `preset/policy` alone is tried.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use sandtable::execute::{Compiled, execute};
use sandtable::plan::{Options, Plan, plan};
use sandtable_needs::needs;

use crate::help::{compiled, data, root};
use crate::reference::trace::Trace;
use crate::reference::{Fate, LARGE, Task, Told, lucid, pai, tiresias};

/// A policy of a published simulator.
struct Case {
    /// The simulator's name of it.
    published: &'static str,
    policy: &'static str,
    with: &'static str,
    told: fn(&Trace) -> Told,
}

/// A published simulator.
struct Preset {
    name: &'static str,
    /// What the format of its published traces has to be told.
    format: &'static str,
    /// The column of GPUs.
    column: &'static str,
    cases: &'static [Case],
}

const SKIP: &str = "\"backfill\": \"skip\"";
const HUNDREDTHS: &str = "format: Csv, columns: {\"name\": \"job_id\", \"submit\": \"submit_s\", \"hundredths\": \
                          \"gpu_centi\", \"duration\": \"duration_s\"}";

const PRESETS: [Preset; 3] = [
    Preset {
        name: "tiresias-count",
        format: "",
        column: "gpus",
        cases: &[
            Case { published: "fifo", policy: "fifo", with: "", told: |t| tiresias::queue(&t.tasks, t.all(), false) },
            Case { published: "fjf", policy: "fifo", with: SKIP, told: |t| tiresias::queue(&t.tasks, t.all(), true) },
            Case {
                published: "srtf",
                policy: "srtf",
                with: "",
                told: |t| tiresias::shortest(&t.tasks, t.all(), false),
            },
            Case { published: "srsf", policy: "srsf", with: "", told: |t| tiresias::shortest(&t.tasks, t.all(), true) },
            Case { published: "dlas_gpu", policy: "las", with: "", told: |t| tiresias::las(&t.tasks, t.all()) },
        ],
    },
    Preset {
        name: "lucid-consolidate",
        format: "",
        column: "gpus",
        cases: &[
            Case {
                published: "fifo",
                policy: "fifo",
                with: "",
                told: |t| lucid::queue(&t.tasks, t.nodes as usize, false),
            },
            Case {
                published: "sjf",
                policy: "sjf",
                with: "",
                told: |t| lucid::queue(&t.tasks, t.nodes as usize, true),
            },
            Case {
                published: "srtf",
                policy: "srtf",
                with: "",
                told: |t| lucid::quota(&t.tasks, t.nodes as usize, false),
            },
            Case {
                published: "tiresias",
                policy: "las",
                with: "",
                told: |t| lucid::quota(&t.tasks, t.nodes as usize, true),
            },
        ],
    },
    Preset {
        name: "pai-1node",
        format: HUNDREDTHS,
        column: "gpu_centi",
        cases: &[
            Case { published: "fifo_skip", policy: "fifo", with: "", told: |t| pai::queue(&t.tasks, t.gpus, false) },
            Case { published: "sjf_skip", policy: "sjf", with: "", told: |t| pai::queue(&t.tasks, t.gpus, true) },
        ],
    },
];

/// The components, compiled once.
struct Bench {
    preset: &'static Preset,
    folder: tempfile::TempDir,
    compiled: Option<Compiled>,
}

impl Bench {
    fn new(preset: &'static Preset) -> Bench {
        let mut bench = Bench { preset, folder: tempfile::tempdir().expect("a folder"), compiled: None };
        let trace = Trace { nodes: 1, gpus: 1, tasks: vec![Task { submit: 0, gpus: 1, duration: 1 }] };
        let cases: Vec<&Case> = preset.cases.iter().collect();
        let plan = bench.plan(&cases, &trace);
        bench.compiled = Some(compiled(&plan));
        bench
    }

    fn plan(&self, cases: &[&Case], trace: &Trace) -> Plan {
        let Preset { name, format, column, .. } = self.preset;
        let policies: Vec<String> = cases
            .iter()
            .map(|case| {
                format!("Policy(name: {:?}, label: {:?}, with: {{{}}})", case.policy, case.published, case.with)
            })
            .collect();
        let spec = format!(
            "Experiment(title: \"fuzz\", fleet: Model(nodes: {}, gpus: {}, kind: \"any\", speed: 1.0), workload: \
             Trace(file: \"t.csv\", {format}), semantics: Semantics(preset: {name:?}), policies: [{}], predictors: \
             {{\"remaining\": Oracle}})",
            trace.nodes,
            trace.gpus,
            policies.join(", "),
        );
        std::fs::write(self.folder.path().join("t.csv"), trace.csv(column)).expect("written");
        let path = self.folder.path().join("spec.ron");
        std::fs::write(&path, spec).expect("written");
        let options = Options { policies: Some(root().join("policies/dist")), ..Options::default() };
        plan(&path, &options).expect("a plan")
    }

    /// What the components make of a trace, or why they made nothing of it.
    fn run(&self, cases: &[&Case], trace: &Trace) -> Vec<Result<Vec<Fate>, String>> {
        let plan = self.plan(cases, trace);
        assert_eq!(plan.cells.len(), cases.len());
        let compiled = self.compiled.as_ref().expect("compiled");
        let of = |cell| {
            let done = execute(cell, compiled).map_err(|error| error.to_string())?;
            let files = done.files().expect("files");
            done.outcome.map_err(|failure| failure.message)?;
            let (_, bytes) = files.iter().find(|(name, _)| name == "jobs.csv").expect("jobs.csv");
            Ok(fates(bytes, trace.tasks.len()))
        };
        plan.cells.iter().map(of).collect()
    }

    /// What the simulator says of a trace; without the gangs larger than the fleet where it can't do with them. Ours never
    /// start, and hinder nobody. In Tiresias' `dlas-gpu` they hinder nobody either, but the pass at their arrival looks for the
    /// next crossing of a limit anew, by its formula that mistakes seconds for GPU-seconds; our host refuses such a job when it
    /// comes and calls no policy (30 of 10,000 traces differ by that pass alone).
    fn told(&self, case: &Case, trace: &Trace) -> Told {
        let told = (case.told)(trace);
        if told.defect != Some(LARGE) && case.published != "dlas_gpu" {
            return told;
        }
        let most = trace.all() * if self.preset.format.is_empty() { 1 } else { 100 };
        let fits: Vec<usize> = (0..trace.tasks.len()).filter(|&job| trace.tasks[job].gpus <= most).collect();
        let tasks = fits.iter().map(|&job| trace.tasks[job].clone()).collect();
        let rest = (case.told)(&Trace { tasks, ..*trace });
        let mut fates = vec![Fate::default(); trace.tasks.len()];
        for (job, fate) in fits.into_iter().zip(rest.fates) {
            fates[job] = fate;
        }
        Told { fates, defect: rest.defect }
    }

    /// What is wrong with a policy on a trace, if anything is.
    fn mismatch(&self, case: &Case, trace: &Trace, ours: &Result<Vec<Fate>, String>) -> Verdict {
        let told = self.told(case, trace);
        if told.defect.is_some() {
            return Verdict::NoOutcome;
        }
        let theirs: Vec<Fate> = told.fates.into_iter().map(|fate| self.comparable(fate)).collect();
        match ours {
            Ok(ours) if ours.iter().map(|fate| self.comparable(fate.clone())).eq(theirs.iter().cloned()) => {
                Verdict::Same
            }
            Ok(ours) => Verdict::Differs(picture(self.preset, case, trace, &theirs, ours)),
            Err(why) => Verdict::Differs(picture(self.preset, case, trace, &theirs, &[]) + why),
        }
    }

    /// Only what the simulator says.
    fn comparable(&self, fate: Fate) -> Fate {
        let nodes = self.preset.name == "lucid-consolidate" && fate.end.is_some();
        Fate { nodes: if nodes { fate.nodes } else { BTreeMap::new() }, ..fate }
    }

    /// The smallest trace that goes wrong, by leaving out one job after another; and what is wrong with it.
    fn shrink(&self, case: &Case, mut trace: Trace, mut picture: String) -> (Trace, String) {
        let mut job = 0;
        while job < trace.tasks.len() {
            let mut smaller = trace.clone();
            smaller.tasks.remove(job);
            let differs = !smaller.tasks.is_empty() && {
                let ours = &self.run(&[case], &smaller)[0];
                match self.mismatch(case, &smaller, ours) {
                    Verdict::Differs(found) => {
                        picture = found;
                        true
                    }
                    _ => false,
                }
            };
            // Whoever could not be left out before may be now.
            (trace, job) = if differs { (smaller, 0) } else { (trace, job + 1) };
        }
        (trace, picture)
    }
}

/// What came of a comparison.
enum Verdict {
    Same,
    Differs(String),
    /// The simulator loses or cuts a job: there is nothing to compare with.
    NoOutcome,
}

/// Fates by number, from `jobs.csv`.
fn fates(bytes: &[u8], jobs: usize) -> Vec<Fate> {
    let mut reader = csv::Reader::from_reader(bytes);
    let names = reader.headers().expect("a header").clone();
    let column = |name: &str| names.iter().position(|found| found == name).expect("a column");
    let (start, end) = (column("first_start_s"), column("end_s"));
    let (preemptions, placement) = (column("preemptions"), column("last_placement"));
    let mut fates = vec![Fate::default(); jobs];
    for row in reader.records() {
        let row = row.expect("a row");
        let number = |text: &str| text.parse::<u32>().expect("a number");
        // An instant between seconds is nobody's: it must not pass for one of them.
        let second = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap_or(u64::MAX));
        let nodes = row[placement].split_terminator(';').map(|part| {
            let (node, gpus) = part.split_once(':').expect("node:gpus");
            (number(node) as usize, number(gpus))
        });
        fates[number(&row[0]) as usize] = Fate {
            start: second(&row[start]),
            end: second(&row[end]),
            preemptions: number(&row[preemptions]),
            nodes: nodes.collect(),
        };
    }
    fates
}

/// Both schedules, a line a job.
fn picture(preset: &Preset, case: &Case, trace: &Trace, theirs: &[Fate], ours: &[Fate]) -> String {
    let Trace { nodes, gpus, tasks } = trace;
    let mut out = format!("{}/{} on {nodes} nodes of {gpus} GPUs; jobs are", preset.name, case.published);
    out += " (submission, GPUs, duration), fates start - end, preemptions, nodes\n";
    let show = |fate: Option<&Fate>| {
        let Some(fate) = fate else { return "nothing".to_string() };
        let second = |at: Option<u64>| at.map_or("never".to_string(), |at| at.to_string());
        format!("{} - {}, {}, {:?}", second(fate.start), second(fate.end), fate.preemptions, fate.nodes)
    };
    for (job, Task { submit, gpus, duration }) in tasks.iter().enumerate() {
        let (theirs, ours) = (show(theirs.get(job)), show(ours.get(job)));
        let _ = writeln!(out, "  {job}: ({submit}, {gpus}, {duration})  published: {theirs}  ours: {ours}");
    }
    out
}

/// What a test may be told by whoever runs it.
#[expect(clippy::disallowed_methods, reason = "how long a night's run is, and of what, is not in any result")]
fn told(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

#[expect(clippy::print_stderr, reason = "a long run says how far it got")]
fn tell(line: &str) {
    eprintln!("{line}");
}

/// The smallest trace that goes wrong, and its picture.
type Smallest = Option<(Trace, String)>;

/// How many traces that go wrong are made smaller: the smallest is shown.
const SHRUNK: usize = 8;

#[test]
fn components_match_the_references_on_random_traces() {
    let traces: u64 = told("SANDTABLE_FUZZ_TRACES").map_or(100, |text| text.parse().expect("a number of traces"));
    let only = told("SANDTABLE_FUZZ_ONLY");
    let (mut tried, mut failures) = (0, Vec::new());
    for preset in &PRESETS {
        let wanted = |case: &&Case| {
            let name = format!("{}/{}", preset.name, case.published);
            only.as_ref().is_none_or(|only| *only == name || only == preset.name)
        };
        let cases: Vec<&Case> = preset.cases.iter().filter(wanted).collect();
        if cases.is_empty() {
            continue;
        }
        tried += cases.len();
        let bench = Bench::new(preset);
        let mut wrong: Vec<(u64, u64, Smallest)> = cases.iter().map(|_| (0, 0, None)).collect();
        for number in 0..traces {
            let trace = Trace::draw(number, preset.name);
            for (index, ours) in bench.run(&cases, &trace).iter().enumerate() {
                let (differs, none, smallest) = &mut wrong[index];
                match bench.mismatch(cases[index], &trace, ours) {
                    Verdict::Same => {}
                    Verdict::NoOutcome => *none += 1,
                    Verdict::Differs(picture) => {
                        *differs += 1;
                        if *differs as usize <= SHRUNK {
                            let (trace, picture) = bench.shrink(cases[index], trace.clone(), picture);
                            let best = smallest.as_ref().map_or(usize::MAX, |(best, _)| best.tasks.len());
                            if trace.tasks.len() < best {
                                *smallest = Some((trace, picture));
                            }
                        }
                    }
                }
            }
        }
        for (case, (differs, none, smallest)) in cases.iter().zip(wrong) {
            let name = format!("{}/{}", preset.name, case.published);
            tell(&format!("{name}: {traces} traces, {differs} differ, {none} without an outcome of the simulator"));
            failures.extend(smallest.map(|(_, picture)| format!("{name}: {differs} of {traces} differ\n{picture}")));
        }
    }
    assert!(tried > 0, "there is no {only:?}");
    assert!(failures.is_empty(), "the smallest of each:\n{}", failures.join("\n"));
}

/// The published traces of a simulator.
fn published(preset: &Preset) -> (&'static str, Vec<(&'static str, u32)>) {
    match preset.name {
        "tiresias-count" => ("golden-tiresias", vec![("ee9e8c_w4", 16), ("ee9e8c_all", 16), ("11cb48_w7", 4)]),
        "lucid-consolidate" => ("golden-lucid", vec![("ee9e8c_w4", 16), ("11cb48_w7", 4)]),
        _ => ("golden-pai", vec![("openb_d139to144", 1)]),
    }
}

/// Rows of a file as text, by column.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).expect("a file");
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

#[needs("data:golden-tiresias", "data:golden-lucid", "data:golden-pai")]
#[test]
fn references_reproduce_the_published_schedules() {
    for preset in &PRESETS {
        let (folder, traces) = published(preset);
        let folder = data(folder);
        for (name, nodes) in traces {
            let jobs = rows(&folder.join(format!("{name}.trace.csv")));
            let number = |row: &BTreeMap<String, String>, column: &str| row[column].parse().expect("a number");
            let task = |row| Task {
                submit: number(row, "submit_s"),
                gpus: number(row, preset.column) as u32,
                duration: number(row, "duration_s"),
            };
            let trace = Trace { nodes, gpus: 8, tasks: jobs.iter().map(task).collect() };
            for case in preset.cases {
                let told = (case.told)(&trace);
                assert_eq!(told.defect, None);
                let found: BTreeMap<&String, &Fate> = jobs.iter().map(|row| &row["job_id"]).zip(&told.fates).collect();
                let outcome = rows(&folder.join(format!("{name}.{}.csv", case.published)));
                assert_eq!(found.len(), outcome.len());
                for row in outcome {
                    let fate = found[&row["job_id"]];
                    let nodes: Vec<String> = fate.nodes.iter().map(|(node, gpus)| format!("{node}:{gpus}")).collect();
                    let says = |column: &str| match column {
                        "start_s" => fate.start.map(|at| at.to_string()),
                        "end_s" => fate.end.map(|at| at.to_string()),
                        "preemptions" => Some(fate.preemptions.to_string()),
                        "last_placement" => Some(nodes.join(";")),
                        _ => Some(row["job_id"].clone()),
                    };
                    for (column, expected) in &row {
                        let found = says(column);
                        let what = format!("{}/{} on {name}, job {}", preset.name, case.published, row["job_id"]);
                        assert_eq!(found.as_ref(), Some(expected), "{what}, {column}");
                    }
                }
            }
        }
    }
}
