"""The command `sandtable`: where it is, how it is asked, and what becomes of its errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Literal, Mapping, Sequence, Union

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    from ._results import Results

    class Asking(TypedDict, total=False):
        """What is set in a spec, and where components and results are."""

        set: Mapping[str, Any]
        sweep: Mapping[str, Sequence[Any]]
        only: Union[str, Sequence[str]]
        test: bool
        policies: Union[str, os.PathLike[str]]
        store: Union[str, os.PathLike[str]]

    class Scoring(Asking, total=False):
        """How candidates are scored."""

        baseline: str
        metric: str
        hold_out: int
        threads: int
        cascade: bool

    __all__ = ["Asking", "Scoring", "Unpack"]

Spec = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Frame = Literal["rows", "pandas", "polars", "arrow"]


class Ron(str):
    """A value of a spec as RON writes it, such as `Ron("Poisson(load: 1.2)")`; for `set` and `sweep`."""


_EVERY_RUN = re.compile(r"^(.*: \d+ cells?, \d+ cached, \d+ threads?|semantics: .*|\d+ cells? executed; results in .*)\n", re.M)


class SandtableError(Exception):
    """The command failed: its exit code, and what it said, which has the place of the mistake."""

    def __init__(self, code: int, stderr: str) -> None:
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        # What a command that is ended said before is not why, nor is what it says of every run.
        said = _EVERY_RUN.sub("", stderr).strip()
        super().__init__(f"sandtable {ended}\n{said}".strip() if code < 0 or not said else said)
        self.code = code
        self.stderr = stderr

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.stderr)


class PolicyFailed(SandtableError):
    """A policy failed. `results` has what the others did, where `run` says it."""

    results: "Results | None" = None


class SandtableWarning(UserWarning):
    """Something that a reader must know before believing the numbers."""


def failed(code: int, said: str) -> SandtableError:
    """The error of a command that ended so."""
    return (PolicyFailed if code == 3 else SandtableError)(code, said)


def command() -> str:
    """Where the command is: as `$SANDTABLE` says, where wheels put it, or on the path."""
    named = os.environ.get("SANDTABLE")
    if named is not None:
        if shutil.which(named) is None:
            raise SandtableError(127, f"$SANDTABLE is {named!r}, and no command is there")
        return named
    user = "osx_framework_user" if sys.platform == "darwin" and getattr(sys, "_framework", "") else f"{os.name}_user"
    folders = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    folders += [Path(sysconfig.get_path("scripts", user))] if user in sysconfig.get_scheme_names() else []
    # `pip install --target` puts both into one folder.
    folders.append(Path(__file__).parents[1] / "bin")
    beside = next((str(folder / "sandtable") for folder in folders if (folder / "sandtable").exists()), None)
    found = beside or shutil.which("sandtable")
    if found is None:
        raise SandtableError(
            127, f"no command `sandtable` beside {sys.executable}, in {folders[-1]} or on the path: $SANDTABLE names it"
        )
    return found


def call(
    words: Sequence[str], text: str | None = None, codes: Iterable[int] = (0,), folder: str | None = None
) -> tuple[str, str]:
    """What the command prints, and what it says meanwhile; asked in a folder, by default in this one."""
    ran = subprocess.run(
        [command(), *words], input=text, stdin=subprocess.DEVNULL if text is None else None, text=True,
        encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
    )
    if ran.returncode not in codes:
        raise failed(ran.returncode, ran.stderr)
    return ran.stdout, ran.stderr


# A word, a number, a path, or a name with arguments: the command takes these as they are.
_PLAIN = re.compile(r"[\w./@#+:%-]+|[A-Za-z]\w*\(.*\)")
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})|\\([bf])")


def quoted(text: str) -> str:
    """A text as RON has it."""
    code = {"b": "8", "f": "c"}
    return _ESCAPE.sub(lambda of: f"\\u{{{of[1] or code[of[2]]}}}", json.dumps(text, ensure_ascii=False))


def known_to_json(of: Any) -> Any:
    """What JSON has for a value that it does not know: numbers and arrays of numpy, and paths."""
    if isinstance(of, os.PathLike):
        return os.fspath(of)
    if hasattr(of, "tolist"):
        return of.tolist()
    raise TypeError(f"expected what JSON has, or numpy's numbers and arrays, or a path, found a {type(of).__name__}")


def value(path: str, of: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(of, str):
        # Parameters of policies may be of any kind: there a text is one.
        plain = _PLAIN.fullmatch(of) and "with" not in path.split(".")[:-1]
        return str(of) if isinstance(of, Ron) or plain else quoted(of)
    if of is None:
        return "None"
    if isinstance(of, os.PathLike):
        return value(path, os.fspath(of))
    try:
        return json.dumps(of, allow_nan=False, default=known_to_json)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from None


def rows(lines: str) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in lines.splitlines() if line]


def frame(of: list[dict[str, Any]], kind: Frame | None) -> Any:
    """Rows as a table of that kind; none: pandas' where that is installed."""
    if kind is None:
        try:
            import pandas  # noqa: F401
        except ImportError:
            return of
        kind = "pandas"
    if kind == "rows":
        return of
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(of)
    if kind == "polars":
        import polars

        return polars.DataFrame(of, infer_schema_length=None)
    if kind == "arrow":
        import pyarrow

        return pyarrow.Table.from_pylist(of)
    raise ValueError(f'expected "rows", "pandas", "polars" or "arrow", found {kind!r}')


class Asked:
    """A spec with what is set: the words that every command on it must get."""

    def __init__(
        self,
        spec: Spec,
        set: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Sequence[Any]] | None = None,
        only: "str | Sequence[str] | None" = None,
        test: bool = False,
        policies: "os.PathLike[str] | str | None" = None,
        store: "os.PathLike[str] | str | None" = None,
    ) -> None:
        self.text = json.dumps(spec, allow_nan=False, default=known_to_json) if isinstance(spec, Mapping) else None
        self.spec = "-" if isinstance(spec, Mapping) else os.fspath(spec)
        self.words: list[str] = []
        for path, one in (set or {}).items():
            self.words += ["--set", f"{path}={value(path, one)}"]
        for path, several in (sweep or {}).items():
            values = several.tolist() if hasattr(several, "tolist") else several
            if not isinstance(values, (list, tuple, range)) or not values:
                raise TypeError(f"sweep: expected a list of values of {path}, found {several!r}")
            self.words += ["--sweep", f"{path}={','.join(value(path, one) for one in values)}"]
        if only is not None:
            labels = [only] if isinstance(only, str) else list(only)
            if not labels:
                raise ValueError("only: no policy is named")
            self.words += ["--only", ",".join(labels)]
        if test:
            self.words.append("--test")
        if policies is not None:
            self.words += ["--policies", os.fspath(policies)]
        if store is not None:
            self.words += ["--store", os.fspath(store)]
