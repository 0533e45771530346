"""The static profile where the driver says nothing, and how it is shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.helpers import shared_device
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.cli import main
from vknn.errors import DeviceError, VknnError
from vknn.plan import Barrier, Buffer, Copy, DeviceLimits, Fill, Plan, Role
from vknn.profiling import (
    ASSUMPTIONS,
    HotLoop,
    ModelledTime,
    StaticEntry,
    StaticPair,
    StaticProfile,
    Tally,
    static,
    static_analysis,
    static_difference,
)
from vknn.profiling.static import NAMES, _left_out, _make_folder
from vknn.profiling.static_floors import flags
from vknn.program import Program
from vknn.runtime.executor import Executable

DATA = {"data": np.ones(SHAPE, np.float32)}


def entry(**numbers: int | None) -> StaticEntry:
    known: dict[str, int | None] = {**dict.fromkeys(NAMES, 0), **numbers}
    return StaticEntry(
        ("conv1", "relu"), "convolution/conv", "Conv tile1x1", (7, 1, 1), (64, 1, 1), 64, 7,
        statistics={"VGPRs": 16.0}, **known,
    )  # fmt: skip


def test_numpy_compiles_nothing(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="needs a Vulkan device"):
        static(write_small_model(tmp_path), DATA, device="numpy")


@pytest.mark.device
def test_a_driver_that_does_not_tell(tmp_path: Path) -> None:
    device = shared_device()
    if "pipeline_statistics" in device.limits.features:
        pytest.skip(f"{device.name} tells")
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        profile = static(session, DATA)
        with pytest.raises(DeviceError, match="does not say what its compiler made"):
            static(session, DATA, isa=tmp_path / "isa")
        session.run(DATA)  # nothing is broken by having asked
    for found in profile.entries:
        assert found.registers is None and found.statistics == {} and found.flags == ()
        assert found.counts is not None and found.counts.stores and found.not_counted == ""
        assert found.modelled is None  # processors are in no table of GPUs
    products = [e for e in profile.entries if e.kernel.startswith(("convolution", "matmul"))]
    assert products and all(e.multiply_adds and e.hot is not None for e in products)
    assert "registers" not in str(profile) and "multiply-adds" in str(profile)
    assert profile.time is None and profile.violations() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--isa", "folder"], "--isa needs --static"),
        (["--latencies", "2"], "--latencies needs --static"),
        (["--static", "--latencies", "0"], "--latencies takes a number above 0"),
        (["--static", "--latencies", "1e300"], "a number above 0, and at most 1,000,000"),
        (["--against", "old.json"], "--against needs --static"),
        (["--static", "--fail-over", "5%"], "--fail-over needs --versus"),
        (["--against", "old.json", "--fail-over", "5%"], "--fail-over needs --versus"),
    ],
)
def test_options_of_static_alone(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(write_small_model(tmp_path)), *options]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("planned", [1, 2])
@pytest.mark.parametrize("more", [False, True])
def test_what_is_left_out_is_said(planned: int, more: bool) -> None:
    nodes = [object(), object()]
    made = SimpleNamespace(graph=SimpleNamespace(nodes=nodes[:planned]), executable=object())
    host = SimpleNamespace(graph=SimpleNamespace(nodes=nodes[planned:]), executable=None)
    graph = SimpleNamespace(nodes=nodes, continuation=object() if more else None)
    program = cast(Program, SimpleNamespace(segments=[made, host], graph=graph))
    left = _left_out(program)
    assert ("1 layer of the host's" in left) == (planned == 1)
    assert ("what is planned during runs" in left) == more
    assert bool(left) == (planned == 1 or more)
    profile = StaticProfile("net", "GPU", (entry(),), left_out=left)
    assert ("without " in str(profile)) == bool(left)
    assert StaticProfile.from_json(profile.to_json()) == profile


@pytest.mark.device
def test_a_network_without_a_dispatch_says_so(tmp_path: Path) -> None:
    (tmp_path / "net.param").write_text("7767517\n1 1\nInput in 0 1 in 0=4\n")
    (tmp_path / "net.bin").touch()
    profile = static(tmp_path / "net.param", device="vulkan")
    assert profile.entries == () and "no layer runs on the device" in str(profile)


def test_what_spills() -> None:
    assert not entry(spills=None, scratch=None).spilling
    assert entry(spills=3).spilling and entry(scratch=16).spilling


def test_table_and_json() -> None:
    profile = StaticProfile("net", "GPU", (entry(registers=16, code=1132, waves=None), entry()))
    text = str(profile)
    assert "net on GPU, 2 dispatches" in text and "1,132" in text and "conv1, relu" in text
    (first, _) = json.loads(profile.to_json())["dispatches"]
    assert first["registers"] == 16 and first["waves"] is None
    assert first["layers"] == ["conv1", "relu"] and first["statistics"] == {"VGPRs": 16.0}
    assert profile.table(limit=1).row_count == 1


def counted(**numbers: int | None) -> StaticEntry:
    """An entry with counts and a modelled time."""
    each = Tally(multiply_adds=16, loads=5, load_bytes=80)
    whole = Tally(stores=1, store_bytes=16).plus(each, 144)
    modelled = ModelledTime(12.34, 8.3, 7.0, 1.0, 4.0, "issue", 144.0, 0.52, False)
    made = entry(**numbers)
    hot = HotLoop(144, each)
    return dataclasses.replace(made, counts=whole, hot=hot, modelled=modelled, flags=("spills",))


def test_counts_and_times() -> None:
    profile = StaticProfile("net", "GPU", (counted(), counted()), str(ASSUMPTIONS))
    assert profile.time == pytest.approx(24.68)
    (first, _) = profile.entries
    assert (first.multiply_adds, first.nbytes, first.time) == (2304, 144 * 80 + 16, 12.3)
    text = str(profile)
    for part in ("2,304", "11,520", "144", "16 ma, 5 ld", "52%", "12.3", "issue", "spills"):
        assert part in text, part
    assert "24.7" in text and "assumed: latencies 220" in text and "coarse" not in text
    assert StaticProfile.from_json(profile.to_json()) == profile


def test_what_is_not_counted() -> None:
    """Said, and the sum is none of all."""
    missing = dataclasses.replace(entry(), not_counted="more than 10 rounds of loops")
    profile = StaticProfile("net", "GPU", (counted(), missing))
    assert profile.time is None and missing.multiply_adds is None
    assert "not counted" in str(profile) and "over 12.3" in str(profile)


def test_json_of_before_counts() -> None:
    profile = StaticProfile("net", "GPU", (entry(registers=16),))
    document = json.loads(profile.to_json())
    document = {name: document[name] for name in ("model", "device", "dispatches")}
    for name in ("counts", "hot", "not_counted", "modelled", "flags"):
        del document["dispatches"][0][name]
    assert StaticProfile.from_json(json.dumps(document)) == profile


RADV = {"VGPRs": 16.0, "Subgroups per SIMD": 8.0}
NVK = {"Max warps/SM": 12.0}


@pytest.mark.parametrize(
    ("numbers", "statistics", "lanes", "rdna", "found"),
    [
        ({"waves": 8}, RADV, 64, True, ()),  # 4 of 64 lanes
        ({"waves": 6}, RADV, 64, True, ("few waves",)),
        ({"waves": 4}, RADV, 32, True, ()),
        ({"waves": 2}, RADV, 64, False, ()),
        ({"waves": 1}, RADV, 64, False, ("few waves",)),
        ({"code": 16 << 10}, RADV, 64, True, ()),
        ({"code": (16 << 10) + 4}, RADV, 64, True, ("large code",)),
        ({"code": 30_000, "waves": 16}, NVK, 32, False, ()),
        ({"code": 33_000, "waves": 15}, NVK, 32, False, ("large code", "few waves")),
        ({"spills": 2, "scratch": 8, "code": 99_999}, {}, 32, False, ("spills", "scratch")),
    ],
)
def test_flags(
    numbers: dict[str, int | None],
    statistics: dict[str, float],
    lanes: int,
    rdna: bool,
    found: tuple[str, ...],
) -> None:
    assert flags(numbers, statistics, lanes, rdna=rdna) == found


def test_violations() -> None:
    other = dataclasses.replace(counted(), label="Conv tile1x1 + Relu", flags=("few waves",))
    profile = StaticProfile("net", "GPU", (counted(), other, counted(), entry()))
    assert profile.violations() == [
        "convolution/conv Conv tile1x1: few waves",
        "convolution/conv Conv tile1x1: spills",
    ]


def test_difference_of_counts() -> None:
    less = dataclasses.replace(counted(), counts=Tally(multiply_adds=1152))
    before, after = (StaticProfile("net", "GPU", (e,)) for e in (counted(), less))
    found = static_difference(before, after)
    assert len(found.changed) == 1 and "2,304 -> 1,152" in str(found) and "issue" in str(found)
    slower = dataclasses.replace(
        counted(), modelled=dataclasses.replace(counted().modelled, time=99.0)
    )
    found = static_difference(before, StaticProfile("net", "GPU", (slower,)))
    assert not found.changed and "12.3 -> 99.0" in str(found)  # in the sums


def test_json_and_back() -> None:
    profile = StaticProfile("net", "GPU", (entry(registers=16, waves=None), entry()))
    assert StaticProfile.from_json(profile.to_json()) == profile


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": "", "device": "", "dispatches": [1]}'])
def test_json_of_something_else(text: str) -> None:
    with pytest.raises(VknnError, match="no static profile as JSON"):
        StaticProfile.from_json(text)


def test_difference() -> None:
    same, gone = entry(), dataclasses.replace(entry(), layers=("fc",), label="MatMul")
    before = StaticProfile("net", "GPU", (same, entry(registers=40, code=2048), gone))
    after = StaticProfile("net", "GPU", (same, entry(registers=32, code=1024)))
    found = static_difference(before, after)
    assert [pair.changed for pair in found.pairs] == [False, True, True]
    assert found.changed[0].before is before.entries[1]
    assert found.changed[1] == StaticPair(gone, None)
    text = str(found)
    assert "2 of 3 dispatches differ" in text and "40 -> 32" in text
    assert "2,048 -> 1,024" in text and "MatMul -> (none)" in text
    assert not static_difference(after, after).changed


def test_difference_as_json() -> None:
    """Both sides of every dispatch, what differs marked, and the sums of all; no texts."""
    same, gone = entry(), dataclasses.replace(entry(), layers=("fc",), label="MatMul")
    told = dataclasses.replace(entry(registers=32, code=1024), texts={"Assembly": "s_endpgm"})
    before = StaticProfile("net", "GPU", (same, entry(registers=40, code=2048), gone))
    found = static_difference(before, StaticProfile("net", "other", (same, told)))
    document = json.loads(found.to_json())
    assert (document["before"]["device"], document["after"]["device"]) == ("GPU", "other")
    assert document["before"]["sums"]["code"] == 2048
    assert document["after"]["sums"]["registers"] == 32
    assert document["after"]["sums"]["time"] is None
    assert document["changed"] == 2
    assert [pair["changed"] for pair in document["pairs"]] == [False, True, True]
    changed, lost = document["pairs"][1:]
    assert (changed["before"]["registers"], changed["after"]["registers"]) == (40, 32)
    assert "texts" not in changed["after"]
    assert (lost["before"]["layers"], lost["after"]) == (["fc"], None)
    assert found.table(limit=1).row_count == 2  # with the sums


@pytest.mark.parametrize(("before", "code"), [(1.0, 0), (0.5, 1)])
def test_a_sum_that_grew_since_a_file(
    before: float,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """--fail-over as of vknn compare; processors have no modelled times, so one is made up."""
    now = counted()
    assert now.modelled is not None
    modelled = dataclasses.replace(now.modelled, time=before * now.modelled.time)
    old = tmp_path / "old.json"
    entries = (dataclasses.replace(now, modelled=modelled),)
    old.write_text(StaticProfile("net", "GPU", entries).to_json())
    after = StaticProfile("net", "GPU", (now,))
    monkeypatch.setattr("vknn.cli.profile.static", lambda *_, **__: after)
    given = ["profile", str(write_small_model(tmp_path)), "--static", "--device", "numpy"]
    given += ["--shape", ",".join(map(str, SHAPE)), "--against", str(old), "--fail-over", "5%"]
    assert main(given) == code
    assert "modelled: " in capsys.readouterr().out
    assert main([*given, "--json"]) == code
    assert len(json.loads(capsys.readouterr().out)["pairs"]) == 1


def test_a_folder_of_texts_that_cannot_be_written_is_told_before_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/isa"):
        with pytest.raises(VknnError, match=f"{name}: the compiler's texts have no folder here"):
            _make_folder(tmp_path / name)
    with pytest.raises(VknnError, match="have no folder here: embedded null byte"):
        _make_folder(tmp_path / "\0")
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(VknnError, match="cannot be written into this folder"):
        _make_folder(tmp_path / "isa")


@pytest.mark.parametrize("isa", [5, b"texts", ""])
def test_texts_go_to_a_path(isa: Any) -> None:
    with pytest.raises(VknnError, match="is not the path of a folder"):
        static("gone.onnx", isa=isa)


@pytest.mark.parametrize("factor", [0, -1.0, float("nan"), float("inf")])
def test_latencies_are_scaled_by_a_number_above_0(factor: float) -> None:
    with pytest.raises(VknnError, match="a number above 0 is needed"):
        ASSUMPTIONS.scaled(factor)


@pytest.mark.device
def test_difference_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a model with itself nothing differs; without fusion there are more dispatches."""
    old, shape = tmp_path / "old.json", ",".join(map(str, SHAPE))
    given = ["profile", str(write_small_model(tmp_path)), "--static", "--json"]
    given += ["--device", "vulkan", "--shape", shape]
    assert main(given) == 0
    old.write_text(capsys.readouterr().out)
    given += ["--against", str(old)]
    assert main(given) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["changed"] == 0 and len(document["pairs"]) > 3
    assert main([*given, "--disable", "fusion"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["changed"] == sum(pair["changed"] for pair in document["pairs"]) > 0
    for content, text in ((b"\xff", " is no text in UTF-8"), (b"{}", ": no static profile")):
        old.write_bytes(content)
        assert main(given) == 2  # the file that is wrong is named, not the model
        assert capsys.readouterr().err.startswith(f"vknn: error: {old}{text}")
    with pytest.raises(SystemExit):
        main([*given[:3], "--limit", "-1"])
    assert "'-1' is no number of rows" in capsys.readouterr().err


def test_fills_and_copies_are_entries() -> None:
    buffers = tuple(Buffer(name, Role.ACTIVATION, 4096 * n, 4096) for n, name in enumerate("ab"))
    steps = (Fill(0, 0, ("conv",), "counters"), Barrier((0,)), Copy(0, 1, 1024, label="copy"))
    plan = Plan("plan", buffers, {Role.ACTIVATION: 8192}, steps, (3,), {}, {}, {}, ())
    executable = cast(Executable, SimpleNamespace(plan=plan))
    limits = DeviceLimits(name="AMD Radeon RX 6800 (RADV NAVI21)", kind="discrete")
    fill, copy = static_analysis.entries(executable, [], limits, ASSUMPTIONS)
    assert (fill.kernel, fill.label, fill.layers) == ("fill", "counters", ("conv",))
    assert (copy.kernel, copy.flags, copy.not_counted) == ("copy", (), "")
    assert fill.modelled is not None and copy.modelled is not None
    assert fill.modelled.overhead == ASSUMPTIONS.dispatch  # nothing stands before it
    assert copy.modelled.overhead == ASSUMPTIONS.dispatch + ASSUMPTIONS.barrier
    assert fill.modelled.memory == pytest.approx(2 * copy.modelled.memory)
    profile = StaticProfile("model", limits.name, (fill, copy))
    assert profile.time == fill.modelled.time + copy.modelled.time
    assert profile.violations() == [] and "counters" in str(profile)
    assert StaticProfile.from_json(profile.to_json()) == profile
    (unknown, _) = static_analysis.entries(executable, [], DeviceLimits(), ASSUMPTIONS)
    assert unknown.modelled is not None, "a GPU of no table is estimated"
    processor = DeviceLimits(kind="cpu")
    assert [
        e.modelled for e in static_analysis.entries(executable, [], processor, ASSUMPTIONS)
    ] == [None, None]
