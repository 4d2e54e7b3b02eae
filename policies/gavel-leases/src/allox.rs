//! AlloX's shares (Le et al., EuroSys 2020) as Gavel computes them: jobs are matched with positions in the queues of GPUs so that completion times are
//! short on average. GPUs are alike, so ties decide: as the published solver breaks them, which is a method of shortest augmenting paths.

/// The column of each row in a cheapest matching; there are at least as many columns as rows, and costs are finite. Rows are matched in their order; columns are
/// scanned from the last, and one that was scanned gives its place to the last of those that are left; of equal distances an unmatched column that is found
/// later is taken.
pub fn matched(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let all = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let least = all().map(|(row, column)| cost(row, column)).fold(f64::INFINITY, f64::min);
    let (mut u, mut v) = (vec![0.0; rows], vec![0.0; columns]);
    let (mut column_of, mut row_of) = (vec![usize::MAX; rows], vec![usize::MAX; columns]);
    for row in 0..rows {
        let (mut distance, mut from) = (vec![f64::INFINITY; columns], vec![usize::MAX; columns]);
        let mut left: Vec<usize> = (0..columns).rev().collect();
        let (mut seen_rows, mut seen_columns) = (Vec::new(), Vec::new());
        let (mut here, mut reached) = (row, 0.0);
        let sink = loop {
            seen_rows.push(here);
            let (mut at, mut lowest) = (usize::MAX, f64::INFINITY);
            for (index, column) in left.iter().copied().enumerate() {
                let through = reached + (cost(here, column) - least) - u[here] - v[column];
                if through < distance[column] {
                    (distance[column], from[column]) = (through, here);
                }
                let found = distance[column];
                if found < lowest || (found == lowest && row_of[column] == usize::MAX) {
                    (at, lowest) = (index, found);
                }
            }
            reached = lowest;
            let column = left.swap_remove(at);
            seen_columns.push(column);
            match row_of[column] {
                usize::MAX => break column,
                next => here = next,
            }
        };
        u[row] += reached;
        for seen in seen_rows.into_iter().filter(|seen| *seen != row) {
            u[seen] += reached - distance[column_of[seen]];
        }
        for column in seen_columns {
            v[column] -= reached - distance[column];
        }
        let mut column = sink;
        loop {
            let of = from[column];
            row_of[column] = of;
            column = std::mem::replace(&mut column_of[of], column);
            if of == row {
                break;
            }
        }
    }
    column_of
}

/// What is known of a job.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Seconds that it has left.
    pub left: f64,
    /// Seconds since it came.
    pub age: f64,
}

/// Which of these jobs, the oldest first, get GPUs, of which so many are to be had: those in the first position of a GPU's queue. A GPU works from its highest position
/// down to the first, which is the last job's.
pub fn first_of_queues(jobs: &[Candidate], gpus: usize) -> Vec<usize> {
    let positions = jobs.len();
    let cost = |row: usize, column: usize| {
        let position = (column / gpus + 1) as f64;
        position * jobs[row].left + jobs[row].age
    };
    if positions == 0 || gpus == 0 {
        return Vec::new();
    }
    let columns = matched(positions, positions * gpus, cost);
    let mut first: Vec<Option<(usize, usize)>> = vec![None; gpus];
    for (row, column) in columns.into_iter().enumerate() {
        let (gpu, position) = (column % gpus, column / gpus);
        if first[gpu].is_none_or(|(highest, _)| position > highest) {
            first[gpu] = Some((position, row));
        }
    }
    first.into_iter().flatten().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matching_is_a_cheapest_one() {
        let mut draws = sandtable_policy::Draws::new(5);
        for (rows, columns) in [(1, 1), (2, 4), (4, 4), (4, 6)] {
            for _ in 0..50 {
                let costs: Vec<Vec<f64>> =
                    (0..rows).map(|_| (0..columns).map(|_| draws.below(9) as f64).collect()).collect();
                let found = matched(rows, columns, |row, column| costs[row][column]);
                let total: f64 = found.iter().zip(&costs).map(|(column, row)| row[*column]).sum();
                assert_eq!(total, cheapest(&costs, 0, &mut Vec::new()), "{costs:?}");
                let mut sorted = found.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), rows);
            }
        }
    }

    /// The least cost of all matchings, one by one.
    fn cheapest(costs: &[Vec<f64>], row: usize, taken: &mut Vec<usize>) -> f64 {
        let Some(of_row) = costs.get(row) else { return 0.0 };
        let mut best = f64::INFINITY;
        for (column, cost) in of_row.iter().enumerate() {
            if !taken.contains(&column) {
                taken.push(column);
                best = best.min(cost + cheapest(costs, row + 1, taken));
                taken.pop();
            }
        }
        best
    }

    #[test]
    fn the_shortest_jobs_are_first() {
        let jobs = [50.0, 10.0, 30.0].map(|left| Candidate { left, age: 0.0 });
        assert_eq!(first_of_queues(&jobs, 1), [1]);
        let mut two = first_of_queues(&jobs, 2);
        two.sort_unstable();
        assert_eq!(two, [1, 2]);
        assert!(first_of_queues(&[], 2).is_empty() && first_of_queues(&jobs, 0).is_empty());
    }
}
