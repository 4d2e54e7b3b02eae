//! The axes of a sweep.

use sandtable_plan::Plan;

/// An axis of a sweep.
pub(super) struct SweepAxis<'a> {
    /// Its path in the spec.
    pub(super) path: &'a str,
    /// Its values as they are written, each once, in the order of the spec.
    pub(super) values: Vec<&'a str>,
}

impl SweepAxis<'_> {
    /// The place of a value.
    pub(super) fn place(&self, value: &str) -> Option<usize> {
        self.values.iter().position(|known| *known == value.trim())
    }

    /// Its values as numbers, where all of them are.
    pub(super) fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(|value| value.parse().ok()).collect()
    }
}

/// The axes of a plan, in the order of the spec; none where nothing is swept.
pub(super) fn axes(plan: &Plan) -> Vec<SweepAxis<'_>> {
    let mut all: Vec<SweepAxis<'_>> = Vec::new();
    for cell in &plan.cells {
        for (at, (path, value)) in cell.variant.iter().enumerate() {
            if at == all.len() {
                all.push(SweepAxis { path, values: Vec::new() });
            }
            if all[at].place(value).is_none() {
                all[at].values.push(value.trim());
            }
        }
    }
    all
}
