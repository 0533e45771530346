"""The runner on the device here: the same bits as vknn's own runtime, whichever way memory goes."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import edited, records, section, without_barriers
from tests.bundle.networks import MODELS, Made, answers, made, small
from tests.bundle.test_ports_states import svdf

import vknn
from vknn.bundle.runner import Runner
from vknn.bundle.schema import NONE, StepKind
from vknn.errors import DeviceError, DeviceTimeoutError, InputError, OutOfMemoryError, VknnError
from vknn.formats.ncnn.random_weights import write_random_weights

pytestmark = pytest.mark.device

ROOT = build.ROOT
SWIFTSHADER = ROOT / ".cache" / "swiftshader" / "vk_swiftshader_icd.json"
PATHS = pytest.mark.parametrize("staged", [False, True], ids=["in place", "staged"])


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    return small(tmp_path_factory.mktemp("net"))


def check(case: Made, library: Path, **options: Any) -> None:
    with Runner(case.path, library=library, **options) as runner:
        for _ in range(2):
            found = answers(runner, case)
            for name, array in case.expected.items():
                np.testing.assert_array_equal(found[name], array, err_msg=name)


@PATHS
def test_bits_are_those_of_vknn(net: Made, library: Path, staged: bool) -> None:
    check(net, library, staged=staged)


@PATHS
@pytest.mark.parametrize("arithmetic", ["fp32", "fp16"])
def test_fp16(tmp_path: Path, library: Path, staged: bool, arithmetic: str) -> None:
    check(small(tmp_path, precision="fp16", arithmetic=arithmetic), library, staged=staged)


@PATHS
def test_weight_of_several_pieces(tmp_path: Path, library: Path, staged: bool) -> None:
    """One of more than the 4 MiB that go through staging memory at once."""
    model = tmp_path / "large.param"
    model.write_text(
        "7767517\n2 2\nInput data 0 1 data 0=1100\n"
        "InnerProduct fc 1 1 data y 0=1001 1=1 2=1101100\n"
    )
    write_random_weights(model, model.with_suffix(".bin"))
    check(made(tmp_path, model, {"data": (1100,)}), library, staged=staged)


@pytest.mark.slow
@PATHS
@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        ("ncnn/squeezenet_v1.1.param", {"data": (3, 227, 227)}),
        ("ncnn/RFB-320.param", {}),
        ("onnx/mnist_cntk.onnx", {}),
        ("onnx/openseeface_lm0.onnx", {}),
        ("coreml/mnistCNN.mlmodel", {}),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_bits_of_networks(
    tmp_path: Path, library: Path, staged: bool, model: str, shapes: Any, precision: str
) -> None:
    check(made(tmp_path, MODELS / model, shapes, precision=precision), library, staged=staged)


def child(case: Made, library: Path, env: dict[str, str], **options: Any) -> str:
    """What a process of its own prints that runs the case with these variables set."""
    feeds, expected = case.path.with_suffix(".in.npz"), case.path.with_suffix(".out.npz")
    np.savez(feeds, **case.feeds)
    np.savez(expected, **case.expected)
    script = Path(__file__).with_name("runner_run.py")
    arguments = [library, case.path, feeds, expected, json.dumps(options)]
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}", **env},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@PATHS
def test_swiftshader(net: Made, library: Path, tmp_path: Path, staged: bool) -> None:
    if not SWIFTSHADER.exists():
        pytest.skip("needs SwiftShader (tools/test fetches it)")
    env = {"VK_ICD_FILENAMES": str(SWIFTSHADER), "VK_DRIVER_FILES": str(SWIFTSHADER)}
    script = (
        "import sys; from pathlib import Path; from tests.bundle.networks import small\n"
        "import numpy as np; case = small(Path(sys.argv[1]))\n"
        "np.savez(sys.argv[1] + '/f.npz', **case.feeds)\n"
        "np.savez(sys.argv[1] + '/e.npz', **case.expected)\n"
    )
    path = {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "VKNN_VALIDATE": "0"}
    command = [sys.executable, "-c", script, str(tmp_path)]
    subprocess.run(command, env={**os.environ, **env, **path}, check=True, timeout=120)
    case = Made(
        tmp_path / "small.vkb",
        dict(np.load(tmp_path / "f.npz")),
        dict(np.load(tmp_path / "e.npz")),
    )
    assert "SwiftShader" in child(case, library, env, staged=staged)


VALIDATION = {
    "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
    "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
}


@PATHS
def test_validation_is_silent(net: Made, library: Path, staged: bool) -> None:
    told = child(net, library, VALIDATION, staged=staged)
    assert "VUID" not in told
    assert "SYNC" not in told
    assert "Validation" not in told


def test_validation_is_listened_to(net: Made, tmp_path: Path, library: Path) -> None:
    """A bundle without barriers is told of."""
    bad = Made(without_barriers(net.path, tmp_path / "bad.vkb"), net.feeds, net.expected)
    told = child(bad, library, VALIDATION, bits=False)
    assert "SYNC-HAZARD" in told


def test_robust(net: Made, library: Path) -> None:
    check(net, library, robust=True)


def test_bytes_in_memory(net: Made, library: Path) -> None:
    check(Made(net.path.read_bytes(), net.feeds, net.expected), library)  # type: ignore[arg-type]


def test_ports_are_described(net: Made, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        assert list(runner.inputs) == list(net.feeds)
        assert list(runner.outputs) == list(net.expected)
        assert "llvmpipe" in runner.device or runner.device
        assert runner.memory > 0


def test_borrowed_memory(net: Made, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        view = runner.borrow("data")
        view[...] = net.feeds["data"].reshape(view.shape)
        found = runner.run({})
        for name, array in net.expected.items():
            np.testing.assert_array_equal(found[name].ravel(), array.ravel())


def test_device_is_chosen(net: Made, library: Path) -> None:
    from vknn.runtime import devices

    name = devices()[0].name
    for selector in ("0", name[:5].upper(), name):
        check(net, library, device=selector)
    with pytest.raises(DeviceError, match="no device nobody; there are 0: "):
        Runner(net.path, library=library, device="nobody")


def test_plan_that_is_not_there(net: Made, library: Path) -> None:
    with pytest.raises(InputError, match=r"no plan of shapes data=1 for any target; it has data="):
        Runner(net.path, library=library, shapes="data=1")
    with pytest.raises(InputError, match=r"for toaster"):
        Runner(net.path, library=library, target="toaster")


def test_memory_limit(net: Made, library: Path) -> None:
    with pytest.raises(OutOfMemoryError, match=r"4096 are free on"):
        Runner(net.path, library=library, memory_limit=4096)
    with Runner(net.path, library=library) as runner:
        enough = runner.memory
    check(net, library, memory_limit=enough)


def test_needs_that_are_not_met(net: Made, tmp_path: Path, library: Path) -> None:
    def greedy(plans: np.ndarray) -> None:
        plans["storage_range"] = 1 << 40
        plans["features"] |= 0x100
        plans["storage_alignment"] = 4
        plans["subgroup_size"] = 128

    path = edited(net.path, tmp_path / "greedy.vkb", "plan", greedy)
    with pytest.raises(DeviceError) as caught:
        Runner(path, library=library)
    for part in (
        "does not suit", "1099511627776 bytes in a storage buffer", "cooperative matrices",
        "multiples of 4 bytes", "subgroups of 128", "generic",
    ):  # fmt: skip
        assert part in str(caught.value)


def test_damaged_weights(net: Made, tmp_path: Path, library: Path) -> None:
    raw = bytearray(net.path.read_bytes())
    blobs = records(raw, "buffer")["blob"]
    blob = int(blobs[blobs != NONE][0])
    offset, _ = section(raw, "data")
    raw[offset + int(records(raw, "blob")["offset"][blob])] ^= 1
    path = tmp_path / "damaged.vkb"
    path.write_bytes(raw)
    with pytest.raises(VknnError, match=f"is damaged: blob {blob} has another sum"):
        Runner(path, library=library)


@pytest.mark.parametrize("kind", ["missing", "empty", "folder", "pipe"])
def test_file_that_cannot_be_read(tmp_path: Path, library: Path, kind: str) -> None:
    path = tmp_path / "net.vkb"
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(VknnError, match="net.vkb (cannot be opened|is empty, or no file)"):
        Runner(path, library=library)


def test_wrong_sizes(net: Made, library: Path) -> None:
    lib = ctypes.CDLL(str(library))
    lib.vknn_net_message.restype = ctypes.c_char_p
    with Runner(net.path, library=library) as runner:
        handle = runner._net
        assert lib.vknn_set(handle, b"data", b"\0" * 4, ctypes.c_size_t(4)) == 4
        assert lib.vknn_net_message(handle) == b"data has 768 bytes, not 4"
        assert lib.vknn_set(handle, b"nothing", b"\0" * 4, ctypes.c_size_t(4)) == 4
        assert lib.vknn_net_message(handle) == b"there is no input nothing; there are: data"


def test_time_limit_then_wait(net: Made, library: Path) -> None:
    """A run that is over its time can be waited for again; inputs cannot be set meanwhile."""
    with Runner(net.path, library=library, time_limit=1e-9) as runner:
        view = runner.borrow("data")
        view[...] = net.feeds["data"].reshape(view.shape)
        runner.submit()
        try:
            runner.wait()
        except DeviceTimeoutError as error:
            assert "did not finish within 1e-09 s" in str(error)  # noqa: PT017
            with pytest.raises(InputError, match="a run is under way"):
                runner.run({"data": view.copy()})
        for _ in range(1000):
            try:
                runner.wait()
                break
            except DeviceTimeoutError:
                threading.Event().wait(0.01)
        else:
            raise AssertionError("the run never came to its end")
        found = {name: runner._get(port) for name, port in runner.outputs.items()}
        for name, array in net.expected.items():
            np.testing.assert_array_equal(found[name].ravel(), array.ravel())


def test_profile(net: Made, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        answers(runner, net)
        profile = json.loads(runner.profile(3))
        after = answers(runner, net)
    np.testing.assert_array_equal(*(next(iter(d.values())) for d in (after, net.expected)))
    assert profile["runs"] == 3
    assert profile["steps"]
    for step in profile["steps"]:
        assert step["microseconds"] >= 0
        assert step["begin"] >= 0
        assert len(step["groups"]) == 3
    assert any("conv1" in step["label"] for step in profile["steps"])
    assert (
        profile["microseconds"] >= max(s["begin"] + s["microseconds"] for s in profile["steps"]) - 1
    )


def test_cache_is_kept_and_checked(net: Made, library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    check(net, library, cache=folder)
    [file] = folder.iterdir()
    good = file.read_bytes()
    assert good.startswith(b"VKNNRC1\0")
    for bad in (good[:-1], good + b"x", good[:60] + bytes([good[60] ^ 1]) + good[61:],
                good[:12] + b"\7" + good[13:], b""):  # fmt: skip
        file.write_bytes(bad)
        check(net, library, cache=folder)
        [file] = folder.iterdir()
        assert file.read_bytes()[:48] == good[:48] or len(file.read_bytes()) >= 48


def test_cache_that_cannot_be_written(net: Made, library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "a" / "b" / "c", Path("/dev/full")):
        check(net, library, cache=folder)


@PATHS
def test_state_is_kept_and_reset(tmp_path: Path, library: Path, staged: bool) -> None:
    model = tmp_path / "svdf.tflite"
    model.write_bytes(svdf())
    inputs = [np.random.default_rng(n).standard_normal((1, 3)).astype("f4") for n in range(3)]
    with vknn.Session(model, device="vulkan") as session:
        wanted = [session.run({"x": x})["y"] for x in inputs]
        limits = session.device.limits
    assert not np.array_equal(wanted[0], wanted[1])
    vknn.export(model, tmp_path / "svdf.vkb", targets=limits)
    with Runner(tmp_path / "svdf.vkb", library=library, staged=staged) as runner:
        for _ in range(2):
            for x, y in zip(inputs, wanted, strict=True):
                np.testing.assert_array_equal(runner.run({"x": x})["y"], y)
            runner.reset()
        assert runner.test()[0]  # from the first value on
        np.testing.assert_array_equal(runner.run({"x": inputs[0]})["y"], wanted[0])


def test_example(net: Made, tmp_path: Path, library: Path) -> None:
    with Runner(net.path, library=library) as runner:
        good, told = runner.test()
    assert good, told
    assert "0 of 5 elements are off" in told

    raw = net.path.read_bytes()
    output = records(raw, "port")["buffer"][-1]

    def filled(steps: np.ndarray) -> None:
        last = np.flatnonzero(steps["kind"] == StepKind.DISPATCH)[-1]
        steps["kind"][last], steps["target"][last] = StepKind.FILL, output
        steps["word"][last] = 0x3F800000

    wrong = edited(net.path, tmp_path / "wrong.vkb", "step", filled)
    with Runner(wrong, library=library) as runner:
        good, told = runner.test()
    assert not good
    assert "5 of 5 elements are off" in told


def test_example_without_answers(net: Made, tmp_path: Path, library: Path) -> None:
    def only_input(examples: np.ndarray) -> None:
        examples[:] = examples[0]

    path = edited(net.path, tmp_path / "x.vkb", "example", only_input)
    with (
        Runner(path, library=library) as runner,
        pytest.raises(InputError, match="no example with"),
    ):
        runner.test()


def test_outputs_without_answers_are_named(tmp_path: Path, library: Path) -> None:
    model = tmp_path / "two.param"
    model.write_text("7767517\n3 4\nInput x 0 1 x\nSplit s 1 2 x a b\nReLU relu 1 1 b y\n")
    vknn.export(model, tmp_path / "two.vkb", shapes={"x": (2, 3, 5)})

    def first_answer_twice(examples: np.ndarray) -> None:
        examples[-1] = examples[-2]

    path = edited(tmp_path / "two.vkb", tmp_path / "one.vkb", "example", first_answer_twice)
    for bundle, counts in ((tmp_path / "two.vkb", 0), (path, 1)):
        with Runner(bundle, library=library) as runner:
            good, told = runner.test()
        assert good
        assert told.count("not compared, the example has no answer for it") == counts


class Own(ctypes.Structure):
    """vknn_context_options."""

    _fields_ = (
        ("device", ctypes.c_char_p), ("cache", ctypes.c_char_p), ("threads", ctypes.c_uint),
        ("robust", ctypes.c_int), ("allocate", ctypes.c_void_p), ("log", ctypes.c_void_p),
        ("user", ctypes.c_void_p), ("instance", ctypes.c_void_p), ("physical", ctypes.c_void_p),
        ("logical", ctypes.c_void_p), ("queue", ctypes.c_void_p), ("family", ctypes.c_uint32),
        ("features", ctypes.c_uint64), ("get", ctypes.c_void_p), ("lock", ctypes.c_void_p),
    )  # fmt: skip


def test_vulkan_of_the_app(net: Made, library: Path) -> None:
    """On the instance, device and queue of vknn's own runtime, which go on behind it."""
    from vknn.runtime import open_device
    from vknn.runtime.vulkan.vulkan_api import ffi

    lib = ctypes.CDLL(str(library))
    why, context, opened = ctypes.create_string_buffer(1024), ctypes.c_void_p(), ctypes.c_void_p()
    with open_device() as device:
        core = device.shared.core
        handles = [core.instance.handle, core.physical, core.device, core.queue]
        own = Own(family=core.family, features=0)
        for name, handle in zip(("instance", "physical", "logical", "queue"), handles, strict=True):
            setattr(own, name, int(ffi.cast("uintptr_t", handle)))
        assert lib.vknn_context_create(ctypes.byref(own), ctypes.byref(context), why) == 0, (
            why.value
        )
        path = os.fsencode(net.path)
        code = lib.vknn_net_open_file(context, path, None, ctypes.byref(opened), why)
        assert code == 0, why.value
        [(name, data)], [(out, array)] = net.feeds.items(), net.expected.items()
        raw = data.tobytes()
        assert lib.vknn_set(opened, name.encode(), raw, ctypes.c_size_t(len(raw))) == 0
        assert lib.vknn_run(opened) == 0
        found = np.empty_like(array)
        target = found.ctypes.data_as(ctypes.c_void_p)
        assert lib.vknn_get(opened, out.encode(), target, ctypes.c_size_t(found.nbytes)) == 0
        np.testing.assert_array_equal(found, array)
        lib.vknn_net_close(opened)
        lib.vknn_context_destroy(context)
        with vknn.Session(net.path.with_suffix(".param"), device=device) as session:
            np.testing.assert_array_equal(session.run(net.feeds)[out], array)
    own.queue = None
    assert lib.vknn_context_create(ctypes.byref(own), ctypes.byref(context), why) == 4
    assert b"give all of them or none" in why.value
