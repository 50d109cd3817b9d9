"""`record` of Muster, also for a script that is started by hand in a checkout."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    from muster import record
except ImportError:
    sys.path.append(str(Path(__file__).resolve().parents[2] / "src"))
    from muster import record

__all__ = ["record"]
