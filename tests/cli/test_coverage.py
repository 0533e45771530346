"""``vknn info --coverage``"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.openvino_writer import Net

from vknn import coverage as module
from vknn.cli.main import main
from vknn.coverage import Covered, coverage
from vknn.formats import load
from vknn.graph import DType, TensorType
from vknn.lowering import LoweringOptions
from vknn.plan import DeviceLimits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two reshapes, one of which changes nothing, a constant, a concatenation."""
    net = Net()
    x = net.input("x", (2, 3))
    same = net.layer("Reshape", [x], [(2, 3)], {"dim": (2, 3)})[0]
    flat = net.layer("Reshape", [same], [(6,)], {"dim": -1})[0]
    long = net.layer("Concat", [flat, net.input("y", (4,))], [(10,)], {"axis": 0})[0]
    net.layer("Activation", [long], [(10,)], {"type": "tanh"}, name="z")
    return net.save(tmp_path)


ROWS = [
    Covered("Input", 2, (), ""), Covered("Reshape", 2, ("Reshape",), "vulkan"),
    Covered("Concat", 1, ("Concat",), "vulkan"), Covered("Activation", 1, ("Tanh",), "vulkan"),
]  # fmt: skip


def test_what_layers_become(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(path)
    graph = model.build(
        {s.name: TensorType(s.shape or (), DType(s.dtype_name)) for s in model.inputs}
    )
    given = (graph, model.layer_types, DeviceLimits(), LoweringOptions())
    assert coverage(*given) == ROWS
    monkeypatch.setattr(module, "candidates", lambda *arguments: [])
    assert {row.where for row in coverage(*given)} == {"", "host"}


def test_on_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--json"]):
        assert main(["info", str(path), "--coverage", "--device", "numpy", *more]) == 0
        text = capsys.readouterr().out
        if more:
            found = json.loads(text)["coverage"]
            assert [tuple(row["operators"]) for row in found] == [r.operators for r in ROWS]
        else:
            assert "Activation" in text
            assert "Tanh" in text


def test_what_data_decide(tmp_path: Path) -> None:
    net = Net()
    x, shape = net.input("x", (2, 3)), net.input("shape", (2,), "I32")
    net.layer("Reshape", [x, shape], [(3, 2)], name="z")
    model = load(net.save(tmp_path))
    types = {"x": TensorType((4, 3)), "shape": TensorType((2,), DType(model.inputs[1].dtype_name))}
    rows = coverage(model.build(types), model.layer_types, DeviceLimits(), LoweringOptions())
    assert rows[-1] == Covered("Reshape", 1, (), "planned at run time")
