//! How jobs let their GPUs go for others.

use sandtable_policy::{Cluster, Config, JobId, Kind, Param};

/// How jobs let their GPUs go for others.
pub struct Eviction {
    /// Without saving their state.
    kills: bool,
}

impl Eviction {
    /// The parameter that says so.
    pub const PARAM: Param = Param {
        name: "evict",
        kind: Kind::Choice(&["save", "kill"]),
        default: "\"save\"",
        about: "How a job lets its GPUs go: it saves its state first, or ends at once and goes on from what it has saved.",
    };

    /// What [`Eviction::PARAM`] says.
    pub fn of(config: &Config) -> Eviction {
        Eviction { kills: config.choice("evict") == "kill" }
    }

    /// Has jobs let their GPUs go, and asks to be called again.
    pub fn evict(&self, cluster: &mut Cluster, jobs: &[JobId]) {
        for id in jobs {
            if self.kills {
                cluster.kill(*id);
            } else {
                cluster.preempt(*id);
            }
            cluster.call_again();
        }
    }
}
