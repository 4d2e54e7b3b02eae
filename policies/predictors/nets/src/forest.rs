//! A random forest on the facts of computation graphs (Horus' utilisation predictor; learner and sizes are ours).
//!
//! Targets are logarithms, ln(1 + percent): that is what its error measure, RMSLE, is about. Features are cut into at
//! most 250 bins and leaves into steps of 1/54: a node takes two bytes, a forest fits into a file.
//!
//! # Format
//! `trees`: base64 of all trees in preorder, two bytes a node: a feature and the last bin that goes left, or 255 and the
//! leaf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::Draw;

/// Most bins of a feature.
const BINS: usize = 250;

/// Marks a leaf.
const LEAF: u8 = 255;

/// Steps of a leaf for each unit of ln(1 + percent): 254 reach beyond 100 %.
const STEPS: f64 = 54.0;

/// How forests are grown.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Trees.
    pub trees: usize,
    /// Fewest rows of a leaf.
    pub leaf: usize,
}

impl Default for Growth {
    fn default() -> Growth {
        Growth { trees: 200, leaf: 3 }
    }
}

/// A forest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forest {
    /// Names of the features, in the order of the trees' numbers.
    pub features: Vec<String>,
    /// Upper bounds of the bins of each, ascending; beyond the last is one more.
    pub bounds: Vec<Vec<f64>>,
    /// How many trees.
    pub count: usize,
    /// The trees.
    pub trees: String,
}

/// A forest ready for questions.
#[derive(Clone, Debug)]
pub struct Grown {
    features: Vec<String>,
    bounds: Vec<Vec<f64>>,
    /// Feature, bin and where the right branch is; a leaf has its value for a bin.
    nodes: Vec<(u8, u8, u32)>,
    roots: Vec<u32>,
}

/// Rows as bins, with their targets.
struct Data {
    bins: Vec<Vec<u8>>,
    targets: Vec<f64>,
}

impl Forest {
    /// Grows a forest on rows of features and percentages.
    pub fn train(
        features: &[String],
        rows: &[Vec<f64>],
        percent: &[f64],
        growth: Growth,
        draw: &mut dyn Draw,
    ) -> Forest {
        let bounds: Vec<Vec<f64>> = (0..features.len()).map(|at| bounds(rows.iter().map(|row| row[at]))).collect();
        let bins = rows.iter().map(|row| binned(row, &bounds)).collect();
        let data = Data { bins, targets: percent.iter().map(|y| libm::log1p(*y)).collect() };
        let mut bytes = Vec::new();
        for _ in 0..growth.trees {
            let count = rows.len();
            let mut sample: Vec<u32> =
                (0..count).map(|_| ((draw.uniform() * count as f64) as usize).min(count - 1) as u32).collect();
            grow(&data, &mut sample, growth.leaf, features.len(), draw, &mut bytes);
        }
        let features = features.to_vec();
        Forest { features, bounds, count: growth.trees, trees: STANDARD.encode(bytes) }
    }

    /// Opens it.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn open(&self) -> Result<Grown, String> {
        let bytes = STANDARD.decode(&self.trees).map_err(|error| format!("trees: {error}"))?;
        if self.features.len() != self.bounds.len() || self.features.len() >= usize::from(LEAF) {
            return Err(format!("{} features with {} lists of bounds", self.features.len(), self.bounds.len()));
        }
        if bytes.len() % 2 != 0 {
            return Err(format!("trees of {} bytes, expected two for each node", bytes.len()));
        }
        let mut nodes: Vec<(u8, u8, u32)> = bytes.chunks_exact(2).map(|pair| (pair[0], pair[1], 0)).collect();
        let mut roots = Vec::new();
        let mut at = 0;
        while at < nodes.len() {
            roots.push(at as u32);
            // Branches whose right side is still to come.
            let mut open: Vec<usize> = Vec::new();
            loop {
                let Some((feature, ..)) = nodes.get(at).copied() else { return Err("the last tree breaks off".into()) };
                if feature != LEAF {
                    if usize::from(feature) >= self.features.len() {
                        return Err(format!("a node asks for feature {feature} of {}", self.features.len()));
                    }
                    open.push(at);
                    at += 1;
                    continue;
                }
                at += 1;
                match open.pop() {
                    Some(branch) => nodes[branch].2 = at as u32,
                    None => break,
                }
            }
        }
        if roots.len() != self.count || roots.is_empty() {
            return Err(format!("expected {} trees, found {}", self.count, roots.len()));
        }
        Ok(Grown { features: self.features.clone(), bounds: self.bounds.clone(), nodes, roots })
    }
}

impl Grown {
    /// Names of its features.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Percent.
    pub fn predict(&self, row: &[f64]) -> f64 {
        let bins = binned(row, &self.bounds);
        let mut sum = 0.0;
        for root in &self.roots {
            let mut at = *root as usize;
            loop {
                let (feature, bin, right) = self.nodes[at];
                if feature == LEAF {
                    sum += f64::from(bin) / STEPS;
                    break;
                }
                at = if bins[usize::from(feature)] <= bin { at + 1 } else { right as usize };
            }
        }
        libm::expm1(sum / self.roots.len() as f64).clamp(0.0, 100.0)
    }
}

/// Bounds between values such that bins hold about equally many rows.
fn bounds(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    let middle = |a: f64, b: f64| {
        // Short, so that a file is; a float between both is found even so.
        let short = f64::from((a + (b - a) / 2.0) as f32);
        if a < short && short < b { short } else { a + (b - a) / 2.0 }
    };
    if distinct.len() <= BINS {
        return distinct.windows(2).map(|pair| middle(pair[0], pair[1])).collect();
    }
    let mut cuts: Vec<f64> = Vec::new();
    for bin in 1..BINS {
        let at = bin * sorted.len() / BINS;
        if sorted[at - 1] < sorted[at] {
            cuts.push(middle(sorted[at - 1], sorted[at]));
        }
    }
    cuts.dedup();
    cuts
}

fn binned(row: &[f64], bounds: &[Vec<f64>]) -> Vec<u8> {
    row.iter().zip(bounds).map(|(x, bounds)| bounds.partition_point(|bound| bound < x) as u8).collect()
}

/// Appends the tree of a sample in preorder; siblings that say the same become one. Returns its leaf, if it is one.
fn grow(
    data: &Data,
    sample: &mut [u32],
    least: usize,
    features: usize,
    draw: &mut dyn Draw,
    bytes: &mut Vec<u8>,
) -> Option<u8> {
    let mean = sample.iter().map(|row| data.targets[*row as usize]).sum::<f64>() / sample.len() as f64;
    let value = (mean * STEPS + 0.5).clamp(0.0, 254.0) as u8;
    let split = if sample.len() >= 2 * least { best_split(data, sample, least, features, draw) } else { None };
    let Some((feature, bin)) = split else {
        bytes.extend([LEAF, value]);
        return Some(value);
    };
    let goes_left = |row: &u32| data.bins[*row as usize][feature] <= bin;
    let (mut left, mut right): (Vec<u32>, Vec<u32>) = sample.iter().partition(|row| goes_left(row));
    let begin = bytes.len();
    bytes.extend([feature as u8, bin]);
    let one = grow(data, &mut left, least, features, draw, bytes);
    let other = grow(data, &mut right, least, features, draw, bytes);
    if one.is_some() && one == other {
        bytes.truncate(begin);
        bytes.extend([LEAF, one.unwrap_or(value)]);
        return one;
    }
    None
}

/// The feature and the last bin of the left side that lower the sum of squares the most, of a third of the features.
fn best_split(data: &Data, sample: &[u32], least: usize, features: usize, draw: &mut dyn Draw) -> Option<(usize, u8)> {
    let tries = features.div_ceil(3).max(1);
    let order = crate::order(features, draw);
    let total: f64 = sample.iter().map(|row| data.targets[*row as usize]).sum();
    let count = sample.len() as f64;
    let mut best: Option<(f64, usize, u8)> = None;
    for (tried, feature) in order.into_iter().enumerate() {
        if tried >= tries && best.is_some() {
            break;
        }
        let (mut sums, mut counts) = ([0.0f64; 256], [0u32; 256]);
        for row in sample {
            let bin = usize::from(data.bins[*row as usize][feature]);
            sums[bin] += data.targets[*row as usize];
            counts[bin] += 1;
        }
        let (mut sum, mut seen) = (0.0, 0u32);
        for bin in 0..255 {
            sum += sums[bin];
            seen += counts[bin];
            let rest = sample.len() as u32 - seen;
            if counts[bin] == 0 || (seen as usize) < least || (rest as usize) < least {
                continue;
            }
            let score = sum * sum / f64::from(seen) + (total - sum) * (total - sum) / f64::from(rest);
            if score > total * total / count + 1e-12 && best.is_none_or(|(known, ..)| score > known) {
                best = Some((score, feature, bin as u8));
            }
        }
    }
    best.map(|(_, feature, bin)| (feature, bin))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lcg(u64);

    impl Draw for Lcg {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
        fn normal(&mut self) -> f64 {
            self.uniform()
        }
    }

    fn forest() -> Forest {
        let rows: Vec<Vec<f64>> = (0..400).map(|at| vec![f64::from(at), f64::from(at % 7)]).collect();
        let percent: Vec<f64> = (0..400).map(|at| if at < 200 { 10.0 } else { 80.0 }).collect();
        let names = ["x".to_string(), "y".to_string()];
        Forest::train(&names, &rows, &percent, Growth { trees: 20, leaf: 2 }, &mut Lcg(1))
    }

    #[test]
    fn a_step_is_learnt_and_survives_the_file() {
        let text = serde_json::to_string(&forest()).expect("JSON");
        let read: Forest = serde_json::from_str(&text).expect("a forest");
        assert_eq!(read, forest());
        let grown = read.open().expect("trees");
        assert!((grown.predict(&[50.0, 3.0]) - 10.0).abs() < 1.0);
        assert!((grown.predict(&[350.0, 3.0]) - 80.0).abs() < 2.0);
        assert!((0.0..=100.0).contains(&grown.predict(&[1e300, -1e300])));
    }

    #[test]
    fn broken_files_are_refused() {
        let broken = |change: fn(&mut Forest)| {
            let mut forest = forest();
            change(&mut forest);
            forest.open().expect_err("an error")
        };
        assert_eq!(broken(|forest| forest.count = 3), "expected 3 trees, found 20");
        assert!(broken(|forest| forest.trees = STANDARD.encode([0, 5, LEAF, 1])).contains("breaks off"));
        assert!(broken(|forest| forest.trees = "!".into()).starts_with("trees: "));
        assert_eq!(broken(|forest| forest.trees = STANDARD.encode([9, 0, LEAF, 1])), "a node asks for feature 9 of 2");
        assert!(broken(|forest| forest.features.push("z".into())).contains("3 features with 2"));
    }
}
