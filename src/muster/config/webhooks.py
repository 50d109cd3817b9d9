"""Webhooks of `muster serve`: which addresses they may reach that are refused otherwise."""

from __future__ import annotations

from muster.config.pools import Words
from muster.config.sections import TomlSection
from muster.dataclass import dataclass
from muster.job.kinds import declared


@dataclass(frozen=True)
class Webhooks:
    allow: tuple[str, ...] = declared(
        Words(), (), "Addresses, networks and host names that webhooks may reach, also on this machine."
    )


SECTION = TomlSection(Webhooks)
