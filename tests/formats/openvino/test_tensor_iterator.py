"""TensorIterators, unrolled and as one recurrent op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.cells import (
    BACKENDS,
    CELLS,
    Cell,
    blobs,
    close,
    made,
    run,
    states_of,
)
from tests.openvino_writer import Net, Port, iterator

from vknn.errors import ModelFormatError, ShapeError
from vknn.formats.openvino.layers.control import tensor_iterator as layers
from vknn.session import Session

pytestmark = pytest.mark.long  # loops of every cell


def recurrent_net(
    cell: Cell, axis: int, backwards: bool, wrap: str, turned: bool = False, rows: int = 2
) -> Net:
    """A TensorIterator around a cell; ``wrap``: how X loses its axis and Y gets it back."""
    steps, width, hidden = 5, cell.inputs, cell.hidden
    net = Net()
    sizes = (steps, rows) if axis == 0 else (rows, steps)
    part, out = ((1, rows), (1, rows)) if axis == 0 else ((rows, 1), (rows, 1))
    ports = [net.input("x", (*sizes, width))]
    count = 1 + (cell.kind == "LSTM")
    ports += [net.input(f"s{i}", (rows, hidden)) for i in range(count)]
    body = net.body()
    inner: list[Port | tuple[int, ...]] = [(rows, hidden)] * count
    if wrap == "inputs":  # a body's Input layers
        x = body.input("x", (*part, width))
        inner = [body.input(f"s{i}", (rows, hidden)) for i in range(count)]
        x = body.layer("Reshape", [x, body.const(np.int32([rows, width]))], [(rows, width)])[0]
        enter, carried = (0, 0), [(1 + i, 0) for i in range(count)]
    else:
        shape = {"dim": (-1, width)} if wrap == "dim" else None
        given: list[Any] = [(*part, width)]
        if wrap == "squeeze":
            given.append(body.const(np.int32([axis])))
        elif wrap != "dim":
            given.append(body.const(np.array([rows, width])))
        kind = "Squeeze" if wrap == "squeeze" else "Reshape"
        x = body.layer(kind, given, [(rows, width)], shape)[0]
        enter = (x.layer, 0)
        carried = [(x.layer + 1, 1 + i) for i in range(count)]
    made_ = body.layer(
        f"{cell.kind}Cell", [x, *inner], [(rows, hidden)] * count, cell.attributes, blobs(cell)
    )
    if wrap == "busy":  # something that no recurrent op can do
        y = body.layer("ReLU", [made_[0]], [(rows, hidden)], {"negative_slope": 1})[0]
    else:
        y = made_[0]
    if wrap == "squeeze":
        y = body.layer("Unsqueeze", [y, body.const(np.int32([axis]))], [(*out, hidden)])[0]
    else:
        y = body.layer("Reshape", [y], [(*out, hidden)], {"dim": (*out, hidden)})[0]
    way = {"start": -1, "end": 0, "stride": -1} if backwards else {"part_size": 1}
    back = {"start": -1, "end": 0, "stride": -1} if backwards != turned else {}
    inputs = [{"external_port_id": 0, "internal_layer_id": enter[0], "internal_port_id": enter[1],
               "axis": axis, **way}]  # fmt: skip
    for i, place in enumerate(carried):
        inputs.append({"external_port_id": 1 + i, "internal_layer_id": place[0],
                       "internal_port_id": place[1]})  # fmt: skip
    first = 1 + count
    outputs = [{"external_port_id": first, "internal_layer_id": y.layer,
                "internal_port_id": y.port, "axis": axis, **back}]  # fmt: skip
    for i, port in enumerate(made_):
        outputs.append({"external_port_id": first + 1 + i, "internal_layer_id": port.layer,
                        "internal_port_id": port.port})  # fmt: skip
    edges = [((p.layer, p.port), place) for p, place in zip(made_, carried, strict=True)]
    dims = [(*sizes, hidden), *[(rows, hidden)] * count]
    net.layer("TensorIterator", ports, dims, name="y",
              children=iterator(body, inputs, outputs, edges))  # fmt: skip
    return net


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrap", ["const", "dim", "squeeze", "inputs", "busy"])
@pytest.mark.parametrize(("axis", "backwards"), [(0, False), (0, True), (1, False), (1, True)])
@pytest.mark.parametrize(
    "number",
    [0, 1, pytest.param(3, marks=pytest.mark.long), pytest.param(5, marks=pytest.mark.long)],
)
def test_loops_of_cells(
    number: int, axis: int, backwards: bool, wrap: str, backend: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cell = CELLS[number]
    turned = number == 1
    path = recurrent_net(cell, axis, backwards, wrap, turned).save(tmp_path)
    states = states_of(cell, 2)
    x = made(5, 2, cell.inputs)
    feeds = {"x": x if axis == 0 else x.swapaxes(0, 1)}
    feeds |= {f"s{i}": state for i, state in enumerate(states)}
    y, last = cell.walk(x, states, backwards)
    if turned:
        y = y[::-1]
    if axis == 1:
        y = y.swapaxes(0, 1)
    tried = []
    fuse = layers.fuse
    monkeypatch.setattr(layers, "fuse", lambda c, x: tried.append(fuse(c, x)) or tried[-1])
    for _ in range(2):  # as one op where it is one, then unrolled
        found = run(path, feeds, backend)
        for array, wanted in zip(found.values(), (y, *last), strict=True):
            close(array, wanted)
        monkeypatch.setattr(layers, "fuse", lambda c, x: None)
    assert (tried[0] is None) == (wrap == "busy")


def test_rows_that_are_slices_as_they_are(tmp_path: Path) -> None:
    """A sequence (T, D): slices (1, D) enter the cell without a layer between."""
    cell = CELLS[2]
    net = Net()
    ports = [net.input("x", (5, 3)), net.input("h", (1, 4))]
    body = net.body()
    new = body.layer("GRUCell", [(1, 3), (1, 4)], [(1, 4)], cell.attributes, blobs(cell))[0]
    inputs = [{"external_port_id": i, "internal_layer_id": 0, "internal_port_id": i,
               **({"axis": 0} if i == 0 else {})} for i in range(2)]  # fmt: skip
    outputs = [{"external_port_id": 2, "internal_layer_id": 0, "internal_port_id": 2, "axis": 0}]
    net.layer("TensorIterator", ports, [(5, 4)], name="y",
              children=iterator(body, inputs, outputs, [((new.layer, 2), (0, 1))]))  # fmt: skip
    path = net.save(tmp_path)
    x, h = made(5, 3), made(1, 4)
    close(run(path, {"x": x, "h": h})["y"], cell.walk(x[:, None], [h])[0][:, 0])
    with Session(path, device="numpy") as session:
        assert "GRU" in {n.op.type_name for n in session._engine.graph({"x": x, "h": h}).nodes}


def test_other_numbers_of_steps_and_rows(tmp_path: Path) -> None:
    cell = CELLS[2]
    path = recurrent_net(cell, 0, False, "dim").save(tmp_path)
    x, h = made(9, 1, 3), made(1, 4)
    with pytest.raises(ShapeError, match="'y"):
        run(path, {"x": x, "s0": h})  # the shape of its slices stands in the file: [1, 2, 4]
    x, h = made(9, 2, 3), made(2, 4)
    y, last = cell.walk(x, [h])
    found = run(path, {"x": x, "s0": h})
    close(found["y.0"], y)
    close(found["y.1"], last[0])


def sums(rule: dict[str, Any], out: dict[str, Any] | None, size: int, part: int, whole: int) -> Net:
    """y = running sums of slices of x (size, 2), added to a constant of the body."""
    net = Net()
    x, s = net.input("x", (size, 2)), net.input("s", (part, 2))
    body = net.body()
    one = body.const(np.full((part, 2), 10, np.float32))
    both = body.layer("Concat", [(part, 2), one], [(part, 4)], {"axis": 1})[0]
    cut = body.layer("Split", [both], [(part, 2)] * 2, {"axis": 1})
    total = body.layer("Concat", [cut[0], (part, 2)], [(part, 4)], {"axis": 1})[0]
    # x and the state beside each other, (part, 4) -> sums by a cell with W = 1 and no bias
    both_ = body.layer("Reshape", [total], [(part, 4)], {"dim": (part, 4)})[0]
    weights = np.concatenate([np.eye(2), np.eye(2), np.zeros((2, 2))], 1).astype(np.float32)
    cell = body.layer(
        "RNNCell", [both_, cut[1]], [(part, 2)], {"hidden_size": 2, "activations": "relu"},
        {"weights": weights, "biases": np.zeros(2, np.float32)},
    )[0]  # fmt: skip
    place = {"internal_layer_id": cell.layer, "internal_port_id": cell.port}
    inputs = [
        {"external_port_id": 0, "internal_layer_id": both.layer, "internal_port_id": 0, **rule},
        {"external_port_id": 1, "internal_layer_id": total.layer, "internal_port_id": 1},
    ]
    outputs = [{"external_port_id": 2, **place, **(out or {})}]
    edges = [((cell.layer, cell.port), (total.layer, 1))]
    dims = (whole, 2) if out else (part, 2)
    net.layer("TensorIterator", [x, s], [dims], name="y",
              children=iterator(body, inputs, outputs, edges))  # fmt: skip
    return net


RULES: tuple[tuple[Any, ...], ...] = (
    # input, output, size, part, beginnings of slices, size of the output, places in it
    ({"axis": 0}, None, 4, 1, [0, 1, 2, 3], 1, []),
    ({"axis": 0}, {"axis": 0}, 4, 1, [0, 1, 2, 3], 4, [0, 1, 2, 3]),
    ({"axis": -2}, {"axis": 0}, 4, 1, [0, 1, 2, 3], 4, [0, 1, 2, 3]),
    ({"axis": 0, "start": 1}, {"axis": 0}, 4, 1, [1, 2, 3], 3, [0, 1, 2]),
    ({"axis": 0, "start": 1, "end": 3}, {"axis": 0}, 4, 1, [1, 2], 2, [0, 1]),
    ({"axis": 0, "end": -2}, {"axis": 0}, 4, 1, [0, 1, 2], 3, [0, 1, 2]),
    ({"axis": 0, "start": -3}, {"axis": 0}, 4, 1, [2, 3], 2, [0, 1]),
    ({"axis": 0, "start": -1, "end": 0, "stride": -1}, {"axis": 0}, 4, 1, [3, 2, 1, 0], 4,
     [0, 1, 2, 3]),
    ({"axis": 0, "stride": -1}, {"axis": 0, "stride": -1}, 4, 1, [3, 2, 1, 0], 4, [3, 2, 1, 0]),
    ({"axis": 0, "start": 3, "end": 1, "stride": -1}, {"axis": 0}, 4, 1, [2, 1], 2, [0, 1]),
    ({"axis": 0, "stride": 2}, {"axis": 0, "stride": 2}, 6, 2, [0, 2, 4], 6, [0, 2, 4]),
    ({"axis": 0, "start": -1, "end": 0, "stride": -3, "part_size": 3},
     {"axis": 0, "start": -1, "end": 0, "stride": -3}, 6, 3, [3, 0], 6, [3, 0]),
    ({"axis": 0, "stride": 2, "part_size": 1}, {"axis": 0}, 5, 1, [0, 2, 4], 3, [0, 1, 2]),
    ({"axis": 0, "stride": 1, "part_size": 2}, {"axis": 0, "stride": 2}, 4, 2, [0, 1, 2], 6,
     [0, 2, 4]),
    ({"axis": 0}, {"axis": 0, "stride": 2, "part_size": 1}, 3, 1, [0, 1, 2], 5, [0, 2, 4]),
    ({"axis": 0}, {"axis": 0, "start": 2}, 3, 1, [0, 1, 2], 5, [2, 3, 4]),
    ({"axis": 0, "start": 0, "end": -1, "stride": 4}, {"axis": 0}, 4, 4, [0], 4, [0]),
)  # fmt: skip


@pytest.mark.parametrize("case", RULES, ids=range(len(RULES)))
def test_the_port_map(case: Any, tmp_path: Path) -> None:
    rule, out, size, part, begins, whole, places = case
    x, state = np.abs(made(size, 2)), np.abs(made(part, 2, seed=2))
    held, expected = state, np.zeros((whole, 2), np.float32)
    for turn, begin in enumerate(begins):
        held = held + x[begin : begin + part]
        if out is not None:
            expected[places[turn] : places[turn] + part] = held
    found = run(sums(rule, out, size, part, whole).save(tmp_path), {"x": x, "s": state})
    close(found["y"], held if out is None else expected)


@pytest.mark.parametrize(
    ("rule", "out", "said"),
    [
        ({"axis": 2}, None, "axis 2 does not exist in rank 2"),
        ({"axis": 0, "stride": 0}, None, "the stride 0"),
        ({"axis": 0, "start": 9}, None, "9 lies outside the 4 elements"),
        ({"axis": 0, "end": -9}, None, "-9 lies outside"),
        ({"axis": 0, "start": 3, "end": 1}, None, "goes from 3 to 1 with the stride 1"),
        ({"axis": 0, "part_size": 2}, None, "part_size is 2, its body takes 1"),
        ({"axis": 0, "part_size": 0}, None, "part_size is 0"),
        ({"axis": 0, "start": 2, "end": 2}, None, "wider than what is sliced"),
        ({"axis": 0}, {"axis": 0, "start": 2}, "4 slices of 1 do not fit into 2"),
        ({"axis": 0}, {"axis": 0, "stride": 2}, "do not fit into"),
        ({}, {"axis": 5}, "axis 5 does not exist"),
    ],
)
def test_port_maps_that_are_wrong(
    rule: dict[str, Any], out: dict[str, Any] | None, said: str, tmp_path: Path
) -> None:
    path = sums(rule, out, 4, 1, 4).save(tmp_path)
    with pytest.raises(ShapeError, match=rf"layer 'y' \(TensorIterator\): .*{said}"):
        run(path, {"x": made(4, 2), "s": made(1, 2)})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('external_port_id="0"', 'external_port_id="7"', "names input port 7"),
        ('external_port_id="2"', 'external_port_id="7"', "names output port 7"),
        ('internal_layer_id="1" internal_port_id="0"', 'internal_layer_id="9"', "feeds layer 9"),
        ('internal_layer_id="5" internal_port_id="2"', 'internal_layer_id="9"', "takes layer 9"),
        ('from-layer="5" from-port="2"', 'from-layer="8" from-port="2"', "leaves layer 8, port 2"),
        ('to-layer="3" to-port="1"/></back', 'to-layer="4" to-port="0"/></back', "to layer 4"),
        ('<input external_port_id="1" internal_layer_id="3" internal_port_id="1"/>', "",
         "layer 3, port 1 of the body has a back edge and no first value"),
        ("<output external_port_id", "<wrong external_port_id", "nothing for output port 2"),
        ("<body>", "<soul>", "mismatched"),
        ('axis="0"', 'axis="a"', "'a' as axis"),
    ],
)  # fmt: skip
def test_loops_that_contradict_themselves(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = sums({"axis": 0}, {"axis": 0}, 4, 1, 4).save(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ModelFormatError, match=said):
        Session(path, device="numpy")


def test_loops_of_absurd_length(tmp_path: Path) -> None:
    path = sums({"axis": 0}, {"axis": 0}, 1 << 20, 1, 1 << 20).save(tmp_path)
    with pytest.raises(ShapeError, match="more than 200000 layers"):
        run(path, {"x": np.zeros((1 << 20, 2)), "s": np.zeros((1, 2))})


def test_loops_in_loops(tmp_path: Path) -> None:
    """Sums of rows in an inner loop, over matrices in an outer one."""
    net = Net()
    x, s = net.input("x", (3, 4, 2)), net.input("s", (1, 2))
    outer = net.body()
    matrix = outer.layer("Reshape", [(1, 4, 2)], [(4, 2)], {"dim": (4, 2)})[0]
    inside = sums({"axis": 0}, None, 4, 1, 1)
    inner = outer.body()
    # the weights of ``inside`` lie in a blob of their own: put behind what is there
    shift = len(net.blob)
    net.blob += inside.blob
    children = inside.layers[2].split("<port_map>")[1].removesuffix("</layer>")
    for offset in (48, 40, 16, 8, 0):
        children = children.replace(f'offset="{offset}"', f'offset="{offset + shift}"')
    assert inner.blob is net.blob
    loop = outer.layer(
        "TensorIterator", [matrix, (1, 2)], [(1, 2)], name="inner",
        children=f"<port_map>{children}",
    )[0]  # fmt: skip
    net.layer(
        "TensorIterator", [x, s], [(3, 2)], name="y",
        children=iterator(
            outer,
            [{"external_port_id": 0, "internal_layer_id": 0, "internal_port_id": 0, "axis": 0},
             {"external_port_id": 1, "internal_layer_id": loop.layer, "internal_port_id": 1}],
            [{"external_port_id": 2, "internal_layer_id": loop.layer,
              "internal_port_id": loop.port, "axis": 0}],
            [((loop.layer, loop.port), (loop.layer, 1))],
        ),
    )  # fmt: skip
    given, state = np.abs(made(3, 4, 2)), np.abs(made(1, 2, seed=3))
    found = run(net.save(tmp_path), {"x": given, "s": state})
    close(found["y"], state + np.cumsum(given.sum(axis=1), axis=0))
