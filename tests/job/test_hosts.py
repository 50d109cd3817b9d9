"""The hosts of the engine ssh: as a job, a command line, a hostfile and config.toml name them, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Muster, WriteJob
from muster.engines.ssh.groups import choose, read_hostfile
from muster.engines.ssh.node.connection import Host, explained
from muster.engines.ssh.options import LOST_AFTER, Site, expanded
from muster.job.kinds import Wrong
from muster.job.load import load
from muster.job.source import JobError
from muster.launch.start.prepare import prepare


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node1", ["node1"]),
        ("train@node12:2222", ["train@node12:2222"]),
        ("node[08-11]", ["node08", "node09", "node10", "node11"]),
        ("a[1,3-4]b", ["a1b", "a3b", "a4b"]),
        ("r[1-2]n[1-2]:22", ["r1n1:22", "r1n2:22", "r2n1:22", "r2n2:22"]),
        ("10.0.0.[9-11]", ["10.0.0.9", "10.0.0.10", "10.0.0.11"]),
        ("[fe80::1]:22", ["[fe80::1]:22"]),
    ],
)
def test_ranges_are_expanded(text: str, hosts: list[str]) -> None:
    assert expanded(text) == hosts


@pytest.mark.parametrize(
    "text",
    [
        *["-oProxyCommand=x", "a b", "node[3-1]", "user@-x", "a:b:c", "", "node[1-", "a;reboot"],
        *["a:0", "a:65536", "a[1-99999999999]", "a[1-9999][1-9999]", "a[1-15000,1-15000]", "a[1-2-3]"],
        *["a`b`@c", "$(b)@c", "a" * 600, f"a[{'1' * 5000}]", "a" + "[1]" * 2000, "a" * 100_000 + "[1-20000]"],
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        expanded(text)


@pytest.mark.parametrize("written", [list, ",".join])
def test_hosts_are_bounded_together(written: Callable[[list[str]], object]) -> None:
    hosts = written([f"a{number}-[1-20000]" for number in range(5000)])
    with pytest.raises(JobError, match=r"with the hosts before it, `a1-\[1-20000\]` is more than 20000 hosts"):
        load({"command": "true", "hosts": hosts}).checked()


def test_hosts_become_words_of_ssh_and_never_options() -> None:
    host = Host.parse("train@node12:2222")
    assert host == Host("node12", "train", "2222")
    words = host.argv("true")
    assert words[-3:] == ["--", "node12", "true"]
    assert words[-7:-3] == ["-l", "train", "-p", "2222"]
    assert "BatchMode=yes" in words
    assert Host.parse("[fe80::1]") == Host("fe80::1")


LAB = {"lab": Site(nodes=("n1", "n2", "n3"), interface="ib0", lost_after=30.0), "other": Site(nodes=("o1",))}


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"hosts": "lab", "nodes": 2}, ("n1", "n2")),
        ({"hosts": ["a", "b"]}, ("a", "b")),
        ({"hosts": "a,b[1-2]"}, ("a", "b1", "b2")),
        ({"hosts": {"group": "lab", "interface": "eth1"}}, ("n1",)),
        ({"hosts": "solo"}, ("solo",)),
    ],
)
def test_a_job_names_a_group_or_hosts(fields: dict[str, object], nodes: tuple[str, ...]) -> None:
    job = load({"command": "true", **fields}).checked()
    hosts, problems = choose(job, LAB)
    assert (hosts.nodes, problems) == (nodes, [])
    assert job.nodes == len(nodes)


def test_options_of_a_job_win_over_those_of_its_group() -> None:
    job = load({"command": "true", "hosts": {"group": "lab", "interface": "eth1"}}).checked()
    hosts, _ = choose(job, LAB)
    assert (hosts.interface, hosts.lost_after, hosts.directory) == ("eth1", 30.0, "~/.muster")
    assert choose(load({"command": "true", "hosts": ["a"]}).checked(), LAB)[0].lost_after == LOST_AFTER


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hosts": "lab", "nodes": 4}, "asks for 4 nodes, and `lab` has 3"),
        ({"hosts": {"group": "lap", "nodes": ["a"]}}, "which config.toml does not have"),
        ({"hosts": {"hostfile": "missing.txt"}}, "cannot be used: no such file"),
        ({}, "is needed by the engine ssh"),
    ],
)
def test_hosts_that_cannot_be_meant_are_named(fields: dict[str, object], words: str) -> None:
    _, [(_, message, _)] = choose(load({"command": "true", **fields}).checked(), LAB)
    assert words in message


def test_the_only_group_serves_a_job_that_names_none() -> None:
    hosts, problems = choose(load({"command": "true"}).checked(), {"lab": LAB["lab"]})
    assert (hosts.nodes, problems) == (("n1",), [])


@pytest.mark.parametrize("python", ["/opt/of/the/hosts/python3", "python-of-the-hosts"])
def test_the_python_of_a_job_is_that_of_its_hosts(python: str, tmp_path: Path, home: Path) -> None:
    (tmp_path / "train.py").touch()
    job = load({"boot": "train.py", "code": str(tmp_path), "python": python, "device": "cpu", "hosts": ["a"]})
    assert prepare(job, str(home), "ssh").job.python == python


def test_a_hostfile_of_mpi_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text("# the lab\nn1 slots=8\nn[2-3] slots=8  # two more\n\nn1 slots=8\n")
    assert read_hostfile(str(path)) == ["n1", "n2", "n3"]


def test_a_hostfile_is_relative_to_the_job_file_and_hosts_that_are_left_out_are_said(
    muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    job = write_job({"command": "true", "hosts": {"hostfile": "hosts.txt"}}, **{"hosts.txt": "n1\nn2\n"})
    said = muster("run", job, "--engine", "ssh", "--dry-run", "--json", cwd=tmp_path.parent)
    assert said.returncode == 0, said.stderr
    assert '"n1"' in said.stdout
    assert "the hostfile has 2 hosts, and `nodes` takes the first 1" in said.stderr
    listed = muster("run", job, "--engine", "ssh", "--hosts", "n1,n2,n3", "--set", "nodes=2", "--dry-run")
    assert "`hosts` names 3 hosts, and `nodes` takes the first 2" in listed.stderr


def test_hosts_are_named_on_the_command_line(muster: Muster, write_job: WriteJob) -> None:
    said = muster("run", write_job({"command": "true"}), "--engine", "ssh", "--hosts", "a,b", "--dry-run", "--json")
    assert json.loads(said.stdout)["job"]["hosts"]["nodes"] == ["a", "b"]
    wrong = muster("run", write_job({"command": "true"}), "--engine", "ssh", "--hosts", "-oProxyCommand=x,b", "--check")
    assert wrong.returncode == 2
    assert "is not a host" in wrong.stderr
    twice = muster("run", write_job({"command": "true"}), "--engine", "ssh", "--hosts", "a[1-2],a2", "--check")
    assert twice.returncode == 2
    assert "names `a2` twice" in twice.stderr


def test_hosts_of_a_run_on_another_engine_are_not_left_out_without_a_word(muster: Muster, write_job: WriteJob) -> None:
    said = muster("run", write_job({"command": "true"}), "--hosts", "a,b")
    assert said.returncode == 0
    assert "`hosts` is for the engine ssh, and this run is on local" in said.stderr


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"outputs": {"train_url": "./out"}, "compat": "modelarts-v1", "boot": "train.py", "command": None},
            "programs of modelarts-v1 get that path on hosts that do not have it",
        ),
        ({"ssh": True}, "asks for logins between the hosts"),
        ({"framework": "mpi"}, "starts its ranks over ssh between the hosts"),
    ],
)
def test_what_hosts_cannot_see_or_may_not_do_is_refused_before_anything_starts(
    fields: dict[str, object], words: str, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    said = muster("run", write_job({"command": "true", "hosts": ["a"], **fields}), "--engine", "ssh")
    assert said.returncode == 2
    assert words in said.stderr
    assert not (home / "runs").exists()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("a@b: Permission denied (publickey).", "install one with `ssh-copy-id -p 2222 train@node12`"),
        ("Host key verification failed.", "connect once with `ssh -p 2222 train@node12`"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "ssh-keygen -R [node12]:2222"),
        ("ssh: Could not resolve hostname node12: Name or service not known", "check the name"),
        ("something new", "ssh failed: something new"),
        ("", "ssh ended with code 255 and left no word"),
    ],
)
def test_what_ssh_says_becomes_what_to_do(said: str, words: str) -> None:
    assert words in str(explained(Host("node12", "train", "2222"), said, 255))


@pytest.mark.parametrize("hosts", ["lab", "a,b", ["a", "b"], {"group": "lab"}])
def test_an_option_of_hosts_is_set_however_they_are_written(hosts: object) -> None:
    job = load({"command": "true", "hosts": hosts}, ["hosts.interface=ib0"]).checked()
    assert job.hosts.interface == "ib0"
    assert (job.hosts.group or job.hosts.nodes) == ("lab" if "lab" in str(hosts) else ("a", "b"))


@pytest.mark.parametrize(
    "before",
    [{"group": "lab", "interface": "ib0"}, {"nodes": ["x"], "interface": "ib0"}, {"hostfile": "f", "interface": "ib0"}],
)
@pytest.mark.parametrize(
    ("named", "meant"), [("a,b", ("", ("a", "b"))), ("other", ("other", ())), ("[a, b]", ("", ("a", "b")))]
)
def test_other_hosts_keep_what_was_said_of_the_first(before: object, named: str, meant: tuple[str, tuple[str, ...]]) -> None:
    hosts = load({"command": "true", "hosts": before}, [f"hosts={named}"]).checked().hosts
    assert (hosts.group, hosts.nodes, hosts.hostfile, hosts.interface) == (*meant, "", "ib0")


def test_a_mapping_of_hosts_replaces_all_that_was_said_before() -> None:
    hosts = load({"command": "true", "hosts": {"group": "lab", "interface": "ib0"}}, ["hosts={group: other}"]).checked().hosts
    assert (hosts.group, hosts.interface) == ("other", "")


@pytest.mark.parametrize("path", ["/data/muster", "~/muster", "~", "muster", "./muster", "~train/muster"])
@pytest.mark.parametrize("option", ["directory", "shared"])
def test_a_path_on_the_hosts_begins_at_their_root_or_home(option: str, path: str) -> None:
    """Another one would be looked for where a program happens to start: the login shell here, the daemon there."""
    loaded = load({"command": "true", "hosts": {"nodes": ["a"], option: path}})
    if path.startswith(("/", "~/")) or path == "~":
        assert getattr(loaded.checked().hosts, option) == path
    else:
        [problem] = loaded.problems
        assert problem.message == f"is `{path}`, which does not begin with `/` or `~/`"


def test_a_path_of_a_group_is_refused_before_a_run_exists(muster: Muster, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[hosts.lab]\nnodes = ["n1"]\nshared = "disk"\n')
    said = muster("run", "--engine", "ssh", "--", "true")
    assert said.returncode == 2
    assert "`hosts.lab.shared` is `disk`, which does not begin with `/` or `~/`" in " ".join(said.stderr.split())


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ("", "names no host"),
        ("n1:0", "n1:0` has no port; ports are 1 to 65535"),
        ("root@", "root@` is not a host"),
        ("lap", "names `lap`, which is no group of config.toml, and no host has that name; did you mean `lab`?"),
        ("quux", "no host has that name; there are the groups `lab`, `other`"),
    ],
)
def test_a_mistake_in_hosts_is_told_before_a_run_exists(
    hosts: str, words: str, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    home.mkdir()
    (home / "config.toml").write_text('engine = "ssh"\n[hosts.lab]\nnodes = ["n1"]\n[hosts.other]\nnodes = ["n2"]\n')
    said = muster("run", write_job({"command": "true"}), "--hosts", hosts)
    assert (said.returncode, " ".join(words.split()) in " ".join(said.stderr.split())) == (2, True), said.stderr
    assert not (home / "runs").exists()


def test_a_number_of_processes_is_not_taken_for_a_port(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text("n1:22\nn2:2222\n")
    assert read_hostfile(str(path)) == ["n1:22", "n2:2222"]
    path.write_text("n1:8\nn2:8\n")
    with pytest.raises(Wrong, match="`n1:8` would be the port 8 of n1"):
        read_hostfile(str(path))
