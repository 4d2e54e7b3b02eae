//! Horus: interference-aware packing by predicted GPU utilisation, after Yeung et al. (HotCloud 2020, ICA3PP 2020, TPDS
//! 2022). What it shares with Horus+ and its baselines is in `sandtable-horus`.

use sandtable_horus::queue::Order;
use sandtable_horus::{Packer, PredictedCluster, params, rules};
use sandtable_policy::{Abilities, About, Batch, Cluster, Config, Knowledge, Policy, PolicyError, Setup};

/// The policy.
pub struct Horus(Packer);

impl Policy for Horus {
    fn about() -> About {
        About {
            name: "horus",
            about: "interference-aware packing by predicted GPU utilisation (Yeung et al. 2020-22, by the first author's public simulator, its defects mended; theta is ours)",
            uses: Abilities::SHARE,
            needs: Knowledge::UTILISATION | Knowledge::MEMORY,
            params: &[
                params::MEM_WEIGHT,
                params::OVER_PENALTY,
                params::MAX_TASKS,
                params::MEM_MARGIN,
                params::LOOKAHEAD,
                params::THETA,
                params::ORDER,
                params::COMPAT,
                params::COUNT,
                params::PEAK,
                params::TWICE,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let view = PredictedCluster::new("horus", rules(config), config.number("peak"), setup)?;
        Ok(Horus(Packer::new(view, Order::named(config.choice("order")), config.number("lookahead") as usize)))
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.0.take_in(batch, cluster);
        self.0.start_what_fits(cluster);
        Ok(())
    }
}

sandtable_policy::export!(Horus);
