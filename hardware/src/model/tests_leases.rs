//! Leases against rounds worked out by hand.

use super::*;
use crate::PerformanceModel;
use crate::{Costs, GpuType, Leases};

const RULE: Leases = Leases {
    length: Duration::from_secs(100),
    restart: Duration::from_secs(10),
    brief: Duration::from_secs(50),
    limit: None,
};

fn model(rule: Leases, work: &[u64]) -> SimulatedBackend {
    let costs = Costs { leases: Some(rule), ..Costs::default() };
    let fleet = Fleet::new(&[(2, 2, GpuType::new("g", 1.0))], costs, None).unwrap();
    let jobs: Vec<Job> = work.iter().map(|seconds| Job::new("j", Instant::START, 1, *seconds * SECOND)).collect();
    SimulatedBackend::new(fleet, jobs.into(), &PerformanceModel::none(), 0)
}

fn start(model: &mut SimulatedBackend, job: u32) {
    model.start(JobId::new(job), &[GpuId::new(job)], None, &mut Vec::new());
}

/// What happens until the round is over.
fn round(model: &mut SimulatedBackend) -> Vec<(u64, BackendEvent)> {
    model.begin_round();
    let mut happened = Vec::new();
    while !matches!(happened.last(), Some(TimedEvent { what: BackendEvent::RoundOver, .. })) {
        model.advance(None, &mut happened);
    }
    happened.into_iter().map(|event| (event.at.since_start() / SECOND, event.what)).collect()
}

fn lease(at: u64, job: u32, seconds: f64, restart: f64) -> (u64, BackendEvent) {
    (at, BackendEvent::LeaseEnded { job: JobId::new(job), seconds, restart })
}

#[test]
fn a_round_is_over_when_the_last_of_its_jobs_is_done() {
    let mut model = model(RULE, &[250, 130, 40]);
    (0..3).for_each(|job| start(&mut model, job));
    let ended = |at, job| (at, BackendEvent::Ended(JobId::new(job)));
    let over = |at| (at, BackendEvent::RoundOver);
    let first =
        [ended(40, 2), lease(100, 0, 100.0, 0.0), lease(100, 1, 100.0, 0.0), lease(100, 2, 40.0, 0.0), over(100)];
    assert_eq!(round(&mut model), first);
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 150.0);
    // The second round: the first job stays and loses nothing, the other waits.
    model.stop(JobId::new(1), StopMode::Checkpoint, &mut Vec::new());
    assert_eq!(round(&mut model), [lease(200, 0, 100.0, 0.0), over(200)]);
    // It is back for 30 s, which are brief: nothing is lost; the round lasts as long as the other's last 50 s.
    start(&mut model, 1);
    let third = [ended(230, 1), ended(250, 0), lease(250, 0, 50.0, 0.0), lease(250, 1, 30.0, 0.0), over(250)];
    assert_eq!(round(&mut model), third);
}

#[test]
fn a_job_that_was_away_loses_the_time_of_its_restart() {
    let mut model = model(RULE, &[1000, 1000]);
    start(&mut model, 0);
    round(&mut model);
    start(&mut model, 1);
    // In the first round nobody restarts; who comes in a later one does.
    assert_eq!(round(&mut model)[..2], [lease(200, 0, 100.0, 0.0), lease(200, 1, 100.0, 10.0)]);
    let left = |model: &SimulatedBackend, job| model.remaining(JobId::new(job), TypeId::new(0));
    assert_eq!((left(&model, 0), left(&model, 1)), (800.0, 910.0));
}

#[test]
fn what_was_done_in_a_lease_that_is_cut_short_is_lost() {
    let mut model = model(RULE, &[1000]);
    start(&mut model, 0);
    round(&mut model);
    model.begin_round();
    let mut happened = Vec::new();
    model.advance(Some(Instant::at(160 * SECOND)), &mut happened);
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 840.0);
    model.stop(JobId::new(0), StopMode::Checkpoint, &mut happened);
    assert_eq!(model.remaining(JobId::new(0), TypeId::new(0)), 900.0);
    model.advance(None, &mut happened);
    assert_eq!(happened.last().map(|event| event.what), Some(BackendEvent::RoundOver));
    assert_eq!(happened.len(), 2, "no lease ended: {happened:?}");
}

#[test]
fn a_job_is_ended_when_it_has_been_at_work_for_too_long() {
    // Half of the 250 s that it takes alone: a restart is no work.
    let mut model = model(Leases { limit: Some(0.5), ..RULE }, &[250, 1000]);
    start(&mut model, 1);
    round(&mut model);
    start(&mut model, 0);
    assert_eq!(round(&mut model).first(), Some(&lease(200, 0, 100.0, 10.0)));
    let third = round(&mut model);
    assert_eq!(third.first(), Some(&(300, BackendEvent::Ended(JobId::new(0)))));
    assert!(third.contains(&lease(300, 1, 100.0, 0.0)), "its limit is 500 s: {third:?}");
}
