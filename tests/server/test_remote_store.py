"""The store of a server through `muster cp` and its like, with a key that is kept with the login."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Muster, WriteJob
from muster.server.runs.environment import StoreAddress
from muster.server.runs.pools.pool import Pools
from muster_server import Administered, ServeMuster, User, make_user
from served_program import unused_port


@pytest.fixture
def bucket(muster: Muster, user: User) -> str:
    name = f"data-{user.name}-{user.server.port}"
    done = muster("buckets", "add", name)
    assert done.returncode == 0, done.stderr
    return name


def test_data_goes_into_the_store_and_a_job_reads_it_there(
    muster: Muster, write_job: WriteJob, tmp_path: Path, bucket: str, home: Path
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "one.txt").write_text("one")
    assert muster("cp", tmp_path / "set", f"obs://{bucket}/set").returncode == 0
    assert muster("ls", "-r", f"s3://{bucket}/set").stdout.split()[-1] == "one.txt"
    assert not (home / "store").exists(), "nothing of it is on this machine"
    fields = {"inputs": {"data": f"obs://{bucket}/set"}, "outputs": {"out": f"obs://{bucket}/out"}}
    train = """
    import pathlib, sys
    named = dict(word[2:].split("=", 1) for word in sys.argv[1:])
    text = pathlib.Path(named["data"], "one.txt").read_text()
    pathlib.Path(named["out"], "two.txt").write_text(text + " two")
    """
    done = muster("run", write_job(fields, **{"train.py": train}))
    assert done.returncode == 0, done.stderr
    assert muster("cp", f"obs://{bucket}/out/two.txt", tmp_path / "back.txt").returncode == 0
    assert (tmp_path / "back.txt").read_text() == "one two"
    assert muster("sync", tmp_path / "set", f"obs://{bucket}/out", "--delete").returncode == 0
    assert muster("ls", f"obs://{bucket}/out").stdout.split()[-1] == "one.txt"
    assert muster("rm", "-r", f"obs://{bucket}/out", f"obs://{bucket}/set").stdout == "removed 2 URLs\n"
    assert muster("ls", "--server", "none").stdout == ""


def test_one_key_is_made_kept_private_and_revoked_by_logout(muster: Muster, bucket: str, home: Path, user: User) -> None:
    muster("ls", f"obs://{bucket}")
    keys = json.loads(muster("keys", "list", "--json").stdout)
    assert len([key for key in keys if key["revoked"] is None]) == 1
    profile = home / "servers" / "default.json"
    assert profile.stat().st_mode & 0o777 == 0o600
    assert json.loads(profile.read_text())["access_key"] == keys[0]["id"]
    assert muster("logout").returncode == 0
    with user.server.http(user.token) as http:
        assert all(key["revoked"] for key in http.get("/api/v1/keys").json()["items"])


def test_a_bucket_of_another_is_not_there(muster: Muster, bucket: str, administered: Administered, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_user(administered, other)
    done = muster("ls", f"obs://{bucket}", "--server", MUSTER_HOME=str(other))
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no bucket" in done.stderr


def test_behind_a_proxy_the_store_is_where_the_server_was_told(
    serve_muster: ServeMuster, muster: Muster, home: Path, tmp_path: Path
) -> None:
    port, store_port = unused_port(), unused_port()
    external, store = f"http://localhost:{port}", f"http://localhost:{store_port}"  # as a proxy that passes all on
    ports = ("--port", port, "--store-port", store_port)
    server = serve_muster(*ports, "--external-url", external, "--store-url", f"{store}/")
    assert (server.url, server.store) == (external, store)
    make_user(Administered(server, server.make_administrator()), home)
    (tmp_path / "one.txt").write_text("one")
    added = muster("buckets", "add", "data")
    assert added.returncode == 0, added.stderr
    assert muster("cp", tmp_path / "one.txt", "obs://data/one.txt", "--server").returncode == 0
    assert muster("cp", "obs://data/one.txt", tmp_path / "two.txt", "--server").returncode == 0
    assert (tmp_path / "two.txt").read_text() == "one"


def test_jobs_of_other_machines_reach_the_store_where_people_do(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[hosts.lab]\nnodes = ["a"]\n[pools.lab]\nengine = "ssh"\nhosts = "lab"\ntrusted = true\n[pools.here]\ntrusted = true\n'
    )
    pools = Pools(tmp_path)
    here, public = "http://127.0.0.1:9531", "https://store.muster.example"
    for ca, expected in (("", (here, public)), ("cert.pem", (public, public))):
        address = StoreAddress(here, ca, public)
        assert (address.of(pools["here"]), address.of(pools["lab"])) == expected
