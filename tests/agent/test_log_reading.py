"""Logs as byte positions, their last lines, and the exception that a traceback names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from muster.records.logs import Cursor, exception_line, last_lines, tail_offset


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.log"


def test_a_cursor_gives_every_byte_once_while_the_log_grows(log: Path) -> None:
    cursor = Cursor(str(log))
    assert cursor.read() == b""
    log.write_bytes(b"\x00\xff one")
    assert (cursor.read(), cursor.read(), cursor.offset) == (b"\x00\xff one", b"", 6)
    with log.open("ab") as file:
        file.write(b" two\n")
    assert (cursor.read(2), cursor.read()) == (b" t", b"wo\n")
    cursor.close()
    resumed = Cursor(str(log), 6)
    assert resumed.read() == b" two\n"
    resumed.close()


def test_a_log_that_a_program_truncates_is_followed_from_its_new_beginning(log: Path) -> None:
    log.write_bytes(b"first generation\n")
    cursor = Cursor(str(log))
    assert cursor.read() == b"first generation\n"
    for text in (b"second\n", b"3rd\n"):
        log.write_bytes(text)
        assert (cursor.read(), cursor.read(), cursor.offset) == (text, b"", len(text))
    cursor.close()


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 1, b"c"),
        (b"a\nb\nc\n", 9, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 0, b""),
        (b"\n\n\n", 2, b"\n\n"),
        (b"", 3, b""),
        (b"x" * 200_000 + b"\nend\n", 1, b"end\n"),
        (b"end\n" + b"x" * 200_000, 1, b"x" * 200_000),
        (b"line\n" * 100_000, 70_000, b"line\n" * 70_000),
    ],
)
def test_the_tail_begins_where_the_last_lines_do(log: Path, text: bytes, lines: int, expected: bytes) -> None:
    log.write_bytes(text)
    assert text[tail_offset(str(log), lines) :] == expected


def test_a_log_that_is_not_there_is_empty(log: Path) -> None:
    assert (tail_offset(str(log), 5), last_lines(str(log), 5)) == (0, [])


def test_last_lines_are_readable_text_whatever_was_written(log: Path) -> None:
    log.write_bytes(b"\xff\xfe broken\n" + b" 10%\r 50%\r100%\r\n" + "完成\n".encode() + b"a" * 5000 + b"\nno end")
    broken, progress, done, long, last = last_lines(str(log), 20)
    assert (broken, progress, done, last) == ("\ufffd\ufffd broken", "100%", "完成", "no end")
    assert long == "a" * 2000


def test_only_as_many_last_lines_as_asked_for(log: Path) -> None:
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert last_lines(str(log), 3) == ["line 99997", "line 99998", "line 99999"]


def says(program: str) -> list[str]:
    """What a real Python prints when it dies of a program."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("raise ValueError('no such layer')", "ValueError: no such layer"),
        ("raise KeyError", "KeyError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise ValueError('first line\\nsecond line')", "ValueError: first line"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f(:\n  pass", "SyntaxError: invalid syntax"),
        ("if True:\npass", "IndentationError: expected an indented block after 'if' statement on line 1"),
        ("eval('(')", "SyntaxError: '(' was never closed"),
        ("try:\n  1 / 0\nexcept Exception as e:\n  raise OSError('disk') from e", "OSError: disk"),
        ("try:\n  1 / 0\nexcept Exception:\n  {}['x']", "KeyError: 'x'"),
        ("raise ExceptionGroup('several', [ValueError('a')])", "ExceptionGroup: several (1 sub-exception)"),
        ("class Odd(Exception): pass\nraise Odd('异常')", "Odd: 异常"),
    ],
)
def test_the_exception_of_a_python_program_is_named(program: str, expected: str) -> None:
    assert exception_line(["before", *says(program), "  after, indented"]) == expected


def test_the_last_traceback_counts_and_prefixes_do_not_hide_it() -> None:
    first, second = says("raise ValueError('first')"), says("raise OSError('second')")
    assert exception_line([*first, "and then", *second, "goodbye"]) == "OSError: second"
    prefixed = [f"[rank3]: {line}" for line in second]
    assert exception_line([*first, *prefixed, "[rank3]: goodbye"]) == "OSError: second"


def test_lines_without_a_traceback_name_no_exception() -> None:
    assert exception_line([]) == ""
    assert exception_line(["ValueError: said in passing", '  File "x.py", line 3', "warning: odd"]) == ""
    assert exception_line(["Traceback (most recent call last):", '  File "cut off']) == ""
