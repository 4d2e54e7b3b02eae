//! How much a workload minds company.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_policy::{Cluster, GpuTypeId, Job, JobId, host};

/// Mean speed beside others below which a workload scores 2, and below which it scores 1 (Lucid's analyser).
const LIMITS: [f64; 2] = [0.85, 0.95];

/// Speeds of workloads beside one another, each asked for once: as soon as jobs of both are alive.
#[derive(Default)]
pub struct Scores {
    /// A live job of each workload.
    speaker: BTreeMap<u32, JobId>,
    asked: BTreeSet<(u32, u32)>,
    /// Sum and number of the known speeds of a workload on a type.
    speeds: BTreeMap<(u32, GpuTypeId), (f64, u32)>,
}

impl Scores {
    /// Takes in a job that has arrived; whether a score may have changed.
    pub fn arrived(&mut self, job: &Job, cluster: &Cluster) -> bool {
        let Some(workload) = job.workload else { return false };
        let news: Vec<(u32, JobId)> = self
            .speaker
            .iter()
            .map(|(other, id)| (*other, *id))
            .filter(|(other, id)| *id != job.id && !self.asked.contains(&(workload, *other)))
            .collect();
        for (other, id) in &news {
            self.ask((workload, job.id), (*other, *id), cluster);
        }
        self.speaker.entry(workload).or_insert(job.id);
        !news.is_empty()
    }

    /// Forgets a job that has ended.
    pub fn ended(&mut self, id: JobId) {
        self.speaker.retain(|_, speaker| *speaker != id);
    }

    fn ask(&mut self, one: (u32, JobId), other: (u32, JobId), cluster: &Cluster) {
        self.asked.extend([(one.0, other.0), (other.0, one.0)]);
        for gpu_type in 0..cluster.types() as GpuTypeId {
            let speeds = host::pair_speed(gpu_type, vec![one.1, other.1], vec![vec![other.1], vec![one.1]]);
            for (workload, speed) in [one.0, other.0].into_iter().zip(speeds) {
                if !speed.is_nan() {
                    let (sum, known) = self.speeds.entry((workload, gpu_type)).or_default();
                    (*sum, *known) = (*sum + speed, *known + 1);
                }
            }
        }
    }

    /// 0: hardly minds company, 1, or 2: minds it much, or nothing is known.
    pub fn of(&self, job: &Job, gpu_type: GpuTypeId) -> u32 {
        let known = job.workload.and_then(|workload| self.speeds.get(&(workload, gpu_type)));
        known.map_or(2, |(sum, known)| score(sum / f64::from(*known)))
    }
}

fn score(speed: f64) -> u32 {
    let speed = (speed * 1000.0).round() / 1000.0;
    LIMITS.iter().filter(|limit| speed < **limit).count() as u32
}

#[cfg(test)]
mod tests {
    use super::score;

    #[test]
    fn scores_are_by_the_mean_speed_to_three_digits() {
        // Of Lucid's measured nets: the slowest and the fastest of each score.
        let cases = [(0.78, 2), (0.8494, 2), (0.8496, 1), (0.949, 1), (0.9496, 0), (1.08, 0)];
        for (speed, expected) in cases {
            assert_eq!(score(speed), expected, "{speed}");
        }
    }
}
