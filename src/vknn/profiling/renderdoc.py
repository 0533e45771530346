"""Captures by RenderDoc, through its in-application API (renderdoc_app.h).

A program that presents nothing has no frames, so that RenderDoc's own keys and triggers never act:
the program itself has to say where a capture begins and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vknn.errors import VknnError
from vknn.runtime.vulkan import instance, labels

#: Variable by which RenderDoc's implicit layer is switched on.
LAYER_SWITCH = "ENABLE_VULKAN_RENDERDOC_CAPTURE"
#: Where the library is looked for, first by the system's own rules.
_LIBRARIES = (
    ("renderdoc.dll", r"C:\Program Files\RenderDoc\renderdoc.dll")
    if sys.platform == "win32"
    else ("librenderdoc.so",)
)
#: eRENDERDOC_API_Version_1_2_0; places of functions in RENDERDOC_API_1_2_0.
_VERSION = 10200
_SET_PATH, _COUNT, _GET, _START, _END, _COMMENTS = 11, 13, 14, 19, 21, 23
_REMEDY = "install RenderDoc 1.2 or newer, with its library"


class RenderDocCapture:
    """RenderDoc in this process; ``files``: the captures that were written.

    :meth:`frame` goes around the work that is to be captured.
    """

    def __init__(self, api: _Api, comment: str) -> None:
        self._api, self._comment = api, comment
        self.files: list[Path] = []

    @contextlib.contextmanager
    def frame(self) -> Iterator[None]:
        """RenderDocCapture of all that devices do in the context, as one file.

        Raises:
            vknn.VknnError: RenderDoc captured nothing.
        """
        before = self._api.count()
        self._api.start()
        try:
            yield
        finally:
            well = self._api.end()
        found = self._api.files()[before:]
        if not well or not found:
            raise VknnError(
                f"RenderDoc captured nothing: was a device open, and is {LAYER_SWITCH} not 0? "
                "Its log says more (/tmp/RenderDoc, %TEMP%\\RenderDoc)"
            )
        for file in found:
            self._api.comment(file, self._comment)
        self.files += found


@contextlib.contextmanager
def renderdoc_capture(
    path: str | os.PathLike[str], comment: str = ""
) -> Iterator[RenderDocCapture]:
    """RenderDoc in this process, for sessions that are opened in the context.

    Layers' names are labels of what the capture shows, and buffers and pipelines have names. One
    device may be open at a time.

    Args:
        path: Beginning of the names of captures; RenderDoc adds "_capture.rdc" and the like.
        comment: Text that RenderDoc shows with them.

    Raises:
        vknn.VknnError: RenderDoc is not there or too old, a session is open already (its instance
            was made without RenderDoc's layer), or the folder of ``path`` does not exist.
    """
    target = Path(path).absolute()
    if not target.parent.is_dir():
        raise VknnError(f"{target.parent} is no folder: captures cannot be written there")
    if instance.in_use():
        raise VknnError(
            "a device is open, and RenderDoc sees only those that are opened after it: close all "
            "sessions first"
        )
    api = _Api(_library())
    api.set_path(target)
    labels.want()
    try:
        with _variables():
            yield RenderDocCapture(api, comment)
    finally:
        labels.unwant()


@contextlib.contextmanager
def _variables() -> Iterator[None]:
    """The environment of a capture: RenderDoc's layer is there, and no device beside the one."""
    disabled = ",".join(filter(None, [os.environ.get("VKNN_DISABLE"), "precompile"]))
    wanted = {"VKNN_DISABLE": disabled, LAYER_SWITCH: os.environ.get(LAYER_SWITCH, "1")}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Api:
    """The functions of RENDERDOC_API_1_2_0 that are in use."""

    def __init__(self, library: Any) -> None:
        table = ctypes.c_void_p()
        if library.RENDERDOC_GetAPI(_VERSION, ctypes.byref(table)) != 1 or not table.value:
            raise VknnError(f"RenderDoc's library is too old: {_REMEDY}")
        self._table = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))

    def set_path(self, path: Path) -> None:
        self._function(_SET_PATH, None, ctypes.c_char_p)(os.fsencode(path))

    def start(self) -> None:
        self._function(_START, None, ctypes.c_void_p, ctypes.c_void_p)(None, None)

    def end(self) -> bool:
        end = self._function(_END, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
        return bool(end(None, None))

    def count(self) -> int:
        return int(self._function(_COUNT, ctypes.c_uint32)())

    def files(self) -> list[Path]:
        """All captures of this process."""
        return [Path(os.fsdecode(self._file(number))) for number in range(self.count())]

    def comment(self, file: Path, text: str) -> None:
        if text:
            add = self._function(_COMMENTS, None, ctypes.c_char_p, ctypes.c_char_p)
            add(os.fsencode(file), text.encode(errors="replace"))

    def _file(self, number: int) -> bytes:
        get = self._function(
            _GET, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint64),
        )  # fmt: skip
        length, time = ctypes.c_uint32(), ctypes.c_uint64()
        get(number, None, ctypes.byref(length), ctypes.byref(time))
        text = ctypes.create_string_buffer(length.value + 1)
        get(number, text, ctypes.byref(length), ctypes.byref(time))
        return text.value

    def _function(self, place: int, result: Any, *arguments: Any) -> Callable[..., Any]:
        address = self._table[place]
        return ctypes.CFUNCTYPE(result, *arguments)(address)


def _library() -> Any:
    errors = []
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            errors.append(str(error))
    raise VknnError(f"RenderDoc's library cannot be loaded ({errors[0]}): {_REMEDY}")
