//! What a predictor component says of itself, and what it is asked. Documented in `wit/policy.wit`.

#![expect(missing_docs, reason = "of the functions that a set of flags has")]

flags! {
    /// Quantities that a predictor answers for.
    Quantities {
        "similarity" SIMILARITY = 1,
        "pair-speed" PAIR_SPEED = 2,
        "utilisation" UTILISATION = 4,
        "memory" MEMORY = 8,
    }
}

flags! {
    /// What a predictor reads of a workload; it is shown nothing else.
    Sources {
        "solo-profile" SOLO_PROFILE = 1,
        "model-facts" MODEL_FACTS = 2,
    }
}

enumeration! {
    /// A quantity of one workload alone.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum SoloQuantity {
        /// GPU utilisation, 0 to 1.
        "utilisation" Utilisation,
        /// Device memory on each GPU, MiB.
        "memory" Memory,
    }
}

record! {
    /// What a predictor says of itself.
    #[derive(Clone, PartialEq)]
    pub struct ProviderDescriptor {
        /// Its name.
        "name" name: String,
        /// Its version.
        "version" version: String,
        /// What it does, in a sentence.
        "about" about: String,
        /// Quantities that it answers for.
        "answers" answers: Quantities,
        /// What of a workload it reads.
        "reads" reads: Sources,
        /// Whether it needs weights.
        "needs-weights" needs_weights: bool,
        /// JSON Schema of its configuration.
        "config-schema" config_schema: String,
    }
}
