"""Runs the shards of a plan file as tasks of Dask: on_dask.py PLAN SHARDS [SCHEDULER]."""

import subprocess
import sys

from distributed import Client

plan, shards = sys.argv[1], int(sys.argv[2])


def shard(i):
    command = ["sandtable", "run", "--plan", plan, "--shard", f"{i}/{shards}", "--jobs", "1"]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    client = Client(*sys.argv[3:4])
    # Pure ones that are called alike would run once.
    codes = client.gather(client.map(shard, range(shards), pure=False, retries=2))
    sys.exit(max(codes))
