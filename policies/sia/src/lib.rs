//! Sia: each minute an integer program over goodput says how many GPUs of which type each elastic job has (Jayaram Subramanya et al., SOSP 2023;
//! the program, the sizes and the restart factor are those of its artifact's simulator).
//!
//! A job may have 1, 2, 4, … GPUs of a node or whole nodes of one type, at most twice as many as it has shown; one that may not be preempted has as many as it asks for. Its goodputs are over the least of them;
//! what costs a restart counts for less the more of a job's life restarts have taken. What is ours: what a job takes alone on one GPU of each type is
//! what the bound predictor says, where Sia measures it first; a job that stays keeps its GPUs, the others go to the fullest node that holds them, and where
//! that splits a gang all that may be moved are placed anew, the largest first; ties go to the present size, then to the fewest GPUs.

mod choose;
mod known;

use sandtable_elastic::FreeGpus;
use sandtable_elastic::place::{Pack, nodes_of, take};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, GpuId, GpuTypeId, Job, JobId, JobPhase, Kind, Knowledge,
    NodeId, Param, Policy, PolicyError, Setup, Trigger, host,
};

use choose::{Choice, choose, costs};
use known::{Known, Size};

/// The policy.
pub struct Sia {
    round: u64,
    /// The power of values.
    power: f64,
    /// What it costs to have nothing, in hundredths.
    without: u32,
    /// Seconds that a restart is taken to cost.
    penalty: f64,
    /// Whether times alone on each type are asked for.
    foretold: bool,
    types: usize,
    /// By id.
    jobs: Vec<Known>,
}

impl Policy for Sia {
    fn about() -> About {
        About {
            name: "sia",
            about: "size and GPU type of elastic jobs by an integer program over goodput (Sia, SOSP 2023; times alone are the predictor's, placement is ours)",
            uses: Abilities::PREEMPT | Abilities::ELASTIC,
            needs: Knowledge::STEPS,
            params: &[
                Param {
                    name: "round",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "60",
                    about: "Seconds between two decisions.",
                },
                Param {
                    name: "power",
                    kind: Kind::Number { min: -10.0, max: -0.01 },
                    default: "-0.5",
                    about: "The power to which a size's value is raised, to make its cost: the lower, the more counts who has little.",
                },
                Param {
                    name: "without",
                    kind: Kind::Number { min: 1.0, max: 1000.0 },
                    default: "1.1",
                    about: "What it costs to have no GPUs; the least size costs 1.",
                },
                Param {
                    name: "penalty",
                    kind: Kind::Number { min: 0.0, max: 1e6 },
                    default: "30",
                    about: "Seconds that a restart is taken to cost.",
                },
                Param {
                    name: "bootstrap",
                    kind: Kind::Choice(&["foretold", "none"]),
                    default: "\"foretold\"",
                    about: "What is known of a job on a type that it has not been on: by what a step takes it alone on one GPU of each; or that it may have one, which is worth the least of all, as in the artifact.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        if !setup.services.is_empty() {
            return Err(PolicyError::Unsupported("there are inference tasks, which it does not serve".into()));
        }
        Ok(Sia {
            round: config.micros("round"),
            power: config.number("power"),
            without: (config.number("without") * 100.0).round() as u32,
            penalty: config.number("penalty"),
            foretold: config.choice("bootstrap") == "foretold",
            types: setup.topology.gpu_types.len(),
            jobs: Vec::new(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), on_events: false, ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.take_in(batch, cluster)?;
        if batch.trigger == Trigger::Round || batch.trigger == Trigger::Resync {
            let sizes = self.sizes(cluster);
            let lists = self.places(cluster, &sizes);
            self.enact(cluster, &sizes, &lists);
            self.tune(cluster);
        }
        Ok(())
    }
}

/// What a job has from now on; none: it is left as it is.
type Want = Option<Option<Size>>;

impl Sia {
    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) -> Result<(), PolicyError> {
        let mut new: Vec<JobId> = Vec::new();
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => {
                    let Some(job) = cluster.get(arrival.job) else { continue };
                    let Some(elastic) = job.elastic else {
                        let why = format!("job {} is not elastic: this policy is for jobs that have a batch", job.id);
                        return Err(PolicyError::Unsupported(why));
                    };
                    let mut known = Known::new(job, elastic, self.types);
                    if job.holds() {
                        known.size = Some(Size { gpu_type: cluster.type_of(job), gpus: job.held.len() as u32 });
                        known.list = nodes(cluster, &job.held);
                        known.restarts = Some(0);
                    }
                    self.jobs.push(known);
                    new.push(job.id);
                }
                Event::JobEnded(end) => self.jobs.retain(|job| job.id != end.job),
                Event::JobChanged(change) if change.phase == JobPhase::Queued => {
                    if let Some(job) = self.jobs.iter_mut().find(|job| job.id == change.job) {
                        (job.size, job.split) = (None, None);
                        job.list.clear();
                    }
                }
                _ => {}
            }
        }
        self.ask(&new);
        for sample in cluster.samples() {
            if let Some(job) = self.jobs.iter_mut().find(|job| job.id == sample.job) {
                job.report(sample);
            }
        }
        Ok(())
    }

    /// Asks what a step takes new jobs alone on a GPU of each type.
    fn ask(&mut self, new: &[JobId]) {
        if !self.foretold || new.is_empty() {
            return;
        }
        let types = 0..self.types as GpuTypeId;
        let (ids, kinds): (Vec<JobId>, Vec<GpuTypeId>) =
            new.iter().flat_map(|id| types.clone().map(move |gpu_type| (*id, gpu_type))).unzip();
        let ones = vec![1; ids.len()];
        for ((id, gpu_type), seconds) in
            ids.clone().into_iter().zip(kinds.clone()).zip(host::step_times(ids, kinds, ones))
        {
            if let Some(job) = self.jobs.iter_mut().find(|job| job.id == id) {
                job.alone[gpu_type as usize] = seconds;
            }
        }
    }

    /// What each job has from now on.
    fn sizes(&mut self, cluster: &Cluster) -> Vec<Want> {
        let mut capacity: Vec<u32> = (0..self.types as GpuTypeId).map(|gpu_type| cluster.up_gpus(gpu_type)).collect();
        let moves: Vec<bool> = self.jobs.iter().map(|job| may_move(cluster, job.id)).collect();
        for job in cluster.holders().filter(|job| !may_move(cluster, job.id)) {
            let there = &mut capacity[cluster.type_of(job) as usize];
            *there = there.saturating_sub(cluster.gpus_on_up(job));
        }
        let mut of: Vec<usize> = Vec::new();
        let mut sizes: Vec<Vec<Size>> = Vec::new();
        let mut choices: Vec<Vec<Choice>> = Vec::new();
        for at in (0..self.jobs.len()).filter(|at| moves[*at]) {
            let (size, choice) = self.choices(at, cluster, &capacity);
            of.push(at);
            sizes.push(size);
            choices.push(choice);
        }
        let mut wants: Vec<Want> = vec![None; self.jobs.len()];
        for (index, chosen) in choose(&choices, &capacity, self.without).into_iter().enumerate() {
            wants[of[index]] = Some(chosen.map(|chosen| sizes[index][chosen]));
        }
        wants
    }

    /// The sizes that a job may have, with what they cost: its present one first, then from the fewest GPUs on.
    fn choices(&mut self, at: usize, cluster: &Cluster, capacity: &[u32]) -> (Vec<Size>, Vec<Choice>) {
        let (foretold, now) = (self.foretold, cluster.now());
        let known = &mut self.jobs[at];
        let job = cluster.job(known.id);
        let mut values: Vec<(Size, Option<f64>)> = Vec::new();
        for gpu_type in job.gpu_types.iter().copied() {
            if known.is_nowhere(gpu_type, foretold) {
                continue;
            }
            let node = cluster.largest_node(&[gpu_type]).max(1);
            let most = capacity[gpu_type as usize].min(known.reach(gpu_type, foretold).max(1));
            let sizes: Vec<u32> = match job.preemptible {
                true => gang_sizes(node, most).collect(),
                // It keeps what it starts with.
                false => vec![job.gpus; usize::from(job.gpus <= capacity[gpu_type as usize])],
            };
            for gpus in sizes {
                let size = Size { gpu_type, gpus };
                let value = known.goodput(size, gpus.div_ceil(node), foretold);
                if value.is_some() || gpus == 1 || !job.preemptible {
                    values.push((size, value));
                }
            }
        }
        // A size that another policy gave it, and that it has not reported from.
        if let Some(size) = known.size.filter(|size| size.gpus <= capacity[size.gpu_type as usize])
            && !values.iter().any(|(other, _)| *other == size)
        {
            let node = cluster.largest_node(&[size.gpu_type]).max(1);
            values.push((size, known.goodput(size, size.gpus.div_ceil(node), foretold)));
        }
        if !values.iter().any(|(_, value)| value.is_some_and(|value| value > 0.0)) {
            // Of what is known none is of use: nothing is.
            values.iter_mut().for_each(|(_, value)| *value = None);
        }
        values.sort_by_key(|(size, _)| (known.size != Some(*size), size.gpus, size.gpu_type));
        let factor = if known.size.is_some() { known.restart_factor(now, self.penalty) } else { 1.0 };
        let goodputs: Vec<(Option<f64>, bool)> =
            values.iter().map(|(size, value)| (*value, known.size == Some(*size))).collect();
        let costs = costs(&goodputs, factor, self.power);
        let found: Vec<(Size, u32)> = values.iter().map(|(size, _)| *size).zip(costs).collect();
        let choice = |(size, cost): &(Size, u32)| Choice { kind: size.gpu_type as usize, gpus: size.gpus, cost: *cost };
        (found.iter().map(|(size, _)| *size).collect(), found.iter().map(choice).collect())
    }

    /// The nodes of each job's GPUs, ascending.
    fn places(&self, cluster: &Cluster, wants: &[Want]) -> Vec<Vec<NodeId>> {
        let mut lists: Vec<Vec<NodeId>> = vec![Vec::new(); self.jobs.len()];
        for gpu_type in 0..self.types as GpuTypeId {
            let of = |node: NodeId| {
                if cluster.node_type(node) == gpu_type { cluster.node_gpus(node).len() as u32 } else { 0 }
            };
            let mut free: Vec<u32> = (0..cluster.node_count() as NodeId).map(of).collect();
            for job in cluster.holders().filter(|job| !may_move(cluster, job.id)) {
                for gpu in &job.held {
                    let left = &mut free[cluster.node(*gpu) as usize];
                    *left = left.saturating_sub(1);
                }
            }
            let here = |at: &usize| matches!(wants[*at], Some(Some(size)) if size.gpu_type == gpu_type);
            let (stay, mut come): (Vec<usize>, Vec<usize>) =
                (0..self.jobs.len()).filter(here).partition(|at| wants[*at] == Some(self.jobs[*at].size));
            let gpus = |at: usize| wants[at].flatten().map_or(0, |size| size.gpus);
            come.sort_by_key(|at| (std::cmp::Reverse(gpus(*at)), self.jobs[*at].id));
            let node = cluster.largest_node(&[gpu_type]).max(1);
            let mut kept = free.clone();
            for at in &stay {
                lists[*at].clone_from(&self.jobs[*at].list);
                self.jobs[*at]
                    .list
                    .iter()
                    .for_each(|node| kept[*node as usize] = kept[*node as usize].saturating_sub(1));
            }
            let mut is_split = false;
            for at in &come {
                lists[*at] = take(&mut kept, gpus(*at), Pack::BestFit);
                is_split |= nodes_of(&lists[*at]) > gpus(*at).div_ceil(node);
            }
            if is_split {
                // Those that stay stand in the way: all find their places anew.
                let mut all: Vec<usize> = stay.into_iter().chain(come).collect();
                all.sort_by_key(|at| (std::cmp::Reverse(gpus(*at)), self.jobs[*at].id));
                for at in all {
                    lists[at] = take(&mut free, gpus(at), Pack::BestFit);
                }
            }
        }
        lists.iter_mut().for_each(|list| list.sort_unstable());
        lists
    }

    /// First what is released, then all moves at once, then starts.
    fn enact(&mut self, cluster: &mut Cluster, wants: &[Want], lists: &[Vec<NodeId>]) {
        let gpus_of = self.gpus(cluster, wants, lists);
        let (mut moves, mut starts) = (Vec::new(), Vec::new());
        for (at, gpus) in gpus_of {
            let job = &mut self.jobs[at];
            job.size = wants[at].flatten();
            job.list.clone_from(&lists[at]);
            let Some(size) = job.size else {
                cluster.preempt(job.id);
                job.split = None;
                continue;
            };
            job.restarts = Some(job.restarts.map_or(0, |restarts| restarts + 1));
            job.split = job.best_split(size.gpu_type, &lists[at]);
            let entry = (job.id, gpus, job.split.map(Into::into));
            if cluster.job(job.id).holds() { moves.push(entry) } else { starts.push(entry) }
        }
        cluster.reassign(moves);
        for (id, gpus, split) in starts {
            cluster.start_with(id, gpus, split);
        }
    }

    /// The GPUs of the jobs that change, by job: on nodes that it stays on, those that it has.
    fn gpus(&self, cluster: &Cluster, wants: &[Want], lists: &[Vec<NodeId>]) -> Vec<(usize, Vec<GpuId>)> {
        let changes = |at: &usize| {
            let (job, is_due) = (cluster.job(self.jobs[*at].id), wants[*at].is_some());
            is_due && (job.holds() || !lists[*at].is_empty()) && !(job.holds() && self.jobs[*at].list == lists[*at])
        };
        let due: Vec<usize> = (0..self.jobs.len()).filter(changes).collect();
        let is_due = |id: JobId| due.iter().any(|at| self.jobs[*at].id == id);
        let all = (0..cluster.node_count() as NodeId).map(|node| cluster.node_gpus(node).end).max();
        let mut free = FreeGpus::new(all.unwrap_or(0), Vec::new());
        for job in cluster.holders().filter(|job| !is_due(job.id)) {
            job.held.iter().for_each(|gpu| free.mark(*gpu));
        }
        let keep = |at: &usize| free.keep(cluster, cluster.job(self.jobs[*at].id).held.clone(), &lists[*at]);
        let kept: Vec<Vec<Option<GpuId>>> = due.iter().map(keep).collect();
        let mut fill = |(at, kept): (usize, Vec<Option<GpuId>>)| {
            let nodes = kept.into_iter().zip(&lists[at]);
            (at, nodes.filter_map(|(gpu, node)| gpu.or_else(|| free.take(cluster.node_gpus(*node)))).collect())
        };
        due.into_iter().zip(kept).map(&mut fill).collect()
    }

    /// Sets the best batch of jobs that stay where it has changed.
    fn tune(&mut self, cluster: &mut Cluster) {
        for job in &mut self.jobs {
            let Some(size) = job.size else { continue };
            let list = job.list.clone();
            let holds = cluster.get(job.id).is_some_and(Job::holds);
            if let Some(split) = job.best_split(size.gpu_type, &list).filter(|split| holds && Some(*split) != job.split)
            {
                job.split = Some(split);
                cluster.set_batch(job.id, split.into());
            }
        }
    }
}

/// Whether the program decides about a job: it waits, or it runs and may be preempted.
fn may_move(cluster: &Cluster, id: JobId) -> bool {
    cluster.get(id).is_some_and(|job| job.waits() || job.may_be_moved())
}

fn nodes(cluster: &Cluster, gpus: &[GpuId]) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = gpus.iter().map(|gpu| cluster.node(*gpu)).collect();
    nodes.sort_unstable();
    nodes
}

/// 1, 2, 4, … GPUs of a node, then whole nodes.
fn gang_sizes(node: u32, most: u32) -> impl Iterator<Item = u32> {
    let parts = std::iter::successors(Some(1u32), |gpus| gpus.checked_mul(2)).take_while(move |gpus| *gpus < node);
    parts.chain((1..).map(move |nodes| nodes * node)).take_while(move |gpus| *gpus <= most)
}

sandtable_policy::export!(Sia);

#[cfg(test)]
mod tests {
    use super::gang_sizes;

    #[test]
    fn gangs_are_parts_of_a_node_or_whole_nodes() {
        let sizes = |node, most| gang_sizes(node, most).collect::<Vec<_>>();
        assert_eq!(sizes(4, 24), [1, 2, 4, 8, 12, 16, 20, 24]);
        assert_eq!(sizes(8, 16), [1, 2, 4, 8, 16]);
        assert_eq!(sizes(1, 3), [1, 2, 3]);
        assert_eq!(sizes(6, 13), [1, 2, 4, 6, 12]);
        assert!(sizes(4, 0).is_empty());
    }
}
