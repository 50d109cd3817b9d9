"""The run directory: its layout, its files, its states and its logs. Every tool sees a run through this room."""

from muster.runs.layout import RunDir, home, make_home, run_dir, runs_dir

__all__ = ["RunDir", "home", "make_home", "run_dir", "runs_dir"]
