//! The SDK for Sandtable policies and predictors in Rust.
//!
//! A policy is a type that implements [`Policy`] and one line, `sandtable_policy::export!(Type)`. It compiles
//! natively, where its unit tests run, and to a WebAssembly component, which is what an experiment names.
//!
//! # Architecture
//! - [`bindings`]: the contract of `wit/`, generated.
//! - [`Cluster`]: the mirror of nodes and jobs, kept from events; the only way to start and to preempt.
//! - [`Placement`]: which GPUs a gang gets; those that may not be preempted get nodes that no owner may take back first.
//! - [`Backlog`]: waiting jobs in a total order, and the pass that starts them.
//! - [`ColocationQueue`]: waiting jobs for GPUs that are shared, and the pass that places each on one node.
//! - [`PairSpeeds`]: what the bound predictor says of jobs side by side.
//! - [`Moves`]: rounds that move jobs between types of GPU.
//! - [`predictor`]: the SDK for predictors.
//! - [`Draws`]: all the randomness that a policy may have.
//! - [`walk`]: the quota walk of preemptive policies; [`Ranking`]: the list that it walks.
//! - [`QuotaQueue`]: the same walk over jobs that are kept in order; [`ShortestFirst`]: by what is left of them.
//! - [`Param`]: a policy's parameters: their schema, their defaults, and why a value is refused.
//! - [`host`]: the imports, with a stand-in for native tests; `testing`: a small cluster for them.

#[expect(missing_docs, reason = "generated")]
pub mod bindings {
    //! Generated from `wit/policy.wit`.
    wit_bindgen::generate!({
        world: "advising-policy",
        path: "wit",
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_bindings",
        default_bindings_module: "sandtable_policy::bindings",
    });
}

#[cfg(any(all(target_arch = "wasm32", feature = "allocator"), test))]
mod alloc;
mod backfill;
mod backlog;
mod cluster;
mod colocate;
mod config;
pub mod driver;
mod fixed_order;
mod free_ahead;
pub mod host;
mod job;
mod job_map;
mod line;
mod moves;
mod node_set;
mod pair_speeds;
mod parts;
mod place;
pub mod predictor;
mod queue_tree;
mod quota;
mod random;
mod ranking;
mod residents;
mod rooms;
mod rounds;
mod sharing;
mod shortest;
mod squeeze;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod time_left;
mod waiting_first;
mod walk;

pub use backfill::{Backfill, Lines};
pub use backlog::Backlog;
pub use bindings::sandtable::policy::predictor::Quantity;
pub use bindings::sandtable::policy::types::{
    Abilities, Action, Arrival, AttainedTime, Batch, BatchSplit, Cadence, ChangeCause, ClassId, Communication, Demand,
    Elasticity, EpochsOfBatch, Event, Fresh, GpuId, GpuType, GpuTypeId, HostResources, Instant, JobEnd, JobId,
    JobPhase, Knowledge, LeaseEnd, ModelFacts, Nearness, Node, NodeChange, NodeHealth, NodeId, PartId, PartProfile,
    PhaseChange, Plan, PolicyError, Pool, Preempt, PreemptMode, Protect, Queue, QueueId, Reason, RejectCode, Rejection,
    RemainingChange, Sample, Service, ServiceId, SetBatch, Setup, Sharing, Stages, Start, StartOn, StartPart, Throttle,
    Throughput, Timer, Topology, TrainingEpochs, Trigger, UserId, Wake, WorkloadId, WorkloadProfile,
};
pub use cluster::{Cluster, Resettled};
pub use colocate::{ColocationQueue, Place};
pub use config::{Config, Kind, Param};
pub use fixed_order::FixedOrder;
pub use job::{Ask, Job};
pub use job_map::JobMap;
pub use line::Stand;
pub use moves::Moves;
pub use pair_speeds::PairSpeeds;
pub use place::{Placement, Shapes};
pub use queue_tree::QueueTree;
pub use quota::{ByKey, QuotaChanges, QuotaOrder, QuotaQueue};
pub use random::Draws;
pub use ranking::{Ranking, Tick, Ties, ascending};
pub use rooms::Room;
pub use rounds::Rounds;
pub use shortest::{Least, ShortestFirst};
pub use walk::walk;

/// The instant or duration that stands for never or unknown: 2^53 - 1 µs.
pub const NEVER: u64 = (1 << 53) - 1;
/// The workload of a job of whose workload nothing is known.
pub const NO_WORKLOAD: WorkloadId = WorkloadId::MAX;
/// The queue of a job that is in none.
pub const NO_QUEUE: QueueId = QueueId::MAX;
/// The first slice of a job that has no part of a GPU.
pub const NO_SLICE: u32 = u32::MAX;

impl Cadence {
    /// Called on every event, and not in rounds.
    pub const EVENTS: Cadence = Cadence { round: None, on_events: true, ends: Wake::Always };

    /// Called on every event, but for ends of jobs while no job waits: a policy that then only keeps its books.
    pub const WHILE_WAITING: Cadence = Cadence { ends: Wake::WhileWaiting, ..Cadence::EVENTS };
}

/// What a batch introduces: jobs refer to it by number.
#[derive(Clone, Debug, Default)]
pub struct Introductions {
    /// Demands that no earlier job had.
    pub classes: Vec<Demand>,
    /// Workloads that no earlier job had.
    pub workloads: Vec<WorkloadProfile>,
    /// Names of users that no earlier job belongs to.
    pub users: Vec<String>,
    /// Measurements of elastic jobs, by job.
    pub samples: Vec<Sample>,
    /// What live jobs have had before this policy took over.
    pub attained: Vec<AttainedTime>,
}

/// What a policy says about itself.
pub struct About {
    /// The name of the component's file and of the policy in results.
    pub name: &'static str,
    /// One line for people; names the source of a published algorithm.
    pub about: &'static str,
    /// Kinds of action beside `start`.
    pub uses: Abilities,
    /// What the host must be able to tell.
    pub needs: Knowledge,
    /// Every parameter.
    pub params: &'static [Param],
}

/// A scheduling policy.
///
/// ```
/// use sandtable_policy::testing::completion_times;
/// use sandtable_policy::{
///     Abilities, About, Backfill, Backlog, Batch, Cluster, Config, Knowledge, Placement, Policy, PolicyError, Setup,
/// };
///
/// /// First come, first served.
/// struct Fifo(Backlog);
///
/// impl Policy for Fifo {
///     fn about() -> About {
///         let (uses, needs) = (Abilities::empty(), Knowledge::empty());
///         About { name: "my-fifo", about: "first come, first served", uses, needs, params: &[] }
///     }
///     fn new(_: &Config, _: &Setup) -> Result<Self, PolicyError> {
///         Ok(Fifo(Backlog::default()))
///     }
///     fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
///         for job in batch.events.iter().flat_map(|event| cluster.queued_by(event)) {
///             self.0.push(job, job.submitted);
///         }
///         self.0.start(cluster, Placement::Packed, Backfill::None);
///         Ok(())
///     }
/// }
///
/// sandtable_policy::export!(Fifo);
///
/// // One node of one GPU; the second job arrives after 10 s and waits for 90 s: seconds from submission to completion.
/// let jobs = [(0, 1, 100), (10, 1, 50)];
/// assert_eq!(completion_times::<Fifo>("{}", &[1], &jobs), [100, 140]);
/// ```
pub trait Policy: Sized + 'static {
    /// What the policy says about itself; always the same.
    fn about() -> About;
    /// A policy ready for its first batch. The configuration has been checked against [`About::params`].
    ///
    /// # Errors
    /// `BadConfig` where parameters contradict each other.
    fn new(config: &Config, setup: &Setup) -> Result<Self, PolicyError>;
    /// When it wants to be called; on every event unless it says otherwise.
    fn cadence(&self) -> Cadence {
        Cadence::EVENTS
    }
    /// What it uses with its configuration; all of [`About::uses`] unless it says otherwise.
    fn uses(&self) -> Abilities {
        Self::about().uses
    }
    /// What to do now. The events of `batch` are already in `cluster`; actions are taken through it.
    ///
    /// # Errors
    /// `Internal` ends the run.
    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError>;
    /// Why a job waits, after the latest decision; what [`Cluster::why`] says unless the policy knows better.
    fn explain(&self, job: &Job, cluster: &Cluster) -> Reason {
        cluster.why(job)
    }
}

/// Makes a [`Policy`] the component's `scheduler`. Expands to nothing natively: two policies linked into one
/// program would define the same symbols.
#[macro_export]
macro_rules! export {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::exports::sandtable::policy::{advice, scheduler};
            use $crate::bindings::sandtable::policy::types;
            struct Component;
            std::thread_local! {
                static DRIVER: std::cell::RefCell<Option<$crate::driver::Driver<$policy>>> =
                    const { std::cell::RefCell::new(None) };
            }
            impl scheduler::Guest for Component {
                fn describe() -> types::Descriptor {
                    $crate::driver::describe::<$policy>(env!("CARGO_PKG_VERSION"))
                }
                fn init(setup: types::Setup) -> Result<types::Readiness, types::PolicyError> {
                    $crate::host::report_panics();
                    let (driver, readiness) = $crate::driver::Driver::new(setup)?;
                    DRIVER.set(Some(driver));
                    Ok(readiness)
                }
                fn decide(batch: types::Batch) -> Result<types::Plan, types::PolicyError> {
                    DRIVER.with_borrow_mut(|driver| match driver {
                        Some(driver) => driver.decide(&batch, $crate::host::introductions(batch.fresh)),
                        None => Err(types::PolicyError::Internal("decide before init".into())),
                    })
                }
            }
            impl advice::Guest for Component {
                fn explain(jobs: Vec<types::JobId>) -> Vec<types::Reason> {
                    DRIVER.with_borrow(|driver| driver.as_ref().map_or(Vec::new(), |driver| driver.explain(&jobs)))
                }
            }
    $crate::bindings::export_bindings!(Component with_types_in $crate::bindings);
        };
    };
}
