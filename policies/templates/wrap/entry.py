"""What `sandtable policy build` has componentize-py build in place of policy.py, which it imports: no luck and no clock of the
build, prints that are lines of the policy's log, and errors that end the run with their text and their place."""

import datetime as _datetime
import io as _io
import logging as _logging
import os as _os
import random as _random
import sys as _sys
import time as _time
import types as _python_types

from componentize_py_types import Err as _Err
from wit_world.imports import log as _log
from wit_world.imports import types as _types

# Modules may look at a clock when they are imported, which is while the policy is built: they see one that does not advance.
_building = True


def _standing(zero, why):
    def answer(*_, **__):
        if _building:
            return zero
        raise RuntimeError(why)

    return answer


_NO_CLOCK = "a policy has no clock: use batch.now"
_NO_ENTROPY = "a policy has no entropy: the module random is seeded from setup.seed"
for _name in ["time", "monotonic", "perf_counter", "process_time", "thread_time"]:
    setattr(_time, _name, _standing(0.0, _NO_CLOCK))
    setattr(_time, _name + "_ns", _standing(0, _NO_CLOCK))
_time.sleep = _standing(None, _NO_CLOCK)
for _name in ["localtime", "gmtime"]:
    _given = getattr(_time, _name)
    # Of a given instant they are no clock.
    setattr(_time, _name, lambda *at, _given=_given: _given(*at) if at else _given(_time.time()))


# A record of the module logging is of no time; its lines go where prints go.
_logging.time = _python_types.SimpleNamespace(
    time=lambda: 0.0, time_ns=lambda: 0, localtime=_time.gmtime, gmtime=_time.gmtime, strftime=_time.strftime
)


class _Date(_datetime.date):
    @classmethod
    def today(cls):
        return cls.fromtimestamp(_time.time())


class _DateTime(_datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(_time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(_time.time(), _datetime.timezone.utc).replace(tzinfo=None)

    @classmethod
    def today(cls):
        return cls.now()


_datetime.date, _datetime.datetime = _Date, _DateTime
_os.urandom = lambda size: bytes(size) if _building else _standing(None, _NO_ENTROPY)()

# Generators without a seed draw from one that follows the experiment's seed.
_parent, _Random = _random.Random(0), _random.Random
# Those made while it is built, in that order.
_unseeded = []


class _Seeded(_Random):
    def __init__(self, x=None):
        super().__init__(_parent.getrandbits(64) if x is None else x)
        if x is None and _building:
            _unseeded.append(self)

    def __new__(cls, x=None):
        return super().__new__(cls, 0)

    def seed(self, a=None, version=2):
        super().seed(_parent.getrandbits(64) if a is None else a, version)


_random.Random = _Seeded
_plain_seed = _random.seed
_random.seed = lambda a=None, version=2: _plain_seed(_parent.getrandbits(64) if a is None else a, version)
_plain_seed(0)


class _Lines(_io.TextIOBase):
    """A stream whose lines are lines of the log."""

    encoding = "utf-8"

    def __init__(self, level):
        self._level, self._rest = level, ""

    def writable(self):
        return True

    def write(self, text):
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            _log.write(self._level, line)
        return len(text)

    def flush(self):
        if self._rest:
            _log.write(self._level, self._rest)
            self._rest = ""


_taken = [name for name in "OWN_MODULES".split() if name in _sys.stdlib_module_names]
if _taken:
    raise ImportError(f"{_taken[0]}: Python's library has a module of that name: call yours otherwise")

import policy as _own  # noqa: E402

_building = False


def _no_files(event, _):
    if event == "open":
        raise OSError("a policy has no files")


# What would ask for a file from now on fails with words, where the host's stand-in for files would trap; the compiler, which
# shows the line of an error, goes on without. A module that is not there is not looked for.
_sys.addaudithook(_no_files)
_sys.meta_path[:] = [of for of in _sys.meta_path if getattr(of, "__name__", "") != "PathFinder"]
# Files whose lines say nothing to the policy's author.
_ours = {__file__, getattr(_own, "_OURS", None)}


def _ended(text):
    return _Err(_types.PolicyError_Internal(text))


def _panicked(text):
    # `describe` has no error of its own.
    _log.panic(text)
    return RuntimeError(text)


def _guarded(inner, *args, says=_ended):
    _sys.stdout, _sys.stderr = _Lines(_log.Level.INFO), _Lines(_log.Level.WARN)
    try:
        return inner(*args)
    except _Err:
        raise
    except BaseException as error:
        trace, places = error.__traceback__, []
        while trace:
            code = trace.tb_frame.f_code
            if code.co_filename not in _ours and not code.co_filename.startswith("<frozen"):
                # Without the folder in which it was while the policy was built: /1/policy.py.
                file = code.co_filename.split("/", 2)[-1] if code.co_filename.startswith("/") else code.co_filename
                places.append(f"{code.co_name} ({file}:{trace.tb_lineno})")
            trace = trace.tb_next
        where = f" at {' > '.join(places)}" if places else ""
        raise says(f"{type(error).__name__}: {error}{where}") from None
    finally:
        _sys.stdout.flush()
        _sys.stderr.flush()


def _begin(setup):
    scheduler = _own.Scheduler()
    _parent.seed(setup.seed)
    _plain_seed(_parent.getrandbits(64))
    for generator in _unseeded:
        generator.seed()
    return scheduler.init(setup)


class Scheduler:
    def describe(self):
        return _guarded(lambda: _own.Scheduler().describe(), says=_panicked)

    def init(self, setup):
        return _guarded(_begin, setup)

    def decide(self, batch):
        return _guarded(lambda: _own.Scheduler().decide(batch))
