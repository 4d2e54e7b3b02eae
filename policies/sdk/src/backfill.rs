//! What happens behind a job that finds no place, and which jobs it holds up.

use crate::{Config, GpuTypeId, Kind, Knowledge, Param, PolicyError, Setup, Sharing};

/// What happens when a job that comes earlier in the order finds no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backfill {
    /// It blocks the jobs behind it (head-of-line blocking).
    None,
    /// It is skipped (Tiresias' `fjf`).
    Skip,
    /// Jobs behind it may start where their estimates say that they do not delay it (EASY).
    Easy,
    /// Each of the first so many that wait has a reservation, and a job may start where it delays none of those before it.
    Conservative(u32),
}

impl Backfill {
    /// The words by which configurations name the ways.
    pub const WORDS: &'static [&'static str] = &["none", "skip", "easy", "conservative"];

    /// The parameter by which policies name the way; by default a job that finds no place is skipped.
    pub const PARAM: Param = Param {
        name: "backfill",
        kind: Kind::Choice(Backfill::WORDS),
        default: "\"skip\"",
        about: "What happens behind a job that finds no place: it blocks, is skipped, or is jumped where estimates allow: where that does not delay it (EASY), or any job before (conservative).",
    };

    /// The parameter of `conservative`.
    pub const DEPTH: Param = Param {
        name: "depth",
        kind: Kind::Number { min: 1.0, max: 1e6 },
        default: "100",
        about: "With `backfill: \"conservative\"`: how many jobs of a line are planned at a time; those behind them wait.",
    };

    /// The way of a configuration with both parameters.
    ///
    /// # Errors
    /// `Unsupported` where the way needs estimates of the time left and the host gives none, or counts GPUs that jobs may have parts of.
    pub fn new(config: &Config, setup: &Setup) -> Result<Backfill, PolicyError> {
        let word = config.choice("backfill");
        let way = match word {
            "skip" => Backfill::Skip,
            "easy" => Backfill::Easy,
            "conservative" => Backfill::Conservative(config.number("depth") as u32),
            _ => Backfill::None,
        };
        let foresees = matches!(way, Backfill::Easy | Backfill::Conservative(_));
        if foresees && !setup.knowledge.contains(Knowledge::REMAINING) {
            return Err(PolicyError::Unsupported(format!("backfill {word:?} needs to be told `remaining`")));
        }
        let is_cut =
            setup.topology.gpu_types.iter().any(|kind| matches!(kind.sharing, Sharing::Shares | Sharing::Parts(_)));
        if is_cut && matches!(way, Backfill::Conservative(_)) {
            return Err(PolicyError::Unsupported(
                "backfill \"conservative\" counts whole GPUs, not shares or parts of them".into(),
            ));
        }
        Ok(way)
    }
}

/// Which jobs one that finds no place holds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lines {
    /// All jobs behind it.
    #[default]
    One,
    /// Those that may run on one of its GPU types: a cluster whose partitions have their own types of GPU has a line for each. While a job
    /// waits that may run in several, they are one.
    ByType,
}

impl Lines {
    /// The parameter by which policies name it.
    pub const PARAM: Param = Param {
        name: "lines",
        kind: Kind::Choice(&["one", "by-type"]),
        default: "\"one\"",
        about: "Which jobs one that finds no place holds up: all behind it, or those that may run on its types of GPU, as where each partition has its own.",
    };

    /// The way of a word of [`Lines::PARAM`].
    pub fn named(word: &str) -> Lines {
        if word == "by-type" { Lines::ByType } else { Lines::One }
    }

    /// A number for each of these sets of GPU types: equal for those in one line.
    pub(crate) fn number<'a>(self, sets: impl Iterator<Item = &'a [GpuTypeId]>) -> Vec<usize> {
        let sets: Vec<&[GpuTypeId]> = sets.collect();
        let mut line: Vec<usize> = match self {
            Lines::One => return vec![0; sets.len()],
            Lines::ByType => (0..sets.len()).collect(),
        };
        for at in 0..sets.len() {
            for other in 0..at {
                if line[other] != line[at] && sets[other].iter().any(|gpu_type| sets[at].contains(gpu_type)) {
                    let (keep, gone) = (line[other].min(line[at]), line[other].max(line[at]));
                    line.iter_mut().filter(|number| **number == gone).for_each(|number| *number = keep);
                }
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn sets_that_share_a_type_are_one_line() {
        let sets: [&[u32]; 5] = [&[0], &[1], &[2], &[1, 2], &[0]];
        assert_eq!(Lines::ByType.number(sets.into_iter()), [0, 1, 1, 1, 0]);
        assert_eq!(Lines::One.number(sets.into_iter()), [0; 5]);
        let chained: [&[u32]; 4] = [&[0, 1], &[2, 3], &[4], &[1, 2]];
        assert_eq!(Lines::ByType.number(chained.into_iter()), [0, 0, 2, 0]);
    }
}
