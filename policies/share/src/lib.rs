//! Blind sharing: the baselines that co-location by prediction is compared with. First come, first served, jobs that
//! find no place are passed over, and interference is not looked at. With `max_share: 1` it is exclusive FIFO under the
//! very same queue.

use sandtable_policy::{
    Abilities, About, Batch, Cluster, ColocationQueue, Config, Draws, GpuId, Job, Kind, Knowledge, NodeId, Param,
    Place, Policy, PolicyError, Setup,
};

/// The policy.
pub struct Share {
    queue: ColocationQueue,
    choose: Choose,
    draws: Draws,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Choose {
    LeastLoaded,
    BinPack,
    Random,
}

impl Policy for Share {
    fn about() -> About {
        About {
            name: "share",
            about: "FIFO on shared GPUs without a look at interference: least-loaded, bin-pack or random; exclusive with max_share 1",
            uses: Abilities::SHARE,
            needs: Knowledge::empty(),
            params: &[
                Param {
                    name: "choose",
                    kind: Kind::Choice(&["least-loaded", "bin-pack", "random"]),
                    default: "\"least-loaded\"",
                    about: "Which node, and which of its GPUs: those with the fewest tasks, with the most, or any.",
                },
                ColocationQueue::MAX_SHARE,
                ColocationQueue::HEAD_PATIENCE,
            ],
        }
    }

    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError> {
        let choose = match config.choice("choose") {
            "bin-pack" => Choose::BinPack,
            "random" => Choose::Random,
            _ => Choose::LeastLoaded,
        };
        let queue = ColocationQueue::new(config);
        Ok(Share { queue, choose, draws: Draws::new(setup.seed) })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        self.queue.take_in(&batch.events, cluster);
        let (choose, draws) = (self.choose, &mut self.draws);
        self.queue.pass(cluster, |cluster, job, places| choose.place(cluster, cluster.job(job), places, draws));
        Ok(())
    }
}

impl Choose {
    fn place(
        self,
        cluster: &Cluster,
        job: &Job,
        places: Vec<Place>,
        draws: &mut Draws,
    ) -> Option<(NodeId, Vec<GpuId>)> {
        // Where GPUs are not packed the mirror names no residents: a held GPU counts as one task.
        let tasks = |gpu: GpuId| cluster.tasks(gpu);
        let on_node = |place: &Place| cluster.node_gpus(place.node).map(tasks).sum::<usize>();
        let place = match self {
            Choose::LeastLoaded => places.into_iter().min_by_key(|place| (on_node(place), place.node)),
            Choose::BinPack => places.into_iter().min_by_key(|place| (usize::MAX - on_node(place), place.node)),
            Choose::Random => {
                let at = draws.below(places.len());
                places.into_iter().nth(at)
            }
        }?;
        let mut gpus = place.eligible;
        match self {
            Choose::LeastLoaded => gpus.sort_by_key(|gpu| (tasks(*gpu), *gpu)),
            Choose::BinPack => gpus.sort_by_key(|gpu| (usize::MAX - tasks(*gpu), *gpu)),
            Choose::Random => draws.shuffle(&mut gpus),
        }
        gpus.truncate(job.gpus as usize);
        gpus.sort_unstable();
        Some((place.node, gpus))
    }
}

sandtable_policy::export!(Share);

#[cfg(test)]
mod tests {
    use super::Share;
    use sandtable_policy::testing::{SMALL, TINY, completion_times};

    #[test]
    fn alone_on_every_gpu_it_is_fifo_that_passes_over() {
        assert_eq!(completion_times::<Share>("{}", TINY.0, TINY.1), [5000, 6000]);
        let times = completion_times::<Share>("{\"head_patience\": 1000000}", SMALL.0, SMALL.1);
        assert_eq!(times, [6000, 9990 + 20, 9000, 6470, 100]);
    }
}
