//! Statistics of results: quantiles, distribution functions, and the paired bootstrap.

/// Values of distribution functions that a figure shows.
const POINTS: usize = 400;

/// The empirical distribution function of some values: at most some hundred steps of it, first and last among them.
pub fn ecdf(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let stride = count.div_ceil(POINTS).max(1);
    let shown = (0..count).filter(|at| at % stride == stride - 1 || *at + 1 == count || *at == 0);
    shown.map(|at| (sorted[at], (at + 1) as f64 / count as f64)).collect()
}

/// Mean and 95 % interval of relative changes, by bootstrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The mean of the changes.
    pub mean: f64,
    /// Where the means of 95 % of the resamples lie; none for fewer than five changes.
    pub interval: Option<(f64, f64)>,
    /// Changes that it rests on.
    pub pairs: usize,
}

impl Effect {
    /// Whether the interval leaves no doubt that there is one; none without an interval.
    pub fn is_sure(&self) -> Option<bool> {
        self.interval.map(|(low, high)| low > 0.0 || high < 0.0)
    }
}

/// Resamples of the bootstrap.
const RESAMPLES: usize = 10_000;
/// Fewer pairs give no interval.
pub const FEWEST: usize = 5;

/// The mean of paired changes with its percentile bootstrap interval; `stream` names the random numbers. None for no change
/// at all.
pub fn paired(changes: &[f64], stream: &str) -> Option<Effect> {
    let count = changes.len();
    let mean = changes.iter().sum::<f64>() / count as f64;
    if count == 0 || !mean.is_finite() {
        return None;
    }
    if count < FEWEST {
        return Some(Effect { mean, interval: None, pairs: count });
    }
    let mut draws = blake3::Hasher::new().update(stream.as_bytes()).finalize_xof();
    let mut bytes = vec![0u8; 4 * count];
    let mut means = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        draws.fill(&mut bytes);
        let picks = bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        // Multiply and shift: the bias is below one in 2^32 / count.
        let sum: f64 = picks.map(|draw| changes[((u64::from(draw) * count as u64) >> 32) as usize]).sum();
        means.push(sum / count as f64);
    }
    means.sort_by(f64::total_cmp);
    let at = |part: f64| means[((RESAMPLES - 1) as f64 * part).round() as usize];
    Some(Effect { mean, interval: Some((at(0.025), at(0.975))), pairs: count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bootstrap_is_the_same_every_time_and_near_the_normal_interval() {
        let changes: Vec<f64> = (0..40).map(|x| f64::from(x % 10) / 10.0 - 0.45).collect();
        let one = paired(&changes, "a").expect("an effect");
        assert_eq!(Some(one), paired(&changes, "a"));
        assert_ne!(one.interval, paired(&changes, "b").expect("an effect").interval);
        let (low, high) = one.interval.expect("an interval");
        // The deviation is 0.287, the mean's 0.0454: half of the normal interval is 0.089.
        assert!((low + 0.089).abs() < 0.01 && (high - 0.089).abs() < 0.01, "{low} {high}");
        assert_eq!(one.is_sure(), Some(false));
    }

    #[test]
    fn few_pairs_have_no_interval_and_none_no_effect() {
        assert_eq!(paired(&[0.5], "a"), Some(Effect { mean: 0.5, interval: None, pairs: 1 }));
        assert_eq!(paired(&[], "a"), None);
        assert_eq!(paired(&[f64::NAN], "a"), None);
    }

    #[test]
    fn a_distribution_function_ends_at_one_and_is_thinned() {
        assert_eq!(ecdf(&[3.0, 1.0]), [(1.0, 0.5), (3.0, 1.0)]);
        let many: Vec<f64> = (0..10_000).map(f64::from).collect();
        let shown = ecdf(&many);
        assert!(shown.len() <= POINTS + 2 && shown.last() == Some(&(9999.0, 1.0)));
        assert!(ecdf(&[]).is_empty());
    }
}
