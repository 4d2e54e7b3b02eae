//! AFS (Hwang et al., NSDI 2021): one GPU at a time to the winner of a knock-out by time left and by what the next GPU
//! adds. The result depends on the order of jobs: that of their submission. `afs-l` is what DeepBoot's simulator makes
//! of it.

use sandtable_elastic::goodput::{clipped, split_of};
use sandtable_elastic::pace::{Pace, paces};
use sandtable_elastic::place::Pack;
use sandtable_elastic::{ElasticScheduler, RULES, Round, Rules, joined};
use sandtable_policy::{
    Abilities, About, Batch, Cadence, Cluster, Config, Kind, Knowledge, NodeId, Param, Policy, PolicyError, Setup,
};

/// The policy.
pub struct Afs {
    scheduler: ElasticScheduler,
    afs_l: bool,
}

impl Policy for Afs {
    fn about() -> About {
        const PARAMS: [Param; 10] = joined(
            RULES,
            [Param {
                name: "variant",
                kind: Kind::Choice(&["afs", "afs-l"]),
                default: "\"afs\"",
                about: "The paper's knock-out, or that of DeepBoot's simulator.",
            }],
        );
        About {
            name: "afs",
            about: "one GPU at a time to the winner of a knock-out by time left and relative gain (AFS, Hwang et al., NSDI 2021)",
            uses: Abilities::PREEMPT | Abilities::TIMERS | Abilities::ELASTIC | Abilities::PROTECT,
            needs: Knowledge::STEPS,
            params: &PARAMS,
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        Ok(Afs {
            scheduler: ElasticScheduler::new(Rules::new(config), setup, false)?,
            afs_l: config.choice("variant") == "afs-l",
        })
    }

    fn cadence(&self) -> Cadence {
        self.scheduler.cadence()
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let winner = if self.afs_l { shorter_queue } else { winner };
        self.scheduler.decide(batch, cluster, |round| allocate(round, winner))
    }
}

/// Of two jobs the one that gets the next GPU; the second was submitted later.
type KnockOut = fn(&[Pace], &[u32], usize, usize) -> usize;

fn allocate(round: &mut Round<'_>, winner: KnockOut) -> Vec<Vec<NodeId>> {
    let mut paces = paces(round);
    if round.compat {
        // There, it is samples that a job's speed is counted in: batches that GPUs don't divide become greater.
        for (pace, job) in paces.iter_mut().zip(round.jobs.iter()) {
            let batch = f64::from(job.elastic.batch);
            for (step, gpus) in pace.steps.iter_mut().zip(1..) {
                let split = clipped(&job.elastic, split_of(&job.elastic, batch, gpus), gpus);
                *step *= batch / f64::from(gpus * split.local * (split.accumulation + 1));
            }
        }
    }
    let counts = counts(&paces, round.free.iter().sum(), winner);
    round.place(&counts, if round.compat { Pack::BestFit } else { Pack::MostFree })
}

/// GPUs of each job out of so many.
fn counts(paces: &[Pace], gpus: u32, winner: KnockOut) -> Vec<u32> {
    let mut counts = vec![0u32; paces.len()];
    for _ in 0..gpus {
        let wanting = (0..counts.len()).filter(|job| counts[*job] < paces[*job].most());
        let Some(job) = wanting.reduce(|a, b| winner(paces, &counts, a, b)) else { break };
        counts[job] += 1;
    }
    counts
}

/// The paper's: the shorter one if it gains more of its own speed than the longer one would lose of its.
fn winner(paces: &[Pace], counts: &[u32], a: usize, b: usize) -> usize {
    let left = |job: usize| if counts[job] == 0 { f64::INFINITY } else { paces[job].remaining(counts[job]) };
    let (short, long) = if left(b) < left(a) { (b, a) } else { (a, b) };
    let speed = |job: usize, gpus: u32| if gpus == 0 { 0.0 } else { 1.0 / (paces[job].remaining(gpus) + 1e-7) };
    let (s, l) = (counts[short], counts[long]);
    let (now, next) = (speed(short, s), speed(short, s + 1));
    let wins = match now == 0.0 {
        true => next > speed(long, l + 1),
        false => (next - now) / now > (speed(long, l + 1) - speed(long, l)) / speed(long, l + 1),
    };
    if wins { short } else { long }
}

/// DeepBoot's: of two without a GPU the shorter, else whichever gains more of its own speed.
fn shorter_queue(paces: &[Pace], counts: &[u32], a: usize, b: usize) -> usize {
    if counts[a] == 0 && counts[b] == 0 {
        return if paces[a].remaining(1) < paces[b].remaining(1) { a } else { b };
    }
    let (few, many) = if counts[a] < counts[b] { (a, b) } else { (b, a) };
    // Throughput that the next GPU adds, over what there is then.
    let gain = |job: usize| 1.0 - paces[job].step(counts[job] + 1) / paces[job].step(counts[job]);
    if gain(many) > gain(few) { many } else { few }
}

sandtable_policy::export!(Afs);

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(left: f64, most: u32, speed: impl Fn(f64) -> f64) -> Pace {
        Pace { left, steps: (1..=most).map(|gpus| 1.0 / speed(f64::from(gpus))).collect() }
    }

    /// Worked out apart from this code, by the paper's rule: speed by GPUs, time left on one GPU.
    #[test]
    fn gpus_are_dealt_out_as_published() {
        let amdahl = |f: f64| move |k: f64| 1.0 / ((1.0 - f) + f / k);
        let jobs = [pace(100.0, 8, amdahl(0.9)), pace(200.0, 8, amdahl(0.7)), pace(400.0, 8, amdahl(0.95))];
        assert_eq!(counts(&jobs, 8, winner), [3, 2, 3]);
        let linear = [100.0, 200.0, 400.0].map(|left| pace(left, 4, |k| k));
        assert_eq!(counts(&linear, 8, winner), [3, 3, 2]);
        // k^.8, k^.5 and k^.9.
        let power = |p: f64| move |k: f64| libm::exp(p * libm::log(k));
        let jobs = [0.8, 0.5, 0.9].map(|p| pace(300.0, 8, power(p)));
        assert_eq!(counts(&jobs, 12, winner), [4, 2, 6]);
    }

    #[test]
    fn deepboots_gives_more_to_whoever_scales_better() {
        let two = [pace(300.0, 8, f64::sqrt), pace(300.0, 8, |gpus| gpus)];
        let found = counts(&two, 6, shorter_queue);
        assert!(found[1] > found[0], "{found:?}");
        // The shorter is first.
        assert_eq!(counts(&[pace(9.0, 8, |k| k), pace(5.0, 8, |k| k)], 1, shorter_queue), [0, 1]);
    }
}
