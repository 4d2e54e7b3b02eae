//! What a spec says of its results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Something that a paper says, or that we say of a policy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename = "Claim", deny_unknown_fields)]
pub struct ClaimSpec {
    /// In its words, or ours.
    pub says: String,
    /// The policy, by label.
    pub of: String,
    /// The policy that it is compared with, run by run; by default none: the claim is of the metric itself.
    #[serde(default)]
    pub against: Option<String>,
    /// A metric, as results in CSV name it.
    pub metric: String,
    /// The figure that a publication prints, or its range: a relative change with `against`.
    #[serde(default)]
    pub published: Option<FigureSpec>,
    /// The figure that the authors' code gave when it was run, which no publication prints.
    #[serde(default)]
    pub reference: Option<ReferenceSpec>,
    /// What must be measured for the claim to hold here: our bound, not the publication's.
    pub holds: HoldsSpec,
    /// Where it is stated: values of the sweep, by path, or `Each` for every combination of values.
    #[serde(default)]
    pub at: AtSpec,
    /// Paths of the sweep whose values are averaged, seed by seed.
    #[serde(default)]
    pub over: Vec<String>,
}

/// A figure, or a range of figures from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or a range such as (-0.307, -0.237)")]
pub enum FigureSpec {
    /// One.
    Value(f64),
    /// A range, the smaller first.
    Range(f64, f64),
}

impl FigureSpec {
    /// The smallest and the greatest value.
    pub fn ends(self) -> (f64, f64) {
        match self {
            FigureSpec::Value(x) => (x, x),
            FigureSpec::Range(from, to) => (from, to),
        }
    }
}

/// A figure that was produced by running the authors' code.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "Reference", deny_unknown_fields)]
pub struct ReferenceSpec {
    /// The figure.
    pub value: FigureSpec,
    /// The authors of the code, and who ran it.
    pub by: String,
}

/// Where a claim is stated.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected `Each`, or values of the sweep by path such as {\"workload.arrivals.load\": 1.2}"
)]
pub enum AtSpec {
    /// One claim for every combination of the sweep's values, but those that `over` averages.
    Each(EachSpec),
    /// Where these values of the sweep hold, by path.
    Values(BTreeMap<String, serde_json::Value>),
}

/// The word `Each`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum EachSpec {
    /// Every one.
    Each,
}

impl Default for AtSpec {
    fn default() -> AtSpec {
        AtSpec::Values(BTreeMap::new())
    }
}

impl AtSpec {
    /// The values that it names, by path.
    pub fn values(&self) -> impl Iterator<Item = (&String, &serde_json::Value)> {
        let values = match self {
            AtSpec::Each(_) => None,
            AtSpec::Values(values) => Some(values),
        };
        values.into_iter().flatten()
    }
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
