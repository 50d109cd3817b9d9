"""What runs leave behind: the logs of their processes, and what there is in the embedded store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.storage import Settings, Storage

RunJson = Callable[..., dict[str, Any]]

# A rank that says as one line of JSON how it sees itself.
TELL = """
import json, os, sys
print(json.dumps({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}))
"""


def logs(view: dict[str, Any], process: str) -> list[str]:
    """The logs of a process, node by node."""
    nodes = view["attempts"][-1]["nodes"]
    found = [Path(node["dir"], "logs", f"{process}.log") for node in nodes]
    return [path.read_text() for path in found if path.exists()]


def hosts(view: dict[str, Any]) -> list[str]:
    """How the nodes are called."""
    return [node["host"] for node in view["attempts"][-1]["nodes"]]


def said(view: dict[str, Any]) -> list[str]:
    """What each rank wrote."""
    return [Path(rank["log"]).read_text() for rank in view["attempts"][-1]["ranks"] if rank["rank"] is not None]


def told(view: dict[str, Any]) -> list[Any]:
    """The last line of each rank of a run that succeeded, read as JSON."""
    assert view["state"] == "succeeded", (view["reason"], [text[-2000:] for text in said(view)], logs(view, "setup"))
    return [json.loads(text.splitlines()[-1]) for text in said(view)]


def embedded() -> Storage:
    """The embedded store of this test."""
    return Storage(Settings(os.environ["MUSTER_HOME"]))


def put(**files: str) -> None:
    """Puts files into the bucket `b` of the embedded store, by name."""
    for name, text in files.items():
        embedded().write(f"obs://b/{name}", text.encode())


def stored(url: str = "obs://b") -> dict[str, str]:
    """The files below a URL of the embedded store, by relative name."""
    if embedded().stat(url) is None:
        return {}
    found = [entry for entry in embedded().list(url, recursive=True) if not entry.is_dir]
    return {entry.name: embedded().read(f"{url}/{entry.name}").decode() for entry in found}
