"""Results and their comparison for programs."""

from __future__ import annotations

import json as format
from collections.abc import Mapping, Sequence
from typing import Any

from muster.bench.report import compare


def json(results: Sequence[Mapping[str, Any]]) -> str:
    """The results as they are, with full precision, and how each differs from the first."""
    comparison = compare.to_json(results) if len(results) > 1 else []
    return format.dumps({"results": list(results), "comparison": comparison}, ensure_ascii=False, indent=2) + "\n"
