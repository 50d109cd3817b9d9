"""`muster verify`: what people see, what programs see, and the exit codes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from bundles import bench_folder, edit, forged, make_bundle, measured

from conftest import Muster
from muster.bench.bundle.write import write

pytestmark = pytest.mark.forked


@pytest.fixture
def bundle(home: Path, tmp_path: Path) -> Path:
    return make_bundle(home, tmp_path / "b.tar.gz")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, stdin=subprocess.DEVNULL)
    (tmp_path / "signers").write_text(f"ada@lab {Path(f'{path}.pub').read_text()}")
    return path


def test_a_verified_bundle(muster: Muster, bundle: Path, tmp_path: Path) -> None:
    done = muster("verify", bundle, HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "✓ verified: resnet-20260919-000000-bnch"
    assert lines[2:] == [
        "  records     every sum is right, every number follows",
        "  signature   none",
        "  result      passed: throughput 901.2 samples/s",
    ]


def test_what_differs_is_said(muster: Muster, bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        edit(folder / "result.json", lambda data: data["metrics"]["throughput"].update(value=1000.5))

    done = muster("verify", forged(bundle, tmp_path, change), HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith("✗ not verified: resnet-20260919-000000-bnch\n")
    wrong = "metrics.throughput.value: 1000.5 stands there, 901.1636550985727 follows from the records"
    assert f"  - {wrong}\n" in done.stdout


def test_many_problems_are_told_in_short(muster: Muster, bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "bench.json").with_name("result.json").write_text(json.dumps({f"key-{index}": index for index in range(50)}))

    done = muster("verify", forged(bundle, tmp_path, change))
    assert done.returncode == 1
    assert len([line for line in done.stdout.splitlines() if line.startswith("  - ")]) == 21
    assert "more; `--json` has them all" in done.stdout
    assert len(json.loads(muster("verify", tmp_path / "forged.tar.gz", "--json").stdout)["problems"]) > 50


def test_a_required_signature(muster: Muster, bundle: Path, home: Path, tmp_path: Path, key: Path) -> None:
    signed = write(bench_folder(home, measured(home, "resnet-20260919-000100-abcd")), home, tmp_path / "signed.tar.gz", key)
    signers = tmp_path / "signers"
    done = muster("verify", signed, "--signed", "--signers", signers)
    assert done.returncode == 0
    assert "  signature   good: ada@lab (ED25519 SHA256:" in done.stdout
    unknown = muster("verify", signed, "--signed", HOME=str(tmp_path))
    assert (unknown.returncode, unknown.stdout[:14]) == (1, "✗ not verified")
    assert "  signature   by a key that you do not trust: ED25519 SHA256:" in unknown.stdout
    assert muster("verify", signed, HOME=str(tmp_path)).returncode == 0
    missing = muster("verify", bundle, "--signed", "--signers", signers)
    assert missing.returncode == 1
    assert "  signature   none, and a good one is required" in missing.stdout


def test_json(muster: Muster, bundle: Path, tmp_path: Path) -> None:
    found = json.loads(muster("verify", bundle, "--json", HOME=str(tmp_path)).stdout)
    assert (found["passed"], found["problems"], found["signature"], found["signed_by"]) == (True, [], "none", None)
    assert found["result"]["metrics"]["throughput"]["value"] == 901.1636550985727
    required = muster("verify", bundle, "--json", "--signed", HOME=str(tmp_path))
    assert required.returncode == 1
    assert json.loads(required.stdout)["passed"] is False


@pytest.mark.parametrize("content", [None, b"", b"hello"])
def test_what_is_not_a_bundle(muster: Muster, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.tar.gz"
    if content is not None:
        path.write_bytes(content)
    done = muster("verify", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"muster: {path} ")
    assert done.stderr.count("\n") == 1


def test_texts_of_strangers_move_no_cursor(muster: Muster, bundle: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        edit(folder / "bench.json", lambda data: data.update(id="\x1b[2Jgone", name="\x1b[2J"))

    done = muster("verify", forged(bundle, tmp_path, change))
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
