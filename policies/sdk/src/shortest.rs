//! Policies that serve the least first, of what is left of each job.
//!
//! Where the host tells in events what is left ([`Knowledge::REMAINING_IN_EVENTS`]), jobs are kept in order between passes, and a
//! pass costs what changes. Where it does not, or a job's answer moves in another way, [`Ranking`] asks and sorts at every pass.

use std::cmp::Ordering;

use crate::line::Stand;
use crate::quota::QuotaOrder;
use crate::time_left::{TimeLeft, next_change};
use crate::waiting_first::WaitingFirst;
use crate::{
    Batch, Cluster, Config, Event, Instant, JobId, JobMap, Knowledge, Placement, QuotaQueue, Ranking, Setup, Tick, Ties,
};

/// What counts of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Least {
    /// The time left.
    Time,
    /// The time left times its GPUs.
    Service,
}

impl Least {
    pub(crate) fn weight(self, gpus: u32) -> u32 {
        match self {
            Least::Time => 1,
            Least::Service => gpus,
        }
    }
}

/// The walk over jobs in the order of what is left of them. Its parameters are `placement`, `ties` and `tick`.
pub struct ShortestFirst {
    place: Placement,
    jobs: Jobs,
    tick: Tick,
}

enum Jobs {
    Kept(Kept),
    WaitingFirst(WaitingFirst),
    Ranked { ranking: Ranking, least: Least },
}

impl ShortestFirst {
    /// The order of a configuration with these parameters.
    pub fn new(config: &Config, setup: &Setup, least: Least) -> ShortestFirst {
        let ties = Ties::named(config.choice("ties"));
        // What events tell is of the first type that a job allows, whatever it prefers.
        let one_type = setup.topology.gpu_types.len() == 1 || config.choice("placement") != Placement::FASTEST;
        let told = setup.knowledge.contains(Knowledge::REMAINING_IN_EVENTS) && one_type;
        let jobs = match ties {
            _ if !told => Jobs::Ranked { ranking: Ranking::new(ties), least },
            Ties::Kept => Jobs::Kept(Kept::new(least)),
            Ties::WaitingFirst => Jobs::WaitingFirst(WaitingFirst::new(least)),
        };
        let (place, tick) = (Placement::named(config.choice("placement")), Tick::new(config.micros("tick")));
        ShortestFirst { place, jobs, tick }
    }

    /// Preempts and starts jobs as the quota says.
    pub fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) {
        let how = (self.place, self.tick.is_set());
        let change = match &mut self.jobs {
            Jobs::Kept(kept) => kept.pass(batch, cluster, how),
            Jobs::WaitingFirst(jobs) => jobs.pass(batch, cluster, how),
            Jobs::Ranked { ranking, least } => {
                let key = |seconds: f64, gpus| seconds * f64::from(least.weight(gpus));
                ranking.pass(batch, cluster, self.place, key)
            }
        };
        self.tick.call_after(batch, cluster, change);
    }
}

/// What is left of a job, from a pass on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    left: TimeLeft,
    /// The pass, its instant, and the instant of the pass before.
    pass: u64,
    at: Instant,
    before: Instant,
}

/// The order that a stable sort at every pass leaves: by what is left at this pass, among equals by what was left at the pass before,
/// and so on back to the pass at which one of them came, which stands behind.
#[derive(Default)]
struct Passes {
    now: Instant,
    /// Of each live job, the latest last.
    pieces: JobMap<Vec<Piece>>,
}

impl QuotaOrder<Piece> for Passes {
    fn order(&self, first: &Stand<Piece>, second: &Stand<Piece>) -> Ordering {
        let (mut a, mut b, mut at) = (first.0, second.0, self.now);
        // Their pieces up to these, once they are asked for.
        let mut known: Option<(&[Piece], &[Piece])> = None;
        loop {
            // What falls has fallen since both pieces began, what does not has not: at all passes since, one had less left if it
            // had less at the first of them.
            let later = if a.pass >= b.pass { a } else { b };
            let least = |at| a.left.counts(at).cmp(&b.left.counts(at));
            let order = least(at).then_with(|| least(later.at));
            if order.is_ne() || first.1 == second.1 {
                return order;
            }
            let (of_a, of_b) = known.unwrap_or_else(|| (self.of(first.1), self.of(second.1)));
            // At the pass before that.
            let (of_a, of_b) = (before(of_a, later.pass), before(of_b, later.pass));
            (a, b) = match (of_a.last(), of_b.last()) {
                (Some(a), Some(b)) => (*a, *b),
                (None, None) => return first.1.cmp(&second.1),
                (None, Some(_)) => return Ordering::Greater,
                (Some(_), None) => return Ordering::Less,
            };
            (at, known) = (later.before, Some((of_a, of_b)));
        }
    }

    fn group(&self, piece: &Piece) -> u32 {
        piece.left.weight
    }
}

impl Passes {
    fn of(&self, id: JobId) -> &[Piece] {
        self.pieces.get(id).map_or(&[], Vec::as_slice)
    }
}

/// A job's pieces, the latest last, without one that began at this pass; none began later.
fn before(pieces: &[Piece], pass: u64) -> &[Piece] {
    match pieces.split_last() {
        Some((last, earlier)) if last.pass == pass => earlier,
        _ => pieces,
    }
}

/// Jobs in that order.
struct Kept {
    least: Least,
    queue: QuotaQueue<Piece, Passes>,
    passes: u64,
    /// The instant of the latest pass.
    last: Instant,
    /// Jobs that the latest pass started or preempted.
    moved: Vec<JobId>,
}

impl Kept {
    fn new(least: Least) -> Kept {
        Kept { least, queue: QuotaQueue::new(Passes::default()), passes: 0, last: 0, moved: Vec::new() }
    }

    /// If it `foretells`, returns the seconds after which the walk would end otherwise although nothing happens.
    fn pass(&mut self, batch: &Batch, cluster: &mut Cluster, (place, foretells): (Placement, bool)) -> Option<f64> {
        self.passes += 1;
        self.queue.order.now = batch.now;
        // Where a job stands that was refused, or of which nothing was told.
        for id in std::mem::take(&mut self.moved) {
            self.put(cluster, id);
        }
        for event in &batch.events {
            match event {
                Event::JobArrived(arrival) => self.tell(cluster, arrival.job, arrival.submitted, arrival.remaining),
                Event::JobChanged(change) => self.tell(cluster, change.job, change.at, change.remaining),
                Event::RemainingChanged(change) => self.tell(cluster, change.job, change.at, change.remaining),
                Event::JobEnded(end) => {
                    self.queue.take(end.job);
                    self.queue.order.pieces.remove(end.job);
                }
                Event::NodeChanged(_) | Event::LeaseEnded(_) | Event::Timer(_) | Event::Rejected(_) => {}
            }
        }
        self.last = batch.now;
        let changes = self.queue.walk(cluster, place);
        self.moved = changes.preempted;
        self.moved.extend(changes.chosen.iter().map(|(id, _)| *id));
        let stand = |id: JobId| self.queue.order.of(id).last().map(|piece| (*piece, id));
        let seconds = |piece: &Piece| piece.left.seconds(batch.now);
        let unplaced = if foretells { &changes.unplaced[..] } else { &[] };
        next_change(cluster, &self.queue.order, stand, seconds, unplaced)
    }

    /// So much is left of a job at that instant.
    fn tell(&mut self, cluster: &Cluster, id: JobId, at: Instant, left: u64) {
        let Some(job) = cluster.get(id) else { return };
        let left = TimeLeft::told(job, at, left, self.least.weight(job.gpus));
        if self.queue.order.of(id).last().is_none_or(|last| last.left != left) {
            // It may not stand in the queue while its pieces change.
            self.queue.take(id);
            let (pass, now) = (self.passes, self.queue.order.now);
            let piece = Piece { left, pass, at: now, before: self.last };
            let pieces = &mut self.queue.order.pieces;
            match pieces.get_mut(id) {
                None => drop(pieces.insert(id, vec![piece])),
                Some(all) => match all.last_mut() {
                    // A pass sees what is left by then.
                    Some(last) if last.pass == pass => last.left = left,
                    _ => all.push(piece),
                },
            }
        }
        self.put(cluster, id);
    }

    fn put(&mut self, cluster: &Cluster, id: JobId) {
        let piece = self.queue.order.pieces.get(id).and_then(|pieces| pieces.last().copied());
        match (cluster.get(id), piece) {
            (Some(_), Some(piece)) => self.queue.put(cluster, id, piece),
            _ => self.queue.take(id),
        }
    }
}
