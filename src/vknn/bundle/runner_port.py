"""Inputs and outputs of nets that the C runner has open."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from vknn.bundle.records import ArrayPort
from vknn.bundle.runner_library import PortRecord
from vknn.bundle.schema import PortElement


@dataclass(frozen=True)
class RunnerPort(ArrayPort):
    """An input or output of a net that is open.

    Attributes:
        name: Its name in the model.
        dtype: Its elements.
        shape: Its sizes; of an output whose size depends on data, at most.
        layout: A letter an axis, "NHWC"; empty where the format has none.
        picture: Order of a picture's colours, "RGB"; empty where it takes none.
        scale: Of integers that stand for scale * (stored - zero point); None where they do not.
        zero_point: See ``scale``.
        labels: Names of classes.
        is_open: Whether its size depends on data.
    """

    is_open: bool


def described(library: ctypes.CDLL, net: ctypes.c_void_p, record: PortRecord) -> RunnerPort:
    """The port of what vknn_describe gave."""
    label, reference = library.vknn_label, ctypes.byref(record)
    labels = (label(net, reference, n) or b"" for n in range(record.labels))
    return RunnerPort(
        record.name.decode("utf-8", "replace"),
        np.dtype(PortElement(record.type).name.lower()),
        tuple(record.dims[: record.rank]),
        record.layout.decode("utf-8", "replace"),
        record.picture.decode("utf-8", "replace"),
        record.scale if record.quantized else None,
        record.zero_point,
        tuple(text.decode("utf-8", "replace") for text in labels),
        bool(record.open),
    )
