"""Configuration files are read and never executed: what is plain is understood, everything else is reported with its line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.aisbench.config import config_json, python_file, shell_file
from muster.aisbench.config.values import ConfigValue, Findings


def python(tmp_path: Path, text: str) -> tuple[dict[str, Any], list[str]]:
    path = tmp_path / "settings.py"
    path.write_text(text)
    findings = Findings()
    found = python_file.read(str(path), findings) or {}
    findings.make_relative(str(tmp_path))
    return {name: plain(value) for name, value in found.items()}, [str(problem) for problem in findings.problems]


def plain(found: ConfigValue) -> Any:
    if isinstance(found.value, dict):
        return {key: plain(value) for key, value in found.value.items()}
    return [plain(entry) for entry in found.value] if isinstance(found.value, list) else found.value


def variables(tmp_path: Path, text: str) -> tuple[dict[str, str], list[str], list[str]]:
    path = tmp_path / "config.sh"
    path.write_text(text)
    findings = Findings()
    found = shell_file.read(str(path), {"BASE_PATH": "/pack"}, findings)
    findings.make_relative(str(tmp_path))
    values = {name: str(value.value) for name, value in found.items()}
    return values, [str(problem) for problem in findings.problems], [str(note) for note in findings.notes]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = {'a': 1, 'b': [None, True, -2.5]}", {"a": 1, "b": [None, True, -2.5]}),
        ("from easydict import EasyDict as ed\nx = ed({'a': 'b'})", {"a": "b"}),
        ("from easydict import EasyDict\nx = EasyDict(a='b', c=2)", {"a": "b", "c": 2}),
        ("import easydict\nx = easydict.EasyDict({'a': 1}, b=2)", {"a": 1, "b": 2}),
        ("x = dict(a=1)", {"a": 1}),
        ("base = '/bucket'\nx = base + '/in/' + 'data/'", "/bucket/in/data/"),
        ("x = ('one '\n     'two')", "one two"),
        ("y = {'a': {'b': 'deep'}}\nx = y['a']['b']", "deep"),
        ("from easydict import EasyDict as ed\nx = ed({'a': 1})\nx.a = 2\nx['b'] = 3", {"a": 2, "b": 3}),
        ("x: str = 'typed'", "typed"),
        ('"""A docstring."""\nx = 1', 1),
        ("x = [{'label': 'a', 'value': '1'}] + [{'label': 'b', 'value': '2'}]",
         [{"label": "a", "value": "1"}, {"label": "b", "value": "2"}]),
    ],
)  # fmt: skip
def test_plain_settings_are_understood(tmp_path: Path, text: str, value: Any) -> None:
    found, problems = python(tmp_path, text)
    assert problems == []
    assert found["x"] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\nx = os.environ['KEY']", "settings.py:2: uses a name that was not given"),
        ("a = 1\nx = open('/etc/passwd').read()", "settings.py:2: holds a call, whose value"),
        ("x = '{}'.format(1)", "settings.py:1: holds a call, whose value"),
        ("x = {'a': get_key()}", "settings.py:1: holds a call of `get_key`"),
        ("x = [n for n in range(3)]", "settings.py:1: holds an expression"),
        ("\n\nif True:\n    x = 1", "settings.py:3: holds a statement that is not an assignment"),
        ("def f():\n    pass", "settings.py:1: holds a statement that is not an assignment"),
        ("x = f'{1}'", "settings.py:1: holds an expression"),
        ("x = {1: 2}", "settings.py:1: has a key that is not a text"),
        ("x = {'a': 1,\n     'a': 2}", "settings.py:2: `a` stands twice, on line 1 too"),
        ("x = 'a' + 1", "settings.py:1: adds values that do not go together"),
        ("x = {'a': 1", "settings.py:1: is not Python"),
        ("x = unknown", "settings.py:1: uses a name that was not given a plain value before, or is a text without"),
        ("x = get_key()\ny = x + 'b'", "settings.py:2: uses a name that was not given a plain value before"),
    ],
)
def test_everything_else_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    _, problems = python(tmp_path, text)
    assert [problem for problem in problems if problem.startswith(message)], problems


@pytest.mark.parametrize(
    "text",
    ["x = SECRET123", "x = {'k': SECRET123 + 'b'}", "x = 'SECRET123{}'.format(1)", "x = a.SECRET123", "x = 'SECRET123' % 1"],
)
def test_a_key_that_is_written_wrong_is_not_shown(tmp_path: Path, text: str) -> None:
    _, problems = python(tmp_path, text)
    assert problems and "SECRET123" not in str(problems)


def test_nothing_is_executed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    python(tmp_path, f"import pathlib\npathlib.Path({str(trace)!r}).touch()\nx = __import__('os').system('touch {trace}')\n")
    variables(tmp_path, f"export A=$(touch {trace})\nexport B=`touch {trace}`\ntouch {trace}\n")
    assert not trace.exists()


def test_deep_nesting_does_not_bring_the_reader_down(tmp_path: Path) -> None:
    _, problems = python(tmp_path, "x = " + "[" * 5000 + "]" * 5000)
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("export X=plain", "plain"),
        ("X=plain # a comment", "plain"),
        ("export X='single $HOME'", "single $HOME"),
        ('export A=/data\nexport X="$A/train dir"', "/data/train dir"),
        ("A=one\nexport X=${A}_two", "one_two"),
        ("export X=${NOBODY:-fallback}", "fallback"),
        ("export X=$BASE_PATH/table.json", "/pack/table.json"),
        ("export A=1 X=2; B=3", "2"),
        ("export X=a\\ b", "a b"),
        ("export X=one\\\ntwo", "onetwo"),
        ("X=first\nX=second\nexport X", "second"),
        ("export X=a#b", "a#b"),
        ('export X="a \\"b\\""', 'a "b"'),
        ("export X=dos\r\nexport Y=1\r\n", "dos"),
        ("export X=~/data", "/home/me/data"),
        ("X=~", "/home/me"),
        ("export X=/a:~/b", "/a:/home/me/b"),
        ("export X='~/data'", "~/data"),
        ("export X=a~", "a~"),
        ("export X=~root/data", "~root/data"),
    ],
)
def test_assignments_of_a_shell_are_understood(tmp_path: Path, text: str, value: str) -> None:
    path = tmp_path / "config.sh"
    path.write_bytes(text.encode())
    findings = Findings()
    found = shell_file.read(str(path), {"BASE_PATH": "/pack", "HOME": "/home/me"}, findings)
    assert findings.problems == []
    assert found["X"].value == value


def test_a_variable_can_be_unset(tmp_path: Path) -> None:
    values, problems, _ = variables(tmp_path, "export A=1\nexport B=2\nunset A\n")
    assert (values, problems) == ({"B": "2"}, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\nexport X=$(hostname)", "config.sh:2: `X` takes the output of a command"),
        ("export X=`hostname`", "config.sh:1: `X` takes the output of a command"),
        ('export X="$(cd "$(dirname "$0")" && pwd)/data"', "config.sh:1: `X` takes the output of a command"),
        ("export X=$NOBODY/data", "config.sh:1: `X` uses `NOBODY`, which is not set before"),
        ("export X='open", "config.sh:1: opens a quote that is never closed"),
    ],
)
def test_what_a_shell_would_have_to_run_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    values, problems, _ = variables(tmp_path, text)
    assert [problem for problem in problems if problem.startswith(message)], problems
    assert "X" not in values or message.endswith("closed")


@pytest.mark.parametrize("text", ["export X = True", "export X= True", "export X =True", "X = True", "X= True", "X =True"])
def test_spaces_beside_an_assignment_are_told(tmp_path: Path, text: str) -> None:
    """People think that they switched something on."""
    values, problems, _ = variables(tmp_path, f"export A=1\n{text}\nexport B= C=2\n")
    expected = "config.sh:2: `X` has a space beside `=`, which a shell takes for the end; write `X=...` without spaces"
    assert (values, problems) == ({"A": "1", "B": "", "C": "2"}, [expected])


def test_commands_in_a_shell_file_are_named_and_not_carried_out(tmp_path: Path) -> None:
    values, problems, notes = variables(tmp_path, "set -e\nulimit -n 1000\nexport X=1\n")
    assert (values, problems) == ({"X": "1"}, [])
    assert [note[:46] for note in notes] == [
        "config.sh:1: holds a command, which is not car",
        "config.sh:2: holds a command, which is not car",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"testid": "T-1", "Mode": "training", "Model": "resnet50", "Divsion": "close", "Scenario": "generic",'
        ' "test_object_type": "single", "tester_server_ip": "10.0.0.7", "tester_server_port": "9530"}',
        '{"test_id": "T-1", "mode": "training", "model": "resnet50", "division": "close", "scenario": "generic",'
        ' "test_object_type": "single", "tester_ip": "10.0.0.7", "tester_port": 9530}',
        '{"TestInfo": {"TestId": "T-1", "Mode": "training", "Model": "resnet50", "Division": "close", "Scenario": "generic",'
        ' "TestObjectType": "single"}, "tester_server": {"ip": "10.0.0.7", "port": 9530}}',
    ],
)
def test_every_spelling_of_config_json_is_understood(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    found = config_json.read(str(path), Findings())
    assert found == config_json.PlannedTest("T-1", "training", "resnet50", "close", "generic", "single", "10.0.0.7", "9530")
    assert found.url == "http://10.0.0.7:9530"
    assert found.shown() == (
        "testid:T-1, Mode:training, Model:resnet50, Divsion:close, Scenario:generic, test_object_type:single, "
        "tester_server_ip:10.0.0.7, tester_server_port:9530"
    )


def test_a_broken_config_json_is_a_problem_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n"testid": "T-1",,\n}')
    findings = Findings()
    config_json.read(str(path), findings)
    findings.make_relative(str(tmp_path))
    assert [str(problem)[:29] for problem in findings.problems] == ["config.json:2: is not JSON; c"]


SHELL_LIKE = st.text(alphabet="ab$(){}`'\"\\ #;\n=X-:é\t", max_size=60)
PYTHON_LIKE = st.text(alphabet="ax1 =+-.,:'\"[](){}\n\\#\u00e9*", max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=SHELL_LIKE)
def test_no_shell_text_brings_the_reader_down(tmp_path: Path, text: str) -> None:
    variables(tmp_path, text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=PYTHON_LIKE)
def test_no_python_text_brings_the_reader_down(tmp_path: Path, text: str) -> None:
    python(tmp_path, text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(value=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_every_text_is_read_back_from_the_job_file(value: str) -> None:
    import yaml

    from muster.aisbench.config.job_text import JobField, render

    text = render([], [JobField("field", value, "where it came from")], [])
    assert str(yaml.compose(text).value[0][1].value) == value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(value=st.text(alphabet="ab'\"$ \\#", max_size=12))
def test_a_shell_agrees_about_every_value(tmp_path: Path, value: str) -> None:
    written = f"a=one\nexport X={value}\n"
    values, problems, notes = variables(tmp_path, written)
    script = f'{written}printf "%s" "$X"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    if not problems and not notes and done.returncode == 0 and not done.stderr:
        assert values["X"] == done.stdout, written
