//! Pods: GPUs that hold the model of a service, and which tasks may use them.

use sandtable_policy::{ChangeCause, Cluster, GpuId, Instant, JobId, NodeId, PhaseChange, Service, ServiceId};

use crate::rules::Rules;

/// A GPU that holds the model of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pod {
    pub(crate) gpu: GpuId,
    pub(crate) node: NodeId,
    service: ServiceId,
    /// Tasks in a row that came while it was kept.
    hits: u32,
    /// Kept for its service before this.
    until: Instant,
    /// What it serves.
    pub(crate) task: Option<JobId>,
}

impl Pod {
    /// No other job may use its GPU.
    pub(crate) fn is_kept(&self, now: Instant) -> bool {
        self.task.is_some() || self.until > now
    }
}

/// The inference side of the cluster.
#[derive(Default)]
pub(crate) struct Serving {
    /// In the order in which they were made.
    pub(crate) pods: Vec<Pod>,
    /// Tasks that wait, in order.
    pub(crate) pending: Vec<JobId>,
    protect: (u64, u64, u64),
    /// Whether models stay loaded at all.
    keeps: bool,
    /// A pod of DeepBoot's simulator falls asleep a second later.
    extra: u64,
}

impl Serving {
    pub(crate) fn new(rules: &Rules, services: &[Service]) -> Serving {
        let keeps = services.iter().any(|service| service.stays_loaded);
        let protect = if keeps { rules.protect } else { (0, 0, 0) };
        let extra = if rules.compat && protect.2 > 0 { 1_000_000 } else { 0 };
        Serving { protect, extra, keeps, ..Serving::default() }
    }

    /// A task is done: its GPU is kept for the service, the longer the more came in a row.
    pub(crate) fn done(&mut self, task: JobId, cluster: &mut Cluster) {
        if !self.keeps {
            return self.pods.retain(|pod| pod.task != Some(task));
        }
        let (least, bonus, most) = self.protect;
        let Some(pod) = self.pods.iter_mut().find(|pod| pod.task == Some(task)) else { return };
        pod.task = None;
        pod.until = cluster.now();
        let time = (least + u64::from(pod.hits) * bonus).min(most);
        if time > 0 {
            pod.until += time + self.extra;
            cluster.protect(pod.gpu, pod.until);
        }
    }

    /// A task waits again, where it has lost its GPU.
    pub(crate) fn waits_again(&mut self, change: &PhaseChange) {
        if matches!(change.cause, ChangeCause::NodeLost | ChangeCause::NodeTakenBack) {
            self.pods.retain(|pod| pod.task != Some(change.job));
            self.pending.push(change.job);
            self.pending.sort_unstable();
        }
    }

    /// Starts the tasks whose model waits for them: of several pods on the one that was hit most in a row.
    pub(crate) fn serve_warm(&mut self, cluster: &mut Cluster) {
        let now = cluster.now();
        for task in std::mem::take(&mut self.pending) {
            let service = cluster.job(task).serves;
            // Hits count only while the pod is kept.
            let mut best: Option<(u32, usize)> = None;
            for (at, pod) in self.pods.iter().enumerate() {
                if pod.task.is_none() && Some(pod.service) == service && cluster.is_free(pod.gpu) {
                    let hits = if pod.until > now { pod.hits + 1 } else { 0 };
                    if best.is_none_or(|(most, _)| hits > most) {
                        best = Some((hits, at));
                    }
                }
            }
            match best {
                Some((hits, at)) => {
                    let pod = &mut self.pods[at];
                    (pod.hits, pod.task) = (hits, Some(task));
                    cluster.start(task, vec![pod.gpu]);
                }
                None => self.pending.push(task),
            }
        }
    }

    /// Starts a task on a GPU that must load its model.
    pub(crate) fn serve_cold(&mut self, task: JobId, gpu: GpuId, cluster: &mut Cluster) {
        let (node, until, hits) = (cluster.node(gpu), 0, 0);
        let Some(service) = cluster.job(task).serves else { return };
        self.pods.retain(|pod| pod.gpu != gpu);
        self.pods.push(Pod { gpu, node, service, hits, until, task: Some(task) });
        self.pending.retain(|other| *other != task);
        cluster.start(task, vec![gpu]);
    }

    /// When DeepBoot's simulator looks again for a task that waits: the next second, if a pod sleeps, else when one falls
    /// asleep.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        let second = (now / 1_000_000 + 1) * 1_000_000;
        self.pods.iter().filter(|pod| pod.task.is_none()).map(|pod| pod.until.max(second)).min()
    }

    /// When the next pod falls asleep, whose GPU a task of another service may then have.
    pub(crate) fn next_asleep(&self, now: Instant) -> Option<Instant> {
        self.pods.iter().filter(|pod| pod.task.is_none() && pod.until > now).map(|pod| pod.until).min()
    }

    /// Pods of which others may have the GPU.
    pub(crate) fn asleep(&self, now: Instant) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(move |pod| !pod.is_kept(now))
    }
}
