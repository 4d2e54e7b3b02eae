"""What `sandtable policy build` has componentize-py build in place of policy.py itself, which it imports: no luck and no clock of
the build, prints that are lines of the policy's log, and errors that end the run with their text and their place."""

import os
import random
import sys
import time

from componentize_py_types import Err
from wit_world.imports import log, types


def never(what):
    def trap(*_, **__):
        raise RuntimeError(what)

    return trap


no_clock = never("a policy has no clock: use batch.now")
for name in ["time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "sleep", "localtime", "gmtime"]:
    setattr(time, name, no_clock)
os.urandom = never("a policy has no entropy: the module random is seeded from setup.seed")
# What a policy draws while it is built is the same in every build.
random.seed(0)


class Lines:
    """A stream whose lines are lines of the log."""

    def __init__(self, level):
        self.level, self.rest = level, ""

    def write(self, text):
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            log.write(self.level, line)
        return len(text)

    def flush(self):
        if self.rest:
            log.write(self.level, self.rest)
            self.rest = ""


import policy as own  # noqa: E402
from policy import *  # noqa: E402, F403


def guarded(inner, *args):
    # While it is built there is no log.
    sys.stdout, sys.stderr = Lines(log.Level.INFO), Lines(log.Level.WARN)
    try:
        return inner(*args)
    except Err:
        raise
    except BaseException as error:
        trace, places = error.__traceback__, []
        while trace:
            places.append(f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}")
            trace = trace.tb_next
        raise Err(types.PolicyError_Internal(f"{type(error).__name__}: {error} at {' > '.join(places[1:])}"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


class Scheduler(own.Scheduler):
    def init(self, setup):
        random.seed(setup.seed)
        return guarded(super().init, setup)

    def decide(self, batch):
        return guarded(super().decide, batch)
