"""Whose a run is, as the server writes it into its record: signed, because jobs of some pools can write their records."""

import hmac
from collections.abc import Mapping
from typing import Any

from muster.server.core.vault import Vault
from muster.server.runs.pools.pool import Pool
from muster.server.runs.rows import Row

FIELDS = ("user", "project", "pool", "account")


def written(vault: Vault, row: Row) -> dict[str, str]:
    """Returns the owner that goes into the record of a run."""
    fields = {name: str(getattr(row, name)) for name in FIELDS}
    return {**fields, "signature": _signature(vault, row.id, fields)}


def read(vault: Vault, pool: Pool, account: str, run_id: str, owner: Any) -> Mapping[str, str] | None:
    """Returns the owner that a record names; None where it is not one that the server wrote for this run.

    Where jobs cannot write records, the directory is believed without a signature: `secrets.key` may be a new one.
    """
    if not isinstance(owner, dict):
        return None
    fields = {name: str(owner.get(name)) for name in FIELDS}
    signed = hmac.compare_digest(str(owner.get("signature")).encode(), _signature(vault, run_id, fields).encode())
    if signed or not pool.jobs_write_records:
        return {**fields, "pool": pool.name, "account": account}
    return None


def _signature(vault: Vault, run_id: str, fields: Mapping[str, str]) -> str:
    return vault.derived("\0".join(["owner of a run", run_id, *(fields[name] for name in FIELDS)]))
