"""The software of a job: its Python, packages and environment variables, from a process of a rank."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from muster.devices import Unmeasured
from muster.job.model import SECRET_NAME
from muster.linux import proc

LIMIT = 20.0  # seconds
PACKAGES = (
    "accelerate apex datasets deepspeed flash-attn horovod jax jaxlib keras megatron-core mindformers mindspore "
    "mindspore-ascend mindspore-gpu mpi4py npu-bridge numpy nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-nccl-cu12 "
    "nvidia-nccl-cu13 nvidia-nvimgcodec-cu12 nvidia-nvimgcodec-cu13 paddle-custom-npu paddlepaddle paddlepaddle-gpu "
    "paddlepaddle-npu pillow tensorflow tensorflow-cpu tensorflow-gpu torch torch-npu torchvision transformers triton"
).split()
PREFIXES = "ASCEND_ CUDA_ FLAGS_ GLOG_ GLOO_ HCCL_ HOROVOD_ MS_ NCCL_ OMP_ PYTORCH_ TORCH_ XLA_".split()
NEEDED = (  # to start the Python of a rank as the rank did, without its secrets
    "PATH HOME LD_LIBRARY_PATH PYTHONPATH PYTHONHOME PYTHONUSERBASE PYTHONNOUSERSITE CONDA_PREFIX VIRTUAL_ENV".split()
)
# Finds packages by the names of their directories, in isolated mode: no code of the job is imported.
QUERY = r"""
import json, os, re, site, sys
places = os.environ.get("PYTHONPATH", "").split(":")
if sys.prefix == sys.base_prefix and not os.environ.get("PYTHONNOUSERSITE"):
    places.append(site.getusersitepackages())
places += sys.path
found = {}
for place in places:
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        match = re.match(r"(.+?)-([0-9][^-]*)(-.*)?\.(dist|egg)-info$", name)
        if match:
            found.setdefault(re.sub(r"[-_.]+", "-", match.group(1)).lower(), match.group(2))
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps({"python": version, "packages": {name: found[name] for name in sys.argv[1:] if name in found}}))
"""


class Program(NamedTuple):
    """A Python interpreter with the environment of a process of a rank."""

    python: str
    environment: dict[str, str]


def pythons(pids: Iterable[int]) -> list[Program]:
    """The Python interpreters among some processes, by the name under which they were started."""
    found = []
    for pid in pids:
        name = os.fsdecode(proc.command_line(pid).split(b"\0")[0])
        environment = proc.environment(pid)
        if os.path.basename(name).startswith("python") and environment:
            path = shutil.which(name, path=environment.get("PATH"))
            found += [Program(path, environment)] if path else []
    return found


def python_on_path(pid: int) -> Program:
    """The Python on the PATH of another process."""
    environment = proc.environment(pid)
    path = environment.get("PATH", "")
    return Program(shutil.which("python", path=path) or shutil.which("python3", path=path) or "", environment)


def packages(program: Program) -> dict[str, Any]:
    """Runs a Python to list its version and packages."""
    if not program.python:
        raise Unmeasured("the job has no Python on its PATH")
    environment = {name: program.environment[name] for name in NEEDED if name in program.environment}
    try:
        done = subprocess.run(
            [program.python, "-I", "-c", QUERY, *PACKAGES],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT,
            env=environment,
            cwd="/",
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise Unmeasured(f"{program.python} does not list its packages") from None
    return found


def variables(environment: dict[str, str], secrets: Sequence[str]) -> dict[str, str]:
    """The variables that frameworks read, without those that may hold a secret, such as a URL."""
    secret = re.compile(SECRET_NAME, re.IGNORECASE)
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(tuple(PREFIXES)) and name not in secrets and not secret.search(name) and "://" not in value
    }
