//! Kueue's choice of nodes for a gang where the fleet has levels (its topology-aware scheduling, best fit).

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Where pods may go: a domain of the nearest level, which is a node unless levels end before.
pub struct Leaf<'a> {
    /// Its domain at each level, from wide to near, its own last. Domains of a level are numbered in the order of their names; a number
    /// stands for one domain of its level.
    pub path: &'a [u32],
    /// How many pods it has room for.
    pub pods: u64,
}

/// How near to each other pods are to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nearness {
    /// Anywhere.
    Unconstrained,
    /// In one domain of this level; where none has room for all, in one of the next wider level, up to `widest`. Without that, in as few
    /// of the widest level as hold them.
    Within { level: usize, widest: Option<usize> },
}

/// A domain with how many pods it has room for, and later how many it gets.
type Domain = (u32, u64);

/// How many pods each leaf gets, by index, in the order of their paths. Or for how many there is room: in the largest domain of the widest
/// level that will do, or altogether.
pub fn assign(leaves: &[Leaf], pods: u64, near: Nearness) -> Result<Vec<(usize, u64)>, u64> {
    let Some(nearest) = leaves.first().map(|leaf| leaf.path.len() - 1) else { return Err(0) };
    let (mut level, mut chosen) = match near {
        Nearness::Unconstrained => {
            let mut all = domains(leaves, nearest, &|_| true);
            all.sort_unstable_by_key(|(id, room)| (*room, *id));
            let one = tightest(&all, pods).map(|(id, _)| vec![(id, pods)]);
            (nearest, one.map_or_else(|| fill(&all, pods), Ok)?)
        }
        Nearness::Within { level, widest } => within(leaves, pods, level, widest)?,
    };
    while level < nearest {
        let parents: Vec<u32> = chosen.iter().map(|(id, _)| *id).collect();
        let mut children = domains(leaves, level + 1, &|leaf| parents.contains(&leaf.path[level]));
        children.sort_unstable_by_key(largest_first);
        chosen = fill(&children, pods)?;
        level += 1;
    }
    let got = |id: u32| chosen.iter().find(|(of, _)| *of == id).map(|(_, pods)| *pods);
    let mut found: Vec<(usize, u64)> =
        leaves.iter().enumerate().filter_map(|(at, leaf)| Some((at, got(leaf.path[nearest])?))).collect();
    found.sort_unstable_by_key(|(at, _)| leaves[*at].path);
    Ok(found)
}

/// The level at which pods are near each other, and its domains that get them.
fn within(leaves: &[Leaf], pods: u64, mut level: usize, widest: Option<usize>) -> Result<(usize, Vec<Domain>), u64> {
    loop {
        let mut all = domains(leaves, level, &|_| true);
        all.sort_unstable_by_key(largest_first);
        if let Some(domain) = tightest(&all, pods) {
            return Ok((level, vec![(domain.0, pods)]));
        }
        if widest == Some(level) {
            return Err(all.first().map_or(0, |(_, room)| *room));
        }
        if level == 0 {
            return Ok((0, fill(&all, pods)?));
        }
        level -= 1;
    }
}

/// The domains of a level that have room, of those leaves.
fn domains(leaves: &[Leaf], level: usize, of: &dyn Fn(&Leaf) -> bool) -> Vec<Domain> {
    let mut rooms: BTreeMap<u32, u64> = BTreeMap::new();
    for leaf in leaves.iter().filter(|leaf| leaf.pods > 0 && of(leaf)) {
        *rooms.entry(leaf.path[level]).or_default() += leaf.pods;
    }
    rooms.into_iter().collect()
}

fn largest_first((id, room): &Domain) -> (Reverse<u64>, u32) {
    (Reverse(*room), *id)
}

/// The domain with the least room that has enough; of several the first.
fn tightest(domains: &[Domain], pods: u64) -> Option<Domain> {
    domains.iter().copied().filter(|(_, room)| *room >= pods).min_by_key(|(_, room)| *room)
}

/// All that each domain has room for, in this order, until one has room for all that is left: then the tightest that has. Or for how many
/// there is room.
fn fill(domains: &[Domain], pods: u64) -> Result<Vec<Domain>, u64> {
    let (mut left, mut found) = (pods, Vec::new());
    for (at, (id, room)) in domains.iter().enumerate() {
        if *room >= left {
            found.extend(tightest(&domains[at..], left).map(|(id, _)| (id, left)));
            return Ok(found);
        }
        found.push((*id, *room));
        left -= room;
    }
    Err(pods - left)
}

#[cfg(test)]
mod tests {
    use super::Nearness::{Unconstrained, Within};
    use super::*;
    use proptest::prelude::*;

    /// Two blocks of two racks of three nodes, with room for so many pods each.
    fn paths() -> Vec<[u32; 3]> {
        (0..12).map(|node| [node / 6, node / 3, node]).collect()
    }

    fn assigned(rooms: &[u64], pods: u64, near: Nearness) -> Result<Vec<(usize, u64)>, u64> {
        let paths = paths();
        let leaves: Vec<Leaf> = paths.iter().zip(rooms).map(|(path, pods)| Leaf { path, pods: *pods }).collect();
        assign(&leaves, pods, near)
    }

    fn near() -> impl Strategy<Value = Nearness> {
        let widest = |level: usize| prop_oneof![Just(None), (0..=level).prop_map(Some)].boxed();
        let within = (0..3usize).prop_flat_map(move |level| (Just(level), widest(level)));
        prop_oneof![Just(Unconstrained), within.prop_map(|(level, widest)| Within { level, widest })]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn pods_have_room_where_they_go_and_go_where_there_is_room(
            rooms in prop::collection::vec(0..5u64, 12), pods in 1..40u64, near in near(),
        ) {
            // Most pods that fit within one domain of a level, by a look at each.
            let most = |level: usize| {
                let of = |domain: u32| {
                    let here = |(path, room): (&[u32; 3], &u64)| if path[level] == domain { *room } else { 0 };
                    paths().iter().zip(&rooms).map(here).sum::<u64>()
                };
                (0..12).map(of).max().unwrap_or(0)
            };
            let all: u64 = rooms.iter().sum();
            let bound = match near {
                Within { widest: Some(widest), .. } => most(widest),
                _ => all,
            };
            match assigned(&rooms, pods, near) {
                Err(fit) => prop_assert!(fit == bound && pods > bound, "{} of {}", fit, bound),
                Ok(found) => {
                    prop_assert!(pods <= bound);
                    prop_assert_eq!(found.iter().map(|(_, pods)| pods).sum::<u64>(), pods);
                    prop_assert!(found.iter().all(|(at, pods)| *pods > 0 && *pods <= rooms[*at]));
                    prop_assert!(found.windows(2).all(|two| two[0].0 < two[1].0));
                    if near == Unconstrained && rooms.iter().any(|room| *room >= pods) {
                        let least = rooms.iter().filter(|room| **room >= pods).min();
                        prop_assert!(found.len() == 1 && Some(&rooms[found[0].0]) == least, "{:?}", found);
                    }
                    if let Within { level, .. } = near {
                        let nearest = (0..=level).rev().find(|level| most(*level) >= pods);
                        if let Some(level) = nearest {
                            let domain = |at: usize| paths()[at][level];
                            prop_assert!(found.iter().all(|(at, _)| domain(*at) == domain(found[0].0)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn without_nodes_there_is_no_room() {
        assert_eq!(assign(&[], 1, Unconstrained), Err(0));
        assert_eq!(assigned(&[0; 12], 1, Within { level: 2, widest: None }), Err(0));
    }
}
