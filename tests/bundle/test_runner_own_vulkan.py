"""The runner on the instance, device and queue of an app."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.networks import Made, small

import vknn

pytestmark = pytest.mark.device


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


class Own(ctypes.Structure):
    """vknn_context_options."""

    _fields_ = (
        ("device", ctypes.c_char_p), ("cache", ctypes.c_char_p), ("threads", ctypes.c_uint),
        ("robust", ctypes.c_int), ("allocate", ctypes.c_void_p), ("log", ctypes.c_void_p),
        ("user", ctypes.c_void_p), ("instance", ctypes.c_void_p), ("physical", ctypes.c_void_p),
        ("logical", ctypes.c_void_p), ("queue", ctypes.c_void_p), ("family", ctypes.c_uint32),
        ("features", ctypes.c_uint64), ("get", ctypes.c_void_p), ("lock", ctypes.c_void_p),
    )  # fmt: skip


def test_vulkan_of_the_app(net: Made, library: Path) -> None:
    """On the instance, device and queue of vknn's own runtime, which go on behind it."""
    from vknn.runtime import open_device
    from vknn.runtime.vulkan.vulkan_api import ffi

    lib = ctypes.CDLL(str(library))
    why, context, opened = ctypes.create_string_buffer(1024), ctypes.c_void_p(), ctypes.c_void_p()
    with open_device() as device:
        core = device.shared.core
        handles = [core.instance.handle, core.physical, core.device, core.queue]
        own = Own(family=core.family, features=0)
        for name, handle in zip(("instance", "physical", "logical", "queue"), handles, strict=True):
            setattr(own, name, int(ffi.cast("uintptr_t", handle)))
        assert lib.vknn_context_create(ctypes.byref(own), ctypes.byref(context), why) == 0, (
            why.value
        )
        path = os.fsencode(net.path)
        code = lib.vknn_net_open_file(context, path, None, ctypes.byref(opened), why)
        assert code == 0, why.value
        [(name, data)], [(out, array)] = net.feeds.items(), net.expected.items()
        raw = data.tobytes()
        assert lib.vknn_set(opened, name.encode(), raw, ctypes.c_size_t(len(raw))) == 0
        assert lib.vknn_run(opened) == 0
        found = np.empty_like(array)
        target = found.ctypes.data_as(ctypes.c_void_p)
        assert lib.vknn_get(opened, out.encode(), target, ctypes.c_size_t(found.nbytes)) == 0
        np.testing.assert_array_equal(found, array)
        lib.vknn_net_close(opened)
        lib.vknn_context_destroy(context)
        with vknn.Session(net.path.with_suffix(".param"), device=device) as session:
            np.testing.assert_array_equal(session.run(net.feeds)[out], array)
    own.queue = None
    assert lib.vknn_context_create(ctypes.byref(own), ctypes.byref(context), why) == 4
    assert b"give all of them or none" in why.value
