//! Ridge regression on few rows, its strength chosen by leaving one out.

/// A fitted regression.
pub struct Ridge {
    weights: Vec<f64>,
    means: Vec<f64>,
    mean: f64,
    /// Predictions are cut to what was seen: beyond it they blow up.
    range: (f64, f64),
}

/// Strengths that are tried.
const STRENGTHS: [f64; 6] = [1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3];

impl Ridge {
    /// Fits rows to targets; none where there are fewer than three.
    pub fn fit(rows: &[Vec<f64>], targets: &[f64]) -> Option<Ridge> {
        if rows.len() < 3 {
            return None;
        }
        let error = |strength: f64| -> Option<f64> {
            let mut sum = 0.0;
            for out in 0..rows.len() {
                let rest = |at: &usize| *at != out;
                let kept: Vec<usize> = (0..rows.len()).filter(rest).collect();
                let fitted = solve(rows, targets, &kept, strength)?;
                let gap = fitted.raw(&rows[out]) - targets[out];
                sum += gap * gap;
            }
            Some(sum)
        };
        let mut best: Option<(f64, f64)> = None;
        for strength in STRENGTHS {
            if let Some(error) = error(strength)
                && best.is_none_or(|(least, _)| error < least)
            {
                best = Some((error, strength));
            }
        }
        let all: Vec<usize> = (0..rows.len()).collect();
        solve(rows, targets, &all, best?.1)
    }

    /// The prediction, cut to the range of the targets.
    pub fn predict(&self, row: &[f64]) -> f64 {
        self.raw(row).clamp(self.range.0, self.range.1)
    }

    fn raw(&self, row: &[f64]) -> f64 {
        let terms = row.iter().zip(&self.means).zip(&self.weights);
        terms.fold(self.mean, |sum, ((x, mean), weight)| sum + (x - mean) * weight)
    }
}

fn solve(rows: &[Vec<f64>], targets: &[f64], kept: &[usize], strength: f64) -> Option<Ridge> {
    let (count, width) = (kept.len() as f64, rows[kept[0]].len());
    let means: Vec<f64> = (0..width).map(|at| kept.iter().map(|row| rows[*row][at]).sum::<f64>() / count).collect();
    let mean = kept.iter().map(|row| targets[*row]).sum::<f64>() / count;
    // The normal equations, with the right side as a last column.
    let mut system = vec![vec![0.0; width + 1]; width];
    for row in kept {
        let x: Vec<f64> = rows[*row].iter().zip(&means).map(|(x, mean)| x - mean).collect();
        for i in 0..width {
            for j in 0..width {
                system[i][j] += x[i] * x[j];
            }
            system[i][width] += x[i] * (targets[*row] - mean);
        }
    }
    (0..width).for_each(|i| system[i][i] += strength);
    // A positive definite matrix needs no pivoting.
    for i in 0..width {
        let pivot = system[i][i];
        if pivot.abs() < 1e-12 {
            return None;
        }
        for below in i + 1..width {
            let factor = system[below][i] / pivot;
            let above = system[i].clone();
            system[below].iter_mut().zip(above).skip(i).for_each(|(x, y)| *x -= factor * y);
        }
    }
    let mut weights = vec![0.0; width];
    for i in (0..width).rev() {
        let known: f64 = (i + 1..width).map(|j| system[i][j] * weights[j]).sum();
        weights[i] = (system[i][width] - known) / system[i][i];
    }
    let targets = kept.iter().map(|row| targets[*row]);
    let range = targets.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    Some(Ridge { weights, means, mean, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_never_left() {
        let rows: Vec<Vec<f64>> = (0..10).map(|x| vec![f64::from(x), 1.0]).collect();
        let targets: Vec<f64> = (0..10).map(|x| 3.0 + 0.5 * f64::from(x)).collect();
        let ridge = Ridge::fit(&rows, &targets).expect("a fit");
        assert!((ridge.predict(&[4.0, 1.0]) - 5.0).abs() < 0.01);
        assert_eq!(ridge.predict(&[1e6, 1.0]), 7.5);
        assert!(Ridge::fit(&rows[..2], &targets[..2]).is_none());
    }
}
