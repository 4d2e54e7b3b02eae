//! The cheapest assignment of jobs to places: the Hungarian method with potentials, O(rows² × columns).

/// The column of each row in a cheapest assignment; there must be at least as many columns as rows. Costs are finite.
pub fn assign(costs: &[Vec<f64>]) -> Vec<usize> {
    let rows = costs.len();
    let columns = costs.first().map_or(0, Vec::len);
    assert!(rows <= columns, "{rows} jobs for {columns} places");
    // One-based: 0 means unmatched.
    let (mut u, mut v) = (vec![0.0; rows + 1], vec![0.0; columns + 1]);
    let mut row_of = vec![0usize; columns + 1];
    for row in 1..=rows {
        row_of[0] = row;
        let mut column = 0;
        let (mut least, mut from) = (vec![f64::INFINITY; columns + 1], vec![0usize; columns + 1]);
        let mut done = vec![false; columns + 1];
        loop {
            done[column] = true;
            let (at, mut delta, mut next) = (row_of[column], f64::INFINITY, 0);
            for other in 1..=columns {
                if done[other] {
                    continue;
                }
                let reduced = costs[at - 1][other - 1] - u[at] - v[other];
                if reduced < least[other] {
                    least[other] = reduced;
                    from[other] = column;
                }
                if least[other] < delta {
                    delta = least[other];
                    next = other;
                }
            }
            for other in 0..=columns {
                if done[other] {
                    u[row_of[other]] += delta;
                    v[other] -= delta;
                } else {
                    least[other] -= delta;
                }
            }
            column = next;
            if row_of[column] == 0 {
                break;
            }
        }
        while column != 0 {
            row_of[column] = row_of[from[column]];
            column = from[column];
        }
    }
    let mut column_of = vec![0; rows];
    for (column, row) in row_of.iter().enumerate().skip(1).filter(|(_, row)| **row > 0) {
        column_of[row - 1] = column - 1;
    }
    column_of
}

#[cfg(test)]
mod tests {
    use super::assign;

    fn cost(costs: &[Vec<f64>], columns: &[usize]) -> f64 {
        costs.iter().zip(columns).map(|(row, column)| row[*column]).sum()
    }

    /// The cheapest of all assignments, one by one.
    fn brute(costs: &[Vec<f64>], row: usize, taken: &mut Vec<usize>) -> f64 {
        if row == costs.len() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..costs[row].len() {
            if !taken.contains(&column) {
                taken.push(column);
                best = best.min(costs[row][column] + brute(costs, row + 1, taken));
                taken.pop();
            }
        }
        best
    }

    #[test]
    fn no_assignment_is_cheaper() {
        let mut draws = sandtable_policy::Draws::new(3);
        for (rows, columns) in [(1, 1), (2, 5), (4, 4), (5, 7)] {
            for _ in 0..20 {
                let mut row = || (0..columns).map(|_| draws.below(50) as f64).collect::<Vec<f64>>();
                let costs: Vec<Vec<f64>> = (0..rows).map(|_| row()).collect();
                let found = assign(&costs);
                let mut sorted = found.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), rows, "a place is given twice");
                assert!((cost(&costs, &found) - brute(&costs, 0, &mut Vec::new())).abs() < 1e-9, "{costs:?}");
            }
        }
        assert!(assign(&[]).is_empty());
    }
}
