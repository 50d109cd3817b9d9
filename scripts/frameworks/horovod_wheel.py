"""Builds Horovod's wheel, which comes as source only, once per Python and PyTorch, and keeps it beside the environments."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

REQUIREMENT = "horovod==0.28.1"
# Horovod 0.28 asks the compiler for C++17, and the headers of today's PyTorch are written in C++20.
COMPILER = """\
#!/usr/bin/env bash
words=()
for word in "$@"; do [[ $word == -std=* ]] || words+=("$word"); done
exec g++ -std=c++20 "${words[@]}"
"""
OPTIONS = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",  # the gloo inside asks for a CMake that CMake 4 no longer is
}


def build(python: Path, wheels: Path) -> Path:
    """The wheel for this Python, from the cache or built against the PyTorch that is installed beside it."""
    folder = wheels / _tag(python)
    if found := sorted(folder.glob("horovod-*.whl")):
        return found[-1]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="muster-horovod-") as temporary:
        compiler = Path(temporary, "g++20")
        compiler.write_text(COMPILER)
        compiler.chmod(0o755)
        made = Path(temporary, "wheel")
        words = [str(python), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
        subprocess.run(
            [*words, "--no-deps", "--no-binary", "horovod", "--no-cache-dir", "-w", str(made), REQUIREMENT],
            check=True,
            env={**os.environ, **_build_environment(python, compiler)},
        )
        (wheel,) = made.glob("*.whl")
        kept = folder / wheel.name
        kept.with_suffix(".part").write_bytes(wheel.read_bytes())
        kept.with_suffix(".part").rename(kept)
    return kept


def _build_environment(python: Path, compiler: Path) -> dict[str, str]:
    return {
        **OPTIONS,
        "CXX": str(compiler),
        "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
        "PATH": f"{python.parent}:{os.environ['PATH']}",  # where the environment's cmake is
    }


def _tag(python: Path) -> str:
    text = "import sys, torch; print('cp%d%d-torch-%s' % (*sys.version_info[:2], torch.__version__))"
    return subprocess.run([python, "-c", text], check=True, capture_output=True, text=True).stdout.strip()
