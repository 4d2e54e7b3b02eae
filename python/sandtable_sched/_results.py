"""Specs that are run, and their results as tables."""

from __future__ import annotations

import html
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from ._command import (
    Asked, Frame, PolicyFailed, SandtableError, SandtableWarning, Spec, call, command, failed, frame, rows,
)

if TYPE_CHECKING:
    from ._command import Asking, Unpack

# What becomes of jobs that have no completion time, as metrics call it.
_LEFT = {
    "unfinished": "never ended", "refused": "were refused by the policy", "rejected": "could never run",
    "crashed": "failed",
}


class Results:
    """The results of a spec's cells, which are in the store. They are those of the spec as it ran: where a file that it names has
    changed since, tables that are not read yet are refused."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        # Paths are those of the folder in which it ran, wherever the program goes.
        self._folder = os.getcwd()
        self._cells: list[dict[str, Any]] = self._plan()
        self._summary: list[dict[str, Any]] = self._read("cells")

    def _of(self, words: Sequence[str], codes: Iterable[int] = (0,)) -> str:
        asked = self._asked
        return call([*words, *asked.words], asked.text, codes, self._folder)[0]

    def _plan(self) -> list[dict[str, Any]]:
        return rows(self._of(["plan", self._asked.spec, "--format", "json"]))

    def _read(self, of: str) -> list[dict[str, Any]]:
        # Where a cell failed, or was never reached, the others have tables still.
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "table.jsonl")
            self._of(["report", self._asked.spec, "-o", str(file), "--rows", of], (0, 3, 4))
            return rows(file.read_text(encoding="utf-8")) if file.exists() else []

    def _still(self) -> None:
        """Refuses what would be of another spec."""
        now = self._plan()
        if [cell["id"] for cell in now] != [cell["id"] for cell in self._cells]:
            raise SandtableError(
                2, "the spec, or a file that it names, is not as it was when this ran: run() gives the results of what is there now"
            )

        gone = sum(was["status"] == "cached" != cell["status"] for was, cell in zip(self._cells, now))
        if gone:
            raise SandtableError(4, f"{gone} of {len(now)} results are no longer in the store: run() computes them again")

    def _table(self, of: str, kind: Frame | None) -> Any:
        self._still()
        return frame(self._read(of), kind)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Each cell: its id, policy, seed, variant and status."""
        return [dict(cell) for cell in self._cells]

    def summary(self, frame: Frame | None = None) -> Any:
        """A row a cell: every metric."""
        return _framed([dict(row) for row in self._summary], frame)

    def jobs(self, frame: Frame | None = None) -> Any:
        """A row a job of a cell."""
        return self._table("jobs", frame)

    def timeline(self, frame: Frame | None = None) -> Any:
        """A row a stay of a job on GPUs."""
        return self._table("stays", frame)

    def compare(self, a: str, b: str, frame: Frame | None = None) -> Any:
        """How two policies differ, a row a metric."""
        self._still()
        left = self._left()
        for label in (a, b):
            if label in left:
                warnings.warn(left[label], SandtableWarning, stacklevel=2)
        words = ["compare", a, b, "--spec", self._asked.spec, "--format", "json"]
        return _framed([row for row in rows(self._of(words)) if row.get("kind") == "metric"], frame)

    def report(self, path: "os.PathLike[str] | str") -> Path:
        """Writes a page, a figure or a table: by the name's ending, as the command does."""
        self._still()
        self._of(["report", self._asked.spec, "-o", os.path.abspath(path)], (0, 3, 4))
        return Path(path)

    def _left(self) -> dict[str, str]:
        """What a reader must know of policies under which jobs have no completion time."""
        said: dict[str, str] = {}
        for label in dict.fromkeys(row["policy"] for row in self._summary):
            own = [row for row in self._summary if row["policy"] == label]
            count = {name: sum(int(row.get(name) or 0) for row in own) for name in ("jobs", *_LEFT)}
            parts = [f"{count[name]} {what}" for name, what in _LEFT.items() if count[name]]
            if parts:
                said[label] = f"{label}: of {count['jobs']} jobs {', '.join(parts)}; its means are over the others"
        return said

    def __repr__(self) -> str:
        return f"<{len(self._cells)} cells of {len({cell['policy'] for cell in self._cells})} policies>"

    def _repr_html_(self) -> str:
        """A table of means by policy, what to know of it, and the figure of completion times."""
        shown = ["jct_mean_s", "jct_p95_s", "waiting_total_mean_s", "makespan_s", "utilisation_window", "preemptions"]
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in self._summary:
            groups.setdefault(f"{row['policy']} {row.get('variant') or ''}".strip(), []).append(row)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["policy", "runs", *shown])
        body, left = "", self._left()
        for name, own in groups.items():
            mark = "*" if own[0]["policy"] in left else ""
            cells = f"<td>{html.escape(name)}{mark}</td><td>{len(own)}</td>"
            for metric in shown:
                known = [row[metric] for row in own if isinstance(row.get(metric), (int, float))]
                cells += f"<td>{_short(sum(known) / len(known))}</td>" if known else "<td>-</td>"
            body += f"<tr>{cells}</tr>"
        notes = "".join(f"<p>* {html.escape(note)}.</p>" for note in left.values())
        lacks = len(self._cells) - len(self._summary)
        notes += f"<p>{lacks} of {len(self._cells)} cells have no result: their policies failed.</p>" if lacks else ""
        with tempfile.TemporaryDirectory() as folder:
            try:
                svg = self.report(Path(folder, "jct.svg")).read_text(encoding="utf-8")
                svg = svg[svg.find("<svg"):]
            except SandtableError:
                # Where no job completed there is none.
                svg = ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}{svg}"


def _short(value: float) -> str:
    """A number for people: four digits, or all that are before the point, and no exponent."""
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# The name of the function is that of a parameter above.
_framed = frame


def _followed(words: Sequence[str], text: str | None) -> str:
    """Runs the command and shows its progress: as a bar of `tqdm`, else as the lines that it says. What else it said."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        tqdm = None
    process = subprocess.Popen(
        [command(), *words, *(["--progress", "json"] if tqdm else [])],
        stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )
    assert process.stderr is not None
    if text is not None and process.stdin is not None:
        try:
            process.stdin.write(text)
            process.stdin.close()
        except BrokenPipeError:
            # It says why.
            pass
    said, bar = "", tqdm(unit="cell") if tqdm else None
    try:
        for line in process.stderr:
            try:
                at = json.loads(line) if bar is not None else None
            except ValueError:
                at = None
            if bar is None or not isinstance(at, dict):
                said += line
                if bar is None:
                    sys.stderr.write(line)
                continue
            bar.total = at["of"]
            bar.set_postfix_str(f"{at['label']} {at['seed']}", refresh=False)
            bar.update(at["done"] - bar.n)
    except BaseException:
        # What is given up goes on no further: what is done is in the store.
        process.kill()
        process.wait()
        raise
    finally:
        if bar is not None:
            bar.close()
    process.stderr.close()
    if (code := process.wait()) != 0:
        raise failed(code, said)
    return said


def plan(spec: Spec, **asked: "Unpack[Asking]") -> list[dict[str, Any]]:
    """The cells of a spec, and why each would run; runs nothing."""
    of = Asked(spec, **asked)
    return rows(call(["plan", of.spec, "--format", "json", *of.words], of.text)[0])


def run(
    spec: Spec,
    *,
    threads: int | None = None,
    progress: bool | None = None,
    **asked: "Unpack[Asking]",
) -> Results:
    """Runs the cells of a spec that have no result yet.

    `spec` is a file, or a dictionary in the form of JSON specs. `set` and `sweep` are by path: numbers, texts, or lists and dictionaries as JSON specs have them, or `Ron(…)`;
    `only` are labels, `test` cuts the spec as it says, `policies` and `store` are folders, of components and of results.
    `progress` shows what the command says meanwhile, as a bar where `tqdm` is installed; by default where the output is a terminal.
    What the command warns of is a `SandtableWarning`. Where a policy fails, the error's `results` are those of the others.
    """
    of = Asked(spec, **asked)
    words = ["run", of.spec, *of.words]
    words += ["-j", str(threads)] if threads else []
    shown = sys.stderr.isatty() if progress is None else progress
    try:
        said = _followed(words, of.text) if shown else call([*words, "--no-progress"], of.text)[1]
    except PolicyFailed as error:
        error.results = Results(of)
        raise
    for line in said.splitlines():
        if line.startswith("warning: "):
            warnings.warn(line[len("warning: "):], SandtableWarning, stacklevel=2)
    return Results(of)


def what_if(state: "os.PathLike[str] | str", *words: str, frame: Frame | None = None) -> Any:
    """When the waiting jobs of a cluster start: a row a job under each policy; `words` are options of `sandtable what-if`."""
    out = call(["what-if", os.fspath(state), *words, "--format", "json", "--no-progress"])[0]
    return _framed(rows(out), frame)
