//! Which jobs an incoming one preempts where the shares of queues are fair.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{NodeId, Share, Tree, Usage};

/// Which jobs may be preempted, by what the incoming one is (Kueue's `preemptionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// None.
    Never,
    /// Those of a lower priority.
    LowerPriority,
    /// Also those of the same priority that were submitted later.
    LowerOrNewerEqualPriority,
    /// All.
    Any,
}

impl Victims {
    /// The rule of a parameter's word.
    pub fn named(word: &str) -> Victims {
        match word {
            "never" => Victims::Never,
            "lower-priority" => Victims::LowerPriority,
            "lower-or-newer-equal-priority" => Victims::LowerOrNewerEqualPriority,
            _ => Victims::Any,
        }
    }

    /// Whether an incoming job may preempt another.
    pub fn allows(self, of: &Candidate, incoming: &Incoming) -> bool {
        match self {
            Victims::Never => false,
            Victims::LowerPriority => of.priority < incoming.priority,
            Victims::LowerOrNewerEqualPriority => {
                (of.priority, -of.submitted) < (incoming.priority, -incoming.submitted)
            }
            Victims::Any => true,
        }
    }
}

/// When the first job of a queue that borrows may be preempted, by the shares of both sides below the cohort that they have in
/// common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The preemptor's, with the incoming job, is at most the other's without the job.
    AtMostFinalShare,
    /// The preemptor's, with the incoming job, is below the other's as it is.
    BelowInitialShare,
}

/// What a queue may do to admit a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// In its own queue.
    pub within_queue: Victims,
    /// In queues of the tree that borrow.
    pub within_tree: Victims,
}

/// A job that has quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its number, by which it is found again. Among equals the lower goes first.
    pub id: u32,
    /// What it uses.
    pub usage: Usage,
    /// Higher is more important.
    pub priority: i32,
    /// When it was submitted, and when its quota was reserved, in any unit.
    pub submitted: i64,
    /// See `submitted`.
    pub reserved: i64,
    /// Whether it is about to let go anyway.
    pub evicted: bool,
}

impl Candidate {
    /// Which of two in a queue goes first.
    pub fn order(&self, other: &Candidate) -> Ordering {
        let key = |of: &Candidate| (!of.evicted, of.priority, Reverse(of.reserved), of.id);
        key(self).cmp(&key(other))
    }
}

/// A job that asks for quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Its queue.
    pub queue: NodeId,
    /// What it asks for.
    pub usage: Usage,
    /// Higher is more important.
    pub priority: i32,
    /// When it was submitted, in the unit of [`Candidate::submitted`].
    pub submitted: i64,
}

/// Why a job is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// By one of its own queue.
    InQueue,
    /// By a queue that stays within its quota.
    Reclamation,
    /// By a queue that borrows, of a job of a lower priority.
    ReclamationWhileBorrowing,
    /// By a queue that borrows, as shares allow.
    FairSharing,
}

/// A job that is preempted, its queue, and why.
pub type Victim = (u32, NodeId, Reason);

/// The jobs that are preempted so that an incoming one fits; empty if there are no such jobs, or none are needed. `of_queue`: the
/// candidates of a queue in their [order](Candidate::order). `strategies`: the first, and by what those that it spared are tried
/// then. The tree is left as it was.
pub fn victims<'a>(
    tree: &mut Tree,
    of_queue: &dyn Fn(NodeId) -> &'a [Candidate],
    incoming: &Incoming,
    rules: Rules,
    strategies: (Strategy, Option<Strategy>),
) -> Vec<Victim> {
    let needed = |(column, amount): (usize, &i64)| {
        (*amount > 0 && *amount > tree.available(incoming.queue, column)).then_some(column)
    };
    let contested: Vec<usize> = incoming.usage.iter().enumerate().filter_map(needed).collect();
    if contested.is_empty() {
        return Vec::new();
    }
    tree.take(incoming.queue, &incoming.usage);
    let nodes = tree.len();
    let mut search = Search {
        tree,
        of_queue,
        incoming,
        rules,
        contested,
        next: vec![None; nodes],
        pruned: vec![false; nodes],
        spared: BTreeMap::new(),
        victims: Vec::new(),
    };
    let (by, then) = strategies;
    let fits = search.is_worthwhile() && (search.first_pass(by) || then.is_some_and(|then| search.second_pass(then)));
    if fits {
        search.spare_needless();
    }
    let Search { tree, victims, .. } = search;
    for (of, queue, _) in &victims {
        tree.take(*queue, &of.usage);
    }
    tree.give_back(incoming.queue, &incoming.usage);
    let found = victims.into_iter().map(|(of, queue, reason)| (of.id, queue, reason));
    if fits { found.collect() } else { Vec::new() }
}

struct Search<'a, 'b> {
    /// With the incoming job, without the victims.
    tree: &'b mut Tree,
    of_queue: &'b dyn Fn(NodeId) -> &'a [Candidate],
    incoming: &'b Incoming,
    rules: Rules,
    /// The columns of which the queue has not enough.
    contested: Vec<usize>,
    /// By node: of a queue that has been looked at the candidates that are left, from the next on.
    next: Vec<Option<&'a [Candidate]>>,
    /// By node: whether it is not looked at any more.
    pruned: Vec<bool>,
    /// By queue: the first candidate that the first strategy did not allow.
    spared: BTreeMap<NodeId, &'a Candidate>,
    victims: Vec<(&'a Candidate, NodeId, Reason)>,
}

impl<'a> Search<'a, '_> {
    fn borrows_contested(&self, queue: NodeId) -> bool {
        self.contested.iter().any(|column| self.tree.borrows(queue, *column))
    }

    /// Whether there can be a victim: else the candidates, which are many, are not even gathered.
    fn is_worthwhile(&mut self) -> bool {
        let own = self.incoming.queue;
        if !self.borrows_contested(own) || !self.left(own).is_empty() {
            return true;
        }
        let mut others = (0..self.tree.len()).filter(|at| *at != own && self.tree.is_queue(*at));
        others.any(|queue| self.borrows_contested(queue) && !self.is_hopeless(self.sides(queue)))
    }

    /// Takes victims until the job fits, of the queue of the largest share first.
    fn first_pass(&mut self, by: Strategy) -> bool {
        let own = self.incoming.queue;
        // What goes of its own queue does not change whether it has borrowed to get here.
        let within = !self.borrows_contested(own);
        while let Some(queue) = self.next_queue() {
            if queue == own || within {
                let reason = if queue == own { Reason::InQueue } else { Reason::Reclamation };
                if let Some(of) = self.pop(queue)
                    && self.preempt(of, queue, reason)
                {
                    return true;
                }
                continue;
            }
            let sides = self.sides(queue);
            if self.is_hopeless(sides) {
                self.spare_beside(sides.0);
                continue;
            }
            let mut refused: Vec<&Usage> = Vec::new();
            while let Some(of) = self.pop(queue) {
                if !refused.contains(&&of.usage) && self.allows(by, sides, queue, of) {
                    if self.preempt(of, queue, Reason::FairSharing) {
                        return true;
                    }
                    // Shares have changed: another queue may be the next.
                    break;
                }
                self.spared.entry(queue).or_insert(of);
                refused.push(&of.usage);
            }
        }
        false
    }

    /// Whether no strategy allows any job of the other side, nor of those beside it, which have no larger share. The incoming job's own side
    /// would have come first, had it any job left: its share stays as it is.
    fn is_hopeless(&self, (mine, theirs): (NodeId, NodeId)) -> bool {
        self.tree.share(mine).rank() > self.tree.share(theirs).rank()
    }

    /// Spares the first candidate of each queue beside a node, or below what is beside it: they are looked at no more.
    fn spare_beside(&mut self, side: NodeId) {
        let Some(parent) = self.tree.path(side).nth(1) else { return };
        let mut nodes: Vec<NodeId> = self.tree.children(parent).iter().copied().filter(|at| *at != side).collect();
        while let Some(at) = nodes.pop() {
            if std::mem::replace(&mut self.pruned[at], true) || !self.tree.share(at).borrows {
                continue;
            }
            if !self.tree.is_queue(at) {
                nodes.extend_from_slice(self.tree.children(at));
            } else if let Some(of) = self.left(at).first() {
                self.spared.entry(at).or_insert(of);
            }
        }
    }

    /// Looks once at each queue, and there at the first of those that were spared.
    fn second_pass(&mut self, by: Strategy) -> bool {
        let spared = std::mem::take(&mut self.spared);
        self.next.fill(None);
        spared.iter().for_each(|(queue, of)| self.next[*queue] = Some(std::slice::from_ref(*of)));
        // Of the others none is left.
        for at in 0..self.tree.len() {
            self.pruned[at] = self.tree.is_queue(at) && !spared.contains_key(&at);
        }
        while let Some(queue) = self.next_queue() {
            let Some(of) = self.pop(queue) else { continue };
            let sides = self.sides(queue);
            if self.is_hopeless(sides) {
                self.spare_beside(sides.0);
                continue;
            }
            if self.allows(by, sides, queue, of) && self.preempt(of, queue, Reason::FairSharing) {
                return true;
            }
        }
        false
    }

    /// Whether the incoming job may preempt a job of a queue at all.
    fn may_go(&self, of: &Candidate, queue: NodeId) -> bool {
        self.rule(queue).allows(of, self.incoming) && self.contested.iter().any(|column| of.usage[*column] > 0)
    }

    fn rule(&self, queue: NodeId) -> Victims {
        if queue == self.incoming.queue { self.rules.within_queue } else { self.rules.within_tree }
    }

    /// The candidates of a queue that are left; they begin with one that may go.
    fn left(&mut self, queue: NodeId) -> &'a [Candidate] {
        let mut left = match self.next[queue] {
            Some(left) => left,
            // Only queues that borrow of what is contested give it back.
            None if queue != self.incoming.queue && !self.borrows_contested(queue) => &[],
            None if self.rule(queue) == Victims::Never => &[],
            None => (self.of_queue)(queue),
        };
        while let Some((of, rest)) = left.split_first()
            && !self.may_go(of, queue)
        {
            left = rest;
        }
        self.next[queue] = Some(left);
        left
    }

    fn pop(&mut self, queue: NodeId) -> Option<&'a Candidate> {
        let (of, rest) = self.left(queue).split_first()?;
        self.next[queue] = Some(rest);
        Some(of)
    }

    /// Makes a candidate a victim; whether the incoming job fits then.
    fn preempt(&mut self, of: &'a Candidate, queue: NodeId, reason: Reason) -> bool {
        self.tree.give_back(queue, &of.usage);
        self.victims.push((of, queue, reason));
        self.fits()
    }

    fn fits(&mut self) -> bool {
        let Incoming { queue, usage, .. } = self.incoming;
        self.tree.give_back(*queue, usage);
        let fits = self.tree.fits(*queue, usage);
        self.tree.take(*queue, usage);
        fits
    }

    /// Spares victims without which the job fits too, the later ones first; the last one is needed.
    fn spare_needless(&mut self) {
        for at in (0..self.victims.len().saturating_sub(1)).rev() {
            let (of, queue, _) = self.victims[at];
            self.tree.take(queue, &of.usage);
            if self.fits() {
                self.victims.swap_remove(at);
            } else {
                self.tree.give_back(queue, &of.usage);
            }
        }
    }

    /// Whether a strategy lets the incoming job preempt a candidate, by the shares of both sides.
    fn allows(&mut self, by: Strategy, (mine, theirs): (NodeId, NodeId), queue: NodeId, of: &Candidate) -> bool {
        let share = self.tree.share(mine).rank();
        match by {
            Strategy::BelowInitialShare => share < self.tree.share(theirs).rank(),
            Strategy::AtMostFinalShare => {
                self.tree.give_back(queue, &of.usage);
                let of_theirs = self.tree.share(theirs).rank();
                self.tree.take(queue, &of.usage);
                share <= of_theirs
            }
        }
    }

    /// The nodes below the lowest cohort that has both queues, of the incoming job's side and of the other.
    fn sides(&self, queue: NodeId) -> (NodeId, NodeId) {
        let own: Vec<NodeId> = self.tree.path(self.incoming.queue).collect();
        let theirs: Vec<NodeId> = self.tree.path(queue).collect();
        let below = |path: &[NodeId], other: &[NodeId]| {
            let at = path.iter().position(|node| other.contains(node)).unwrap_or(path.len());
            path[at.saturating_sub(1)]
        };
        (below(&own, &theirs), below(&theirs, &own))
    }

    /// The queue of the largest share, chosen child by child from the root; none: no queue has a candidate.
    fn next_queue(&mut self) -> Option<NodeId> {
        let root = self.tree.path(self.incoming.queue).last()?;
        if self.tree.is_queue(root) {
            return (!self.left(root).is_empty()).then_some(root);
        }
        let own: BTreeSet<NodeId> = self.tree.path(self.incoming.queue).collect();
        while !self.pruned[root] {
            let mut at = root;
            while let Some(child) = self.largest_child(at, &own) {
                if self.tree.is_queue(child) {
                    return Some(child);
                }
                at = child;
            }
            self.pruned[at] = true;
        }
        None
    }

    fn largest_child(&mut self, of: NodeId, own: &BTreeSet<NodeId>) -> Option<NodeId> {
        let mut queue: Option<(NodeId, Share)> = None;
        let mut cohort: Option<(NodeId, Share)> = None;
        for at in 0..self.tree.children(of).len() {
            let child = self.tree.children(of)[at];
            if self.pruned[child] {
                continue;
            }
            let (share, is_queue) = (self.tree.share(child), self.tree.is_queue(child));
            if (!share.borrows && !own.contains(&child)) || (is_queue && self.left(child).is_empty()) {
                self.pruned[child] = true;
                continue;
            }
            let best = if is_queue { queue } else { cohort };
            let better = best.is_none_or(|(known, largest)| match share.rank().cmp(&largest.rank()) {
                Ordering::Equal if is_queue => self.goes_before(child, known),
                order => order.is_gt(),
            });
            if better {
                *(if is_queue { &mut queue } else { &mut cohort }) = Some((child, share));
            }
        }
        match (queue, cohort) {
            (Some((_, share)), Some((at, of_cohort))) if of_cohort.rank() >= share.rank() => Some(at),
            (Some((at, _)), _) | (None, Some((at, _))) => Some(at),
            (None, None) => None,
        }
    }

    /// Whether the next candidate of a queue goes before that of another: those that let go anyway first, then those of other queues.
    fn goes_before(&mut self, queue: NodeId, other: NodeId) -> bool {
        let (Some(a), Some(b)) = (self.left(queue).first(), self.left(other).first()) else { return false };
        let own = self.incoming.queue;
        let turn = |of: &Candidate, queue: NodeId| (!of.evicted, queue == own);
        turn(a, queue).cmp(&turn(b, other)).then(a.order(b)).is_lt()
    }
}
