"""Buckets of `muster serve`: how many a user may have."""

from __future__ import annotations

from muster.config.sections import TomlSection
from muster.dataclass import dataclass
from muster.job.kinds import Count, declared


@dataclass(frozen=True)
class Buckets:
    per_user: int = declared(Count(0, 1_000_000), 100, "How many buckets a user may own who is no administrator.")


SECTION = TomlSection(Buckets)
