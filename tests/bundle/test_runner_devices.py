"""The runner on devices that a layer plays (device_layer/): memory, queue families, subgroups."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import edited, records
from tests.bundle.networks import Made, small
from tests.bundle.played import played
from tests.bundle.test_ports_states import svdf

import vknn

pytestmark = pytest.mark.device

OTHER, INTEGRATED, DISCRETE, VIRTUAL = range(4)
#: Types of memory: the device's alone, the host's too (as GPUs with a resizable BAR have it, and
#: as phones do), and the host's alone.
ALONE, WINDOW, SHARED, HOST = "1", "7", "f", "e"
#: One heap of all, and one of the host beside it.
ONE, TWO = "heaps=1", "heaps=1,0"

#: Answers to cases: (play, inputs that are set, whether state is reset behind that) and options.
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Answers of a child process that runs under the layer."""
    library, variables = played()
    env = {
        **os.environ, **variables, "PYTHONPATH": f"{build.ROOT}/src:{build.ROOT}",
        "VKNN_VALIDATE": "0",
    }  # fmt: skip
    script = Path(__file__).with_name("played_run.py")
    command = [sys.executable, str(script), str(library), str(build.library())]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as child:

        def answers(
            play: str, path: Path, feeds: list[Any], context: Any = None, **options: Any
        ) -> dict[str, Any]:
            assert child.stdin is not None
            assert child.stdout is not None
            case = (play, str(path), feeds, options, context or {})
            child.stdin.write(json.dumps(case) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
            assert line, child.communicate()[1][-3000:]
            return dict(json.loads(line))

        yield answers
        child.communicate(timeout=60)


def types(*flags: str) -> str:
    """Types of memory as the layer reads them: what the device does not have lies in heap 1."""
    return "types=" + ",".join(f"{f}:{0 if int(f, 16) & 1 else 1}" for f in flags)


def hexed(case: Made) -> tuple[list[Any], str]:
    [data], [right] = case.feeds.values(), case.expected.values()
    return [(data.tobytes().hex(), False)] * 2, right.tobytes().hex()


def right(answer: dict[str, Any], expected: str) -> dict[str, Any]:
    assert answer["raised"] == ""
    assert answer["outputs"] == [expected] * 2
    return answer


def arenas(case: Made) -> list[int]:
    [found] = records(case.path.read_bytes(), "plan")["arenas"]
    return [int(size) for size in found]


def about(nbytes: int, wanted: int) -> bool:
    """Whether so many bytes were allocated, rounded as the runner and the driver do."""
    return wanted <= nbytes < wanted + 4096


def shared(answer: dict[str, Any]) -> bool:
    [line] = [t for t in answer["told"] if t.startswith("device: ")]
    return bool(line.endswith("memory shared"))


def both(net: Made, ask: Ask, play: str) -> dict[str, Any]:
    """The runner's answer, right; vknn's own runtime uses memory alike, and computes the same, by a
    plan for the kind that is played.
    """
    feeds, expected = hexed(net)
    context = {"session": str(net.path.with_suffix(".param"))}
    answer = right(ask(play, net.path, feeds, context), expected)
    assert answer["session"]["shared"] is shared(answer)
    [wanted] = net.expected.values()
    for output in answer["session"]["outputs"]:
        found = np.frombuffer(bytes.fromhex(output), wanted.dtype).reshape(wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    return answer


@pytest.mark.parametrize("staged", [False, True])
def test_outputs_are_zeros_before_the_first_run(net: Made, ask: Ask, staged: bool) -> None:
    feeds, expected = hexed(net)
    answer = right(ask("", net.path, feeds, staged=staged), expected)
    assert set(answer["before"]) == {"0"}


KINDS = pytest.mark.parametrize("kind", [OTHER, INTEGRATED, DISCRETE, VIRTUAL])


@KINDS
def test_memory_of_one_heap_is_used_in_place(net: Made, ask: Ask, kind: int) -> None:
    assert shared(both(net, ask, f"kind={kind} {ONE} {types(SHARED)}"))
    # The device's alone holds what only it works in.
    answer = both(net, ask, f"kind={kind} {ONE} {types(ALONE, SHARED)}")
    assert shared(answer)
    assert about(answer["allocated"][0], arenas(net)[2])


@KINDS
def test_memory_that_the_host_caches_is_used_in_place(net: Made, ask: Ask, kind: int) -> None:
    """Though there is other memory that is the host's alone."""
    answer = both(net, ask, f"kind={kind} {TWO} {types(ALONE, SHARED, HOST)}")
    assert shared(answer)
    assert answer["allocated"][1] > 0
    assert answer["allocated"][2] == 0


@KINDS
def test_a_window_is_for_inputs(net: Made, ask: Ask, kind: int) -> None:
    """A GPU that shows its memory over a bus: weights, activations and outputs lie elsewhere."""
    play = f"kind={kind} {TWO} {types(ALONE, WINDOW, HOST)}"
    answer = both(net, ask, play)
    assert not shared(answer)
    inputs, outputs, activations = arenas(net)
    assert about(answer["allocated"][1], inputs)
    assert about(answer["allocated"][2], outputs + 4 * (1 << 20))  # the ring
    assert answer["allocated"][0] > outputs + activations
    feeds, expected = hexed(net)
    staged = right(ask(play, net.path, feeds, staged=True), expected)
    assert staged["allocated"][1] == 0


@KINDS
@pytest.mark.parametrize("window", [WINDOW, SHARED])
def test_a_window_is_of_another_heap(net: Made, ask: Ask, kind: int, window: str) -> None:
    """It may be small, however fast it is: it is for inputs alone."""
    answer = both(net, ask, f"kind={kind} heaps=1,1,0 types=1:0,{window}:1,e:2")
    assert not shared(answer)
    assert about(answer["allocated"][1], arenas(net)[0])


@pytest.mark.parametrize("flags", [WINDOW, SHARED])
@pytest.mark.parametrize("lack", ["full=2", "hidden=2"])
def test_what_finds_no_room_in_place_is_staged(net: Made, ask: Ask, flags: str, lack: str) -> None:
    feeds, expected = hexed(net)
    play = f"{TWO} {types(ALONE, flags, HOST)} {lack}"
    answer = right(ask(play, net.path, feeds), expected)
    assert shared(answer) is (flags == SHARED)
    assert answer["allocated"][1] == 0
    assert answer["allocated"][0] > 0
    assert answer["allocated"][2] > 0


@pytest.mark.parametrize("flags", [WINDOW, SHARED])
def test_memory_that_buffers_may_not_use_is_not_used(net: Made, ask: Ask, flags: str) -> None:
    answer = both(net, ask, f"{TWO} {types(ALONE, flags, HOST)} hidden=2")
    assert answer["allocated"][1] == 0


def test_a_device_without_any_room_says_so(net: Made, ask: Ask) -> None:
    play = f"kind={INTEGRATED} {TWO} {types(ALONE, WINDOW, HOST)} full=3"
    answer = ask(play, net.path, hexed(net)[0])
    assert answer["raised"].startswith("OutOfMemoryError: ")
    assert "close other nets" in answer["raised"]


@pytest.mark.parametrize("staged", [False, True])
def test_memory_that_is_not_coherent(net: Made, ask: Ask, staged: bool) -> None:
    feeds, expected = hexed(net)
    play = f"{TWO} {types(ALONE, 'b', 'a')}" if staged else f"{ONE} {types(ALONE, 'b')}"
    answer = right(ask(play, net.path, feeds, staged=staged), expected)
    assert shared(answer) is not staged
    assert set(answer["before"]) == {"0"}


@pytest.mark.parametrize("staged", [False, True])
def test_states_in_memory_that_is_not_coherent(tmp_path: Path, ask: Ask, staged: bool) -> None:
    """What the device writes beside inputs is not undone as the host's writes are flushed."""
    model, path = tmp_path / "svdf.tflite", tmp_path / "svdf.vkb"
    model.write_bytes(svdf())
    inputs = [np.random.default_rng(n).standard_normal((1, 3)).astype("f4") for n in range(3)]
    with vknn.Session(model, device="vulkan") as session:
        wanted = [session.run({"x": x})["y"].tobytes().hex() for x in inputs]
        limits = session.device.limits
    vknn.export(model, path, targets=limits)
    feeds = [(x.tobytes().hex(), n == 3) for n, x in enumerate([*inputs, *inputs])]
    for flags in (SHARED, "b"):
        answer = ask(f"{ONE} {types(flags)}", path, feeds, staged=staged)
        assert answer["raised"] == ""
        assert answer["outputs"] == [*wanted, *wanted], flags


def test_families_of_a_queue(net: Made, ask: Ask) -> None:
    feeds, expected = hexed(net)
    answer = right(ask("families=20", net.path, feeds), expected)
    assert answer["profile"]["steps"]


def test_workgroups_of_many_subgroups(net: Made, ask: Ask, tmp_path: Path) -> None:
    """Where a size of subgroups is asked for, so many lanes have to fit in a workgroup."""
    feeds, expected = hexed(net)
    with vknn.Session(net.path.with_suffix(".param"), device="vulkan") as session:
        size = session.device.limits.subgroup_size

    def sized(plans: np.ndarray) -> None:
        plans["subgroup_size"] = size
        plans["group_invocations"] = np.maximum(plans["group_invocations"], 4 * size)

    path = edited(net.path, tmp_path / "sized.vkb", "plan", sized)
    [lanes] = records(path.read_bytes(), "plan")["group_invocations"]
    enough = -(-int(lanes) // size)
    right(ask(f"subgroup={2 * size} subgroups={enough}", path, feeds), expected)
    answer = ask(f"subgroup={2 * size} subgroups={enough - 1}", path, feeds)
    assert f"needs subgroups of {size} (not {2 * size})" in answer["raised"]


def test_a_cache_that_the_driver_refuses_is_written_anew(
    net: Made, ask: Ask, tmp_path: Path
) -> None:
    feeds, expected = hexed(net)
    context = {"cache": str(tmp_path / "cache")}
    right(ask("", net.path, feeds, context), expected)
    [file] = (tmp_path / "cache").iterdir()
    good = file.read_bytes()
    sums = struct.pack("<I", zlib.crc32(b"refused"))
    bad = good[:20] + sums + good[24:40] + struct.pack("<Q", len(b"refused")) + b"refused"
    file.write_bytes(bad)
    answer = right(ask("refuse=1", net.path, feeds, context), expected)
    assert f"the driver refuses {file}" in answer["told"]
    [file] = (tmp_path / "cache").iterdir()
    assert len(file.read_bytes()) > len(bad)
    assert file.read_bytes()[:20] == good[:20]
