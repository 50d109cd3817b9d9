"""What the server runs with, as administrators see it: what it is, where it is set, and no secret."""

from __future__ import annotations

import shutil
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

from muster.server.core.database import Database
from muster.server.pages.texts import TEXTS
from muster.server.runs.pools.pool import Pools
from muster.server.settings import of_pools
from muster.server.settings.of_server import database_place
from muster_server import MusterServer, server_folder

SECRET = "wholly-secret"
CONFIG = f"""
[pools.local]
trusted = true
paths = ["/data"]
runs = 7

[webhooks]
allow = ["10.0.0.0/8"]

[buckets]
per_user = 3

[resolve]
"obs.private.example" = "10.0.0.5"

[storage]
access_key = "AK-{SECRET}"
secret_key = "{SECRET}"

[tester]
url = "https://tester.example"
token = "{SECRET}"

[modelarts]
access_key = "AK-{SECRET}"
secret_key = "{SECRET}"
token = "{SECRET}"

[modelarts.engines."own_1.0"]
framework = "mindspore"
setup = "export TOKEN={SECRET}"

[modelarts.flavors."modelarts.vm.gpu.v100"]
device = "nvidia"
devices = 8
pool = "local"

[profiles.default.secrets]
WANDB_API_KEY = "{SECRET}"
"""


def settings_of(found: dict[str, Any], name: str) -> dict[str, tuple[Any, str]]:
    """Values of a section, or of a pool, and where they are set."""
    section = next(one for one in found["sections"] if (one["pool"] or one["name"]) == name)
    return {one["name"]: (one["value"], one["where"]) for one in section["settings"]}


def test_administrators_alone_see_what_the_server_runs_with_and_no_secret() -> None:
    server = MusterServer(server_folder(), ["--code-quota", "5G", "--trusted-proxy", "10.0.0.9"])
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text(CONFIG)
    (server.data / "config.toml").chmod(0o600)
    try:
        administrator = server.start().make_administrator()
        server.make_user(administrator, "ann")
        with server.http(administrator) as http, server.http(server.token("ann")) as of_ann, server.http() as nobody:
            answer = http.get("/api/v1/settings")
            assert (of_ann.get("/api/v1/settings").status_code, nobody.get("/api/v1/settings").status_code) == (403, 401)
        with server.session("admin") as browser:
            page = browser.get("/admin/settings")
        assert (answer.status_code, page.status_code) == (200, 200), answer.text
        assert SECRET not in answer.text + page.text
        found = answer.json()
        assert found["config"] == str(server.data / "config.toml")
        assert settings_of(found, "server")["database"] == ("SQLite", "--database")
        assert settings_of(found, "server")["data"] == (str(server.data), "--data")
        assert settings_of(found, "addresses")["trusted_proxies"] == (["10.0.0.9"], "--trusted-proxy")
        assert settings_of(found, "addresses")["resolve"] == (["obs.private.example → 10.0.0.5"], "[resolve]")
        assert settings_of(found, "limits")["code_quota"] == (5 << 30, "--code-quota")
        assert settings_of(found, "limits")["buckets"] == (3, "[buckets] per_user")
        assert settings_of(found, "webhooks")["webhooks_allow"] == (["10.0.0.0/8"], "[webhooks] allow")
        assert settings_of(found, "modelarts")["engines"] == (["own_1.0: mindspore"], "[modelarts.engines]")
        assert settings_of(found, "modelarts")["flavors"][0] == ["modelarts.vm.gpu.v100: nvidia × 8 (local)"]
        pool = settings_of(found, "local")
        assert (pool["runs"], pool["paths"]) == ((7, "[pools.local] runs"), (["/data"], "[pools.local] paths"))
        assert pool["engine"][0] == "local" and pool["trusted"][0] is True
        named = {one["name"] for section in found["sections"] for one in section["settings"]}
        assert [name for name in named if f"server.of.{name}" not in TEXTS] == []
    finally:
        server.kill(signal.SIGTERM)
        shutil.rmtree(server.folder)


def test_a_pool_of_hosts_shows_its_hosts_accounts_and_when_they_are_given_up(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[hosts.lab]\nnodes = ["node[01-02]"]\nlost_after = "3m"\n'
        '[pools.far]\nengine = "ssh"\nhosts = "lab"\naccounts = {ann = "a1"}\noptions = ["shared"]\n'
        '[pools.far.nodes.node01]\nlabels = {rack = "a"}\n'
    )
    [section] = of_pools.sections(Pools(tmp_path))
    found = {one.name: (one.value, one.where) for one in section.settings}
    assert found["hosts_nodes"] == (["node01", "node02"], "[hosts.lab] nodes")
    assert found["accounts"] == (["ann → a1"], "[pools.far] accounts")
    assert found["lost_after"] == (180.0, "[hosts.lab] lost_after")
    assert found["node_labels"] == (["rack=a"], "[pools.far.nodes.node01]")
    assert found["options"][0] == ["shared"]
    assert [name for name in found if f"server.of.{name}" not in TEXTS] == []


def test_the_place_of_a_database_has_neither_user_nor_parameters() -> None:
    url = f"postgresql://ann:{SECRET}@db.example:5433/muster?password={SECRET}&sslpassword={SECRET}"
    with closing(Database(url)) as database:
        assert database_place(database) == "db.example:5433/muster"
