"""Certificate authorities of the tests' own."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certify(folder: Path, address: str) -> None:
    """Makes an authority, `ca.pem`, and a certificate of it for an address, `server.pem` with `server.key`."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test", "-days", "2")
    openssl(*new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    (folder / "names").write_text(f"subjectAltName=IP:{address}\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2"]
    openssl("x509", "-req", "-in", "server.csr", *signed, "-out", "server.pem")
