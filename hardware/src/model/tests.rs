//! The model against schedules computed by hand.

use super::*;
use crate::PerformanceModel;
use crate::{Costs, Failures, GpuType, Revocable, WorkloadId};

fn job(submit: u64, gpus: u32, seconds: u64) -> Job {
    Job::new("j", Instant::at(submit * SECOND), gpus, seconds * SECOND)
}

fn model(costs: Costs, speed: f64, jobs: Vec<Job>) -> SimulatedBackend {
    let fleet = Fleet::new(&[(2, 4, GpuType::new("g", speed))], costs, None).unwrap();
    SimulatedBackend::new(fleet, jobs.into(), &PerformanceModel::none(), 0)
}

fn next(model: &mut SimulatedBackend) -> Vec<(u64, BackendEvent)> {
    let mut happened = Vec::new();
    model.advance(None, &mut happened);
    happened.into_iter().map(|o| (o.at.since_start() / SECOND, o.what)).collect()
}

fn wait(model: &mut SimulatedBackend, seconds: u64) {
    let mut happened = Vec::new();
    model.advance(Some(Instant::at(seconds * SECOND)), &mut happened);
    assert!(happened.is_empty(), "{happened:?}");
}

#[test]
fn a_job_takes_start_cost_and_work_over_speed() {
    let mut model = model(Costs { start: 10 * SECOND, ..Costs::default() }, 2.0, vec![job(0, 2, 100)]);
    model.start(JobId::new(0), &[GpuId::new(0), GpuId::new(1)], None, &mut Vec::new());
    assert_eq!(next(&mut model), [(10, BackendEvent::Running(JobId::new(0)))]);
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 50.0);
    assert_eq!(next(&mut model), [(60, BackendEvent::Ended(JobId::new(0)))]);
}

#[test]
fn a_preempted_job_keeps_its_work_and_pays_for_the_restart() {
    let costs = Costs { checkpoint: 5 * SECOND, restore: 7 * SECOND, ..Costs::default() };
    let mut model = model(costs, 1.0, vec![job(0, 1, 100), job(0, 1, 10)]);
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut Vec::new());
    wait(&mut model, 40);
    let mut happened = Vec::new();
    model.stop(JobId::new(0), StopMode::Checkpoint, &mut happened);
    assert!(happened.is_empty(), "the GPU is held while the state is saved");
    // The next on the GPU waits for it.
    model.start(JobId::new(1), &[GpuId::new(0)], None, &mut happened);
    assert_eq!(
        next(&mut model),
        [
            (45, BackendEvent::Released { job: JobId::new(0), cause: Cause::Asked, lost: Duration::ZERO }),
            (45, BackendEvent::Running(JobId::new(1)))
        ]
    );
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 67.0);
    model.start(JobId::new(0), &[GpuId::new(1)], None, &mut happened);
    assert_eq!(next(&mut model), [(52, BackendEvent::Running(JobId::new(0)))]);
    assert_eq!(next(&mut model), [(55, BackendEvent::Ended(JobId::new(1)))]);
    assert_eq!(next(&mut model), [(112, BackendEvent::Ended(JobId::new(0)))]);
}

#[test]
fn a_killed_job_repeats_what_was_not_saved() {
    let costs = Costs { checkpoint_every: Some(30 * SECOND), ..Costs::default() };
    let mut model = model(costs, 1.0, vec![job(0, 1, 100)]);
    let mut happened = Vec::new();
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut happened);
    wait(&mut model, 70);
    assert_eq!(model.progress(JobId::new(0)), Progress { done: 0.7, unsaved: Some(10 * SECOND) });
    happened.clear();
    model.stop(JobId::new(0), StopMode::Kill, &mut happened);
    assert_eq!(happened[0].what, BackendEvent::Released { job: JobId::new(0), cause: Cause::Asked, lost: 10 * SECOND });
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 40.0);
    assert_eq!(model.progress(JobId::new(0)), Progress { done: 0.6, unsaved: Some(Duration::ZERO) });
}

#[test]
fn lucid_adds_work_and_lingers() {
    let rule = crate::RestartRule { small: 40 * SECOND, large: 60 * SECOND, small_gpus: 8 };
    let costs = Costs { restart_adds_work: Some(rule), linger: SECOND, ..Costs::default() };
    let mut model = model(costs, 1.0, vec![job(0, 1, 100)]);
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut Vec::new());
    wait(&mut model, 30);
    model.stop(JobId::new(0), StopMode::Checkpoint, &mut Vec::new());
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 110.0);
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut Vec::new());
    assert_eq!(next(&mut model), [(141, BackendEvent::Ended(JobId::new(0)))]);
}

#[test]
fn a_failed_node_sends_its_jobs_back_and_returns() {
    let failures = Failures { mtbf: 1000 * SECOND, repair: 100 * SECOND };
    let kind = GpuType::new("g", 1.0);
    let fleet = Fleet::new(&[(1, 4, kind)], Costs::default(), Some(failures)).unwrap();
    let mut model = SimulatedBackend::new(fleet, vec![job(0, 2, 1_000_000)].into(), &PerformanceModel::none(), 3);
    model.start(JobId::new(0), &[GpuId::new(0), GpuId::new(1)], None, &mut Vec::new());
    let mut happened = Vec::new();
    model.advance(None, &mut happened);
    let failed = happened[0].at;
    assert_eq!(happened[0].what, BackendEvent::NodeDown(NodeId::new(0)));
    assert_eq!(
        happened[1].what,
        BackendEvent::Released { job: JobId::new(0), cause: Cause::NodeLost, lost: failed.since_start() }
    );
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 1_000_000.0);
    happened.clear();
    model.advance(None, &mut happened);
    assert_eq!(happened[0].what, BackendEvent::NodeUp(NodeId::new(0)));
}

#[test]
fn an_owner_says_so_takes_its_node_back_and_hands_it_over_again() {
    let terms = Revocable { notice: 100 * SECOND, held: 1000 * SECOND, away: 500 * SECOND };
    let fleet = Fleet::new(&[(2, 4, GpuType::new("g", 1.0))], Costs::default(), None).unwrap();
    let fleet = fleet.owned(&[None, Some(terms)]);
    let jobs = vec![job(0, 1, 100_000), job(0, 1, 100_000)];
    let mut model = SimulatedBackend::new(fleet, jobs.into(), &PerformanceModel::none(), 3);
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut Vec::new());
    model.start(JobId::new(1), &[GpuId::new(4)], None, &mut Vec::new());
    let mut happened = Vec::new();
    let mut advance = |model: &mut SimulatedBackend| {
        happened.clear();
        model.advance(None, &mut happened);
        happened.clone()
    };
    let node = NodeId::new(1);
    let said = advance(&mut model);
    let until = said[0].at + terms.notice;
    assert_eq!(said, [TimedEvent { at: said[0].at, what: BackendEvent::NodeDrains { node, until } }]);
    let lost = until.since_start();
    let released = BackendEvent::Released { job: JobId::new(1), cause: Cause::NodeTakenBack, lost };
    let taken = [BackendEvent::NodeDown(node), released].map(|what| TimedEvent { at: until, what });
    assert_eq!(advance(&mut model), taken);
    let back = advance(&mut model);
    assert_eq!(back.iter().map(|event| event.what).collect::<Vec<_>>(), [BackendEvent::NodeUp(node)]);
    assert!(matches!(advance(&mut model)[..], [TimedEvent { what: BackendEvent::NodeDrains { .. }, .. }]));
}

/// 100 steps an epoch, three of them; a step of 4 samples takes a second on a GPU, half on two; half of that on the GPUs of node 2.
fn elastic(costs: Costs) -> SimulatedBackend {
    use crate::elastic::{Elastic, Learning, Steps, Timing, Timings};
    use crate::{Communication, GpuProfile, Interference, Profile, Workload};
    let timing = |step: f64| vec![Timing { local: 1.0, step, sync: 0.0 }, Timing { local: 4.0, step, sync: 0.0 }];
    let placements = vec![(vec![1], timing(1.0)), (vec![1, 1], timing(0.8)), (vec![2], timing(0.5))];
    let elastic = Elastic {
        initial_batch: 4,
        most_batch: 8,
        least_local: 1,
        most_local: 4,
        epochs: 3,
        gpus: Some(2),
        tunable: true,
        restart_s: 20.0,
        resize_s: 3.0,
        requests: vec![(1, 4)],
        steps: Steps::Measured(Timings { placements, wide: vec![] }),
        on: Default::default(),
        // Noise without end: a batch of 8 is worth two of 4.
        learning: Learning::Fitted { steps: 100.0, noise: vec![(0.0, 1e12)] },
    };
    let workload = Workload { name: "w".into(), elastic: Some(elastic), ..Workload::default() };
    let gpu = GpuProfile { kind: "g".into(), ..GpuProfile::default() };
    let fast = GpuProfile { kind: "fast".into(), ..gpu.clone() };
    let profile = Profile { about: String::new(), workloads: vec![workload], gpus: vec![gpu, fast] };
    profile.check().unwrap();
    let groups = [(2, 4, GpuType::new("g", 1.0)), (1, 4, GpuType::new("fast", 2.0))];
    let fleet = Fleet::new(&groups, costs, None).unwrap();
    let laws = PerformanceModel::new(
        Arc::new(profile),
        &fleet,
        &[WorkloadId::new(0)],
        Interference::NONE,
        Communication::default(),
    )
    .unwrap();
    let elastic =
        job(0, 1, 0).asking(|request| (request.workload, request.batch) = (Some(WorkloadId::new(0)), Some(4)));
    let jobs = vec![elastic];
    SimulatedBackend::new(fleet, jobs.into(), &laws, 0)
}

#[test]
fn an_elastic_job_goes_epoch_by_epoch_and_pays_for_every_change() {
    use crate::elastic::Rescale;
    let mut model = elastic(Costs { rescale: Some(Rescale::Afe), batch: 4 * SECOND, ..Costs::default() });
    let mut happened = Vec::new();
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut happened);
    assert_eq!(next(&mut model), [(20, BackendEvent::Running(JobId::new(0)))]);
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 300.0);
    assert_eq!(model.sample(JobId::new(0)), None, "it has not run yet");
    assert_eq!(next(&mut model), [(120, BackendEvent::Epoch(JobId::new(0)))]);
    wait(&mut model, 150);
    let sample = model.sample(JobId::new(0)).unwrap();
    assert_eq!((sample.nodes, sample.gpus, sample.local, sample.step_s), (1, 1, 4, 1.0));
    // To two GPUs: 3 s, and half of the 17 more that a restart takes, in whole seconds.
    model.reassign(
        vec![Move { job: JobId::new(0), gpus: vec![GpuId::new(0), GpuId::new(1)], split: None }],
        &mut happened,
    );
    assert_eq!(next(&mut model), [(161, BackendEvent::Running(JobId::new(0)))]);
    // 70 steps of half a second; and the last epoch, of which the batch doubles.
    assert_eq!(next(&mut model), [(196, BackendEvent::Epoch(JobId::new(0)))]);
    model.set_batch(JobId::new(0), Split { local: 4, accumulation: 0 }, &mut happened);
    assert_eq!(happened, [TimedEvent { at: Instant::at(196 * SECOND), what: BackendEvent::Stalled(JobId::new(0)) }]);
    assert_eq!(next(&mut model), [(200, BackendEvent::Running(JobId::new(0)))]);
    assert_eq!(next(&mut model), [(225, BackendEvent::Ended(JobId::new(0)))]);
}

#[test]
fn an_elastic_job_goes_on_at_the_pace_of_another_type() {
    let mut model = elastic(Costs { restore: 10 * SECOND, ..Costs::default() });
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut Vec::new());
    wait(&mut model, 50);
    assert_eq!(model.progress(JobId::new(0)), Progress { done: 50.0 / 300.0, unsaved: Some(50 * SECOND) });
    let to_fast = Move { job: JobId::new(0), gpus: vec![GpuId::new(8), GpuId::new(9)], split: None };
    model.reassign(vec![to_fast], &mut Vec::new());
    assert_eq!(next(&mut model), [(60, BackendEvent::Running(JobId::new(0)))]);
    // 50 steps of a quarter of a second, and 100 in each of the two epochs after.
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 62.5);
    model.advance(None, &mut Vec::new());
    assert_eq!(model.now(), Instant::at(Duration::from_millis(72_500)));
    assert_eq!(model.progress(JobId::new(0)), Progress { done: 1.0 / 3.0, unsaved: Some(Duration::ZERO) });
}

#[test]
fn what_a_preempted_elastic_job_did_is_kept_and_what_a_killed_one_did_in_its_epoch_is_lost() {
    for (mode, left) in [(StopMode::Checkpoint, 160.0), (StopMode::Kill, 200.0)] {
        let mut model = elastic(Costs::default());
        model.start(JobId::new(0), &[GpuId::new(0)], None, &mut Vec::new());
        assert_eq!(next(&mut model), [(100, BackendEvent::Epoch(JobId::new(0)))]);
        wait(&mut model, 140);
        model.stop(JobId::new(0), mode, &mut Vec::new());
        assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), left);
    }
}

#[test]
fn epochs_end_on_whole_seconds_where_the_simulator_has_them() {
    let mut model = elastic(Costs { epochs_end_on: 7 * SECOND, ..Costs::default() });
    model.start(JobId::new(0), &[GpuId::new(0)], None, &mut Vec::new());
    // 100 s are nearest to 98: then it began, though that shows at 100 only. From 98 on 198 is nearest to 196.
    assert_eq!(next(&mut model), [(98, BackendEvent::Epoch(JobId::new(0)))]);
    assert_eq!((model.now().since_start() / SECOND, model.remaining(JobId::new(0), TypeId::new(0))), (100, 198.0));
    assert_eq!(next(&mut model), [(196, BackendEvent::Epoch(JobId::new(0)))]);
    // 296 are nearest to 294.
    assert_eq!(next(&mut model), [(294, BackendEvent::Ended(JobId::new(0)))]);
}

#[test]
fn gangs_that_were_there_before_form_faster_and_gpus_are_held_for_whole_slots() {
    use crate::elastic::Rescale;
    let gangs = Rescale::Gangs { first: 4 * SECOND, doubling: 2 * SECOND, again: SECOND };
    let mut model = elastic(Costs { rescale: Some(gangs), slot: 70 * SECOND, ..Costs::default() });
    let (job, gpus) = (JobId::new(0), GpuId::list(vec![0, 1]));
    model.start(job, &gpus, None, &mut Vec::new());
    assert_eq!(next(&mut model), [(6, BackendEvent::Running(job))]);
    // Half of the first epoch is done; the very same gang pays a second.
    wait(&mut model, 31);
    model.reassign(vec![Move { job, gpus, split: None }], &mut Vec::new());
    assert_eq!(next(&mut model), [(32, BackendEvent::Running(job))]);
    assert_eq!(next(&mut model), [(57, BackendEvent::Epoch(job))]);
    assert_eq!(next(&mut model), [(107, BackendEvent::Epoch(job))]);
    // Its last step is done at 157, in the second slot since 32.
    assert_eq!(next(&mut model), [(172, BackendEvent::Ended(job))]);
}

#[test]
fn a_batch_that_changes_for_nothing_counts_no_work_twice() {
    let mut model = elastic(Costs::default());
    model.start(JobId::new(0), &[GpuId::new(0), GpuId::new(1)], None, &mut Vec::new());
    wait(&mut model, 20);
    // 40 of 100 steps are done; with twice the batch the other 60 take half as many, each as long.
    model.set_batch(JobId::new(0), Split { local: 4, accumulation: 0 }, &mut Vec::new());
    assert_eq!(next(&mut model), [(35, BackendEvent::Epoch(JobId::new(0)))]);
}
