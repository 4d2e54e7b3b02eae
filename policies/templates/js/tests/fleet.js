// A small fleet for a policy's own tests: nothing costs anything, estimates are true, and every plan must be right. Experiments
// have the real one.
import assert from 'node:assert/strict';
import { register } from 'node:module';

// What a policy imports of the contract is this module.
const own = JSON.stringify(import.meta.url);
const hook = `export const resolve = (name, context, next) =>
  name.startsWith('sandtable:') ? { url: ${own}, shortCircuit: true } : next(name, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

const SECOND = 1_000_000;
const UNKNOWN = 2 ** 53 - 1;
const NONE = 2 ** 32 - 1;

let run;
export const occupancy = () => run.occupancy();
export const rejections = () => [];
export const classes = () => run.fresh.map(demand);
export const users = () => [''];
export const workloads = () => [];
export const attained = () => [];
export const samples = () => [];
export const write = (_, message) => console.log(message);
export const speeds = (jobs) => jobs.map(() => 1);
export const estimate = (what, { job }) => {
  assert(['remaining', 'throughput'].includes(what), `no estimates of ${what} here`);
  return job.map((id) => (what === 'remaining' ? run.left[id] / SECOND : 1));
};

/**
 * Runs a policy, the path of its module from here, on nodes of these many GPUs; jobs are their submission, GPUs and run time in
 * seconds, and maybe a deadline. Returns the seconds of each from submission to completion, or until it was refused.
 */
export async function completionTimes(policy, nodes, jobs, options = {}) {
  const { scheduler } = await import(policy);
  run = new Run(scheduler, nodes, jobs, options);
  return run.ends().map((end, job) => (end - jobs[job][0] * SECOND) / SECOND);
}

const host = { cpuMilli: 0, memoryMib: 0 };
const demand = (gpus) => ({ gpus, gpusPerNode: 0, host, near: {}, shareMilli: 1000, memoryMib: 0, gpuTypes: [], preemptible: true });

function setup(nodes, options) {
  let firstGpu = 0;
  const node = (gpus, id) => {
    firstGpu += gpus;
    const where = { id, name: `n${id}`, gpuType: 0, firstGpu: firstGpu - gpus, gpus };
    return { ...where, health: 'up', links: [], domains: [], pool: 'training', host };
  };
  const gpuTypes = [{ id: 0, name: 'gpu', memoryMib: 0, sharing: { tag: 'exclusive' } }];
  const topology = { gpuTypes, levels: [], nodes: nodes.map(node) };
  const knowledge = { remaining: true, declaredRunTime: true };
  const config = JSON.stringify(options);
  return { config, seed: 1, weights: [], topology, knowledge, references: [], services: [], queues: [], maxActions: 10_000 };
}

class Run {
  constructor(scheduler, nodes, jobs, options) {
    Object.assign(this, { scheduler, jobs, now: 0, held: new Map(), timers: new Map(), sizes: [], fresh: [] });
    this.left = jobs.map(([, , seconds]) => seconds * SECOND);
    this.done = jobs.map(() => undefined);
    this.gpus = nodes.reduce((sum, gpus) => sum + gpus, 0);
    try {
      this.readiness = scheduler.init(setup(nodes, options));
    } catch (error) {
      throw error.tag ? new Error(error.val) : error;
    }
  }

  occupancy() {
    const pairs = [...this.held].flatMap(([job, gpus]) => gpus.map((gpu) => [gpu, job])).sort((a, b) => a[0] - b[0]);
    return [pairs.map(([gpu]) => gpu), pairs.map(([, job]) => job)];
  }

  ends() {
    let [seq, arrived, events] = [0, 0, []];
    const { round } = this.readiness.cadence;
    while (this.done.includes(undefined)) {
      // A job that lost its GPUs causes a call at once; other outcomes are told with the next one.
      if (!events.some(({ val }) => val.phase === 'queued')) this.advance(arrived, events, round);
      for (; arrived < this.jobs.length && this.jobs[arrived][0] * SECOND <= this.now; arrived += 1) {
        events.push(this.arrival(arrived));
      }
      const fresh = { classes: this.fresh.length > 0, users: seq === 0 };
      const timed = events.length > 0 && events.every(({ tag }) => tag === 'timer');
      const trigger = round && this.now % round === 0 ? 'round' : timed ? 'timer' : 'event';
      const plan = this.scheduler.decide({ seq, now: this.now, trigger, fresh, events });
      assert.equal(plan.base, seq, 'the batch that the plan answers');
      this.fresh = [];
      seq += 1;
      events = plan.actions.flatMap((action) => this.carryOut(action));
    }
    return this.done;
  }

  /** To the next instant at which something happens: an arrival, an end, a timer, a round. */
  advance(arrived, events, round) {
    const next = [...[...this.held.keys()].map((job) => this.now + this.left[job]), ...this.timers.values()];
    if (arrived < this.jobs.length) next.push(Math.max(this.now, this.jobs[arrived][0] * SECOND));
    if (round) next.push((Math.floor(this.now / round) + 1) * round);
    assert(next.length > 0, 'the policy left jobs behind');
    const passed = Math.min(...next) - this.now;
    this.now += passed;
    for (const job of [...this.held.keys()].sort((a, b) => a - b)) {
      this.left[job] -= passed;
      if (this.left[job] > 0) continue;
      this.done[job] = this.now;
      this.held.delete(job);
      events.push({ tag: 'job-ended', val: { job, at: this.now } });
    }
    for (const [token, at] of [...this.timers].filter(([, at]) => at <= this.now)) {
      this.timers.delete(token);
      events.push({ tag: 'timer', val: token, at });
    }
  }

  arrival(job) {
    const [submitted, size, seconds, deadline] = this.jobs[job];
    if (!this.sizes.includes(size)) {
      this.sizes.push(size);
      this.fresh.push(size);
    }
    const due = deadline === undefined ? UNKNOWN : deadline * SECOND;
    const times = { submitted: submitted * SECOND, declaredRunTime: seconds * SECOND, deadline: due, remaining: this.left[job] };
    return { tag: 'job-arrived', val: { job, class: this.sizes.indexOf(size), user: 0, workload: NONE, priority: 0, queue: NONE, ...times } };
  }

  carryOut({ tag, val }) {
    const changed = (job, phase) => ({ tag: 'job-changed', val: { job, phase, at: this.now, cause: 'asked', remaining: this.left[job] } });
    if (tag === 'start') {
      const taken = new Set([...this.held.values()].flat());
      const free = val.gpus.every((gpu) => gpu < this.gpus && !taken.has(gpu));
      const size = this.jobs[val.job][1];
      assert(free && new Set(val.gpus).size === size, `job ${val.job} asks for ${size} GPUs and can't start on ${val.gpus}`);
      assert(this.done[val.job] === undefined && !this.held.has(val.job), `job ${val.job} does not wait`);
      this.held.set(val.job, val.gpus);
      return [changed(val.job, 'running')];
    }
    if (tag === 'preempt') {
      assert(this.held.delete(val.job), `job ${val.job} holds no GPUs`);
      return [changed(val.job, 'stopping'), changed(val.job, 'queued')];
    }
    if (tag === 'refuse') {
      assert(this.done[val] === undefined && !this.held.has(val), `job ${val} does not wait`);
      this.done[val] = this.now;
      return [{ tag: 'job-ended', val: { job: val, at: this.now } }];
    }
    if (tag === 'set-timer') {
      assert(val.at > this.now && !this.timers.has(val.token), `timer ${val.token} at ${val.at}`);
      this.timers.set(val.token, val.at);
      return [];
    }
    throw new Error(`no such action here: ${tag}`);
  }
}
