"""Engines: what the names of clients mean here, by the table of config.toml, or by the names that ModelArts has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.config.modelarts import Engine, ModelArts
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.asking.problems import NO_ENGINE, Refused

# Parts of ids and names, the first that is found: a horovod engine has the name of TensorFlow in its id, too.
FRAMEWORKS = (
    ("horovod", "horovod"),
    ("mpi", "mpi"),
    ("mindspore", "mindspore"),
    ("pytorch", "pytorch"),
    ("tensorflow", "tensorflow"),
    ("tf-", "tensorflow"),
    ("paddle", "paddle"),
    ("caffe", "command"),
    ("mxnet", "command"),
    ("xgboost", "command"),
    ("sklearn", "command"),
    ("spark", "command"),
    ("ascend-powered-engine", "command"),
)
BUILT_IN = (
    "pytorch_1.8.0-cuda_10.2-py_3.7-ubuntu_18.04-x86_64",
    "pytorch_1.11.0-cann_6.3.0-py_3.7-euler_2.8.3-aarch64",
    "tensorflow_2.1.0-cuda_10.1-py_3.7-ubuntu_18.04-x86_64",
    "horovod_0.20.0-tensorflow_2.1.0-cuda_10.1-py_3.7-ubuntu_18.04-x86_64",
    "mindspore_1.6.0-cann_5.0.3.6-py_3.7-euler_2.8.3-aarch64",
    "mindspore_2.0.0-cann_6.3.0-py_3.7-euler_2.8.3-aarch64",
)
NAMES = {
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "horovod": "Horovod",
    "mindspore": "Ascend-Powered-Engine",
    "mpi": "MPI",
}


@dataclass(frozen=True)
class Chosen:
    """The engine of a job."""

    id: str
    name: str
    version: str
    settings: Engine


def listed(settings: ModelArts) -> list[Chosen]:
    """The engines that clients are shown."""
    known: Mapping[str, Engine] = settings.engines or {name: Engine(framework_of(name) or "command") for name in BUILT_IN}
    return [_chosen(name, engine) for name, engine in known.items()]


def choose(settings: ModelArts, given: Fields) -> Chosen:
    """The engine that a body names, by its id, or by its name and version. Raises Refused."""
    wanted = given.text("engine_id")
    name, version = given.text("engine_name"), given.text("engine_version")
    if not wanted and not name:
        raise Refused(NO_ENGINE, f"`{given.path}` names no engine; write engine_id, or engine_name with engine_version")
    for one in listed(settings):
        if one.id == wanted or (not wanted and (one.name, one.version) == (name, version)):
            return one
    text = wanted or f"{name} {version}".strip()
    if settings.engines:
        known = ", ".join(settings.engines)
        raise Refused(NO_ENGINE, f"there is no engine `{text[:100]}`; there is {known}, from config.toml of the server")
    framework = framework_of(wanted if wanted else f"{name}-{version}")
    if framework is None:
        hint = "ask an administrator to add it to config.toml, as in docs/modelarts.md"
        raise Refused(NO_ENGINE, f"there is no engine `{text[:100]}`; {hint}")
    return Chosen(wanted or text, name or NAMES.get(framework, "custom"), version or wanted, Engine(framework))


def framework_of(name: str) -> str | None:
    """The framework that the name of an engine speaks of."""
    low = re.sub(r"[ _]", "-", name.lower())
    if low.startswith("ascend-powered-engine"):  # the version says which framework it is
        low = low.removeprefix("ascend-powered-engine") + " ascend-powered-engine"
    return next((framework for part, framework in FRAMEWORKS if part in low), None)


def _chosen(engine_id: str, settings: Engine) -> Chosen:
    name = settings.name or NAMES.get(settings.framework) or engine_id.partition("_")[0].partition("-")[0]
    return Chosen(engine_id, name, settings.version or engine_id, settings)
