// NAME: first come, first served; a job that finds no place blocks those behind it.
//
// Everything that this policy knows comes in through its cluster: it has no clock, no file and no network.
import { scheduler as policy } from './sandtable-policy.js';

export const scheduler = policy({
  name: 'NAME',
  about: 'first come, first served, in JavaScript',
  params: { skip: [false, 'Whether jobs may pass one that finds no place.'] },

  decide(cluster) {
    const order = cluster.waiting.sort((a, b) => a.submitted - b.submitted || a.id - b.id);
    cluster.startInOrder(order, this.options.skip);
  },
});
