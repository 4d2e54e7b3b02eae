"""Environments for Gymnasium: an agent decides which job starts next.

    import gymnasium
    import sandtable_sched.env

    env = gymnasium.make("Sandtable/Queue-v0", spec="quickstart.ron", set={"predictors.remaining": "Oracle"})
    observation, info = env.reset(seed=1000)
    observation, reward, terminated, truncated, info = env.step(env.unwrapped.action_masks().argmax())

`Sandtable/Queue-v0`: an action is the slot whose job starts, or the number of slots to wait. `SandtableScore-v0`: a score for each slot, and
jobs that fit start in their order. The sum of an episode's rewards is minus the sum of its jobs' completion times, in hours.

A network that was trained so is written by `export`, and is then the weights of the policy `mlp`, which decides the same.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

import gymnasium
import numpy
from gymnasium.spaces import Box, Discrete

from . import SandtableError, Spec, _Asked, _command

__all__ = ["Network", "QueueEnv", "ScoreEnv", "by_slot", "export", "register"]

_LENGTH = struct.Struct("<I")
_REWARD = struct.Struct("<d")
_ACTION = struct.Struct("<IBi")


class _Env(gymnasium.Env[Any, Any]):
    """What both environments are: a process, asked over a pipe."""

    metadata = {"render_modes": []}

    def __init__(
        self,
        spec: Spec,
        *,
        slots: int = 16,
        inputs: Sequence[str] = (),
        placement: str = "packed",
        allow_test_seeds: bool = False,
        tapes: "os.PathLike[str] | str | None" = None,
        at: Mapping[str, Any] | None = None,
        **asked: Any,
    ) -> None:
        scratch = None
        if isinstance(spec, Mapping):
            # Standard input is for answers; files that it names are relative to this folder.
            handle, scratch = tempfile.mkstemp(".json", ".sandtable-", os.curdir)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(spec, file, allow_nan=False)
            spec = scratch
        of = _Asked(spec, **asked)
        words = ["env", of.spec, *of.words, "--slots", str(slots), "--placement", placement]
        for path, value in (at or {}).items():
            words += ["--at", f"{path}={value if isinstance(value, str) else json.dumps(value)}"]
        words += ["--inputs", ",".join(inputs)] if inputs else []
        words += ["--allow-test-seeds"] if allow_test_seeds else []
        words += ["--tapes", os.fspath(tapes)] if tapes is not None else []
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [_command(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._inlet, self._outlet = self._process.stdin, self._process.stdout
        try:
            self.about: dict[str, Any] = json.loads(self._frame())
        except SandtableError:
            self.close()
            raise
        finally:
            if scratch is not None:
                Path(scratch).unlink()
        self.slots: int = self.about["slots"]
        low, high = (numpy.array(self.about[end], dtype=numpy.float32) for end in ("low", "high"))
        self.observation_space = Box(low, high, dtype=numpy.float32)
        self._kept_out = frozenset(self.about["test_seeds"])
        self._mask = numpy.zeros(slots + 1, dtype=numpy.int8)
        self._playing = False

    def _frame(self) -> bytes:
        head = self._outlet.read(4)
        if len(head) < 4:
            code = self._process.wait()
            self._said.seek(0)
            raise SandtableError(code, self._said.read())
        return self._outlet.read(_LENGTH.unpack(head)[0])

    def _send(self, message: bytes) -> None:
        try:
            self._inlet.write(message)
            self._inlet.flush()
        except BrokenPipeError:
            # What it had to say is read next.
            pass

    def _next(self) -> tuple[Any, float, bool, dict[str, Any]]:
        frame = self._frame()
        if frame[0] == 1:
            first = 9 + self.slots + 1
            self._mask = numpy.frombuffer(frame, numpy.int8, self.slots + 1, 9)
            observation = numpy.frombuffer(frame, "<f4", offset=first).astype(numpy.float32, copy=True)
            return observation, _REWARD.unpack_from(frame, 1)[0], False, {"action_mask": self._mask}
        said = json.loads(frame)
        if "error" in said:
            raise SandtableError(2, said["error"])
        self._playing = False
        self._mask = numpy.zeros(self.slots + 1, dtype=numpy.int8)
        shape = self.observation_space.shape
        return numpy.zeros(shape, dtype=numpy.float32), said["reward"], True, {**said, "action_mask": self._mask}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode: the workload of that seed, or of one that is drawn and is none of the spec's."""
        super().reset(seed=seed)
        drawn = seed is None
        while seed is None or (drawn and seed in self._kept_out):
            seed = int(self.np_random.integers(0, 2**32))
        text = json.dumps({"reset": int(seed)}).encode()
        self._send(_LENGTH.pack(len(text)) + text)
        observation, _, terminated, info = self._next()
        if terminated:
            raise SandtableError(2, f"seed {seed}: no job of it ever waits for a decision")
        self._playing = True
        return observation, info

    def _step(self, message: bytes) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise gymnasium.error.ResetNeeded("no episode: reset() begins one")
        self._send(message)
        observation, reward, terminated, info = self._next()
        return observation, reward, terminated, False, info

    def action_masks(self) -> Any:
        """Which slots may be chosen now, and, last, whether waiting may be; the name is that of `sb3_contrib`."""
        return self._mask.astype(bool)

    def close(self) -> None:
        """Ends the process."""
        self._inlet.close()
        self._process.wait()
        self._outlet.close()
        self._said.close()


class QueueEnv(_Env):
    """`Sandtable/Queue-v0`. An action that the mask forbids is taken as waiting, or, where nothing runs, as the first job that fits."""

    def __init__(self, spec: Spec, **asked: Any) -> None:
        super().__init__(spec, **asked)
        self.action_space = Discrete(self.slots + 1)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Starts the job of a slot, or waits."""
        return self._step(_ACTION.pack(5, 1, int(action)))


class ScoreEnv(_Env):
    """`SandtableScore-v0`. An action is a score for each slot; jobs that fit start in their order, the highest first."""

    def __init__(self, spec: Spec, **asked: Any) -> None:
        super().__init__(spec, **asked)
        self.action_space = Box(-1.0, 1.0, (self.slots,), numpy.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Starts all jobs that fit, in the order of their scores."""
        scores = numpy.ascontiguousarray(action, dtype="<f4").tobytes()
        return self._step(_LENGTH.pack(1 + len(scores)) + b"\x02" + scores)


def register() -> None:
    """Makes the environments known to Gymnasium; importing this module does it."""
    for name, kind in (("Sandtable/Queue-v0", "QueueEnv"), ("SandtableScore-v0", "ScoreEnv")):
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=f"{__name__}:{kind}", order_enforce=False)


def by_slot(observation: Any, slots: int, inputs: Sequence[str]) -> Any:
    """Of an observation, or of several, the numbers of the cluster and of its job for each slot: what a network with one output is asked with."""
    observation = numpy.asarray(observation)
    of_slot = 2 + sum(name not in ("free", "queue", "nodes") for name in inputs)
    split = observation.shape[-1] - slots * of_slot
    jobs = observation[..., split:].reshape(*observation.shape[:-1], slots, of_slot)[..., 2:]
    cluster = numpy.broadcast_to(observation[..., None, :split], (*jobs.shape[:-1], split))
    return numpy.concatenate([cluster, jobs], axis=-1)


class Network:
    """A network as the policy `mlp` reads it, which computes as that does: in 64 bits, sums from left to right, the bias first.

    `layers` are pairs of weights, a row for each unit, and biases. One output scores a slot by the numbers of the cluster and of its job; `slots` of
    them order all; one more is to wait.
    """

    def __init__(self, inputs: Sequence[str], slots: int, hidden: str, layers: Sequence[tuple[Any, Any]]) -> None:
        if hidden not in ("relu", "tanh"):
            raise ValueError(f'hidden: expected "relu" or "tanh", found {hidden!r}')
        self.inputs, self.slots, self.hidden = list(inputs), slots, hidden
        self.layers = [
            (numpy.asarray(weights, dtype=numpy.float64), numpy.asarray(bias, dtype=numpy.float64))
            for weights, bias in layers
        ]

    def outputs(self, values: Any) -> Any:
        """What it makes of inputs: one row of them, or several."""
        values = numpy.asarray(values, dtype=numpy.float64)
        for at, (weights, bias) in enumerate(self.layers):
            total = numpy.broadcast_to(bias, (*values.shape[:-1], len(bias))).copy()
            for column in range(weights.shape[1]):
                total += weights[:, column] * values[..., column, None]
            if at + 1 < len(self.layers):
                total = numpy.maximum(total, 0.0) if self.hidden == "relu" else numpy.tanh(total)
            values = total
        return values

    def scores(self, observation: Any) -> Any:
        """What it makes of an observation: a number for each slot, and where it has one more output, for waiting."""
        if len(self.layers[-1][1]) > 1:
            return self.outputs(observation)
        return self.outputs(by_slot(observation, self.slots, self.inputs))[:, 0]

    def act(self, observation: Any, mask: Any) -> int:
        """The slot that it chooses, or to wait."""
        scores = self.scores(observation)
        allowed = numpy.asarray(mask, dtype=bool)[: len(scores)] & ~numpy.isnan(scores)
        return int(numpy.where(allowed, scores, -numpy.inf).argmax()) if allowed.any() else self.slots

    def save(self, path: "os.PathLike[str] | str") -> Path:
        """Writes the weights: `Policy(name: "mlp", weights: "…")`."""
        layers = [{"weights": weights.tolist(), "bias": bias.tolist()} for weights, bias in self.layers]
        file = {"inputs": self.inputs, "slots": self.slots, "hidden": self.hidden, "layers": layers}
        Path(path).write_text(json.dumps(file, allow_nan=False) + "\n", encoding="utf-8")
        return Path(path)


def export(model: Any, env: Any) -> Network:
    """The network of a trained agent: of Stable-Baselines3 (`MlpPolicy`), a `torch.nn.Sequential`, or pairs of weights and biases."""
    about = env.unwrapped.about
    inputs, slots = [*about["cluster"], *about["job"]], about["slots"]
    policy = getattr(model, "policy", None)
    if policy is not None:
        modules = [*policy.mlp_extractor.policy_net, policy.action_net]
    elif hasattr(model, "children"):
        modules = list(model.children())
    else:
        return Network(inputs, slots, "relu", list(model))
    layers, hidden = [], []
    for module in modules:
        kind = type(module).__name__
        if kind == "Linear":
            layers.append((module.weight.detach().cpu().numpy(), module.bias.detach().cpu().numpy()))
        elif kind in ("ReLU", "Tanh"):
            hidden.append(kind.lower())
        else:
            raise ValueError(f"expected layers Linear, ReLU and Tanh, found {kind}")
    if len(set(hidden)) > 1:
        raise ValueError(f"expected one kind of hidden unit, found {sorted(set(hidden))}")
    return Network(inputs, slots, hidden[0] if hidden else "relu", layers)


register()
