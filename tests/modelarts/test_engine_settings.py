"""The settings of the engine modelarts: which service, with whose keys, and what is said where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from modelarts_scene import collected as collected
from vendor_answers import answering

from muster import config
from muster.dataclass import replace
from muster.engines import registry
from muster.engines.base import EngineError
from muster.engines.modelarts import engine as module
from muster.engines.modelarts import limits
from muster.engines.modelarts.engine import ModelArts
from muster.engines.modelarts.node.account import Account
from muster.engines.modelarts.options import ModelArtsOptions
from muster.job import Job
from muster.job.data import Data

KEYS = 'access_key = "AK"\nsecret_key = "SK"\n'


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*module.VARIABLES.values(), "MUSTER_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def settings(home: Path, text: str) -> ModelArts:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    (home / "config.toml").chmod(0o600)
    found = registry.get("modelarts", str(home))
    assert isinstance(found, ModelArts)
    return found


def test_a_region_is_an_address_and_keys_are_those_of_the_store(home: Path) -> None:
    store = f'[storage]\nendpoint = "https://obs.example"\n{KEYS}'
    account = settings(home, store + '[modelarts]\nregion = "cn-north-4"\n').service
    assert account.endpoint == "https://modelarts.cn-north-4.myhuaweicloud.com"
    assert (account.access_key, account.secret_key, account.project) == ("AK", "SK", "")
    assert "SK" not in repr(account)


def test_a_profile_and_the_variables_of_the_vendor_count_more(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'[modelarts]\nendpoint = "https://a"\nproject = "p"\ntoken = "old"\nca = "ca.pem"\n{KEYS}'
    text += '[profiles.other.modelarts]\nendpoint = "https://b"\naccess_key = "AK2"\nsecret_key = "SK2"\n'
    assert settings(home, text).service.token == "old"
    monkeypatch.setenv("MUSTER_PROFILE", "other")
    account = settings(home, text).service
    assert (account.endpoint, account.access_key, account.token, account.ca) == ("https://b", "AK2", "", str(home / "ca.pem"))
    monkeypatch.setenv("HUAWEICLOUD_SDK_AK", "AK3")
    monkeypatch.setenv("HUAWEICLOUD_SDK_SK", "SK3")
    monkeypatch.setenv("HUAWEICLOUD_SDK_PROJECT_ID", "p3")
    account = settings(home, text).service
    assert (account.access_key, account.secret_key, account.project) == ("AK3", "SK3", "p3")


def test_keys_of_a_file_stay_those_of_their_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(keys: dict[str, str]) -> None:
        sections = [f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = s\n" for name, key in keys.items()]
        (home / "keys").write_text("".join(sections))

    home.mkdir()
    (home / "keys").touch(0o600)
    write({"default": "D1", "lab": "L1"})
    monkeypatch.setenv("MUSTER_PROFILE", "lab")
    text = '[modelarts]\nendpoint = "https://a"\nproject = "p"\nkeys = "keys"\n[profiles.lab.modelarts]\nflavor = "f"\n'
    account = Account.from_json(settings(home, text).service.to_json())  # as the supervisor gets it, which has no variables
    monkeypatch.delenv("MUSTER_PROFILE")
    write({"default": "D2", "lab": "L2"})
    assert (account.access_key, account.renewed().access_key) == ("L1", "L2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the address of ModelArts is not known; set `region` or `endpoint`"),
        ('[modelarts]\nendpoint = "https://a"\n', "there are no keys of ModelArts"),
        (f'[modelarts]\nendpoint = "https://a"\n{KEYS}', "the project in ModelArts is not known"),
        ('[modelarts]\nregion = "r"\nkeys = "missing"\n', "missing cannot be read: No such file or directory"),
    ],
)
def test_what_is_missing_is_one_sentence(home: Path, text: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        _ = settings(home, text).service


def test_keys_belong_to_their_owner_alone(home: Path) -> None:
    found = settings(home, f"[profiles.default.modelarts]\n{KEYS}")
    (home / "config.toml").chmod(0o644)
    with pytest.raises(config.ConfigError, match="others can read it"):
        _ = found.service


def test_without_the_sdk_it_is_said_how_to_get_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"pip install '\.\[modelarts\]'"):
        settings(home, "").resolve(Job(), print)


def test_doctor_names_the_flavors_of_the_service(home: Path) -> None:
    assert settings(home, "").capacity() == []
    flavors = {"flavors": [{"flavor_id": "modelarts.vm.gpu.v100"}, {"flavor_id": "modelarts.kat1.8xlarge"}]}
    with answering(lambda *words: (200, {}, flavors)) as service:
        text = f'[modelarts]\nendpoint = "{service.url}"\nproject = "p"\n{KEYS}'
        [found] = settings(home, text).capacity()
        assert found.words == f"{service.url}: 2 flavors (modelarts.vm.gpu.v100, modelarts.kat1.8xlarge)"
    with pytest.raises(EngineError, match="cannot be used"):  # it is gone
        settings(home, text).capacity()


def test_what_the_service_has_no_use_for_is_said(home: Path) -> None:
    said: list[str] = []
    engine = settings(home, "")
    engine.resolve(Job(boot="a.py", python="/opt/python", cpus=4, memory=1 << 30, workdir="rank"), said.append)
    assert [words.partition(" is not used")[0] for words in said] == ["`python`", "`cpus`", "`memory`", "`workdir`"]
    said.clear()
    engine.resolve(Job(command="train.sh", modelarts=ModelArtsOptions(image="i")), said.append)
    assert [words.partition(",")[0] for words in said] == ["the code stays here"]


OPTIONS = ModelArtsOptions(api="v2", store="obs://b/m", flavor="f", engine="e")


@pytest.mark.parametrize(
    ("job", "fields"),
    [
        (Job(compat="modelarts-v2", framework="pytorch", boot="a.py", modelarts=OPTIONS), []),
        (Job(framework="pytorch", boot="a.py", ssh=True, setup="true", modelarts=OPTIONS), []),
        (
            Job(framework="pytorch", command="true", modelarts=replace(OPTIONS, engine="", api="v1")),
            ["modelarts.api", "modelarts.engine"],
        ),
        (Job(framework="pytorch", boot="a.py", modelarts=replace(OPTIONS, store="")), ["modelarts.store"]),
        (Job(framework="pytorch", boot="a.py", secrets=("KEY",), login=True, modelarts=OPTIONS), ["secrets", "endpoints"]),
        (
            Job(framework="pytorch", boot="a.py", inputs={"muster_code": Data("obs://b/c")}, modelarts=OPTIONS),
            ["inputs.muster_code"],
        ),
        (Job(compat="apulis", boot="a.py", modelarts=OPTIONS), ["compat"]),
        (Job(command="true", modelarts=OPTIONS), ["command"]),
        (Job(command='true "$@"', modelarts=ModelArtsOptions(image="i", pool="p")), ["command"]),
        (Job(boot="a.py", modelarts=ModelArtsOptions(flavor="f", engine="e")), ["modelarts.store"]),
        (
            Job(boot="a.py", secrets=("KEY",), ssh=True, hold_on_failure=5.0, modelarts=OPTIONS),
            ["secrets", "ssh", "hold_on_failure"],
        ),
        (Job(boot="a.py", log_url="/logs", modelarts=OPTIONS), ["log_url"]),
        (
            Job(
                boot="a.py",
                outputs={"train_url": Data("obs://b/fixed/out")},
                modelarts=ModelArtsOptions(code_dir="obs://b/fixed", flavor="f", engine="e"),
            ),
            ["modelarts.code_dir"],
        ),
        (
            Job(boot="a.py", env={"A": "b"}, modelarts=ModelArtsOptions(api="v1", store="obs://b", flavor="f", engine="e")),
            ["env"],
        ),
    ],
)
def test_what_cannot_be_there_is_found_without_asking(job: Job, fields: list[str]) -> None:
    assert [field for field, _, _ in limits.offline(job)] == fields


def test_code_has_the_limits_of_the_service() -> None:
    assert [*limits.code(128 << 20, 4096)] == []
    assert [words for _, words, _ in limits.code((128 << 20) + (1 << 20), 4097)] == [
        "has 129 MB, and the service takes 128 MB at most",
        "has 4,097 files, and the service takes 4,096 at most",
    ]
