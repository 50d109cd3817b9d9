"""The boot file of a job that runs Muster's agent: it finds a Python 3.9 or newer, and goes on as the agent beside it.

The service starts it with the Python of the engine, which may be as old as 3.7.
"""

import os
import shutil
import subprocess
import sys

NAMES = ["python3", *(f"python3.{minor}" for minor in range(14, 8, -1)), "/usr/bin/python3", "/usr/local/bin/python3"]
ADVICE = "choose an engine with a newer one, or a custom image that has one on its PATH (`modelarts: {image: ...}`)"
ASK = "import sys; print(sys.version_info >= (3, 9))"


def new_enough(python: str) -> bool:
    """True for a Python 3.9 or newer."""
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run([python, "-I", "-S", "-c", ASK], stdout=subprocess.PIPE, stderr=nothing, stdin=nothing)
    except OSError:
        return False
    return done.stdout.strip() == b"True"


def main() -> None:
    agent = os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.pyz")
    engine = os.path.dirname(sys.executable)  # the Python of programs that name none, whatever that of the agent is
    variables = dict(os.environ, PATH=os.pathsep.join([engine, os.environ.get("PATH", os.defpath)]))
    for python in filter(None, [sys.executable, *map(shutil.which, NAMES)]):
        if new_enough(python):
            os.execve(python, [python, "-I", agent, "engine", "modelarts", "inside", *sys.argv[1:]], variables)
    own = ".".join(map(str, sys.version_info[:2]))
    sys.exit(f"muster: Muster's agent needs Python 3.9 or newer, and there is none beside this Python {own}; {ADVICE}")


if __name__ == "__main__":
    main()
