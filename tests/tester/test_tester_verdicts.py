"""Verdicts: what is taken in, and every kind of bundle that is refused, with the reason."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from bundles import edit, forged, packed, set_right, unpacked
from submissions import bundle, planned, program, result_count, sent

from muster.bench.bundle.contents import SIGNATURE
from tester_server import Serve, Served


@pytest.fixture
def http(tester: Served) -> Iterator[httpx.Client]:
    with program(tester, tester.token()) as opened:
        yield opened


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path / "key")


def new_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return path


def refused(answer: httpx.Response, status: int = 422) -> str:
    assert answer.status_code == status, answer.text
    verdict = answer.json()
    assert verdict["accepted"] is False
    assert verdict["number"] is None
    return "\n".join(verdict["problems"])


def test_a_changed_digit_is_found(http: httpx.Client, tester: Served, tmp_path: Path) -> None:
    before = result_count(tester)

    def change(folder: Path) -> None:
        edit(folder / "result.json", lambda result: result["metrics"]["throughput"].update(value=999.0))

    assert "999.0 stands there" in refused(sent(http, forged(bundle(tmp_path), tmp_path, change)))
    assert result_count(tester) == before


def test_a_file_that_does_not_fit_its_sum_is_found(http: httpx.Client, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        log = next(folder.rglob("rank-0.log"))
        log.write_text(log.read_text() + "and more\n")

    assert "SHA-256" in refused(sent(http, forged(bundle(tmp_path), tmp_path, change, sums=False)))


def test_a_truncated_bundle_is_refused(http: httpx.Client, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    assert refused(sent(http, path))


@pytest.mark.long
@pytest.mark.parametrize(
    "content",
    [b"hello", b"\x1f\x8b broken", gzip.compress(b"no tar"), gzip.compress(bytes(10240))],
    ids=["text", "broken", "no tar", "empty tar"],
)
def test_what_is_no_bundle_is_refused_without_telling_where_it_lies(
    http: httpx.Client, tester: Served, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(content)
    assert str(tester.data) not in refused(sent(http, path))


@pytest.mark.long
def test_a_bomb_does_not_explode(serve: Serve, tmp_path: Path) -> None:
    tester = serve("--most", "1M")  # and ten times as much unpacked
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("bench/bench.json")
        info.size = 200 << 20
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    with program(tester, tester.token()) as http:
        assert refused(sent(http, path))
    assert not list((tester.data / "scratch").iterdir())
    assert sum(path.stat().st_size for path in tester.data.rglob("*")) < 10 << 20


def test_a_path_that_leads_outside_is_refused(http: httpx.Client, tester: Served, tmp_path: Path) -> None:
    path = tmp_path / "outside.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("../../outside")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"evil"))
    assert refused(sent(http, path))
    assert not list(tester.folder.rglob("outside"))


def test_deep_json_breaks_nothing(http: httpx.Client, tmp_path: Path) -> None:
    deep = forged(bundle(tmp_path), tmp_path, lambda folder: (folder / "result.json").write_text("[" * 200_000 + "]" * 200_000))
    assert refused(sent(http, deep))
    assert sent(http, bundle(tmp_path)).json()["accepted"]


def test_another_submitter_cannot_replay_a_bundle(tester: Served, http: httpx.Client, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    number = sent(http, path).json()["number"]
    with program(tester, tester.token()) as other:
        assert f"another submitter sent this bundle before, as result {number}" in refused(sent(other, path), 409)


def test_other_content_under_the_same_id_is_refused(http: httpx.Client, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    again = packed(unpacked(path, tmp_path / "unpacked"), tmp_path / "again.tar.gz")
    assert again.read_bytes() != path.read_bytes()
    assert sent(http, path).json()["accepted"]
    assert "already, with other content" in refused(sent(http, again), 409)


def test_a_run_counts_once_whatever_the_bench_is_called(http: httpx.Client, tmp_path: Path) -> None:
    path = bundle(tmp_path)
    old = unpacked(path, tmp_path / "unpacked")
    folder = old.rename(old.with_name("resnet-20261115-000001-anew"))
    for name in ("bench.json", "result.json"):
        edit(folder / name, lambda data: data.update(id=folder.name))
    set_right(folder)
    assert sent(http, path).json()["accepted"]
    assert "a run counts once" in refused(sent(http, packed(folder, tmp_path / "anew.tar.gz")), 409)


def test_what_was_refused_is_judged_again_and_not_ranked(http: httpx.Client, tester: Served, tmp_path: Path) -> None:
    plan = planned(tester, test_id="20261115-late.1", model="late")
    path = bundle(tmp_path, plan={**vars(plan), "test_id": "20261115-late.2"})
    assert "no plan `20261115-late.2`" in refused(sent(http, path))
    assert http.get("/api/results", params={"model": "late"}).json() == []
    planned(tester, test_id="20261115-late.2", model="late")
    assert sent(http, path).json()["accepted"]
    assert [entry["test_id"] for entry in http.get("/api/results", params={"model": "late"}).json()] == ["20261115-late.2"]


def test_a_bundle_answers_the_plan_that_it_was_measured_for(http: httpx.Client, tester: Served, tmp_path: Path) -> None:
    plan, other = planned(tester, model="bert", division="open"), planned(tester)
    path = bundle(tmp_path, plan=vars(plan))
    assert f"sent to `{other.test_id}`" in refused(sent(http, path, other.test_id))
    verdict = sent(http, path, plan.test_id).json()
    entry = http.get(f"/api/results/{verdict['number']}").json()["entry"]
    assert {name: entry[name] for name in vars(plan)} == vars(plan)


def test_a_plan_that_differs_from_the_testers_is_refused(http: httpx.Client, tester: Served, tmp_path: Path) -> None:
    plan = planned(tester)
    path = bundle(tmp_path, plan={**vars(plan), "division": "open"})
    assert "differs from the tester's in division" in refused(sent(http, path))


def test_one_measured_without_a_plan_may_be_sent_to_one_or_none(http: httpx.Client, tester: Served, tmp_path: Path) -> None:
    plan = planned(tester, model="gpt")
    to_plan = sent(http, bundle(tmp_path), plan.test_id).json()["number"]
    assert http.get(f"/api/results/{to_plan}").json()["entry"]["model"] == "gpt"
    to_none = sent(http, bundle(tmp_path, name="plain")).json()["number"]
    entry = http.get(f"/api/results/{to_none}").json()["entry"]
    assert (entry["model"], entry["test_id"], entry["division"]) == ("resnet", None, "")
    assert "no plan `20991231-nobody`" in refused(sent(http, bundle(tmp_path), "20991231-nobody"))


def test_a_forged_signature_is_refused(http: httpx.Client, tmp_path: Path, key: Path) -> None:
    signed = bundle(tmp_path, key=key)
    stolen = unpacked(signed, tmp_path / "stolen") / SIGNATURE
    moved = forged(bundle(tmp_path), tmp_path, lambda folder: (folder / SIGNATURE).write_bytes(stolen.read_bytes()))
    assert "signature" in refused(sent(http, moved))
    entry = sent(http, signed).json()
    assert (entry["accepted"], entry["signature"]) == (True, "untrusted")


@pytest.mark.long
def test_a_tester_with_signers_takes_theirs_alone(serve: Serve, tmp_path: Path, key: Path) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f"ada@lab {key.with_suffix('.pub').read_text()}")
    tester = serve("--signers", signers)
    with program(tester, tester.token()) as http:
        assert "is not signed" in refused(sent(http, bundle(tmp_path)))
        stranger = bundle(tmp_path, key=new_key(tmp_path / "other"))
        assert "does not trust" in refused(sent(http, stranger))
        verdict = sent(http, bundle(tmp_path, key=key)).json()
        assert (verdict["accepted"], verdict["signature"], verdict["signed_by"]) == (True, "good", "ada@lab")


def test_the_description_of_the_system_comes_along(http: httpx.Client, tmp_path: Path) -> None:
    given = {"server": {"name": "Atlas 800", "cards": 8}, "note": "测试"}
    number = sent(http, bundle(tmp_path, system=given)).json()["number"]
    assert http.get(f"/api/results/{number}").json()["system"] == given
    number = sent(http, bundle(tmp_path)).json()["number"]
    details = http.get(f"/api/results/{number}").json()
    assert details["system"] is None
    assert [node["host"] for node in details["result"]["provenance"]["nodes"]] == ["node-0", "node-1"]
