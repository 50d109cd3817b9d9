"""Batches on their way to the device: a thread copies the next ones while the device works on this one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import torch

from common.world import accelerator

Batch = tuple[torch.Tensor, ...]
DEPTH = 3  # batches that wait on the device


class Feed:
    """An iterator over batches on the device, made from batches on the host.

    A batch of the source may be reused as soon as the source is asked for the next one: its copy is complete by then.
    """

    def __init__(self, source: Iterator[Batch], device: torch.device, depth: int = DEPTH) -> None:
        self._source = source
        self._device = device
        self._ready: queue.Queue[Any] = queue.Queue(depth)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="feed", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        item = self._ready.get()
        if isinstance(item, BaseException):
            self._put(item)  # whoever asks again is told again
            self._thread.join()  # PyTorch does not survive a thread that is still at work when the program ends
            raise item
        batch, copied = item
        if copied is not None:
            stream = accelerator(self._device).current_stream()
            stream.wait_event(copied)
            for tensor in batch:
                tensor.record_stream(stream)
        return batch  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends the thread, and the source with it."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            if self._device.type == "cpu":
                self._bring()
                return
            devices = accelerator(self._device)
            devices.set_device(self._device)  # every thread has its own
            # Ahead of the training, which else would let it wait; also for what the source itself does on the device.
            with devices.stream(devices.Stream(self._device, priority=-1)):
                self._bring()
        except BaseException as error:
            self._put(error)
        finally:
            getattr(self._source, "close", int)()

    def _bring(self) -> None:
        for batch in self._source:
            if not self._put(self._moved(batch)):
                return
        self._put(StopIteration())

    def _moved(self, batch: Batch) -> tuple[Batch, Any]:
        if self._device.type == "cpu":
            return tuple(tensor.to(self._device, copy=True) for tensor in batch), None
        pinned = [tensor.pin_memory() if tensor.device.type == "cpu" and not tensor.is_pinned() else tensor for tensor in batch]
        moved = tuple(tensor.to(self._device, non_blocking=True) for tensor in pinned)
        copied = accelerator(self._device).Event()
        copied.record()
        copied.synchronize()
        return moved, copied

    def _put(self, item: Any) -> bool:
        """Puts an item where the training finds it; false when nobody wants it any more."""
        while not self._over.is_set():
            try:
                self._ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
