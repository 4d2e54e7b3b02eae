//! What policies ask predictors for.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Knowledge, Quantities};

/// A quantity that a policy asks a predictor for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Quantity {
    /// Time left of a job.
    Remaining,
    /// How likely two jobs are to contend.
    Similarity,
    /// Progress of a job beside others over its progress alone.
    PairSpeed,
    /// Work that a job does in a second, by type of GPU.
    Throughput,
    /// GPU utilisation of a job alone.
    Utilisation,
    /// Device memory of a job on each GPU.
    Memory,
    /// How long a step of an elastic job takes, and how many it has left.
    Steps,
    /// The epochs of a job: those that are done, and how long each was planned to take.
    Epochs,
}

/// What the contract says of a quantity.
struct Facts {
    name: &'static str,
    unit: &'static str,
    knowledge: Knowledge,
    /// The flag by which a component says that it answers for it; none: no component does.
    answers: Option<Quantities>,
}

impl Quantity {
    /// All of them, in the order of specs, tables and identities.
    pub const ALL: [Quantity; 8] = [
        Quantity::Remaining,
        Quantity::Similarity,
        Quantity::PairSpeed,
        Quantity::Throughput,
        Quantity::Utilisation,
        Quantity::Memory,
        Quantity::Steps,
        Quantity::Epochs,
    ];

    const fn facts(self) -> Facts {
        let (name, unit, knowledge, answers) = match self {
            Quantity::Remaining => ("remaining", "s", Knowledge::REMAINING, None),
            Quantity::Similarity => ("similarity", "0 to 1", Knowledge::SIMILARITY, Some(Quantities::SIMILARITY)),
            Quantity::PairSpeed => ("pair-speed", "0 to 1", Knowledge::PAIR_SPEED, Some(Quantities::PAIR_SPEED)),
            Quantity::Throughput => ("throughput", "work/s", Knowledge::THROUGHPUT, None),
            Quantity::Utilisation => ("utilisation", "0 to 1", Knowledge::UTILISATION, Some(Quantities::UTILISATION)),
            Quantity::Memory => ("memory", "MiB", Knowledge::MEMORY, Some(Quantities::MEMORY)),
            Quantity::Steps => ("steps", "s", Knowledge::STEPS, None),
            Quantity::Epochs => ("epochs", "s", Knowledge::EPOCHS, None),
        };
        Facts { name, unit, knowledge, answers }
    }

    /// Returns its name in the contract and in specs.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the unit of its answers.
    pub const fn unit(self) -> &'static str {
        self.facts().unit
    }

    /// Returns the flag by which a policy says that it needs it.
    pub const fn knowledge(self) -> Knowledge {
        self.facts().knowledge
    }

    /// Returns the flag by which a component says that it answers for it; `None` where no component may.
    pub const fn answers(self) -> Option<Quantities> {
        self.facts().answers
    }

    /// Returns the quantity of this name.
    ///
    /// ```
    /// use sandtable_runtime::contract::Quantity;
    ///
    /// assert_eq!(Quantity::find("pair-speed").map(Quantity::unit), Some("0 to 1"));
    /// assert_eq!(Quantity::find("luck"), None);
    /// ```
    pub fn find(name: &str) -> Option<Quantity> {
        Quantity::ALL.into_iter().find(|quantity| quantity.name() == name)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn quantities_are_in_their_order_and_have_one_name() {
        for (at, quantity) in Quantity::ALL.into_iter().enumerate() {
            assert_eq!(quantity as usize, at);
            assert_eq!(serde_json::to_value(quantity).expect("JSON"), quantity.name());
            assert_eq!(Quantity::find(quantity.name()), Some(quantity));
        }
    }
}
