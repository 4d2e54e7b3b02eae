//! Predicts the speeds of pairs that were not measured, and says how well the prediction fits those that were.

use std::collections::BTreeMap;

use sandtable_hardware::Solo;

use super::Made;

/// The law `1/(1 + κ u v)` as it fits the pairs.
pub(super) struct Fitted {
    pub(super) kappa: f64,
    /// Mean absolute error of a speed.
    pub(super) mae: f64,
    /// The same of pairs that were left out of the fit.
    pub(super) held_out: f64,
}

impl Fitted {
    pub(super) fn of(made: &Made<'_>, solo: &BTreeMap<String, Solo>) -> Fitted {
        let busy = |family: usize| solo[&made.names[family]].utilisation.unwrap_or(1.0);
        let of_pair = |(a, b): (usize, usize)| {
            let product = busy(a) * busy(b);
            let both = move |(one, other): (f64, f64)| [(product, one.min(1.0)), (product, other.min(1.0))];
            made.speeds(a, b).into_iter().flat_map(both).collect::<Vec<_>>()
        };
        let pairs: Vec<Vec<(f64, f64)>> = made.pairs().map(of_pair).collect();
        let points = pairs.concat();
        let kappa = best(&points);
        // Every fifth pair is left out, with all that was measured of it.
        let (out, kept): (Vec<_>, Vec<_>) = pairs.into_iter().enumerate().partition(|(at, _)| at % 5 == 4);
        let only =
            |list: Vec<(usize, Vec<(f64, f64)>)>| list.into_iter().flat_map(|(_, points)| points).collect::<Vec<_>>();
        let (out, kept) = (only(out), only(kept));
        Fitted { kappa, mae: error(&points, kappa), held_out: error(&out, best(&kept)) }
    }
}

/// Mean absolute error of the law.
fn error(points: &[(f64, f64)], kappa: f64) -> f64 {
    if points.is_empty() {
        return 0.0;
    }
    points.iter().map(|(product, speed)| (1.0 / (1.0 + kappa * product) - speed).abs()).sum::<f64>()
        / points.len() as f64
}

/// The κ of the least error, to a thousandth.
fn best(points: &[(f64, f64)]) -> f64 {
    let tried = (0..=4000).map(|thousandths| f64::from(thousandths) / 1000.0);
    tried.min_by(|a, b| error(points, *a).total_cmp(&error(points, *b))).unwrap_or(0.0)
}
