"""Runs the shards of a plan file under HyperQueue's own server and workers: on_hyperqueue.py SANDTABLE PLAN SHARDS."""

import sys

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

sandtable, plan, shards = sys.argv[1], sys.argv[2], int(sys.argv[3])
with LocalCluster() as cluster:
    for _ in range(2):
        cluster.start_worker(WorkerConfig(cores=1))
    # One that fails leaves the others alone.
    job = Job(max_fails=shards)
    for shard in range(shards):
        job.program(
            [sandtable, "run", "--plan", plan, "--store", "store", "--shard", f"{shard}/{shards}", "--jobs", "1"],
            stdout=f"{shard}.out",
            stderr=f"{shard}.err",
        )
    client = cluster.client()
    client.wait_for_jobs([client.submit(job)])
