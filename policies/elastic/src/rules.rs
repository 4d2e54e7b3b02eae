//! The rules that a configuration sets for all policies of elastic training.

use sandtable_policy::{Config, Kind, Param};

/// Which jobs may use which pool's nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partition {
    /// Tasks use only nodes of the inference pool; training borrows what is idle there.
    Owned,
    /// Every job may use every node (DeepBoot's simulator).
    Shared,
    /// No lending: training keeps to its own nodes.
    Apart,
}

/// Which training GPU a task gets where none is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaim {
    /// The replica whose loss costs the least speedup (ATS-I).
    LeastLoss,
    /// Any replica.
    Random,
    /// All of the node with the fewest (Aryl); and no job trains on a node that serves.
    Node,
    /// None: tasks wait for idle GPUs.
    Never,
}

/// The rules.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Which jobs may use which pool's nodes.
    pub partition: Partition,
    /// Which training GPU a task gets where none is idle.
    pub reclaim: Reclaim,
    /// A job's last GPU is taken only where there is no other.
    pub guard: bool,
    /// A GPU is kept for its service after a task: least, for each hit in a row, most; µs.
    pub protect: (u64, u64, u64),
    /// As DeepBoot's simulator does it, quirks included.
    pub compat: bool,
    /// A restart's delay in the restart factor, s.
    pub delay: f64,
    /// Between two rounds, µs.
    pub round: u64,
}

/// The parameters of [`Rules`].
pub const RULES: [Param; 9] = [
    Param {
        name: "partition",
        kind: Kind::Choice(&["owned", "shared", "apart"]),
        default: "\"owned\"",
        about: "Tasks use only nodes of the inference pool and training borrows what is idle there; every job may use every node; or no lending.",
    },
    Param {
        name: "reclaim",
        kind: Kind::Choice(&["least-loss", "random", "node", "never"]),
        default: "\"least-loss\"",
        about: "Which training GPU a task gets where none is idle: the replica whose loss costs the least speedup, any, all of the node with the fewest, or none.",
    },
    Param {
        name: "last_gpu_guard",
        kind: Kind::Flag,
        default: "true",
        about: "Take a job's last GPU only where there is no other.",
    },
    Param {
        name: "protect_least",
        kind: Kind::Number { min: 0.0, max: 86_400.0 },
        default: "30",
        about: "After a task its GPU is kept for the service so long, s.",
    },
    Param {
        name: "protect_bonus",
        kind: Kind::Number { min: 0.0, max: 86_400.0 },
        default: "15",
        about: "And longer by this for each task in a row that came meanwhile, s.",
    },
    Param {
        name: "protect_most",
        kind: Kind::Number { min: 0.0, max: 86_400.0 },
        default: "120",
        about: "But no longer than this, s.",
    },
    Param {
        name: "compat",
        kind: Kind::Flag,
        default: "false",
        about: "As DeepBoot's simulator: a job moves where the order of its nodes changes, tasks of a round wait, jobs of a round alone train.",
    },
    Param {
        name: "restart_delay",
        kind: Kind::Number { min: 0.0, max: 3600.0 },
        default: "10",
        about: "What a restart is believed to cost, s: it lowers the value of a change.",
    },
    Param {
        name: "round",
        kind: Kind::Number { min: 1.0, max: 86_400.0 },
        default: "60",
        about: "Training jobs get GPUs at multiples of this, s.",
    },
];

/// One table of parameters after another.
pub const fn joined<const N: usize, const M: usize, const ALL: usize>(a: [Param; N], b: [Param; M]) -> [Param; ALL] {
    assert!(N + M == ALL);
    let mut all = [a[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < N { a[at] } else { b[at - N] };
        at += 1;
    }
    all
}

impl Rules {
    /// The rules of a configuration.
    pub fn new(config: &Config) -> Rules {
        Rules {
            partition: match config.choice("partition") {
                "shared" => Partition::Shared,
                "apart" => Partition::Apart,
                _ => Partition::Owned,
            },
            reclaim: match config.choice("reclaim") {
                "random" => Reclaim::Random,
                "node" => Reclaim::Node,
                "never" => Reclaim::Never,
                _ => Reclaim::LeastLoss,
            },
            guard: config.flag("last_gpu_guard"),
            protect: (config.micros("protect_least"), config.micros("protect_bonus"), config.micros("protect_most")),
            compat: config.flag("compat"),
            delay: config.number("restart_delay"),
            round: config.micros("round"),
        }
    }
}
