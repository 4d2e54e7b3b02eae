// Tests of the policy, without WebAssembly: `node --test tests/policy.test.js`.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { completionTimes } from './fleet.js';

test('a job that finds no place blocks those behind it', async () => {
  // Two GPUs; jobs as submission, GPUs and run time, in seconds.
  const jobs = [[0, 1, 100], [1, 2, 100], [2, 1, 10]];
  assert.deepEqual(await completionTimes('../policy.js', [2], jobs), [100, 199, 208]);
  assert.deepEqual(await completionTimes('../policy.js', [2], jobs, { skip: true }), [100, 199, 10]);
});

test('an unknown parameter is refused', async () => {
  await assert.rejects(completionTimes('../policy.js', [2], [], { speed: 3 }), /no parameter `speed`/);
});
