"""Clients as training jobs have them: hundreds at once, threads, forks, signal handlers, and some that die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from clients import Served, place_shim, serving

from conftest import until
from muster.storage import Settings


@pytest.fixture
def served(home: Path, tmp_path: Path) -> Iterator[Served]:
    with serving(place_shim(tmp_path / "shim"), Settings(str(home))) as server:
        yield server


@pytest.mark.long
def test_three_hundred_ranks_ask_at_once(served: Served, tmp_path: Path) -> None:
    """They wait for each other before they ask. All copy the same data set to the same place, as those of a node do."""
    script = """
        import moxing as mox, os, sys
        folder, count = sys.argv[1], int(sys.argv[2])
        go, gone = os.pipe()
        children = []
        for rank in range(count):
            child = os.fork()
            if child == 0:
                os.close(gone)
                os.read(go, 1)
                mox.file.copy_parallel("obs://bucket/data", folder + "/cache")
                assert sorted(os.listdir(folder + "/cache")) == ["0", "1", "2", "3"]
                mox.file.append("obs://bucket/log", "rank %d\\n" % rank)
                mox.file.write("obs://bucket/out/%d" % rank, str(rank))
                os._exit(0)
            children.append(child)
        os.close(gone)
        failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
        assert not failed
        assert sorted(mox.file.read("obs://bucket/log").split("\\n")[:-1]) == sorted("rank %d" % rank for rank in range(count))
        assert len(mox.file.list_directory("obs://bucket/out")) == count
        assert [name for name in os.listdir(folder + "/cache") if "part" in name] == []
    """
    served.run("import moxing as mox\nfor n in range(4): mox.file.write('obs://bucket/data/%d' % n, 'x' * 100000)")
    served.run(script, tmp_path, 300)


def test_threads_and_forked_processes_have_lines_of_their_own(served: Served) -> None:
    script = """
        import moxing as mox, multiprocessing, threading
        mox.file.write("obs://b/f", "parent")
        def work(number):
            for turn in range(20):
                url = "obs://b/%s-%d" % (number, turn)
                mox.file.write(url, url)
                assert mox.file.read(url) == url
            return number
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        pool = multiprocessing.get_context("fork").Pool(4)  # while the threads are in the middle of it
        assert sorted(pool.map(work, "abcdefgh")) == list("abcdefgh")
        pool.close()
        pool.join()
        for thread in threads:
            thread.join()
        assert len(mox.file.list_directory("obs://b")) == 1 + 16 * 20
    """
    served.run(script)


def test_an_exception_of_a_worker_reaches_its_parent(served: Served) -> None:
    script = """
        import moxing as mox, multiprocessing
        try:
            with multiprocessing.get_context("fork").Pool(1) as pool:
                pool.map(mox.file.read, ["obs://b/missing"])
        except mox.file.MoxFileNotExistsException as error:
            assert error.resp.status == 404, error.resp
            print(error)
    """
    assert "obs://b/missing" in served.run(script)


@pytest.mark.long
def test_a_signal_handler_may_save_while_a_request_is_under_way(served: Served, home: Path) -> None:
    """The listing comes in parts, and the handler between two of them."""
    script = """
        import moxing as mox, os, signal
        def save(number, frame):
            mox.file.write("obs://b/checkpoint", "saved")
        signal.signal(signal.SIGTERM, save)
        found = 0
        for entry in mox.file.scan_dir("obs://b/many"):
            if found == 10:
                os.kill(os.getpid(), signal.SIGTERM)
            found += 1
        assert (found, mox.file.read("obs://b/checkpoint")) == (3000, "saved")
    """
    many = home / "store/b/many"
    many.mkdir(parents=True)
    for number in range(3000):
        (many / str(number)).touch()
    served.run(script)


def test_an_interrupt_leaves_no_answer_behind_for_the_next_request(served: Served, tmp_path: Path) -> None:
    script = """
        import moxing as mox, signal, sys
        with open(sys.argv[1], "wb") as out:
            out.truncate(1 << 30)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            mox.file.copy(sys.argv[1], "obs://b/large")
        except KeyboardInterrupt:
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        mox.file.write("obs://b/f", "text")
        assert mox.file.read("obs://b/f") == "text"
    """
    served.run(script, tmp_path / "large")


def test_a_client_that_dies_costs_nothing_and_its_transfer_ends(served: Served, tmp_path: Path, home: Path) -> None:
    with open(tmp_path / "large", "wb") as large:
        large.truncate(64 << 30)  # a hole: nobody has the time to copy it all
    script = f"import moxing as mox; mox.file.copy({str(tmp_path / 'large')!r}, 'obs://b/large')"
    with served.start(script) as client:
        until(lambda: list((home / "store" / "b").glob(".muster-*")))
        client.kill()
    until(lambda: not list((home / "store" / "b").glob(".muster-*")))
    assert list((home / "store" / "b").iterdir()) == []
    served.run("import moxing as mox; mox.file.write('obs://b/f', 'x'); assert mox.file.read('obs://b/f') == 'x'")


def test_those_who_wait_for_the_same_copy_are_served_when_its_leader_dies(served: Served, tmp_path: Path, home: Path) -> None:
    with open(tmp_path / "large", "wb") as large:
        large.truncate(64 << 30)
    script = f"import moxing as mox; mox.file.copy({str(tmp_path / 'large')!r}, 'obs://b/large'); print('copied')"
    with served.start(script) as leader:
        until(lambda: list((home / "store" / "b").glob(".muster-*")))
        threads = len(os.listdir(f"/proc/{served.process.pid}/task"))
        with served.start(script) as follower:
            until(lambda: len(os.listdir(f"/proc/{served.process.pid}/task")) > threads)
            (tmp_path / "small").write_text("small")
            os.replace(tmp_path / "small", tmp_path / "large")  # what the follower will find
            leader.kill()
            assert follower.communicate(timeout=60) == ("copied\n", "")
    assert (home / "store" / "b" / "large").read_text() == "small"


def test_nonsense_ends_its_own_connection_alone(served: Served) -> None:
    for nonsense in (b"GET / HTTP/1.1\r\n", b"\0\0\0\5hello", b"\0\0\0\2{}", b"\0\0\0\4", b"\xff\xff\xff\xff", b"\0\0\0\2[]"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect("\0" + served.socket[1:])
            line.sendall(nonsense)
            line.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                line.recv(1000)
    served.run("import moxing as mox; mox.file.write('obs://b/f', 'x')")


def test_an_error_is_an_answer_and_the_next_request_is_served(served: Served) -> None:
    script = """
        import moxing as mox
        for wrong in ("obs://b/a/../../x", "obs://", "obs://b/nul\\0", "s3://-/x"):
            try:
                mox.file.write(wrong, "x")
            except (OSError, ValueError) as error:
                assert len(str(error)) > 20, error
            else:
                raise AssertionError(wrong)
        mox.file.write("obs://b/f", "x")
        for call in (lambda: mox.file.write("obs://b/f/g", "x"), lambda: mox.file.list_directory("obs://b/f")):
            try:
                call()
            except OSError as error:
                assert "directory is needed" in str(error), error
            else:
                raise AssertionError(call)
        assert mox.file.read("obs://b/f") == "x"
    """
    served.run(script)


def test_the_server_does_not_heed_a_stop_while_ranks_save(served: Served) -> None:
    served.run("import moxing as mox; mox.file.write('obs://b/f', 'x')")
    served.process.send_signal(signal.SIGTERM)
    served.process.send_signal(signal.SIGINT)
    assert served.run("import moxing as mox; print(mox.file.read('obs://b/f'))") == "x\n"


def test_a_server_that_is_gone_is_told_in_one_sentence(home: Path, tmp_path: Path) -> None:
    shim = place_shim(tmp_path / "shim")
    ended = Served(shim, "@muster/test/nobody", subprocess.Popen(["true"]))
    ended.process.wait()
    script = """
        import moxing as mox
        try:
            mox.file.exists("obs://b/f")
        except mox.file.MoxFileRespException as error:
            print(error)
        mox.file.write("/dev/null", "local files need no server")
    """
    assert "does not answer" in ended.run(script)
    assert "muster moxing-path" in ended.run(script, MUSTER_SOCKET="")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_other_users_are_refused(served: Served, tmp_path: Path) -> None:
    script = """
        import os, socket, sys
        os.setgid(65534)
        os.setuid(65534)
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect("\\0" + sys.argv[1][1:])
        line.sendall(b'\\0\\0\\0\\x34{"do": "stat", "details": {"url": "obs://b/secret"}}')
        try:
            print(repr(line.recv(100)))
        except ConnectionResetError:
            print("b''")
    """
    assert served.run(script, served.socket) == "b''\n"


def test_it_is_importable_from_the_packed_agent(home: Path, served: Served) -> None:
    """So it comes to nodes: nothing has to be unpacked there."""
    from muster.launch.start import packed_agent

    archive = packed_agent.build(str(home))
    script = "import moxing as mox; mox.file.write('obs://b/f', 'x'); print(mox.__file__)"
    assert served.run(script, PYTHONPATH=f"{archive}/muster/shims").startswith(archive)


def pythons() -> list[str]:
    """Other Pythons of this machine: the oldest that can import `moxing`, and the newest."""
    found = [*Path.home().glob(".pyenv/versions/3.*/bin/python"), *Path("/usr/bin").glob("python3.[0-9]*[0-9]")]
    versions = {}
    for python in found:
        said = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True).stdout
        if said and (version := tuple(map(int, said.split()))) >= (3, 6) and version != sys.version_info[:2]:
            versions[version] = str(python)
    return [versions[version] for version in sorted(versions)]


@pytest.mark.long
@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_the_whole_surface_in_another_python(which: str, served: Served, tmp_path: Path) -> None:
    others = pythons()
    if not others:
        pytest.skip("there is no other Python on this machine")
    surface = Path(__file__).with_name("surface.py").read_text()
    python = others[0 if which == "oldest" else -1]
    served.run(surface, "obs://bucket/x", python=python)
    served.run(surface, tmp_path / "local", python=python)
