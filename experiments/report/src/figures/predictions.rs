//! What predictors answered over what is true, by what is true.

use std::collections::BTreeMap;

use sandtable_core::display::Unit;
use sandtable_core::error::Error;
use sandtable_plan::PredictorBinding;
use sandtable_results::reader;
use sandtable_results::store::Store;
use sandtable_runtime::ScoreBin;

use super::Runs;
use crate::plot::{Axis, Figure, Line};

/// The unit of quantities that are a part, and the least true part that is shown.
const PART: &str = "0 to 1";
const LEAST: f64 = 1.0 / 16.0;

/// A figure for each quantity that a policy was told by what may be wrong; a line for each such policy, over all of its seeds.
pub(super) fn figures(all: &[Runs<'_>], store: &Store, at: &str) -> Result<Vec<(Figure, String)>, Error> {
    let mut lines: BTreeMap<(&str, &str), Vec<Line>> = BTreeMap::new();
    for runs in all {
        let Some(first) = runs.all.first() else { continue };
        let mut bins: BTreeMap<(&str, &str), Vec<ScoreBin>> = BTreeMap::new();
        let bound: Vec<_> = first.cell.predictors.all().collect();
        let bound = bound.iter().filter(|(_, bound)| !matches!(bound, PredictorBinding::Oracle));
        let asked: Vec<_> = bound.map(|(quantity, _)| *quantity).collect();
        for run in runs.all.iter().filter(|_| !asked.is_empty()) {
            let scores = reader::summary(store, &run.cell.id)?.map(|summary| summary.predictors).unwrap_or_default();
            for score in scores.into_iter().filter(|score| asked.contains(&score.quantity)) {
                // What is hardly there has no ratio that says anything.
                let least = if score.quantity.unit() == PART { LEAST } else { 0.0 };
                let told = score.bins.into_iter().filter(|bin| bin.from >= least);
                bins.entry((score.quantity.name(), score.quantity.unit())).or_default().extend(told);
            }
        }
        for (quantity, bins) in bins.into_iter().filter(|(_, bins)| !bins.is_empty()) {
            lines.entry(quantity).or_default().push(line(runs.label, bins));
        }
    }
    let figure = |((name, unit), lines): ((&str, &str), Vec<Line>)| {
        let figure = Figure {
            id: format!("predicted-{name}"),
            title: format!("Predicted over true: {name}"),
            at: at.into(),
            x: if unit.is_empty() { format!("true {name}") } else { format!("true {name}, {unit}") },
            y: "predicted over true".into(),
            axis: Axis::Log,
            unit: Unit::Times,
            steps: false,
            part: false,
            y_range: None,
            lines,
        };
        let caption = "What policies were told over what is true, in classes of about equal truth, over all seeds; bars and bands are a standard deviation. A policy that is not here was told the truth; of what is a part, truths from a sixteenth on are shown.";
        (figure, caption.to_string())
    };
    Ok(lines.into_iter().map(figure).collect())
}

/// Bins of several runs as one line.
fn line(label: &str, bins: Vec<ScoreBin>) -> Line {
    // How many, and the sums of the ratio and of its square.
    let mut sums: BTreeMap<u64, (f64, f64, f64)> = BTreeMap::new();
    for bin in bins {
        let of = bin.answers as f64;
        let (count, sum, squares) = sums.entry(bin.from.to_bits()).or_default();
        *count += of;
        *sum += of * bin.ratio;
        *squares += of * (bin.deviation * bin.deviation + bin.ratio * bin.ratio);
    }
    let mut line = Line { name: label.into(), ..Line::default() };
    for (from, (count, sum, squares)) in sums {
        let ratio = sum / count;
        line.points.push((f64::from_bits(from), ratio));
        line.half.push((squares / count - ratio * ratio).max(0.0).sqrt());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_of_runs_are_pooled_by_their_answers() {
        let bin = |from, answers, ratio, deviation| ScoreBin { from, answers, ratio, deviation };
        let line = line("a", vec![bin(2.0, 1, 1.0, 0.0), bin(3.0, 4, 1.5, 0.5), bin(2.0, 3, 2.0, 0.0)]);
        assert_eq!(line.points, [(2.0, 1.75), (3.0, 1.5)]);
        assert_eq!(line.half, [(0.25_f64 * 0.75).sqrt(), 0.5]);
    }
}
