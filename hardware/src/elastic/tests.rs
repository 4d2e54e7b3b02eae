use super::*;
use crate::SECOND;

fn elastic() -> Elastic {
    Elastic {
        initial_batch: 128,
        most_batch: 4096,
        least_local: 32,
        most_local: 1024,
        epochs: 2,
        gpus: None,
        tunable: true,
        restart_s: 24.0,
        resize_s: 3.0,
        requests: vec![(6, 2048)],
        steps: Steps::Fitted(Theta {
            compute: (0.121, 0.00568),
            across: (0.0236, 0.00634),
            within: (0.0118, 0.00317),
            gamma: 1.14,
        }),
        on: BTreeMap::new(),
        learning: Learning::Fitted { steps: 100.0, noise: vec![(0.0, 128.0 * 0.000502 / 0.00136)] },
    }
}

/// Pollux' formulas (OSDI 2021, §3) worked out apart from this code: nodes' GPUs, split, throughput, efficiency.
#[test]
fn goodput_is_pollux_own() {
    let job = elastic();
    let rows = [
        (vec![1], 128, 0, 150.936276, 1.0),
        (vec![2], 128, 0, 299.861777, 0.577902),
        (vec![4], 64, 0, 517.640565, 0.577902),
        (vec![4, 4], 64, 0, 975.602361, 0.313363),
        (vec![4, 4], 64, 1, 1014.540447, 0.163592),
    ];
    for (placement, local, accumulation, throughput, efficiency) in rows {
        let split = Split { local, accumulation };
        let batch = split.total(placement.iter().sum()) as f64;
        let found = batch / job.steps.of_step(&placement, split);
        assert!((found - throughput).abs() < 1e-4, "{placement:?}: {found}");
        // Progress is counted in steps of 128 samples.
        let goodput = job.rate(&job.steps, &placement, split, 0) * 128.0;
        assert!((goodput / found - efficiency).abs() < 1e-6, "{placement:?}: {goodput}");
    }
}

#[test]
fn batches_are_split_as_published() {
    let mut bert = elastic();
    (bert.initial_batch, bert.most_batch, bert.least_local, bert.most_local) = (12, 384, 4, 12);
    let of = |job: &Elastic, batch, gpus| {
        let split = job.split(batch, gpus);
        (split.local, split.accumulation)
    };
    // 12 × 11 × 3 samples would be more than 384.
    assert_eq!([of(&bert, 384, 6), of(&bert, 384, 8), of(&bert, 384, 12)], [(10, 5), (12, 3), (10, 2)]);
    // One GPU with more than the initial batch takes two passes.
    assert_eq!([of(&elastic(), 128, 1), of(&elastic(), 256, 1)], [(128, 0), (128, 1)]);
}

#[test]
fn a_change_costs_what_the_mechanism_says() {
    let job = elastic();
    let afe = |from, to| Rescale::Afe.cost(&job, from, to) / SECOND;
    // 3 + floor(21 × 2 / 4).
    assert_eq!([afe(0, 4), afe(4, 2), afe(2, 4), afe(4, 4)], [24, 3, 13, 24]);
    for from in 1..9 {
        for to in 1..9 {
            assert!(Rescale::Afe.cost(&job, from, to) <= Rescale::Full.cost(&job, from, to));
        }
    }
}

#[test]
fn holes_are_found() {
    let timing = |local: f64| Timing { local, step: 1.0, sync: 0.1 };
    let full = vec![timing(32.0), timing(1024.0)];
    let mut timings = Timings { placements: vec![(vec![1], full.clone()), (vec![2], full.clone())], wide: vec![] };
    let job = |timings: &Timings| Elastic { gpus: Some(4), steps: Steps::Measured(timings.clone()), ..elastic() };
    assert_eq!(job(&timings).covers(1, 2), Ok(()));
    assert_eq!(job(&timings).covers(2, 2), Err("2 GPUs on 2 nodes: not measured".into()));
    timings.placements.push((vec![1, 1], vec![timing(32.0), timing(100.0)]));
    timings.sort();
    let why = "placement [1, 1]: local batches 32 to 100 were measured, jobs may have 32 to 1024";
    assert_eq!(job(&timings).covers(2, 2), Err(why.into()));
    timings.placements[1].1.push(timing(1024.0));
    assert_eq!(job(&timings).covers(2, 2), Err("placement [1, 2] was not measured".into()));
}

#[test]
fn rings_have_no_beginning() {
    assert_eq!(placement([3, 3, 5].map(crate::NodeId::new).into_iter()), [2, 1]);
    let timing =
        |step| vec![Timing { local: 1.0, step, sync: 0.0 }, Timing { local: 3.0, step: step + 1.0, sync: 0.0 }];
    let placements = vec![(vec![1, 2, 3], timing(1.0)), (vec![1, 3, 2], timing(5.0))];
    let steps = Steps::Measured(Timings { placements, wide: vec![] });
    let step = |placement: &[u32]| steps.of_pass(placement, 2).step;
    assert_eq!([step(&[2, 3, 1]), step(&[3, 2, 1])], [1.5, 5.5]);
}

#[test]
fn impossible_batches_are_refused() {
    let job = elastic();
    let why = |gpus, local, accumulation| job.refuses(gpus, Split { local, accumulation }).unwrap_or_default();
    assert_eq!(why(4, 64, 0), "");
    assert_eq!(why(0, 64, 0), "it may have 1 to 128 GPUs, found 0");
    assert_eq!(why(4, 16, 0), "a pass on a GPU takes 32 to 1024 samples, found 16");
    assert_eq!(why(4, 1024, 1), "a step takes at most 4096 samples, found 8192");
}

/// Two rates of one batch, and a job that counts its own steps.
fn scaling() -> Elastic {
    Elastic {
        initial_batch: 8,
        most_batch: 8,
        least_local: 1,
        most_local: 8,
        epochs: 1,
        tunable: false,
        requests: vec![(2, 8)],
        steps: Steps::Scaling(vec![(1, 2.0), (2, 3.0), (4, 5.0)]),
        on: Default::default(),
        learning: Learning::Asked,
        ..elastic()
    }
}

#[test]
fn rates_by_gpus_hold_between_those_that_are_known() {
    let job = scaling();
    job.check().expect("it makes sense");
    let rate = |placement: &[u32]| job.rate(&job.steps, placement, job.split(8, placement.iter().sum()), 0);
    assert_eq!([rate(&[2]), rate(&[1, 2]), rate(&[2, 2])], [3.0, 4.0, 5.0]);
    let refused = |gpus: u32| job.refuses(gpus, job.split(8, gpus)).is_some();
    assert_eq!([0, 1, 2, 3, 4, 5].map(refused), [true, false, false, false, false, true]);
    assert_eq!([job.steps.knows(&[3]), job.steps.knows(&[5])], [true, false]);
    // Ten steps, to the microsecond; what is no whole number of steps stays so.
    assert_eq!((job.steps_asked(2, 8, 3.333333), job.steps_asked(2, 8, 0.5)), (Some(10.0), Some(1.5)));
    assert_eq!(elastic().steps_asked(2, 128, 10.1), None);
    assert!(job.refuses_batch(4).is_some() && job.refuses_batch(8).is_none());
}

#[test]
fn rates_that_make_no_sense_are_refused() {
    let wrong = |change: &dyn Fn(&mut Elastic)| {
        let mut job = scaling();
        change(&mut job);
        job.check().expect_err("it makes no sense")
    };
    assert!(
        wrong(&|job| job.steps = Steps::Scaling(vec![(1, 2.0), (4, 5.0), (2, 3.0)]))
            .contains("ascending numbers of GPUs")
    );
    assert!(wrong(&|job| job.steps = Steps::Scaling(vec![(1, 2.0), (2, 0.0)])).contains("rates above 0"));
    assert!(wrong(&|job| job.steps = Steps::Scaling(vec![(2, 3.0)])).contains("from 1 on"));
    assert!(wrong(&|job| job.tunable = true).contains("rates by GPUs alone are those of one batch"));
    assert!(wrong(&|job| job.requests = vec![(1, 4)]).contains("its rates are those of a batch of 8"));
    assert!(wrong(&|job| job.epochs = 2).contains("has one epoch, found 2"));
    assert!(wrong(&|job| job.steps = elastic().steps).contains("expected `steps: Scaling(…)`"));
}
