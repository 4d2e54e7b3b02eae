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

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ._command import PolicyFailed, Ron, SandtableError, SandtableWarning
from ._results import Results, plan, run, what_if
from ._score import Scorer, score

__all__ = [
    "PolicyFailed", "Results", "Ron", "SandtableError", "SandtableWarning", "Scorer", "plan", "run", "score", "script",
    "what_if",
]

try:
    __version__ = version("sandtable-sched")
except PackageNotFoundError:
    # Of a checkout.
    __version__ = "0"


def script(source: str, label: str | None = None, **parameters: Any) -> dict[str, Any]:
    """A policy of a spec that is a script; `params`, `backfill` and others are its parameters."""
    policy: dict[str, Any] = {"name": "script", "with": {"source": source, **parameters}}
    if label is not None:
        policy["label"] = label
    return policy
