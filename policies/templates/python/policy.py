"""NAME: first come, first served; a job that finds no place blocks those behind it.

Everything that this policy knows comes in through `init` and `decide`: it has no clock, no file and no network. Modules
are imported at the top alone: there is nothing to import from later. The contract is in `wit/policy.wit`.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import cluster, introductions, log, types

CONFIG = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "skip": {"type": "boolean", "default": False, "description": "Whether jobs may pass one that finds no place."},
    },
}


def options(text):
    """The configuration, checked; an unknown or ill-typed parameter is refused, never ignored."""
    config = json.loads(text)
    known = CONFIG["properties"]
    for name, value in config.items():
        if name not in known:
            raise Err(types.PolicyError_BadConfig(f"no parameter `{name}`: it has {', '.join(known)}"))
        if type(value) is not type(known[name]["default"]):
            raise Err(types.PolicyError_BadConfig(f"`{name}`: expected a {known[name]['type']}, found {json.dumps(value)}"))
    return {name: config.get(name, of["default"]) for name, of in known.items()}


class Policy:
    """The policy between calls."""

    def __init__(self, setup):
        self.options = options(setup.config)
        self.types = {of.id: of for of in setup.topology.gpu_types}
        self.nodes = setup.topology.nodes
        self.down = {node.id for node in self.nodes if node.health == types.NodeHealth.DOWN}
        self.classes = []  # what jobs ask for: the demand of each class
        self.jobs = {}  # jobs that have not ended: id to arrival
        self.waiting = set()  # ids

    def decide(self, batch):
        if types.Fresh.CLASSES in batch.fresh:
            self.classes += introductions.classes()
        for event in batch.events:
            self.take_in(event)
        taken = set(cluster.occupancy()[0])
        free = {  # by node: its free GPUs, ascending
            node.id: [gpu for gpu in range(node.first_gpu, node.first_gpu + node.gpus) if gpu not in taken]
            for node in self.nodes
            if node.id not in self.down and node.pool == types.Pool.TRAINING
        }
        actions = []
        for job in sorted(self.waiting, key=lambda job: (self.jobs[job].submitted, job)):
            gpus = self.place(self.classes[self.jobs[job].class_], free)
            if gpus is None:
                if self.options["skip"]:
                    continue
                break
            self.waiting.remove(job)
            actions.append(types.Action_Start(types.Start(job, gpus, None)))
        return actions

    def take_in(self, event):
        """Keeps the mirror of the cluster up to date."""
        match event:
            case types.Event_JobArrived(arrival):
                self.jobs[arrival.job] = arrival
                self.waiting.add(arrival.job)
            case types.Event_JobEnded(end):
                self.jobs.pop(end.job, None)
                self.waiting.discard(end.job)
            case types.Event_JobChanged(change):
                if change.phase == types.JobPhase.QUEUED:
                    self.waiting.add(change.job)
                else:
                    self.waiting.discard(change.job)
            case types.Event_NodeChanged(change):
                (self.down.discard if change.health == types.NodeHealth.UP else self.down.add)(change.node)
            case types.Event_Rejected():
                for rejection in cluster.rejections():
                    log.write(log.Level.WARN, rejection.message)

    def place(self, demand, free):
        """GPUs of one type for a gang: the node that they fit best, else the fewest nodes; taken out of `free`."""
        for of in demand.gpu_types or sorted(self.types):
            if demand.memory_mib > self.types[of].memory_mib > 0:
                continue
            nodes = {node.id: len(free[node.id]) for node in self.nodes if node.gpu_type == of and free.get(node.id)}
            if sum(nodes.values()) < demand.gpus:
                continue
            found, left = [], demand.gpus
            while left > 0:
                fitting = [node for node, count in nodes.items() if count >= left]
                node = min(fitting, key=nodes.get) if fitting else max(nodes, key=nodes.get)
                take = min(left, nodes.pop(node))
                found += free[node][:take]
                free[node] = free[node][take:]
                left -= take
            return found
        return None


policy = None


class Scheduler(exports.Scheduler):
    """What the host calls. Every call comes to a new object: what lasts is in `policy`."""

    def describe(self):
        return types.Descriptor(
            name="NAME",
            version="0.1.0",
            about="first come, first served, in Python",
            uses=types.Abilities(0),
            needs=types.Knowledge(0),
            config_schema=json.dumps(CONFIG),
        )

    def init(self, setup):
        global policy
        policy = Policy(setup)
        cadence = types.Cadence(round=None, on_events=True, ends=types.Wake.ALWAYS)
        return types.Readiness(cadence=cadence, uses=types.Abilities(0))

    def decide(self, batch):
        return types.Plan(batch.seq, policy.decide(batch))
