//! Policies that keep jobs in order between passes, against those that sort and walk all of them at every pass: schedules are
//! equal, stay by stay, on random workloads where instants meet.

use std::sync::Arc;

use sandtable::execute::{Extras, simulate};
use sandtable::plan::{Options, plan};
use sandtable_hardware::random::Stream;
use sandtable_hardware::{
    Costs, Duration, Failures, Fleet, GpuType, HostResources, Instant, Job, Maintenance, NodeId, PartId,
    PerformanceModel, Request, Revocable, SECOND, Sharing, SimulatedBackend, TypeId, catalogue,
};
use sandtable_policy::{
    About, Batch, Cluster, Config, GpuId, GpuTypeId, JobId, PartProfile, Placement, Policy, PolicyError, Ranking,
    Setup, Tick, Ties,
};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::inputs::Inputs;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Sandbox, Sandboxed};
use sandtable_runtime::schedule::run;
use sandtable_runtime::{Predictors, Remaining, Segment};

use crate::help::{compiled, dist, settings};
use sandtable_run::native::Native;

/// A workload on a fleet; small numbers, so that many instants and demands are equal.
struct Scene {
    fleet: Fleet,
    jobs: Arc<[Job]>,
    config: String,
    seed: u64,
}

/// One of these.
fn of<T: Clone>(stream: &mut Stream, choices: &[T]) -> T {
    choices[(stream.integer() % choices.len() as u64) as usize].clone()
}

/// What became of it: every stay of a job on GPUs, the number of calls, and the fault that ended it.
#[derive(PartialEq)]
struct Played {
    stays: Vec<Segment>,
    calls: u64,
    fault: Option<Fault>,
}

/// On every third fleet jobs ask for CPU, for a number of GPUs on each node, and for nodes of one rack, and nodes are taken down.
fn demand(mut stream: Stream, fleet: Fleet, jobs: &mut [Job]) -> Fleet {
    let draw = &mut stream;
    if !draw.integer().is_multiple_of(3) {
        return fleet;
    }
    for job in jobs.iter_mut().map(|job| Arc::make_mut(&mut job.request)) {
        let each = of(draw, &[0, 0, 1, 2, 4]);
        job.gpus_per_node = if each > 0 && job.gpus.is_multiple_of(each) { each } else { 0 };
        job.host.cpu_milli = of(draw, &[0, 0, 500, 1000, 1500]) * job.gpus;
        job.near.required = of(draw, &[None, None, None, Some(0)]);
        job.near.preferred = of(draw, &[None, None, Some(0)]);
    }
    let host = |draw: &mut Stream| HostResources { cpu_milli: of(draw, &[0, 4000, 8000]), memory_mib: 0 };
    let hosts: Vec<HostResources> = fleet.nodes.iter().map(|_| host(draw)).collect();
    let rack = ("rack".to_string(), of(draw, &[1, 2]));
    let at = |seconds: u64| Instant::at(SECOND * seconds);
    let maintenance = |draw: &mut Stream| {
        let (node, from) = (NodeId::at((draw.integer() % fleet.nodes.len() as u64) as usize), draw.integer() % 30);
        let announced = at(from.saturating_sub(draw.integer() % 8));
        Maintenance { node, announced, from: at(from), to: at(from + 1 + draw.integer() % 9), jobs_go_on: false }
    };
    let planned = (0..of(draw, &[0, 0, 1, 2])).map(|_| maintenance(draw)).collect();
    fleet.hosted(&hosts).levelled(&[rack]).expect("levels").maintained(planned)
}

/// On every fourth fleet some nodes are taken back by their owners.
fn owned(mut stream: Stream, fleet: Fleet) -> Fleet {
    let draw = &mut stream;
    if !draw.integer().is_multiple_of(4) {
        return fleet;
    }
    let terms =
        Revocable { notice: of(draw, &[Duration::ZERO, SECOND, SECOND * 5]), held: SECOND * 15, away: SECOND * 4 };
    let owners: Vec<Option<Revocable>> = fleet.nodes.iter().map(|_| of(draw, &[None, Some(terms)])).collect();
    fleet.owned(&owners)
}

impl Scene {
    /// With the policy's configuration; none: one of `las`.
    fn new(seed: u64, given: Option<&str>) -> Scene {
        let mut stream = Stream::new(seed, "orders");
        let draw = &mut stream;
        let cost = |draw: &mut Stream| of(draw, &[Duration::ZERO, Duration::ZERO, SECOND / 2, SECOND, SECOND * 7]);
        let costs = Costs {
            start: cost(draw),
            checkpoint: cost(draw),
            restore: cost(draw),
            linger: of(draw, &[Duration::ZERO, SECOND]),
            ..Costs::default()
        };
        let types = of(draw, &[1, 1, 2]);
        let groups: Vec<(u32, u32, GpuType)> = (0..types)
            .map(|t| (of(draw, &[1, 2, 3]), of(draw, &[4, 8]), GpuType::new(&format!("t{t}"), 1.0)))
            .collect();
        let failures = Failures { mtbf: SECOND * 40, repair: SECOND * 9 };
        let failures = of(draw, &[None, None, Some(failures)]);
        let mut fleet = Fleet::new(&groups, costs, failures).expect("a fleet");
        fleet.sharing = of(draw, &[Sharing::Exclusive, Sharing::Exclusive, Sharing::Shares]);
        // GPUs of the first type are cut, of some fleets.
        let mut cut = Stream::new(seed, "orders/parts");
        if fleet.sharing == Sharing::Exclusive && of(&mut cut, &[false, false, true]) {
            let table = catalogue::find("A100-SXM4-40GB").expect("a model of the catalogue").parts.clone();
            fleet = fleet.cut(&[table]).expect("a fleet");
        }
        let smallest = groups.iter().map(|(nodes, gpus, _)| nodes * gpus).min().unwrap_or(1);
        let lengths = of(draw, &[vec![1, 2, 3, 4], vec![1, 5, 10, 20], vec![3, 3, 3, 6], vec![1, 2, 4, 8, 16, 32]]);
        let step = of(draw, &[0, 1, 1, 2]);
        let mut submitted = 0;
        let jobs = (0..of(draw, &[10, 20, 40])).map(|_| {
            submitted += draw.integer() % (step + 1);
            let gpus = of(draw, &[1, 1, 1, 2, 2, 3, 4, 8]).min(smallest);
            let part = fleet.sharing == Sharing::Shares && gpus == 1;
            let request = Request {
                share: if part { of(draw, &[1000, 500, 250, 300]) } else { 1000 },
                gpu_types: TypeId::list(of(draw, &[vec![], vec![], vec![0], vec![types - 1], vec![types - 1, 0]])),
                preemptible: of(draw, &[true, true, true, true, true, true, false]),
                ..Request::new(gpus)
            };
            let request = match fleet.sharing == Sharing::Parts && gpus == 1 && !of(&mut cut, &[true, false, false]) {
                true => {
                    let part = PartId::new(of(&mut cut, &[0, 0, 1, 2, 3, 4, 5]));
                    let gpu_types = TypeId::list(if types > 1 { vec![0] } else { vec![] });
                    Request { part: Some(part), share: fleet.parts.share(part), gpu_types, ..request }
                }
                false => request,
            };
            let job = Job::new("", Instant::at(SECOND * submitted), gpus, SECOND * of(draw, &lengths));
            Job { request: request.into(), ..job }
        });
        let mut jobs: Vec<Job> = jobs.collect();
        let mut dues = Stream::new(seed, "orders/due");
        for job in &mut jobs {
            let due = of(&mut dues, &[None, Some(5), Some(10), Some(20), Some(20)]);
            job.deadline = due.map(|seconds| job.submit + SECOND * seconds);
            Arc::make_mut(&mut job.request).priority = of(&mut dues, &[0, 0, 1, -3]);
        }
        let fleet = demand(Stream::new(seed, "orders/nodes"), fleet, &mut jobs);
        let fleet = owned(Stream::new(seed, "orders/owners"), fleet);
        let jobs = jobs.into();
        let limits = (of(draw, &[2, 3, 4]), of(draw, &[6, 8, 12]));
        let starvation = of(draw, &["0", "0", "0.5", "2"]);
        let placement = of(draw, &["packed", "consolidate", "count"]);
        let round = of(draw, &[0, 0, 0, 3]);
        let config = format!(
            r#"{{"limits":[{},{}],"placement":"{placement}","round":{round},"starvation":{starvation}}}"#,
            limits.0, limits.1
        );
        let config = given.map_or(config, |given| format!("{{{given},\"placement\":\"{placement}\"}}"));
        Scene { fleet, jobs, config, seed }
    }

    fn played<P: Policy>(&self, every_end_calls: bool) -> Played {
        let backend = Box::new(SimulatedBackend::new(
            self.fleet.clone(),
            self.jobs.clone(),
            &PerformanceModel::none(),
            self.seed,
        ));
        let inputs = Inputs {
            config: self.config.clone(),
            predictors: Predictors::new(Remaining::Oracle),
            every_end_calls,
            ..Inputs::plain(self.jobs.clone(), Limits { calls: 2_000, ..Limits::default() })
        };
        let finished = run(&mut Native::<P>::new(), backend, inputs).expect("the ledger balances");
        Played { stays: finished.ledger.segments().collect(), calls: finished.calls, fault: finished.fault }
    }
}

/// Plays workloads with both; returns how many stays were preempted, and panics where schedules differ.
fn equal<Fast: Policy, Plain: Policy>(seeds: std::ops::Range<u64>, config: Option<&str>) -> usize {
    let mut stays = 0;
    for seed in seeds {
        let scene = Scene::new(seed, config);
        let (fast, plain) = (scene.played::<Fast>(true), scene.played::<Plain>(true));
        let first = fast.stays.iter().zip(&plain.stays).find(|(fast, plain)| fast != plain);
        let ends = [(fast.calls, &fast.fault), (plain.calls, &plain.fault)];
        assert!(fast == plain, "seed {seed}: {}: {first:?}, calls and faults {ends:?}", scene.config);
        // Nor do calls matter that a policy declines.
        if plain.fault.is_none() {
            assert!(scene.played::<Fast>(false).stays == plain.stays, "seed {seed}: {}: ends matter", scene.config);
        }
        assert!(
            !matches!(plain.fault, Some(Fault::BadPlan { .. } | Fault::Refused { .. })),
            "seed {seed}: {}: {:?}",
            scene.config,
            plain.fault
        );
        stays += plain.stays.len() - scene.jobs.len().min(plain.stays.len());
    }
    stays
}

#[test]
fn las_by_queues_is_las_by_lists() {
    let again = equal::<las::Las, las::Lists>(0..10_000, None);
    assert!(again > 20_000, "{again} stays after a preemption or a failure");
}

/// EASY backfilling that looks at every waiting job at every pass, and asks for all of them.
struct PlainEasy {
    /// By (submission, id).
    waiting: Vec<(u64, JobId)>,
    place: Placement,
    /// Of each GPU.
    gpu_types: Vec<GpuTypeId>,
    /// Of the first type, by number.
    parts: Vec<PartProfile>,
}

impl Policy for PlainEasy {
    fn about() -> About {
        fifo::Fifo::about()
    }

    fn new(config: &Config, setup: &Setup) -> Result<PlainEasy, PolicyError> {
        let of = |node: &sandtable_policy::Node| std::iter::repeat_n(node.gpu_type, node.gpus as usize);
        let place = Placement::named(config.choice("placement"));
        let parts = match &setup.topology.gpu_types[0].sharing {
            sandtable_policy::Sharing::Parts(parts) => parts.clone(),
            _ => Vec::new(),
        };
        let gpu_types = setup.topology.nodes.iter().flat_map(of).collect();
        Ok(PlainEasy { waiting: Vec::new(), place, gpu_types, parts })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let came = batch.events.iter().flat_map(|event| cluster.queued_by(event));
        self.waiting.extend(came.map(|job| (job.submitted, job.id)));
        self.waiting.sort_unstable();
        while let Some((_, head)) = self.waiting.first().copied() {
            let Some(found) = self.find(cluster, head) else {
                self.backfill(cluster, head);
                break;
            };
            cluster.start(head, found);
            self.waiting.remove(0);
        }
        Ok(())
    }
}

impl PlainEasy {
    /// Whether a GPU has room for a share or a part when these jobs have gone.
    fn has_room(&self, cluster: &Cluster, gpu: GpuId, asks: &sandtable_policy::Job, gone: &[JobId]) -> bool {
        let there = cluster.residents(gpu).iter().filter(|job| !gone.contains(job)).map(|job| cluster.job(*job));
        let there: Vec<&sandtable_policy::Job> = there.collect();
        if there.is_empty() {
            return !cluster.residents(gpu).is_empty();
        }
        if there.iter().map(|job| job.share).sum::<u32>() + asks.share > 1000 {
            return false;
        }
        let slices = |part: u32, first: u32| first..first + self.parts[part as usize].slices;
        let Some(part) = asks.part else { return true };
        let is_free = |first: &u32| {
            let own = slices(part, *first);
            there.iter().all(|job| {
                let theirs = job.part.zip(job.slice).map_or(0..u32::MAX, |(part, first)| slices(part, first));
                own.end <= theirs.start || theirs.end <= own.start
            })
        };
        self.parts[part as usize].starts.iter().any(is_free)
    }

    fn find(&self, cluster: &Cluster, id: JobId) -> Option<Vec<GpuId>> {
        let job = cluster.job(id);
        self.place.find_any(cluster, &job.gpu_types, job.ask())
    }

    fn backfill(&mut self, cluster: &mut Cluster, head: JobId) {
        let (gpu_type, asked) = (cluster.job(head).gpu_types[0], cluster.job(head).gpus);
        let holding: Vec<JobId> =
            cluster.holders().filter(|job| cluster.type_of(job) == gpu_type).map(|job| job.id).collect();
        let mut ends: Vec<(f64, JobId)> = cluster.remaining(&holding).into_iter().zip(holding).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (mut gone, mut shadow, mut extra) = (Vec::new(), f64::INFINITY, 0);
        for (left, id) in ends {
            gone.push(id);
            let held = |job: &sandtable_policy::Job| if gone.contains(&job.id) { Vec::new() } else { job.held.clone() };
            let taken: Vec<GpuId> = cluster.holders().flat_map(held).collect();
            let up = |gpu: &GpuId| cluster.is_up(cluster.node(*gpu)) && self.gpu_types[*gpu as usize] == gpu_type;
            let all: Vec<GpuId> = (0..self.gpu_types.len() as GpuId).filter(up).collect();
            let free = all.iter().filter(|gpu| !taken.contains(gpu)).count() as u32;
            let job = cluster.job(head);
            if cluster.is_fraction(job.share) && all.iter().any(|gpu| self.has_room(cluster, *gpu, job, &gone)) {
                (shadow, extra) = (left, 0);
                break;
            }
            if free >= asked {
                (shadow, extra) = (left, free - asked);
                break;
            }
        }
        if !cluster.job(head).ask().is_unbound() {
            extra = 0;
        }
        let behind: Vec<JobId> = self.waiting[1..].iter().map(|(_, id)| *id).collect();
        let lasts = sandtable_policy::host::estimate(
            sandtable_policy::Quantity::Remaining,
            behind.clone(),
            vec![gpu_type; behind.len()],
        );
        for (id, last) in behind.into_iter().zip(lasts) {
            let Some(found) = self.find(cluster, id) else { continue };
            if self.gpu_types[found[0] as usize] == gpu_type && last > shadow {
                if cluster.job(id).gpus > extra {
                    continue;
                }
                extra -= cluster.job(id).gpus;
            }
            cluster.start(id, found);
            self.waiting.retain(|(_, other)| *other != id);
        }
    }
}

#[test]
fn easy_by_queues_is_easy_by_a_look_at_all() {
    let again = equal::<fifo::Fifo, PlainEasy>(0..10_000, Some("\"backfill\":\"easy\""));
    assert!(again > 1_000, "{again} stays after a failure");
}

/// Jobs by what is left of them, asked for and sorted at every pass; `SERVICE`: time left times GPUs.
struct Plain<const SERVICE: bool> {
    ranking: Ranking,
    place: Placement,
    tick: Tick,
}

impl<const SERVICE: bool> Policy for Plain<SERVICE> {
    fn about() -> About {
        srtf::Srtf::about()
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        let (ties, place) = (Ties::named(config.choice("ties")), Placement::named(config.choice("placement")));
        Ok(Plain { ranking: Ranking::new(ties), place, tick: Tick::new(config.micros("tick")) })
    }

    fn decide(&mut self, batch: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let key = |seconds: f64, gpus: u32| seconds * f64::from(if SERVICE { gpus } else { 1 });
        let change = self.ranking.pass(batch, cluster, self.place, key);
        self.tick.call_after(batch, cluster, change);
        Ok(())
    }
}

#[test]
fn srtf_in_order_is_srtf_by_a_sort_of_all() {
    let again = equal::<srtf::Srtf, Plain<false>>(0..10_000, Some("\"ties\":\"kept\""));
    assert!(again > 20_000, "{again} stays after a preemption or a failure");
}

#[test]
fn srsf_in_order_is_srsf_by_a_sort_of_all() {
    let again = equal::<srsf::Srsf, Plain<true>>(0..10_000, Some("\"ties\":\"kept\""));
    assert!(again > 20_000, "{again} stays after a preemption or a failure");
}

#[test]
fn waiting_jobs_first_in_order_is_that_by_a_sort_of_all() {
    let (ties, ticks) = (Some("\"ties\":\"waiting-first\""), Some("\"ties\":\"waiting-first\",\"tick\":3"));
    let again = [
        equal::<srtf::Srtf, Plain<false>>(0..5_000, ties),
        equal::<srsf::Srsf, Plain<true>>(5_000..10_000, ties),
        equal::<srtf::Srtf, Plain<false>>(10_000..15_000, ticks),
        equal::<srsf::Srsf, Plain<true>>(15_000..20_000, ticks),
    ];
    assert!(again.iter().all(|again| *again > 10_000), "{again:?} stays after a preemption or a failure");
}

#[test]
fn ticks_in_order_are_ticks_by_a_sort_of_all() {
    let ticks = Some("\"ties\":\"kept\",\"tick\":2");
    let again =
        [equal::<srtf::Srtf, Plain<false>>(0..5_000, ticks), equal::<srsf::Srsf, Plain<true>>(5_000..10_000, ticks)];
    assert!(again.iter().all(|again| *again > 10_000), "{again:?} stays after a preemption or a failure");
}

/// Jobs by a key that never changes, all of them sorted and walked at every pass; `DUE`: by deadline, else by priority.
struct PlainFixed<const DUE: bool> {
    place: Placement,
}

impl<const DUE: bool> Policy for PlainFixed<DUE> {
    fn about() -> About {
        priority::Priority::about()
    }

    fn new(config: &Config, _: &Setup) -> Result<Self, PolicyError> {
        Ok(PlainFixed { place: Placement::named(config.choice("placement")) })
    }

    fn decide(&mut self, _: &Batch, cluster: &mut Cluster) -> Result<(), PolicyError> {
        let key = |job: &sandtable_policy::Job| match DUE {
            true => (job.deadline.map_or(u128::MAX, u128::from), job.id),
            false => ((i128::from(i32::MAX) - i128::from(job.priority)) as u128, job.id),
        };
        let mut order: Vec<(u128, JobId)> = cluster.jobs().map(key).collect();
        order.sort_unstable();
        sandtable_policy::walk(cluster, order.into_iter().map(|(_, id)| id), self.place);
        Ok(())
    }
}

#[test]
fn edf_in_order_is_edf_by_a_sort_of_all() {
    let again = equal::<edf::Edf, PlainFixed<true>>(0..10_000, Some("\"preempt\":true"));
    assert!(again > 20_000, "{again} stays after a preemption or a failure");
}

#[test]
fn priorities_in_order_are_priorities_by_a_sort_of_all() {
    let again = equal::<priority::Priority, PlainFixed<false>>(0..10_000, Some("\"preempt\":true"));
    assert!(again > 20_000, "{again} stays after a preemption or a failure");
}

/// Instructions of a call, as fuel counts them: they depend on the workload, and hardly on the size of the cluster.
#[test]
fn a_larger_cluster_costs_a_policy_no_more_instructions() {
    let folder = tempfile::tempdir().expect("a folder");
    let sandbox = Sandbox::new(&settings()).expect("an engine");
    let fuel_of_a_call = |(policy, queues, drawn): (&str, &str, &str), nodes: u32| {
        let text = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: {nodes}, gpus: 8, kind: \"K80\"), predictors: {{\"remaining\": Oracle}}, {queues} \
             workload: Generate(jobs: 4000, {drawn} arrivals: Poisson(load: 0.95), gpus: {{1: 0.7, 4: 0.3}}, \
             durations: LogNormal(median: \"10min\", sigma: 1.8)), policies: [{policy}])"
        );
        let path = folder.path().join("spec.ron");
        std::fs::write(&path, text).expect("written");
        let options = Options { policies: Some(dist().into()), ..Options::default() };
        let plan = plan(&path, &options).expect("a plan");
        let compiled = compiled(&plan);
        let cell = &plan.cells[0];
        let component = sandbox.load(&cell.policy.bytes).expect("a policy");
        let mut policy = Sandboxed::new(&component, cell.setting.limits).expect("an instance");
        let (jobs, predictors) = (cell.jobs().expect("jobs"), compiled.predictors(cell).expect("predictors"));
        let finished = simulate(cell, jobs, &mut policy, predictors, Extras::default()).expect("the ledger balances");
        assert_eq!(finished.fault, None);
        policy.fuel_used() as f64 / finished.calls as f64
    };
    let plain = |policy| (policy, "", "");
    let queues = "queues: [Queue(name: \"a\", weight: 2), Queue(name: \"b\")],";
    let queued = |policy| (policy, queues, "queues: {\"a\": 1, \"b\": 1},");
    for policy in [
        plain("Policy(name: \"fifo\", with: {\"backfill\": \"skip\"})"),
        plain("Policy(name: \"las\")"),
        plain("Policy(name: \"srtf\")"),
        plain("Policy(name: \"srsf\")"),
        queued("Policy(name: \"kai-like\")"),
        queued("Policy(name: \"kueue-like\")"),
    ] {
        let [small, large] = [16, 256].map(|nodes| fuel_of_a_call(policy, nodes));
        let (policy, ..) = policy;
        assert!(large < 1.5 * small, "{policy}: {small:.0} a call on 16 nodes, {large:.0} on 256");
    }
}
