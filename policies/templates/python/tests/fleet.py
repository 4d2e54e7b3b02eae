"""A small fleet for a policy's own tests: nothing costs anything, estimates are true, and every plan must be right. Experiments
have the real one."""

import json
import sys
from pathlib import Path

for _folder in [Path(__file__).parent / "stubs", Path(__file__).parent.parent]:
    sys.path.insert(0, str(_folder))

from componentize_py_types import Err  # noqa: E402
from wit_world.imports import cluster, introductions, log, predictor, types  # noqa: E402

SECOND = 1_000_000
UNKNOWN, NONE = 2**53 - 1, 2**32 - 1


def completion_times(policy, nodes, jobs, **options):
    """Runs a policy, a module with `Scheduler`, on nodes of these many GPUs; jobs are their submission, GPUs and run time in
    seconds, and maybe a deadline. Returns the seconds of each from submission to completion, or until it was refused."""
    return [(end - job[0] * SECOND) / SECOND for end, job in zip(_Run(policy, nodes, jobs, options).ends(), jobs)]


def _demand(gpus):
    unknown = types.HostResources(0, 0)
    near = types.Nearness(None, None)
    return types.Demand(gpus, 0, unknown, near, 1000, None, 0, [], True, None, None)


def _setup(nodes, options):
    fleet, first = [], 0
    for at, gpus in enumerate(nodes):
        up, training, host = types.NodeHealth.UP, types.Pool.TRAINING, types.HostResources(0, 0)
        fleet.append(types.Node(at, f"n{at}", 0, first, gpus, up, [], [], training, host, None))
        first += gpus
    topology = types.Topology([types.GpuType(0, "gpu", 0, types.Sharing_Exclusive())], [], fleet)
    knowledge = types.Knowledge.REMAINING | types.Knowledge.DECLARED_RUN_TIME
    return types.Setup(json.dumps(options, sort_keys=True), 1, b"", topology, knowledge, [], [], [], 10_000)


class _Run:
    def __init__(self, policy, nodes, jobs, options):
        self.policy, self.jobs, self.now = policy, jobs, 0
        self.left = [job[2] * SECOND for job in jobs]
        self.held = {}  # job: its GPUs
        self.done = [None] * len(jobs)
        self.gpus = sum(nodes)
        self.timers = {}  # token: instant
        self.sizes, self.fresh = [], []
        cluster.now = lambda: self.now
        cluster.occupancy = self.occupancy
        cluster.rejections = lambda: []
        cluster.speeds = lambda jobs: [1.0 for _ in jobs]
        introductions.classes = lambda: [_demand(size) for size in self.fresh]
        introductions.workloads = introductions.samples = introductions.attained = lambda: []
        introductions.users = lambda: [""]
        predictor.estimate = self.estimate
        log.write = lambda level, message: print(message)
        try:
            self.readiness = policy.Scheduler().init(_setup(nodes, options))
        except Err as error:
            raise ValueError(error.value.value) from error

    def occupancy(self):
        pairs = sorted((gpu, job) for job, gpus in self.held.items() for gpu in gpus)
        return [gpu for gpu, _ in pairs], [job for _, job in pairs]

    def estimate(self, what, shapes):
        assert what in (predictor.Quantity.REMAINING, predictor.Quantity.THROUGHPUT), f"no estimates of {what} here"
        remaining = what == predictor.Quantity.REMAINING
        return [self.left[job] / SECOND if remaining else 1.0 for job in shapes.job]

    def ends(self):
        seq, arrived, events = 0, 0, []
        while None in self.done:
            # A job that lost its GPUs causes a call at once; other outcomes are told with the next one.
            if not any(getattr(event.value, "phase", None) == types.JobPhase.QUEUED for event in events):
                self.advance(arrived, events)
            first = arrived
            while arrived < len(self.jobs) and self.jobs[arrived][0] * SECOND <= self.now:
                arrived += 1
            events += self.arrivals(range(first, arrived))
            fresh = types.Fresh.CLASSES if self.fresh else types.Fresh(0)
            fresh |= types.Fresh.USERS if seq == 0 else types.Fresh(0)
            is_round = self.readiness.cadence.round and self.now % self.readiness.cadence.round == 0
            timed = bool(events) and all(isinstance(event, types.Event_Timer) for event in events)
            trigger = types.Trigger.ROUND if is_round else types.Trigger.TIMER if timed else types.Trigger.EVENT
            plan = self.policy.Scheduler().decide(types.Batch(seq, self.now, trigger, fresh, events))
            assert plan.base == seq, f"the plan is of batch {plan.base}, and answers batch {seq}"
            events, self.fresh, seq = [], [], seq + 1
            for action in plan.actions:
                events += self.carry_out(action)
        return self.done

    def advance(self, arrived, events):
        """To the next instant at which something happens: an arrival, an end, a timer, a round."""
        next_ = [self.now + self.left[job] for job in self.held] + list(self.timers.values())
        if arrived < len(self.jobs):
            next_.append(max(self.now, self.jobs[arrived][0] * SECOND))
        every = self.readiness.cadence.round
        if every:
            next_.append((self.now // every + 1) * every)
        assert next_, f"the policy left jobs behind: {[job for job, end in enumerate(self.done) if end is None]}"
        passed = min(next_) - self.now
        self.now += passed
        for job in sorted(self.held):
            self.left[job] -= passed
            if self.left[job] == 0:
                self.done[job] = self.now
                del self.held[job]
                events.append(types.Event_JobEnded(types.JobEnd(job, self.now)))
        for token in [token for token, at in self.timers.items() if at <= self.now]:
            del self.timers[token]
            events.append(types.Event_Timer(token))

    def arrivals(self, jobs):
        for job in jobs:
            submitted, size, seconds, *deadline = self.jobs[job]
            due = deadline[0] * SECOND if deadline else UNKNOWN
            if size not in self.sizes:
                self.sizes.append(size)
                self.fresh.append(size)
            class_, left = self.sizes.index(size), self.left[job]
            yield types.Event_JobArrived(
                types.Arrival(job, class_, submitted * SECOND, 0, NONE, seconds * SECOND, due, 0, NONE, left)
            )

    def carry_out(self, action):
        def changed(job, phase):
            change = types.PhaseChange(job, phase, self.now, types.ChangeCause.ASKED, self.left[job])
            return types.Event_JobChanged(change)

        match action:
            case types.Action_Start(start):
                taken = {gpu for gpus in self.held.values() for gpu in gpus}
                size = self.jobs[start.job][1]
                right = len(set(start.gpus)) == size and not taken & set(start.gpus) and max(start.gpus) < self.gpus
                assert right, f"job {start.job} asks for {size} GPUs and can't start on {start.gpus}; taken are {sorted(taken)}"
                assert self.done[start.job] is None and start.job not in self.held, f"job {start.job} does not wait"
                self.held[start.job] = start.gpus
                return [changed(start.job, types.JobPhase.RUNNING)]
            case types.Action_Preempt(preempt):
                assert preempt.job in self.held, f"job {preempt.job} holds no GPUs"
                del self.held[preempt.job]
                return [changed(preempt.job, types.JobPhase.STOPPING), changed(preempt.job, types.JobPhase.QUEUED)]
            case types.Action_Refuse(job):
                assert self.done[job] is None and job not in self.held, f"job {job} does not wait"
                self.done[job] = self.now
                return [types.Event_JobEnded(types.JobEnd(job, self.now))]
            case types.Action_SetTimer(timer):
                assert timer.at > self.now and timer.token not in self.timers, f"timer {timer.token} at {timer.at}"
                self.timers[timer.token] = timer.at
                return []
        raise AssertionError(f"no such action here: {action}")
