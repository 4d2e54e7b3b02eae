// What policies in JavaScript have in common: the cluster as it is, places for gangs, the configuration, and what the host calls.
//
// Times are whole microseconds from the start of the experiment; SECOND is one second of them. What has no name here is in the
// contract, wit/policy.wit: import it from 'sandtable:policy/…@0.2.0'. The types are in sandtable-policy.d.ts, those of the contract in
// sandtable-contract.d.ts.
import { occupancy, rejections } from 'sandtable:policy/cluster@0.2.0';
import { attained, classes, users, workloads } from 'sandtable:policy/introductions@0.2.0';
import { write } from 'sandtable:policy/log@0.2.0';
import { estimate } from 'sandtable:policy/predictor@0.2.0';

export const SECOND = 1_000_000;
const UNKNOWN = 2 ** 53 - 1;
const NONE = 2 ** 32 - 1;

const known = (value) => (value === UNKNOWN ? undefined : value);
// Ids from 2^31 on come as negative numbers.
const knownId = (value) => (value >>> 0 === NONE ? undefined : value);

/** A job that has not ended. */
export class Job {
  constructor(arrival, cluster) {
    this.id = arrival.job;
    this.submitted = arrival.submitted;
    this.demand = cluster.demands[arrival.class];
    this.gpus = this.demand.gpus;
    this.user = cluster.users[arrival.user];
    this.priority = arrival.priority;
    this.queue = knownId(arrival.queue);
    this.declared = known(arrival.declaredRunTime);
    this.deadline = known(arrival.deadline);
    this.workload = cluster.workloads[knownId(arrival.workload)];
    this.phase = 'queued';
    this.held = [];
    this.waitingSince = arrival.submitted;
    this.holdingSince = 0;
    this.gpuTime = 0;
  }

  /** GPU time that it has had until now: its GPUs times how long it has held them. */
  attained(now) {
    return this.gpuTime + this.held.length * (now - this.holdingSince);
  }
}

/** The cluster as the host has told it, and what the policy does with it in this decision. */
export class Cluster {
  constructor(setup) {
    this.now = 0;
    this.trigger = 'event';
    this.types = setup.topology.gpuTypes;
    this.nodes = setup.topology.nodes.filter((node) => node.pool === 'training');
    this.queues = setup.queues;
    this.knowledge = setup.knowledge;
    this.jobs = new Map();
    this.free = new Map();
    this.rejections = [];
    this.demands = [];
    this.users = [];
    this.workloads = [];
    this.nodeOf = setup.topology.nodes.flatMap((node) => Array(node.gpus).fill(node.id));
    this.down = new Set(setup.topology.nodes.filter((node) => node.health === 'down').map((node) => node.id));
    this.actions = [];
    this.timers = 0;
  }

  /** Jobs that wait, by id. */
  get waiting() {
    return [...this.jobs.values()].filter((job) => job.phase === 'queued');
  }

  /** Jobs that hold GPUs, by id. */
  get running() {
    return [...this.jobs.values()].filter((job) => job.held.length > 0);
  }

  /** An estimate of each job, as 'remaining', on the first type of GPU that it allows; NaN where it is not known. */
  estimate(what, jobs) {
    const first = jobs.map((job) => (job.demand.gpuTypes.length > 0 ? job.demand.gpuTypes[0] : this.types[0].id));
    return [...estimate(what, { job: jobs.map((job) => job.id), gpuType: first, gpus: [] })];
  }

  /** Seconds left of each job; needs `remaining`. */
  remaining(jobs) {
    return this.estimate('remaining', jobs);
  }

  /** GPUs of one type for a job: of the node that it fits best, else of the fewest nodes; undefined where it finds no place. */
  place(job) {
    const { demand } = job;
    const allowed = demand.gpuTypes.length > 0 ? [...demand.gpuTypes] : this.types.map((of) => of.id);
    for (const of of allowed) {
      if (this.types[of].memoryMib > 0 && demand.memoryMib > this.types[of].memoryMib) continue;
      const size = (node) => this.free.get(node).length;
      const up = this.nodes.filter((node) => node.gpuType === of && this.free.has(node.id)).map((node) => node.id);
      const left = up.filter((node) => size(node) > 0);
      if (left.reduce((sum, node) => sum + size(node), 0) < job.gpus) continue;
      const found = [];
      while (found.length < job.gpus) {
        const rest = job.gpus - found.length;
        const fitting = left.filter((node) => size(node) >= rest);
        // The first of the best: nodes are in the order of their ids.
        const better = fitting.length > 0 ? (a, b) => size(b) < size(a) : (a, b) => size(b) > size(a);
        const node = (fitting.length > 0 ? fitting : left).reduce((a, b) => (better(a, b) ? b : a));
        left.splice(left.indexOf(node), 1);
        found.push(...this.free.get(node).slice(0, rest));
      }
      return found;
    }
    return undefined;
  }

  /** Starts a job on these GPUs, or where `place` says. Returns whether it found a place. */
  start(job, gpus = this.place(job)) {
    if (gpus === undefined) return false;
    for (const gpu of gpus) {
      const free = this.free.get(this.nodeOf[gpu]) ?? [];
      if (!free.includes(gpu)) throw new Error(`job ${job.id} can't start on GPU ${gpu}: it is not free`);
      free.splice(free.indexOf(gpu), 1);
    }
    Object.assign(job, { held: [...gpus].sort((a, b) => a - b), phase: 'starting', holdingSince: this.now });
    this.actions.push({ tag: 'start', val: { job: job.id, gpus: [...gpus], batch: undefined } });
    return true;
  }

  /** Starts jobs in this order, until one finds no place; with `skip` those behind it may pass. */
  startInOrder(jobs, skip = false) {
    for (const job of jobs) if (!this.start(job) && !skip) return;
  }

  /**
   * Takes a job's GPUs, after its state is saved; with `kill` at once. They are free for others in the same decision. Needs the
   * ability `preempt`.
   */
  preempt(job, kill = false) {
    for (const gpu of job.held) this.free.get(this.nodeOf[gpu])?.push(gpu);
    for (const gpu of job.held) this.free.get(this.nodeOf[gpu])?.sort((a, b) => a - b);
    this.release(job, this.now, 'stopping');
    this.actions.push({ tag: 'preempt', val: { job: job.id, mode: kill ? 'kill' : 'checkpoint' } });
  }

  /** Ends a job that waits, for good. Needs the ability `refuse`. */
  refuse(job) {
    job.phase = 'ended';
    this.actions.push({ tag: 'refuse', val: job.id });
  }

  /** Has `decide` called at an instant that is to come. Needs the ability `timers`. */
  callAt(at) {
    this.timers += 1;
    this.actions.push({ tag: 'set-timer', val: { token: this.timers, at } });
  }

  release(job, at, phase) {
    if (job.held.length > 0) Object.assign(job, { gpuTime: job.attained(at), waitingSince: at });
    Object.assign(job, { held: [], phase });
  }

  /** What happened since the last decision, and what is free now. */
  takeIn(batch) {
    Object.assign(this, { now: batch.now, trigger: batch.trigger, rejections: [] });
    if (batch.fresh.classes) this.demands.push(...classes());
    if (batch.fresh.workloads) this.workloads.push(...workloads());
    if (batch.fresh.users) this.users.push(...users());
    for (const event of batch.events) this.takeInEvent(event);
    const held = new Map();
    const [gpus, jobs] = occupancy();
    gpus.forEach((gpu, at) => (held.get(jobs[at])?.push(gpu) ?? held.set(jobs[at], [gpu])));
    for (const job of this.jobs.values()) {
      const own = held.get(job.id) ?? [];
      if (job.phase === 'ended') job.phase = 'queued'; // It was not refused after all.
      if (own.length === job.held.length && own.every((gpu, at) => gpu === job.held[at])) continue;
      // A start or a preemption that was refused, or another policy's jobs. Of one that goes on, since it was to stop.
      Object.assign(job, { held: own, holdingSince: job.phase === 'stopping' ? job.waitingSince : this.now });
      if (own.length > 0 && ['queued', 'stopping'].includes(job.phase)) job.phase = 'running';
      else if (own.length === 0 && ['starting', 'running'].includes(job.phase)) job.phase = 'queued';
    }
    if (batch.fresh.attained) {
      for (const { job, gpuTime } of attained()) Object.assign(this.jobs.get(job), { gpuTime, holdingSince: this.now });
    }
    const taken = new Set(gpus);
    this.free = new Map();
    for (const node of this.nodes.filter(({ id }) => !this.down.has(id))) {
      const all = Array.from({ length: node.gpus }, (_, index) => node.firstGpu + index);
      this.free.set(node.id, all.filter((gpu) => !taken.has(gpu)));
    }
  }

  takeInEvent({ tag, val }) {
    const job = this.jobs.get(val?.job);
    switch (tag) {
      case 'job-arrived':
        this.jobs.set(val.job, new Job(val, this));
        break;
      case 'job-ended':
        this.jobs.delete(val.job);
        break;
      case 'job-changed':
        if (job === undefined) break;
        if (val.phase === 'queued' || val.phase === 'stopping') this.release(job, val.at, val.phase);
        else if (job.held.length > 0 || this.trigger === 'resync') job.phase = val.phase;
        break;
      case 'node-changed':
        if (val.health === 'up') this.down.delete(val.node);
        else this.down.add(val.node);
        break;
      case 'rejected':
        this.rejections = [...rejections()];
        for (const { message } of this.rejections) write('warn', message);
        break;
    }
  }
}

// An error of the contract: this configuration is refused.
const badConfig = (val) => ({ tag: 'bad-config', val });

// The configuration, checked: what is unknown or ill-typed is refused, never ignored.
function read(params, text) {
  const config = JSON.parse(text);
  for (const [name, value] of Object.entries(config)) {
    if (!Object.hasOwn(params, name)) {
      throw badConfig(`no parameter \`${name}\`: it has ${Object.keys(params).join(', ') || 'none'}`);
    }
    const [start, , words] = params[name];
    if (typeof value !== typeof start) {
      throw badConfig(`\`${name}\`: expected a ${typeof start}, found ${JSON.stringify(value)}`);
    }
    if (words && !words.includes(value)) {
      throw badConfig(`\`${name}\`: expected one of ${words.join(', ')}, found ${value}`);
    }
  }
  return Object.fromEntries(Object.entries(params).map(([name, [start]]) => [name, config[name] ?? start]));
}

function schema(params) {
  const of = ([start, description, words]) => ({ type: typeof start, default: start, description, enum: words });
  const properties = Object.fromEntries(Object.entries(params).map(([name, param]) => [name, of(param)]));
  return JSON.stringify({ type: 'object', additionalProperties: false, properties });
}

// 'declared-run-time' is declaredRunTime in JavaScript.
const flags = (names = []) =>
  Object.fromEntries(names.map((name) => [name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()), true]));

/**
 * What the host calls. `policy` has a name and a function `decide(cluster)`, and may have `about`, `params` (name: [default, what
 * it is, words of a choice]), `uses`, `needs`, `round` (seconds) and `init(setup)`.
 */
export function scheduler(policy) {
  let cluster;
  return {
    describe: () => ({
      name: policy.name,
      version: policy.version ?? '0.1.0',
      about: policy.about ?? '',
      uses: flags(policy.uses),
      needs: flags(policy.needs),
      configSchema: schema(policy.params ?? {}),
    }),
    init: (setup) => {
      policy.options = read(policy.params ?? {}, setup.config);
      cluster = new Cluster(setup);
      policy.init?.(setup);
      const round = policy.round === undefined ? undefined : Math.round(policy.round * SECOND);
      return { cadence: { round, onEvents: true, ends: 'always' }, uses: flags(policy.uses) };
    },
    decide: (batch) => {
      cluster.takeIn(batch);
      policy.decide(cluster);
      const { actions } = cluster;
      cluster.actions = [];
      return { base: batch.seq, actions };
    },
  };
}
