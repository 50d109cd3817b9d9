"""What the workloads measure on a device that the host runs ahead of: one whose time passes only while it is waited for."""

from __future__ import annotations

from resnet_programs import python

DEVICE = """
import time
from types import SimpleNamespace

now = free = 0.0  # the time, and when the device will have done all that it was given
time.perf_counter = time.time = lambda: now

class Event:
    def __init__(self, enable_timing=False): pass
    def record(self): self.at = max(now, free)
    def query(self): return self.at <= now
    def elapsed_time(self, other): return 1000 * (other.at - self.at)
    def synchronize(self):
        global now
        now = max(now, self.at)

from common import training
from muster import record

training.accelerator = lambda device: SimpleNamespace(Event=Event)
world = SimpleNamespace(device=SimpleNamespace(type="cuda"), first=False, size=1)

def measured(steps, warmup, pauses=(), input_seconds=0.0):
    global free
    timer = record.timer(100, warmup)
    clock = training.Clock(world, timer, {})
    def fetch():
        global now
        now += input_seconds
        return []
    for step in range(1, steps + 1):
        clock.waiting(fetch)
        free = max(now, free) + 0.05
        pausing = step == steps or step in pauses
        clock.step(step, None, pausing)
        if pausing:
            globals().update(now=now + 7.0)
            clock.go_on()
    spread = timer._spread()
    assert spread["steps"] == steps - max(1, warmup), spread
    return clock.metrics(), spread
"""
STEADY = """
for steps, warmup, pauses in ((40, 10, ()), (40, 0, ()), (12, 10, ()), (60, 10, (20, 30, 31, 50)), (30, 3, range(1, 30))):
    found, spread = measured(steps, warmup, pauses)
    assert abs(found["throughput"] - 2000) < 1e-6 and found["input_wait"] < 1e-9, (steps, warmup, pauses, found)
    assert abs(spread["min"] - 2000) < 1e-6 and abs(spread["max"] - 2000) < 1e-6, spread
"""
HUNGRY = """
for pauses in ((), (20, 30)):
    found, spread = measured(60, 10, pauses, input_seconds=0.08)  # the device could do a step in 0.05
    assert abs(found["throughput"] - 100 / 0.08) < 25 and abs(found["input_wait"] - 3 / 8) < 0.025, found
found, spread = measured(60, 10, (), input_seconds=0.04)  # which the host waits for while the device is at work
assert abs(found["throughput"] - 2000) < 1e-6 and found["input_wait"] < 1e-9, found
"""


def test_steps_of_a_device_are_timed_as_long_as_they_take() -> None:
    python("-c", DEVICE + STEADY)


def test_what_a_device_waited_for_its_input_is_told_and_what_the_host_did_is_not() -> None:
    python("-c", DEVICE + HUNGRY)
