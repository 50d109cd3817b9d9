"""The Job: its fields, how a job file is read and checked, its JSON Schema and its documentation."""

from muster.job.model import CAUSES, FIELDS, FRAMEWORKS, PLACE, PORTS, Job

__all__ = ["CAUSES", "FIELDS", "FRAMEWORKS", "PLACE", "PORTS", "Job"]
