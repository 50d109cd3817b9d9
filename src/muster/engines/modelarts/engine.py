"""The engine of ModelArts: a supervisor on this machine creates a training job of the service, and follows it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from muster.config import ConfigError
from muster.dataclass import fields, replace
from muster.engines.base import Beside, Capacity, EngineError, Order, Place, Request
from muster.engines.modelarts import limits
from muster.engines.modelarts.node import jobs, request, transfers
from muster.engines.modelarts.node.account import EVERY, Account, AccountError, read_keys
from muster.engines.modelarts.node.client import MISSING, Client, Refused, ServiceError, objects
from muster.engines.modelarts.node.inside import carried
from muster.engines.modelarts.node.journal import Journal
from muster.engines.modelarts.options import ModelArtsOptions, StoreUrl
from muster.engines.own_supervisor import OwnSupervisor
from muster.job import LAUNCHERS, Job
from muster.job.kinds import Item, Wrong
from muster.linux import keys
from muster.records.layout import run_dir
from muster.records.status import Status
from muster.storage import settings as storage_settings
from muster.storage.local_store import find_local
from muster.storage.urls import parse

if TYPE_CHECKING:
    from muster.engines.carriers import Carriers

TIMEOUT = 60.0
FROM_CONFIG = ("api", "pool", "flavor", "engine", "image", "workspace", "store")
# What the vendor's own tools read.
VARIABLES = {
    "access_key": "HUAWEICLOUD_SDK_AK",
    "secret_key": "HUAWEICLOUD_SDK_SK",
    "token": "HUAWEICLOUD_SDK_SECURITY_TOKEN",
    "project": "HUAWEICLOUD_SDK_PROJECT_ID",
}
BELOW = "below [modelarts] in config.toml"


class ModelArts(OwnSupervisor):
    name = "modelarts"
    shares_files = False
    moves_data = True
    continues = False

    @cached_property
    def service(self) -> Account:
        """The service, and with whose keys it is asked. Raises EngineError."""
        return _account(self.home, self.settings)

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        if find_spec("huaweicloudsdkmodelarts") is None:
            raise EngineError(MISSING)
        own, site = job.modelarts or ModelArtsOptions(), self.settings.service
        found = {name: getattr(own, name) or getattr(site, name) or "" for name in FROM_CONFIG}
        if found["store"]:
            _check_store(found["store"])
        options = replace(own, **found)
        if job.ssh is None and carried.has_agent(job) and job.framework in LAUNCHERS:
            job = replace(job, ssh=True)
        job = replace(job, modelarts=options)  # `device: auto` stays: the flavor says what a node has
        for unused in () if carried.has_agent(job) else limits.unused(job):
            say(unused)
        return replace(job, modelarts=replace(options, api=request.version(job)))

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        return [*limits.offline(job), *self._unreachable(job)]

    def _unreachable(self, job: Job) -> Iterable[tuple[str, str, str]]:
        """Places of the job in the store of this machine, which the service does not see."""
        settings = storage_settings.resolve(self.home, self.settings.storage, os.environ)
        options = request.options_of(job)
        urls = {f"inputs.{name}": data.url for name, data in job.inputs.items()}
        urls.update({f"outputs.{name}": data.url for name, data in job.outputs.items()})
        urls.update({"modelarts.store": options.store, "modelarts.code_dir": options.code_dir, "log_url": job.log_url})
        for field, url in urls.items():
            if "://" in url and not url.startswith("file:") and find_local(settings, parse(url)):
                hint = "set `endpoint` below [storage] in config.toml to the OBS of the service"
                yield field, f"is {url}, and that store is on this machine, where the service does not see it", hint

    def refused_code(self, size: int, files: int) -> list[tuple[str, str, str]]:
        return [*limits.code(size, files)]

    def admit(self, job: Job, say: Callable[[str], None]) -> list[tuple[str, str, str]]:
        client = Client(self.service)
        try:
            return limits.online(client, job)
        finally:
            client.close()

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        # With the packages of this Python and of its user, for the SDK, and nothing of the environment or the directory.
        argv = [sys.executable, "-E", "-P", order.agent, "supervise", order.run_dir, "--code", order.code]
        argv += ["--python", sys.executable, "--site", self.name]
        given = {**environment, keys.SERVICE: self.service.to_json()}
        return Request(tuple(argv), "/", f"{order.run_dir}/supervisor.log", given)

    def show(self, job: Job, order: Order) -> str:
        """The request that creates the job of the first attempt, without keys."""
        run_id = os.path.basename(order.run_dir)
        places = request.places(job, run_id, os.path.basename(order.code), transfers.digests(job), archive=order.agent)
        path = request.path(job).format(project_id=self.service.project or "{project_id}")
        body = json.dumps(request.body(job, run_id, 1, places), ensure_ascii=False, indent=2)
        return f"POST {self.service.endpoint.rstrip('/')}{path}\n{body}"

    def status(self, handles: Iterable[str]) -> dict[str, Status]:
        """A run whose supervisor is gone can be taken over by another one: its job goes on in the service."""
        found = super().status(handles)
        return {
            handle: status if status.alive else replace(status, interrupted=True, survivors=True)
            for handle, status in found.items()
        }

    def sweep(self, run_id: str) -> None:
        """Stops the jobs of a run in the service. Raises EngineError where it does not answer."""
        journal = Journal(run_dir(self.home, run_id))
        if not journal.attempts:
            return
        client = Client(self.service)
        try:
            for attempt in journal.attempts:
                there = jobs.of(client, journal.version(attempt))
                known = journal.job(attempt)
                for job in [known] if known else there.find(journal.name(attempt)):
                    _stop(there, job)
        except ServiceError as error:
            raise EngineError(f"the job of {run_id} in ModelArts could not be stopped: {error}") from None
        finally:
            client.close()

    def execute(self, command: Beside) -> tuple[int, str]:
        raise EngineError("the nodes of a job in ModelArts cannot be reached from here")

    def open_connection(self, place: Place, port: int, carriers: Carriers) -> socket.socket:
        raise EngineError("the nodes of a job in ModelArts cannot be reached from here")

    def capacity(self) -> list[Capacity]:
        try:
            if not (self.settings.service.region or self.settings.service.endpoint):
                return []
        except ConfigError:  # whoever needs the settings says what is wrong with them
            return []
        if find_spec("huaweicloudsdkmodelarts") is None:
            raise EngineError(MISSING)
        account = self.service
        client = Client(replace(account, timeout=min(account.timeout, 5.0)))
        try:
            flavors = objects(client.ask("GET", f"{jobs.V2}/training-job-flavors"), "flavors")
        except ServiceError as error:
            raise EngineError(f"{account.endpoint} cannot be used: {error}; check what is {BELOW}") from None
        finally:
            client.close()
        names = [str(one.get("flavor_id")) for one in flavors]
        return [Capacity(f"{account.endpoint}: {len(names)} flavors ({', '.join(names[:6])})", {"flavors": names})]


def _stop(there: jobs.Jobs, job: jobs.JobId) -> None:
    try:
        if not there.show(job).over:
            there.stop(job)
    except Refused:  # it was deleted, or has ended meanwhile
        return


def _check_store(url: str) -> None:
    try:
        StoreUrl().read(Item(url, text=url))
    except Wrong as wrong:
        first = wrong.each[0]
        raise EngineError(f"`store` {BELOW} {first.message}; {first.hint}") from None


def _account(home: str, settings: Any) -> Account:
    given = {each.name: getattr(settings.service, each.name) for each in fields(type(settings.service))}
    found = {name: value for name, value in given.items() if value is not None and name not in FROM_CONFIG}
    found["profile"] = os.environ.get("MUSTER_PROFILE") or "default"
    named = {name: os.environ[variable] for name, variable in VARIABLES.items() if os.environ.get(variable)}
    try:
        if "access_key" in named:
            found = {name: value for name, value in found.items() if name not in ("access_key", "secret_key", "token", "keys")}
        elif found.get("keys"):
            found.update(read_keys(found["keys"], found["profile"]))
    except AccountError as error:
        raise EngineError(str(error)) from None
    found.update(named)
    if not found.get("access_key"):
        store = storage_settings.resolve(home, settings.storage, os.environ).obs
        found.update(access_key=store.access_key, secret_key=store.secret_key, token=store.token)
    region = found.get("region", "")
    endpoint = found.pop("endpoint", "") or (f"https://modelarts.{region}.myhuaweicloud.com" if region else "")
    if not endpoint:
        raise EngineError(f"the address of ModelArts is not known; set `region` or `endpoint` {BELOW}")
    if not found.get("access_key") or not found.get("secret_key"):
        raise EngineError(f"there are no keys of ModelArts; set `access_key` and `secret_key` {BELOW}, or `keys`")
    if not found.get("project") and not region:
        raise EngineError(f"the project in ModelArts is not known; set `project` {BELOW}, or `region`, with which IAM finds it")
    found = {name: value for name, value in found.items() if value}
    return Account(endpoint, addresses=dict(settings.addresses.given), **{"timeout": TIMEOUT, "every": EVERY, **found})
