//! The models behind the predictors: forward passes, which components run, and training, which the command runs. Both
//! compute in f64 with `libm`, left to right: the same numbers on every machine, native or sandboxed.
//!
//! # Architecture
//! - [`NeuMf`]: neural collaborative filtering of a matrix of pairs (IASP).
//! - [`Mlp`]: a feed-forward network on features (IAPP).
//! - [`Bias`]: mean, victims' and aggressors' terms; also what an unseen workload is judged by after a few probes.
//! - [`Graph`]: what computation graphs show, as features.
//! - [`Forest`]: utilisation from facts of computation graphs (Horus).
//! - [`memory`]: formulas for device memory.
//! - [`Rule`]: one parameter on summed utilisation.
//! - [`Weights`]: the file that predictors are handed; `guest` (a feature) is what components open it with.

mod adam;
mod bias;
mod facts;
mod features;
mod forest;
#[cfg(feature = "guest")]
pub mod guest;
pub mod memory;
mod mlp;
mod neumf;
mod rule;
mod weights;

pub use bias::Bias;
pub use facts::Graph;
pub use features::{Features, nearest};
pub use forest::{Forest, Grown, Growth};
pub use mlp::Mlp;
pub use neumf::NeuMf;
pub use rule::Rule;
pub use weights::{Known, Pairs, Weights};

/// Where training draws from.
pub trait Draw {
    /// Uniform in [0, 1).
    fn uniform(&mut self) -> f64;
    /// Standard normal.
    fn normal(&mut self) -> f64;
}

/// One observation of a matrix of pairs: victim, co-runner, speed.
pub type Seen = (usize, usize, f64);

/// A random order of `0..count`.
fn order(count: usize, draw: &mut dyn Draw) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, ((draw.uniform() * (at + 1) as f64) as usize).min(at));
    }
    order
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// To the nearest f32: what a weights file keeps.
fn short(x: f64) -> f64 {
    f64::from(x as f32)
}
