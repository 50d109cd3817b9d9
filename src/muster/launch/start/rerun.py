"""Running a recorded job again, with the code as it was recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from muster.job.load import load
from muster.launch.run import Run
from muster.launch.start import snapshot
from muster.launch.start.prepare import Prepared
from muster.launch.start.prepare import prepare as prepare_job
from muster.records.files import read_object


def prepare(run: Run, set: Sequence[str] = ()) -> Prepared:
    """Prepares the recorded job of a run with its recorded code, and `name=value` overrides."""
    place, record = run.dir.home, read_object(run.dir.run)
    digest = str(record.get("code"))
    code = os.path.realpath(snapshot.folder(place, digest))
    loaded = load(replace(run.job, code=code), set, name=run.id)
    if loaded.job.code == code and not snapshot.intact(place, digest):
        message = f"names {code}, whose files are not the recorded ones any more"
        hint = "start the job from its own code with `muster run`, or add `--set code=DIR`"
        loaded = loaded.with_findings([("code", message, hint)])
    prepared = prepare_job(loaded, place, record.get("engine", "local"))
    if prepared.job.code != code:  # an override names other code
        return prepared
    return replace(prepared, job=replace(prepared.job, code=run.job.code))  # the record names where the code came from
