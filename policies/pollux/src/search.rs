//! NSGA-II (Deb et al. 2002) over allocations: two objectives, ranks by dominance, crowding within a rank.

use sandtable_policy::Draws;

use crate::genes::Terrain;

/// One allocation and what it is worth; both objectives are to be great.
#[derive(Clone)]
pub struct Member {
    /// GPUs by job and node.
    pub genes: Vec<u8>,
    /// Fitness, and utility of the cluster.
    pub worth: [f64; 2],
}

fn dominates(a: &[f64; 2], b: &[f64; 2]) -> bool {
    a[0] >= b[0] && a[1] >= b[1] && (a[0] > b[0] || a[1] > b[1])
}

/// Rank and crowding of each member.
fn ranks(members: &[Member]) -> Vec<(usize, f64)> {
    // With two objectives, by the first and then the second: each front is a staircase.
    let mut order: Vec<usize> = (0..members.len()).collect();
    let by =
        |a: &usize, b: &usize, objective: usize| members[*b].worth[objective].total_cmp(&members[*a].worth[objective]);
    order.sort_by(|a, b| by(a, b, 0).then_with(|| by(a, b, 1)));
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    for at in order {
        let free =
            |front: &Vec<usize>| front.last().is_none_or(|last| !dominates(&members[*last].worth, &members[at].worth));
        match fronts.iter().position(free) {
            Some(front) => fronts[front].push(at),
            None => fronts.push(vec![at]),
        }
    }
    let mut found = vec![(0, 0.0); members.len()];
    for (rank, front) in fronts.iter().enumerate() {
        for at in front {
            found[*at] = (rank, 0.0);
        }
        for objective in 0..2 {
            let mut sorted = front.clone();
            sorted.sort_by(|a, b| by(b, a, objective));
            let value = |at: usize| members[at].worth[objective];
            let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
            let span = value(last) - value(first);
            (found[first].1, found[last].1) = (f64::INFINITY, f64::INFINITY);
            if span > 0.0 {
                for three in sorted.windows(3) {
                    found[three[1]].1 += (value(three[2]) - value(three[0])) / span;
                }
            }
        }
    }
    found
}

/// Lower ranks first, within a rank the less crowded.
fn survive(mut members: Vec<Member>, count: usize) -> (Vec<Member>, Vec<(usize, f64)>) {
    let found = ranks(&members);
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|a, b| found[*a].0.cmp(&found[*b].0).then_with(|| found[*b].1.total_cmp(&found[*a].1)));
    order.truncate(count);
    let ranks = order.iter().map(|at| found[*at]).collect();
    let take = |at: &usize| Member { genes: std::mem::take(&mut members[*at].genes), worth: members[*at].worth };
    (order.iter().map(take).collect(), ranks)
}

/// Searches from these allocations; the members of the last generation, the best of the first front by the first
/// objective in front.
pub fn search(
    terrain: &Terrain<'_>,
    begin: Vec<Vec<u8>>,
    (population, generations): (usize, usize),
    draws: &mut Draws,
    mut worth: impl FnMut(&[u8]) -> [f64; 2],
) -> Vec<Member> {
    let mut made: Vec<Member> = Vec::new();
    let add =
        |mut genes: Vec<u8>, made: &mut Vec<Member>, draws: &mut Draws, worth: &mut dyn FnMut(&[u8]) -> [f64; 2]| {
            terrain.repair(&mut genes, draws);
            let worth = worth(&genes);
            // No member twice.
            if made.iter().all(|other| other.worth != worth || other.genes != genes) {
                made.push(Member { genes, worth });
            }
        };
    for genes in begin {
        add(genes, &mut made, draws, &mut worth);
    }
    let (mut members, mut found) = survive(made, population);
    for _ in 0..generations {
        let mut made = members.clone();
        for _ in 0..population {
            let pick = |draws: &mut Draws| {
                let (a, b) = (draws.below(members.len()), draws.below(members.len()));
                let better = found[b].0 < found[a].0 || (found[b].0 == found[a].0 && found[b].1 > found[a].1);
                if better { b } else { a }
            };
            let (a, b) = (pick(draws), pick(draws));
            let mut genes = terrain.cross(&members[a].genes, &members[b].genes, draws);
            terrain.mutate(&mut genes, draws);
            add(genes, &mut made, draws, &mut worth);
        }
        (members, found) = survive(made, population);
    }
    let first = (0..members.len()).filter(|at| found[*at].0 == 0);
    let best = first.fold(None, |best: Option<usize>, at| match best {
        Some(other) if members[at].worth[0] <= members[other].worth[0] => best,
        _ => Some(at),
    });
    members.swap(0, best.unwrap_or(0));
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_and_crowds_are_as_defined() {
        let member = |a: f64, b: f64| Member { genes: vec![], worth: [a, b] };
        let members = [member(1.0, 4.0), member(2.0, 3.0), member(4.0, 1.0), member(1.0, 1.0), member(2.0, 2.0)];
        let found = ranks(&members);
        assert_eq!(found.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 0, 0, 2, 1]);
        assert_eq!([found[0].1, found[2].1], [f64::INFINITY; 2]);
        assert_eq!(found[1].1, 2.0);
    }

    #[test]
    fn the_search_finds_what_is_best_on_a_small_cluster() {
        // Two jobs that scale alike: the harmonic mean is greatest with half the GPUs each.
        let (free, most, present) = ([4, 4], [8, 8], [0; 4]);
        let terrain = Terrain { free: &free, most: &most, present: &present };
        let worth = |genes: &[u8]| {
            let of = |row: &[u8]| row.iter().map(|gpus| f64::from(*gpus)).sum::<f64>();
            let (a, b) = (of(&genes[..2]), of(&genes[2..]));
            [1.0 / (1.0 / (a + 1e-3) + 1.0 / (b + 1e-3)), a + b]
        };
        let found = search(&terrain, vec![vec![0; 4]], (20, 40), &mut Draws::new(1), worth);
        let of = |row: &[u8]| row.iter().sum::<u8>();
        assert_eq!((of(&found[0].genes[..2]), of(&found[0].genes[2..])), (4, 4));
    }
}
