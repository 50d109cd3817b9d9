"""AISBench's SINGLESERVER_MODE: a script that was started on many servers trains on each alone, with its own rank table."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from common.labels import Wrong


def part(table: dict[str, Any], rank: int) -> tuple[dict[str, Any], int, int]:
    """The table of the server that has a rank, the number of the rank there, and how many there are."""
    for server in table.get("server_list", []):
        ranks = [int(device["rank_id"]) for device in server["device"]]
        if rank in ranks:
            devices = [{**device, "rank_id": str(int(device["rank_id"]) - min(ranks))} for device in server["device"]]
            alone = {**table, "server_count": "1", "server_list": [{**server, "device": devices}]}
            return alone, rank - min(ranks), len(ranks)
    raise Wrong(f"The rank table has no rank {rank} in a list of servers. Leave `rank_table` of the job file at 1.0.")


def stand_alone() -> None:
    """Tells MindSpore of the devices of this server alone."""
    path = os.environ.get("RANK_TABLE_FILE")
    if not path:
        raise Wrong("SINGLESERVER_MODE needs Ascend's rank table. Elsewhere take `bench: {scope: server}` without it.")
    table, rank, size = part(json.loads(Path(path).read_text()), int(os.environ["RANK_ID"]))
    own = Path(tempfile.mkdtemp(), "ranktable.json")
    own.write_text(json.dumps(table))
    told = {"RANK_TABLE_FILE": str(own), "MINDSPORE_HCCL_CONFIG_PATH": str(own), "RANK_ID": str(rank), "RANK_SIZE": str(size)}
    os.environ.update(told)
