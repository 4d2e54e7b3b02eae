//! After Lyra (Li et al., EuroSys 2023), whose values of jobs are not public: base demands first, shortest first; what is left by a knapsack over the time that
//! more GPUs save. `aryl` is what DeepBoot's simulator makes of it: its values grow with the time left, so that the
//! longest jobs get all.

use sandtable_elastic::knapsack::{Candidate, deal};
use sandtable_elastic::pace::{Pace, paces};
use sandtable_elastic::place::{Pack, smallest_first};
use sandtable_elastic::{ElasticScheduler, RULES, Round, Rules, joined};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Kind, Knowledge, NodeId, Param, Policy, PolicyError, Setup,
};

/// The policy.
pub struct Lyra {
    scheduler: ElasticScheduler,
    aryl: bool,
}

impl Policy for Lyra {
    fn about() -> About {
        const PARAMS: [Param; 10] = joined(
            RULES,
            [Param {
                name: "variant",
                kind: Kind::Choice(&["lyra", "aryl"]),
                default: "\"lyra\"",
                about: "What more GPUs are worth: the time that they save; or those of DeepBoot's simulator, which grow with the time left.",
            }],
        );
        About {
            name: "lyra-like",
            about: "base demands, then most time saved by a knapsack, after Lyra (Li et al., EuroSys 2023; its own values are not public), or DeepBoot's reading of it",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::ELASTIC | Abilities::PROTECT,
            needs: Knowledge::STEPS,
            params: &PARAMS,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        Ok(Lyra {
            scheduler: ElasticScheduler::new(Rules::new(config), setup, false)?,
            aryl: config.choice("variant") == "aryl",
        })
    }

    fn cadence(&self) -> Cadence {
        self.scheduler.cadence()
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let aryl = self.aryl;
        self.scheduler.decide(batch, cluster, |round| allocate(round, aryl))
    }
}

fn allocate(round: &mut Round<'_>, aryl: bool) -> Vec<Vec<NodeId>> {
    let paces = paces(round);
    let gpus: u32 = round.free.iter().sum();
    let mut order: Vec<usize> = (0..paces.len()).collect();
    order.sort_by(|a, b| paces[*a].remaining(1).total_cmp(&paces[*b].remaining(1)));
    let sorted: Vec<&Pace> = order.iter().map(|job| &paces[*job]).collect();
    let asked: Vec<u32> = order.iter().map(|job| round.jobs[*job].gpus).collect();
    let found = if aryl { by_time_left(&sorted, &asked, gpus) } else { by_time_saved(&sorted, gpus) };
    let mut counts = vec![0; paces.len()];
    for (job, count) in order.iter().zip(found) {
        counts[*job] = count;
    }
    match round.compat {
        // There, of those with as many GPUs the shortest is placed first.
        true => round.place_in(&smallest_first(&order, &counts), &counts, Pack::BestFit),
        false => round.place(&counts, Pack::BestFit),
    }
}

/// One GPU each, the shortest first; the others where they save the most time.
fn by_time_saved(paces: &[&Pace], gpus: u32) -> Vec<u32> {
    let base = (gpus as usize).min(paces.len());
    let saved = |pace: &&Pace| {
        let more = (2..=pace.most()).map(|k| (pace.remaining(1) - pace.remaining(k)).max(0.0));
        Candidate { values: more.collect() }
    };
    let candidates: Vec<Candidate> = paces[..base].iter().map(saved).collect();
    let extra = deal(&candidates, gpus - base as u32);
    let mut counts: Vec<u32> = extra.into_iter().map(|more| more + 1).collect();
    counts.resize(paces.len(), 0);
    counts
}

/// Up to what each asked for; `k` GPUs are worth `k / (k + 1)` of the time left on one.
fn by_time_left(paces: &[&Pace], asked: &[u32], gpus: u32) -> Vec<u32> {
    let value = |(pace, asked): (&&Pace, &u32)| {
        let alone = pace.remaining(1);
        let worth = |k: u32| if *asked == 1 { alone } else { alone * f64::from(k) / f64::from(k + 1) };
        Candidate { values: (1..=(*asked).min(pace.most())).map(worth).collect() }
    };
    deal(&paces.iter().zip(asked).map(value).collect::<Vec<_>>(), gpus)
}

sandtable_policy::export!(Lyra);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_demands_come_first_and_the_rest_where_it_saves_most() {
        let pace = |left: f64, steps: &[f64]| Pace { left, steps: steps.to_vec() };
        let (short, long) = (pace(10.0, &[1.0, 0.9]), pace(100.0, &[1.0, 0.5, 0.4]));
        assert_eq!(by_time_saved(&[&short, &long], 1), [1, 0]);
        assert_eq!(by_time_saved(&[&short, &long], 3), [1, 2]);
        assert_eq!(by_time_saved(&[&short, &long], 5), [2, 3]);
        // DeepBoot's reading: the longest wins every GPU.
        assert_eq!(by_time_left(&[&short, &long], &[2, 3], 3), [0, 3]);
    }
}
