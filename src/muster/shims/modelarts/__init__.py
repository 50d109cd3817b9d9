"""The old `modelarts` package as scripts know it: sessions and training jobs of both versions, at ModelArts or a Muster server.

Standard library alone, for any Python from 3.7 on. Data goes through `moxing`, which lies beside this package. Where the
vendor's own package is installed, that one is imported instead.
"""

import importlib.machinery
import importlib.util
import os
import sys
from typing import Optional


def _vendors() -> Optional[importlib.machinery.ModuleSpec]:
    """Returns the spec of another package of this name on sys.path; None if there is none."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [place for place in sys.path if os.path.abspath(place) != here]
    return importlib.machinery.PathFinder.find_spec(__name__, places)


_found = _vendors()
if _found is not None and _found.loader is not None:
    _package = importlib.util.module_from_spec(_found)
    sys.modules[__name__] = _package
    _found.loader.exec_module(_package)
