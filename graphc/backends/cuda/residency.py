"""Arrays that live on a device from call to call: parameters, and what learners keep."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from weakref import WeakValueDictionary, ref

import numpy as np

from graphc.backends.cuda.device import Device, Memory
from graphc.runtime.residency import is_away, leave
from graphc.support.diagnostics import fail


@dataclass(slots=True)
class Resident:
    """An array's memory on the device.

    is_newer  it has been written there since the array was
    """

    array: ref[np.ndarray]
    memory: Memory
    is_newer: bool = False


class Residents:
    """The arrays of all functions on one device, which share those that they have in common.

    lock  of the device: one call at a time
    """

    def __init__(self, device: Device) -> None:
        self.lock = threading.RLock()
        self._device = device
        self._found: dict[int, Resident] = {}

    def place(self, array: np.ndarray) -> Resident:
        """The memory of an array, with its content as it is now."""
        found = self._found.get(id(array))
        if found is None:
            key = id(array)
            kept = ref(array, lambda _: self._found.pop(key, None))
            found = self._found[key] = Resident(kept, self._allocated(array.nbytes))
        if not is_away(array):
            self._device.upload(found.memory.address, array)
            found.is_newer = False
            leave(array, self._fetch)
        return found

    def _allocated(self, size: int) -> Memory:
        try:
            return self._device.allocate(size)
        except MemoryError:
            message = f"{size} bytes of the GPU's memory are required for a parameter"
            raise fail("limit", f"{message}, it does not give them") from None

    def _fetch(self, array: np.ndarray) -> None:
        with self.lock:
            found = self._found[id(array)]
            if found.is_newer:
                self._device.download(array, found.memory.address)
                found.is_newer = False


_OF_DEVICES: WeakValueDictionary[int, Residents] = WeakValueDictionary()
"""By the device's identity: it is there as long as its residents are."""


def residents_of(device: Device) -> Residents:
    """Those of a device, which every function on it shares."""
    found = _OF_DEVICES.get(id(device))
    if found is None:
        found = _OF_DEVICES[id(device)] = Residents(device)
    return found
