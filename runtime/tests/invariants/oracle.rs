//! The rules of the judge once more, from the words of the contract alone, slow and plain: every action is tried on a
//! copy of the state, which is kept if the action breaks no rule. It knows of jobs what was announced of them and of
//! machines what `init` told, no more; nothing here is shared with `runtime/src/judge.rs`.
//!
//! Quotations are of `wit/policy.wit`, unless another file is named (`contract::the_oracle_quotes_the_contract`).

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::{GpuId, HostUse, Instant, JobId, NodeId, ServiceId};
use sandtable_runtime::cluster::{Cluster, Phase, Pod};
use sandtable_runtime::contract::RejectCode::{self, *};
use sandtable_runtime::contract::{
    Abilities, Action, BatchSplit, Demand, Elasticity, Node, PartProfile, Preempt, Protect, SetBatch, Setup, Sharing,
    Start, StartOn, StartPart, Throttle, Timer,
};

use crate::cpu::on_node;
use crate::oracle_nodes::{taken_of, too_far, too_little_host, wrong_shape};

/// «Every u64 is below 2^53, in both directions».
const END_OF_NUMBERS: u64 = 1 << 53;

/// How many timers are too many no word says.
const MOST_TIMERS: usize = 1024;

/// What was told of the site, of the policy and of jobs.
pub struct Site<'a> {
    pub setup: &'a Setup,
    pub uses: Abilities,
    pub announced: &'a BTreeMap<u32, Demand>,
    /// The queue of each job that is in one.
    pub queues: &'a BTreeMap<u32, u32>,
}

/// An action that is refused.
#[derive(Clone, Debug)]
pub struct Refused {
    pub index: u32,
    /// All rules that it breaks. The host names one of them: «the order of its checks is not part of the contract».
    pub broken: Vec<RejectCode>,
}

/// What comes of a plan: what is refused, and the state that the rest leaves.
pub struct Outcome {
    pub refused: Vec<Refused>,
    pub after: Cluster,
}

/// Judges a plan.
pub fn oracle(site: &Site, before: &Cluster, base: u64, actions: &[Action]) -> Outcome {
    let (mut state, mut refused) = (before.clone(), Vec::new());
    if let Some(code) = whole_plan(site, before, base, actions) {
        return Outcome { refused: vec![Refused { index: 0, broken: vec![code] }], after: state };
    }
    // «Checked in order, each against the state that the earlier ones leave.»
    let mut placed = BTreeSet::new();
    for (index, action) in actions.iter().enumerate() {
        let mut copy = state.clone();
        let broken = attempt(site, &mut copy, &placed, action);
        if broken.is_empty() {
            state = copy;
            placed.extend(placing(action));
        } else {
            refused.push(Refused { index: index as u32, broken });
        }
    }
    Outcome { refused, after: state }
}

/// V01: «`plan.base` is not the `batch.seq` of the batch being answered.» V02: «the plan has more actions than `setup.max-actions`.» Both are
/// of the plan: nothing of it is done.
fn whole_plan(site: &Site, state: &Cluster, base: u64, actions: &[Action]) -> Option<RejectCode> {
    let long = actions.len() > site.setup.max_actions as usize;
    (base != state.seq).then_some(StalePlan).or(long.then_some(PlanTooLarge))
}

/// Carries an action out on a state, and says which rules it breaks; if any, the state is worth nothing.
fn attempt(site: &Site, state: &mut Cluster, placed: &BTreeSet<u32>, action: &Action) -> Vec<RejectCode> {
    let mut broken = Vec::from_iter(not_negotiated(site, action));
    broken.extend(placed_twice(placed, action));
    match action {
        Action::Start(it) => {
            broken.extend(known_and_in(site, state, it.job, &[Phase::Queued]));
            broken.extend(placement(site, state, it, None));
            if broken.is_empty() {
                put(site, state, it);
            }
        }
        Action::StartPart(StartPart { job, gpu, slice }) => {
            let it = Start { job: *job, gpus: vec![*gpu], batch: None };
            broken.extend(known_and_in(site, state, *job, &[Phase::Queued]));
            broken.extend(placement(site, state, &it, Some(*slice)));
            if broken.is_empty() {
                state.slices.insert(JobId::new(*job), *slice);
                put(site, state, &it);
            }
        }
        Action::StartOn(it) => {
            broken.extend(known_and_in(site, state, it.job, &[Phase::Queued]));
            broken.extend(on_node(site, state, it));
            if broken.is_empty() {
                put_on(site, state, it);
            }
        }
        Action::Reassign(moves) => broken.extend(reassign(site, state, moves)),
        Action::Preempt(it) => broken.extend(preempt(site, state, it)),
        Action::Throttle(it) => broken.extend(throttle(site, state, it)),
        Action::SetBatch(it) => broken.extend(set_batch(site, state, it)),
        Action::Protect(it) => broken.extend(protect(site, state, it)),
        Action::Refuse(job) => {
            broken.extend(known_and_in(site, state, *job, &[Phase::Queued]));
            if broken.is_empty() {
                state.set_phase(JobId::new(*job), Phase::Ended);
            }
        }
        Action::SetTimer(it) => broken.extend(set_timer(state, it)),
        // No word says what becomes of a timer that is not there: it counts as a bad one.
        Action::CancelTimer(token) => broken.extend(state.timers.remove(token).is_none().then_some(BadTime)),
    }
    broken
}

/// The jobs that an action places: «placing actions (start, start-part, start-on, preempt, reassign, refuse)».
fn placing(action: &Action) -> Vec<u32> {
    match action {
        Action::Start(it) => vec![it.job],
        Action::StartPart(it) => vec![it.job],
        Action::StartOn(it) => vec![it.job],
        Action::Preempt(it) => vec![it.job],
        Action::Refuse(job) => vec![*job],
        Action::Reassign(moves) => moves.iter().map(|it| it.job).collect(),
        _ => vec![],
    }
}

/// V11: «a plan has two placing actions (start, start-part, start-on, preempt, reassign, refuse) for one job.» What was refused was no action.
fn placed_twice(placed: &BTreeSet<u32>, action: &Action) -> Option<RejectCode> {
    let mut all = placed.clone();
    placing(action).into_iter().any(|job| !all.insert(job)).then_some(DuplicateJob)
}

/// V26: «the kind of action is not in `descriptor.uses`», which are «kinds of action that a policy uses in addition to `start`».
fn not_negotiated(site: &Site, action: &Action) -> Option<RejectCode> {
    let needs = match action {
        Action::Start(_) => Abilities::empty(),
        Action::Preempt(_) => Abilities::PREEMPT,
        Action::SetTimer(_) | Action::CancelTimer(_) => Abilities::TIMERS,
        Action::Throttle(_) => Abilities::THROTTLE,
        // «`elastic`: `reassign` and `set-batch`.»
        Action::Reassign(_) | Action::SetBatch(_) => Abilities::ELASTIC,
        Action::Protect(_) => Abilities::PROTECT,
        Action::Refuse(_) => Abilities::REFUSE,
        // «`parts`: follows `demand.part`, by `start-part`.»
        Action::StartPart(_) => Abilities::PARTS,
        // «`cpu-jobs`: starts jobs that ask for no GPU, by `start-on`.»
        Action::StartOn(_) => Abilities::CPU_JOBS,
    };
    (!site.uses.contains(needs)).then_some(NotNegotiated)
}

/// V03: «the job was never announced.» V05: «the action is not allowed in the job's phase.» A job that fits on no fleet
/// ends as it comes and is announced to nobody: V03 by the words, V05 by the judge.
fn known_and_in(site: &Site, state: &Cluster, job: u32, phases: &[Phase]) -> Vec<RejectCode> {
    let phase = state.phase.get(job as usize);
    let known = site.announced.contains_key(&job);
    let mut broken = Vec::from_iter((!known).then_some(UnknownJob));
    let wrong = phase.is_some_and(|phase| !phases.contains(phase) && (known || *phase == Phase::Ended));
    broken.extend(wrong.then_some(WrongPhase));
    broken
}

/// All that is demanded of a gang's GPUs, on a state in which the job holds none; `slice` is that of `start-part`.
fn placement(site: &Site, state: &Cluster, it: &Start, slice: Option<u32>) -> Vec<RejectCode> {
    let all: u32 = site.setup.topology.nodes.iter().map(|node| node.gpus).sum();
    let there: BTreeSet<u32> = it.gpus.iter().copied().filter(|gpu| *gpu < all).collect();
    let mut broken = Vec::new();
    // V04: «there is no such GPU.» V10: «a placement names a GPU twice.» V22: «a placement or a `reassign` is empty».
    broken.extend(it.gpus.iter().any(|gpu| *gpu >= all).then_some(UnknownGpu));
    broken.extend(it.gpus.iter().enumerate().any(|(at, gpu)| it.gpus[..at].contains(gpu)).then_some(DuplicateGpu));
    broken.extend(it.gpus.is_empty().then_some(BadNumber));
    broken.extend(there.iter().any(|gpu| !available(site, state, it.job, *gpu)).then_some(GpuUnavailable));
    let Some(job) = site.announced.get(&it.job) else { return broken };
    broken.extend(wrong_count(job, it));
    broken.extend(wrong_type(site, job, &there));
    broken.extend(wrong_shape(site, job, &there));
    broken.extend(too_far(site, job, &there));
    broken.extend(too_little_host(site, state, job, &there));
    broken.extend(beyond_limit(site, state, it));
    for gpu in &there {
        broken.extend(crowded(site, state, (job, slice), *gpu));
        broken.extend(misplaced(site, job, slice, *gpu));
        broken.extend(too_little_memory(site, state, job, *gpu));
    }
    if let Some(elastic) = &job.elastic {
        broken.extend(wrong_batch(elastic, it.batch, it.gpus.len() as u32));
    }
    broken
}

/// V08: «the job may not have this number of GPUs, or the action resizes it or sets its batch although it is not elastic.» An elastic one has a «maximum number of
/// GPUs; the minimum is 1», any other «always runs on exactly the GPUs that it asked for», and has no batch to be told.
fn wrong_count(job: &Demand, it: &Start) -> Option<RejectCode> {
    let count = it.gpus.len();
    let right = match &job.elastic {
        Some(elastic) => (1..=elastic.most_gpus as usize).contains(&count),
        None => count == job.gpus as usize && it.batch.is_none(),
    };
    (!right).then_some(NotElastic)
}

/// V12: «the job does not allow the GPU type, or the gang mixes types.» «Empty means any type.»
fn wrong_type(site: &Site, job: &Demand, gpus: &BTreeSet<u32>) -> Option<RejectCode> {
    let types: BTreeSet<u32> = gpus.iter().map(|gpu| node(site, *gpu).gpu_type).collect();
    let allowed = |kind: &u32| job.gpu_types.is_empty() || job.gpu_types.contains(kind);
    (types.len() > 1 || !types.iter().all(allowed)).then_some(GpuTypeNotAllowed)
}

/// V13: «the node is down or draining, or the GPU is promised to a starting job or protected for a service.» Promises are of GPUs
/// that one job has; a protected GPU is reserved «for the service whose model it has loaded: until then only
/// tasks of that service may be placed on it».
fn available(site: &Site, state: &Cluster, job: u32, gpu: u32) -> bool {
    let service = site.announced.get(&job).and_then(|job| job.service);
    let protected = |pod: &Pod| pod.until > state.now && pod.service.map(ServiceId::number) != service;
    let kept = state.pods.get(gpu as usize).is_some_and(protected);
    let id = node(site, gpu).id;
    let drains = site.uses.contains(Abilities::DRAIN) && state.draining.contains_key(&NodeId::new(id));
    state.up[id as usize] && !drains && !promised(site, state, gpu) && !kept
}

fn promised(site: &Site, state: &Cluster, gpu: u32) -> bool {
    let starting = |other: &JobId| state.phase[*other] == Phase::Starting;
    *sharing(site, gpu) == Sharing::Exclusive && state.residents[gpu as usize].iter().any(starting)
}

/// V14: «another job holds the GPU, or the shares on it leave too little.» V16: «more jobs than the GPU accepts.» V26:
/// «`share`: starts jobs next to others on packed GPUs»; without it the GPU is held by another job, which is V14 too.
fn crowded(site: &Site, state: &Cluster, (job, slice): (&Demand, Option<u32>), gpu: u32) -> Vec<RejectCode> {
    let others = &state.residents[gpu as usize];
    let share = |other: &JobId| site.announced[&other.number()].share_milli;
    match sharing(site, gpu) {
        Sharing::Exclusive if promised(site, state, gpu) => vec![],
        Sharing::Exclusive => Vec::from_iter((!others.is_empty()).then_some(GpuOverCommitted)),
        Sharing::Shares => {
            let shares = others.iter().map(share).sum::<u32>() + job.share_milli;
            Vec::from_iter((shares > 1000).then_some(GpuOverCommitted))
        }
        Sharing::Parts(_) => {
            let own = slices(site, job, slice, gpu);
            let of = |other: &JobId| {
                let theirs = &site.announced[&other.number()];
                slices(site, theirs, state.slices.get(other).copied(), gpu)
            };
            // «A job that asks for no part has the GPU to itself.» V17: «another job has one of its slices».
            let meets =
                |theirs: &Vec<u32>| own.as_ref().is_some_and(|own| own.iter().any(|slice| theirs.contains(slice)));
            let of_all: Vec<Option<Vec<u32>>> = others.iter().map(of).collect();
            let whole = of_all.iter().any(|theirs| theirs.is_none() || own.is_none());
            let met = of_all.iter().flatten().any(meets);
            whole.then_some(GpuOverCommitted).into_iter().chain(met.then_some(PartMisplaced)).collect()
        }
        Sharing::Packed(most) => {
            let mut broken = Vec::from_iter((others.len() >= *most as usize).then_some(TenancyExceeded));
            if !others.is_empty() && !site.uses.contains(Abilities::SHARE) {
                broken.extend([NotNegotiated, GpuOverCommitted]);
            }
            broken
        }
    }
}

/// The part that a job asks for, as a GPU has it.
fn profile<'a>(site: &Site<'a>, job: &Demand, gpu: u32) -> Option<&'a PartProfile> {
    match sharing(site, gpu) {
        Sharing::Parts(profiles) => profiles.iter().find(|profile| Some(profile.id) == job.part),
        _ => None,
    }
}

/// «It takes `slices` slices of the GPU from the one at which it begins.»
fn slices(site: &Site, job: &Demand, first: Option<u32>, gpu: u32) -> Option<Vec<u32>> {
    let (profile, first) = profile(site, job, gpu).zip(first)?;
    Some((first..first + profile.slices).collect())
}

/// V17: «the GPU has no such part, it may not begin at this slice», «or `start` of a job that asks for a part, or `start-part` of one that asks
/// for none.»
fn misplaced(site: &Site, job: &Demand, slice: Option<u32>, gpu: u32) -> Option<RejectCode> {
    let profile = profile(site, job, gpu);
    let right = match (job.part, slice) {
        (None, None) => true,
        (Some(_), Some(slice)) => profile.is_some_and(|profile| profile.starts.contains(&slice)),
        _ => false,
    };
    (!right).then_some(PartMisplaced)
}

/// V15: «the jobs need more memory than the GPU has, or the job than its part.» A GPU's memory is
/// 0 «if unknown, and then memory is not checked».
fn too_little_memory(site: &Site, state: &Cluster, job: &Demand, gpu: u32) -> Option<RejectCode> {
    let own = profile(site, job, gpu).map(|profile| profile.memory_mib);
    // «0 if unknown: as much as the GPU has».
    let whole = site.setup.topology.gpu_types[node(site, gpu).gpu_type as usize].memory_mib;
    let has = own.filter(|mib| *mib > 0).unwrap_or(whole);
    // What others have in their own parts is no part of it.
    let others = state.residents[gpu as usize].iter().filter(|_| own.is_none());
    let needed: u32 = others.map(|other| site.announced[&other.number()].memory_mib).sum::<u32>() + job.memory_mib;
    (has > 0 && needed > has).then_some(MemoryOverCommitted)
}

/// V20: «the jobs of the queue, or of a group that it is in, would hold more GPUs than its limit», where «a share of a GPU counts as
/// that part of it».
fn beyond_limit(site: &Site, state: &Cluster, it: &Start) -> Option<RejectCode> {
    let takes = u64::from(site.announced[&it.job].share_milli) * it.gpus.len() as u64;
    let own = groups_of(site, *site.queues.get(&it.job)?);
    let beyond = |id: &u32| {
        let limit = site.setup.queues[*id as usize].limit * 1000.0;
        (held_in(site, state, *id) + takes) as f64 > limit + 0.5
    };
    own.iter().any(beyond).then_some(QueueLimit)
}

/// A queue and «the group that it is in», and so on.
fn groups_of(site: &Site, queue: u32) -> Vec<u32> {
    let mut all = vec![queue];
    while let Some(group) = site.setup.queues[*all.last().expect("a queue") as usize].parent {
        all.push(group);
    }
    all
}

/// Thousandths of a GPU that the jobs of a queue hold, a look at all GPUs. «A preempted job holds none.»
fn held_in(site: &Site, state: &Cluster, id: u32) -> u64 {
    let of = |job: &JobId| {
        let inside = site.queues.get(&job.number()).is_some_and(|queue| groups_of(site, *queue).contains(&id));
        u64::from(inside) * u64::from(site.announced[&job.number()].share_milli)
    };
    state.residents.iter().flatten().map(of).sum()
}

/// V24: «the job's batch cannot be split this way»: «samples per pass on one GPU», fewest and most, and the
/// largest batch of a step; of one that is not tunable, no other than its user's. «None means the batch that its user
/// asked for.»
///
/// The contract calls `initial-batch` «smallest batch per step» too; the judge takes smaller ones, and so does
/// this.
fn wrong_batch(elastic: &Elasticity, batch: Option<BatchSplit>, gpus: u32) -> Option<RejectCode> {
    let own = users_split(elastic, gpus.max(1));
    let batch = batch.unwrap_or(own);
    let other = (batch.local, batch.accumulation) != (own.local, own.accumulation);
    let step = u64::from(batch.local) * u64::from(gpus) * (u64::from(batch.accumulation) + 1);
    let passes = (elastic.least_local..=elastic.most_local).contains(&batch.local);
    (other && !elastic.tunable || !passes || step > u64::from(elastic.most_batch)).then_some(BadBatch)
}

/// How a gang works through the batch of its user, which the contract leaves open: «the fewest passes that memory
/// allows; one GPU with more than the initial batch takes two at least» (`hardware/src/elastic/mod.rs`), and what is
/// rounded up does not exceed the largest batch.
fn users_split(elastic: &Elasticity, gpus: u32) -> BatchSplit {
    let least = if gpus == 1 && elastic.batch > elastic.initial_batch { 2 } else { 1 };
    let each = elastic.batch.div_ceil(gpus);
    let passes = (least..).find(|passes| each.div_ceil(*passes) <= elastic.most_local).expect("enough passes");
    let local = each.div_ceil(passes).min(elastic.most_batch / (gpus * passes));
    BatchSplit { local, accumulation: passes - 1 }
}

/// «Elastic jobs that hold GPUs continue on these GPUs: more, fewer or different ones, of any type that the job allows. All changes of the
/// list happen at once or not at all, so that one job may take what another one in it releases.»
fn reassign(site: &Site, state: &mut Cluster, moves: &[Start]) -> Vec<RejectCode> {
    // No word says that somebody has to move: an empty list counts as an empty placement.
    let mut broken = Vec::from_iter(moves.is_empty().then_some(BadNumber));
    for it in moves {
        broken.extend(known_and_in(site, state, it.job, &[Phase::Starting, Phase::Running]));
        let rigid = |job: &Demand| job.elastic.is_none();
        broken.extend(site.announced.get(&it.job).is_some_and(rigid).then_some(NotElastic));
    }
    for it in moves.iter().filter(|it| site.announced.contains_key(&it.job)) {
        leave(site, state, it.job);
    }
    for it in moves {
        let found = placement(site, state, it, None);
        // Whoever can't be put there is in nobody's way.
        if found.is_empty() && !broken.contains(&UnknownJob) {
            put(site, state, it);
        }
        broken.extend(found);
    }
    broken
}

/// «Save the job's state, then release its GPUs» or «release the GPUs at once», of a job that has something to release. V07: «`demand.preemptible` is
/// false.»
fn preempt(site: &Site, state: &mut Cluster, it: &Preempt) -> Vec<RejectCode> {
    let mut broken = known_and_in(site, state, it.job, &[Phase::Starting, Phase::Running]);
    let bound = |job: &Demand| !job.preemptible;
    broken.extend(site.announced.get(&it.job).is_some_and(bound).then_some(NotPreemptible));
    if broken.is_empty() {
        leave(site, state, it.job);
    }
    broken
}

/// «Limit on a running job's speed, in thousandths of its speed without the limit, 1 to 1000.» V22: «a throttle is 0 or
/// above 1000».
fn throttle(site: &Site, state: &Cluster, it: &Throttle) -> Vec<RejectCode> {
    let mut broken = known_and_in(site, state, it.job, &[Phase::Running]);
    broken.extend((!(1..=1000).contains(&it.milli)).then_some(BadNumber));
    broken
}

/// V08: «it is not elastic», and V24. A job without GPUs has no batch to go over to.
fn set_batch(site: &Site, state: &Cluster, it: &SetBatch) -> Vec<RejectCode> {
    let mut broken = known_and_in(site, state, it.job, &[Phase::Starting, Phase::Running]);
    match site.announced.get(&it.job).map(|job| &job.elastic) {
        Some(Some(elastic)) => {
            broken.extend(wrong_batch(elastic, Some(it.batch), state.held[JobId::new(it.job)].len() as u32));
        }
        Some(None) => broken.push(NotElastic),
        None => {}
    }
    broken
}

/// «Reserves a GPU for the service whose model it has loaded»: one that holds none can't be kept. «An instant that is
/// not in the future ends the reservation.»
fn protect(site: &Site, state: &mut Cluster, it: &Protect) -> Vec<RejectCode> {
    let all: u32 = site.setup.topology.nodes.iter().map(|node| node.gpus).sum();
    let mut broken = Vec::from_iter((it.until >= END_OF_NUMBERS).then_some(BadTime));
    if it.gpu >= all {
        broken.push(UnknownGpu);
        return broken;
    }
    match state.pods.get_mut(it.gpu as usize).filter(|pod| pod.service.is_some()) {
        Some(pod) => pod.until = Instant::from_micros(it.until),
        None => broken.push(GpuUnavailable),
    }
    broken
}

/// V23: «the timer is not in the future, its token is in use, or there are too many timers.»
fn set_timer(state: &mut Cluster, it: &Timer) -> Option<RejectCode> {
    let many = state.timers.len() >= MOST_TIMERS;
    let bad = it.at <= state.now.as_micros() || it.at >= END_OF_NUMBERS || state.timers.contains_key(&it.token) || many;
    state.timers.insert(it.token, Instant::from_micros(it.at));
    bad.then_some(BadTime)
}

/// A job has these GPUs; what was loaded there stays «until the GPU is given to a training job or to another service».
fn put(site: &Site, state: &mut Cluster, it: &Start) {
    for gpu in &it.gpus {
        state.residents[*gpu as usize].push(JobId::new(it.job));
        state.residents[*gpu as usize].sort_unstable();
        if let Some(pod) = state.pods.get_mut(*gpu as usize) {
            *pod = Pod::default();
        }
    }
    state.held.set(JobId::new(it.job), GpuId::list(it.gpus.clone()));
    state.set_phase(JobId::new(it.job), Phase::Starting);
    count_free(site, state);
}

/// A job that asks for no GPU has its place.
fn put_on(site: &Site, state: &mut Cluster, it: &StartOn) {
    state.cpu_jobs.insert(JobId::new(it.job), NodeId::new(it.node));
    state.set_phase(JobId::new(it.job), Phase::Starting);
    count_free(site, state);
}

/// A job lets its GPUs go: they «are free at once for the job that starts next» (`runtime/src/cluster.rs`).
fn leave(site: &Site, state: &mut Cluster, job: u32) {
    state.residents.iter_mut().for_each(|there| there.retain(|other| *other != JobId::new(job)));
    state.set_phase(JobId::new(job), Phase::Stopping);
    count_free(site, state);
}

/// The tables of free GPUs and of what is taken of nodes are what a look at all of them gives.
fn count_free(site: &Site, state: &mut Cluster) {
    for node in &site.setup.topology.nodes {
        let gpus = (node.first_gpu..node.first_gpu + node.gpus).map(|gpu| &state.residents[gpu as usize]);
        state.free[node.id as usize] = gpus.filter(|there| there.is_empty()).count() as u32;
        let (cpu_milli, memory_mib) = taken_of(site, state, node.id);
        if let Some(hosts) = &mut state.hosts {
            hosts.taken[node.id as usize] = HostUse { cpu_milli, memory_mib };
        }
    }
    let held: Vec<u64> = (0..site.setup.queues.len() as u32).map(|id| held_in(site, state, id)).collect();
    if let Some(queues) = &mut state.queues {
        queues.held = held;
    }
}

pub fn node<'a>(site: &Site<'a>, gpu: u32) -> &'a Node {
    let holds = |node: &&Node| (node.first_gpu..node.first_gpu + node.gpus).contains(&gpu);
    site.setup.topology.nodes.iter().find(holds).expect("a GPU that exists")
}

fn sharing<'a>(site: &Site<'a>, gpu: u32) -> &'a Sharing {
    &site.setup.topology.gpu_types[node(site, gpu).gpu_type as usize].sharing
}
