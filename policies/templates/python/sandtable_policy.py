"""What policies in Python have in common: the cluster as it is, places for gangs, the configuration, and what the host calls.

Times are whole microseconds from the start of the experiment; `SECOND` is one second of them. What has no name here is in the
contract: `wit_world.imports` has its types and functions, `wit/policy.wit` says what they mean.
"""

import json
from bisect import insort
from dataclasses import dataclass, field

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import cluster as host
from wit_world.imports import introductions, log, predictor, types

SECOND = 1_000_000
UNKNOWN = 2**53 - 1
NONE = 2**32 - 1

WORDS = {bool: "boolean", int: "integer", float: "number", str: "string"}


@dataclass(eq=False)
class Job:
    """A job that has not ended."""

    id: int
    submitted: int
    demand: types.Demand
    """All that it asks for."""
    gpus: int
    user: str = ""
    priority: int = 0
    queue: int | None = None
    declared: int | None = None
    """Run time that its user declared; needs `declared-run-time`."""
    deadline: int | None = None
    workload: types.WorkloadProfile | None = None
    phase: types.JobPhase = types.JobPhase.QUEUED
    held: list[int] = field(default_factory=list)
    """Its GPUs; empty unless it starts or runs."""
    waiting_since: int = 0
    holding_since: int = 0
    gpu_time: int = 0
    """GPU time that it has had until it last stopped."""

    def attained(self, now):
        """GPU time that it has had until now: its GPUs times how long it has held them."""
        return self.gpu_time + len(self.held) * (now - self.holding_since)


class Cluster:
    """The cluster as the host has told it, and what the policy does with it in this decision."""

    def __init__(self, setup):
        topology = setup.topology
        self.now = 0
        self.trigger = types.Trigger.EVENT
        self.types = {of.id: of for of in topology.gpu_types}
        self.nodes = [node for node in topology.nodes if node.pool == types.Pool.TRAINING]
        self.queues = setup.queues
        self.knowledge = setup.knowledge
        self.jobs = {}
        """Jobs that have not ended, by id."""
        self.free = {}
        """Free GPUs of each node that is up, ascending, by the node's id."""
        self.rejections = []
        """What the host refused of the previous decision."""
        self._node_of = [node.id for node in topology.nodes for _ in range(node.gpus)]
        self._down = {node.id for node in topology.nodes if node.health == types.NodeHealth.DOWN}
        self._demands, self._workloads, self._users = [], [], []
        self._actions = []
        self._timers = 0

    @property
    def waiting(self):
        """Jobs that wait, by id."""
        return [job for job in self.jobs.values() if job.phase == types.JobPhase.QUEUED]

    @property
    def running(self):
        """Jobs that hold GPUs, by id."""
        return [job for job in self.jobs.values() if job.held]

    def estimate(self, what, jobs):
        """An estimate of each job, as `remaining`, on the first type of GPU that it allows; NaN where it is not known."""
        first = [(job.demand.gpu_types or sorted(self.types))[0] for job in jobs]
        shapes = predictor.Shapes([job.id for job in jobs], first, [])
        return predictor.estimate(predictor.Quantity[what.upper().replace("-", "_")], shapes)

    def remaining(self, jobs):
        """Seconds left of each job; needs `remaining`."""
        return self.estimate("remaining", jobs)

    def place(self, job):
        """GPUs of one type for a job: of the node that it fits best, else of the fewest nodes; none where it finds no place."""
        for of in job.demand.gpu_types or sorted(self.types):
            if job.demand.memory_mib > self.types[of].memory_mib > 0:
                continue
            up = [node.id for node in self.nodes if node.gpu_type == of and self.free.get(node.id)]
            free = {node: len(self.free[node]) for node in up}
            if sum(free.values()) < job.gpus:
                continue
            found, left = [], job.gpus
            while left > 0:
                fitting = [node for node, count in free.items() if count >= left]
                node = min(fitting, key=free.get) if fitting else max(free, key=free.get)
                take = min(left, free.pop(node))
                found += self.free[node][:take]
                left -= take
            return found
        return None

    def start(self, job, gpus=None):
        """Starts a job on these GPUs, or where `place` says. Returns whether it found a place."""
        gpus = self.place(job) if gpus is None else gpus
        if gpus is None:
            return False
        for gpu in gpus:
            free = self.free.get(self._node_of[gpu], [])
            if gpu not in free:
                raise ValueError(f"job {job.id} can't start on GPU {gpu}: it is not free")
            free.remove(gpu)
        job.held, job.phase, job.holding_since = sorted(gpus), types.JobPhase.STARTING, self.now
        self._actions.append(types.Action_Start(types.Start(job.id, list(gpus), None)))
        return True

    def start_in_order(self, jobs, skip=False):
        """Starts jobs in this order, until one finds no place; with `skip` those behind it may pass."""
        for job in jobs:
            if not self.start(job) and not skip:
                return

    def preempt(self, job, kill=False):
        """Takes a job's GPUs, after its state is saved; with `kill` at once. They are free for others in the same decision. Needs
        the ability `preempt`."""
        mode = types.PreemptMode.KILL if kill else types.PreemptMode.CHECKPOINT
        for gpu in job.held:
            if self._node_of[gpu] in self.free:
                insort(self.free[self._node_of[gpu]], gpu)
        self._release(job, self.now, types.JobPhase.STOPPING)
        self._actions.append(types.Action_Preempt(types.Preempt(job.id, mode)))

    def refuse(self, job):
        """Ends a job that waits, for good. Needs the ability `refuse`."""
        job.phase = types.JobPhase.ENDED
        self._actions.append(types.Action_Refuse(job.id))

    def call_at(self, at):
        """Has `decide` called at an instant that is to come. Needs the ability `timers`."""
        self._timers += 1
        self._actions.append(types.Action_SetTimer(types.Timer(self._timers, at)))

    def _release(self, job, at, phase):
        if job.held:
            job.gpu_time, job.waiting_since = job.attained(at), at
        job.held, job.phase = [], phase

    def _take_in(self, batch):
        """What happened since the last decision, and what is free now."""
        self.now, self.trigger, self.rejections = batch.now, batch.trigger, []
        for name, known in [("CLASSES", self._demands), ("WORKLOADS", self._workloads), ("USERS", self._users)]:
            if types.Fresh[name] in batch.fresh:
                known += getattr(introductions, name.lower())()
        for event in batch.events:
            self._take_in_event(event)
        held = {}
        for gpu, job in zip(*host.occupancy()):
            held.setdefault(job, []).append(gpu)
        for job in self.jobs.values():
            if job.phase == types.JobPhase.ENDED:
                job.phase = types.JobPhase.QUEUED  # It was not refused after all.
            if job.held != held.get(job.id, []):
                # A start or a preemption that was refused, or another policy's jobs. Of one that goes on, since it was to stop.
                stopped = job.phase == types.JobPhase.STOPPING
                job.held, job.holding_since = held.get(job.id, []), job.waiting_since if stopped else self.now
                if job.held and job.phase in (types.JobPhase.QUEUED, types.JobPhase.STOPPING):
                    job.phase = types.JobPhase.RUNNING
                elif not job.held and job.phase in (types.JobPhase.STARTING, types.JobPhase.RUNNING):
                    job.phase = types.JobPhase.QUEUED
        if types.Fresh.ATTAINED in batch.fresh:
            for had in introductions.attained():
                job = self.jobs[had.job]
                job.gpu_time, job.holding_since = had.gpu_time, self.now
        taken = {gpu for gpus in held.values() for gpu in gpus}
        self.free = {
            node.id: [gpu for gpu in range(node.first_gpu, node.first_gpu + node.gpus) if gpu not in taken]
            for node in self.nodes
            if node.id not in self._down
        }

    def _take_in_event(self, event):
        match event:
            case types.Event_JobArrived(arrival):
                self.jobs[arrival.job] = self._arrived(arrival)
            case types.Event_JobEnded(end):
                self.jobs.pop(end.job, None)
            case types.Event_JobChanged(change) if change.job in self.jobs:
                job = self.jobs[change.job]
                if change.phase in (types.JobPhase.QUEUED, types.JobPhase.STOPPING):
                    self._release(job, change.at, change.phase)
                elif job.held or self.trigger == types.Trigger.RESYNC:
                    job.phase = change.phase
            case types.Event_NodeChanged(change):
                (self._down.discard if change.health == types.NodeHealth.UP else self._down.add)(change.node)
            case types.Event_Rejected():
                self.rejections = host.rejections()
                for rejection in self.rejections:
                    log.write(log.Level.WARN, rejection.message)

    def _arrived(self, arrival):
        known = lambda value, none=UNKNOWN: None if value == none else value  # noqa: E731
        workload = known(arrival.workload, NONE)
        return Job(
            id=arrival.job,
            submitted=arrival.submitted,
            demand=self._demands[arrival.class_],
            gpus=self._demands[arrival.class_].gpus,
            user=self._users[arrival.user],
            priority=arrival.priority,
            queue=known(arrival.queue, NONE),
            declared=known(arrival.declared_run_time),
            deadline=known(arrival.deadline),
            workload=None if workload is None else self._workloads[workload],
            waiting_since=arrival.submitted,
        )


class Policy:
    """A policy between calls: give it a `decide`, and what it is."""

    name, version, about = "", "0.1.0", ""
    params = {}
    """Parameters of a spec's `with`: name to (default, what it is), and then the words of a choice."""
    uses = ()
    """Abilities beside `start`, as in the contract: `preempt`, `timers`, `refuse`."""
    needs = ()
    """Knowledge, as in the contract: `remaining`, `declared-run-time`, `solo-profile`."""
    round = None
    """Seconds between rounds, in which it is called too."""

    def __init__(self, setup, options):
        self.setup, self.options = setup, options

    def decide(self, cluster):
        """Starts and preempts jobs of the cluster. Called whenever something happens, and in rounds."""
        raise NotImplementedError


def _flags(of, names):
    flags = of(0)
    for name in names:
        flags |= of[name.upper().replace("-", "_")]
    return flags


def _schema(params):
    properties = {}
    for name, (default, about, *words) in params.items():
        properties[name] = {"type": WORDS[type(default)], "default": default, "description": about}
        if words:
            properties[name]["enum"] = words[0]
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _options(params, text):
    """The configuration, checked; an unknown or ill-typed parameter is refused, never ignored."""
    options = {name: of[0] for name, of in params.items()}
    for name, value in json.loads(text).items():
        if name not in params:
            raise Err(types.PolicyError_BadConfig(f"no parameter `{name}`: it has {', '.join(params) or 'none'}"))
        default, _, *words = params[name]
        if type(default) is float and type(value) is int:
            value = float(value)
        if type(value) is not type(default):
            expected = f"expected a {WORDS[type(default)]}, found {json.dumps(value)}"
            raise Err(types.PolicyError_BadConfig(f"`{name}`: {expected}"))
        if words and value not in words[0]:
            expected = f"expected one of {', '.join(words[0])}, found {value}"
            raise Err(types.PolicyError_BadConfig(f"`{name}`: {expected}"))
        options[name] = value
    return options


def scheduler(policy):
    """What the host calls, for a subclass of `Policy`. Every call comes to a new object: what lasts is kept here."""
    living = []

    class Scheduler(exports.Scheduler):
        def describe(self):
            return types.Descriptor(
                name=policy.name,
                version=policy.version,
                about=policy.about,
                uses=_flags(types.Abilities, policy.uses),
                needs=_flags(types.Knowledge, policy.needs),
                config_schema=json.dumps(_schema(policy.params)),
            )

        def init(self, setup):
            living[:] = [policy(setup, _options(policy.params, setup.config)), Cluster(setup)]
            rounds = None if policy.round is None else round(policy.round * SECOND)
            cadence = types.Cadence(round=rounds, on_events=True, ends=types.Wake.ALWAYS)
            return types.Readiness(cadence=cadence, uses=_flags(types.Abilities, policy.uses))

        def decide(self, batch):
            own, cluster = living
            cluster._take_in(batch)
            own.decide(cluster)
            actions, cluster._actions = cluster._actions, []
            return types.Plan(batch.seq, actions)

    return Scheduler
