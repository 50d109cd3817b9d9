"""`muster bench --export` makes bundles that `muster verify` finds right, signed and without a secret."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
from bundles import forged

from behaviour import Configure
from conftest import Muster, WriteJob

TRAIN = """
    import os
    from muster import record

    assert os.environ["WANDB_API_KEY"] == "in-a-profile" and os.environ["OTHER_TOKEN"] == "in-the-environment"
    rank = int(os.environ["MUSTER_RANK"])
    with record.phase("proc"):
        record.metric("throughput", 450.77798444604605 + rank, unit="samples/s")
"""
SECRETS = {"OTHER_TOKEN": "in-the-environment", "AWS_ACCESS_KEY_ID": "the-access-key", "AWS_SECRET_ACCESS_KEY": "the-secret"}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home directory of a user who has a key and trusts it."""
    folder = tmp_path / "user"
    (folder / ".config/muster").mkdir(parents=True)
    (folder / ".ssh").mkdir()
    key = folder / ".ssh/id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, stdin=subprocess.DEVNULL)
    (folder / ".config/muster/allowed_signers").write_text(f"ada@lab {Path(f'{key}.pub').read_text()}")
    return folder


@pytest.fixture
def exported(configure: Configure, tmp_path: Path, muster: Muster, write_job: WriteJob, user: Path) -> Path:
    configure('[profiles.default.secrets]\nWANDB_API_KEY = "in-a-profile"\n')
    names = ["WANDB_API_KEY", "OTHER_TOKEN"]
    job = write_job({"nodes": 2, "secrets": names, "bench": {"repeats": 2}}, **{"train.py": TRAIN})
    target = tmp_path / "b.tar.gz"
    done = muster("bench", job, "--export", target, "--sign", HOME=str(user), **SECRETS)
    assert done.returncode == 0, done.stderr
    assert f"signed with {user}/.ssh/id_ed25519" in done.stderr
    return target


@pytest.mark.long
def test_it_verifies_and_holds_no_secret(exported: Path, tmp_path: Path, muster: Muster, user: Path) -> None:
    done = muster("verify", exported, "--signed", HOME=str(user))
    assert done.returncode == 0, done.stdout
    assert "good: ada@lab (ED25519 SHA256:" in done.stdout
    assert "passed: throughput 902.6 samples/s" in done.stdout
    with tarfile.open(exported) as tar:
        text = b"".join(file.read() for member in tar if (file := tar.extractfile(member)))
    assert b"WANDB_API_KEY" in text
    for secret in ("in-a-profile", *SECRETS.values()):
        assert secret.encode() not in text


@pytest.mark.long
@pytest.mark.parametrize(
    ("digits", "found"),
    [
        ("451.77798444604604", "line 2 holds 451.77798444604604, a number that is written 451.77798444604605"),
        ("451.77798444604616", "value: 451.77798444604605 stands there, 451.77798444604616 follows from the records"),
    ],
)
def test_a_digit_of_a_raw_record_is_found_with_and_without_the_signature(
    exported: Path, tmp_path: Path, muster: Muster, user: Path, digits: str, found: str
) -> None:
    def change(folder: Path) -> None:
        for path in folder.rglob("record-1.jsonl"):
            path.write_text(path.read_text().replace("451.77798444604605", digits))

    def change_unsigned(folder: Path) -> None:
        change(folder)
        (folder / "manifest.json.sig").unlink()

    for changed in (change, change_unsigned):
        scratch = tmp_path / changed.__name__
        scratch.mkdir()
        done = muster("verify", forged(exported, scratch, changed), HOME=str(user))
        assert done.returncode == 1
        assert ("bad: it does not fit" in done.stdout) == (changed is change)
        assert found in done.stdout
