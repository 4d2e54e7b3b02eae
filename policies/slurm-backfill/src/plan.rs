//! Plans of jobs on nodes, by time limits. Times are µs of the experiment's clock.

use sandtable_policy::{Instant, JobId};

use crate::part::{Need, Nodes, Part, Place, find};
use crate::space::{Set, Space};

const HALF_MINUTE: u64 = 30_000_000;

/// A running job gives back what it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// When, by its limit.
    pub at: Instant,
    /// Of those that end at a time the first to be submitted comes first.
    pub job: JobId,
    /// Nodes, and what of them.
    pub on: Vec<(usize, Part)>,
}

/// A part of a node that is kept for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// From.
    from: Instant,
    /// To.
    to: Instant,
    node: usize,
    part: Part,
}

/// The clock on the wall.
#[derive(Clone, Copy)]
pub struct Wall {
    /// What it shows at the beginning of the experiment's clock, µs.
    pub began: u64,
    /// Plans begin at multiples of this on it, µs; Slurm's second is the finest.
    pub resolution: u64,
}

impl Wall {
    /// The last such multiple that is not after a time; no time is before 0.
    pub fn down(self, at: Instant) -> Instant {
        match self.resolution {
            0..=1_000_000 => at,
            step => ((at + self.began) / step * step).saturating_sub(self.began),
        }
    }

    /// The half minute that a time is in.
    fn half_minute(self, at: Instant) -> u64 {
        (at + self.began) / HALF_MINUTE
    }
}

/// The plans of a tick.
pub struct Planner {
    /// The tick.
    pub now: Instant,
    /// What is free now.
    pub free: Nodes,
    /// The ends of running jobs, ascending.
    pub ends: Vec<End>,
    /// What is planned so far, where plans do not keep whole nodes.
    pub plans: Vec<Reserved>,
    /// The same, where they do.
    pub space: Space,
    /// By which plans begin.
    pub wall: Wall,
    /// Which nodes jobs get.
    pub place: Place,
    /// Whether plans keep whole nodes.
    pub whole_nodes: bool,
}

impl Planner {
    /// When a job of this limit can start beside what is planned, and where.
    pub fn earliest(&self, need: &Need, limit: u64) -> Option<(Instant, Vec<(usize, Part)>)> {
        let suited = Set::of(self.free.free.len(), |node| self.free.suits(need, node));
        if self.whole_nodes { self.on_whole_nodes(need, &suited, limit) } else { self.on_parts(need, &suited, limit) }
    }

    /// As Slurm's backfill plans: on nodes that are kept for no job while this one would run from now on, the first time at which it may start by the ends of
    /// running jobs alone; where other nodes are kept for none before that, or these are kept then, it is tried anew from there.
    fn on_whole_nodes(&self, need: &Need, suited: &Set, limit: u64) -> Option<(Instant, Vec<(usize, Part)>)> {
        let least = need.nodes as usize + usize::from(need.rest.gpus > 0);
        let mut from = self.now;
        loop {
            let (free, more) = self.space.while_running(from, from + limit, suited);
            let found = match free.count() < least {
                true => None,
                false => self.by_ends(need, &free),
            };
            let found = found.map(|(at, on)| (at.max(from), on)).filter(|(at, _)| more.is_none_or(|more| *at <= more));
            let Some((at, on)) = found else {
                from = more?;
                continue;
            };
            let (begin, end) = self.kept(at, limit);
            if at > from && self.space.keeps_any(on.iter().map(|(node, _)| *node), begin, end) {
                from = at;
                continue;
            }
            return Some((at, on));
        }
    }

    /// When a job may start by the ends of running jobs alone, and where, as `select/cons_tres` looks for it: those that end in the half minute
    /// of the first or in the next are gone together, and where that makes room the job starts when the last of them ends. A job that is on no node of these is left
    /// where it is; but where one is next and ends by then, the first behind it that is on one of these goes whenever it ends.
    fn by_ends(&self, need: &Need, on: &Set) -> Option<(Instant, Vec<(usize, Part)>)> {
        let places = |free: &[Part]| find((free, &self.free.types), |node| on.has(node), need, self.place);
        if let Some(places) = places(&self.free.free) {
            return Some((self.now, places));
        }
        let (mut free, mut ends) = (self.free.free.clone(), self.ends.iter().peekable());
        // Whether there may be room: counted, since to look for it takes longer.
        let enough = |free: Part, node: usize| on.has(node) && free.holds(need.each);
        let mut count = (0..free.len()).filter(|node| enough(free[*node], *node)).count();
        loop {
            let (mut first, mut last) = (None, None);
            while let Some(end) = ends.next() {
                if end.on.iter().all(|(node, _)| !on.has(*node)) {
                    continue;
                }
                for (node, part) in &end.on {
                    count -= usize::from(enough(free[*node], *node));
                    free[*node] += *part;
                    count += usize::from(enough(free[*node], *node));
                }
                last = Some(end.at);
                let half_minute = *first.get_or_insert(self.wall.half_minute(end.at));
                if ends.peek().is_some_and(|next| self.wall.half_minute(next.at) > half_minute + 1) {
                    break;
                }
            }
            let last = last?;
            if count >= need.nodes as usize
                && let Some(places) = places(&free)
            {
                return Some((last, places));
            }
        }
    }

    /// From now, and then from the end of each plan, the first time is looked for at which ends of running jobs have made room beside what plans keep while it would
    /// run from there; where one keeps it while it would run from that time, the next is tried.
    fn on_parts(&self, need: &Need, suited: &Set, limit: u64) -> Option<(Instant, Vec<(usize, Part)>)> {
        let mut from: Vec<Instant> = self.plans.iter().map(|plan| plan.to).filter(|to| *to > self.now).collect();
        from.push(self.now);
        from.sort_unstable();
        from.dedup();
        // What is kept of each node, and what is free of it from then on: for each time anew.
        let nodes = self.free.free.len();
        let (mut kept, mut later) = (vec![Part::default(); nodes], Vec::with_capacity(nodes));
        // What is free at each time, and the first end after it.
        let (mut then, mut next) = (self.free.free.clone(), 0);
        from.into_iter().find_map(|from| {
            self.keep(from, limit, &mut kept);
            while let Some(end) = self.ends.get(next).filter(|end| from > self.now && end.at <= from) {
                end.on.iter().for_each(|(node, part)| then[*node] += *part);
                next += 1;
            }
            later.clone_from(&then);
            let (at, on) = self.room((need, suited), (from, next), &kept, &mut later)?;
            if at > from {
                self.keep(at, limit, &mut kept);
            }
            let has_room = |(node, part): &(usize, Part)| self.free.all[*node].holds_beside(kept[*node], *part);
            on.iter().all(has_room).then_some((at, on))
        })
    }

    /// What plans keep of each node while a job would run from a time on.
    fn keep(&self, from: Instant, limit: u64, kept: &mut [Part]) {
        kept.fill(Part::default());
        for plan in self.plans.iter().filter(|plan| plan.from < from + limit && from < plan.to) {
            kept[plan.node] += plan.part;
        }
    }

    /// The first time from `at` on, of which `next` is the first end after it and so much is free then, at which there is room, as running jobs end.
    fn room(
        &self,
        (need, suited): (&Need, &Set),
        (mut at, mut next): (Instant, usize),
        kept: &[Part],
        free: &mut [Part],
    ) -> Option<(Instant, Vec<(usize, Part)>)> {
        let enough = |free: Part, node: usize| suited.has(node) && free.holds_beside(kept[node], need.each);
        // Whether there may be room: counted, since to look for it takes longer.
        let mut count = (0..free.len()).filter(|node| enough(free[*node], *node)).count();
        loop {
            if count >= need.nodes as usize {
                let left: Vec<Part> = free.iter().zip(kept).map(|(free, kept)| free.less(*kept)).collect();
                if let Some(on) = find((&left, &self.free.types), |node| suited.has(node), need, self.place) {
                    return Some((at, on));
                }
            }
            at = self.ends.get(next)?.at;
            while let Some(end) = self.ends.get(next).filter(|end| end.at == at) {
                for (node, part) in &end.on {
                    count -= usize::from(enough(free[*node], *node));
                    free[*node] += *part;
                    count += usize::from(enough(free[*node], *node));
                }
                next += 1;
            }
        }
    }

    /// From when to when room is kept for a job that is planned.
    fn kept(&self, at: Instant, limit: u64) -> (Instant, Instant) {
        let from = self.wall.down(at);
        // Where other jobs may be beside it none is on its GPUs before it is over.
        let longer = if self.whole_nodes || from == at { 0 } else { self.wall.resolution };
        (from, from + limit + longer)
    }

    /// Keeps room for a job.
    pub fn reserve(&mut self, at: Instant, limit: u64, on: &[(usize, Part)]) {
        let (from, to) = self.kept(at, limit);
        match self.whole_nodes {
            true => self.space.keep(on.iter().map(|(node, _)| *node), from.max(self.now), to),
            false => self.plans.extend(on.iter().map(|(node, part)| Reserved { from, to, node: *node, part: *part })),
        }
    }

    /// A job has started and is at its limit then.
    pub fn start(&mut self, job: JobId, on: &[(usize, Part)], end: Instant) {
        self.free.take(on);
        let at = self.ends.partition_point(|other| (other.at, other.job) <= (end, job));
        self.ends.insert(at, End { at: end, job, on: on.to_vec() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planner(free: &[u32], ends: &[(u64, usize, u32)]) -> Planner {
        let (all, types) = (vec![Part::bare(4); free.len()], vec![0; free.len()]);
        let ends =
            ends.iter().map(|(at, node, gpus)| End { at: *at, job: 0, on: vec![(*node, Part::gpus(*gpus))] }).collect();
        let free = Nodes { free: free.iter().map(|gpus| Part::bare(*gpus)).collect(), all, types };
        let (plans, space) = (Vec::new(), Space::new(0, free.free.len()));
        let wall = Wall { began: 0, resolution: 0 };
        Planner { now: 0, free, ends, plans, space, wall, place: Place::Neighbours, whole_nodes: true }
    }

    fn need(nodes: u32, each: u32) -> Need {
        Need { nodes, each: Part::gpus(each), rest: Part::default(), types: vec![0] }
    }

    #[test]
    fn plans_of_whole_nodes_keep_them_from_others() {
        // Both nodes are needed, and the second is free at 100.
        let mut all = planner(&[4, 1], &[(100, 1, 3)]);
        let (at, on) = all.earliest(&need(2, 4), 50).expect("a plan");
        assert_eq!((at, on.len()), (100, 2));
        all.reserve(at, 50, &on);
        // Before that a short job may be there; one that would end when the plan begins is planned behind.
        assert_eq!(all.earliest(&need(1, 1), 99), Some((0, vec![(1, Part::gpus(1))])));
        assert_eq!(all.earliest(&need(1, 1), 100).map(|(at, _)| at), Some(150));
        // Where only GPUs are kept there is none beside four of four, either.
        let mut all = Planner { whole_nodes: false, ..planner(&[4, 1], &[(100, 1, 3)]) };
        all.reserve(at, 50, &on);
        assert_eq!(all.earliest(&need(1, 1), 100).map(|(at, _)| at), Some(0));
        assert_eq!(all.earliest(&need(1, 1), 101).map(|(at, _)| at), Some(150));
    }

    /// What a job asks for: GPUs of one node, and its limit; and when and where a real Slurm planned it.
    type Logged = (u32, u64, (u64, usize));

    /// Plans of a real Slurm 22.05 on four nodes of four GPUs and eight cores, as its log has them: of jobs that hold GPUs of one node until their limits, by node, GPUs
    /// and limit, and then of those that waited. Times are seconds from the start of the former; each job has a core.
    fn logged(now: u64, [resolution, began]: [u64; 2], running: &[(usize, u32, u64)], waiting: &[Logged]) {
        let (second, part) = (1_000_000, |gpus| Part { gpus, cpu: 1000, memory: 0 });
        let end = |(job, (node, gpus, limit)): (JobId, &(usize, u32, u64))| End {
            at: limit * second,
            job,
            on: vec![(*node, part(*gpus))],
        };
        let mut ends: Vec<End> = (1..).zip(running).map(end).collect();
        ends.sort_by_key(|end| (end.at, end.job));
        let whole = Part { gpus: 4, cpu: 8000, memory: Part::PLENTY };
        let mut free = Nodes { free: vec![whole; 4], all: vec![whole; 4], types: vec![0; 4] };
        ends.iter().for_each(|end| free.take(&end.on));
        let wall = Wall { began: began * second, resolution: resolution * second };
        let now = now * second;
        let mut all = Planner { now, free, ends, space: Space::new(wall.down(now), 4), wall, ..planner(&[], &[]) };
        for (at, (gpus, limit, planned)) in waiting.iter().enumerate() {
            let need = Need { each: part(*gpus), ..need(1, *gpus) };
            let (start, on) = all.earliest(&need, limit * second).expect("a plan");
            assert_eq!((start / second, on[0].0), *planned, "the waiting job {at}");
            all.reserve(start, limit * second, &on);
        }
    }

    #[test]
    fn plans_are_those_of_a_real_slurm() {
        // `bf_interval=1,bf_resolution=1`.
        let running = [
            (0, 1, 60),
            (1, 4, 60),
            (0, 1, 60),
            (0, 2, 60),
            (2, 2, 180),
            (2, 1, 60),
            (2, 1, 120),
            (3, 2, 60),
            (3, 1, 60),
        ];
        let waiting = [
            (2, 120, (60, 3)),
            (1, 120, (120, 2)),
            (4, 120, (60, 0)),
            (2, 120, (60, 1)),
            (1, 60, (180, 3)),
            (4, 120, (180, 0)),
            (1, 180, (180, 1)),
        ];
        logged(0, [1, 54], &running, &waiting);
        // Its defaults, 27 s after the start, with a whole minute a second after the start.
        let running = [
            (0, 1, 540),
            (0, 1, 360),
            (0, 2, 240),
            (1, 1, 120),
            (1, 2, 60),
            (2, 2, 240),
            (1, 1, 360),
            (2, 1, 240),
            (2, 1, 180),
            (3, 2, 120),
            (3, 1, 60),
        ];
        let waiting = [
            (4, 180, (120, 3)),
            (1, 120, (120, 1)),
            (1, 60, (180, 2)),
            (1, 120, (181, 1)),
            (1, 60, (181, 2)),
            (1, 60, (241, 3)),
            (1, 60, (241, 2)),
            (1, 120, (301, 3)),
            (4, 60, (301, 2)),
            (2, 120, (301, 1)),
            (1, 180, (360, 0)),
            (1, 120, (361, 2)),
            (4, 120, (421, 3)),
        ];
        logged(27, [60, 59], &running, &waiting);
    }

    #[test]
    fn a_plan_of_parts_keeps_cores_too() {
        let part = |gpus, cpu, memory| Part { gpus, cpu, memory };
        let free = vec![part(4, 2000, 64), part(1, 4000, 3), part(4, 8000, 2)];
        let nodes = Nodes { free, all: vec![part(4, 16_000, 64); 3], types: vec![0; 3] };
        let need = |gpus, cpu, memory| Need { each: part(gpus, cpu, memory), ..need(1, gpus) };
        let ends = vec![End { at: 100, job: 0, on: vec![(1, part(3, 5000, 61))] }];
        let mut all = Planner { free: nodes, ends, whole_nodes: false, ..planner(&[], &[]) };
        let wide = need(2, 8000, 8);
        let (at, on) = all.earliest(&wide, 50).expect("a plan");
        assert_eq!((at, on.clone()), (100, vec![(1, part(2, 8000, 8))]));
        all.reserve(at, 50, &on);
        assert_eq!(all.earliest(&need(1, 3000, 3), 200).map(|(at, _)| at), Some(150));
        assert_eq!(all.earliest(&need(1, 2000, 3), 200).map(|(at, _)| at), Some(0));
    }

    #[test]
    fn plans_begin_at_multiples_of_the_resolution() {
        let with = |began, whole_nodes| Planner {
            wall: Wall { began, resolution: 60_000_000 },
            whole_nodes,
            ..planner(&[0], &[])
        };
        let kept = |began, whole_nodes| with(began, whole_nodes).kept(130_000_000, 60_000_000);
        assert_eq!(kept(0, true), (120_000_000, 180_000_000));
        assert_eq!(kept(34_000_000, true), (86_000_000, 146_000_000));
        assert_eq!(kept(0, false), (120_000_000, 240_000_000));
        // What lies before the first is at the beginning of the clock.
        assert_eq!(with(34_000_000, true).wall.down(20_000_000), 0);
    }
}
