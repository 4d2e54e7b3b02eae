"""Runs the shards of a plan file as tasks of Ray: on_ray.py PLAN SHARDS."""

import subprocess
import sys

import ray

plan, shards = sys.argv[1], int(sys.argv[2])


@ray.remote(num_cpus=1, max_retries=2)
def shard(i):
    command = ["sandtable", "run", "--plan", plan, "--shard", f"{i}/{shards}", "--jobs", "1"]
    return subprocess.run(command).returncode


ray.init()
codes = ray.get([shard.remote(i) for i in range(shards)])
sys.exit(max(codes))
