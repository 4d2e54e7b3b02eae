//! Which jobs an incoming one preempts where shares do not count: Kueue's preemption without fair sharing.

use crate::preempt::{Candidate, Incoming, Reason, Rules, Victim, Victims};
use crate::tree::{NodeId, Tree};

/// Whether a job may preempt those of other queues and have its own queue borrow at once (Kueue's `borrowWithinCohort`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileBorrowing {
    /// It may not.
    Never,
    /// Jobs of a lower priority, up to the priority if there is one.
    LowerPriority(Option<i32>),
}

/// When a candidate may go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It is of the same queue.
    Own,
    /// The job fits into the quota of a cohort of its own that the other queue is not in.
    Advantage,
    /// Whether or not the queue borrows with the job.
    Borrowing,
    /// Only if the queue does not borrow with the job.
    NotBorrowing,
}

/// A candidate, its queue, the lowest cohort that has both queues, and when it may go.
type Choice<'a> = (&'a Candidate, NodeId, NodeId, Kind);

/// The jobs that are preempted so that an incoming one fits; empty if there are no such jobs. `contested`: the columns of which the queue has not enough. The tree is left as it was.
pub fn victims<'a>(
    tree: &mut Tree,
    of_queue: &dyn Fn(NodeId) -> &'a [Candidate],
    incoming: &Incoming,
    contested: &[usize],
    (rules, borrowing): (Rules, WhileBorrowing),
) -> Vec<Victim> {
    let search = Search { of_queue, incoming, contested, rules, borrowing };
    let forbidden = borrowing == WhileBorrowing::Never;
    let has_quota =
        contested.iter().all(|column| tree.used(incoming.queue, *column) < tree.nominal(incoming.queue, *column));
    // Else no other may go: they are many, and are not even gathered.
    let (advantage, others) = search.of_other_queues(tree, !forbidden || has_quota);
    let own = search.of_own_queue();
    let none = advantage.is_empty() && others.is_empty();
    let attempts: &[bool] = if none || (forbidden && !has_quota) {
        &[true]
    } else if forbidden && advantage.is_empty() {
        &[false, true]
    } else {
        &[true, false]
    };
    let mut choices = [advantage, others, own].concat();
    // Those that let go anyway come first.
    choices.sort_by_key(|(of, ..)| !of.evicted);
    attempts
        .iter()
        .map(|borrow| search.attempt(tree, &choices, *borrow))
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

struct Search<'a, 'b> {
    of_queue: &'b dyn Fn(NodeId) -> &'a [Candidate],
    incoming: &'b Incoming,
    contested: &'b [usize],
    rules: Rules,
    borrowing: WhileBorrowing,
}

impl<'a> Search<'a, '_> {
    fn of_own_queue(&self) -> Vec<Choice<'a>> {
        let own = self.incoming.queue;
        let mut found = Vec::new();
        self.gather(own, own, false, &mut found);
        found
    }

    /// Candidates of other queues: those over whose queues the job has an advantage, and the others, if they matter.
    fn of_other_queues(&self, tree: &Tree, others_matter: bool) -> (Vec<Choice<'a>>, Vec<Choice<'a>>) {
        let (mut advantage, mut others) = (Vec::new(), Vec::new());
        if self.rules.within_tree == Victims::Never {
            return (advantage, others);
        }
        let mut rest = self.incoming.usage.clone();
        let mut has_advantage = tree.fits_in_quota(self.incoming.queue, &mut rest);
        let path: Vec<NodeId> = tree.path(self.incoming.queue).collect();
        for (below, cohort) in path.iter().zip(&path[1..]) {
            if has_advantage || others_matter {
                let found = if has_advantage { &mut advantage } else { &mut others };
                self.below(tree, *cohort, (*cohort, *below), has_advantage, found);
            }
            has_advantage |= tree.fits_in_quota(*cohort, &mut rest);
        }
        for found in [&mut advantage, &mut others] {
            found.sort_by(|a, b| a.0.order(b.0));
        }
        (advantage, others)
    }

    /// Those of the queues below a cohort that borrow of what is contested, but for what is below `skipped`.
    fn below(
        &self,
        tree: &Tree,
        cohort: NodeId,
        (common, skipped): (NodeId, NodeId),
        has_advantage: bool,
        found: &mut Vec<Choice<'a>>,
    ) {
        for child in tree.children(cohort).iter().copied().filter(|child| *child != skipped) {
            if !self.borrows(tree, child) {
                continue;
            }
            if tree.is_queue(child) {
                self.gather(child, common, has_advantage, found);
            } else {
                self.below(tree, child, (common, skipped), has_advantage, found);
            }
        }
    }

    fn gather(&self, queue: NodeId, common: NodeId, has_advantage: bool, found: &mut Vec<Choice<'a>>) {
        let own = queue == self.incoming.queue;
        let rule = if own { self.rules.within_queue } else { self.rules.within_tree };
        if rule == Victims::Never {
            return;
        }
        for of in (self.of_queue)(queue) {
            if rule.allows(of, self.incoming) && self.contested.iter().any(|column| of.usage[*column] > 0) {
                let kind = match self.borrowing {
                    _ if own => Kind::Own,
                    _ if has_advantage => Kind::Advantage,
                    WhileBorrowing::LowerPriority(most)
                        if of.priority < self.incoming.priority && most.is_none_or(|most| of.priority <= most) =>
                    {
                        Kind::Borrowing
                    }
                    _ => Kind::NotBorrowing,
                };
                found.push((of, queue, common, kind));
            }
        }
    }

    fn borrows(&self, tree: &Tree, at: NodeId) -> bool {
        self.contested.iter().any(|column| tree.borrows(at, *column))
    }

    /// Takes candidates until the job fits, with its queue borrowing or not; then gives back those that are not needed, the later ones first.
    fn attempt(&self, tree: &mut Tree, choices: &[Choice<'a>], borrow: bool) -> Vec<Victim> {
        let mut taken: Vec<Choice<'a>> = Vec::new();
        let mut fits = false;
        for choice in choices {
            if !self.is_valid(tree, choice, borrow) {
                continue;
            }
            tree.give_back(choice.1, &choice.0.usage);
            taken.push(*choice);
            fits = self.fits(tree, borrow);
            if fits {
                break;
            }
        }
        if fits {
            for at in (0..taken.len() - 1).rev() {
                let (of, queue, ..) = taken[at];
                tree.take(queue, &of.usage);
                if self.fits(tree, borrow) {
                    taken.swap_remove(at);
                } else {
                    tree.give_back(queue, &of.usage);
                }
            }
        }
        for (of, queue, ..) in &taken {
            tree.take(*queue, &of.usage);
        }
        let reason = |kind| match kind {
            Kind::Own => Reason::InQueue,
            Kind::Borrowing => Reason::ReclamationWhileBorrowing,
            Kind::Advantage | Kind::NotBorrowing => Reason::Reclamation,
        };
        let victim = |(of, queue, _, kind): &Choice| (of.id, *queue, reason(*kind));
        if fits { taken.iter().map(victim).collect() } else { Vec::new() }
    }

    /// Whether a candidate may go still: its queue and the cohorts up to the one that both are in borrow.
    fn is_valid(&self, tree: &Tree, (_, queue, common, kind): &Choice, borrow: bool) -> bool {
        let up_to_common = || tree.path(*queue).take_while(|at| at != common);
        *kind == Kind::Own
            || (!(borrow && *kind == Kind::NotBorrowing) && up_to_common().all(|at| self.borrows(tree, at)))
    }

    fn fits(&self, tree: &Tree, borrow: bool) -> bool {
        let Incoming { queue, usage, .. } = self.incoming;
        let within = |(column, amount): (usize, &i64)| {
            *amount == 0 || tree.used(*queue, column) + amount <= tree.quota(*queue, column)
        };
        tree.fits(*queue, usage) && (borrow || usage.iter().enumerate().all(within))
    }
}
