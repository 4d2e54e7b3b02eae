//! The parameters, with Slurm's names where it has them.

use sandtable_policy::{Kind, Param};

const SECONDS: Kind = Kind::Number { min: 0.0, max: 1e6 };
const WEIGHT: Kind = Kind::Number { min: 0.0, max: 1e9 };

pub const PARAMS: [Param; 27] = [
    Param {
        name: "tick",
        kind: SECONDS,
        default: "30",
        about: "Seconds between plans, Slurm's bf_interval; 0: none are made, as with sched/builtin.",
    },
    Param {
        name: "phase",
        kind: SECONDS,
        default: "0",
        about: "Seconds of the first tick from the beginning of the experiment's clock; of a real Slurm sdiag says it.",
    },
    Param {
        name: "resolution",
        kind: SECONDS,
        default: "60",
        about: "Seconds, Slurm's bf_resolution: plans begin at multiples of it, rounded down, and end as much sooner.",
    },
    Param {
        name: "wall_clock",
        kind: SECONDS,
        default: "0",
        about: "What the clock on the wall shows at the beginning of the experiment's clock, seconds from midnight UTC: multiples of the resolution are its, and ends of jobs are put together by its half minutes.",
    },
    Param {
        name: "window",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: "86400",
        about: "Seconds, Slurm's bf_window: a job that would start later than so long from now is not planned, and holds up none behind it.",
    },
    Param {
        name: "depth",
        kind: Kind::Number { min: 1.0, max: 1e6 },
        default: "100",
        about: "How many waiting jobs are planned at a tick, Slurm's bf_max_job_test (500 there); the time that it takes grows with the square.",
    },
    Param {
        name: "lag",
        kind: SECONDS,
        default: "0.5",
        about: "Seconds from an end or an arrival until the main scheduler looks.",
    },
    Param {
        name: "whole_nodes",
        kind: Kind::Flag,
        default: "true",
        about: "Plans reserve whole nodes, as Slurm's do, and not only GPUs of them.",
    },
    Param {
        name: "placement",
        kind: Kind::Choice(&["neighbours", "first"]),
        default: "\"neighbours\"",
        about: "Nodes that a job gets: as Slurm chooses them, neighbours with the fewest free CPUs in all that are enough (GPUs where CPUs are not known), or the first.",
    },
    Param {
        name: "preempt",
        kind: Kind::Flag,
        default: "false",
        about: "Whether jobs of a higher tier come first and take GPUs from those of lower tiers that may be preempted, as with PreemptMode=REQUEUE: these lose what they have not saved.",
    },
    Param {
        name: "tier_width",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: "0",
        about: "A job's tier is its own priority divided by this, rounded, halves away from 0; Slurm's PriorityTier of partitions, with PreemptType=preempt/partition_prio. 0: there are two tiers, and the higher one is of jobs that may not be preempted.",
    },
    Param {
        name: "tiers_first",
        kind: Kind::Flag,
        default: "true",
        about: "Whether jobs of higher tiers come first. If not, tiers say only which jobs take GPUs from others, as with PreemptType=preempt/qos, and what a job's priority has above its tier's says which come first.",
    },
    Param {
        name: "requeued",
        kind: SECONDS,
        default: "120",
        about: "Seconds until a job that was preempted may start again.",
    },
    Param {
        name: "preempted_last",
        kind: Kind::Flag,
        default: "true",
        about: "Whether a job that was preempted comes behind those of equal priority that were submitted before that, as with priority/multifactor; with priority/basic it keeps its place.",
    },
    Param {
        name: "weight_age",
        kind: WEIGHT,
        default: "0",
        about: "Slurm's PriorityWeightAge: what a job's priority grows by as it waits, until `max_age`.",
    },
    Param {
        name: "max_age",
        kind: Kind::Number { min: 1.0, max: 1e9 },
        default: "604800",
        about: "Seconds, Slurm's PriorityMaxAge: a job that has waited so long grows no more.",
    },
    Param {
        name: "included",
        kind: Kind::Flag,
        default: "false",
        about: "Whether priorities hold already what age and fair share gave when the experiment began, as those of a captured cluster do; they change from there.",
    },
    Param {
        name: "weight_size",
        kind: WEIGHT,
        default: "0",
        about: "Slurm's PriorityWeightJobSize: what a job of the whole cluster has more; the mean of its parts of the nodes and of their cores, or of GPUs where it asks for no cores.",
    },
    Param {
        name: "favor_small",
        kind: Kind::Flag,
        default: "false",
        about: "Slurm's PriorityFavorSmall: small jobs have what large ones would have.",
    },
    Param {
        name: "weight_fair_share",
        kind: WEIGHT,
        default: "0",
        about: "Slurm's PriorityWeightFairshare: what the jobs of the user have more that has had least of its part. Queues are accounts, and share by their weights.",
    },
    Param {
        name: "fair_share",
        kind: Kind::Choice(&["tree", "classic"]),
        default: "\"tree\"",
        about: "By the rank of users, Slurm's Fair Tree; or by 2 to the power of minus usage over shares, as with NO_FAIR_TREE.",
    },
    Param {
        name: "damping",
        kind: Kind::Number { min: 1.0, max: 1e6 },
        default: "1",
        about: "Slurm's FairShareDampeningFactor, for `classic`.",
    },
    Param {
        name: "associations",
        kind: Kind::Any,
        default: "[]",
        about: "Users and their parts, as in [{\"queue\": \"vision\", \"user\": \"ada\", \"shares\": 2, \"used\": 3600}]: of no queue where it names none, 1 share and nothing used where it says nothing else; `used` in GPU-s, decayed. A user that is not named has 1 share.",
    },
    Param {
        name: "half_life",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: "604800",
        about: "Seconds in which usage counts half as much, Slurm's PriorityDecayHalfLife; 0: it always counts.",
    },
    Param {
        name: "count_ends",
        kind: Kind::Flag,
        default: "true",
        about: "Whether what a job uses counts until it ends, as with AccountingStorageEnforce=limits; otherwise Slurm counts it as it was when usage was last computed, and a job that began since then not at all.",
    },
    Param {
        name: "calc_period",
        kind: Kind::Number { min: 1.0, max: 1e6 },
        default: "300",
        about: "Seconds, Slurm's PriorityCalcPeriod: usage and priorities are computed anew so often.",
    },
    Param {
        name: "calc_phase",
        kind: SECONDS,
        default: "0",
        about: "Seconds until that is done for the first time, from the beginning of the experiment's clock.",
    },
];
