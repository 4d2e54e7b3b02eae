"""Makes a wheel of this package and a binary by hand: `wheel.py BINARY VERSION OUTPUT_DIR`. Releases are made by maturin; this is for
tests, which have a binary already."""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent


def main(binary: str, version: str, output: str) -> None:
    name = f"sandtable_sched-{version}"
    info = f"{name}.dist-info"
    files: list[tuple[str, bytes, int]] = [
        (f"{name}.data/scripts/sandtable", Path(binary).read_bytes(), 0o755),
        (
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: sandtable-sched\nVersion: {version}\nRequires-Python: >=3.9\n".encode(),
            0o644,
        ),
        (f"{info}/entry_points.txt", b"[gymnasium.envs]\n__root__ = sandtable_sched.env:register\n", 0o644),
        (f"{info}/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n", 0o644),
    ]
    for path in sorted((HERE / "sandtable_sched").iterdir()):
        if path.is_file():
            files.append((f"sandtable_sched/{path.name}", path.read_bytes(), 0o644))
    record = ""
    with zipfile.ZipFile(Path(output) / f"{name}-py3-none-linux_x86_64.whl", "w", zipfile.ZIP_STORED) as wheel:
        for path, data, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, data)
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD", (1980, 1, 1, 0, 0, 0)), record + f"{info}/RECORD,,\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
