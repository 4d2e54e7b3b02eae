//! One parameter on summed utilisation: `y = clamp(1 - a max(0, u_t + u_R - 1), 0.05, 1)`.

use serde::{Deserialize, Serialize};

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// What a GPU's worth of utilisation too much costs.
    pub a: f64,
}

impl Default for Rule {
    /// Our least squares on the 2,776 speeds of Lucid's pairs (RTX 3090; Hu et al., ASPLOS 2023; non-commercial).
    fn default() -> Rule {
        Rule { a: 0.41 }
    }
}

impl Rule {
    /// Fits the parameter to (own utilisation, residents' utilisation, speed), by least squares.
    pub fn fit(rows: &[(f64, f64, f64)]) -> Rule {
        let over = |u: f64, r: f64| (u + r - 1.0).max(0.0);
        let products: f64 = rows.iter().map(|(u, r, y)| over(*u, *r) * (1.0 - y)).sum();
        let squares: f64 = rows.iter().map(|(u, r, _)| over(*u, *r) * over(*u, *r)).sum();
        if squares > 0.0 { Rule { a: (products / squares).max(0.0) } } else { Rule::default() }
    }

    /// Speed of a task of utilisation `own` beside residents of utilisation `residents` together.
    pub fn forward(&self, own: f64, residents: f64) -> f64 {
        (1.0 - self.a * (own + residents - 1.0).max(0.0)).clamp(0.05, 1.0)
    }
}
