"""Adding a profile to config.toml: the rest of the file stays as it is, byte for byte."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from muster.config import ConfigError, load, profiles

PROFILE: dict[str, dict[str, Any]] = {
    "secrets": {"KEY": 'with "quotes" and \\ and 多'},
    "storage": {"obs": {"endpoint": "https://obs.example.com"}},
}
BEFORE = '# mine\r\n[local]\nnamespaces = true # a word\n\n[profiles."other one".secrets]\nA = "1"'


def test_what_was_there_stays_as_it_is(home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_bytes(BEFORE.encode())
    profiles.add(str(home), "lab", PROFILE)
    after = (home / "config.toml").read_bytes()
    assert after.startswith(BEFORE.encode())
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600


def test_the_profile_is_what_muster_reads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles.add(str(home), "lab", PROFILE)
    monkeypatch.setenv("MUSTER_PROFILE", "lab")
    found = load(str(home))
    assert found.secrets == PROFILE["secrets"]
    assert found.storage["obs"]["endpoint"] == "https://obs.example.com"


def test_a_profile_is_replaced_only_when_that_is_meant(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles.add(str(home), "other", {"secrets": {"B": "2"}})
    profiles.add(str(home), "lab", PROFILE)
    profiles.add(str(home), "last", {"secrets": {"C": "3"}})
    with pytest.raises(ConfigError, match="has a profile `lab` already"):
        profiles.add(str(home), "lab", {"secrets": {"KEY": "new"}})
    profiles.add(str(home), "lab", {"secrets": {"KEY": "new"}}, replace=True)
    for name, secrets in (("other", {"B": "2"}), ("lab", {"KEY": "new"}), ("last", {"C": "3"})):
        monkeypatch.setenv("MUSTER_PROFILE", name)
        assert load(str(home)).secrets == secrets
    assert load(str(home)).storage["obs"] == {}


def test_a_file_that_cannot_be_changed_safely_is_left_alone(home: Path) -> None:
    home.mkdir()
    text = 'profiles.lab.secrets = {KEY = "old"}\n'
    (home / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match="edit `lab` by hand"):
        profiles.add(str(home), "lab", PROFILE, replace=True)
    (home / "broken").mkdir()
    (home / "broken" / "config.toml").write_text("not toml")
    with pytest.raises(ConfigError, match="is not TOML"):
        profiles.add(str(home / "broken"), "lab", PROFILE)
    assert (home / "config.toml").read_text() == text
    assert os.listdir(home / "broken") == ["config.toml"]


def test_a_link_to_the_file_stays_a_link(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/real.toml").write_text("[local]\n")
    (home / "config.toml").symlink_to(tmp_path / "elsewhere/real.toml")
    profiles.add(str(home), "lab", PROFILE)
    assert (home / "config.toml").is_symlink()
    assert "profiles.lab" in (tmp_path / "elsewhere/real.toml").read_text()
