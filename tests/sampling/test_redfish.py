"""Power from a BMC through Redfish: a real server with HTTPS and a certificate of its own."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sampled import IDLE, Start
from sampled import archive as archive
from sampled import sample as sample

from muster.agent.sampler.redfish import SESSIONS, Redfish, parse
from muster.devices import Unmeasured

POWER = "/redfish/v1/Chassis/1/Power"
METRICS = "/redfish/v1/Chassis/1/EnvironmentMetrics"
RESOURCES: dict[str, dict[str, Any]] = {
    POWER: {"PowerControl": [{"PowerConsumedWatts": 344}]},
    METRICS: {"PowerWatts": {"Reading": 351.5}},
}
USER, PASSWORD = "reader", "hush-hush"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class Bmc(ThreadingHTTPServer):
    """What a BMC does, as far as it matters here; `basic` is whether it takes a password with each request."""

    daemon_threads = True

    def __init__(self, certificate: Path, basic: bool) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.basic = basic
        self.hangs_up = False  # after each answer, without saying so before
        self.sessions: set[str] = set()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"https://localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that do not trust the certificate are what is tested."""


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Bmc

    def do_GET(self) -> None:
        if not self._may_in():
            self._answer(401, {})
        else:
            self._answer(200 if self.path in RESOURCES else 404, RESOURCES.get(self.path, {}))

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == SESSIONS and told == {"UserName": USER, "Password": PASSWORD}:
            self.server.sessions.add("one")
            self._answer(201, {}, {"X-Auth-Token": "one", "Location": f"{SESSIONS}/1"})
        else:
            self._answer(401, {})

    def do_DELETE(self) -> None:
        assert self._may_in() and self.path == f"{SESSIONS}/1"
        self.server.sessions.clear()
        self._answer(200, {})

    def _may_in(self) -> bool:
        return self.headers["X-Auth-Token"] in self.server.sessions or (
            self.server.basic and self.headers["Authorization"] == BASIC
        )

    def _answer(self, status: int, data: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self.server.asked.append(f"{self.command} {self.path} {status}")
        body = json.dumps(data).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.server.hangs_up

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that nobody but itself vouches for, with its key in the same file."""
    folder = tmp_path_factory.mktemp("certificate")
    names = "subjectAltName=DNS:localhost,DNS:bmc.private.example"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext {names}"
    subprocess.run(
        ["openssl", *words.split(), "-keyout", folder / "key", "-out", folder / "cert"], check=True, capture_output=True
    )
    both = folder / "both.pem"
    both.write_text((folder / "key").read_text() + (folder / "cert").read_text())
    return both


@pytest.fixture
def serve(certificate: Path) -> Iterator[Callable[..., Bmc]]:
    started: list[Bmc] = []

    def start(basic: bool = True) -> Bmc:
        bmc = Bmc(certificate, basic)
        threading.Thread(target=bmc.serve_forever, args=(0.02,), daemon=True).start()
        started.append(bmc)
        return bmc

    yield start
    for bmc in started:
        bmc.shutdown()
        bmc.server_close()


Serve = Callable[..., Bmc]


@pytest.mark.parametrize(("path", "watts"), [(POWER, 344.0), (METRICS, 351.5)])
def test_power_is_read_from_either_resource(serve: Serve, certificate: Path, path: str, watts: float) -> None:
    bmc = serve()
    source = Redfish(bmc.url + path, USER, PASSWORD, str(certificate), True)
    assert (source.watts(), source.watts()) == (watts, watts)
    source.close()
    assert bmc.asked == [f"GET {path} 200"] * 2  # and no session was opened


def test_a_bmc_is_reached_at_the_address_that_is_given_and_known_by_its_name(serve: Serve, certificate: Path) -> None:
    url = f"{serve().url.replace('localhost', 'bmc.private.example')}{POWER}"
    source = Redfish(url, USER, PASSWORD, str(certificate), True, "127.0.0.1")
    assert source.watts() == 344.0
    source.close()
    with pytest.raises(Unmeasured, match="Hostname mismatch"):
        Redfish(url.replace("bmc.", "other."), USER, PASSWORD, str(certificate), True, "127.0.0.1").watts()
    with pytest.raises(Unmeasured, match="cannot be reached"):
        Redfish(url, USER, PASSWORD, str(certificate), True).watts()


def test_where_a_password_with_each_request_is_refused_a_session_is_opened_and_closed(serve: Serve, certificate: Path) -> None:
    bmc = serve(basic=False)
    source = Redfish(bmc.url + POWER, USER, PASSWORD, str(certificate), True)
    assert (source.watts(), source.watts()) == (344.0, 344.0)
    assert bmc.sessions
    source.close()
    assert not bmc.sessions
    assert [line.split()[0] for line in bmc.asked] == ["GET", "POST", "GET", "GET", "DELETE"]


def test_a_wrong_password_is_told_without_the_password(serve: Serve, certificate: Path) -> None:
    source = Redfish(serve().url + POWER, USER, "not-this-one", str(certificate), True)
    with pytest.raises(Unmeasured) as error:
        source.watts()
    source.close()
    assert str(error.value) == "the BMC refuses the user or the password (401)"


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_that_is_asked_for(serve: Serve) -> None:
    bmc = serve()
    careful, careless = (Redfish(bmc.url + POWER, USER, PASSWORD, "", verify) for verify in (True, False))
    with pytest.raises(Unmeasured, match="CERTIFICATE_VERIFY_FAILED"):
        careful.watts()
    assert bmc.asked == []  # the password was not sent
    assert careless.watts() == 344.0
    careful.close()
    careless.close()


def test_a_connection_that_was_closed_meanwhile_is_opened_again(serve: Serve, certificate: Path) -> None:
    bmc = serve()
    bmc.hangs_up = True
    source = Redfish(bmc.url + POWER, USER, PASSWORD, str(certificate), True)
    assert [source.watts() for _ in range(3)] == [344.0] * 3
    source.close()


def test_a_bmc_that_is_not_there_and_a_resource_that_is_not_there_are_told(serve: Serve, certificate: Path) -> None:
    source = Redfish(serve().url + "/redfish/v1/Chassis/2/Power", USER, PASSWORD, str(certificate), True)
    with pytest.raises(Unmeasured, match="the BMC answers 404"):
        source.watts()
    source.close()
    with pytest.raises(Unmeasured, match="the BMC cannot be reached: "):
        Redfish("https://localhost:9" + POWER, USER, PASSWORD, "", True).watts()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "5", '{"PowerControl": []}', '{"PowerControl": [{"PowerConsumedWatts": null}]}', '{"PowerWatts": 5}']
    + [json.dumps({"PowerWatts": {"Reading": watts}}) for watts in (0, -1, True, "5")],
)
def test_a_resource_without_power_is_never_zero_watts(text: str) -> None:
    with pytest.raises(Unmeasured, match="power"):
        parse(text.encode())


def test_a_sampler_writes_what_the_bmc_of_its_host_tells(sample: Start, serve: Serve, certificate: Path) -> None:
    bmc = serve()
    common = {"user": USER, "password": PASSWORD, "ca": str(certificate), "source": "redfish"}
    hosts = {"submitter": {**common, "redfish": bmc.url + POWER}, "other": {**common, "redfish": bmc.url + "/no"}}
    sampled = sample(IDLE, MUSTER_POWER=json.dumps({"source": "off", "hosts": hosts, "host": "submitter"}))
    sampled.until_slow_things_are_done()
    assert sampled.end() == 0
    assert sampled.header["power"] == ["redfish"]
    watts = [line["power"] for line in sampled.samples if "power" in line]
    assert watts and all(found == {"redfish": 344.0} for found in watts)
    assert PASSWORD not in Path(sampled.node.metrics).read_text() + Path(sampled.node.system).read_text()
