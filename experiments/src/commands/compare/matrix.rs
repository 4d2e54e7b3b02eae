//! More than two results: every pair of them by one metric, as a matrix.

use sandtable_core::display::{Unit, percent};
use sandtable_core::error::Error;
use sandtable_core::frame::{Column, Frame, Value};
use sandtable_results::compare::{Change, LabelledResult, pair};
use sandtable_results::metric;
use sandtable_results::stats::holm;
use sandtable_results::store::Store;

/// The metric where none is asked for.
const METRIC: &str = "jct_mean_s";

/// A pair of sides at a point of the sweep.
struct Of {
    variant: String,
    /// The side that is the baseline, and the one that is compared with it.
    sides: [usize; 2],
    /// Seeds that both have.
    pairs: usize,
    change: Change,
    survives: bool,
}

impl Of {
    /// Whether the other is better than the baseline, where they differ among all pairs together.
    fn is_better(&self) -> Option<bool> {
        let mean = self.change.effect.filter(|_| self.survives)?.mean;
        metric::find(self.change.metric)?.better.is_better(mean)
    }
}

/// Every pair of several results.
pub(super) struct Matrix<'a> {
    names: &'a [&'a str],
    asked: &'a str,
    all: Vec<Of>,
    /// The mean of each side over its own results, by variant.
    means: Vec<(String, usize, f64)>,
    /// Pairs, each counted once.
    count: usize,
}

impl<'a> Matrix<'a> {
    /// Compares each with each.
    ///
    /// # Errors
    /// Sides that have nothing in common; a metric that there is not.
    pub(super) fn new(
        asked: Option<&'a str>,
        names: &'a [&'a str],
        side: impl Fn(&str) -> Result<Vec<LabelledResult>, Error>,
        store: &Store,
    ) -> Result<Matrix<'a>, Error> {
        let asked = asked.unwrap_or(METRIC);
        let (mut all, mut means) = (Vec::new(), Vec::new());
        for (base, first) in names.iter().enumerate() {
            for (other, second) in names.iter().enumerate() {
                let (compared, _) = pair(store, &[side(first)?, side(second)?])?;
                for comparison in &compared {
                    let Some(change) = comparison.changes(Some(asked), store)?.into_iter().next() else { continue };
                    let variant = comparison.variant.clone();
                    if base == other {
                        means.push((variant, base, change.means[0]));
                        continue;
                    }
                    let pairs = comparison.pairs.len();
                    all.push(Of { variant, sides: [base, other], pairs, change, survives: false });
                }
            }
        }
        let count = correct(&mut all);
        Ok(Matrix { names, asked, all, means, count })
    }

    fn unit(&self) -> (&str, Unit) {
        let known = self.all.first().and_then(|of| metric::find(of.change.metric));
        known.map_or((self.asked, Unit::Times), |known| (known.name, known.unit))
    }

    fn found(&self, variant: &str, sides: [usize; 2]) -> Option<&Of> {
        self.all.iter().find(|of| of.variant == variant && of.sides == sides)
    }

    /// For people: a row a result, a column a baseline; what to know of it; and cells in their order that are better or worse.
    pub(super) fn wide(&self) -> (Frame, String, Vec<(String, bool)>) {
        let (name, unit) = self.unit();
        let varied = self.means.iter().any(|(variant, ..)| !variant.is_empty());
        let mut columns = vec![
            Column::words("variant").in_text(varied),
            Column::words("policy"),
            Column::of(name.to_string(), unit).head("mean"),
        ];
        columns.extend(self.names.iter().map(|name| Column::words(format!("vs_{name}")).head(format!("vs {name}"))));
        let mut frame = Frame::new(columns);
        let most = self.all.iter().map(|of| of.pairs).max().unwrap_or(0);
        let mut means: Vec<&(String, usize, f64)> = self.means.iter().collect();
        // The points of the sweep in their order, and the results in theirs.
        let first = |variant: &str| self.means.iter().position(|(known, ..)| known == variant);
        means.sort_by_key(|(variant, side, _)| (first(variant), *side));
        let mut verdicts = Vec::new();
        for (variant, row, mean) in means {
            let mut against = |base: usize| match self.found(variant, [base, *row]) {
                _ if base == *row => "-".into(),
                Some(of) => {
                    let words = in_words(of, most);
                    let verdict = of.is_better().map(|is_better| (words.clone(), is_better));
                    verdicts.extend(verdict);
                    words
                }
                None => "?".into(),
            };
            let mut cells: Vec<Value> = vec![variant.as_str().into(), self.names[*row].into(), (*mean).into()];
            cells.extend((0..self.names.len()).map(|base| Value::from(against(base))));
            frame.push(cells);
        }
        let notes = format!(
            "{name}: what each row is off a column, over paired seeds, ± half the 95 % interval (Student's); * differs at 5 % \
             among all {} pairs together (Holm). Means are over all seeds of each; (n) says of how many seeds a pair is \
             where that is fewer than {most}\n",
            self.count
        );
        (frame, notes, verdicts)
    }

    /// For programs: a row a pair.
    pub(super) fn long(&self) -> Frame {
        let mut frame = Frame::new([
            Column::words("variant"),
            Column::words("policy"),
            Column::words("against"),
            Column::words("metric"),
            Column::number("change"),
            Column::number("low"),
            Column::number("high"),
            Column::count("pairs"),
            Column::words("holm"),
        ]);
        for of in &self.all {
            let interval = of.change.effect.and_then(|effect| effect.interval());
            frame.push([
                (&of.variant).into(),
                self.names[of.sides[1]].into(),
                self.names[of.sides[0]].into(),
                of.change.metric.into(),
                of.change.effect.map(|effect| effect.mean).into(),
                interval.map(|(low, _)| low).into(),
                interval.map(|(_, high)| high).into(),
                of.pairs.into(),
                of.survives.into(),
            ]);
        }
        frame
    }
}

/// Marks the pairs that differ at 5 % among all of them, each counted once; how many there are.
fn correct(all: &mut [Of]) -> usize {
    let tested = |of: &Of| of.change.effect.filter(|_| !of.change.same).and_then(|effect| effect.p_value());
    let once: Vec<usize> = (0..all.len()).filter(|at| all[*at].sides[0] < all[*at].sides[1]).collect();
    // Changes one way round are other numbers than the other way: a pair differs where both say so, in whatever order it is named.
    // Where one way has no ratio, a value being 0, the other may have one.
    let both = |at: &usize| {
        let (own, [base, other]) = (&all[*at], all[*at].sides);
        let back = all.iter().find(|of| of.variant == own.variant && of.sides == [other, base]);
        let ways = [tested(own), back.and_then(tested)];
        Some((*at, ways.into_iter().flatten().max_by(f64::total_cmp)?))
    };
    let known: Vec<(usize, f64)> = once.iter().filter_map(both).collect();
    let p_values: Vec<f64> = known.iter().map(|(_, p)| *p).collect();
    for ((at, _), survives) in known.iter().zip(holm(&p_values)) {
        let (variant, [base, other]) = (all[*at].variant.clone(), all[*at].sides);
        let both = |of: &&mut Of| of.variant == variant && (of.sides == [base, other] || of.sides == [other, base]);
        all.iter_mut().filter(both).for_each(|of| of.survives = survives);
    }
    once.len()
}

fn in_words(of: &Of, most: usize) -> String {
    let count = if of.pairs < most { format!(" ({})", of.pairs) } else { String::new() };
    let mark = if of.survives { " *" } else { "" };
    let Some(effect) = of.change.effect else { return format!("no ratio{count}{mark}") };
    let interval = if effect.half.is_finite() { format!(" ± {:.1}", effect.half * 100.0) } else { String::new() };
    format!("{}{interval}{count}{mark}", percent(effect.mean, true))
}
