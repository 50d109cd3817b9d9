"""Text that is not Unicode: lone surrogates in the files of strangers, and directories whose names are not UTF-8."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from bundles import edit, make_bundle, measured, packed, set_right, unpacked

from conftest import Muster, WriteJob

LONE = "half \ud800 letter"


def forged(home: Path, tmp_path: Path) -> Path:
    """A bundle in which a name has a lone surrogate, everywhere."""
    folder = unpacked(make_bundle(home, tmp_path / "whole.tar.gz", measured(home)), tmp_path / "unpacked")
    for name in ("bench.json", "result.json"):
        edit(folder / name, lambda data: data.update(name=LONE))
    set_right(folder)
    return packed(folder, tmp_path / "b.tar.gz")


@pytest.mark.parametrize("words", [("--html", "page.html"), ("--csv",), ()])
def test_a_bundle_with_lone_surrogates_is_refused_in_one_sentence(
    words: tuple[str, ...], home: Path, tmp_path: Path, muster: Muster
) -> None:
    bundle = forged(home, tmp_path)
    done = muster("report", bundle, *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "is damaged: name: " in done.stderr
    assert "lone surrogates" in muster("report", unpacked_result(tmp_path), *words).stderr
    assert muster("verify", bundle).returncode in (0, 1)
    json.loads(muster("verify", bundle, "--json").stdout)


def unpacked_result(tmp_path: Path) -> Path:
    (result,) = (tmp_path / "unpacked").glob("*/result.json")
    return result


def test_a_rank_may_say_lone_surrogates(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    text = r"""
    import os
    with open(os.environ["MUSTER_RESULTS"] + "/record-0.jsonl", "w") as file:
        file.write('{"t": 1e9, "kind": "metric", "name": "\\ud800", "value": 1.0, "unit": "\\udfff"}\n')
        file.write('{"t": 1e9, "kind": "metric", "name": "throughput", "value": 5.0, "unit": "samples/s"}\n')
    print(':::MLLOG {"time_ms": 1, "key": "\\ud800", "value": 1}')
    """
    target = tmp_path / "b.tar.gz"
    done = muster("bench", write_job({"bench": {}}, **{"train.py": text}), "--export", target)
    assert done.returncode == 0, done.stderr
    assert muster("verify", target).returncode == 0
    assert muster("report", target, "--html", "page.html").returncode == 0
    assert muster("ps", "--json").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_a_home_whose_name_is_not_utf8_works(locale: str, muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    home = os.fsdecode(os.fsencode(tmp_path) + b"/h\xffome")
    env = {"MUSTER_HOME": home, "LC_ALL": locale}
    job = write_job({"command": "echo hello", "outputs": {"out": "s3://bucket/out"}})
    assert muster("run", job, **env).returncode == 0
    view = json.loads(muster("ps", "--json", **env).stdout)[0]
    assert (view["state"], view["dir"]) == ("succeeded", f"{home}/runs/{view['run']}")
    for words in ("ps", "show last", "show last --json", "logs last", "report last"):
        done = muster(*words.split(), **env)
        assert done.returncode == 0, (words, done.stderr)
    assert muster("bench", job, "--export", "b.tar.gz", **env).returncode == 1  # nobody recorded a number
    assert muster("verify", "b.tar.gz", **env).returncode == 0
    assert muster("rm", "last", **env).returncode == 0
    assert muster("prune", "--older", "0s", **env).returncode == 0
    assert os.listdir(os.fsencode(home) + b"/runs") == []
