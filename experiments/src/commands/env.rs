//! `sandtable env`: a spec's cluster and jobs as an environment, in which a program at the other end of a pipe decides.

mod pipe;
mod tape;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use sandtable_core::error::{Error, ExitCode};
use sandtable_plan::{Cell, Options, PredictorBinding, plan_text};
use sandtable_results::metric::METRICS;
use sandtable_run::code;
use sandtable_run::environment::{Episode, Shown, play};
use sandtable_run::execute::Compiled;
use sandtable_runtime::contract::Quantity;
use sandtable_turns::{Input, MOST_SLOTS};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as Unknown, StrDeserializer};
use serde_json::{Map, Value, json};

use super::SpecArgs;
use crate::ui;
use pipe::Pipe;
use tape::Tape;

/// Let a program decide which job starts next: an environment for reinforcement learning, over standard input and output.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
`sandtable_sched.env` speaks this for Gymnasium. Every message is its length (u32), then that many bytes; all numbers are little-endian.

From the environment:
  {…}   JSON: first what observations are made of; \"error\": what was wrong; \"done\": the end of an episode, its last reward, its metrics
  1     a question: a byte 1, the reward (f64), for each slot a byte that says whether it may be chosen, another for waiting, then the
        observation (f32 each): numbers of the cluster, then those of each slot
To it:
  {\"reset\": SEED}            begins an episode, the workload of that seed
  1     an answer: a byte 1, the slot whose job starts (i32), or the number of slots to wait
  2     another: a byte 2, a score (f64) for each slot; jobs that fit start in their order
  0     a byte 0: nothing more is asked

A reward is minus the hours that jobs have spent between submission and end since the question before, together.

Examples:
  sandtable env experiments/specs/quickstart.ron --at workload.arrivals.load=1.0 --slots 16
  sandtable env SPEC --replay tapes/00003-seed-1000/tape.json")]
pub(crate) struct EnvArgs {
    /// The spec whose cluster and jobs are the environment; its policies have no part in it. `-`: the first message is its text.
    #[arg(value_name = "SPEC")]
    path: PathBuf,
    /// Jobs that are shown together: those that have waited longest.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=MOST_SLOTS as i64))]
    slots: u32,
    /// What is shown of the cluster (`free`, `queue`, `nodes`) and of jobs (`gpus`, `seconds`, `waited`, `priority`, `due`) [default: free, queue,
    /// gpus, waited; seconds where the spec binds a predictor of the time left].
    #[arg(long, value_name = "INPUT", value_delimiter = ',', value_parser = input)]
    inputs: Vec<Input>,
    /// How a job that is chosen gets its GPUs.
    #[arg(long, value_name = "RULE", default_value = "packed", value_parser = ["packed", "consolidate", "count"])]
    placement: String,
    /// Allow episodes of the seeds of the spec, on which what was learnt is to be tested.
    #[arg(long)]
    allow_test_seeds: bool,
    /// Keep a folder of every episode in this one: the answers and the results.
    #[arg(long, value_name = "DIR")]
    tapes: Option<PathBuf>,
    /// Play a tape instead, and compare the results with those that it has.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tapes", "slots", "inputs", "placement", "allow_test_seeds"])]
    replay: Option<PathBuf>,
    #[command(flatten)]
    spec: SpecArgs,
}

fn input(text: &str) -> Result<Input, String> {
    let text: StrDeserializer<'_, Unknown> = text.into_deserializer();
    Input::deserialize(text).map_err(|error| error.to_string())
}

/// A spec whose cells agents decide in.
struct Environment {
    origin: PathBuf,
    text: String,
    options: Options,
    placement: String,
}

impl Environment {
    /// The cell of a seed, its policy replaced.
    fn cell(&self, seed: u64) -> Result<Cell, Error> {
        let mut options = self.options.clone();
        options.set.retain(|(path, _)| path != "policies" && path != "seeds");
        // A policy that takes part in nothing, with the one parameter that the agent has.
        let policy =
            format!("[Policy(name: \"fifo\", label: \"agent\", with: {{\"placement\": {:?}}})]", self.placement);
        let seeds = format!("List([{seed}])");
        options.set.extend([("policies".into(), policy), ("claims".into(), "[]".into()), ("seeds".into(), seeds)]);
        let mut plan = plan_text(&self.origin, self.text.clone(), &options)?;
        if plan.cells.len() != 1 {
            let why = format!("{}: the spec has a sweep, and an environment is one setting", self.origin.display());
            return Err(Error::usage(why).hint("choose one: --at PATH=VALUE, or --set PATH=VALUE"));
        }
        Ok(plan.cells.remove(0))
    }
}

pub(crate) fn run(args: &EnvArgs) -> Result<ExitCode, Error> {
    if !args.spec.only.is_empty() {
        return Err(Error::usage("--only: the agent takes the place of the spec's policies"));
    }
    let mut pipe = Pipe::new();
    let (origin, text) = match args.path.as_os_str() == "-" {
        true => (PathBuf::from("stdin"), pipe.spec()?),
        false => (args.path.clone(), sandtable_plan::spec_text(&args.path)?),
    };
    let mut environment =
        Environment { origin, text, options: args.spec.options()?, placement: args.placement.clone() };
    if let Some(path) = &args.replay {
        return tape::replay(&mut environment, path);
    }
    let plan = plan_text(&environment.origin, environment.text.clone(), &environment.options)?;
    if let Some((path, _)) =
        plan.cells.iter().flat_map(|cell| &cell.variant).find(|(path, _)| path.starts_with("policies"))
    {
        let why = format!(
            "{}: the sweep has `{path}`, and the agent takes the policies' place",
            environment.origin.display()
        );
        return Err(Error::usage(why).hint("a spec without it"));
    }
    super::run::not_live(&plan)?;
    let mut seeds: Vec<u64> = plan.cells.iter().map(|cell| cell.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let Some(&first) = seeds.first() else { return Err(Error::usage("the spec has no cells")) };
    let cell = environment.cell(first)?;
    let shown = Shown { inputs: inputs(args, &cell)?, slots: args.slots as usize };
    let compiled = Compiled::new(&code::settings(ui::note), std::iter::once(&cell))?;
    let other = environment.cell(first ^ 1)?;
    let mut hello = hello(&cell, &shown);
    if cell.jobs()? == other.jobs()? {
        hello["note"] = "every seed has the same jobs: what is learnt of them is tested on them".into();
    }
    pipe.set_slots(shown.slots);
    let pipe = Rc::new(RefCell::new(pipe));
    hello["test_seeds"] = json!(if args.allow_test_seeds { Vec::new() } else { seeds.clone() });
    pipe.borrow_mut().say(&hello);
    let mut number = 0;
    loop {
        let cell = loop {
            let mut pipe = pipe.borrow_mut();
            match pipe.next_reset()? {
                None => return Ok(ExitCode::Done),
                Some(seed) if args.allow_test_seeds || !seeds.contains(&seed) => match environment.cell(seed) {
                    Ok(cell) => break cell,
                    Err(error) => pipe.say(&json!({"error": error.message})),
                },
                Some(seed) => pipe.say(&json!({"error": format!(
                    "seed {seed} is one of the spec's, on which what was learnt is tested: another, or --allow-test-seeds"
                )})),
            }
        };
        pipe.borrow_mut().begin();
        let Some(episode) = play(&cell, &compiled, &shown, pipe.clone(), args.tapes.is_some())? else { continue };
        let mut pipe = pipe.borrow_mut();
        let (reward, answers) = pipe.ended(episode.job_time);
        if let Some(folder) = &args.tapes {
            let tape = Tape::of(&cell, &shown, &args.placement, answers, &episode)?;
            tape.write(folder, &mut number, &episode)?;
        }
        pipe.say(&said_of(&cell, reward, &episode));
    }
}

/// What is shown, as it was asked for.
fn inputs(args: &EnvArgs, cell: &Cell) -> Result<Vec<Input>, Error> {
    let bound = !matches!(cell.predictors.of(Quantity::Remaining), PredictorBinding::Unbound);
    let mut inputs = args.inputs.clone();
    if inputs.is_empty() {
        inputs = vec![Input::Free, Input::Queue, Input::Gpus, Input::Waited];
        inputs.extend(bound.then_some(Input::Seconds));
    }
    if let Some(at) = (1..inputs.len()).find(|at| inputs[..*at].contains(&inputs[*at])) {
        return Err(Error::usage(format!("--inputs: {} is there twice", name(inputs[at]))));
    }
    if inputs.contains(&Input::Seconds) && !bound {
        let hint = "`predictors: {\"remaining\": Oracle}` in the spec, or --set 'predictors={\"remaining\": Oracle}'";
        return Err(Error::usage("--inputs seconds: the spec binds no predictor of the time left").hint(hint));
    }
    Ok(inputs)
}

fn name(input: Input) -> String {
    json!(input).as_str().unwrap_or_default().to_string()
}

/// What observations are made of.
fn hello(cell: &Cell, shown: &Shown) -> Value {
    let nodes = cell.fleet.nodes.len();
    let (cluster, job): (Vec<Input>, Vec<Input>) = shown.inputs.iter().partition(|input| input.is_of_cluster());
    let mut bounds: Vec<(f64, f64)> = Vec::new();
    for input in &cluster {
        bounds.resize(bounds.len() + input.width(nodes), input.bounds());
    }
    for _ in 0..shown.slots {
        bounds.extend([(0.0, 1.0); 2]);
        bounds.extend(job.iter().map(|input| input.bounds()));
    }
    let (low, high): (Vec<f64>, Vec<f64>) = bounds.into_iter().unzip();
    json!({
        "environment": 1, "slots": shown.slots, "nodes": nodes,
        "cluster": cluster, "job": job, "low": low, "high": high,
    })
}

/// The end of an episode.
fn said_of(cell: &Cell, reward: f64, episode: &Episode) -> Value {
    let known = METRICS.iter().map(|metric| (metric.name.to_string(), metric.of(&episode.summary)));
    let metrics: Map<String, Value> =
        known.filter(|(_, value)| value.is_finite()).map(|(name, value)| (name, json!(value))).collect();
    json!({
        "done": true, "reward": reward, "seed": cell.seed, "identity": cell.id, "provenance": "observation",
        "job_time_s": episode.job_time as f64 / 1e6,
        "metrics": metrics,
    })
}
