"""Writes small OpenVINO IR files, right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

_PRECISIONS = {
    "float32": "FP32", "float16": "FP16", "int64": "I64", "int32": "I32", "int16": "I16",
    "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
Dims = Sequence[int]


@dataclass(frozen=True)
class Port:
    """An output port of a layer."""

    layer: int
    port: int
    dims: tuple[int, ...]


@dataclass
class Net:
    """A net, or the body of a TensorIterator; bodies share ``blob`` with what is around them."""

    version: int = 7
    precision: str = "FP32"
    blob: bytearray = field(default_factory=bytearray)
    layers: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    extra: str = ""

    def body(self) -> Net:
        """An empty body for a TensorIterator of this net."""
        return Net(self.version, self.precision, self.blob)

    def input(self, name: str, dims: Dims, precision: str | None = None) -> Port:
        """An Input layer."""
        return self.layer("Input", outputs=[dims], name=name, precision=precision)[0]

    def const(self, array: Any, precision: str | None = None, name: str = "") -> Port:
        """A Const layer that holds ``array``."""
        array = np.asarray(array)
        stored = precision or _PRECISIONS[array.dtype.name]
        blobs = {"custom": array}
        made = self.layer("Const", outputs=[array.shape], name=name, precision=stored, blobs=blobs)
        return made[0]

    def layer(
        self,
        type_: str,
        inputs: Sequence[Port | Dims] = (),
        outputs: Sequence[Dims] = (),
        attributes: Mapping[str, Any] | None = None,
        blobs: Mapping[str, np.ndarray] | None = None,
        *,
        name: str = "",
        precision: str | None = None,
        precisions: Sequence[str | None] = (),
        children: str = "",
    ) -> list[Port]:
        """A layer and the edges to it; bare dims among the inputs are ports without an edge.

        ``precisions``: of the output ports. ``children``: XML that stands in the layer besides.
        """
        number = len(self.layers)
        called = name or f"{type_.lower()}_{number}"
        text = [f'<layer id="{number}" name={quoteattr(called)} type="{type_}"']
        text.append(f' precision="{precision or self.precision}">')
        if attributes:
            given = "".join(f" {k}={quoteattr(_text(v))}" for k, v in attributes.items())
            text.append(f"<data{given}/>")
        takes = [p.dims if isinstance(p, Port) else tuple(p) for p in inputs]
        text.append(_ports("input", 0, takes, ()))
        text.append(_ports("output", len(takes), outputs, precisions))
        if blobs:
            parts = "".join(self._stored(n, a) for n, a in blobs.items())
            text.append(f"<blobs>{parts}</blobs>")
        text.append(f"{children}</layer>")
        self.layers.append("".join(text))
        for place, port in enumerate(inputs):
            if isinstance(port, Port):
                self.edges.append(
                    f'<edge from-layer="{port.layer}" from-port="{port.port}" '
                    f'to-layer="{number}" to-port="{place}"/>'
                )
        return [Port(number, len(takes) + i, tuple(d)) for i, d in enumerate(outputs)]

    def _stored(self, name: str, array: np.ndarray) -> str:
        array = np.ascontiguousarray(array)
        offset = len(self.blob)
        self.blob += array.tobytes()
        precision = _PRECISIONS[array.dtype.name]
        return f'<{name} offset="{offset}" size="{array.nbytes}" precision="{precision}"/>'

    def inside(self) -> str:
        """The layers and edges."""
        return f"<layers>{''.join(self.layers)}</layers><edges>{''.join(self.edges)}</edges>"

    def xml(self) -> str:
        """The whole file."""
        return (
            f'<?xml version="1.0"?>\n<net name="small" version="{self.version}" batch="1" '
            f'precision="{self.precision}">{self.inside()}{self.extra}</net>'
        )

    def save(self, folder: Path, name: str = "net") -> Path:
        """Writes both files and gives the path of the .xml."""
        path = folder / f"{name}.xml"
        path.write_text(self.xml(), encoding="utf-8")
        path.with_suffix(".bin").write_bytes(bytes(self.blob))
        return path


def iterator(
    body: Net,
    inputs: Sequence[Mapping[str, Any]],
    outputs: Sequence[Mapping[str, Any]],
    back_edges: Sequence[tuple[tuple[int, int], tuple[int, int]]] = (),
) -> str:
    """The children of a TensorIterator; rules are attributes of the port map."""

    def rules(tag: str, given: Sequence[Mapping[str, Any]]) -> str:
        return "".join(
            f"<{tag}{''.join(f' {k}={quoteattr(_text(v))}' for k, v in rule.items())}/>"
            for rule in given
        )

    edges = "".join(
        f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>'
        for (a, b), (c, d) in back_edges
    )
    return (
        f"<port_map>{rules('input', inputs)}{rules('output', outputs)}</port_map>"
        f"<back_edges>{edges}</back_edges><body>{body.inside()}</body>"
    )


def _ports(tag: str, first: int, ports: Sequence[Dims], precisions: Sequence[str | None]) -> str:
    if not ports:
        return ""
    text = []
    for number, dims in enumerate(ports):
        stated = precisions[number] if number < len(precisions) else None
        precision = f' precision="{stated}"' if stated else ""
        sizes = "".join(f"<dim>{d}</dim>" for d in dims)
        text.append(f'<port id="{first + number}"{precision}>{sizes}</port>')
    return f"<{tag}>{''.join(text)}</{tag}>"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value)
