"""Scripts as people write them for ModelArts: the ways in which public repositories use MoXing, written anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clients import Served, place_shim, serving

from muster.storage import Settings


@pytest.fixture
def served(home: Path, tmp_path: Path) -> Iterator[Served]:
    with serving(place_shim(tmp_path / "shim"), Settings(str(home))) as server:
        yield server


def store(home: Path, **files: str) -> Path:
    """Puts files into the bucket `data` of the embedded store."""
    bucket = home / "store" / "data"
    for name, text in files.items():
        path = bucket / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return bucket


def test_data_comes_before_training_and_checkpoints_go_after_it(served: Served, home: Path, tmp_path: Path) -> None:
    store(home, cifar__train__1="one", cifar__val__1="two")
    script = """
        import argparse, os, sys
        parser = argparse.ArgumentParser()
        parser.add_argument("--data_url")
        parser.add_argument("--train_url")
        parser.add_argument("--cache")
        args, unknown = parser.parse_known_args(sys.argv[1:])
        import moxing as mox
        local_data = os.path.join(args.cache, "data", "0")
        local_ckpt = os.path.join(args.cache, "ckpt")
        mox.file.copy_parallel(src_url=args.data_url, dst_url=local_data)
        assert sorted(os.listdir(local_data)) == ["train", "val"]
        os.makedirs(local_ckpt)
        for epoch in (1, 2):
            with open(os.path.join(local_ckpt, "net-%d_10.ckpt" % epoch), "w") as out:
                out.write("weights %d" % epoch)
            mox.file.copy_parallel(local_ckpt, args.train_url)
        names = [name for name in mox.file.list_directory(args.train_url) if name.endswith(".ckpt")]
        assert sorted(names, key=lambda name: -int(name.split("-")[1].split("_")[0]))[0] == "net-2_10.ckpt"
    """
    urls = ("--data_url=s3://data/cifar/", "--train_url=s3://out/V0001/")
    served.run(script, *urls, f"--cache={tmp_path}/cache", "--num_gpus=1")
    assert (home / "store/out/V0001/net-2_10.ckpt").read_text() == "weights 2"


def test_one_process_of_a_node_copies_and_the_others_wait_for_its_file(served: Served, home: Path, tmp_path: Path) -> None:
    store(home, set__a="A")
    script = """
        import moxing as mox, os, sys, time
        cache, rank = sys.argv[1], int(sys.argv[2])
        done = os.path.join(cache, "install.txt")
        if rank % 8 == 0 and not os.path.exists(done):
            mox.file.copy_parallel("obs://data/set", os.path.join(cache, "data"))
            os.mknod(done)
        while not os.path.exists(done):
            time.sleep(0.01)
        assert open(os.path.join(cache, "data", "a")).read() == "A"
    """
    ranks = [served.start(script, tmp_path, rank) for rank in range(4)]
    assert [rank.communicate(timeout=60) for rank in ranks] == [("", "")] * 4


def test_a_pretrained_file_is_fetched_by_either_function(served: Served, home: Path, tmp_path: Path) -> None:
    store(home, ckpt__resnet="weights")
    script = """
        import moxing as mox, os, sys
        cache = sys.argv[1]
        url = "obs:/" + "/data/ckpt/resnet"
        mox.file.copy_parallel(url, cache + "/first/resnet.ckpt")
        if mox.file.exists(url) and not mox.file.is_directory(url):
            mox.file.copy(url, cache + "/second/resnet.ckpt")
        assert open(cache + "/first/resnet.ckpt").read() == open(cache + "/second/resnet.ckpt").read() == "weights"
        assert mox.file.get_size(url) == mox.file.get_size(cache + "/first/resnet.ckpt")
    """
    served.run(script, tmp_path)


def test_a_data_set_is_read_image_by_image(served: Served, home: Path) -> None:
    store(home, images__1_jpg="one", images__1_txt="label 1", images__2_jpg="two", images__2_txt="label 2")
    script = """
        import io, moxing as mox, re
        mox.file.shift("os", "mox")
        images = [entry.path for entry in mox.file.scan_dir("s3://data/images") if entry.name.endswith("jpg")]
        labels = [int(re.sub("[^0-9]", "", mox.file.read(path.replace("jpg", "txt")))) for path in images]
        assert sorted(labels) == [1, 2]
        with io.BytesIO(mox.file.read(images[0], binary=True)) as image:
            assert image.read() in (b"one", b"two")
        with open(images[1], "rb") as image:
            assert len(image.read()) == 3
    """
    served.run(script)


def test_results_of_all_devices_are_waited_for(served: Served) -> None:
    script = """
        import moxing as mox, os
        url = "obs://job/strategy/"
        for rank in range(4):
            mox.file.write(os.path.join(url, "ckpt_strategy_rank_%d.ckpt" % rank), "x")
        assert len(mox.file.glob(os.path.join(url, "ckpt_strategy_rank_*.ckpt"))) == 4
        assert mox.file.glob(os.path.join(url, "failed_rank_*.txt")) == []
    """
    served.run(script)


def test_a_log_grows_line_by_line_in_the_store(served: Served, home: Path) -> None:
    script = """
        import moxing as mox
        url = "s3://out/logs/train.log"
        if not mox.file.exists("s3://out/logs"):
            mox.file.make_dirs("s3://out/logs")
        for step in range(3):
            mox.file.append(url, "step %d\\n" % step)
        stream = mox.file.File("s3://out/logs/never closed", "w")
        stream.write("a script forgets it")
    """
    served.run(script)
    assert (home / "store/out/logs/train.log").read_text() == "step 0\nstep 1\nstep 2\n"
    assert (home / "store/out/logs/never closed").read_text() == "a script forgets it"


def test_a_script_that_can_do_without_moxing_finds_it(served: Served) -> None:
    script = """
        try:
            from moxing.framework import file as cloud
        except ImportError:
            cloud = None
        assert cloud is not None
        import moxing.tensorflow as mox
        if not mox.file.is_directory("s3://out/run"):
            mox.file.make_dirs("s3://out/run")
        assert mox.file.is_directory("s3://out/run/")
        assert cloud.exists("s3://out/run")
    """
    served.run(script)


def test_a_trained_model_is_moved_to_the_store(served: Served, home: Path, tmp_path: Path) -> None:
    script = """
        import moxing as mox, os, sys
        os.chdir(sys.argv[1])
        with open("net.air", "w") as out:
            out.write("model")
        mox.file.rename("net.air", "obs://out/models/net.air")
        assert not os.path.exists("net.air")
        mox.file.copy("obs://out/models/net.air", "./again.air")
        assert open("again.air").read() == "model"
    """
    served.run(script, tmp_path)
    assert (home / "store/out/models/net.air").read_text() == "model"
