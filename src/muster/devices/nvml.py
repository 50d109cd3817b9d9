"""NVIDIA GPUs through NVML, the library of the driver itself.

Own code over ctypes: a node has a Python and the driver, but no packages such as nvidia-ml-py, and nvidia-smi takes a second
and a process for each answer. Power is what the driver says, on most GPUs an average over the last second; the energy
counter, which GPUs have since Volta, is exact and is what joules should be taken from. Asking for it takes milliseconds, where
everything else takes some hundredths of one, so it is read of one GPU after another, as often as the allowance lets it.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import time
from collections.abc import Sequence
from typing import Any, Callable

from muster.devices.base import Meter, Reading, Unmeasured

LIBRARY = "libnvidia-ml.so.1"
SUCCESS, NOT_SUPPORTED = 0, 3
TEXT = 96
ROUNDS = 20
COSTLY = "energy"
ALLOWANCE = 0.0015  # seconds of CPU that costly questions may take at each reading, on the average


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


# What is asked for each field of a reading: the function, its arguments between device and answer, the answer, its meaning.
_Field = tuple[str, tuple[int, ...], Any, Callable[[Any], float]]
FIELDS: dict[str, _Field] = {
    "util": ("nvmlDeviceGetUtilizationRates", (), _Utilization, lambda answer: float(answer.gpu)),
    "mem": ("nvmlDeviceGetMemoryInfo", (), _Memory, lambda answer: float(answer.used)),
    "power": ("nvmlDeviceGetPowerUsage", (), ctypes.c_uint, lambda answer: answer.value / 1e3),
    "temp": ("nvmlDeviceGetTemperature", (0,), ctypes.c_uint, lambda answer: float(answer.value)),
    "energy": ("nvmlDeviceGetTotalEnergyConsumption", (), ctypes.c_ulonglong, lambda answer: answer.value / 1e3),
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
        answers = {name: answer() for name, (_, _, answer, _) in FIELDS.items()}
        self._questions = {id: self._ask_for(id, handle, answers) for id, handle in self._handles.items()}
        self._turns = itertools.cycle(ids)
        self._left = 0.0  # seconds of CPU that costly questions may take now
        self.driver = self._system("nvmlSystemGetDriverVersion")
        self.runtime = self._cuda()

    def read(self, whole: bool = False) -> dict[str, Reading]:
        found = {id: self._reading(id, questions) for id, questions in self._questions.items()}
        self._left = min(0.0, self._left + ALLOWANCE)
        asked = len(found) if whole else 1 if self._left == 0 else 0
        began = time.thread_time()
        for id in itertools.islice(self._turns, asked):
            if COSTLY in self._questions[id]:
                found[id] = found[id]._replace(energy=self._questions[id][COSTLY]())
        self._left -= time.thread_time() - began
        return found

    def describe(self) -> list[dict[str, Any]]:
        return [
            {
                "id": id,
                "name": self._text("nvmlDeviceGetName", handle),
                "uuid": self._text("nvmlDeviceGetUUID", handle),
                "memory": self._total(handle),
                "driver": self.driver,
            }
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

    def _ask_for(self, id: str, handle: ctypes.c_void_p, answers: dict[str, Any]) -> dict[str, Callable[[], float | None]]:
        """The questions about one device, by field; what this library does not know is left out."""
        questions = {}
        for name, (function, between, _, meaning) in FIELDS.items():
            call = getattr(self._library, function, None)
            if call is None:
                self.missing[name] = f"this driver's NVML has no {function}"
            else:
                questions[name] = self._question(id, name, call, (handle, *between), answers[name], meaning)
        return questions

    def _question(
        self, id: str, name: str, call: Any, arguments: tuple[Any, ...], answer: Any, meaning: Callable[[Any], float]
    ) -> Callable[[], float | None]:
        asked = (*arguments, ctypes.byref(answer))

        def ask() -> float | None:
            code = call(*asked)
            if code == SUCCESS:
                return meaning(answer)
            self.missing.setdefault(name, f"GPU {id}: {self._why(code)}")
            if code == NOT_SUPPORTED:  # it never will be
                del self._questions[id][name]
            return None

        return ask

    def _reading(self, id: str, questions: dict[str, Callable[[], float | None]]) -> Reading:
        return Reading(**{name: ask() for name, ask in list(questions.items()) if name != COSTLY})

    def _total(self, handle: ctypes.c_void_p) -> int | None:
        memory = _Memory()
        code = self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
        return memory.total if code == SUCCESS else None

    def _text(self, function: str, handle: ctypes.c_void_p) -> str | None:
        text = ctypes.create_string_buffer(TEXT)
        code = getattr(self._library, function)(handle, text, ctypes.c_uint(TEXT))
        return text.value.decode("utf-8", "replace") if code == SUCCESS else None

    def _system(self, function: str) -> str | None:
        text = ctypes.create_string_buffer(TEXT)
        code = getattr(self._library, function)(text, ctypes.c_uint(TEXT))
        return text.value.decode("utf-8", "replace") if code == SUCCESS else None

    def _cuda(self) -> str | None:
        """The newest CUDA that this driver serves."""
        version = ctypes.c_int()
        code = self._library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version))
        return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}" if code == SUCCESS else None

    def _check(self, code: int, what: str) -> None:
        if code != SUCCESS:
            raise Unmeasured(f"{what}: {self._why(code)}")

    def _why(self, code: int) -> str:
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        said = self._library.nvmlErrorString(code)
        return said.decode("utf-8", "replace") if said else f"error {code}"


def main(ids: Sequence[str]) -> None:
    """Shows what some GPUs are and how they are read, with the CPU time that it takes: `python -m muster.devices.nvml 0 1`."""
    import json

    try:
        meter = Nvml(ids or ["0"])
    except Unmeasured as error:
        sys.exit(str(error))
    began = time.thread_time()
    readings = [meter.read(whole=True) for _ in range(ROUNDS)]
    cost = 1e3 * (time.thread_time() - began) / ROUNDS
    last = {id: reading.known() for id, reading in readings[-1].items()}
    told = {"devices": meter.describe(), "runtime": meter.runtime, "readings": last, "missing": meter.missing, "cpu_ms": cost}
    print(json.dumps(told, indent=1))
    meter.close()


if __name__ == "__main__":
    main(sys.argv[1:])
