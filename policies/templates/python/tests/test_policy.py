"""Tests of the policy, without WebAssembly: `python3 -m unittest discover tests`."""

import unittest

from fleet import completion_times

import policy


class Tests(unittest.TestCase):
    def test_a_job_that_finds_no_place_blocks_those_behind_it(self):
        # Two GPUs; jobs as submission, GPUs and run time, in seconds.
        jobs = [(0, 1, 100), (1, 2, 100), (2, 1, 10)]
        self.assertEqual(completion_times(policy, [2], jobs), [100, 199, 208])
        self.assertEqual(completion_times(policy, [2], jobs, skip=True), [100, 199, 10])

    def test_an_unknown_parameter_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no parameter `speed`"):
            completion_times(policy, [2], [], speed=3)


if __name__ == "__main__":
    unittest.main()
