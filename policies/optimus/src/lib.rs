//! Optimus (Peng et al., EuroSys 2018) on rings, as Pollux' artifact has it: every job gets a GPU, then one at a time
//! the job that gains the most time from it.
//
// Follows AdaptDL's simulator (github.com/petuum/adaptdl, branch osdi21-artifact, simulator/), optimus.py, which is
// Copyright 2020 Petuum, Inc. All Rights Reserved. Licensed under the Apache License, Version 2.0 (LICENSE-APACHE).
// Changed: written anew in Rust; see THIRD-PARTY.md.

use sandtable_elastic::pace::{Pace, paces};
use sandtable_elastic::place::Pack;
use sandtable_elastic::{ElasticScheduler, RULES, Round, Rules};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Knowledge, NodeId, Policy, PolicyError, Setup,
};

/// The policy.
pub struct Optimus {
    scheduler: ElasticScheduler,
}

impl Policy for Optimus {
    fn about() -> About {
        About {
            name: "optimus",
            about: "one GPU each, then to the job that gains the most time (Optimus, EuroSys 2018; as in Pollux' artifact)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::ELASTIC | Abilities::PROTECT,
            needs: Knowledge::STEPS,
            params: &RULES,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        Ok(Optimus { scheduler: ElasticScheduler::new(Rules::new(config), setup, false)? })
    }

    fn cadence(&self) -> Cadence {
        self.scheduler.cadence()
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.scheduler.decide(batch, cluster, allocate)
    }
}

fn allocate(round: &mut Round<'_>) -> Vec<Vec<NodeId>> {
    let gpus: u32 = round.free.iter().sum();
    if !round.compat {
        let counts = counts(&paces(round), gpus);
        return round.place(&counts, Pack::MostFree);
    }
    if round.jobs.is_empty() {
        return Vec::new();
    }
    // DeepBoot's gives tasks that wait their GPUs here, not between two rounds.
    let counts = counts(&paces(round), gpus.saturating_sub(round.waiting));
    round.place_with_tasks(&counts, Pack::MostFree)
}

/// GPUs of each job out of so many, in the order of their submission.
fn counts(paces: &[Pace], mut gpus: u32) -> Vec<u32> {
    let mut counts = vec![0; paces.len()];
    for count in &mut counts {
        if gpus > 0 {
            *count = 1;
            gpus -= 1;
        }
    }
    let gain = |job: usize, count: u32| {
        let pace = &paces[job];
        if count == 0 || count >= pace.most() { 0.0 } else { (pace.step(count) - pace.step(count + 1)) * pace.left }
    };
    let mut gains: Vec<f64> = (0..counts.len()).map(|job| gain(job, counts[job])).collect();
    while gpus > 0 {
        // The first of the greatest.
        let best = (0..gains.len()).fold(None, |best: Option<usize>, job| match best {
            Some(other) if gains[job] <= gains[other] => best,
            _ => Some(job),
        });
        let Some(job) = best.filter(|job| gains[*job] > 0.0) else { break };
        counts[job] += 1;
        gains[job] = gain(job, counts[job]);
        gpus -= 1;
    }
    counts
}

sandtable_policy::export!(Optimus);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_gains_most_gets_the_next() {
        let pace = |left: f64, steps: &[f64]| Pace { left, steps: steps.to_vec() };
        // Gains: 100, 40, 10 s and 60, 30, 20 s.
        let paces = [pace(10.0, &[20.0, 10.0, 6.0, 5.0]), pace(10.0, &[12.0, 6.0, 3.0, 1.0])];
        assert_eq!(counts(&paces, 1), [1, 0]);
        assert_eq!(counts(&paces, 3), [2, 1]);
        assert_eq!(counts(&paces, 5), [3, 2]);
        assert_eq!(counts(&paces, 6), [3, 3]);
        // GPUs that no job gains from stay idle.
        assert_eq!(counts(&[pace(1.0, &[1.0, 2.0])], 4), [1]);
    }
}
