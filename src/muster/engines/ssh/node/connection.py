"""One ssh connection to a host: the system's own ssh, and the relay at its other end.

The user's configuration, agent, jump hosts and known hosts count. Nothing is asked: what needs an answer is a refusal.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping

from muster.dataclass import dataclass
from muster.engines.ssh.node import bootstrap
from muster.linux.watch import readable
from muster.records.untrusted import parse_json

CONNECT_LIMIT = 15  # seconds for a host to answer
OPENING_LIMIT = 60.0  # for the bootstrap to begin
GARBAGE = 1 << 16  # bytes that a host's shell may write before
OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(CONNECT_LIMIT),
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ControlMaster": "no",  # a connection of its own: when it ends, only this node is concerned
    "ControlPath": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "LogLevel": "ERROR",
}
_HOST = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<name>\[[0-9A-Fa-f:.]+\]|[^@:\s\[\]]+)(?::(?P<port>[0-9]+))?")

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
    ("Could not resolve hostname", "its name cannot be resolved", "check the name, or give its address"),
    ("Connection refused", "nothing listens at its ssh port", "start sshd there, or give the port as `{name}:PORT`"),
    ("timed out", "it does not answer", "check that it is up and that `ssh {target}` works"),
    ("No route to host", "there is no route to it", "check that it is up and that `ssh {target}` works"),
)
TRANSIENT = ("nothing listens at its ssh port", "it does not answer", "there is no route to it")


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

    def argv(self, command: str) -> list[str]:
        options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
        user = ["-l", self.user] if self.user else []
        port = ["-p", self.port] if self.port else []
        return ["ssh", "-T", *options, *user, *port, "--", self.name, command]


class Unreachable(Exception):
    """Why a host cannot be used, and what to do; `lasting` unless it may be otherwise in a moment."""

    def __init__(self, reason: str, lasting: bool = True) -> None:
        super().__init__(reason)
        self.lasting = lasting


class Connection:
    """An open connection; reading and writing never wait."""

    def __init__(self, host: Host, command: str, environment: Mapping[str, str]) -> None:
        self.host = host
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the connection
        try:
            self._process = subprocess.Popen(
                host.argv(command), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except FileNotFoundError:
            self._errors.close()
            raise Unreachable("there is no `ssh` on your PATH; install openssh-client") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self.writer, self.reader = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.early = b""  # what came behind the answer of the bootstrap

    def open(self, agent: bytes) -> None:
        """Waits for the bootstrap, and gives it the agent where the host does not have it. Raises Unreachable."""
        deadline = time.monotonic() + OPENING_LIMIT
        if not self._has_agent(deadline):
            view = memoryview(len(agent).to_bytes(8, "big") + agent)
            try:
                while view:
                    view = view[os.write(self.writer, view) :]
            except BrokenPipeError:
                raise self.why_closed() from None
            self._has_agent(deadline + OPENING_LIMIT)
        os.set_blocking(self.writer, False)
        os.set_blocking(self.reader, False)

    def _has_agent(self, deadline: float) -> bool:
        answer = self._answer(deadline)
        if error := answer.get("error"):
            if error == bootstrap.NO_PYTHON:
                hint = "install one, or name it with `python` in the group of hosts"
                raise Unreachable(f"it has no Python 3.9 or newer; {hint}")
            raise Unreachable(f"its directory for Muster cannot be used ({error}); free or name another with `directory`")
        return bool(answer.get("agent"))

    def _answer(self, deadline: float) -> dict[str, object]:
        data = b""
        while len(data) < GARBAGE:
            if not readable([self.reader], max(0.0, deadline - time.monotonic())):
                raise Unreachable(f"nothing is heard of it within {OPENING_LIMIT:g} s", lasting=False)
            piece = os.read(self.reader, GARBAGE)
            if not piece:
                raise self.why_closed(data)
            data += piece
            _, mark, line = data.partition(b"\n" + bootstrap.MARK)
            text, end, rest = line.partition(b"\n")
            if mark and end:
                self.early = rest
                return _object(text)
        raise Unreachable("its shell writes too much at the start of a session; make its start-up files silent")

    def why_closed(self, output: bytes = b"") -> Unreachable:
        """Why ssh ended, in words: its own, or those of the host's shell."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = None
        self._errors.seek(0)
        said = (self._errors.read(GARBAGE).strip() or output.strip()).decode("utf-8", "replace")
        return explained(self.host, said, code)

    def close(self) -> None:
        self._process.kill()
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
            return Unreachable(f"{reason}; {advice}", lasting=reason not in TRANSIENT)
    last = said.strip().splitlines()[-1] if said.strip() else f"ssh ended with code {code} and left no word"
    return Unreachable(f"ssh failed: {last}", lasting=False)


def _object(text: bytes) -> dict[str, object]:
    try:
        answer = parse_json(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
