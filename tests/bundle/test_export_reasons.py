"""Networks that are no one plan: every layer in the way is named, and what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.bundle.sections import read_sections
from tests.bundle.test_ports_states import svdf
from tests.onnx_writer import graph, model, node, save, sequence, simple, value

import vknn
from vknn.bundle import Bundle, schema
from vknn.bundle.schema import StepKind
from vknn.cli.main import main
from vknn.errors import ExportError, InputError
from vknn.graph import DType

pytestmark = pytest.mark.glsl


def reasons(path: Path, **options: object) -> tuple[str, ...]:
    """Why a model cannot go; nothing is written."""
    out = path.with_suffix(".vkb")
    with pytest.raises(ExportError) as caught:
        vknn.export(path, out, **options)  # type: ignore[arg-type]
    assert not out.exists()
    assert str(path.name) in str(caught.value)
    return caught.value.reasons


def branching(folder: Path) -> Path:
    then = graph([node("Mul", "h h", "z")], outputs=[value("z", None)])
    other = graph([node("Neg", "h", "z")], outputs=[value("z", None)])
    nodes = [node("Relu", "x", "h"), node("If", "c", then_branch=then, else_branch=other)]
    body = graph(nodes, [value("x"), value("c", (), DType.BOOL)], [value("y", None)])
    return save(model(body), folder)


def test_a_branch_on_data(tmp_path: Path) -> None:
    [reason] = reasons(branching(tmp_path))
    assert "If" in reason and "--outputs" in reason
    assert reason.endswith("fix with --fixed the inputs that decide: 'c'")


def test_a_branch_whose_condition_is_fixed(tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    vknn.export(branching(tmp_path), out, fixed={"c": np.array(True)}, example=False)
    read = read_sections(out)
    assert [read.string(p["name"]) for p in read.tables["port"]] == ["x", "y"]
    assert read.string(read.tables["plan"][0]["shapes"]) == "x=2,3"
    options = ["--fixed", "c=false", "--no-example"]
    assert main(["export", str(branching(tmp_path)), "-o", str(out), *options]) == 0


def test_a_network_cut_in_front_of_a_branch(tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    vknn.export(branching(tmp_path), out, outputs="h", example=False)
    ports = read_sections(out)
    assert "h" in [ports.string(p["name"]) for p in ports.tables["port"]]


def test_every_layer_is_named(tmp_path: Path) -> None:
    """Two layers of the host's, apart, and one behind a shape that data decide."""
    path = save(
        model(
            graph(
                [
                    node("Cast", "x", "wide", to=11),
                    node("Exp", "wide", "big"),
                    node("Cast", "big", "a", to=1),
                    node("Relu", "a", "b"),
                    node("NonZero", "b", "places"),
                    node("Cast", "places", "p", to=1),
                    node("MatMul", "p q", "y"),
                ],
                [value("x"), value("q", (None, 2))],
                [value("y", None)],
            )
        ),
        tmp_path,
    )
    told = reasons(path, shapes={"q": (3, 2)})
    text = "\n".join(told)
    assert "Exp" in text and "float64" in text
    assert "MatMul" in text and "computed at run time" in text
    assert len(told) >= 4
    [places] = [reason for reason in told if "NonZero" in reason]
    assert places.endswith("the inputs that decide: 'x'")
    [rest] = [reason for reason in told if "loops, branches" in reason]
    assert rest.endswith("the inputs that decide, some of 'x', 'q'")
    assert "value:" not in text  # a name of vknn's own


def test_strings(tmp_path: Path) -> None:
    body = graph(
        [node("Identity", "s", "t"), node("Relu", "x")],
        [value("s", (2,), DType.STRING), value("x")],
        [value("t", (2,), DType.STRING), value("y", None)],
    )
    for example in (True, False):
        told = reasons(save(model(body), tmp_path), example=example)
        [source] = [reason for reason in told if "input 's'" in reason]
        [sink] = [reason for reason in told if "output 't'" in reason]
        assert "string" in source and "; fix it with --fixed, cut the network" in source
        assert "string" in sink and "; cut the network" in sink


def test_constants_of_any_type_are_outputs(tmp_path: Path) -> None:
    """A shape is folded: nothing of int64 is left to a device but the output's bytes."""
    outputs = [value("y", None), value("s", (2,), DType.INT64), value("u", (2,), DType.UINT32)]
    outputs.append(value("d", (2,), DType.FLOAT64))
    nodes = [node("Relu", "x"), node("Shape", "x", "s")]
    nodes += [node("Identity", "large", "u"), node("Identity", "wide", "d")]
    constants = {"large": np.uint32([3_000_000_000, 7]), "wide": np.array([0.1, -1e300])}
    path = save(model(graph(nodes, [value("x")], outputs, constants)), tmp_path)
    vknn.export(path, tmp_path / "net.vkb")
    read = read_sections(tmp_path / "net.vkb")
    ports = read.tables["port"]
    types = {read.string(p["name"]): schema.PortElement(p["type"]).name for p in ports}
    assert types == {"x": "FLOAT32", "y": "FLOAT32", "s": "INT64", "u": "UINT32", "d": "FLOAT64"}
    told = {read.string(ports[e["port"]]["name"]): e for e in read.tables["example"]}
    assert np.frombuffer(read.blob(told["s"]["blob"]), np.int64).tolist() == [2, 3]
    assert np.frombuffer(read.blob(told["u"]["blob"]), np.uint32).tolist() == [3_000_000_000, 7]
    assert np.frombuffer(read.blob(told["d"]["blob"])).tolist() == [0.1, -1e300]


def test_copies_of_float16_are_of_any_size(tmp_path: Path) -> None:
    """What is joined of an odd number of halves is no whole word; readers take that."""
    body = [node("Relu", "x", "a"), node("Relu", "b", "c"), node("Concat", "a c", axis=0)]
    inputs = [value("x", (3,)), value("b", (5,))]
    path = save(model(graph(body, inputs, [value("y", (8,))])), tmp_path)
    vknn.export(path, tmp_path / "net.vkb", targets="adreno-7xx", precision="fp16")
    read = Bundle.open(tmp_path / "net.vkb")
    steps = read.tables[schema.STEP]
    copies = steps[steps["kind"] == StepKind.COPY]
    assert any(copies["nbytes"] % 4) and any(copies["target_offset"] % 4)


@pytest.mark.parametrize(("factor", "answers"), [(1e20, 1), (1e30, 1), (1e38, 0)])
def test_numbers_that_no_bound_holds(factor: float, answers: int, tmp_path: Path) -> None:
    """A runner takes bounds below 1e30: what would need larger ones is not compared."""
    path = save(simple(node("Mul", "x k"), k=np.float32(factor)), tmp_path)
    vknn.export(path, tmp_path / "net.vkb")
    [plan] = Bundle.open(tmp_path / "net.vkb").plans
    bounds = [e.absolute for e in plan.examples if e.port.direction is schema.Direction.OUTPUT]
    assert len(bounds) == answers
    assert all(factor * 1e-9 < bound < factor * 1e-3 for bound in bounds)


def test_constant_strings(tmp_path: Path) -> None:
    nodes = [node("Relu", "x"), node("Identity", "names", "n")]
    outputs = [value("y", None), value("n", (2,), DType.STRING)]
    constants = {"names": np.array([b"a", b"b"], object)}
    path = save(model(graph(nodes, [value("x")], outputs, constants)), tmp_path)
    [reason] = reasons(path)
    assert "output 'n' has strings, which no bundle has" in reason


def test_a_uint32_input_of_which_floats_and_integers_are_made(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", "y", to=1), node("Cast", "x", "z", to=6)]
    outputs = [value("y", (2, 3)), value("z", (2, 3), DType.INT32)]
    path = save(model(graph(nodes, [value("x", (2, 3), DType.UINT32)], outputs)), tmp_path)
    assert "input 'x' has elements of type uint32" in reasons(path)[0]


def test_a_kernel_that_is_switched_off(tmp_path: Path) -> None:
    [reason] = reasons(save(simple(node("Erf", "x")), tmp_path), disable="kernel:Erf")
    assert "Erf" in reason and "--outputs" in reason


def test_a_tensor_longer_than_the_target_allows(tmp_path: Path) -> None:
    path = save(simple(node("Expand", "x s"), s=np.array([1 << 23, 2, 3])), tmp_path)
    [reason, *_] = reasons(path)
    assert f"{4 * 6 << 23:,}" in reason.replace("(", "") or "201,326,592 bytes" in reason
    assert "134,217,728" in reason and "--target" in reason


def test_a_last_cast_to_int64(tmp_path: Path) -> None:
    out = tmp_path / "net.vkb"
    body = graph(
        [node("ArgMax", "x", "i", axis=1, keepdims=0), node("Cast", "i", "y", to=7)],
        [value("x")],
        [value("y", None, DType.INT64)],
    )
    vknn.export(save(model(body), tmp_path), out, example=False)
    [port] = [p for p in read_sections(out).tables["port"] if p["direction"] == 1]
    assert port["type"] == schema.PortElement.INT64
    assert port["dims"][: port["rank"]].tolist() == [2]


def test_networks_without_layers(tmp_path: Path) -> None:
    """An output that is an input, and one that is a constant."""
    body = graph(
        [node("Identity", "x", "y"), node("Identity", "k", "z")],
        [value("x")],
        [value("y", (2, 3)), value("z", (2,))],
        {"k": np.float32([5, 7])},
    )
    out = tmp_path / "net.vkb"
    told = vknn.export(save(model(body), tmp_path), out)
    read = read_sections(out)
    names = [read.string(p["name"]) for p in read.tables["port"]]
    assert names == ["x", "y", "z"]
    assert told.plans[0].needs["group_invocations"] >= 1


def test_names_with_commas(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "a,b"), node("Neg", "a,b", "a"), node("Neg", "x", "b")]
    path = save(model(graph(nodes, [value("x")], [value("a"), value("b")])), tmp_path)
    out = tmp_path / "net.vkb"
    for given, wanted in [(["a,b"], ["a,b"]), (["b,a"], ["b", "a"]), (["a,b", "b,a"], None)]:
        options = [part for text in given for part in ("--outputs", text)]
        assert main(["export", str(path), "-o", str(out), "--no-example", *options]) == 0
        names = [port.name for port in Bundle.open(out).plans[0].outputs]
        assert names == (wanted or ["a,b", "b", "a"])


def test_a_state_is_no_output(tmp_path: Path) -> None:
    """It is kept: a bundle that ends in it alone would have no output."""
    with vknn.Session(svdf(), device="cpu") as session:
        [name] = session.model.state
        with pytest.raises(InputError, match="is a state, which a bundle keeps"):
            vknn.export(session, tmp_path / "net.vkb", outputs=[name])
        vknn.export(session, tmp_path / "net.vkb", outputs=["y"])


def test_shapes_that_are_missing(tmp_path: Path) -> None:
    """All of them are named at once."""
    inputs = [value("x", (None, None)), value("u", (2, None))]
    path = save(model(graph([node("Add", "x u")], inputs, [value("y", None)])), tmp_path)
    with pytest.raises(InputError, match="--shape x=N,N .*'u' open: .* --shape u=2,N ") as caught:
        vknn.export(path, tmp_path / "net.vkb")
    assert str(caught.value).count("; ") == 1
    shapes = {"x": (2, 3), "u": (2, 3)}
    vknn.export(path, tmp_path / "net.vkb", shapes=shapes, example=False)


def test_inputs_whose_data_decide_shapes(tmp_path: Path) -> None:
    path = save(simple(node("Relu", "x")), tmp_path)
    with vknn.Session(path, device="cpu") as session:
        session.model.value_inputs = frozenset(("x",))
        with pytest.raises(ExportError, match="'x': its data decide shapes; .*--fixed x="):
            vknn.export(session, tmp_path / "net.vkb")


def test_tensors_without_elements(tmp_path: Path) -> None:
    ends = {"b": np.array([3]), "e": np.array([3]), "a": np.array([1])}
    told = reasons(save(simple(node("Slice", "x b e a", "s"), node("Relu", "s"), **ends), tmp_path))
    assert any("output 'y' has no elements" in reason for reason in told)
    assert any("one of its tensors has no elements" in reason for reason in told)


def test_a_sequence_as_input_is_told(tmp_path: Path) -> None:
    """And no shape is asked for, which would not do."""
    nodes = [node("ConcatFromSequence", "s", "y", axis=0)]
    path = save(model(graph(nodes, [sequence("s")], [value("y", None)])), tmp_path)
    lists = {"s": [np.float32([1, 2]), np.float32([1])]}
    for options in ({}, {"example": lists}, {"fixed": lists}):
        [reason] = reasons(path, **options)
        assert reason == "input 's' is a sequence: make its elements inputs of their own"


def test_what_is_no_array_is_told(tmp_path: Path) -> None:
    path = save(simple(node("Relu", "x")), tmp_path)
    for options in ({"example": {"x": [[1], [1, 2]]}}, {"fixed": {"x": [[1], [1, 2]]}}):
        with pytest.raises(InputError, match="for input 'x' is no array"):
            vknn.export(path, tmp_path / "net.vkb", **options)


def test_the_example_of_a_scale_made_of_one_number(tmp_path: Path) -> None:
    """A choice between scalars erred as a vector of one."""
    outputs = [value(name, None) for name in "ysz"]
    made = graph([node("DynamicQuantizeLinear", "x", "y s z")], [value("x", (1,))], outputs)
    path, out = save(model(made), tmp_path), tmp_path / "net.vkb"
    vknn.export(path, out, example={"x": np.float32([0.5])})
    assert len(read_sections(out).tables["example"]) == 4
