"""`import moxing.tensorflow as mox`: the name under which scripts for TensorFlow import MoXing."""

from .framework import file
from .framework.training import explain as __getattr__

__all__ = ["file"]
