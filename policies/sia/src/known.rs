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
    submitted: Instant,
    elastic: Elasticity,
    /// The batch that its user asks for.
    batch: u32,
    /// What it has shown on each type.
    on: Vec<ElasticJob>,
    /// Most GPUs of each type that it has reported from.
    most: Vec<u32>,
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
            submitted: job.submitted,
            elastic,
            batch: elastic.batch,
            on: (0..types).map(on).collect(),
            most: vec![0; types],
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
            let most = &mut self.most[size.gpu_type as usize];
            *most = (*most).max(sample.gpus);
        }
    }

    /// Most GPUs that it may try of a type: twice what it has reported from, on any type or on that one.
    pub fn reach(&self, gpu_type: GpuTypeId, foretold: bool) -> u32 {
        let most = match foretold {
            true => self.most.iter().copied().max().unwrap_or(0),
            false => self.most[gpu_type as usize],
        };
        (2 * most).max(1).min(self.elastic.most_gpus)
    }

    /// Its goodput on so many GPUs of so many nodes of a type; none: unknown. `foretold`: what it has shown on another type holds here too, by the
    /// ratio of its times alone, and before it has shown anything these times count.
    pub fn goodput(&mut self, size: Size, nodes: u32, foretold: bool) -> Option<f64> {
        let here = size.gpu_type as usize;
        if self.most[here] > 0 {
            return self.shown(here, nodes, size.gpus);
        }
        let ratio = |there: usize| self.alone[there] / self.alone[here];
        let source = (0..self.most.len()).filter(|there| self.most[*there] > 0 && !ratio(*there).is_nan());
        let source = source.max_by_key(|there| (self.most[*there], usize::MAX - there)).filter(|_| foretold);
        match source {
            Some(there) => {
                let ratio = ratio(there);
                self.shown(there, nodes, size.gpus).map(|goodput| goodput * ratio)
            }
            None if foretold && size.gpus == 1 && self.most.iter().all(|most| *most == 0) => {
                Some(1.0 / self.alone[here]).filter(|goodput| !goodput.is_nan())
            }
            None => None,
        }
    }

    fn shown(&mut self, there: usize, nodes: u32, gpus: u32) -> Option<f64> {
        match self.elastic.tunable {
            true => self.on[there].best(nodes, gpus).map(|best| best.goodput),
            false => self.on[there].at_batch(nodes, gpus, self.batch),
        }
    }

    /// How it works best through its batch on these nodes of a type; none: as its user asked.
    pub fn best_split(&mut self, gpu_type: GpuTypeId, list: &[NodeId]) -> Option<Split> {
        let here = gpu_type as usize;
        let known = (0..self.most.len()).filter(|there| self.most[*there] > 0);
        let there = if self.most[here] > 0 { here } else { known.max_by_key(|at| self.most[*at]).unwrap_or(here) };
        self.on[there].split(list)
    }

    /// Whether it can't run on a type: nothing is foretold of that one, but of another.
    pub fn is_nowhere(&self, gpu_type: GpuTypeId, foretold: bool) -> bool {
        let here = gpu_type as usize;
        let known = |there: usize| !self.alone[there].is_nan() || self.most[there] > 0;
        foretold && !known(here) && (0..self.alone.len()).any(known)
    }

    /// What any change is worth: its age without what restarts took, at so many seconds each. All of it to a job that is younger than a restart.
    pub fn restart_factor(&self, now: Instant, penalty: f64) -> f64 {
        let age = now.saturating_sub(self.submitted) as f64 / 1e6;
        if age < penalty { 1.0 } else { restart_factor(age, self.restarts.unwrap_or(0), penalty) }
    }
}
