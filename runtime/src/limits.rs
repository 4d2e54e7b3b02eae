//! What a component may use.

/// What a component may use. All of it is part of an experiment's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Fuel of instantiation and of `describe`.
    pub start_fuel: u64,
    /// Fuel of `init`.
    pub init_fuel: u64,
    /// Fuel of each `decide`; what is left over is lost.
    pub decide_fuel: u64,
    /// Fuel of all calls of a run together, from `describe` on.
    pub run_fuel: u64,
    /// Linear memory, all memories together, bytes.
    pub memory: usize,
    /// Elements of all tables together.
    pub table_elements: usize,
    /// Bytes that one call may hand to the host.
    pub data: usize,
    /// Actions of one plan.
    pub actions: u32,
    /// Bytes of log lines kept of a run.
    pub log: usize,
    /// Calls of `decide` in a run.
    pub calls: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            start_fuel: 1_000_000_000,
            init_fuel: 10_000_000_000,
            decide_fuel: 1_000_000_000,
            run_fuel: 10_000_000_000_000,
            memory: 128 << 20,
            table_elements: 20_000,
            data: 16 << 20,
            actions: 100_000,
            log: 1 << 20,
            calls: 50_000_000,
        }
    }
}

impl Limits {
    /// These, as far as a spec might ask for them: a stranger's capsule may say anything.
    #[must_use]
    pub fn clamped(self) -> Limits {
        let usual = Limits::default();
        Limits {
            start_fuel: self.start_fuel.min(usual.start_fuel),
            init_fuel: self.init_fuel.min(usual.init_fuel),
            decide_fuel: self.decide_fuel.min(usual.run_fuel),
            run_fuel: self.run_fuel.min(usual.run_fuel),
            memory: self.memory.min(Limits::MEMORY),
            table_elements: self.table_elements.min(usual.table_elements),
            data: self.data.min(usual.data),
            actions: self.actions,
            log: self.log.min(usual.log),
            calls: self.calls.min(usual.calls),
        }
    }

    /// Most linear memory that a spec may ask for, bytes.
    pub const MEMORY: usize = 1 << 30;
    /// Most memories of one component instance tree.
    pub const MEMORIES: usize = 8;
    /// Most tables.
    pub const TABLES: usize = 32;
    /// Most core instances.
    pub const INSTANCES: usize = 128;
    /// Most handles of resources at a time.
    pub const HANDLES: usize = 1_000;
    /// Components and modules within components.
    pub const NESTING: usize = 16;
    /// Largest component file, bytes.
    pub const COMPONENT: usize = 32 << 20;
    /// The guest's stack, bytes.
    pub const STACK: usize = 1 << 20;
    /// A guest's name or version, bytes.
    pub const NAME: usize = 128;
    /// What a guest says about itself, bytes.
    pub const TEXT: usize = 1 << 10;
    /// A guest's schema of its configuration, bytes.
    pub const SCHEMA: usize = 64 << 10;
    /// Frames of a backtrace.
    pub const FRAMES: usize = 32;
    /// Stays of jobs on GPUs that are kept of a run, and the GPUs of each, all together.
    pub const STAYS: usize = 50_000_000;
}
