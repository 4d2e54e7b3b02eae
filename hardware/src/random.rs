//! Seeded streams by name, and the distributions drawn from them. Values are part of results: the first draws of a
//! stream are held by a golden test, and nothing here uses the platform's mathematics.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of draws. Streams of different names are independent; drawing from one does not move another.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of this name under an experiment's seed.
    ///
    /// ```
    /// use sandtable_hardware::random::Stream;
    ///
    /// let draws = |seed, name| Stream::new(seed, name).integer();
    /// assert_eq!(draws(1, "arrivals"), draws(1, "arrivals"));
    /// assert_ne!(draws(1, "arrivals"), draws(1, "durations"));
    /// ```
    pub fn new(seed: u64, name: &str) -> Stream {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        // FNV-1a, twice with different offsets: a name only has to give another stream.
        for (slot, offset) in [(8, 0xcbf2_9ce4_8422_2325_u64), (16, 0x9ae1_6a3b_2f90_404f)] {
            let hash = name.bytes().fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            key[slot..slot + 8].copy_from_slice(&hash.to_le_bytes());
        }
        Stream(ChaCha8Rng::from_seed(key))
    }

    /// Uniform over all integers.
    pub fn integer(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.integer() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// An index below this bound, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.uniform() * bound as f64) as usize).min(bound - 1)
    }

    /// Puts a list into an order that is as likely as any other.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Standard normal (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// Log-normal with this median and this standard deviation of the logarithm.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * libm::exp(sigma * self.normal())
    }

    /// A factor whose mean is 1: log-normal with this standard deviation of the logarithm, and the median exp(-sigma²/2).
    pub fn error_factor(&mut self, sigma: f64) -> f64 {
        self.log_normal(libm::exp(-sigma * sigma / 2.0), sigma)
    }

    /// Pareto with this least value and shape.
    pub fn pareto(&mut self, least: f64, shape: f64) -> f64 {
        least * libm::pow(1.0 - self.uniform(), -1.0 / shape)
    }

    /// An index with the probability of its weight. The weights must not all be zero.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let total: f64 = weights.iter().sum();
        let mut left = self.uniform() * total;
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_seed() {
        let first = |seed, name| Stream::new(seed, name).integer();
        assert_ne!(first(0, "arrivals"), first(0, "durations"));
        assert_ne!(first(0, "arrivals"), first(1, "arrivals"));
        assert_eq!(first(7, "arrivals"), first(7, "arrivals"));
    }

    #[test]
    fn first_draws_are_golden() {
        let mut stream = Stream::new(42, "golden");
        let draws: Vec<u64> = (0..4).map(|_| stream.integer()).collect();
        assert_eq!(draws, GOLDEN);
        assert_eq!(Stream::new(42, "golden").uniform(), 0.280_630_079_021_655_5);
    }

    const GOLDEN: [u64; 4] =
        [5_176_711_247_097_367_691, 3_928_431_493_122_679_963, 7_007_766_666_374_410_223, 17_019_207_093_281_254_278];

    #[test]
    fn means_are_near() {
        let mut stream = Stream::new(1, "means");
        let n = 40_000;
        let mean = (0..n).map(|_| stream.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.06, "{mean}");
        let mut below = 0;
        for _ in 0..n {
            below += i32::from(stream.log_normal(5.0, 1.2) < 5.0);
        }
        assert!((f64::from(below) / f64::from(n) - 0.5).abs() < 0.01);
        let hits = (0..n).filter(|_| stream.weighted(&[1.0, 0.0, 3.0]) == 2).count();
        assert!((hits as f64 / f64::from(n) - 0.75).abs() < 0.01);
        let factors = (0..n).map(|_| stream.error_factor(0.5)).sum::<f64>() / f64::from(n);
        assert!((factors - 1.0).abs() < 0.01, "{factors}");
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut stream = Stream::new(1, "orders");
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut list = [0, 1, 2];
            stream.shuffle(&mut list);
            *counts.entry(list).or_insert(0) += 1;
        }
        assert!(counts.len() == 6 && counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
