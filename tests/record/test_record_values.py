"""What scripts may record, in every Python that a job may have: the packed agent lends them the module."""

from __future__ import annotations

from pathlib import Path

import pytest
from pythons import VERSIONS, call, python_of, recorded, said

from muster.launch.start import packed_agent

SCRIPT = """
    import sys
    from decimal import Decimal
    from fractions import Fraction
    from muster import record
    import muster.record
    assert muster.record is record
    assert [name for name in sys.modules if name.startswith("muster.")] == ["muster.record"]
    assert record.active
    record.metric("throughput", 450.77798444604605, unit="samples/s", step=3)
    record.metric("loss", 7)
    record.metric("half", Fraction(1, 2))
    record.metric("\\u7cbe\\u5ea6", Decimal("0.25"))
    with record.phase("dataload"):
        pass
    record.start("eval")
    record.end("eval")
    try:
        with record.phase("broken"):
            raise KeyError("x")
    except KeyError:
        pass
"""


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the PYTHONPATH of ranks ends with."""
    return packed_agent.build(str(tmp_path_factory.mktemp("home"))) + "/muster/shims"


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_and_phases_are_kept_in_any_python(version: str, shims: str, tmp_path: Path) -> None:
    launched = {"MUSTER_RANK": "0", "RANK": "5", "WORLD_SIZE": "8"}
    said(SCRIPT, python=python_of(version), PYTHONPATH=shims, MUSTER_RESULTS=str(tmp_path), **launched)
    lines = recorded(tmp_path, 5)
    assert all(line.pop("rank") == 5 and line.pop("t") > 1.7e9 for line in lines)
    common = {"kind": "metric", "unit": "", "step": None, "final": False, "ranks": 8}
    edges = [(name, edge) for name in ("dataload", "eval", "broken") for edge in ("start", "end")]
    assert lines == [
        {**common, "name": "throughput", "value": 450.77798444604605, "unit": "samples/s", "step": 3},
        {**common, "name": "loss", "value": 7.0},
        {**common, "name": "half", "value": 0.5},
        {**common, "name": "精度", "value": 0.25},
        *({"kind": "phase", "name": name, "edge": edge} for name, edge in edges),
    ]


WRONG = {
    "'acc', float('nan')": "ValueError: The value of acc is nan. Only finite numbers can be recorded.",
    "'acc', float('-inf')": "ValueError: The value of acc is -inf. Only finite numbers can be recorded.",
    "'acc', True": "TypeError: The value of acc is of type bool. Give one number.",
    "'acc', '0.5'": "TypeError: The value of acc is of type str. Give one number.",
    "'acc', None": "TypeError: The value of acc is of type NoneType. Give one number.",
    "'acc', [1, 2]": "TypeError: The value of acc is of type list. Give one number.",
    "'acc', 10 ** 400": "ValueError: The value of acc is inf. Only finite numbers can be recorded.",
    "'', 1": "TypeError: The name of a metric is ''. Give a text.",
    "7, 1": "TypeError: The name of a metric is 7. Give a text.",
    "'acc', 1, unit=7": "TypeError: The unit is 7. Give a text.",
    "'acc', 1, step=1.5": "TypeError: The value of step is 1.5. Give a whole number.",
    "'acc', 1, step=-1": "ValueError: The value of step is -1. Give 0 or more.",
}


@pytest.mark.parametrize("inside", [True, False], ids=["in a run", "outside"])
@pytest.mark.parametrize("words", WRONG)
def test_what_is_no_finite_number_is_refused_everywhere(words: str, inside: bool, tmp_path: Path) -> None:
    env = {"MUSTER_RESULTS": str(tmp_path)} if inside else {}
    done = call(f"from muster import record; record.metric({words})", **env)
    assert done.stderr.splitlines()[-1] == WRONG[words]
    assert list(tmp_path.glob("record-*")) == []


NUMPY = """
    import numpy
    from muster import record
    record.metric("a", numpy.float32(0.5), step=numpy.int64(3))
    record.metric("b", numpy.array(2.5))
    for value in (numpy.bool_(True), numpy.array([1.0, 2.0]), numpy.float64("nan"), numpy.array(True)):
        try:
            record.metric("c", value)
        except (TypeError, ValueError) as error:
            print(type(error).__name__)
"""


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    assert said(NUMPY, MUSTER_RESULTS=str(tmp_path)).split() == ["TypeError", "TypeError", "ValueError", "TypeError"]
    assert [(line["value"], line["step"]) for line in recorded(tmp_path)] == [(0.5, 3), (2.5, None)]


TENSOR = """
    import warnings
    from muster import record

    class Tensor:
        \"\"\"What the tensors of frameworks have in common.\"\"\"
        def __init__(self, *values):
            self.values = values
        def item(self):
            if len(self.values) != 1:
                raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")
            return self.values[0]
        def __float__(self):
            warnings.warn("Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.")
            return float(self.values[0])

    record.metric("a", Tensor(0.5))
    for value in (Tensor(True), Tensor(1.0, 2.0)):
        try:
            record.metric("b", value)
        except TypeError as error:
            print(error)
"""


def test_a_tensor_with_one_element_is_a_number(tmp_path: Path) -> None:
    refused = "The value of b is of type Tensor. Give one number."
    assert said(TENSOR, MUSTER_RESULTS=str(tmp_path)).splitlines() == [refused, refused]
    assert [(line["name"], line["value"]) for line in recorded(tmp_path)] == [("a", 0.5)]
