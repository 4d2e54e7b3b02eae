//! What holds for victims of any tree of queues.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::classical::{self, WhileBorrowing};
use crate::preempt::{Candidate, Incoming, Reason, Rules, Strategy as Rule, Victims, victims};
use crate::tree::{NodeId, Quota, Tree};

/// Two columns of one resource, and one of another.
const RESOURCES: [usize; 3] = [0, 0, 1];

fn amount() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(0), 3 => 1i64..4]
}

prop_compose! {
    fn quota()(nominal in 0i64..6, lending in prop::option::weighted(0.3, 0i64..4), borrowing in prop::option::weighted(0.3, 0i64..4))
        -> Quota {
        Quota { nominal, lending_limit: lending, borrowing_limit: borrowing }
    }
}

fn quotas() -> impl Strategy<Value = Vec<Quota>> {
    prop::collection::vec(quota(), RESOURCES.len())
}

/// A root, some cohorts below it, and queues below any of them.
fn tree() -> impl Strategy<Value = (Tree, Vec<NodeId>)> {
    let node = (any::<prop::sample::Index>(), prop_oneof![Just(0.0), Just(1.0), Just(3.0)], quotas());
    let nodes = prop::collection::vec(node, 3..9);
    (quotas(), nodes, 0usize..3).prop_map(|(root, nodes, cohorts)| {
        let mut tree = Tree::new(RESOURCES.into());
        let (mut above, mut queues) = (vec![tree.add(None, false, 1.0, root)], Vec::new());
        for (at, (parent, weight, quotas)) in nodes.into_iter().enumerate() {
            let parent = above[parent.index(above.len())];
            let id = tree.add(Some(parent), at >= cohorts, weight, quotas);
            if at < cohorts { above.push(id) } else { queues.push(id) }
        }
        (tree, queues)
    })
}

/// What decides who goes.
#[derive(Clone, Copy, Debug)]
enum By {
    Shares(Rule, Option<Rule>),
    Borrowing(WhileBorrowing),
}

fn rule() -> impl Strategy<Value = Victims> {
    prop_oneof![
        Just(Victims::Never),
        Just(Victims::LowerPriority),
        Just(Victims::LowerOrNewerEqualPriority),
        Just(Victims::Any)
    ]
}

prop_compose! {
    fn job()(queue in any::<prop::sample::Index>(), usage in prop::collection::vec(amount(), 3), priority in 0i32..3,
        submitted in 0i64..9, reserved in 0i64..4, evicted in prop::bool::weighted(0.1))
        -> (prop::sample::Index, Candidate) {
        (queue, Candidate { id: 0, usage, priority, submitted, reserved, evicted })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn victims_are_allowed_enough_and_none_too_many(
        (mut tree, queues) in tree(),
        jobs in prop::collection::vec(job(), 0..14),
        (into, asked) in job(),
        (within_queue, within_tree) in (rule(), rule()),
        by in prop_oneof![
            Just(By::Shares(Rule::AtMostFinalShare, Some(Rule::BelowInitialShare))),
            Just(By::Shares(Rule::AtMostFinalShare, None)),
            Just(By::Shares(Rule::BelowInitialShare, None)),
            Just(By::Borrowing(WhileBorrowing::Never)),
            Just(By::Borrowing(WhileBorrowing::LowerPriority(None))),
            Just(By::Borrowing(WhileBorrowing::LowerPriority(Some(0)))),
        ],
    ) {
        let mut all: BTreeMap<NodeId, Vec<Candidate>> = BTreeMap::new();
        for (id, (queue, of)) in (0..).zip(jobs) {
            let queue = queues[queue.index(queues.len())];
            tree.take(queue, &of.usage);
            all.entry(queue).or_default().push(Candidate { id, ..of });
        }
        all.values_mut().for_each(|of| of.sort_by(Candidate::order));
        let Candidate { usage, priority, submitted, .. } = asked;
        let incoming = Incoming { queue: queues[into.index(queues.len())], usage, priority, submitted };
        let before = tree.clone();
        let of_queue = |queue| all.get(&queue).map_or(&[][..], Vec::as_slice);
        let rules = Rules { within_queue, within_tree };
        let lacks = |column: &usize| incoming.usage[*column] > 0 && incoming.usage[*column] > before.available(incoming.queue, *column);
        let contested: Vec<usize> = (0..RESOURCES.len()).filter(lacks).collect();
        let found = match by {
            By::Shares(first, then) => victims(&mut tree, &of_queue, &incoming, rules, (first, then)),
            By::Borrowing(borrowing) => classical::victims(&mut tree, &of_queue, &incoming, &contested, (rules, borrowing)),
        };
        prop_assert_eq!(&tree, &before);
        let job = |id: u32, queue: NodeId| all[&queue].iter().find(|of| of.id == id).expect("a candidate");
        let fits = |spared: Option<usize>| {
            let mut tree = before.clone();
            for (at, (id, queue, _)) in found.iter().enumerate() {
                if spared != Some(at) {
                    tree.give_back(*queue, &job(*id, *queue).usage);
                }
            }
            tree.fits(incoming.queue, &incoming.usage)
        };
        if !found.is_empty() {
            prop_assert!(fits(None));
        }
        for (at, victim) in found.iter().enumerate() {
            // Without shares more may go so that the queue does not borrow.
            prop_assert!(matches!(by, By::Borrowing(_)) || !fits(Some(at)), "{victim:?} need not go");
        }
        for (id, queue, reason) in &found {
            let (of, own) = (job(*id, *queue), *queue == incoming.queue);
            prop_assert_eq!(own, *reason == Reason::InQueue);
            let allowed = match if own { within_queue } else { within_tree } {
                Victims::Never => false,
                Victims::LowerPriority => of.priority < incoming.priority,
                Victims::LowerOrNewerEqualPriority =>
                    of.priority < incoming.priority || (of.priority == incoming.priority && of.submitted > incoming.submitted),
                Victims::Any => true,
            };
            prop_assert!(allowed);
            let forbidden = matches!(by, By::Borrowing(WhileBorrowing::Never) | By::Shares(..));
            prop_assert!(!forbidden || *reason != Reason::ReclamationWhileBorrowing);
            // Only what is borrowed is taken back.
            prop_assert!(own || (0..RESOURCES.len()).any(|column| before.borrows(*queue, column)));
        }
    }

    #[test]
    fn what_is_taken_and_given_back_leaves_the_tree_as_it_was(
        (mut tree, queues) in tree(),
        jobs in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0i64..9, 3)), 1..12),
    ) {
        let before = tree.clone();
        let jobs: Vec<(NodeId, Vec<i64>)> = jobs.into_iter().map(|(at, usage)| (queues[at.index(queues.len())], usage)).collect();
        jobs.iter().for_each(|(queue, usage)| tree.take(*queue, usage));
        jobs.iter().for_each(|(queue, usage)| tree.give_back(*queue, usage));
        prop_assert_eq!(tree, before);
    }
}
