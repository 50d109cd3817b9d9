"""HCCL rank tables in their three formats, in a plan and through `muster ranktable`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from golden_files import FOLDER, matches_golden

from conftest import Muster

pytestmark = pytest.mark.forked

FORMATS = ("lab", "pods", "1.0")

# Two servers of eight devices each, whose eight networks go 10 to 40 twice.
SERVERS = [
    {
        "host": "192.168.3.6",
        "devices": [
            {"id": "0", "ip": "192.168.10.1"},
            {"id": "1", "ip": "192.168.20.1"},
            {"id": "2", "ip": "192.168.30.1"},
            {"id": "3", "ip": "192.168.40.1"},
            {"id": "4", "ip": "192.168.10.2"},
            {"id": "5", "ip": "192.168.20.2"},
            {"id": "6", "ip": "192.168.30.2"},
            {"id": "7", "ip": "192.168.40.2"},
        ],
    },
    {
        "host": "192.168.3.2",
        "devices": [
            {"id": "0", "ip": "192.168.10.3"},
            {"id": "1", "ip": "192.168.20.3"},
            {"id": "2", "ip": "192.168.30.3"},
            {"id": "3", "ip": "192.168.40.3"},
            {"id": "4", "ip": "192.168.10.4"},
            {"id": "5", "ip": "192.168.20.4"},
            {"id": "6", "ip": "192.168.30.4"},
            {"id": "7", "ip": "192.168.40.4"},
        ],
    },
]


def servers_file(folder: Path, content: Any) -> Path:
    file = folder / "servers.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return file


def in_order(text: str) -> Any:
    """JSON with its keys in the order in which they stand."""
    return json.loads(text, object_pairs_hook=list)


def test_the_lab_form_is_key_for_key_the_table_of_the_guide_to_such_servers(muster: Muster, tmp_path: Path) -> None:
    done = muster("ranktable", servers_file(tmp_path, SERVERS), "--format", "lab")
    assert (done.returncode, done.stderr) == (0, "")
    assert in_order(done.stdout) == in_order((FOLDER / "two-servers-lab.json").read_text())  # typed off, never written anew
    instances = json.loads(done.stdout)["group_list"][0]["instance_list"]
    assert [instance["rank_id"] for instance in instances] == [str(rank) for rank in range(16)]


@pytest.mark.parametrize("format", ["pods", "1.0"])
def test_the_other_forms_are_as_written_down(format: str, muster: Muster, tmp_path: Path) -> None:
    done = muster("ranktable", servers_file(tmp_path, SERVERS), "--format", format)
    assert (done.returncode, done.stderr) == (0, "")
    matches_golden(f"two-servers-{format}.json", done.stdout)


@pytest.mark.parametrize("format", FORMATS)
def test_all_values_of_a_table_are_text_also_where_ids_were_numbers(format: str, muster: Muster, tmp_path: Path) -> None:
    as_numbers = json.loads(re.sub(r'"id": "(\d)"', r'"id": \1', json.dumps(SERVERS)))
    table = muster("ranktable", servers_file(tmp_path, as_numbers), "--format", format).stdout
    assert table == muster("ranktable", servers_file(tmp_path, SERVERS), "--format", format).stdout
    assert not [value for value in _leaves(json.loads(table)) if not isinstance(value, str)]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict | list):
        return [leaf for entry in (value.values() if isinstance(value, dict) else value) for leaf in _leaves(entry)]
    return [value]


def test_version_1_0_is_what_is_printed_unless_another_format_is_asked_for(muster: Muster, tmp_path: Path) -> None:
    file = servers_file(tmp_path, SERVERS)
    assert muster("ranktable", file).stdout == muster("ranktable", file, "--format", "1.0", "--json").stdout
    assert json.loads(muster("ranktable", file).stdout)["version"] == "1.0"


def test_servers_of_different_sizes_are_counted_through(muster: Muster, tmp_path: Path) -> None:
    uneven = [
        {"host": "a", "devices": [{"id": "4", "ip": "10.0.0.4"}, {"id": "7", "ip": "10.0.0.7"}]},
        {"host": "b", "devices": [{"id": "7", "ip": "10.0.1.7"}]},
    ]
    table = json.loads(muster("ranktable", servers_file(tmp_path, uneven), "--format", "lab").stdout)
    found = [
        (one["rank_id"], one["server_id"], one["devices"][0]["device_id"]) for one in table["group_list"][0]["instance_list"]
    ]
    assert found == [("0", "a", "4"), ("1", "a", "7"), ("2", "b", "7")]
    assert (table["para_plane_nic_name"], table["para_plane_nic_num"]) == (["eth4", "eth7"], "2")


def test_a_pod_may_have_a_name_of_its_own(muster: Muster, tmp_path: Path) -> None:
    named = [{**SERVERS[0], "pod": "job-worker-0"}, SERVERS[1]]
    table = json.loads(muster("ranktable", servers_file(tmp_path, named), "--format", "pods").stdout)
    names = [instance["pod_name"] for instance in table["group_list"][0]["instance_list"]]
    assert names == ["job-worker-0", "192.168.3.2"]


def test_ten_thousand_devices_make_a_table(muster: Muster, tmp_path: Path) -> None:
    many = [
        {"host": f"10.1.{node // 250}.{node % 250}", "devices": [{"id": str(i), "ip": f"10.2.{i}.1"} for i in range(8)]}
        for node in range(1250)
    ]
    table = json.loads(muster("ranktable", servers_file(tmp_path, many)).stdout)
    assert table["server_count"] == "1250"
    assert table["server_list"][-1]["device"][-1] == {"device_id": "7", "device_ip": "10.2.7.1", "rank_id": "9999"}


ONE = {"id": "0", "ip": "192.168.10.1"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"[{]", "servers.json:1: is not JSON"),
        (b'[{"host":\n "a",\n]', "servers.json:3: is not JSON"),
        (b"\xff\xfe[]", "is not JSON"),
        (b'["\xff"]', "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b"[" + b"9" * 5000 + b"]", "is not JSON"),
        ([], "is not a list of servers"),
        ({"host": "a", "devices": [ONE]}, "is not a list of servers"),
        (None, "is not a list of servers"),
        ("a", "is not a list of servers"),
        ([1], "`server 0` has no `host`"),
        ([None], "`server 0` has no `devices`"),
        ([{"devices": [ONE]}], "`server 0` has no `host`"),
        ([{"host": "", "devices": [ONE]}], "`server 0` has no `host`"),
        ([{"host": 7, "devices": [ONE]}], "`server 0` has no `host`"),
        ([{"host": "h" * 65, "devices": [ONE]}], "more than 64 characters"),
        ([{"host": "a"}], "`server 0` has no `devices`"),
        ([{"host": "a", "devices": []}], "`server 0` has no `devices`"),
        ([{"host": "a", "devices": {"0": "ip"}}], "`server 0` has no `devices`"),
        ([{"host": "a", "devices": ["0"]}], "`server 0, device 0` has no `id`"),
        ([{"host": "a", "devices": [ONE, {"ip": "x"}]}], "`server 0, device 1` has no `id`"),
        ([{"host": "a", "devices": [{"id": True, "ip": "x"}]}], "has no `id`"),
        ([{"host": "a", "devices": [{"id": -1, "ip": "x"}]}], "has no `id`"),
        ([{"host": "a", "devices": [{"id": "²", "ip": "x"}]}], "has no `id`"),
        ([{"host": "a", "devices": [{"id": 0.5, "ip": "x"}]}], "has no `id`"),
        ([{"host": "a", "devices": [{"id": "0"}]}], "`server 0, device 0` has no `ip`"),
        ([{"host": "a", "devices": [{"id": "0", "ip": None}]}], "has no `ip`"),
        ([{"host": "a", "devices": [ONE, ONE]}], "`server 0` has 2 devices with the id 0"),
        ([{"host": "a", "devices": [ONE]}, {"host": "a", "devices": [ONE]}], "`a` stands for several servers"),
        ([{"host": "a", "devices": [ONE], "pod": 7}], "`pod` that is not a name"),
    ],
)
def test_a_list_that_cannot_be_a_table_is_refused_in_one_line(content: Any, said: str, muster: Muster, tmp_path: Path) -> None:
    done = muster("ranktable", servers_file(tmp_path, content))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr
    assert all(line.startswith("muster: ") for line in done.stderr.splitlines())


def test_everything_that_is_wrong_is_said_at_once(muster: Muster, tmp_path: Path) -> None:
    wrong = [{"devices": [{"id": "0"}]}, {"host": "b", "devices": []}, {"host": "c", "devices": [{"ip": "x"}]}]
    done = muster("ranktable", servers_file(tmp_path, wrong))
    for said in (
        "server 0` has no `host`",
        "device 0` has no `ip`",
        "server 1` has no `devices`",
        "server 2, device 0` has no",
    ):
        assert said in done.stderr


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_that_cannot_be_read_is_named(name: str, muster: Muster, tmp_path: Path) -> None:
    done = muster("ranktable", tmp_path / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / name}: cannot be read" in done.stderr


def test_a_format_that_does_not_exist_is_refused_with_those_that_do(muster: Muster, tmp_path: Path) -> None:
    done = muster("ranktable", servers_file(tmp_path, SERVERS), "--format", "2.0")
    assert done.returncode == 2
    assert all(format in done.stderr for format in FORMATS)


def test_printing_a_table_creates_nothing(muster: Muster, tmp_path: Path, home: Path) -> None:
    muster("ranktable", servers_file(tmp_path, SERVERS))
    assert not home.exists()
