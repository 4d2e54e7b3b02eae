/// <reference path="./sandtable-contract.d.ts" />
// Types of sandtable-policy.js. Those of the contract are in sandtable-contract.d.ts.
import type { Demand, GpuType, Knowledge, Node, Queue, Rejection, Setup, Trigger, WorkloadProfile } from 'sandtable:policy/types@0.2.0';
import type { Quantity } from 'sandtable:policy/predictor@0.2.0';

export type { Demand, GpuType, Knowledge, Node, Queue, Rejection, Setup, Trigger, WorkloadProfile, Quantity };

export const SECOND: number;

export type Phase = 'queued' | 'starting' | 'running' | 'stopping' | 'ended';

export class Job {
  readonly id: number;
  readonly submitted: number;
  /** All that it asks for. */
  readonly demand: Demand;
  readonly gpus: number;
  readonly user: string;
  readonly priority: number;
  readonly queue?: number;
  /** Run time that its user declared; needs `declared-run-time`. */
  readonly declared?: number;
  readonly deadline?: number;
  /** What is known of its workload. */
  readonly workload?: WorkloadProfile;
  readonly phase: Phase;
  /** Its GPUs; empty unless it starts or runs. */
  readonly held: readonly number[];
  readonly waitingSince: number;
  attained(now: number): number;
}

export class Cluster {
  readonly now: number;
  readonly trigger: Trigger;
  readonly types: readonly GpuType[];
  readonly nodes: readonly Node[];
  readonly queues: readonly Queue[];
  readonly knowledge: Readonly<Knowledge>;
  /** Jobs that have not ended, by id. */
  readonly jobs: ReadonlyMap<number, Job>;
  /** Free GPUs of each node that is up, ascending, by the node's id. */
  readonly free: ReadonlyMap<number, readonly number[]>;
  /** What the host refused of the previous decision. */
  readonly rejections: readonly Rejection[];
  readonly waiting: Job[];
  readonly running: Job[];
  estimate(what: Quantity, jobs: Job[]): number[];
  remaining(jobs: Job[]): number[];
  place(job: Job): number[] | undefined;
  start(job: Job, gpus?: number[]): boolean;
  startInOrder(jobs: Job[], skip?: boolean): void;
  preempt(job: Job, kill?: boolean): void;
  refuse(job: Job): void;
  callAt(at: number): void;
}

export interface Policy {
  name: string;
  version?: string;
  about?: string;
  /** Parameters of a spec's `with`: the default, what it is, and the words of a choice. */
  params?: Record<string, [value: boolean | number | string, about: string, words?: string[]]>;
  /** Abilities beside `start`, as in the contract. */
  uses?: ('preempt' | 'timers' | 'refuse' | string)[];
  /** Knowledge, as in the contract. */
  needs?: ('remaining' | 'declared-run-time' | 'solo-profile' | string)[];
  /** Seconds between rounds, in which it is called too. */
  round?: number;
  /** The values of its parameters, from `init` on. */
  options?: Record<string, boolean | number | string>;
  init?(setup: Setup): void;
  decide(cluster: Cluster): void;
}

export function scheduler(policy: Policy & ThisType<Policy & { options: Record<string, any> }>): typeof import('sandtable:policy/scheduler@0.2.0');
