"""StableHLO's operators that TensorFlow Lite has kernels for, against these, on tiny shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tests.formats.tflite.stablehlo.dimension_numbers import (
    Numbers,
    drawn,
    gather_options,
    scatter_options,
)
from tests.formats.tflite.stablehlo.nets import Body, Fixed, numbers, one, run, same, single
from tests.tflite_writer import Net

#: Operators that the reference kernels lack; the ordinary ones have them.
ORDINARY = ("STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT", "STABLEHLO_CASE")


def kernels(file: bytes, feeds: Mapping[str, np.ndarray], ordinary: bool) -> dict[str, np.ndarray]:
    """Outputs of TensorFlow Lite's kernels."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    kinds = litert.OpResolverType
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if ordinary else kinds.BUILTIN_REF
    interpreter = litert.Interpreter(model_content=file, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    interpreter.invoke()
    outputs = interpreter.get_output_details()
    return {d["name"]: interpreter.get_tensor(d["index"]).copy() for d in outputs}


def compare(
    folder: Path, backend: str, code: str, inputs: Sequence[np.ndarray | Fixed],
    outputs: Sequence[tuple[tuple[int, ...], str]], options: dict[str, Any] | None = None,
    regions: Mapping[str, tuple[Sequence[str], Body]] | None = None,
) -> None:  # fmt: skip
    """The assertion that both give the same for a model of one operator."""
    net, feeds = single(code, inputs, outputs, options, regions)
    compare_net(folder, backend, net, feeds, code in ORDINARY)


def compare_net(
    folder: Path, backend: str, net: Net, feeds: Mapping[str, np.ndarray], ordinary: bool = False
) -> None:
    """The same for a model."""
    file = net.file()
    wanted = kernels(file, feeds, ordinary)
    found = run(folder / "model.tflite", backend, file, feeds)
    assert sorted(found) == sorted(wanted)
    for name, array in wanted.items():
        same(found[name], array)


INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
BINARY = [
    *((code, dtype) for code in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")
      for dtype in ("float32", "int8", "int16", "int32", "int64")),
    *(("AND", dtype) for dtype in ("bool", "int8", "int32")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "dtype"), BINARY)
def test_binary(code: str, dtype: str, tmp_path: Path, backend: str) -> None:
    for shape in ((), (7,), (3, 5), (2, 3, 1, 5)):
        inputs = [numbers(shape, dtype), numbers(shape, dtype, 1)]
        compare(tmp_path, backend, f"STABLEHLO_{code}", inputs, [(shape, dtype)])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_shift_left(dtype: str, tmp_path: Path, backend: str) -> None:
    x, places = numbers((3, 5), dtype), np.abs(numbers((3, 5), dtype, 1)) % 8
    inputs = [x, places.astype(dtype)]
    compare(tmp_path, backend, "STABLEHLO_SHIFT_LEFT", inputs, [((3, 5), dtype)])


PADS = [
    ([1, 0], [2, 3], [0, 0]), ([-1, 2], [0, -2], [0, 0]), ([0, 0], [0, 0], [2, 1]),
    ([-2, 1], [3, -3], [2, 1]), ([-4, -1], [-1, -5], [3, 2]), ([3, -1], [-3, 2], [1, 0]),
    ([-5, 0], [0, 1], [0, 0]), ([1, -9], [2, -4], [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int8", "int32", "int64"])
@pytest.mark.parametrize("pads", PADS, ids=str)
def test_pad(pads: tuple[list[int], ...], dtype: str, tmp_path: Path, backend: str) -> None:
    x, value = numbers((3, 5), dtype), np.array(7, dtype)
    low, high, interior = pads
    shape = tuple(max((d - 1) * (i + 1) + 1 + a + b, 0)
                  for d, a, b, i in zip((3, 5), low, high, interior, strict=True))  # fmt: skip
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    options = dict(zip(names, pads, strict=True))
    compare(tmp_path, backend, "STABLEHLO_PAD", [x, value], [(shape, dtype)], options)


@pytest.mark.parametrize("seed", range(12))
def test_gather(seed: int, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(seed)
    n = drawn(rng)
    dtype = str(rng.choice(["float32", "int32", "int64", "bool", "int8"]))
    kind = str(rng.choice(["int32", "int64"]))
    inputs = [numbers(n.dims, dtype, seed), rng.integers(-3, 9, n.index_shape).astype(kind)]
    options = gather_options(n)
    compare(tmp_path, backend, "STABLEHLO_GATHER", inputs, [(n.whole, dtype)], options)


@pytest.mark.parametrize("code", ["ADD", "MULTIPLY", "MAXIMUM", "MINIMUM", ""])
@pytest.mark.parametrize("seed", range(5))
def test_scatter(seed: int, code: str, tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng([seed, len(code)])
    n = drawn(rng)
    dtype = str(rng.choice(["float32", "int32", "int64"]))
    indices = rng.integers(-1, 6, n.index_shape).astype(str(rng.choice(["int32", "int64"])))
    inputs = [numbers(n.dims, dtype, seed), indices, numbers(n.whole, dtype, seed + 1)]
    body: Body = one(f"STABLEHLO_{code}") if code else lambda _, arguments: [arguments[1]]
    regions = {"update_computation_subgraph_index": ([dtype] * 2, body)}
    outputs = [(n.dims, dtype)]
    compare(tmp_path, backend, "STABLEHLO_SCATTER", inputs, outputs, scatter_options(n), regions)


WINDOWS = [
    ([2, 3], [1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
    ([2, 3], [2, 1], [1, 1], [1, 1], [1, 2, 0, 1]),
    ([2, 3], [1, 1], [2, 3], [3, 2], [0, 0, 0, 0]),
    ([3, 2], [2, 3], [3, 2], [1, 4], [2, 1, 0, 3]),
    ([2, 2], [1, 2], [2, 2], [2, 1], [-1, 2, 3, -2]),
]
NAMES = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")


@pytest.mark.parametrize("code", ["ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("number", range(len(WINDOWS)))
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_reduce_window(dtype: str, number: int, code: str, tmp_path: Path, backend: str) -> None:
    size, stride, base, dilation, pads = WINDOWS[number]
    full = [(d - 1) * base[a] + 1 + sum(pads[2 * a : 2 * a + 2]) for a, d in enumerate((5, 7))]
    extents = [(size[a] - 1) * dilation[a] + 1 for a in range(2)]
    shape = tuple((full[a] - extents[a]) // stride[a] + 1 for a in range(2))
    for init in (0, 1, 3):
        inputs = [numbers((5, 7), dtype), np.array(init, dtype)]
        regions = {"body_subgraph_index": ([dtype] * 2, one(f"STABLEHLO_{code}"))}
        options = dict(zip(NAMES, WINDOWS[number], strict=True))
        compare(tmp_path, backend, "STABLEHLO_REDUCE_WINDOW", inputs, [(shape, dtype)], options,
                regions)  # fmt: skip


@pytest.mark.parametrize("chosen", [0, 1, 2, 5, -1])
def test_case(chosen: int, tmp_path: Path, backend: str) -> None:
    net = Net()
    net.inputs = [net.tensor("i", (), "int32"), net.tensor("x", (3,))]
    net.outputs = [net.tensor("y", (3,))]
    for code in ("NEG", "ABS", "EXP"):
        inner = net.another()
        inner.inputs, inner.outputs = [inner.tensor("a", (3,))], [inner.tensor("r", (3,))]
        inner.add(code, inner.inputs, inner.outputs)
    net.add("STABLEHLO_CASE", net.inputs, net.outputs, {"branch_subgraph_indices": [1, 2, 3]})
    feeds = {"i": np.array(chosen, np.int32), "x": np.float32([1, -2, 3])}
    compare_net(tmp_path, backend, net, feeds, ordinary=True)


def test_composites_that_call_composites(tmp_path: Path, backend: str) -> None:
    net = Net()
    nets = [net, net.another(), net.another()]
    for number, graph in enumerate(nets):
        graph.inputs, graph.outputs = [graph.tensor("x", (3,))], [graph.tensor("y", (3,))]
        if number == 2:
            graph.add("NEG", [0], [1])
            continue
        attributes = np.frombuffer(flexbuffers.Dumps({"axis": number}), np.uint8)
        options = {"name": f"own.part{number}", "decomposition_subgraph_index": number + 1,
                   "composite_attributes": attributes}  # fmt: skip
        made = graph.tensor("m", (3,))
        graph.add("STABLEHLO_COMPOSITE", [0], [made], options)
        graph.add("MUL", [made, made], [1], {})
    compare_net(tmp_path, backend, net, {"x": np.float32([1, -2, 3])})


def test_windows_that_are_partly_outside(tmp_path: Path, backend: str) -> None:
    n = Numbers((5, 7), (2, 3), (), (0, 1), (4,), 1, (1, 2))
    indices = np.int32([[4, 0], [0, 5], [3, 4], [-1, 2]])
    inputs = [np.zeros((5, 7), np.float32), indices, np.ones((4, 2, 3), np.float32)]
    regions = {"update_computation_subgraph_index": (["float32"] * 2, one("STABLEHLO_ADD"))}
    compare(tmp_path, backend, "STABLEHLO_SCATTER", inputs, [((5, 7), "float32")],
            scatter_options(n), regions)  # fmt: skip
