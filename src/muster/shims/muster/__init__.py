"""`from muster import record` for the Python of a job.

PYTHONPATH leads here before it leads to what is installed. Where the job's Python has a Muster of its own, this package gives
way to it, and lends it `record` if it is too old to have one; anywhere else `record` is all there is.
"""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Optional

_SHIMS = os.path.join("muster", "shims")  # how the places end in which packages such as this one lie


def _installed() -> Optional[ModuleSpec]:
    """Where another Muster lies: on the path, or where an editable installation says."""
    places = [place for place in sys.path if not place.endswith(_SHIMS)]
    for finder in sys.meta_path:
        spec = finder.find_spec("muster", places) if hasattr(finder, "find_spec") else None
        if spec is not None and spec.origin is not None:  # a directory that only has the name is no Muster
            return spec
    return None


def _load(spec: Any) -> Any:
    if not hasattr(spec.loader, "exec_module"):  # an archive, before Python 3.10
        return spec.loader.load_module(spec.name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_other = _installed()
_package: Any = sys.modules[__name__] if _other is None else _load(_other)
if PathFinder.find_spec("muster.record", getattr(_package, "__path__", [])) is None:
    _own = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # our `record` lies beside the shims
    _package.record = _load(PathFinder.find_spec("muster.record", [_own]))
