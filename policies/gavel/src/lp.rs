//! Gavel's objectives as linear programs (Narayanan et al., OSDI 2020): what part of the time each job spends on each
//! type of GPU.

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, Variable};

/// What an allocation is worked out from: a row for each class of jobs that are alike.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Throughput of a job on each type; 0: it does not run there.
    pub throughput: Vec<Vec<f64>>,
    /// GPUs of a job.
    pub gang: Vec<f64>,
    /// Weight of a job.
    pub weight: Vec<f64>,
    /// Jobs of the class.
    pub count: Vec<f64>,
    /// GPUs of each type.
    pub capacity: Vec<f64>,
}

/// How far a job is, for its finish-time fairness.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Steps left.
    pub steps: f64,
    /// Seconds since it came.
    pub age: f64,
    /// Seconds from its arrival to its end with nothing but its share of the cluster.
    pub isolated: f64,
}

/// How close the worst finish-time fairness comes to the least that there is, relative.
const NEAR: f64 = 1e-3;

/// Parts of the time by class, job and type.
pub type Allocation = Vec<Vec<Vec<f64>>>;

impl Question {
    /// Each job's share of every type, scaled so that the greatest row sum is 1.
    pub fn equal_share(&self) -> Vec<f64> {
        let jobs: f64 = self.count.iter().sum();
        let raw: Vec<f64> = self.capacity.iter().map(|count| count / jobs).collect();
        let sum: f64 = raw.iter().sum();
        if sum > 0.0 { raw.into_iter().map(|part| part / sum).collect() } else { raw }
    }

    /// The throughput that an equal share gives a job.
    pub fn proportional(&self, class: usize) -> f64 {
        self.throughput[class].iter().zip(self.equal_share()).map(|(rate, part)| rate * part).sum()
    }

    /// Steps that a job of a class does in a second with its share of the cluster: of each type `N / (jobs · gang)` of the time,
    /// scaled to at most all of it.
    pub fn isolated(&self, class: usize) -> f64 {
        let each = self.count.iter().sum::<f64>() * self.gang[class];
        let parts = self.capacity.iter().map(|count| count / each);
        let rate: f64 = self.throughput[class].iter().zip(parts.clone()).map(|(rate, part)| rate * part).sum();
        rate / parts.sum::<f64>().max(1.0)
    }

    /// Maximises `t` under `factor · ∑ T X ≥ t · need` by class, X being the mean over its jobs; `∑ X ≤ most` by class,
    /// `∑ n z X ≤ N` by type.
    fn solve(
        &self,
        factor: impl Fn(usize) -> f64,
        need: impl Fn(usize) -> f64,
        most: impl Fn(usize) -> f64,
    ) -> Option<(f64, Vec<Vec<f64>>)> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let goal = problem.add_var(1.0, (0.0, f64::INFINITY));
        let types = self.capacity.len();
        let mut x: Vec<Vec<Option<Variable>>> = Vec::with_capacity(self.gang.len());
        for (class, rates) in self.throughput.iter().enumerate() {
            let row = rates.iter().map(|rate| (*rate > 0.0).then(|| problem.add_var(0.0, (0.0, 1.0)))).collect();
            let (mut time, mut rate) = (LinearExpr::empty(), LinearExpr::empty());
            let row: Vec<Option<Variable>> = row;
            for (var, rate_there) in row.iter().zip(rates) {
                if let Some(var) = var {
                    time.add(*var, 1.0);
                    rate.add(*var, factor(class) * rate_there);
                }
            }
            // One that runs nowhere can't hold the others back.
            if row.iter().any(Option::is_some) {
                problem.add_constraint(time, ComparisonOp::Le, most(class));
                rate.add(goal, -need(class));
                problem.add_constraint(rate, ComparisonOp::Ge, 0.0);
            }
            x.push(row);
        }
        for kind in 0..types {
            let mut used = LinearExpr::empty();
            for (class, row) in x.iter().enumerate() {
                row[kind].into_iter().for_each(|var| used.add(var, self.count[class] * self.gang[class]));
            }
            problem.add_constraint(used, ComparisonOp::Le, self.capacity[kind]);
        }
        let solution = problem.solve().ok()?;
        let part = |var: &Option<Variable>| var.map_or(0.0, |var| solution[var].clamp(0.0, 1.0));
        Some((solution.objective(), x.iter().map(|row| row.iter().map(part).collect()).collect()))
    }

    /// Max-min fairness: the least `z / w · T X / T X_equal` is as large as can be. None: the solver gave up.
    pub fn max_min(&self) -> Option<(f64, Allocation)> {
        let factor = |class: usize| match self.proportional(class) {
            0.0 => 0.0,
            equal => self.gang[class] / self.weight[class] / equal,
        };
        let (least, means) = self.solve(factor, |_| 1.0, |_| 1.0)?;
        let each = |(row, count): (Vec<f64>, &f64)| vec![row; *count as usize];
        Some((least, means.into_iter().zip(&self.count).map(each).collect()))
    }

    /// Least makespan of so many steps of each job: the largest `u` with `T X ≥ steps · u`; exact where the published
    /// code bisects to 5 %. Within a class time goes by steps. The first is the makespan.
    pub fn makespan(&self, steps: &[Vec<f64>]) -> Option<(f64, Allocation)> {
        let mean = |class: usize| steps[class].iter().sum::<f64>() / steps[class].len() as f64;
        let longest = |class: usize| steps[class].iter().copied().fold(0.0, f64::max);
        // The job with the most steps may not get more than all the time.
        let (rate, means) = self.solve(|_| 1.0, mean, |class| mean(class) / longest(class))?;
        let each = |(class, row): (usize, Vec<f64>)| {
            let part = |own: &f64| row.iter().map(|x| (x * own / mean(class)).min(1.0)).collect();
            steps[class].iter().map(part).collect()
        };
        Some((1.0 / rate, means.into_iter().enumerate().map(each).collect()))
    }

    /// Finish-time fairness: the worst `(age + steps / T X) / isolated` is as small as can be, to a thousandth. For each candidate
    /// the rates that it asks for are a linear program. The first is the worst.
    pub fn finish_time_fairness(&self, jobs: &[Vec<Progress>]) -> Option<(f64, Allocation)> {
        let runs = |class: &usize| self.throughput[*class].iter().any(|rate| *rate > 0.0);
        let all = || (0..jobs.len()).filter(runs).flat_map(|class| &jobs[class]);
        // No job's age shrinks: a candidate below is out of reach.
        let mut low = all().map(|job| job.age / job.isolated).fold(0.0, f64::max);
        let with = |worst: f64| -> Option<Allocation> {
            let needs = |class: &Vec<Progress>| {
                class.iter().map(|job| job.steps / (worst * job.isolated - job.age).max(1e-12)).collect()
            };
            let (time, allocation) = self.makespan(&jobs.iter().map(needs).collect::<Vec<Vec<f64>>>())?;
            (time <= 1.0).then_some(allocation)
        };
        let mut high = (2.0 * low).max(1.0);
        let mut found = loop {
            match with(high) {
                Some(found) => break found,
                None if high > 1e12 => return None,
                None => (low, high) = (high, 2.0 * high),
            }
        };
        while high - low > NEAR * high {
            let middle = (low + high) / 2.0;
            match with(middle) {
                Some(better) => (high, found) = (middle, better),
                None => low = middle,
            }
        }
        Some((high, found))
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
            count: vec![1.0; gang.len()],
            capacity: capacity.to_vec(),
        }
    }

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found}, expected {expected}");
    }

    /// Worked out apart from this code, with HiGHS.
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
        let steps = [1000.0, 2000.0, 3000.0].map(|steps| vec![steps]);
        near(three.makespan(&steps).expect("a solution").0, 1750.0);
    }

    #[test]
    fn whoever_has_waited_catches_up() {
        let one = question(&[&[1.0], &[1.0]], &[1.0; 2], &[1.0; 2], &[1.0]);
        near(one.isolated(0), 0.5);
        let job = |steps, age, isolated| vec![Progress { steps, age, isolated }];
        let close = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 2e-3, "{found}, {expected}");
        let (worst, x) =
            one.finish_time_fairness(&[job(100.0, 0.0, 200.0), job(300.0, 0.0, 600.0)]).expect("a solution");
        close(worst, 1.0);
        close(x[0][0][0], 0.5);
        // By hand: (100 + 100 / x) / 200 = 300 / (1 - x) / 600 where 1 - x x = x.
        let (worst, x) =
            one.finish_time_fairness(&[job(100.0, 100.0, 200.0), job(300.0, 0.0, 600.0)]).expect("a solution");
        let x0 = (5f64.sqrt() - 1.0) / 2.0;
        close(x[0][0][0], x0);
        close(worst, 0.5 / (1.0 - x0));
        // A gang of two of three GPUs, beside one that needs one: shares of 3 / (2 · 2) and, scaled, 1.
        let gangs = question(&[&[2.0], &[1.0]], &[2.0, 1.0], &[1.0; 2], &[3.0]);
        near(gangs.isolated(0), 1.5);
        near(gangs.isolated(1), 1.0);
    }

    #[test]
    fn an_allocation_gives_no_more_than_there_is() {
        let rates: [&[f64]; 3] = [&[4.0, 1.0], &[3.0, 0.0], &[2.0, 1.0]];
        let question = question(&rates, &[1.0, 4.0, 2.0], &[1.0; 3], &[4.0, 2.0]);
        let (_, x) = question.max_min().expect("a solution");
        for row in &x {
            assert!(row[0].iter().sum::<f64>() <= 1.0 + 1e-9, "{x:?}");
        }
        for kind in 0..2 {
            let used: f64 = x.iter().zip(&question.gang).map(|(row, gang)| row[0][kind] * gang).sum();
            assert!(used <= question.capacity[kind] + 1e-9, "{x:?}");
        }
        assert_eq!(x[1][0][1], 0.0, "it does not run there");
    }

    /// A class of alike jobs has the optimum of its jobs one by one.
    #[test]
    fn classes_are_as_good_as_jobs() {
        let rates: [&[f64]; 2] = [&[4.0, 1.0], &[3.0, 2.0]];
        let classes = Question { count: vec![3.0, 2.0], ..question(&rates, &[1.0, 2.0], &[1.0; 2], &[3.0, 3.0]) };
        let each: [&[f64]; 5] = [rates[0], rates[0], rates[0], rates[1], rates[1]];
        let jobs = question(&each, &[1.0, 1.0, 1.0, 2.0, 2.0], &[1.0; 5], &[3.0, 3.0]);
        near(classes.max_min().expect("a solution").0, jobs.max_min().expect("a solution").0);
        let steps = [vec![100.0, 700.0, 50.0], vec![300.0, 200.0]];
        let single: Vec<Vec<f64>> = steps.iter().flatten().map(|steps| vec![*steps]).collect();
        let (together, x) = classes.makespan(&steps).expect("a solution");
        near(together, jobs.makespan(&single).expect("a solution").0);
        assert!(x[0][1].iter().sum::<f64>() <= 1.0 + 1e-9, "{x:?}");
    }
}
