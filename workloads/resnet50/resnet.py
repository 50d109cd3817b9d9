"""ResNet v1.5 (He et al. 2015, the stride in the 3×3 convolution): takes batches of uint8 images, height × width × colour."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from common.labels import Wrong

BLOCKS = {14: (1, 1, 1, 1), 26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
SMALL = 32  # images up to this size, as CIFAR-10 has, are not reduced by the stem
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
MOMENTUM = 0.1  # the part of a step in running statistics


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1, and around them the identity or a projection; starts as the identity."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        nn.init.zeros_(self.norm3.weight)
        self.around = nn.Sequential()
        if stride > 1 or channels != out:
            self.around = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.norm1(self.conv1(x)))
        inner = functional.relu(self.norm2(self.conv2(inner)))
        return functional.relu(self.norm3(self.conv3(inner)) + self.around(x))


class ResNet(nn.Module):
    """`depth` 50 and `width` 64 are the ResNet-50 of the field; smaller ones have the same code."""

    def __init__(self, classes: int, depth: int = 50, width: int = 64, image_size: int = 224) -> None:
        super().__init__()
        if depth not in BLOCKS:
            raise Wrong(f"There is no ResNet of depth {depth}. Take one of {', '.join(map(str, BLOCKS))}.")
        self.small = image_size <= SMALL
        size = {"kernel_size": 3, "padding": 1} if self.small else {"kernel_size": 7, "stride": 2, "padding": 3}
        self.conv, self.norm = nn.Conv2d(3, width, bias=False, **size), nn.BatchNorm2d(width)
        stages, channels = [], width
        for stage, count in enumerate(BLOCKS[depth]):
            for block in range(count):
                stages.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
                channels = 4 * (width << stage)
        self.blocks = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)
        self.register_buffer("mean", 255 * torch.tensor(MEAN), persistent=False)
        self.register_buffer("scale", 1 / (255 * torch.tensor(DEVIATION)), persistent=False)
        self._initialise()

    def remember(self, passes: int) -> None:
        """Lets running statistics span the same number of steps, into however many passes a step is cut."""
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 1 - (1 - MOMENTUM) ** (1 / passes)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(self.norm(self._first((images - self.mean) * self.scale)))
        if not self.small:
            x = functional.max_pool2d(x, 3, 2, 1)
        scores: Tensor = self.head(self.blocks(x).mean((2, 3)))
        return scores

    def _first(self, images: Tensor) -> Tensor:
        """The first convolution, of images whose colours are still the last dimension: in memory that is channels-last.

        Kernels for many channels are slow at 3 colours. So it sees blocks of 2×2 pixels as 12 colours, which computes the same.
        """
        count, height, width, colours = images.shape
        if self.small or height % 2 or width % 2:
            first: Tensor = self.conv(images.permute(0, 3, 1, 2))
            return first
        folded = images.view(count, height // 2, 2, width // 2, 2, colours).permute(0, 1, 3, 2, 4, 5)
        folded = folded.reshape(count, height // 2, width // 2, 4 * colours)
        folded = functional.pad(folded, (0, 0, 2, 1, 2, 1)).permute(0, 3, 1, 2)
        # 7×7 with a row and a column of zeros in front is 8×8: 4×4 blocks of 2×2
        weight = functional.pad(self.conv.weight, (1, 0, 1, 0)).view(-1, colours, 4, 2, 4, 2)
        weight = weight.permute(0, 3, 5, 1, 2, 4).reshape(-1, 4 * colours, 4, 4)
        return functional.conv2d(folded, weight)
