"""The numbers that the ranks of a run recorded: complete, or null with the reason."""

from __future__ import annotations

import math
import os
import re
from typing import Any, Dict, List, Optional

from muster.job import Job
from muster.runs.files import read_json
from muster.runs.layout import AttemptDir

_THROUGHPUT = re.compile(r"throughput_(\d+)\.json\Z")


def collect(attempt: AttemptDir, job: Job) -> Optional[Dict[str, Any]]:
    """What was recorded under MUSTER_RESULTS; None when nothing was."""
    rates: Dict[int, Any] = {}
    accuracies: List[Any] = []
    for index in attempt.node_indexes():
        folder = attempt.node(index).results
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            match = _THROUGHPUT.match(name)
            if match:
                rates[int(match.group(1))] = read_json(os.path.join(folder, name))
            elif name == "accuracy.json":
                accuracies.append(read_json(os.path.join(folder, name)))
    if not rates and not accuracies:
        return None
    return {"throughput": _sum(rates, job.ranks), "accuracy": _one(accuracies)}


def _sum(rates: Dict[int, Any], ranks: int) -> Dict[str, Any]:
    missing = [rank for rank in range(ranks) if not _measured(rates.get(rank))]
    if missing:
        names = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        return {"value": None, "unit": "samples/s", "reason": "no usable number from rank %s" % names}
    return {"value": sum(rates[rank] for rank in range(ranks)), "unit": "samples/s", "reason": None}


def _one(values: List[Any]) -> Dict[str, Any]:
    if len(values) != 1:
        reason = "nobody recorded it" if not values else "%d nodes recorded one" % len(values)
        return {"value": None, "unit": "1", "reason": reason}
    if not isinstance(values[0], (int, float)) or isinstance(values[0], bool) or not math.isfinite(values[0]):
        return {"value": None, "unit": "1", "reason": "what was recorded is not a number"}
    return {"value": values[0], "unit": "1", "reason": None}


def _measured(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
