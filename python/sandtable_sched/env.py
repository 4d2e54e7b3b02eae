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
import warnings
import weakref
from pathlib import Path
from typing import Any, Mapping, Sequence

import gymnasium
import numpy
from gymnasium.spaces import Box, Discrete

from ._command import Asked, SandtableError, Spec, command, value

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
        of = Asked(spec, **asked)
        words = [command(), "env", of.spec, *of.words, "--slots", str(slots), "--placement", placement]
        for path, one in (at or {}).items():
            words += ["--at", f"{path}={value(path, one)}"]
        if isinstance(inputs, str):
            raise TypeError(f"inputs: expected a list of names, found the text {inputs!r}")
        words += ["--inputs", ",".join(inputs)] if inputs else []
        words += ["--allow-test-seeds"] if allow_test_seeds else []
        words += ["--tapes", os.fspath(tapes)] if tapes is not None else []
        self._words, self._text = words, of.text
        self._process: subprocess.Popen[bytes] | None = None
        self._playing = False
        self.about = self._start()
        if "note" in self.about:
            warnings.warn(self.about["note"], stacklevel=4)
        self.slots: int = self.about["slots"]
        low, high = (numpy.array(self.about[end], dtype=numpy.float32) for end in ("low", "high"))
        self.observation_space = Box(low, high, dtype=numpy.float32)
        self._kept_out = frozenset(self.about["test_seeds"])
        self._mask = numpy.zeros(self.slots + 1, dtype=numpy.int8)

    def _start(self) -> dict[str, Any]:
        """Begins the process; what it says first."""
        self._owner = os.getpid()
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._inlet, self._outlet = self._process.stdin, self._process.stdout
        if self._text is not None:
            self._send(_framed(self._text.encode()))
        # One that is dropped without `close` leaves no process behind.
        self._ended = weakref.finalize(self, _kill, self._process, self._owner)
        about: dict[str, Any] = json.loads(self._frame())
        return about

    def _frame(self) -> bytes:
        head = self._outlet.read(4)
        body = self._outlet.read(_LENGTH.unpack(head)[0]) if len(head) == 4 else b""
        if not body:
            assert self._process is not None
            code = self._process.wait()
            self._said.seek(0)
            said = self._said.read()
            self._end()
            raise SandtableError(code, said)
        return body

    def _send(self, message: bytes) -> None:
        try:
            self._inlet.write(message)
            self._inlet.flush()
        except BrokenPipeError:
            # What it had to say is read next.
            pass

    def _end(self) -> None:
        """Ends the process, whatever it is doing."""
        process, self._process, self._playing = self._process, None, False
        if process is None:
            return
        # A copy of this in a forked process has no say.
        if os.getpid() == self._owner:
            process.kill()
            process.wait()
        for stream in (self._inlet, self._outlet, self._said):
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def _asked(self, message: bytes) -> tuple[Any, float, bool, dict[str, Any]]:
        """What follows a message. If it is interrupted, the process ends: what it says next would belong to the question before."""
        try:
            self._send(message)
            frame = self._frame()
        except SandtableError:
            raise
        except BaseException:
            self._end()
            raise
        if frame[0] == 1:
            first = 9 + self.slots + 1
            # Its own: PyTorch warns of what can't be written to.
            self._mask = numpy.frombuffer(frame, numpy.int8, self.slots + 1, 9).copy()
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
        self._playing = False
        if self._process is None:
            self._start()
        observation, _, terminated, info = self._asked(_framed(json.dumps({"reset": int(seed)}).encode()))
        if terminated:
            raise SandtableError(2, f"seed {seed}: no job of it ever waits for a decision")
        self._playing = True
        return observation, info

    def _step(self, message: bytes) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise gymnasium.error.ResetNeeded("no episode: reset() begins one")
        observation, reward, terminated, info = self._asked(message)
        return observation, reward, terminated, False, info

    def action_masks(self) -> Any:
        """Which slots may be chosen now, and, last, whether waiting may be; the name is that of `sb3_contrib`."""
        return self._mask.astype(bool)

    def close(self) -> None:
        """Ends the process."""
        self._end()


def _kill(process: "subprocess.Popen[bytes]", owner: int) -> None:
    # A process that was forked has a copy, and not the child.
    if os.getpid() == owner and process.poll() is None:
        process.kill()
        process.wait()


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


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
        return self._step(_framed(b"\x02" + numpy.ascontiguousarray(action, dtype="<f8").tobytes()))


def register() -> None:
    """Makes the environments known to Gymnasium; importing this module does it."""
    for name, kind in (("Sandtable/Queue-v0", "QueueEnv"), ("SandtableScore-v0", "ScoreEnv")):
        if name not in gymnasium.registry:
            # Gymnasium's checker never recovers from a first `reset` that is refused, as with a seed of the spec's.
            gymnasium.register(
                id=name, entry_point=f"{__name__}:{kind}", order_enforce=False, disable_env_checker=True
            )


# Inputs that are the same for every job; an observation begins with them.
_OF_CLUSTER = ("free", "queue", "nodes")


def by_slot(observation: Any, slots: int, inputs: Sequence[str]) -> Any:
    """Of an observation, or of several, the numbers of the cluster and of its job for each slot: what a network with one output is asked with."""
    observation = numpy.asarray(observation)
    of_slot = 2 + sum(name not in _OF_CLUSTER for name in inputs)
    split = observation.shape[-1] - slots * of_slot
    jobs = observation[..., split:].reshape(*observation.shape[:-1], slots, of_slot)[..., 2:]
    cluster = numpy.broadcast_to(observation[..., None, :split], (*jobs.shape[:-1], split))
    return numpy.concatenate([cluster, jobs], axis=-1)


def _tanh(values: Any) -> Any:
    """As the policy `mlp` computes it: sums, products and quotients in one order, and so the same bits."""
    twice = 2.0 * numpy.fmin(numpy.abs(values), 20.0)
    whole = numpy.rint(twice * 1.4426950408889634)
    rest = twice - whole * 6.931471803691238e-1 - whole * 1.9082149292705877e-10
    series = numpy.ones_like(twice)
    for n in range(14, 0, -1):
        series = 1.0 + series * rest / n
    tangent = 1.0 - 2.0 / (numpy.ldexp(series, whole.astype(numpy.int64)) + 1.0)
    return numpy.where(numpy.isnan(values), numpy.nan, numpy.where(values < 0.0, -tangent, tangent))


class Network:
    """A network as the policy `mlp` reads it, which computes as that does: in 64 bits, sums from left to right, the bias first.

    `layers` are pairs of weights, a row for each unit, and biases. One output scores a slot by the numbers of the cluster and of its job, and
    `slots + 1` choose a slot or to wait: `act`, for `Sandtable/Queue-v0`. `slots` of them order all: `scores`, for `SandtableScore-v0`.
    """

    def __init__(self, inputs: Sequence[str], slots: int, hidden: str, layers: Sequence[tuple[Any, Any]]) -> None:
        if hidden not in ("relu", "tanh"):
            raise ValueError(f'hidden: expected "relu" or "tanh", found {hidden!r}')
        of_job = [name for name in inputs if name not in _OF_CLUSTER]
        if [name for name in inputs if name in _OF_CLUSTER] + of_job != list(inputs):
            raise ValueError(f"inputs: expected {', '.join(_OF_CLUSTER)} before those of jobs, found {', '.join(inputs)}")
        self.inputs, self.slots, self.hidden = list(inputs), slots, hidden
        self.layers = [
            (numpy.asarray(weights, dtype=numpy.float64), numpy.asarray(bias, dtype=numpy.float64))
            for weights, bias in layers
        ]
        if not self.layers:
            raise ValueError("expected at least one layer, found none")
        for at, (weights, bias) in enumerate(self.layers):
            width = self.layers[at - 1][0].shape[0] if at else weights.shape[-1]
            if weights.ndim != 2 or weights.shape[1] != width or bias.shape != weights.shape[:1]:
                raise ValueError(f"layer {at}: weights {weights.shape} and biases {bias.shape} do not fit {width} numbers")
        if len(self.layers[-1][1]) not in (1, slots, slots + 1):
            raise ValueError(f"expected 1, {slots} or {slots + 1} outputs, found {len(self.layers[-1][1])}")

    @property
    def orders(self) -> bool:
        """Whether its outputs are the order of all slots."""
        return len(self.layers[-1][1]) == self.slots > 1

    def outputs(self, values: Any) -> Any:
        """What it makes of inputs: one row of them, or several."""
        values = numpy.asarray(values, dtype=numpy.float64)
        with numpy.errstate(all="ignore"):
            for at, (weights, bias) in enumerate(self.layers):
                total = numpy.broadcast_to(bias, (*values.shape[:-1], len(bias))).copy()
                for column in range(weights.shape[1]):
                    total += weights[:, column] * values[..., column, None]
                if at + 1 < len(self.layers):
                    total = numpy.fmax(total, 0.0) if self.hidden == "relu" else _tanh(total)
                values = total
        return values

    def scores(self, observation: Any) -> Any:
        """The number of each slot by which all of them are ordered."""
        if not self.orders:
            raise ValueError(f"its {len(self.layers[-1][1])} outputs choose one slot at a time: act(), in Sandtable/Queue-v0")
        return self.outputs(observation)

    def act(self, observation: Any, mask: Any) -> int:
        """The slot that it chooses, or to wait."""
        if self.orders:
            raise ValueError(f"its {self.slots} outputs order all slots: scores(), in SandtableScore-v0")
        alone = len(self.layers[-1][1]) == 1
        scores = self.outputs(by_slot(observation, self.slots, self.inputs))[:, 0] if alone else self.outputs(observation)
        allowed = numpy.flatnonzero(numpy.asarray(mask, dtype=bool)[: len(scores)] & ~numpy.isnan(scores))
        return int(allowed[scores[allowed].argmax()]) if len(allowed) else self.slots

    def save(self, path: "os.PathLike[str] | str") -> Path:
        """Writes the weights: `Policy(name: "mlp", weights: "…")`."""
        layers = [{"weights": weights.tolist(), "bias": bias.tolist()} for weights, bias in self.layers]
        file = {"inputs": self.inputs, "slots": self.slots, "hidden": self.hidden, "layers": layers}
        Path(path).write_text(json.dumps(file, allow_nan=False) + "\n", encoding="utf-8")
        return Path(path)


def export(model: Any, env: Any, hidden: str | None = None) -> Network:
    """The network of a trained agent: of Stable-Baselines3 (`MlpPolicy`), a `torch.nn.Sequential` of `Linear` with `Tanh` or `ReLU` between them, or pairs
    of weights and biases, for which `hidden` says which of the two stands between them."""
    about = env.unwrapped.about
    inputs, slots = [*about["cluster"], *about["job"]], about["slots"]
    policy = getattr(model, "policy", None)
    if policy is not None:
        modules = [*policy.mlp_extractor.policy_net, policy.action_net]
    elif hasattr(model, "children"):
        modules = list(model.children())
    else:
        layers = list(model)
        if hidden is None and len(layers) > 1:
            raise ValueError('hidden: expected "relu" or "tanh" beside pairs of weights and biases')
        return _fitting(Network(inputs, slots, hidden or "relu", layers), env)
    layers, kinds = [], [type(module).__name__ for module in modules]
    for at, (module, kind) in enumerate(zip(modules, kinds)):
        wanted = ("Linear",) if at % 2 == 0 else ("ReLU", "Tanh")
        if kind not in wanted or (at % 2 == 1 and kind != kinds[1]) or (at % 2 == 1 and at + 1 == len(kinds)):
            raise ValueError(f"expected Linear layers, and between them ReLU or Tanh, the same everywhere; found {', '.join(kinds)}")
        if kind == "Linear":
            weights = module.weight.detach().cpu().numpy()
            bias = numpy.zeros(len(weights)) if module.bias is None else module.bias.detach().cpu().numpy()
            layers.append((weights, bias))
    return _fitting(Network(inputs, slots, kinds[1].lower() if len(kinds) > 1 else "relu", layers), env)


def _fitting(network: Network, env: Any) -> Network:
    """The network, if it is asked with what this environment shows."""
    alone = len(network.layers[-1][1]) == 1
    shown = numpy.zeros(env.observation_space.shape, dtype=numpy.float32)
    width = (by_slot(shown, network.slots, network.inputs) if alone else shown).shape[-1]
    found = network.layers[0][0].shape[1]
    if found != width:
        raise ValueError(f"layer 0: expected {width} weights a unit, as the environment shows numbers, found {found}")
    return network


register()
