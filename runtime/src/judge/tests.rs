//! Rules of elastic jobs and of protection; those of the others are held by the adversarial guests.

use std::sync::Arc;

use sandtable_hardware::elastic::{Elastic, Learning, Steps, Theta};
use sandtable_hardware::{
    Communication, Costs, GpuProfile, GpuType, HostResources, Interference, Nearness, Profile, SECOND, Service,
    ServiceId, Workload, WorkloadId,
};

use super::*;
use crate::contract::{Preempt, PreemptMode, SetBatch};

/// Four GPUs on two nodes, two elastic jobs, a rigid one, a task, and gangs that ask for a shape, for CPU and memory, or for both.
fn stage() -> (Fleet, Vec<Job>, PerformanceModel) {
    let elastic = Elastic {
        initial_batch: 4,
        most_batch: 16,
        least_local: 2,
        most_local: 8,
        epochs: 1,
        gpus: Some(3),
        tunable: true,
        restart_s: 0.0,
        resize_s: 0.0,
        requests: vec![],
        steps: Steps::Fitted(Theta { compute: (1.0, 0.1), across: (1.0, 0.0), within: (1.0, 0.0), gamma: 1.0 }),
        on: Default::default(),
        learning: Learning::Fitted { steps: 1.0, noise: vec![(0.0, 1.0)] },
    };
    let workload = Workload { name: "w".into(), elastic: Some(elastic), ..Workload::default() };
    let gpu = GpuProfile { kind: "g".into(), ..GpuProfile::default() };
    let profile = Profile { about: String::new(), workloads: vec![workload], gpus: vec![gpu] };
    let fleet = Fleet::new(&[(2, 2, GpuType::new("g", 1.0))], Costs::default(), None).expect("a fleet");
    let fleet = fleet.serving(vec![Service { name: "s".into(), cold_start: SECOND, slo: None }], true, &[]);
    let laws = PerformanceModel::new(
        Arc::new(profile),
        &fleet,
        &[WorkloadId::new(0)],
        Interference::NONE,
        Communication::default(),
    );
    let elastic = |gpus| {
        Job::new("e", Instant::START, gpus, SECOND).asking(|request| {
            request.workload = Some(WorkloadId::new(0));
            request.batch = Some(8);
        })
    };
    let task = Job::new("t", Instant::START, 1, SECOND).asking(|request| request.service = Some(ServiceId::new(0)));
    let gang = |gpus_per_node, cpu_milli, memory_mib| {
        Job::new("g", Instant::START, 2, SECOND).asking(|request| {
            request.gpus_per_node = gpus_per_node;
            request.host = HostResources { cpu_milli, memory_mib };
        })
    };
    let near = gang(0, 0, 0).asking(|request| request.near = Nearness { required: Some(0), preferred: None });
    let gangs = [gang(2, 0, 0), gang(1, 5000, 100), gang(0, 5000, 100), near];
    let cpus = |cpu_milli| HostResources { cpu_milli, memory_mib: 0 };
    let fleet = fleet.hosted(&[cpus(8000), cpus(4999)]).levelled(&[("rack".into(), 1)]).expect("levels");
    let singles = [elastic(1), elastic(2), Job::new("r", Instant::START, 1, SECOND), task];
    (fleet, singles.into_iter().chain(gangs).collect(), laws.expect("laws"))
}

/// What becomes of these plans, one after the other: the codes of what was refused, and where each job but the gangs is at the end.
fn play(plans: &[Vec<Action>]) -> (Vec<Vec<RejectCode>>, Vec<Vec<u32>>) {
    let (fleet, jobs, laws) = stage();
    let jobs: Arc<[Job]> = jobs.into();
    let bench =
        Bench { fleet: &fleet, jobs: &jobs, laws: &laws, memory: &[], uses: Abilities::all(), max_actions: 100 };
    let mut cluster = Cluster::new(&fleet, &jobs);
    JobId::first(cluster.phase.len()).for_each(|job| cluster.set_phase(job, Phase::Queued));
    cluster.pods[3].service = Some(ServiceId::new(0));
    let mut codes = Vec::new();
    for actions in plans {
        // A rehearsal moves nothing.
        let before = cluster.clone();
        judge(&bench, &mut cluster, 0, actions).undo(&mut cluster, &fleet);
        assert_eq!(before, cluster);
        let verdict = judge(&bench, &mut cluster, 0, actions);
        codes.push(verdict.rejections.iter().map(|rejection| rejection.code).collect());
    }
    let numbers = |gpus: &[GpuId]| gpus.iter().map(|gpu| gpu.number()).collect();
    (codes, JobId::first(4).map(|job| numbers(&cluster.held[job])).collect())
}

fn start(job: u32, gpus: &[u32]) -> Start {
    Start { job, gpus: gpus.to_vec(), batch: None }
}

fn starts() -> Vec<Action> {
    vec![Action::Start(start(0, &[0])), Action::Start(start(1, &[1, 2]))]
}

#[test]
fn two_jobs_may_swap_gpus_in_one_action_and_grow_into_what_another_leaves() {
    let swap = Action::Reassign(vec![start(0, &[1, 2]), start(1, &[0])]);
    let (codes, held) = play(&[starts(), vec![swap, Action::Start(start(2, &[3]))]]);
    assert_eq!(codes, [vec![], vec![]]);
    assert_eq!(held, [vec![1, 2], vec![0], vec![3], vec![]]);
}

#[test]
fn of_a_refused_reassignment_nothing_happens() {
    // The second would be on a GPU that the first has taken.
    let clash = Action::Reassign(vec![start(0, &[1, 3]), start(1, &[2, 3])]);
    // What was refused does not count as done: the job may still be placed.
    let then = Action::Preempt(Preempt { job: 0, mode: PreemptMode::Checkpoint });
    let (codes, held) = play(&[starts(), vec![clash, then]]);
    assert_eq!(codes[1], [RejectCode::GpuUnavailable]);
    assert_eq!(held[1], [1, 2]);
}

#[test]
fn who_is_not_elastic_or_gets_nothing_is_refused() {
    let one = |action: Action| {
        let (codes, _) = play(&[[starts(), vec![Action::Start(start(2, &[3]))]].concat(), vec![action]]);
        codes[1].clone()
    };
    assert_eq!(one(Action::Reassign(vec![start(2, &[3])])), [RejectCode::NotElastic]);
    assert_eq!(one(Action::Reassign(vec![])), [RejectCode::BadNumber]);
    assert_eq!(one(Action::Reassign(vec![start(0, &[])])), [RejectCode::BadNumber]);
    assert_eq!(one(Action::Reassign(vec![start(0, &[0, 1, 2, 3])])), [RejectCode::NotElastic]);
    assert_eq!(one(Action::Reassign(vec![start(0, &[0]), start(0, &[0])])), [RejectCode::DuplicateJob]);
    let batch = |local, accumulation| Action::SetBatch(SetBatch { job: 0, batch: BatchSplit { local, accumulation } });
    assert_eq!(one(batch(1, 0)), [RejectCode::BadBatch]);
    assert_eq!(one(batch(8, u32::MAX)), [RejectCode::BadBatch]);
    assert_eq!(one(batch(8, 1)), []);
}

#[test]
fn a_protected_gpu_is_for_its_service_alone() {
    let protect = |gpu, until| Action::Protect(Protect { gpu, until });
    let job = || Action::Start(start(0, &[3]));
    assert_eq!(play(&[vec![protect(3, 5), job()]]).0, [[RejectCode::GpuUnavailable]]);
    assert_eq!(play(&[vec![protect(3, 5), Action::Start(start(3, &[3]))]]).0, [[]]);
    assert_eq!(play(&[vec![protect(3, 5), protect(3, 0), job()]]).0, [[]]);
    // Nothing is loaded there, or there is no such GPU.
    assert_eq!(play(&[vec![protect(0, 5)]]).0, [[RejectCode::GpuUnavailable]]);
    assert_eq!(play(&[vec![protect(9, 5)]]).0, [[RejectCode::UnknownGpu]]);
    assert_eq!(play(&[vec![protect(3, 1 << 53)]]).0, [[RejectCode::BadTime]]);
}

#[test]
fn a_job_is_refused_while_it_waits_and_never_again() {
    let refuse = |job| Action::Refuse(job);
    let preempt = |job| Action::Preempt(Preempt { job, mode: PreemptMode::Checkpoint });
    // A rehearsal, which `play` does first, takes it back.
    assert_eq!(play(&[vec![refuse(2)], vec![refuse(2)]]).0, [vec![], vec![RejectCode::WrongPhase]]);
    assert_eq!(play(&[vec![refuse(2)], vec![Action::Start(start(2, &[3]))]]).0[1], [RejectCode::WrongPhase]);
    assert_eq!(play(&[vec![Action::Start(start(2, &[3])), refuse(2)]]).0, [[RejectCode::WrongPhase]]);
    assert_eq!(play(&[starts(), vec![preempt(0), refuse(0)]]).0[1], [RejectCode::WrongPhase]);
    assert_eq!(play(&[vec![refuse(9)]]).0, [[RejectCode::UnknownJob]]);
}

#[test]
fn a_gang_has_as_many_gpus_on_each_node_as_it_asks_for() {
    let on = |job, gpus: &[u32]| play(&[vec![Action::Start(start(job, gpus))]]).0[0].clone();
    assert_eq!(on(4, &[0, 2]), [RejectCode::WrongShape]);
    assert_eq!(on(4, &[3, 2]), []);
    assert_eq!(on(5, &[0, 1]), [RejectCode::WrongShape]);
    assert_eq!(on(5, &[2, 0]), []);
}

#[test]
fn gangs_take_parts_of_the_cpu_of_their_nodes_until_they_let_go() {
    let on = |job, gpus: &[u32]| Action::Start(start(job, gpus));
    let preempt = |job| Action::Preempt(Preempt { job, mode: PreemptMode::Checkpoint });
    // The second node lacks a thousandth for the whole gang, and takes half of it; what is unknown of a node is not looked at.
    assert_eq!(play(&[vec![on(6, &[2, 3])]]).0, [[RejectCode::HostOverCommitted]]);
    assert_eq!(play(&[vec![on(6, &[0, 1])]]).0, [[]]);
    // 2500 of 4999 twice are one too many. A preempted gang lets go of its part for a start of the same plan.
    assert_eq!(play(&[vec![on(6, &[0, 2])], vec![on(5, &[1, 3])]]).0, [vec![], vec![RejectCode::HostOverCommitted]]);
    assert_eq!(play(&[vec![on(6, &[0, 2])], vec![preempt(6), on(5, &[1, 3])]]).0, [[], []]);
}

#[test]
fn a_gang_is_within_one_domain_of_the_level_that_it_requires() {
    let on = |gpus: &[u32]| play(&[vec![Action::Start(start(7, gpus))]]).0[0].clone();
    assert_eq!(on(&[1, 2]), [RejectCode::NotNearEnough]);
    assert_eq!(on(&[2, 3]), []);
}
