//! What a spec says of its results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Something that a paper says.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Claim", deny_unknown_fields)]
pub struct ClaimSpec {
    /// In its words, or ours.
    pub says: String,
    /// The policy, by label.
    pub of: String,
    /// The one that it is compared with, seed by seed; none: the metric itself.
    #[serde(default)]
    pub against: Option<String>,
    /// A metric, as results in CSV name it.
    pub metric: String,
    /// The published figure: a relative change with `against`.
    #[serde(default)]
    pub published: Option<f64>,
    /// What must be measured for the claim to hold here.
    pub holds: HoldsSpec,
    /// Only where these values of the sweep hold, by path.
    #[serde(default)]
    pub at: BTreeMap<String, serde_json::Value>,
}

/// What must be measured for a claim to hold.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
pub enum HoldsSpec {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
    /// From the first to the second.
    Between(f64, f64),
}
