"""Reads a directory of AISBench: an unpacked package, its `code/`, or only some of the files of one."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.aisbench.config import config_json, mode, python_file, shell_file
from muster.aisbench.config.config_json import PlannedTest
from muster.aisbench.config.mode import OFFLINE, V2, Mode
from muster.aisbench.config.values import UNREAD, ConfigValue, Findings

GPU_CONFIGS = ("config_imagenet2012.sh", "config_pretrain.sh")  # config.sh in packages for NVIDIA's GPUs
FILES = ("benchmark.sh", "modelarts_config.py", "config.sh", "config.json", "system.json")
SECTIONS = ("access_config", "session_config", "session_config_v2")  # of modelarts_config.py


@dataclass(frozen=True)
class Choices:
    """Options that override the files of a package."""

    mode: str = ""  # modelarts or cluster_offline
    version: str = ""  # V1 or V2
    single: bool = False  # every server trains alone
    code: str = ""  # the directory of the training code
    boot: str = ""  # the boot file, where nothing in the package names it
    devices: int = 0  # cards per node, where the configuration does not say
    folder: str = ""  # below out_base_url, for one run alone


@dataclass(frozen=True)
class Package:
    """The configuration of a package, as read from its files."""

    folder: str
    code: str  # the directory of the training code; empty where there is none
    mode: Mode
    settings: Mapping[str, ConfigValue] = field(repr=False)  # modelarts_config.py
    variables: Mapping[str, ConfigValue] = field(repr=False)  # config.sh
    test: PlannedTest = field(default_factory=PlannedTest)
    system: Mapping[str, Any] | None = None
    start_scripts: tuple[str, ...] = ()  # shell files that start the training in offline mode
    env_scripts: tuple[str, ...] = ()  # shell files that set the environment of the training in offline mode
    file: str = ""  # the configuration file of the mode
    root: str = ""  # the directory to which paths in config.sh are relative: the `code` of the package

    @property
    def kind(self) -> str:
        """V1, V2 or offline."""
        return self.mode.kind

    @property
    def session(self) -> str:
        """The name of the section for this version of ModelArts."""
        return "session_config_v2" if self.kind == V2 else "session_config"

    @property
    def names_hosts(self) -> bool:
        """True if the package trains on the servers that NODEINFO_FILE lists."""
        return self.kind == OFFLINE and self.variable("NODEINFO_FILE") is not None

    def variable(self, name: str) -> ConfigValue | None:
        found = self.variables.get(name)
        return None if found is None or found.empty else found


def read(folder: str, choices: Choices, findings: Findings) -> Package:
    """Reads all files of a package that there are."""
    folder = os.path.abspath(folder)
    paths = {name: _file(folder, name) for name in FILES}
    paths["config.sh"] = paths["config.sh"] or next(iter(_existing(folder, *GPU_CONFIGS)), "")
    base = _base(folder)
    given = {"BASE_PATH": base, "CODE_PATH": f"{base}/code", "HOME": os.path.expanduser("~")}
    settings = python_file.read(paths["modelarts_config.py"], findings) if paths["modelarts_config.py"] else {}
    if settings is None:
        settings = {section: ConfigValue(UNREAD, paths["modelarts_config.py"]) for section in SECTIONS}
    variables = shell_file.read(paths["config.sh"], given, findings) if paths["config.sh"] else {}
    if choices.single:
        variables["SINGLESERVER_MODE"] = ConfigValue("True", "--single_server_mode")
    chosen = mode.choose(paths, variables, choices.mode, choices.version, findings)
    needed = "config.sh" if chosen.kind == OFFLINE else "modelarts_config.py"
    if not paths[needed] and (paths["config.sh"] or paths["modelarts_config.py"]):
        message, hint = f"holds no {needed}, which mode {chosen.name} needs", "choose the other mode, or add the file"
        findings.problem(ConfigValue(None, folder), "", message, hint)
    elif not paths[needed]:
        hint = "name an unpacked package, its `code` directory, or the one with modelarts_config.py or config.sh"
        findings.problem(ConfigValue(None, folder), "", "holds no configuration of AISBench", hint)
    return Package(
        folder=folder,
        code=os.path.abspath(choices.code) if choices.code else _training_code(base),
        mode=chosen,
        settings=settings,
        variables=variables,
        test=config_json.read(paths["config.json"], findings) if paths["config.json"] else PlannedTest(),
        system=config_json.read_object(paths["system.json"], findings) if paths["system.json"] else None,
        start_scripts=_existing(folder, "run_node.sh", "cluster_offline_run.sh", "run.sh"),
        env_scripts=_existing(folder, "mindspore_env.sh", "tensorflow_env.sh"),
        file=paths[needed] or folder,
        root=f"{base}/code" if _is_package(base) else base,
    )


def _file(folder: str, name: str) -> str:
    """Returns the path of a file, whichever directory of the package was named; empty where there is none."""
    for subfolder in ("code/config", "config", "code", "."):
        path = os.path.normpath(os.path.join(folder, subfolder, name))
        if os.path.isfile(path):
            return path
    return ""


def _existing(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(path for name in names if (path := _file(folder, name)))


def _is_package(folder: str) -> bool:
    return any(os.path.exists(f"{folder}/code/{name}") for name in ("config", "benchmark.sh", "config.json", "code"))


def _base(folder: str) -> str:
    """Returns the root of the package of which a directory is the root, `code` or `code/config`; else the directory."""
    for inside in ("/code", "/code/config"):
        if folder.endswith(inside) and _is_package(folder.removesuffix(inside)):
            return folder.removesuffix(inside)
    return folder


def _training_code(base: str) -> str:
    """Returns the directory of the training code; in the source of a workload it is one level higher."""
    folder = f"{base}/code/code" if _is_package(base) else f"{base}/code"
    return folder if os.path.isdir(folder) else ""
