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
from vknn.bundle.ports import PortedPlan
from vknn.bundle.schema import Direction
from vknn.cli.main import main
from vknn.errors import ExportError, InputError, ShapeError
from vknn.graph import DType
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


def test_an_example_without_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no arrays: give some, True for one that is made up"):
        vknn.export(write_small_model(tmp_path), tmp_path / "net.vkb", example={})
    for example in (np.zeros((3, 8, 8), "f4"), "data.npy", 1.0):
        with pytest.raises(InputError, match="neither arrays by input, as in"):
            vknn.export(write_small_model(tmp_path), tmp_path / "net.vkb", example=example)
    assert not (tmp_path / "net.vkb").exists()


def test_names_and_numbers_of_ports_have_an_end(tmp_path: Path) -> None:
    """A runner looks for ports one by one."""

    def exported(name: str, count: int) -> Bundle:
        nodes = [node("Relu", name, f"y{n}") for n in range(count)]
        outputs = [value(f"y{n}", None) for n in range(count)]
        path = save(onnx_model(graph(nodes, [value(name, (2,))], outputs)), tmp_path)
        vknn.export(path, tmp_path / "net.vkb", example=False)
        return Bundle.open(tmp_path / "net.vkb")

    assert exported("x" * 1023, 2).plans[0].inputs[0].name == "x" * 1023
    with pytest.raises(ExportError, match=r"input 'x{60}'\.\.\. has a name of 1024 bytes.*shorter"):
        exported("x" * 1024, 1)
    with pytest.raises(ExportError, match="it has 1025 inputs and outputs, .* 1024: .*--outputs"):
        exported("x", 1024)


def test_an_example_is_work_of_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    monkeypatch.setattr("vknn.bundle.plan_rules.MOST_WORK", 10_000)
    with pytest.raises(
        ExportError, match="the example: .* in a bundle at most 10,000: .*--no-example"
    ):
        vknn.export(model, tmp_path / "net.vkb")
    assert vknn.export(model, tmp_path / "net.vkb", example=False).plans


def test_a_bundle_takes_no_place_of_the_models_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither by its name nor by a link, in Python or by the command."""
    model = write_small_model(tmp_path)
    weights, link = model.with_suffix(".bin"), tmp_path / "link.vkb"
    link.symlink_to(model)
    before = model.read_bytes(), weights.read_bytes()
    for path in (model, link, weights):
        with pytest.raises(InputError, match="a file of the model: give another path"):
            vknn.export(model, path, weights=weights, example=False)
        arguments = [str(model), "--weights", str(weights), "-o", str(path), "--no-example"]
        assert main(["export", *arguments]) == 2
        assert "give another path" in capsys.readouterr().err
    with pytest.raises(InputError, match="a file of the model: give another path"):
        vknn.export(model, weights, example=False)  # which are taken from there by themselves
    assert (model.read_bytes(), weights.read_bytes()) == before
    vknn.export(model, tmp_path / "net.vkb", weights=weights, example=False)


def test_an_index_out_of_range_is_no_example(tmp_path: Path) -> None:
    """A session refuses it; a device takes another entry. What is made up may have one."""
    ids, table = value("ids", (3,), DType.INT64), np.arange(8, dtype="f4").reshape(4, 2)
    nodes = [node("Add", "ids one", "moved"), node("Gather", "table moved", "y")]
    tensors = {"table": table, "one": np.int64(1)}
    path = save(onnx_model(graph(nodes, [ids], [value("y", None)], tensors)), tmp_path)
    for number in (3, -6):
        example = {"ids": np.array([0, number, 1])}
        with pytest.raises(ShapeError, match=rf"index {number + 1} is out of range: -4 to 3"):
            vknn.export(path, tmp_path / "net.vkb", example=example)
    assert not (tmp_path / "net.vkb").exists()
    vknn.export(path, tmp_path / "net.vkb", example={"ids": np.array([2, -5, 1])})
    assert Bundle.open(tmp_path / "net.vkb").plans[0].examples


def test_an_archive_that_is_missing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not that its name lacks that of an input."""
    values = [value("a", (2,)), value("b", (2,))]
    nodes = [node("Add", "a b", "y")]
    path = save(onnx_model(graph(nodes, values, [value("y", None)])), tmp_path)
    arguments = ["export", str(path), "-o", str(tmp_path / "net.vkb"), "--example"]
    assert main([*arguments, str(tmp_path / "none.npz")]) == 2
    assert "none.npz: no such file" in capsys.readouterr().err
    np.savez(tmp_path / "a=1.npz", a=np.ones(2, "f4"), b=np.zeros(2, "f4"))
    assert main([*arguments, str(tmp_path / "a=1.npz")]) == 0
    assert main([*arguments, f"b={tmp_path / 'a=1.npz'}"]) == 0
