//! What a spec says of the jobs and tasks that are read or generated.

use sandtable_core::units::{Bytes, Span};
use sandtable_hardware::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When jobs arrive. `load` is the work that arrives over what the fleet could do meanwhile.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum Arrivals {
    /// Independently.
    Poisson {
        /// Work that arrives over what the fleet could do meanwhile, above 0.
        load: f64,
    },
    /// In bursts of this mean size (geometric), which arrive independently.
    Bursts {
        /// As for `Poisson`.
        load: f64,
        /// Mean number of jobs of a burst, at least 1.
        size: f64,
    },
    /// As Poisson, with a rate that follows a sine over a day: `peak` times the mean at its height (at most 2).
    Diurnal {
        /// As for `Poisson`: the mean over a day.
        load: f64,
        /// The greatest rate over the mean one, 1 to 2.
        peak: f64,
    },
    /// All at once.
    AtOnce,
}

impl Arrivals {
    /// The load that they offer; none of jobs that come at once.
    pub fn load(self) -> Option<f64> {
        match self {
            Arrivals::Poisson { load } | Arrivals::Bursts { load, .. } | Arrivals::Diurnal { load, .. } => Some(load),
            Arrivals::AtOnce => None,
        }
    }
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals::Poisson { load: 0.8 }
    }
}

/// How long jobs run on a GPU of speed 1.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum Durations {
    /// Log-normal.
    LogNormal {
        /// As many jobs are shorter as are longer.
        median: Span,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Shorter ones are made this long.
        #[serde(default)]
        least: Option<Span>,
        /// Longer ones are cut.
        #[serde(default)]
        most: Option<Span>,
    },
    /// Pareto: few jobs have most of the work.
    Pareto {
        /// The shortest.
        least: Span,
        /// The less, the longer the longest are; the mean is finite above 1.
        shape: f64,
    },
    /// One of these, each as likely.
    Empirical(Vec<Span>),
    /// All the same.
    Fixed(Span),
}

impl Default for Durations {
    /// Philly's: fitted to the 71,149 public jobs at hand (Jeon et al., ATC 2019, CC-BY-4.0).
    fn default() -> Durations {
        Durations::LogNormal { median: Span(Duration::from_secs(1058)), sigma: 2.13, least: None, most: None }
    }
}

/// Deadlines that are drawn: each is the submission plus the run time of the job on a GPU of speed 1 times a factor.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    /// The least factor. ElasticFlow (ASPLOS 2023) draws from 0.5 to 1.5.
    pub least: f64,
    /// The greatest; all between are equally likely.
    pub most: f64,
    /// Part of the jobs that have a deadline, above 0 to 1.
    #[serde(default = "whole")]
    pub share: f64,
}

/// How near to each other the nodes of a gang are: names of levels of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// Within one domain of this level, or the job does not start.
    #[serde(default)]
    pub required: Option<String>,
    /// Within one domain of this level, where there is such a place.
    #[serde(default)]
    pub preferred: Option<String>,
}

/// What jobs take of their nodes beside GPUs, for each GPU.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// CPU cores, to a thousandth.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// Memory beside the GPU's.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// How many jobs take this, over the weights of all.
    #[serde(default = "whole")]
    pub weight: f64,
}

fn whole() -> f64 {
    1.0
}

/// What of a log the queue of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum QueueOf {
    /// The account that a job was charged to.
    Account,
    /// The partition that it was submitted to.
    Partition,
    /// Its quality of service.
    Qos,
    /// Its user.
    User,
}

/// A trace's format. The names are those of `trace import`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum TraceFormat {
    /// Our own: columns `submit_s`, `gpus`, `duration_s`, and optional ones.
    #[default]
    Native,
    /// Microsoft Philly, job level: timestamp, duration, num_gpus, cluster.
    Philly,
    /// Tiresias' simulator: job_id, num_gpu, submit_time, duration (s).
    Tiresias,
    /// Gavel: tab-separated, 7 or 10 fields; needs its table of throughputs.
    Gavel,
    /// Muri: as Tiresias, times in ms.
    Muri,
    /// Muri, step by step: also iterations, iteration_time (ms) and model_name. Jobs of the profile `Muri`.
    MuriSteps,
    /// Helios and Lucid: gpu_num, submit_time, duration.
    Lucid,
    /// Pollux and DeepBoot workloads: time, application, num_replicas, batch_size. Elastic jobs of a profile's
    /// workloads; with Pollux' folder of traces as `throughputs` rigid ones. `infer-…` with a duration are tasks.
    Pollux,
    /// Shockwave: submit_s, model, batch, gpus, mode (static, accordion or gns), steps; needs its table of rates as `throughputs`. Jobs of the
    /// profile `Shockwave`.
    Shockwave,
    /// ElasticFlow: submit_s, model, batch, gpus, iterations, deadline_s; needs its table of rates as `throughputs`. Elastic jobs of the profile
    /// `ElasticFlow`.
    #[cfg_attr(feature = "clap", value(name = "elasticflow"))]
    ElasticFlow,
    /// Alibaba openb pods: num_gpu, gpu_milli, creation, scheduling and deletion times.
    Openb,
    /// Alibaba PAI's simulator: submit_time, duration, num_inst, num_gpu (parts are rounded up to whole GPUs).
    Pai,
    /// Standard Workload Format; processors are GPUs.
    Swf,
    /// Slurm: `sacct --parsable2` with Submit, Start, End and AllocTRES.
    Sacct,
    /// Any CSV, by a mapping of its columns.
    Csv,
}

/// When which tasks come; each is of any service, as likely as of any other.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum DemandSpec {
    /// Those of the workload's trace.
    #[default]
    Recorded,
    /// So many, at any time alike; each takes whole seconds from the first number to the second.
    Uniform {
        /// How many.
        tasks: u32,
        /// From the beginning on.
        over: Span,
        /// What each takes: the least and the most, whole seconds.
        seconds: (u32, u32),
    },
    /// As many as keep `trough` to `peak` GPUs busy, up and down once in a `period`, beginning at the trough.
    Diurnal {
        /// GPUs that they keep busy at the least.
        trough: f64,
        /// GPUs that they keep busy at the most.
        peak: f64,
        /// From one trough to the next.
        period: Span,
        /// From the beginning on.
        over: Span,
        /// What each takes: the least and the most, whole seconds.
        seconds: (u32, u32),
        /// Times at which more come; none by default.
        #[serde(default)]
        bursts: Option<DemandBursts>,
    },
}

/// Times at which more is asked.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "Bursts", deny_unknown_fields)]
pub struct DemandBursts {
    /// Mean time from one to the next.
    pub every: Span,
    /// How long each lasts.
    pub lasting: Span,
    /// What the rate is multiplied by meanwhile.
    pub times: f64,
}
