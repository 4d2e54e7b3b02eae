"""Candidates and their scores."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, TypeVar

from ._command import Asked, SandtableError, Spec, command, known_to_json

if TYPE_CHECKING:
    from ._command import Asking, Scoring, Unpack

_Given = TypeVar("_Given")

# Requests that the command has at a time: nothing is left unread for long.
_AT_A_TIME = 32


class Scorer:
    """`sandtable score` as a process that stays: candidates are compiled and traces drawn once. Several threads may ask it.

    with Scorer("spec.ron", baseline="fifo") as scorer:
        scorer.score(source="def key(job, c): return job.gpus")
    """

    def __init__(
        self,
        spec: Spec,
        *,
        baseline: str | None = None,
        metric: str = "jct_mean_s",
        hold_out: int = 0,
        threads: int | None = None,
        cascade: bool = False,
        **asked: "Unpack[Asking]",
    ) -> None:
        of = Asked(spec, **asked)
        words = ["score", of.spec, *of.words, "--metric", metric, "--hold-out", str(hold_out)]
        words += ["--baseline", baseline] if baseline else []
        words += ["--cascade"] if cascade else []
        words += ["-j", str(threads)] if threads else []
        self._words, self._text = words, of.text
        self._process: subprocess.Popen[str] | None = None
        self._writes, self._reads, self._closed = threading.Lock(), threading.Lock(), False
        # Numbers are never given twice: an answer that is of no open request is of one that was given up.
        self._number = 0
        self._open: set[int] = set()
        self._early: dict[int, dict[str, Any]] = {}
        self._begin()

    def _begin(self) -> None:
        if self._closed:
            raise SandtableError(1, "the scorer was closed before this was asked")
        if self._process is None:
            self._said = tempfile.TemporaryFile("w+", encoding="utf-8")
            self._process = subprocess.Popen(
                [command(), *self._words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
                encoding="utf-8",
            )
            # One that is dropped without `close` leaves no process behind.
            self._ended = weakref.finalize(self, _kill, self._process, os.getpid())
            if self._text is not None:
                # The first line is the spec.
                self._send(self._text)

    def _ask(self, line: str) -> None:
        self._begin()
        self._send(line)

    def _send(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def score(self, **request: Any) -> dict[str, Any]:
        """The answer to one request: `source` or `policy`, and `with_`, `set`, `test`, `held_out`, `jobs`, `keep`."""
        return next(self.scores([request]))

    def scores(self, requests: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The answers to requests, as they are ready; each has the `id` of its request, by default its number."""
        asked: dict[int, Any] = {}
        try:
            for place, request in enumerate(requests):
                words = dict(request)
                own = words.pop("id", place)
                if "with_" in words:
                    words["with"] = words.pop("with_")
                text = json.dumps(words, allow_nan=False, default=known_to_json)
                with self._writes:
                    number = self._number
                    line = f'{{"id": {number}, {text[1:]}' if words else f'{{"id": {number}}}'
                    self._number += 1
                    # Another thread may read the answer before this one looks.
                    self._open.add(number)
                    asked[number] = own
                    self._guarded(lambda: self._ask(line))
                if len(asked) >= _AT_A_TIME:
                    yield self._answer(asked)
            while asked:
                yield self._answer(asked)
        finally:
            self._open.difference_update(asked)
            for number in asked:
                self._early.pop(number, None)

    def _guarded(self, what: Callable[[], _Given]) -> _Given:
        """What that gives. If it is interrupted, the process ends: what it says next may begin in the middle of a line."""
        try:
            return what()
        except SandtableError:
            raise
        except BaseException:
            self._end()
            raise

    def _answer(self, asked: dict[int, Any]) -> dict[str, Any]:
        """The next answer to one of these."""
        while True:
            # A line at a time: it may be what another thread waits for.
            with self._reads:
                ready = next((number for number in asked if number in self._early), None)
                if ready is not None:
                    self._open.discard(ready)
                    return {**self._early.pop(ready), "id": asked.pop(ready)}
                self._read(asked)

    def _read(self, asked: dict[int, Any]) -> None:
        """Takes the next answer in, whoever asked."""
        if self._process is None or self._process.stdout is None or self._open.isdisjoint(asked):
            raise SandtableError(1, "the scorer was ended while this was asked")
        line = self._guarded(self._process.stdout.readline)
        if not line:
            raise self._failed()
        answer: dict[str, Any] = json.loads(line)
        if answer["id"] in self._open:
            self._early[answer["id"]] = answer

    def _failed(self) -> SandtableError:
        assert self._process is not None
        code = self._process.wait()
        self._said.seek(0)
        said = self._said.read()
        self._end()
        # What it greets with is no cause.
        return SandtableError(code, "\n".join(line for line in said.splitlines() if not line.startswith("a score is ")))

    def _end(self) -> None:
        """Ends the process, whatever it is doing."""
        process, self._process = self._process, None
        self._open.clear()
        self._early.clear()
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, self._said):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:
                pass

    def close(self) -> None:
        """Ends the process: it answers nothing more."""
        self._closed = True
        self._end()

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _kill(process: "subprocess.Popen[str]", owner: int) -> None:
    # A process that was forked has a copy, and not the child.
    if os.getpid() == owner and process.poll() is None:
        process.kill()
        process.wait()


def score(spec: Spec, requests: Iterable[Mapping[str, Any]], **asked: "Unpack[Scoring]") -> list[dict[str, Any]]:
    """The answers to requests, in their order; what else is given is as of `Scorer`."""
    with Scorer(spec, **asked) as scorer:
        all = list(requests)
        answers = {answer["id"]: answer for answer in scorer.scores({**of, "id": at} for at, of in enumerate(all))}
    return [{**answers[at], "id": of.get("id", at)} for at, of in enumerate(all)]
