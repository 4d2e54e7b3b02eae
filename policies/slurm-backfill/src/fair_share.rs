//! Which user has had less than their part, by the two rules of Slurm.

use sandtable_policy::{QueueId, QueueTree};

/// How shares and usage become a number from 0 to 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Fair Tree: users by their rank, where queues come before those that have had more of their part.
    Tree,
    /// 2 to the power of minus usage over shares.
    Classic,
}

/// A user of a queue, or of none.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// The queue.
    pub queue: Option<QueueId>,
    /// Its shares of the queue, beside those of other users and the weights of the queues in it.
    pub shares: f64,
    /// What the user has used, decayed.
    pub used: f64,
}

/// What shares a queue.
#[derive(Clone, Copy)]
enum Child {
    User(usize),
    Queue(QueueId),
}

struct Shares<'a> {
    queues: &'a QueueTree,
    members: &'a [Member],
    /// The users of each queue, and of none.
    users: Vec<Vec<usize>>,
    outside: Vec<usize>,
    /// Of each queue and those in it.
    used: Vec<f64>,
    all_used: f64,
}

/// The factor of each member, from 0 to 1. `damping`: of the classic rule.
pub fn factors(rule: Rule, queues: &QueueTree, members: &[Member], damping: f64) -> Vec<f64> {
    let mut used = vec![0.0; queues.all().len()];
    for member in members {
        member.queue.iter().flat_map(|queue| queues.path(*queue)).for_each(|queue| used[queue as usize] += member.used);
    }
    let all_used = members.iter().map(|member| member.used).sum();
    let (mut users, mut outside) = (vec![Vec::new(); queues.all().len()], Vec::new());
    for (user, member) in members.iter().enumerate() {
        member.queue.map_or(&mut outside, |queue| &mut users[queue as usize]).push(user);
    }
    let shares = Shares { queues, members, users, outside, used, all_used };
    match rule {
        Rule::Tree => {
            let users = members.len();
            let mut ranks = Ranks { rank: users, next: users, of: vec![0; members.len()] };
            shares.rank(shares.children(None), false, &mut ranks);
            ranks.of.into_iter().map(|rank| rank as f64 / users as f64).collect()
        }
        Rule::Classic => {
            let mut all = vec![0.0; members.len()];
            shares.halve(None, (1.0, 1.0), damping, &mut all);
            all
        }
    }
}

/// The next user's rank where it is tied with the user before, and where it is not.
struct Ranks {
    rank: usize,
    next: usize,
    of: Vec<usize>,
}

impl Shares<'_> {
    /// Users and queues in a queue, with their parts of it.
    fn children(&self, queue: Option<QueueId>) -> Vec<(Child, f64)> {
        let users = queue.map_or(&self.outside, |queue| &self.users[queue as usize]);
        let queues = self.queues.of_group(queue).iter();
        let mut all: Vec<(Child, f64)> = Vec::new();
        all.extend(users.iter().map(|user| (Child::User(*user), self.members[*user].shares)));
        all.extend(queues.map(|queue| (Child::Queue(*queue), self.queues.queue(*queue).weight)));
        let sum: f64 = all.iter().map(|(_, weight)| weight).sum();
        all.iter_mut().for_each(|(_, weight)| *weight /= if sum > 0.0 { sum } else { 1.0 });
        all
    }

    fn used(&self, child: Child) -> f64 {
        match child {
            Child::User(user) => self.members[user].used,
            Child::Queue(queue) => self.used[queue as usize],
        }
    }

    /// How much of its part a child of a queue is short of: above 1 it has had less, below 1 more.
    fn short(&self, child: Child, part: f64) -> f64 {
        let parent = match child {
            Child::User(user) => self.members[user].queue,
            Child::Queue(queue) => self.queues.queue(queue).parent,
        };
        let all = parent.map_or(self.all_used, |parent| self.used[parent as usize]);
        let used = if all > 0.0 { self.used(child) / all } else { 0.0 };
        match part > 0.0 {
            false => 0.0,
            true if used > 0.0 => part / used,
            true => f64::INFINITY,
        }
    }

    /// Ranks users: those first that are in what is shortest, of equals users before queues, and queues that are equal as if they were one.
    fn rank(&self, children: Vec<(Child, f64)>, tied: bool, ranks: &mut Ranks) {
        let mut all: Vec<(f64, bool, Child)> = Vec::new();
        all.extend(children.into_iter().map(|(of, part)| (self.short(of, part), matches!(of, Child::Queue(_)), of)));
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut before = None;
        for equals in all.chunk_by(|a, b| a.0 == b.0 && a.1 && b.1) {
            let (short, _, first) = equals[0];
            let tied = before.map_or(tied, |before: f64| before == short);
            before = Some(short);
            match first {
                Child::User(user) => {
                    if !tied {
                        ranks.rank = ranks.next;
                    }
                    ranks.of[user] = ranks.rank;
                    ranks.next = ranks.next.saturating_sub(1);
                }
                Child::Queue(_) => {
                    let inside = |(.., of): &(f64, bool, Child)| match of {
                        Child::Queue(queue) => self.children(Some(*queue)),
                        Child::User(_) => Vec::new(),
                    };
                    self.rank(equals.iter().flat_map(inside).collect(), tied, ranks);
                }
            }
        }
    }

    /// The classic factor of all in a queue, of which the parts of all that there is and the usage that counts as its own are given.
    fn halve(&self, queue: Option<QueueId>, (part, counts): (f64, f64), damping: f64, all: &mut [f64]) {
        for (child, own) in self.children(queue) {
            let used = if self.all_used > 0.0 { self.used(child) / self.all_used } else { 0.0 };
            // What its siblings have used counts in its part of them; at the top nothing but its own does.
            let counts = if queue.is_none() { used } else { used + (counts - used) * own };
            let part = part * own;
            match child {
                Child::User(user) if part > 0.0 => all[user] = libm::pow(2.0, -(counts / part / damping)),
                Child::User(_) => {}
                Child::Queue(queue) => self.halve(Some(queue), (part, counts), damping, all),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_needs::needs;
    use sandtable_policy::testing::{cluster, data};
    use sandtable_policy::{Cluster, Queue};

    /// Queues of these groups and weights.
    fn queues(of: &[(Option<u32>, f64)]) -> Cluster {
        let queue = |(id, (parent, weight)): (usize, &(Option<u32>, f64))| Queue {
            id: id as u32,
            name: id.to_string(),
            parent: *parent,
            guaranteed: 0.0,
            weight: *weight,
            limit: f64::INFINITY,
            priority: 0,
        };
        let all: Vec<Queue> = of.iter().enumerate().map(queue).collect();
        cluster(&[1]).queued_in(&all)
    }

    fn members(of: &[(u32, f64)]) -> Vec<Member> {
        of.iter().map(|(queue, used)| Member { queue: Some(*queue), shares: 1.0, used: *used }).collect()
    }

    /// `sshare` of a real Slurm: accounts and users of a tree, with what they have used and Slurm's factor.
    #[needs("data:cluster-state")]
    #[test]
    fn the_tree_ranks_users_as_slurm_does() {
        let text = std::fs::read_to_string(data("cluster-state/slurm/sshare-alP.txt")).expect("shares");
        let mut path: Vec<(usize, u32)> = Vec::new();
        let (mut tree, mut users, mut factors_there) = (Vec::new(), Vec::new(), Vec::new());
        for line in text.lines().skip(2) {
            let depth = line.len() - line.trim_start().len();
            let fields: Vec<&str> = line.trim().split('|').collect();
            path.retain(|(above, _)| *above < depth);
            let parent = path.last().map(|(_, queue)| *queue);
            match fields[1] {
                "" => {
                    path.push((depth, tree.len() as u32));
                    tree.push((parent, fields[2].parse().expect("shares")));
                }
                _ => {
                    let [shares, used] = [2, 5].map(|at| fields[at].parse().expect("a number"));
                    users.push(Member { queue: parent, shares, used });
                    factors_there.push(fields[7].parse::<f64>().expect("a factor"));
                }
            }
        }
        let found = factors(Rule::Tree, queues(&tree).queues(), &users, 1.0);
        assert_eq!(found.len(), 6);
        assert!(found.iter().zip(&factors_there).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}, {factors_there:?}");
    }

    #[test]
    fn equals_are_tied() {
        let of = |tree: &[(Option<u32>, f64)], users: &[(u32, f64)]| {
            factors(Rule::Tree, queues(tree).queues(), &members(users), 1.0)
        };
        let two = [(None, 1.0), (None, 1.0)];
        // No user has used anything.
        assert_eq!(of(&two, &[(0, 0.0), (1, 0.0), (1, 0.0)]), [1.0, 1.0, 1.0]);
        // Two queues that are equal are ranked as one: the user of the second that has used less than both of the first comes first.
        assert_eq!(of(&two, &[(0, 4.0), (0, 4.0), (1, 2.0), (1, 6.0)]), [0.75, 0.75, 1.0, 0.25]);
        // The users of the queue that has had less of its part come first.
        assert_eq!(of(&[(None, 1.0), (None, 3.0)], &[(0, 4.0), (1, 2.0), (1, 7.0)]), [1.0 / 3.0, 1.0, 2.0 / 3.0]);
    }

    #[test]
    fn the_classic_rule_halves_for_each_part_that_was_used() {
        let of = |used: &[(u32, f64)], damping: f64| {
            factors(Rule::Classic, queues(&[(None, 1.0), (None, 1.0)]).queues(), &members(used), damping)
        };
        // Each has used as much as its part.
        assert_eq!(of(&[(0, 5.0), (1, 5.0)], 1.0), [0.5, 0.5]);
        // Of a queue that has used all, one user: half of what the other has used counts as this one's.
        assert_eq!(of(&[(0, 10.0), (0, 0.0), (1, 0.0)], 1.0), [0.0625, 0.25, 1.0]);
        assert_eq!(of(&[(0, 10.0), (0, 0.0), (1, 0.0)], 2.0), [0.25, 0.5, 1.0]);
        assert_eq!(of(&[(0, 0.0)], 1.0), [1.0]);
    }
}
