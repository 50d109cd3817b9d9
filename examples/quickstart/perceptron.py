"""A classifier with one hidden layer: its numbers, its predictions and the gradient of its loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.uint8]

PIXELS = 64
CLASSES = 10


class Layers(NamedTuple):
    """Named views of one flat vector, so that all layers travel between ranks in one message."""

    hidden_weights: Floats
    hidden_bias: Floats
    output_weights: Floats
    output_bias: Floats


def count_parameters(hidden: int) -> int:
    return PIXELS * hidden + hidden + hidden * CLASSES + CLASSES


def view_layers(flat: Floats, hidden: int) -> Layers:
    ends = np.cumsum([PIXELS * hidden, hidden, hidden * CLASSES])
    first, second, third, fourth = np.split(flat, ends)
    return Layers(first.reshape(PIXELS, hidden), second, third.reshape(hidden, CLASSES), fourth)


def draw_parameters(hidden: int, generator: np.random.Generator) -> Floats:
    flat = np.zeros(count_parameters(hidden))
    layers = view_layers(flat, hidden)
    layers.hidden_weights[:] = generator.normal(0, np.sqrt(2 / PIXELS), layers.hidden_weights.shape)
    layers.output_weights[:] = generator.normal(0, np.sqrt(2 / hidden), layers.output_weights.shape)
    return flat


def measure_accuracy(layers: Layers, images: Floats, labels: Labels) -> float:
    hidden = activate_hidden(layers, images)
    guesses = np.argmax(hidden @ layers.output_weights + layers.output_bias, axis=1)
    return float(np.mean(guesses == labels))


def write_gradient(gradient: Layers, layers: Layers, images: Floats, labels: Labels) -> float:
    """Fill `gradient` and return the loss (cross-entropy), both summed, not averaged, over the images given."""
    rows = np.arange(len(labels))
    hidden = activate_hidden(layers, images)
    probabilities = softmax(hidden @ layers.output_weights + layers.output_bias)
    loss = -float(np.log(probabilities[rows, labels] + 1e-12).sum())

    output_error = probabilities
    output_error[rows, labels] -= 1
    hidden_error = (output_error @ layers.output_weights.T) * (hidden > 0)
    gradient.output_weights[:] = hidden.T @ output_error
    gradient.output_bias[:] = output_error.sum(axis=0)
    gradient.hidden_weights[:] = images.T @ hidden_error
    gradient.hidden_bias[:] = hidden_error.sum(axis=0)
    return loss


def activate_hidden(layers: Layers, images: Floats) -> Floats:
    return np.maximum(images @ layers.hidden_weights + layers.hidden_bias, 0)


def softmax(scores: Floats) -> Floats:
    powers: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers
