//! Leases of jobs with deadlines, laid out from the last backwards.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::JobId;

/// A job with a deadline, in leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// Its id.
    pub id: JobId,
    /// Size of its gang.
    pub gpus: u32,
    /// Leases that it needs.
    pub need: u64,
    /// Leases that begin from now on and are over by its deadline.
    pub latest: u64,
}

/// Leases that are needed, and those that begin from `now` on and are over by the deadline; all in one unit of time.
pub fn leases(remaining: u64, deadline: u64, now: u64, lease: u64) -> (u64, u64) {
    (remaining.div_ceil(lease), (deadline / lease).saturating_sub(now.div_ceil(lease)))
}

/// Lays out these jobs, the largest gangs first, then those with the least slack, then those that are due last: each gets the last leases in which enough
/// GPUs are left. Jobs that get the next lease, and those for which there is none.
pub fn lay_out(mut dues: Vec<Due>, gpus: u32) -> (BTreeSet<JobId>, BTreeSet<JobId>) {
    let slack = |due: &Due| i128::from(due.latest) - i128::from(due.need);
    dues.sort_unstable_by_key(|due| (std::cmp::Reverse(due.gpus), slack(due), std::cmp::Reverse(due.latest), due.id));
    let (mut next, mut left_out) = (BTreeSet::new(), BTreeSet::new());
    let mut used: BTreeMap<u64, u32> = BTreeMap::new();
    for due in dues {
        let mut found: Vec<u64> = Vec::new();
        let mut at = due.latest;
        while at > 0 && (found.len() as u64) < due.need {
            at -= 1;
            if used.get(&at).copied().unwrap_or(0).saturating_add(due.gpus) <= gpus {
                found.push(at);
            }
            if (found.len() as u64) + at < due.need {
                break;
            }
        }
        if (found.len() as u64) < due.need {
            left_out.insert(due.id);
            continue;
        }
        if found.last() == Some(&0) {
            next.insert(due.id);
        }
        for at in found {
            *used.entry(at).or_insert(0) += due.gpus;
        }
    }
    (next, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The design's vectors (`schedulers.md`), in minutes.
    #[test]
    fn leases_are_those_of_the_vectors() {
        let found = [(150, 600, 0), (150, 599, 1), (61, 120, 0), (60, 120, 61)]
            .map(|(remaining, deadline, now)| leases(remaining, deadline, now, 60));
        assert_eq!(found, [(3, 10), (3, 8), (2, 2), (1, 0)]);
    }

    #[test]
    fn leases_are_the_last_that_are_left() {
        let due = |id, gpus, need, latest| Due { id, gpus, need, latest };
        let out = |dues: &[Due]| {
            let (next, left_out) = lay_out(dues.to_vec(), 4);
            (next.into_iter().collect::<Vec<_>>(), left_out.into_iter().collect::<Vec<_>>())
        };
        // Alone it waits for its last leases; without slack it has the next.
        assert_eq!(out(&[due(0, 4, 2, 5)]), (vec![], vec![]));
        assert_eq!(out(&[due(0, 4, 5, 5)]), (vec![0], vec![]));
        assert_eq!(out(&[due(0, 4, 1, 0)]), (vec![], vec![0]));
        // The larger has the two leases at the end, which moves the smaller to the two before them.
        assert_eq!(out(&[due(0, 1, 2, 4), due(1, 4, 2, 4)]), (vec![0], vec![]));
        // Together they need one more than there is.
        assert_eq!(out(&[due(0, 1, 3, 4), due(1, 4, 2, 4)]), (vec![], vec![0]));
        assert_eq!(out(&[due(0, 2, 3, 4), due(1, 2, 4, 4)]), (vec![1], vec![]));
    }
}
