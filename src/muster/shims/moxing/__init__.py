"""MoXing as scripts for ModelArts know it, outside of that cloud: `moxing.file`, on obs://, s3:// and local paths alike.

Standard library alone, for any Python from 3.6 on: it runs in the Python of the job. The transfers are done by Muster's storage
server, over a local socket; this process never sees a key to a store.
"""

import sys

from .framework import file

__all__ = ["file"]

_package = sys.modules[__name__]
sys.modules[__name__ + ".file"] = file
for _name in ("mxnet", "pytorch", "tensorflow"):  # scripts for these frameworks write `import moxing.pytorch as mox`
    sys.modules[f"{__name__}.{_name}"] = _package
    setattr(_package, _name, _package)


def __getattr__(name: str) -> object:
    """Raises AttributeError for a name of MoXing's training API, and says what there is instead."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"moxing.{name} belongs to MoXing's training API, which Muster does not have; it offers moxing.file, and runs"
        " programs that are written for PyTorch, MindSpore, TensorFlow, PaddlePaddle or Horovod themselves"
    )
