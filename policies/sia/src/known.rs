//! What is known of a job on each type of GPU.

use sandtable_elastic::goodput::Split;
use sandtable_elastic::{ElasticJob, restart_factor};
use sandtable_policy::{Elasticity, GpuTypeId, Instant, Job, JobId, NodeId, Sample};

/// A type and a number of GPUs of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// The type.
    pub gpu_type: GpuTypeId,
    /// GPUs.
    pub gpus: u32,
}

/// A job.
pub struct Known {
    /// Its id.
    pub id: JobId,
    /// What it has shown on each type.
    on: Vec<ElasticJob>,
    /// Seconds of a step on one GPU of each type, as foretold; NaN: unknown.
    pub alone: Vec<f64>,
    /// What it has; none: nothing.
    pub size: Option<Size>,
    /// The nodes of its GPUs, ascending.
    pub list: Vec<NodeId>,
    /// Restarts so far; none: it never started.
    pub restarts: Option<u32>,
    /// How it works through its batch, where it was told to.
    pub split: Option<Split>,
}

impl Known {
    /// A job of which nothing is known but what it may do.
    pub fn new(job: &Job, elastic: Elasticity, types: usize) -> Known {
        let on = |_| ElasticJob::new(job.id, job.submitted, job.gpus, elastic);
        Known {
            id: job.id,
            on: (0..types).map(on).collect(),
            alone: vec![f64::NAN; types],
            size: None,
            list: Vec::new(),
            restarts: None,
            split: None,
        }
    }

    /// Takes in what it reports of the type that it is on.
    pub fn report(&mut self, sample: &Sample) {
        if let Some(size) = self.size {
            // How noisy its gradient is does not depend on the GPU.
            self.on.iter_mut().for_each(|on| on.learn_gradient(sample));
            self.on[size.gpu_type as usize].report(sample);
        }
    }

    /// Most GPUs that it may try of a type: twice what it has reported from, on any type or on that one.
    pub fn reach(&self, gpu_type: GpuTypeId, foretold: bool) -> u32 {
        match foretold {
            true => self.on.iter().map(|on| on.reach(u32::MAX)).max().unwrap_or(1),
            false => self.on[gpu_type as usize].reach(u32::MAX),
        }
    }

    /// The type of which it has shown the most, of those that it has reported from and that `of` takes.
    fn best_known(&self, of: impl Fn(usize) -> bool) -> Option<usize> {
        let known = (0..self.on.len()).filter(|there| self.on[*there].shown() > 0 && of(*there));
        known.max_by_key(|there| (self.on[*there].shown(), usize::MAX - there))
    }

    /// Its goodput on so many GPUs of so many nodes of a type; none: unknown. `foretold`: what it has shown on another type holds here too, by the
    /// ratio of its times alone, and before it has shown anything these times count.
    pub fn goodput(&mut self, size: Size, nodes: u32, foretold: bool) -> Option<f64> {
        let here = size.gpu_type as usize;
        if self.on[here].shown() > 0 {
            return self.shown(here, nodes, size.gpus);
        }
        let ratio = |there: usize| self.alone[there] / self.alone[here];
        match self.best_known(|there| foretold && !ratio(there).is_nan()) {
            Some(there) => {
                let ratio = ratio(there);
                self.shown(there, nodes, size.gpus).map(|goodput| goodput * ratio)
            }
            None if foretold && size.gpus == 1 && self.best_known(|_| true).is_none() => {
                Some(1.0 / self.alone[here]).filter(|goodput| !goodput.is_nan())
            }
            None => None,
        }
    }

    fn shown(&mut self, there: usize, nodes: u32, gpus: u32) -> Option<f64> {
        let on = &mut self.on[there];
        if on.elastic.tunable { on.best(nodes, gpus).map(|best| best.goodput) } else { on.at_batch(nodes, gpus) }
    }

    /// How it works best through its batch on these nodes of a type; none: as its user asked.
    pub fn best_split(&mut self, gpu_type: GpuTypeId, list: &[NodeId]) -> Option<Split> {
        let here = gpu_type as usize;
        let there = self.best_known(|there| there == here).or_else(|| self.best_known(|_| true));
        self.on[there.unwrap_or(here)].split(list)
    }

    /// Whether it can't run on a type: nothing is foretold of that one, but of another.
    pub fn is_nowhere(&self, gpu_type: GpuTypeId, foretold: bool) -> bool {
        let here = gpu_type as usize;
        let known = |there: usize| !self.alone[there].is_nan() || self.on[there].shown() > 0;
        foretold && !known(here) && (0..self.alone.len()).any(known)
    }

    /// What any change is worth: its age without what restarts took, at so many seconds each. All of it to a job that is younger than a restart.
    pub fn restart_factor(&self, now: Instant, penalty: f64) -> f64 {
        let age = self.on.first().map_or(0.0, |on| on.age(now));
        if age < penalty { 1.0 } else { restart_factor(age, self.restarts.unwrap_or(0), penalty) }
    }
}
