"""Runs `muster serve`: opens data directory, database and socket, and answers requests until a signal or a lost lock."""

import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from muster import config
from muster.server.core import app
from muster.server.core.accounts import links, projects, users
from muster.server.core.api.users import password_link
from muster.server.core.context import ServerContext
from muster.server.core.database import Database
from muster.server.core.layout import ServerLayout
from muster.server.core.lock import Ownership, locked, locked_data
from muster.server.core.store_access import StoreAccess
from muster.server.core.vault import open_vault
from muster.server.core.web import logs, slow_clients
from muster.server.core.web.ending import watched
from muster.server.core.web.listening import (
    MAX_CONNECTIONS,
    address_of,
    bound,
    named,
    raise_file_limit,
    uvicorn_settings,
)
from muster.server.core.web.metrics import Metrics
from muster.server.results.context import ResultsContext, opened
from muster.server.runs import rows
from muster.server.runs.code import CodeStore
from muster.server.runs.code_quota import CodeQuota
from muster.server.runs.endpoints.proxy import Endpoints
from muster.server.runs.endpoints.upgrades import protocol
from muster.server.runs.environment import Environments, StoreAddress
from muster.server.runs.lifecycle import recovery, stopping
from muster.server.runs.lifecycle.loop import Loop
from muster.server.runs.platform import Platform
from muster.server.runs.pools.idle.watch import IdleWatch
from muster.server.runs.pools.nodes import gauges
from muster.server.runs.pools.nodes.watch import NodeWatch
from muster.server.runs.pools.os_accounts import OsAccounts
from muster.server.runs.pools.pool import Pools
from muster.server.runs.queue.scheduler import Scheduler
from muster.server.runs.retention.keeper import Keeper
from muster.server.runs.rows import Changes
from muster.server.runs.webhooks.addresses import allowed
from muster.server.runs.webhooks.sending import Sender
from muster.server.settings.options import Settings
from muster.server.store.serve import BACKLOG
from muster.server.store.serve import serve as serve_store
from muster.server.store.store import Store
from muster.tester.errors import Misused

MOST_MESSAGE = 1 << 20  # bytes of a message of a WebSocket
SWITCH = 0.0005  # seconds after which a thread that computes lets the one go on that answers connections


@dataclass(frozen=True)
class Listening:
    """What a server that has started tells whoever started it."""

    url: str  # where it listens, or where people reach it if it was told
    database: str
    store: str  # where S3 and OBS are served
    first_administrator: str | None  # a one-time link, where no administrator can log in
    own_user: tuple[str, ...] = ()  # pools whose jobs are processes of the server's own user


def serve(settings: Settings, listening: Callable[[Listening], None]) -> None:
    """Serves until a signal; calls `listening` once requests are answered. Raises LostLock where another server took over."""
    settings.check()
    logs.configure()
    sys.setswitchinterval(SWITCH)
    raise_file_limit()
    layout = ServerLayout(settings.data)
    with (
        locked_data(layout.folder),
        closing(Database(settings.database or layout.database_url)) as database,
        locked(database) as ownership,
        bound(settings.host, settings.port) as listener,
        bound(settings.host, _store_port(settings)) as store_listener,
        ExitStack() as stack,
    ):
        own = address_of(listener, settings.host, settings.cert is not None)
        url = (settings.external_url or named(own)).rstrip("/")
        layout.clear_scratch()
        link = _prepare(database, ownership, url)
        vault = open_vault(layout.key)
        store_url = (settings.store_url or "").rstrip("/")
        own_store = address_of(store_listener, settings.host, settings.cert is not None)
        store_address = store_url or (None if settings.external_url else own_store)
        proxied = settings.external_url is not None or bool(settings.trusted_proxies)
        context = ServerContext(layout, database, ownership, vault, url, Metrics(), store_address, proxied)
        of_runs = StoreAddress(own_store, str(settings.cert or ""), store_url or named(own_store))
        platform = _platform(settings, context, of_runs)
        context.stoppers.append(partial(stopping.stop_all, platform))
        context.metrics.sources.append(partial(gauges.of_pools, platform.nodes, platform.pools))
        results = stack.enter_context(opened(layout, database, settings.limits, settings.signers))
        keeper = Keeper(platform)
        server = slow_clients.Server(_configuration(settings, context, platform, results, keeper))
        signal.signal(signal.SIGTERM, server.stop)  # until uvicorn looks for it, and again once it has stopped
        most_buckets = config.load(str(layout.folder)).buckets.per_user
        store = _store(layout, StoreAccess(database, vault, platform.temporary, most_buckets), store_url or url)
        with (
            watched(ownership, server),
            closing(store),
            _served(settings, store_listener, store),
            platform.nodes.running(),
            Loop(platform).running(),
            IdleWatch(platform).running(),
            Sender(database, vault, platform.changes, platform.webhooks, url).running(),
            keeper.running(),
        ):
            listener.listen(MAX_CONNECTIONS)
            own_user = tuple(name for name, pool in platform.pools.all.items() if pool.is_own_user)
            shown = url if settings.external_url else own
            listening(Listening(shown, database.name, store_url or own_store, link, own_user))
            logs.log("serving", url=url, port=listener.getsockname()[1], database=database.name)
            server.run(sockets=[listener])


def _platform(settings: Settings, context: ServerContext, store: StoreAddress) -> Platform:
    """Opens the pools and takes up the runs that are there."""
    database, data = context.database, context.layout.folder
    pools, changes, woken = Pools(data), Changes(database), threading.Event()
    nodes, settings_of_data = NodeWatch(database, pools, data, woken.set), config.load(str(data))
    platform = Platform(
        database,
        context.vault,
        data,
        context.url,
        pools,
        CodeStore(context.layout.code, CodeQuota(settings.code_quota)),
        Environments(database, context.vault, store, settings_of_data.addresses),
        changes,
        OsAccounts(database, data / "homes"),
        nodes,
        Scheduler(database, changes, lambda: tuple(map(nodes.pool, pools.all))),
        woken=woken,
        webhooks=allowed(settings_of_data.webhooks.allow, settings_of_data.addresses),
        modelarts=settings_of_data.modelarts,
    )
    _need_pools(platform)
    _make_projects(platform)
    recovery.recover(platform)
    return platform


def _need_pools(platform: Platform) -> None:
    """Raises Misused where runs wait or go on in a pool that the settings do not have any more."""
    with platform.database.read() as connection:
        gone = rows.used_pools(connection) - platform.pools.all.keys()
    if gone:
        name = sorted(gone)[0]
        raise Misused(f"runs wait or go on in the pool `{name}`, which config.toml does not have; put it back until they ended")


def _make_projects(platform: Platform) -> None:
    """Makes the projects that pools serve alone, where there are none of these names."""
    for name in {pool.settings.project for pool in platform.pools.all.values() if pool.settings.project}:
        with platform.database.begin() as connection:
            if projects.find(connection, name) is None:
                projects.create(connection, None, name, {})


def _store_port(settings: Settings) -> int:
    """Returns the port of the store: the one after the server's unless told; any where the server took any."""
    if settings.store_port is not None:
        return settings.store_port
    return settings.port + 1 if settings.port else 0


def _store(layout: ServerLayout, access: StoreAccess, url: str) -> Store:
    """Opens the store. Raises Misused where its file system cannot hold it."""
    try:
        store = Store(str(layout.store), access, _domains(url))
    except ValueError as error:
        raise Misused(str(error)) from None
    for name in store.forgotten():
        logs.log("there are objects of a bucket that the database does not know", logging.WARNING, bucket=name)
    return store


def _domains(url: str) -> list[str]:
    """Returns the host names before which the name of a bucket may stand; an address is none."""
    host = urlsplit(url).hostname or ""
    return [host] if any(letter.isalpha() for letter in host) and ":" not in host else []


@contextmanager
def _served(settings: Settings, listener: socket.socket, store: Store) -> Iterator[None]:
    """Serves the store beside the server's own requests."""
    context = None
    if settings.cert is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.cert, settings.key)
    listener.listen(BACKLOG)
    with closing(serve_store(listener, context, store)):
        yield


def _prepare(database: Database, ownership: Ownership, url: str) -> str | None:
    """Migrates the database and claims it; returns the link of the first administrator where there is none."""
    database.migrate()
    try:
        ownership.claim()
        with database.begin() as connection:
            if users.has_administrator(connection):
                return None
            token, _ = links.create(connection, None, links.FIRST, None)
    except SQLAlchemyError as error:
        raise database.unusable(error) from None
    return password_link(url, token)


def _configuration(
    settings: Settings, context: ServerContext, platform: Platform, results: ResultsContext, keeper: Keeper
) -> uvicorn.Config:
    endpoints = Endpoints.of(platform, settings.endpoints_domain)
    return uvicorn.Config(
        app.make(context, platform, results, settings, keeper, endpoints),
        log_config=None,
        access_log=False,  # RequestLog writes it, without queries
        ws_max_size=MOST_MESSAGE,
        **{**uvicorn_settings(settings.cert, settings.key), "ws": protocol(endpoints)},
    )
