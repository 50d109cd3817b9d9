"""JSON is compared to the last digit, and ambiguous JSON is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.bench.bundle import strict_json

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def differ(there: str, follows: str) -> list[str]:
    return list(strict_json.differences(strict_json.loads(there), strict_json.loads(follows)))


@given(VALUES)
def test_equal_values_do_not_differ(value: Any) -> None:
    assert differ(json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)) == []


@given(VALUES, VALUES)
def test_values_differ_when_their_texts_do(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    found = bool(differ(json.dumps(one), json.dumps(other)))
    assert not (same and found)
    assert found or same or one == other  # 1 and 1.0 are one number


@given(st.floats(allow_nan=False, allow_infinity=False), st.data())
def test_every_digit_counts_even_where_a_float_would_not_tell(value: float, data: st.DataObject) -> None:
    text = repr(value)
    mantissa = text.partition("e")[0]
    at = data.draw(st.sampled_from([place for place, letter in enumerate(mantissa) if letter.isdigit()]))
    digit = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != text[at]]))
    changed = text[:at] + digit + text[at + 1 :]
    try:
        assert differ(changed, text)
    except strict_json.NotExact:
        pass  # a zero before other digits, or larger than any float


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_is_as_written(value: float) -> None:
    strict_json.check(json.dumps([value]).encode())


@pytest.mark.parametrize("text", ["0.10000000000000001", "451.77798444604604", "9007199254740993.0"])
def test_a_digit_that_a_float_would_not_tell_was_not_written_by_muster(text: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f'{{"t": 1}}\n{{"t": {text}}}\n')
    said = f"holds {text}, a number that is written {float(text)!r}"
    with pytest.raises(strict_json.NotExact, match=said):
        strict_json.check(f"[{text}]".encode())
    with pytest.raises(strict_json.NotExact, match=f"line 2 {said}"):
        strict_json.check_lines(lines)


def test_differences_say_where_and_what() -> None:
    there = {"runs": [{"ranks": [{"value": 1}, {"value": 451.2}], "a b": None}], "extra": True, "list": [1, 2, 3]}
    follows = {"runs": [{"ranks": [{"value": 1}, {"value": 450.2}], "a b": "x"}], "gone": {"a": 1}, "list": [1, 2]}
    assert differ(json.dumps(there), json.dumps(follows)) == [
        "runs[0].ranks[1].value: 451.2 stands there, 450.2 follows from the records",
        'runs[0]["a b"]: null stands there, "x" follows from the records',
        "gone: is missing, {…} with 1 keys follows from the records",
        "list: 3 entries stand there, 2 follow from the records",
        "extra: true stands there, nothing follows from the records",
    ]


@pytest.mark.parametrize(("there", "follows"), [("0", "false"), ("1", "true"), ("0", "null"), ('"1"', "1"), ("[]", "{}")])
def test_kinds_are_not_mixed_up(there: str, follows: str) -> None:
    assert differ(there, follows)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": {"v": 1, "v": 2}}', 'has the key "v" twice'),
        ('{"a": NaN}', "holds NaN, which is no number"),
        ("[-Infinity]", "holds -Infinity, which is no number"),
        ("[1e999]", "holds a number that nothing can measure"),
        ("9" * 500, "holds a number that nothing can measure"),
        ("[" * 200_000, "is nested too deeply"),
        ('{"a": 1} x', "is not JSON: extra data in line 1"),
        ("", "is not JSON: expecting value in line 1"),
        (b"\xff", "is not UTF-8 text"),
    ],
)
def test_what_leaves_open_what_it_says_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(strict_json.NotExact, match=reason):
        strict_json.loads(text)
