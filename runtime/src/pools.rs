//! The use of each GPU over time where services run: training, loaned, serving, protected or idle.

use std::collections::BTreeSet;

use sandtable_hardware::{Fleet, GpuId, Instant, Job, JobId, Pool, Service};

/// What a GPU is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A job trains on a GPU that is for training.
    Training,
    /// A job trains on a GPU that is for serving.
    Loaned,
    /// A task is served, or its model is loaded.
    Serving,
    /// No job has it, and it is kept for a service.
    Protected,
    /// No job has it.
    Idle,
}

impl Use {
    /// All of them, in the order of the counts of [`Pools::timeline`].
    pub const ALL: [Use; 5] = [Use::Training, Use::Loaned, Use::Serving, Use::Protected, Use::Idle];

    /// Its name in a timeline.
    pub fn name(self) -> &'static str {
        ["training", "loaned", "serving", "protected", "idle"][self as usize]
    }
}

/// GPUs by use, over time.
pub struct Pools {
    /// What is served.
    pub services: Vec<Service>,
    /// Counts by use, from an instant on; ascending.
    pub timeline: Vec<(Instant, [u32; 5])>,
    /// GPU-µs by use.
    pub areas: [u128; 5],
    /// GPUs that tasks got the instant a training job let them go.
    pub reclaimed: u64,
    counts: [u32; 5],
    now: Instant,
    lent: Vec<bool>,
    uses: Vec<Use>,
    service_of: Vec<bool>,
    /// When a training job last let each GPU go.
    left: Vec<Option<Instant>>,
    /// Until when each GPU is protected.
    until: Vec<Instant>,
    expiries: BTreeSet<(Instant, GpuId)>,
}

impl Pools {
    /// Idle GPUs; none where nothing is served and all nodes are of one pool.
    pub fn of(fleet: &Fleet, jobs: &[Job]) -> Option<Pools> {
        let inference = |gpu: GpuId| fleet.nodes[fleet.node_of(gpu)].pool == Pool::Inference;
        if fleet.services.is_empty() && fleet.nodes.iter().all(|node| node.pool == Pool::Training) {
            return None;
        }
        let gpus = fleet.gpus() as usize;
        let counts = [0, 0, 0, 0, gpus as u32];
        Some(Pools {
            services: fleet.services.clone(),
            timeline: vec![(Instant::START, counts)],
            areas: [0; 5],
            reclaimed: 0,
            counts,
            now: Instant::START,
            lent: GpuId::first(gpus).map(inference).collect(),
            uses: vec![Use::Idle; gpus],
            service_of: jobs.iter().map(|job| job.service.is_some()).collect(),
            left: vec![None; gpus],
            until: vec![Instant::START; gpus],
            expiries: BTreeSet::new(),
        })
    }

    /// Moves the clock; protections end on their way.
    pub fn advance(&mut self, now: Instant) {
        while let Some((at, gpu)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            self.expiries.pop_first();
            self.pass(at);
            if self.uses[gpu] == Use::Protected {
                self.put(gpu, Use::Idle);
            }
        }
        self.pass(now);
    }

    fn pass(&mut self, now: Instant) {
        let span = u128::from((now - self.now).as_micros());
        for (area, count) in self.areas.iter_mut().zip(self.counts) {
            *area += u128::from(count) * span;
        }
        self.now = now;
    }

    /// A job has a GPU.
    pub fn occupy(&mut self, gpu: GpuId, job: JobId) {
        let slot = gpu.index();
        let serves = self.service_of[job];
        if serves && self.left[slot] == Some(self.now) {
            self.reclaimed += 1;
        }
        self.put(
            gpu,
            match (serves, self.lent[slot]) {
                (true, _) => Use::Serving,
                (false, true) => Use::Loaned,
                (false, false) => Use::Training,
            },
        );
    }

    /// No job has a GPU any more.
    pub fn vacate(&mut self, gpu: GpuId, job: JobId) {
        if !self.service_of[job] {
            self.left[gpu] = Some(self.now);
        }
        self.put(gpu, Use::Idle);
    }

    /// A GPU that holds a model is kept for its service.
    pub fn protect(&mut self, gpu: GpuId, until: Instant) {
        let slot = gpu.index();
        self.expiries.remove(&(self.until[slot], gpu));
        self.until[slot] = until;
        let free = matches!(self.uses[slot], Use::Idle | Use::Protected);
        if until > self.now {
            self.expiries.insert((until, gpu));
        }
        if free {
            self.put(gpu, if until > self.now { Use::Protected } else { Use::Idle });
        }
    }

    fn put(&mut self, gpu: GpuId, to: Use) {
        let from = std::mem::replace(&mut self.uses[gpu], to);
        if from == to {
            return;
        }
        if to != Use::Protected && to != Use::Idle {
            // The job that has it now was not lent it.
            self.expiries.remove(&(self.until[gpu], gpu));
            self.until[gpu] = Instant::START;
        }
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
        match self.timeline.last_mut() {
            Some((at, counts)) if *at == self.now => *counts = self.counts,
            _ => self.timeline.push((self.now, self.counts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_hardware::{Costs, GpuType, SECOND, ServiceId};

    #[test]
    fn uses_follow_who_has_a_gpu() {
        let groups = [(2, 1, GpuType::new("g", 1.0))];
        let services = vec![Service { name: "s".into(), cold_start: SECOND, slo: None }];
        let fleet = Fleet::new(&groups, Costs::default(), None).expect("a fleet");
        let fleet = fleet.serving(services, true, &[Pool::Training, Pool::Inference]);
        let task = Job::new("t", Instant::START, 1, SECOND).asking(|request| request.service = Some(ServiceId::new(0)));
        let mut pools = Pools::of(&fleet, &[Job::new("j", Instant::START, 1, SECOND), task]).expect("pools");
        pools.occupy(GpuId::new(1), JobId::new(0));
        pools.advance(Instant::from_micros(10));
        // The task gets the GPU that the job has just left.
        pools.vacate(GpuId::new(1), JobId::new(0));
        pools.occupy(GpuId::new(1), JobId::new(1));
        pools.advance(Instant::from_micros(15));
        pools.vacate(GpuId::new(1), JobId::new(1));
        pools.protect(GpuId::new(1), Instant::from_micros(22));
        pools.advance(Instant::from_micros(30));
        assert_eq!(pools.reclaimed, 1);
        let rows = [(0u64, [0, 1, 0, 0, 1]), (10, [0, 0, 1, 0, 1]), (15, [0, 0, 0, 1, 1]), (22, [0, 0, 0, 0, 2])];
        assert_eq!(pools.timeline, rows.map(|(at, counts)| (Instant::from_micros(at), counts)));
        assert_eq!(pools.areas, [0, 10, 5, 7, 10 + 5 + 7 + 16]);
    }
}
