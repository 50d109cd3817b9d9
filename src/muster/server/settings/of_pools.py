"""What the pools of the server run with: engine, accounts, what jobs may name, limits and checks of nodes."""

from muster.config.pools import LOST_AFTER, USERS
from muster.server.runs.pools.pool import Pool, Pools
from muster.server.settings.model import Setting, SettingsSection, Unit, Value


def sections(pools: Pools) -> list[SettingsSection]:
    return [SettingsSection("pool", name, _settings(pool)) for name, pool in pools.all.items()]


def _settings(pool: Pool) -> list[Setting]:
    given = pool.settings
    of_hosts = given.engine == "ssh"

    def setting(name: str, value: Value, unit: Unit = "") -> Setting:
        return Setting(name, value, f"[pools.{pool.name}] {name}", unit)

    found = [setting("engine", given.engine)]
    if of_hosts:
        group = pool.config.sites["ssh"][given.hosts]
        lost_after = setting("lost_after", given.lost_after or LOST_AFTER, "seconds")
        if given.lost_after is None and group.lost_after is not None:
            lost_after = Setting("lost_after", group.lost_after, f"[hosts.{given.hosts}] lost_after", "seconds")
        found += [
            setting("hosts", given.hosts),
            Setting("hosts_nodes", list(group.nodes), f"[hosts.{given.hosts}] nodes"),
            lost_after,
        ]
    return [
        *found,
        setting("project", given.project or None),
        setting("accounts", _accounts(given.accounts)),
        *([setting("uids", given.uids)] if pool.one_each else []),
        setting("trusted", given.trusted),
        setting("paths", list(given.paths)),
        setting("options", list(given.options)),
        setting("runs", given.runs),
        setting("cpu", given.cpu),
        setting("labels", [f"{name}={value}" for name, value in given.labels.items()]),
        *(
            Setting(
                "node_labels", [f"{name}={value}" for name, value in node.labels.items()], f"[pools.{pool.name}.nodes.{names}]"
            )
            for names, node in given.nodes.items()
        ),
        setting("python", given.python or None),
        setting("default_time_limit", given.default_time_limit, "seconds"),
        setting("minimum_runtime", given.minimum_runtime, "seconds"),
        setting("longest_grace", given.longest_grace, "seconds"),
        setting("check_every", given.check_every, "seconds"),
        *([setting("all_reduce", given.all_reduce)] if of_hosts else []),
        setting("disk_free", given.disk_free, "bytes"),
        setting("memory_free", given.memory_free, "bytes"),
    ]


def _accounts(accounts: str | dict[str, str] | None) -> Value:
    """One account for each user, those of a table, or nothing where all jobs have one account."""
    if accounts is None or accounts == USERS:
        return accounts
    assert isinstance(accounts, dict)
    return [f"{name} → {account}" for name, account in accounts.items()]
