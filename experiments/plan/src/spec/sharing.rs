//! What a spec says of jobs that share GPUs.

use schemars::JsonSchema;
use serde::Deserialize;

/// Where a profile comes from; paths are relative to the spec.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub enum ProfileSpec {
    /// One of our own files.
    File(String),
    /// The user's copy of Gavel's `oracle_throughputs.json`.
    Gavel(String),
    /// The user's copy of Lucid's folder: `colocate_info.csv`, `single_data.csv`.
    Lucid(String),
    /// Written down here.
    Inline(#[schemars(with = "serde_json::Value")] Box<sandtable_hardware::Profile>),
    /// The user's copy of Gavel's `simulation_throughputs.json`: throughput by type and gang size.
    GavelSimulation(String),
    /// The user's copy of `step_ms.csv` of torchvision-gpu-bench, at one precision: `float`, `half` or `double`.
    Torchvision {
        /// Relative to the spec.
        file: String,
        /// `float`, `half` or `double`.
        precision: String,
    },
    /// The user's copy of Pollux' measurements: `traces`, `throughput_exact.csv`, `throughput_grid.csv`.
    Pollux(String),
    /// The user's copy of Shockwave's rates, a CSV with the columns `model`, `batch`, `gpus`, `steps_per_s`: workloads whose jobs change their batch, such as
    /// `ResNet-18 accordion` and `LM gns`.
    Shockwave(String),
    /// The user's copy of ElasticFlow's rates, a CSV with the columns `model`, `batch`, `gpus`, `iterations_per_s`: workloads whose jobs may have any number of
    /// GPUs, such as `resnet50 256`.
    ElasticFlow(String),
    /// The user's copy of one of Muri's traces: workloads such as `vgg16` with the stages of their steps.
    Muri(String),
    /// A CSV with the columns `workload`, `kind`, `gpus`, `throughput`, and if wanted `model`, `family`, `batch`.
    Throughputs(String),
}

/// Where extra times come from.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum LawSpec {
    /// The measured pair, else fitted sensitivity and aggressiveness, else utilisations.
    Profile,
    /// Fitted sensitivity and aggressiveness alone.
    Fitted,
    /// `1 + k u v` of utilisations alone.
    Utilisation(f64),
    /// This much as soon as a GPU is shared.
    Constant(f64),
    /// Jobs on the same GPUs take turns at CPUs, GPUs and the network: the `stages` of their workloads, in the best order, times what Muri
    /// measured over that.
    Stages,
    /// No extra time.
    Zero,
}

/// How jobs on one GPU slow each other down.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Interference", deny_unknown_fields)]
pub struct InterferenceSpec {
    /// Where extra times come from; `Profile` by default.
    #[serde(default, deserialize_with = "named")]
    pub law: Option<LawSpec>,
    /// What they are multiplied by; 1 by default.
    #[serde(default)]
    pub scale: Option<f64>,
    /// Whether each pair gets an error of the profile's spread, drawn from the seed.
    #[serde(default)]
    pub noise: bool,
    /// How GPUs are shared: `TimeSlice` by default, or `Mps`.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["TimeSlice", "Mps"]))]
    pub mode: sandtable_hardware::ShareMode,
}

/// What exchanging gradients costs.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Communication", deny_unknown_fields)]
pub struct CommunicationSpec {
    /// The part of a step's computation that hides communication; 0.5 by default.
    #[serde(default)]
    pub overlap: Option<f64>,
    /// Latency of each exchange, seconds; 0.00002 by default.
    #[serde(default)]
    pub latency: Option<f64>,
}

/// How the GPUs of a node are connected, GB/s.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub enum LinksSpec {
    /// 40 within pairs (0,1), (2,3), …; 10 between.
    NvlinkPairs,
    /// 12 under one switch (pairs), 10 within a socket (half of the node), 6 across.
    Pcie,
    /// Row by row; the diagonal is not looked at.
    Matrix(Vec<Vec<f64>>),
}

// The schema of `sandtable_hardware::Sharing`, which knows of none.
/// Which jobs may be on a GPU together.
#[derive(JsonSchema)]
#[schemars(rename = "Sharing")]
#[expect(dead_code, reason = "it is read as the other")]
pub(super) enum SharingSchema {
    /// One job at a time.
    Exclusive,
    /// Jobs whose shares add up to at most a whole GPU; each makes the progress that its share was measured with.
    Shares,
    /// At most so many jobs, whatever they ask for; they slow each other down.
    Packed(u32),
    /// Parts that GPUs are cut into, one job on each; they do not disturb each other.
    Parts,
}

/// A law that is named: RON takes `None` for a field that is left out, which means another law.
fn named<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<LawSpec>, D::Error> {
    let law = Option::<LawSpec>::deserialize(deserializer)?;
    let message =
        "expected a law, found None: write `Zero` where sharing costs nothing, or leave `law` out for the profile's";
    law.map(Some).ok_or_else(|| serde::de::Error::custom(message))
}
