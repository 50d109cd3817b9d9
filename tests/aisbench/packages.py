"""Directories of AISBench for tests: packages with the configuration that people write, and the example workload."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.aisbench.importing import Imported, read
from muster.aisbench.package import Choices
from muster.storage import Settings, Storage

EXAMPLE = Path(__file__).parents[2] / "examples" / "aisbench-package"
ACCESS = {
    "access_key": "AKIDTESTTESTTEST",
    "secret_access_key": "sk-that-nobody-may-see",
    "server": "https://obs.cn-north-4.myhuaweicloud.com",
    "region_name": "cn-north-4",
    "project_id": "0a1b2c3d4e5f",
    "iam_endpoint": "",
    "obs_endpoint": "",
    "modelarts_endpoint": "",
}
SESSION: dict[str, Any] = {
    "hyperparameters": [
        {"label": "config_path", "value": "resnet50_imagenet2012_Boost_config.yaml"},
        {"label": "enable_modelarts", "value": "True"},
        {"label": "run_distribute", "value": "True"},
        {"label": "epoch_size", "value": "90"},
        {"label": "device_num", "value": "8"},
    ],
    "inputs": "/lab-bucket/dataset/imagenet_small/",
    "code_dir": "/lab-bucket/resnet/",
    "boot_file": "/lab-bucket/resnet/train.py",
    "job_name": "aisbench-debug",
    "framework_type": "Ascend-Powered-Engine",
    "framework_version": "MindSpore-1.3-cann_5.0.2-python3.7-euleros2.8-aarch64",
    "pool_id": None,
    "train_instance_type": "modelarts.kat1.8xlarge",
    "train_instance_count": 1,
    "out_base_url": "/lab-bucket/result/",
    "job_description_prefix": "lcm-debug desc",
}


def v2(session: Mapping[str, Any] = SESSION) -> dict[str, Any]:
    """The same in the form of the newer generation."""
    parameters = [{"name": pair["label"], "value": pair["value"]} for pair in session["hyperparameters"]]
    rest = {name: value for name, value in session.items() if name != "hyperparameters"}
    return {"parameters": parameters, **rest, "framework_version": "mindspore_1.3.0-cann_5.0.2-py_3.7-euler_2.8.3-aarch64"}


def written(name: str, fields: Mapping[str, Any]) -> str:
    """A section of modelarts_config.py as its template writes it: one field per line."""
    lines = [f"    {key!r}: {value!r}," for key, value in fields.items()]
    return f"{name} = ed({{\n" + "\n".join(lines) + "\n})\n"


def settings(access: Mapping[str, Any] = ACCESS, session: Mapping[str, Any] | None = SESSION, **more: Mapping[str, Any]) -> str:
    sections = {"access_config": access, "session_config": session, **more}
    texts = [written(name, fields) for name, fields in sections.items() if fields is not None]
    return "from easydict import EasyDict as ed\n\n" + "\n".join(texts)


def package(folder: Path, config: str | None = None, shell: str = "export PYTHON_COMMAND=python3\n", **files: str) -> Path:
    """An unpacked package; `files` are others, by their path in it."""
    texts = {"code/config/config.sh": shell, "code/code/train.py": "print('hello')\n", **files}
    if config is not None:
        texts["code/config/modelarts_config.py"] = config
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def imported(folder: Path, here: bool = False, **choices: Any) -> Imported:
    return read(str(folder), str(folder / "job.yaml"), Choices(**choices), here)


def complaints(folder: Path, here: bool = False, **choices: Any) -> list[str]:
    return [str(problem) for problem in imported(folder, here, **choices).findings.problems]


def unpacked(archive: Path, folder: Path) -> Path:
    """The one directory of a package."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="tar")
    return folder / archive.name.removesuffix(".tar.gz")


def changed(path: Path, *changes: tuple[str, str]) -> None:
    """Changes words of a file that must be there."""
    text = path.read_text()
    for before, after in changes:
        assert before in text, f"{path} does not hold {before!r}"
        text = text.replace(before, after)
    path.write_text(text)


def fill_store() -> None:
    """Puts the data of the example where its configuration says."""
    folder = Path(os.environ["MUSTER_HOME"]).parent / "points"
    subprocess.run([sys.executable, str(EXAMPLE / "make_data.py"), str(folder)], check=True)
    store = Storage(Settings(os.environ["MUSTER_HOME"]))
    for name in ("train", "val"):
        store.write(f"obs://aisbench-example/data/{name}/points.csv", (folder / name / "points.csv").read_bytes())


def stubs(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a package as its user does, from anywhere."""
    return subprocess.run(
        [str(folder / "ais-bench-stubs"), *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
        env={**os.environ, **env},
        cwd="/",
    )
