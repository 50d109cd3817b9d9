"""The environment that the peers live in: made once, filled from requirements.txt, apart from Muster's own."""

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

from timing import last_line

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
LIST_VERSIONS = (
    "import importlib.metadata as m, json;print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


@dataclass(frozen=True)
class PeerEnvironment:
    """Where the peers are installed, which versions, and why one of them is not."""

    path: Path
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> str:
        return str(self.path / "bin" / "python")

    def script(self, name: str) -> list[str]:
        """A console script called by the interpreter itself, so that no shim on PATH takes part."""
        return [self.python, str(self.path / "bin" / name)]


def prepare(path: Path) -> PeerEnvironment:
    """Make the environment if it is not there and install what it lacks; what cannot be had is listed as missing."""
    environment = PeerEnvironment(path.absolute())
    wanted = _read_requirements()
    try:
        if not (path / "bin" / "python").exists():
            print(f"making the environment of the peers in {path}", file=sys.stderr)
            venv.create(path, with_pip=True)
        installed = _list_versions(environment)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        return PeerEnvironment(environment.path, missing=dict.fromkeys(wanted, f"no environment: {error}"))
    missing = {}
    for name, version in wanted.items():
        if _release(installed.get(name, "")) != version and (reason := _install(environment, f"{name}=={version}")):
            missing[name] = reason
    installed = _list_versions(environment)
    versions = {name: installed[name] for name in wanted if name in installed}
    return PeerEnvironment(environment.path, versions, missing)


def _read_requirements() -> dict[str, str]:
    lines = (line.partition("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines())
    pairs = (line.partition("==") for line in lines if line)
    return {name: version for name, _, version in pairs}


def _release(version: str) -> str:
    """A version without its build, such as the "+cpu" of a CPU build."""
    return version.partition("+")[0]


def _list_versions(environment: PeerEnvironment) -> dict[str, str]:
    out = subprocess.run([environment.python, "-c", LIST_VERSIONS], check=True, capture_output=True, text=True).stdout
    versions: dict[str, str] = json.loads(out)
    return versions


def _install(environment: PeerEnvironment, requirement: str) -> str | None:
    """Install one requirement; return why it could not be, or None."""
    print(f"installing {requirement}", file=sys.stderr)
    argv = [environment.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    pip = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PIP_NO_INPUT": "1"})
    return None if pip.returncode == 0 else f"cannot be installed: {last_line(pip.stderr)}"
