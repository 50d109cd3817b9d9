"""config.toml: settings and profiles with secrets, and what is said when they cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster import config


def write(home: Path, text: str | bytes, mode: int = 0o600) -> None:
    home.mkdir(exist_ok=True)
    path = home / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)


def refusal(home: Path) -> str:
    with pytest.raises(config.ConfigError) as error:
        config.load(str(home))
    said = str(error.value)
    assert str(home / "config.toml") in said
    assert "; " in said, "it should say what to do"
    return said


SECRETS = '[profiles.default.secrets]\nKEY = "one"\n[profiles.work.secrets]\nKEY = "two"\n[profiles.bare]\n'


def test_without_a_file_everything_has_its_default(home: Path) -> None:
    assert config.load(str(home)) == config.Config(namespaces=True, secrets={}, storage={"obs": {}, "s3": {}})


def test_settings_are_read(home: Path) -> None:
    write(home, "[local]\nnamespaces = false\n", mode=0o644)
    assert config.load(str(home)).namespaces is False


@pytest.mark.parametrize("name", ["local", "slurm"])
def test_the_engine_is_named_once(home: Path, name: str) -> None:
    write(home, f'engine = "{name}"\n[local]\n')
    assert config.load(str(home)).engine == name


def test_the_server_is_named_by_login_or_address_and_read_alone(home: Path) -> None:
    assert config.server(str(home)) == ""
    write(home, 'engine = "nothing of this kind"\n')
    assert config.server(str(home)) == "", "settings without a server are not even read"
    write(home, 'server = "https://muster.example"\n')
    assert config.server(str(home)) == config.load(str(home)).server == "https://muster.example"
    write(home, "server = 9530\n")
    assert "`server` is not a text" in refusal(home)


def test_a_byte_order_mark_does_no_harm(home: Path) -> None:
    write(home, "\ufeff[local]\nnamespaces = false\n")
    assert config.load(str(home)).namespaces is False


@pytest.mark.parametrize(
    ("profile", "secrets"), [(None, {"KEY": "one"}), ("", {"KEY": "one"}), ("work", {"KEY": "two"}), ("bare", {})]
)
def test_the_environment_chooses_the_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch, profile: str | None, secrets: dict[str, str]
) -> None:
    write(home, SECRETS)
    if profile is not None:
        monkeypatch.setenv("MUSTER_PROFILE", profile)
    assert config.load(str(home)).secrets == secrets


@pytest.mark.parametrize("text", [SECRETS, ""])
def test_a_profile_that_is_not_there_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MUSTER_PROFILE", "wrok")
    write(home, text)
    assert "no profile `wrok`" in refusal(home)
    (home / "config.toml").unlink()
    assert "no profile `wrok`" in refusal(home)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_with_secrets_that_others_can_read_is_refused(home: Path, mode: int) -> None:
    write(home, SECRETS, mode)
    assert f"chmod 600 {home / 'config.toml'}" in refusal(home)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[lcoal]\n",
            "`lcoal` is not known; there are engine, server, local, storage, resolve, power, tester, slurm, hosts, pools,",
        ),
        ('engine = "slrum"\n', "`engine = slrum` is not known; did you mean `slurm`?"),
        ("engine = 5\n", "`engine = 5` is not known; it takes one of `local`, `slurm`"),
        ("[engine]\n", "`engine` is a mapping; it takes one of `local`, `slurm`"),
        ("local = 5\n", "`local` is a single value"),
        ("[local]\nnamespace = true\n", "`local.namespace` is not known; there is namespaces"),
        ('[local]\nnamespaces = "true"\n', "`local.namespaces` is neither true nor false"),
        ("[local]\nnamespaces = 1\n", "`local.namespaces` is neither true nor false"),
        ("profiles = 5\n", "`profiles` is a single value"),
        ("[profiles]\ndefault = 5\n", "`profiles.default` is a single value"),
        ("[profiles.default]\nKEY = 'x'\n", "`profiles.default.KEY` is not known; there are secrets, storage"),
        ("[profiles.default]\nsecrets = 'x'\n", "`profiles.default.secrets` is a single value"),
        ("[profiles.default.secrets]\nKEY = 5\n", "`profiles.default.secrets.KEY` is not a text"),
        ('[profiles.default.secrets]\nKEY = "a\\u0000b"\n', "`profiles.default.secrets.KEY` is not a text"),
        ("[profiles.default.secrets]\n'A B' = 'x'\n", "`profiles.default.secrets.A B` cannot be the name of a variable"),
        ("[local\n", "is not TOML"),
        ("[local]\nnamespaces = yes\n", "is not TOML"),
        ("[local]\n[local]\n", "is not TOML"),
        ("a = " + "[" * 100_000, "is not TOML"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_settings_that_cannot_be_used_are_told_with_what_to_do(home: Path, text: str | bytes, said: str) -> None:
    write(home, text)
    assert said in refusal(home)


def test_a_directory_in_place_of_the_file_is_refused(home: Path) -> None:
    (home / "config.toml").mkdir(parents=True)
    assert "is a directory" in refusal(home)


def test_secrets_do_not_show_when_settings_are_printed(home: Path) -> None:
    write(home, SECRETS)
    assert "one" not in repr(config.load(str(home)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('obs.private.example = "10.0.0.5"', "put the whole name into quotes"),
        ('"obs.example" = "10.0.0.256"', '`resolve.obs.example` is not given an address but "10.0.0.256"'),
        ('"obs.example" = "other.example"', 'but "other.example"'),
        ('"obs.example" = "10.0.0.5:443"', "is not given an address"),
        ('"obs.example" = 5', "is not given an address"),
        ('"obs.example" = "0.0.0.0"', "not the address of one machine"),
        ('"obs.example" = "fe80::1%eth0"', "not the address of one machine"),
        ('"*" = "10.0.0.5"', "is not the name of a host"),
        ('"a.*.example" = "10.0.0.5"', "is not the name of a host"),
        ('"https://obs.example" = "10.0.0.5"', "is not the name of a host"),
        ('"obs.example:443" = "10.0.0.5"', "is not the name of a host"),
        ('"" = "10.0.0.5"', "is not the name of a host"),
        ('"\\u0000" = "10.0.0.5"', "is not the name of a host"),
        ('"10.0.0.4" = "10.0.0.5"', "is an address and not a name"),
        ('"localhost" = "10.0.0.5"', "is this machine"),
        ('"*.localhost" = "10.0.0.5"', "is this machine"),
        ('"obs.example" = "10.0.0.5"\n"OBS.example." = "10.0.0.6"', "two addresses"),
        ("\n".join(f'"a{number}.example" = "10.0.0.5"' for number in range(257)), "takes 256 at most"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused(home: Path, line: str, said: str) -> None:
    write(home, f"[resolve]\n{line}\n")
    found = refusal(home)
    assert "`resolve" in found and said in found


def test_addresses_are_given_to_names(home: Path) -> None:
    assert config.addresses(str(home)).given == {}
    write(home, '[resolve]\n"OBS.example." = "10.0.0.5"\n"*.obs.example" = "fd00::5"\n')
    assert config.addresses(str(home)).given == {"obs.example": "10.0.0.5", "*.obs.example": "fd00::5"}
    write(home, "resolve = 5\n")
    assert "`resolve` is a single value" in refusal(home)
