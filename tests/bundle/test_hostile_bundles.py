"""What no bundle is: archives that lead elsewhere, that grow without end, that are cut off or go on."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bundles import make_bundle

from muster.bench.bundle import archive
from muster.bench.bundle.check import verify
from muster.bench.errors import BundleError


@pytest.fixture
def bundle(home: Path, tmp_path: Path) -> Path:
    return make_bundle(home, tmp_path / "good.tar.gz")


def refused(path: Path, most: int | None = None) -> str:
    with pytest.raises(BundleError) as caught:
        verify(path, most=most)
    return str(caught.value).removeprefix(f"{path} ")


def packed(path: Path, fill: Callable[[tarfile.TarFile], object], form: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, "w:gz", format=form) as tar:
        fill(tar)
    return path


def of_files(path: Path, *names: str, content: bytes = b"x", form: int = tarfile.GNU_FORMAT) -> Path:
    """An archive of plain files with these names."""

    def fill(tar: tarfile.TarFile) -> None:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

    return packed(path, fill, form)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd", "is absolute"),
        ("b/../../etc/passwd", "leads elsewhere"),
        ("../outside/file", "leads elsewhere"),
        ("b//file", "leads elsewhere"),
        ("b/new\nline", "holds characters that cannot be shown"),
        ("b/\x1b[2J", "holds characters that cannot be shown"),
        ("b/" + "x" * 300, "is too long"),
        ("b/" + "x/" * 40 + "x", "is too long"),
        ("file", "lies outside of the bundle's folder"),
        ("other/file", "lies outside of the bundle's folder"),
    ],
)
def test_names_that_cannot_be(tmp_path: Path, name: str, reason: str, form: int) -> None:
    (tmp_path / "deep" / "enough").mkdir(parents=True)
    path = of_files(tmp_path / "deep" / "enough" / "b.tar.gz", "b/bench.json", name, form=form)
    assert f"{name!a}, which {reason}; it is not as Muster makes bundles, do not trust it" in refused(path)
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == [path]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a link"),
        (tarfile.LNKTYPE, "a link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
        (tarfile.CONTTYPE, "not a plain file"),
        (tarfile.GNUTYPE_SPARSE, "not a plain file"),
        (tarfile.XGLTYPE, "not a plain file"),
        (b"?", "not a plain file"),
    ],
)
def test_what_is_not_a_plain_file(tmp_path: Path, kind: bytes, what: str) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("b/evil")
        info.type, info.linkname = kind, "/etc/passwd"
        tar.fileobj.write(info.tobuf(tarfile.USTAR_FORMAT))

    assert f"holds 'b/evil', which is {what};" in refused(packed(tmp_path / "b.tar.gz", fill))


def test_a_file_that_is_there_twice(tmp_path: Path) -> None:
    path = of_files(tmp_path / "b.tar.gz", "b/bench.json", "b/bench.json")
    assert "holds 'b/bench.json' twice" in refused(path)


def test_a_file_that_is_a_folder_too(tmp_path: Path) -> None:
    for names in (("b/a", "b/a/c"), ("b/a/c", "b/a")):
        assert "as a file and as a folder" in refused(of_files(tmp_path / "b.tar.gz", *names))


def test_a_bomb(tmp_path: Path) -> None:
    path = of_files(tmp_path / "b.tar.gz", *(f"b/{index}" for index in range(4)), content=b"\0" * (8 << 20))
    assert path.stat().st_size < 1 << 20
    assert "holds more than 20,000,000 bytes" in refused(path, most=20_000_000)


def test_a_size_that_lies(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("b/large")
        info.size = 1 << 60
        tar.fileobj.write(info.tobuf(tarfile.GNU_FORMAT))

    assert "holds more than" in refused(packed(tmp_path / "b.tar.gz", fill))


def test_zeros_without_end_behind_the_end(tmp_path: Path) -> None:
    path = of_files(tmp_path / "b.tar.gz", "b/file")
    with path.open("ab") as file:
        file.write(gzip.compress(b"\0" * (8 << 20)))
    assert "holds more than 1,000,000 bytes" in refused(path, most=1_000_000)


def test_very_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_FILES", 50)
    path = of_files(tmp_path / "b.tar.gz", *(f"b/{index}" for index in range(51)))
    assert "holds more than 50 files" in refused(path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_header_that_is_too_long(tmp_path: Path, kind: bytes) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("header")
        info.type, info.size = kind, 1 << 30
        tar.fileobj.write(info.tobuf(tarfile.USTAR_FORMAT))

    assert "holds a header that is too long" in refused(packed(tmp_path / "b.tar.gz", fill))


@pytest.mark.parametrize("records", [b"9 path=x\n", b"path=x\n", b"99999 path=x\n", b"-1 path=x\n", b"7 path\n", b"0 a=b\n"])
def test_a_header_that_is_broken(tmp_path: Path, records: bytes) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("header")
        info.type, info.size = tarfile.XHDTYPE, len(records) - (records.startswith(b"9 "))
        tar.fileobj.write(info.tobuf(tarfile.USTAR_FORMAT) + records.ljust(512, b"\0"))

    assert "holds a broken header" in refused(packed(tmp_path / "b.tar.gz", fill))


def test_extended_headers_that_change_what_a_file_is(tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("b/file")
        info.pax_headers = {"GNU.sparse.major": "1"}
        tar.addfile(info)

    assert "holds a file that is not plain" in refused(packed(tmp_path / "b.tar.gz", fill, tarfile.PAX_FORMAT))


def test_a_broken_header_is_not_taken_for_the_end(bundle: Path, tmp_path: Path) -> None:
    content = bytearray(gzip.decompress(bundle.read_bytes()))
    content[512 * 2 + 148] ^= 1  # the sum of some header or a byte of some file
    for place in range(0, len(content) - 512, 512):
        if content[place + 257 : place + 262] == b"ustar" and place > 1024:
            content[place + 148] ^= 1
            break
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(content))
    assert "is not a tar archive: bad checksum" in refused(tmp_path / "b.tar.gz")


def test_a_bundle_that_is_cut_off_anywhere(bundle: Path, tmp_path: Path) -> None:
    content = bundle.read_bytes()
    short = tmp_path / "short.tar.gz"
    for length in range(0, len(content), max(1, len(content) // 60)):
        short.write_bytes(content[:length])
        assert "cut off" in refused(short) or length == 0


def test_a_tar_without_its_end(bundle: Path, tmp_path: Path) -> None:
    content = gzip.decompress(bundle.read_bytes()).rstrip(b"\0")
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(content + b"\0" * (-len(content) % 512)))
    assert "is cut off" in refused(tmp_path / "b.tar.gz")


@pytest.mark.parametrize("garbage", [b"x", b"\x1f\x8b garbage", gzip.compress(b"more", mtime=0)])
def test_something_behind_the_end(bundle: Path, garbage: bytes) -> None:
    with bundle.open("ab") as file:
        file.write(garbage)
    assert refused(bundle)


def test_other_kinds_of_files(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "other"
    content = gzip.decompress(bundle.read_bytes())
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("b/bench.json", "{}")
    for other in (content, lzma.compress(content), zipped.getvalue(), b"hello", b"\0" * 1000):
        path.write_bytes(other)
        assert "is damaged or not packed with gzip" in refused(path)
    path.write_bytes(gzip.compress(b"hello" * 1000))
    assert "is not a tar archive" in refused(path)
    path.write_bytes(gzip.compress(b"\0" * 10240))
    assert "holds no files" in refused(path)


def test_an_archive_without_a_manifest(tmp_path: Path) -> None:
    path = of_files(tmp_path / "b.tar.gz", "b/bench.json")
    assert "holds no manifest.json" in refused(path)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read: no such file or directory" in refused(tmp_path / "nowhere")
    assert "cannot be read: is a directory" in refused(tmp_path)
