"""What `moxing.file` promises, as scripts see it. This file runs in Pythons that know nothing of Muster, of any version.

Each function gets a place of its own, on the disk or in a store, and fails by an assertion.
"""

import importlib
import io
import json
import logging
import os
import pickle
import sys
import tempfile
import zipfile
from typing import Any, Callable, Dict, Iterator, List, Type

mox: Any = importlib.import_module("moxing")
file: Any = mox.file


def join(*parts: str) -> str:
    return "/".join(part.rstrip("/") for part in parts)


def scratch() -> str:
    return tempfile.mkdtemp()


def write_local(path: str, data: str = "x") -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(data)
    return path


def read_local(path: str) -> str:
    with open(path) as given:
        return given.read()


def files_of(folder: str) -> Dict[str, str]:
    found = {}
    for below, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(below, name)
            found[os.path.relpath(path, folder)] = read_local(path)
    return found


def raises(kind: Type[BaseException], call: Callable[..., Any], *args: Any, **kwargs: Any) -> BaseException:
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError("%s was not raised" % kind.__name__)


def tree(root: str) -> str:
    """A small data set: three files, one of them in an inner directory, and one that is empty."""
    file.make_dirs(root)
    file.write(join(root, "a.jpg"), "aa")
    file.write(join(root, "b.txt"), "bbb")
    file.write(join(root, "inner/c.jpg"), "") if "://" in root else write_local(join(root, "inner/c.jpg"), "")
    file.write(join(root, "inner/deep/d.jpg"), "d") if "://" in root else write_local(join(root, "inner/deep/d.jpg"), "d")
    return root


def whole_files_are_read_written_and_appended_to(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "f.txt")
    file.write(path, "one\n")
    file.append(path, "zwei ü\n")
    assert file.read(path) == "one\nzwei ü\n"
    assert file.read(path, binary=True) == "one\nzwei ü\n".encode("utf-8")
    assert file.read(path, client_id="me", exist_check=True).startswith("one")
    file.write(path, b"\x00\xff", binary=True)
    file.append(path, b"\xfe", binary=True)
    assert file.read(path, binary=True) == b"\x00\xff\xfe"
    file.append(join(root, "new.log"), "first\n")
    assert file.read(join(root, "new.log")) == "first\n"


def one_file_is_added_to_another(root: str) -> None:
    file.make_dirs(root)
    file.write(join(root, "a"), "A")
    file.write(join(root, "b"), "B")
    file.append_remote(join(root, "a"), join(root, "b"))
    assert (file.read(join(root, "a")), file.read(join(root, "b"))) == ("A", "BA")


def a_file_opens_for_reading(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "f.txt")
    file.write(path, "one\nzwei ü\n\nvier")
    with file.File(path) as given:
        assert (given.name, given.mode, given.readable(), given.writable()) == (path, "r", True, False)
        assert given.readline() == "one\n"
        assert given.size() == len("one\nzwei ü\n\nvier".encode("utf-8"))
        assert given.readlines() == ["zwei ü\n", "\n", "vier"]
        given.seek(0)
        assert list(given) == ["one\n", "zwei ü\n", "\n", "vier"]
    assert given.closed
    for mode in ("rb", "br"):
        with file.File(path, mode) as given:
            assert given.read(3) == b"one"
            assert given.tell() == 3
            given.seek(-4, 2)
            assert given.read() == b"vier"
            given.seek(1)
            given.seek(2, 1)
            assert given.read(1) == b"\n"
            assert (given.mode, given.size()) == (mode, 17)


def a_file_opens_for_writing_and_flush_puts_it_into_the_store(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "f.txt")
    with file.File(path, "w") as out:
        assert (out.readable(), out.writable()) == (False, True)
        assert out.write("one\n") == 4
        out.writelines(["two\n", "three\n"])
        assert out.size() == 14
        out.flush()
        assert file.read(path) == "one\ntwo\nthree\n"
        out.write("four ü")
    assert file.read(path) == "one\ntwo\nthree\nfour ü"
    file.File(path, "wb").close()
    assert (file.exists(path), file.get_size(path)) == (True, 0)


def a_file_opens_both_ways(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "f.txt")
    for mode in ("w+b", "bw+", "wb+"):
        with file.File(path, mode) as both:
            both.write(b"abcdef")
            both.seek(2)
            assert both.read(2) == b"cd"
            both.seek(0)
            both.write(b"X")
        assert file.read(path, binary=True) == b"Xbcdef"
    with file.File(path, "r+") as both:
        assert both.read() == "Xbcdef"
        both.seek(0)
        both.write("YZ")
        both.seek(0)
        both.truncate(4)
    assert file.read(path) == "YZcd"
    with file.File(path, "w+") as both:
        both.write("line\n")
        both.seek(0)
        assert list(both) == ["line\n"]
    with file.File(path, "br+") as both:
        assert both.read() == b"line\n"


def a_file_opens_for_appending(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "log")
    with file.File(path, "a") as log:
        log.write("one\n")
        log.flush()
        assert file.read(path) == "one\n"
        log.write("two\n")
    with file.File(path, "ab") as log:
        assert log.tell() == 8
        assert log.size() == 8
        log.write(b"three\n")
    with file.File(path, "a+") as log:
        log.write("four\n")
        log.seek(0)
        assert log.read() == "one\ntwo\nthree\nfour\n"
    file.File(path, "a").close()
    assert file.read(path) == "one\ntwo\nthree\nfour\n"


def what_another_appends_meanwhile_is_not_lost(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "log")
    with file.File(path, "a") as log:
        log.write("one\n")
        log.flush()
        file.append(path, "from another\n")
        log.write("two\n")
    assert file.read(path) == "one\nfrom another\ntwo\n"


def a_large_file_survives_the_way_there_and_back(root: str) -> None:
    file.make_dirs(root)
    data = os.urandom(1 << 16) * 48  # larger than what goes over the socket
    path = join(root, "large.bin")
    with file.File(path, "wb") as out:
        out.write(data)
    assert file.get_size(path) == len(data)
    assert file.read(path, binary=True) == data
    with file.File(path, "rb") as given:
        given.seek(len(data) - 5)
        assert given.read() == data[-5:]
    file.append(path, data[:100], binary=True)
    assert file.read(path, binary=True) == data + data[:100]
    file.append(path, data * 6, binary=True)
    assert file.read(path, binary=True) == data + data[:100] + data * 6


def wrong_modes_are_refused(root: str) -> None:
    for mode in ("", "rw", "q", "rr", "r++", "rbt", "wa"):
        raises(ValueError, file.File, join(root, "f"), mode)


def a_mode_for_new_files_never_overwrites(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "f")
    with file.File(path, "x") as out:
        out.write("mine")
    raises(FileExistsError, file.File, path, "x")
    assert file.read(path) == "mine"


def file_objects_serve_the_libraries_that_people_use(root: str) -> None:
    file.make_dirs(root)
    with file.File(join(root, "a.json"), "w") as out:
        json.dump({"a": [1, 2]}, out)
    with file.File(join(root, "a.json")) as given:
        assert json.load(given) == {"a": [1, 2]}
    with file.File(join(root, "a.pkl"), "wb") as out:
        pickle.dump({"weights": list(range(1000))}, out)
    with file.File(join(root, "a.pkl"), "rb") as given:
        assert pickle.load(given)["weights"][-1] == 999
    with file.File(join(root, "a.zip"), "wb") as out, zipfile.ZipFile(out, "w") as archive:
        archive.writestr("inside", "text")
    with file.File(join(root, "a.zip"), "rb") as given, zipfile.ZipFile(given) as archive:
        assert archive.read("inside") == b"text"
    with file.File(join(root, "a.pkl"), "rb") as given:
        assert os.fstat(given.fileno()).st_size == given.size()  # np.fromfile reads from the descriptor itself
        assert isinstance(given, io.BufferedReader)


def logging_goes_into_a_file(root: str) -> None:
    file.make_dirs(root)
    path = join(root, "logging.txt")
    stream = file.File(path, "w")
    log = logging.getLogger("surface")
    log.addHandler(logging.StreamHandler(stream))
    log.warning("hello %s", "world")
    assert file.read(path) == "hello world\n"
    log.warning("again")
    stream.close()
    log.handlers.clear()
    assert file.read(path) == "hello world\nagain\n"


def one_file_is_copied_in_every_direction(root: str) -> None:
    here = scratch()
    write_local(join(here, "f.txt"), "text")
    file.copy(join(here, "f.txt"), join(root, "new/folder/f.txt"))
    file.copy(src_url=join(root, "new/folder/f.txt"), dst_url=join(root, "g.txt"), client_id="me")
    file.copy(join(root, "g.txt"), join(here, "not/yet/there/g.txt"))
    assert read_local(join(here, "not/yet/there/g.txt")) == "text"
    assert file.exists(join(root, "new/folder/f.txt"))
    assert read_local(join(here, "f.txt")) == "text"


def a_copy_into_a_directory_keeps_its_name(root: str) -> None:
    here = scratch()
    write_local(join(here, "f.txt"), "text")
    file.copy(join(here, "f.txt"), root + "/")
    file.make_dirs(join(root, "folder"))
    file.copy(join(here, "f.txt"), join(root, "folder"))
    assert file.read(join(root, "f.txt")) == file.read(join(root, "folder/f.txt")) == "text"
    file.copy_parallel(join(root, "f.txt"), join(here, "into") + "/")
    assert read_local(join(here, "into/f.txt")) == "text"


def copy_refuses_a_directory(root: str) -> None:
    tree(root)
    error = raises(IsADirectoryError, file.copy, root, join(scratch(), "x"))
    assert "copy_parallel" in str(error)
    assert file.exists(join(root, "a.jpg"))


def a_directory_is_copied_in_every_direction_and_the_source_stays(root: str) -> None:
    here = scratch()
    tree(join(root, "data"))
    wanted = {"a.jpg": "aa", "b.txt": "bbb", "inner/c.jpg": "", "inner/deep/d.jpg": "d"}
    file.copy_parallel(join(root, "data"), join(here, "first"))
    assert files_of(join(here, "first")) == wanted
    file.copy_parallel(src_url=join(here, "first"), dst_url=join(root, "second"))
    file.copy_parallel(join(root, "second") + "/", join(root, "third") + "/", threads=25, is_processing=False, use_queue=False)
    file.copy_parallel(join(root, "third"), join(here, "last"))
    assert files_of(join(here, "last")) == wanted
    assert files_of(join(here, "first")) == wanted
    assert sorted(file.list_directory(join(root, "data"), recursive=True, skip_dir=True)) == sorted(wanted)


def a_copy_adds_to_what_is_there_and_replaces_what_changed(root: str) -> None:
    here = scratch()
    write_local(join(here, "in/a"), "new")
    write_local(join(here, "out/a"), "old")
    os.utime(join(here, "out/a"), (1600000000, 1600000000))
    write_local(join(here, "out/kept"), "kept")
    file.copy_parallel(join(here, "in"), join(root, "in"))
    file.copy_parallel(join(here, "out"), join(root, "out"))
    file.copy_parallel(join(root, "in"), join(root, "out"))
    file.copy_parallel(join(root, "in"), join(here, "out"))
    assert file.read(join(root, "out/a")) == "new"
    assert file.exists(join(root, "out/kept"))
    assert files_of(join(here, "out")) == {"a": "new", "kept": "kept"}


def a_file_list_narrows_a_copy(root: str) -> None:
    here = scratch()
    tree(root)
    file.copy_parallel(root, join(here, "some"), file_list=["a.jpg", "./inner/c.jpg"], threads=0)
    assert files_of(join(here, "some")) == {"a.jpg": "aa", "inner/c.jpg": ""}
    file.copy_parallel(root, join(here, "folder"), file_list=["inner"])
    assert files_of(join(here, "folder")) == {"inner/c.jpg": "", "inner/deep/d.jpg": "d"}
    raises(file.MoxFileNotExistsException, file.copy_parallel, root, join(here, "x"), file_list=["missing"])
    raises(ValueError, file.copy_parallel, root, join(here, "x"), file_list=["../escaped"])


def a_single_file_may_be_given_to_copy_parallel(root: str) -> None:
    here = scratch()
    write_local(join(here, "weight.pth"), "w")
    file.copy_parallel(join(here, "weight.pth"), join(root, "model/weight.pth"))
    file.copy_parallel(join(root, "model/weight.pth"), join(here, "cache/weight.pth"), threads=128)
    assert read_local(join(here, "cache/weight.pth")) == "w"


def an_empty_directory_is_copied_too(root: str) -> None:
    here = scratch()
    file.make_dirs(join(root, "empty"))
    file.copy_parallel(join(root, "empty"), join(here, "empty"))
    assert os.listdir(join(here, "empty")) == []
    assert file.list_directory(join(root, "empty")) == []


def existence_and_kind(root: str) -> None:
    tree(root)
    for path, exists, folder in (
        (root, True, True),
        (root + "/", True, True),
        (join(root, "inner"), True, True),
        (join(root, "inner") + "/", True, True),
        (join(root, "a.jpg"), True, False),
        (join(root, "a.jpg") + "/", False, False),
        (join(root, "a"), False, False),
        (join(root, "nothing/below"), False, False),
    ):
        assert (file.exists(path), file.is_directory(path)) == (exists, folder), path


def directories_are_listed_as_python_lists_them(root: str) -> None:
    tree(root)
    assert sorted(file.list_directory(root)) == ["a.jpg", "b.txt", "inner"]
    assert sorted(file.list_directory(root + "/", remove_sep=False)) == ["a.jpg", "b.txt", "inner/"]
    assert sorted(file.list_directory(root, skip_dir=True)) == ["a.jpg", "b.txt"]
    assert sorted(file.list_directory(root, skip_file=True)) == ["inner"]
    everything = ["a.jpg", "b.txt", "inner", "inner/c.jpg", "inner/deep", "inner/deep/d.jpg"]
    assert sorted(file.list_directory(root, recursive=True)) == everything
    assert sorted(file.list_directory(root, recursive=True, skip_file=True)) == ["inner", "inner/deep"]
    raises(file.MoxFileNotExistsException, file.list_directory, join(root, "missing"))


def patterns_find_paths(root: str) -> None:
    tree(root)
    write = file.write
    write(join(root, ".hidden.jpg"), "")
    assert file.glob(join(root, "*.jpg")) == [join(root, "a.jpg")]
    assert file.glob(join(root, "*/*.jpg")) == [join(root, "inner/c.jpg")]
    assert file.glob(join(root, "inner/[a-c].jpg")) == [join(root, "inner/c.jpg")]
    assert file.glob(join(root, "?.*")) == [join(root, "a.jpg"), join(root, "b.txt")]
    assert file.glob(join(root, "a.jpg")) == [join(root, "a.jpg")]
    assert file.glob(join(root, "missing/*.jpg")) == file.glob(join(root, "missing")) == []


def a_walk_goes_through_all_directories(root: str) -> None:
    tree(root)
    assert [(path, sorted(folders), sorted(names)) for path, folders, names in file.walk(root)] == [
        (root, ["inner"], ["a.jpg", "b.txt"]),
        (join(root, "inner"), ["deep"], ["c.jpg"]),
        (join(root, "inner/deep"), [], ["d.jpg"]),
    ]
    assert [path for path, _, _ in file.walk(root, topdown=False)][-1] == root
    for _, folders, _ in file.walk(root):
        folders.clear()
    assert len(list(file.walk(root))) == 3
    errors: List[OSError] = []
    assert list(file.walk(join(root, "missing"), onerror=errors.append)) == []
    assert isinstance(errors[0], FileNotFoundError)


def a_scan_gives_entries(root: str) -> None:
    tree(root)
    found = {entry.name: entry for entry in file.scan_dir(root)}
    assert sorted(found) == ["a.jpg", "b.txt", "inner"]
    assert (found["inner"].is_dir(), found["inner"].is_file()) == (True, False)
    assert (found["b.txt"].is_dir(), found["b.txt"].is_file()) == (False, True)
    assert found["b.txt"].stat().st_size == 3
    assert found["b.txt"].path == os.fspath(found["b.txt"]) == join(root, "b.txt")


def directories_are_made(root: str) -> None:
    file.make_dirs(join(root, "a/b/c"))
    file.make_dirs(join(root, "a/b/c"))
    assert file.is_directory(join(root, "a/b/c"))
    assert file.is_directory(join(root, "a"))
    file.mk_dir(join(root, "a/d"))
    file.mk_dir(join(root, "a/d"))
    assert file.is_directory(join(root, "a/d"))
    raises(OSError, file.mk_dir, join(root, "missing/e"))
    assert not file.exists(join(root, "missing"))


def removing_follows_moxings_rule(root: str) -> None:
    tree(root)
    file.remove(join(root, "a.jpg") + "/")
    file.remove(join(root, "a.jpg") + "/", recursive=True)
    file.remove(join(root, "inner"))
    file.remove(join(root, "inner") + "/")
    file.remove(join(root, "missing"))
    file.remove(join(root, "missing"), recursive=True)
    assert sorted(file.list_directory(root)) == ["a.jpg", "b.txt", "inner"]
    file.remove(join(root, "a.jpg"))
    file.remove(join(root, "b.txt"), recursive=True)
    file.remove(join(root, "inner/deep") + "/", recursive=True)
    assert sorted(file.list_directory(root, recursive=True)) == ["inner", "inner/c.jpg"]
    file.remove(join(root, "inner"), recursive=True)
    assert not file.exists(join(root, "inner"))


def files_and_directories_are_renamed_in_every_direction(root: str) -> None:
    here = scratch()
    tree(join(root, "old"))
    file.rename(join(root, "old/a.jpg"), join(root, "old/z.jpg"))
    assert not file.exists(join(root, "old/a.jpg"))
    file.rename(join(root, "old"), join(root, "new"))
    assert not file.exists(join(root, "old"))
    file.rename(join(root, "new"), join(here, "here"))
    assert files_of(join(here, "here")) == {"z.jpg": "aa", "b.txt": "bbb", "inner/c.jpg": "", "inner/deep/d.jpg": "d"}
    file.rename(join(here, "here/z.jpg"), join(root, "back/z.jpg"))
    assert file.read(join(root, "back/z.jpg")) == "aa"
    assert not os.path.exists(join(here, "here/z.jpg"))
    raises(file.MoxFileNotExistsException, file.rename, join(root, "missing"), join(root, "x"))


def sizes_and_times(root: str) -> None:
    tree(root)
    assert file.get_size(join(root, "b.txt")) == 3
    assert file.get_size(root, recursive=True) == 6
    found = file.stat(join(root, "b.txt"))
    assert (found.length, found.is_directory) == (3, False)
    assert isinstance(found.mtime_nsec, int)
    assert 1.6e18 < found.mtime_nsec < 4e18
    assert file.stat(join(root, "inner")).is_directory


def what_is_missing_is_told_by_one_exception(root: str) -> None:
    missing = join(root, "missing.txt")
    for call in (file.stat, file.read, file.get_size, file.list_directory, file.File):
        error = raises(file.MoxFileNotExistsException, call, missing)
        assert isinstance(error, (FileNotFoundError, file.MoxFileRespException))
        assert missing in str(error)
        assert pickle.loads(pickle.dumps(error)).args == error.args  # pools of processes hand errors on
    raises(FileNotFoundError, file.copy, missing, join(scratch(), "x"))
    raises(FileNotFoundError, file.copy_parallel, missing, join(scratch(), "x"))
    raises(FileNotFoundError, file.File, missing, "r+")


def a_file_in_the_way_of_a_directory_is_told(root: str) -> None:
    tree(root)
    here = scratch()
    write_local(join(here, "taken"))
    raises(file.MoxFileNameDuplicateException, file.copy_parallel, root, join(here, "taken"))
    write_local(join(here, "into/inner"), "x")
    raises(file.MoxFileNameDuplicateException, file.copy_parallel, root, join(here, "into"))
    assert read_local(join(here, "taken")) == "x"


def odd_names_survive(root: str) -> None:
    here = scratch()
    names = ["with space", "-x", "..foo", "ünïcode 中文", "per%20cent", "a+b&c=d#e?f"]
    for name in names:
        write_local(join(here, "in", name), name)
    file.copy_parallel(join(here, "in"), join(root, "odd"))
    assert sorted(file.list_directory(join(root, "odd"))) == sorted(names)
    assert all(file.read(join(root, "odd", name)) == name for name in names)
    file.copy_parallel(join(root, "odd"), join(here, "out"))
    assert files_of(join(here, "out")) == {name: name for name in names}


def slashes_too_many_mean_nothing(root: str) -> None:
    file.make_dirs(root)
    file.write(root + "//f.txt", "text")
    assert file.read(join(root, "f.txt")) == "text"
    assert file.exists(root.replace("://", ":///") + "/f.txt")
    if "://" in root:
        assert file.read(root.replace("://", ":/") + "/f.txt") == "text"  # what pathlib makes of a URL


def empty_paths_are_refused(root: str) -> None:
    for call in (file.exists, file.read, file.list_directory, file.make_dirs):
        for nothing in ("", None):
            assert "--data_url" in str(raises(ValueError, call, nothing))


def python_itself_takes_urls_after_a_shift(root: str) -> None:
    import glob
    import shutil

    here = scratch()
    before = (open, os.listdir, os.stat, os.path.exists, shutil.rmtree)
    file.shift("os", "mox")
    file.shift("os", "mox")
    try:
        os.makedirs(join(root, "a/b"))
        os.makedirs(join(root, "a/b"), exist_ok=True)
        os.mkdir(join(root, "c"))
        with open(join(root, "a/f.txt"), "w", encoding="utf-8") as out:
            out.write("text ü")
        with open(join(root, "a/f.txt"), "rb") as given:
            assert given.read() == "text ü".encode("utf-8")
        with open(join(root, "a/f.txt"), "a") as out:
            out.write("!")
        with open(join(root, "a/f.txt"), encoding="utf-8") as given:
            assert given.read() == "text ü!"
        assert sorted(os.listdir(root)) == ["a", "c"]
        assert os.path.exists(join(root, "a/f.txt"))
        assert not os.path.exists(join(root, "missing"))
        assert os.path.isdir(join(root, "a"))
        assert os.path.isfile(join(root, "a/f.txt"))
        assert os.path.abspath(join(root, "a")) == os.path.realpath(join(root, "a")) == join(root, "a")
        assert not os.path.isfile(join(root, "a"))
        assert os.path.getsize(join(root, "a/f.txt")) == os.stat(join(root, "a/f.txt")).st_size == 8
        os.rename(join(root, "a/f.txt"), join(root, "a/g.txt"))
        assert glob.glob(join(root, "a/*.txt")) == [join(root, "a/g.txt")]
        with os.scandir(join(root, "a")) as entries:
            assert sorted(entry.name for entry in entries) == ["b", "g.txt"]
        assert sorted(path for path, _, _ in os.walk(root)) == [root, join(root, "a"), join(root, "a/b"), join(root, "c")]
        shutil.copyfile(join(root, "a/g.txt"), join(here, "g.txt"))
        shutil.copytree(join(root, "a"), join(here, "tree"))
        assert sorted(os.listdir(join(here, "tree"))) == ["b", "g.txt"]
        os.remove(join(root, "a/g.txt"))
        shutil.rmtree(join(root, "a"))
        assert os.listdir(root) == ["c"]
        shutil.copytree(join(here, "tree"), join(here, "other"))
        shutil.rmtree(join(here, "other"))
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy2(join(here, "g.txt"), folder, follow_symlinks=False)
    finally:
        file.shift("mox", "os")
    assert before == (open, os.listdir, os.stat, os.path.exists, shutil.rmtree)
    raises(ValueError, file.shift, "os", "s3")


def every_name_of_the_module_is_where_scripts_look_for_it(root: str) -> None:
    scope: Dict[str, Any] = {}
    exec("from moxing import file\nfrom moxing.framework import file as second", scope)
    exec("from moxing.framework.file import file_io", scope)
    assert scope["file"] is scope["second"] is mox.file is importlib.import_module("moxing.file")
    assert importlib.import_module("moxing.pytorch").file is mox.file
    file_io: Any = importlib.import_module("moxing.framework.file.file_io")
    assert scope["file_io"] is file_io
    assert file_io._LARGE_FILE_METHOD in (1, 2)
    file_io._NUMBER_OF_PROCESSES = 1
    file.set_auth(is_secure=False, retry=20, obs_client_log=False, negotiation=False)
    assert not file.exists(join(root, "x"))
    if sys.version_info >= (3, 7):
        for module in (mox, importlib.import_module("moxing.tensorflow")):
            error = raises(AttributeError, getattr, module, "get_model")
            assert "moxing.file" in str(error)
    assert not hasattr(mox, "run")


def behaviours() -> Iterator[str]:
    for name, found in list(globals().items()):
        code = getattr(found, "__code__", None)
        if code is not None and code.co_varnames[: code.co_argcount] == ("root",) and name != "tree":
            yield name


def main() -> None:
    """`surface.py ROOT NAME...`: shows that the named behaviours hold below a place."""
    root, *names = sys.argv[1:]
    for name in names or list(behaviours()):
        globals()[name](join(root, name))


if __name__ == "__main__":
    main()
