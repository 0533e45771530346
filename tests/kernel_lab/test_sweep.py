"""Sweeps: combinations by name, groups that follow, and rows that say why there is no time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.helpers import shared_device
from tests.kernel_lab.labs import STORE, WINDOW, change, edit, lab_folder

from vknn.cli import main
from vknn.errors import VknnError
from vknn.kernel_lab import Lab, Sweep

pytestmark = pytest.mark.device

TILES = {"tiles": "ceil(out_w / TX)", "total": "c4 * out_h * ceil(out_w / TX)"}


def sweep(folder: Path, axes: object, **options: object) -> Sweep:
    with Lab.open(folder) as lab:
        device = f"vulkan:{shared_device().snapshot.index}"
        return lab.sweep(axes, device, runs=1, **options)  # type: ignore[arg-type]


def test_groups_follow_the_lanes(tmp_path: Path) -> None:
    lanes = shared_device().limits.max_group_size[0]
    found = sweep(lab_folder(tmp_path), f"LX=1,4,{2 * lanes}")
    assert [row.values["LX"] for row in found.rows] == ["1", "4", str(2 * lanes)]
    one, four, many = found.rows
    before = found.base.groups[0] * found.base.local[0]
    assert (one.groups[0], four.groups[0]) == (before, -(-before // 4))
    assert many.run is None and not many.ok
    assert f"{2 * lanes} lanes along x, the device has 1 to {lanes}" in many.reason
    assert four.run is not None and four.run.ok
    assert str(lanes) in str(found)


def test_what_must_follow_is_said(tmp_path: Path) -> None:
    """Two pixels a lane in place of four: push constants and groups are as they were."""
    folder = lab_folder(tmp_path)
    if json.loads((folder / "lab.json").read_text())["constants"]["TX"] <= 2:
        pytest.skip("the plan has no more pixels a lane")
    (row,) = sweep(folder, "TX=2").rows
    assert row.run is not None and not row.run.ok
    assert row.reason == "groups or push constants may have to follow (--groups, --push)"
    assert "TX" in str(sweep(lab_folder(tmp_path / "b"), "TX=2"))


def test_formulas(tmp_path: Path) -> None:
    found = sweep(
        lab_folder(tmp_path), "TX=1,2,4 LX=4,8", groups="ceil(total / LX), 1, 1", push=TILES
    )
    assert [row.ok for row in found.rows] == [True] * 6, found
    # Six channels are two vec4s; three rows of three pixels.
    assert [row.groups[0] for row in found.rows] == [5, 3, 3, 2, 2, 1]
    if "timestamps" in shared_device().limits.features:
        assert found.best in found.rows


def test_groups_that_do_nothing_are_said(tmp_path: Path) -> None:
    """Each lane does the work of all: any number of groups gives the right result."""
    folder = lab_folder(tmp_path)
    text = (folder / WINDOW).read_text()
    edit(folder / WINDOW, "int id = linear_lane();", "for (int id = START; id < p.total; id++) {")
    edit(folder / WINDOW, "if (id >= p.total) return;", "")
    edit(folder / WINDOW, "void main() {", "layout(constant_id = 50) const int WHOLE = 0;\n"
         "#define START (WHOLE != 0 ? 0 : linear_lane())\nvoid main() {")  # fmt: skip
    (folder / WINDOW).write_text((folder / WINDOW).read_text().rstrip() + "\n}\n")
    edit(folder / WINDOW, STORE, f"if (WHOLE != 0 || id == linear_lane()) {STORE}")
    assert text != (folder / WINDOW).read_text()
    (row,) = sweep(folder, "WHOLE=1", push={"total": "total"}).rows
    assert row.run is not None and row.run.ok
    if row.groups[0] > 1:
        assert "also with half the groups" in row.reason
        assert not row.ok
        (row,) = sweep(folder, "WHOLE=1", groups="1, 1, 1").rows
        assert row.ok


def test_macros_change_how_buffers_are_seen(tmp_path: Path) -> None:
    found = sweep(lab_folder(tmp_path), {"ACCESS": [0, 1, 2]})
    assert [row.ok for row in found.rows] == [True] * 3, found


def test_names_together(tmp_path: Path) -> None:
    found = sweep(lab_folder(tmp_path), "LXxLY=4x1,8x1")
    assert [row.local for row in found.rows] == [(4, 1, 1), (8, 1, 1)]


#: Formulas of the kernel of ``tiled``: groups, and push constants.
TILED_GROUPS = "ceil(total / LX), 1, 1"
TILED = {
    "tiles": "ceil(out_w / TILE_W)",
    "total": "ceil(c4 * out_h / TILE_H) * ceil(out_w / TILE_W)",
}


def tiled(folder: Path) -> Path:
    """A lab whose kernel's lanes compute TILE_H lines of TILE_W pixels; the width stands first."""
    file = folder / WINDOW
    edit(file, "int TX = 4;", "int TX = 4;\nlayout(constant_id = 50) const int TILE_H = 1;")
    edit(
        file,
        "int line = divide(id, p.tiles);",
        """int band = divide(id, p.tiles);
    int end = min((band + 1) * TILE_H, p.c4 * p.out_d * p.out_h);
    for (int line = band * TILE_H; line < end; line++) {""",
    )
    edit(file, "id - line * p.tiles", "id - band * p.tiles")
    file.write_text(re.sub(r"\bTX\b", "TILE_W", file.read_text()).rstrip() + "\n}\n")
    change(folder, lambda lab: lab["constants"].update(TILE_W=lab["constants"].pop("TX")))
    return folder


def test_tiles_of_two_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tiled(lab_folder(tmp_path)))
    push = [word for name, f in TILED.items() for word in ("--push", f"{name}={f}")]
    argv = ["kernel", "run", folder, "--sweep", "LX=8,16,32 TILE=4x4,4x8", "--runs", "1", *push]
    assert main([*argv, "--groups", TILED_GROUPS, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    combinations = [{"LX": x, "TILE": t} for x in ("8", "16", "32") for t in ("4x4", "4x8")]
    assert [row["values"] for row in rows] == combinations
    assert all(row["ok"] for row in rows), rows
    assert [row["local"][0] for row in rows] == [8, 8, 16, 16, 32, 32]


def test_a_tile_is_its_height_and_its_width(tmp_path: Path) -> None:
    """Six lines of three pixels: three bands of one lane, or two of two."""
    found = sweep(tiled(lab_folder(tmp_path)), "LX=1 TILE=2x3,3x2", groups=TILED_GROUPS, push=TILED)
    assert [row.ok for row in found.rows] == [True] * 2, found
    assert [row.groups[0] for row in found.rows] == [3, 4]


@pytest.mark.parametrize(
    ("axes", "options", "message"),
    [
        ("WIDTH=1", {}, "sweep: 'WIDTH' is not known; known: LX, LY, LZ, .*TX"),
        ("TX", {}, "'TX' is not NAME=value,value"),
        ("LXxLY=4", {}, "LXxLY=4: 2 values for LX, LY"),
        ("TX=1 TX=2", {}, "TX twice"),
        ("", {}, "no axis"),
        ("TX=1,;", {}, "1 values for TX"),
        ("TX=" + ",".join(["1"] * 5000), {}, "5000 combinations, over 4096"),
        ("TX=1", {"push": {"width": "1"}}, "push constants: width not known; known: total, tiles"),
    ],
)
def test_wrong_axes(tmp_path: Path, axes: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(VknnError, match=message):
        sweep(lab_folder(tmp_path), axes, **options)


@pytest.mark.parametrize(
    ("axes", "options", "reason"),
    [
        ("TX=1", {"groups": "width, 1, 1"}, "'width' is not known; known: "),
        ("TX=1", {"groups": "1, 1"}, "has 2 parts, and 3 are needed"),
        ("TX=1", {"groups": "0, 1, 1"}, "0 workgroups along x"),
        ("TX=1.5", {}, "1.5 is no integer"),
        ("TX=99999999999", {}, "does not fit"),
        ("LX=0", {}, "LX: 0 lanes"),
        ("TX=four", {}, "'four' is no number"),
        ("TX=1x2", {}, "'1x2' is no number"),
        ("ACCESS=7", {}, "ok"),
        ("ELEM=3", {}, ""),
    ],
)
def test_rows_that_cannot_be(
    tmp_path: Path, axes: str, options: dict[str, object], reason: str
) -> None:
    (row,) = sweep(lab_folder(tmp_path), axes, **options).rows
    if reason == "ok":  # any access but 0 and 1 is the third
        assert row.ok
    else:
        assert row.run is None or not row.ok
        assert reason in row.reason


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(lab_folder(tmp_path))
    push = [word for name, f in TILES.items() for word in ("--push", f"{name}={f}")]
    arguments = ["kernel", "run", folder, "--sweep", "TX=2,4", "--runs", "1", *push]
    assert main([*arguments, "--groups", "ceil(total / LX), 1, 1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["ok"] for row in document["rows"]] == [True, True]
    assert main(["kernel", "run", folder, "--sweep", "TX=1", "--runs", "1"]) == 1
    assert "may have to follow" in capsys.readouterr().out
    assert main([*arguments, "--push", "tiles"]) == 2
    assert "--push: 'tiles' is not NAME=FORMULA" in capsys.readouterr().err
