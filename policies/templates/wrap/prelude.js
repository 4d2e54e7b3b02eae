// What `sandtable policy build` has a policy in JavaScript begin with: no luck and no clock of the build, and a console that is
// the policy's log.
import { panic, write } from 'sandtable:policy/log@0.2.0';

// While it is built there is no log, and there are no draws.
let building = true;
let draw = () => {
  throw new Error('a policy draws numbers from init on: Math.random() is seeded from setup.seed');
};

const never = (what) => () => {
  throw new Error(what);
};
const clock = never('a policy has no clock: use batch.now');
const entropy = never('a policy has no entropy: Math.random() is seeded from setup.seed');
const as = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });

const OwnDate = Date;
const TimelessDate = new Proxy(OwnDate, {
  construct: (of, args) => (args.length === 0 ? clock() : Reflect.construct(of, args)),
  apply: clock,
  get: (of, key) => (key === 'now' ? clock : Reflect.get(of, key)),
});
Object.defineProperty(OwnDate.prototype, 'constructor', { value: TimelessDate });
as('Date', TimelessDate);
as('performance', { now: clock });
as('crypto', { getRandomValues: entropy, randomUUID: entropy });
Math.random = () => draw();

// A value as a line of the log shows it; never an error.
function words(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ''}`.trim();
  if (value instanceof Map || value instanceof Set) return words([...value]);
  try {
    return JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? String(inner) : inner)) ?? String(value);
  } catch {
    return String(value);
  }
}
const level = { warn: 'warn', error: 'error', debug: 'debug', trace: 'debug' };
as(
  'console',
  new Proxy(
    {},
    {
      get: (_, name) => (...values) => {
        if (!building) write(level[name] ?? 'info', values.map(words).join(' '));
      },
    },
  ),
);

// From now on numbers follow the seed (mulberry32).
export function seeded(seed) {
  const whole = BigInt(seed);
  let state = (Number(BigInt.asUintN(32, whole)) ^ Number(BigInt.asUintN(32, whole >> 32n))) >>> 0;
  building = false;
  draw = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x = (x + Math.imul(x ^ (x >>> 7), x | 61)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

// Has an error end the run with its text and its place; the contract's own go to the host as they are.
export function guarded(inner) {
  return (...args) => {
    try {
      return inner(...args);
    } catch (error) {
      if (['bad-config', 'unsupported', 'internal'].includes(error?.tag)) throw error;
      panic(error instanceof Error ? `${error}\n${error.stack ?? ''}`.trim() : `thrown: ${words(error)}`);
      throw error;
    }
  };
}
