"""One module per framework, all behind the same few methods."""

from __future__ import annotations

from muster.job import Job
from muster.plan.frameworks.base import Framework
from muster.plan.frameworks.horovod import Horovod
from muster.plan.frameworks.mindspore import MindSpore
from muster.plan.frameworks.mpi import Mpi
from muster.plan.frameworks.paddle import Paddle
from muster.plan.frameworks.pytorch import PyTorch
from muster.plan.frameworks.tensorflow import TensorFlow

ALL = {
    "command": Framework(),  # any program, with the variables of every process alone
    "pytorch": PyTorch(),
    "mindspore": MindSpore(),
    "paddle": Paddle(),
    "tensorflow": TensorFlow(),
    "horovod": Horovod(),
    "mpi": Mpi(),
}


def of(job: Job) -> Framework:
    return ALL[job.framework]
