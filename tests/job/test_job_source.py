"""Files that are hardly YAML, or too much of it, are refused in words and never take the loader down."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from job_files import accepted, one, refused, write

from muster.job.load import load
from muster.job.source import MOST_BYTES, JobError


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("command: x\nnodes: [1, 2\n", 3, "a bracket or a quote left open"),
        ("command: 'x\nnodes: 2\n", 3, "a bracket or a quote left open"),
        ("command: x\n  nodes: 2\n", 2, "holds `: `"),
        ("command: echo a: b\n", 1, "holds `: `"),
        ("command: x\n\tnodes: 2\n", 2, "not with tabs"),
        ("env:\n\tA: 1\ncommand: x\n", 2, "not with tabs"),
        ("command: @x\n", 1, "starts with a special character"),
        ("command: *.py\n", 1, "starts with a special character"),
        ("command: x\n}\n", 2, "check the indentation"),
        ('command: "\\q"\n', 1, "quote"),
    ],
)
def test_broken_yaml_is_told_with_its_line_and_a_hint(tmp_path: Path, text: str, line: int, hint: str) -> None:
    problem = one(tmp_path, text)
    assert problem.line == line
    assert problem.message.startswith("is not YAML: ")
    assert hint in problem.hint


def test_a_quote_left_open_is_told_where_it_begins(tmp_path: Path) -> None:
    assert "begins on line 2" in one(tmp_path, "nodes: 2\ncommand: 'x\n\n\n").message


def test_tabs_that_do_not_indent_are_spaces(tmp_path: Path) -> None:
    assert accepted(tmp_path, "command:\techo\tx\t# said\nnodes: \t2\n").nodes == 2


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"command: x\nname: \xff\xfe\n", 2),
        ("command: x\n".encode("utf-16"), 1),
        (b"command: x\nname: caf\xe9\n", 2),
        (b'command: "\xed\xa0\x80"\n', 1),
        (bytes(range(128, 256)) * 100, 1),
    ],
)
def test_a_file_that_is_not_utf8_is_told_where(tmp_path: Path, data: bytes, line: int) -> None:
    problem = one(tmp_path, data)
    assert problem.line == line
    assert problem.message == "is not UTF-8 text"


@pytest.mark.parametrize(
    ("text", "character"),
    [("command: a\0b", "U+0000"), ("command: \x1b[31m", "U+001B"), ("command: \x7f", "U+007F"), ("command: \ufffe", "U+FFFE")],
)
def test_a_character_that_yaml_does_not_allow_is_told_with_its_line(tmp_path: Path, text: str, character: str) -> None:
    problem = one(tmp_path, f"nodes: 2\n{text}\n")
    assert problem.line == 2
    assert character in problem.message


def test_utf16_without_a_mark_is_no_job_file(tmp_path: Path) -> None:
    assert "U+0000" in one(tmp_path, "command: x\n".encode("utf-16-le")).message


def test_a_byte_order_mark_and_foreign_line_ends_do_no_harm(tmp_path: Path) -> None:
    job = accepted(tmp_path, "\ufeffcommand: |\r\n  a\r\n  b\r\nname: 训练\r\n")
    assert (job.command, job.name) == ("a\nb\n", "训练")
    assert one(tmp_path, "\ufeffcommand: x\r\nnodes: 0\r\n").line == 2


def test_a_large_file_is_refused_and_one_at_the_limit_is_not(tmp_path: Path) -> None:
    text = "command: x\n#"
    accepted(tmp_path, text + "x" * (MOST_BYTES - len(text)))
    for size in (MOST_BYTES + 1, 10 << 20):
        assert "larger than 1 MB" in one(tmp_path, text + "x" * (size - len(text))).message


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(JobError, match="larger than 1 MB"):
        load("/dev/zero").checked()


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 5000, "- " * 5000 + "x", "command: " + "[" * 40 + "]" * 40])
def test_deep_nesting_is_refused(tmp_path: Path, text: str) -> None:
    assert "nested more than" in one(tmp_path, text).message


def nine(template: str, first: str) -> str:
    """Nine lines, each of which names the one before it ten times."""
    letters = "abcdefghi"
    lines = [f"a: &a {first}"]
    for before, letter in pairwise(letters):
        lines.append(f"{letter}: &{letter} " + template.format(", ".join([f"*{before}"] * 10)))
    return "\n".join(lines) + "\ncommand: x\n"


@pytest.mark.parametrize(
    "text",
    [nine("[{}]", "[x, x, x]"), nine("{{<<: [{}]}}", "{k: 1, l: 2}"), nine("{{k: [{}]}}", "{k: 1}")],
    ids=["lists", "merges", "mappings"],
)
def test_an_alias_bomb_is_refused_before_it_grows(tmp_path: Path, text: str) -> None:
    assert "values, those that aliases repeat included" in one(tmp_path, text).message


def test_aliases_cannot_repeat_a_long_text_without_end(tmp_path: Path) -> None:
    repeated = ", ".join(f"p{number}: *a" for number in range(100))
    text = f"command: x\nenv: {{A: &a {'x' * 100_000}}}\nparameters: {{{repeated}}}\n"
    assert "aliases repeat" in one(tmp_path, text).message


@pytest.mark.parametrize("text", ["&a [*a]\n", "a: &a {<<: *a}\n", "command: &a [*a]\n", "&a {*a : x}\n"])
def test_what_holds_itself_is_refused(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text)


def test_aliases_and_merge_keys_that_make_sense_are_followed(tmp_path: Path) -> None:
    text = """\
command: x
env: &common {A: 1, B: 2}
parameters:
  <<: [{C: 7, B: 6}, *common]
  B: 3
setup: &word echo
python_: *word
"""
    assert one(tmp_path, text).field == "python_"
    job = accepted(tmp_path, text.replace("python_: *word\n", ""))
    assert job.env == {"A": "1", "B": "2"}
    assert job.parameters == {"A": "1", "C": "7", "B": "3"}


def test_a_merge_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "merges `5`" in one(tmp_path, "command: x\nenv: {<<: 5}\n").message


def test_a_key_that_stands_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    problem = one(tmp_path, "command: x\nnodes: 1\n\nnodes: 2\n")
    assert (problem.line, problem.field) == (4, "nodes")
    assert "on line 2 too" in problem.message
    assert one(tmp_path, "command: x\nenv:\n  A: 1\n  A: 1\n").field == "env.A"


@pytest.mark.parametrize("text", ["command: x\n? [a, b]\n: c\n", "command: x\n? {a: b}\n: c\n", "command: x\n'': c\n"])
def test_a_key_that_is_no_word_is_refused(tmp_path: Path, text: str) -> None:
    assert one(tmp_path, text).line == 2


def test_several_documents_are_refused(tmp_path: Path) -> None:
    problem = one(tmp_path, "command: x\n---\ncommand: y\n")
    assert problem.line == 2
    assert "more than one YAML document" in problem.message
    assert accepted(tmp_path, "---\ncommand: x\n...\n").command == "x"


def test_what_a_file_holds_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    text = 'command: x\n"\\e[2J\\n": 1\nnodes: "\\e[31m"\ndevice: "\\u202e"\nenv: {"\\a": 1}\n'
    assert len(refused(tmp_path, text)) == 4  # each is asserted to be printable


def test_a_job_file_may_come_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader, writer = os.pipe()
    try:
        os.write(writer, b"command: x\n")
        os.close(writer)
        assert load(f"/dev/fd/{reader}").checked().code == os.path.realpath(tmp_path)
    finally:
        os.close(reader)


def test_a_link_to_a_job_file_finds_the_code_beside_the_file_itself(tmp_path: Path) -> None:
    path = write(tmp_path, "boot: train.py\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.yaml").symlink_to(path)
    job = load(tmp_path / "elsewhere" / "link.yaml").checked()
    assert (job.code, job.name) == (str(tmp_path), "link")
