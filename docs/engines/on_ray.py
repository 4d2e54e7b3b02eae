"""Runs the shards of a plan file as tasks of Ray: on_ray.py PLAN SHARDS."""

import subprocess
import sys

import ray

plan, shards = sys.argv[1], int(sys.argv[2])


@ray.remote(num_cpus=1, max_retries=2, retry_exceptions=True)
def shard(i):
    command = ["sandtable", "run", "--plan", plan, "--shard", f"{i}/{shards}", "--jobs", "1"]
    code = subprocess.run(command).returncode
    # A shard that was killed is worth another try; what it says itself is not.
    if code < 0:
        raise RuntimeError(f"shard {i} was killed by signal {-code}")
    return code


ray.init()
sys.exit(max(ray.get([shard.remote(i) for i in range(shards)])))
