use std::collections::BTreeMap;
use std::sync::Arc;

use super::SimulatedBackend;
use crate::{
    Backend, BackendEvent, Communication, Costs, Fleet, GpuId, GpuProfile, GpuType, Instant, Interference,
    InterferenceModel, Job, JobId, PerformanceModel, Profile, SECOND, Sharing, Stages, StopMode, TimedEvent, Workload,
    WorkloadId,
};

/// Two jobs of 100 s of a workload that has the GPU for 0.4 s of a step of 0.5 s, and starts in 10 s.
fn model(redeploy: bool, sharing: Sharing) -> SimulatedBackend {
    let stages = Stages { step_s: 0.5, uses_s: vec![0.1, 0.4, 0.0], start_s: 10.0 };
    let profile = Profile {
        about: String::new(),
        workloads: vec![Workload { name: "w".into(), stages: BTreeMap::from([(1, stages)]), ..Workload::default() }],
        gpus: vec![GpuProfile { kind: "any".into(), ..GpuProfile::default() }],
    };
    let mut fleet =
        Fleet::new(&[(1, 2, GpuType::new("any", 1.0))], Costs { redeploy, ..Costs::default() }, None).expect("a fleet");
    fleet.sharing = sharing;
    let law = Interference { law: InterferenceModel::Stages, ..Interference::NONE };
    let laws = PerformanceModel::new(Arc::new(profile), &fleet, &[WorkloadId::new(0)], law, Communication::default());
    let job = |name| {
        Job::new(name, Instant::START, 1, 100 * SECOND).asking(|request| request.workload = Some(WorkloadId::new(0)))
    };
    SimulatedBackend::new(fleet, [job("a"), job("b")].into(), &laws.expect("laws"), 0)
}

fn ends(happened: &[TimedEvent]) -> Vec<(JobId, f64)> {
    let ended = |event: &TimedEvent| match event.what {
        BackendEvent::Ended(job) => Some((job, event.at.since_start().as_secs_f64())),
        _ => None,
    };
    happened.iter().filter_map(ended).collect()
}

const A: JobId = JobId::new(0);
const B: JobId = JobId::new(1);

#[test]
fn a_decision_costs_what_runs_its_start_unless_it_ends_first() {
    let (mut model, mut happened) = (model(true, Sharing::Exclusive), Vec::new());
    model.start(A, &[GpuId::new(0)], None, &mut happened);
    model.decided();
    model.advance(Some(Instant::at(50 * SECOND)), &mut happened);
    assert!((model.remaining(A, crate::TypeId::new(0)) - (101.5 - 40.0)).abs() < 1e-9);
    model.decided();
    // The next comes before it has started.
    model.advance(Some(Instant::at(54 * SECOND)), &mut happened);
    model.stop(A, StopMode::Checkpoint, &mut happened);
    model.start(A, &[GpuId::new(1)], None, &mut happened);
    model.decided();
    model.advance(None, &mut happened);
    assert_eq!(ends(&happened), [(A, 54.0 + 61.5)]);
}

#[test]
fn elsewhere_every_start_costs_it() {
    let (mut model, mut happened) = (model(false, Sharing::Exclusive), Vec::new());
    model.start(A, &[GpuId::new(0)], None, &mut happened);
    model.decided();
    model.advance(Some(Instant::at(50 * SECOND)), &mut happened);
    model.decided();
    model.advance(None, &mut happened);
    assert_eq!(ends(&happened), [(A, 10.0 + 101.5)]);
}

#[test]
fn jobs_on_the_same_gpus_take_turns_and_pay_for_each_other() {
    let (mut model, mut happened) = (model(true, Sharing::Packed(2)), Vec::new());
    model.start(A, &[GpuId::new(0)], None, &mut happened);
    model.start(B, &[GpuId::new(0)], None, &mut happened);
    model.decided();
    // Two that have the GPU for 0.4 s take 0.8 s for a step each, measured times 1.33 / 1.015: as they do 0.5 s of work in it, 50 s less 20 s are this.
    let rate = 0.5 / (0.8 * (1.33 / 1.015));
    model.advance(Some(Instant::at(50 * SECOND)), &mut happened);
    assert!((model.remaining(A, crate::TypeId::new(0)) * rate - (100.0 - 30.0 * rate)).abs() < 1e-6);
    model.stop(B, StopMode::Checkpoint, &mut happened);
    model.decided();
    happened.clear();
    model.advance(None, &mut happened);
    let [(A, end)] = ends(&happened)[..] else { panic!("{happened:?}") };
    assert!((end - (50.0 + (100.0 - 30.0 * rate) * 1.015)).abs() < 1e-5, "{end}");
}
