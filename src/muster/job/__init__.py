"""The Job: its fields, how a job file is read and checked, its JSON Schema and its documentation."""

from muster.job.bench import Bench, Metric
from muster.job.data import Data
from muster.job.model import COMPATS, FIELDS, FRAMEWORKS, LAUNCHERS, PLACE, PORTS, SECRET_NAME, Job

__all__ = [
    "COMPATS",
    "FIELDS",
    "FRAMEWORKS",
    "LAUNCHERS",
    "PLACE",
    "PORTS",
    "SECRET_NAME",
    "Bench",
    "Data",
    "Job",
    "Metric",
]
