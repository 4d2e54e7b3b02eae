"""Makes a wheel of this package and a binary that is there already: `wheel.py BINARY VERSION OUTPUT_DIR`. `maturin build` makes one from the source."""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent


def metadata(version: str) -> str:
    """What `pip` reads: as `pyproject.toml` has it."""
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    one = {name: re.search(rf'^{name} = "(.*)"$', project, re.M) for name in ("description", "requires-python")}
    head = [
        "Metadata-Version: 2.1",
        "Name: sandtable-sched",
        f"Version: {version}",
        *(f"{head}: {one[name][1]}" for head, name in (("Summary", "description"), ("Requires-Python", "requires-python"))),
        "License: MIT OR Apache-2.0",
        "Description-Content-Type: text/markdown",
    ]
    extras = project.split("[project.optional-dependencies]\n")[1].split("\n\n")[0]
    for extra, needed in re.findall(r"^(\w+) = \[(.*)\]$", extras, re.M):
        head.append(f"Provides-Extra: {extra}")
        head += [f'Requires-Dist: {of}; extra == "{extra}"' for of in re.findall(r'"(.*?)"', needed)]
    return "\n".join(head) + "\n\n" + (HERE / "README.md").read_text(encoding="utf-8")


def main(binary: str, version: str, output: str) -> None:
    name = f"sandtable_sched-{version}"
    info = f"{name}.dist-info"
    files: list[tuple[str, bytes, int]] = [
        (f"{name}.data/scripts/sandtable", Path(binary).read_bytes(), 0o755),
        (f"{info}/METADATA", metadata(version).encode(), 0o644),
        *((f"{info}/{path.name}", path.read_bytes(), 0o644) for path in sorted(HERE.parent.glob("LICENSE-*"))),
        (f"{info}/entry_points.txt", b"[gymnasium.envs]\n__root__ = sandtable_sched.env:register\n", 0o644),
        (f"{info}/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n", 0o644),
    ]
    for path in sorted((HERE / "sandtable_sched").iterdir()):
        if path.is_file():
            files.append((f"sandtable_sched/{path.name}", path.read_bytes(), 0o644))
    record = ""
    with zipfile.ZipFile(Path(output) / f"{name}-py3-none-linux_x86_64.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", (1980, 1, 1, 0, 0, 0)), record + f"{info}/RECORD,,\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
