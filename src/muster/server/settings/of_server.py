"""What the server as a whole runs with. No secret is among it: neither keys and passwords nor what profiles hold."""

import getpass
import platform as machine

from muster import __version__
from muster.config import Config
from muster.config.modelarts import Flavor
from muster.server.core.accounts import keys, links, passwords, sessions, throttle, tokens
from muster.server.core.api.tokens import NewToken
from muster.server.core.context import ServerContext
from muster.server.core.database import Database
from muster.server.core.web.listening import MAX_CONNECTIONS
from muster.server.modelarts import engines, iam
from muster.server.runs import exec, platform
from muster.server.runs.api import search
from muster.server.runs.code import KEPT
from muster.server.runs.endpoints import entrance
from muster.server.runs.webhooks import webhooks
from muster.server.settings.model import Setting, SettingsSection
from muster.server.settings.options import Settings


def sections(options: Settings, context: ServerContext, config: Config) -> list[SettingsSection]:
    found = {
        "server": _server(options, context),
        "addresses": _addresses(options, context, config),
        "sessions": _sessions(),
        "limits": _limits(options, config),
        "webhooks": _webhooks(config),
        "modelarts": _modelarts(config),
    }
    return [SettingsSection(name, "", settings) for name, settings in found.items()]


def database_place(database: Database) -> str:
    """Where the database is, without its user and its parameters, which may hold a password."""
    if database.is_sqlite:
        return str(database.url.database)
    port = f":{database.url.port}" if database.url.port else ""
    return f"{database.url.host or ''}{port}/{database.url.database or ''}"


def _server(options: Settings, context: ServerContext) -> list[Setting]:
    return [
        Setting("version", __version__, ""),
        Setting("python", machine.python_version(), ""),
        Setting("user", getpass.getuser(), ""),
        Setting("data", str(options.data), "--data"),
        Setting("database", "SQLite" if context.database.is_sqlite else "PostgreSQL", "--database"),
        Setting("database_place", database_place(context.database), "--database"),
    ]


def _addresses(options: Settings, context: ServerContext, config: Config) -> list[Setting]:
    return [
        Setting("url", context.url, "--external-url"),
        Setting("host", options.host, "--host"),
        Setting("port", options.port, "--port"),
        Setting("store_url", context.store, "--store-url"),
        Setting("store_port", options.store_port, "--store-port"),
        Setting("certificate", str(options.cert) if options.cert else None, "--cert"),
        Setting("endpoints_domain", options.endpoints_domain, "--endpoints-domain"),
        Setting("trusted_proxies", list(options.trusted_proxies), "--trusted-proxy"),
        Setting("resolve", [f"{name} → {address}" for name, address in config.addresses.given.items()], "[resolve]"),
    ]


def _sessions() -> list[Setting]:
    return [
        Setting("session_idle", sessions.IDLE, "", "seconds"),
        Setting("session_longest", sessions.ABSOLUTE, "", "seconds"),
        Setting("token_default", NewToken.model_fields["days"].default * tokens.DAY, "", "seconds"),
        Setting("iam_token", iam.DAYS * tokens.DAY, "", "seconds"),
        Setting("link", links.DAY, "", "seconds"),
        Setting("endpoint_entry", entrance.ENTRY, "", "seconds"),
        Setting("password_least", passwords.MIN_LENGTH, ""),
        Setting("failed_logins", throttle.PER_USER, ""),
        Setting("failed_logins_window", throttle.WINDOW, "", "seconds"),
    ]


def _limits(options: Settings, config: Config) -> list[Setting]:
    return [
        Setting("code_quota", options.code_quota, "--code-quota", "bytes"),
        Setting("code_kept", KEPT, "", "seconds"),
        Setting("bundle_most", options.limits.packed, "--bundle-most", "bytes"),
        Setting("bundle_quota", options.limits.quota, "--bundle-quota", "bytes"),
        Setting("signers", str(options.signers) if options.signers else None, "--signers"),
        Setting("buckets", config.buckets.per_user, "[buckets] per_user"),
        Setting("disk_floor", platform.NEEDED, "", "bytes"),
        Setting("exec_sessions", exec.MOST, ""),
        Setting("exec_of_user", exec.MOST_OF_USER, ""),
        Setting("endpoint_connections", entrance.MOST_OF_ALL, ""),
        Setting("search_bytes", search.MOST_BYTES, "", "bytes"),
        Setting("tokens", tokens.MOST, ""),
        Setting("access_keys", keys.MOST, ""),
        Setting("connections", MAX_CONNECTIONS, ""),
    ]


def _webhooks(config: Config) -> list[Setting]:
    return [
        Setting("webhooks_allow", list(config.webhooks.allow), "[webhooks] allow"),
        Setting("webhooks_most", webhooks.MOST, ""),
    ]


def _modelarts(config: Config) -> list[Setting]:
    """Engines and flavors of the API; `setup` of an engine is a script, which may hold anything, and is left out."""
    settings = config.modelarts
    own = [f"{one.id}: {one.settings.framework}" for one in engines.listed(settings)]
    return [
        Setting("engines", own, "[modelarts.engines]"),
        Setting("flavors", [_flavor(name, flavor) for name, flavor in settings.flavors.items()], "[modelarts.flavors]"),
    ]


def _flavor(name: str, flavor: Flavor) -> str:
    pool = f" ({flavor.pool})" if flavor.pool else ""
    return f"{name}: {flavor.device} × {flavor.devices}{pool}"
