"""Opening of a session: its model is read and its device opened at the same time."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from vknn import environment
from vknn.compile import Target
from vknn.errors import DeviceError
from vknn.formats import Model, load
from vknn.lowering import LoweringOptions
from vknn.run_limits import RunLimit, within
from vknn.runtime import Device, WeightPool, open_device
from vknn.runtime.device_selection import is_host
from vknn.runtime.tuning_database import tuned_switch, tuning_choices

_warned_without_device = False


def choose_device(selector: str, disable: Collection[str] = ()) -> Device | None:
    """The device that a selector means (as for Session), opened; None for the NumPy reference.

    Abilities that ``disable`` names are off.
    """
    global _warned_without_device
    if selector == "auto":
        selector = environment.device()
    if is_host(selector):
        return None
    try:
        return open_device(selector, disable)
    except DeviceError as error:
        if selector != "auto":
            raise
        if not _warned_without_device:
            _warned_without_device = True
            warnings.warn(
                f"no Vulkan device, running on NumPy: {error}", RuntimeWarning, stacklevel=4
            )
        return None


def kernel_choices(device: Device | None, disabled: Collection[str]) -> Mapping[str, str]:
    """The kernels that were measured as the fastest on a device, where "tuning" is not off."""
    if device is None or "tuning" in disabled:
        return {}
    choices = tuning_choices(device.snapshot)
    if not any(name.startswith("tuned:") for name in disabled):
        return choices
    return {key: name for key, name in choices.items() if tuned_switch(key) not in disabled}


def new_target(device: Device | None, options: LoweringOptions, limit: int | None) -> Target:
    """Target of a session: a device or NumPy, with weights and a limit of its own."""
    pool = WeightPool(device) if device is not None else None
    return Target(device, options, pool=pool, debug=environment.debug(), memory_limit=limit)


def load_and_open(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None,
    device: str | Device,
    memory_limit: int | None = None,
    disable: Collection[str] = (),
) -> tuple[Model, Device | None]:
    """The model and its device, at the same time: opening waits for the driver mostly.

    Abilities that ``disable`` names are off, unless the device is open.
    """

    def read() -> Model:
        with within(RunLimit("opening", memory=memory_limit)):
            return load(path, weights)

    if isinstance(device, Device):
        return read(), device
    if "threads" in environment.disabled():
        return read(), choose_device(device, disable)
    # The model is loaded by the other thread and the driver called by this one: the C library has a
    # heap for each thread, and what drivers allocate in many short-lived threads stays in as many.
    with ThreadPoolExecutor(1) as executor:
        try:
            loading = executor.submit(read)
        except RuntimeError:  # no further thread can be started: the process is at its end
            return read(), choose_device(device, disable)
        try:
            opened = choose_device(device, disable)
        except BaseException:
            loading.result()  # of two errors the model's is the one to show
            raise
        try:
            return loading.result(), opened
        except BaseException:
            if opened is not None:
                opened.close()
            raise
