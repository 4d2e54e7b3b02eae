"""Candidates and their scores."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

from ._command import Asked, SandtableError, Spec, command, known_to_json

if TYPE_CHECKING:
    from ._command import Asking, Scoring, Unpack

# Requests that a loop has open at a time: their answers come before the next is asked.
_AT_A_TIME = 32


class _Process:
    """The command, and the answers that it has given."""

    def __init__(self, words: Sequence[str], text: str | None) -> None:
        self.said = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.popen = subprocess.Popen(
            [command(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True,
            encoding="utf-8",
        )
        self._writes, self._changed = threading.Lock(), threading.Condition()
        self._open: set[int] = set()
        self._ready: dict[int, dict[str, Any]] = {}
        self.over = self._given_up = False
        # It reads all the time: a command whose answers nothing takes would read no more requests.
        threading.Thread(target=self._read, daemon=True).start()
        if text is not None:
            # The first line is the spec.
            self.send(text)

    def _read(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as lines:
            for line in lines:
                try:
                    answer = json.loads(line)
                except ValueError:
                    # It was ended in the middle of a line.
                    break
                with self._changed:
                    # Of what was given up nothing is kept.
                    if answer["id"] in self._open:
                        self._ready[answer["id"]] = answer
                        self._changed.notify_all()
        with self._changed:
            self.over = True
            self._changed.notify_all()

    def send(self, line: str, number: int | None = None) -> None:
        """Writes a line: the request of this number."""
        assert self.popen.stdin is not None
        with self._writes:
            if number is not None:
                with self._changed:
                    self._open.add(number)
            try:
                self.popen.stdin.write(line + "\n")
                self.popen.stdin.flush()
            except (BrokenPipeError, ValueError):
                raise self.failed() from None
            except BaseException:
                # The next line would begin in the middle of this one.
                self.end()
                raise

    def answer(self, asked: Iterable[int]) -> dict[str, Any]:
        """The next answer to one of these."""
        try:
            with self._changed:
                while True:
                    ready = next((number for number in asked if number in self._ready), None)
                    if ready is not None:
                        self._open.discard(ready)
                        return self._ready.pop(ready)
                    if self.over:
                        break
                    self._changed.wait()
        except BaseException:
            # What is given up is not computed.
            self.end()
            raise
        raise self.failed()

    def give_up(self, asked: Iterable[int]) -> None:
        """These are awaited no more."""
        with self._changed:
            for number in asked:
                self._open.discard(number)
                self._ready.pop(number, None)

    def failed(self) -> SandtableError:
        """Why it ended."""
        code = self.popen.wait()
        with self._changed:
            if self._given_up:
                return SandtableError(1, "the scorer was ended while this was asked")
            self.said.seek(0)
            said = self.said.read()
        # What it greets with is no cause.
        return SandtableError(code, "\n".join(line for line in said.splitlines() if not line.startswith("a score is ")))

    def end(self) -> None:
        """Ends it, whatever it is doing."""
        with self._changed:
            self._given_up = self.over = True
            self._changed.notify_all()
        self.popen.kill()
        self.popen.wait()
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.close()
        except BrokenPipeError:
            pass


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
        self._lock, self._closed = threading.Lock(), False
        # Numbers are never given twice: an answer that is of no open request is of one that was given up.
        self._number = 0
        self._process: _Process | None = None
        self._running()

    def _running(self) -> _Process:
        """The process, begun anew where it has ended."""
        with self._lock:
            if self._closed:
                raise SandtableError(1, "the scorer was closed before this was asked")
            if self._process is None or self._process.over:
                self._process = _Process(self._words, self._text)
                # One that is dropped without `close` leaves no process behind.
                weakref.finalize(self, _kill, self._process.popen, os.getpid())
            return self._process

    def _next(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def score(self, **request: Any) -> dict[str, Any]:
        """The answer to one request: `source` or `policy`, and `with_`, `set`, `test`, `held_out`, `jobs`, `keep`."""
        return next(self.scores([request]))

    def scores(self, requests: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The answers to requests, as they are ready; each has the `id` of its request, by default its number."""
        asked: dict[int, Any] = {}
        process: _Process | None = None
        try:
            for place, request in enumerate(requests):
                words = dict(request)
                own = words.pop("id", place)
                if "with_" in words:
                    words["with"] = words.pop("with_")
                for name in words:
                    # A name that is no text in UTF-8 makes an answer that says not to what.
                    name.encode()
                number = self._next()
                line = json.dumps({"id": number, **words}, allow_nan=False, default=known_to_json)
                process = process or self._running()
                asked[number] = own
                process.send(line, number)
                if len(asked) >= _AT_A_TIME:
                    yield _named(process.answer(asked), asked)
            while process is not None and asked:
                yield _named(process.answer(asked), asked)
        finally:
            if process is not None:
                process.give_up(asked)

    def close(self) -> None:
        """Ends the process: it answers nothing more."""
        with self._lock:
            self._closed, process = True, self._process
        if process is not None:
            process.end()

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _named(answer: dict[str, Any], asked: dict[int, Any]) -> dict[str, Any]:
    """An answer with the `id` that its request had."""
    return {**answer, "id": asked.pop(answer["id"])}


def _kill(popen: "subprocess.Popen[str]", owner: int) -> None:
    # A process that was forked has a copy, and not the child.
    if os.getpid() == owner and popen.poll() is None:
        popen.kill()
        popen.wait()


def score(spec: Spec, requests: Iterable[Mapping[str, Any]], **asked: "Unpack[Scoring]") -> list[dict[str, Any]]:
    """The answers to requests, in their order; what else is given is as of `Scorer`."""
    with Scorer(spec, **asked) as scorer:
        all = list(requests)
        answers = {answer["id"]: answer for answer in scorer.scores({**of, "id": at} for at, of in enumerate(all))}
    return [{**answers[at], "id": of.get("id", at)} for at, of in enumerate(all)]
