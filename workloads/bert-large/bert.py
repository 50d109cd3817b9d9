"""BERT for pre-training: the encoder of the paper (post-norm), masked words and next sentences, and both losses.

The tokens of a batch lie in one flat row, so that sequences may be padded to one length or packed without any padding: only
attention looks at where a sequence begins and ends. Weights are kept in the type in which they are trained and multiplied in
that of the activations, which are bfloat16 where that is asked for; norms and losses are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 128  # the vocabulary is padded to a multiple of this, which is what the tensor cores like
NEVER = -10_000.0  # the logit of a word that does not exist
EPSILON = 1e-12
INITIAL_DEVIATION = 0.02


@dataclass(frozen=True)
class Size:
    """How large a network is."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int = 30522
    positions: int = 512

    @property
    def rows(self) -> int:
        """Of the table of words, with those that pad it."""
        return math.ceil(self.vocabulary / ROWS) * ROWS


NETWORKS = {"large": Size(24, 1024, 16), "base": Size(12, 768, 12), "tiny": Size(2, 64, 2, 256, 64)}
NETWORKS.update(large_acc=NETWORKS["large"], large_boost=NETWORKS["large"])  # as AISBench and its model zoo call them


class Batch(NamedTuple):
    """Sequences as the network takes them; a place is an index into the flat row of tokens."""

    tokens: Tensor  # of all sequences
    segments: Tensor  # 0 or 1 for each token
    first: Tensor  # the place of each sequence's first token
    follows: Tensor  # of each sequence: 0 when its second part follows the first, 1 when it does not
    masked: Tensor  # the places of the masked tokens
    targets: Tensor  # what stood there
    weights: Tensor  # 1, or 0 for those that only fill up
    share: Tensor  # of one masked token in the loss: one through their number in the global batch, times its parts
    lengths: Tensor | None = None  # of padded sequences; none where all are full
    positions: Tensor | None = None  # packed: of each token within its sequence
    bounds: Tensor | None = None  # packed: where each sequence begins, and the end

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> Batch:
        """A batch of tensors alone: full sequences have 8, padded ones their lengths too, packed ones positions and bounds."""
        rest = [None, *tensors[8:]] if len(tensors) == 10 else tensors[8:]
        return cls(*tensors[:8], *rest)


class Linear(nn.Linear):
    """Multiplies in the type of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class Norm(nn.LayerNorm):
    """Computes in float32, whatever comes in."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden, eps=EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        normal = F.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps)
        return normal.to(x.dtype)


class Layer(nn.Module):
    """Attention and two dense layers, each added to what it was given and then normalised."""

    def __init__(self, size: Size, dropout: float, attention_dropout: float, gelu: str) -> None:
        super().__init__()
        self.heads, self.dropout, self.attention_dropout, self.gelu = size.heads, dropout, attention_dropout, gelu
        self.qkv = Linear(size.hidden, 3 * size.hidden)
        self.out = Linear(size.hidden, size.hidden)
        self.attention_norm = Norm(size.hidden)
        self.up = Linear(size.hidden, 4 * size.hidden)
        self.down = Linear(4 * size.hidden, size.hidden)
        self.norm = Norm(size.hidden)

    def forward(self, x: Tensor, sequences: int, mask: Tensor | None, bounds: Tensor | None, longest: int) -> Tensor:
        qkv = self.qkv(x).view(len(x), 3, self.heads, -1)
        dropout = self.attention_dropout if self.training else 0.0
        if bounds is None:
            attended = attend_padded(qkv, sequences, mask, dropout)
        else:
            attended = attend_packed(qkv, bounds, longest, dropout)
        x = self.attention_norm(x + F.dropout(self.out(attended), self.dropout, self.training))
        inner = F.gelu(self.up(x), approximate=self.gelu)
        return self.norm(x + F.dropout(self.down(inner), self.dropout, self.training))


def attend_padded(qkv: Tensor, sequences: int, mask: Tensor | None, dropout: float) -> Tensor:
    """Sequences of one length; without a mask any fused kernel serves."""
    q, k, v = qkv.unflatten(0, (sequences, -1)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout).transpose(1, 2).reshape(len(qkv), -1)


def attend_packed(qkv: Tensor, bounds: Tensor, longest: int, dropout: float) -> Tensor:
    """Sequences of any length, one behind the other: the flash kernel on GPUs, a mask for all pairs of tokens elsewhere."""
    q, k, v = qkv.unbind(1)
    if qkv.is_cuda:
        # The public varlen_attn has no dropout.
        flash = torch.ops.aten._flash_attention_forward
        return flash(q, k, v, bounds, bounds, longest, longest, dropout, False, False)[0].flatten(1)
    of = torch.bucketize(torch.arange(len(qkv), device=qkv.device), bounds, right=True)
    q, k, v = (part.transpose(0, 1)[None] for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, of[:, None] == of, dropout)[0].transpose(0, 1).flatten(1)


class Bert(nn.Module):
    """The whole network; called with a batch it gives the sum of both losses."""

    def __init__(
        self,
        size: Size,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        gelu: str = "tanh",
        activations: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.size, self.dropout, self.gelu, self.activations = size, dropout, gelu, activations
        self.words = nn.Parameter(torch.empty(size.rows, size.hidden))
        self.places = nn.Parameter(torch.empty(size.positions, size.hidden))
        self.segments = nn.Parameter(torch.empty(2, size.hidden))
        self.embedding_norm = Norm(size.hidden)
        self.layers = nn.ModuleList(Layer(size, dropout, attention_dropout, gelu) for _ in range(size.layers))
        self.pooler = Linear(size.hidden, size.hidden)
        self.follows = Linear(size.hidden, 2)
        self.transform = Linear(size.hidden, size.hidden)
        self.transform_norm = Norm(size.hidden)
        self.word_bias = nn.Parameter(torch.zeros(size.vocabulary))
        self.initialise()

    def initialise(self) -> None:
        """As the paper's code does: small normal weights, cut off at two deviations; no biases."""
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                bound = 2 * INITIAL_DEVIATION
                nn.init.trunc_normal_(parameter, std=INITIAL_DEVIATION, a=-bound, b=bound)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, *tensors: Tensor) -> Tensor:
        batch = Batch.of(tensors)
        words, follows = self.logits(batch)
        of_words = F.cross_entropy(words, batch.targets, reduction="none")
        return (of_words * batch.weights).sum() * batch.share + F.cross_entropy(follows, batch.follows)

    def hits(self, *tensors: Tensor) -> Tensor:
        """The weight of the masked words that are found, and of all."""
        batch = Batch.of(tensors)
        words, _ = self.logits(batch)
        found = (words.argmax(1) == batch.targets) * batch.weights
        return torch.stack([found.sum(), batch.weights.sum()])

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of all words for each masked token, and of the next sentence for each sequence."""
        x = self.encode(batch)
        pooled = torch.tanh(self.pooler(x[batch.first]))
        masked = F.gelu(self.transform(x[batch.masked]), approximate=self.gelu)
        bias = F.pad(self.word_bias.float(), (0, self.size.rows - self.size.vocabulary), value=NEVER)
        words = F.linear(self.transform_norm(masked), self.words.to(x.dtype)).float() + bias
        return words, self.follows(pooled).float()

    def encode(self, batch: Batch) -> Tensor:
        sequences, mask = len(batch.first), None
        longest = self.size.positions if batch.bounds is not None else len(batch.tokens) // sequences
        if batch.lengths is not None:
            inside = torch.arange(longest, device=batch.tokens.device) < batch.lengths[:, None]
            mask = inside[:, None, None, :]
        x = self.embed(batch, sequences, longest)
        for layer in self.layers:
            x = layer(x, sequences, mask, batch.bounds, longest)
        return x

    def embed(self, batch: Batch, sequences: int, longest: int) -> Tensor:
        """Word, position and segment; the last two as sums, whose gradients need no scattering where none is needed."""
        x = F.embedding(batch.tokens, self.words)
        if batch.positions is None:
            x = (x.view(sequences, longest, -1) + self.places[:longest]).flatten(0, 1)
        else:
            x = x + F.embedding(batch.positions, self.places)
        second = batch.segments[:, None].to(x.dtype)
        x = x + self.segments[0] + second * (self.segments[1] - self.segments[0])
        return F.dropout(self.embedding_norm(x).to(self.activations), self.dropout, self.training)
