"""Frozen dataclasses with shared methods behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

import muster.dataclass as ours


@ours.dataclass(frozen=True)
class Ours:
    name: str
    size: int = 1
    tags: list[str] = field(default_factory=list)
    secret: str = field(default="", repr=False)
    origin: str = field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Standard:
    name: str
    size: int = 1
    tags: list[str] = field(default_factory=list)
    secret: str = field(default="", repr=False)
    origin: str = field(default="", compare=False)


@ours.dataclass(frozen=True)
class Heir(Ours):
    more: int = 0

    def __post_init__(self) -> None:
        if self.more < 0:
            raise ValueError(self.more)


@ours.dataclass(frozen=True)
class Hashable:
    name: str
    size: int = 0


@pytest.mark.parametrize("words", [("a",), ("a", 2), ("a", 2, ["x"], "s", "o")])
def test_instances_look_and_convert_alike(words: tuple[Any, ...]) -> None:
    one, other = Ours(*words), Standard(*words)
    assert repr(one) == repr(other).replace("Standard", "Ours")
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert list(vars(one)) == list(vars(other))
    assert dataclasses.replace(one, size=7) == Ours(*(*words[:1], 7, *words[2:]))
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


def test_equality_takes_the_compared_fields_of_one_class() -> None:
    assert Ours("a", origin="here") == Ours("a", origin="there")
    assert Ours("a") != Ours("b")
    assert Ours("a") != Heir("a")
    assert {Hashable("a"), Hashable("a", 0), Hashable("b")} == {Hashable("a"), Hashable("b")}


def test_each_instance_has_a_default_of_its_own() -> None:
    assert Ours("a").tags is not Ours("a").tags


@pytest.mark.parametrize(
    "words, named", [((), {}), (("a", 1, [], "", "", 9), {}), (("a",), {"name": "b"}), (("a",), {"sise": 1})]
)
def test_wrong_arguments_are_type_errors(words: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (Ours, Standard):
        with pytest.raises(TypeError):
            kind(*words, **named)


def test_an_instance_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ours("a").name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(Ours("a"), "name")


def test_an_heir_has_all_fields_and_is_checked() -> None:
    assert [found.name for found in dataclasses.fields(Heir)][-1] == "more"
    assert Heir("a", more=2).more == 2
    with pytest.raises(ValueError):
        Heir("a", more=-1)
