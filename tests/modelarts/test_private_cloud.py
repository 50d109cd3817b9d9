"""`[resolve]`: a server whose name no name service knows is reached by that name, and by none that its certificate lacks."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import huaweicloudsdkmodelarts.v1 as ma
import pytest
import requests
from engine_scene import run_json, use, write
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.exceptions.exceptions import ConnectionException
from huaweicloudsdkcore.region.region import Region
from modelarts_scene import Client, http_config, new_client, served
from modelarts_scene import collected as collected

from authority import certify
from conftest import Muster, WriteJob
from muster.addresses import Addresses
from muster.addresses.requests_adapter import mount, sdk_client
from muster.client.server import ServerClient
from muster.client.web_sockets import _opened
from muster.storage import Access, Settings, Storage, StorageError
from muster.tester.client import Login, connect
from muster.tester.errors import Unreachable

pytestmark = pytest.mark.filterwarnings("ignore:ssl.PROTOCOL_TLS is deprecated:DeprecationWarning")  # of esdk-obs-python
NAME, WRONG = "muster.private.example", "other.private.example"
MAPPED = Addresses({NAME: "127.0.0.1", WRONG: "127.0.0.1"})
DEAD_PROXY = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
READS = """
import os, sys
import moxing as mox
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
place = os.environ["PLACE"]
number = int(open(os.path.join(given["data"], "number.txt")).read())
mox.file.write(place + "/by-moxing.txt", str(number + int(mox.file.read(place + "/data/number.txt"))))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("authority")
    certify(found, "127.0.0.1", NAME, "*.obs.private.example")
    return found


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    words = ("--cert", str(folder / "server.pem"), "--key", str(folder / "server.key"))
    with served(*words, authority=str(folder / "ca.pem")) as scene:
        made = new_client(scene)
        made.put("data/number.txt", "21")
        yield made


def by_name(url: str, name: str = NAME) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}:{parts.port}").geturl()


@pytest.fixture
def configured(home: Path, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes settings whose stores lie at a name, with addresses or without."""
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)  # which counts more than the settings

    def write(addresses: Addresses = MAPPED, name: str = NAME) -> None:
        home.mkdir(exist_ok=True)
        lines = [f'[storage]\nendpoint = "{by_name(client.scene.server.store, name)}"\nca = "{folder / "ca.pem"}"']
        lines += [f'access_key = "{client.key}"\nsecret_key = "{client.secret}"\n[resolve]']
        lines += [f'"{host}" = "{address}"' for host, address in addresses.given.items()]
        path = home / "config.toml"
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o600)

    return write


def test_names_are_found_by_themselves_and_below_the_closest_name() -> None:
    found = Addresses({"*.example": "10.0.0.1", "*.obs.example": "10.0.0.2", "a.obs.example": "10.0.0.3"})
    assert [found.of(name) for name in ("A.obs.example.", "b.obs.example", "b.c.obs.example")] == [
        "10.0.0.3",
        *["10.0.0.2"] * 2,
    ]
    assert (found.of("obs.example"), found.of("example"), found.of("10.0.0.9")) == ("10.0.0.1", "example", "10.0.0.9")
    assert Addresses().of("b.example") == "b.example"


def test_commands_reach_a_server_by_its_name_past_any_proxy(
    client: Client, folder: Path, muster: Muster, configured: Callable[..., None], command: list[str]
) -> None:
    words = [*command, "login", by_name(client.scene.server.url), "--token-stdin", "--ca", str(folder / "ca.pem")]

    def login(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **DEAD_PROXY}
        return subprocess.run(words, input=client.token, text=True, capture_output=True, env=env, check=False)

    unknown = login(*words)
    assert (unknown.returncode, "cannot be reached" in unknown.stderr) == (3, True), unknown.stderr
    configured()
    assert login(*words).returncode == 0
    assert f'"{client.project}"' in muster("projects", "list", "--json", **DEAD_PROXY).stdout
    refused = login(*[word.replace(NAME, WRONG) for word in words])
    assert refused.returncode == 3 and "is not trusted (Hostname mismatch" in refused.stderr, refused.stderr
    configured(Addresses({NAME: "127.0.0.2"}))
    nobody = muster("projects", "list")
    assert nobody.returncode == 3 and "(at 127.0.0.2, as [resolve] in config.toml says)" in nobody.stderr, nobody.stderr


def test_a_terminal_reaches_a_server_by_its_name(client: Client, folder: Path) -> None:
    right, wrong = (by_name(client.scene.server.url, name) for name in (NAME, WRONG))
    with ServerClient(right, client.token, folder / "ca.pem", addresses=MAPPED) as found, _opened(found) as opened:
        assert isinstance(opened, ssl.SSLSocket) and opened.server_hostname == NAME
    refused = pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED")
    with ServerClient(wrong, client.token, folder / "ca.pem", addresses=MAPPED) as found, refused:
        _opened(found)


def test_results_reach_a_tester_by_its_name(
    client: Client, folder: Path, home: Path, configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in DEAD_PROXY.items():
        monkeypatch.setenv(name, value)
    configured()
    for name, reason in ((NAME, ""), (WRONG, "Hostname mismatch")):
        url = by_name(client.scene.server.url, name)
        with connect(home, url, Login(url, client.token, str(folder / "ca.pem"))) as tester:
            if not reason:
                assert tester.plans() == []
                continue
            with pytest.raises(Unreachable, match=reason):
                tester.plans()


def test_files_and_jobs_reach_a_store_by_its_name(
    client: Client,
    muster: Muster,
    configured: Callable[..., None],
    write_job: WriteJob,
    run_json: Callable[..., dict[str, Any]],
) -> None:
    place = f"s3://{client.bucket}"
    configured(Addresses())
    unknown = muster("ls", place)
    assert (unknown.returncode, f"https://{NAME}" in unknown.stderr) == (3, True), unknown.stderr
    configured(name=WRONG)
    refused = muster("ls", place)
    assert refused.returncode == 3 and "is not trusted (Hostname mismatch" in refused.stderr, refused.stderr
    configured()
    assert "data/" in muster("ls", place).stdout
    fields = {
        "compat": "modelarts-v2",
        "inputs": {"data": f"{place}/data"},
        "env": {"PLACE": f"obs://{client.bucket}"},
        "outputs": {"result": f"{place}/out"},
    }
    ended = run_json(write_job(fields, **{"train.py": READS}))
    assert ended["state"] == "succeeded", ended
    assert client.get("by-moxing.txt") == b"42"


class Store(ThreadingHTTPServer):
    """A store at a name, with the name of each bucket before it; it keeps what it is asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Object)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        context.sni_callback = lambda found, name, own: self.asked.append(str(name))
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.asked: list[str] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class Object(BaseHTTPRequestHandler):
    server: Store

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"whole")

    def do_HEAD(self) -> None:
        self.server.asked.append(self.headers["Host"])
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_buckets_before_the_name_of_a_store_are_reached_by_a_wildcard(folder: Path, home: Path) -> None:
    with Store(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"https://obs.private.example:{server.server_port}"
        access = Access.completed(endpoint, style="virtual", ca=str(folder / "ca.pem"), timeout=5)

        def read(addresses: dict[str, str]) -> bytes:
            travelled = Settings.from_json(Settings(str(home), access, access, addresses=Addresses(addresses)).to_json())
            with Storage(travelled) as storage:
                return storage.read("obs://bucket-1/x", 0, 5)

        with pytest.raises(StorageError):
            read({"obs.private.example": "127.0.0.1"})
        assert read({"*.obs.private.example": "127.0.0.1"}) == b"whole"
        host = "bucket-1.obs.private.example"
        assert set(server.asked) == {host, f"{host}:{server.server_port}"}
        server.shutdown()


def test_the_vendors_sdk_reaches_modelarts_and_iam_by_their_names(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in DEAD_PROXY.items():
        monkeypatch.setenv(name, value)

    def sdk(name: str, addresses: Addresses = MAPPED) -> Any:
        url = by_name(client.scene.server.url, name)
        builder = sdk_client(ma.ModelArtsClient, addresses).new_builder().with_http_config(http_config(client.scene))
        credentials = BasicCredentials(client.key, client.secret).with_iam_endpoint(url)
        return builder.with_credentials(credentials).with_region(Region("here", url)).build()

    assert sdk(NAME).show_training_job_engines(ma.ShowTrainingJobEnginesRequest()).total > 0
    for name, addresses in ((WRONG, MAPPED), (NAME, Addresses())):
        with pytest.raises(ConnectionException):
            sdk(name, addresses).show_training_job_engines(ma.ShowTrainingJobEnginesRequest())


def test_a_run_reaches_modelarts_iam_and_obs_by_their_names(
    muster: Muster, home: Path, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With certificates of the cloud's own authority, past any proxy, and without a line in /etc/hosts."""
    for name, value in DEAD_PROXY.items():
        monkeypatch.setenv(name, value)
    use(home, client, project="", region="here", iam_endpoint=client.scene.server.url)
    settings = home / "config.toml"
    settings.write_text(settings.read_text().replace("127.0.0.1", NAME) + f'[resolve]\n"{NAME}" = "127.0.0.1"\n')
    found = run_json(muster, home, write(tmp_path, "print('hello', flush=True)\n"))
    assert (found["state"], found["exit"]) == ("succeeded", 0), found
    assert muster("logs", found["run"]).stdout == "hello\n"


def test_a_session_without_addresses_stays_as_it_is() -> None:
    with requests.Session() as session:
        before = dict(session.adapters)
        mount(session, Addresses())
        assert dict(session.adapters) == before


def test_doctor_says_what_is_mapped_and_whether_it_answers(
    client: Client, muster: Muster, configured: Callable[..., None]
) -> None:
    configured(Addresses({NAME: "127.0.0.1", "*.nowhere.example": "127.0.0.2"}))
    found = [entry for entry in json.loads(muster("doctor", "--json").stdout) if entry["part"] == "resolve"]
    port = urlsplit(client.scene.server.store).port
    assert found[0] == {"part": "resolve", "ok": True, "found": f"{NAME} is at 127.0.0.1: port {port} answers", "advice": ""}
    assert not found[1]["ok"] and "[resolve]" in found[1]["advice"]
    assert found[1]["found"].startswith("*.nowhere.example is at 127.0.0.2: port 443 does not answer (")
