//! Jobs on shared GPUs against schedules computed by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::{
    Cause, Communication, Costs, GpuProfile, GpuType, Interference, InterferenceModel, LawError, Links, Pair, Profile,
    ShareMode, Solo, Workload, WorkloadId,
};

/// a suffers as much as it inflicts, b inflicts half of that; c fits beside no other job.
fn profile() -> Profile {
    let workload = |name: &str| Workload {
        name: name.into(),
        family: name.into(),
        gradient_mb: Some(1000.0),
        ..Workload::default()
    };
    let solo = |s: f64, a: f64, memory: u32| Solo {
        step_s: Some(0.1),
        sensitivity: Some(s),
        aggressiveness: Some(a),
        memory_mib: Some(memory),
        ..Solo::default()
    };
    Profile {
        about: "by hand".into(),
        workloads: ["a", "b", "c"].map(workload).to_vec(),
        gpus: vec![GpuProfile {
            kind: "g".into(),
            mode: ShareMode::TimeSlice,
            sources: BTreeMap::new(),
            noise: vec![(2.0, 0.1)],
            solo: BTreeMap::from([
                ("a".into(), solo(1.0, 1.0, 4000)),
                ("b".into(), solo(1.0, 0.5, 4000)),
                ("c".into(), solo(1.0, 1.0, 9000)),
            ]),
            pairs: Vec::new(),
            measured: None,
        }],
    }
}

fn laws(profile: Profile, interference: Interference) -> Result<PerformanceModel, LawError> {
    let fleet = fleet(Costs::default());
    PerformanceModel::new(
        Arc::new(profile),
        &fleet,
        &[WorkloadId::new(0), WorkloadId::new(1), WorkloadId::new(2)],
        interference,
        Communication { overlap: 0.0, latency: 0.0 },
    )
}

const FITTED: Interference =
    Interference { law: InterferenceModel::Profile, mode: ShareMode::TimeSlice, scale: 1.0, noise: false };

fn fleet(costs: Costs) -> Fleet {
    let kind = GpuType { memory_mib: 10_000, ..GpuType::new("g", 1.0) };
    Fleet::new(&[(2, 4, kind)], costs, None).and_then(|fleet| fleet.shared(Sharing::Packed(3))).unwrap()
}

fn job(workload: u32, gpus: u32, seconds: u64) -> Job {
    Job::new("j", Instant::START, gpus, seconds * SECOND)
        .asking(|request| request.workload = Some(WorkloadId::new(workload)))
}

fn model(costs: Costs, jobs: Vec<Job>) -> SimulatedBackend {
    SimulatedBackend::new(fleet(costs), jobs.into(), &laws(profile(), FITTED).unwrap(), 0)
}

fn start(model: &mut SimulatedBackend, job: JobId, gpus: &[GpuId]) -> Vec<BackendEvent> {
    let mut happened = Vec::new();
    model.start(job, gpus, None, &mut happened);
    happened.into_iter().map(|o| o.what).collect()
}

/// Ends of jobs in seconds, until nothing is left to come.
fn ends(model: &mut SimulatedBackend) -> Vec<(f64, JobId)> {
    let (mut ends, mut happened) = (Vec::new(), Vec::new());
    loop {
        model.advance(None, &mut happened);
        if happened.is_empty() {
            return ends;
        }
        for o in happened.drain(..) {
            if let BackendEvent::Ended(job) = o.what {
                ends.push((o.at.as_secs_f64(), job));
            }
        }
    }
}

#[test]
fn who_shares_goes_slower_and_recovers() {
    // a beside b: 1 / (1 + 1 * 0.5); b beside a: 1 / (1 + 1 * 1).
    let mut model = model(Costs::default(), vec![job(0, 1, 300), job(1, 1, 100)]);
    assert_eq!(start(&mut model, JobId::new(0), &[GpuId::new(0)]), [BackendEvent::Running(JobId::new(0))]);
    let happened = start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    assert_eq!(
        happened,
        [
            BackendEvent::Running(JobId::new(1)),
            BackendEvent::Pace { job: JobId::new(1), pace: 0.5 },
            BackendEvent::Pace { job: JobId::new(0), pace: 1.0 / 1.5 }
        ]
    );
    assert_eq!((model.speed(JobId::new(0)), model.speed(JobId::new(1))), (1.0 / 1.5, 0.5));
    // b needs 200 s; a has then done 133.3 and goes on alone.
    let [b, a] = ends(&mut model)[..] else { panic!("two ends") };
    assert_eq!((b, a.1), ((200.0, JobId::new(1)), JobId::new(0)));
    assert!((a.0 - (200.0 + 300.0 - 200.0 / 1.5)).abs() < 1e-5, "{a:?}");
}

#[test]
fn extra_times_of_several_add_up_and_a_gang_goes_at_its_slowest() {
    let mut model = model(Costs::default(), vec![job(0, 2, 100), job(1, 1, 1000), job(1, 1, 1000)]);
    start(&mut model, JobId::new(0), &[GpuId::new(0), GpuId::new(1)]);
    start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    // Memory takes two of them beside the gang's task only as 4000 + 4000.
    assert_eq!(model.speed(JobId::new(0)), 1.0 / 1.5);
    start(&mut model, JobId::new(2), &[GpuId::new(1)]);
    assert_eq!(model.speed(JobId::new(0)), 1.0 / 1.5);
    assert_eq!(
        model.pair_speed(TypeId::new(0), JobId::new(0), &[JobId::new(1), JobId::new(2)]),
        0.0,
        "12,000 MiB on 10,000"
    );
    assert_eq!(model.pair_speed(TypeId::new(0), JobId::new(0), &[JobId::new(1)]), 1.0 / 1.5);
}

#[test]
fn only_those_touched_are_looked_at() {
    let mut model = model(Costs::default(), vec![job(0, 1, 100), job(0, 1, 100), job(1, 1, 10)]);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    start(&mut model, JobId::new(1), &[GpuId::new(1)]);
    let generation = model.states[JobId::new(1)].generation;
    let happened = start(&mut model, JobId::new(2), &[GpuId::new(0)]);
    assert!(
        happened.iter().all(|what| !matches!(what, BackendEvent::Pace { job, .. } if *job == JobId::new(1))),
        "{happened:?}"
    );
    assert_eq!(model.states[JobId::new(1)].generation, generation);
}

#[test]
fn who_finds_no_memory_dies_and_is_back_after_the_relaunch_cost() {
    let mut model = model(Costs { relaunch: 60 * SECOND, ..Costs::default() }, vec![job(0, 1, 100), job(2, 1, 100)]);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    assert_eq!(start(&mut model, JobId::new(1), &[GpuId::new(0)]), [BackendEvent::Died(JobId::new(1))]);
    assert_eq!(model.speed(JobId::new(0)), 1.0, "the dead are in nobody's way");
    let mut happened = Vec::new();
    model.advance(None, &mut happened);
    let expected = BackendEvent::Released { job: JobId::new(1), cause: Cause::OutOfMemory, lost: Duration::ZERO };
    assert_eq!(happened, [TimedEvent { at: Instant::at(60 * SECOND), what: expected }]);
    // Alone it runs.
    assert_eq!(start(&mut model, JobId::new(1), &[GpuId::new(1)]), [BackendEvent::Running(JobId::new(1))]);
}

#[test]
fn whoever_comes_waits_until_the_dead_are_cleared_away() {
    let jobs = vec![job(0, 1, 100), job(2, 1, 100), job(1, 1, 10)];
    let mut model = model(Costs { relaunch: 60 * SECOND, ..Costs::default() }, jobs);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    assert_eq!(start(&mut model, JobId::new(2), &[GpuId::new(0)]), []);
    let mut happened = Vec::new();
    model.advance(None, &mut happened);
    assert!(
        happened.iter().any(|o| o.at == Instant::at(60 * SECOND) && o.what == BackendEvent::Running(JobId::new(2))),
        "{happened:?}"
    );
}

#[test]
fn a_throttled_job_is_slower_and_inflicts_less() {
    let mut model = model(Costs::default(), vec![job(0, 1, 100), job(1, 1, 100)]);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    model.throttle(JobId::new(1), 500, &mut Vec::new());
    assert_eq!((model.speed(JobId::new(0)), model.speed(JobId::new(1))), (1.0 / 1.25, 0.25));
}

#[test]
fn a_gang_pays_for_slow_links() {
    // 1 GB over a ring of two at 40 GB/s takes 25 ms beside a step of 100 ms, at 10 GB/s 100 ms.
    let kind = GpuType::new("g", 1.0);
    let links = Links { within: Links::nvlink_pairs(4), network: 1.0 };
    let fleet = Fleet::new(&[(2, 4, kind)], Costs::default(), None).and_then(|fleet| fleet.linked(links)).unwrap();
    let jobs: Vec<Job> = (0..3).map(|_| job(0, 2, 125)).collect();
    let mut model = SimulatedBackend::new(fleet, jobs.into(), &laws(profile(), FITTED).unwrap(), 0);
    start(&mut model, JobId::new(0), &[GpuId::new(0), GpuId::new(1)]);
    start(&mut model, JobId::new(1), &[GpuId::new(4), GpuId::new(6)]);
    start(&mut model, JobId::new(2), &[GpuId::new(3), GpuId::new(7)]);
    let speeds: Vec<f64> = (0..3).map(|job| model.speed(JobId::new(job))).collect();
    // Pair; across pairs; across nodes: a second.
    for (found, expected) in speeds.iter().zip([1.0, 0.125 / 0.2, 0.125 / 1.1]) {
        assert!((found - expected).abs() < 1e-12, "{speeds:?}");
    }
}

#[test]
fn measured_pairs_come_before_the_fit_and_a_hole_is_named() {
    let mut measured = profile();
    measured.gpus[0].pairs =
        vec![Pair("a".into(), "b".into(), Some(0.9), Some(0.8)), Pair("a".into(), "a".into(), Some(0.4), Some(0.6))];
    let laws = laws(measured.clone(), FITTED).unwrap();
    let speed = |i: u32, j: u32| 1.0 / (1.0 + laws.extra(TypeId::new(0), &job(i, 1, 1), &job(j, 1, 1)));
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(speed(0, 1), 0.9) && near(speed(1, 0), 0.8) && near(speed(0, 0), 0.5) && near(speed(1, 1), 1.0 / 1.5));
    measured.gpus[0].solo.get_mut("b").unwrap().sensitivity = None;
    let error = super::tests_sharing::laws(measured, FITTED).err().unwrap();
    assert_eq!(
        error.to_string(),
        "g: the profile has no speed of b beside b, and no sensitivity, aggressiveness or utilisation to work one out"
    );
    let mps = Interference { mode: ShareMode::Mps, ..FITTED };
    let error = super::tests_sharing::laws(profile(), mps).err().unwrap();
    assert_eq!(error.to_string(), "the profile has no figures for g shared by Mps: it has g (TimeSlice)");
}

#[test]
fn scale_noise_and_constants_do_what_they_say() {
    let speed = |laws: &PerformanceModel| 1.0 / (1.0 + laws.extra(TypeId::new(0), &job(0, 1, 1), &job(1, 1, 1)));
    let scaled = laws(profile(), Interference { scale: 3.0, ..FITTED }).unwrap();
    assert_eq!(speed(&scaled), 1.0 / 2.5);
    let noisy = laws(profile(), Interference { noise: true, ..FITTED }).unwrap();
    let (one, two) = (speed(&noisy.under(1)), speed(&noisy.under(2)));
    assert!(one != two && one == speed(&noisy.under(1)) && (0.4..=1.0).contains(&one), "{one} {two}");
    let constant = PerformanceModel::without_profile(Interference { law: InterferenceModel::Constant(0.2), ..FITTED });
    let jobs: Vec<Job> = (0..3).map(|_| Job::new("j", Instant::START, 1, SECOND)).collect();
    let mut model = SimulatedBackend::new(fleet(Costs::default()), jobs.into(), &constant, 0);
    (0..3).for_each(|job| drop(start(&mut model, JobId::new(job), &[GpuId::new(0)])));
    assert_eq!(model.speed(JobId::new(0)), 1.0 / 1.2, "not once for each neighbour");
}

#[test]
fn what_is_lost_is_counted_at_the_paces_at_which_it_was_done() {
    // Alone for 100 s, then beside another at two thirds for 60 s: a kill loses all of it, which took 160 s.
    let mut model = model(Costs::default(), vec![job(0, 1, 1000), job(1, 1, 1000)]);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    let mut happened = Vec::new();
    model.advance(Some(Instant::at(100 * SECOND)), &mut happened);
    start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    model.advance(Some(Instant::at(160 * SECOND)), &mut happened);
    happened.clear();
    model.stop(JobId::new(0), StopMode::Kill, &mut happened);
    assert_eq!(
        happened[0].what,
        BackendEvent::Released { job: JobId::new(0), cause: Cause::Asked, lost: 160 * SECOND }
    );
}

#[test]
fn one_that_died_on_a_failing_node_is_like_any_other_afterwards() {
    let costs = Costs { relaunch: 10_000 * SECOND, checkpoint: SECOND, ..Costs::default() };
    let mut model = model(costs, vec![job(0, 1, 100), job(2, 1, 100)]);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    let mut happened = Vec::new();
    model.fail(NodeId::new(0), &mut happened);
    assert!(
        happened.iter().any(
            |o| matches!(o.what, BackendEvent::Released { job, cause: Cause::NodeLost, .. } if job == JobId::new(1))
        )
    );
    // What was being cleared away there delays no start, and counts again as taking memory.
    assert_eq!(start(&mut model, JobId::new(1), &[GpuId::new(0)]), [BackendEvent::Running(JobId::new(1))]);
    assert_eq!(start(&mut model, JobId::new(0), &[GpuId::new(0)]), [BackendEvent::Died(JobId::new(0))]);
    happened.clear();
    model.stop(JobId::new(1), StopMode::Checkpoint, &mut happened);
    model.advance(None, &mut happened);
    assert_eq!(
        happened[0].what,
        BackendEvent::Released { job: JobId::new(1), cause: Cause::Asked, lost: Duration::ZERO }
    );
}

#[test]
fn a_job_that_would_end_after_the_end_of_time_ends_then() {
    let enormous = Interference { scale: 100.0, ..FITTED };
    let mut loud = profile();
    loud.gpus[0].solo.get_mut("a").unwrap().aggressiveness = Some(1000.0);
    loud.gpus[0].solo.get_mut("a").unwrap().sensitivity = Some(1000.0);
    let laws = laws(loud, enormous).unwrap();
    let jobs: Vec<Job> = (0..2).map(|_| job(0, 1, 36_000_000)).collect();
    let mut model = SimulatedBackend::new(fleet(Costs::default()), jobs.into(), &laws, 0);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    let mut happened = Vec::new();
    model.advance(None, &mut happened);
    assert_eq!(happened[0].at, Instant::END);
}

#[test]
fn out_of_memory_stays_so_at_any_scale() {
    let mut measured = profile();
    measured.gpus[0].pairs = vec![Pair("a".into(), "b".into(), Some(0.0), Some(0.0))];
    let laws = laws(measured, Interference { scale: 0.0, ..FITTED }).unwrap();
    assert!(laws.extra(TypeId::new(0), &job(0, 1, 1), &job(1, 1, 1)).is_infinite());
}

#[test]
fn parts_of_a_gpu_do_not_disturb_each_other() {
    let kind = GpuType::new("g", 1.0);
    let fleet =
        Fleet::new(&[(1, 1, kind)], Costs::default(), None).and_then(|fleet| fleet.shared(Sharing::Shares)).unwrap();
    let jobs: Vec<Job> = (0..2).map(|_| job(0, 1, 10).asking(|request| request.share = 500)).collect();
    let mut model = SimulatedBackend::new(fleet, jobs.into(), &laws(profile(), FITTED).unwrap(), 0);
    start(&mut model, JobId::new(0), &[GpuId::new(0)]);
    start(&mut model, JobId::new(1), &[GpuId::new(0)]);
    assert_eq!((model.speed(JobId::new(0)), model.speed(JobId::new(1))), (1.0, 1.0));
}

#[test]
fn on_virtual_slots_the_tasks_of_a_gang_slow_each_other_down() {
    let kind = GpuType { memory_mib: 10_000, ..GpuType::new("g", 1.0) };
    let fleet = Fleet::new(&[(1, 4, kind)], Costs::default(), None).unwrap().slotted(4).unwrap();
    let jobs = [job(0, 2, 100), job(0, 1, 100)];
    let mut model = SimulatedBackend::new(fleet, jobs.to_vec().into(), &laws(profile(), FITTED).unwrap(), 0);
    // a beside a: 1 / (1 + 1 * 1), from its beginning.
    start(&mut model, JobId::new(0), &[GpuId::new(0), GpuId::new(1)]);
    assert_eq!(model.speed(JobId::new(0)), 0.5);
    start(&mut model, JobId::new(1), &[GpuId::new(2)]);
    assert_eq!((model.speed(JobId::new(0)), model.speed(JobId::new(1))), (1.0 / 3.0, 1.0 / 3.0));
}
