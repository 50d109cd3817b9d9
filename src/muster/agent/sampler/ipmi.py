"""Power of the whole server from its BMC, local or on the network, read with `ipmitool dcmi power reading`.

The password is passed in the environment of ipmitool (`-E`), never on its command line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from muster.devices import DriverError, Unmeasured, output_of, real_path

LIMIT = 10.0  # seconds
DEVICES = ("dev/ipmi0", "dev/ipmi/0", "dev/ipmidev/0")


class Ipmi:
    name = "ipmi"

    def __init__(self, host: str, user: str, password: str) -> None:
        program = shutil.which("ipmitool")
        if not program:
            raise Unmeasured("ipmitool is not on the PATH")
        if not host and not any(os.path.exists(real_path(path)) for path in DEVICES):
            raise Unmeasured("this machine shows no BMC of its own (/dev/ipmi0), and no `ipmi_host` is configured")
        self._argv = [program, *_remote(host, user, bool(password)), "dcmi", "power", "reading"]
        self._variables = {"IPMI_PASSWORD": password} if host and password else {}

    def watts(self) -> float:
        try:
            return parse(output_of(self._argv, LIMIT, **self._variables))
        except subprocess.TimeoutExpired:
            raise Unmeasured(f"ipmitool gave no answer within {LIMIT} s") from None
        except DriverError as error:
            raise Unmeasured(str(error)) from None

    def close(self) -> None:
        """Nothing is open between two readings."""


def _remote(host: str, user: str, password: bool) -> list[str]:
    if not host:
        return []
    return ["-I", "lanplus", "-H", host, *(["-U", user] if user else []), *(["-E"] if password else [])]


def parse(text: str) -> float:
    """The watts in the output of ipmitool. BMCs that measure nothing report 0."""
    found = re.search(r"Instantaneous power reading:\s*(\d+)\s*Watts", text)
    if not found:
        raise Unmeasured("ipmitool reports no power")
    if int(found.group(1)) == 0:
        raise Unmeasured("the BMC reports 0 W: it does not measure power")
    return float(found.group(1))
