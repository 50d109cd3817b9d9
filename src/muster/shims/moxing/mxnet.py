"""`import moxing.mxnet as mox`: the name under which scripts for MXNet import MoXing."""

from .framework import file, training

__all__ = ["file"]

__getattr__ = training.explain
