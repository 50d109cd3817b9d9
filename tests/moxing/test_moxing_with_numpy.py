"""File objects in the hands of a library that looks closely at what it is given."""

from __future__ import annotations

from pathlib import Path

import numpy
from clients import place_shim, serving

from muster.storage import Settings


def test_numpy_reads_and_writes_objects(home: Path, tmp_path: Path) -> None:
    script = """
        import moxing as mox, numpy as np
        small, large = np.arange(1000), np.random.rand(1 << 18)
        for name, data in (("small", small), ("large", large)):
            url = "obs://b/%s.npy" % name
            with mox.file.File(url, "wb") as out:
                np.save(out, data)
            with mox.file.File(url, "rb") as given:
                assert (np.load(given) == data).all()
            raw = "obs://b/%s.bin" % name
            with mox.file.File(raw, "wb") as out:
                data.tofile(out)
            with mox.file.File(raw, "rb") as given:
                assert (np.fromfile(given, data.dtype) == data).all()
            with mox.file.File("obs://b/text", "w") as out:
                np.savetxt(out, data)
            with mox.file.File("obs://b/text") as given:
                assert np.allclose(np.loadtxt(given), data)
        mox.file.shift("os", "mox")
        np.save("obs://b/shifted.npy", small)
        assert (np.load("obs://b/shifted.npy") == small).all()
    """
    packages = Path(numpy.__file__).parent.parent
    with serving(place_shim(tmp_path / "shim"), Settings(str(home))) as served:
        served.run(script, PYTHONPATH=f"{served.shim}:{packages}")
