"""`[power]` in config.toml: what it may say, who may read it, and how it travels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob
from muster import config
from muster.agent.sampler import power as node
from muster.config import power

SETTINGS = """
[power]
source = "redfish"
redfish = "https://bmc.example/redfish/v1/Chassis/1/Power"
user = "reader"
password_secret = "BMC_PASSWORD"
ca = "bmc.pem"

[power.hosts.node1]
redfish = "https://bmc1.example/redfish/v1/Chassis/1/Power"
password = "its own"
verify = false

[power.hosts.node2]
source = "ipmi"
ipmi_host = "bmc2.example"
"""


def write(home: Path, text: str, mode: int = 0o600) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    (home / "config.toml").chmod(mode)


def on_node(home: Path, secrets: dict[str, str], **facts: str) -> node.Settings:
    """What a node makes of the settings that reach it."""
    return node.settings(
        config.load(str(home)).power.travelling(home, secrets, "laptop.example", config.addresses(str(home))), facts
    )


def test_each_node_gets_what_is_said_of_all_and_of_its_own_host(home: Path) -> None:
    write(home, SETTINGS)
    secrets = {"BMC_PASSWORD": "for all"}
    common = on_node(home, secrets, host="node7", address="10.0.0.7")
    assert common == node.Settings(
        "redfish", "https://bmc.example/redfish/v1/Chassis/1/Power", "", "reader", "for all", str(home / "bmc.pem"), True
    )
    first = on_node(home, secrets, host="node1.cluster.example", address="10.0.0.1")
    assert (first.redfish, first.user, first.password, first.verify) == (
        "https://bmc1.example/redfish/v1/Chassis/1/Power",
        "reader",
        "its own",
        False,
    )
    second = on_node(home, secrets, host="node2", address="10.0.0.2")
    assert (second.source, second.ipmi_host, second.password) == ("ipmi", "bmc2.example", "for all")


def test_addresses_of_bmcs_travel_with_the_settings(home: Path) -> None:
    write(home, SETTINGS + '[resolve]\n"bmc.example" = "10.0.0.5"\n"bmc2.example" = "10.0.0.6"\n')
    nodes = [on_node(home, {"BMC_PASSWORD": "x"}, host=host, address="10.0.0.1") for host in ("node7", "node1", "node2")]
    assert [node.address for node in nodes] == ["10.0.0.5", "", "10.0.0.5"]
    assert nodes[2].ipmi_host == "10.0.0.6"


def test_simulated_nodes_have_the_power_of_the_machine_that_they_are_on(home: Path) -> None:
    write(home, '[power.hosts.laptop]\nsource = "rapl"\n[power.hosts.node-0]\nsource = "ipmi"\n')
    assert on_node(home, {}, host="node-0", address="127.3.4.1").source == "rapl"


def test_without_settings_a_node_looks_for_itself(home: Path) -> None:
    assert on_node(home, {}, host="node-0", address="127.3.4.1") == node.Settings()
    assert node.settings("", {}) == node.Settings()


def test_switched_off_nothing_is_opened() -> None:
    assert node.open_sources(node.Settings("off")) == (None, [], {"power": "it is switched off in config.toml"})


def test_a_file_with_a_password_that_others_can_read_is_refused(home: Path) -> None:
    for text in ('[power]\npassword = "x"\n', '[power.hosts.a]\npassword = "x"\n'):
        write(home, text, 0o644)
        with pytest.raises(config.ConfigError, match="chmod 600"):
            config.load(str(home))
    write(home, '[power]\npassword_secret = "X"\n', 0o644)
    assert config.load(str(home)).power == power.Power(password_secret="X")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("power = 5", "`power` is a single value"),
        ("[power]\nhosts = 5", "`power.hosts` is a single value"),
        ("[power.hosts]\na = 5", "`power.hosts.a` is a single value"),
        ("[power]\nsource = 'sun'", "`power.source = sun` is not known; it takes one of `auto`, `rapl`"),
        ("[power]\nuser = 5", "`power.user` is not a text"),
        ("[power]\nverify = 'no'", "`power.verify` is neither true nor false"),
        ("[power]\nurl = 'x'", "`power.url` is not known; there are source, redfish, ipmi_host, user, password"),
        ("[power.hosts.a.hosts.b]\nuser = 'x'", "`power.hosts.a.hosts` is not known"),
        ("[power]\nipmi_host = '-v'", "`power.ipmi_host` is not the name of a host"),
        ("[power]\npassword = 'x'\npassword_secret = 'Y'", "`power` has `password` and `password_secret`; keep one"),
        *(
            (f"[power]\nredfish = '{url}'", "`power.redfish` is not the address of a resource")
            for url in ("http://bmc/redfish/v1/Chassis/1/Power", "https://bmc", "bmc", "https://u:p@bmc/redfish/v1")
        ),
    ],
)
def test_settings_that_cannot_be_meant_are_told_with_what_to_do(home: Path, text: str, said: str) -> None:
    write(home, text)
    with pytest.raises(config.ConfigError) as error:
        config.load(str(home))
    assert said in str(error.value)
    assert "; " in str(error.value)


def test_a_secret_that_is_not_set_is_told_before_anything_is_created(home: Path, muster: Muster, write_job: WriteJob) -> None:
    write(home, '[power]\npassword_secret = "BMC_PASSWORD"\n')
    done = muster("run", write_job({"command": "true"}))
    assert (done.returncode, done.stdout) == (2, "")
    assert "names the secret `BMC_PASSWORD` in `power`, which is not set" in done.stderr
    assert not (home / "runs").exists()


@pytest.mark.parametrize("place", ["profile", "environment"])
def test_no_password_reaches_a_rank_or_the_record(
    place: str, containment: str, home: Path, muster: Muster, write_job: WriteJob
) -> None:
    config_file = home / "config.toml"
    text = config_file.read_text() if config_file.exists() else ""
    text += '[power]\nsource = "rapl"\npassword_secret = "BMC_PASSWORD"\n'
    if place == "profile":
        text += '[profiles.default.secrets]\nBMC_PASSWORD = "hush-hush"\n'
    write(home, text)
    env: dict[str, Any] = {"BMC_PASSWORD": "hush-hush"} if place == "environment" else {}
    job = write_job({"command": "env; sleep 1.5", "sample": "0.1s"})
    brief = json.loads(muster("run", job, "--json", **env).stdout)
    assert brief["state"] == "succeeded"
    files = [path for path in Path(brief["dir"]).rglob("*") if path.is_file()]
    assert "metrics.jsonl" in {path.name for path in files}
    assert "MUSTER_RANK=0" in next(path for path in files if path.name == "rank-0.log").read_text()
    for path in files:
        assert b"hush-hush" not in path.read_bytes(), path
        assert b"MUSTER_POWER" not in path.read_bytes(), path


def test_secrets_do_not_show_when_settings_are_printed(home: Path) -> None:
    write(home, '[power]\npassword = "hush-hush"\n')
    assert "hush-hush" not in repr(config.load(str(home)))
