//! What Horus is compared with, under the same fit test: first come, first served, the head blocks the line.
//! Opportunistic bin packing takes the first GPU that fits (our definition: the text was not to be had), Gandiva-like
//! and best-fit memory the one with the best score, exclusive FIFO an empty one.

use sandtable_horus::queue::Order;
use sandtable_horus::score::{Form, Rules};
use sandtable_horus::{Packer, PredictedCluster, params};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Kind, Knowledge, Param, Policy, PolicyError, Setup, Trigger,
};

/// The policy.
pub struct Baseline {
    packer: Packer,
    slice: Option<u64>,
}

impl Policy for Baseline {
    fn about() -> About {
        About {
            name: "packer",
            about: "baselines of Horus: opportunistic bin packing, Gandiva-like score, best-fit memory, exclusive FIFO (head of line)",
            uses: Abilities::SHARE | Abilities::PREEMPT | Abilities::TIMERS,
            needs: Knowledge::UTILISATION | Knowledge::MEMORY,
            params: &[
                Param {
                    name: "rule",
                    kind: Kind::Choice(&["obp", "gandiva", "best-fit-memory", "exclusive"]),
                    default: "\"obp\"",
                    about: "Which GPU a task gets: the first that fits, the one with Gandiva's best score, the one left with the least memory, or an empty one.",
                },
                Param {
                    name: "slice",
                    kind: Kind::Number { min: 0.0, max: 1e9 },
                    default: "0",
                    about: "Seconds after which the job that has run the longest is preempted if any job waits (the public code's Gandiva); 0: never.",
                },
                params::MEM_WEIGHT,
                params::MAX_TASKS,
                params::MEM_MARGIN,
                params::LOOKAHEAD_ONE,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let (form, most) = match config.choice("rule") {
            "gandiva" => (Form::Gandiva, u32::MAX),
            "best-fit-memory" => (Form::BestFitMemory, u32::MAX),
            "exclusive" => (Form::FirstFit, 1),
            _ => (Form::FirstFit, u32::MAX),
        };
        let rules = Rules {
            form,
            mem_weight: config.number("mem_weight"),
            max_tasks: most.min(config.number("max_tasks") as u32),
            margin: config.number("mem_margin"),
            twice: false,
            ..Rules::default()
        };
        let view = PredictedCluster::new("packer", rules, 1.0, setup)?;
        let slice = config.micros("slice");
        let lookahead = config.number("lookahead") as usize;
        Ok(Baseline { packer: Packer::new(view, Order::Fifo, lookahead), slice: (slice > 0).then_some(slice) })
    }

    fn cadence(&self) -> Cadence {
        Cadence { round: self.slice, ..Cadence::EVENTS }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.packer.take_in(batch, cluster);
        if batch.trigger == Trigger::Round && self.slice.is_some() {
            self.packer.slice(cluster);
        }
        self.packer.start_what_fits(cluster);
        Ok(())
    }
}

sandtable_policy::export!(Baseline);

#[cfg(test)]
mod tests {
    use super::Baseline;
    use sandtable_policy::testing::completion_times;

    #[test]
    fn a_slice_gives_jobs_that_wait_their_turn() {
        let jobs = [(0, 1, 1000), (0, 1, 1000)];
        let alone = |slice: &str| completion_times::<Baseline>(&format!("{{\"slice\": {slice}}}"), &[1], &jobs);
        assert_eq!(alone("0"), [1000, 2000], "the head first");
        let [one, other] = alone("100")[..] else { panic!("two jobs") };
        assert!(one >= 1800 && other == 2000 || other >= 1800 && one == 2000, "{one} {other}");
    }
}
