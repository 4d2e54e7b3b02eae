//! Gavel's objectives as linear programs (Narayanan et al., OSDI 2020): what part of the time each job spends on each
//! type of GPU.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, Variable};

/// What an allocation is worked out from.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Throughput of each job on each type; 0: it does not run there.
    pub throughput: Vec<Vec<f64>>,
    /// GPUs of each job.
    pub gang: Vec<f64>,
    /// Weight of each job.
    pub weight: Vec<f64>,
    /// GPUs of each type.
    pub capacity: Vec<f64>,
}

/// Parts of the time by job and type.
pub type Allocation = Vec<Vec<f64>>;

impl Question {
    /// Everybody's share of every type, scaled so that the greatest row sum is 1.
    pub fn equal_share(&self) -> Vec<f64> {
        let jobs = self.gang.len() as f64;
        let raw: Vec<f64> = self.capacity.iter().map(|count| count / jobs).collect();
        let sum: f64 = raw.iter().sum();
        if sum > 0.0 { raw.into_iter().map(|part| part / sum).collect() } else { raw }
    }

    /// The throughput that an equal share gives a job.
    pub fn proportional(&self, job: usize) -> f64 {
        self.throughput[job].iter().zip(self.equal_share()).map(|(rate, part)| rate * part).sum()
    }

    /// A program with the constraints that every objective shares: `∑ X ≤ 1` by job, `∑ z X ≤ N` by type; and its
    /// variables: the objective's, and X.
    fn program(&self) -> (Problem, Variable, Vec<Vec<Option<Variable>>>) {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let goal = problem.add_var(1.0, (0.0, f64::INFINITY));
        let jobs = self.gang.len();
        let runs = |job: usize, kind: usize| self.throughput[job][kind] > 0.0;
        let x: Vec<Vec<Option<Variable>>> = (0..jobs)
            .map(|job| {
                let types = 0..self.capacity.len();
                types.map(|kind| runs(job, kind).then(|| problem.add_var(0.0, (0.0, 1.0)))).collect()
            })
            .collect();
        for row in &x {
            let mut sum = LinearExpr::empty();
            row.iter().flatten().for_each(|var| sum.add(*var, 1.0));
            problem.add_constraint(sum, ComparisonOp::Le, 1.0);
        }
        for kind in 0..self.capacity.len() {
            let mut sum = LinearExpr::empty();
            for (job, row) in x.iter().enumerate() {
                row[kind].into_iter().for_each(|var| sum.add(var, self.gang[job]));
            }
            problem.add_constraint(sum, ComparisonOp::Le, self.capacity[kind]);
        }
        (problem, goal, x)
    }

    /// Maximises the objective `t` under `factor_j · ∑ T X ≥ t · need_j` for every job.
    fn solve(&self, factor: impl Fn(usize) -> f64, need: impl Fn(usize) -> f64) -> Option<(f64, Allocation)> {
        let (mut problem, goal, x) = self.program();
        for (job, row) in x.iter().enumerate() {
            // One that runs nowhere can't hold the others back.
            if row.iter().all(Option::is_none) {
                continue;
            }
            let mut rate = LinearExpr::empty();
            for (kind, var) in row.iter().enumerate() {
                var.iter().for_each(|var| rate.add(*var, factor(job) * self.throughput[job][kind]));
            }
            rate.add(goal, -need(job));
            problem.add_constraint(rate, ComparisonOp::Ge, 0.0);
        }
        let solution = problem.solve().ok()?;
        let part = |var: &Option<Variable>| var.map_or(0.0, |var| solution[var].clamp(0.0, 1.0));
        let allocation = x.iter().map(|row| row.iter().map(part).collect()).collect();
        Some((solution.objective(), allocation))
    }

    /// Max-min fairness: the least `z / w · T X / T X_equal` is as large as can be. None: the solver gave up.
    pub fn max_min(&self) -> Option<(f64, Allocation)> {
        let factor = |job: usize| match self.proportional(job) {
            0.0 => 0.0,
            equal => self.gang[job] / self.weight[job] / equal,
        };
        self.solve(factor, |_| 1.0)
    }

    /// Least makespan of so many steps each: the largest `u` with `T X ≥ steps · u`; exact where the published code
    /// bisects to 5 %. The first is the makespan.
    pub fn makespan(&self, steps: &[f64]) -> Option<(f64, Allocation)> {
        let (rate, allocation) = self.solve(|_| 1.0, |job| steps[job])?;
        Some((1.0 / rate, allocation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(throughput: &[&[f64]], gang: &[f64], weight: &[f64], capacity: &[f64]) -> Question {
        Question {
            throughput: throughput.iter().map(|row| row.to_vec()).collect(),
            gang: gang.to_vec(),
            weight: weight.to_vec(),
            capacity: capacity.to_vec(),
        }
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found}, expected {expected}");
    }

    /// `schedulers.md` §8.
    #[test]
    fn golden_vectors() {
        let two: [&[f64]; 2] = [&[2.0, 1.0, 0.5], &[3.0, 2.0, 1.0]];
        let even = question(&two, &[1.0, 1.0], &[1.0, 1.0], &[1.0, 2.0, 3.0]);
        near(even.proportional(0), 0.916_666_7);
        near(even.proportional(1), 1.666_666_7);
        near(even.max_min().expect("a solution").0, 1.548_387_1);
        let weighted = question(&two, &[1.0, 2.0], &[1.0, 2.0], &[1.0, 1.0, 1.0]);
        near(weighted.max_min().expect("a solution").0, 1.02);
        let three: [&[f64]; 3] = [&[4.0, 1.0], &[3.0, 1.0], &[2.0, 1.0]];
        let three = question(&three, &[1.0; 3], &[1.0; 3], &[1.0, 1.0]);
        near(three.proportional(2), 1.5);
        near(three.max_min().expect("a solution").0, 0.727_272_7);
        near(three.makespan(&[1000.0, 2000.0, 3000.0]).expect("a solution").0, 1750.0);
    }

    #[test]
    fn an_allocation_gives_no_more_than_there_is() {
        let rates: [&[f64]; 3] = [&[4.0, 1.0], &[3.0, 0.0], &[2.0, 1.0]];
        let question = question(&rates, &[1.0, 4.0, 2.0], &[1.0; 3], &[4.0, 2.0]);
        let (_, x) = question.max_min().expect("a solution");
        for row in &x {
            assert!(row.iter().sum::<f64>() <= 1.0 + 1e-9, "{x:?}");
        }
        for kind in 0..2 {
            let used: f64 = x.iter().zip(&question.gang).map(|(row, gang)| row[kind] * gang).sum();
            assert!(used <= question.capacity[kind] + 1e-9, "{x:?}");
        }
        assert_eq!(x[1][1], 0.0, "it does not run there");
    }
}
