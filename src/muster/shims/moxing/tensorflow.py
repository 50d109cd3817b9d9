"""`import moxing.tensorflow as mox`: the name under which scripts for TensorFlow import MoXing."""

from .framework import file, training

__all__ = ["file"]

__getattr__ = training.explain
