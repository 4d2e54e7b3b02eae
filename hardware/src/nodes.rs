//! What gangs ask of nodes beside GPUs: CPU and memory, and to be near each other.

use serde::{Deserialize, Serialize};

/// CPU and memory: those of a node, or those that a gang takes of its nodes. What is 0 is unknown, and not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostResources {
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
}

impl HostResources {
    /// Nothing is known.
    pub const UNKNOWN: HostResources = HostResources { cpu_milli: 0, memory_mib: 0 };

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == HostResources::UNKNOWN
    }

    /// What a gang that asks for this and `all` GPUs takes of a node on which it has `gpus`: as large a part, rounded up.
    ///
    /// ```
    /// use sandtable_hardware::HostResources;
    ///
    /// let asked = HostResources { cpu_milli: 10_000, memory_mib: 4096 };
    /// assert_eq!(asked.part(1, 3), HostResources { cpu_milli: 3334, memory_mib: 1366 });
    /// ```
    #[must_use]
    pub fn part(self, gpus: u32, all: u32) -> HostResources {
        let of = |asked: u32| {
            let part = (u64::from(asked) * u64::from(gpus)).div_ceil(u64::from(all.max(1)));
            part.min(u64::from(u32::MAX)) as u32
        };
        HostResources { cpu_milli: of(self.cpu_milli), memory_mib: of(self.memory_mib) }
    }

    /// What is left of a node that has this.
    #[must_use]
    pub fn less(self, taken: HostUse) -> HostUse {
        let of = |has: u32, taken: u64| u64::from(has).saturating_sub(taken);
        HostUse { cpu_milli: of(self.cpu_milli, taken.cpu_milli), memory_mib: of(self.memory_mib, taken.memory_mib) }
    }

    /// Most GPUs, up to `gpus`, of a gang that asks for `asked` and `all` GPUs, on a node that has this, of which `taken` is taken.
    #[must_use]
    pub fn most_gpus(self, taken: HostUse, asked: HostResources, all: u32, gpus: u32) -> u32 {
        let left = self.less(taken);
        let most = |has: u32, left: u64, asked: u32| match (has, asked) {
            (0, _) | (_, 0) => u64::from(gpus),
            _ => left * u64::from(all) / u64::from(asked),
        };
        let cpu = most(self.cpu_milli, left.cpu_milli, asked.cpu_milli);
        let memory = most(self.memory_mib, left.memory_mib, asked.memory_mib);
        u64::from(gpus).min(cpu).min(memory) as u32
    }
}

/// CPU and memory of a node that jobs have taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUse {
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// MiB.
    pub memory_mib: u64,
}

impl std::ops::AddAssign<HostResources> for HostUse {
    fn add_assign(&mut self, more: HostResources) {
        self.cpu_milli += u64::from(more.cpu_milli);
        self.memory_mib += u64::from(more.memory_mib);
    }
}

impl std::ops::SubAssign<HostResources> for HostUse {
    fn sub_assign(&mut self, less: HostResources) {
        self.cpu_milli -= u64::from(less.cpu_milli);
        self.memory_mib -= u64::from(less.memory_mib);
    }
}

/// How near to each other the nodes of a gang are; each number is an index of [`Fleet::levels`](crate::Fleet::levels).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nearness {
    /// Within one domain of this level, or the gang does not start.
    pub required: Option<u32>,
    /// Within one domain of this level, where there is such a place.
    pub preferred: Option<u32>,
}

impl Nearness {
    /// Anywhere.
    pub const ANY: Nearness = Nearness { required: None, preferred: None };

    /// Whether they may be anywhere.
    pub fn is_any(&self) -> bool {
        *self == Nearness::ANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_what_the_parts_leave_room_for() {
        let has = HostResources { cpu_milli: 10_000, memory_mib: 0 };
        let asked = HostResources { cpu_milli: 10_000, memory_mib: 1 << 20 };
        for all in 1..9 {
            for taken in [0, 1, 3333, 3334, 9_999, 10_000] {
                let taken = HostUse { cpu_milli: taken, memory_mib: 0 };
                let fits = |gpus| u64::from(asked.part(gpus, all).cpu_milli) + taken.cpu_milli <= 10_000;
                let most = (0..=8).filter(|gpus| fits(*gpus)).max().unwrap_or(0);
                assert_eq!(has.most_gpus(taken, asked, all, 8), most, "{all} {taken:?}");
            }
        }
        assert_eq!(HostResources::UNKNOWN.most_gpus(HostUse::default(), asked, 1, 8), 8);
        assert_eq!(has.most_gpus(HostUse::default(), HostResources::UNKNOWN, 1, 8), 8);
    }
}
