"""Trains a network that says which job starts next, and compares it with first come, first served on seeds that it has not seen.

    python3 train_queue.py --iterations 60 --jobs 150

REINFORCE with numpy alone: several episodes of one workload, each decision's return compared with the mean of the others' at the same
decision. The network is then the weights of the policy `mlp`, an ordinary cell of an ordinary spec.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy

import sandtable_sched as st
from sandtable_sched.env import Network, by_slot

HIDDEN = 16
#: About the mean of each input, and its spread: ln(1 + GPUs), ln(1 + seconds) and the like; they become part of the first layer.
SCALE = {"free": (0.2, 0.2), "queue": (2.0, 1.0), "gpus": (1.0, 0.6), "waited": (6.0, 3.0), "seconds": (6.0, 2.0)}


def spec(jobs: int) -> dict[str, Any]:
    """16 GPUs, and jobs that are all there in the evening: which comes first matters."""
    return {
        "title": "what a network has learnt",
        "fleet": {"Model": {"nodes": 4, "gpus": 4, "kind": "V100-SXM2-16GB"}},
        "workload": {"Generate": {"jobs": jobs, "arrivals": "AtOnce"}},
        "policies": [
            {"name": "fifo", "label": "fifo", "with": {"backfill": "skip"}},
            {"name": "mlp", "label": "learnt", "weights": "./weights.json"},
            {"name": "sjf", "label": "sjf"},
        ],
        # A forecast that is off by a factor of e in one of three jobs.
        "predictors": {"remaining": {"Noisy": {"sigma": 1.0}}},
        "seeds": {"Range": [0, 10]},
    }


class Learner:
    """Two layers, tanh between them, and Adam."""

    def __init__(self, inputs: list[str], seed: int) -> None:
        draw = numpy.random.default_rng(seed)
        self.draw = draw
        centre, spread = numpy.array([SCALE[name] for name in inputs]).T
        self.centre, self.spread, self.inputs = centre, spread, inputs
        self.parts = [draw.normal(0, 0.3, (HIDDEN, len(inputs))), numpy.zeros(HIDDEN), draw.normal(0, 0.3, HIDDEN)]
        self.first = [numpy.zeros_like(part) for part in self.parts]
        self.second = [numpy.zeros_like(part) for part in self.parts]
        self.steps = 0

    def hidden(self, jobs: Any) -> tuple[Any, Any]:
        scaled = (jobs - self.centre) / self.spread
        return scaled, numpy.tanh(scaled @ self.parts[0].T + self.parts[1])

    def choose(self, jobs: Any, mask: Any) -> tuple[int, Any]:
        """A job by chance, and how the logarithm of its chance grows with each weight."""
        scaled, hidden = self.hidden(jobs)
        scores = numpy.where(mask, hidden @ self.parts[2], -numpy.inf)
        chances = numpy.exp(scores - scores.max())
        chances /= chances.sum()
        slot = int(self.draw.choice(len(chances), p=chances))
        towards = -chances
        towards[slot] += 1
        back = (towards[:, None] * self.parts[2]) * (1 - hidden**2)
        return slot, [back.T @ scaled, back.sum(0), towards @ hidden]

    def update(self, gradients: list[Any], rate: float) -> None:
        self.steps += 1
        for part, first, second, gradient in zip(self.parts, self.first, self.second, gradients):
            first += 0.1 * (gradient - first)
            second += 0.01 * (gradient**2 - second)
            size = numpy.sqrt(second / (1 - 0.99**self.steps)) + 1e-8
            part += rate * first / (1 - 0.9**self.steps) / size

    def network(self, slots: int) -> Network:
        """With the scale in its first layer."""
        weights, bias, last = self.parts
        layers = [(weights / self.spread, bias - weights @ (self.centre / self.spread)), (last[None, :], numpy.zeros(1))]
        return Network(self.inputs, slots, "tanh", layers)


def episode(env: Any, learner: Learner, slots: int, seed: int) -> tuple[list[float], list[Any]]:
    observation, info = env.reset(seed=seed)
    rewards, gradients, over = [], [], False
    while not over:
        jobs = by_slot(observation, slots, learner.inputs).astype(float)
        slot, gradient = learner.choose(jobs, info["action_mask"][:slots].astype(bool))
        observation, reward, over, _, info = env.step(slot)
        rewards.append(reward)
        gradients.append(gradient)
    return rewards, gradients


def train(env: Any, iterations: int, episodes: int, seed: int) -> Learner:
    about = env.unwrapped.about
    learner = Learner([*about["cluster"], *about["job"]], seed)
    for iteration in range(iterations):
        # No seed of the spec: on those it is compared in the end.
        played = [episode(env, learner, about["slots"], 1000 + iteration) for _ in range(episodes)]
        # Every job is one decision: the k-th decisions of all episodes can be compared.
        returns = numpy.array([numpy.cumsum(rewards[::-1])[::-1] for rewards, _ in played])
        better = returns - returns.mean(0)
        better /= better.std() + 1e-8
        total = [numpy.zeros_like(part) for part in learner.parts]
        for (_, gradients), advantages in zip(played, better):
            for gradient, advantage in zip(gradients, advantages):
                for sum_, part in zip(total, gradient):
                    sum_ += advantage * part
        learner.update(total, 0.05)
        if iteration % 10 == 9:
            print(f"{iteration + 1} iterations: mean completion time {-returns[:, 0].mean() / returns.shape[1] * 3600:.0f} s")
    return learner


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a network that says which job starts next.")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    env = gymnasium.make("Sandtable/Queue-v0", spec={**spec(asked.jobs), "policies": [{"name": "fifo"}]}, slots=asked.slots)
    learner = train(env, asked.iterations, asked.episodes, asked.seed)
    env.close()
    learner.network(asked.slots).save("weights.json")
    results = st.run(spec(asked.jobs), store="store")
    for row in results.compare("fifo", "learnt", frame="rows"):
        if row["metric"] == "jct_mean_s":
            print(f"learnt against fifo, 10 seeds that it has not seen: {row}")


if __name__ == "__main__":
    main()
