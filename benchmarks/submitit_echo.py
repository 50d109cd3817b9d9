"""Echoes a word in several processes through submitit's local executor; prints each job's output once it is done.

Run by launch.py with the interpreter of the peers' environment: submitit_echo.py FOLDER WORD JOBS.
"""

import importlib
import subprocess
import sys
from typing import Any


def echo(word: str) -> None:
    subprocess.run(["echo", word], check=True)


def main(folder: str, word: str, jobs: int) -> None:
    # Imported by name: the type checker runs where the peers are not installed.
    submitit: Any = importlib.import_module("submitit")
    executor = submitit.LocalExecutor(folder=folder)
    submitted = executor.map_array(echo, [word] * jobs)
    # Job.result() looks once a second; looking more often is submitit at its best.
    for job in submitit.helpers.as_completed(submitted, poll_frequency=0.01):
        job.result()
        for line in job.stdout().splitlines():
            if line == word:
                print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
