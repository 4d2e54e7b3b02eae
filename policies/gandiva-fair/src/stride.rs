//! Gang-aware stride (Chaudhary et al., EuroSys 2020): GPUs of one type go to the user with the least pass.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A user's turn: the least pass comes first, and of equal ones the first user.
struct Turn {
    pass: f64,
    user: usize,
    /// Its gangs before this one are chosen, or do not fit any more.
    from: usize,
}

impl Ord for Turn {
    fn cmp(&self, other: &Turn) -> Ordering {
        // The first of a heap is its greatest.
        other.pass.total_cmp(&self.pass).then(other.user.cmp(&self.user))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Turn) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Turn) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Turn {}

/// Which gangs run on `free` GPUs: user and place in its queue, in the order in which they are chosen. Of each user's queue the first
/// gang that fits has its turn; `None` is one that may not run on this type. A turn adds the gang's GPUs over the user's
/// share to its pass; a user without a share has no turn.
pub fn choose(mut free: u32, queues: &[Vec<Option<u32>>], shares: &[f64], passes: &mut [f64]) -> Vec<(usize, usize)> {
    let mut chosen = Vec::new();
    let users = (0..queues.len()).filter(|user| shares[*user] > 1e-9);
    let mut turns: BinaryHeap<Turn> = users.map(|user| Turn { pass: passes[user], user, from: 0 }).collect();
    while free > 0
        && let Some(Turn { user, from, .. }) = turns.pop()
    {
        // Free GPUs only become fewer: a gang that does not fit now does not fit later either.
        let fits = |gpus: &Option<u32>| gpus.is_some_and(|gpus| gpus <= free);
        let Some(place) = (from..queues[user].len()).find(|place| fits(&queues[user][*place])) else { continue };
        let gpus = queues[user][place].unwrap_or(0);
        free -= gpus;
        passes[user] += f64::from(gpus) / shares[user];
        chosen.push((user, place));
        turns.push(Turn { pass: passes[user], user, from: place + 1 });
    }
    chosen
}

#[cfg(test)]
mod tests {
    use sandtable_policy::Draws;

    use super::*;

    /// Looks at every user and every gang of it at each turn.
    fn by_looking_at_all(
        mut free: u32,
        queues: &[Vec<Option<u32>>],
        shares: &[f64],
        passes: &mut [f64],
    ) -> Vec<(usize, usize)> {
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        loop {
            let mut best: Option<(f64, usize, usize, u32)> = None;
            for user in 0..queues.len() {
                if shares[user] <= 1e-9 || best.is_some_and(|(least, ..)| passes[user] >= least) {
                    continue;
                }
                let gangs = queues[user].iter().enumerate().filter_map(|(place, gpus)| Some((place, (*gpus)?)));
                let mut left = gangs.filter(|(place, gpus)| *gpus <= free && !chosen.contains(&(user, *place)));
                best = left.next().map(|(place, gpus)| (passes[user], user, place, gpus)).or(best);
            }
            let Some((_, user, place, gpus)) = best else { return chosen };
            free -= gpus;
            passes[user] += f64::from(gpus) / shares[user];
            chosen.push((user, place));
        }
    }

    #[test]
    fn turns_are_those_of_a_look_at_all_users_and_gangs() {
        let mut draws = Draws::new(1);
        let mut turns = 0;
        for _ in 0..10_000 {
            let users = 1 + draws.below(6);
            let gang = |draws: &mut Draws| (draws.below(5) > 0).then(|| 1 << draws.below(4));
            let queue = |draws: &mut Draws| (0..draws.below(8)).map(|_| gang(draws)).collect::<Vec<_>>();
            let queues: Vec<Vec<Option<u32>>> = (0..users).map(|_| queue(&mut draws)).collect();
            let shares: Vec<f64> = (0..users).map(|_| [0.0, 0.5, 1.0, 3.0][draws.below(4)]).collect();
            let mut passes: Vec<f64> = (0..users).map(|_| draws.below(4) as f64).collect();
            let (free, mut plain) = (draws.below(40) as u32, passes.clone());
            let expected = by_looking_at_all(free, &queues, &shares, &mut plain);
            assert_eq!(choose(free, &queues, &shares, &mut passes), expected);
            assert_eq!(passes, plain);
            turns += expected.len();
        }
        // More than one for each.
        assert!(turns > 10_000, "{turns}");
    }
}
