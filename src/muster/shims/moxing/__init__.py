"""MoXing as scripts for ModelArts know it, outside of that cloud: `moxing.file`, on obs://, s3:// and local paths alike.

Standard library alone, for any Python from 3.6 on: it runs in the Python of the job. The transfers are done by Muster's storage
server, over a local socket; this process never sees a key to a store.
"""

import sys

from .framework import file, training

__all__ = ["file"]

__getattr__ = training.explain
sys.modules[__name__ + ".file"] = file
