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
    change: Change,
    survives: bool,
}

/// What each of several results is off each other one, and what to know of that.
///
/// # Errors
/// Sides that have nothing in common; a metric that there is not.
pub(super) fn matrix(
    asked: Option<&str>,
    names: &[&str],
    side: impl Fn(&str) -> Result<Vec<LabelledResult>, Error>,
    store: &Store,
) -> Result<(Frame, String), Error> {
    let asked = asked.unwrap_or(METRIC);
    let mut all: Vec<Of> = Vec::new();
    for (base, first) in names.iter().enumerate() {
        for (other, second) in names.iter().enumerate().filter(|(other, _)| *other != base) {
            let (compared, _) = pair(store, &[side(first)?, side(second)?])?;
            for comparison in &compared {
                let change = comparison.changes(Some(asked), store)?.into_iter().next();
                let of =
                    |change| Of { variant: comparison.variant.clone(), sides: [base, other], change, survives: false };
                all.extend(change.map(of));
            }
        }
    }
    let pairs = correct(&mut all);
    let known = all.first().and_then(|of| metric::find(of.change.metric));
    let (name, unit) = known.map_or((asked, Unit::Times), |known| (known.name, known.unit));
    let mut variants: Vec<&str> = Vec::new();
    for of in &all {
        if !variants.contains(&of.variant.as_str()) {
            variants.push(&of.variant);
        }
    }
    let mut columns = vec![
        Column::words("variant").in_text(variants.iter().any(|variant| !variant.is_empty())),
        Column::words("policy"),
        Column::of(name.to_string(), unit).head("mean"),
    ];
    columns.extend(names.iter().map(|name| Column::words(format!("vs_{name}")).head(format!("vs {name}"))));
    let mut frame = Frame::new(columns);
    for variant in variants {
        for (row, policy) in names.iter().enumerate() {
            let own = all.iter().find(|of| of.variant == variant && of.sides[1] == row);
            let Some(own) = own else { continue };
            let against = |base: usize| {
                let of = all.iter().find(|of| of.variant == variant && of.sides == [base, row]);
                if base == row { "-".into() } else { of.map_or("?".into(), in_words) }
            };
            let mut cells: Vec<Value> = vec![variant.into(), (*policy).into(), own.change.means[1].into()];
            cells.extend((0..names.len()).map(|base| Value::from(against(base))));
            frame.push(cells);
        }
    }
    let notes = format!(
        "{name}: what each row is off a column, over paired seeds, ± half the 95 % interval (Student's); * differs at 5 % \
         among all {pairs} pairs together (Holm)\n"
    );
    Ok((frame, notes))
}

/// Marks the pairs that differ at 5 % among all of them, each counted once; how many there are.
fn correct(all: &mut [Of]) -> usize {
    let tested = |of: &Of| of.change.effect.filter(|_| !of.change.same).and_then(|effect| effect.p_value());
    let once: Vec<usize> = (0..all.len()).filter(|at| all[*at].sides[0] < all[*at].sides[1]).collect();
    let known: Vec<(usize, f64)> = once.iter().filter_map(|at| Some((*at, tested(&all[*at])?))).collect();
    let p_values: Vec<f64> = known.iter().map(|(_, p)| *p).collect();
    for ((at, _), survives) in known.iter().zip(holm(&p_values)) {
        let (variant, [base, other]) = (all[*at].variant.clone(), all[*at].sides);
        let both = |of: &&mut Of| of.variant == variant && (of.sides == [base, other] || of.sides == [other, base]);
        all.iter_mut().filter(both).for_each(|of| of.survives = survives);
    }
    once.len()
}

fn in_words(of: &Of) -> String {
    let Some(effect) = of.change.effect else { return "?".into() };
    let interval = if effect.half.is_finite() { format!(" ± {:.1}", effect.half * 100.0) } else { String::new() };
    let mark = if of.survives { " *" } else { "" };
    format!("{}{interval}{mark}", percent(effect.mean, true))
}
