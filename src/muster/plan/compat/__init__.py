"""The surroundings that scripts of other platforms expect: one module per platform, all behind the same few methods."""

from __future__ import annotations

import importlib

from muster.job import Job
from muster.plan.compat.base import Compat


def of(job: Job) -> Compat:
    """The platform that a job was written for; its module is imported when it is asked for."""
    if not job.compat:
        return Compat()
    platform: Compat = importlib.import_module(f"muster.plan.compat.{job.compat.replace('-', '_')}").PLATFORM
    return platform


__all__ = ["Compat", "of"]
