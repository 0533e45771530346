"""The exceptions a user can meet.

All derive from :class:`VknnError`. A message says what is wrong, where (file, layer, input) and,
where there is one, the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any


class VknnError(Exception):
    """Base class of every error that vknn raises on purpose.

    Attributes:
        file: The file that it is about, where known ("a model in memory", where there is none): a
            session's errors name its model.
    """

    file: str | None = None


class ModelFormatError(VknnError, ValueError):
    """A model file is damaged, truncated or contradicts itself.

    Attributes:
        file: The file, where known.
        offset: Bytes from its start, where known.
        layer: The layer, where known.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        offset: int | None = None,
        layer: str | None = None,
    ) -> None:
        self.file, self.offset, self.layer = file, offset, layer
        place = [part for part in (file, f"byte {offset}" if offset is not None else None) if part]
        if layer is not None:
            place.append(f"layer {layer!r}")
        super().__init__(f"{', '.join(place)}: {message}" if place else message)


class UnsupportedLayerError(VknnError):
    """The model holds layers that vknn cannot run.

    Attributes:
        layers: All of them, each with its name, its type and what is not supported.
        file: The model file, where known.
    """

    def __init__(
        self, layers: Sequence[str], *, file: str | None = None, remedy: str | None = None
    ) -> None:
        self.layers = tuple(layers)
        self.file = file
        where = f"{file}: " if file else ""
        what = f"{len(self.layers)} unsupported layer(s): {'; '.join(self.layers)}"
        super().__init__(f"{where}{what}; {remedy}" if remedy else f"{where}{what}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickling, as between processes: an exception's own would make a new one of its text."""
        return _raised_elsewhere, (type(self), self.args, self.__dict__)


def _raised_elsewhere(
    kind: type[VknnError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> VknnError:
    """An error as another process raised it."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ShapeError(VknnError, ValueError):
    """Shapes or dtypes do not fit together, in the model or in the arrays given to a run."""


class InputError(ShapeError):
    """A run was given a missing, unknown or unfit input."""


class DeviceError(VknnError, RuntimeError):
    """The Vulkan driver refused something or none is there."""


class NullDeviceError(DeviceError):
    """The device computes nothing: its driver runs without its GPU (``VKNN_NULL_DEVICE``)."""


class DeviceLostError(DeviceError):
    """The device stopped answering; the session cannot be used any more."""


class RunTimeoutError(VknnError, TimeoutError):
    """A run was not done in time (``timeout`` of :meth:`vknn.Session.run`, or ``VKNN_TIMEOUT``)."""


class RunCancelledError(VknnError):
    """A run was ended by :meth:`vknn.Session.cancel`."""


class DeviceTimeoutError(DeviceError, RunTimeoutError):
    """A submit to the device did not finish in time."""


class OutOfMemoryError(DeviceError, MemoryError):
    """Device or host memory is exhausted."""


class ShaderError(DeviceError):
    """A shader is missing, stale or does not compile."""


class ExportError(VknnError):
    """A model cannot be written as a bundle.

    Attributes:
        reasons: All of them, each with the layer, input or output, why, and what to do.
        file: The model file, where known.
    """

    def __init__(self, reasons: Sequence[str], *, file: str | None = None) -> None:
        self.reasons = tuple(reasons)
        self.file = file
        where = f"{file}: " if file else ""
        super().__init__(f"{where}cannot be exported: {'; '.join(self.reasons)}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickling, as between processes: an exception's own would make a new one of its text."""
        return _raised_elsewhere, (type(self), self.args, self.__dict__)


class ValidationError(DeviceError):
    """The Vulkan validation layer reported a message (``VKNN_VALIDATE=1``)."""


class naming:
    """The errors inside the block with the name of this file, where they name none.

    A MemoryError of Python's or NumPy's becomes an OutOfMemoryError.
    """

    def __init__(self, file: str | None) -> None:
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            name_of(error, self._file)


def name_of(error: BaseException, file: str | None) -> None:
    """The error with the file's name where it is one of vknn's; for a MemoryError, such as NumPy's
    for the copy of an input, raises an OutOfMemoryError."""
    if isinstance(error, VknnError):
        name_file(error, file)
    elif isinstance(error, MemoryError):
        made = OutOfMemoryError(f"host memory is exhausted: {error}")
        name_file(made, file)
        raise made from error


def name_file(error: VknnError, file: str | None) -> None:
    """The file in front of an error's text, unless it names this one or another."""
    if file is None or error.file is not None:
        return
    error.file, text = file, str(error)
    if file not in text:
        error.args = (f"{file}: {text}", *error.args[1:])
