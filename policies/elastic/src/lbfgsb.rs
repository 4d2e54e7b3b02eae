//! L-BFGS-B (Byrd, Lu, Nocedal and Zhu, SIAM J. Sci. Comput. 16(5), 1995; Zhu, Byrd, Lu and Nocedal, ACM TOMS 23(4), 1997;
//! the projection of Morales and Nocedal, ACM TOMS 38(1), 2011): a minimum of a function of a few variables between
//! bounds, by its slopes. Few enough that the approximate Hessian is a whole matrix.
//
// After L-BFGS-B 3.0 by Ciyou Zhu, Richard Byrd, Peihuang Lu-Chen, Jorge Nocedal and Jose Luis Morales, released under the
// New BSD License (3 clauses; text in THIRD-PARTY.md). Changed: written anew in Rust on a whole matrix instead of the
// compact form; its steps, order, restarts and constants (and SciPy's defaults) are kept, so that it ends where it does.

use std::cmp::Ordering;

use crate::search::{Search, Verdict};

/// Variables.
const N: usize = 7;
/// Pairs of steps and changes of slope that are remembered.
const MEMORY: usize = 10;

type Vector = [f64; N];
type Matrix = [Vector; N];

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times(matrix: &Matrix, vector: &Vector) -> Vector {
    std::array::from_fn(|row| dot(&matrix[row], vector))
}

/// The approximate Hessian: `scale` times one, changed by each pair in turn.
fn hessian(pairs: &[(Vector, Vector)]) -> Matrix {
    let scale = pairs.last().map_or(1.0, |(step, change)| dot(change, change) / dot(step, change));
    let mut matrix: Matrix = std::array::from_fn(|i| std::array::from_fn(|j| if i == j { scale } else { 0.0 }));
    for (step, change) in pairs {
        let along = times(&matrix, step);
        let (curve, gain) = (dot(step, &along), dot(step, change));
        for i in 0..N {
            for j in 0..N {
                matrix[i][j] += change[i] * change[j] / gain - along[i] * along[j] / curve;
            }
        }
    }
    matrix
}

/// The first minimum of the quadratic model on the way down that bends at the bounds.
fn cauchy(x: &Vector, slope: &Vector, least: &Vector, most: &Vector, matrix: &Matrix) -> Vector {
    let breaks: Vector = std::array::from_fn(|i| match slope[i] {
        s if s < 0.0 => (x[i] - most[i]) / s,
        s if s > 0.0 => (x[i] - least[i]) / s,
        _ => f64::INFINITY,
    });
    let mut way: Vector = std::array::from_fn(|i| if breaks[i] <= 0.0 { 0.0 } else { -slope[i] });
    let mut gone: Vector = [0.0; N];
    let mut order: Vec<usize> = (0..N).filter(|i| breaks[*i] > 0.0).collect();
    order.sort_by(|a, b| breaks[*a].total_cmp(&breaks[*b]));
    let mut before = 0.0;
    for i in order {
        if way.iter().all(|d| *d == 0.0) {
            break;
        }
        let falls = dot(slope, &way) + dot(&way, &times(matrix, &gone));
        let bends = dot(&way, &times(matrix, &way)).max(f64::MIN_POSITIVE);
        let best = (-falls / bends).max(0.0);
        let length = breaks[i] - before;
        if best < length {
            gone.iter_mut().zip(way).for_each(|(gone, way)| *gone += best * way);
            return std::array::from_fn(|i| x[i] + gone[i]);
        }
        gone.iter_mut().zip(way).for_each(|(gone, way)| *gone += length * way);
        // At its bound exactly.
        gone[i] = if way[i] > 0.0 { most[i] - x[i] } else { least[i] - x[i] };
        way[i] = 0.0;
        before = breaks[i];
    }
    std::array::from_fn(|i| x[i] + gone[i])
}

/// From there to the minimum of the model over the variables that are at no bound.
fn subspace(x: &Vector, from: &Vector, slope: &Vector, least: &Vector, most: &Vector, matrix: &Matrix) -> Vector {
    let free: Vec<usize> = (0..N).filter(|i| from[*i] > least[*i] && from[*i] < most[*i]).collect();
    let gone: Vector = std::array::from_fn(|i| from[i] - x[i]);
    let bent = times(matrix, &gone);
    let Some(step) = solve(matrix, &free, |i| -(slope[i] + bent[i])) else { return *from };
    let mut aim = *from;
    for (i, by) in free.iter().zip(&step) {
        aim[*i] = (from[*i] + by).clamp(least[*i], most[*i]);
    }
    let way: Vector = std::array::from_fn(|i| aim[i] - x[i]);
    if dot(&way, slope) <= 0.0 {
        return aim;
    }
    // The projection goes up: then only as far as the first bound.
    let mut part: f64 = 1.0;
    for (i, by) in free.iter().zip(&step) {
        let room = if *by > 0.0 { most[*i] - from[*i] } else { least[*i] - from[*i] };
        if *by != 0.0 {
            part = part.min(room / by);
        }
    }
    let mut aim = *from;
    for (i, by) in free.iter().zip(&step) {
        aim[*i] = (from[*i] + part * by).clamp(least[*i], most[*i]);
    }
    aim
}

/// Solves for the free variables by Cholesky's decomposition; none where the matrix is not positive.
fn solve(matrix: &Matrix, free: &[usize], right: impl Fn(usize) -> f64) -> Option<Vec<f64>> {
    let n = free.len();
    let mut low = [[0.0; N]; N];
    for i in 0..n {
        for j in 0..=i {
            let sum = (0..j).fold(matrix[free[i]][free[j]], |sum, k| sum - low[i][k] * low[j][k]);
            if i == j && sum <= 0.0 {
                return None;
            }
            low[i][j] = if i == j { sum.sqrt() } else { sum / low[j][j] };
        }
    }
    let mut x = vec![0.0; n];
    for i in 0..n {
        x[i] = (0..i).fold(right(free[i]), |sum, k| sum - low[i][k] * x[k]) / low[i][i];
    }
    for i in (0..n).rev() {
        x[i] = (i + 1..n).fold(x[i], |sum, k| sum - low[k][i] * x[k]) / low[i][i];
    }
    Some(x)
}

/// How many times a way can be gone until a bound stops it.
fn room(x: &Vector, way: &Vector, least: &Vector, most: &Vector) -> f64 {
    let until = |i: usize| match way[i] {
        d if d > 0.0 => (most[i] - x[i]) / d,
        d if d < 0.0 => (least[i] - x[i]) / d,
        _ => f64::INFINITY,
    };
    (0..N).map(until).fold(1e10, f64::min)
}

/// A minimum between the bounds, from `x`; with SciPy's tolerances.
pub fn minimise(mut x: Vector, least: &Vector, most: &Vector, mut of: impl FnMut(&Vector) -> (f64, Vector)) -> Vector {
    let flat = |x: &Vector, slope: &Vector| {
        // The slope that a bound does not stop.
        (0..N).all(|i| ((x[i] - slope[i]).clamp(least[i], most[i]) - x[i]).abs() <= 1e-5)
    };
    let (mut value, mut slope) = of(&x);
    let mut pairs: Vec<(Vector, Vector)> = Vec::new();
    for turn in 0..500 {
        if flat(&x, &slope) {
            break;
        }
        let matrix = hessian(&pairs);
        let from = cauchy(&x, &slope, least, most, &matrix);
        let aim = if pairs.is_empty() { from } else { subspace(&x, &from, &slope, least, most, &matrix) };
        let way: Vector = std::array::from_fn(|i| aim[i] - x[i]);
        let falls = dot(&way, &slope);
        let length = dot(&way, &way).sqrt();
        // Not below 0: up, or no number.
        if falls.partial_cmp(&0.0) != Some(Ordering::Less) || length == 0.0 {
            if pairs.is_empty() {
                break;
            }
            // A model that points up is forgotten.
            pairs.clear();
            continue;
        }
        // Bounds stop the search; the model's own step stays within them.
        let longest = if turn == 0 { 1.0 } else { room(&x, &way, least, most) };
        let first = if turn == 0 { (1.0 / length).min(longest) } else { 1.0 };
        let mut search = Search::new(value, falls, first, longest);
        let (mut next, mut trial) = (x, (value, slope));
        let mut found = false;
        for _ in 0..20 {
            let step = search.step();
            next = std::array::from_fn(|i| (x[i] + step * way[i]).clamp(least[i], most[i]));
            trial = of(&next);
            match search.judge(trial.0, dot(&trial.1, &way)) {
                Verdict::Goes => {}
                Verdict::Found => {
                    found = true;
                    break;
                }
                Verdict::Fails => break,
            }
        }
        let fell = value - trial.0;
        if (!found && fell <= 0.0) || !fell.is_finite() {
            if pairs.is_empty() {
                break;
            }
            pairs.clear();
            continue;
        }
        let step: Vector = std::array::from_fn(|i| next[i] - x[i]);
        let change: Vector = std::array::from_fn(|i| trial.1[i] - slope[i]);
        let scale = value.abs().max(trial.0.abs()).max(1.0);
        (x, value, slope) = (next, trial.0, trial.1);
        if fell <= 2.220446049250313e-9 * scale {
            break;
        }
        if dot(&step, &change) > f64::EPSILON * -falls * dot(&step, &step).sqrt() / length {
            if pairs.len() == MEMORY {
                pairs.remove(0);
            }
            pairs.push((step, change));
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bent_valley_is_followed_to_its_end_and_to_a_bound() {
        // Rosenbrock's, in the first two; a bowl in the others.
        let of = |x: &Vector| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            let mut slope = [0.0; N];
            slope[0] = -2.0 * a - 400.0 * x[0] * b;
            slope[1] = 200.0 * b;
            let mut value = a * a + 100.0 * b * b;
            for i in 2..N {
                value += (x[i] - 3.0) * (x[i] - 3.0);
                slope[i] = 2.0 * (x[i] - 3.0);
            }
            (value, slope)
        };
        let start = [-1.2, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let found = minimise(start, &[-5.0; N], &[5.0; N], of);
        let expected = [1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?}");
        let mut most = [5.0; N];
        (most[0], most[6]) = (0.5, 2.0);
        let found = minimise(start, &[-5.0; N], &most, of);
        assert!((found[0] - 0.5).abs() < 1e-6 && (found[1] - 0.25).abs() < 1e-3 && found[6] == 2.0, "{found:?}");
    }
}
