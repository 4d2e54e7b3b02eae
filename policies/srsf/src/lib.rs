//! SRSF: the job with the least service left (time left times GPUs) comes first; the others are preempted.
//!
//! The order is walked with a quota of all GPUs: a job that does not fit what is left of it is skipped, or preempted
//! where it runs. It acts when something happens; with `tick`, also at the tick at which a running job passes one
//! that was chosen but found no place (Lucid's simulator decides every second).

use sandtable_policy::{
    Abilities, About, Batch, Cluster, Config, Kind, Knowledge, Least, Param, Placement, Policy, PolicyError, Setup,
    ShortestFirst, Ties,
};

/// The policy.
pub struct Srsf(ShortestFirst);

impl Policy for Srsf {
    fn about() -> About {
        About {
            name: "srsf",
            about: "shortest remaining service (time x GPUs) first by the bound estimate, preempts (Tiresias' shortest-gpu)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Placement::follows(),
            needs: Knowledge::REMAINING,
            params: &[
                Placement::PARAM,
                Param {
                    name: "ties",
                    kind: Kind::Choice(Ties::WORDS),
                    default: "\"kept\"",
                    about: "Which job comes first among equals: the order of the previous pass, or waiting jobs first.",
                },
                Param {
                    name: "tick",
                    kind: Kind::Number { min: 0.0, max: 86400.0 },
                    default: "0",
                    about: "Decide at multiples of this too, s; 0: only when something happens.",
                },
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        Ok(Srsf(ShortestFirst::new(config, setup, Least::Service)))
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.0.decide(batch, cluster);
        Ok(())
    }
}

sandtable_policy::export!(Srsf);

#[cfg(test)]
mod tests {
    use super::Srsf;
    use sandtable_policy::testing::{TINY, completion_times, refusal};

    #[test]
    fn the_least_service_left_comes_first() {
        assert_eq!(completion_times::<Srsf>("{}", TINY.0, TINY.1), [7000, 2000]);
        // Left: 4 GPUs x 30 s against 1 GPU x 100 s: the one with less GPU-time goes first.
        assert_eq!(completion_times::<Srsf>("{}", &[4], &[(0, 4, 30), (0, 1, 100)]), [130, 100]);
    }

    #[test]
    fn bad_parameters_are_refused_with_the_reason() {
        assert!(refusal::<Srsf>("{\"ties\": \"none\"}").starts_with("`ties`: expected one of"));
    }
}
