// NAME: first come, first served; a job that finds no place blocks those behind it.
//
// Everything that this policy knows comes in through `init` and `decide`: it has no clock, no file and no network. Numbers
// of the contract are plain numbers, exact up to 2^53. The contract is in `wit/policy.wit`.
import { occupancy, rejections } from 'sandtable:policy/cluster@0.2.0';
import { classes } from 'sandtable:policy/introductions@0.2.0';
import { write } from 'sandtable:policy/log@0.2.0';

const CONFIG = {
  type: 'object',
  additionalProperties: false,
  properties: {
    skip: { type: 'boolean', default: false, description: 'Whether jobs may pass one that finds no place.' },
  },
};

let options, types, nodes, down, demands, jobs, waiting;

// An error of the contract: this configuration is refused.
const badConfig = (why) => ({ tag: 'bad-config', val: why });

// The configuration, checked: what is unknown or ill-typed is refused, never ignored.
function read(text) {
  const config = JSON.parse(text);
  const known = CONFIG.properties;
  for (const [name, value] of Object.entries(config)) {
    if (!(name in known)) throw badConfig(`no parameter \`${name}\`: it has ${Object.keys(known).join(', ')}`);
    if (typeof value !== known[name].type) {
      throw badConfig(`\`${name}\`: expected a ${known[name].type}, found ${JSON.stringify(value)}`);
    }
  }
  return Object.fromEntries(Object.entries(known).map(([name, of]) => [name, config[name] ?? of.default]));
}

// Keeps the mirror of the cluster up to date.
function takeIn({ tag, val }) {
  switch (tag) {
    case 'job-arrived':
      jobs.set(val.job, val);
      waiting.add(val.job);
      break;
    case 'job-ended':
      jobs.delete(val.job);
      waiting.delete(val.job);
      break;
    case 'job-changed':
      if (val.phase === 'queued') waiting.add(val.job);
      else waiting.delete(val.job);
      break;
    case 'node-changed':
      if (val.health === 'up') down.delete(val.node);
      else down.add(val.node);
      break;
    case 'rejected':
      for (const { message } of rejections()) write('warn', message);
      break;
  }
}

// GPUs of one type for a gang: the node that they fit best, else the fewest nodes; taken out of `free`.
function place(demand, free) {
  const allowed = demand.gpuTypes.length > 0 ? [...demand.gpuTypes] : types.map((of) => of.id);
  for (const of of allowed) {
    if (types[of].memoryMib > 0 && demand.memoryMib > types[of].memoryMib) continue;
    const left = nodes.filter((node) => node.gpuType === of && (free.get(node.id) ?? []).length > 0).map((node) => node.id);
    const size = (node) => free.get(node).length;
    if (left.reduce((sum, node) => sum + size(node), 0) < demand.gpus) continue;
    const found = [];
    while (found.length < demand.gpus) {
      const rest = demand.gpus - found.length;
      const fitting = left.filter((node) => size(node) >= rest);
      // The first of the best: nodes are in the order of their ids.
      const better = fitting.length > 0 ? (a, b) => size(b) < size(a) : (a, b) => size(b) > size(a);
      const node = (fitting.length > 0 ? fitting : left).reduce((a, b) => (better(a, b) ? b : a));
      left.splice(left.indexOf(node), 1);
      found.push(...free.get(node).splice(0, rest));
    }
    return found;
  }
  return undefined;
}

export const scheduler = {
  describe: () => ({
    name: 'NAME',
    version: '0.1.0',
    about: 'first come, first served, in JavaScript',
    uses: {},
    needs: {},
    configSchema: JSON.stringify(CONFIG),
  }),

  init: (setup) => {
    options = read(setup.config);
    types = setup.topology.gpuTypes;
    nodes = setup.topology.nodes;
    down = new Set(nodes.filter((node) => node.health === 'down').map((node) => node.id));
    demands = []; // what jobs ask for, by class
    jobs = new Map(); // arrivals of jobs that have not ended, by id
    waiting = new Set();
    return { cadence: { round: undefined, onEvents: true, ends: 'always' }, uses: {} };
  },

  decide: (batch) => {
    if (batch.fresh.classes) demands.push(...classes());
    batch.events.forEach(takeIn);
    const taken = new Set(occupancy()[0]);
    const free = new Map(); // by node: its free GPUs, ascending
    for (const node of nodes) {
      if (down.has(node.id) || node.pool !== 'training') continue;
      const gpus = Array.from({ length: node.gpus }, (_, index) => node.firstGpu + index);
      free.set(node.id, gpus.filter((gpu) => !taken.has(gpu)));
    }
    const actions = [];
    const order = [...waiting].sort((a, b) => jobs.get(a).submitted - jobs.get(b).submitted || a - b);
    for (const job of order) {
      const gpus = place(demands[jobs.get(job).class], free);
      if (gpus === undefined) {
        if (options.skip) continue;
        break;
      }
      waiting.delete(job);
      actions.push({ tag: 'start', val: { job, gpus, batch: undefined } });
    }
    return { base: batch.seq, actions };
  },
};
