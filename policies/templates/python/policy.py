"""NAME: first come, first served; a job that finds no place blocks those behind it.

Everything that this policy knows comes in through its cluster: it has no clock, no file and no network. Modules are imported at
the top alone: there is nothing to import from later.
"""

from sandtable_policy import Policy, scheduler


class Mine(Policy):
    name = "NAME"
    about = "first come, first served, in Python"
    params = {"skip": (False, "Whether jobs may pass one that finds no place.")}

    def decide(self, cluster):
        order = sorted(cluster.waiting, key=lambda job: (job.submitted, job.id))
        cluster.start_in_order(order, skip=self.options["skip"])


Scheduler = scheduler(Mine)
