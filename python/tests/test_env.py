"""The environments, against the command that `SANDTABLE` names; `gymnasium` and `numpy` are needed."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
import warnings
from importlib.util import find_spec
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

    def test_what_never_runs_or_never_ends_is_counted_as_the_rewards_count_it(self) -> None:
        jobs = [{"submit": "0 s", "gpus": gpus, "duration": "1 h"} for gpus in (16, 4, 2, 8, 9)]
        for fleet, counted in (({"nodes": 2, "gpus": 4}, 3), ({"nodes": 1, "gpus": 4, "failures": {"mtbf": "30 min", "repair": "1 h"}}, None)):
            spec = {**SPEC, "fleet": {"Model": {**fleet, "kind": "T4"}}, "workload": {"Jobs": jobs}}
            env = self.make(spec=spec)
            _, info = env.reset(seed=1000)
            total, over = 0.0, False
            while not over:
                _, reward, over, _, info = env.step(0)
                total += reward
            self.assertAlmostEqual(-total * 3600, info["job_time_s"], delta=1e-9 * info["job_time_s"])
            if counted is not None:
                self.assertEqual(info["metrics"]["completed"], counted)
                self.assertAlmostEqual(info["job_time_s"], counted * info["metrics"]["jct_mean_s"], places=6)

    def test_a_cluster_as_it_is_goes_on(self) -> None:
        nodes = [{"name": name, "kind": "T4", "gpus": 4, "state": "up"} for name in "ab"]
        waiting = [{"id": f"w{at}", "state": "waiting", "gpus": at % 4 + 1, "submitted_s": -60, "limit_s": 3600} for at in range(9)]
        running = [
            {"id": f"r{at}", "state": "running", "gpus": 2, "submitted_s": -900, "started_s": -600, "limit_s": 3600, "held_s": 600, "on": [{"node": name, "gpus": gpus, "count": 2}]}
            for at, (name, gpus) in enumerate((("a", [0, 1]), ("b", [2, 3])))
        ]
        state = {
            "sandtable": "state@1", "at": "2026-11-20T01:05:32Z", "source": {"kind": "other"}, "queues": [], "reservations": [], "unknown": [],
            "ignored": [], "nodes": nodes, "jobs": waiting + running,
        }
        Path("now.json").write_text(json.dumps(state))
        fleet = {"Model": {"list": {"file": "now.json", "format": "State"}}}
        spec = {**SPEC, "fleet": fleet, "workload": {"State": {"file": "now.json"}}, "predictors": {}}
        with self.assertWarnsRegex(UserWarning, "every seed has the same jobs"):
            env = self.make(spec=spec)
        _, info = env.reset(seed=1000)
        over = False
        while not over:
            *_, over, _, info = env.step(int(info["action_mask"].argmax()))
        self.assertEqual(info["metrics"]["completed"], 11)

    def test_a_network_decides_as_its_component_does(self) -> None:
        seeds, states = {"List": [1000, 1001]}, 0
        for number, (outputs, hidden) in enumerate([(1, "tanh"), (9, "relu"), (8, "tanh"), (8, "relu")] + 6 * [(1, "tanh"), (9, "tanh")]):
            name = "SandtableScore-v0" if outputs == 8 else "Sandtable/Queue-v0"
            env = self.make(name, slots=8, inputs=["free", "queue", "gpus", "waited", "seconds"])
            network = drawn(env, outputs, 5 if outputs == 1 else 2 + 8 * 5, hidden, number)
            network.save("weights.json")
            policy = {"name": "mlp", "weights": "./weights.json"}
            rows = st.run({**SPEC, "policies": [policy], "seeds": seeds}, store="store").summary("rows")
            for row in rows:
                observation, info = env.reset(seed=row["seed"])
                over = False
                while not over:
                    mask = info["action_mask"]
                    action = network.scores(observation) if outputs == 8 else network.act(observation, mask)
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

    def test_tapes_stand_side_by_side_and_keep_what_is_infinite(self) -> None:
        for _ in range(2):
            env = self.make("SandtableScore-v0", spec=SPEC, tapes="tapes", slots=4)
            _, info = env.reset(seed=1000)
            over = False
            while not over:
                *_, over, _, info = env.step(numpy.array([-1.0, numpy.inf, -numpy.inf, numpy.nan]))
        Path("spec.json").write_text(json.dumps(SPEC))
        kept = sorted(Path("tapes").iterdir())
        self.assertEqual(len(kept), 2)
        for tape in kept:
            replay = [os.environ["SANDTABLE"], "env", "spec.json", "--replay", str(tape / "tape.json")]
            self.assertEqual(subprocess.run(replay, capture_output=True).returncode, 0)
        tape = json.loads((kept[0] / "tape.json").read_text())
        Path("huge.json").write_text(json.dumps({**tape, "slots": 10**18}))
        refused = subprocess.run([*replay[:-1], "huge.json"], capture_output=True, text=True)
        self.assertIn("expected 1 to 4096 slots, found 1000000000000000000", refused.stderr)

    def test_what_is_interrupted_or_killed_begins_anew(self) -> None:
        env = self.make().unwrapped
        first, _ = env.reset(seed=1000)
        read, env._frame = env._frame, lambda: (_ for _ in ()).throw(KeyboardInterrupt())
        with self.assertRaises(KeyboardInterrupt):
            env.step(0)
        env._frame = read
        with self.assertRaises(gymnasium.error.ResetNeeded):
            env.step(0)
        self.assertTrue((env.reset(seed=1000)[0] == first).all())
        env._process.kill()
        with self.assertRaises(st.SandtableError):
            env.step(0)
        self.assertTrue((env.reset(seed=1000)[0] == first).all())
        env.close()
        env.close()

    def test_numbers_of_numpy_are_numbers(self) -> None:
        spec = {**SPEC, "fleet": {"Model": {"nodes": numpy.int64(1), "gpus": 4, "kind": "T4"}}}
        self.assertEqual(len(st.plan(spec, sweep={"fleet.nodes": numpy.arange(1, 4)}, only="fifo")), 9)
        with st.Scorer(SPEC, store="store") as scorer:
            source = "def key(job, c): return job.gpus * params['w'][1]"
            answer = scorer.score(source=source, with_={"params": {"w": numpy.array([0.0, -1.0])}})
            self.assertTrue(answer["ok"], answer)

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
        # A first `reset` that is refused leaves nothing behind.
        first = self.make()
        with self.assertRaisesRegex(st.SandtableError, "seed 2 is one of the spec's"):
            first.reset(seed=2)
        first.reset(seed=1000)
        first.step(first.unwrapped.slots)
        with self.assertRaisesRegex(TypeError, "expected a list of names, found the text 'gpus'"):
            self.make(inputs="gpus")
        self.make(allow_test_seeds=True).reset(seed=2)
        with self.assertRaisesRegex(ValueError, "expected free, queue, nodes before those of jobs, found gpus, free"):
            environments.Network(["gpus", "free"], 4, "relu", [([[1, 1]], [0])])
        for asked, why in (
            ({"inputs": ["luck"]}, "unknown variant `luck`"),
            ({"inputs": ["gpus", "gpus"]}, "gpus is there twice"),
            ({"spec": {**SPEC, "predictors": {}}, "inputs": ["seconds"]}, "binds no predictor"),
            ({"sweep": {"fleet.nodes": [3, 4]}}, "the spec has a sweep"),
            ({"sweep": {"policies.0.name": ["fifo", "sjf"]}}, "the agent takes the policies' place"),
            ({"spec": "none.ron"}, "none.ron"),
        ):
            with self.assertRaisesRegex(st.SandtableError, why):
                self.make(**asked)

    @unittest.skipUnless(find_spec("sb3_contrib"), "no sb3_contrib")
    def test_an_agent_of_stable_baselines_decides_the_same_at_home(self) -> None:
        import torch
        from sb3_contrib import MaskablePPO

        torch.manual_seed(1)
        env = self.make(slots=8)
        model = MaskablePPO("MlpPolicy", env, n_steps=256, batch_size=64, seed=7000)
        model.learn(1024)
        network = environments.export(model, env)
        (observation, info), over, states = env.reset(seed=5000), False, 0
        while not over:
            mask = info["action_mask"]
            theirs, _ = model.predict(observation, action_masks=mask, deterministic=True)
            scores, ours = network.outputs(observation), network.act(observation, mask)
            # They compute in 32 bits: what is chosen otherwise has all but the same score.
            self.assertLess(abs(scores[int(theirs)] - scores[ours]), 1e-4)
            observation, _, over, _, info = env.step(ours)
            states += 1
        self.assertGreater(states, 300)
        network.save("weights.json")
        policy = {"name": "mlp", "weights": "./weights.json"}
        (row,) = st.run({**SPEC, "policies": [policy], "seeds": {"List": [5000]}}, store="store").summary("rows")
        self.assertEqual(row["jct_mean_s"], info["metrics"]["jct_mean_s"])
        layers = [torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)]
        alone, shown = environments.export(torch.nn.Sequential(*layers), env), numpy.linspace(-1, 1, 20).reshape(4, 5)
        with torch.no_grad():
            expected = torch.nn.Sequential(*layers)(torch.tensor(shown, dtype=torch.float32)).numpy()
        self.assertLess(numpy.abs(alone.outputs(shown) - expected).max(), 1e-5)

    def test_networks_of_other_libraries_are_taken(self) -> None:
        class Linear:
            def __init__(self, rows: int, columns: int, bias: bool = True) -> None:
                self.weight = Tensor(numpy.full((rows, columns), 0.5))
                self.bias = Tensor(numpy.full(rows, 0.5)) if bias else None

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

        class ReLU:
            pass

        class Conv2d:
            pass

        class Sequential:
            def __init__(self, *modules: Any) -> None:
                self.children = lambda: iter(modules)

        env = self.make(slots=4)
        made = environments.export(Sequential(Linear(3, 5), Tanh(), Linear(1, 3, bias=False)), env)
        self.assertEqual((made.hidden, [weights.shape for weights, _ in made.layers]), ("tanh", [(3, 5), (1, 3)]))
        for modules, why in (
            ([Conv2d()], "found Conv2d"),
            ([], "expected at least one layer"),
            ([Linear(3, 5), Linear(1, 3)], "between them ReLU or Tanh"),
            ([Linear(3, 5), Tanh(), Linear(3, 3), ReLU(), Linear(1, 3)], "the same everywhere"),
            ([Linear(3, 5), Tanh()], "between them"),
            ([Linear(3, 6), Tanh(), Linear(1, 3)], "expected 5 weights a unit"),
            ([Linear(3, 5), Tanh(), Linear(2, 3)], "expected 1, 4 or 5 outputs, found 2"),
            ([Linear(3, 5), Tanh(), Linear(1, 4)], "do not fit 3 numbers"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                environments.export(Sequential(*modules), env)
        pairs = [(numpy.ones((2, 5)), numpy.zeros(2)), (numpy.ones((1, 2)), numpy.zeros(1))]
        self.assertEqual(environments.export(pairs, env, hidden="tanh").hidden, "tanh")
        with self.assertRaisesRegex(ValueError, "hidden"):
            environments.export(pairs, env)
        with self.assertRaisesRegex(ValueError, "choose one slot at a time"):
            made.scores(env.reset(seed=1000)[0])


if __name__ == "__main__":
    unittest.main()
