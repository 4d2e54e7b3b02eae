//! A policy that is a script in Starlark, a small language with Python's syntax: it says in which order jobs come, and the SDK does the rest.
//!
//! A script has one of these functions: `key(job, c)`, which is asked when a job begins to wait, or `order(job, c)`, which is asked of every
//! waiting job at every decision; the least comes first, of equals the earlier job, and one of which it says None comes last. With
//! `PREEMPT = True` running jobs are ordered too, and those that come first take GPUs from the others. `place(job, nodes, c)` may say where
//! a job goes, `preempt(job, running, c)` which jobs make room for the first that finds none. In their place `decide(waiting, running, nodes, c)` says all that
//! starts and stops. `EVERY = 60` has it called each 60 s too,
//! with `ON_EVENTS = False` at no other time. What a script puts into a list or dictionary at its top level stays there for the run.

mod language;
mod trace;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{
    Abilities, About, Backfill, Backlog, Batch, Cadence, Cluster, Config, GpuId, GpuType, Job, JobId, Kind, Knowledge,
    Lines, Node, Param, Placement, Policy, PolicyError, Reason, Setup, Shapes, Sharing, walk,
};

use language::{Key, Script};
use values::{Action, JobView, Moment, NodeView};

/// What it does without a script, as JSON.
const FIFO: &str = "\"def key(job, c):\\n    return job.submitted\\n\"";

/// The policy.
pub struct Scripted {
    script: Script,
    /// The call that is traced.
    traced: Option<u64>,
    /// Whether the experiment tells what is left of jobs.
    told_remaining: bool,
    nodes: Vec<Node>,
    /// Whether several jobs may have a part of a GPU.
    shared: bool,
    backfill: Backfill,
    lines: Lines,
    place: Placement,
    /// Jobs that wait, where their keys are numbers alone.
    backlog: Backlog,
    /// The keys of all jobs that the policy orders itself; none: the script has not been asked yet.
    keys: BTreeMap<JobId, Option<Key>>,
    /// Whether every key so far is a number alone: then the backlog keeps the order.
    plain: bool,
    /// The job behind which the latest call started no other; none: there was no such.
    head: Option<JobId>,
}

impl Policy for Scripted {
    fn about() -> About {
        About {
            name: "script",
            about: "what a script in Starlark says: in which order jobs come, where they go, which make room",
            uses: Abilities::PREEMPT | Placement::follows(),
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "source",
                    kind: Kind::Text,
                    default: FIFO,
                    about: "The script; a policy that is named by the path of one, as in `./mine.star`, has it from there.",
                },
                Param { name: "params", kind: Kind::Any, default: "{}", about: "What the script knows as `params`." },
                Param {
                    name: "trace",
                    kind: Kind::Number { min: -1.0, max: 9e15 },
                    default: "-1",
                    about: "The call, counted from 1, in which it logs at which statement it is; 0: as it is read; -1: none.",
                },
                Backfill::PARAM,
                Backfill::DEPTH,
                Lines::PARAM,
                Placement::PARAM,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let traces = config.number("trace");
        trace::begin(traces == 0.0);
        let script = Script::read(config.text("source"), config.any("params"), traces >= 0.0);
        let script = script.map_err(|why| PolicyError::BadConfig(format!("`source`: {why}")))?;
        let (backfill, lines) = (Backfill::new(config, setup)?, Lines::named(config.choice("lines")));
        let own = script.places || script.makes_room;
        let shared = |kind: &GpuType| !matches!(kind.sharing, Sharing::Exclusive);
        let shared = setup.topology.gpu_types.iter().any(shared);
        if script.places && shared {
            let why = "`place` gives whole GPUs to a job, and here several jobs may have a part of one";
            return Err(PolicyError::Unsupported(why.into()));
        }
        let unused = |name: &str, otherwise: &str| match config.choice(name) == otherwise {
            true => Ok(()),
            false => Err(PolicyError::BadConfig(format!("`{name}`: this script leaves nothing to it"))),
        };
        if script.preempts || script.decides() {
            unused("backfill", "skip")?;
            unused("lines", "one")?;
        }
        if script.places {
            unused("placement", "packed")?;
            unused("lines", "one")?;
        }
        if own && !matches!(backfill, Backfill::None | Backfill::Skip) {
            let why = "`backfill`: expected \"none\" or \"skip\" where the script has `place` or `preempt`";
            return Err(PolicyError::BadConfig(why.into()));
        }
        let told_remaining = script.asks.remaining && setup.knowledge.contains(Knowledge::REMAINING);
        Ok(Scripted {
            plain: !(script.preempts || script.decides() || own),
            script,
            traced: (traces > 0.0).then_some(traces as u64),
            told_remaining,
            nodes: setup.topology.nodes.clone(),
            shared,
            backfill,
            lines,
            place: Placement::named(config.choice("placement")),
            backlog: Backlog::new(lines),
            keys: BTreeMap::new(),
            head: None,
        })
    }

    fn cadence(&self) -> Cadence {
        let (round, on_events) = (self.script.every, self.script.on_events);
        match self.script.preempts || self.script.decides() {
            true => Cadence { round, on_events, ..Cadence::EVENTS },
            false => Cadence { round, on_events, ..Cadence::WHILE_WAITING },
        }
    }

    fn uses(&self) -> Abilities {
        let preempts = self.script.preempts || self.script.makes_room || self.script.decides();
        if preempts { Abilities::PREEMPT | Placement::follows() } else { Placement::follows() }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.head = None;
        trace::begin(self.traced == Some(batch.seq));
        if self.script.decides() {
            return self.decide_by_script(cluster);
        }
        let queued = batch.events.iter().flat_map(|event| cluster.queued_by(event));
        let queued: Vec<JobId> = queued.map(|job| job.id).collect();
        // Whatever it was asked of them before: they are not in the backlog.
        self.keys.extend(queued.iter().map(|id| (*id, None)));
        match (self.script.reorders(), self.script.preempts) {
            (true, true) => {
                let live: Vec<JobId> = cluster.jobs().map(|job| job.id).collect();
                self.enter(&live, cluster)?;
            }
            (true, false) => {
                let waiting = self.waiting(cluster);
                self.enter(&waiting, cluster)?;
            }
            (false, _) => self.enter(&queued, cluster)?,
        }
        if self.plain {
            self.backlog.start(cluster, self.place, self.backfill);
            // Keys of jobs that wait no more are of no use, and there may be millions of them.
            if self.keys.len() > 1000 + 2 * cluster.queued().0 {
                self.keys.retain(|id, _| cluster.get(*id).is_some_and(Job::waits));
            }
            return Ok(());
        }
        self.keys.retain(|id, _| cluster.get(*id).is_some());
        let order: BTreeSet<(Option<Key>, JobId)> = self.keys.iter().map(|(id, key)| (*key, *id)).collect();
        if self.script.preempts {
            walk(cluster, order.into_iter().map(|(_, id)| id), self.place);
            return Ok(());
        }
        let order: Vec<JobId> = order.into_iter().map(|(_, id)| id).filter(|id| cluster.job(*id).waits()).collect();
        match self.script.places || self.script.makes_room {
            true => self.start_by_script(order, cluster),
            false => {
                let mut backlog = Backlog::new(self.lines);
                order.iter().zip(0..).for_each(|(id, rank)| backlog.push(cluster.job(*id), rank));
                backlog.start(cluster, self.place, self.backfill);
                self.backlog = backlog;
                Ok(())
            }
        }
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        match self.head {
            Some(head) if head != job.id => Reason::Behind(head),
            Some(_) => cluster.why(job),
            None => self.backlog.why(job, cluster, self.backfill),
        }
    }
}

/// The free GPUs of a node.
fn free_on(node: &Node, cluster: &Cluster) -> Vec<GpuId> {
    (node.first_gpu..node.first_gpu + node.gpus).filter(|gpu| cluster.is_free(*gpu)).collect()
}

fn failed(what: &str) -> impl Fn(String) -> PolicyError {
    move |why| PolicyError::Internal(format!("{what}: {why}"))
}

/// Jobs as a script sees them.
fn views(told_remaining: bool, script: &Script, jobs: &[JobId], cluster: &Cluster) -> impl Iterator<Item = JobView> {
    let left = if told_remaining { cluster.remaining(jobs) } else { Vec::new() };
    let left = left.into_iter().chain(std::iter::repeat(f64::NAN));
    let (now, asks) = (cluster.now(), script.asks);
    jobs.iter().zip(left).map(move |(id, left)| JobView::of(cluster.job(*id), left, now, asks))
}

impl Scripted {
    /// Asks the script where jobs stand.
    fn enter(&mut self, jobs: &[JobId], cluster: &Cluster) -> Result<(), PolicyError> {
        let name = if self.script.reorders() { "`order`" } else { "`key`" };
        let Scripted { script, keys, backlog, plain, told_remaining, .. } = self;
        let views = views(*told_remaining, script, jobs, cluster);
        let stands = |id: JobId, key: Key, is_plain: bool| {
            // From the first key on that is more than a number the order is made anew at each call.
            *plain &= is_plain;
            let before = keys.insert(id, Some(key)).flatten();
            if *plain && before != Some(key) {
                let job = cluster.job(id);
                before.into_iter().for_each(|before| backlog.remove(job, before[0]));
                backlog.push(job, key[0]);
            }
        };
        script.keys(views, Moment::of(cluster), stands).map_err(failed(name))
    }

    fn waiting(&mut self, cluster: &Cluster) -> Vec<JobId> {
        self.keys.retain(|id, _| cluster.get(*id).is_some_and(Job::waits));
        self.keys.keys().copied().collect()
    }

    fn views(&self, jobs: &[JobId], cluster: &Cluster) -> Vec<JobView> {
        views(self.told_remaining, &self.script, jobs, cluster).collect()
    }

    /// Starts jobs in their order where the script says, or makes room for the first that finds none.
    fn start_by_script(&mut self, order: Vec<JobId>, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let mut shapes = Shapes::default();
        let mut asked = !self.script.makes_room;
        // Those that were started before stay until the next call.
        let may_go = cluster.holders().filter(|job| !cluster.stays(job)).map(|job| job.id).collect::<Vec<JobId>>();
        for id in order {
            let mut found = self.find(id, &mut shapes, cluster)?;
            if found.is_none() && !std::mem::replace(&mut asked, true) {
                self.make_room(id, &may_go, cluster)?;
                shapes = Shapes::default();
                found = self.find(id, &mut shapes, cluster)?;
            }
            match found {
                Some(gpus) => cluster.start(id, gpus),
                None if self.backfill == Backfill::None => {
                    self.head = Some(id);
                    break;
                }
                None => {}
            }
        }
        Ok(())
    }

    fn find(&self, id: JobId, shapes: &mut Shapes, cluster: &Cluster) -> Result<Option<Vec<GpuId>>, PolicyError> {
        if !self.script.places {
            return Ok(shapes.place(self.place, cluster, cluster.job(id)));
        }
        let own = self.views(&[id], cluster).remove(0);
        let nodes = self.nodes_for(Some(cluster.job(id)), cluster);
        let of_job = |why: String| format!("of job {id}: {why}");
        let found = self.script.place(own, nodes, Moment::of(cluster)).map_err(of_job).map_err(failed("`place`"))?;
        match found {
            None => Ok(None),
            Some(found) => self.gpus_on(id, &found, cluster).map(Some).map_err(failed("`place`")),
        }
    }

    /// Nodes that are up, and of a type that a job may have, if it is for one.
    fn nodes_for(&self, job: Option<&Job>, cluster: &Cluster) -> Vec<NodeView> {
        let may = |node: &&Node| cluster.is_up(node.id) && job.is_none_or(|job| job.gpu_types.contains(&node.gpu_type));
        let view = |node: &Node| {
            let free = free_on(node, cluster).len() as u32;
            NodeView { id: node.id, kind: node.gpu_type, gpus: node.gpus, free, left: cluster.host_left(node.id) }
        };
        self.nodes.iter().filter(may).map(view).collect()
    }

    /// The GPUs of a job on these nodes, of which one is named for each.
    fn gpus_on(&self, id: JobId, nodes: &[u32], cluster: &Cluster) -> Result<Vec<GpuId>, String> {
        let job = cluster.job(id);
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        nodes.iter().for_each(|node| *counts.entry(*node).or_default() += 1);
        let mut gpus = Vec::new();
        for (node, count) in counts {
            let known = self.nodes.iter().find(|known| known.id == node).filter(|node| cluster.is_up(node.id));
            if known.is_some_and(|node| !job.gpu_types.contains(&node.gpu_type)) {
                return Err(format!("node {node} has GPUs of a type that job {id} may not have"));
            }
            let free = known.map(|node| free_on(node, cluster)).unwrap_or_default();
            if free.len() < count {
                return Err(format!("{count} GPUs of node {node}, which has {} free for job {id}", free.len()));
            }
            gpus.extend(free.into_iter().take(count));
        }
        match gpus.len() == job.gpus as usize {
            true => Ok(gpus),
            false => Err(format!("{} GPUs for job {id}, which asks for {}", gpus.len(), job.gpus)),
        }
    }

    /// Carries out what the script says, in its order.
    fn decide_by_script(&mut self, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let waiting: Vec<JobId> = cluster.jobs().filter(|job| job.waits()).map(|job| job.id).collect();
        let running: Vec<JobId> = cluster.holders().filter(|job| !cluster.stays(job)).map(|job| job.id).collect();
        let (mut may_start, mut may_stop): (BTreeSet<JobId>, BTreeSet<JobId>) =
            (waiting.iter().copied().collect(), running.iter().copied().collect());
        let mut stopped = BTreeSet::new();
        let (waiting, running) = (self.views(&waiting, cluster), self.views(&running, cluster));
        let nodes = self.nodes_for(None, cluster);
        let wrong = failed("`decide`");
        let actions = self.script.actions(waiting, running, nodes, Moment::of(cluster)).map_err(&wrong)?;
        for action in actions {
            match action {
                Action::Stop(id) if may_stop.remove(&id) => {
                    cluster.preempt(id);
                    stopped.insert(id);
                }
                Action::Stop(id) => return Err(wrong(format!("stop: job {id} holds no GPUs that could be taken"))),
                Action::Start(id, _) if stopped.contains(&id) => {
                    return Err(wrong(format!(
                        "start: job {id} is stopped by this answer, and waits from the next call on"
                    )));
                }
                Action::Start(id, _) if !may_start.remove(&id) => {
                    return Err(wrong(format!("start: job {id} does not wait")));
                }
                Action::Start(_, Some(_)) if self.shared => {
                    let why =
                        "start on nodes gives whole GPUs, and here several jobs may have a part of one: start(job)";
                    return Err(wrong(why.into()));
                }
                Action::Start(id, Some(nodes)) => {
                    let gpus = self.gpus_on(id, &nodes, cluster).map_err(&wrong)?;
                    cluster.start(id, gpus);
                }
                Action::Start(id, None) => {
                    let job = cluster.job(id);
                    // Without a place it waits on.
                    if let Some(gpus) = self.place.find_any(cluster, &job.gpu_types, job.ask()) {
                        cluster.start(id, gpus);
                    }
                }
            }
        }
        Ok(())
    }

    /// Preempts the jobs that the script names for one that finds no place.
    fn make_room(&mut self, id: JobId, may_go: &[JobId], cluster: &mut Cluster) -> Result<(), PolicyError> {
        let running = self.views(may_go, cluster);
        let own = self.views(&[id], cluster).remove(0);
        let named = self.script.victims(own, running, Moment::of(cluster)).map_err(failed("`preempt`"))?;
        for victim in named.into_iter().collect::<BTreeSet<JobId>>() {
            if !may_go.contains(&victim) {
                return Err(failed("`preempt`")(format!("job {victim} holds no GPUs that could be taken")));
            }
            cluster.preempt(victim);
        }
        Ok(())
    }
}

sandtable_policy::export!(Scripted);

#[cfg(test)]
mod tests;
