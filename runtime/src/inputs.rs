//! The inputs of a run, apart from its policy and its backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandtable_hardware::{Beginning, Duration, Instant, Job, JobId, PerformanceModel};

use crate::context::Predictors;
use crate::contract::Abilities;
use crate::decision_log::{DecisionLog, ReplayScript};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::policy::Policy;
use crate::window::Window;

/// What a run is given beside the policy and the machines.
pub struct Inputs {
    /// By submission; their index is their id.
    pub jobs: Arc<[Job]>,
    /// Where the run begins: the backend has the same.
    pub beginning: Arc<Beginning>,
    /// What jobs wait for before they are submitted, beside their own instant; one that waits for what does not happen is never submitted.
    pub after: Arc<BTreeMap<JobId, After>>,
    /// The last instant of the run, which it decides at too: what has not ended by then is unfinished. None: it goes on until every job has ended.
    pub until: Option<Instant>,
    /// Demands that the policy must follow beside those of `jobs`: where it is only asked whether it would begin, there are none.
    pub follow: Abilities,
    /// The policy's configuration: a JSON object, canonical.
    pub config: String,
    /// The policy's weights; empty: none.
    pub weights: Arc<[u8]>,
    /// All the policy's randomness.
    pub seed: u64,
    /// What jobs are, and do to each other.
    pub laws: Arc<PerformanceModel>,
    /// What answers for predicted quantities.
    pub predictors: Predictors,
    /// What policies are told.
    pub reveal: Reveal,
    /// Workloads that the site has measured, by number.
    pub references: Vec<sandtable_hardware::WorkloadId>,
    /// The first refused action fails the run; else it is skipped and the policy told.
    pub strict: bool,
    /// What the policy may use.
    pub limits: Limits,
    /// The part of the run that is measured.
    pub measured: Window,
    /// Keep every stay of a job on GPUs.
    pub keep_segments: bool,
    /// Keep all that the policy is told, for a capsule should it fail; holds the component's digest.
    pub record: Option<String>,
    /// The policies that take over; none: a fault ends the run.
    pub succession: Option<Box<dyn Succession>>,
    /// Where the plans that were carried out are entered.
    pub decision_log: Option<DecisionLog>,
    /// The plans of a recorded run: they are carried out, whatever the policy says.
    pub script: Option<ReplayScript>,
    /// Every end of a job calls the policy, whatever its cadence says of ends: the schedule must be the same.
    pub every_end_calls: bool,
    /// Told before each decision.
    pub watch: Option<Watch>,
}

/// What a job waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct After {
    /// Its conditions.
    pub all: Vec<Condition>,
    /// One of them will do.
    pub any: bool,
}

/// Something that happens to another job.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The other job.
    pub job: JobId,
    /// What happens to it.
    pub what: Happens,
    /// And so long after.
    pub plus: Duration,
}

/// What happens to a job, that others may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happens {
    /// It is given GPUs for the first time.
    Started,
    /// It ends.
    Ended,
}

/// Is told how many jobs have ended, and says whether the run ends here, without a result.
pub type Watch = Box<dyn Fn(usize) -> bool + Send>;

impl Inputs {
    /// Returns inputs without interference and predictors, with nothing revealed, judged strictly.
    pub fn plain(jobs: Arc<[Job]>, limits: Limits) -> Inputs {
        Inputs {
            jobs,
            beginning: Arc::default(),
            after: Arc::default(),
            until: None,
            follow: Abilities::empty(),
            config: "{}".into(),
            weights: Arc::from([]),
            seed: 0,
            laws: Arc::new(PerformanceModel::none()),
            predictors: Predictors::default(),
            reveal: Reveal::default(),
            references: Vec::new(),
            strict: true,
            limits,
            measured: Window::default(),
            keep_segments: true,
            record: None,
            succession: None,
            decision_log: None,
            script: None,
            every_end_calls: false,
            watch: None,
        }
    }
}

/// What policies are told beside what every scheduler sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reveal {
    /// What users declared that their jobs would take.
    pub declared_run_time: bool,
    /// The memory that jobs need; then the judge holds policies to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub memory: bool,
    /// What running alone has shown of workloads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub solo_profile: bool,
    /// What the computation graphs of workloads show.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub model_facts: bool,
    /// What jobs have done, and what of it they would lose.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
}

/// A policy and what results call it.
pub struct Successor {
    /// Its name.
    pub name: String,
    /// Ready for `describe`.
    pub policy: Box<dyn Policy>,
    /// Its configuration: a JSON object.
    pub config: String,
    /// Its weights; empty: none.
    pub weights: Arc<[u8]>,
}

/// Which policy takes over from another, and when.
pub trait Succession {
    /// Returns the policy that takes over now, because a user asked for it.
    fn asked(&mut self, now: Instant) -> Option<Successor>;

    /// Returns the next instant at which a policy takes over, if that is known beforehand.
    fn due(&self) -> Option<Instant>;

    /// Returns the policy that goes on after a fault; `None`: the run fails.
    fn fallback(&mut self, fault: &Fault) -> Option<Successor>;

    /// One that was asked for can't begin: the one before goes on.
    fn refused(&mut self, name: &str, fault: &Fault) {
        let _ = (name, fault);
    }
}

/// One policy took over from another.
#[derive(Clone, Debug, PartialEq)]
pub struct Takeover {
    /// When.
    pub at: Instant,
    /// The policy that took over.
    pub to: String,
    /// The fault of the one before, or why it could not begin itself; none: it was asked for, and did.
    pub fault: Option<Fault>,
    /// Whether it decides from then on.
    pub begun: bool,
}
