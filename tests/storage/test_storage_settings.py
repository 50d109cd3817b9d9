"""Where stores and their keys are found: the environment, config.toml, files of keys and profiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from authority import certify
from conftest import Muster
from muster import config
from muster.addresses import Addresses
from muster.dataclass import replace
from muster.storage import Access, Settings, StorageError, resolve
from muster.storage.errors import InvalidRequest
from s3_server import S3, serve

ENDPOINT = {"MUSTER_STORAGE_ENDPOINT": "store.example.com"}


def settings(home: Path, environ: dict[str, str] | None = None, text: str = "", mode: int = 0o600) -> Settings:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    (home / "config.toml").chmod(mode)
    return resolve(str(home), config.load(str(home)).storage, environ or {})


def keys_file(path: Path, access: str = "from-file", mode: int = 0o600) -> Path:
    path.write_text(f"[default]\naws_access_key_id = {access}\naws_secret_access_key = s%cret\n")
    path.chmod(mode)
    return path


def test_without_an_endpoint_everything_is_embedded(home: Path) -> None:
    assert settings(home, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}) == Settings(str(home))


@pytest.mark.parametrize(
    ("endpoint", "whole", "region", "style"),
    [
        ("store.example.com", "https://store.example.com", "us-east-1", "path"),
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000", "us-east-1", "path"),
        ("obs.cn-north-4.myhuaweicloud.com", "https://obs.cn-north-4.myhuaweicloud.com", "cn-north-4", "virtual"),
        ("s3.eu-west-1.amazonaws.com", "https://s3.eu-west-1.amazonaws.com", "eu-west-1", "virtual"),
    ],
)
def test_region_and_style_come_from_the_endpoint_where_nobody_says_them(
    home: Path, endpoint: str, whole: str, region: str, style: str
) -> None:
    found = settings(home, {"MUSTER_STORAGE_ENDPOINT": endpoint})
    assert found.s3 == found.obs == Access(whole, region, style)
    told = settings(home, {"MUSTER_STORAGE_ENDPOINT": endpoint, "MUSTER_STORAGE_REGION": "r", "MUSTER_STORAGE_STYLE": "path"})
    assert (told.s3.region, told.s3.style) == ("r", "path")


@pytest.mark.parametrize("endpoint", ["10.0.0.1:9000", "localhost:9000", "minio", "store.lab.example:9000", "[::1]:9000"])
@pytest.mark.parametrize("place", ["environment", "config.toml", "of obs"])
def test_an_endpoint_that_could_be_either_is_asked_for_its_scheme(home: Path, endpoint: str, place: str) -> None:
    text = f'[storage]\nendpoint = "{endpoint}"\n' if place == "config.toml" else ""
    variables = {"environment": {"MUSTER_STORAGE_ENDPOINT": endpoint}, "of obs": {"OBS_ENDPOINT": endpoint}}
    with pytest.raises(InvalidRequest) as error:
        settings(home, variables.get(place, {}), text)
    assert str(error.value) == (
        f"the endpoint `{endpoint}` does not say whether it speaks http or https; write http://{endpoint} or https://{endpoint}"
    )


def test_a_command_says_so_before_it_does_anything(muster: Muster) -> None:
    done = muster("ls", "obs://bucket", OBS_ENDPOINT="minio")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "muster: the endpoint `minio` does not say whether it speaks http or https; write http://minio or https://minio\n"
    )


def test_a_server_that_speaks_http_where_https_is_configured_is_said(muster: Muster, s3: S3, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    for words in (["ls", "s3://bucket"], ["cp", "x", "s3://bucket/x"]):
        done = muster(*words, **{**s3.env, "MUSTER_STORAGE_ENDPOINT": s3.endpoint.replace("http:", "https:")})
        assert done.returncode == 3
        assert f"it speaks http and not https; write {s3.endpoint}\n" in done.stderr


def test_the_names_of_each_stores_own_tools_are_read(home: Path) -> None:
    tools = {"OBS_ENDPOINT": "obs.example.com", "AWS_ENDPOINT_URL_S3": "s3.example.com", "AWS_ENDPOINT_URL": "other"}
    keys = {"OBS_AK": "oa", "OBS_SK": "os", "AWS_ACCESS_KEY_ID": "aa", "AWS_SECRET_ACCESS_KEY": "as"}
    keys["AWS_SESSION_TOKEN"] = "at"
    found = settings(home, {**tools, **keys})
    assert (found.obs.endpoint, found.obs.access_key, found.obs.secret_key, found.obs.token) == (
        "https://obs.example.com",
        "oa",
        "os",
        "",
    )
    assert (found.s3.endpoint, found.s3.access_key, found.s3.token) == ("https://s3.example.com", "aa", "at")
    assert settings(home, {**tools, **keys, **ENDPOINT}).obs.endpoint == "https://store.example.com"


def test_config_speaks_for_both_kinds_for_one_and_for_a_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
[storage]
endpoint = "https://both.example.com"
region = "r"
timeout = 7
[storage.obs]
endpoint = "http://obs.example.com:5080"
style = "virtual"
[profiles.lab.storage]
endpoint = "https://lab.example.com"
access_key = "lab-access"
secret_key = "lab-secret"
"""
    found = settings(home, {}, text)
    assert (found.s3.endpoint, found.s3.style, found.s3.timeout) == ("https://both.example.com", "path", 7.0)
    assert (found.obs.endpoint, found.obs.style, found.obs.region) == ("http://obs.example.com:5080", "virtual", "r")
    monkeypatch.setenv("MUSTER_PROFILE", "lab")
    found = settings(home, {"MUSTER_PROFILE": "lab"}, text)
    assert (found.s3.endpoint, found.s3.access_key) == ("https://lab.example.com", "lab-access")
    assert settings(home, {"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "x"}, text).s3.access_key == "env"


def test_keys_come_from_a_file_of_their_own(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    keys_file(home / "keys")
    found = settings(home, {}, '[storage]\nendpoint = "e.example.com"\nkeys = "keys"\n', mode=0o644)
    assert (found.s3.access_key, found.s3.secret_key) == ("from-file", "s%cret")
    other = keys_file(tmp_path / "other", "named")
    assert settings(home, {**ENDPOINT, "MUSTER_STORAGE_KEYS": str(other)}).obs.access_key == "named"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"MUSTER_STORAGE_ENDPOINT": "ftp://x"}, "`ftp://x` is not the endpoint of a store"),
        ({"MUSTER_STORAGE_ENDPOINT": "http://[::1"}, "is not the endpoint of a store"),
        ({"MUSTER_STORAGE_ENDPOINT": "http:/minio:9000"}, "`http:/minio:9000` lacks a slash; write http://minio:9000"),
        ({"MUSTER_STORAGE_ENDPOINT": "https//e.example.com"}, "lacks a colon; write https://e.example.com"),
        ({"MUSTER_STORAGE_ENDPOINT": "https://e.example.com/bucket"}, "has a path; name the bucket in the URL"),
        ({"MUSTER_STORAGE_ENDPOINT": "e.example.com/bucket/"}, "has a path; name the bucket in the URL"),
        ({"MUSTER_STORAGE_ENDPOINT": "http://minio:90000"}, "has no port from 1 to 65535 behind its colon; "),
        ({**ENDPOINT, "MUSTER_STORAGE_STYLE": "vhost"}, "`vhost` is not a style"),
        ({**ENDPOINT, "MUSTER_STORAGE_TIMEOUT": "soon"}, "`soon` is not a number of seconds"),
        ({**ENDPOINT, "MUSTER_STORAGE_CA": "/nowhere.pem"}, "/nowhere.pem cannot be read"),
        ({**ENDPOINT, "MUSTER_STORAGE_KEYS": "/nowhere"}, "/nowhere cannot be read"),
    ],
)
def test_a_variable_that_cannot_be_used_is_told(home: Path, environ: dict[str, str], said: str) -> None:
    with pytest.raises(StorageError, match=said) as error:
        settings(home, environ)
    assert "; " in str(error.value)


def test_blanks_around_an_endpoint_do_not_count(home: Path) -> None:
    assert settings(home, {"MUSTER_STORAGE_ENDPOINT": " http://minio:9000/ \n"}).s3.endpoint == "http://minio:9000"


def test_keys_in_an_endpoint_or_a_url_are_refused_and_not_repeated(muster: Muster) -> None:
    for url, env in (("obs://b/x", {"OBS_ENDPOINT": "https://AK:HIDDEN@store.example.com"}), ("obs://AK:HIDDEN@b/x", {})):
        done = muster("ls", url, **env)
        assert done.returncode in (2, 3)
        assert "holds a name or a password; " in done.stderr
        assert "HIDDEN" not in done.stdout + done.stderr


def test_a_file_of_keys_that_others_can_read_or_that_has_none_is_refused(home: Path, tmp_path: Path) -> None:
    for mode, text, said in (
        (0o644, None, "chmod 600"),
        (0o600, "[default]\n", "has no keys"),
        (0o600, "nonsense", "not a file of keys"),
    ):
        path = keys_file(tmp_path / "keys", mode=mode)
        if text is not None:
            path.write_text(text)
        with pytest.raises(StorageError, match=said):
            settings(home, {**ENDPOINT, "MUSTER_STORAGE_KEYS": str(path)})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("storage = 5\n", "`storage` is a single value"),
        ('[storage]\nendpiont = "x"\n', "`storage.endpiont` is not known"),
        ("[storage]\nendpoint = 5\n", "`storage.endpoint` is not a text"),
        ('[storage.obs]\nstyle = "vhost"\n', "`storage.obs.style = vhost` is not known"),
        ('[storage]\ntimeout = "30"\n', "`storage.timeout = 30` is not a time such as `30s`"),
        ("[storage]\ntimeout = -1\n", "`storage.timeout = -1` is not a time such as `30s`"),
        ("[storage.obs.s3]\n", "`storage.obs.s3` is not known"),
        ('[profiles.p.storage]\nkey = "x"\n', "`profiles.p.storage.key` is not known"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_by_file_and_name(home: Path, text: str, said: str) -> None:
    with pytest.raises(config.ConfigError) as error:
        settings(home, {}, text)
    assert str(home / "config.toml") in str(error.value) and said in str(error.value) and "; " in str(error.value)


def test_a_configuration_with_keys_that_others_can_read_is_refused(home: Path) -> None:
    for section in ("storage", "storage.s3", "profiles.lab.storage"):
        with pytest.raises(config.ConfigError, match="chmod 600"):
            settings(home, {}, f'[{section}]\nsecret_key = "s"\n', mode=0o640)


def test_settings_travel_whole_and_never_show_keys(home: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "visible?", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": "tok"}
    found = replace(settings(home, {**ENDPOINT, **keys}), addresses=Addresses({"obs.example": "10.0.0.5"}))
    assert Settings.from_json(found.to_json()) == found
    assert found.through(Access()).with_certificates({}).addresses == found.addresses
    assert json.loads(found.to_json())["s3"]["secret_key"] == "hidden"
    for secret in ("visible?", "hidden", "tok"):
        assert secret not in repr(found)


def test_a_store_behind_an_authority_of_ones_own_is_trusted_when_told(muster: Muster, s3: S3, tmp_path: Path) -> None:
    certify(tmp_path, "127.0.0.1")
    (tmp_path / "served/bucket").mkdir(parents=True)
    (tmp_path / "x").write_text("x")
    words = ["--cert", str(tmp_path / "server.pem"), "--key", str(tmp_path / "server.key")]
    server, endpoint = serve(tmp_path / "served", tmp_path / "log", *words)
    try:
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": endpoint}
        for words in (["cp", "x", "s3://bucket/x"], ["ls", "s3://bucket"]):
            done = muster(*words, **env)
            assert done.returncode == 3 and "certificate is not trusted" in done.stderr
            done = muster(*words, MUSTER_STORAGE_CA=str(tmp_path / "ca.pem"), **env)
            assert done.returncode == 0, done.stderr
            done = muster(*words, **{**env, "MUSTER_STORAGE_ENDPOINT": endpoint.replace("https:", "http:")})
            assert done.returncode == 3 and "it speaks https" in done.stderr, done.stderr
        assert f"write {endpoint}\n" in done.stderr
    finally:
        server.kill()
        server.wait()
