"""Extraction: what is in the folder is enough, and right, for every dispatch of a network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import shared_device, skip_without_half
from tests.kernel_lab.labs import lab_folder
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli import main
from vknn.errors import DeviceError, InputError, NullDeviceError
from vknn.kernel_lab import Lab, choices, extract

DATA = {"data": np.linspace(-1, 1, 192, dtype=np.float32).reshape(SHAPE)}


@pytest.mark.device
def test_the_folder_is_all_that_is_needed(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert {"lab.json", "README.md", "extracted.spv", "glsl/pooling/window.comp"} <= names
    assert "glsl/common/tensor.glsl" in names
    with Lab.open(folder) as lab:
        result = lab.run(shared_device_name(), runs=3)
        (binding, *_) = [b for b in lab.description.bindings if b.access.value == "read"]
    assert result.ok
    assert len(result.times) == 3 or "timestamps" not in shared_device().limits.features
    (check,) = result.outputs
    # A C4 buffer of six channels has room for eight.
    assert (check.against, check.count, check.wrong, check.sentinels) == ("numpy", 72, 0, 0)
    assert binding.name == "data.c4"


@pytest.mark.device
def test_inputs_are_those_of_the_run(tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    with vknn.Session(model, device=shared_device()) as session:
        lab = extract(session, tmp_path / "lab", layer="conv1", inputs=DATA)
        expected = session.run(DATA, outputs=["conv1"])["conv1"]
    (output,) = lab.description.outputs
    assert output.tensor is not None and output.reference is not None
    dims, layout = output.tensor.dims, output.tensor.layout
    given = np.load(tmp_path / "lab" / output.reference)
    device = np.load(tmp_path / "lab" / output.device)
    assert dims == (1, *expected.shape)
    for flat in (given, device[: given.size]):
        if layout == "c4":
            n, c, h, w = dims
            flat = np.moveaxis(flat.reshape(n, -1, h, w, 4), -1, 2).reshape(n, -1, h, w)[:, :c]
        np.testing.assert_allclose(flat.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.device
@pytest.mark.parametrize(
    "precision",
    ["fp32", *(pytest.param(name, marks=pytest.mark.slow) for name in ("fp16", "bf16"))],
)
def test_every_dispatch_of_a_network(tmp_path: Path, precision: str) -> None:
    if precision != "fp32":
        skip_without_half()
    model = write_small_model(tmp_path)
    with vknn.Session(model, device=shared_device(), precision=precision) as session:
        count = len(choices.all_choices(choices.runs_of(session, DATA)))
        assert count > 4
        for number in range(count):
            lab = extract(session, tmp_path / f"lab{number}", dispatch=number, inputs=DATA)
            with lab:
                result = lab.run(shared_device_name(), runs=1)
            assert result.ok, result
            assert {check.from_device for check in result.outputs} == {0.0}
            assert {check.against for check in result.outputs} == {"numpy"}


@pytest.mark.device
def test_parts_of_an_operator_are_held_against_the_device(tmp_path: Path) -> None:
    """Winograd's first dispatch gives tiles, which no operator of the graph is."""
    model = tmp_path / "w.param"
    model.write_text(
        "7767517\n2 2\nInput data 0 1 data 0=28 1=28 2=32\n"
        "Convolution c 1 1 data y 0=64 1=3 4=1 5=1 6=18432\n"
    )
    weights = np.random.default_rng(0).standard_normal(18432 + 64).astype(np.float32) / 12
    model.with_suffix(".bin").write_bytes(bytes(4) + weights.tobytes())
    with vknn.Session(model, device=shared_device()) as session:
        found = choices.all_choices(choices.runs_of(session, {"data": np.ones((32, 28, 28), "f4")}))
        tiles = [c.number for c in found if c.dispatch.kernel == "convolution/winograd_input"]
        if not tiles:
            pytest.skip("another algorithm is chosen here")
        with extract(session, tmp_path / "lab", dispatch=tiles[0]) as lab:
            result = lab.run(shared_device_name(), runs=1)
    assert result.ok
    assert [check.against for check in result.outputs] == ["device"]


@pytest.mark.device
def test_choices_are_listed(tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    with vknn.Session(model, device=shared_device()) as session:
        with pytest.raises(
            InputError, match="no dispatch computes layer 'conf1'; like it are 'conv1'"
        ):
            extract(session, tmp_path / "lab", layer="conf1")
        with pytest.raises(InputError, match=r"the model has \d+ dispatches: choose one"):
            extract(session, tmp_path / "lab")
        with pytest.raises(InputError, match="layer 'conv1' has no dispatch 99\n.*convolution/"):
            extract(session, tmp_path / "lab", layer="conv1", dispatch=99)
        assert not (tmp_path / "lab").exists()
        number = next(
            c.number
            for c in choices.all_choices(choices.runs_of(session, DATA))
            if c.is_of("conv1")
        )
        lab = extract(session, tmp_path / "lab", layer="conv1", dispatch=number)
    assert "conv1" in "+".join(lab.description.layers)


@pytest.mark.device
def test_a_folder_that_is_taken(tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine").write_text("x")
    with vknn.Session(model, device=shared_device()) as session:
        with pytest.raises(InputError, match="there is something already: give a new folder"):
            extract(session, tmp_path / "lab", layer="conv1")
        extract(session, tmp_path / "another", layer="conv1")
    assert [p.name for p in (tmp_path / "lab").iterdir()] == ["mine"]


@pytest.mark.device
def test_nothing_is_left_of_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise NullDeviceError("in the middle")

    monkeypatch.setattr("vknn.kernel_lab.extraction.written_elements", fails)
    model = write_small_model(tmp_path)
    with (
        vknn.Session(model, device=shared_device()) as session,
        pytest.raises(NullDeviceError, match="in the middle"),
    ):
        extract(session, tmp_path / "lab", layer="conv1")
    assert not (tmp_path / "lab").exists()


def test_numpy_has_no_kernels(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="NumPy has no kernels"):
        extract(write_small_model(tmp_path), tmp_path / "lab", layer="conv1", device="numpy")


@pytest.mark.device
def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(write_small_model(tmp_path))
    lab = str(tmp_path / "lab")
    device = ["--device", shared_device_name()]
    assert main(["kernel", "run", lab]) == 2
    assert "`vknn kernel extract` writes a kernel's folder" in capsys.readouterr().err
    assert main(["kernel", "extract", model, "--layer", "conv1", lab, *device, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["layers"] == ["conv1"] or "conv1" in document["layers"][0]
    assert main(["kernel", "run", lab, "--json", "--runs", "2", *device]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is True and result["outputs"][0]["wrong"] == 0
    assert main(["kernel", "extract", model, str(tmp_path / "b"), *device]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "choose one with --dispatch" in lines[-1]
    assert any("conv1" in line and "convolution/" in line for line in lines[:-1])


def shared_device_name() -> str:
    return f"vulkan:{shared_device().snapshot.index}"
