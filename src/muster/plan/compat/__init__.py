"""The surroundings that scripts of other platforms expect: one module per platform, all behind the same few methods."""

from __future__ import annotations

from muster.job import Job
from muster.plan.compat.apulis import Apulis
from muster.plan.compat.base import Compat
from muster.plan.compat.modelarts_v1 import ModelArtsV1
from muster.plan.compat.modelarts_v2 import ModelArtsV2

ALL = {"": Compat(), "modelarts-v1": ModelArtsV1(), "modelarts-v2": ModelArtsV2(), "apulis": Apulis()}


def of(job: Job) -> Compat:
    return ALL[job.compat]


__all__ = ["Compat", "of"]
