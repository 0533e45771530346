"""Composites, branches and loops and the subgraphs that they name, right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.tflite.stablehlo.nets import region, run
from tests.tflite_writer import Net

from vknn.errors import ModelFormatError, ShapeError, VknnError
from vknn.session import Session

SHAPE = (2, 3)
X = np.arange(6, dtype=np.float32).reshape(SHAPE) - 2


def branch(net: Net, code: str, dtype: str = "float32") -> int:
    """A subgraph of one operator on one tensor; gives its number."""
    inner = net.another()
    inner.inputs, inner.outputs = (
        [inner.tensor("a", SHAPE, dtype)],
        [inner.tensor("r", SHAPE, dtype)],
    )
    inner.add(code, inner.inputs, inner.outputs)
    return len(net.others)


def choosing(codes: list[str], fixed: int | None = None) -> Net:
    """A CASE of branches of one operator each: i, x -> y; ``fixed``: i is a constant."""
    net = Net()
    data = {} if fixed is None else {"data": np.array(fixed, np.int32)}
    index, x = net.tensor("i", (), "int32", **data), net.tensor("x", SHAPE)
    net.inputs, net.outputs = [x] if data else [index, x], [net.tensor("y", SHAPE)]
    numbers = [branch(net, code) for code in codes]
    net.add("STABLEHLO_CASE", [index, x], net.outputs, {"branch_subgraph_indices": numbers})
    return net


FUNCTIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("STABLEHLO_NEGATE", np.negative), ("STABLEHLO_ABS", np.abs), ("STABLEHLO_EXPONENTIAL", np.exp),
]  # fmt: skip


@pytest.mark.parametrize("chosen", [0, 1, 2, 3, -1, 2**31 - 1, -(2**31)])
def test_an_index_outside_takes_the_last_branch(chosen: int, tmp_path: Path, backend: str) -> None:
    codes = [code for code, _ in FUNCTIONS]
    wanted = FUNCTIONS[chosen if 0 <= chosen < 3 else 2][1](X)
    feeds = {"x": X}
    found = run(tmp_path / "a", backend, choosing(codes, chosen).file(), feeds)
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5)
    feeds["i"] = np.array(chosen, np.int32)
    found = run(tmp_path / "b", backend, choosing(codes).file(), feeds)
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5)


def test_branches_that_cannot_be(tmp_path: Path) -> None:
    net = choosing(["STABLEHLO_ABS"])
    for indices, message in (
        ([], "names subgraph -1 of 2"), ([1, 2], "names subgraph 2 of 2"),
        ([1, -5], "names subgraph -5 of 2"), ([0], "has 2 inputs and 1 outputs, not 1 and 1"),
    ):  # fmt: skip
        net.operators[0].fields["builtin_options_2"].fields["branch_subgraph_indices"] = indices
        with pytest.raises(ModelFormatError, match=rf"operator 0 \(STABLEHLO_CASE\).*{message}"):
            run(tmp_path / "m", "numpy", net.file(), {})
    net = choosing(["STABLEHLO_ABS"])
    net.operators[0].fields["inputs"] = []
    with pytest.raises(ModelFormatError, match=r"CASE\) of subgraph 0: has no inputs, of which"):
        run(tmp_path / "m", "numpy", net.file(), {})
    net = choosing(["STABLEHLO_ABS"])
    net.tensors[0].fields |= {"shape": [2]}
    with pytest.raises(ShapeError, match=r"CASE\) chooses by 2 numbers of int32, not one"):
        run(tmp_path / "m", "numpy", net.file(), {"i": np.int32([0, 0]), "x": X})


def composite(names: list[tuple[str, int]], last: str = "STABLEHLO_NEGATE") -> Net:
    """Subgraphs that call others (name of the composite, subgraph), the last one by ``last``."""
    net = Net()
    for graph in [net, *(net.another() for _ in names)]:
        graph.inputs, graph.outputs = [graph.tensor("x", SHAPE)], [graph.tensor("y", SHAPE)]
    for graph, (name, callee) in zip([net, *net.others], names, strict=False):
        options = {"name": name, "decomposition_subgraph_index": callee, "version": 7}
        graph.add("STABLEHLO_COMPOSITE", [0], [1], options)
    net.others[-1].add(last, [0], [1])
    return net


def test_composites_that_call_composites(tmp_path: Path, backend: str) -> None:
    net = composite([("odml.unheard_of", 1), ("", 2), ("vendor.thing", 3)])
    found = run(tmp_path / "m", backend, net.file(), {"x": X}, on_device=True)
    assert np.array_equal(found["y"], -X)


def test_one_composite_called_twice(tmp_path: Path, backend: str) -> None:
    net = composite([("a", 1)], "STABLEHLO_EXPONENTIAL")
    net.outputs = [net.tensor("z", SHAPE)]
    net.add("STABLEHLO_COMPOSITE", [1], net.outputs, {"decomposition_subgraph_index": 1})
    found = run(tmp_path / "m", backend, net.file(), {"x": X / 4})
    np.testing.assert_allclose(found["z"], np.exp(np.exp(X / 4)), rtol=1e-5)


def test_a_composite_whose_shapes_depend_on_data(tmp_path: Path, backend: str) -> None:
    net, open_ = Net(), {"shape_signature": [-1]}
    net.inputs, net.outputs = [net.tensor("x", (5,))], [net.tensor("y", (1,), "int64", **open_)]
    inner = net.another()
    inner.inputs = [inner.tensor("x", (5,))]
    made = inner.tensor("w", (1, 1), "int64", shape_signature=[-1, 1])
    inner.outputs = [inner.tensor("y", (1,), "int64", **open_)]
    flags, shape = inner.tensor("f", (5,), "bool"), inner.tensor("s", dtype="int32", data=[-1])
    zero = inner.tensor("zero", data=np.zeros(5, np.float32))
    options = {"comparison_direction": 3}
    inner.add("STABLEHLO_COMPARE", [0, zero], [flags], options)
    inner.add("WHERE", [flags], [made])
    inner.add("RESHAPE", [made, shape], inner.outputs, {})
    net.add("STABLEHLO_COMPOSITE", [0], net.outputs, {"decomposition_subgraph_index": 1})
    x = np.float32([1, -1, 0, 2, 3])
    found = run(tmp_path / "m", backend, net.file(), {"x": x})
    assert np.array_equal(found["y"], [0, 3, 4])


@pytest.mark.parametrize(
    ("callees", "problem"),
    [
        ([0], "subgraphs 0 call one another in a circle"),
        ([1, 2, 1], "subgraphs 0, 1, 2 call one another in a circle"),
        ([1, 0], "in a circle"),
        ([9], "names subgraph 9 of 2"),
        ([-1], "names subgraph -1 of 2"),
    ],
    ids=["itself", "two", "back", "missing", "negative"],
)
def test_composites_in_a_circle(callees: list[int], problem: str, tmp_path: Path) -> None:
    net = composite([("c", callee) for callee in callees])
    with pytest.raises(ModelFormatError, match=problem):
        Session(_saved(tmp_path, net), device="numpy")


def test_other_numbers_of_ends(tmp_path: Path) -> None:
    net = composite([("c", 1)])
    net.operators[0].fields["inputs"] = [0, 0]
    with pytest.raises(ModelFormatError, match="has 1 inputs and 1 outputs, not 2 and 1"):
        Session(_saved(tmp_path, net), device="numpy")
    net.operators[0].fields["inputs"] = [-1]
    with pytest.raises(ModelFormatError, match=r"STABLEHLO_COMPOSITE\).*lacks its input 0"):
        Session(_saved(tmp_path, net), device="numpy")


@pytest.mark.parametrize("depth", [14, 19, 40])
def test_composites_that_double(depth: int, tmp_path: Path) -> None:
    """Composites, each of which calls the next one twice."""
    net = composite([("c", n) for n in range(1, depth + 1)])
    for graph, callee in zip([net, *net.others], range(1, depth + 1), strict=False):
        end = graph.tensor("z", SHAPE)
        graph.add("STABLEHLO_COMPOSITE", [1], [end], {"decomposition_subgraph_index": callee})
        graph.outputs = [end]
    with pytest.raises(ModelFormatError, match="operators, written out"):
        Session(_saved(tmp_path, net), device="numpy")


def test_composites_that_nest_deep(tmp_path: Path) -> None:
    net = composite([("c", n) for n in range(1, 61)])
    with pytest.raises(ModelFormatError, match="deep"):
        Session(_saved(tmp_path, net), device="numpy")


def counting(code: str) -> Net:
    """A loop that swaps a and b while n < 5: n, a, b -> m, c, d."""
    net = Net()
    kinds = [("n", "int32"), ("a", "float32"), ("b", "float32")]
    net.inputs = [net.tensor(name, (), dtype) for name, dtype in kinds]
    net.outputs = [net.tensor(f"{name}_out", (), dtype) for name, dtype in kinds]

    def goes_on(inner: Net, arguments: list[int]) -> list[int]:
        limit, result = (
            inner.tensor("five", dtype="int32", data=np.int32(5)),
            inner.tensor("r", (), "bool"),
        )
        inner.tensors[limit].fields["shape"] = []
        inner.add("STABLEHLO_COMPARE", [arguments[0], limit], [result],
                  {"comparison_direction": 5})  # fmt: skip
        return [result]

    def step(inner: Net, arguments: list[int]) -> list[int]:
        one, more = (
            inner.tensor("one", dtype="int32", data=np.int32(1)),
            inner.tensor("more", (), "int32"),
        )
        inner.tensors[one].fields["shape"] = []
        inner.add("STABLEHLO_ADD", [arguments[0], one], [more])
        return [more, arguments[2], arguments[1]]

    dtypes = [dtype for _, dtype in kinds]
    options = {"cond_subgraph_index": region(net, dtypes, goes_on),
               "body_subgraph_index": region(net, dtypes, step)}  # fmt: skip
    net.add(code, net.inputs, net.outputs, options)
    return net


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_loops_pass_all_values_on_at_once(rounds: int, tmp_path: Path, backend: str) -> None:
    feeds = {"n": np.int32(5 - rounds), "a": np.float32(1), "b": np.float32(2)}
    found = run(tmp_path / "m", backend, counting("STABLEHLO_WHILE").file(), feeds)
    turned = rounds % 2 == 1
    assert found == {"n_out": 5, "a_out": 2 if turned else 1, "b_out": 1 if turned else 2}


def test_loops_that_cannot_be(tmp_path: Path) -> None:
    for name, number, message in (
        ("cond_subgraph_index", 2, "has 3 inputs and 3 outputs, not 3 and 1"),
        ("body_subgraph_index", 1, "has 3 inputs and 1 outputs, not 3 and 3"),
        ("body_subgraph_index", 0, "circle"), ("cond_subgraph_index", -3, "names subgraph -3"),
    ):  # fmt: skip
        net = counting("STABLEHLO_WHILE")
        net.operators[0].fields["builtin_options_2"].fields[name] = number
        with pytest.raises(ModelFormatError, match=message):
            Session(_saved(tmp_path, net), device="numpy")
    net = counting("STABLEHLO_WHILE")
    condition = net.others[0]
    condition.operators[0].fields["outputs"] = [condition.tensor("x", (), "float32")]
    condition.outputs = [len(condition.tensors) - 1]
    with pytest.raises(ModelFormatError, match=r"WHILE\).*its condition is float32, not bool"):
        Session(_saved(tmp_path, net), device="numpy")


REGIONS = [
    ("STABLEHLO_REDUCE", 2, 1, "body_subgraph_index", {"dimensions": [0]}, 2),
    ("STABLEHLO_REDUCE_WINDOW", 2, 1, "body_subgraph_index", {"window_dimensions": [1, 1]}, 2),
    ("STABLEHLO_SCATTER", 3, 1, "update_computation_subgraph_index", {}, 2),
    ("STABLEHLO_SORT", 1, 1, "comparator_subgraph_index", {"dimension": 0}, 2),
]


@pytest.mark.parametrize(("code", "ins", "outs", "option", "options", "arguments"), REGIONS)
def test_regions_that_cannot_be(
    code: str, ins: int, outs: int, option: str, options: dict[str, Any], arguments: int,
    tmp_path: Path,
) -> None:  # fmt: skip
    def made(number: int | None, count: int, results: int) -> Net:
        net = Net()
        net.inputs = [net.tensor(f"x{i}", SHAPE) for i in range(ins)]
        net.outputs = [net.tensor(f"y{i}", SHAPE) for i in range(outs)]
        own = region(net, ["float32"] * count, lambda _, given: [given[0]] * results)
        net.add(
            code, net.inputs, net.outputs, options | {option: own if number is None else number}
        )
        return net

    for net, message in (
        (made(7, 2, 1), "names subgraph 7 of 2"),
        (made(-1, 2, 1), "names subgraph -1 of 2"),
        (made(None, 1, 1), f"has 1 inputs and 1 outputs, not {arguments} and 1"),
        (made(None, 2, 2), f"has 2 inputs and 2 outputs, not {arguments} and 1"),
    ):
        with pytest.raises(ModelFormatError, match=rf"operator 0 \({code}\).*{message}"):
            Session(_saved(tmp_path, net), device="numpy")
    if ins == arguments:  # a region that is the graph itself has its number of ends
        with pytest.raises(ModelFormatError, match="circle"):
            Session(_saved(tmp_path, made(0, 2, 1)), device="numpy")


def test_regions_that_call_one_another(tmp_path: Path) -> None:
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", SHAPE), net.tensor("i")], [net.tensor("y", (3,))]

    def body(inner: Net, arguments: list[int]) -> list[int]:
        result = inner.tensor("r")
        inner.add("STABLEHLO_REDUCE", arguments, [result], {"body_subgraph_index": 1})
        return [result]

    number = region(net, ["float32"] * 2, body)
    options = {"dimensions": [0], "body_subgraph_index": number}
    net.add("STABLEHLO_REDUCE", net.inputs, net.outputs, options)
    with pytest.raises(ModelFormatError, match="in a circle"):
        Session(_saved(tmp_path, net), device="numpy")


def _saved(folder: Path, net: Net) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(net.file())
    return path


def test_targets_of_custom_calls_are_named(tmp_path: Path) -> None:
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", SHAPE)], [net.tensor("y", SHAPE)]
    for name in ("cublas.gemm", "my_target"):
        net.add("STABLEHLO_CUSTOM_CALL", [0], [1], {"call_target_name": name})
    net.operators[1].fields["outputs"] = [net.tensor("z", SHAPE)]
    message = "STABLEHLO_CUSTOM_CALL of 'cublas.gemm'.*STABLEHLO_CUSTOM_CALL of 'my_target'"
    with pytest.raises(VknnError, match=message):
        Session(_saved(tmp_path, net), device="numpy")
