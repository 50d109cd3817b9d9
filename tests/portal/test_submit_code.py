"""The code, clones, templates and the store on the page that submits a job, in a real browser."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from portal_server import Portal, member
from run_client import RunClient
from submit_page import EVIL, submitting, two_pools, wangfang

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "two_pools", "wangfang"]
# A browser without a window drops nothing from outside of it: what the page reads of an event is put into one.
DROP = """files => {
  const file = (path, text) => (
    { isFile: true, isDirectory: false, name: path, file: (done) => done(new File([text], path)) });
  const reader = (inner) => { const left = [inner, []]; return { readEntries: (done) => done(left.shift()) }; };
  const folder = (name, inner) => ({ isFile: false, isDirectory: true, name, createReader: () => reader(inner) });
  const tree = folder('dropped', [file('train.py', files.train), folder('lib', [file('extra.py', files.extra)])]);
  const event = new DragEvent('drop', { bubbles: true, cancelable: true });
  Object.defineProperty(event, 'dataTransfer', { value: { items: [{ webkitGetAsEntry: () => tree }], types: ['Files'] } });
  document.querySelector('[data-drop]').dispatchEvent(event);
}"""


def fill_bucket(portal: Portal, client: RunClient, bucket: str, keys: tuple[str, ...], content: bytes) -> None:
    """Makes a bucket of the user's with these objects, as any client of S3 does."""
    made = client.http.post("/api/v1/keys", json={"name": "test"}).json()
    own = {"aws_access_key_id": made["key"]["id"], "aws_secret_access_key": made["secret"]}
    settings = Config(s3={"addressing_style": "path"}, proxies={})
    with closing(
        boto3.client("s3", endpoint_url=portal.server.store, region_name="us-east-1", config=settings, **own)
    ) as store:
        store.create_bucket(Bucket=bucket)
        for key in keys:
            store.put_object(Bucket=bucket, Key=key, Body=content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with code, and with what is none."""
    made = tmp_path / "resnet"
    for name, text in {
        "train.py": "import lib.extra\n",
        "lib/extra.py": "print('extra was read')\n",
        "run.sh": "#!/bin/bash\necho run as a program\n",
        "Ünïcode 名.txt": "x",
        "data.bin": "large",
        ".musterignore": "*.bin\n",
        ".git/config": "x",
        "venv/pyvenv.cfg": "x",
        "venv/lib/huge.py": "x",
    }.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


def test_a_folder_is_sent_and_only_what_is_missing(
    browser: Browser, two_pools: Portal, wangfang: RunClient, folder: Path
) -> None:
    with submitting(browser, two_pools) as form:
        form.page.fill("#f-name", "uploaded")
        form.page.click("[data-code=upload]")
        form.page.set_input_files("[data-folder]", folder)
        note = form.page.locator("[data-code-note]")
        note.filter(has_text="resnet: 5 files").wait_for()
        assert "5 were sent" in note.inner_text()
        assert "4 were left out" in note.inner_text()
        (folder / "lib/extra.py").write_text("print('extra was changed')\n")
        form.page.set_input_files("[data-folder]", folder)
        note.filter(has_text="1 were sent").wait_for()
        form.page.fill("#f-command", "./run.sh && python3 train.py && ls *.txt")
        form.page.check("[name=device][value=cpu]")
        form.says("It would start now")
        run = form.submit()
        assert wangfang.wait(run)["state"] == "succeeded"
        form.page.goto(two_pools.server.url + f"/jobs/{run}/console")
        for text in ("run as a program", "extra was changed", "Ünïcode 名.txt"):
            form.page.locator(".screen", has_text=text).wait_for()


def test_a_folder_is_dropped_and_its_files_are_offered(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.page.click("[data-code=upload]")
        form.page.evaluate(DROP, {"train": "print('dropped')\n", "extra": "x = 1\n"})
        form.page.locator("[data-code-note]", has_text="dropped: 2 files").wait_for()
        form.page.click("[data-program=boot]")
        assert form.page.locator("#boot-files option").evaluate_all("all => all.map((one) => one.value).sort()") == [
            "lib/extra.py",
            "train.py",
        ]
        form.page.fill("#f-boot", "tran.py")
        form.page.locator("[data-wrong=boot]:visible", has_text="train.py").wait_for()
        form.page.fill("#f-boot", "train.py")
        form.page.check("[name=device][value=cpu]")
        form.says("It would start now")
        form.page.once("dialog", lambda dialog: dialog.accept())


def test_a_clone_has_everything_and_shows_what_was_changed(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    code = wangfang.send_code(train__py="print('as it was')\n")
    job = "# keep me\nname: first\nboot: train.py\ndevice: cpu\nenv: {A: 1, B: 2} # both\ntime_limit: 90m\n"
    run = wangfang.submit(job, code=code, set=["devices=2", "time_limit=2h"])
    wangfang.wait(run)
    with submitting(browser, two_pools, f"?clone={run}") as form:
        form.page.locator("[data-changes]", has_text="The same as first").wait_for()
        assert form.text == (
            "# keep me\nname: first\nproject: speech\npool: local\nboot: train.py\ndevices: 2\ndevice: cpu\n"
            "env: {A: 1, B: 2} # both\ntime_limit: 2h\n"
        )
        form.says("It would start now")
        form.page.locator("[data-rows-of=env] [data-value]").nth(1).fill("3")
        form.page.fill("#f-devices", "1")
        changes = form.page.locator("[data-changed] li")
        assert [" ".join(text.split()) for text in changes.all_inner_texts()] == [
            "devices 2 → 1 put back",
            "env.B 2 → 3 put back",
        ]
        form.page.get_by_role("button", name="Put devices back").click()
        assert form.page.input_value("#f-devices") == "2"
        form.says("It would start now")
        again = form.submit()
    assert wangfang.wait(again)["state"] == "succeeded"
    origin = wangfang.http.get(f"/api/v1/runs/{again}/origin").json()
    assert (origin["origin"], origin["code_changed"]) == (run, False)
    assert [(one["field"], one["after"]) for one in origin["changes"]] == [("env.B", "3")]


def test_a_clone_of_a_job_that_a_program_submitted_is_written_in_lines(
    browser: Browser, two_pools: Portal, wangfang: RunClient
) -> None:
    job = {"name": "made", "command": "echo one\necho: two\n", "device": "cpu", "env": {"A": "1e-3", "B": EVIL, "C": "null"}}
    run = wangfang.submit(json.dumps(job))
    wangfang.wait(run)
    with submitting(browser, two_pools, f"?clone={run}") as form:
        form.page.locator("[data-changes]", has_text="The same as made").wait_for()
        assert form.text == (
            "name: made\nproject: speech\npool: local\ncommand: |\n  echo one\n  echo: two\ndevice: cpu\n"
            f'env:\n  A: "1e-3"\n  B: {EVIL}\n  C: "null"\n'
        )
        form.says("It would start now")
        again = form.submit()
    wangfang.wait(again)
    assert wangfang.get(again)["job"]["env"] == job["env"]


def test_the_run_of_somebody_else_cannot_be_cloned(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with member(two_pools, "stranger", "other") as client:
        run = two_pools.job(client, "private", "echo")
    with submitting(browser, two_pools) as form:
        answer = form.page.goto(two_pools.server.url + f"/submit?clone={run}")
        assert answer is not None and answer.status == 404
        assert wangfang.http.post(f"/api/v1/runs/{run}/code").status_code == 404


def test_a_template_is_saved_shared_and_begins_submissions(browser: Browser, two_pools: Portal) -> None:
    with member(two_pools, "author", "team") as author, member(two_pools, "colleague", "team"):
        with two_pools.server.http(two_pools.administrator) as admin:
            admin.put("/api/v1/projects/team/members/author", json={"role": "manager"})
        code = author.send_code(train__py="print('of the template')\n")
        run = author.submit("name: usual\nboot: train.py\ndevice: cpu\n", code=code)
        with submitting(browser, two_pools, f"?clone={run}", "author") as form:
            form.says("It would start now")
            form.page.click("[data-save]")
            form.page.fill("#save-name", "usual")
            form.page.fill("#save-about", EVIL)
            form.page.select_option("#save-scope", "project")
            form.page.check("dialog [type=checkbox]")
            form.page.click("dialog .primary")
            form.page.locator(".toast", has_text="usual was saved").wait_for()
            form.page.click("[data-templates]")
            form.page.locator("dialog", has_text=EVIL).wait_for()
            form.page.keyboard.press("Escape")
        with submitting(browser, two_pools, name="colleague") as form:
            form.page.locator("[data-origin]", has_text="from the template usual").wait_for()
            form.page.locator("[data-code=given][aria-pressed=true]").wait_for()
            form.says("It would start now")
            form.page.fill("#f-name", "from-template")
            form.page.locator("[data-changed]", has_text="usual → from-template").wait_for()
            made = form.submit()
        assert author.wait(made)["state"] == "succeeded"
        author.wait(run)


def test_the_store_is_browsed_for_an_input(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    keys = ("corpora/zh/train.tar", f"corpora/{EVIL}", "readme.txt")
    fill_bucket(two_pools, wangfang, "speech-data", keys, b"12345")
    with submitting(browser, two_pools) as form:
        form.page.fill("#f-command", "ls")
        form.add("inputs", "corpus", "")
        form.page.get_by_role("button", name="Browse the store for entry 1").click()
        dialog = form.page.locator("dialog")
        for step in ("speech-data", "corpora/", "zh/"):
            dialog.get_by_role("button", name=step, exact=True).click()
        dialog.get_by_role("button", name="train.tar").wait_for()
        assert "5 B" in dialog.inner_text()
        dialog.get_by_role("button", name="corpora").click()
        dialog.filter(has_text=EVIL).wait_for()
        dialog.get_by_role("button", name="zh/", exact=True).click()
        dialog.get_by_role("button", name="Use this directory").click()
        form.holds("inputs:\n  corpus: obs://speech-data/corpora/zh/\n")
        form.page.once("dialog", lambda asked: asked.accept())
