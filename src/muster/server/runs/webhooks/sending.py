"""Sends deliveries to webhooks, in threads of its own: at least once each, tried again after pauses, bounded in time."""

import asyncio
import hashlib
import hmac
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
from sqlalchemy.exc import SQLAlchemyError

from muster import __version__
from muster.server.core.database import Database, reason_of
from muster.server.core.lock import LostLock
from muster.server.core.vault import Vault, WrongKey
from muster.server.core.web.logs import log
from muster.server.runs import rows
from muster.server.runs.rows import Changes
from muster.server.runs.webhooks import deliveries
from muster.server.runs.webhooks.addresses import LIMIT, Allowed, NotAllowed
from muster.server.runs.webhooks.deliveries import Due
from muster.tester.errors import Denied

SENDERS = 8  # webhooks that are sent to at once, to each one message after the other
PAUSE = 1.0  # seconds between two looks in which nothing is heard of
SHORTEST = 0.25
LOOKED = 30.0  # seconds between two looks for runs that wait for long
FORGOT = 3600.0
NO_REDIRECT = "it answered {}: redirects are not followed, name the address itself"


class Sender:
    def __init__(self, database: Database, vault: Vault, changes: Changes, allowed: Allowed, url: str) -> None:
        self._database = database
        self._vault = vault
        self._changes = changes
        self._allowed = allowed
        self._url = url
        self._trust = ssl.create_default_context()
        self._senders = ThreadPoolExecutor(SENDERS, "webhook")
        self._busy: set[str] = set()
        self._woken = threading.Event()
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        with self._changes.heard("", self._woken.set):
            thread.start()
            try:
                yield
            finally:
                self._ended.set()
                self._woken.set()
                thread.join()
                self._senders.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        looked = forgot = 0.0
        while not self._ended.is_set():
            now = time.monotonic()
            try:
                if now - looked >= LOOKED:
                    looked = now
                    self._look()
                if now - forgot >= FORGOT:
                    forgot = now
                    with self._database.begin() as connection:
                        deliveries.forget(connection)
                self._start()
            except SQLAlchemyError as error:
                log("webhooks wait for the database", logging.WARNING, reason=reason_of(error))
            except (Denied, LostLock) as error:
                log("webhooks stand still", logging.WARNING, reason=str(error))
            except Exception as error:  # one bad row must not keep the others
                log("webhooks failed", logging.ERROR, reason=f"{type(error).__name__}: {error}")
            self._ended.wait(SHORTEST)
            self._woken.wait(PAUSE)
            self._woken.clear()

    def _look(self) -> None:
        """Notes runs that have waited for long."""
        with self._database.read() as connection:
            found = deliveries.long_waiting(connection)
        if not found:
            return
        with self._database.begin() as connection:
            known = {row.id: row for row in rows.many(connection, {run for _, run in found})}
            for webhook, run in found:
                if run in known and known[run].stage == rows.WAITING:
                    deliveries.note(connection, known[run], "waiting", webhook)

    def _start(self) -> None:
        with self._database.read() as connection:
            found = deliveries.due(connection, list(self._busy), SENDERS)
        if found:
            self._database.need_ownership()  # else another server sends them
        for delivery in found:
            self._busy.add(delivery.webhook)
            self._senders.submit(self._send, delivery)

    def _send(self, delivery: Due) -> None:
        try:
            error = self._tried(delivery)
            with self._database.begin() as connection:
                deliveries.tried(connection, delivery, error)
        except Exception as error:  # the database: it is sent once more
            log("a delivery could not be recorded", logging.WARNING, reason=f"{type(error).__name__}: {error}")
            self._ended.wait(PAUSE)
        finally:
            self._busy.discard(delivery.webhook)
            self._woken.set()

    def _tried(self, delivery: Due) -> str:
        """Sends a delivery; returns why it did not arrive, or nothing."""
        try:
            secret = self._vault.decrypt(delivery.secret_encrypted)
            begun = time.monotonic()
            address = self._allowed.resolve(delivery.url)
            request = signed(delivery, secret, address, self._url)
            status = asyncio.run(self._post(request, max(0.0, LIMIT - (time.monotonic() - begun))))
        except WrongKey:
            return "its secret was encrypted under another secrets.key; delete the webhook and add it again"
        except NotAllowed as error:
            return str(error)
        except TimeoutError:
            return f"no answer within {LIMIT:.0f} s"
        except httpx.HTTPError as error:
            return str(error) or type(error).__name__
        except Exception as error:
            log("a delivery failed", logging.WARNING, reason=f"{type(error).__name__}: {error}")
            return type(error).__name__
        if 300 <= status < 400:
            return NO_REDIRECT.format(status)
        return "" if 200 <= status < 300 else f"it answered {status}"

    async def _post(self, request: httpx.Request, limit: float) -> int:
        """Sends a request within the time limit; returns the status of the answer, of which no more is read."""
        async with asyncio.timeout(limit), httpx.AsyncClient(verify=self._trust, trust_env=False, timeout=LIMIT) as client:
            answer = await client.send(request, stream=True, follow_redirects=False)
            await answer.aclose()
            return answer.status_code


def signed(delivery: Due, secret: bytes, address: str, server: str) -> httpx.Request:
    """Makes the request: to the address that was checked, under the name of the URL, with a signature over time and body."""
    run = delivery.body.get("run")
    data = {**delivery.body, "delivery": delivery.id, **({"url": f"{server}/jobs/{run}"} if run else {})}
    body = json.dumps(data, separators=(",", ":")).encode()
    stamp = str(int(time.time()))
    parts = urlsplit(delivery.url)
    host = f"[{address}]" if ":" in address else address
    netloc = f"{host}:{parts.port}" if parts.port else host
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": f"Muster/{__version__}",
        "X-Muster-Event": delivery.event,
        "X-Muster-Delivery": str(delivery.id),
        "X-Muster-Timestamp": stamp,
        "X-Muster-Signature": f"sha256={hmac.new(secret, stamp.encode() + b'.' + body, hashlib.sha256).hexdigest()}",
    }
    url = parts._replace(netloc=netloc).geturl()
    return httpx.Request("POST", url, headers=headers, content=body, extensions={"sni_hostname": parts.hostname})
