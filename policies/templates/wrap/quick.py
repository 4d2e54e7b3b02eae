"""What `sandtable policy build --quick` has componentize-py build in place of policy.py, which is the same for all policies that import
the same modules: the texts of the policy are put into it afterwards, and are read at the first call."""

import builtins as _builtins
import importlib as _importlib
import importlib.util as _util
import json as _json
import sys as _sys

_OURS = __file__

# Where the texts are put (`runtime/src/sandbox/blank.rs`). Byte by byte: the mark is to be in memory once, and nowhere else.
_blank = bytearray(BLANK_SIZE)
for _at in range(len(_blank)):
    _blank[_at] = BLANK_FILLER
_mark = "BLANK_MARK"
for _at in range(len(_mark) // 2):
    _blank[_at] = int(_mark[2 * _at : 2 * _at + 2], 16)

# What a policy finds imported; what it imports while it is read is added. A whole build has nothing else later, so neither has this one.
_top = {name.split(".")[0] for name in _sys.modules}

# What is not imported now can't be imported later.
for _name in "IMPORTS".split():
    try:
        _importlib.import_module(_name)
    except ImportError:
        pass  # A module of the policy, or what a module has: else the policy says so when it is read.


class _Texts:
    """Finds and reads the modules of the policy."""

    def __init__(self, texts):
        self._texts = texts

    def find_spec(self, name, path=None, target=None):
        file = name.replace(".", "/")
        for at, package in [(file + "/__init__.py", True), (file + ".py", False)]:
            if at in self._texts:
                return _util.spec_from_loader(name, self, origin=at, is_package=package)
        if any(at.startswith(file + "/") for at in self._texts):
            return _util.spec_from_loader(name, self, is_package=True)  # A folder without a text of its own.
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        at = module.__spec__.origin
        if at is not None:
            module.__file__ = at
            exec(compile(self._texts[at], at, "exec"), module.__dict__)


_plain_import = _builtins.__import__


def _import(name, globals=None, locals=None, fromlist=(), level=0):
    spec = (globals or {}).get("__spec__")
    if level == 0 and spec is not None and isinstance(spec.loader, _Texts):
        first = name.split(".")[0]
        if _policy is None:
            _top.add(first)
        elif first not in _top:
            raise ModuleNotFoundError(f"No module named {first!r}: what is imported in a function is to be imported at the top too")
    return _plain_import(name, globals, locals, fromlist, level)


def _read():
    begin = len(_mark) // 2 + 4
    size = int.from_bytes(_blank[begin - 4 : begin], "little")
    texts = _json.loads(_blank[begin : begin + size])
    for name in sorted({at.split("/")[0].removesuffix(".py") for at in texts} & _sys.stdlib_module_names):
        raise ImportError(f"{name}: Python's library has a module of that name: call yours otherwise")
    _sys.meta_path.insert(0, _Texts(texts))
    _builtins.__import__ = _import
    # As while a policy is built: it sees a clock that does not advance, and its generators are seeded later.
    _entry = _sys.modules["sandtable_entry"]
    _entry._building = True
    try:
        return _plain_import("policy")
    finally:
        _entry._building = False


_policy = None


def __getattr__(name):
    global _policy
    if name.startswith("__"):
        raise AttributeError(name)
    if _policy is None:
        _policy = _read()
    return getattr(_policy, name)
