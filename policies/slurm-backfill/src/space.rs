//! When which nodes are kept for no job, as Slurm's backfill notes it: a row of spans, each with the nodes that no plan keeps in it.

use sandtable_policy::Instant;

/// Some of the nodes.
#[derive(Clone, PartialEq, Eq)]
pub struct Set(Vec<u64>);

impl Set {
    /// Those of so many of which this holds.
    pub fn of(nodes: usize, is_in: impl Fn(usize) -> bool) -> Set {
        let mut set = Set(vec![0; nodes.div_ceil(64)]);
        (0..nodes).filter(|node| is_in(*node)).for_each(|node| set.0[node / 64] |= 1 << (node % 64));
        set
    }

    /// Whether a node is in it.
    pub fn has(&self, node: usize) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    /// How many are in it.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn remove(&mut self, node: usize) {
        self.0[node / 64] &= !(1 << (node % 64));
    }

    fn keep_those_of(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    fn has_one_beside(&self, other: &Set) -> bool {
        self.0.iter().zip(&other.0).any(|(word, other)| word & !other != 0)
    }
}

struct Span {
    from: Instant,
    to: Instant,
    free: Set,
}

/// The spans, one after the other; the last has no end.
pub struct Space {
    spans: Vec<Span>,
}

impl Space {
    /// No node is kept.
    pub fn new(now: Instant, nodes: usize) -> Space {
        Space { spans: vec![Span { from: now, to: Instant::MAX, free: Set::of(nodes, |_| true) }] }
    }

    /// Of nodes that suit a job those that are kept for none while it would run from one time to another, which counts; and the end of the first span that goes
    /// on after the first time and is followed by one with another node, as far as spans are looked at.
    pub fn while_running(&self, from: Instant, to: Instant, suited: &Set) -> (Set, Option<Instant>) {
        let (mut free, mut more) = (suited.clone(), None);
        let first = self.spans.partition_point(|span| span.to <= from);
        for (at, span) in self.spans.iter().enumerate().skip(first) {
            if let (None, Some(next)) = (more, self.spans.get(at + 1)) {
                more = next.free.has_one_beside(&span.free).then_some(span.to);
            }
            if span.from > to {
                break;
            }
            free.keep_those_of(&span.free);
        }
        (free, more)
    }

    /// Whether one of these nodes is kept in a time.
    pub fn keeps_any(&self, mut nodes: impl Iterator<Item = usize>, from: Instant, to: Instant) -> bool {
        let first = self.spans.partition_point(|span| span.to <= from);
        nodes.any(|node| self.spans[first..].iter().take_while(|span| span.from < to).any(|span| !span.free.has(node)))
    }

    /// Keeps nodes for a job.
    pub fn keep(&mut self, nodes: impl Iterator<Item = usize>, from: Instant, to: Instant) {
        self.cut(from);
        self.cut(to);
        for node in nodes {
            let kept = self.spans.iter_mut().filter(|span| span.from >= from && span.to <= to);
            kept.for_each(|span| span.free.remove(node));
        }
        // Of the first two that are alike one is made, and of no others.
        if let Some(first) = self.spans.windows(2).position(|two| two[0].free == two[1].free) {
            self.spans[first].to = self.spans[first + 1].to;
            self.spans.remove(first + 1);
        }
    }

    /// Makes two spans of the one that goes on over a time.
    fn cut(&mut self, at: Instant) {
        if let Some(index) = self.spans.iter().position(|span| span.from < at && at < span.to) {
            let span = &mut self.spans[index];
            let after = Span { from: at, to: span.to, free: span.free.clone() };
            span.to = at;
            self.spans.insert(index + 1, after);
        }
    }
}
