"""What lies in a directory of AISBench: an unpacked package, its `code/`, or only some of the files of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.aisbench.config import config_json, literals, mode, shell
from muster.aisbench.config.config_json import Plan
from muster.aisbench.config.found import UNREAD, Findings, Found
from muster.aisbench.config.mode import OFFLINE, V2, Files, Mode

FOR_GPUS = ("config_imagenet2012.sh", "config_pretrain.sh")  # what the packages for NVIDIA's GPUs call config.sh
SECTIONS = ("access_config", "session_config", "session_config_v2")  # of modelarts_config.py


@dataclass(frozen=True)
class Choices:
    """What somebody who imports a package says over its files."""

    mode: str = ""  # modelarts or cluster_offline
    version: str = ""  # V1 or V2
    single: bool = False  # every server trains alone
    code: str = ""  # the directory of the training code
    boot: str = ""  # the boot file, where nothing in the package names it
    devices: int = 0  # cards per node, where the configuration does not tell
    folder: str = ""  # below out_base_url, for one run alone


@dataclass(frozen=True)
class Package:
    """The configuration of a package as it stands in its files."""

    folder: str
    code: str  # the directory of the training code; empty where there is none
    mode: Mode
    settings: Mapping[str, Found] = field(repr=False)  # modelarts_config.py
    variables: Mapping[str, Found] = field(repr=False)  # config.sh
    test: Plan = field(default_factory=Plan)
    system: Mapping[str, Any] | None = None
    starters: tuple[str, ...] = ()  # shell files that start the training in offline mode
    sourced: tuple[str, ...] = ()  # shell files that the training finds its environment in, in offline mode
    file: str = ""  # the one that says how to run
    root: str = ""  # what relative paths of config.sh start from: the `code` of the package

    @property
    def kind(self) -> str:
        """V1, V2 or offline."""
        return self.mode.kind

    @property
    def session(self) -> str:
        """The name of the section that counts."""
        return "session_config_v2" if self.kind == V2 else "session_config"

    def variable(self, name: str) -> Found | None:
        found = self.variables.get(name)
        return None if found is None or found.empty else found


def read(folder: str, choices: Choices, findings: Findings) -> Package:
    """Reads all files of a package that there are."""
    folder = os.path.abspath(folder)
    where = {name: _file(folder, name) for name in ("modelarts_config.py", "config.sh", "config.json", "system.json")}
    where["config.sh"] = where["config.sh"] or next(iter(_those(folder, *FOR_GPUS)), "")
    base = _base(folder)
    given = {"BASE_PATH": base, "CODE_PATH": f"{base}/code", "HOME": os.path.expanduser("~")}
    settings = _settings(where["modelarts_config.py"], findings) if where["modelarts_config.py"] else {}
    variables = shell.read(where["config.sh"], given, findings) if where["config.sh"] else {}
    if choices.single:
        variables["SINGLESERVER_MODE"] = Found("True", "--single_server_mode")
    files = Files(_file(folder, "benchmark.sh"), where["modelarts_config.py"], where["config.sh"])
    chosen = mode.choose(files, variables, choices.mode, choices.version, findings)
    file = files.shell if chosen.kind == OFFLINE else files.cloud
    if not file:
        _missing(folder, files, chosen, findings)
    return Package(
        folder=folder,
        code=os.path.abspath(choices.code) if choices.code else _training_code(base),
        mode=chosen,
        settings=settings,
        variables=variables,
        test=config_json.read(where["config.json"], findings) if where["config.json"] else Plan(),
        system=config_json.system(where["system.json"], findings) if where["system.json"] else None,
        starters=_those(folder, "run_node.sh", "cluster_offline_run.sh", "run.sh"),
        sourced=_those(folder, "mindspore_env.sh", "tensorflow_env.sh"),
        file=file or folder,
        root=f"{base}/code" if _is_package(base) else base,
    )


def _missing(folder: str, files: Files, chosen: Mode, findings: Findings) -> None:
    at = Found(None, folder)
    if files.cloud or files.shell:
        needed = "config.sh" if chosen.kind == OFFLINE else "modelarts_config.py"
        findings.wrong(at, "", f"holds no {needed}, which mode {chosen.name} needs", "choose the other mode, or add the file")
    else:
        hint = "name an unpacked package, its `code` directory, or the one with modelarts_config.py or config.sh"
        findings.wrong(at, "", "holds no configuration of AISBench", hint)


def _settings(path: str, findings: Findings) -> dict[str, Found]:
    found = literals.read(path, findings)
    return {section: Found(UNREAD, path) for section in SECTIONS} if found is None else found


def _file(folder: str, name: str) -> str:
    """Where a file lies, whichever directory of the package was named; empty where there is none."""
    for place in ("code/config", "config", "code", "."):
        path = os.path.normpath(os.path.join(folder, place, name))
        if os.path.isfile(path):
            return path
    return ""


def _those(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(path for name in names if (path := _file(folder, name)))


def _is_package(folder: str) -> bool:
    return any(os.path.exists(f"{folder}/code/{name}") for name in ("config", "benchmark.sh", "config.json", "code"))


def _base(folder: str) -> str:
    """The root of the package that a directory is, or is the `code` or `code/config` of; else the directory itself."""
    for inside in ("/code", "/code/config"):
        if folder.endswith(inside) and _is_package(folder.removesuffix(inside)):
            return folder.removesuffix(inside)
    return folder


def _training_code(base: str) -> str:
    """The directory of the training code; in the source of a workload it lies one level higher."""
    place = f"{base}/code/code" if _is_package(base) else f"{base}/code"
    return place if os.path.isdir(place) else ""
