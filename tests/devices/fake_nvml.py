"""A library that stands in for the driver's: two GPUs, of which the second has no energy counter and no utilisation.

It is compiled, for the edge that is tested lies between ctypes and C. Real GPUs are tried with `python -m muster.devices.nvml`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
typedef struct { int number; unsigned long long energy; } Gpu;
static Gpu gpus[2] = {{0, 5000000}, {1, 0}};
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;

int nvmlInit_v2(void) { return getenv("FAKE_NVML_BROKEN") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 3 ? "Not Supported" : code == 9 ? "Driver Not Loaded" : "Not Found"; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **gpu) {
  if (index > 1) return 6;
  *gpu = &gpus[index];
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **gpu) {
  if (strcmp(uuid, "GPU-1")) return 6;
  *gpu = &gpus[1];
  return 0;
}
int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *found) {
  if (gpu->number) return 3;
  found->gpu = 97;
  found->memory = 11;
  return 0;
}
int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *found) {
  found->total = 150754820096ULL;
  found->used = 7ULL << (32 + gpu->number);
  found->free = found->total - found->used;
  return 0;
}
int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned *milliwatts) { *milliwatts = 98765 + gpu->number; return 0; }
int nvmlDeviceGetTemperature(Gpu *gpu, int sensor, unsigned *degrees) {
  if (sensor != 0) return 2;
  *degrees = 41 + gpu->number;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(Gpu *gpu, unsigned long long *millijoules) {
  if (gpu->number) return 3;
  *millijoules = gpu->energy += 1500;
  return 0;
}
int nvmlDeviceGetName(Gpu *gpu, char *text, unsigned length) { strncpy(text, "NVIDIA H200", length); return 0; }
int nvmlDeviceGetUUID(Gpu *gpu, char *text, unsigned length) {
  strncpy(text, gpu->number ? "GPU-1" : "GPU-0", length);
  return 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "570.86.15", length); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return 0; }
"""


def compiled(folder: Path) -> dict[str, str] | None:
    """The environment in which programs find the library, or None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    (folder / "nvml.c").write_text(SOURCE)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "nvml.c"], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}
