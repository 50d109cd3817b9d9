"""Why an attempt ended as it did, in words, from what agents and ranks wrote down and nothing else."""

from __future__ import annotations

import os
import re

from muster.dataclass import replace
from muster.records.files import read_events
from muster.records.layout import AttemptDir
from muster.records.logs import exception_line, last_lines
from muster.records.run_view import Cause, Explanation, Failure
from muster.records.text.units import duration, signal_name, size
from muster.records.untrusted import is_regular

TAIL_LINES = 20
USAGE = 2  # the code of a program that was given something wrong, and says so in its last line, as argparse does
NOT_RUN = (126, 127)  # the codes of a shell that could not run a program, or did not find it
# How shells say so, in English and Chinese.
SHELL = (
    "[:：] ?(command not found|not found|No such file or directory|Permission denied|Is a directory|cannot execute"
    "|bad interpreter|未找到命令|没有那个文件或目录|权限不够|无法执行)|is not on the PATH"
)
WORDS = {  # by kinds of failures
    "start": "{who} could not be started: {of.message}",
    "setup": "{who} failed: {of.message}",
    "memory": "the processes of {where} used {used} together, more than the job's `memory: {limit}`",
    "plan": "{of.message}",
    "code": "the code could not be brought to {where} (code {of.code}): {of.message}",
    "input": "the inputs of {where} could not be fetched: {of.message}",
    "output": "the outputs of {where} could not be uploaded and are kept in its directory: {of.message}",
}
NO_MODULE = "; `python` in the job file, or --set python=/path/to/python, names a Python that has it"


def _as_signal(code: int | None) -> bool:
    """True if an exit code is a shell's way to say that its program was killed."""
    return code is not None and 128 < code < 160


def over_time(limit: float) -> str:
    return f"it took longer than its time limit of {duration(limit)}"


def who(failure: Failure) -> str:
    is_rank = failure.rank >= 0 and failure.process != "main"
    return f"{f'rank {failure.rank}' if is_rank else failure.process} on {_where(failure)}"


def _where(failure: Failure) -> str:
    return f"node {failure.node} ({failure.host})" if failure.host else f"node {failure.node}"


def sentence(failure: Failure, exception: str = "") -> str:
    """One failure in words."""
    text = _what(failure)
    if failure.oom:
        text += "; the kernel's counters show out of memory"
    elif failure.oom_before:
        text += "; the kernel had killed another process of its node for memory"
    text = text if text.endswith(exception) else f"{text}: {exception}"
    return text + NO_MODULE if "ModuleNotFoundError: " in exception else text


def _what(failure: Failure) -> str:
    if failure.kind in WORDS:
        names = {"who": who(failure), "where": _where(failure)}
        return WORDS[failure.kind].format(of=failure, used=size(failure.used), limit=size(failure.limit), **names)
    if failure.kind == "signal":
        return f"{who(failure)} was killed ({signal_name(failure.signal or 0)})"
    shell = f" (128 + {signal_name(failure.code - 128)})" if failure.code and _as_signal(failure.code) else ""
    return f"{who(failure)} exited with code {failure.code}{shell}"


def cause(failure: Failure) -> Cause:
    """The cause of a failure in the words of `retry_on`."""
    if failure.oom or failure.kind == "memory":
        return Cause.OOM
    if failure.kind in ("input", "code"):
        return Cause.INPUT
    if failure.process == "setup":
        return Cause.SETUP
    return Cause.SIGNAL if failure.kind == "signal" else Cause.EXIT


def where_stacks_are(attempt: AttemptDir) -> str:
    """Where to read what the ranks of a silent attempt were doing."""
    dumps = [event for node in attempt.node_indexes() for event in read_events(attempt.node(node).events)]
    dumps = [event for event in dumps if event["event"] == "stacks"]
    if any(event["files"] for event in dumps):
        return f"; the stacks of its ranks are in {attempt.nodes}/*/stacks"
    if any(event.get("in_logs") for event in dumps):
        return "; the stacks of its ranks are at the end of their logs"
    return ""


def explain(attempt: AttemptDir, failures: list[Failure]) -> Explanation:
    """The first failure with the end of its log, and the other distinct causes."""
    distinct: dict[tuple[str, int | None, int | None, str], Explanation] = {}
    for found in (_log_end(attempt, failure) for failure in failures):
        distinct.setdefault((found.failure.kind, found.failure.code, found.failure.signal, found.exception), found)
    first, *others = distinct.values()
    sentences = [sentence(found.failure, found.exception) for found in (first, *others)]
    return replace(first, sentence=sentences[0], others=tuple(sentences[1:]))


def _log_end(attempt: AttemptDir, failure: Failure) -> Explanation:
    """A failure with the last lines of the process, and the exception that ended it."""
    if not failure.process:
        return Explanation(failure, None, "", ())
    launched = _first_launched(attempt, failure) if failure.process == "main" and not failure.signal else None
    if launched:
        return launched
    path = attempt.node(failure.node).log(failure.process)
    lines = last_lines(path, 1000)
    # Who was killed may have printed a traceback long before: it says nothing about the end.
    exception = "" if failure.signal or _as_signal(failure.code) else exception_line(lines)
    if failure.code != 1 and lines and exception != lines[-1].strip():
        exception = ""  # Python ends with 1 of an exception: this one was handled, and something else ended it
    return Explanation(failure, path, exception or _last_words(failure.code, lines), tuple(lines[-TAIL_LINES:]))


def _last_words(code: int | None, lines: list[str]) -> str:
    """Returns the line in which a program or its shell says what was wrong, for exit codes with which there is one."""
    if code == USAGE:
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    if code in NOT_RUN:
        return next((line.strip() for line in reversed(lines[-TAIL_LINES:]) if re.search(SHELL, line)), "")
    return ""


def _first_launched(attempt: AttemptDir, failure: Failure) -> Explanation | None:
    """The end of the log of the rank that failed first, of those that a launcher started: it only says that one did."""
    logs = [attempt.node(node).rank_logs() for node in attempt.node_indexes()]
    regular = (path for paths in logs for path in paths if is_regular(path))
    for path in sorted(regular, key=os.path.getmtime):
        lines = last_lines(path, 1000)
        exception = exception_line(lines)
        if failure.code in NOT_RUN:
            exception = _last_words(failure.code, lines[-1:])
        if exception and exception == lines[-1].strip():
            name = os.path.basename(path)[: -len(".log")].replace("-", " ")
            return Explanation(failure, path, f"{name}: {exception}", tuple(lines[-TAIL_LINES:]))
    return None
