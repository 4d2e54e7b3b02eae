"""The environments, against the command that `SANDTABLE` names; `gymnasium` and `numpy` are needed."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy
from gymnasium.utils.env_checker import check_env

import sandtable_sched as st
import sandtable_sched.env as environments

SPEC: dict[str, Any] = {
    "title": "t",
    "fleet": {"Model": {"nodes": 3, "gpus": 4, "kind": "T4"}},
    "workload": {"Generate": {"jobs": 400, "arrivals": {"Poisson": {"load": 1.3}}}},
    "policies": [{"name": "fifo"}],
    "predictors": {"remaining": "Oracle"},
    "seeds": {"Range": [0, 3]},
}


def drawn(env: Any, outputs: int, inputs: int, hidden: str, seed: int) -> environments.Network:
    """A network of chance."""
    draw = numpy.random.default_rng(seed).normal
    about = env.unwrapped.about
    layers = [(draw(0, 0.2, (8, inputs)), draw(0, 0.2, 8)), (draw(0, 1, (outputs, 8)), draw(0, 1, outputs))]
    return environments.Network([*about["cluster"], *about["job"]], about["slots"], hidden, layers)


class Environments(unittest.TestCase):
    def setUp(self) -> None:
        self.before = os.getcwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        self.opened: list[Any] = []

    def tearDown(self) -> None:
        for env in self.opened:
            env.close()
        os.chdir(self.before)
        self.folder.cleanup()

    def make(self, name: str = "Sandtable/Queue-v0", **asked: Any) -> Any:
        env = gymnasium.make(name, **{"spec": SPEC, **asked})
        self.opened.append(env)
        return env

    def test_gymnasium_accepts_them(self) -> None:
        for name in ("Sandtable/Queue-v0", "SandtableScore-v0"):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                check_env(self.make(name).unwrapped, skip_render_check=True)

    def test_rewards_are_completion_times_and_a_seed_is_a_workload(self) -> None:
        env = self.make(slots=8, inputs=["nodes", "free", "gpus", "waited", "priority", "due"])
        self.assertEqual(env.observation_space.shape, (3 + 1 + 8 * (2 + 4),))
        ends = []
        for seed in (1000, 1000, 1001):
            _, info = env.reset(seed=seed)
            total, over, draw = 0.0, False, numpy.random.default_rng(0)
            while not over:
                action = draw.choice(numpy.flatnonzero(info["action_mask"]))
                observation, reward, over, truncated, info = env.step(action)
                self.assertTrue(over or env.observation_space.contains(observation))
                total += reward
            self.assertAlmostEqual(-total * 3600, info["job_time_s"], places=3)
            self.assertAlmostEqual(info["job_time_s"], info["metrics"]["jct_mean_s"] * 400, places=1)
            self.assertEqual(info["provenance"], "observation")
            ends.append(info["job_time_s"])
        self.assertEqual(ends[0], ends[1])
        self.assertNotEqual(ends[0], ends[2])

    def test_a_network_decides_as_its_component_does(self) -> None:
        seeds, states = {"List": [1000, 1001]}, 0
        for outputs, hidden in ((1, "tanh"), (9, "relu"), (8, "relu")):
            name = "SandtableScore-v0" if outputs == 8 else "Sandtable/Queue-v0"
            env = self.make(name, slots=8, inputs=["free", "queue", "gpus", "waited", "seconds"])
            network = drawn(env, outputs, 5 if outputs == 1 else 2 + 8 * 5, hidden, outputs)
            network.save("weights.json")
            policy = {"name": "mlp", "weights": "./weights.json"}
            rows = st.run({**SPEC, "policies": [policy], "seeds": seeds}, store="store").summary("rows")
            for row in rows:
                observation, info = env.reset(seed=row["seed"])
                over = False
                while not over:
                    scores = network.scores(observation)
                    action = scores if outputs == 8 else network.act(observation, info["action_mask"])
                    observation, _, over, _, info = env.step(action)
                    states += 1
                shared = set(row) & set(info["metrics"])
                self.assertGreater(len(shared), 20)
                self.assertEqual({key: row[key] for key in shared}, {key: info["metrics"][key] for key in shared})
        self.assertGreater(states, 1000)

    def test_a_tape_gives_the_same_results_again_and_a_changed_one_does_not(self) -> None:
        Path("spec.json").write_text(json.dumps(SPEC))
        env = self.make(spec="spec.json", tapes="tapes")
        _, info = env.reset(seed=1000)
        for _ in range(10):
            env.step(0)
        # An episode that is left has no tape.
        _, info = env.reset(seed=1001)
        over = False
        while not over:
            *_, over, _, info = env.step(int(numpy.flatnonzero(info["action_mask"]).max()))
        (kept,) = sorted(Path("tapes").iterdir())
        self.assertEqual({"tape.json", "jobs.csv", "summary.json"} - {file.name for file in kept.iterdir()}, set())
        replay = [os.environ["SANDTABLE"], "env", "spec.json", "--replay", str(kept / "tape.json")]
        self.assertEqual(subprocess.run(replay, capture_output=True).returncode, 0)
        elsewhere = subprocess.run([*replay, "--set", "fleet.nodes=4"], capture_output=True, text=True)
        self.assertEqual(elsewhere.returncode, 2)
        self.assertIn("another cluster, other jobs or other rules", elsewhere.stderr)
        tape = json.loads((kept / "tape.json").read_text())
        tape["answers"][5:] = [0] * len(tape["answers"][5:])
        (kept / "tape.json").write_text(json.dumps(tape))
        self.assertEqual(subprocess.run(replay, capture_output=True).returncode, 1)

    def test_what_can_not_be_is_refused(self) -> None:
        env = self.make()
        with self.assertRaises(gymnasium.error.ResetNeeded):
            env.unwrapped.step(0)
        with self.assertRaisesRegex(st.SandtableError, "seed 2 is one of the spec's"):
            env.reset(seed=2)
        env.reset(seed=1000)
        with self.assertRaisesRegex(st.SandtableError, "expected a slot from 0 to 16, found 17"):
            env.unwrapped.step(17)
        # The episode goes on.
        env.unwrapped.step(16)
        self.make(allow_test_seeds=True).reset(seed=2)
        for asked, why in (
            ({"inputs": ["luck"]}, "unknown variant `luck`"),
            ({"inputs": ["gpus", "gpus"]}, "gpus is there twice"),
            ({"spec": {**SPEC, "predictors": {}}, "inputs": ["seconds"]}, "binds no predictor"),
            ({"sweep": {"fleet.nodes": [3, 4]}}, "the spec has a sweep"),
            ({"spec": "none.ron"}, "none.ron"),
        ):
            with self.assertRaisesRegex(st.SandtableError, why):
                self.make(**asked)

    def test_networks_of_other_libraries_are_taken(self) -> None:
        class Linear:
            def __init__(self, rows: int, columns: int) -> None:
                self.weight, self.bias = (Tensor(numpy.full(shape, 0.5)) for shape in ((rows, columns), rows))

        class Tensor:
            def __init__(self, values: Any) -> None:
                self.values = values

            def detach(self) -> "Tensor":
                return self

            cpu = detach

            def numpy(self) -> Any:
                return self.values

        class Tanh:
            pass

        class Conv2d:
            pass

        class Sequential:
            def __init__(self, *modules: Any) -> None:
                self.children = lambda: iter(modules)

        env = self.make(slots=4)
        made = environments.export(Sequential(Linear(3, 5), Tanh(), Linear(1, 3)), env)
        self.assertEqual((made.hidden, [weights.shape for weights, _ in made.layers]), ("tanh", [(3, 5), (1, 3)]))
        with self.assertRaisesRegex(ValueError, "found Conv2d"):
            environments.export(Sequential(Conv2d()), env)


if __name__ == "__main__":
    unittest.main()
