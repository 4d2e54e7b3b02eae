//! How many GPUs each job gets, that the sum of values is greatest: a knapsack in which each job is at most one item.

/// What a job is worth.
pub struct Candidate {
    /// With 1, 2, … GPUs.
    pub values: Vec<f64>,
}

/// GPUs of each job out of so many. Equals prefer to run and fewer GPUs, from the last job backwards.
pub fn deal(candidates: &[Candidate], gpus: u32) -> Vec<u32> {
    let width = gpus as usize + 1;
    // Row i: the best of the first i jobs by the GPUs that they may have.
    let mut best = vec![0.0f64; width * (candidates.len() + 1)];
    for (i, candidate) in candidates.iter().enumerate() {
        let (before, here) = best.split_at_mut(width * (i + 1));
        let before = &before[width * i..];
        for m in 0..width {
            let mut most = before[m];
            for (k, value) in (1..=m).zip(&candidate.values) {
                most = most.max(before[m - k] + value);
            }
            here[m] = most;
        }
    }
    let mut counts = vec![0; candidates.len()];
    let mut left = gpus as usize;
    for i in (0..candidates.len()).rev() {
        let (here, before) = (&best[width * (i + 1)..], &best[width * i..]);
        let exact = |(k, value): &(usize, &f64)| here[left] == before[left - k] + **value;
        if let Some((k, _)) = (1..=left).zip(&candidates[i].values).find(exact) {
            counts[i] = k as u32;
            left -= k;
        }
    }
    counts
}
