"""Signatures by real ssh keys: good, bad, of somebody unknown, and never asked for unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from bundles import bench_folder, edit, forged, make_bundle, measured, packed, unpacked

from conftest import Muster, WriteJob
from muster.bench.bundle import signature, write
from muster.bench.bundle.check import verify
from muster.bench.errors import BundleError


def new_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "ada@lab", "-f", str(path)]
    words += ["-b", "2048"] if kind == "rsa" else []  # a longer one takes seconds to find
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return path


def trusting(path: Path, **keys: Path) -> Path:
    """A list of signers with these keys."""
    lines = [f"{name} {key.with_name(key.name + '.pub').read_text()}" for name, key in keys.items()]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a user without keys and without an agent."""
    path = tmp_path / "user"
    (path / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path / "key")


@pytest.fixture
def signed(home: Path, tmp_path: Path, key: Path, user: Path) -> Path:
    return make_bundle(home, tmp_path / "signed.tar.gz", key=key)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_signed_by_a_key_that_the_reader_trusts(home: Path, tmp_path: Path, user: Path, kind: str) -> None:
    key = new_key(tmp_path / "key", kind)
    found = verify(make_bundle(home, tmp_path / "b.tar.gz", key=key), trusting(tmp_path / "signers", ada=key))
    assert (found.passed, found.signature, found.signed_by) == (True, "good", "ada")
    assert found.key is not None
    assert found.key.startswith(f"{kind.upper()} SHA256:")


def test_the_readers_own_list_serves_without_naming_it(signed: Path, user: Path, key: Path) -> None:
    assert verify(signed).signature == "untrusted"
    (user / ".config/muster").mkdir(parents=True)
    trusting(user / ".config/muster/allowed_signers", ada=key)
    assert (verify(signed).signature, verify(signed).signed_by) == ("good", "ada")


def test_signed_by_somebody_unknown(signed: Path, tmp_path: Path, key: Path) -> None:
    stranger = new_key(tmp_path / "stranger")
    found = verify(signed, trusting(tmp_path / "signers", eve=stranger))
    shown = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True).stdout.split()[1]
    assert (found.passed, found.signature, found.signed_by, found.key) == (True, "untrusted", None, f"ED25519 {shown}")


def test_a_key_that_is_trusted_for_other_things_only(signed: Path, tmp_path: Path, key: Path) -> None:
    signers = tmp_path / "signers"
    public = Path(f"{key}.pub").read_text()
    signers.write_text(f'ada namespaces="git" {public}')
    assert verify(signed, signers).signature == "untrusted"
    signers.write_text(f'ada namespaces="git,muster" {public}')
    assert verify(signed, signers).signature == "good"
    signers.write_text(f'ada valid-before="20200101" {public}')
    assert verify(signed, signers).signature == "untrusted"


def test_any_change_at_all_is_found(signed: Path, tmp_path: Path, key: Path) -> None:
    """Also one after which all numbers still follow from the records: the forger cannot sign."""

    def change(folder: Path) -> None:
        (log,) = folder.glob("runs/*/attempts/1/nodes/0/logs/rank-0.log")
        log.write_text(log.read_text().replace("hello", "hullo"))

    found = verify(forged(signed, tmp_path, change), trusting(tmp_path / "signers", ada=key))
    assert (found.passed, found.signature, found.signed_by) == (False, "bad", None)
    assert found.problems == ["manifest.json.sig: is not the signature of this manifest"]


def test_the_signature_of_another_bundle(signed: Path, home: Path, tmp_path: Path, key: Path) -> None:
    folder = bench_folder(home, measured(home, "resnet-20260919-000100-abcd"))
    other = write.write(folder, home, tmp_path / "other.tar.gz", key)
    taken = unpacked(other, tmp_path / "other") / "manifest.json.sig"
    found = verify(forged(signed, tmp_path, lambda folder: taken.replace(folder / taken.name), sums=False))
    assert found.signature == "bad"


@pytest.mark.parametrize("text", [b"", b"garbage", b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"])
def test_a_signature_that_is_none(signed: Path, tmp_path: Path, text: bytes) -> None:
    found = verify(forged(signed, tmp_path, lambda folder: (folder / "manifest.json.sig").write_bytes(text), sums=False))
    assert (found.passed, found.signature) == (False, "bad")


def test_a_signature_made_for_something_else(home: Path, tmp_path: Path, user: Path, key: Path) -> None:
    folder = unpacked(make_bundle(home, tmp_path / "b.tar.gz"), tmp_path / "there")
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(key), str(folder / "manifest.json")]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    found = verify(packed(folder, tmp_path / "again.tar.gz"), trusting(tmp_path / "signers", ada=key))
    assert (found.passed, found.signature) == (False, "bad")


def test_the_numbers_are_checked_also_where_a_trusted_key_signed(home: Path, tmp_path: Path, user: Path, key: Path) -> None:
    folder = bench_folder(home, measured(home))
    edit(folder / "result.json", lambda data: data["metrics"]["throughput"].update(value=1e6))
    found = verify(write.write(folder, home, tmp_path / "b.tar.gz", key), trusting(tmp_path / "signers", ada=key))
    assert (found.passed, found.signature, found.signed_by) == (False, "good", "ada")


def test_a_list_of_signers_that_is_not_there(signed: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="there is no list of signers"):
        verify(signed, tmp_path / "nowhere")


def test_without_ssh_keygen_a_signature_cannot_be_checked(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BundleError, match=r"ssh-keygen is not installed; install OpenSSH's client"):
        verify(signed)


# -- which key signs


def test_the_usual_keys_in_their_order(user: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"there is no key to sign with: neither .*; name one with --sign KEY"):
        signature.choose(None, str(tmp_path / "home"))
    for name in ("id_rsa", "id_ecdsa", "id_ed25519"):
        new_key(user / ".ssh" / name, name.removeprefix("id_"))
        assert str(signature.choose(None, str(tmp_path / "home"))) == str(user / ".ssh" / name)
    assert signature.choose(str(new_key(tmp_path / "mine")), str(tmp_path / "home")).path == tmp_path / "mine"
    assert signature.choose("~/.ssh/id_rsa", str(tmp_path / "home")).path == user / ".ssh/id_rsa"


@pytest.fixture
def agent(tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running ssh agent; its socket."""
    socket = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield socket
        process.terminate()


def test_the_first_key_of_the_agent(home: Path, tmp_path: Path, agent: Path) -> None:
    with pytest.raises(BundleError, match="there is no key to sign with"):
        signature.choose(None, str(tmp_path / "home"))
    key = new_key(tmp_path / "key")
    subprocess.run(["ssh-add", "-q", key], check=True)
    found = signature.choose(None, str(tmp_path / "home"))
    assert str(found) == "ssh-ed25519 ada@lab of the ssh agent"
    archive = make_bundle(home, tmp_path / "b.tar.gz", key=found.path)
    assert verify(archive, trusting(tmp_path / "signers", ada=key)).signature == "good"


def test_a_key_that_is_not_there_or_no_key(tmp_path: Path, user: Path) -> None:
    with pytest.raises(BundleError, match=r"there is no key .*nowhere; name the file of a private key"):
        signature.choose(str(tmp_path / "nowhere"), str(tmp_path / "home"))
    (tmp_path / "text").write_text("no key")
    with pytest.raises(BundleError, match=r"text signs nothing: .*; name another with --sign KEY"):
        signature.choose(str(tmp_path / "text"), str(tmp_path / "home"))


def test_a_locked_key_is_refused_before_the_job_starts(tmp_path: Path, home: Path, muster: Muster, write_job: WriteJob) -> None:
    key = new_key(tmp_path / "locked", passphrase="open sesame")
    done = muster("bench", write_job({"command": "true"}), "--export", tmp_path / "b.tar.gz", f"--sign={key}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{key} signs nothing: it has a passphrase, which was not given" in done.stderr
    assert not (home / "runs").exists()


def test_on_a_terminal_it_is_said_that_the_key_will_ask(tmp_path: Path, user: Path) -> None:
    key = new_key(tmp_path / "locked", passphrase="open sesame")
    choose = f"from muster.bench.bundle import signature; print(signature.choose({str(key)!r}, {str(tmp_path)!r}))"
    child = pexpect.spawn(sys.executable, ["-c", choose], timeout=30, encoding="utf-8")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.before or "").strip() == f"{key}, which will ask for its passphrase"


SIGN = """
import sys
from pathlib import Path
from muster.bench import errors
from muster.bench.bundle.write import write
try:
    write(*map(Path, sys.argv[1:]))
except errors.BundleError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def signing(home: Path, tmp_path: Path, user: Path) -> list[str]:
    """A program that signs a bundle with a key that has a passphrase."""
    key = new_key(tmp_path / "locked", passphrase="open sesame")
    folder = bench_folder(home, measured(home))
    return [sys.executable, "-c", SIGN, str(folder), str(home), str(tmp_path / "b.tar.gz"), str(key)]


def test_a_passphrase_is_asked_for_on_the_terminal(tmp_path: Path, signing: list[str]) -> None:
    child = pexpect.spawn(signing[0], signing[1:], timeout=30)
    child.expect("Enter passphrase")
    child.sendline("open sesame")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    signers = trusting(tmp_path / "signers", ada=tmp_path / "locked")
    assert verify(tmp_path / "b.tar.gz", signers).signature == "good"


def test_in_a_pipe_nobody_is_asked(tmp_path: Path, signing: list[str]) -> None:
    asked = tmp_path / "asked"
    askpass = tmp_path / "askpass"
    askpass.write_text(f"#!/bin/sh\ntouch {asked}\necho open sesame\n")
    askpass.chmod(0o755)
    window = {**os.environ, "SSH_ASKPASS": str(askpass), "DISPLAY": ":0", "SSH_ASKPASS_REQUIRE": "force"}
    done = subprocess.run(signing, capture_output=True, text=True, env=window, input="open sesame\n")
    assert done.returncode == 1
    assert "it has a passphrase, which was not given; sign on a terminal, or `ssh-add` the key first" in done.stderr
    assert not asked.exists()
    assert not (tmp_path / "b.tar.gz").exists()


def test_without_a_key_nothing_is_signed(home: Path, tmp_path: Path, user: Path) -> None:
    new_key(user / ".ssh/id_ed25519")
    assert verify(make_bundle(home, tmp_path / "b.tar.gz")).signature == "none"
