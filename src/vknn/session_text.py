"""A session in words: as Python and Jupyter show it, and as errors call its model."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from vknn.errors import naming
from vknn.formats import TensorSpec
from vknn.formats.in_memory import MODEL, is_in_memory
from vknn.precision import ChosenPrecision
from vknn.printable import one_line
from vknn.runtime import Device

#: Layers that are named.
_NAMED = 4
_Method = TypeVar("_Method", bound=Callable[..., Any])


class Shown(Protocol):
    """Attributes of a session that are shown."""

    device: Device | None
    precision: str
    layer_precisions: Mapping[str, str]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...


def text(session: Shown, file: str, closed: bool) -> str:
    """One line. ``file``: the model's name."""
    inputs, outputs = (", ".join(map(_short, s)) for s in (session.inputs, session.outputs))
    state = f"{precision(session)} on {place(session.device)}" + (", closed" if closed else "")
    return f"<vknn.Session {one_line(file)}: {inputs} -> {outputs}, {state}>"


def html(session: Shown, file: str) -> str:
    """A table of the inputs and outputs."""
    rows = "".join(
        f"<tr><td>{what}</td><td>{escape(s.name)}</td><td>{s.dtype_name}</td>"
        f"<td>{escape(_dims(s))}</td></tr>"
        for what, specs in (("input", session.inputs), ("output", session.outputs))
        for s in specs
    )
    title = (
        f"<b>{escape(file)}</b> in {escape(precision(session))} on {escape(place(session.device))}"
    )
    head = "<tr><th></th><th>name</th><th>dtype</th><th>shape</th></tr>"
    return f"<div>{title}<table>{head}{rows}</table></div>"


def precision(session: Shown) -> str:
    """Precision in use, and which layers have another one."""
    chosen = ChosenPrecision(session.precision, session.layer_precisions)
    return one_line(chosen.text(_NAMED))


def place(device: Device | None) -> str:
    """Name of the device that runs it, or NumPy."""
    return device.name if device is not None else "NumPy"


def _short(spec: TensorSpec) -> str:
    """An input or output in few words: its name, dtype and shape."""
    return f"{one_line(spec.name)} {spec.dtype_name}[{_dims(spec)}]"


def _dims(spec: TensorSpec) -> str:
    """Sizes of the axes; those that are free as "?", or as the file suggests them."""
    if spec.shape is None:
        return f"any, such as {', '.join(map(str, spec.hint))}" if spec.hint else "any"
    return ", ".join("?" if size is None else str(size) for size in spec.shape)


def shown(path: Any) -> str:
    """A model as errors call it, be it no path at all."""
    if is_in_memory(path):
        return MODEL
    return str(Path(path)) if isinstance(path, str | os.PathLike) else repr(path)


def names_its_model(method: _Method) -> _Method:
    """A session's method whose errors name the model's file."""

    @functools.wraps(method)
    def named(self: Any, *args: Any, **kwargs: Any) -> Any:
        with naming(self.model.file):
            return method(self, *args, **kwargs)

    return cast(_Method, named)
