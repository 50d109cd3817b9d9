"""`import moxing.pytorch as mox`: the name under which scripts for PyTorch import MoXing."""

from .framework import file
from .framework.training import explain as __getattr__

__all__ = ["file"]
