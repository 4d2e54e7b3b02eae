//! The cost of one `decide`, by what the batch brings; the part of it that is the border alone is `empty`.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use sandtable::artifact::Finder;
use sandtable_hardware::{Costs, Duration, Fleet, GpuType, Instant, Job, PerformanceModel, SimulatedBackend};
use sandtable_runtime::contract::{
    Arrival, Batch, Demand, Event, Fresh, HostResources, Knowledge, NEVER, NO_QUEUE, NO_WORKLOAD, Node, NodeHealth,
    Pool, Setup, Sharing, Topology, Trigger,
};
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Sandbox, Sandboxed, Settings};
use sandtable_runtime::{DecisionContext, Policy, Predictors, Remaining, VisibleInfo};

const NODES: u32 = 32;

fn world(jobs: u32) -> Box<DecisionContext> {
    let kind = GpuType::new("g", 1.0);
    let fleet = Fleet::new(&[(NODES, 8, kind)], Costs::default(), None).expect("a fleet");
    let job = |_| Job::new("", Instant::START, 1, Duration::from_micros(1_000_000));
    let jobs: std::sync::Arc<[Job]> = (0..jobs).map(job).collect();
    let backend = Box::new(SimulatedBackend::new(fleet, jobs.clone(), &PerformanceModel::none(), 0));
    let predictors = Predictors::new(Remaining::Oracle);
    let laws = std::sync::Arc::new(PerformanceModel::none());
    let mut world = DecisionContext::new(backend, (jobs, laws), predictors, VisibleInfo::default(), 100_000);
    introduce(&mut world);
    Box::new(world)
}

fn setup() -> Setup {
    let node = |id| Node {
        id,
        name: format!("n{id}"),
        gpu_type: 0,
        first_gpu: id * 8,
        gpus: 8,
        health: NodeHealth::Up,
        links: vec![],
        domains: vec![],
        pool: Pool::Training,
        host: HostResources::UNKNOWN,
        revocable: None,
    };
    let kind =
        sandtable_runtime::contract::GpuType { id: 0, name: "g".into(), memory_mib: 0, sharing: Sharing::Exclusive };
    let topology = Topology { gpu_types: vec![kind], levels: vec![], nodes: (0..NODES).map(node).collect() };
    Setup {
        config: "{}".into(),
        seed: 0,
        weights: vec![],
        topology,
        knowledge: Knowledge::REMAINING,
        references: vec![],
        services: vec![],
        queues: vec![],
        max_actions: 100_000,
    }
}

fn arrivals(count: u32) -> Batch {
    let arrival = |job| {
        let (workload, declared_run_time, remaining) = (NO_WORKLOAD, NEVER, NEVER);
        Event::JobArrived(Arrival {
            job,
            class: 0,
            submitted: 0,
            user: 0,
            workload,
            declared_run_time,
            deadline: NEVER,
            priority: 0,
            queue: NO_QUEUE,
            remaining,
        })
    };
    let fresh = if count > 0 { Fresh::CLASSES | Fresh::USERS } else { Fresh::empty() };
    Batch { seq: 1, now: 0, trigger: Trigger::Event, fresh, events: (0..count).map(arrival).collect() }
}

/// What the batch of `arrivals` introduces.
fn introduce(world: &mut DecisionContext) {
    world.introductions.classes = vec![Demand::whole(1)];
    world.introductions.users = vec![String::new()];
}

fn decide(criterion: &mut Criterion) {
    let sandbox = Sandbox::new(&Settings::default()).expect("an engine");
    let mut finder = Finder::new(Path::new(env!("CARGO_MANIFEST_DIR")), None);
    let mut group = criterion.benchmark_group("decide");
    for name in ["fifo", "las"] {
        let component = sandbox.load(&finder.find(name).expect("shipped").bytes).expect("a policy");
        let fresh = || {
            let mut policy = Sandboxed::new(&component, Limits::default()).expect("an instance");
            policy.init(&setup()).expect("init");
            policy
        };
        for count in [0, 1, 10, 100, 1000] {
            let batch = arrivals(count);
            group.throughput(Throughput::Elements(u64::from(count.max(1))));
            group.bench_function(BenchmarkId::new(name, count), |b| {
                if count == 0 {
                    let mut policy = fresh();
                    let mut lent = Some(world(1));
                    return b.iter(|| {
                        let (back, plan) = policy.decide(&batch, lent.take().expect("lent"));
                        lent = Some(back);
                        black_box(plan)
                    });
                }
                b.iter_batched(
                    || (fresh(), world(count)),
                    |(mut policy, world)| {
                        let (world, plan) = policy.decide(&batch, world);
                        black_box((plan, world, policy))
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decide(&mut criterion);
    criterion.final_summary();
}
