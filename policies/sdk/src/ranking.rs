//! A list of live jobs by a key that moves with time, for policies that serve the least first.

use crate::{Batch, Cluster, Event, JobId, Placement, walk};

/// Which job comes first among equal keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ties {
    /// The list keeps the order that it had; new jobs come last (Tiresias).
    Kept,
    /// Those that wait, in the order in which they began to; then those that hold GPUs, likewise (Lucid).
    WaitingFirst,
}

impl Ties {
    /// The words by which configurations name the rules.
    pub const WORDS: &'static [&'static str] = &["kept", "waiting-first"];

    /// The rule of a word of [`Ties::WORDS`].
    pub fn named(word: &str) -> Ties {
        if word == "waiting-first" { Ties::WaitingFirst } else { Ties::Kept }
    }
}

struct Ranked {
    id: JobId,
    /// Seconds left when last asked.
    left: f64,
    key: f64,
    /// Whether it held GPUs then: a waiting job makes no progress, so its answer stays valid.
    held: bool,
    /// Whether the pass then started or preempted it.
    moved: bool,
    since: u64,
}

/// The list.
pub struct Ranking {
    ties: Ties,
    list: Vec<Ranked>,
    moves: u64,
}

const TICK_TOKEN: u64 = 1;

impl Ranking {
    /// An empty list.
    pub fn new(ties: Ties) -> Ranking {
        Ranking { ties, list: Vec::new(), moves: 0 }
    }

    /// Takes in a batch, asks what is left of each job, sorts by `key(seconds left, gpus)`, NaN last, and walks the
    /// quota. Returns the seconds after which the walk would end otherwise although nothing happens: a chosen job
    /// found no place, and one that holds GPUs passes it.
    pub fn pass(
        &mut self,
        batch: &Batch,
        cluster: &mut Cluster,
        place: Placement,
        key: impl Fn(f64, u32) -> f64,
    ) -> Option<f64> {
        self.take_in(batch, cluster);
        self.ask(cluster, key);
        match self.ties {
            Ties::Kept => self.list.sort_by(|a, b| ascending(a.key, b.key)),
            Ties::WaitingFirst => {
                self.list.sort_by(|a, b| ascending(a.key, b.key).then((a.held, a.since).cmp(&(b.held, b.since))));
            }
        }
        let unplaced = walk(cluster, self.list.iter().map(|ranked| ranked.id), place);
        for ranked in &mut self.list {
            let holds = cluster.job(ranked.id).holds();
            ranked.moved = holds != ranked.held;
            if ranked.moved {
                ranked.since = self.moves;
                self.moves += 1;
            }
        }
        self.next_change(cluster, &unplaced)
    }

    fn take_in(&mut self, batch: &Batch, cluster: &Cluster) {
        let mut ended = false;
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => {
                    let (left, key) = (f64::NAN, f64::NAN);
                    self.list.push(Ranked { id: arrival.job, left, key, held: true, moved: false, since: self.moves });
                    self.moves += 1;
                }
                Event::JobEnded(_) => ended = true,
                _ => {}
            }
        }
        if ended {
            self.list.retain(|ranked| cluster.get(ranked.id).is_some());
        }
    }

    /// What waits and has waited since it was last asked has not moved.
    fn ask(&mut self, cluster: &Cluster, key: impl Fn(f64, u32) -> f64) {
        let moved = |ranked: &&mut Ranked| ranked.held || ranked.moved || cluster.job(ranked.id).holds();
        let ids: Vec<JobId> = self.list.iter_mut().filter(moved).map(|ranked| ranked.id).collect();
        let mut answers = cluster.remaining(&ids).into_iter();
        for ranked in self.list.iter_mut().filter(moved) {
            let job = cluster.job(ranked.id);
            ranked.left = answers.next().unwrap_or(f64::NAN);
            ranked.key = key(ranked.left, job.gpus);
            ranked.held = job.holds() || !job.waits();
        }
    }

    /// The earliest moment at which a holder's remaining time falls below that of an unplaced job before it.
    fn next_change(&self, cluster: &Cluster, unplaced: &[JobId]) -> Option<f64> {
        let mut bar: Option<f64> = None;
        let mut soonest: Option<f64> = None;
        for ranked in &self.list {
            if unplaced.contains(&ranked.id) {
                bar = Some(ranked.left);
            } else if let Some(bar) = bar
                && cluster.job(ranked.id).holds()
            {
                let gap = ranked.left - bar;
                if gap.is_nan() {
                    continue;
                }
                let gap = gap.max(0.0);
                soonest = Some(soonest.map_or(gap, |least| least.min(gap)));
            }
        }
        soonest
    }
}

/// Calls of a policy at multiples of a time.
pub struct Tick {
    /// µs; 0: none.
    every: u64,
    pending: Option<u64>,
}

impl Tick {
    /// Every so many µs; 0: never.
    pub fn new(every: u64) -> Tick {
        Tick { every, pending: None }
    }

    /// Whether there are any.
    pub fn is_set(&self) -> bool {
        self.every > 0
    }

    /// Has the policy called at the first multiple of the time after a change that so many seconds from now will bring, and at no other.
    pub fn call_after(&mut self, batch: &Batch, cluster: &mut Cluster, change: Option<f64>) {
        if self.pending.is_some_and(|at| at <= batch.now) {
            self.pending = None;
        }
        let wish = change.filter(|_| self.is_set()).map(|seconds| {
            let passed = batch.now.saturating_add((seconds * 1e6) as u64);
            (passed / self.every).saturating_add(1).saturating_mul(self.every)
        });
        // Nothing happens from 2^53 µs on.
        let wish = wish.filter(|at| *at < 1 << 53);
        if self.pending != wish {
            if self.pending.is_some() {
                cluster.cancel_timer(TICK_TOKEN);
            }
            if let Some(at) = wish {
                cluster.set_timer(TICK_TOKEN, at);
            }
            self.pending = wish;
        }
    }
}

/// The order of two numbers, NaN last.
pub fn ascending(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
