"""ResNet v1.5 for MindSpore's graph mode: the stride in the 3×3 convolutions, the last norm of a block starts at zero.

`depth` 50, 101 and 152 are those of the paper; 26 and 14 have two blocks and one in each stage. Images come as bytes and are
normalised on the device.
"""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.common.initializer import HeNormal, Normal, initializer

from common.labels import Wrong

BLOCKS = {14: (1, 1, 1, 1), 26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
EXPANSION = 4
MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
KEPT, EPSILON = 0.9, 1e-5  # how much of the running statistics stays at each step


class GhostNorm(nn.Cell):
    """Batch norm over each of `groups` equal parts of the batch, so that statistics do not depend on how many ranks share it.

    A group is a set of channels to the kernel; running statistics are kept for each, and their mean counts.
    """

    def __init__(self, channels: int, groups: int, gamma: str = "ones") -> None:
        super().__init__()
        self.channels, self.groups = channels, groups
        self.gamma = ms.Parameter(initializer(gamma, channels), name="gamma")
        self.beta = ms.Parameter(initializer("zeros", channels), name="beta")
        self.moving_mean = ms.Parameter(initializer("zeros", channels * groups), name="mean", requires_grad=False)
        self.moving_variance = ms.Parameter(initializer("ones", channels * groups), name="variance", requires_grad=False)
        self.train = ops.BatchNorm(is_training=True, epsilon=EPSILON, momentum=1 - KEPT)
        self.infer = ops.BatchNorm(is_training=False, epsilon=EPSILON)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        if not self.training:
            mean = self.moving_mean.reshape(self.groups, self.channels).mean(0)
            variance = self.moving_variance.reshape(self.groups, self.channels).mean(0)
            return self.infer(x, self.gamma, self.beta, mean, variance)[0]
        batch, channels, height, width = x.shape
        parts = x.reshape(self.groups, -1, channels, height * width).transpose(1, 0, 2, 3)
        gamma, beta = ops.tile(self.gamma, (self.groups,)), ops.tile(self.beta, (self.groups,))
        parts = parts.reshape(-1, self.groups * channels, height, width)
        normal = self.train(parts, gamma, beta, self.moving_mean, self.moving_variance)[0]
        normal = normal.reshape(-1, self.groups, channels, height * width).transpose(1, 0, 2, 3)
        return normal.reshape(batch, channels, height, width)


class Bottleneck(nn.Cell):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut."""

    def __init__(self, entering: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        leaving = width * EXPANSION
        self.narrow, self.narrow_norm = _convolution(entering, width, 1), _norm(width, groups)
        self.middle, self.middle_norm = _convolution(width, width, 3, stride), _norm(width, groups)
        self.wide, self.wide_norm = _convolution(width, leaving, 1), _norm(leaving, groups, "zeros")
        self.shortcut = nn.SequentialCell()
        if stride != 1 or entering != leaving:
            self.shortcut = nn.SequentialCell(_convolution(entering, leaving, 1, stride), _norm(leaving, groups))

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        y = ops.relu(self.narrow_norm(self.narrow(x)))
        y = ops.relu(self.middle_norm(self.middle(y)))
        return ops.relu(self.wide_norm(self.wide(y)) + self.shortcut(x))


class ResNet(nn.Cell):
    """Classes of images; images of at most 64 pixels have the stem that is usual for CIFAR-10: 3×3, and no pooling."""

    def __init__(self, classes: int, size: int, depth: int = 50, width: int = 64, groups: int = 1) -> None:
        super().__init__()
        if depth not in BLOCKS:
            raise Wrong(f"There is no ResNet of depth {depth}. Take one of {', '.join(map(str, BLOCKS))}.")
        self.mean, self.deviation = _channels(MEAN), _channels(DEVIATION)
        self.stem, self.stem_norm = _convolution(3, width, *((3, 1) if size <= 64 else (7, 2))), _norm(width, groups)
        self.pool = nn.SequentialCell() if size <= 64 else nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        stages, entering = [], width
        for stage, blocks in enumerate(BLOCKS[depth]):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                stages.append(Bottleneck(entering, width << stage, stride, groups))
                entering = (width << stage) * EXPANSION
        self.stages = nn.SequentialCell(stages)
        self.head = nn.Dense(entering, classes, weight_init=Normal(0.01), bias_init="zeros")

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        x = (images.astype(ms.float32) - self.mean) / self.deviation
        x = self.pool(ops.relu(self.stem_norm(self.stem(x))))
        return self.head(self.stages(x).mean((2, 3)))


def _convolution(entering: int, leaving: int, kernel: int, stride: int = 1) -> nn.Cell:
    he = HeNormal(mode="fan_out", nonlinearity="relu")
    return nn.Conv2d(entering, leaving, kernel, stride, pad_mode="pad", padding=kernel // 2, has_bias=False, weight_init=he)


def _norm(channels: int, groups: int, gamma: str = "ones") -> nn.Cell:
    if groups > 1:
        return GhostNorm(channels, groups, gamma)
    return nn.BatchNorm2d(channels, EPSILON, KEPT, gamma_init=gamma)


def _channels(values: tuple[float, ...]) -> ms.Tensor:
    return ms.Tensor(np.array(values, np.float32).reshape(1, 3, 1, 1))
