"""Starts or stops the training job of this package, with the options that AISBench's script has."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys

BASE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Start or stop the training job of this package.")
    parser.add_argument("--local_code_path", help="the training code (default: code/code of the package)")
    parser.add_argument("--single_server_mode", action="store_true", help="every server trains alone")
    parser.add_argument("--action", choices=["run", "stop"], default="run")
    parser.add_argument("--modelarts_version", choices=["V1", "V2"], help="default: what config.sh says, else V1")
    parser.add_argument("--job_id", default="", help="with --action stop: the job that the run printed")
    return parser.parse_args()


def muster() -> list[str]:
    """The command of Muster: $MUSTER, `muster` on the PATH, or a module of some Python."""
    words = shlex.split(os.environ.get("MUSTER", ""))
    if words and shutil.which(words[0]) is None:
        sys.exit(f"MUSTER names {words[0]}, which cannot be run. Set it to the command of Muster, or unset it.")
    if words:
        return words
    if shutil.which("muster"):
        return ["muster"]
    for python in (sys.executable, "python3"):
        if python and subprocess.call([python, "-c", "import muster.cli"], stderr=subprocess.DEVNULL) == 0:
            return [python, "-m", "muster"]
    sys.exit("Muster is not installed. Run `pip install .` in a checkout of it, or set MUSTER to its command.")


def main() -> None:
    args = options()
    chosen = {
        "version": args.modelarts_version or "",
        "single": args.single_server_mode,
        "code": os.path.abspath(args.local_code_path) if args.local_code_path else "",
    }
    step = " ".join(shlex.quote(word) for word in (args.action, json.dumps(chosen), args.job_id))
    command = [*muster(), "pack", BASE, "--start", step]
    sys.stdout.flush()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
