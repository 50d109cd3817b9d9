"""Use and power of NVIDIA GPUs through NVML, the library of the driver.

Own code over ctypes: a node has a Python and the driver, but no packages such as nvidia-ml-py, and nvidia-smi takes a second
and a process for each answer. Power is an average over the last second on most GPUs; the energy counter, which GPUs have since
Volta, is exact and is what joules should be taken from. Reading it takes milliseconds, everything else some hundredths of one,
so it is read of one GPU after another, as often as the allowance permits.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import time
from collections.abc import Sequence
from typing import Any, Callable

from muster.devices.base import Description, Meter, Reading, Unmeasured

LIBRARY = "libnvidia-ml.so.1"
SUCCESS, NOT_SUPPORTED = 0, 3
TEXT = 96
ROUNDS = 20
COSTLY = "energy"
ALLOWANCE = 0.0015  # seconds of CPU for costly queries at each reading, on average


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


# For each field of a reading: the function, its arguments between device and result, the result's type, its conversion.
_Field = tuple[str, tuple[int, ...], Any, Callable[[Any], float]]
FIELDS: dict[str, _Field] = {
    "util": ("nvmlDeviceGetUtilizationRates", (), _Utilization, lambda result: float(result.gpu)),
    "mem": ("nvmlDeviceGetMemoryInfo", (), _Memory, lambda result: float(result.used)),
    "power": ("nvmlDeviceGetPowerUsage", (), ctypes.c_uint, lambda result: result.value / 1e3),
    "temp": ("nvmlDeviceGetTemperature", (0,), ctypes.c_uint, lambda result: float(result.value)),
    "energy": ("nvmlDeviceGetTotalEnergyConsumption", (), ctypes.c_ulonglong, lambda result: result.value / 1e3),
}


class Nvml(Meter):
    name = "nvml"

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__()
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise Unmeasured(f"NVML cannot be loaded: {error}") from None
        self._check(self._library.nvmlInit_v2(), "NVML does not start")
        self._handles = {id: self._handle(id) for id in ids}
        for name, (function, *_) in FIELDS.items():
            if not hasattr(self._library, function):
                self.missing[name] = f"this driver's NVML has no {function}"
        self._fields = {id: [name for name in FIELDS if name not in self.missing] for id in ids}  # that each device reports
        self._turns = itertools.cycle(ids)
        self._left = 0.0  # seconds of CPU that costly queries may take now
        self.driver = self._text("nvmlSystemGetDriverVersion")
        self.runtime = self._cuda()

    def read(self, whole: bool = False) -> dict[str, Reading]:
        found = {id: self._reading(id) for id in self._handles}
        self._left = min(0.0, self._left + ALLOWANCE)
        count = len(found) if whole else 1 if self._left == 0 else 0
        began = time.thread_time()
        for id in itertools.islice(self._turns, count):
            if COSTLY in self._fields[id]:
                found[id] = found[id]._replace(energy=self._query(id, COSTLY))
        self._left -= time.thread_time() - began
        return found

    def describe(self) -> list[Description]:
        return [
            Description(
                id,
                self._text("nvmlDeviceGetName", handle),
                self._text("nvmlDeviceGetUUID", handle),
                self._total(handle),
                self.driver,
            )
            for id, handle in self._handles.items()
        ]

    def close(self) -> None:
        self._library.nvmlShutdown()

    def _handle(self, id: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        if id.isdigit():
            code = self._library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(id)), ctypes.byref(handle))
        else:
            code = self._library.nvmlDeviceGetHandleByUUID(id.encode(), ctypes.byref(handle))
        self._check(code, f"NVML does not find GPU {id}")
        return handle

    def _reading(self, id: str) -> Reading:
        return Reading(**{name: self._query(id, name) for name in list(self._fields[id]) if name != COSTLY})

    def _query(self, id: str, name: str) -> float | None:
        function, between, kind, convert = FIELDS[name]
        result = kind()
        code = getattr(self._library, function)(self._handles[id], *between, ctypes.byref(result))
        if code == SUCCESS:
            return convert(result)
        self.missing.setdefault(name, f"GPU {id}: {self._why(code)}")
        if code == NOT_SUPPORTED:
            self._fields[id].remove(name)
        return None

    def _total(self, handle: ctypes.c_void_p) -> int | None:
        memory = _Memory()
        code = self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
        return memory.total if code == SUCCESS else None

    def _text(self, function: str, *handle: ctypes.c_void_p) -> str | None:
        """A text about a device, or without a handle about the system."""
        text = ctypes.create_string_buffer(TEXT)
        code = getattr(self._library, function)(*handle, text, ctypes.c_uint(TEXT))
        return text.value.decode("utf-8", "replace") if code == SUCCESS else None

    def _cuda(self) -> str | None:
        """The newest CUDA version that this driver supports."""
        version = ctypes.c_int()
        code = self._library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version))
        return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}" if code == SUCCESS else None

    def _check(self, code: int, what: str) -> None:
        if code != SUCCESS:
            raise Unmeasured(f"{what}: {self._why(code)}")

    def _why(self, code: int) -> str:
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        text = self._library.nvmlErrorString(code)
        return text.decode("utf-8", "replace") if text else f"error {code}"


def main(ids: Sequence[str]) -> None:
    """Prints the readings of some GPUs, and the CPU time that these take: `python -m muster.devices.nvml 0 1`."""
    import json

    try:
        meter = Nvml(ids or ["0"])
    except Unmeasured as error:
        sys.exit(str(error))
    began = time.thread_time()
    readings = [meter.read(whole=True) for _ in range(ROUNDS)]
    cost = 1e3 * (time.thread_time() - began) / ROUNDS
    last = {id: reading.known() for id, reading in readings[-1].items()}
    devices = [device._asdict() for device in meter.describe()]
    found = {"devices": devices, "runtime": meter.runtime, "readings": last, "missing": meter.missing, "cpu_ms": cost}
    print(json.dumps(found, indent=1))
    meter.close()


if __name__ == "__main__":
    main(sys.argv[1:])
