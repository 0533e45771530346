"""What a driver's compiler made, beside the measured times: tables, JSON, files of anybody's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.profiling.profile_documents import command, document
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli.main import main
from vknn.errors import VknnError
from vknn.profiling import Profile, StaticProfile, static
from vknn.profiling.vkprof.file import read_document, write_document

SECONDS = np.array([[1e-5, 3e-5, 2e-5], [1e-5, 3e-5, 2e-5]])


def compiled(name: str, **more: Any) -> dict[str, Any]:
    """An entry of a static profile of :func:`profile_documents.command`."""
    return {
        "layers": [name], "kernel": "convolution/conv", "label": f"Conv {name}",
        "groups": [1, 1, 1], "registers": 40, "spills": 0, "scratch": 0, "shared": 2048,
        "code": 900, "instructions": 100, "waves": 12, "flags": [],
        "modelled": {"time": 12.5, "bound": "latency"}, **more,
    }  # fmt: skip


def made(*entries: dict[str, Any]) -> dict[str, Any]:
    names = ("a", "b", "c")
    found = document([command([n], label=f"Conv {n}") for n in names], SECONDS)
    found["static"] = {"assumptions": "a wave waits", "dispatches": list(entries)}
    return found


def lines(profile: Profile, order: str = "plan") -> dict[str, list[str]]:
    """Cells of the table by layer, the heads under ""."""
    table = profile.table(order)
    rows = zip(*(column._cells for column in table.columns), strict=True)
    found = {str(row[0]): list(map(str, row)) for row in rows}
    return {"": [str(column.header) for column in table.columns], **found}


def test_numbers_stand_beside_the_times() -> None:
    """The one that spills is marked; one that the static profile lacks has empty cells."""
    profile = Profile.from_document(made(compiled("c", spills=7, flags=["spills"]), compiled("a")))
    found = lines(profile, "time")
    assert list(found) == ["", "b", "c", "a"]
    assert found[""][-6:] == ["registers", "spills", "shared", "waves", "model us", "bound"]
    assert found["a"][-6:] == ["40", "0", "2,048", "12", "12.5", "latency"]
    assert found["c"][-6:] == ["40", "⚠ 7", "2,048", "12", "12.5", "latency"]
    assert found["b"][-6:] == [""] * 6
    styles = [row.style for row in profile.table().rows]
    assert styles == [None, None, "red"]
    assert "model us: a wave waits" in str(profile)
    assert "GPU modelled" not in str(profile)  # of one dispatch it is not known
    told = json.loads(profile.to_json())["commands"]
    assert told[1]["compiled"] is None
    assert told[2]["compiled"] == {
        "registers": 40, "spills": 7, "scratch": 0, "shared": 2048, "code": 900,
        "instructions": 100, "waves": 12, "modelled": 12.5, "bound": "latency",
        "flags": ["spills"],
    }  # fmt: skip


def test_a_clean_profile_has_no_mark() -> None:
    profile = Profile.from_document(made(*map(compiled, "abc")))
    assert "⚠" not in str(profile) and all(row.style is None for row in profile.table().rows)
    assert "GPU modelled" in str(profile) and "38" in str(profile.totals_table().columns[-1]._cells)


def test_only_what_is_known_is_a_column() -> None:
    """Scratch is one where some dispatch has it; a driver that says nothing leaves none."""
    numbers = dict.fromkeys(("spills", "shared", "waves"))
    few = made(compiled("a", scratch=64, modelled=None, **numbers))
    found = lines(Profile.from_document(few))
    assert found[""][-2:] == ["registers", "scratch"] and found["a"][-2:] == ["40", "⚠ 64"]
    silent = made({name: compiled("a")[name] for name in ("layers", "kernel", "label", "groups")})
    assert lines(Profile.from_document(silent))[""][-1] == "GB/s"
    without = made()
    without["static"] = None
    profile = Profile.from_document(without)
    assert (
        profile.compiled is None and "compiled" not in json.loads(profile.to_json())["commands"][0]
    )
    assert lines(profile)[""][-1] == "GB/s"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"registers": "many"}, r"dispatches\[0\]\.registers"),
        ({"spills": -1}, r"dispatches\[0\]\.spills"),
        ({"waves": True}, "waves"),
        ({"kernel": ["a"]}, "kernel"),
        ({"groups": 5}, "groups"),
        ({"modelled": {"time": "soon", "bound": "x"}}, r"modelled\.time"),
        ({"modelled": 5}, "modelled"),
        ({"modelled": {"time": 1.0}}, r"modelled\.bound is missing"),
        ({"flags": "spills"}, "flags"),
    ],
)
def test_files_of_anybody_s(change: dict[str, Any], place: str, tmp_path: Path) -> None:
    write_document(tmp_path / "a.vkprof", made(compiled("a") | change))
    with pytest.raises(VknnError, match=place):
        read_document(tmp_path / "a.vkprof")


def test_texts_of_files_are_shown_as_they_are() -> None:
    entry = compiled("a", modelled={"time": 1.0, "bound": "[red]x[/red]\x1b[2J"})
    text = str(Profile.from_document(made(entry)))
    assert "[red]x[/red]" in text and "\x1b" not in text


@pytest.mark.device
def test_what_is_asked_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, saved = write_small_model(tmp_path), tmp_path / "a.vkprof"
    shape = ["--shape", ",".join(map(str, SHAPE)), "--runs", "2", "--device", "vulkan"]
    arguments = ["profile", str(model), *shape, "--save", str(saved)]
    for more, there in ((["--compiled"], True), (["--no-compiled"], False)):
        assert main([*arguments, *more]) == 0
        capsys.readouterr()
        found = read_document(saved)
        assert (found["static"] is not None) == there
        if there:
            commands = found["segments"][0]["commands"]
            assert len(found["static"]["dispatches"]) == len(commands)
            assert None not in (Profile.load(saved).compiled or [None])
    profile = vknn.profile(model, shapes={"data": SHAPE}, runs=1, device="vulkan", static=True)
    own = static(model, shapes={"data": SHAPE}, device="vulkan")
    assert profile.about is not None
    again = StaticProfile.from_json(json.dumps(profile.about["static"]))
    assert [e.kernel for e in again.entries] == [e.kernel for e in own.entries]
    profile.save(saved)
    assert read_document(saved)["static"] == json.loads(json.dumps(profile.about["static"]))


def test_numpy_compiles_nothing(tmp_path: Path) -> None:
    profile = vknn.profile(write_small_model(tmp_path), runs=1, device="numpy", static=True)
    assert profile.compiled is None


def test_options_that_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(write_small_model(tmp_path)), "--static", "--compiled"]) == 2
    assert "leave out --static" in capsys.readouterr().err
