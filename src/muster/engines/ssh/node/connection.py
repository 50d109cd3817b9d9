"""One ssh connection to a host: the system's own ssh, and the relay or the survey at its other end.

The user's configuration, agent, jump hosts and known hosts count. Nothing is asked: what needs an answer is a refusal.
"""

from __future__ import annotations

import math
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from muster.dataclass import dataclass
from muster.engines.ssh.node import bootstrap, ssh_options
from muster.linux import syscalls
from muster.records.untrusted import parse_json, printable

OPENING_LIMIT = 60.0  # for the host to take in a piece of the agent, or all that ssh has of it
ANSWER_LIMIT = 20.0  # for the bootstrap to begin
GARBAGE = 1 << 16  # bytes that a host's shell may write before
LONGEST = 500  # letters of what a host or ssh says in a reason
_HOST = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<name>\[[0-9A-Fa-f:.]+\]|[^@:\s\[\]]+)(?::(?P<port>[0-9]+))?")

NO_SSH = "there is no `ssh` on your PATH; install openssh-client"
CROWDED = "its sshd closes new connections"
UNRESOLVED = "its name cannot be resolved"
# What ssh says, why that is, and what to do; the first that is found in its words counts.
_REASONS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the one in your known_hosts",
        "make sure that it is the right machine, then remove the old key with `ssh-keygen -R {known}`",
    ),
    (
        "Host key verification failed",
        "its host key is not known here",
        "connect once with `ssh {target}`, compare the fingerprint, and accept it",
    ),
    ("Permission denied", "it does not accept your key", "install one with `ssh-copy-id {target}`"),
    (
        "Too many authentication failures",
        "it does not accept any of your keys",
        "name the right one with IdentityFile and IdentitiesOnly in ~/.ssh/config",
    ),
    ("Could not resolve hostname", UNRESOLVED, "check the name, or give its address"),
    (
        "_exchange_identification",
        CROWDED,
        "it may get too many at a time: raise MaxStartups in its sshd_config; else see the log of its sshd",
    ),
    ("Connection refused", "nothing listens at its ssh port", "start sshd there, or give the port as `{name}:PORT`"),
    ("timed out", "it does not answer", "check that it is up and that `ssh {target}` works"),
    ("No route to host", "there is no route to it", "check that it is up and that `ssh {target}` works"),
)
TRANSIENT = (CROWDED, "nothing listens at its ssh port", "it does not answer", "there is no route to it")


@dataclass(frozen=True)
class Host:
    """A host as users write it: `[user@]name[:port]`."""

    name: str
    user: str = ""
    port: str = ""

    @classmethod
    def parse(cls, text: str) -> Host | None:
        found = _HOST.fullmatch(text)
        if found is None or found["name"].startswith("-") or (found["user"] or "").startswith("-"):
            return None
        return cls(found["name"].strip("[]"), found["user"] or "", found["port"] or "")

    @property
    def target(self) -> str:
        """The words for ssh and ssh-copy-id, as people type them."""
        return " ".join([*(["-p", self.port] if self.port else []), f"{self.user}@{self.name}" if self.user else self.name])

    def argv(self, command: str, terminal: bool = False) -> list[str]:
        """The command line of ssh; with `terminal`, the command has one on the host."""
        chosen = {**ssh_options.chosen(), "RequestTTY": "yes" if terminal else "no"}
        options = [word for name, value in chosen.items() for word in ("-o", f"{name}={value}")]
        user = ["-l", self.user] if self.user else []
        port = ["-p", self.port] if self.port else []
        return ["ssh", *options, *user, *port, "--", self.name, command]

    def explained(self, said: str, code: int | None) -> Unreachable:
        """Why the program that reaches it failed, from what it wrote."""
        return explained(self, said, code)


class Unreachable(Exception):
    """Why a host cannot be used, and what to do; `lasting` unless it may be otherwise in a moment.

    `crowded` is a host that takes only so many new connections at a time.
    """

    def __init__(self, reason: str, lasting: bool = True, crowded: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.crowded = crowded


class Unfit(Unreachable):
    """Why a host that was reached cannot be used."""


class Closed(Exception):
    """The other end was closed before an answer came; `said` is what came instead."""

    def __init__(self, said: bytes) -> None:
        super().__init__()
        self.said = said


class Connection:
    """An open connection; reading and writing never wait."""

    def __init__(self, host: Host, command: str, environment: Mapping[str, str], tied: bool = False) -> None:
        """With `tied`, ssh ends with the thread that calls this."""
        self.host = host
        before = syscalls.die_with_parent if tied else None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the connection
        try:
            self._process = subprocess.Popen(
                host.argv(command),
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                preexec_fn=before,
            )
        except FileNotFoundError:
            self._errors.close()
            raise Unreachable(NO_SSH) from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self.writer, self.reader = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.early = b""  # what came behind the answer of the bootstrap

    def open(self, agent: bytes, limit: float = math.inf) -> None:
        """Waits for the bootstrap, and gives it the agent where the host does not have it; all in `limit` seconds.

        Raises Unreachable.
        """
        os.set_blocking(self.writer, False)
        os.set_blocking(self.reader, False)
        end = time.monotonic() + limit
        if not self._has_agent(min(end, time.monotonic() + ANSWER_LIMIT)):
            self.send(len(agent).to_bytes(8, "big") + agent, end)
            self._has_agent(end)

    def send(self, data: bytes, end: float = math.inf) -> None:
        """Writes all of the data, which ssh has to take until the time `end`. Raises Unreachable."""
        view = memoryview(data)
        while view:
            await_ready(self.writer, select.POLLOUT, end, self.host)
            try:
                view = view[os.write(self.writer, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self.why_closed() from None

    def receive(self, most: int, end: float = math.inf) -> bytes:
        """Some bytes, which have to come until the time `end`; none when the connection has ended. Raises Unreachable."""
        await_ready(self.reader, select.POLLIN, end, self.host)
        return os.read(self.reader, most)

    def _has_agent(self, end: float) -> bool:
        try:
            answer, self.early = read_answer(lambda: self.receive(GARBAGE, end))
        except Closed as closed:
            raise self.why_closed(closed.said) from None
        return bool(answer.get("agent"))

    def why_closed(self, output: bytes = b"") -> Unreachable:
        """Why ssh ended, in words: its own, or those of the host's shell."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = None
        self._errors.seek(0)
        said = (self._errors.read(GARBAGE).strip() or output.strip()).decode("utf-8", "replace")
        return self.host.explained(said, code)

    def finish(self, limit: float) -> None:
        """Waits until the host has taken what was written, and has ended the session; `limit` seconds at most."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(limit)

    def kill(self) -> None:
        """Ends ssh, and with it the connection for whoever waits for it."""
        self._process.kill()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


def explained(host: Host, said: str, code: int | None) -> Unreachable:
    """Why ssh failed, and what to do, from what it wrote."""
    known = f"[{host.name}]:{host.port}" if host.port else host.name
    for words, reason, hint in _REASONS:
        if words in said:
            advice = hint.format(target=host.target, name=host.name, known=known)
            return Unreachable(f"{reason}; {advice}", lasting=reason not in TRANSIENT, crowded=reason == CROWDED)
    last = said.strip().splitlines()[-1] if said.strip() else f"ssh ended with code {code} and left no word"
    return Unreachable(f"ssh failed: {printable(last)[:LONGEST]}", lasting=False)


def read_answer(receive: Callable[[], bytes], early: bytes = b"") -> tuple[dict[str, object], bytes]:
    """Reads the next answer of the program on a host, behind whatever its shell has written; returns what follows it, too.

    Raises Unfit and Closed.
    """
    data = early
    while True:
        _, mark, line = data.partition(b"\n" + bootstrap.MARK)
        text, end, rest = line.partition(b"\n")
        if mark and end:
            return _checked(_object(text)), rest
        if len(data) >= GARBAGE:
            raise Unfit("its shell writes too much at the start of a session; make its start-up files silent")
        piece = receive()
        if not piece:
            raise Closed(data)
        data += piece


def await_ready(descriptor: int, event: int, end: float, host: Host) -> None:
    """Waits until ssh can be read from or written to, until the time `end` and not too long. Raises Unreachable."""
    limit = max(0.0, min(OPENING_LIMIT, end - time.monotonic()))
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(math.ceil(limit * 1000)):
        raise Unreachable(f"nothing is heard of it; check that `ssh {host.target} true` returns", lasting=False)


def _checked(answer: dict[str, object]) -> dict[str, object]:
    """Raises Unfit for an answer that says what is wrong with the host."""
    if error := answer.get("error"):
        if error == bootstrap.NO_PYTHON:
            raise Unfit("it has no Python 3.9 or newer; install one, or name it with `python` in the group of hosts")
        said = printable(str(error))[:LONGEST]
        raise Unfit(f"its directory for Muster cannot be used ({said}); free or name another with `directory`")
    if reason := answer.get("unsafe"):
        said = printable(str(reason))[:LONGEST]
        advice = "let it be your own, with `chmod go-w`, or name another with `directory`"
        raise Unfit(f"its directory for Muster may be changed by other users ({said}); {advice}")
    return answer


def _object(text: bytes) -> dict[str, object]:
    try:
        answer = parse_json(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
