//! The model alone: events a second, without a policy, a judge or a ledger.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput};
use sandtable_hardware::{
    Backend, Costs, Fleet, GpuId, GpuType, Instant, Job, JobId, PerformanceModel, SECOND, SimulatedBackend, TimedEvent,
};

const JOBS: u32 = 100_000;
const GPUS: u32 = 1024;

fn model() -> SimulatedBackend {
    let kind = GpuType::new("g", 1.0);
    let costs = Costs { start: SECOND, ..Costs::default() };
    let fleet = Fleet::new(&[(GPUS / 8, 8, kind)], costs, None).expect("a fleet");
    let job = |index: u32| {
        Job::new("", Instant::START, 1, u64::from(index.wrapping_mul(2_654_435_761) % 100_000 + 1) * SECOND)
    };
    let jobs: Arc<[Job]> = (0..JOBS).map(job).collect();
    SimulatedBackend::new(fleet, jobs, &PerformanceModel::none(), 0)
}

/// Every job starts as soon as a GPU is free; two events a job: it begins to make progress, it ends.
fn run(mut model: SimulatedBackend) -> u64 {
    let (mut next, mut events) = (0, 0);
    let mut held: Vec<GpuId> = vec![GpuId::new(0); JOBS as usize];
    let mut free: Vec<GpuId> = GpuId::first(GPUS as usize).collect();
    let mut happened: Vec<TimedEvent> = Vec::new();
    loop {
        while next < JOBS
            && let Some(gpu) = free.pop()
        {
            held[next as usize] = gpu;
            model.start(JobId::new(next), &[gpu], None, &mut happened);
            next += 1;
        }
        model.advance(None, &mut happened);
        if happened.is_empty() {
            return events;
        }
        for occurrence in happened.drain(..) {
            events += 1;
            if let sandtable_hardware::BackendEvent::Ended(job) = occurrence.what {
                free.push(held[job]);
            }
        }
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("model");
    group.sample_size(20).throughput(Throughput::Elements(u64::from(JOBS) * 2));
    group.bench_function("events", |b| b.iter_batched(model, |model| black_box(run(model)), BatchSize::LargeInput));
    group.finish();
    criterion.final_summary();
}
