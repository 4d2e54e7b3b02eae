//! Least attained service, two-dimensional: service is GPU-time (Tiresias, NSDI 2019).
//!
//! `mode: "queues"`: a job enters the first queue and moves down when its attained service reaches a limit. Queues are
//! served in order; within a queue those that run come before those that wait, then by entry (`running-first`); or the
//! order is kept and runners come first only in the next pass, so that a job that has just moved down comes last
//! (`kept`, Tiresias' simulator); or all by submission, of equal times those that run first, by start (Lucid's). `mode: "gittins"`: the greatest Gittins index first,
//! from a sample of past service.
//!
//! One timer is set for the earliest crossing of a limit. The thresholds change the order of published results: they
//! are parameters and part of an experiment's identity.

mod gittins;
mod lists;
mod queues;

pub use lists::Lists;
use queues::Queues;
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Kind, Knowledge, Param, Placement, Policy, PolicyError, Setup,
    Wake,
};

const TIMER: u64 = 1;

/// The order within a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    RunningFirst,
    Kept,
    Submitted,
}

impl Within {
    const WORDS: &'static [&'static str] = &["running-first", "kept", "submitted"];

    fn named(word: &str) -> Within {
        match word {
            "kept" => Within::Kept,
            "submitted" => Within::Submitted,
            _ => Within::RunningFirst,
        }
    }
}

/// The policy: by queues that are kept in order where the order allows it, else by lists that every pass sorts and walks.
pub enum Las {
    /// `running-first` with exact crossings.
    Queues(Box<Queues>),
    /// Everything else.
    Lists(Box<Lists>),
}

impl Policy for Las {
    fn about() -> About {
        About {
            name: "las",
            about: "least attained service (GPU-time) in queues, or by Gittins index, preempts (Tiresias, NSDI 2019)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Placement::follows(),
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "mode",
                    kind: Kind::Choice(&["queues", "gittins"]),
                    default: "\"queues\"",
                    about: "Discretised queues, or the Gittins index.",
                },
                Param {
                    name: "limits",
                    kind: Kind::Ascending { min: 1e-6, max: 1e9 },
                    default: "[3250, 7200]",
                    about: "Attained service at which a job moves to the next queue, GPU-s.",
                },
                Param {
                    name: "starvation",
                    kind: Kind::Number { min: 0.0, max: 1e6 },
                    default: "0",
                    about: "A job that has waited this many times its run time returns to the first queue; 0: never.",
                },
                Param {
                    name: "within",
                    kind: Kind::Choice(Within::WORDS),
                    default: "\"running-first\"",
                    about: "The order within a queue.",
                },
                Param {
                    name: "crossing",
                    kind: Kind::Choice(&["exact", "published"]),
                    default: "\"exact\"",
                    about: "When the next crossing is looked for: when it is due, or where Tiresias' simulator does, which mistakes seconds for GPU-seconds.",
                },
                Param {
                    name: "round",
                    kind: Kind::Number { min: 0.0, max: 1e6 },
                    default: "0",
                    about: "Decide at multiples of this alone, s; 0: whenever something happens.",
                },
                Param {
                    name: "history",
                    kind: Kind::Ascending { min: 1.0, max: 1e12 },
                    default: "[]",
                    about: "For the index: GPU-time of past jobs, GPU-s.",
                },
                Param {
                    name: "delta",
                    kind: Kind::Number { min: 1.0, max: 1e9 },
                    default: "3250",
                    about: "For the index: the quantum of service, GPU-s.",
                },
                Placement::PARAM,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let exact = config.choice("mode") == "queues" && config.choice("crossing") == "exact";
        match exact && Within::named(config.choice("within")) == Within::RunningFirst {
            true => Ok(Las::Queues(Box::new(Queues::new(config)?))),
            false => Lists::new(config, setup).map(|lists| Las::Lists(Box::new(lists))),
        }
    }

    fn cadence(&self) -> Cadence {
        match self {
            // An end while no job waits moves no job between queues, and makes room for none.
            Las::Queues(queues) => Cadence { ends: Wake::WhileWaiting, ..cadence(queues.round) },
            Las::Lists(lists) => lists.cadence(),
        }
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        match self {
            Las::Queues(queues) => queues.decide(batch, cluster),
            Las::Lists(lists) => lists.decide(batch, cluster)?,
        }
        Ok(())
    }
}

/// Rounds of so many µs alone; 0: whenever something happens.
fn cadence(round: u64) -> Cadence {
    let round = (round > 0).then_some(round);
    Cadence { round, on_events: round.is_none(), ..Cadence::EVENTS }
}

/// Attained service at which a job leaves each queue but the last, GPU-µs.
fn limits(config: &Config) -> Result<Vec<u64>, PolicyError> {
    let limits: Vec<u64> = config.numbers("limits").iter().map(|limit| (limit * 1e6 + 0.5) as u64).collect();
    match limits.len() > 250 {
        true => Err(PolicyError::BadConfig(format!("`limits`: expected at most 250, found {}", limits.len()))),
        false => Ok(limits),
    }
}

/// Sets, moves or cancels the timer; an instant that has come is the next one.
fn set_timer(cluster: &mut Cluster, timer: &mut Option<u64>, soonest: Option<u64>) {
    if *timer != soonest {
        if timer.is_some() {
            cluster.cancel_timer(TIMER);
        }
        if let Some(at) = soonest {
            cluster.set_timer(TIMER, at);
        }
        *timer = soonest;
    }
}

sandtable_policy::export!(Las);

#[cfg(test)]
mod tests {
    use super::Las;
    use sandtable_policy::testing::{SMALL, TINY, completion_times, refusal};

    #[test]
    fn service_decides() {
        assert_eq!(completion_times::<Las>("{}", TINY.0, TINY.1), [7000, 4250]);
        assert_eq!(completion_times::<Las>("{}", SMALL.0, SMALL.1), [7500, 4260, 10000, 2095, 100]);
    }

    #[test]
    fn starvation_brings_a_job_back() {
        // Without the knob the long job waits for every short one after it has crossed the limit.
        let jobs = [(0, 1, 4000), (100, 1, 3000), (3300, 1, 3000), (7000, 1, 3000)];
        assert_eq!(completion_times::<Las>("{}", &[1], &jobs), [13_000, 6150, 5950, 5250]);
        // With it, it is back in the first queue at 6500, before the last one comes.
        assert_eq!(completion_times::<Las>("{\"starvation\": 1}", &[1], &jobs), [10_000, 6150, 5950, 6000]);
    }

    /// What Tiresias' simulator (`run_sim.py`, `dlas-gpu`) gives for these.
    #[test]
    fn kept_queues_are_those_of_tiresias_simulator() {
        let config = "{\"placement\": \"count\", \"within\": \"kept\", \"crossing\": \"published\"}";
        // Two jobs move down at one instant: the one that arrived first goes first.
        let jobs = [(0, 1, 2000), (50, 2, 4000), (100, 2, 2000), (100, 1, 4000)];
        assert_eq!(completion_times::<Las>(config, &[4], &jobs), [2000, 5650, 3600, 4350]);
        // A job is preempted in the pass in which all that waited had just come.
        let jobs = [(0, 3, 9000), (50, 5, 9000), (100, 5, 500), (3100, 4, 500), (3600, 7, 4000), (3700, 1, 2000)];
        assert_eq!(completion_times::<Las>(config, &[8], &jobs), [10_500, 12_100, 1140, 500, 11_050, 2000]);
    }

    #[test]
    fn the_index_needs_a_history() {
        let why = "`history`: mode \"gittins\" needs a sample of past GPU-time, found []";
        assert_eq!(refusal::<Las>("{\"mode\": \"gittins\"}"), why);
        let config = "{\"mode\": \"gittins\", \"history\": [1000, 2000, 3000, 5000, 8000, 13000, 21000]}";
        // At 1000 the first has fallen to the second value and the newcomer, at the first, overtakes it; it falls as
        // far at 2000, and among equals the order is kept.
        assert_eq!(completion_times::<Las>(config, TINY.0, TINY.1), [7000, 2000]);
    }

    #[test]
    fn bad_parameters_are_refused_with_the_reason() {
        let why = "`limits`: expected a list of ascending numbers from 0.000001 to 1000000000, found [7200,3250]";
        assert_eq!(refusal::<Las>("{\"limits\": [7200, 3250]}"), why);
    }
}
