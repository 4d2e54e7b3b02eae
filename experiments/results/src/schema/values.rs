//! How values are written in a cell of a stored table.

use std::collections::BTreeMap;
use std::fmt;

use sandtable_core::units::exact_decimal;
use sandtable_hardware::{Duration, Fleet, GpuId, Instant, NodeId, SECOND};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant or a length of time in microseconds, written as decimal seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(
    /// Microseconds.
    pub u64,
);

impl Seconds {
    /// In seconds.
    pub fn f64(self) -> f64 {
        self.0 as f64 / SECOND.as_micros_f64()
    }

    /// Seconds from `earlier` to this instant; negative where that is later.
    pub fn since(self, earlier: Seconds) -> f64 {
        (i128::from(self.0) - i128::from(earlier.0)) as f64 / SECOND.as_micros_f64()
    }

    fn parse(text: &str) -> Option<Seconds> {
        exact_decimal(text, SECOND.as_micros()).map(Seconds)
    }
}

impl From<Instant> for Seconds {
    fn from(at: Instant) -> Seconds {
        Seconds(at.as_micros())
    }
}

impl From<Duration> for Seconds {
    fn from(span: Duration) -> Seconds {
        Seconds(span.as_micros())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sandtable_inputs::trace::seconds(Duration::from_micros(self.0)))
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        let text = String::deserialize(deserializer)?;
        Seconds::parse(&text).ok_or_else(|| wrong("decimal seconds", &text))
    }
}

/// Numbers of GPUs in ascending order, written as ranges: `0-3 8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuSet(
    /// The numbers.
    pub Vec<GpuId>,
);

impl GpuSet {
    /// These GPUs, in order.
    pub fn of(gpus: &[GpuId]) -> GpuSet {
        let mut sorted = gpus.to_vec();
        sorted.sort_unstable();
        GpuSet(sorted)
    }

    fn parse(text: &str) -> Option<GpuSet> {
        let mut gpus = Vec::new();
        for range in text.split_whitespace() {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            // A store may be a stranger's: a range has no more GPUs than a fleet.
            if first > last || u64::from(last) >= Fleet::MAX_GPUS || gpus.len() as u64 > Fleet::MAX_GPUS {
                return None;
            }
            gpus.extend((first..=last).map(GpuId::new));
        }
        Some(GpuSet(gpus))
    }
}

impl fmt::Display for GpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<u32> = self.0.iter().map(|gpu| gpu.number()).collect();
        f.write_str(&ranges(&numbers))
    }
}

/// Ascending numbers as ranges: `0-3 8`.
pub fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one[0].to_string(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

impl Serialize for GpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GpuSet, D::Error> {
        let text = String::deserialize(deserializer)?;
        GpuSet::parse(&text).ok_or_else(|| wrong("ranges of GPUs", &text))
    }
}

/// GPUs of a job by node, written as `node:gpus;node:gpus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement(
    /// GPUs by node; 0 of a job that asks for none.
    pub BTreeMap<NodeId, u32>,
);

impl Placement {
    /// Where these GPUs are, and the node of a job without any.
    pub fn of(gpus: &[GpuId], without: Option<NodeId>, fleet: &Fleet) -> Placement {
        let mut nodes: BTreeMap<NodeId, u32> = without.into_iter().map(|node| (node, 0)).collect();
        for gpu in gpus {
            *nodes.entry(fleet.node_of(*gpu)).or_default() += 1;
        }
        Placement(nodes)
    }

    fn parse(text: &str) -> Option<Placement> {
        let parts = text.split(';').filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (node, gpus) = part.split_once(':')?;
            Some((NodeId::new(node.parse().ok()?), gpus.parse().ok()?))
        };
        parts.map(pair).collect::<Option<_>>().map(Placement)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(node, gpus)| format!("{node}:{gpus}")).collect();
        f.write_str(&parts.join(";"))
    }
}

impl Serialize for Placement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Placement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Placement, D::Error> {
        let text = String::deserialize(deserializer)?;
        Placement::parse(&text).ok_or_else(|| wrong("GPUs by node", &text))
    }
}

/// How a job ended, written as `completed` or as `unfinished: the reason`.
pub(super) mod outcome {
    use sandtable_runtime::{JobOutcome, Unfinished};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::schema) fn serialize<S: Serializer>(value: &JobOutcome, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in crate::schema) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<JobOutcome, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (word, why) = text.split_once(": ").unwrap_or((&text, ""));
        match word {
            "completed" => Ok(JobOutcome::Completed),
            "refused" => Ok(JobOutcome::Refused),
            "rejected" => Ok(JobOutcome::Rejected(why.into())),
            "failed" => Ok(JobOutcome::Failed(why.into())),
            "unfinished" => {
                let found = Unfinished::NAMES.iter().find(|(name, _)| *name == why);
                found
                    .map(|(_, of)| JobOutcome::Unfinished(*of))
                    .ok_or_else(|| super::wrong("where a job was at the end", why))
            }
            _ => Err(super::wrong("how a job ended", &text)),
        }
    }
}

/// What a cell should hold, and what it holds.
fn wrong<E: serde::de::Error>(expected: &str, found: &str) -> E {
    let short: String = found.chars().take(40).collect();
    E::custom(format!("expected {expected}, found {short:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        for micros in [0, 1, 100_000, 1_500_000, 9_007_199_254_740_991, u64::MAX] {
            assert_eq!(Seconds::parse(&Seconds(micros).to_string()), Some(Seconds(micros)));
        }
        assert_eq!((Seconds(100_000).f64(), Seconds(1).since(Seconds(3))), (0.1, -0.000_002));
    }

    #[test]
    fn ranges_are_read_as_they_were_written() {
        for (gpus, text) in [(&[][..], ""), (&[4], "4"), (&[0, 1, 2, 8], "0-2 8"), (&[1, 0, 3], "0-1 3")] {
            let set = GpuSet::of(&GpuId::list(gpus.to_vec()));
            assert_eq!(set.to_string(), text);
            assert_eq!(GpuSet::parse(text), Some(set));
        }
    }
}
