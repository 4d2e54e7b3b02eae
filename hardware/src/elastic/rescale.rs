//! The cost of giving an elastic job other GPUs.

use serde::{Deserialize, Serialize};

use super::Elastic;
use crate::{Duration, SECOND};

/// What a change of an elastic job's GPUs costs: time in which it holds them and makes no progress. Without one, the
/// costs of starting and restoring hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rescale {
    /// The same for every change and every job (Pollux' simulator: 30 s).
    Constant(Duration),
    /// A restart from a checkpoint, whatever changes.
    Full,
    /// Automatic fast elasticity (DeepBoot, TPDS 2023): replicas that stay form a group anew; those that come start
    /// meanwhile, which is averaged over the gang; a move restarts. Whole seconds, as in its simulator.
    Afe,
    /// By the gang: one of a size that begins at a GPU for the first time, of whatever job, takes `first`, and `doubling` for each doubling of its size; later ones
    /// take `again` (ElasticFlow's simulator: 4 s, 2 s and 2 s). A job that goes on with the very GPUs that it had pays as well.
    Gangs {
        /// For a gang of one GPU.
        first: Duration,
        /// For each doubling.
        doubling: Duration,
        /// Where there was such a gang before.
        again: Duration,
    },
}

impl Rescale {
    /// The cost of going from so many GPUs to so many; 0: it held none. By the gang: of one that was not there before.
    pub fn cost(self, job: &Elastic, from: u32, to: u32) -> Duration {
        let micros = |seconds: f64| Duration::from_micros_f64(seconds * SECOND.as_micros_f64() + 0.5);
        let (restart, resize) = (job.restart_s, job.resize_s);
        match self {
            Rescale::Constant(cost) => cost,
            Rescale::Full => micros(restart),
            Rescale::Gangs { first, doubling, .. } => {
                first + doubling.saturating_mul(u64::from(to.max(1).next_power_of_two().ilog2()))
            }
            Rescale::Afe if from == 0 || from == to => micros(restart),
            Rescale::Afe if to < from => micros(resize),
            Rescale::Afe => micros(resize + ((restart - resize) * f64::from(to - from) / f64::from(to)).floor()),
        }
    }
}
