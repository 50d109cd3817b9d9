"""The checkpoint to start from: Hugging Face's names (PyTorch or safetensors), MindSpore's model zoo, or one of our own.

What a file is, is seen from its first bytes. Each weight of the network says which weights of the file it is made of; what the
file has besides (an optimizer's state, say) and what the network misses is told, not guessed.
"""

from __future__ import annotations

import json
import mmap
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import mindspore_ckpt

SAFETENSORS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}
SHOWN = 3  # names of each kind that are told
OTHERS = "name another with --load_checkpoint_path, or another --bert_network"
OF_WORDS = ("words", "word_bias")  # have a row for each word

QKV = ("query", "key", "value")
# Our names, and those of the weights that they are made of, one behind the other; {} is the number of the layer.
HUGGING_FACE = {
    "words": ["bert.embeddings.word_embeddings.weight"],
    "places": ["bert.embeddings.position_embeddings.weight"],
    "segments": ["bert.embeddings.token_type_embeddings.weight"],
    "embedding_norm": ["bert.embeddings.LayerNorm"],
    "layers.{}.qkv": [f"bert.encoder.layer.{{}}.attention.self.{part}" for part in QKV],
    "layers.{}.out": ["bert.encoder.layer.{}.attention.output.dense"],
    "layers.{}.attention_norm": ["bert.encoder.layer.{}.attention.output.LayerNorm"],
    "layers.{}.up": ["bert.encoder.layer.{}.intermediate.dense"],
    "layers.{}.down": ["bert.encoder.layer.{}.output.dense"],
    "layers.{}.norm": ["bert.encoder.layer.{}.output.LayerNorm"],
    "pooler": ["bert.pooler.dense"],
    "follows": ["cls.seq_relationship"],
    "transform": ["cls.predictions.transform.dense"],
    "transform_norm": ["cls.predictions.transform.LayerNorm"],
    "word_bias": ["cls.predictions.bias"],
}
MINDSPORE = {
    "words": ["bert.bert.bert_embedding_lookup.embedding_table"],
    "places": ["bert.bert.bert_embedding_postprocessor.full_position_embedding.embedding_table"],
    "segments": ["bert.bert.bert_embedding_postprocessor.token_type_embedding.embedding_table"],
    "embedding_norm": ["bert.bert.bert_embedding_postprocessor.layernorm"],
    "layers.{}.qkv": [f"bert.bert.bert_encoder.layers.{{}}.attention.attention.{part}_layer" for part in QKV],
    "layers.{}.out": ["bert.bert.bert_encoder.layers.{}.attention.output.dense"],
    "layers.{}.attention_norm": ["bert.bert.bert_encoder.layers.{}.attention.output.layernorm"],
    "layers.{}.up": ["bert.bert.bert_encoder.layers.{}.intermediate"],
    "layers.{}.down": ["bert.bert.bert_encoder.layers.{}.output.dense"],
    "layers.{}.norm": ["bert.bert.bert_encoder.layers.{}.output.layernorm"],
    "pooler": ["bert.bert.dense"],
    "follows": ["bert.cls2.dense"],
    "transform": ["bert.cls1.dense"],
    "transform_norm": ["bert.cls1.layernorm"],
    "word_bias": ["bert.cls1.output_bias"],
}
# The same weights under the names of other versions.
OTHER_NAMES = {
    "bert.bert.bert_embedding_postprocessor.full_position_embeddings": MINDSPORE["places"][0],
    "bert.bert.bert_embedding_postprocessor.embedding_table": MINDSPORE["segments"][0],
    "cls.predictions.decoder.bias": HUGGING_FACE["word_bias"][0],
}
TIED = ("cls.predictions.decoder.weight",)  # the table of words once more


class BadCheckpoint(ValueError):
    """A starting checkpoint that is none of this network."""


@dataclass(frozen=True)
class Taken:
    """What became of a starting checkpoint."""

    path: Path
    layout: str
    matched: int
    missing: Sequence[str]
    unused: Sequence[str]

    def __str__(self) -> str:
        words = [f"{self.path.name} ({self.layout}): {self.matched} weights taken"]
        words += [f"{len(self.missing)} not in it{_some(self.missing)}"] if self.missing else []
        words += [f"{len(self.unused)} of it without a place here{_some(self.unused)}"] if self.unused else []
        return "; ".join(words)


def take(path: Path, network: nn.Module, vocabulary: int) -> Taken:
    """Loads what there is for the network; weights of another size, or none at all, are an error."""
    found = read(path)
    layout, names = _layout(found)
    matched, missing, used = 0, [], set(TIED)
    with torch.no_grad():
        for ours, weight in network.named_parameters():
            theirs = source(ours, names)
            value = _joined([found.get(name) for name in theirs])
            if value is None:
                missing.append(ours)
                continue
            if ours in OF_WORDS:  # there may be some more that pad it, here and there
                value, weight = value[:vocabulary], weight[:vocabulary]
            if value.shape != weight.shape:
                sizes = f"{ours} is {_size(value)} there and {_size(weight)} here"
                raise BadCheckpoint(f"{path} is of another network: {sizes}; {OTHERS}")
            weight.copy_(value)
            used.update(theirs)
            matched += 1
    if not matched:
        raise BadCheckpoint(f"{path} holds no weights of this network; {OTHERS}")
    return Taken(path, layout, matched, missing, [name for name in found if name not in used])


def exported(network: nn.Module, vocabulary: int, names: Mapping[str, list[str]]) -> dict[str, Tensor]:
    """The weights of a network under the names of a layout."""
    out: dict[str, Tensor] = {}
    for ours, weight in network.named_parameters():
        theirs = source(ours, names)
        whole = weight[:vocabulary] if ours == "words" else weight
        out.update(zip(theirs, whole.detach().chunk(len(theirs))))
    return out


def source(ours: str, names: Mapping[str, list[str]]) -> list[str]:
    """The names in a file of the weights that one of ours is made of."""
    if not names:
        return [ours]
    number = re.search(r"\d+", ours)
    general = re.sub(r"\d+", "{}", ours)
    if general in names:
        return list(names[general])
    stem, _, kind = general.rpartition(".")
    if names is MINDSPORE and stem.endswith("norm"):
        kind = {"weight": "gamma", "bias": "beta"}[kind]
    return [f"{name.format(number.group() if number else '')}.{kind}" for name in names[stem]]


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, whatever wrote it."""
    try:
        with open(path, "rb") as file:
            head = file.read(9)
        if head[8:] == b"{":
            found = _safetensors(path)
        elif head[:1] == b"\n":
            found = mindspore_ckpt.read(path)
        else:
            found = _torch(path)
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read: {error.strerror}; look at --load_checkpoint_path") from None
    except (ValueError, RuntimeError, LookupError, EOFError, AttributeError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadCheckpoint(f"{path} is no checkpoint that can be read ({reason}); copy it again") from None
    return {_today(name): tensor for name, tensor in found.items()}


def _torch(path: Path) -> dict[str, Tensor]:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    for inside in ("model", "state_dict"):
        loaded = loaded.get(inside, loaded)
    return {name: value for name, value in loaded.items() if isinstance(value, Tensor)}


def _safetensors(path: Path) -> dict[str, Tensor]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = 8 + int.from_bytes(data[:8], "little")
        found = {}
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__" and entry["dtype"] in SAFETENSORS:
                first, last = (start + offset for offset in entry["data_offsets"])
                tensor = torch.frombuffer(bytearray(data[first:last]), dtype=SAFETENSORS[entry["dtype"]])
                found[name] = tensor.reshape(entry["shape"])
    return found


def _today(name: str) -> str:
    """The name of today's version; Hugging Face's oldest files call the weights of norms gamma and beta."""
    if "LayerNorm." in name:
        name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
    return OTHER_NAMES.get(name, name)


def _layout(found: Mapping[str, Tensor]) -> tuple[str, Mapping[str, list[str]]]:
    if HUGGING_FACE["words"][0] in found:
        return "Hugging Face's names", HUGGING_FACE
    if MINDSPORE["words"][0] in found:
        return "MindSpore's names", MINDSPORE
    return "our names", {}


def _joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return torch.cat(there) if len(there) == len(parts) else None


def _size(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape))


def _some(names: Sequence[str]) -> str:
    return f" ({', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''})"
