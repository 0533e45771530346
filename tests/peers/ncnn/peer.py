"""Runs a network through ncnn (its wheel, fp32 on the CPU) and through vknn and compares.

A case is one line:

    check("Convolution 0=8 1=3 6=216", image(3, 7, 9))

The line is a layer as in a .param, without names; the arrays are its inputs. Weights are random
unless given by name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn import formats, reference
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.records import NetRecord
from vknn.formats.ncnn.writer import Storage, Weights, format_bin, weight_specs

Arrays = Mapping[str, np.ndarray]

#: Allowed difference as a part of the output's own range.
TOLERANCE = 1e-4


def ncnn_wheel() -> Any:
    """The ncnn module; skips the test where it is not installed."""
    return pytest.importorskip("ncnn", reason="the ncnn wheel is the oracle of this test")


# --- making cases -------------------------------------------------------------------------------


def image(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def one_layer(line: str, count: int, tops: int = 1) -> str:
    """A .param of Input layers x0, x1... and the layer of ``line`` with outputs y0, y1..."""
    type_, *params = line.split()
    names = " ".join([*(f"x{i}" for i in range(count)), *(f"y{i}" for i in range(tops))])
    layers = [f"Input in{i} 0 1 x{i}" for i in range(count)]
    layers.append(f"{type_} layer {count} {tops} {names} {' '.join(params)}")
    return whole_net(*layers)


def whole_net(*layers: str) -> str:
    """A .param of these layer lines."""
    return f"7767517\n{len(layers)} {8 * len(layers) + 8}\n" + "\n".join(layers) + "\n"


def random_weights(net: NetRecord, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Weights that keep activations in range: He's scale for matrices, positive variances, scales
    that use the whole int8 range."""
    rng = np.random.default_rng(seed)
    weights: dict[str, dict[str, np.ndarray]] = {}
    for record, spec in weight_specs(net):
        fan_in = max(spec.count // spec.shape[0], 1)
        values = rng.standard_normal(spec.shape)
        if spec.name.endswith("weight") or spec.name in ("A", "B"):
            values *= np.sqrt(2 / fan_in)
        elif spec.name == "weight_scale":
            largest = np.abs(weights[record.name]["weight"]).max()
            values = 127 / largest * rng.uniform(0.5, 1, spec.shape)
        elif spec.name in ("bottom_scale", "top_scale"):
            values = np.full(spec.shape, 40.0 if spec.name == "bottom_scale" else 25.0)
        elif spec.name in ("var", "scale_in", "scale_out", "scale"):
            values = rng.uniform(0.5, 1.5, spec.shape)
        elif spec.name in ("gamma", "slope"):
            values = 1 + 0.1 * values
        elif spec.name.endswith("_scale"):
            values = rng.uniform(160, 200, spec.shape)
        elif spec.name.startswith("scale_"):
            values = rng.uniform(0.5, 1.5, spec.shape)
        else:
            values *= 0.1
        array = values.astype(np.float32)
        if spec.int8:
            array = rng.integers(-127, 128, spec.shape).astype(np.int8)
        weights.setdefault(record.name, {})[spec.name] = array
    return weights


# --- comparing ----------------------------------------------------------------------------------


def check(
    line: str,
    *inputs: np.ndarray,
    tops: int = 1,
    weights: Arrays | None = None,
    storage: Storage = "fp32",
    backend: str = "numpy",
    tolerance: float = TOLERANCE,
) -> None:
    """Compares one layer with ncnn; ``weights`` replaces random ones by name."""
    text = one_layer(line, len(inputs), tops)
    values = random_weights(parse_param(text.encode()))
    values.setdefault("layer", {}).update(weights or {})
    arrays = {f"x{i}": x for i, x in enumerate(inputs)}
    compare_with_ncnn(text, values, arrays, (backend,), storage=storage, tolerance=tolerance)


def compare_with_ncnn(
    param_text: str,
    weights: Weights | bytes | None,
    inputs: Arrays,
    backends: tuple[str, ...] = ("numpy",),
    *,
    storage: Storage = "fp32",
    tolerance: float = TOLERANCE,
) -> None:
    """Fails unless all outputs of vknn on each backend agree with ncnn's.

    ``weights`` None: random ones. Floats agree within ``tolerance`` of the output's range, int8
    exactly.
    """
    net = parse_param(param_text.encode())
    if weights is None:
        weights = random_weights(net)
    data = weights if isinstance(weights, bytes) else format_bin(net, weights, storage)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.param"
        path.write_text(param_text)
        path.with_suffix(".bin").write_bytes(data)
        model = formats.load(path)
        expected = run_ncnn(path, inputs, [spec.name for spec in model.outputs])
        for backend in backends:
            actual = run_vknn(path, inputs, backend)
            assert set(actual) == set(expected)
            for name, array in expected.items():
                assert_close(actual[name], array, tolerance, f"{backend}: {name}")


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float, what: str) -> None:
    """int8 must be equal; floats may differ by ``tolerance`` of the range of ``expected``."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, not {expected.shape}"
    if actual.dtype == np.int8:
        wrong = int((actual != expected).sum())
        assert wrong == 0, f"{what}: {wrong} of {actual.size} int8 values differ"
        return
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite], what)
    if not finite.any():
        return
    a, e = actual[finite], expected[finite]
    span = float(np.ptp(e)) or float(np.abs(e).max())
    worst = float(np.abs(a - e).max())
    assert worst <= tolerance * span, f"{what}: off by {worst:.3g} = {worst / span:.3g} of range"


def quiet_net() -> Any:
    """An ncnn net that computes in fp32 on one thread, without packing and Winograd."""
    net = ncnn_wheel().Net()
    for name in dir(net.opt):
        if name.startswith("use_") and name not in ("use_int8_inference", "use_sgemm_convolution"):
            setattr(net.opt, name, False)
    net.opt.num_threads = 1
    return net


def run_ncnn(path: Path, inputs: Arrays, outputs: list[str]) -> dict[str, np.ndarray]:
    """ncnn's answers."""
    ncnn = ncnn_wheel()
    net = quiet_net()
    assert net.load_param(str(path)) == 0, "ncnn does not load the .param"
    assert net.load_model(str(path.with_suffix(".bin"))) == 0, "ncnn does not load the .bin"
    extractor = net.create_extractor()
    extractor.set_light_mode(False)
    for name, array in inputs.items():
        # A copy of ncnn's own: its kernels expect aligned channels, and the array must stay alive.
        mat = ncnn.Mat(np.ascontiguousarray(array)).clone() if array.size else ncnn.Mat()
        assert extractor.input(name, mat) == 0, f"ncnn knows no input {name}"
    results = {name: _extract(extractor, name) for name in outputs}
    del extractor  # before the net
    return results


def _extract(extractor: Any, name: str) -> np.ndarray:
    code, mat = extractor.extract(name)
    assert code == 0, f"ncnn fails on {name}: {code}"
    return np.array(mat)


def run_vknn(path: Path, inputs: Arrays, backend: str) -> dict[str, np.ndarray]:
    """vknn's answers: the reference alone ("numpy"), or a session on the first device."""
    if backend == "numpy":
        model = formats.load(path)
        feeds = {spec.name: model.encode(spec.name, inputs[spec.name]) for spec in model.inputs}
        types = {n: _type_of(inputs[n], feeds[n]) for n in feeds}
        graph = model.build(types, {n: inputs[n] for n in model.value_inputs})
        results = reference.run(graph, {v.name: feeds[v.name] for v in graph.inputs})
        return {name: model.decode(name, array) for name, array in results.items()}
    from vknn import Session

    with Session(path, device=device()) as session:
        return session.run(inputs)


def _type_of(given: np.ndarray, encoded: np.ndarray) -> Any:
    from vknn.graph import DType, TensorType

    return TensorType(given.shape, DType.of(encoded))


def device() -> Any:
    """One device for all tests; skips where there is none."""
    from tests.helpers import shared_device

    return shared_device()
