"""BERT's TFRecord files: read and written without TensorFlow, compared with it, and damaged."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bert_programs import BERT, programs, run, trainings
from bert_programs import data as data

sys.path.append(str(BERT))
import crc32c  # type: ignore[import-not-found,unused-ignore]
import tfrecord  # type: ignore[import-not-found,unused-ignore]
import wire  # type: ignore[import-not-found,unused-ignore]

pytestmark = pytest.mark.timeout(300)
FEATURES = {
    "input_ids": np.array([[101, 7, 30521, 102], [101, 300, 102, 0], [101, 128, 127, 102]]),
    "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]]),
    "masked_lm_weights": np.array([[1, 0.5], [0.25, 0], [1, 1]], np.float32),
    "big": np.array([[2**62], [0], [2**35 + 1]]),
}
NAMES = ["segment_ids", "next_sentence_labels", "masked_lm_positions", "masked_lm_ids", *list(FEATURES)[:3]]


def plain(piece: bytes) -> int:
    """CRC-32C bit by bit."""
    register = 0xFFFFFFFF
    for byte in piece:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tfrecord.write(tmp_path / "a.tfrecord", FEATURES)
    return tmp_path / "a.tfrecord"


def test_checksums_of_pieces_of_any_length_are_those_of_the_standard() -> None:
    assert plain(b"123456789") == 0xE3069283  # of RFC 3720
    lengths = np.array([9, 0, 1, 2, 3, 4, 5, 8, 31, 1000])
    buffer = np.random.default_rng(1).integers(0, 256, lengths.sum(), dtype=np.uint8)
    buffer[:9] = np.frombuffer(b"123456789", np.uint8)
    starts = np.cumsum(lengths) - lengths
    expected = [plain(buffer[start : start + length].tobytes()) for start, length in zip(starts, lengths, strict=True)]
    assert crc32c.checksums(buffer, starts, lengths).tolist() == expected


def test_what_was_written_is_read(file: Path) -> None:
    found = tfrecord.read(file, list(FEATURES))
    for name, array in FEATURES.items():
        assert (found[name] == array).all(), name


@pytest.mark.parametrize(
    ("place", "wrong"),
    [(0, "a damaged length"), (5, "a damaged length"), (9, "a damaged length"), (40, "damaged data"), (-1, "damaged data")],
)
def test_a_changed_bit_is_one_error_with_file_and_byte(file: Path, place: int, wrong: str) -> None:
    content = bytearray(file.read_bytes())
    second = 16 + struct.unpack_from("<Q", content)[0]
    third = second + 16 + struct.unpack_from("<Q", content, second)[0]
    at = third + place if place >= 0 else len(content) + place
    content[at] ^= 16
    file.write_bytes(content)
    with pytest.raises(tfrecord.BadRecord, match=f"^{re.escape(str(file))}: {wrong} in the record at byte {third:,};"):
        tfrecord.read(file, list(FEATURES))


@pytest.mark.parametrize("cut", [1, 4, 20])
def test_a_file_that_was_cut_off_is_an_error(file: Path, cut: int) -> None:
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(tfrecord.BadRecord, match="the file ends in the record at byte"):
        tfrecord.read(file, list(FEATURES))


def test_a_feature_that_is_missing_or_uneven_is_named(tmp_path: Path, file: Path) -> None:
    with pytest.raises(tfrecord.BadRecord, match="no numbers called `segment_ids` in the record at byte 0;"):
        tfrecord.read(file, ["segment_ids"])
    tfrecord.write(tmp_path / "b.tfrecord", {"input_ids": np.ones((1, 3), int)})
    file.write_bytes(file.read_bytes() + (tmp_path / "b.tfrecord").read_bytes())
    with pytest.raises(tfrecord.BadRecord, match="3 values of `input_ids` where the first has 4"):
        tfrecord.read(file, ["input_ids"])


def test_the_generated_set_has_all_features_and_is_always_the_same(data: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    run("pytorch", BERT / "generate.py", again, "--train=256", "--val=100")
    paths = [path.relative_to(data) for path in sorted(data.rglob("*")) if path.is_file()]
    names = ["ms_bert_large.ckpt", "train/part-00000.tfrecord", "train/part-00001.tfrecord", "val/eval_10k.tfrecord"]
    assert [str(path) for path in paths] == names
    assert all((again / path).read_bytes() == (data / path).read_bytes() for path in paths)
    found = tfrecord.read(data / "val/eval_10k.tfrecord", NAMES)
    masked = np.take_along_axis(found["input_ids"], found["masked_lm_positions"], 1)[found["masked_lm_weights"] > 0]
    assert 0.7 < (masked == 103).mean() < 0.9
    assert sorted(set(found["next_sentence_labels"].ravel().tolist())) == [0, 1]
    argv = [f"{programs('pytorch')}/python", str(BERT / "generate.py"), "/proc/data"]
    nowhere = subprocess.run(argv, capture_output=True, text=True)
    assert nowhere.returncode == 2 and "/proc/data cannot be written: No such file or directory. " in nowhere.stderr


def test_numbers_that_a_writer_left_unpacked_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protocol buffers allow it, and the parts of an entry in any order."""

    def entry(name: str, values: np.ndarray) -> bytes:
        if values.dtype.kind == "f":
            kind, pieces = tfrecord.FLOATS, [wire.number(1 << 3 | wire.FIXED32) + value.tobytes() for value in values]
        else:
            kind, pieces = tfrecord.INTEGERS, [wire.number(1 << 3) + wire.number(int(value)) for value in values]
        return bytes(wire.field(2, wire.field(kind, b"".join(pieces))) + wire.field(1, name.encode()))

    monkeypatch.setattr(tfrecord, "_entry", entry)
    tfrecord.write(tmp_path / "a.tfrecord", FEATURES)
    found = tfrecord.read(tmp_path / "a.tfrecord", list(FEATURES))
    assert all((found[name] == array).all() for name, array in FEATURES.items())


DATA_SETS = """
import resource, sys
from pathlib import Path
import numpy as np, torch
import generate, sequences, tfrecord
from common.labels import Wrong
from common.world import World

root, made = Path(sys.argv[1]), generate.sequences(np.random.default_rng(1), 8, 32)
alone = World(0, 1, 0, torch.device("cpu"))


def put(name, row, value):
    changed = made[name].copy()
    changed[row] = value
    return {**made, name: changed}


def load(name, *files):
    folder = root / name
    folder.mkdir()
    for number, columns in enumerate(files):
        tfrecord.write(folder / f"{number}.tfrecord", columns) if columns else (folder / f"{number}.tfrecord").touch()
    try:
        found = sequences.load(folder, root / "decoded", alone)
        print(name, len(found), float(found.weights.sum()))
        return found
    except Wrong as wrong:
        print(name, str(wrong).replace(str(root), "ROOT"))


short = {name: made[name][:, :16] for name in ("input_ids", "input_mask", "segment_ids")}
fillers = put("masked_lm_positions", made["masked_lm_weights"] == 0, 31)
load("one-empty", made, {})
load("none", {})
load("whole-weights", {**made, "masked_lm_weights": made["masked_lm_weights"].astype(int)})
load("half-weights", {**made, "masked_lm_weights": made["masked_lm_weights"] / 2})
assert (load("fillers", fillers).parts[0]["positions"] == load("plain", made).parts[0]["positions"]).all()
load("mask", {**made, "input_mask": made["input_mask"][:, 1:]})
load("ids", {**made, "masked_lm_ids": made["masked_lm_ids"][:, 1:]})
load("lengths", made, {**made, **short, "masked_lm_weights": made["masked_lm_weights"] * 0})
load("label", put("next_sentence_labels", 0, 2))
load("hole", put("input_mask", (0, 3), 0))
load("nothing", put("input_mask", 0, 0))
load("weight", put("masked_lm_weights", (0, 0), np.nan))
load("position", put("masked_lm_positions", (0, 0), 31 if made["input_mask"][0, 31] == 0 else 32))
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))  # as on a disk that is full
try:
    sequences._decoded(root / "plain/0.tfrecord", root / "full")
except Wrong as wrong:
    print("full", str(wrong).replace(str(root), "ROOT"))
assert not list((root / "full").iterdir())
"""


def test_data_sets_that_are_odd_are_read_and_wrong_ones_are_one_sentence_each(tmp_path: Path) -> None:
    said = run("pytorch", "-c", DATA_SETS, tmp_path).splitlines()
    found = dict(line.split(" ", 1) for line in said)
    weight = float(found["plain"].split()[1])
    assert found["one-empty"] == found["whole-weights"] == found["fillers"] == f"8 {weight}"
    assert found["half-weights"] == f"8 {weight / 2}"
    assert found["none"].startswith("There is no TFRecord file with records in ROOT/none. ")
    assert found["full"].startswith("What is decoded of ROOT/plain/0.tfrecord cannot be written to ROOT/full: ")
    assert found["lengths"].startswith("The files hold sequences of 16 and 32 tokens. ")
    wrong = {
        "mask": "tokens, masks, segments and labels that do not fit together",
        "ids": "masked positions, ids and weights that do not fit together",
        "label": "masks, segments or labels other than 0 and 1",
        "hole": "an input_mask with a hole",
        "nothing": "an input_mask with a hole",
        "weight": "masked_lm_weights that are no weights",
        "position": "a masked position behind the end of its sequence",
    }
    for name, what in wrong.items():
        assert found[name] == f"ROOT/{name}/0.tfrecord has {what}. Make the file anew.", name


WITH_TENSORFLOW = """
import sys
import numpy as np, tensorflow as tf
sys.path.append(sys.argv[1])
import tfrecord
from pathlib import Path
ours, theirs = Path(sys.argv[2]), Path(sys.argv[3])
names = ["input_ids", "input_mask", "segment_ids", "next_sentence_labels",
         "masked_lm_positions", "masked_lm_ids", "masked_lm_weights"]
read = tfrecord.read(ours, names)
with tf.io.TFRecordWriter(str(theirs)) as writer:
    for row, raw in enumerate(tf.data.TFRecordDataset(str(ours))):
        example = tf.train.Example.FromString(raw.numpy())
        assert sorted(example.features.feature) == sorted(names)
        for name in names:
            feature = example.features.feature[name]
            values = (feature.float_list if name == "masked_lm_weights" else feature.int64_list).value
            assert (np.array(values) == read[name][row]).all(), (row, name)
        writer.write(example.SerializeToString())
assert row + 1 == len(read["input_ids"])
again = tfrecord.read(theirs, names)
assert all((again[name] == read[name]).all() for name in names)
print("the same")
"""


def test_masked_words_without_a_weight_give_no_accuracy_and_a_reason(data: Path, tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    (path,) = (data / "val").iterdir()
    found = tfrecord.read(path, NAMES)
    tfrecord.write(tmp_path / "val/none.tfrecord", {**found, "masked_lm_weights": np.zeros_like(found["masked_lm_weights"])})
    words = [f"--data_path={data}", f"--eval_data_dir={tmp_path}/val", "--batch_size=8", "--train_steps=2", "--eval_steps=1"]
    ((code, said),) = trainings(tmp_path, words)
    reason = "No masked word to evaluate with has a weight (masked_lm_weights): there is no accuracy\n"
    assert code == 0 and said.count("accuracy") == 1 and reason in said


def test_tensorflow_reads_what_we_write_and_the_other_way_round(data: Path, tmp_path: Path) -> None:
    said = run("tensorflow", "-c", WITH_TENSORFLOW, BERT, data / "val/eval_10k.tfrecord", tmp_path / "theirs.tfrecord")
    assert "the same" in said


def test_a_damaged_file_ends_a_training_with_2_and_one_line(data: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    subprocess.run(["cp", "-r", data, broken], check=True)
    victim = broken / "train/part-00001.tfrecord"
    content = bytearray(victim.read_bytes())
    content[1000] ^= 1
    victim.write_bytes(content)
    argv = [f"{programs('pytorch')}/python", str(BERT / "train.py"), f"--data_path={broken}", "--bert_network=tiny"]
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{victim}: damaged data in the record at byte ") and ended.stderr.count("\n") == 1
