//! The model against schedules computed by hand.

use super::*;
use crate::Laws;
use crate::{Costs, Failures, GpuType};

fn job(submit: u64, gpus: u32, seconds: u64) -> Job {
    Job::new("j", submit * SECOND, gpus, seconds * SECOND)
}

fn model(costs: Costs, speed: f64, jobs: Vec<Job>) -> Model {
    let fleet = Fleet::new(&[(2, 4, GpuType::new("g", speed))], costs, None).unwrap();
    Model::new(fleet, jobs.into(), &Laws::none(), 0)
}

fn next(model: &mut Model) -> Vec<(u64, What)> {
    let mut happened = Vec::new();
    model.advance(None, &mut happened);
    happened.into_iter().map(|o| (o.at / SECOND, o.what)).collect()
}

fn wait(model: &mut Model, seconds: u64) {
    let mut happened = Vec::new();
    model.advance(Some(seconds * SECOND), &mut happened);
    assert!(happened.is_empty(), "{happened:?}");
}

#[test]
fn a_job_takes_start_cost_and_work_over_speed() {
    let mut model = model(Costs { start: 10 * SECOND, ..Costs::default() }, 2.0, vec![job(0, 2, 100)]);
    model.start(0, &[0, 1], None, &mut Vec::new());
    assert_eq!(next(&mut model), [(10, What::Running(0))]);
    assert_eq!(model.remaining(0, 0), 50.0);
    assert_eq!(next(&mut model), [(60, What::Ended(0))]);
}

#[test]
fn a_preempted_job_keeps_its_work_and_pays_for_the_restart() {
    let costs = Costs { checkpoint: 5 * SECOND, restore: 7 * SECOND, ..Costs::default() };
    let mut model = model(costs, 1.0, vec![job(0, 1, 100), job(0, 1, 10)]);
    model.start(0, &[0], None, &mut Vec::new());
    wait(&mut model, 40);
    let mut happened = Vec::new();
    model.stop(0, StopMode::Checkpoint, &mut happened);
    assert!(happened.is_empty(), "the GPU is held while the state is saved");
    // The next on the GPU waits for it.
    model.start(1, &[0], None, &mut happened);
    assert_eq!(
        next(&mut model),
        [(45, What::Released { job: 0, cause: Cause::Asked, lost: 0 }), (45, What::Running(1))]
    );
    assert_eq!(model.remaining(0, 0), 67.0);
    model.start(0, &[1], None, &mut happened);
    assert_eq!(next(&mut model), [(52, What::Running(0))]);
    assert_eq!(next(&mut model), [(55, What::Ended(1))]);
    assert_eq!(next(&mut model), [(112, What::Ended(0))]);
}

#[test]
fn a_killed_job_repeats_what_was_not_saved() {
    let costs = Costs { checkpoint_every: Some(30 * SECOND), ..Costs::default() };
    let mut model = model(costs, 1.0, vec![job(0, 1, 100)]);
    let mut happened = Vec::new();
    model.start(0, &[0], None, &mut happened);
    wait(&mut model, 70);
    happened.clear();
    model.stop(0, StopMode::Kill, &mut happened);
    assert_eq!(happened[0].what, What::Released { job: 0, cause: Cause::Asked, lost: 10 * SECOND });
    assert_eq!(model.remaining(0, 0), 40.0);
}

#[test]
fn lucid_adds_work_and_lingers() {
    let rule = crate::RestartRule { small: 40 * SECOND, large: 60 * SECOND, small_gpus: 8 };
    let costs = Costs { restart_adds_work: Some(rule), linger: SECOND, ..Costs::default() };
    let mut model = model(costs, 1.0, vec![job(0, 1, 100)]);
    model.start(0, &[0], None, &mut Vec::new());
    wait(&mut model, 30);
    model.stop(0, StopMode::Checkpoint, &mut Vec::new());
    assert_eq!(model.remaining(0, 0), 110.0);
    model.start(0, &[0], None, &mut Vec::new());
    assert_eq!(next(&mut model), [(141, What::Ended(0))]);
}

#[test]
fn a_failed_node_sends_its_jobs_back_and_returns() {
    let failures = Failures { mtbf: 1000 * SECOND, repair: 100 * SECOND };
    let kind = GpuType::new("g", 1.0);
    let fleet = Fleet::new(&[(1, 4, kind)], Costs::default(), Some(failures)).unwrap();
    let mut model = Model::new(fleet, vec![job(0, 2, 1_000_000)].into(), &Laws::none(), 3);
    model.start(0, &[0, 1], None, &mut Vec::new());
    let mut happened = Vec::new();
    model.advance(None, &mut happened);
    let failed = happened[0].at;
    assert_eq!(happened[0].what, What::NodeDown(0));
    assert_eq!(happened[1].what, What::Released { job: 0, cause: Cause::NodeLost, lost: failed });
    assert_eq!(model.remaining(0, 0), 1_000_000.0);
    happened.clear();
    model.advance(None, &mut happened);
    assert_eq!(happened[0].what, What::NodeUp(0));
}
