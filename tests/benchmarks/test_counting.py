"""Engines' calls: the layer that logs them, the log read, and what dispatches do."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.counting import code_model, layer, report
from benchmarks.counting.log import (
    LoggedBuffer,
    LoggedDispatch,
    LoggedPipeline,
    LoggedRun,
    group_lanes,
    local_size,
    read_runs,
)
from benchmarks.counting.work import Work, ncnn_work, vknn_work

from vknn.runtime.spirv.modules import compile_glsl

ROOT = Path(__file__).resolve().parents[2]
GLSL = """#version 450
layout(local_size_x_id = 0, local_size_y = 3) in;
layout(constant_id = 5) const uint scale = 7;
layout(binding = 0) buffer A { uint a[]; };
void main() { a[gl_GlobalInvocationID.x] = scale; }
"""


def pipeline(number: int, handle: str, **more: Any) -> dict[str, Any]:
    base = {"pipeline": handle, "number": number, "module": f"m{number}", "constants": {}}
    return {"what": "pipeline", **base, **more}


def write_log(path: Path, *records: dict[str, Any] | str) -> Path:
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def mark(name: str, **more: Any) -> dict[str, Any]:
    return {"what": "mark", "name": name, "network": "net", **more}


def test_a_run_is_what_is_submitted_between_its_marks(tmp_path: Path) -> None:
    commands = {"commands": "c"}
    dispatch = {"what": "dispatch", **commands, "groups": [3, 5, 7]}
    buffers = [[0, "b", 0, 100], [1, "b", 100, 60], [2, "b", 0, 100], [3, "d", 0, -1]]
    statistics = {"": 0, "VGPRs": 24, "Code size": 512}
    submit = {"what": "submit", "commands": ["c"]}
    log = write_log(
        tmp_path / "log",
        {"what": "device", "name": "a device"},
        {"what": "allocate", "memory": "x", "bytes": 1000},
        mark("network"),
        pipeline(0, "p", constants={"0": 11}, subgroup=64, statistics=statistics),
        {"what": "allocate", "memory": "y", "bytes": 500},
        {"what": "free", "memory": "x"},
        {"what": "allocate", "memory": "z", "bytes": 100},
        {"what": "begin", **commands},
        {"what": "bind", **commands, "pipeline": "p"},
        {"what": "push", **commands, "offset": 0, "bytes": "01000000"},
        {"what": "push", **commands, "offset": 4, "bytes": "02000000"},
        {"what": "buffers", **commands, "buffers": buffers},
        {"what": "barrier", **commands},
        dispatch,
        {"what": "copy", **commands, "bytes": 13},
        submit,  # the first run, in which all is compiled
        mark("run"),
        submit,
        '{"what": "dispa',
        mark("end", notes={"version": "1"}),
        submit,
    )
    run = read_runs(log)["net"]
    counts = (run.barriers, run.copies, run.copied, run.submits, run.peak, run.pipelines)
    assert counts == (1, 1, 13, 1, 1500, 1)
    assert (run.device, run.notes) == ("a device", {"version": "1"})
    (found,) = run.dispatches
    assert found.groups == (3, 5, 7)
    assert found.push == struct.pack("<2i", 1, 2)
    assert found.nbytes == 160
    assert found.pipeline.constants == {0: 11}
    assert found.pipeline.statistics == {"VGPRs": 24, "Code size": 512}


def test_sets_and_push_constants_belong_to_their_pipeline(tmp_path: Path) -> None:
    commands = {"commands": "c"}
    dispatch = {"what": "dispatch", **commands, "groups": [1, 1, 1]}
    log = write_log(
        tmp_path / "log",
        mark("network"),
        pipeline(0, "p"),
        pipeline(1, "q"),
        {"what": "set", "set": "s", "buffers": [[0, "b", 0, 8]]},
        {"what": "set", "set": "s", "buffers": [[1, "b", 8, 16]]},
        mark("run"),
        {"what": "begin", **commands},
        {"what": "bind", **commands, "pipeline": "p"},
        {"what": "push", **commands, "offset": 0, "bytes": "0102030405060708"},
        {"what": "buffers", **commands, "set": "s"},
        dispatch,
        {"what": "bind", **commands, "pipeline": "q"},
        {"what": "push", **commands, "offset": 0, "bytes": "09000000"},
        dispatch,
        pipeline(2, "p"),  # the handle is used again
        {"what": "bind", **commands, "pipeline": "p"},
        dispatch,
        {"what": "submit", "commands": ["c"]},
        mark("end"),
    )
    first, second, third = read_runs(log)["net"].dispatches
    assert first.nbytes == 24
    assert (len(first.push), second.push) == (8, struct.pack("<i", 9))
    assert [d.pipeline.number for d in (first, second, third)] == [0, 1, 2]


def test_a_network_that_fell_over_has_no_run(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", mark("network"), mark("run"))
    assert read_runs(log) == {}


@pytest.mark.glsl
def test_local_sizes_are_those_of_the_specialized_module(tmp_path: Path) -> None:
    spirv = compile_glsl(GLSL)
    assert local_size(spirv, {}) == (1, 3, 1)
    assert local_size(spirv, {0: 17, 5: 2}) == (17, 3, 1)
    assert local_size(b"no module", {}) == (1, 1, 1)
    (tmp_path / "m.spv").write_bytes(spirv)
    run = LoggedRun([dispatch_of([], [], constants={0: 13})])
    assert group_lanes(run, tmp_path) == {0: 39}


def dispatch_of(
    push: list[int], sizes: list[int], constants: dict[int, int] | None = None
) -> LoggedDispatch:
    buffers = {i: LoggedBuffer(f"b{i}", 0, size) for i, size in enumerate(sizes)}
    made = LoggedPipeline(0, "m", constants or {}, 64, {})
    return LoggedDispatch(made, (2, 3, 1), struct.pack(f"<{len(push)}i", *push), buffers)


def test_work_of_ncnn() -> None:
    """A convolution, 5x7 pixels out; the product of 49 of Winograd's tiles; a fully connected
    layer; an elementwise operator that takes as many parameters."""
    weights = 2 * 1000

    def constants(count: int, start: int = 0) -> dict[int, int]:
        return {**dict.fromkeys(range(start, start + count), 3), 233: 8}

    dispatches = [
        dispatch_of([9, 9, 3, 81, 7, 5, 4, 35], [70, 80, weights, 8], constants(18)),
        dispatch_of([4, 49, 49, 4, 49], [70, 80, weights], constants(6)),
        dispatch_of([3, 3, 3], [70, 80, weights], constants(3)),
        dispatch_of([50, 1, 1], [70, 80, weights], constants(3)),
        dispatch_of([1], [70], constants(2)),
    ]
    run = LoggedRun(dispatches)
    found = ncnn_work(run, {0: 8}, "1.0.20231027")
    assert found is not None
    assert [(w.kind, w.macs) for w in found] == [
        ("product", 35_000),
        ("winograd", 49_000),
        ("row", 1000),
        ("map", 0),
        ("map", 0),
    ]
    assert {w.lanes for w in found} == {48}
    assert found[0].nbytes == 70 + 80 + weights + 8
    assert found[0].steps == pytest.approx(35_000 / 48)
    assert ncnn_work(run, {0: 8}, "0.9") is None


def test_work_of_vknn() -> None:
    planned = [
        ("convolution/conv", "Conv", 2000, 10),
        ("convolution/winograd_product", "Conv", 400, 20),
        ("convolution/winograd_input", "Conv", 300, 30),
        ("matmul/row", "Gemm", 200, 40),
        ("convolution/depthwise", "Conv", 100, 50),
        ("elementwise/binary", "Add", 6, 60),
    ]
    run = LoggedRun([dispatch_of([], []) for _ in planned], notes={"dispatches": planned})
    kinds = ["product", "winograd", "map", "row", "depthwise", "map"]
    found = vknn_work(run, {0: 2})
    assert [work.kind for work in found] == kinds
    assert found[0] == Work("product", 1000, 10, 12)
    run.dispatches.pop()
    with pytest.raises(ValueError, match="zip"):
        vknn_work(run, {0: 2})


def test_the_code_model_gets_what_the_layer_kept(tmp_path: Path) -> None:
    (tmp_path / "m.spv").write_bytes(b"spirv")
    (tmp_path / "00000.txt").write_text("=== NIR Shader(s)\na\nb\n=== Assembly\nv_add\n\n")
    dispatch = dispatch_of([5], [], {0: 3})
    given = code_model.compiled("d", dispatch, tmp_path)
    assert given.texts == {"NIR Shader(s)": "a\nb", "Assembly": "v_add\n\n"}
    assert (given.spirv, given.push, given.constants) == (b"spirv", struct.pack("<i", 5), {0: 3})
    assert (given.device, given.groups, given.subgroup) == ("d", (2, 3, 1), 64)
    assert given.nbytes == dispatch.nbytes
    assert code_model.code_times(LoggedRun([dispatch], device="d"), tmp_path) == [None]


def test_tables_of_two_engines() -> None:
    counts = {"dispatches": 32, "barriers": 28, "copies": 2, "submits": 1, "peak_mb": 9.4}
    compiler = {"spilling": 1, "most_registers": 96, "most_code": 7304, "fewest_waves": None}
    ours = {**counts, "pipelines": 9, "host_us": 37, **compiler, "us": {"card": 100}}
    theirs = {**ours, "dispatches": 80, "us": {"card": 400}, "host_us": None}
    networks = {"a": {"vknn": ours, "ncnn": theirs}, "b": {"vknn": ours, "ncnn": {"error": "no"}}}
    about = {"null": "navi21", "device": "RX", "precision": "fp16", "vknn": "1", "ncnn": "2"}
    text = report.side_tables([{**about, "assumptions": ["as is"], "networks": networks}])
    assert "**navi21** (RX), fp16, vknn 1, ncnn 2:" in text
    assert "| a | 32 / 80 | 28 / 28 |" in text
    assert "| b | 32 / - |" in text
    assert "37 / -" in text
    assert "| 0.25 |" in text
    assert "| vknn | 18 | 2 | 96 | 7,304 |  |" in text
    assert text.endswith("- as is")


def test_what_latencies_change() -> None:
    """The one network's order turns where they are halved, the other's never."""

    def engine(halved: float, time: float, doubled: float) -> dict[str, object]:
        scaled = {"0.5": halved, "2": doubled}
        return {"dispatches": 1, "barriers": 0, "code_us": time, "code_scaled_us": scaled}

    networks = {
        "a": {"vknn": engine(9.0, 10.0, 20.0), "ncnn": engine(8.0, 40.0, 80.0)},
        "b": {"vknn": engine(5.0, 10.0, 20.0), "ncnn": engine(20.0, 40.0, 80.0)},
        "c": {"vknn": {"dispatches": 1, "code_us": None}, "ncnn": {"error": "no"}},
    }
    about = {"null": "navi21", "device": "RX ", "precision": "fp16", "assumptions": []}
    text = report.side_tables([{**about, "networks": networks}])
    assert "**navi21** (RX), fp16" in text
    head = "vknn's share by code is"
    assert f"Latencies times 0.5: {head} 0.53 in place of 0.25; who is ahead changes in a." in text
    assert f"Latencies times 2: {head} 0.25 in place of 0.25; who is ahead changes in no" in text


@pytest.fixture(scope="module")
def built() -> Path:
    try:
        return layer.built(ROOT / ".cache")
    except layer.Unbuildable as error:
        pytest.skip(str(error))


PROGRAM = """
import sys
import numpy as np
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.session import Session
from pathlib import Path
param, log = map(Path, sys.argv[1:])
weights = param.with_suffix(".bin")
write_random_weights(param, weights)
def mark(name):
    with log.open("a") as file:
        file.write('{"what": "mark", "name": "%s", "network": "net"}\\n' % name)
with Session(param, weights, device="vulkan:0") as session:
    mark("network")
    feeds = {"data": np.zeros((3, 5, 7), np.float32)}
    session.run(feeds)
    mark("run")
    session.run(feeds)
    mark("end")
    plans = session._engine.program(feeds).plans
    print(sum(len(plan.dispatches) for plan in plans))
"""
PARAM = """7767517
3 3
Input in 0 1 data
Convolution c1 1 1 data a 0=5 1=3 4=1 5=1 6=135 9=1
Convolution c2 1 1 a b 0=3 1=1 5=1 6=15
"""


@pytest.mark.device
@pytest.mark.long
def test_the_layer_logs_a_run(built: Path, tmp_path: Path) -> None:
    """A session on whatever device there is: what its plan holds stands in the log."""
    param, log, texts = tmp_path / "net.param", tmp_path / "log", tmp_path / "texts"
    param.write_text(PARAM)
    texts.mkdir()
    variables = {**os.environ, **layer.environment(built, log, texts)}
    variables.pop("VKNN_VALIDATE", None)
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(param), str(log)],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = read_runs(log)["net"]
    assert len(run.dispatches) == int(done.stdout.split()[-1])
    assert run.submits >= 1
    assert run.peak > 0
    assert run.device
    lanes = group_lanes(run, texts)
    for dispatch in run.dispatches:
        assert lanes[dispatch.pipeline.number] > 1
        assert dispatch.buffers
        assert min(dispatch.groups) >= 1
    assert any(dispatch.push for dispatch in run.dispatches)


@pytest.mark.long
def test_the_layer_is_built_once(built: Path) -> None:
    library = built / "libVkLayer_vknn_calls.so"
    before = library.stat().st_mtime_ns
    assert layer.built(built.parent) == built
    assert library.stat().st_mtime_ns == before


def test_a_cache_that_was_moved(built: Path, tmp_path: Path) -> None:
    """The manifest names the library beside it, not where it was once built."""
    folder = tmp_path / built.name
    folder.mkdir()
    shutil.copy(built / layer.CALLS.library, folder)
    manifest = folder / f"{layer.CALLS.name}.json"
    manifest.write_text('{"layer": {"library_path": "/nowhere/lib.so"}}')
    assert layer.built(tmp_path) == folder
    named = Path(json.loads(manifest.read_text())["layer"]["library_path"])
    assert named == Path(layer.CALLS.library)
    assert not named.is_absolute()


def test_without_a_compiler_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer.shutil, "which", lambda name: None)
    monkeypatch.setattr(layer, "SYSTEM_HEADERS", tmp_path)
    with pytest.raises(layer.Unbuildable, match="no headers of Vulkan, and no apt-get"):
        layer.built(tmp_path)
    (tmp_path / "vulkan").mkdir()
    (tmp_path / "vulkan" / "vk_layer.h").touch()
    with pytest.raises(layer.Unbuildable, match="no C compiler"):
        layer.built(tmp_path)
