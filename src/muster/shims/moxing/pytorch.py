"""`import moxing.pytorch as mox`: the name under which scripts for PyTorch import MoXing."""

from .framework import file, training

__all__ = ["file"]

__getattr__ = training.explain
