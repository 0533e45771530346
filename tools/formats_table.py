#!/usr/bin/env python3
"""Writer of docs/formats.md: every layer of the formats and the operators that it becomes.

tools/formats_table.py            writes docs/formats.md
tools/formats_table.py --check    exits 1 when docs/formats.md is not what would be written

What a layer becomes is found by building the graphs of its examples, those of the pages of single
formats. Graphs that go on as data decide are followed to their end.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "formats.md"
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tools import (  # noqa: E402
    coreml_examples,
    coreml_table,
    ncnn_table,
    onnx_examples,
    openvino_examples,
    openvino_table,
    tflite_examples,
    tflite_table,
)
from tools.pages import main  # noqa: E402

from vknn import reference  # noqa: E402
from vknn.errors import VknnError  # noqa: E402
from vknn.formats.coreml.model import CoremlModel  # noqa: E402
from vknn.formats.ncnn.type_indices import BUILTIN  # noqa: E402
from vknn.formats.tflite.loader import check_operators  # noqa: E402
from vknn.formats.tflite.model import TfliteModel  # noqa: E402
from vknn.graph import DType, Graph, TensorType  # noqa: E402

INTRODUCTION = """\
# The layers of all formats

Every layer of the specifications and [the operators](ops.md) that it becomes, in all its kinds
together. A model's own layers, and where they run, shows `vknn info MODEL --coverage`. What of each
format is supported stands on the pages of [ncnn](ncnn.md), [TensorFlow Lite](tflite.md),
[Core ML](coreml.md), [OpenVINO IR](openvino.md) and [ONNX](onnx.md).

A dash: nothing is left to compute when shapes are known, as of inputs, constants and shapes, or the
layer decides what is computed next.

This page is written by `tools/formats_table.py`; a test fails when it is out of date.
"""

#: ncnn's layers whose examples happen to change nothing: one more each.
MORE = {"Permute": ("0=3", (3, 4, 5)), "Dropout": ("0=0.5", (3, 4, 5))}
Arrays = Mapping[str, np.ndarray]
#: (type of a layer, operator)
Pair = tuple[str, str]


def page() -> str:
    """The whole page as Markdown."""
    lines = [INTRODUCTION, "| format | layers |", "|---|---|"]
    found = {name: make() for name, make in FORMATS.items()}
    lines += [f"| {name} | {len(rows)} |" for name, rows in found.items()]
    lines += ["", "| format | layer | operators |", "|---|---|---|"]
    for name, rows in found.items():
        for layer, operators in rows.items():
            lines.append(f"| {name} | {layer} | {', '.join(sorted(operators)) or '–'} |")
    return "\n".join([*lines, ""])


def ncnn() -> dict[str, set[str]]:
    """Layer -> operators."""
    examples = ncnn_table.all_examples()

    def pairs() -> Iterator[Pair]:
        for name in BUILTIN:
            nets = examples.get(name, {"nets": []})["nets"]
            if name in MORE:
                nets = [*nets, *ncnn_table._by_hand(name, *MORE[name])["nets"]]
            for net in nets:
                yield from _pairs(ncnn_table._graph(net), {})

    return _gathered(BUILTIN, pairs)


def tflite() -> dict[str, set[str]]:
    """Operator of the file -> operators."""
    examples = tflite_table.all_examples()
    names = [n for n in tflite_examples.operators() if n not in tflite_table._WITHOUT]
    known: set[str] = set()

    def pairs() -> Iterator[Pair]:
        for name in names:
            for example in examples.get(name, {}).values():
                with contextlib.suppress(VknnError):  # the page of the format says so
                    graph, arrays = _of_tflite(example)
                    known.add(name)
                    yield from _pairs(graph, arrays)

    found = _gathered(names, pairs)
    return {name: found[name] for name in names if name in known}


def _of_tflite(example: tflite_examples.Example) -> tuple[Graph, Arrays]:
    """The graph of an example, and what it is fed."""
    record, feeds = tflite_table._opened(example)
    check_operators(record)
    model = TfliteModel(record)
    arrays = {n: model.encode(n, a) for n, a in feeds.items()}
    types = {n: TensorType.of(a) for n, a in arrays.items()}
    return model.build(types), {**arrays, **_states(model.state)}


def coreml() -> dict[str, set[str]]:
    """Layer -> operators."""

    def pairs() -> Iterator[Pair]:
        for example in coreml_examples.examples():
            model = CoremlModel(example.message)
            arrays = {n: model.encode(n, a) for n, a in example.feeds.items()}
            types = {n: TensorType(a.shape, DType.FLOAT32) for n, a in example.feeds.items()}
            yield from _pairs(model.build(types), {**arrays, **_states(model.state)})

    return _gathered(coreml_table.layer_names(), pairs)


def openvino() -> dict[str, set[str]]:
    """Layer -> operators."""
    found = {name: openvino_table.tried(name) for name in openvino_examples.layers()}
    return {name: set(f.ops) for name, f in sorted(found.items(), key=lambda i: i[0].lower())}


def onnx() -> dict[str, set[str]]:
    """Operator, with its domain unless that is ONNX's own -> operators, by the test vectors.

    Those that no vector has are left out: the page of the format lists them.
    """
    record: onnx_examples.Record = json.loads(onnx_examples.RECORD.read_text(encoding="utf-8"))
    rows = sorted(record.items(), key=lambda row: ("::" in row[0], row[0].lower()))
    return {name: set(entry["operators"]) for name, entry in rows}


FORMATS: dict[str, Callable[[], dict[str, set[str]]]] = {
    "ncnn": ncnn, "TensorFlow Lite": tflite, "Core ML": coreml, "OpenVINO IR": openvino,
    "ONNX": onnx,
}  # fmt: skip


def _gathered(names: list[str], pairs: Callable[[], Iterator[Pair]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in names}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for layer, operator in pairs():
            if layer in found:
                found[layer].add(operator)
    return found


def _states(types: Mapping[str, TensorType]) -> dict[str, np.ndarray]:
    return {name: np.zeros(t.dims, t.dtype.numpy) for name, t in types.items()}


def _pairs(graph: Graph, feeds: Arrays) -> list[Pair]:
    """The operators of a graph and of what follows it, with the layers that they come of."""
    found: list[Pair] = []
    with contextlib.suppress(VknnError):  # the page of the format says so
        _walk(graph, feeds, found, graph.continuation is not None)
    return found


def _walk(graph: Graph, feeds: Arrays, found: list[Pair], computed: bool) -> dict[str, np.ndarray]:
    """Notes the operators; the outputs where they are to be ``computed``."""
    found += [(node.origin.type, node.op.type_name) for node in graph.nodes]
    if not computed:
        return {}
    outputs = reference.run(Graph(graph.inputs, graph.outputs, graph.nodes, graph.name), feeds)
    if graph.continuation is None:
        return outputs

    def call(
        key: Hashable, make: Callable[[], Graph], arrays: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        return _walk(make(), arrays, found, True)

    return outputs | graph.continuation.resume(
        {n: outputs.pop(n) for n in graph.continuation.takes}, call
    )


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/formats_table.py", page))
