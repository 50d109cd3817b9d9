"""Code that lies on a store: fetched when a run is made, and kept as it was then."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from conftest import Muster, WriteJob
from traces import RunJson, embedded, put, told

CODE = {"app/train.py": "import json, helper\nprint(json.dumps(helper.WORD))\n", "app/helper.py": "WORD = 'first'\n"}


@pytest.mark.long
def test_code_runs_from_its_url_and_runs_again_as_it_was(
    containment: str, run_json: RunJson, write_job: WriteJob, muster: Muster
) -> None:
    put(**CODE)
    job = write_job({"nodes": 2, "code": "obs://b/app", "boot": "train.py"})
    view = run_json(job)
    assert told(view) == ["first", "first"]
    assert "muster: fetching obs://b/app" in view["stderr"]
    assert view["job"]["code"] == "obs://b/app"
    put(**{"app/helper.py": "WORD = 'second'\n"})
    assert told(run_json(job)) == ["second", "second"]
    embedded().remove("obs://b/app", recursive=True)
    again = json.loads(muster("rerun", view["run"], "--json").stdout)
    assert (again["state"], Path(again["dir"], "attempts/1/nodes/1/logs/rank-1.log").read_text()) == ("succeeded", '"first"\n')
    assert json.loads(Path(again["dir"], "job.json").read_text())["code"] == "obs://b/app"


def test_a_url_that_ends_with_dots_names_no_directory_above_the_code(
    containment: str, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    (tmp_path / "app" / "inner").mkdir(parents=True)
    (tmp_path / "app" / "train.py").write_text("import json, os\nprint(json.dumps(os.path.dirname(__file__)))")
    job = write_job({"compat": "modelarts-v1", "code": f"file://{tmp_path}/app/inner/..", "boot": "train.py"})
    (folder,) = told(run_json(job))
    assert folder.endswith("/home/work/user-job-dir/code")


def test_what_a_url_lost_is_not_in_the_next_run(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"app/a.txt": "a", "app/b.txt": "b"})
    job = write_job({"code": "obs://b/app", "command": "ls"})
    run_json(job)
    embedded().remove("obs://b/app/a.txt")
    view = run_json(job)
    assert Path(view["attempts"][0]["ranks"][0]["log"]).read_text() == "b.txt\n"


@pytest.mark.parametrize(
    "fields, problem",
    [
        ({"code": "obs://b/none", "command": "true"}, "`code` names obs://b/none, which does not exist"),
        ({"code": "obs://b/app/train.py", "command": "true"}, "`code` names obs://b/app/train.py, which is a single file"),
        ({"code": "obs://b/app", "boot": "other.py"}, "`boot` names `other.py`, which is not in obs://b/app"),
        ({"code": "ftp://b/app", "command": "true"}, "`code` "),
    ],
)
def test_code_that_is_not_there_is_told_before_there_is_a_run(
    fields: dict[str, str], problem: str, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    put(**CODE)
    for option in ("--check", "--dry-run"):
        done = muster("run", write_job(fields), option)
        assert (done.returncode, done.stdout) == (2, "")
        assert problem in done.stderr and len(done.stderr.splitlines()) == 1 + ("fetching" in done.stderr)
    assert not (home / "runs").exists()


def test_checking_and_dry_runs_take_code_from_urls_too(muster: Muster, write_job: WriteJob, home: Path) -> None:
    put(**CODE)
    job = write_job({"code": "obs://b/app/", "boot": "train.py"})
    assert "no problems" in muster("run", job, "--check").stdout
    assert "2 code files" in muster("run", job, "--dry-run").stdout
    assert not (home / "runs").exists()


def test_a_home_behind_a_link_keeps_code_all_the_same(run_json: RunJson, write_job: WriteJob, home: Path) -> None:
    behind = home.with_name("behind")
    behind.mkdir()
    home.symlink_to(behind)
    put(**CODE)
    assert told(run_json(write_job({"code": "obs://b/app", "boot": "train.py"}))) == ["first"]


@pytest.mark.long
def test_several_people_may_fetch_the_same_code_at_once(muster: Muster, write_job: WriteJob) -> None:
    put(**{f"app/{number}.txt": str(number) for number in range(50)})
    job = write_job({"code": "obs://b/app", "command": "ls | wc -l"})
    said: list[str] = []
    threads = [threading.Thread(target=lambda: said.append(muster("run", job).stdout)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["[0] 50\n"] * 4
