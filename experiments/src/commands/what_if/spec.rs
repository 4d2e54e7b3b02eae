//! What is asked as options, as a spec.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use sandtable_core::error::Error;
use sandtable_core::units;
use sandtable_inputs::state::document::{Multifactor, Order, Preempts, SourceKind};
use sandtable_inputs::state::{Member, State, TIER_WIDTH, trace_format};
use sandtable_plan::spec::short_name;

use super::hosts::Hosts;

/// The place of the changes in a spec.
pub(super) const CHANGES: &str = "workload.changes";
/// Seeds where run times are drawn.
const SEEDS: u64 = 50;

/// How long jobs take.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct Times {
    /// How long jobs really take: `limits` or `limits=0.5` (a part of the time limit), `noisy=0.5` (log-normal around the limit),
    /// `history=FILE` (as jobs that have ended: a trace, or what `sacct --parsable2` printed), `known=FILE` (likewise, by name).
    #[arg(long, value_name = "MODEL", default_value = "limits")]
    run_times: String,
    /// Time limit of jobs that have none.
    #[arg(long, value_name = "TIME", value_parser = time)]
    otherwise: Option<String>,
    /// Number of seeds [default: 50 where run times are drawn, else 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
}

/// Policies, run times and changes.
#[derive(Debug, clap::Args)]
pub(super) struct Asked {
    /// Policy: its name, or the path of a component, with parameters as in `fifo,backfill=easy`. May be given several times [default: of Slurm
    /// `slurm-backfill` or `fifo`, as the state says that it is, of Kueue and KAI `kueue-like` and `kai-like`, else `fifo` and `fifo,backfill=easy`].
    #[arg(long = "policy", value_name = "NAME[,KEY=VALUE]")]
    policy: Vec<String>,
    /// The runs end so long from now on, and of jobs that start later only that is said [default: they go on until all jobs have ended].
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<String>,
    #[command(flatten)]
    times: Times,
    /// Change: a job more, as in `name=mine,gpus=8,limit=4h`; also `gpus_per_node`, `at`, `user`, `account`, `queue`, `kind`, `priority`, `cpus`, `host_memory`.
    #[arg(long, value_name = "KEY=VALUE,…")]
    add: Vec<String>,
    /// Change: nodes more, as in `4x8` or `4x8:H100-SXM5-80GB`: so many of so many GPUs.
    #[arg(long, value_name = "NxGPUS[:KIND]")]
    add_nodes: Vec<String>,
    /// Change: a node takes no jobs, and those that run there go on; `n3@2h..6h` from and to a time from now.
    #[arg(long, value_name = "NODE[@FROM[..TO]]")]
    drain: Vec<String>,
    /// Change: a node takes jobs again.
    #[arg(long, value_name = "NODE")]
    resume: Vec<String>,
    /// Change: a job that waits is held.
    #[arg(long, value_name = "JOB")]
    hold: Vec<String>,
    /// Change: a job that is held waits.
    #[arg(long, value_name = "JOB")]
    release: Vec<String>,
    /// Change: a job is gone.
    #[arg(long, value_name = "JOB")]
    kill: Vec<String>,
    /// GPUs are shared out among the queues of the document; only policies that know queues begin then [default: where each policy is `kai-like` or
    /// `kueue-like`].
    #[arg(long)]
    queues: bool,
    /// Change: a queue has this limit, in GPUs of all kinds; with `--queues`.
    #[arg(long, value_name = "QUEUE=GPUS")]
    limit: Vec<String>,
    /// Change: a job has this priority, as the cluster counts it.
    #[arg(long, value_name = "JOB=NUMBER")]
    priority: Vec<String>,
}

/// What of a fleet in a spec says that jobs may have parts of GPUs.
pub(in crate::commands) fn shares(parts: bool) -> &'static str {
    if parts { ", sharing: Shares" } else { "" }
}

fn time(text: &str) -> Result<String, String> {
    units::span(text).map(|_| text.to_string())
}

impl Asked {
    /// The spec, with as much of CPU and memory of nodes as `hosts` says; paths in it are as they are given.
    pub(super) fn spec(&self, file: &Path, state: &State, hosts: Hosts) -> Result<String, Error> {
        let until = self.until.as_ref().map_or_else(String::new, |until| format!(", until: {until:?}"));
        let listed = policies(&self.policy, state)?;
        let queues = self.queues || shares_out(&listed, state);
        if !queues && !self.limit.is_empty() {
            let error = Error::usage("--limit: queues limit nothing under these policies");
            return Err(error.hint("--queues, with policies that know queues, such as kueue-like"));
        }
        let more = until + if queues { ", queues: true" } else { "" } + hosts.said();
        let mut text = self.times.spec(file, state, &listed, &more)?;
        let changes = self.changes()?;
        if !changes.is_empty() {
            let list: String = changes.iter().map(|change| format!("        {change},\n")).collect();
            let _ = writeln!(text, "    sweep: {{{CHANGES:?}: [[], [\n{list}    ]]}},");
        }
        text.push_str(")\n");
        Ok(text)
    }

    /// Jobs that are held or gone, and not asked for by name.
    pub(super) fn taken_out<'a>(&'a self, asked: &[String]) -> BTreeSet<&'a str> {
        self.hold.iter().chain(&self.kill).filter(|job| !asked.contains(job)).map(String::as_str).collect()
    }

    /// The names of the jobs that are added, as far as they are asked for.
    pub(super) fn added(&self, asked: &[String]) -> Vec<String> {
        let named =
            |text: &String| text.split(',').find_map(|part| part.trim().strip_prefix("name=").map(str::to_string));
        let names = self.add.iter().map(|text| named(text).unwrap_or_else(|| "added".into()));
        names.filter(|name| asked.is_empty() || asked.contains(name)).collect()
    }

    /// Whether a job that is added asks for CPU or memory of nodes.
    pub(super) fn adds_hosts(&self) -> bool {
        let asks = |part: &str| part.starts_with("cpus=") || part.starts_with("host_memory=");
        self.add.iter().any(|text| text.split(',').any(asks))
    }

    /// The changes as a spec writes them: nodes first, which others may name.
    fn changes(&self) -> Result<Vec<String>, Error> {
        let mut all = Vec::new();
        for text in &self.add_nodes {
            all.push(nodes(text)?);
        }
        all.extend(self.resume.iter().map(|node| format!("Resume({node:?})")));
        for text in &self.drain {
            all.push(drain(text)?);
        }
        all.extend(self.kill.iter().map(|job| format!("Kill({job:?})")));
        all.extend(self.release.iter().map(|job| format!("Release({job:?})")));
        all.extend(self.hold.iter().map(|job| format!("Hold({job:?})")));
        for text in &self.priority {
            let wrong = || Error::usage(format!("--priority: expected JOB=NUMBER, found {text:?}"));
            let (job, value) = text.rsplit_once('=').ok_or_else(wrong)?;
            let value: f64 = value.parse().map_err(|_| wrong())?;
            all.push(format!("Priority({job:?}, {value:?})"));
        }
        for text in &self.limit {
            let wrong = || Error::usage(format!("--limit: expected QUEUE=GPUS, found {text:?}"));
            let (queue, gpus) = text.rsplit_once('=').ok_or_else(wrong)?;
            let gpus: u32 = gpus.parse().map_err(|_| wrong())?;
            all.push(format!("Limit({queue:?}, {gpus})"));
        }
        for text in &self.add {
            all.push(job(text)?);
        }
        Ok(all)
    }
}

impl Times {
    /// The spec of a cluster as it is, but for its last line; paths in it are as they are given. `more` goes into its `State`.
    pub(in crate::commands) fn spec(
        &self,
        file: &Path,
        state: &State,
        policies: &[String],
        more: &str,
    ) -> Result<String, Error> {
        let shown = file.to_str().ok_or_else(|| Error::usage(format!("{}: not UTF-8", file.display())))?;
        let (run_times, drawn) = self.run_times()?;
        let mut text = String::from("Experiment(\n    title: \"What would become of the queue\",\n");
        let shares = shares(state.knows_parts());
        let _ = writeln!(text, "    fleet: Model(list: NodeList(file: {shown:?}, format: State), speed: 1.0{shares}),");
        let _ = writeln!(text, "    workload: State(file: {shown:?}, run_times: {run_times}, changes: []{more}),");
        let _ = writeln!(text, "    policies: [\n{}    ],", policies.concat());
        if declares(state) || self.otherwise.is_some() {
            let _ = writeln!(text, "    predictors: {{\"remaining\": Declared}},");
        }
        let seeds = self.seeds.unwrap_or(if drawn { SEEDS } else { 1 });
        let _ = writeln!(text, "    seeds: Range(0, {seeds}),");
        Ok(text)
    }

    /// How long jobs take, and whether that is drawn.
    fn run_times(&self) -> Result<(String, bool), Error> {
        let wrong = || {
            let error = Error::usage(format!("--run-times: expected a model of run times, found {:?}", self.run_times));
            error.hint("limits, limits=0.5, noisy=0.5, history=FILE or known=FILE")
        };
        let otherwise = self.otherwise.as_ref().map_or_else(String::new, |time| format!(", otherwise: {time:?}"));
        let (name, value) = self.run_times.split_once('=').unwrap_or((&self.run_times, ""));
        let number = || value.parse::<f64>().map(|number| format!("{number:?}")).map_err(|_| wrong());
        let file = || match value {
            "" => Err(wrong()),
            file => {
                let bytes = sandtable_inputs::trace::read_bytes(Path::new(file), sandtable_core::input::DATA)?;
                Ok(format!("file: {file:?}, format: {:?}", trace_format(&bytes)))
            }
        };
        let (fields, drawn) = match (name, value) {
            ("limits", "") => ("Limits(".to_string(), false),
            ("limits", _) => (format!("Limits(part: {}", number()?), false),
            ("noisy", _) => (format!("Noisy(sigma: {}", number()?), true),
            ("history", _) => (format!("History({}", file()?), true),
            ("known", _) => (format!("Known({}", file()?), false),
            _ => return Err(wrong()),
        };
        let otherwise = if fields.ends_with('(') { otherwise.trim_start_matches(", ") } else { &otherwise };
        Ok((format!("{fields}{otherwise})"), drawn))
    }
}

/// The policies that are asked for, or those that a cluster is nearest to, as a spec writes them.
pub(in crate::commands) fn policies(asked: &[String], state: &State) -> Result<Vec<String>, Error> {
    let said = state.source.scheduler.as_ref();
    if !asked.is_empty() {
        return asked.iter().map(|text| policy(text, state)).collect();
    }
    let nearest: &[&str] = match (state.source.kind, said.and_then(|of| of.backfill)) {
        (SourceKind::Slurm, Some(true)) => &[SLURM],
        // Without plans it starts jobs by tier, by priority, and then by submission.
        (SourceKind::Slurm, Some(false)) => match said.and_then(|of| of.order) {
            Some(Order::Priority) => &[SLURM],
            _ if state.has_tiers() || state.standings().is_some() || (state.knows_hosts() && state.has_cpu_jobs()) => {
                &[SLURM]
            }
            _ => &["fifo"],
        },
        (SourceKind::Kueue, _) => &["kueue-like"],
        (SourceKind::Kai, _) => &["kai-like"],
        _ => &["fifo", "fifo,backfill=easy"],
    };
    nearest.iter().map(|text| policy(text, state)).collect()
}

const DAY_S: f64 = 86_400.0;

/// The policy that does what Slurm does.
const SLURM: &str = "slurm-backfill";

/// Policies that know queues, and are asked with those of a cluster.
const QUEUED: [&str; 3] = ["kai-like", "kueue-like", SLURM];

/// Whether GPUs are shared out among the queues of a cluster, unless it is said otherwise: under policies that all know queues.
pub(in crate::commands) fn shares_out(policies: &[String], state: &State) -> bool {
    let known = |line: &String| QUEUED.iter().any(|name| line.contains(&format!("name: {name:?}")));
    policies.iter().all(known) && !state.queue_tree().is_empty()
}

/// Whether jobs of a cluster have time limits, their own or their queues'.
fn declares(state: &State) -> bool {
    state.jobs.iter().any(|job| job.limit_s.is_some() && job.gpus > 0)
        || state.queues.iter().any(|queue| queue.default_s.or(queue.most_s).is_some())
}

/// Names of parameters and their values, as a spec writes them.
type Parameters = Vec<(&'static str, String)>;

/// Slurm's parameters as a state says that they are, where these are asked for beside them.
fn slurm_parameters(state: &State, asked: &[(&str, String)]) -> Parameters {
    let said = state.source.scheduler.as_ref();
    let mut with = Parameters::new();
    let tick = said.and_then(|of| of.backfill_tick_s);
    let resolution = said.and_then(|of| of.resolution_s);
    // Its looks are so many ticks from the last one, of its own.
    let own = tick.filter(|_| asked.iter().all(|(name, _)| *name != "tick"));
    let phase = own.zip(said.and_then(|of| of.backfilled_s)).filter(|(tick, _)| *tick > 0.0).map(|(tick, last)| {
        let since = state.instant().as_secs_f64() + last;
        since - (since / tick).floor() * tick
    });
    let backfill = said.and_then(|of| of.backfill);
    let tick = if backfill == Some(false) { Some(0.0) } else { tick };
    let window = said.and_then(|of| of.window_s);
    // What the clock on the wall shows at the model's 0.
    let began = state.since_1970().as_secs_f64() - state.instant().as_secs_f64();
    let wall_clock = (backfill == Some(true)).then(|| libm::rint(began - (began / DAY_S).floor() * DAY_S));
    let said_by = [("tick", tick), ("resolution", resolution), ("phase", phase), ("window", window)];
    for (name, value) in said_by.into_iter().chain([("wall_clock", wall_clock)]) {
        with.extend(value.map(|value| (name, value.to_string())));
    }
    let by_quality = state.standings().is_some();
    if by_quality || said.and_then(|of| of.preempts) == Some(Preempts::Tier) {
        with.extend([("preempt", "true".into()), ("tier_width", TIER_WIDTH.to_string())]);
        // Qualities of service say which jobs take GPUs from others, and priorities alone which come first.
        with.extend(by_quality.then(|| ("tiers_first", "false".into())));
        // By priority/basic a job keeps what its first submission gave it.
        let keeps = said.and_then(|of| of.order) == Some(Order::Fifo);
        with.extend(keeps.then(|| ("preempted_last", "false".into())));
    }
    with.extend(said.and_then(|of| of.priority.as_ref()).into_iter().flat_map(|of| multifactor(of, state, asked)));
    with
}

/// How priorities change, as parameters; those of jobs hold what age and usage have given so far. Without accounts usage changes none.
fn multifactor(of: &Multifactor, state: &State, asked: &[(&str, String)]) -> Parameters {
    let members = state.members();
    let weight = |name: &str, said: Option<f64>| {
        let asked = asked.iter().find(|(of, _)| *of == name).and_then(|(_, value)| value.parse().ok());
        asked.or(said).filter(|weight| *weight > 0.0)
    };
    let age = weight("weight_age", of.age);
    let shares = weight("weight_fair_share", of.fair_share).filter(|_| !members.is_empty());
    let mut with = Parameters::new();
    let mut say = |name: &'static str, value: Option<String>| with.extend(value.map(|value| (name, value)));
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    if age.is_some() || shares.is_some() {
        say("included", Some("true".into()));
        say("calc_period", number(of.period_s));
    }
    say("weight_age", number(age));
    say("max_age", number(of.most_age_s.filter(|_| age.is_some())));
    if shares.is_some() {
        say("weight_fair_share", number(shares));
        say("fair_share", of.tree.map(|tree| if tree { "\"tree\"" } else { "\"classic\"" }.into()));
        say("damping", number(of.damping.filter(|_| of.tree == Some(false))));
        say("half_life", number(of.half_life_s));
        say("count_ends", of.counts_ends.map(|counts| counts.to_string()));
        let one = |of: &Member| {
            let Member { queue, user, shares, used } = of;
            format!("{{\"queue\": {queue:?}, \"user\": {user:?}, \"shares\": {shares}, \"used\": {used}}}")
        };
        let all: Vec<String> = members.iter().map(one).collect();
        say("associations", Some(format!("[{}]", all.join(", "))));
    }
    with
}

/// A policy and its parameters; Slurm's are those of the cluster, but for what is asked for.
fn policy(text: &str, state: &State) -> Result<String, Error> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let mut with = Vec::new();
    for part in parts {
        let Some((key, value)) = part.split_once('=') else {
            let error = Error::usage(format!("--policy: expected KEY=VALUE, found {part:?} in {text:?}"));
            return Err(error.hint("fifo,backfill=easy"));
        };
        // A number or a truth is one, and anything else is a word.
        let literal = value.parse::<f64>().is_ok_and(f64::is_finite) || matches!(value, "true" | "false");
        with.push((key, if literal { value.to_string() } else { format!("{value:?}") }));
    }
    let label = match with.is_empty() {
        true => String::new(),
        false => format!(", label: {:?}", text.replacen(name, short_name(name), 1).replace(',', " ")),
    };
    if name == SLURM && state.source.kind == SourceKind::Slurm {
        let said = slurm_parameters(state, &with).into_iter();
        let said: Parameters = said.filter(|(name, _)| with.iter().all(|(asked, _)| asked != name)).collect();
        with.splice(0..0, said);
    }
    let with: Vec<String> = with.iter().map(|(name, value)| format!("{name:?}: {value}")).collect();
    let with = if with.is_empty() { String::new() } else { format!(", with: {{{}}}", with.join(", ")) };
    Ok(format!("        Policy(name: {name:?}{label}{with}),\n"))
}

fn drain(text: &str) -> Result<String, Error> {
    let wrong = |why: String| Error::usage(format!("--drain: {text:?}: {why}")).hint("n3, n3@2h or n3@2h..6h");
    let (node, times) = text.split_once('@').map_or((text, None), |(node, times)| (node, Some(times)));
    let mut out = format!("Drain(node: {node:?}");
    let (from, to) = times.map_or((None, None), |times| match times.split_once("..") {
        Some((from, to)) => (Some(from).filter(|from| !from.is_empty()), Some(to)),
        None => (Some(times), None),
    });
    for (name, value) in [("from", from), ("to", to)] {
        let Some(value) = value.map(|value| value.trim_start_matches('+')) else { continue };
        units::span(value).map_err(wrong)?;
        let _ = write!(out, ", {name}: {value:?}");
    }
    Ok(out + ")")
}

fn nodes(text: &str) -> Result<String, Error> {
    let wrong = || Error::usage(format!("--add-nodes: expected NxGPUS or NxGPUS:KIND, found {text:?}"));
    let (size, kind) = text.split_once(':').map_or((text, None), |(size, kind)| (size, Some(kind)));
    let (nodes, gpus) = size.split_once('x').ok_or_else(wrong)?;
    let (nodes, gpus): (u32, u32) = (nodes.parse().map_err(|_| wrong())?, gpus.parse().map_err(|_| wrong())?);
    let kind = kind.map_or_else(String::new, |kind| format!(", kind: {kind:?}"));
    Ok(format!("AddNodes(nodes: {nodes}, gpus: {gpus}{kind})"))
}

/// What is said of a job more: whether it is a word.
const OF_A_JOB: [(&str, bool); 12] = [
    ("name", true),
    ("gpus", false),
    ("gpus_per_node", false),
    ("limit", true),
    ("at", true),
    ("user", true),
    ("account", true),
    ("queue", true),
    ("kind", true),
    ("priority", false),
    ("cpus", false),
    ("host_memory", true),
];

fn job(text: &str) -> Result<String, Error> {
    let mut fields: Vec<String> = Vec::new();
    let mut named = false;
    for part in text.split(',') {
        let known = part.split_once('=').and_then(|(key, value)| {
            let (name, word) = OF_A_JOB.iter().find(|(name, _)| *name == key)?;
            Some((*name, *word, value))
        });
        let Some((name, word, value)) = known else {
            let names: Vec<&str> = OF_A_JOB.iter().map(|(name, _)| *name).collect();
            let error = Error::usage(format!("--add: expected KEY=VALUE, found {part:?}"));
            return Err(error.hint(format!("keys are {}", names.join(", "))));
        };
        named |= name == "name";
        fields.push(match (name, word) {
            ("kind", _) => format!("kinds: [{value:?}]"),
            ("limit" | "at", _) => {
                units::span(value).map_err(|why| Error::usage(format!("--add: {name}: {why}")))?;
                format!("{name}: {value:?}")
            }
            ("priority" | "cpus", _) => {
                let number: f64 = value
                    .parse()
                    .map_err(|_| Error::usage(format!("--add: {name}: expected a number, found {value:?}")))?;
                format!("{name}: {number:?}")
            }
            ("host_memory", _) => {
                units::bytes(value).map_err(|why| Error::usage(format!("--add: {name}: {why}")))?;
                format!("{name}: {value:?}")
            }
            (_, true) => format!("{name}: {value:?}"),
            (_, false) => {
                let count: u32 = value
                    .parse()
                    .map_err(|_| Error::usage(format!("--add: {name}: expected a whole number, found {value:?}")))?;
                format!("{name}: {count}")
            }
        });
    }
    if !named {
        fields.insert(0, "name: \"added\"".into());
    }
    Ok(format!("Add({})", fields.join(", ")))
}
