"""Jobs that `muster run --engine modelarts` submits to a real server, through the vendor's SDK."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from modelarts_scene import PYTORCH, Client

Json = dict[str, Any]
QUICK = "100ms"  # between two looks at a job


def use(home: Path, client: Client, endpoint: str = "", **more: str) -> None:
    """Writes the settings of a home whose runs are jobs of this client."""
    scene = client.scene
    service = {
        "endpoint": endpoint or scene.server.url,
        "project": client.project_id,
        "access_key": client.key,
        "secret_key": client.secret,
        "every": QUICK,
        "store": f"obs://{client.bucket}/muster",
        "flavor": "cpu.1",
        "engine": PYTORCH,
        **more,
    }
    store = {"endpoint": scene.server.store, "access_key": client.key, "secret_key": client.secret}
    if scene.authority:
        service["ca"] = store["ca"] = scene.authority
    home.mkdir(mode=0o700, exist_ok=True)
    path = home / "config.toml"
    sections = {"storage": store, "modelarts": service}
    path.write_text(
        "".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items())
            for name, section in sections.items()
        )
    )
    path.chmod(0o600)


def write(folder: Path, program: str, **fields: Any) -> Path:
    """A job file with its program."""
    code = folder / "program"
    code.mkdir(exist_ok=True)
    (code / "train.py").write_text(program)
    data = {"name": "steps", "framework": "pytorch", "compat": "modelarts-v2", "boot": "train.py", "device": "cpu", **fields}
    job = code / "job.yaml"
    job.write_text(yaml.safe_dump({name: value for name, value in data.items() if value is not None}))
    return job


def run_json(muster: Callable[..., Any], home: Path, job: Path, *words: object, **env: str) -> Json:
    done = muster("run", job, "--engine", "modelarts", "--json", *words, timeout=110, **env)
    assert done.stdout, (done.returncode, done.stderr)
    brief = json.loads(done.stdout)
    assert "run" in brief, (brief, done.stderr)
    details: Json = json.loads(muster("show", brief["run"], "--json").stdout)
    return {**details, "exit": done.returncode, "stderr": done.stderr, "dir": str(home / "runs" / brief["run"])}


def jobs_of(client: Client) -> list[Json]:
    """All jobs of version 2 in the project of a client."""
    found: list[Json] = client.raw("POST", "/training-job-searches", json={"limit": 50}).json()["items"]
    return found
