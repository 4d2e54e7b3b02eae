"""Run scheduling experiments of Sandtable from Python.

Everything is done by the command `sandtable`, which the wheel brings along; this package calls it and reads what it writes.

    import sandtable_sched as st

    results = st.run("quickstart.ron", set={"workload.jobs": 500}, test=True)
    results.summary()                      # a row a cell
    results.jobs()                         # a row a job of a cell
    results.compare("fifo", "srtf")

`sandtable_sched.env` has environments for Gymnasium.

Tables are pandas data frames where pandas is installed, and lists of dictionaries else; `frame="rows"`, `"pandas"`, `"polars"` or
`"arrow"` says which.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Sequence, Union

__all__ = ["PolicyFailed", "Results", "Ron", "SandtableError", "Scorer", "plan", "run", "score", "script", "what_if"]

Spec = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class Ron(str):
    """A value of a spec as RON writes it, such as `Ron("Poisson(load: 1.2)")`; for `set` and `sweep`."""


class SandtableError(Exception):
    """The command failed: its exit code, and what it said, which has the place of the mistake."""

    def __init__(self, code: int, stderr: str) -> None:
        super().__init__(stderr.strip() or f"sandtable ended with code {code}")
        self.code = code
        self.stderr = stderr


class PolicyFailed(SandtableError):
    """A policy failed; what other policies did is in the store."""


def _command() -> str:
    named = os.environ.get("SANDTABLE")
    beside = Path(sys.executable).parent / "sandtable"
    found = named or (str(beside) if beside.exists() else None) or shutil.which("sandtable")
    if found is None:
        raise SandtableError(127, "no command `sandtable`: the wheel brings it, or $SANDTABLE names it")
    return found


def _call(words: Sequence[str], text: str | None = None, codes: Iterable[int] = (0,), quiet: bool = True) -> str:
    """What the command prints; `quiet`: what it says meanwhile is kept for errors."""
    ran = subprocess.run(
        [_command(), *words], input=text, stdin=subprocess.DEVNULL if text is None else None, text=True,
        encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None,
    )
    if ran.returncode not in codes:
        raise (PolicyFailed if ran.returncode == 3 else SandtableError)(ran.returncode, ran.stderr or "")
    return ran.stdout


def _ron(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, str):
        return str(value)
    return json.dumps(value, allow_nan=False)


def _rows(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines() if line]


def _frame(rows: list[dict[str, Any]], frame: str | None) -> Any:
    if frame is None:
        try:
            import pandas  # noqa: F401
        except ImportError:
            return rows
        frame = "pandas"
    if frame == "rows":
        return rows
    if frame == "pandas":
        import pandas

        return pandas.DataFrame(rows)
    if frame == "polars":
        import polars

        return polars.DataFrame(rows, infer_schema_length=None)
    if frame == "arrow":
        import pyarrow

        return pyarrow.Table.from_pylist(rows)
    raise ValueError(f'expected "rows", "pandas", "polars" or "arrow", found {frame!r}')


def script(source: str, label: str | None = None, **parameters: Any) -> dict[str, Any]:
    """A policy of a spec that is a script; `params`, `backfill` and others are its parameters."""
    policy: dict[str, Any] = {"name": "script", "with": {"source": source, **parameters}}
    if label is not None:
        policy["label"] = label
    return policy


class _Asked:
    """A spec with what is set: the words that every command on it must get."""

    def __init__(
        self,
        spec: Spec,
        set: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Sequence[Any]] | None = None,
        only: Sequence[str] = (),
        test: bool = False,
        policies: "os.PathLike[str] | str | None" = None,
    ) -> None:
        self.text = json.dumps(spec, allow_nan=False) if isinstance(spec, Mapping) else None
        self.spec = "-" if isinstance(spec, Mapping) else os.fspath(spec)
        self.words: list[str] = []
        for path, value in (set or {}).items():
            self.words += ["--set", f"{path}={_ron(value)}"]
        for path, values in (sweep or {}).items():
            self.words += ["--sweep", f"{path}={','.join(_ron(value) for value in values)}"]
        if only:
            self.words += ["--only", ",".join(only)]
        if test:
            self.words.append("--test")
        if policies is not None:
            self.words += ["--policies", os.fspath(policies)]


class Results:
    """The results of a spec's cells, which are in the store."""

    def __init__(self, asked: _Asked, store: str | None) -> None:
        self._asked = asked
        self._store = [] if store is None else ["--store", store]

    def _of(self, command: Sequence[str], codes: Iterable[int] = (0,)) -> str:
        asked = self._asked
        return _call([*command, *asked.words, *self._store], asked.text, codes)

    def _table(self, rows: str, frame: str | None) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "table.jsonl")
            self._of(["report", self._asked.spec, "-o", str(file), "--rows", rows], (0, 3))
            return _frame(_rows(file.read_text(encoding="utf-8")), frame)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Each cell: its id, policy, seed, variant and status."""
        return _rows(self._of(["plan", self._asked.spec, "--format", "json"]))

    def summary(self, frame: str | None = None) -> Any:
        """A row a cell: every metric."""
        return self._table("cells", frame)

    def jobs(self, frame: str | None = None) -> Any:
        """A row a job of a cell."""
        return self._table("jobs", frame)

    def timeline(self, frame: str | None = None) -> Any:
        """A row a stay of a job on GPUs."""
        return self._table("stays", frame)

    def compare(self, a: str, b: str, frame: str | None = None) -> Any:
        """How two policies differ, a row a metric."""
        words = ["compare", a, b, "--spec", self._asked.spec, "--format", "json"]
        rows = _rows(self._of(words))
        return _frame([row for row in rows if row.get("kind") == "metric"], frame)

    def report(self, path: "os.PathLike[str] | str") -> Path:
        """Writes a page, a figure or a table: by the name's ending, as the command does."""
        self._of(["report", self._asked.spec, "-o", os.fspath(path)], (0, 3))
        return Path(path)

    def __repr__(self) -> str:
        cells = self.cells
        return f"<{len(cells)} cells of {len({cell['policy'] for cell in cells})} policies>"

    def _repr_html_(self) -> str:
        """A table of means by policy, and the figure of completion times."""
        shown = ["jct_mean_s", "jct_p95_s", "waiting_total_mean_s", "makespan_s", "utilisation_window", "preemptions"]
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in self.summary("rows"):
            groups.setdefault(f"{row['policy']} {row.get('variant') or ''}".strip(), []).append(row)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["policy", "runs", *shown])
        body = ""
        for name, rows in groups.items():
            cells = f"<td>{html.escape(name)}</td><td>{len(rows)}</td>"
            for metric in shown:
                known = [row[metric] for row in rows if isinstance(row.get(metric), (int, float))]
                cells += f"<td>{sum(known) / len(known):.4g}</td>" if known else "<td>-</td>"
            body += f"<tr>{cells}</tr>"
        with tempfile.TemporaryDirectory() as folder:
            file = self.report(Path(folder, "jct.svg"))
            svg = file.read_text(encoding="utf-8")
        svg = svg[svg.find("<svg"):]
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{svg}"


def _followed(words: Sequence[str], text: str | None) -> None:
    """Runs the command and shows its progress."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        _call(words, text, quiet=False)
        return
    process = subprocess.Popen(
        [_command(), *words, "--progress", "json"], stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )
    assert process.stderr is not None
    if text is not None and process.stdin is not None:
        process.stdin.write(text)
        process.stdin.close()
    said = ""
    with tqdm(unit="cell") as bar:
        for line in process.stderr:
            try:
                at = json.loads(line)
            except ValueError:
                said += line
                continue
            bar.total = at["of"]
            bar.set_postfix_str(f"{at['label']} {at['seed']}", refresh=False)
            bar.update(at["done"] - bar.n)
    process.stderr.close()
    if (code := process.wait()) != 0:
        raise (PolicyFailed if code == 3 else SandtableError)(code, said)


def plan(spec: Spec, **asked: Any) -> list[dict[str, Any]]:
    """The cells of a spec, and why each would run; runs nothing."""
    of = _Asked(spec, **asked)
    return _rows(_call(["plan", of.spec, "--format", "json", *of.words], of.text))


def run(
    spec: Spec,
    *,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    only: Sequence[str] = (),
    test: bool = False,
    store: "os.PathLike[str] | str | None" = None,
    policies: "os.PathLike[str] | str | None" = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Results:
    """Runs the cells of a spec that have no result yet.

    `spec` is a file, or a dictionary in the form of JSON specs. `set` and `sweep` are by path: numbers, lists, texts, or `Ron(…)`.
    `progress` shows what the command says meanwhile, as a bar where `tqdm` is installed; by default where the output is a terminal.
    """
    of = _Asked(spec, set, sweep, only, test, policies)
    where = None if store is None else os.fspath(store)
    words = ["run", of.spec, *of.words, *(["--store", where] if where else [])]
    words += ["-j", str(threads)] if threads else []
    shown = sys.stderr.isatty() if progress is None else progress
    if shown:
        _followed(words, of.text)
    else:
        _call([*words, "--no-progress"], of.text)
    return Results(of, where)


def what_if(state: "os.PathLike[str] | str", *words: str, frame: str | None = None) -> Any:
    """When the waiting jobs of a cluster start: a row a job under each policy; `words` are options of `sandtable what-if`."""
    out = _call(["what-if", os.fspath(state), *words, "--format", "json", "--no-progress"])
    return _frame(_rows(out), frame)


class Scorer:
    """`sandtable score` as a process that stays: candidates are compiled and traces drawn once.

    with Scorer("spec.ron", baseline="fifo") as scorer:
        scorer.score(source="def key(job, c): return job.gpus")
    """

    def __init__(
        self,
        spec: "os.PathLike[str] | str",
        *,
        baseline: str | None = None,
        metric: str = "jct_mean_s",
        hold_out: int = 0,
        threads: int | None = None,
        cascade: bool = False,
        **asked: Any,
    ) -> None:
        of = _Asked(spec, **asked)
        words = ["score", of.spec, *of.words, "--metric", metric, "--hold-out", str(hold_out)]
        words += ["--baseline", baseline] if baseline else []
        words += ["--cascade"] if cascade else []
        words += ["-j", str(threads)] if threads else []
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [_command(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            encoding="utf-8",
        )

    def score(self, **request: Any) -> dict[str, Any]:
        """The answer to one request: `source` or `policy`, and `with_`, `set`, `test`, `held_out`, `jobs`, `keep`."""
        return next(self.scores([request]))

    def scores(self, requests: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The answers to requests, as they are ready; each has the `id` of its request, by default its number."""
        inlet, outlet = self._process.stdin, self._process.stdout
        assert inlet is not None and outlet is not None
        open_ = 0
        for number, request in enumerate(requests):
            words = {"id": number, **request}
            if "with_" in words:
                words["with"] = words.pop("with_")
            try:
                inlet.write(json.dumps(words, allow_nan=False) + "\n")
                inlet.flush()
            except BrokenPipeError:
                raise self._failed() from None
            open_ += 1
            # The command works on some at a time, and nothing is left unread for long.
            if open_ >= 32:
                yield self._answer()
                open_ -= 1
        for _ in range(open_):
            yield self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failed(self) -> SandtableError:
        code = self._process.wait()
        self._said.seek(0)
        return SandtableError(code, self._said.read())

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._said.close()

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def score(spec: "os.PathLike[str] | str", requests: Iterable[Mapping[str, Any]], **asked: Any) -> list[dict[str, Any]]:
    """The answers to requests, in their order."""
    with Scorer(spec, **asked) as scorer:
        numbered = [{**request, "id": number} for number, request in enumerate(requests)]
        answers = {answer["id"]: answer for answer in scorer.scores(numbered)}
    return [answers[number] for number in range(len(numbered))]
