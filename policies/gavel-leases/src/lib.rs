//! Gavel's mechanism of leases (Narayanan et al., OSDI 2020) as its simulator and Shockwave's have it: every job is due a share of the time, and in each round those
//! lease GPUs that have had the least of theirs. GPUs of all types are alike to it.
//!
//! Source: Shockwave's artifact (commit 8a44f4a). With the preset `shockwave` the rounds of its runs under `gandiva-fair` and `allox` are met, job by job and GPU
//! by GPU. Shares by other objectives are not unique, and those published are a solver's: see [`shares`]; given those of its solver (`given`), the published run of max-min fairness is met too.

mod accounts;
mod allox;
mod given;
mod shares;

use sandtable_policy::driver::needed;
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Kind, Knowledge, Param, Policy, PolicyError, Rounds, Setup,
    Trigger,
};

use accounts::{Accounts, Clock};
use shares::Objective;

/// The policy.
pub struct GavelLeases {
    round: u64,
    accounts: Accounts,
    clock: Clock,
    rounds: Rounds,
}

impl Policy for GavelLeases {
    fn about() -> About {
        About {
            name: "gavel-leases",
            about: "shares of time by Gandiva_fair's, AlloX's and other objectives, carried out in leases as in Gavel's and Shockwave's simulators",
            uses: Abilities::PREEMPT | Abilities::TIMERS,
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "objective",
                    kind: Kind::Choice(Objective::WORDS),
                    default: "\"gandiva-fair\"",
                    about: "What shares are the best for; allox, min-total-duration and finish-time-fairness need `remaining`, max-sum-throughput needs `steps`. For given shares are a solver's: `weights` names a file with a list in JSON, an object of shares by the number of the job for each time that they are computed.",
                },
                Param {
                    name: "round",
                    kind: Kind::Number { min: 1.0, max: 1e6 },
                    default: "120",
                    about: "Seconds of a round, where the experiment does not lease GPUs.",
                },
                Param {
                    name: "reset",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "1000",
                    about: "Seconds for which shares hold at least; a job that comes meanwhile has none.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let objective = Objective::named(config.choice("objective"), &setup.weights)?;
        needed(config.choice("objective"), objective.needs(), setup.knowledge)?;
        let round = config.micros("round");
        Ok(GavelLeases {
            round,
            accounts: Accounts::new(objective, config.number("reset"), round as f64 / 2e6),
            clock: Clock::default(),
            rounds: Rounds::default(),
        })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: Some(self.round), ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.accounts.take_in(batch, cluster, &mut self.clock);
        if batch.trigger == Trigger::Round {
            self.clock.begin(cluster.now());
            let chosen = self.accounts.choose(cluster, self.clock.seconds())?;
            self.rounds.begin(cluster, &chosen);
        }
        self.rounds.resume(cluster);
        Ok(())
    }
}

sandtable_policy::export!(GavelLeases);

#[cfg(test)]
mod tests {
    use super::GavelLeases;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn two_jobs_of_one_size_take_turns() {
        let times = completion_times::<GavelLeases>("{}", &[1], &[(0, 1, 600), (0, 1, 600)]);
        assert_eq!(*times.iter().max().expect("two jobs"), 1200);
        assert!(times.iter().all(|time| *time >= 1080), "{times:?}");
    }

    #[test]
    fn under_allox_a_job_runs_to_its_end() {
        // Of two jobs that are as old only one is matched with the GPU.
        let config = "{\"objective\": \"allox\"}";
        let times = completion_times::<GavelLeases>(config, &[1], &[(0, 1, 600), (0, 1, 240)]);
        assert_eq!(times, [600, 840]);
    }

    #[test]
    fn every_objective_ends_every_job_of_gangs_that_come_and_go() {
        let jobs: Vec<(u64, u32, u64)> = (0..40).map(|at| (at * 97, 1 + (at % 3) as u32, 200 + at * 31)).collect();
        for objective in super::Objective::WORDS.iter().filter(|objective| **objective != "given") {
            let config = format!("{{\"objective\": {objective:?}, \"reset\": 120}}");
            let times = completion_times::<GavelLeases>(&config, &[2, 2], &jobs);
            assert!(times.iter().zip(&jobs).all(|(time, job)| *time >= job.2), "{objective}: {times:?}");
        }
    }
}
