//! What a predictor component says of itself, and what it is asked. Documented in `wit/policy.wit`.

bitflags::bitflags! {
    /// Quantities that a predictor answers for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Quantities: u8 {
        /// How likely two workloads are to contend.
        const SIMILARITY = 1;
        /// The speed of a job beside others.
        const PAIR_SPEED = 2;
        /// GPU utilisation alone.
        const UTILISATION = 4;
        /// Device memory.
        const MEMORY = 8;
    }
}

bitflags::bitflags! {
    /// What a predictor reads of a workload; it is shown nothing else.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Sources: u8 {
        /// What the workload shows when it runs alone.
        const SOLO_PROFILE = 1;
        /// What its model's graph shows.
        const MODEL_FACTS = 2;
    }
}

/// A quantity of one workload alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoloQuantity {
    /// GPU utilisation, 0 to 1.
    Utilisation,
    /// Device memory on each GPU, MiB.
    Memory,
}

/// What a predictor says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderDescriptor {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it does, in a sentence.
    pub about: String,
    /// Quantities that it answers for.
    pub answers: Quantities,
    /// What of a workload it reads.
    pub reads: Sources,
    /// Whether it needs weights.
    pub needs_weights: bool,
    /// JSON Schema of its configuration.
    pub config_schema: String,
}
