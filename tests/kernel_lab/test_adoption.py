"""Adoption: the difference from the shipped kernel; nothing is written unless that is asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.helpers import shared_device
from tests.kernel_lab.labs import STORE, WINDOW, edit, lab_folder

import vknn
from vknn.cli import main
from vknn.errors import VknnError
from vknn.kernel_lab import Lab, adoption, extract
from vknn.runtime.spirv import glsl

pytestmark = pytest.mark.device
FASTER = f"/* faster */ {STORE}"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout's shaders/ that may be written to."""
    copy = Path(shutil.copytree(glsl.source_root(), tmp_path / "checkout" / "shaders"))
    monkeypatch.setattr(glsl, "checkout_root", lambda: copy)
    return copy


def test_the_difference(tmp_path: Path, checkout: Path) -> None:
    folder = lab_folder(tmp_path)
    clean = adoption(Lab.open(folder))
    assert (clean.diff, clean.changed, clean.moved) == ("", (), ())
    edit(folder / WINDOW, STORE, FASTER)
    found = adoption(Lab.open(folder))
    assert found.changed == ("pooling/window.comp",)
    assert f"\n-            {STORE}\n+            {FASTER}\n" in found.diff
    before = (checkout / "pooling/window.comp").read_text()
    # The difference is one that patch takes.
    done = subprocess.run(
        ["patch", "-p1"], cwd=checkout.parent, input=found.diff, text=True, check=False
    )
    assert done.returncode == 0
    assert (checkout / "pooling/window.comp").read_text() == before.replace(STORE, FASTER)


def test_it_is_written_where_that_is_asked_for(
    tmp_path: Path, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, STORE, FASTER)
    target = checkout / "pooling/window.comp"
    assert main(["kernel", "adopt", str(folder)]) == 0
    assert FASTER not in target.read_text()
    assert f"+            {FASTER}" in capsys.readouterr().out
    assert main(["kernel", "adopt", str(folder), "--apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == [str(target)]
    assert FASTER in target.read_text()
    assert adoption(Lab.open(folder)).diff == ""


def test_what_changed_meanwhile_is_not_undone(tmp_path: Path, checkout: Path) -> None:
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, STORE, FASTER)
    target = checkout / "pooling/window.comp"
    target.write_text(f"{target.read_text()}// of another\n")
    found = adoption(Lab.open(folder))
    assert found.moved == ("pooling/window.comp",)
    with pytest.raises(VknnError, match="changed since the extraction, and that would be lost"):
        found.apply()
    assert target.read_text().endswith("// of another\n")


def test_an_installed_package_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, STORE, FASTER)
    found = adoption(Lab.open(folder))
    monkeypatch.setattr(glsl, "checkout_root", lambda: None)
    with pytest.raises(VknnError, match="an installed package"):
        found.apply()


OWN = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
OUTPUT1F(1, y);
layout(push_constant) uniform P { int count; float factor; } p;
void main() {
    int i = linear_lane();
    if (i < p.count) STORE1(y, i, LOAD1(x, i) * p.factor);
}
"""


def test_a_layer_of_ones_own(tmp_path: Path) -> None:
    vknn.register_layer(
        "ncnn",
        "Thrice-as/much",
        shape=lambda shapes, options: shapes[0],
        compute=lambda arrays, weights, options: arrays[0] * 3,
        shader=vknn.Shader(OWN, push=lambda inputs, outputs, options: [5, 3.0]),
    )
    try:
        model = tmp_path / "own.param"
        model.write_text("7767517\n2 2\nInput data 0 1 data 0=5\nThrice-as/much t 1 1 data y\n")
        model.with_suffix(".bin").write_bytes(b"")
        with vknn.Session(model, device=shared_device()) as session:
            lab = extract(session, tmp_path / "lab", layer="t")
    finally:
        vknn.unregister_layer("ncnn", "Thrice-as/much")
    assert lab.description.own
    assert lab.description.push == {"count": 5, "factor": 3.0}
    with lab:
        result = lab.run(f"vulkan:{shared_device().snapshot.index}", runs=1)
        assert result.ok and result.outputs[0].against == "numpy"
    with pytest.raises(VknnError, match="a layer of one's own, which vknn does not ship"):
        adoption(lab)
