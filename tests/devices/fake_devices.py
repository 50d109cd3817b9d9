"""Machines with accelerators, as far as their drivers' tools and files show them: what the tests of devices run on."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

NVIDIA_SMI = """#!/bin/sh
# Answers two questions as the real one does.
echo "$*" >> {folder}/asked
if [ -e {folder}/broken ] && grep -qz supervise /proc/$PPID/cmdline; then echo "Failed to initialize NVML" >&2; exit 9; fi
case "$*" in
  "--query-gpu=index,uuid,name --format=csv,noheader") cat {folder}/gpus ;;
  "--query-compute-apps=gpu_uuid,pid --format=csv,noheader") cat {folder}/apps ;;
  *) echo "Invalid combination of input arguments." >&2; exit 2 ;;
esac
"""

NPU_SMI_TOP = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.rc2                 Version: 23.0.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
"""
NPU_SMI_CHIP = """\
| {id:<6}{name:<20}| OK            | 93.6        40                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          4152 / 65536         |
+===========================+===============+====================================================+
"""
NPU_SMI_USERS = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
"""
NPU_SMI_PROCESS = "| {id:<8}0                 | {pid:<14}| {name:<25}| 1234                    |\n"
NPU_SMI_NOBODY = "| No running processes found in NPU {id:<61}|\n"


class Machine:
    """A folder with the drivers' tools in `bin`; a tool that is not given is there and fails.

    `seen` is the path of the folder where the tools run, if that is another machine.
    """

    def __init__(self, folder: Path, seen: Path | None = None) -> None:
        self.folder = folder
        self.seen = seen or folder
        (folder / "bin").mkdir(parents=True)
        (folder / "root" / "dev").mkdir(parents=True)
        for tool in ("nvidia-smi", "npu-smi"):
            self.tool(tool, "#!/bin/sh\nexit 9\n")

    def tool(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        """What makes Muster see this machine instead of the real one."""
        path = f"{self.seen / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "MUSTER_DEVICE_ROOT": str(self.seen / "root")}


class Gpus(Machine):
    def __init__(self, folder: Path, count: int, seen: Path | None = None) -> None:
        super().__init__(folder, seen)
        self.ids = [f"GPU-{uuid.uuid4()}" for _ in range(count)]
        lines = [f"{index}, {id}, NVIDIA A100-SXM4-40GB\n" for index, id in enumerate(self.ids)]
        (folder / "gpus").write_text("".join(lines))
        self.used_by({})
        self.tool("nvidia-smi", NVIDIA_SMI.format(folder=self.seen))

    def used_by(self, users: dict[int, int]) -> None:
        """Puts processes on devices: device -> process id."""
        text = "".join(f"{self.ids[index]}, {pid}\n" for index, pid in users.items())
        temporary = self.folder / "apps.new"
        temporary.write_text(text)
        temporary.rename(self.folder / "apps")


class Npus(Machine):
    chip = "910B3"

    def __init__(self, folder: Path, *ids: int, seen: Path | None = None, address: str = "192.168.{}.1") -> None:
        super().__init__(folder, seen)
        dev, etc = folder / "root" / "dev", folder / "root" / "etc"
        etc.mkdir()
        for name in [f"davinci{id}" for id in ids] + ["davinci_manager", "devmm_svm", "hisi_hdc", "null"]:
            (dev / name).touch()
        lines = (f"address_{id}={address.format(id)}\nnetmask_{id}=255.255.0.0\n" for id in ids)
        (etc / "hccn.conf").write_text("".join(lines))
        self.ids = ids
        self.used_by({})
        self.tool("npu-smi", f'#!/bin/sh\n[ "$*" = info ] && cat {self.seen}/info\n')

    def used_by(self, users: dict[int, int], name: str = "python3") -> None:
        """Puts processes on devices: device -> process id."""
        text = NPU_SMI_TOP + "".join(NPU_SMI_CHIP.format(id=id, name=self.chip) for id in self.ids) + NPU_SMI_USERS
        for id in self.ids:
            line = NPU_SMI_PROCESS if id in users else NPU_SMI_NOBODY
            text += line.format(id=id, pid=users.get(id), name=name)
        temporary = self.folder / "info.new"
        temporary.write_text(text)
        temporary.rename(self.folder / "info")
