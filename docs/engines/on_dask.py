"""Runs the shards of a plan file as tasks of Dask: on_dask.py PLAN SHARDS [SCHEDULER]."""

import subprocess
import sys

from distributed import Client

plan, shards = sys.argv[1], int(sys.argv[2])


def shard(i):
    command = ["sandtable", "run", "--plan", plan, "--shard", f"{i}/{shards}", "--jobs", "1"]
    code = subprocess.run(command).returncode
    # A shard that was killed is worth another try; what it says itself is not.
    if code < 0:
        raise RuntimeError(f"shard {i} was killed by signal {-code}")
    return code


if __name__ == "__main__":
    client = Client(*sys.argv[3:4])
    # Pure ones that are called alike would run once.
    sys.exit(max(client.gather(client.map(shard, range(shards), pure=False, retries=2))))
