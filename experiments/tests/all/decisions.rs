//! Single decisions, worked out apart from this code, taken by the shipped components: a scene of jobs on GPUs is told to
//! a component by a resync, predictions are scripted, and its first plan is compared.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use sandtable_hardware::{
    Costs, Duration, Fleet, GpuId, GpuType, Instant, Job, JobId, PerformanceModel, Sharing, SimulatedBackend, TypeId,
    WorkloadId,
};
use sandtable_needs::needs;
use sandtable_runtime::cluster::Phase;
use sandtable_runtime::contract::{
    Action, Arrival, Batch, Communication, Demand, Event, Fresh, GpuType as ToldType, HostResources, JobPhase,
    Knowledge, NEVER, NO_QUEUE, Node, NodeHealth, PhaseChange, Pool, Setup, Sharing as ToldSharing, SoloQuantity,
    Sources, Topology, Trigger, WorkloadProfile,
};
use sandtable_runtime::contract::{ChangeCause, Quantity, Start};
use sandtable_runtime::fault::Fault;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Component, Sandbox, Sandboxed, Settings};
use sandtable_runtime::{Answerer, DecisionContext, Policy, Predictors, Provider, VisibleInfo};
use serde_json::Value;

use crate::help::{data, root};

/// What is predicted of jobs.
#[derive(Clone)]
struct Predicted {
    /// Share of the GPU and MiB of each job.
    alone: Rc<[(f64, f64)]>,
    similarity: Rc<dyn Fn(usize, usize) -> f64>,
    /// Speed of a job beside one other.
    speed: Rc<dyn Fn(usize, usize) -> f64>,
    /// Jobs by the number of their workload.
    jobs: Vec<usize>,
}

impl Provider for Predicted {
    fn introduce(&mut self, profiles: &[WorkloadProfile]) -> Result<(), Fault> {
        self.jobs.extend(profiles.iter().map(|profile| profile.workload.parse::<usize>().expect("a job")));
        Ok(())
    }

    fn estimate(&mut self, what: SoloQuantity, _: TypeId, workloads: &[u32]) -> Result<Vec<f64>, Fault> {
        let of = |workload: &u32| {
            let (utilisation, memory) = self.alone[self.jobs[*workload as usize]];
            if what == SoloQuantity::Utilisation { utilisation } else { memory }
        };
        Ok(workloads.iter().map(of).collect())
    }

    fn similarity(&mut self, _: TypeId, first: &[u32], second: &[u32]) -> Result<Vec<f64>, Fault> {
        let of = |(a, b): (&u32, &u32)| (self.similarity)(self.jobs[*a as usize], self.jobs[*b as usize]);
        Ok(first.iter().zip(second).map(of).collect())
    }

    fn pair_speed(&mut self, _: TypeId, jobs: &[u32], residents: &[Vec<u32>]) -> Result<Vec<f64>, Fault> {
        let one = |job: &u32, other: &u32| (self.speed)(self.jobs[*job as usize], self.jobs[*other as usize]);
        let of = |(job, others): (&u32, &Vec<u32>)| others.iter().map(|other| one(job, other)).product();
        Ok(jobs.iter().zip(residents).map(of).collect())
    }
}

/// A job of a scene.
#[derive(Clone)]
struct Actor {
    submitted: u64,
    gpus: u32,
    memory_mib: u32,
    utilisation: f64,
    /// Seconds of a step, and GB of gradients.
    step: (f64, f64),
    communication: Communication,
    /// Where it runs; nowhere: it waits.
    holds: Vec<u32>,
}

impl Actor {
    fn waiting(gpus: u32, memory_mib: u32) -> Actor {
        let (step, communication) = ((f64::NAN, f64::NAN), Communication::Ring);
        Actor { submitted: 0, gpus, memory_mib, utilisation: f64::NAN, step, communication, holds: Vec::new() }
    }

    fn running(holds: Vec<u32>, memory_mib: u32) -> Actor {
        Actor { gpus: holds.len() as u32, holds, ..Actor::waiting(0, memory_mib) }
    }

    fn profile(&self, id: usize) -> WorkloadProfile {
        WorkloadProfile {
            workload: id.to_string(),
            family: String::new(),
            batch: f64::NAN,
            mixed_precision: false,
            gradient_gb: self.step.1,
            communication: self.communication,
            facts: None,
            gpu_utilisation: vec![],
            memory_utilisation: vec![],
            memory_mib: vec![],
            step_time: vec![self.step.0],
            throughput: vec![],
            stages: vec![],
        }
    }
}

/// A cluster of one type of GPU with jobs on it and jobs that wait.
struct Scene {
    /// GPUs and rack of each node.
    nodes: Vec<(u32, u32)>,
    /// GB/s between GPUs of a node.
    links: Vec<f64>,
    memory_mib: u32,
    /// Most jobs on a GPU.
    tenancy: u32,
    down: Vec<usize>,
    actors: Vec<Actor>,
    similarity: Rc<dyn Fn(usize, usize) -> f64>,
    speed: Rc<dyn Fn(usize, usize) -> f64>,
}

impl Scene {
    fn new(nodes: Vec<(u32, u32)>, memory_mib: u32, tenancy: u32) -> Scene {
        let nobody: Rc<dyn Fn(usize, usize) -> f64> = Rc::new(|_, _| f64::NAN);
        let (down, actors, links) = (Vec::new(), Vec::new(), Vec::new());
        Scene { nodes, links, memory_mib, tenancy, down, actors, similarity: nobody.clone(), speed: nobody }
    }

    fn topology(&self) -> Topology {
        let sharing = ToldSharing::Packed(self.tenancy);
        let kind = ToldType { id: 0, name: "g".into(), memory_mib: self.memory_mib, sharing };
        let mut first_gpu = 0;
        let node = |(id, (gpus, rack)): (usize, &(u32, u32))| {
            let (first, up) = (first_gpu, !self.down.contains(&id));
            first_gpu += gpus;
            Node {
                id: id as u32,
                name: format!("n{id}"),
                gpu_type: 0,
                first_gpu: first,
                gpus: *gpus,
                health: if up { NodeHealth::Up } else { NodeHealth::Down },
                links: self.links.clone(),
                domains: vec![*rack],
                pool: Pool::Training,
                host: HostResources::UNKNOWN,
                revocable: None,
            }
        };
        let nodes = self.nodes.iter().enumerate().map(node).collect();
        Topology { gpu_types: vec![kind], levels: vec!["rack".into()], nodes }
    }

    fn world(&self) -> DecisionContext {
        let groups: Vec<(u32, u32, GpuType)> =
            self.nodes.iter().map(|(gpus, _)| (1, *gpus, GpuType::new("g", 1.0))).collect();
        let fleet = Fleet::new(&groups, Costs::default(), None).and_then(|fleet| fleet.shared(Sharing::Packed(64)));
        let job = |id: u32| {
            let job = Job::new("j", Instant::START, 1, Duration::from_micros(1));
            job.asking(|request| request.workload = Some(WorkloadId::new(id)))
        };
        let jobs: Arc<[Job]> = (0..self.actors.len() as u32).map(job).collect();
        let laws = Arc::new(PerformanceModel::none());
        let model = SimulatedBackend::new(fleet.expect("a fleet"), jobs.clone(), &laws, 0);
        let profiles = self.actors.iter().enumerate().map(|(id, actor)| actor.profile(id)).collect();
        let predicted = Predicted {
            alone: self.actors.iter().map(|actor| (actor.utilisation, f64::from(actor.memory_mib))).collect(),
            similarity: self.similarity.clone(),
            speed: self.speed.clone(),
            jobs: Vec::new(),
        };
        let ask = || Answerer::Provider(Box::new(predicted.clone()), Sources::all());
        let asked = [Quantity::Similarity, Quantity::PairSpeed, Quantity::Utilisation, Quantity::Memory];
        let predictors = asked.into_iter().fold(Predictors::default(), |all, quantity| all.with(quantity, ask()));
        let told = VisibleInfo { profiles, ..VisibleInfo::default() };
        let mut world = DecisionContext::new(Box::new(model), (jobs, laws), predictors, told, 1000);
        for (id, actor) in self.actors.iter().enumerate() {
            let phase = if actor.holds.is_empty() { Phase::Queued } else { Phase::Running };
            world.cluster.set_phase(JobId::at(id), phase);
            world.cluster.held.set(JobId::at(id), GpuId::list(actor.holds.clone()));
            actor.holds.iter().for_each(|gpu| world.cluster.residents[*gpu as usize].push(JobId::at(id)));
        }
        world
    }

    /// What a component starts first: the job and its GPUs.
    fn first_start(&self, sandbox: &Component, config: &str) -> Option<(JobId, Vec<u32>)> {
        let known = Knowledge::SIMILARITY | Knowledge::PAIR_SPEED | Knowledge::UTILISATION | Knowledge::MEMORY;
        let setup = Setup {
            config: config.into(),
            seed: 0,
            weights: vec![],
            topology: self.topology(),
            knowledge: known | Knowledge::SOLO_PROFILE,
            references: vec![],
            services: vec![],
            queues: vec![],
            max_actions: 1000,
        };
        let (mut events, mut classes) = (Vec::new(), Vec::new());
        for (id, actor) in self.actors.iter().enumerate() {
            let (gpus, memory_mib) = (actor.gpus, actor.memory_mib);
            let (job, submitted) = (id as u32, actor.submitted);
            let (user, declared_run_time, remaining) = (0, NEVER, NEVER);
            let arrival = Arrival {
                job,
                class: job,
                submitted,
                user,
                workload: job,
                declared_run_time,
                deadline: NEVER,
                priority: 0,
                queue: NO_QUEUE,
                remaining,
            };
            events.push(Event::JobArrived(arrival));
            classes.push(Demand { memory_mib, ..Demand::whole(gpus) });
            if !actor.holds.is_empty() {
                let (job, phase, at, cause) = (id as u32, JobPhase::Running, 0, ChangeCause::Asked);
                events.push(Event::JobChanged(PhaseChange { job, phase, at, cause, remaining }));
            }
        }
        let mut world = Box::new(self.world());
        world.introductions.classes = classes;
        world.introductions.workloads = self.actors.iter().enumerate().map(|(id, actor)| actor.profile(id)).collect();
        world.introductions.users = vec![String::new()];
        let fresh = Fresh::CLASSES | Fresh::WORKLOADS | Fresh::USERS;
        let batch = Batch { seq: 0, now: 1_000_000, trigger: Trigger::Resync, fresh, events };
        let mut policy = Sandboxed::new(sandbox, Limits::default()).expect("an instance");
        policy.init(&setup).expect("ready");
        let (_, plan) = policy.decide(&batch, world);
        plan.expect("a plan").actions.into_iter().find_map(|action| match action {
            Action::Start(Start { job, gpus, .. }) => Some((JobId::new(job), gpus)),
            _ => None,
        })
    }
}

fn component(sandbox: &Sandbox, name: &str) -> Component {
    let path = root().join("policies/dist").join(format!("{name}.wasm"));
    sandbox.load(&std::fs::read(path).expect("a component")).expect("a policy")
}

fn golden(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(file)).expect("a file")).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

const GIB: f64 = 1024.0;

/// A component shows the node that it likes best. Whom it likes next is seen when that one is down.
#[needs("data:clwp-golden")]
#[test]
fn clwp_prefers_the_nodes_of_every_golden_case() {
    let sandbox = Sandbox::new(&Settings::default()).expect("a sandbox");
    let policy = component(&sandbox, "clwp-nlwp");
    let (cases, net) = (golden("clwp-golden/clwp_cases.json"), golden("clwp-golden/neumf_gavel_v100.json"));
    let net = Rc::new(net["expected"].clone());
    let mut decisions = 0;
    for (at, case) in list(&cases["cases"]).iter().enumerate() {
        let nodes = list(&case["nodes"]);
        let sizes = nodes.iter().map(|node| (list(node).len() as u32, 0)).collect();
        let mut scene = Scene::new(sizes, (number(case, "cap_gib") * GIB) as u32, number(case, "max_share") as u32);
        let mut kinds = Vec::new();
        let mut there: BTreeMap<u64, (Vec<u32>, &Value)> = BTreeMap::new();
        for (gpu, tasks) in nodes.iter().flat_map(list).enumerate() {
            for task in list(tasks) {
                let id = task["id"].as_u64().expect("an id");
                there.entry(id).or_insert_with(|| (Vec::new(), task)).0.push(gpu as u32);
            }
        }
        for (holds, task) in there.into_values() {
            kinds.push(number(task, "job") as usize);
            scene.actors.push(Actor::running(holds, (number(task, "mem") * GIB) as u32));
        }
        kinds.push(number(case, "job") as usize);
        scene.actors.push(Actor::waiting(number(case, "k") as u32, (number(case, "mem_gib") * GIB) as u32));
        let net = net.clone();
        scene.similarity = Rc::new(move |a, b| {
            let f = |i: usize, j: usize| net[kinds[i]][kinds[j]].as_f64().expect("a number");
            1.0 - (f(a, b) + f(b, a)) / 2.0
        });
        scene.speed = Rc::new(|_, _| 1.0);
        let mut order = Vec::new();
        while let Some((_, gpus)) = scene.first_start(&policy, "{\"admission\": false}") {
            let ends = scene.nodes.iter().scan(0, |sum, (gpus, _)| {
                *sum += gpus;
                Some(*sum)
            });
            let node = ends.take_while(|end| *end <= gpus[0]).count();
            order.push(Value::from(node));
            scene.down.push(node);
            decisions += 1;
        }
        assert_eq!(order, list(&case["expected_order"]), "case {at}");
    }
    assert_eq!(decisions, 65);
}

#[needs("data:clwp-golden")]
#[test]
fn nlwp_takes_or_refuses_the_gpus_of_every_golden_case() {
    let sandbox = Sandbox::new(&Settings::default()).expect("a sandbox");
    let policy = component(&sandbox, "clwp-nlwp");
    let cases = golden("clwp-golden/nlwp_cases.json");
    let (mut taken, mut refused) = (0, 0);
    for (at, case) in list(&cases["cases"]).iter().enumerate() {
        let rows = list(&case["bandwidth_gb_s"]);
        let eligible: Vec<usize> =
            list(&case["eligible"]).iter().map(|x| x.as_u64().expect("a GPU") as usize).collect();
        let mut scene = Scene::new(vec![(rows.len() as u32, 0)], 16_384, 2);
        scene.links = rows.iter().flat_map(list).map(|x| x.as_f64().expect("GB/s")).collect();
        let mut speeds = Vec::new();
        for (gpu, tasks) in list(&case["residents"]).iter().enumerate() {
            // No room is what keeps a GPU from a job here.
            let memory = if eligible.contains(&gpu) { 1024 } else { 16_384 };
            for task in list(tasks) {
                speeds.push((number(task, "perf_new"), number(task, "perf_res")));
                scene.actors.push(Actor::running(vec![gpu as u32], memory));
            }
            if list(tasks).is_empty() && !eligible.contains(&gpu) {
                speeds.push((1.0, 1.0));
                scene.actors.push(Actor::running(vec![gpu as u32], memory));
            }
        }
        let newcomer = speeds.len();
        scene.speed = Rc::new(move |a, b| if a == newcomer { speeds[b].0 } else { speeds[a].1 });
        let communication = match case["mode"].as_str() {
            Some("ring") => Communication::Ring,
            _ => Communication::ParameterServer,
        };
        let step = (number(case, "tau_s"), number(case, "grad_gb"));
        scene.actors.push(Actor { step, communication, ..Actor::waiting(number(case, "k") as u32, 1024) });
        let expected = &case["expected"];
        let gpus: Vec<u32> = list(&expected["gpus"]).iter().map(|x| x.as_u64().expect("a GPU") as u32).collect();
        // The case's own threshold, and one on each side of what the job would gain: there admission turns.
        for delta in [number(case, "delta"), number(expected, "gain") - 1e-6, number(expected, "gain") + 1e-6] {
            let config = serde_json::json!({
                "node": "clwp", "gpus": "nlwp", "phi": case["phi"], "alpha": case["alpha_s"], "beta": case["beta"],
                "delta": delta.min(1.0),
            });
            let admitted = !expected["shares"].as_bool().expect("a flag") || number(expected, "gain") >= delta.min(1.0);
            let found = scene.first_start(&policy, &config.to_string());
            let wanted = admitted.then(|| (JobId::at(newcomer), gpus.clone()));
            assert_eq!(found, wanted, "case {at}, delta {delta}");
            *if admitted { &mut taken } else { &mut refused } += 1;
        }
    }
    assert_eq!(taken + refused, 120);
    assert!(refused > 10, "{refused} refused");
}

/// The published code lets two tasks of a gang share a GPU, which the contract does not; `twice` asks for it.
#[needs("data:horus-golden")]
#[test]
fn horus_decides_every_golden_case() {
    let sandbox = Sandbox::new(&Settings::default()).expect("a sandbox");
    let policy = component(&sandbox, "horus");
    let cases = golden("horus-golden/schedule_cases.json");
    for (at, case) in list(&cases).iter().enumerate() {
        let nodes = list(&case["cluster"]["nodes"]);
        let size = |node: &Value| (list(&node["gpus"]).len() as u32, number(node, "rack") as u32);
        let sizes: Vec<(u32, u32)> = nodes.iter().map(size).collect();
        let gpus: Vec<&Value> = nodes.iter().flat_map(|node| list(&node["gpus"])).collect();
        let mut scene = Scene::new(sizes.clone(), number(gpus[0], "mem_mib") as u32, 64);
        for (gpu, there) in gpus.iter().enumerate() {
            assert_eq!(there["mem_mib"], gpus[0]["mem_mib"], "case {at}: GPUs of one size");
            for task in list(&there["tasks"]) {
                let running = Actor::running(vec![gpu as u32], number(task, "mem_mib") as u32);
                scene.actors.push(Actor { utilisation: number(task, "util_avg") / 100.0, ..running });
            }
        }
        // Numbers of jobs break ties: those that wait go by theirs.
        let mut queue: Vec<&Value> = list(&case["queue"]).iter().collect();
        queue.sort_by_key(|job| job["id"].as_u64());
        let (first, mut peak) = (scene.actors.len(), 1.0);
        let expected = case["expect"].as_object();
        for job in &queue {
            let waiting = Actor::waiting(number(job, "tasks") as u32, number(job, "mem_mib") as u32);
            let (submitted, utilisation) = (number(job, "submit") as u64, number(job, "util_avg") / 100.0);
            scene.actors.push(Actor { submitted, utilisation, ..waiting });
            // The peak moves only where a job goes, not whether it is admitted: that of the job that goes is enough.
            if expected.is_some_and(|expected| expected["job"] == job["id"]) {
                peak = number(job, "util_max") / number(job, "util_avg");
            }
        }
        let config = serde_json::json!({
            "theta": case["theta"].as_f64().unwrap_or(0.0), "peak": peak, "twice": true,
        });
        let found = scene.first_start(&policy, &config.to_string());
        let wanted = expected.map(|expected| {
            let waits = queue.iter().position(|job| job["id"] == expected["job"]).expect("a job");
            let gpu = |pair: &Value| {
                let (node, gpu) = (pair[0].as_u64().expect("a node") as usize, pair[1].as_u64().expect("a GPU") as u32);
                sizes[..node].iter().map(|(gpus, _)| gpus).sum::<u32>() + gpu
            };
            (JobId::at(first + waits), list(&expected["placement"]).iter().map(gpu).collect())
        });
        assert_eq!(found, wanted, "case {at}");
    }
    assert_eq!(list(&cases).len(), 60);
}
