"""Keys: those of Muster never enter the process that asks, those that a script brings serve that script alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clients import access, place_shim, serving

from muster.storage import Settings
from s3_server import ACCESS, S3, SECRET


def memory_of(process: int) -> bytes:
    """All that a process can write to: its heap, its stack, its variables."""
    found = []
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            if rights.startswith("rw"):
                begin, end = (int(number, 16) for number in place.split("-"))
                memory.seek(begin)
                found.append(memory.read(end - begin))
    return b"".join(found)


def test_no_key_is_in_the_process_that_asks(s3: S3, home: Path, tmp_path: Path) -> None:
    script = """
        import moxing as mox, sys
        mox.file.write(sys.argv[1], "WHAT-IT-READS")
        kept = mox.file.read(sys.argv[1])
        print("ready", flush=True)
        sys.stdin.read()
    """
    settings = Settings(str(home), s3=access(s3))
    with serving(place_shim(tmp_path / "shim"), settings) as served, served.start(script, f"s3://{s3.bucket()}/f") as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        environment, memory = Path(f"/proc/{client.pid}/environ").read_bytes(), memory_of(client.pid)
        client.communicate("")
    assert b"WHAT-IT-READS" in memory
    assert served.socket.encode() in environment
    for key in (ACCESS.encode(), SECRET.encode()):
        assert key not in environment
        assert key not in memory


def test_a_script_may_bring_its_own_keys_and_server(s3: S3, home: Path, tmp_path: Path) -> None:
    script = """
        import moxing as mox, sys
        url, server, ak, sk = sys.argv[1:]
        mox.file.set_auth(ak=ak, sk=sk, server=server.replace("http://", ""), is_secure=False, path_style=True, retry=3)
        mox.file.write(url, "x")
        print(mox.file.read(url))
    """
    bucket = s3.bucket()
    with serving(place_shim(tmp_path / "shim"), Settings(str(home))) as served:
        assert served.run(script, f"obs://{bucket}/f", s3.endpoint, ACCESS, SECRET) == "x\n"
        script = "import moxing as mox, sys; print(mox.file.exists(sys.argv[1]))"
        assert served.run(script, f"obs://{bucket}/f") == "False\n"  # another one still has the embedded store
    assert s3.s5cmd("cat", f"s3://{bucket}/f") == "x"
    assert not (home / "store").exists()


def test_a_refused_key_is_told_without_showing_it(s3: S3, home: Path, tmp_path: Path) -> None:
    script = """
        import moxing as mox, sys
        mox.file.set_auth(ak="wrong-access-key", sk="wrong-secret-key")
        try:
            mox.file.read(sys.argv[1])
        except mox.file.MoxFileRespException as error:
            print(error.resp.status, error)
    """
    settings = Settings(str(home), s3=replace(access(s3), access_key="", secret_key=""))
    with serving(place_shim(tmp_path / "shim"), settings) as served:
        said = served.run(script, f"s3://{s3.bucket()}/f")
    assert said.startswith("403 ")
    assert s3.endpoint in said
    assert "wrong-" not in said
