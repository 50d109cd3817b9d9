"""A server with users, their keys and projects, and the vendor's unchanged clients that speak to it."""

from __future__ import annotations

import gc
import shutil
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huaweicloudsdkmodelarts.v1 as ma
import pytest
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.exceptions.exceptions import ServiceResponseException
from huaweicloudsdkcore.http.http_config import HttpConfig
from obs import ObsClient

from conftest import until
from muster_server import NUMBERS, MusterServer, server_folder

ENDED = ("Completed", "Failed", "Terminated", "Abnormal")
CPU = "modelarts.vm.cpu.2u"
PYTORCH = "pytorch_1.8.0-cuda_10.2-py_3.7-ubuntu_18.04-x86_64"


@pytest.fixture(autouse=True)
def collected(home: Path) -> Iterator[None]:
    """Errors of the SDK hold its sockets, which are looked for after each test."""
    yield
    gc.collect()


@dataclass
class Scene:
    server: MusterServer
    administrator: str
    authority: str = ""  # of its certificate, where it speaks TLS


@contextmanager
def served(*words: str, authority: str = "", config: str = "") -> Iterator[Scene]:
    server = MusterServer(server_folder(), list(words))
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text("[pools.local]\ntrusted = true\n" + config)
    if authority:
        server.trust = ssl.create_default_context(cafile=authority)
    try:
        server.start()
        yield Scene(server, server.make_administrator(), authority)
    finally:
        server.kill(signal.SIGTERM)
        shutil.rmtree(server.folder)


@dataclass
class Client:
    """A user with a project, a bucket and the vendor's clients."""

    scene: Scene
    name: str
    project: str
    project_id: str
    token: str
    key: str
    secret: str
    bucket: str

    @property
    def sdk(self) -> ma.ModelArtsClient:
        credentials = BasicCredentials(self.key, self.secret, self.project_id)
        builder = ma.ModelArtsClient.new_builder().with_http_config(http_config(self.scene)).with_credentials(credentials)
        return builder.with_endpoint(self.scene.server.url).build()

    @contextmanager
    def obs(self) -> Iterator[ObsClient]:
        verify: Any = self.scene.authority or False
        client = ObsClient(
            access_key_id=self.key,
            secret_access_key=self.secret,
            server=self.scene.server.store,
            ssl_verify=verify,
            max_retry_count=0,
        )
        yield client
        client.close()

    def put(self, key: str, content: str) -> None:
        with self.obs() as obs:
            answer = obs.putContent(self.bucket, key, content)
            assert answer.status < 300, (answer.status, answer.errorMessage)

    def get(self, key: str) -> bytes:
        with self.obs() as obs:
            answer = obs.getObject(self.bucket, key, loadStreamInMemory=True)
            assert answer.status == 200, (key, answer.status, answer.errorMessage)
            return bytes(answer.body.buffer)

    def raw(self, method: str, path: str, **words: Any) -> Any:
        """A request with a token, as programs without the SDK send it."""
        headers = {"X-Auth-Token": self.token, **words.pop("headers", {})}
        with self.scene.server.http() as http:
            return http.request(method, f"/v2/{self.project_id}{path}", headers=headers, **words)

    def job(self, name: str = "", program: str = "print('hello')\n", **given: Any) -> ma.Job:
        """A job whose program is put into the bucket."""
        name = name or f"job-{next(NUMBERS)}"
        self.put(f"{name}/code/train.py", program)
        algorithm = ma.JobAlgorithm(
            code_dir=f"/{self.bucket}/{name}/code/",
            boot_file=f"/{self.bucket}/{name}/code/train.py",
            engine=given.pop("engine", ma.JobEngine(engine_id=PYTORCH)),
            **given.pop("algorithm", {}),
        )
        resource = ma.SpecResource(flavor_id=given.pop("flavor", CPU), node_count=given.pop("nodes", 1))
        spec = ma.Spec(resource=resource, **given.pop("spec", {}))
        return ma.Job(
            kind="job", metadata=ma.JobMetadata(name=name, **given.pop("metadata", {})), algorithm=algorithm, spec=spec
        )

    def create(self, job: ma.Job) -> Any:
        return self.sdk.create_training_job(ma.CreateTrainingJobRequest(body=job))

    def show(self, job_id: str) -> Any:
        return self.sdk.show_training_job_details(ma.ShowTrainingJobDetailsRequest(training_job_id=job_id))

    def wait(self, job_id: str, *phases: str) -> Any:
        """The job once it is in one of these phases, or has ended."""

        def found() -> Any:
            job = self.show(job_id)
            return job if job.status.phase in (phases or ENDED) else None

        return until(found, 60)


def http_config(scene: Scene) -> HttpConfig:
    config = HttpConfig.get_default_config()
    config.ssl_ca_cert = scene.authority or None
    config.timeout = (10, 60)
    return config


def new_client(scene: Scene, project: str | None = None) -> Client:
    """A new user in a project of the user's own, or in one that there is."""
    number, server = next(NUMBERS), scene.server
    name, project = f"trainer{number}", project or f"models{number}"
    server.make_user(scene.administrator, name)
    with server.http(scene.administrator) as admin:
        admin.post("/api/v1/projects", json={"name": project})
        added = admin.put(f"/api/v1/projects/{project}/members/{name}", json={"role": "member"})
        assert added.status_code == 200, added.text
        project_id = admin.get(f"/api/v1/projects/{project}").json()["id"]
    token = server.token(name)
    with server.http(token) as http:
        made = http.post("/api/v1/keys", json={"name": "sdk"}).json()
    client = Client(scene, name, project, project_id, token, made["key"]["id"], made["secret"], f"bucket-{number}")
    with client.obs() as obs:
        created = obs.createBucket(client.bucket)
        assert created.status < 300, (created.status, created.errorMessage)
    return client


def refusal(error: ServiceResponseException) -> tuple[int, str, str]:
    return error.status_code, error.error_code, error.error_msg
