"""The checkpoint that BERT starts from: Hugging Face's names and MindSpore's, in files of all three kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from bert_programs import data as data
from bert_programs import run, trainings

pytestmark = pytest.mark.timeout(300)
TAKES = """
import json, sys
import torch
from pathlib import Path
import mindspore_ckpt
from bert import NETWORKS, Bert, Size
from checkpoint_in import HUGGING_FACE, MINDSPORE, BadCheckpoint, exported, take

folder, size = Path(sys.argv[1]), NETWORKS["tiny"]
torch.manual_seed(7)
model = Bert(size)
with torch.no_grad():
    for weight in model.parameters():
        weight.uniform_()
hugging_face = exported(model, size.vocabulary, HUGGING_FACE)
assert hugging_face["bert.encoder.layer.1.attention.self.key.weight"].shape == (64, 64)
assert hugging_face["bert.embeddings.word_embeddings.weight"].shape == (256, 64)


def safetensors(path, tensors):
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        content = tensor.contiguous().numpy().tobytes()
        head[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def old(name):  # as in the first files of Hugging Face
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def r1_3(name):  # as the model zoo had them before
    name = name.replace("full_position_embedding.embedding_table", "full_position_embeddings")
    return name.replace("token_type_embedding.embedding_table", "embedding_table")


def check(name, without=(), besides=0):
    other = Bert(size)
    taken = take(folder / name, other, size.vocabulary)
    assert sorted(taken.missing) == sorted(without) and len(taken.unused) == besides, taken
    for (name, mine), theirs in zip(other.named_parameters(), model.parameters()):
        rows = size.vocabulary if name == "words" else len(mine)
        assert (name in without) or torch.equal(mine[:rows], theirs[:rows]), name
    return str(taken)


words, bias = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
padded = {words: torch.cat([hugging_face[words], torch.zeros(8, 64)]), bias: torch.cat([hugging_face[bias], torch.zeros(8)])}
torch.save({**hugging_face, **padded}, folder / "a.bin")
check("a.bin")
more = {**{old(name): tensor for name, tensor in hugging_face.items()}, "cls.predictions.decoder.weight": torch.zeros(256, 64),
        "optimizer.something": torch.zeros(3)}
more.pop("bert.pooler.dense.weight")
safetensors(folder / "b.safetensors", more)
print(check("b.safetensors", ["pooler.weight"], 1))
mindspore = exported(model, size.vocabulary, MINDSPORE)
mindspore_ckpt.SLICE = 4096  # large tensors stand in several entries
earlier = {r1_3(name): tensor for name, tensor in mindspore.items()}
mindspore_ckpt.write(folder / "c.ckpt", {**earlier, "lamb_m.bert": torch.ones(2, 2)})
with open(folder / "c.ckpt", "ab") as file:
    file.write(b"crc_num" + bytes(10))
print(check("c.ckpt", besides=1))
torch.save({"model": model.state_dict(), "step": 3}, folder / "d.pt")
print(check("d.pt"))
torch.save({"weight": torch.ones(2)}, folder / "e.pt")
(folder / "f.ckpt").write_bytes(b"\\n" + bytes([200] * 50))
(folder / "g.ckpt").write_bytes(b"hello")
for name, whole in (("h.bin", "a.bin"), ("i.safetensors", "b.safetensors"), ("j.ckpt", "c.ckpt")):
    (folder / name).write_bytes((folder / whole).read_bytes()[:-1000])
wider = Bert(Size(2, 128, 2, 256, 64))
wrong = {"e.pt", "f.ckpt", "g.ckpt", "none.ckpt", "h.bin", "i.safetensors", "j.ckpt"}
for name, network in [*((name, Bert(size)) for name in sorted(wrong)), ("c.ckpt", wider)]:
    try:
        take(folder / name, network, size.vocabulary)
    except BadCheckpoint as error:
        print(error)
    else:
        raise SystemExit(name)
"""


def test_weights_are_found_in_files_of_every_kind_and_what_does_not_fit_is_told(tmp_path: Path) -> None:
    said = run("pytorch", "-c", TAKES, tmp_path)
    assert (
        "b.safetensors (Hugging Face's names): 37 weights taken; 1 not in it (pooler.weight); 1 of it without a place here "
        "(optimizer.something)\n" in said
    )
    assert "c.ckpt (MindSpore's names): 38 weights taken; 1 of it without a place here (lamb_m.bert)\n" in said
    assert "d.pt (our names): 38 weights taken\n" in said
    assert f"{tmp_path}/e.pt holds no weights of this network; " in said
    assert said.count("is no checkpoint that can be read") == 5 and said.count("\n") == 11
    assert f"{tmp_path}/c.ckpt is of another network: words is 256 × 64 there and 256 × 128 here; " in said
    assert f"{tmp_path}/none.ckpt cannot be read: No such file or directory; " in said


WITH_MINDSPORE = """
import sys
import numpy as np, mindspore as ms
given, made = sys.argv[1:]
tensors = ms.load_checkpoint(given)
assert tensors["bert.bert.bert_encoder.layers.1.attention.attention.query_layer.weight"].shape == (64, 64)
half = "bert.bert.dense.weight"
tensors[half] = ms.Parameter(ms.Tensor(tensors[half].asnumpy(), ms.float16))
tensors["global_step"] = ms.Parameter(ms.Tensor(7, ms.int32))
ms.save_checkpoint([{"name": name, "data": tensor} for name, tensor in tensors.items()], made, crc_check=True)
"""
COMPARES = """
import sys
import torch, mindspore_ckpt
given, made = (mindspore_ckpt.read(path) for path in sys.argv[1:])
assert list(given) == list(made) and len(given) == 46
half = "bert.bert.dense.weight"
assert made[half].dtype == torch.float16 and torch.equal(made[half], given[half].half())
assert all(torch.equal(made[name], given[name]) for name in given if name != half)
"""


def test_mindspore_loads_what_we_write_and_the_other_way_round(data: Path, tmp_path: Path) -> None:
    given, made = data / "ms_bert_large.ckpt", tmp_path / "made.ckpt"
    run("mindspore", "-c", WITH_MINDSPORE, given, made)
    run("pytorch", "-c", COMPARES, given, made)


def test_our_own_checkpoint_is_a_start_too(data: Path, tmp_path: Path) -> None:
    short = [f"--data_path={data}", "--batch_size=16", "--train_steps=2"]
    made = tmp_path / "0/checkpoints/checkpoint-000000002.pt"
    _, (code, said) = trainings(tmp_path, [*short, "--save_checkpoint_steps=2"], [*short, f"--load_checkpoint_path={made}"])
    assert code == 0 and "checkpoint-000000002.pt (our names): 38 weights taken\n" in said
