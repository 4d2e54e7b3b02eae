//! Tiresias (Gu et al., NSDI 2019), two queues of discretised attained service, on elastic work: jobs get the GPUs and
//! the batch that their users asked for, or nothing. `las` is for work that is not elastic.
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), tiresias.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use std::collections::BTreeMap;

use sandtable_elastic::place::Pack;
use sandtable_elastic::{ElasticScheduler, RULES, Round, Rules, joined};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Event, Job, JobId, Kind, Knowledge, NodeId, Param, Policy,
    PolicyError, Setup,
};

/// The policy.
pub struct Tiresias {
    scheduler: ElasticScheduler,
    queues: Queues,
}

impl Policy for Tiresias {
    fn about() -> About {
        const PARAMS: [Param; 10] = joined(
            RULES,
            [Param {
                name: "limit",
                kind: Kind::Number { min: 1.0, max: 1e12 },
                default: "57600",
                about: "Service at which a job leaves the first queue, GPU-s.",
            }],
        );
        About {
            name: "tiresias",
            about: "two queues by attained service, as many GPUs as asked for or none (Tiresias, NSDI 2019; as in Pollux' artifact)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::ELASTIC | Abilities::PROTECT,
            needs: Knowledge::empty(),
            params: &PARAMS,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        Ok(Tiresias {
            scheduler: ElasticScheduler::new(Rules::new(config), setup, false)?,
            queues: Queues { limit: config.micros("limit"), compat: config.flag("compat"), ..Queues::default() },
        })
    }

    fn cadence(&self) -> Cadence {
        self.scheduler.cadence()
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let reach = self.scheduler.reach();
        for event in &batch.events {
            let Event::JobArrived(arrival) = event else { continue };
            // One that has ended since came for nothing.
            let Some(Job { id, gpus, .. }) = cluster.get(arrival.job) else { continue };
            if *gpus > reach {
                let why = format!("job {id} asks for {gpus} GPUs, training may have {reach}: it would wait for ever");
                return Err(PolicyError::Unsupported(why));
            }
        }
        let queues = &mut self.queues;
        self.scheduler.decide(batch, cluster, |round| queues.allocate(round))
    }
}

/// Jobs by service, in the order in which they entered.
#[derive(Default)]
struct Queues {
    first: Vec<JobId>,
    second: Vec<JobId>,
    /// GPU-µs.
    limit: u64,
    /// As DeepBoot's simulator.
    compat: bool,
    /// µs for which the last round let jobs run, as there: whatever they held since.
    executed: BTreeMap<JobId, u64>,
    /// The jobs that the last round let run, and when it was.
    running: (Vec<JobId>, u64),
}

impl Queues {
    fn allocate(&mut self, round: &mut Round<'_>) -> Vec<Vec<NodeId>> {
        let at = |id: &JobId, round: &Round<'_>| round.jobs.iter().position(|job| job.id == *id);
        self.first.retain(|id| at(id, round).is_some());
        self.second.retain(|id| at(id, round).is_some());
        for job in round.jobs.iter() {
            if !self.first.contains(&job.id) && !self.second.contains(&job.id) {
                self.first.push(job.id);
            }
        }
        let (running, since) = std::mem::replace(&mut self.running, (Vec::new(), round.now));
        self.executed.retain(|id, _| at(id, round).is_some());
        for id in running.into_iter().filter(|id| at(id, round).is_some()) {
            *self.executed.entry(id).or_default() += round.now - since;
        }
        let service = |job: usize| match self.compat {
            true => {
                let job = &round.jobs[job];
                self.executed.get(&job.id).map_or(0, |time| time * u64::from(job.gpus))
            }
            false => round.attained[job],
        };
        // Of those that leave together the first in the order of submission is in front.
        let over: Vec<JobId> =
            (0..round.jobs.len()).filter(|job| service(*job) >= self.limit).map(|job| round.jobs[job].id).collect();
        for id in over {
            if let Some(place) = self.first.iter().position(|other| *other == id) {
                self.first.remove(place);
                self.second.push(id);
            }
        }
        let mut left: u32 = round.free.iter().sum();
        if self.compat {
            // Tasks that wait count as if they had their GPUs.
            left = left.saturating_sub(round.waiting);
        }
        let mut counts = vec![0; round.jobs.len()];
        let mut order = Vec::new();
        for id in self.first.iter().chain(&self.second) {
            let Some(job) = at(id, round) else { continue };
            let asked = round.jobs[job].gpus;
            order.push(job);
            // No job blocks those behind it.
            if asked <= left {
                left -= asked;
                let held = round.jobs[job].list.as_ref().map_or(0, Vec::len) as u32;
                // In the simulator, a job that has lost some of its GPUs to tasks continues on the others.
                counts[job] = if self.compat && held > 0 { held } else { asked };
                self.running.0.push(*id);
            }
        }
        round.place_in(&order, &counts, Pack::MostFree)
    }
}

sandtable_policy::export!(Tiresias);
