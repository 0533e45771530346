"""One way to test an op: reference against device, every candidate, layout and access mode."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from tests.needs import need_device

from vknn.crosscheck.storage import UNITS, infinite_beyond_half, rounded
from vknn.graph import Graph, GraphBuilder, Op, TensorType, Value
from vknn.lowering import Layout, LoweringOptions, candidates, check_plan, lower
from vknn.lowering.kit.layouts import element_bytes, packed_shape
from vknn.plan import DeviceLimits, Plan
from vknn.runtime import Device, Executable, WeightPool, open_device

GUARD_BYTES = 64
#: Error of one rounding to what is stored, and room for the constants that are rounded too.
HALF_STORAGE = {precision: 2 * unit for precision, unit in UNITS.items()}
ACCESS_MODES = ("storage", "texel", "image")


@functools.cache
def shared_device() -> Device:
    """The device of the tests, opened once; the test is skipped where there is none.

    VKNN_TEST_DEVICE names another one than "auto" (the GPU kit).
    """
    need_device()
    return open_device(os.environ.get("VKNN_TEST_DEVICE", "auto"))


def skip_without_half() -> None:
    """Skips the test on a device that cannot store floats of 16 bits."""
    if "fp16_storage" not in shared_device().limits.features:
        pytest.skip(f"{shared_device().name} has no 16-bit storage")


def single_op_graph(
    op: Op, arrays: Sequence[np.ndarray | None], constants: Sequence[int] = ()
) -> Graph:
    """A graph of one node; inputs whose index is in ``constants`` are constants."""
    builder = GraphBuilder(op.type_name)
    values = []
    for index, array in enumerate(arrays):
        if array is None:
            values.append(None)
        elif index in constants:
            values.append(builder.constant(array, f"c{index}"))
        else:
            values.append(builder.input(f"x{index}", TensorType.of(array)))
    outputs = builder.add_many(op, *values)
    return builder.finish({f"y{i}": v for i, v in enumerate(outputs)})


def variants(
    graph: Graph, limits: DeviceLimits, precision: str = "fp32"
) -> Iterator[LoweringOptions]:
    """Lowering options that make each candidate of the single node be taken once."""
    seen = set()
    for candidate in candidates(graph.nodes[0], limits, LoweringOptions(precision=precision)):
        key = (candidate.name, candidate.outputs[0])
        if key not in seen:
            seen.add(key)
            yield LoweringOptions(
                guard=GUARD_BYTES,
                algorithm=candidate.name,
                layout=candidate.outputs[0],
                precision=precision,
            )


def run_graph(
    graph: Graph, limits: DeviceLimits, options: LoweringOptions, feeds: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Runs a graph as one plan on the shared device, guards and zero padding lanes checked."""
    plan = lower(graph, limits, options)
    check_plan(plan)
    device = shared_device()
    with WeightPool(device) as pool, Executable(device, plan, pool) as executable:
        results = executable.run(feeds)
        executable.check_guards()
        # In larger graphs other tensors may lie in its bytes by now.
        for value in graph.outputs.values() if len(graph.nodes) == 1 else ():
            _check_tail(value, plan, executable, element_bytes(value.type.dtype, options.half))
    return results


def _check_tail(value: Value, plan: Plan, executable: Executable, width: int) -> None:
    """The lanes behind the last channel of a result in C4 are zero. ``width``: of an element."""
    names = [b.name for b in plan.buffers]
    if f"{value.name}.c4b" in names:
        name, width = f"{value.name}.c4b", 1
    else:
        name = f"{value.name}.c4"
    if name not in names or not value.type.is_static or value.type.dims[1] % 4 == 0:
        return
    raw = executable.read(names.index(name)).view(f"u{width}")
    shape = packed_shape(value.type, Layout.C4)
    lanes = raw[: math.prod(shape)].reshape(shape)[:, -1, ..., value.type.dims[1] % 4 :]
    # Shifted: -0.0 is a zero too.
    assert not (lanes << (width > 1)).any(), f"{value.name}: lanes behind the last channel not zero"


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float, context: str) -> None:
    """Same shape, same dtype; integers equal; floats within ``tolerance`` of the largest one."""
    assert actual.shape == expected.shape, f"{context}: shape {actual.shape}, not {expected.shape}"
    assert actual.dtype == expected.dtype, f"{context}: dtype {actual.dtype}, not {expected.dtype}"
    if expected.size == 0:
        return
    if expected.dtype.kind != "f":
        wrong = np.argwhere(actual != expected)
        assert not len(wrong), (
            f"{context}: {len(wrong)} of {expected.size} differ, first at {wrong[0]}: "
            f"{actual[tuple(wrong[0])]} for {expected[tuple(wrong[0])]}"
        )
        return
    finite = np.isfinite(expected)
    same_special = np.array_equal(
        np.where(finite, 0, actual), np.where(finite, 0, expected), equal_nan=True
    )
    assert same_special, f"{context}: nan or infinity in other places"
    scale = max(float(np.max(np.abs(expected[finite]), initial=0)), 1e-30)
    with np.errstate(invalid="ignore"):  # inf - inf, which is not looked at
        error = np.where(finite, np.abs(actual - expected), 0) / scale
    error = np.where(np.isnan(error), np.inf, error)
    worst = np.unravel_index(np.argmax(error), error.shape)
    assert error[worst] <= tolerance, (
        f"{context}: error {error[worst]:.3g} of the range at {tuple(map(int, worst))}: "
        f"{actual[worst]!r} for {expected[worst]!r}"
    )


def check_op(
    op: Op,
    *arrays: np.ndarray | None,
    constants: Sequence[int] = (),
    tolerance: float = 1e-5,
    access: Sequence[str] = ACCESS_MODES,
    host: bool = False,
    kind: str | None = None,
    max_loop_rounds: int | None = None,
    precision: str = "fp32",
    only: str | tuple[str, ...] = "",
    features: Sequence[str] = (),
) -> None:
    """Runs ``op`` on the device with every candidate, layout and access mode; compares with NumPy.

    ``constants``: indices of inputs that are constants. ``tolerance``: of the output's largest
    magnitude. ``host=True``: asserts instead that the device offers no candidate. ``kind``: lowers
    as for another kind of device ("discrete": the candidates for GPUs). ``max_loop_rounds``: as for
    a device whose lanes may run loops no longer than that. ``precision``: in "fp16" and "bf16" the
    inputs are rounded to that first, and what storing the output so costs is tolerated on top; the
    test is skipped where the device has none. ``only``: candidates whose name begins so, or so.
    ``features``: what the device is taken to have besides.
    """
    if precision != "fp32":
        skip_without_half()
        arrays = tuple(rounded(a, precision) for a in arrays)
        tolerance += HALF_STORAGE[precision]
    graph = single_op_graph(op, arrays, constants)
    limits = shared_device().limits
    rounds = max_loop_rounds or limits.max_loop_rounds
    limits = dataclasses.replace(
        limits,
        kind=kind or limits.kind,
        max_loop_rounds=rounds,
        features=limits.features | set(features),
    )
    if host:
        assert not candidates(graph.nodes[0], limits, LoweringOptions(precision=precision))
        return
    expected = op.reference(*arrays)
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in constants}
    tried = 0
    if precision != "fp32":  # what is beyond the range is infinite
        expected = tuple(infinite_beyond_half(y, precision) for y in expected)
    for options in variants(graph, limits, precision):
        if not str(options.algorithm).startswith(only):
            continue
        for mode in access:
            moded = dataclasses.replace(limits, preferred_access=mode)
            results = run_graph(graph, moded, options, feeds)
            layout = options.layout.value if isinstance(options.layout, Layout) else "-"
            context = f"{op} [{options.algorithm}, {layout}, {mode}, {precision}]"
            for i, want in enumerate(expected):
                assert_close(results[f"y{i}"], want, tolerance, context)
            tried += 1
    if not tried:
        pytest.fail(f"{op}: no candidate for {[None if a is None else a.shape for a in arrays]}")
