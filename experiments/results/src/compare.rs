//! What changed between two results: metric by metric over paired seeds, job by job, and the first decision that differs.

mod jobs;

use sandtable_core::display::{Unit, percent, unsigned_zero};
use sandtable_core::error::Error;
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_plan::Cell;
use sandtable_runtime::Summary;
use serde_json::json;

use crate::metric::{self, METRICS, Metric};
use crate::reader;
use crate::stats::{Estimate, estimate, holm};
use crate::store::Store;
pub use jobs::{JobChange, Jobs, jobs};

/// One result of a side.
#[derive(Clone)]
pub struct LabelledResult {
    /// The policy's label, or the cell's id.
    pub label: String,
    /// The values of the sweep.
    pub variant: String,
    /// The seed.
    pub seed: u64,
    /// The cell's id.
    pub id: String,
    /// The cell, where a spec names it: then it can be run again.
    pub cell: Option<Cell>,
}

/// Two results of one seed and variant.
pub struct Pair {
    /// One of each side.
    pub sides: [LabelledResult; 2],
    /// Their metrics.
    pub summaries: [Summary; 2],
}

/// Results that are compared with each other: of one variant, by seed.
pub struct Comparison {
    /// What the two sides are called.
    pub names: [String; 2],
    /// The values of the sweep.
    pub variant: String,
    /// By seed.
    pub pairs: Vec<Pair>,
    /// Results of one side that the other has no partner for.
    pub alone: usize,
    /// Pairs with a result that a policy failed to give.
    pub failed: usize,
    /// What of their inputs differs beside the policy: path and both values.
    pub inputs: Vec<(String, String, String)>,
}

/// Values in the order in which they first come.
fn in_order<'a>(side: &'a [LabelledResult], of: impl Fn(&'a LabelledResult) -> &'a str) -> Vec<&'a str> {
    let mut all = Vec::new();
    for entry in side {
        if !all.contains(&of(entry)) {
            all.push(of(entry));
        }
    }
    all
}

/// Pairs the results of two sides by seed, a comparison a variant; by label too, where both have several. Also says which
/// labels have no partner.
///
/// # Errors
/// Nothing that has a partner and a result on both sides.
pub fn pair(
    store: &Store,
    [first, second]: &[Vec<LabelledResult>; 2],
) -> Result<(Vec<Comparison>, Vec<String>), Error> {
    let (left, right) = (in_order(first, |entry| &entry.label), in_order(second, |entry| &entry.label));
    let groups: Vec<[&str; 2]> = match (left.as_slice(), right.as_slice()) {
        ([a], [b]) => vec![[a, b]],
        _ => left.iter().filter(|label| right.contains(label)).map(|label| [*label, *label]).collect(),
    };
    if groups.is_empty() {
        let message = format!("nothing to pair: one side has {}, the other {}", left.join(", "), right.join(", "));
        return Err(Error::usage(message).hint("name one policy of each: `--spec SPEC A B`, or `--only LABEL`"));
    }
    let paired = |label: &&str| groups.iter().any(|names| names.contains(label));
    let strangers =
        left.iter().chain(&right).filter(|label| !paired(label)).map(|label| (*label).to_string()).collect();
    let (mut all, mut failed) = (Vec::new(), 0);
    for names in groups {
        let side = |entries: &'_ [LabelledResult], name: &str| {
            entries.iter().filter(|entry| entry.label == name).cloned().collect()
        };
        let (own, others): (Vec<LabelledResult>, Vec<LabelledResult>) = (side(first, names[0]), side(second, names[1]));
        // Two that were named are meant for each other, whatever their seeds and variants.
        let single = own.len() == 1 && others.len() == 1;
        for variant in in_order(&own, |entry| &entry.variant) {
            let own: Vec<&LabelledResult> = own.iter().filter(|entry| entry.variant == variant).collect();
            let others: Vec<&LabelledResult> =
                others.iter().filter(|entry| single || entry.variant == variant).collect();
            let (mut pairs, mut lost) = (Vec::new(), 0);
            for entry in &own {
                let Some(partner) = others.iter().find(|other| single || other.seed == entry.seed) else { continue };
                let both = [reader::summary(store, &entry.id)?, reader::summary(store, &partner.id)?];
                match both {
                    [Some(a), Some(b)] => {
                        pairs.push(Pair { sides: [(*entry).clone(), (*partner).clone()], summaries: [a, b] });
                    }
                    _ => lost += 1,
                }
            }
            failed += lost;
            let alone = own.len() + others.len() - 2 * (pairs.len() + lost);
            let Some(one) = pairs.first() else { continue };
            let inputs = other_inputs(store, one)?;
            // One name for both says nothing.
            let names = match names[0] == names[1] {
                true => ["first", "second"].map(|which| format!("{} ({which})", names[0])),
                false => names.map(str::to_string),
            };
            all.push(Comparison { names, variant: variant.to_string(), pairs, alone, failed: lost, inputs });
        }
    }
    match (all.is_empty(), failed) {
        (false, _) => Ok((all, strangers)),
        (true, 0) => Err(Error::usage("the two have no variant and seed in common")),
        (true, _) => {
            let error = Error::usage(format!("of each of {failed} pairs a policy failed: there is nothing to compare"));
            Err(Error { exit: sandtable_core::error::ExitCode::PolicyFailed, ..error })
        }
    }
}

/// What else differs: two results are only of two policies where this is empty.
fn other_inputs(store: &Store, pair: &Pair) -> Result<Vec<(String, String, String)>, Error> {
    let [a, b] = [&pair.sides[0].id, &pair.sides[1].id].map(|id| reader::inputs(store, id));
    let (a, b) = (reader::leaves(&a?), reader::leaves(&b?));
    let mut paths: Vec<&String> = a.keys().chain(b.keys()).collect();
    paths.sort();
    paths.dedup();
    let differs = paths.into_iter().filter(|path| a.get(*path) != b.get(*path) && !path.starts_with("policy."));
    let value = |of: Option<&String>| of.map_or("-".to_string(), |text| shortened(text));
    Ok(differs.map(|path| (path.clone(), value(a.get(path)), value(b.get(path)))).collect())
}

/// Values are shown as far as a line goes.
fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(48).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// One metric on both sides.
pub struct Change {
    /// Its name.
    pub metric: &'static str,
    /// Means over the pairs.
    pub means: [f64; 2],
    /// The relative change from the first to the second; `None` where a value other than 0 is compared with 0.
    pub effect: Option<Estimate>,
    /// Whether it is the same in every pair.
    pub same: bool,
    /// Whether the difference is significant at 5 % among all metrics of the comparison together (Holm).
    pub survives: bool,
}

impl Change {
    /// Whether the second is better: `None` where no difference is shown after the correction, or neither way is better.
    pub fn is_better(&self) -> Option<bool> {
        let effect = self.effect.filter(|effect| !self.same && self.survives && effect.differs() == Some(true))?;
        metric::find(self.metric)?.better.is_better(effect.mean)
    }

    /// In words.
    pub fn verdict(&self, names: &[String; 2]) -> String {
        if self.same {
            return "the same".into();
        }
        let Some(effect) = self.effect else {
            let way = if self.means[1] < self.means[0] { "lower" } else { "higher" };
            return format!("{} is {way}; no ratio, a value is 0", names[1]);
        };
        let size = effect.mean.abs() * 100.0;
        let way = if effect.mean < 0.0 { "lower" } else { "higher" };
        let Some((low, high)) = effect.interval().map(|(low, high)| (low * 100.0, high * 100.0)) else {
            return match unsigned_zero(size, 1) {
                0.0 => format!("{} is within 0.05 % (single run)", names[1]),
                size => format!("{} is {size:.1} % {way} (single run)", names[1]),
            };
        };
        if effect.differs() != Some(true) {
            let signed = |x: f64| percent(x / 100.0, true);
            return format!(
                "no difference shown (95 % interval {} .. {})",
                signed(low).trim_end_matches(" %"),
                signed(high)
            );
        }
        let (low, high) = if effect.mean < 0.0 { (-high, -low) } else { (low, high) };
        let alone = if self.survives { "" } else { "; not after Holm's correction" };
        let name = &names[1];
        format!("{name} is {size:.1} % {way} (95 % interval {low:.1} .. {high:.1}, {} pairs{alone})", effect.runs)
    }
}

impl Comparison {
    /// The changes of these metrics, or of the usual ones.
    ///
    /// # Errors
    /// A metric that there is not; a file of the store that can't be read.
    pub fn changes(&self, asked: Option<&str>, store: &Store) -> Result<Vec<Change>, Error> {
        let metrics: Vec<&'static Metric> = match asked {
            None => METRICS.iter().filter(|metric| metric.compared).collect(),
            Some(asked) => vec![metric::named(asked)?],
        };
        let mut changes = Vec::new();
        let of_other_jobs = self.is_of_other_jobs();
        let common = if of_other_jobs { self.common(store)? } else { None };
        // Seeds whose results are the same in every respect are one run.
        let first = |at: &usize| !self.pairs[..*at].iter().any(|pair| pair.summaries == self.pairs[*at].summaries);
        let distinct: Vec<usize> = (0..self.pairs.len()).filter(first).collect();
        for known in metrics {
            let metric = known.name;
            let values: Vec<[f64; 2]> = if of_other_jobs && known.is_of_completed() {
                // Other times are of other jobs on each side, and say nothing.
                let Some((common, get)) = common.as_ref().zip(jobs::of_completion_times(metric)) else { continue };
                common.iter().map(|pair| pair.map(|times| get(&times))).collect()
            } else {
                self.pairs.iter().map(|pair| [0, 1].map(|side| known.of(&pair.summaries[side]))).collect()
            };
            if values.iter().flatten().any(|x| x.is_nan()) {
                continue;
            }
            let mean = |side: usize| values.iter().map(|pair| pair[side]).sum::<f64>() / values.len() as f64;
            let means = [mean(0), mean(1)];
            // Nothing on both sides is nothing to read, nor what is only of interest where it differs.
            let same = means[0] == means[1] && (means[0] == 0.0 || ["stretch", "completed"].contains(&metric));
            if same && asked.is_none() {
                continue;
            }
            let relative = |[a, b]: &[f64; 2]| if a == b { 0.0 } else { b / a - 1.0 };
            let relative: Vec<f64> = distinct.iter().map(|at| relative(&values[*at])).collect();
            let same = values.iter().all(|[a, b]| a == b);
            changes.push(Change { metric, means, effect: estimate(&relative), same, survives: false });
        }
        if let (true, Some(asked)) = (changes.is_empty(), asked) {
            let error = Error::usage(format!("`{asked}` of {} and {} can't be compared", self.names[0], self.names[1]));
            return Err(error.hint("it is not known of both, or of other jobs under each"));
        }
        // Of twelve metrics one differs by chance more often than one in twenty times.
        let tested = |change: &Change| change.effect.filter(|_| !change.same).and_then(|effect| effect.p_value());
        let p_values: Vec<f64> = changes.iter().filter_map(tested).collect();
        let mut survive = holm(&p_values).into_iter();
        for change in changes.iter_mut().filter(|change| tested(change).is_some()) {
            change.survives = survive.next().unwrap_or(false);
        }
        Ok(changes)
    }
}

/// A comparison's changes as a table.
pub fn table(comparison: &Comparison, changes: &[Change]) -> Frame {
    let names = &comparison.names;
    let mut frame = Frame::new([
        Column::words("kind").only_in_json(),
        Column::words("variant").in_text(false),
        Column::words("first").in_text(false),
        Column::words("second").in_text(false),
        Column::words("metric"),
        Column::number("first_mean").head(names[0].clone()),
        Column::number("second_mean").head(names[1].clone()),
        Column::words("change"),
        Column::number("low").in_text(false).in_json(false),
        Column::number("high").in_text(false).in_json(false),
        Column::words("interval_95").only_in_json(),
        Column::count("pairs").in_text(false),
        Column::words("holm").in_text(false),
        Column::words("verdict"),
    ]);
    for change in changes {
        let unit = metric::find(change.metric).map_or(Unit::Times, |known| known.unit);
        let mean = |side: usize| Value::from(change.means[side]).shown(unit.text(change.means[side]));
        let interval = change.effect.and_then(|effect| effect.interval());
        let percent = change.effect.map_or("-".to_string(), |effect| percent(effect.mean, true));
        frame.push([
            "metric".into(),
            (&comparison.variant).into(),
            (&names[0]).into(),
            (&names[1]).into(),
            change.metric.into(),
            mean(0),
            mean(1),
            Value::from(change.effect.map(|effect| effect.mean)).shown(percent),
            interval.map(|(low, _)| low).into(),
            interval.map(|(_, high)| high).into(),
            interval.map(|(low, high)| json!([low, high])).into(),
            comparison.pairs.len().into(),
            change.survives.into(),
            change.verdict(names).into(),
        ]);
    }
    frame
}

/// What a reader must know of a comparison: what was left out, and what differs beside the policy.
pub fn notes(comparison: &Comparison) -> String {
    let mut out = comparison.caution();
    if comparison.failed > 0 {
        out.push_str(&format!("{} pairs are left out: a policy failed\n", comparison.failed));
    }
    if comparison.alone > 0 {
        out.push_str(&format!("{} results have no partner of their variant and seed\n", comparison.alone));
    }
    if !comparison.inputs.is_empty() {
        out.push_str("\nnot only the policy differs:\n");
        for (path, a, b) in &comparison.inputs {
            out.push_str(&format!("  {path}: {a} -> {b}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(mean: f64, half: f64, runs: usize, survives: bool) -> String {
        let effect = Some(Estimate { mean, half, runs });
        Change { metric: "jct_mean_s", means: [1.0, 1.0 + mean], effect, same: false, survives }
            .verdict(&["fifo".into(), "clwp".into()])
    }

    #[test]
    fn better_is_what_a_metric_says_and_what_is_shown() {
        let of = |metric, mean, survives| {
            let effect = Some(Estimate { mean, half: 0.01, runs: 10 });
            Change { metric, means: [1.0, 1.0 + mean], effect, same: false, survives }.is_better()
        };
        assert_eq!([of("jct_mean_s", -0.2, true), of("jct_mean_s", 0.2, true)], [Some(true), Some(false)]);
        assert_eq!([of("utilisation", -0.2, true), of("utilisation", 0.2, true)], [Some(false), Some(true)]);
        assert_eq!([of("jct_mean_s", -0.2, false), of("jct_mean_s", 0.001, true)], [None, None]);
    }

    #[test]
    fn verdicts_are_words() {
        let text = change(-0.218, 0.019, 10, true);
        assert_eq!(text, "clwp is 21.8 % lower (95 % interval 19.9 .. 23.7, 10 pairs)");
        let text = change(-0.218, 0.019, 10, false);
        assert_eq!(text, "clwp is 21.8 % lower (95 % interval 19.9 .. 23.7, 10 pairs; not after Holm's correction)");
        assert_eq!(change(0.1, 0.2, 10, false), "no difference shown (95 % interval -10.0 .. +30.0 %)");
        assert_eq!(change(0.1, f64::INFINITY, 1, false), "clwp is 10.0 % higher (single run)");
        let of = |effect, same| Change { metric: "preemptions", means: [0.0, 3.0], effect, same, survives: false };
        let names = ["fifo".to_string(), "las".to_string()];
        assert_eq!(of(None, false).verdict(&names), "las is higher; no ratio, a value is 0");
        assert_eq!(of(None, true).verdict(&names), "the same");
    }
}
