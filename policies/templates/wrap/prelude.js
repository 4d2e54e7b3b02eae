// What `sandtable policy build` puts before a policy in JavaScript, in its first line so that lines keep their numbers: no luck
// and no clock of the build, and a console that is the policy's log.
import { panic as __panic, write as __write } from 'sandtable:policy/log@0.1.0';
const __words = (args) => args.map((one) => (typeof one === 'string' ? one : one instanceof Error ? `${one}\n${one.stack ?? ''}` : JSON.stringify(one) ?? String(one))).join(' ');
globalThis.console = Object.fromEntries([['log', 'info'], ['info', 'info'], ['debug', 'debug'], ['warn', 'warn'], ['error', 'error'], ['trace', 'debug']].map(([name, level]) => [name, (...args) => __write(level, __words(args))]));
const __never = (what) => () => { throw new Error(what); };
const __clock = __never('a policy has no clock: use batch.now');
const __Date = Date;
globalThis.Date = new Proxy(__Date, { construct: (of, args) => (args.length === 0 ? __clock() : Reflect.construct(of, args)), apply: __clock, get: (of, key) => (key === 'now' ? __clock : Reflect.get(of, key)) });
const __as = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
__as('performance', { now: __clock });
const __no_entropy = __never('a policy has no entropy: Math.random() is seeded from setup.seed');
__as('crypto', { getRandomValues: __no_entropy, randomUUID: __no_entropy });
Math.random = __never('a policy draws numbers from init on: Math.random() is seeded from setup.seed');
const __seeded = (seed) => { let state = (Number(BigInt.asUintN(32, BigInt(seed))) ^ Number(BigInt.asUintN(32, BigInt(seed) >> 32n))) >>> 0; Math.random = () => { state = (state + 0x6d2b79f5) >>> 0; let x = Math.imul(state ^ (state >>> 15), state | 1); x = (x + Math.imul(x ^ (x >>> 7), x | 61)) ^ x; return ((x ^ (x >>> 14)) >>> 0) / 4294967296; }; };
const __guarded = (inner) => (...args) => { try { return inner(...args); } catch (error) { if (error?.tag !== undefined) throw error; __panic(`${error}\n${error?.stack ?? ''}`.trim()); throw error; } };
