// What `sandtable policy build` builds in place of policy.js, which it wraps.
import { guarded, seeded } from './PRELUDE';
import { scheduler as own } from './policy.js';

export const scheduler = {
  describe: () => own.describe(),
  init: guarded((setup) => {
    seeded(setup.seed);
    return own.init(setup);
  }),
  decide: guarded((batch) => own.decide(batch)),
};
