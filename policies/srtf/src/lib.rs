//! SRTF: the job with the least time left comes first; the others are preempted.
//!
//! The order is walked with a quota of all GPUs: a job that does not fit what is left of it is skipped, or preempted
//! where it runs. It acts when something happens; with `tick`, also at the tick at which a running job passes one
//! that was chosen but found no place (Lucid's simulator decides every second).

use sandtable_policy::{
    Abilities, About, Batch, Cluster, Config, Kind, Knowledge, Least, Param, Placement, Policy, PolicyError, Setup,
    ShortestFirst, Ties,
};

/// The policy.
pub struct Srtf(ShortestFirst);

impl Policy for Srtf {
    fn about() -> About {
        About {
            name: "srtf",
            about: "shortest remaining time first by the bound estimate, preempts (Tiresias' shortest, Lucid's srtf)",
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
        Ok(Srtf(ShortestFirst::new(config, setup, Least::Time)))
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.0.decide(batch, cluster);
        Ok(())
    }
}

sandtable_policy::export!(Srtf);

#[cfg(test)]
mod tests {
    use super::Srtf;
    use sandtable_policy::testing::{SMALL, TINY, completion_times, refusal};

    #[test]
    fn the_least_left_comes_first() {
        assert_eq!(completion_times::<Srtf>("{}", TINY.0, TINY.1), [7000, 2000]);
        assert_eq!(completion_times::<Srtf>("{}", SMALL.0, SMALL.1), [7100, 1500, 10390, 500, 100]);
    }

    #[test]
    fn bad_parameters_are_refused_with_the_reason() {
        assert_eq!(refusal::<Srtf>("{\"tick\": -1}"), "`tick`: expected a number from 0 to 86400, found -1");
    }
}
