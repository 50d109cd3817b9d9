"""Certificate authorities of the tests' own."""

from __future__ import annotations

import subprocess
from pathlib import Path


def certify(folder: Path, *hosts: str) -> None:
    """Makes an authority, `ca.pem`, and a certificate of it for addresses and names, `server.pem` with `server.key`."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test", "-days", "2")
    openssl(*new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    names = [f"{'IP' if host.replace('.', '').isdigit() else 'DNS'}:{host}" for host in hosts]
    (folder / "names").write_text(f"subjectAltName={','.join(names)}\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2"]
    openssl("x509", "-req", "-in", "server.csr", *signed, "-out", "server.pem")
