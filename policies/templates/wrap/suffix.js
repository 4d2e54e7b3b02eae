// What it puts behind: randomness follows the experiment's seed, and an error ends the run with its text and its place.
if (typeof scheduler === 'undefined') throw new Error('policy.js has no constant `scheduler` that it exports');
const __init = scheduler.init, __decide = scheduler.decide;
scheduler.init = __guarded((setup) => { __seeded(setup.seed); return __init.call(scheduler, setup); });
scheduler.decide = __guarded((batch) => __decide.call(scheduler, batch));
