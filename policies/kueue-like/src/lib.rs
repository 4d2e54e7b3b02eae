//! Queues that lend quotas to each other, and take them back, after Kueue.
//!
//! Each call goes on in cycles until nothing more starts. In a cycle each queue offers one job: that of the smallest dominant share with its next job first, cohort by cohort;
//! without fair sharing that which borrows of the lowest cohort. Where queues take back all that others borrow, one that stands before others goes on before they have their turn:
//! what they started it would take back. A job starts if its queue has quota for it, its own or lent; else it preempts the jobs that Kueue names, if it finds a place where
//! they were. Source: Kueue's rules (commit ff69552): shares ([`tree`]), victims with fair sharing
//! ([`preempt`]) and without ([`classical`]) and, where the fleet has levels, nodes
//! ([`topology`]) exact on its own test cases. Otherwise than Kueue: one resource, GPUs of all types together; what queues are guaranteed is their nominal quota, and
//! what no queue is guaranteed belongs to a root cohort and is lent to all; queues lend all that they do not use; who preempts is said once for all queues; jobs that may
//! not be preempted are no victims; later reservations are those that began to run later; jobs run for `least_run` before they go, without which the rules can have queues take
//! turns at one instant for ever.

mod classical;
#[cfg(test)]
mod cycles;
mod places;
mod preempt;
#[cfg(test)]
mod published;
#[cfg(test)]
mod random;
mod topology;
mod tree;

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, GpuId, Job, JobId, Kind, Knowledge, Param, Placement, Policy,
    PolicyError, QueueId, Reason, Setup,
};
use sandtable_queues::{Eviction, Next, Protected, Waiting};

use classical::WhileBorrowing;
use places::place;
use preempt::{Candidate, Incoming, Rules, Strategy, Victims};
use tree::{NodeId, Quota, Tree};

/// Where a queue stands: its rank with its next job; how many jobs of it have started in this call; that job's priority, the higher first; then the job that came first.
type Turn = ((bool, u64), u32, Reverse<i32>, JobId);

/// A job that can preempt none as long as nothing moves, by all that decides it: its queue, what it asks for, its priority, and where its
/// age counts the job.
type Refused = (NodeId, [i64; 1], i32, Option<JobId>);

/// What decides between queues.
enum Preemption {
    /// Their dominant shares, by these strategies.
    Fair(Strategy, Option<Strategy>),
    /// Whether they borrow; then priority and age.
    Classical(WhileBorrowing),
}

/// The policy.
pub struct KueueLike {
    waiting: Waiting<Turn>,
    rules: Rules,
    preemption: Preemption,
    /// Whether the next job of a queue holds up those behind it.
    strict: bool,
    protected: Protected,
    eviction: Eviction,
    /// GPUs of all nodes.
    gpus: u32,
}

impl Policy for KueueLike {
    fn about() -> About {
        About {
            name: "kueue-like",
            about: "quotas that queues lend to each other and take back, by dominant shares or without, after Kueue",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::QUEUES | Placement::follows(),
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "within_queue",
                    kind: Kind::Choice(&["never", "lower-priority", "lower-or-newer-equal-priority"]),
                    default: "\"lower-priority\"",
                    about: "Which jobs of its own queue a job may preempt (Kueue's `withinClusterQueue`, there by default `never`).",
                },
                Param {
                    name: "reclaim",
                    kind: Kind::Choice(&["never", "lower-priority", "any"]),
                    default: "\"any\"",
                    about: "Which jobs of queues that borrow a job may preempt (Kueue's `reclaimWithinCohort`, there by default `never`).",
                },
                Param {
                    name: "preemption",
                    kind: Kind::Choice(&["fair", "classical"]),
                    default: "\"fair\"",
                    about: "What decides between queues: dominant shares (fair, Kueue's fair sharing), or who borrows, then priority and age (classical, there the default).",
                },
                Param {
                    name: "borrow_within",
                    kind: Kind::Choice(&["never", "lower-priority"]),
                    default: "\"never\"",
                    about: "With classical: whether a job may preempt jobs of a lower priority in other queues and have its own borrow at once (Kueue's `borrowWithinCohort`).",
                },
                Param {
                    name: "borrow_threshold",
                    kind: Kind::Number { min: -2147483648.0, max: 2147483647.0 },
                    default: "2147483647",
                    about: "The highest priority of jobs that may be preempted so (Kueue's `maxPriorityThreshold`).",
                },
                Param {
                    name: "strategies",
                    kind: Kind::Choice(&["both", "final-share", "initial-share"]),
                    default: "\"both\"",
                    about: "With fair: when a queue that borrows may preempt: its share with the job is at most the other's without the victim (final-share), below the other's with it (initial-share), or the one and then the other (both, Kueue's default).",
                },
                Param {
                    name: "queueing",
                    kind: Kind::Choice(&["best-effort", "strict"]),
                    default: "\"best-effort\"",
                    about: "Whether jobs pass those before them in their queue that can't start (best-effort), or wait for them (strict).",
                },
                Protected::PARAM,
                Eviction::PARAM,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        if setup.queues.is_empty() {
            let why = "kueue-like shares GPUs among queues: name them in `queues` of the experiment";
            return Err(PolicyError::Unsupported(why.into()));
        }
        Ok(KueueLike {
            waiting: Waiting::new(setup.queues.len()),
            rules: Rules {
                within_queue: Victims::named(config.choice("within_queue")),
                within_tree: Victims::named(config.choice("reclaim")),
            },
            preemption: match (config.choice("preemption"), config.choice("strategies")) {
                ("classical", _) if config.choice("borrow_within") == "never" => {
                    Preemption::Classical(WhileBorrowing::Never)
                }
                ("classical", _) => {
                    let most = config.number("borrow_threshold") as i32;
                    Preemption::Classical(WhileBorrowing::LowerPriority(Some(most)))
                }
                (_, "final-share") => Preemption::Fair(Strategy::AtMostFinalShare, None),
                (_, "initial-share") => Preemption::Fair(Strategy::BelowInitialShare, None),
                _ => Preemption::Fair(Strategy::AtMostFinalShare, Some(Strategy::BelowInitialShare)),
            },
            strict: config.choice("queueing") == "strict",
            protected: Protected::new(config.micros("least_run")),
            eviction: Eviction::of(config),
            gpus: setup.topology.nodes.iter().map(|node| node.gpus).sum(),
        })
    }

    fn uses(&self) -> Abilities {
        let follows = Abilities::QUEUES | Placement::follows();
        follows | if self.preempts() { Abilities::PREEMPT | Abilities::TIMERS } else { Abilities::empty() }
    }

    fn cadence(&self) -> Cadence {
        Cadence::WHILE_WAITING
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        for event in &batch.events {
            cluster.queued_by(event).for_each(|job| self.waiting.push(job));
        }
        self.protected.see(batch, cluster);
        if self.waiting.is_empty() || (!self.preempts() && self.waiting.is_blocked(cluster)) {
            return Ok(());
        }
        self.protected.begin(cluster);
        let mut quotas = self.quotas(cluster);
        let queues = cluster.queues().all().len();
        let (holders, started) = (Holders::new(queues), vec![0; queues]);
        let mut seen = Seen { holders, refused: BTreeSet::new(), started };
        self.waiting.begin(cluster, self.turns(&quotas, &seen.started));
        while self.cycle(cluster, &mut quotas, &mut seen) {
            self.waiting.take_turns(cluster, self.turns(&quotas, &seen.started));
        }
        let ends = if self.preempts() { self.protected.ends(cluster) } else { None };
        if let Some(at) = ends.filter(|_| !self.waiting.is_empty()) {
            cluster.call_by(at);
        }
        Ok(())
    }

    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        let lacks = |queue: QueueId| !self.quotas(cluster).fits(node(queue), &asks(job));
        if job.queue.is_some_and(lacks) {
            let why = "its queue has no quota left for it, of its own or lent, and may take none back";
            return Reason::Policy(why.into());
        }
        cluster.why(job)
    }
}

impl KueueLike {
    /// Offers each queue one turn, as a cycle of Kueue's scheduler does; returns whether anything changed, so that another may find more.
    fn cycle(&mut self, cluster: &mut Cluster, quotas: &mut Tree, seen: &mut Seen) -> bool {
        let (mut changed, mut reserved) = (false, Vec::new());
        // Shares are looked at anew after each start; heights stand as the cycle found them.
        let stand = matches!(self.preemption, Preemption::Classical(_)) && self.takes_turns();
        let before = stand.then(|| quotas.clone());
        while let Some(next) = self.waiting.next() {
            let job = cluster.job(next.job).clone();
            let has_quota = job.queue.is_none_or(|queue| quotas.fits(node(queue), &asks(&job)));
            let found = if has_quota {
                place(cluster, &job).map(|gpus| (Vec::new(), gpus))
            } else {
                self.make_room(cluster, quotas, &job, seen)
            };
            let Some((victims, gpus)) = found else {
                if let Some(queue) = job.queue.filter(|_| !has_quota).map(node) {
                    let kept = self.reserves(quotas, queue, &job);
                    quotas.take(queue, &kept);
                    reserved.push((queue, kept));
                }
                let turns = self.turns(before.as_ref().unwrap_or(quotas), &seen.started);
                match (self.strict, job.queue) {
                    // It holds up those behind it in the next cycle too, and keeps again what it can use then.
                    (true, Some(_)) if self.takes_turns() => {}
                    (true, _) => self.waiting.close_queue(next, cluster, turns),
                    (false, _) => self.waiting.close(next, cluster, turns),
                }
                changed |= !self.strict;
                self.serve(next, cluster, before.as_ref().unwrap_or(quotas), &seen.started);
                continue;
            };
            changed = true;
            for victim in victims.iter().map(|id| cluster.job(*id)) {
                victim.queue.into_iter().for_each(|queue| quotas.give_back(node(queue), &holds(victim)));
            }
            self.eviction.evict(cluster, &victims);
            cluster.start(next.job, gpus);
            self.protected.start(next.job);
            quotas.take(job.queue.map_or(ROOT, node), &asks(&job));
            seen.refused.clear();
            job.queue.iter().for_each(|queue| seen.started[*queue as usize] += 1);
            let ranks = before.as_ref().unwrap_or(quotas);
            self.waiting.remove(next, cluster, self.turns(ranks, &seen.started));
            self.serve(next, cluster, ranks, &seen.started);
            if !victims.is_empty() {
                seen.holders = Holders::new(seen.started.len());
                self.waiting.line_up(cluster, self.turns(ranks, &seen.started));
            }
        }
        reserved.into_iter().for_each(|(queue, kept)| quotas.give_back(queue, &kept));
        changed
    }

    /// Whether each queue has one turn in a cycle: not where those that stand before others would take back what these start.
    fn takes_turns(&self) -> bool {
        self.rules.within_tree != Victims::Any
    }

    /// A queue has had its turn.
    fn serve(&mut self, next: Next, cluster: &Cluster, quotas: &Tree, started: &[u32]) {
        if self.takes_turns() {
            self.waiting.serve(next, cluster, self.turns(quotas, started));
        }
    }

    /// What a queue keeps in a cycle for a job that has to wait for others to end: what is left of its own quota, or all that it asks for, as far as it may borrow, if the job may take quota
    /// back even to borrow it, or borrows of a cohort below the root. Nothing where it can take back whatever others borrow, or where no preemption could ever make it fit.
    ///
    /// Source: Kueue's `quotaResourcesToReserve` and `CanAlwaysReclaim`.
    fn reserves(&self, quotas: &Tree, queue: NodeId, job: &Job) -> [i64; 1] {
        let [asked] = asks(job);
        let (nominal, used) = (quotas.quota(queue, 0), quotas.used(queue, 0));
        let while_borrowing = match self.preemption {
            Preemption::Fair(..) => self.rules.within_tree != Victims::Never,
            Preemption::Classical(borrowing) => borrowing != WhileBorrowing::Never,
        };
        let may_take = asked <= nominal || while_borrowing || quotas.fits_below_the_root(queue, &[asked]);
        if self.rules.within_tree == Victims::Any || asked > quotas.potential(queue, 0) || !may_take {
            return [0];
        }
        let most = match used + asked > nominal {
            false => Some(nominal),
            true => quotas.borrowing_limit(queue, 0).map(|limit| nominal + limit),
        };
        [most.map_or(asked, |most| asked.min(most - used).max(0))]
    }

    fn preempts(&self) -> bool {
        self.rules != Rules { within_queue: Victims::Never, within_tree: Victims::Never }
    }

    /// Where queues stand, for [`Waiting`].
    fn turns<'a>(&self, quotas: &'a Tree, started: &'a [u32]) -> impl Fn(&Cluster, QueueId, &Job) -> Turn + use<'a> {
        let by_share = matches!(self.preemption, Preemption::Fair(..));
        move |_, id, job| {
            let queue = node(job.queue.unwrap_or(id));
            let rank = if by_share {
                quotas.share_with(node(id), queue, &asks(job)).rank()
            } else {
                // Of a group it is what its queue that comes first does.
                (false, quotas.height_of_fit(queue, &asks(job)))
            };
            let started = job.queue.map_or(0, |queue| started[queue as usize]);
            (rank, started, Reverse(job.priority), job.id)
        }
    }

    /// The quotas of the queues, in thousandths of a GPU, and what each uses as the plan so far leaves it. A group's own quota is what it is
    /// guaranteed beyond those in it; the root's is the rest of what is up, and below 0 where less is up than is guaranteed: no more is lent
    /// than there is.
    fn quotas(&self, cluster: &Cluster) -> Tree {
        let of = cluster.queues();
        let guaranteed = |queue: QueueId| milli(of.guaranteed(queue));
        // What each has with those in it. A group comes before those in it.
        let (mut with, mut of_those_in) = (vec![0; of.all().len()], vec![0; of.all().len()]);
        let up = cluster.all_up_gpus();
        // What jobs hold on nodes that drain is there as long as they hold it.
        let drains = |job: &Job| (job.held.len() as u64 - u64::from(cluster.gpus_on_up(job))) * u64::from(job.share);
        let draining: u64 = if up < self.gpus { cluster.holders().map(drains).sum() } else { 0 };
        let mut rest = milli(u64::from(up) * 1000 + draining) - milli(of.held_outside());
        for queue in of.all().iter().rev() {
            let at = queue.id as usize;
            with[at] = guaranteed(queue.id).max(of_those_in[at]);
            match queue.parent {
                Some(group) => of_those_in[group as usize] += with[at],
                None => rest -= with[at],
            }
        }
        let mut tree = Tree::new(vec![0]);
        tree.add(None, false, 1.0, vec![Quota { nominal: rest, ..Quota::default() }]);
        for queue in of.all() {
            let at = queue.id as usize;
            let beyond = queue.limit.is_finite().then(|| (milli(of.limit(queue.id)) - with[at]).max(0));
            let quota = Quota { nominal: with[at] - of_those_in[at], lending_limit: None, borrowing_limit: beyond };
            let is_queue = of.of_group(Some(queue.id)).is_empty();
            tree.add(Some(queue.parent.map_or(ROOT, node)), is_queue, queue.weight, vec![quota]);
        }
        for queue in of.all().iter().map(|queue| queue.id).filter(|queue| of.of_group(Some(*queue)).is_empty()) {
            tree.take(node(queue), &[milli(of.held(queue))]);
        }
        tree
    }

    /// Jobs that go for one that its queue has no quota for, and its place then.
    fn make_room(
        &self,
        cluster: &mut Cluster,
        quotas: &mut Tree,
        job: &Job,
        Seen { holders, refused, .. }: &mut Seen,
    ) -> Option<(Vec<JobId>, Vec<GpuId>)> {
        if !self.preempts() {
            return None;
        }
        let incoming = Incoming {
            queue: node(job.queue?),
            usage: asks(job).into(),
            priority: job.priority,
            submitted: i64::from(job.id),
        };
        let mut rules = self.rules;
        let lowest = cluster.queues().holders(job.queue?).next().map(|id| cluster.job(id).priority);
        // Then the jobs of its queue need not be gathered.
        if rules.within_queue == Victims::LowerPriority && lowest.is_none_or(|lowest| lowest >= job.priority) {
            rules.within_queue = Victims::Never;
        }
        let holders = &*holders;
        let of_queue = |queue| holders.of(queue, cluster, &self.protected);
        let by_age = rules.within_queue == Victims::LowerOrNewerEqualPriority;
        let key = (incoming.queue, asks(job), job.priority, by_age.then_some(job.id));
        if refused.contains(&key) {
            return None;
        }
        let found = match self.preemption {
            Preemption::Fair(by, then) => preempt::victims(quotas, &of_queue, &incoming, rules, (by, then)),
            Preemption::Classical(borrowing) => {
                classical::victims(quotas, &of_queue, &incoming, &[0], (rules, borrowing))
            }
        };
        if found.is_empty() {
            refused.insert(key);
            return None;
        }
        let victims: Vec<JobId> = found.iter().map(|(id, ..)| *id).collect();
        let all_gone = |cluster: &Cluster| victims.iter().all(|id| !cluster.job(*id).holds());
        cluster.place_without(&victims, |cluster| if all_gone(cluster) { place(cluster, job) } else { None })
    }
}

/// The root of the tree, before all queues.
const ROOT: NodeId = 0;

/// The node of a queue or a group.
fn node(queue: QueueId) -> NodeId {
    queue as usize + 1
}

fn milli(gpus: u64) -> i64 {
    i64::try_from(gpus).unwrap_or(i64::MAX)
}

fn asks(job: &Job) -> [i64; 1] {
    [milli(job.asked_milli())]
}

fn holds(job: &Job) -> [i64; 1] {
    [milli(job.held.len() as u64 * u64::from(job.share))]
}

/// What a call has found out about jobs that might be preempted.
struct Seen {
    holders: Holders,
    refused: BTreeSet<Refused>,
    /// Jobs that have started, by queue.
    started: Vec<u32>,
}

/// Jobs that may be preempted, by queue, once they are asked for.
struct Holders {
    of_queue: Vec<OnceCell<Vec<Candidate>>>,
}

impl Holders {
    /// Those of so many queues.
    fn new(queues: usize) -> Holders {
        Holders { of_queue: vec![OnceCell::new(); queues] }
    }

    /// Those of a queue, in the order of [`preempt::victims`].
    fn of(&self, at: NodeId, cluster: &Cluster, protected: &Protected) -> &[Candidate] {
        let find = || {
            let jobs = cluster.queues().holders((at - 1) as QueueId).map(|id| cluster.job(id));
            let mut all: Vec<Candidate> = jobs.filter(|job| protected.may_go(cluster, job)).map(candidate).collect();
            all.sort_unstable_by(Candidate::order);
            all
        };
        self.of_queue[at - 1].get_or_init(find)
    }
}

fn candidate(job: &Job) -> Candidate {
    Candidate {
        id: job.id,
        usage: holds(job).into(),
        priority: job.priority,
        submitted: i64::from(job.id),
        reserved: job.runs_since().map_or(i64::MAX, milli),
        evicted: false,
    }
}

sandtable_policy::export!(KueueLike);

#[cfg(test)]
mod tests {
    use super::KueueLike;
    use sandtable_policy::testing::refusal;

    #[test]
    fn without_queues_it_says_what_it_needs() {
        let why = refusal::<KueueLike>("{}");
        assert_eq!(why, "kueue-like shares GPUs among queues: name them in `queues` of the experiment");
    }
}
