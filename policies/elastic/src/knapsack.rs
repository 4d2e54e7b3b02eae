//! How many GPUs each job gets, that the sum of values is greatest: a knapsack in which each job is at most one item.

/// What a job is worth.
pub struct Candidate {
    /// With 1, 2, … GPUs.
    pub values: Vec<f64>,
}

/// GPUs of each job out of so many. Equals prefer to run and fewer GPUs, from the last job backwards.
pub fn deal(candidates: &[Candidate], gpus: u32) -> Vec<u32> {
    let gpus = gpus as usize;
    // Row i: the best of the first i jobs by the GPUs that they may have, from as many as the jobs after them leave at least to
    // as many as they can use. With fewer no answer is looked for, and with more the best stays the same.
    let mut rest: usize = candidates.iter().map(|candidate| candidate.values.len()).sum();
    let mut rows = vec![Row { least: 0, best: vec![0.0] }];
    let mut most = 0;
    for (candidate, before) in candidates.iter().zip(0..) {
        let before: &Row = &rows[before];
        rest -= candidate.values.len();
        most = gpus.min(most + candidate.values.len());
        let least = gpus.saturating_sub(rest).min(most);
        let best = (least..=most).map(|m| {
            let with = (1..=m).zip(&candidate.values).map(|(k, value)| before.at(m - k) + value);
            with.fold(before.at(m), f64::max)
        });
        rows.push(Row { least, best: best.collect() });
    }
    let mut counts = vec![0; candidates.len()];
    let mut left = gpus;
    for i in (0..candidates.len()).rev() {
        let (here, before) = (&rows[i + 1], &rows[i]);
        let exact = |(k, value): &(usize, &f64)| here.at(left) == before.at(left - k) + **value;
        if let Some((k, _)) = (1..=left).zip(&candidates[i].values).find(exact) {
            counts[i] = k as u32;
            left -= k;
        }
    }
    counts
}

/// The best by GPUs, of those from `least` on.
struct Row {
    least: usize,
    best: Vec<f64>,
}

impl Row {
    fn at(&self, gpus: usize) -> f64 {
        self.best[gpus.min(self.least + self.best.len() - 1) - self.least]
    }
}

#[cfg(test)]
mod tests {
    use sandtable_policy::Draws;

    use super::{Candidate, deal};

    /// The same by a table of all numbers of GPUs.
    fn plain(candidates: &[Candidate], gpus: u32) -> Vec<u32> {
        let width = gpus as usize + 1;
        let mut best = vec![vec![0.0f64; width]];
        for candidate in candidates {
            let before = &best[best.len() - 1];
            let of = |m: usize| {
                (1..=m).zip(&candidate.values).fold(before[m], |most, (k, value)| most.max(before[m - k] + value))
            };
            let row = (0..width).map(of).collect();
            best.push(row);
        }
        let (mut counts, mut left) = (vec![0; candidates.len()], gpus as usize);
        for i in (0..candidates.len()).rev() {
            let exact = |(k, value): &(usize, &f64)| best[i + 1][left] == best[i][left - k] + **value;
            if let Some((k, _)) = (1..=left).zip(&candidates[i].values).find(exact) {
                counts[i] = k as u32;
                left -= k;
            }
        }
        counts
    }

    #[test]
    fn a_part_of_the_table_is_enough() {
        let mut draws = Draws::new(5);
        let mut dealt = 0;
        for _ in 0..10_000 {
            let gpus = draws.below(40) as u32;
            let candidates: Vec<Candidate> = (0..draws.below(8))
                .map(|_| {
                    // Few values, so that many are equal; none is also a number of GPUs to have.
                    let (most, step) = (draws.below(12), draws.below(3) as f64 / 3.0);
                    Candidate { values: (1..=most).map(|k| step * (k as f64).sqrt() + draws.below(2) as f64).collect() }
                })
                .collect();
            let counts = deal(&candidates, gpus);
            assert_eq!(counts, plain(&candidates, gpus));
            dealt += counts.iter().sum::<u32>();
        }
        assert!(dealt > 50_000, "{dealt} GPUs were dealt");
    }
}
