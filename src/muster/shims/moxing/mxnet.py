"""`import moxing.mxnet as mox`: the name under which scripts for MXNet import MoXing."""

from .framework import file
from .framework.training import explain as __getattr__

__all__ = ["file"]
