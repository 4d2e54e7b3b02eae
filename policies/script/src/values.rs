//! What a script sees: jobs, the moment, and nodes. They are copies: a script changes nothing. And what it answers: actions.

use std::fmt;

use allocative::Allocative;
use sandtable_policy::{Cluster, Job, NEVER};
use starlark::any::ProvidesStaticType;
use starlark::values::{Heap, NoSerialize, StarlarkValue, Value, starlark_value};

/// A job.
#[derive(Clone, Debug, ProvidesStaticType, NoSerialize, Allocative)]
pub(crate) struct JobView {
    pub(crate) id: u32,
    submitted: f64,
    gpus: u32,
    gpus_per_node: u32,
    share: f64,
    memory: u32,
    cpus: f64,
    host_memory: u32,
    user: String,
    priority: i32,
    queue: Option<u32>,
    workload: Option<u32>,
    declared: Option<f64>,
    deadline: Option<f64>,
    remaining: Option<f64>,
    waited: f64,
    run: f64,
    attained: f64,
    running: bool,
    preemptible: bool,
    types: Vec<u32>,
}

/// The names of its attributes.
const OF_A_JOB: [&str; 21] = [
    "id",
    "submitted",
    "gpus",
    "gpus_per_node",
    "share",
    "memory",
    "cpus",
    "host_memory",
    "user",
    "priority",
    "queue",
    "workload",
    "declared",
    "deadline",
    "remaining",
    "waited",
    "run",
    "attained",
    "running",
    "preemptible",
    "types",
];

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Which attributes of jobs a script may look at, of those that cost something to tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    pub(crate) remaining: bool,
    user: bool,
    types: bool,
}

impl Asks {
    /// By the words that are in a script.
    pub(crate) fn of(source: &str) -> Asks {
        let by_name = ["getattr", "dir("].iter().any(|word| source.contains(word));
        let asks = |word: &str| by_name || source.contains(word);
        Asks { remaining: asks("remaining"), user: asks("user"), types: asks("types") }
    }
}

impl JobView {
    /// A job as it is now, as far as the script asks; seconds that are left of it, where they are known.
    pub(crate) fn of(job: &Job, remaining: f64, now: u64, asks: Asks) -> JobView {
        JobView {
            id: job.id,
            submitted: seconds(job.submitted),
            gpus: job.gpus,
            gpus_per_node: job.gpus_per_node,
            share: f64::from(job.share) / 1000.0,
            memory: job.memory_mib,
            cpus: f64::from(job.host.cpu_milli) / 1000.0,
            host_memory: job.host.memory_mib,
            user: if asks.user { job.user.to_string() } else { String::new() },
            priority: job.priority,
            queue: job.queue,
            workload: job.workload,
            declared: job.declared_run_time.map(seconds),
            deadline: job.deadline.filter(|at| *at < NEVER).map(seconds),
            remaining: (!remaining.is_nan()).then_some(remaining),
            waited: seconds(job.waited(now)),
            run: seconds(job.run_time(now)),
            attained: seconds(job.service(now)),
            running: job.holds(),
            preemptible: job.preemptible,
            types: if asks.types { job.gpu_types.to_vec() } else { Vec::new() },
        }
    }
}

impl fmt::Display for JobView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<job {}>", self.id)
    }
}

starlark::starlark_simple_value!(JobView);

#[starlark_value(type = "job")]
impl<'v> StarlarkValue<'v> for JobView {
    fn get_attr(&self, attribute: &str, heap: &'v Heap) -> Option<Value<'v>> {
        let number = |value: f64| heap.alloc(value);
        let known = |value: Option<f64>| value.map_or_else(Value::new_none, number);
        let index = |value: Option<u32>| value.map_or_else(Value::new_none, |value| heap.alloc(value));
        Some(match attribute {
            "id" => heap.alloc(self.id),
            "submitted" => number(self.submitted),
            "gpus" => heap.alloc(self.gpus),
            "gpus_per_node" => heap.alloc(self.gpus_per_node),
            "share" => number(self.share),
            "memory" => heap.alloc(self.memory),
            "cpus" => number(self.cpus),
            "host_memory" => heap.alloc(self.host_memory),
            "user" => heap.alloc(self.user.as_str()),
            "priority" => heap.alloc(self.priority),
            "queue" => index(self.queue),
            "workload" => index(self.workload),
            "declared" => known(self.declared),
            "deadline" => known(self.deadline),
            "remaining" => known(self.remaining),
            "waited" => number(self.waited),
            "run" => number(self.run),
            "attained" => number(self.attained),
            "running" => Value::new_bool(self.running),
            "preemptible" => Value::new_bool(self.preemptible),
            "types" => heap.alloc(self.types.clone()),
            _ => return None,
        })
    }

    fn has_attr(&self, attribute: &str, _: &'v Heap) -> bool {
        OF_A_JOB.contains(&attribute)
    }

    fn dir_attr(&self) -> Vec<String> {
        OF_A_JOB.map(String::from).into()
    }
}

/// What `decide` asks for.
#[derive(Clone, Debug, PartialEq, ProvidesStaticType, NoSerialize, Allocative)]
pub(crate) enum Action {
    /// A job starts, on these nodes, one for each GPU; none: where the rule of placement puts it.
    Start(u32, Option<Vec<u32>>),
    /// A job gives its GPUs back.
    Stop(u32),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Start(job, _) => write!(f, "<start job {job}>"),
            Action::Stop(job) => write!(f, "<stop job {job}>"),
        }
    }
}

starlark::starlark_simple_value!(Action);

#[starlark_value(type = "action")]
impl<'v> StarlarkValue<'v> for Action {}

/// The moment of a decision.
#[derive(Clone, Debug, ProvidesStaticType, NoSerialize, Allocative)]
pub(crate) struct Moment {
    now: f64,
    free: u32,
    gpus: u32,
    waiting: u32,
    running: u32,
}

const OF_A_MOMENT: [&str; 5] = ["now", "free", "gpus", "waiting", "running"];

impl Moment {
    pub(crate) fn of(cluster: &Cluster) -> Moment {
        Moment {
            now: seconds(cluster.now()),
            free: (0..cluster.types()).map(|kind| cluster.free_gpus(kind as u32)).sum(),
            gpus: cluster.all_up_gpus(),
            waiting: cluster.queued().0 as u32,
            running: cluster.holders().len() as u32,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} s>", self.now)
    }
}

starlark::starlark_simple_value!(Moment);

#[starlark_value(type = "moment")]
impl<'v> StarlarkValue<'v> for Moment {
    fn get_attr(&self, attribute: &str, heap: &'v Heap) -> Option<Value<'v>> {
        Some(match attribute {
            "now" => heap.alloc(self.now),
            "free" => heap.alloc(self.free),
            "gpus" => heap.alloc(self.gpus),
            "waiting" => heap.alloc(self.waiting),
            "running" => heap.alloc(self.running),
            _ => return None,
        })
    }

    fn has_attr(&self, attribute: &str, _: &'v Heap) -> bool {
        OF_A_MOMENT.contains(&attribute)
    }

    fn dir_attr(&self) -> Vec<String> {
        OF_A_MOMENT.map(String::from).into()
    }
}

/// A node that is up.
#[derive(Clone, Debug, ProvidesStaticType, NoSerialize, Allocative)]
pub(crate) struct NodeView {
    pub(crate) id: u32,
    /// Its type of GPU, by its place among those of the cluster.
    pub(crate) kind: u32,
    pub(crate) gpus: u32,
    pub(crate) free: u32,
    /// Thousandths of a core and MiB that are left; the greatest number: it is not known.
    pub(crate) left: [u64; 2],
}

const OF_A_NODE: [&str; 6] = ["id", "type", "gpus", "free", "cpus", "host_memory"];

impl fmt::Display for NodeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<node {}: {} of {} GPUs free>", self.id, self.free, self.gpus)
    }
}

starlark::starlark_simple_value!(NodeView);

#[starlark_value(type = "node")]
impl<'v> StarlarkValue<'v> for NodeView {
    fn get_attr(&self, attribute: &str, heap: &'v Heap) -> Option<Value<'v>> {
        Some(match attribute {
            "id" => heap.alloc(self.id),
            "type" => heap.alloc(self.kind),
            "gpus" => heap.alloc(self.gpus),
            "free" => heap.alloc(self.free),
            "cpus" if self.left[0] < u64::MAX => heap.alloc(self.left[0] as f64 / 1000.0),
            "host_memory" if self.left[1] < u64::MAX => heap.alloc(self.left[1] as f64),
            // More than any job asks for.
            "cpus" | "host_memory" => heap.alloc(f64::INFINITY),
            _ => return None,
        })
    }

    fn has_attr(&self, attribute: &str, _: &'v Heap) -> bool {
        OF_A_NODE.contains(&attribute)
    }

    fn dir_attr(&self) -> Vec<String> {
        OF_A_NODE.map(String::from).into()
    }
}
