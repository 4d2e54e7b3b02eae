//! The semantics of published simulators, as they expand to costs of the host and parameters of policies. Each is
//! held by the per-job schedules that its simulator produced (see `tests/goldens.rs`).

use sandtable_hardware::{Costs, Duration, Leases, Rescale, RestartRule, SECOND};
use serde_json::{Value, json};

/// A published simulator.
pub(super) struct Preset {
    pub(super) name: &'static str,
    /// One line for `plan`.
    pub(super) about: &'static str,
    /// Schedulable parts of a GPU; a job may hold parts of several.
    pub(super) slots_per_gpu: u32,
    /// What a preempted job pays.
    restart: Option<RestartRule>,
    /// What elastic jobs pay for a change of their GPUs, where the simulator has one cost; and whether epochs end on
    /// whole seconds.
    elastic: (Option<Rescale>, bool),
    /// For how many times what it takes alone a job is at work at most, where GPUs are leased for rounds of 120 s.
    leases: Option<f64>,
    /// For whole slots of how many seconds elastic jobs hold their GPUs; 0: until they are done.
    slot_s: u64,
    /// Every decision stops all jobs and starts them again.
    redeploy: bool,
}

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "tiresias-count",
        about: "Tiresias' simulator, placement `count`: GPUs are counted, preemption is free",
        slots_per_gpu: 1,
        restart: None,
        elastic: (None, false),
        leases: None,
        slot_s: 0,
        redeploy: false,
    },
    Preset {
        name: "lucid-consolidate",
        about: "Lucid's simulator, placement `consolidate`: 40 s (60 s above 8 GPUs) of work added by a preemption",
        slots_per_gpu: 1,
        restart: Some(RestartRule { small: Duration::from_secs(40), large: Duration::from_secs(60), small_gpus: 8 }),
        elastic: (None, false),
        leases: None,
        slot_s: 0,
        redeploy: false,
    },
    Preset {
        name: "pai-1node",
        about: "PAI's simulator on one node: hundredths of GPUs are counted, a job may hold parts of several",
        slots_per_gpu: 100,
        restart: None,
        elastic: (None, false),
        leases: None,
        slot_s: 0,
        redeploy: false,
    },
    Preset {
        name: "pollux",
        about: "Pollux' simulator: rounds of 60 s, any change of GPUs costs 30 s, epochs end on whole seconds",
        slots_per_gpu: 1,
        restart: None,
        elastic: (Some(Rescale::Constant(Duration::from_secs(30))), true),
        leases: None,
        slot_s: 0,
        redeploy: false,
    },
    Preset {
        name: "deepboot",
        about: "DeepBoot's simulator: rounds of 60 s, tasks in between, epochs end on whole seconds",
        slots_per_gpu: 1,
        restart: None,
        elastic: (None, true),
        leases: None,
        slot_s: 0,
        redeploy: false,
    },
    Preset {
        name: "shockwave",
        about: "Shockwave's simulator: leases of about 120 s in whole steps, 20 s for a restart, at most 1.5 times the time alone",
        slots_per_gpu: 1,
        restart: None,
        elastic: (None, false),
        leases: Some(1.5),
        slot_s: 0,
        redeploy: false,
    },
    Preset {
        name: "shockwave-comparison",
        about: "as shockwave, at most the time alone: the artifact's older runs, beside those on a real cluster",
        slots_per_gpu: 1,
        restart: None,
        elastic: (None, false),
        leases: Some(1.0),
        slot_s: 0,
        redeploy: false,
    },
    Preset {
        name: "elasticflow",
        about: "ElasticFlow's simulator: 4 s and 2 s a doubling for a new gang of GPUs, 2 s for one that there was before, jobs end on whole seconds",
        slots_per_gpu: 1,
        restart: None,
        elastic: (Some(GANGS), false),
        leases: None,
        slot_s: 1,
        redeploy: false,
    },
    Preset {
        name: "elasticflow-edf",
        about: "EDF in ElasticFlow's simulator: changes of size are free, jobs end on whole seconds",
        slots_per_gpu: 1,
        restart: None,
        elastic: (Some(Rescale::Constant(Duration::ZERO)), false),
        leases: None,
        slot_s: 1,
        redeploy: false,
    },
    Preset {
        name: "muri",
        about: "Muri's simulator: every decision starts all jobs again, which takes each what its profile says, but for the last stay",
        slots_per_gpu: 1,
        restart: None,
        elastic: (None, false),
        leases: None,
        slot_s: 0,
        redeploy: true,
    },
];

/// The rounds of Gavel's simulator, as Shockwave's artifact sets them.
const fn leases(limit: f64) -> Leases {
    let (length, restart, brief) = (Duration::from_secs(120), Duration::from_secs(20), Duration::from_secs(115));
    Leases { length, restart, brief, limit: Some(limit) }
}

const GANGS: Rescale =
    Rescale::Gangs { first: Duration::from_secs(4), doubling: Duration::from_secs(2), again: Duration::from_secs(2) };

impl Preset {
    /// Defaults of a policy's parameters.
    pub(super) fn parameters(&self, policy: &str) -> Value {
        match (self.name, policy) {
            ("tiresias-count", "fifo") => json!({"backfill": "none", "placement": "count"}),
            ("tiresias-count", "sjf") => json!({"backfill": "skip", "placement": "count"}),
            ("tiresias-count", "srtf" | "srsf") => json!({"placement": "count", "ties": "kept"}),
            ("tiresias-count", "las") => {
                json!({"placement": "count", "limits": [3250, 7200], "within": "kept", "crossing": "published"})
            }
            ("lucid-consolidate", "fifo" | "sjf") => json!({"backfill": "none", "placement": "consolidate"}),
            ("lucid-consolidate", "srtf" | "srsf") => {
                json!({"placement": "consolidate", "ties": "waiting-first", "tick": 1})
            }
            // Service of exactly 18,000 GPU-s is still in the first queue there.
            ("lucid-consolidate", "las") => {
                json!({"placement": "consolidate", "limits": [18000.000001], "within": "submitted", "round": 60})
            }
            ("pollux", "pollux") => json!({"restart_delay": 30}),
            ("deepboot", "ats" | "pollux" | "optimus" | "afs" | "lyra-like" | "tiresias") => {
                json!({"compat": true, "partition": "shared"})
            }
            ("elasticflow", "elasticflow") => {
                json!({"spare": "most", "placement": "anew", "admission": "together", "when_idle": "wait"})
            }
            ("elasticflow-edf", "elasticflow") => json!({"when_idle": "wait"}),
            ("pai-1node", "fifo" | "sjf") => json!({"backfill": "skip", "placement": "count"}),
            _ => json!({}),
        }
    }

    /// Costs under a policy: Lucid's preemptive policies let a job end one tick late.
    pub(super) fn costs(&self, policy: &str, costs: Costs) -> Costs {
        let late = self.name == "lucid-consolidate" && matches!(policy, "srtf" | "srsf" | "las");
        let (rescale, whole) = self.elastic;
        Costs {
            restart_adds_work: self.restart,
            linger: if late { SECOND } else { Duration::ZERO },
            rescale: rescale.or(costs.rescale),
            epochs_end_on: if whole { SECOND } else { Duration::ZERO },
            leases: self.leases.map(leases),
            slot: Duration::from_secs(self.slot_s),
            redeploy: self.redeploy,
            ..costs
        }
    }
}
