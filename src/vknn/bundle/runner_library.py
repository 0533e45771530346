"""The C library ``vknn_run`` as ctypes sees it: structs and functions of runner/vknn_run.h."""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)

from vknn.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    InputError,
    ModelFormatError,
    OutOfMemoryError,
    RunCancelledError,
    VknnError,
)

#: VKNN_RUN_VERSION and VKNN_MOST_AXES of the header.
VERSION, AXES = 1, 8

#: vknn_context_options::log: the user's pointer, a line.
LOG = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)

#: vknn_status -> what is raised.
_ERRORS: dict[int, type[VknnError]] = {
    1: ModelFormatError,  # FILE
    2: ModelFormatError,  # HASH
    3: DeviceError,  # DEVICE
    4: InputError,  # ARGUMENT
    5: OutOfMemoryError,  # HOST_MEMORY
    6: OutOfMemoryError,  # DEVICE_MEMORY
    7: DeviceTimeoutError,  # TIMEOUT
    8: RunCancelledError,  # CANCELLED
    9: DeviceLostError,  # LOST
    10: DeviceError,  # DRIVER
    11: DeviceError,  # DIFFERS
}


class Message(ctypes.Structure):
    """vknn_message."""

    _fields_ = (("text", ctypes.c_char * 1024),)

    @property
    def words(self) -> str:
        """The text."""
        return self.text.decode("utf-8", "replace")


class ContextOptions(ctypes.Structure):
    """vknn_context_options."""

    _fields_ = (
        ("device", c_char_p),
        ("cache", c_char_p),
        ("threads", c_uint),
        ("robust", c_int),
        ("allocate", c_void_p),
        ("log", c_void_p),
        ("user", c_void_p),
        ("instance", c_void_p),
        ("physical_device", c_void_p),
        ("logical_device", c_void_p),
        ("queue", c_void_p),
        ("queue_family", c_uint32),
        ("features", c_uint64),
        ("get_instance_proc_addr", c_void_p),
        ("lock_queue", c_void_p),
    )


class NetOptions(ctypes.Structure):
    """vknn_net_options."""

    _fields_ = (
        ("shapes", c_char_p),
        ("target", c_char_p),
        ("sha256", POINTER(ctypes.c_uint8)),
        ("time_limit", c_double),
        ("keeps_memory", c_int),
        ("staged", c_int),
        ("memory_limit", c_uint64),
    )


class PortRecord(ctypes.Structure):
    """vknn_port."""

    _fields_ = (
        ("name", c_char_p),
        ("direction", c_int),
        ("type", c_int),
        ("rank", c_uint32),
        ("dims", c_uint64 * AXES),
        ("bytes", c_size_t),
        ("layout", c_char_p),
        ("picture", c_char_p),
        ("quantized", c_int),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
        ("labels", c_uint32),
        ("open", c_int),
    )


#: Name -> type of the result and types of the arguments; a vknn_status is an int.
_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "vknn_run_version": (c_uint32, ()),
    "vknn_devices": (c_int, (c_void_p, c_void_p, c_void_p)),
    "vknn_free": (None, (c_void_p, c_void_p)),
    "vknn_context_create": (c_int, (c_void_p, c_void_p, c_void_p)),
    "vknn_context_destroy": (None, (c_void_p,)),
    "vknn_context_device": (c_char_p, (c_void_p,)),
    "vknn_net_open_file": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p, c_void_p)),
    "vknn_net_open_memory": (
        c_int,
        (c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, c_void_p),
    ),
    "vknn_net_close": (None, (c_void_p,)),
    "vknn_net_message": (c_char_p, (c_void_p,)),
    "vknn_net_memory": (c_uint64, (c_void_p,)),
    "vknn_ports": (c_uint32, (c_void_p, c_int)),
    "vknn_describe": (c_int, (c_void_p, c_int, c_uint32, c_void_p)),
    "vknn_label": (c_char_p, (c_void_p, c_void_p, c_uint32)),
    "vknn_shape": (c_int, (c_void_p, c_char_p, c_void_p)),
    "vknn_set": (c_int, (c_void_p, c_char_p, c_void_p, c_size_t)),
    "vknn_get": (c_int, (c_void_p, c_char_p, c_void_p, c_size_t)),
    "vknn_borrow": (c_int, (c_void_p, c_int, c_char_p, c_void_p, c_void_p)),
    "vknn_run": (c_int, (c_void_p,)),
    "vknn_submit": (c_int, (c_void_p,)),
    "vknn_wait": (c_int, (c_void_p,)),
    "vknn_cancel": (None, (c_void_p,)),
    "vknn_reset": (c_int, (c_void_p,)),
    "vknn_test": (c_int, (c_void_p, c_void_p)),
    "vknn_test_json": (c_int, (c_void_p, c_void_p)),
    "vknn_profile": (c_int, (c_void_p, c_uint32, c_void_p)),
}


def loaded(path: str | os.PathLike[str] | None) -> ctypes.CDLL:
    """The library with its functions typed. Raises VknnError where there is none."""
    if path is None:
        raise VknnError(
            "the library of vknn_run is not named: give library=, or VKNN_RUNNER, such as "
            "build/libvknn_run.so (docs/phones.md has how to build it)"
        )
    name = os.fspath(path)
    try:
        library = ctypes.CDLL(name)
        for function, (result, arguments) in _FUNCTIONS.items():
            typed = getattr(library, function)
            typed.restype, typed.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise VknnError(f"{name} is no library of vknn_run: {error}") from None
    version = library.vknn_run_version()
    if version != VERSION:
        raise VknnError(f"{name}: its interface is of version {version}, expected {VERSION}")
    return library


def raise_status(code: int, text: str) -> None:
    """The error of a vknn_status; none for 0."""
    if code:
        raise _ERRORS.get(code, VknnError)(text or f"vknn_run failed with status {code}")


def taken(library: ctypes.CDLL, text: c_void_p) -> str:
    """A text of the library, which is freed."""
    if not text:
        return ""
    told = ctypes.string_at(text.value or 0).decode("utf-8", "replace")
    library.vknn_free(None, text)
    return told
