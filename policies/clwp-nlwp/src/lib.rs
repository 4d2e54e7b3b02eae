//! CLWP and NLWP: co-location by predicted interference, after Geng et al., Cluster Computing 2020.
//!
//! Stage one (CLWP) takes the node whose residents are the least similar to the job: those contend least. Stage two
//! (NLWP) takes the GPUs of that node that slow the job down the least, neighbours and links together, weighed
//! against the harm to its residents. The paper's abstract and its patent give the two stages and their inputs; the
//! formulas, the weights `alpha`, `beta`, `phi`, the admission `delta` and the patience of the head are ours.

pub mod clwp;
pub mod nlwp;

use std::collections::BTreeMap;

use clwp::Aggregate;
use nlwp::{Gang, Seat, Trade};
use sandtable_policy::{
    Abilities, About, Batch, Cluster, ColocationQueue, Communication, Config, Draws, GpuId, GpuTypeId, Job, JobId,
    Kind, Knowledge, NodeId, PairSpeeds, Param, Place, Policy, PolicyError, Setup, host,
};

/// The policy.
pub struct ClwpNlwp {
    queue: ColocationQueue,
    choice: Chooser,
}

struct Chooser {
    by_similarity: bool,
    by_speed: bool,
    aggregate: Aggregate,
    trade: Trade,
    delta: Option<f64>,
    draws: Draws,
    /// What predictors have said, by what can be told apart of jobs.
    similarities: BTreeMap<(GpuTypeId, u64, u64), f64>,
    speeds: PairSpeeds,
    best: BTreeMap<(NodeId, u64, u32), f64>,
}

/// Assumed where a prediction is unknown: contention is certain, and costs half.
const NO_IDEA_SIMILARITY: f64 = 1.0;
const NO_IDEA_SPEED: f64 = 0.5;

impl Policy for ClwpNlwp {
    fn about() -> About {
        About {
            name: "clwp-nlwp",
            about: "CLWP + NLWP, co-location by predicted interference (Geng et al. 2020; scores, admission and starvation guard are reconstructions)",
            uses: Abilities::SHARE,
            needs: Knowledge::SIMILARITY | Knowledge::PAIR_SPEED | Knowledge::SOLO_PROFILE,
            params: &[
                Param {
                    name: "node",
                    kind: Kind::Choice(&["clwp", "random"]),
                    default: "\"clwp\"",
                    about: "How the node is chosen; random is the ablation NLWP-only.",
                },
                Param {
                    name: "gpus",
                    kind: Kind::Choice(&["nlwp", "random"]),
                    default: "\"nlwp\"",
                    about: "How the GPUs of the node are chosen; random is the ablation CLWP-only.",
                },
                Param {
                    name: "aggregate",
                    kind: Kind::Choice(Aggregate::WORDS),
                    default: "\"load-sum\"",
                    about: "How the similarities of a node's residents become its score.",
                },
                Param {
                    name: "alpha",
                    kind: Kind::Number { min: 0.0, max: 1.0 },
                    default: "0.00002",
                    about: "Seconds of latency of each exchange of gradients.",
                },
                Param {
                    name: "beta",
                    kind: Kind::Number { min: 0.0, max: 100.0 },
                    default: "1",
                    about: "Weight of harm to residents against the job's own slowdown.",
                },
                Param {
                    name: "phi",
                    kind: Kind::Number { min: 0.0, max: 1.0 },
                    default: "0.5",
                    about: "Part of a step's computation that hides communication.",
                },
                Param {
                    name: "admission",
                    kind: Kind::Flag,
                    default: "true",
                    about: "Whether a node refuses a job that would share there and gain less than `delta`.",
                },
                Param {
                    name: "delta",
                    kind: Kind::Number { min: -10.0, max: 1.0 },
                    default: "0",
                    about: "Throughput that sharing must win, in jobs alone.",
                },
                ColocationQueue::MAX_SHARE,
                ColocationQueue::HEAD_PATIENCE,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let (phi, latency, beta) = (config.number("phi"), config.number("alpha"), config.number("beta"));
        Ok(ClwpNlwp {
            queue: ColocationQueue::new(config),
            choice: Chooser {
                by_similarity: config.choice("node") == "clwp",
                by_speed: config.choice("gpus") == "nlwp",
                aggregate: Aggregate::named(config.choice("aggregate")),
                trade: Trade { phi, latency, beta },
                delta: config.flag("admission").then(|| config.number("delta")),
                draws: Draws::new(setup.seed),
                similarities: BTreeMap::new(),
                speeds: PairSpeeds::default(),
                best: BTreeMap::new(),
            },
        })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.queue.take_in(&batch.events, cluster);
        let choice = &mut self.choice;
        self.queue.pass(cluster, |cluster, job, places| choice.place(cluster, cluster.job(job), places));
        Ok(())
    }
}

impl Chooser {
    fn place(&mut self, cluster: &Cluster, job: &Job, places: Vec<Place>) -> Option<(NodeId, Vec<GpuId>)> {
        for place in self.ranked(cluster, job, places) {
            let Some(choice) = self.seats(cluster, job, &place) else { continue };
            let first = cluster.node_gpus(place.node).start;
            let refused = choice.shares && self.delta.is_some_and(|delta| choice.gain < delta);
            if !refused {
                return Some((place.node, choice.gpus.iter().map(|gpu| first + *gpu as GpuId).collect()));
            }
        }
        None
    }

    /// Stage one: ranks the places by score, then by resident tasks, then by index.
    fn ranked(&mut self, cluster: &Cluster, job: &Job, mut places: Vec<Place>) -> Vec<Place> {
        if !self.by_similarity {
            self.draws.shuffle(&mut places);
            return places;
        }
        let mut scored: Vec<(f64, usize, Place)> = Vec::with_capacity(places.len());
        for place in places {
            let (score, tasks) = self.score(cluster, job, place.node);
            scored.push((score, tasks, place));
        }
        // Scores closer than 1e-12 are equal: the sum of a node's residents depends on their order.
        let rounded = |score: f64| (score * 1e12).round();
        scored.sort_by(|a, b| rounded(a.0).total_cmp(&rounded(b.0)).then(a.1.cmp(&b.1)).then(a.2.node.cmp(&b.2.node)));
        scored.into_iter().map(|(_, _, place)| place).collect()
    }

    /// The score of a node, and the tasks that it has.
    fn score(&mut self, cluster: &Cluster, job: &Job, node: NodeId) -> (f64, usize) {
        let mut residents: Vec<(JobId, usize)> = Vec::new();
        for gpu in cluster.node_gpus(node) {
            for other in cluster.residents(gpu) {
                match residents.iter_mut().find(|(known, _)| known == other) {
                    Some((_, tasks)) => *tasks += 1,
                    None => residents.push((*other, 1)),
                }
            }
        }
        let kind = cluster.node_type(node);
        let similar: Vec<(usize, f64)> =
            residents.iter().map(|(id, tasks)| (*tasks, self.similarity(kind, job, cluster.job(*id)))).collect();
        let tasks = residents.iter().map(|(_, tasks)| tasks).sum();
        (self.aggregate.score(&similar, cluster.node_gpus(node).len()), tasks)
    }

    /// Stage two: chooses GPUs of one place.
    fn seats(&mut self, cluster: &Cluster, job: &Job, place: &Place) -> Option<nlwp::Choice> {
        let gpus = cluster.node_gpus(place.node);
        let mut eligible = place.eligible.clone();
        if !self.by_speed {
            self.draws.shuffle(&mut eligible);
            eligible.truncate(job.gpus as usize);
            eligible.sort_unstable();
        }
        let kind = cluster.node_type(place.node);
        let mut seats = Vec::with_capacity(eligible.len());
        for gpu in eligible {
            let residents = cluster.residents(gpu);
            let own = self.speed(cluster, kind, job, residents);
            let mut harm = 0.0;
            for resident in residents {
                harm += 1.0 - self.speed(cluster, kind, cluster.job(*resident), &[job.id]);
            }
            seats.push(Seat { gpu: (gpu - gpus.start) as usize, own, harm, shared: !residents.is_empty() });
        }
        let (links, gang) = (cluster.links(place.node), gang(job, kind));
        let trade = self.trade;
        let known = self.best.entry((place.node, job.likeness(), job.gpus));
        let best = *known.or_insert_with(|| nlwp::best_step(links, gpus.len(), &gang, &trade));
        nlwp::choose(links, gpus.len(), &seats, &gang, &trade, best)
    }

    fn similarity(&mut self, kind: GpuTypeId, a: &Job, b: &Job) -> f64 {
        // It is symmetric.
        let (a_key, b_key) = (a.likeness(), b.likeness());
        let (first, second) = (a_key.min(b_key), a_key.max(b_key));
        *self.similarities.entry((kind, first, second)).or_insert_with(|| {
            let answer = host::similarity(kind, vec![a.id], vec![b.id])[0];
            if answer.is_nan() { NO_IDEA_SIMILARITY } else { answer }
        })
    }

    fn speed(&mut self, cluster: &Cluster, kind: GpuTypeId, job: &Job, residents: &[JobId]) -> f64 {
        let answer = self.speeds.of(cluster, kind, job, residents);
        if answer.is_nan() { NO_IDEA_SPEED } else { answer }
    }
}

/// What of a job counts for NLWP. Without a step time or a gradient, communication costs nothing.
fn gang(job: &Job, kind: GpuTypeId) -> Gang {
    let none = Gang { count: job.gpus as usize, step: 1.0, gradient: 0.0, communication: Communication::Ring };
    let Some(profile) = &job.profile else { return none };
    let step = profile.step_time.get(kind as usize).copied().unwrap_or(f64::NAN);
    let known = |x: f64| x.is_finite() && x > 0.0;
    if !known(step) || !known(profile.gradient_gb) {
        return none;
    }
    Gang { step, gradient: profile.gradient_gb, communication: profile.communication, ..none }
}

sandtable_policy::export!(ClwpNlwp);

#[cfg(test)]
mod tests;
