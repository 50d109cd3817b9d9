"""Signs and verifies with ssh keys, by OpenSSH's `ssh-keygen -Y`."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from muster.bench.bundle.contents import MANIFEST, SIGNATURE
from muster.bench.errors import BundleError
from muster.records.files import write_text

NAMESPACE = "muster"
USUAL_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
TIMEOUT = 60.0  # seconds for a program that asks for nothing
_GOOD = re.compile(r'Good "muster" signature .*with (\S+) key (SHA256:\S+)')

State = Literal["good", "bad", "untrusted", "none"]


@dataclass(frozen=True)
class Key:
    """A key to sign with: the file that ssh-keygen takes, and its name for people."""

    path: Path
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Signature:
    """The outcome of verifying a signature."""

    state: State
    signed_by: str | None = None  # the name that the reader's list has for the key
    key: str | None = None  # its fingerprint


def allowed_signers() -> Path:
    """The default path of the list of trusted keys."""
    return Path("~/.config/muster/allowed_signers").expanduser()


def choose(given: str | None, home: str) -> Key:
    """The key that was given, else the user's usual one, else the first of the ssh agent; one that can sign."""
    if given is not None:
        path = Path(given).expanduser()
        if not path.is_file():
            raise BundleError(f"there is no key {path}; name the file of a private key, `ssh-keygen -t ed25519` makes one")
        return _checked(Key(path, str(path)))
    folder = Path("~/.ssh").expanduser()
    usual = next((folder / name for name in USUAL_KEYS if (folder / name).is_file()), None)
    if usual is not None:
        return _checked(Key(usual, str(usual)))
    public = _first_of_agent()
    kind, _, comment = (*public.split(maxsplit=2), "")[:3]
    os.makedirs(home, mode=0o700, exist_ok=True)
    file = f"{home}/ssh-agent.pub"  # by which ssh-keygen finds the key in the agent
    write_text(file, public + "\n")
    return _checked(Key(Path(file), f"{kind} {comment}".strip() + " of the ssh agent"))


def _checked(key: Key) -> Key:
    """The key after a trial signature where no one is asked for anything, so that a useless key is known before the run."""
    public = key.path if key.path.suffix == ".pub" else Path(f"{key.path}.pub")
    if public.is_file() and public.read_text(errors="replace").startswith("sk-"):
        return key  # lies in hardware that has to be touched
    done, _ = _sign(b"", key.path, asks=False)
    if done.returncode == 0:
        return key
    if _locked(done.stderr) and sys.stdin.isatty():
        return Key(key.path, f"{key}, which will ask for its passphrase")
    raise _refusal(key.path, done.stderr)


def _first_of_agent() -> str:
    keys = [line for line in _run(["ssh-add", "-L"]).stdout.splitlines() if len(line.split()) > 1 and "-" in line.split()[0]]
    if not keys:
        names = ", ".join(f"~/.ssh/{name}" for name in USUAL_KEYS)
        raise BundleError(f"there is no key to sign with: neither {names} nor one in an ssh agent; name one with --sign KEY")
    return keys[0]


def sign(data: bytes, key: Path) -> bytes:
    """The signature of some bytes. A key with a passphrase asks for it on the terminal, and nowhere else."""
    done, made = _sign(data, key, asks=sys.stdin.isatty())
    if done.returncode != 0:
        raise _refusal(key, done.stderr)
    return made


def _sign(data: bytes, key: Path, asks: bool) -> tuple[subprocess.CompletedProcess[str], bytes]:
    with tempfile.TemporaryDirectory(prefix="muster-sign-") as folder:
        file = Path(folder, MANIFEST)
        file.write_bytes(data)
        done = _run(["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(file)], asks=asks)
        return done, Path(folder, SIGNATURE).read_bytes() if done.returncode == 0 else b""


def _locked(said: str | None) -> bool:
    return "passphrase" in (said or "")


def _refusal(key: Path, said: str | None) -> BundleError:
    if _locked(said):
        hint = "it has a passphrase, which was not given; sign on a terminal, or `ssh-add` the key first"
        return BundleError(f"{key} signs nothing: {hint}")
    words = (said or "").strip().splitlines()
    return BundleError(f"{key} signs nothing: {words[-1] if words else 'ssh-keygen said no'}; name another with --sign KEY")


def check(file: Path, made: Path, signers: Path | None) -> Signature:
    """Verifies the signature of a file against the keys in `signers`."""
    whole = _verify(file, made, ["check-novalidate"])
    if whole is None:
        return Signature("bad")
    if signers is None:
        return Signature("untrusted", None, whole)
    principals = _run(["ssh-keygen", "-Y", "find-principals", "-s", str(made), "-f", str(signers)])
    for name in principals.stdout.splitlines():  # the names that the list has for the key that signed
        if _verify(file, made, ["verify", "-f", str(signers), "-I", name]):
            return Signature("good", name, whole)
    return Signature("untrusted", None, whole)


def _verify(file: Path, made: Path, how: Sequence[str]) -> str | None:
    """The fingerprint of the key, where ssh-keygen finds the signature right."""
    with file.open("rb") as content:
        done = _run(["ssh-keygen", "-Y", *how, "-n", NAMESPACE, "-s", str(made)], content)
    found = _GOOD.search(done.stdout)
    return " ".join(found.groups()) if done.returncode == 0 and found else None


def _run(words: Sequence[str], content: Any = subprocess.DEVNULL, asks: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a program of OpenSSH without a window; without a terminal, too, unless it may ask."""
    environment = {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
    try:
        return subprocess.run(
            words,
            stdin=None if asks else content,
            stdout=subprocess.PIPE,
            stderr=None if asks else subprocess.PIPE,  # who is asked also hears why
            text=True,
            errors="replace",
            env=environment,
            start_new_session=not asks,
            timeout=None if asks else TIMEOUT,
        )
    except FileNotFoundError:
        raise BundleError(f"{words[0]} is not installed; install OpenSSH's client (openssh-client)") from None
    except subprocess.TimeoutExpired:
        raise BundleError(f"{words[0]} did not answer within {TIMEOUT:.0f} s; look at the ssh agent") from None
