"""Profiles as files: what is saved comes back, and no file is believed."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.profiling.profile_documents import command, document, processes
from tests.small_model import write_small_model

import vknn
from vknn.cli.main import main
from vknn.errors import VknnError
from vknn.graph.layers import apart
from vknn.profiling import Limits, Profile, read_document
from vknn.profiling.vkprof import file as files
from vknn.runtime.spirv.specialize import specialized

LIMITS = Limits("device", "driver 1", {"1 vec4": 10.0}, {"storage buffer": 5.0}, 1e-5, 1e-6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def measured(model: Path) -> Profile:
    return vknn.profile(model, runs=3, warmup=1, device="vulkan")


def written(path: Path, value: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(value).encode()))
    return path


@pytest.mark.device
def test_a_profile_comes_back_from_its_file(measured: Profile, tmp_path: Path) -> None:
    file = tmp_path / "a.vkprof"
    measured.save(file, limits=LIMITS)
    loaded = Profile.load(file)
    assert loaded.model == "small.param"
    assert loaded.device == measured.device
    assert loaded.plain == pytest.approx(measured.plain, abs=1e-9)
    for ours, theirs in zip(measured.runs, loaded.runs, strict=True):
        for a, b in zip(ours.segments, theirs.segments, strict=True):
            np.testing.assert_allclose(b.spans, a.spans, atol=1e-9)
    assert [t.median for t in loaded.timings] == pytest.approx([t.median for t in measured.timings])
    assert loaded.total == pytest.approx(measured.total, abs=1e-2)
    assert len(loaded.to_trace()["traceEvents"]) == len(measured.to_trace()["traceEvents"])
    again = tmp_path / "b.vkprof"
    loaded.save(again)
    assert read_document(again) == read_document(file)
    assert read_document(file)["limits"]["fma"] == {"1 vec4": 10.0}


@pytest.mark.device
def test_a_file_says_what_ran(measured: Profile, tmp_path: Path) -> None:
    measured.save(tmp_path / "a.vkprof")
    found = read_document(tmp_path / "a.vkprof")
    assert found["model"]["inputs"] == {"data": {"shape": [3, 8, 8], "dtype": "float32"}}
    assert found["device"]["kind"] == "cpu"
    (segment,) = found["segments"]
    assert [c["layers"] for c in segment["commands"]].count(["dw", "sum"]) == 1
    dw = next(layer for layer in found["layers"] if layer["name"] == "dw")
    assert dw["outputs"] == [{"name": "dw", "shape": [1, 6, 8, 8], "dtype": "float32"}]
    assert segment["submits"] == [len(segment["commands"])]
    assert any(b["last"] < len(segment["commands"]) - 1 for b in segment["buffers"])
    for buffer in segment["buffers"]:
        assert buffer["offset"] + buffer["nbytes"] <= segment["arenas"][buffer["role"]]


@pytest.mark.device
def test_modules_are_those_that_the_device_got(model: Path, tmp_path: Path) -> None:
    import base64

    from vknn.session import engine_of
    from vknn.tool_inputs import complete_feeds

    with vknn.Session(model, device="vulkan") as session:
        vknn.profile(session, runs=1).save(tmp_path / "a.vkprof")
        executable = engine_of(session).program(complete_feeds(session)).executables[0]
        expected = executable.modules()
    found = read_document(tmp_path / "a.vkprof")
    commands = [c for c in found["segments"][0]["commands"] if c["kind"] == "dispatch"]
    for command_, module in zip(commands, expected, strict=True):
        kernel = found["kernels"][command_["source"]]
        constants = [(c["id"], c["value"]) for c in command_["specialization"]]
        assert specialized(base64.b64decode(kernel["spirv"]), constants) == module
        assert "#include" not in kernel["glsl"]


def test_the_host_s_operators_are_saved(model: Path, tmp_path: Path) -> None:
    vknn.profile(model, runs=2, warmup=0, device="numpy").save(tmp_path / "a.vkprof")
    found = read_document(tmp_path / "a.vkprof")
    assert found["device"] is None
    assert {s["where"] for s in found["segments"]} == {"host"}
    assert Profile.load(tmp_path / "a.vkprof").device == "NumPy"


def test_a_profile_made_by_hand_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(VknnError, match=r"not made by vknn\.profile"):
        Profile("a", "b", [], []).save(tmp_path / "a.vkprof")


@pytest.mark.parametrize(
    ("name", "parts"),
    [("a", ["a"]), ("a+b", ["a", "b"]), ("a+b+c+d", ["a", "b+c", "d"]), ("a+x", ["a+x"])],
)
def test_joined_names_are_parted(name: str, parts: list[str]) -> None:
    assert apart([name], {"a", "b", "b+c", "c", "d"}) == parts


def _set(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        *way, last = [int(p) if p.isdecimal() else p for p in place.split(".")]
        inner: Any = found
        for step in way:
            inner = inner[step]
        if value is KeyError:
            del inner[last]
        else:
            inner[last] = value

    return change


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("model", KeyError, "model is missing"),
        ("model.name", 3, r"model\.name"),
        ("runs", [], "runs"),
        ("runs.0.segments", [], r"runs\[0\]\.segments: 0 in place of 1"),
        ("runs.1.segments.0.spans.2", [2.0, 1.0], "an end behind the begin"),
        ("runs.1.segments.0.spans", [], "spans: 0 in place of 10"),
        ("runs.0.seconds", -1.0, r"runs\[0\]\.seconds"),
        ("runs.1.segments.0.spans.2", [-1e308, 1e308], "a begin and an end"),
        ("plain.0", 1e200, "a time"),
        ("runs.0.seconds", True, r"runs\[0\]\.seconds"),
        ("runs.0.seconds", 10**400, r"runs\[0\]\.seconds"),
        ("plain.0", "x", r"plain\[0\]"),
        ("segments.0.commands.3.source", "other", "kernels has no such key"),
        ("segments.0.commands.3.bindings.0.buffer", 1, "1 where there are 1"),
        ("segments.0.commands.3.groups", [1, 1], "a list of 3"),
        ("segments.0.commands.3.kind", "host", "in a segment of 'vulkan'"),
        ("segments.0.commands.3.kind", [], "one of dispatch"),
        ("segments.0.buffers.0.last", 10, "10 where there are 10"),
        ("segments.0.submits.0", 11, "submits"),
        ("kernels.k.spirv", "!", "base64"),
        ("layers.0.outputs.0.shape", "4", "a list"),
        ("static", {"dispatches": 3}, "static"),
        ("limits", {}, "limits.device is missing"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, place: str, value: Any, told: str) -> None:
    [found] = processes(1, 0)
    _set(place, value)(found)
    with pytest.raises(VknnError, match=rf"a\.vkprof: damaged profile: .*{told}"):
        read_document(written(tmp_path / "a.vkprof", found))


def test_files_that_are_no_profiles(tmp_path: Path) -> None:
    [found] = processes(1, 0)
    good = written(tmp_path / "good.vkprof", found)
    assert read_document(good) == found

    def told(data: bytes) -> str:
        path = tmp_path / "bad.vkprof"
        path.write_bytes(data)
        with pytest.raises(VknnError) as caught:
            read_document(path)
        return str(caught.value)

    packed = good.read_bytes()
    assert "cut off" in told(packed[: len(packed) // 2])
    assert "cut off" in told(packed[:-3])
    assert "not compressed" in told(b"")
    assert "not compressed" in told(json.dumps(found).encode())
    assert "damaged" in told(packed[:40] + b"\xff\xff\xff" + packed[43:])
    assert "damaged JSON" in told(gzip.compress(b"{"))
    assert "damaged JSON" in told(gzip.compress(b"[" * 200_000))
    assert "damaged JSON" in told(gzip.compress(b'{"format": NaN}'))
    assert "damaged JSON" in told(gzip.compress(b"\xff\xfe\xfd"))
    assert "not of the format" in told(gzip.compress(b"[]"))
    assert "newer vknn" in told(gzip.compress(json.dumps({**found, "version": 2}).encode()))
    assert "version" in told(gzip.compress(json.dumps({**found, "version": "1"}).encode()))
    with pytest.raises(FileNotFoundError):
        read_document(tmp_path / "none.vkprof")


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 3 << 20)
    path = tmp_path / "bomb.vkprof"
    path.write_bytes(gzip.compress(b" " * (64 << 20)))
    with pytest.raises(VknnError, match="more than 3 MiB"):
        read_document(path)
    found = document([command(["a"])], np.ones((1, 1)))
    with pytest.raises(VknnError, match="too large for a file"):
        files.write_document(path, {**found, "created": " " * (4 << 20)})


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    [found] = processes(1, 0)
    more = copy.deepcopy(found)
    more["later"] = more["segments"][0]["later"] = {"x": 1}
    assert Profile.load(written(tmp_path / "a.vkprof", more)).timings


HOSTILE = ["</script><b>", "[red]x[/red][/]", "a|b`c`", "\U0001f600", "l" * 10_000, "\ud800\n\x00"]


def test_hostile_names_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document([command([n]) for n in HOSTILE], np.ones((2, len(HOSTILE))) * 1e-3)
    path = written(tmp_path / "a.vkprof", found)
    assert main(["report", str(path)]) == 0
    out = capsys.readouterr().out
    assert "[red]x[/red][/]" in out
    assert "l" * 100 not in out
    assert "\x00" not in out


def test_report_shows_tables_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [found] = processes(1, 0)
    path = written(tmp_path / "a.vkprof", found)
    assert main(["report", str(path), "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "net.param (ncnn)" in out
    assert "conv1" in out
    assert "conv2" not in out
    assert main(["report", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["commands"]) == 10
    assert main(["report", str(tmp_path / "none.vkprof")]) == 2


def test_limits_of_a_file_are_checked(tmp_path: Path) -> None:
    assert Limits.from_json(LIMITS.to_json()) == LIMITS
    for text in ("", "[]", "{}", LIMITS.to_json().replace("10.0", '"x"'), "[" * 100_000):
        with pytest.raises(VknnError, match="no limits of a device"):
            Limits.from_json(text)


@pytest.mark.device
def test_command_line_saves(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, limits = tmp_path / "a.vkprof", tmp_path / "limits.json"
    limits.write_text(LIMITS.to_json())
    given = ["profile", str(model), "--runs", "2", "--device", "vulkan", "--save", str(file)]
    assert main([*given, "--device-limits", str(limits)]) == 0
    found = read_document(file)
    assert found["limits"]["submit"] == 1e-5
    assert found["options"]["runs"] == len(found["plain"]) == len(found["runs"]) == 2
    assert main(["profile", str(model), "--device-limits", str(limits)]) == 2
    assert "--device-limits needs --save" in capsys.readouterr().err
    limits.write_text("{}")
    assert main([*given, "--device-limits", str(limits)]) == 2
    assert "limits.json: no limits" in capsys.readouterr().err
