//! The validity rules of the contract. A plan is judged in order, each action against the state that the earlier ones
//! leave, before anything happens.
//!
//! The rules carry the numbers of `reject-code` in `wit/policy.wit` (V01 to V26); those of mechanisms that the contract
//! does not have yet are absent.

mod nodes;
mod parts;
mod queues;

use sandtable_hardware::{Fleet, GpuId, Instant, Job, JobId, PerformanceModel, Sharing, Split, TypeId};

use crate::cluster::{Cluster, Phase, Undo};
use crate::contract::{
    Abilities, Action, BatchSplit, Protect, RejectCode, Rejection, Start, StartOn, StartPart, Timer,
};

/// Most timers at a time.
pub const TIMERS: usize = 1024;

/// What the rules are judged against.
pub struct Bench<'a> {
    /// The machines.
    pub fleet: &'a Fleet,
    /// What the jobs ask for.
    pub jobs: &'a [Job],
    /// Which of them are elastic.
    pub laws: &'a PerformanceModel,
    /// MiB that each job needs on a GPU, as policies are told; empty: they are not told, and it is not judged.
    pub memory: &'a [u32],
    /// What the policy said that it uses.
    pub uses: Abilities,
    /// Most actions of a plan.
    pub max_actions: u32,
}

/// A judged plan, carried out on the state; [`Verdict::undo`] takes it back.
pub struct Verdict {
    /// What was refused, in order of the actions.
    pub rejections: Vec<Rejection>,
    journal: Vec<Undo>,
}

impl Verdict {
    /// Takes back all that was accepted.
    pub fn undo(self, cluster: &mut Cluster, fleet: &Fleet) -> Vec<Rejection> {
        for undo in self.journal.into_iter().rev() {
            cluster.undo(fleet, undo);
        }
        self.rejections
    }

    /// Whether the action of this index was accepted.
    pub fn accepted(&self, index: usize) -> bool {
        self.rejections.binary_search_by_key(&index, |rejection| rejection.index as usize).is_err()
    }
}

type Refusal = (RejectCode, String);

/// Judges a plan that answers batch `base`, and carries its accepted actions out on `cluster`.
pub fn judge(bench: &Bench<'_>, cluster: &mut Cluster, base: u64, actions: &[Action]) -> Verdict {
    let mut verdict = Verdict { rejections: Vec::new(), journal: Vec::new() };
    let whole = if base != cluster.seq {
        Some((RejectCode::StalePlan, format!("V01: the plan answers batch {base}, the batch is {}", cluster.seq)))
    } else if actions.len() > bench.max_actions as usize {
        let (found, most) = (actions.len(), bench.max_actions);
        Some((RejectCode::PlanTooLarge, format!("V02: the plan has {found} actions, it may have {most}")))
    } else {
        None
    };
    if let Some((code, message)) = whole {
        verdict.rejections.push(Rejection { base, index: 0, job: None, code, message });
        return verdict;
    }
    let mut placed = std::collections::BTreeSet::new();
    for (index, action) in actions.iter().enumerate() {
        match act(bench, cluster, action, &mut placed) {
            Ok(undo) => verdict.journal.push(undo),
            Err((code, message)) => {
                let job = match action {
                    Action::Start(start) => Some(start.job),
                    Action::StartPart(start) => Some(start.job),
                    Action::StartOn(start) => Some(start.job),
                    Action::Preempt(preempt) => Some(preempt.job),
                    Action::Throttle(throttle) => Some(throttle.job),
                    Action::SetBatch(set) => Some(set.job),
                    Action::Refuse(job) => Some(*job),
                    // All or none: the one that is refused is in the message.
                    Action::Reassign(_) => None,
                    Action::SetTimer(_) | Action::CancelTimer(_) | Action::Protect(_) => None,
                };
                verdict.rejections.push(Rejection { base, index: index as u32, job, code, message });
            }
        }
    }
    verdict
}

fn act(
    bench: &Bench<'_>,
    cluster: &mut Cluster,
    action: &Action,
    placed: &mut std::collections::BTreeSet<JobId>,
) -> Result<Undo, Refusal> {
    match action {
        Action::Start(it) => start(bench, cluster, it, None, placed),
        Action::StartPart(StartPart { job, gpu, slice }) => {
            let it = Start { job: *job, gpus: vec![*gpu], batch: None };
            start(bench, cluster, &it, Some(*slice), placed)
        }
        Action::StartOn(it) => start_on(bench, cluster, it, placed),
        Action::Preempt(preempt) => {
            let job = known(cluster, preempt.job)?;
            negotiated(bench, Abilities::PREEMPT, "preempt")?;
            if !matches!(cluster.phase[job], Phase::Starting | Phase::Running) {
                return wrong_phase(cluster, job, "preempt");
            }
            if !bench.jobs[job].preemptible {
                return Err((RejectCode::NotPreemptible, format!("V07: job {job} may not be preempted")));
            }
            once(placed, job)?;
            Ok(cluster.take(bench.fleet, job))
        }
        Action::Reassign(moves) => {
            negotiated(bench, Abilities::ELASTIC, "reassign")?;
            reassign(bench, cluster, moves, placed)
        }
        Action::SetBatch(set) => {
            let job = known(cluster, set.job)?;
            negotiated(bench, Abilities::ELASTIC, "set-batch")?;
            if !matches!(cluster.phase[job], Phase::Starting | Phase::Running) {
                return wrong_phase(cluster, job, "set-batch");
            }
            check_batch(bench, job, cluster.held[job].len(), Some(set.batch))?;
            Ok(Undo::Nothing)
        }
        Action::Refuse(number) => {
            let job = known(cluster, *number)?;
            negotiated(bench, Abilities::REFUSE, "refuse")?;
            waits(cluster, job, "refuse")?;
            once(placed, job)?;
            cluster.set_phase(job, Phase::Ended);
            Ok(Undo::Refuse(job))
        }
        Action::Protect(protect) => {
            negotiated(bench, Abilities::PROTECT, "protect")?;
            keep(cluster, protect)
        }
        Action::Throttle(throttle) => {
            let job = known(cluster, throttle.job)?;
            negotiated(bench, Abilities::THROTTLE, "throttle")?;
            if cluster.phase[job] != Phase::Running {
                return wrong_phase(cluster, job, "throttle");
            }
            check_throttle(job, throttle.milli)?;
            Ok(Undo::Nothing)
        }
        Action::SetTimer(timer) => {
            negotiated(bench, Abilities::TIMERS, "set-timer")?;
            set_timer(cluster, *timer)
        }
        Action::CancelTimer(token) => {
            negotiated(bench, Abilities::TIMERS, "cancel-timer")?;
            match cluster.timers.remove(token) {
                Some(at) => Ok(Undo::Cancel(*token, at)),
                None => Err((RejectCode::BadTime, format!("V23: timer {token} is not set"))),
            }
        }
    }
}

/// A job starts; `slice`: the first of the part of a GPU that it is given, if it is given one.
fn start(
    bench: &Bench<'_>,
    cluster: &mut Cluster,
    it: &Start,
    slice: Option<u32>,
    placed: &mut std::collections::BTreeSet<JobId>,
) -> Result<Undo, Refusal> {
    let job = known(cluster, it.job)?;
    if slice.is_some() {
        negotiated(bench, Abilities::PARTS, "start-part")?;
    }
    waits(cluster, job, "start")?;
    check_placement(bench, cluster, job, it, slice)?;
    once(placed, job)?;
    Ok(cluster.give(bench.fleet, job, GpuId::list(it.gpus.clone()), slice))
}

/// A job that asks for no GPU starts.
fn start_on(
    bench: &Bench<'_>,
    cluster: &mut Cluster,
    it: &StartOn,
    placed: &mut std::collections::BTreeSet<JobId>,
) -> Result<Undo, Refusal> {
    let job = known(cluster, it.job)?;
    negotiated(bench, Abilities::CPU_JOBS, "start-on")?;
    waits(cluster, job, "start-on")?;
    let node = nodes::check_node(bench, cluster, job, it)?;
    once(placed, job)?;
    Ok(cluster.put(job, node))
}

/// Only a job that waits starts, or is refused.
fn waits(cluster: &Cluster, job: JobId, action: &str) -> Result<(), Refusal> {
    if cluster.phase[job] == Phase::Queued { Ok(()) } else { wrong_phase(cluster, job, action).map(drop) }
}

fn set_timer(cluster: &mut Cluster, timer: Timer) -> Result<Undo, Refusal> {
    let refuse = |why: String| Err((RejectCode::BadTime, format!("V23: {why}")));
    if timer.at <= cluster.now.as_micros() {
        return refuse(format!("timer at {} µs, now is {} µs", timer.at, cluster.now));
    }
    if timer.at >= 1 << 53 {
        return refuse(format!("timer at {} µs, instants end at 2^53", timer.at));
    }
    if cluster.timers.contains_key(&timer.token) {
        return refuse(format!("timer {} is already set", timer.token));
    }
    if cluster.timers.len() >= TIMERS {
        return refuse(format!("more than {TIMERS} timers"));
    }
    cluster.timers.insert(timer.token, Instant::from_micros(timer.at));
    Ok(Undo::Set(timer.token))
}

/// A limit on the speed of a job is a part of its speed.
fn check_throttle(job: JobId, milli: u32) -> Result<(), Refusal> {
    if (1..=1000).contains(&milli) {
        return Ok(());
    }
    let message = format!("V22: job {job} is held to {milli} thousandths, expected 1 to 1000");
    Err((RejectCode::BadNumber, message))
}

/// The job that a policy names by this number.
fn known(cluster: &Cluster, number: u32) -> Result<JobId, Refusal> {
    let job = JobId::new(number);
    match cluster.phase.get(job.index()) {
        None | Some(Phase::Future) => Err((RejectCode::UnknownJob, format!("V03: job {job} was never announced"))),
        Some(_) => Ok(job),
    }
}

fn wrong_phase(cluster: &Cluster, job: JobId, action: &str) -> Result<Undo, Refusal> {
    let phase = format!("{:?}", cluster.phase[job]).to_lowercase();
    Err((RejectCode::WrongPhase, format!("V05: {action} of job {job}, which is {phase}")))
}

fn once(placed: &mut std::collections::BTreeSet<JobId>, job: JobId) -> Result<(), Refusal> {
    if placed.insert(job) {
        return Ok(());
    }
    Err((RejectCode::DuplicateJob, format!("V11: job {job} is started, preempted or refused twice in one plan")))
}

fn negotiated(bench: &Bench<'_>, ability: Abilities, action: &str) -> Result<(), Refusal> {
    if bench.uses.contains(ability) {
        return Ok(());
    }
    Err((RejectCode::NotNegotiated, format!("V26: {action} by a policy that does not say it uses it")))
}

/// Elastic jobs go on with other GPUs: what they leave is free for each other, and nothing happens if one is refused.
fn reassign(
    bench: &Bench<'_>,
    cluster: &mut Cluster,
    moves: &[Start],
    placed: &mut std::collections::BTreeSet<JobId>,
) -> Result<Undo, Refusal> {
    if moves.is_empty() {
        return Err((RejectCode::BadNumber, "V22: `reassign` names no job".into()));
    }
    let mut counted = 0;
    let outcome = reassign_all(bench, cluster, moves, placed, &mut counted);
    if outcome.is_err() {
        // Nothing happened to any of them.
        moves[..counted].iter().for_each(|start| {
            placed.remove(&JobId::new(start.job));
        });
    }
    outcome
}

/// `counted`: how many of the moves were counted as placed.
fn reassign_all(
    bench: &Bench<'_>,
    cluster: &mut Cluster,
    moves: &[Start],
    placed: &mut std::collections::BTreeSet<JobId>,
    counted: &mut usize,
) -> Result<Undo, Refusal> {
    for start in moves {
        let job = known(cluster, start.job)?;
        if !matches!(cluster.phase[job], Phase::Starting | Phase::Running) {
            return wrong_phase(cluster, job, "reassign");
        }
        if bench.laws.elastic(&bench.jobs[job]).is_none() {
            return Err((RejectCode::NotElastic, format!("V08: job {job} is reassigned, it is not elastic")));
        }
        once(placed, job)?;
        *counted += 1;
    }
    // On the state that those before leave; `first` frees what all of them hold.
    let first =
        cluster.reassign(bench.fleet, &moves.iter().map(|start| (JobId::new(start.job), &[][..])).collect::<Vec<_>>());
    let Undo::Reassign(before, _) = first else { unreachable!("a reassignment is undone by one") };
    let mut done: Vec<Undo> = Vec::new();
    let mut refused = None;
    for start in moves {
        match check_placement(bench, cluster, JobId::new(start.job), start, None) {
            Ok(()) => {
                let gpus = GpuId::list(start.gpus.clone());
                done.push(cluster.give(bench.fleet, JobId::new(start.job), gpus, None));
            }
            Err(refusal) => {
                refused = Some(refusal);
                break;
            }
        }
    }
    let Some(refusal) = refused else {
        let pods = done.into_iter().flat_map(|undo| if let Undo::Start(_, pods) = undo { pods } else { Vec::new() });
        return Ok(Undo::Reassign(before, pods.collect()));
    };
    for undo in done.into_iter().rev() {
        cluster.undo(bench.fleet, undo);
    }
    cluster.undo(bench.fleet, Undo::Reassign(before, Vec::new()));
    Err(refusal)
}

/// Keeps a GPU for the service whose model it holds.
fn keep(cluster: &mut Cluster, protect: &Protect) -> Result<Undo, Refusal> {
    let gpu = GpuId::new(protect.gpu);
    if gpu.index() >= cluster.residents.len() {
        let last = cluster.residents.len() - 1;
        return Err((RejectCode::UnknownGpu, format!("V04: GPU {gpu}, the last is {last}")));
    }
    if protect.until >= 1 << 53 {
        return Err((
            RejectCode::BadTime,
            format!("V23: GPU {gpu} is protected until {} µs, instants end at 2^53", protect.until),
        ));
    }
    match cluster.pods.get_mut(gpu.index()) {
        Some(pod) if pod.service.is_some() => {
            Ok(Undo::Protect(gpu, std::mem::replace(&mut pod.until, Instant::from_micros(protect.until))))
        }
        _ => Err((RejectCode::GpuUnavailable, format!("V13: GPU {gpu} is protected, it holds no service's model"))),
    }
}

/// Whether a job can work through a batch so; without one, through that of its user.
fn check_batch(bench: &Bench<'_>, job: JobId, gpus: usize, batch: Option<BatchSplit>) -> Result<(), Refusal> {
    let asked = &bench.jobs[job];
    let Some((elastic, own)) = bench.laws.elastic(asked).zip(asked.batch) else {
        return match batch {
            None => Ok(()),
            Some(_) => Err((RejectCode::NotElastic, format!("V08: job {job} is given a batch, it is not elastic"))),
        };
    };
    let gpus = gpus as u32;
    let split = batch
        .map_or_else(|| elastic.split(own, gpus), |set| Split { local: set.local, accumulation: set.accumulation });
    if !elastic.tunable && split != elastic.split(own, gpus) {
        return Err((RejectCode::BadBatch, format!("V24: job {job} keeps its batch of {own}")));
    }
    match elastic.refuses(gpus, split) {
        None => Ok(()),
        Some(why) if gpus == 0 || gpus > elastic.most_gpus() => {
            Err((RejectCode::NotElastic, format!("V08: job {job}: {why}")))
        }
        Some(why) => Err((RejectCode::BadBatch, format!("V24: job {job}: {why}"))),
    }
}

/// `slice`: the first of the part of a GPU that the job is given, if it is given one.
fn check_placement(
    bench: &Bench<'_>,
    cluster: &Cluster,
    job: JobId,
    start: &Start,
    slice: Option<u32>,
) -> Result<(), Refusal> {
    let (fleet, gpus) = (bench.fleet, GpuId::list(start.gpus.clone()));
    let asked = &bench.jobs[job];
    if let Some(gpu) = gpus.iter().find(|gpu| gpu.index() >= cluster.residents.len()) {
        let last = cluster.residents.len() - 1;
        return Err((RejectCode::UnknownGpu, format!("V04: GPU {gpu}, the last is {last}")));
    }
    if gpus.is_empty() {
        return Err((RejectCode::BadNumber, format!("V22: job {job} is placed on no GPU")));
    }
    if bench.laws.elastic(asked).is_none() && gpus.len() != asked.gpus as usize {
        let (found, expected) = (gpus.len(), asked.gpus);
        return Err((
            RejectCode::NotElastic,
            format!("V08: job {job} is placed on {found} GPUs, it asked for {expected}"),
        ));
    }
    check_batch(bench, job, gpus.len(), start.batch)?;
    let mut sorted = gpus.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err((RejectCode::DuplicateGpu, format!("V10: job {job} is placed on GPU {} twice", pair[0])));
    }
    let type_of = |gpu: GpuId| fleet.nodes[fleet.node_of(gpu)].gpu_type;
    let first = type_of(gpus[0]);
    if gpus.iter().any(|gpu| type_of(*gpu) != first) {
        return Err((RejectCode::GpuTypeNotAllowed, format!("V12: job {job} is placed on several types of GPU")));
    }
    if !asked.gpu_types.is_empty() && !asked.gpu_types.contains(&first) {
        let name = &fleet.types[first].name;
        return Err((RejectCode::GpuTypeNotAllowed, format!("V12: job {job} does not allow {name}")));
    }
    parts::check_part(fleet, job, asked, first, slice)?;
    nodes::check_shape(fleet, job, asked, &gpus)?;
    for gpu in &gpus {
        let (gpu, node) = (*gpu, fleet.node_of(*gpu));
        if !cluster.up[node] {
            return Err((RejectCode::GpuUnavailable, format!("V13: GPU {gpu} is on node {node}, which is down")));
        }
        if bench.uses.contains(Abilities::DRAIN) && cluster.draining.contains_key(&node) {
            return Err((RejectCode::GpuUnavailable, format!("V13: GPU {gpu} is on node {node}, which is draining")));
        }
        if let Some(pod) = cluster.pods.get(gpu.index())
            && pod.until > cluster.now
            && pod.service != asked.service
        {
            let until = pod.until;
            return Err((
                RejectCode::GpuUnavailable,
                format!("V13: GPU {gpu} is protected for a service until {until} µs"),
            ));
        }
        room(bench, cluster, job, gpu, (first, slice))?;
    }
    nodes::check_hosts(fleet, cluster, job, asked, &gpus)?;
    queues::check_limits(fleet, cluster, job, asked, gpus.len())
}

/// Whether a GPU takes a job beside its residents.
fn room(
    bench: &Bench<'_>,
    cluster: &Cluster,
    job: JobId,
    gpu: GpuId,
    (gpu_type, slice): (TypeId, Option<u32>),
) -> Result<(), Refusal> {
    let there = cluster.residents[gpu].as_slice();
    let asked = &bench.jobs[job];
    if let Some(other) = there.first() {
        let held = || Err((RejectCode::GpuOverCommitted, format!("V14: GPU {gpu} is held by job {other}")));
        match bench.fleet.sharing_of(gpu_type) {
            Sharing::Exclusive if cluster.phase[*other] == Phase::Starting => {
                return Err((RejectCode::GpuUnavailable, format!("V13: GPU {gpu} is promised to job {other}")));
            }
            Sharing::Exclusive => return held(),
            Sharing::Shares => {
                let taken: u32 = there.iter().map(|other| bench.jobs[*other].share).sum();
                if taken + asked.share > Job::WHOLE {
                    let (share, left) = (asked.share, Job::WHOLE.saturating_sub(taken));
                    let message =
                        format!("V14: job {job} asks for {share} thousandths of GPU {gpu}, which has {left} left");
                    return Err((RejectCode::GpuOverCommitted, message));
                }
            }
            Sharing::Packed(_) if !bench.uses.contains(Abilities::SHARE) => return held(),
            Sharing::Packed(_) => {}
            Sharing::Parts => parts::check_free(bench, cluster, job, gpu, slice)?,
        }
    }
    let capacity = bench.fleet.memory_for(gpu_type, asked);
    if capacity > 0
        && let Some(needs) = bench.memory.get(job.index())
    {
        // A part has its own memory.
        let there = if asked.part.is_some() { &[] } else { there };
        let taken: u64 = there.iter().map(|other| u64::from(bench.memory[*other])).sum();
        if taken + u64::from(*needs) > u64::from(capacity) {
            let what = if asked.part.is_some() { "its part of GPU" } else { "GPU" };
            let message =
                format!("V15: job {job} needs {needs} MiB on {what} {gpu}, which has {capacity} and {taken} taken");
            return Err((RejectCode::MemoryOverCommitted, message));
        }
    }
    match bench.fleet.sharing {
        Sharing::Packed(most) if there.len() >= most as usize => {
            let message = format!("V16: GPU {gpu} has {} jobs, it takes {most}", there.len());
            Err((RejectCode::TenancyExceeded, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
