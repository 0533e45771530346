"""Runs of a lab: a fault that was put in is named, a clean kernel is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.helpers import shared_device
from tests.kernel_lab.labs import STORE, WINDOW, change, edit, lab_folder

from vknn.cli import main
from vknn.errors import DeviceError, ShaderError, VknnError
from vknn.kernel_lab import Lab, LabRun

pytestmark = pytest.mark.device


def run(folder: Path, **options: object) -> LabRun:
    with Lab.open(folder) as lab:
        return lab.run(f"vulkan:{shared_device().snapshot.index}", runs=1, **options)  # type: ignore[arg-type]


def test_a_channel_that_is_wrong_is_named(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    assert run(folder).ok
    edit(folder / WINDOW, STORE, f"if (c == 1) v.x += 0.5; {STORE}")
    result = run(folder)
    assert not result.ok
    (check,) = result.outputs
    assert check.first == (0, 4, 0, 0)
    assert check.wrong == 9
    assert check.channels == ((4, 9),)
    assert check.max_abs == pytest.approx(0.5, rel=1e-5)
    assert check.actual == pytest.approx((check.expected or 0) + 0.5, rel=1e-5)
    assert "9 of 72 elements are wrong, first at [0,4,0,0]" in result.summary()
    assert result.summary().endswith("all in channel 4")
    assert "all in channel 4" in str(result)


def test_elements_that_are_not_written(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, STORE, f"if (at != 3) {STORE}")
    (check,) = run(folder).outputs
    # The third place of four channels, which are in one vec4.
    assert (check.wrong, check.unwritten) == (4, 4)
    assert check.first == (0, 0, 1, 0)


def test_a_write_behind_the_end(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, STORE, f"{STORE} if (at == 0) {STORE.replace('at', '18', 1)}")
    result = run(folder)
    (check,) = result.outputs
    assert not result.ok
    assert check.wrong == 0
    assert check.sentinels is not None and 0 < check.sentinels <= 16
    assert "bytes behind the end were written" in result.summary()


def test_an_error_within_what_is_allowed(tmp_path: Path) -> None:
    """Pooling is exact; a share of the largest number may be allowed instead."""
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, STORE, f"v *= 1.0001; {STORE}")
    assert not run(folder).ok
    assert run(folder, tolerance=1e-3).ok


def test_the_compilers_error_has_its_line(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    lines = (folder / WINDOW).read_text().splitlines()
    number = next(n for n, line in enumerate(lines, start=1) if STORE in line)
    edit(folder / WINDOW, STORE, "STORE4(y, at, nothing);")
    with pytest.raises(ShaderError, match=rf"pooling/window.comp:{number}: error: 'nothing'"):
        run(folder)
    (folder / WINDOW).write_text("\n".join(lines))
    edit(folder / "glsl/common/grid.glsl", "int linear_lane()", "int linear_lane(")
    with pytest.raises(ShaderError, match=r"common/grid.glsl:\d+: error"):
        run(folder)


def test_the_shaders_bindings_are_those_of_the_folder(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    text = (folder / WINDOW).read_text()
    edit(folder / WINDOW, "OUTPUT4(1, y);", "OUTPUT4(7, y);")
    with pytest.raises(ShaderError, match=r"binding 7 \(y\) of the shader has no buffer"):
        run(folder)
    (folder / WINDOW).write_text(text)
    change(folder, lambda lab: lab["variant"].update(ACCESS="0", ELEM="0"))
    change(folder, lambda lab: lab["bindings"][0].update(view="texel"))
    with pytest.raises(
        ShaderError, match=r"binding 0 \(x\).* a storage buffer, and lab.json has texel"
    ):
        run(folder)


def test_push_constants_that_lack_a_number(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    change(folder, lambda lab: lab["push"].pop("tiles"))
    with pytest.raises(VknnError, match="push constant 'tiles' of the shader has no number"):
        run(folder)


def test_names_that_the_shader_lost_are_noted(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    change(folder, lambda lab: lab["constants"].update(GONE=3))
    assert "constant GONE of lab.json is not in the shader any more" in run(folder).notes


def test_a_device_without_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lab_folder(tmp_path)
    if "int64" not in shared_device().limits.features:
        pytest.skip(f"{shared_device().name} has no int64")
    edit(folder / WINDOW, "void main() {", "void main() { int64_t wide = 1l << p.total;")
    edit(
        folder / WINDOW,
        '#include "common/tensor.glsl"',
        "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n"
        '#include "common/tensor.glsl"',
    )
    assert run(folder).ok
    monkeypatch.setenv("VKNN_DISABLE", "int64")
    with pytest.raises(DeviceError, match="has no int64, which this kernel needs: choose another"):
        run(folder)


def test_groups_beyond_the_devices(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    most = shared_device().limits.max_group_count[1]
    change(folder, lambda lab: lab.update(groups=[1, most + 1, 1]))
    with pytest.raises(DeviceError, match=f"{most + 1} workgroups along y, the device takes 1 to"):
        run(folder)
    change(folder, lambda lab: lab.update(groups=[1, 1, 1], local=[1 << 20, 1, 1]))
    with pytest.raises(DeviceError, match="lanes along x, the device has 1 to"):
        run(folder)


def test_shared_memory_beyond_the_devices(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, "void main() {", "shared vec4 much[TX * 100000]; void main() {")
    edit(folder / WINDOW, STORE, f"much[0] = v; {STORE}")
    with pytest.raises(DeviceError, match=r"\d+ bytes of shared memory, the device has"):
        run(folder)


def test_a_file_of_another_device_runs_with_a_note(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    change(folder, lambda lab: lab["device"].update(subgroup_size=77, name="Other"))
    result = run(folder)
    assert result.ok
    assert any("extracted on Other with subgroups of 77" in note for note in result.notes)


def test_exit_codes_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab_folder(tmp_path)
    arguments = ["kernel", "run", str(folder), "--runs", "2"]
    assert main(arguments) == 0
    assert "right, at" in capsys.readouterr().out
    edit(folder / WINDOW, STORE, f"v.w = 0.0 / 0.0; {STORE}")
    assert main([*arguments, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["outputs"][0]["max_abs"] == "inf"
    assert document["outputs"][0]["channels"] == [[3, 9]]  # the lane behind channel 5 stays zero
    assert main([*arguments, "--groups", "1,1,1"]) == 2
    assert "give --sweep, too" in capsys.readouterr().err
    assert main([*arguments, "--tolerance", "-1"]) == 2
    assert "--tolerance takes a number of at least 0" in capsys.readouterr().err
    edit(folder / WINDOW, "v.w = 0.0 / 0.0;", "v.w *= 1.001;")
    assert main([*arguments, "--tolerance", "0.01"]) == 0
    assert main(["kernel", "run", str(folder), "--runs", "0"]) == 2
    assert "runs=0: at least one run is needed" in capsys.readouterr().err
