"""What names of engines and flavors mean, by themselves and by the tables of config.toml."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from muster import config
from muster.config.modelarts import ModelArts
from muster.server.modelarts import engines, flavors
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.asking.problems import Refused
from muster.server.modelarts.flavors import Offer, Wanted

OFFERS = [Offer("lab", "ascend", n, 2, "910", 96, 1 << 38) for n in (1, 2, 4, 8)]
OFFERS += [Offer("gpus", "nvidia", n, 1, "A100", 64, 1 << 38) for n in (1, 2, 4, 8)]
OFFERS += [Offer("small", "cpu", 1, 1, "", 4, 1 << 33)]


def wanted(flavor: str, pool: str = "", settings: ModelArts | None = None) -> Wanted:
    platform: Any = SimpleNamespace(modelarts=settings or ModelArts())
    return flavors.choose(platform, OFFERS, flavor, pool)


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("pytorch_1.8.0-cuda_10.2-py_3.7-ubuntu_18.04-x86_64", "pytorch"),
        ("tensorflow_2.1.0-cuda_10.1-py_3.7-ubuntu_18.04-x86_64", "tensorflow"),
        ("horovod_0.20.0-tensorflow_2.1.0-cuda_10.1-py_3.7-ubuntu_18.04-x86_64", "horovod"),
        ("mindspore_1.6.0-cann_5.0.3.6-py_3.7-euler_2.8.3-aarch64", "mindspore"),
        ("caffe-1.0.0-python2.7", "command"),
        ("pytorch-cp36-1.4.0-v2", "pytorch"),
        ("xgboost-sklearn-python3.6", "command"),
        ("MindSpore-GPU", "mindspore"),
        ("Ascend-Powered-Engine-Mindspore-1.8.1-python3.7", "mindspore"),
        ("Ascend-Powered-Engine-TF-1.15-python3.7", "tensorflow"),
        ("fortran", None),
    ],
)
def test_names_of_engines_say_their_framework(name: str, framework: str | None) -> None:
    assert engines.framework_of(name) == framework


@pytest.mark.parametrize(
    ("flavor", "kind", "devices"),
    [
        ("modelarts.vm.cpu.8ud", "cpu", 1),
        ("modelarts.vm.gpu.v100", "nvidia", 1),
        ("modelarts.bm.gpu.8v100", "nvidia", 8),
        ("modelarts.p3.large.public.free", "nvidia", 1),
        ("modelarts.p3.8xlarge.public", "nvidia", 8),
        ("modelarts.vm.ai1.a310", "ascend", 1),
        ("modelarts.kat1.xlarge", "ascend", 1),
        ("modelarts.kat1.8xlarge.public", "ascend", 8),
        ("modelarts.bm.snt9.xlarge.2", "ascend", 2),
        ("ascend.4", "ascend", 4),
    ],
)
def test_names_of_flavors_say_kind_and_number(flavor: str, kind: str, devices: int) -> None:
    assert wanted(flavor) == Wanted(kind, devices)


def test_flavors_of_dedicated_pools_mean_what_the_pool_has() -> None:
    assert wanted("modelarts.pool.visual.4xlarge", "gpus") == Wanted("nvidia", 4, "gpus")
    assert wanted("modelarts.pool.visual.xlarge", "small") == Wanted("cpu", 1, "small")
    assert wanted("", "lab") == Wanted("auto", 1, "lab")
    with pytest.raises(Refused, match="no node has so many"):
        wanted("modelarts.pool.visual.16xlarge", "lab")
    with pytest.raises(Refused, match="there is no pool"):
        wanted("ascend.1", "elsewhere")


def test_tables_of_the_settings_come_first(tmp_path: Any) -> None:
    (tmp_path / "config.toml").write_text(
        '[modelarts.engines.own]\nframework = "pytorch"\npython = "/opt/python"\nname = "PyTorch"\nversion = "2"\n'
        '[modelarts.flavors."modelarts.vm.gpu.v100"]\ndevice = "ascend"\ndevices = 2\npool = "lab"\n'
    )
    settings = config.load(str(tmp_path)).modelarts
    assert wanted("modelarts.vm.gpu.v100", settings=settings) == Wanted("ascend", 2, "lab")
    for given in ({"engine_id": "own"}, {"engine_name": "PyTorch", "engine_version": "2"}):
        assert engines.choose(settings, Fields(given, "engine")).settings.python == "/opt/python"
    with pytest.raises(Refused, match="there is own, from config"):
        engines.choose(settings, Fields({"engine_id": "pytorch_1.8.0"}, "engine"))
