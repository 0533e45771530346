"""The Python runner and what feeds ``vknn-run``, used wrongly: an error each, and no crash."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import rebuilt, relu, with_field

from vknn.bundle import Bundle, Runner, native, schema
from vknn.bundle.restored import RestoredPlan
from vknn.errors import DeviceError, InputError, RunCancelledError, VknnError
from vknn.runtime import open_device

pytestmark = [pytest.mark.glsl, pytest.mark.device]

SHAPE = (2, 3, 4)
DATA = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture
def runner(library: Path) -> Iterator[Runner]:
    with Runner(relu(), library=library) as opened:
        yield opened


@pytest.mark.parametrize(
    "options, text",
    [
        ({"threads": -1}, "threads=-1"),
        ({"threads": 1.5}, "threads=1.5"),
        ({"threads": 1 << 40}, "threads="),
        ({"memory_limit": -1}, "memory_limit=-1"),
        ({"memory_limit": 1 << 64}, "memory_limit="),
        ({"time_limit": -1.0}, "time_limit=-1"),
        ({"time_limit": float("nan")}, "time_limit=nan"),
        ({"time_limit": "1"}, "time_limit='1'"),
        ({"device": 0}, "device=0: this is no text"),
        ({"device": "llvm\0pipe"}, "no zero bytes"),
        ({"shapes": "data=2,3,4\0x"}, "no zero bytes"),
        ({"target": "\ud800"}, "this is no text"),
        ({"cache": "a\0b"}, "no zero bytes"),
        ({"sha256": 12}, "64 hexadecimal digits"),
    ],
)
def test_options_that_c_would_cut(library: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        Runner(relu(), library=library, **options)
    assert text in str(error.value)


def test_what_is_no_bundle(library: Path) -> None:
    wrong: Any
    for wrong in (None, 3, "net\0.vkb", [b"x"]):
        with pytest.raises(InputError, match="bundle="):
            Runner(wrong, library=library)
    memory = memoryview(bytearray(relu()))
    Runner(memory, library=library).close()


def test_arrays_that_do_not_fit(runner: Runner) -> None:
    wrong: Any
    for wrong, text in [
        (DATA.tolist(), "'data' is list, expected float32"),
        (None, "'data' is NoneType"),
        (3.0, "'data' is float"),
        (DATA.astype(">f4"), "'data' is >f4"),
        (DATA.astype(object), "'data' is object"),
        (DATA[:, :0], "'data' is float32[2, 0, 4]"),
        (np.zeros((1 << 40, 0), np.float32), "'data' is float32[1099511627776, 0]"),
        (np.broadcast_to(np.float32(0), (1 << 20, 1 << 20)), "'data' is float32[1048576"),
        (np.float32(1), "'data' is float32[]"),
    ]:
        with pytest.raises(InputError) as error:
            runner.run({"data": wrong})
        assert text in str(error.value)
    for feeds, text in [([DATA], "inputs are list"), ({None: DATA}, "missing input 'data'")]:
        with pytest.raises(InputError, match=text):
            runner.run(feeds)  # type: ignore[arg-type]


def test_any_layout_in_memory_goes(runner: Runner) -> None:
    large = np.zeros((4, 6, 8), np.float32)
    large[::2, ::2, ::2] = DATA
    read_only = DATA.copy()
    read_only.flags.writeable = False
    for array in (np.asfortranarray(DATA), large[::2, ::2, ::2], read_only, DATA[::-1][::-1]):
        assert np.array_equal(runner.run({"data": array})["y"], np.maximum(DATA, 0))


@pytest.mark.parametrize("runs", [-1, 0, 1.5, "3", None, (1 << 32) + 1])
def test_profiles_of_absurd_runs(runner: Runner, runs: Any) -> None:
    with pytest.raises(InputError, match="runs=.* from 1 to 1,000,000"):
        runner.profile(runs)


def test_a_closed_runner_says_so(library: Path) -> None:
    runner = Runner(relu(), library=library)
    runner.close()
    runner.close()
    runner.cancel()
    uses: list[Callable[[], object]] = [
        lambda: runner.run({"data": DATA}), runner.submit, runner.wait, runner.reset, runner.test,
        runner.test_json, runner.profile, lambda: runner.borrow("data"), lambda: runner.device,
        lambda: runner.memory, lambda: runner.entry("vknn_run"),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(VknnError, match="the runner was closed"):
            use()


def test_borrowed_memory_outlives_the_name_of_its_runner(library: Path) -> None:
    runner = Runner(relu(), library=library)
    array = runner.borrow("data")
    del runner
    gc.collect()
    array[...] = DATA
    assert np.array_equal(array, DATA)


def test_a_port_of_each_side_is_borrowed(library: Path) -> None:
    """An input and an output have one name."""
    bundle = Bundle.of(relu())
    ports = bundle.tables[schema.PORT]
    [given], [made] = (np.flatnonzero(ports["direction"] == d) for d in schema.Direction)
    raw = with_field(bundle, schema.PORT, "name", ports["name"][given], int(made))
    with Runner(raw, library=library) as runner:
        runner.borrow("data", "output")[...] = 7
        with pytest.raises(InputError, match="missing input 'data'"):
            runner.run({})
        assert not (runner.borrow("data") == 7).any()
        runner.borrow("data", "input")[...] = DATA
        assert np.array_equal(runner.run({})["data"], np.maximum(DATA, 0))
        assert np.array_equal(runner.borrow("data", "output"), np.maximum(DATA, 0))
        assert np.array_equal(runner.borrow("data"), DATA)
        with pytest.raises(InputError, match="side='in'"):
            runner.borrow("data", "in")
    with Runner(relu(), library=library) as runner, pytest.raises(InputError, match="no input 'y'"):
        runner.borrow("y", "input")


def test_closed_and_cancelled_while_others_run(library: Path) -> None:
    told: list[str] = []
    for _ in range(5):
        runner = Runner(relu(), library=library)
        ready = threading.Event()

        def work(runner: Runner = runner, ready: threading.Event = ready) -> None:
            try:
                while True:
                    runner.run({"data": DATA})
                    ready.set()
            except RunCancelledError:
                ready.set()
            except VknnError as error:
                told.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        ready.wait(30)
        for _ in range(20):
            runner.cancel()
        runner.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    # The device may be at work behind a wait that was given up.
    assert set(told) <= {"the runner was closed", "a run is under way; call vknn_wait first"}


def unicode_names() -> tuple[bytes, str]:
    bundle = Bundle.of(relu())
    name = "dé=ta 数据 \U0001f600"
    strings = bundle.sections["strings"].tobytes()
    changed = Bundle.of(rebuilt(bundle, {"strings": strings + name.encode() + b"\0"}))
    ports = changed.tables[schema.PORT]
    [at] = np.flatnonzero(ports["direction"] == schema.Direction.INPUT)
    return with_field(changed, schema.PORT, "name", len(strings), int(at)), name


def test_names_of_any_letters(library: Path, tmp_path: Path) -> None:
    raw, name = unicode_names()
    answer = np.maximum(DATA, 0)
    with Runner(raw, library=library) as runner:
        assert list(runner.inputs) == [name]
        assert np.array_equal(runner.run({name: DATA})["y"], answer)
        with pytest.raises(InputError, match="there is no input"):
            runner.run({name: DATA, "d\ud800": DATA})
    path = tmp_path / "né t.vkb"
    path.write_bytes(raw)
    [plan] = Bundle.open(path).plans
    program = build.program(build.RUNNER / "main.c")
    found = native.run_program(program, path, plan, {name: np.asfortranarray(DATA)})
    assert np.array_equal(found["y"], answer)


def test_paths_that_look_like_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("--test.vkb").write_bytes(relu())
    Path("vknn-run").symlink_to(build.program(build.RUNNER / "main.c"))
    [plan] = Bundle.open("--test.vkb").plans
    found = native.run_program(Path("vknn-run"), Path("--test.vkb"), plan, {"data": DATA})
    assert np.array_equal(found["y"], np.maximum(DATA, 0))


def test_programs_that_are_no_runner(tmp_path: Path) -> None:
    path = tmp_path / "net.vkb"
    path.write_bytes(relu())
    [plan] = Bundle.open(path).plans
    with pytest.raises(DeviceError, match="wrote no outputs"):
        native.run_program(Path("/bin/true"), path, plan, {"data": DATA})
    with pytest.raises(VknnError, match="cannot be run"):
        native.run_program(tmp_path, path, plan, {"data": DATA})
    with pytest.raises(InputError, match="inputs are x, expected data"):
        native.run_program(Path("/bin/true"), path, plan, {"x": DATA})


def test_plans_made_back_take_arrays_alone() -> None:
    bundle = Bundle.of(relu())
    wrong: Any
    with (
        open_device("auto") as device,
        RestoredPlan(bundle, bundle.plans[0], device) as restored,
    ):
        for wrong in (DATA.tolist(), DATA.astype(">f4"), DATA[0]):
            with pytest.raises(InputError, match="'data' is .*, expected float32"):
                restored.run({"data": wrong})
        found = restored.run({"data": np.asfortranarray(DATA)})
        assert np.array_equal(found["y"], np.maximum(DATA, 0))
