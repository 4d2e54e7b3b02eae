use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use sandtable_hardware::{Costs, Duration, Fleet, GpuType, Instant, PerformanceModel, Sharing, SimulatedBackend};

use super::*;
use crate::contract::Communication;

/// Says the same to every question, and counts them.
struct Stubborn(f64, Rc<Cell<u32>>);

impl Provider for Stubborn {
    fn introduce(&mut self, _: &[WorkloadProfile]) -> Result<(), Fault> {
        Ok(())
    }
    fn estimate(&mut self, _: SoloQuantity, _: TypeId, workloads: &[u32]) -> Result<Vec<f64>, Fault> {
        self.1.set(self.1.get() + 1);
        Ok(vec![self.0; workloads.len()])
    }
    fn similarity(&mut self, _: TypeId, first: &[u32], _: &[u32]) -> Result<Vec<f64>, Fault> {
        self.1.set(self.1.get() + 1);
        Ok(vec![self.0; first.len()])
    }
    fn pair_speed(&mut self, _: TypeId, job: &[u32], _: &[Vec<u32>]) -> Result<Vec<f64>, Fault> {
        self.1.set(self.1.get() + 1);
        Ok(vec![self.0; job.len()])
    }
}

fn ask(who: Answerer, ask: impl FnOnce(&mut Answers, &Facts<'_>)) {
    let job = |workload: u32| {
        let job = Job::new("j", Instant::START, 1, Duration::from_micros(1));
        job.asking(|request| request.workload = Some(WorkloadId::new(workload)))
    };
    let jobs: Arc<[Job]> = [job(0), job(1), job(0), Job::new("j", Instant::START, 1, Duration::from_micros(1))].into();
    let fleet = Fleet::new(&[(1, 2, GpuType::new("g", 1.0))], Costs::default(), None);
    let fleet = fleet.and_then(|fleet| fleet.shared(Sharing::Packed(2))).expect("a fleet");
    let model = SimulatedBackend::new(fleet, jobs.clone(), &PerformanceModel::none(), 0);
    let profile = |name: &str| WorkloadProfile {
        workload: name.into(),
        family: name.into(),
        gpu_utilisation: vec![],
        memory_utilisation: vec![],
        memory_mib: vec![],
        batch: f64::NAN,
        mixed_precision: false,
        gradient_gb: f64::NAN,
        communication: Communication::Ring,
        facts: None,
        step_time: vec![],
        throughput: vec![],
        stages: vec![],
    };
    let profiles = [profile("a"), profile("b")];
    ask(&mut Answers::of(who), &Facts { jobs: &jobs, backend: &model, profiles: &profiles, fuel: u64::MAX });
}

#[test]
fn jobs_of_one_workload_are_asked_about_once_and_scored_once() {
    let asked = Rc::new(Cell::new(0));
    ask(Answerer::Provider(Box::new(Stubborn(0.75, asked.clone())), Sources::all()), |answers, facts| {
        let given = answers
            .pair_speed(
                facts,
                TypeId::new(0),
                &[JobId::new(0), JobId::new(2), JobId::new(0)],
                &[vec![JobId::new(1)], vec![JobId::new(1)], vec![JobId::new(1)]],
            )
            .expect("answers");
        assert_eq!(given, [0.75; 3]);
        // There is no interference here: the truth is 1.
        let score = answers.errors.score(Quantity::PairSpeed).expect("a score");
        assert_eq!((score.answers, score.mae, score.bias), (1, 0.25, -0.25));
    });
    assert_eq!(asked.get(), 1);
}

#[test]
fn a_job_without_a_workload_is_beyond_a_component() {
    let asked = Rc::new(Cell::new(0));
    ask(Answerer::Provider(Box::new(Stubborn(0.75, asked.clone())), Sources::all()), |answers, facts| {
        assert!(
            answers.similarity(facts, TypeId::new(0), &[JobId::new(0)], &[JobId::new(3)]).expect("an answer")[0]
                .is_nan()
        );
        assert!(answers.errors.score(Quantity::Similarity).is_none(), "no idea is no error");
    });
    assert_eq!(asked.get(), 0);
}

#[test]
fn answers_that_are_no_share_are_the_predictors_fault() {
    for answer in [1.5, -0.1, f64::INFINITY] {
        ask(Answerer::Provider(Box::new(Stubborn(answer, Rc::default())), Sources::all()), |answers, facts| {
            let fault = answers
                .pair_speed(facts, TypeId::new(0), &[JobId::new(0)], &[vec![JobId::new(1)]])
                .expect_err("a fault");
            assert_eq!(fault.kind(), "bad-value");
            assert!(fault.to_string().contains(&format!("found {answer}")), "{fault}");
        });
    }
}

#[test]
fn noise_is_drawn_once_a_question_and_by_the_seed() {
    let noisy = |seed| {
        let mut all = Vec::new();
        ask(Answerer::Noisy { sigma: 0.5, seed }, |answers, facts| {
            for _ in 0..2 {
                all.extend(
                    answers
                        .pair_speed(
                            facts,
                            TypeId::new(0),
                            &[JobId::new(0), JobId::new(1)],
                            &[vec![JobId::new(1)], vec![JobId::new(0)]],
                        )
                        .expect("answers"),
                );
            }
        });
        all
    };
    let one = noisy(1);
    assert_eq!(one[..2], one[2..]);
    assert_eq!(one, noisy(1));
    assert_ne!(one, noisy(2));
    assert!(one.iter().all(|x| (0.0..=1.0).contains(x)));
}
