"""Names and examples that an export has to tell apart, or refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.onnx_writer import graph, node, save, value
from tests.onnx_writer import model as onnx_model
from tests.small_model import write_small_model

import vknn
from vknn.bundle import Bundle
from vknn.bundle.descriptions import PortDescription
from vknn.bundle.forms import ArrayForm
from vknn.bundle.network import check_names
from vknn.bundle.plan_rules import check_plan
from vknn.bundle.ports import PortedPlan
from vknn.bundle.schema import MOST_PORTS, Direction
from vknn.errors import ExportError, InputError
from vknn.plan import Plan

pytestmark = pytest.mark.glsl


def test_names_with_characters_of_shapes(tmp_path: Path) -> None:
    """They stand in quotes, so that shapes are read in one way."""
    values = [value("a=1;b", (2, 3)), value("plain:x", (4,))]
    nodes = [node("Relu", "a=1;b", "y,"), node("Neg", "plain:x", "z")]
    outputs = [value("y,", None), value("z", None)]
    path = save(onnx_model(graph(nodes, values, outputs)), tmp_path)
    exported = vknn.export(path, tmp_path / "net.vkb", example=False)
    assert exported.plans[0].shapes == '"a=1;b"=2,3;plain:x=4'
    bundle = Bundle.open(tmp_path / "net.vkb")
    assert bundle.plans[0].shapes == '"a=1;b"=2,3;plain:x=4'
    assert [port.name for port in bundle.plans[0].ports] == ["a=1;b", "plain:x", "y,", "z"]


def test_ports_of_one_name_are_refused() -> None:
    """Characters that UTF-8 has not are all the same in a bundle."""
    form = ArrayForm((2,), np.dtype(np.float32))
    names = [("x", 0), ("\ud800", 1), ("x", 1), ("\ud801", 1)]
    ports = [PortDescription(name, Direction(way), form, 0) for name, way in names]
    plan = Plan("net", (), {}, (), (), {}, {})
    check_names(PortedPlan(plan, ports[:3], []))
    with pytest.raises(ExportError) as caught:
        check_names(PortedPlan(plan, ports, []))
    [reason] = caught.value.reasons
    assert "outputs '\\ud800' and '\\ud801' have the same name" in reason and "--outputs" in reason


def test_ports_are_few_and_names_are_short(tmp_path: Path) -> None:
    """A runner looks for a port by comparing names one by one."""
    plan = Plan("net", (), {}, (), (), {}, {})
    check_plan(plan, MOST_PORTS)
    with pytest.raises(ExportError, match="1,025 inputs and outputs, at most 1,024: cut it up"):
        check_plan(plan, MOST_PORTS + 1)
    for letters in (MOST_PORTS - 1, MOST_PORTS):
        name = "x" * letters
        net = graph([node("Relu", name, "y")], [value(name, (2, 3))], [value("y", None)])
        path = save(onnx_model(net), tmp_path)
        if letters < MOST_PORTS:
            vknn.export(path, tmp_path / "net.vkb")
            [port] = Bundle.open(tmp_path / "net.vkb").plans[0].inputs
            assert port.name == name
            continue
        with pytest.raises(ExportError, match=r"a name of 1,024 letters.*rename it"):
            vknn.export(path, tmp_path / "no.vkb")


def test_an_example_without_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no arrays: give some, True for one that is made up"):
        vknn.export(write_small_model(tmp_path), tmp_path / "net.vkb", example={})
    assert not (tmp_path / "net.vkb").exists()
