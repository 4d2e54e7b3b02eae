//! The Gittins index over a sample of past service (Tiresias, NSDI 2019, as its simulator tabulates it).

/// Index by attained service, tabulated at the sample's values.
pub(crate) struct Gittins {
    /// Attained service at which jobs ended, GPU-seconds, ascending.
    sample: Vec<f64>,
    index: Vec<f64>,
}

impl Gittins {
    /// A table over `sample` (ascending, GPU-seconds); `delta`: the service quantum, GPU-seconds.
    pub(crate) fn new(sample: Vec<f64>, delta: f64) -> Gittins {
        let index = sample.iter().map(|end| index(&sample, end - 1.0, delta)).collect();
        Gittins { sample, index }
    }

    /// The index at attained service `a`, GPU-seconds: greater is better; 0 beyond the sample.
    pub(crate) fn at(&self, a: f64) -> f64 {
        match self.sample.last() {
            Some(last) if a <= last - 1.0 => self.index[self.sample.partition_point(|end| *end <= a)],
            _ => 0.0,
        }
    }

    /// The next attained service at which the index changes.
    pub(crate) fn next(&self, a: f64) -> Option<f64> {
        let last = self.sample.last()?;
        let next = self.sample.get(self.sample.partition_point(|end| *end <= a))?;
        // Past `last - 1` the index is 0.
        Some(if next == last && a < last - 1.0 { last - 1.0 + 1e-6 } else { *next })
    }
}

fn index(sample: &[f64], a: f64, delta: f64) -> f64 {
    let count = sample.len();
    let Some(last) = sample.last() else { return 0.0 };
    if a > last - 1.0 {
        return 0.0;
    }
    let from = sample.partition_point(|end| *end <= a);
    let upto = if a + delta > last - 1.0 { count - 1 } else { sample.partition_point(|end| *end <= a + delta) };
    let left = (count - from) as f64;
    let chance = round((upto - from) as f64 / left, 1e5);
    let spent = round((sample[from..upto].iter().sum::<f64>() + delta * (count - upto) as f64) / left, 1e5);
    round(1e6 * chance / spent, 1e4)
}

fn round(x: f64, to: f64) -> f64 {
    (x * to).round() / to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        let table = Gittins::new(vec![1000.0, 2000.0, 3000.0, 5000.0, 8000.0, 13000.0, 21000.0], 3250.0);
        let expected = [157.8942, 151.8987, 112.6761, 102.5641, 68.9648, 61.5385, 0.0];
        for (found, expected) in table.index.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-6 * expected, "{found} for {expected}");
        }
        for (a, expected) in [
            (0.0, 157.8942),
            (999.0, 157.8942),
            (1000.0, 151.8987),
            (2500.0, 112.6761),
            (6000.0, 68.9648),
            (20999.0, 0.0),
        ] {
            let found = table.at(a);
            assert!((found - expected).abs() <= 1e-6 * expected, "at {a}: {found} for {expected}");
        }
    }
}
