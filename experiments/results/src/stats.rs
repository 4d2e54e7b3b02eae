//! Statistics of results: means with their intervals, multiple comparisons, distribution functions.
//!
//! One function makes every interval that claims, comparisons and figures print: [`estimate`], Student's, 95 %. For the
//! relative changes that are compared here it covers what it says from three runs on, where a bootstrap of the same runs
//! covers less (`tests::intervals_cover_what_they_say`).

use std::f64::consts::PI;

/// Values of distribution functions that a figure shows.
const POINTS: usize = 400;

/// The greatest values that are all shown: of ten thousand jobs p99.9 is the tenth from the end.
const TAIL: usize = 100;

/// The empirical distribution function of some values: at most some hundred steps of it, the first and the greatest hundred among
/// them.
pub fn ecdf(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let stride = count.div_ceil(POINTS).max(1);
    let shown = (0..count).filter(|at| at % stride == stride - 1 || *at + TAIL >= count || *at == 0);
    shown.map(|at| (sorted[at], (at + 1) as f64 / count as f64)).collect()
}

/// A mean over independent runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of its 95 % interval; infinite for one run.
    pub half: f64,
    /// Runs that it rests on, at least 1.
    pub runs: usize,
}

impl Estimate {
    /// The 95 % interval; `None` for one run.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half.is_finite().then_some((self.mean - self.half, self.mean + self.half))
    }

    /// Whether the interval excludes 0; `None` without an interval.
    pub fn differs(&self) -> Option<bool> {
        self.interval().map(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// The probability of a mean this far from 0 or farther if the true mean were 0: Student's two-sided test. `None` for
    /// one run.
    pub fn p_value(&self) -> Option<f64> {
        self.interval()?;
        let freedom = self.runs - 1;
        let error = self.half / t_quantile(freedom);
        Some(match (error > 0.0, self.mean == 0.0) {
            (true, _) => 1.0 - within(self.mean.abs() / error, freedom),
            (false, true) => 1.0,
            (false, false) => 0.0,
        })
    }
}

/// Mean and sample standard deviation (0 for one value).
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

/// The mean of independent values and its 95 % interval by Student's t. `None` for no value, or one that is not finite.
///
/// ```
/// let one = sandtable_results::stats::estimate(&[1.0, 2.0, 3.0]).expect("three values");
/// let (low, high) = one.interval().expect("two values or more have one");
/// assert!(low < 0.0 && one.mean == 2.0 && high > 4.0);
/// ```
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let runs = values.len();
    let (mean, deviation) = mean_and_deviation(values);
    if runs == 0 || !mean.is_finite() {
        return None;
    }
    if runs == 1 {
        return Some(Estimate { mean, half: f64::INFINITY, runs });
    }
    Some(Estimate { mean, half: t_quantile(runs - 1) * deviation / (runs as f64).sqrt(), runs })
}

/// The probability that Student's t with `freedom` (1 or more) degrees of freedom lies within ± `t` (Abramowitz and Stegun,
/// 26.7.3 and 26.7.4: exact finite sums).
fn within(t: f64, freedom: usize) -> f64 {
    let angle = libm::atan(t / (freedom as f64).sqrt());
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    let square = cosine * cosine;
    let odd = freedom % 2 == 1;
    // The series goes on to the power `freedom` - 2 of the cosine.
    let (mut term, mut sum, first) = match odd {
        true => (cosine, if freedom > 1 { cosine } else { 0.0 }, 3),
        false => (1.0, 1.0, 2),
    };
    for power in (first..freedom.saturating_sub(1)).step_by(2) {
        term *= square * (power - 1) as f64 / power as f64;
        sum += term;
    }
    if odd { 2.0 / PI * (angle + sine * sum) } else { sine * sum }
}

/// The 97.5th percentile of Student's t with `freedom` (1 or more) degrees of freedom, by bisection.
///
/// ```
/// assert!((sandtable_results::stats::t_quantile(4) - 2.776).abs() < 1e-3);
/// ```
pub fn t_quantile(freedom: usize) -> f64 {
    let (mut low, mut high) = (1.9, 13.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < 0.95 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Which of several tests are significant at 5 % all together (Holm, Scand. J. Statist. 6, 1979).
pub fn holm(p_values: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut significant = vec![false; p_values.len()];
    for (rank, at) in order.into_iter().enumerate() {
        if p_values[at] > 0.05 / (p_values.len() - rank) as f64 {
            break;
        }
        significant[at] = true;
    }
    significant
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_hardware::random::Stream;

    #[test]
    fn percentiles_and_probabilities_are_students() {
        // Published percentiles.
        for (freedom, published) in [
            (1, 12.7062),
            (2, 4.3027),
            (3, 3.1824),
            (4, 2.7764),
            (9, 2.2622),
            (19, 2.0930),
            (30, 2.0423),
            (120, 1.9799),
        ] {
            assert!((t_quantile(freedom) - published).abs() < 6e-5, "{freedom}: {}", t_quantile(freedom));
        }
        let one = estimate(&[1.0, 2.0, 3.0]).expect("values");
        assert_eq!((one.mean, one.runs), (2.0, 3));
        assert!((one.half - 4.302_652_7 / 3f64.sqrt()).abs() < 1e-6);
        // t = 2 / (1 / sqrt 3) with two degrees of freedom.
        assert!((one.p_value().expect("a test") - 0.074_18).abs() < 1e-5);
        assert_eq!(one.differs(), Some(false));
    }

    #[test]
    fn one_run_has_no_interval_and_equal_runs_one_of_no_width() {
        let one = estimate(&[0.5]).expect("a value");
        assert_eq!((one.interval(), one.differs(), one.p_value()), (None, None, None));
        let same = estimate(&[0.5, 0.5]).expect("values");
        assert_eq!((same.interval(), same.p_value()), (Some((0.5, 0.5)), Some(0.0)));
        assert_eq!(estimate(&[0.0, 0.0]).and_then(|same| same.p_value()), Some(1.0));
        assert_eq!((estimate(&[]), estimate(&[f64::NAN])), (None, None));
    }

    #[test]
    fn holm_stops_at_the_first_that_fails() {
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]), [true, false, false, true]);
        assert_eq!(holm(&[0.04]), [true]);
        assert_eq!(holm(&[0.06, 0.001]), [false, true]);
    }

    /// The part of 4,000 samples whose interval holds the true mean.
    fn coverage(stream: &mut Stream, runs: usize, truth: f64, draw: impl Fn(&mut Stream) -> f64) -> f64 {
        let samples = 4_000;
        let mut hits = 0;
        for _ in 0..samples {
            let values: Vec<f64> = (0..runs).map(|_| draw(stream)).collect();
            let (low, high) = estimate(&values).and_then(|one| one.interval()).expect("an interval");
            hits += usize::from(low <= truth && truth <= high);
        }
        hits as f64 / samples as f64
    }

    /// Relative changes are ratios: log-normal, with a spread from run to run (sigma) that is 0.02 to 0.3 in the specs that ship.
    /// Heavier tails are covered less, by any interval of the mean: the book says by how much.
    #[test]
    fn intervals_cover_what_they_say() {
        let mut stream = Stream::new(1, "coverage");
        let mut table = String::from("runs  normal  log-normal 0.25  log-normal 0.5  log-normal 1\n");
        for runs in [3, 4, 5, 7, 10, 15, 20, 30, 50] {
            let normal = coverage(&mut stream, runs, 0.0, Stream::normal);
            let log_normal = [0.25, 0.5, 1.0].map(|sigma: f64| {
                coverage(&mut stream, runs, libm::exp(sigma * sigma / 2.0), |one| libm::exp(sigma * one.normal()))
            });
            for nominal in [normal, log_normal[0]] {
                assert!((0.93..=0.97).contains(&nominal), "{runs} runs: {nominal}");
            }
            let [light, middle, heavy] = log_normal.map(|part| 100.0 * part);
            table.push_str(&format!(
                "{runs:>4}  {:>6.1}  {light:>15.1}  {middle:>14.1}  {heavy:>12.1}\n",
                100.0 * normal
            ));
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn a_distribution_function_ends_at_one_and_is_thinned() {
        assert_eq!(ecdf(&[3.0, 1.0]), [(1.0, 0.5), (3.0, 1.0)]);
        let many: Vec<f64> = (0..10_000).map(f64::from).collect();
        let shown = ecdf(&many);
        assert!(shown.len() <= POINTS + TAIL + 1 && shown.last() == Some(&(9999.0, 1.0)));
        assert!(ecdf(&[]).is_empty());
    }
}
