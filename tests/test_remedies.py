"""Error messages tell the truth about what helps: each remedy is applied and the call succeeds."""

from __future__ import annotations

import re
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, model, session
from tests.remedies import pattern, remedies
from tests.tflite_writer import Net

import vknn
from small_model import SHAPE, write_small_model
from vknn import environment, tool_inputs
from vknn.cli import devices, info, main
from vknn.cli.main import COMMANDS
from vknn.formats import load
from vknn.graph import GraphBuilder, TensorType
from vknn.ops.indexing.topk import TopK
from vknn.precision import ARITHMETICS, PRECISIONS, usable_arithmetic, usable_precision
from vknn.profiling import bench, peer, profile
from vknn.runtime import open_device, tuning_database
from vknn.runtime.device_selection import choose, is_host
from vknn.runtime.snapshot import Snapshot
from vknn.runtime.spirv import modules, shaderc
from vknn.runtime.vulkan import instance, vk_result, vulkan_api
from vknn.runtime.vulkan.instance import Instance
from vknn.training import coreml_targets

ROOT = Path(__file__).resolve().parents[1]


class Place:
    """Where a case runs: a folder with a small model, and what changes the surroundings."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        self.model = write_small_model(folder)
        self.feeds = {"data": np.ones(SHAPE, np.float32)}

    def command(self, *argv: object) -> str:
        """What a command prints; its error message is raised."""
        code = main([str(a) for a in argv])
        out, err = self.capsys.readouterr()
        if code:
            raise vknn.VknnError(err)
        return out

    def run(self, **options: Any) -> dict[str, Any]:
        """Runs the model in a session of its own."""
        with vknn.Session(self.model, **options) as opened:
            return opened.run(self.feeds)

    def set(self, owner: Any, **values: Any) -> None:
        """Replaces attributes until the call is over."""
        for name, value in values.items():
            self.monkeypatch.setattr(owner, name, value)


@dataclass(frozen=True)
class Case:
    """An error's text, a call that ends in it, and the call as the message advises it.

    ``needs``: the marker of what the machine must have.
    """

    text: str
    fails: Callable[[Place], object]
    helps: Callable[[Place], object]
    error: type[Exception] = vknn.VknnError
    needs: str = ""


def stub(*features: str) -> Any:
    """As much of a device as decides about precisions."""
    return SimpleNamespace(name="stub", limits=SimpleNamespace(features=frozenset(features)))


def core_ml(place: Place, kind: str = "net.mlmodel") -> Path:
    made = model([layer("softmax", "x", "y")], {"x": (4,)})
    path = place.folder / kind
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return path


def tflite(place: Place) -> Path:
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (1, 4))], [net.tensor("y", (1, 4))]
    net.add("RELU", net.inputs, net.outputs)
    path = place.folder / "net.tflite"
    path.write_bytes(net.file())
    return path


def shaped(place: Place) -> Path:
    """A network whose input may have any shape."""
    path = place.folder / "shaped.param"
    path.write_text("7767517\n2 2\nInput data 0 1 data\nReLU r 1 1 data y\n")
    return path


def custom_session(_: Place) -> None:
    made = layer("custom", "x", "y", name="mine", className="Remedied")
    with session(model([made], {"x": (4,)})) as opened:
        opened.run({"x": np.ones(4, np.float32)})


def registered(call: Callable[[], object], format: str = "coreml", **options: Any) -> None:
    """Registers a layer of the name Remedied, makes the call and forgets the layer."""
    given = {"shape": lambda s, o: s[0], "compute": lambda a, w, o: a[0]}
    vknn.register_layer(format, "Remedied", **given, **options)
    try:
        call()
    finally:
        vknn.unregister_layer(format, "Remedied")


def register_again(**options: Any) -> None:
    registered(lambda: registered(lambda: None, **options))


def without(module: str) -> Callable[[Place], None]:
    """Makes imports of a module fail."""
    return lambda place: place.monkeypatch.setitem(sys.modules, module, None)


def picture(place: Place) -> str:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (8, 8)).save(place.folder / "cat.png")
    return place.command("run", place.model, "--input", place.folder / "cat.png", *HOST)


def bare_picture(place: Place) -> None:
    (place.folder / "cat.png").write_bytes(b"picture")
    without("PIL")(place)
    place.command("run", place.model, "--input", place.folder / "cat.png", *HOST)


def ncnn_peer(place: Place) -> None:
    pytest.importorskip("ncnn")
    peer._import()


def crash(place: Place) -> str:
    def broken(_: object) -> None:
        raise RuntimeError("broken")

    place.set(info, run=broken)
    return place.command("info", place.model)


def crash_with_a_trace(place: Place) -> None:
    place.monkeypatch.setenv("VKNN_DEBUG", "1")
    with pytest.raises(vknn.VknnError, match=r"(?s)Traceback .*in broken.*RuntimeError: broken"):
        crash(place)


def two_outputs(add: str) -> Callable[[Place], object]:
    def build(_: Place) -> None:
        builder = GraphBuilder()
        getattr(builder, add)(TopK(axis=0, k=2), builder.input("x", TensorType((4,))))

    return build


def no_compiler(place: Place) -> None:
    place.set(shaderc, _LIBRARIES=())
    place.set(shutil, which=lambda _: None)
    shaderc.compiler.cache_clear()
    modules.compile_glsl(GLSL)


def with_compiler(_: Place) -> None:
    shaderc.compiler.cache_clear()
    assert modules.compile_glsl(GLSL)


def closed_device(_: Place) -> None:
    device = open_device()
    device.close()
    _ = device.shared


def opened_device(_: Place) -> None:
    with open_device() as device:
        assert device.shared


def instance_without_layer(validate: int) -> Callable[[Place], None]:
    def made(place: Place) -> None:
        place.set(instance, _layers=set)
        Instance(validate).destroy()

    return made


def profiled(place: Place) -> None:
    profile(place.model, place.feeds, device="vulkan", runs=1, warmup=0)


def profiled_without_timestamps(place: Place) -> None:
    place.monkeypatch.setenv("VKNN_DISABLE", "timestamps")
    profiled(place)


def damaged_database(place: Place) -> Path:
    path = place.folder / "tuning.json"
    path.write_text("damaged")
    tuning_database.load(path)
    return path


def repaired_database(place: Place) -> None:
    """What ``vknn tune`` does with its results."""
    path = place.folder / "tuning.json"
    path.write_text("damaged")
    tuning_database.store(path, ENTRIES)
    assert tuning_database.load(path) == ENTRIES


def kept(folder: str) -> Callable[[Place], None]:
    def store(place: Place) -> None:
        (place.folder / "file").write_text("no folder")
        place.monkeypatch.setenv("VKNN_CACHE_DIR", str(place.folder / folder))
        cache = environment.read().cache_path()
        tuning_database.store(tuning_database.database_file(cache, DEVICE), ENTRIES)

    return store


def made_up(**given: Any) -> Callable[[Place], object]:
    return lambda place: vknn.verify(shaped(place), **given, device="cpu")


def too_large(**given: Any) -> Callable[[Place], object]:
    def verified(place: Place) -> None:
        place.set(tool_inputs, MAX_RANDOM=100)
        vknn.verify(place.model, device="cpu", **given)

    return verified


def package(place: Place, suffix: str) -> Path:
    path = place.folder / f"net{suffix}"
    path.mkdir(exist_ok=True)
    return path


def inner_file(place: Place) -> Path:
    return core_ml(place, "net.mlpackage/Data/com.apple.CoreML/model.mlmodel")


def on_the_reference(place: Place) -> None:
    place.run(device="cpu")


def every_listed_name(place: Place) -> None:
    place.command("info", place.model, "--disable", ",".join(environment.PARTS))


def raised(error: Exception) -> Callable[[Place], None]:
    def fails(_: Place) -> None:
        raise error

    return fails


HOST = ("--device", "cpu")
GLSL = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"
DEVICE = Snapshot(0, "llvmpipe", "cpu", driver=13, driver_name="llvmpipe")
FORMATS = ("ncnn", "tflite", "coreml", "openvino")
ENTRIES = {"key": tuning_database.TuningEntry("gemm", 1.0, {"gemm": 1.0})}
LONE_ACTIVATION = {"data": np.ones((2, 3, 4), np.float32)}

CASES = [
    Case(
        "--random-weights is for ncnn .param and .param.bin files",
        lambda p: p.command("info", core_ml(p), "--random-weights"),
        lambda p: p.command("info", p.model, "--random-weights"),
    ),
    Case(
        "--disable: no part is called {}; known: {}",
        lambda p: p.command("info", p.model, "--disable", "fusing"),
        every_listed_name,
    ),
    Case(
        "{} is no shape: write it as 3,224,224",
        lambda p: p.command("verify", p.model, "--shape", "3,a", *HOST),
        lambda p: p.command("verify", p.model, "--shape", "3,9,9", *HOST),
    ),
    Case(
        "name a model file (or --device-limits)",
        lambda p: p.command("bench"),
        lambda p: p.command("bench", p.model, "--runs", 1, *HOST),
    ),
    Case(
        "--plan needs a Vulkan device to plan for",
        lambda p: p.command("info", p.model, "--plan", *HOST),
        lambda p: p.command("info", p.model, "--plan", "--device", "vulkan"),
        needs="device",
    ),
    Case(
        "there is no Vulkan device (Debian: apt install mesa-vulkan-drivers)",
        lambda p: (p.set(devices, list_devices=list), p.command("devices")),
        lambda p: (p.set(devices, list_devices=lambda: [DEVICE]), p.command("devices")),
    ),
    Case(
        "{} is read as a picture, which needs Pillow: pip install 'vknn[image]'",
        bare_picture,
        picture,
    ),
    Case("internal error: {} (VKNN_DEBUG=1 shows where)", crash, crash_with_a_trace),
    Case(
        "a Core ML model has no second file; {} is not needed",
        lambda p: load(core_ml(p), p.model),
        lambda p: load(core_ml(p)),
    ),
    Case(
        "a TensorFlow Lite model has no second file; {} is not needed",
        lambda p: load(tflite(p), p.model),
        lambda p: load(tflite(p)),
    ),
    Case(
        "{}: the custom layer {} is not registered",
        custom_session,
        lambda p: registered(lambda: custom_session(p)),
    ),
    Case(
        "register_layer: no format {}; known: {}",
        lambda p: registered(lambda: None, "onnx"),
        lambda p: [registered(lambda: None, format) for format in FORMATS],
        ValueError,
    ),
    Case(
        "{} layer {} is there already (replace=True takes its place)",
        lambda p: register_again(),
        lambda p: register_again(replace=True),
        ValueError,
    ),
    Case(
        "this is a Core ML package, a directory; vknn reads the single file of a neural network "
        "(.mlmodel), which may lie in it under Data/com.apple.CoreML",
        lambda p: load(package(p, ".mlpackage")),
        lambda p: load(inner_file(p)),
    ),
    Case(
        "this is a Core ML model compiled for Apple's systems; vknn reads what it was compiled "
        "from (.mlmodel)",
        lambda p: load(package(p, ".mlmodelc")),
        lambda p: load(core_ml(p)),
    ),
    Case(
        "{} has {} outputs: use add_many", two_outputs("add"), two_outputs("add_many"), ValueError
    ),
    Case(
        "runs={}: at least one run is needed",
        lambda p: profile(p.model, p.feeds, device="cpu", runs=0),
        lambda p: profile(p.model, p.feeds, device="cpu", runs=1, warmup=0),
    ),
    Case(
        "runs={}: at least one run is needed",
        lambda p: bench(p.model, p.feeds, device="cpu", runs=0),
        lambda p: bench(p.model, p.feeds, device="cpu", runs=1, warmup=0),
    ),
    Case(
        "the peer ncnn is not installed: pip install ncnn",
        lambda p: (without("ncnn")(p), peer._import()),
        ncnn_peer,
    ),
    Case(
        vulkan_api.NO_LOADER,
        lambda p: vulkan_api._Missing(OSError("no file")).vkCreateInstance,
        on_the_reference,
    ),
    Case(
        "no usable Vulkan device was found; install a driver (Debian: apt-get install "
        "mesa-vulkan-drivers), check VK_DRIVER_FILES, or use device='cpu'",
        lambda p: choose([]),
        on_the_reference,
    ),
    Case(
        "no Vulkan driver is installed (Debian: apt-get install mesa-vulkan-drivers) or "
        "VK_DRIVER_FILES names none; device='cpu' runs without one",
        raised(vk_result.result_error(-9, "creating the Vulkan instance")),
        on_the_reference,
    ),
    Case("the device {} was closed; open it again", closed_device, opened_device, needs="device"),
    Case(
        "VKNN_DISABLE names {}; known are {}",
        lambda p: environment.read({"VKNN_DISABLE": "fusing"}),
        lambda p: environment.read({"VKNN_DISABLE": ",".join(environment.PARTS)}),
    ),
    Case(
        "VKNN_TIMEOUT={}: expected a number of seconds above 0",
        lambda p: environment.read({"VKNN_TIMEOUT": "0"}),
        lambda p: environment.read({"VKNN_TIMEOUT": "0.5"}),
    ),
    Case(
        "VKNN_VALIDATE is set but there is no validation layer; install it "
        "(Debian: apt-get install vulkan-validationlayers) or unset VKNN_VALIDATE",
        instance_without_layer(1),
        instance_without_layer(environment.read({}).validate),
        needs="device",
    ),
    Case(
        "there is no device vulkan:{}; there are {}",
        lambda p: choose([DEVICE], "vulkan:7"),
        lambda p: choose([DEVICE], "vulkan:0"),
    ),
    Case(
        "no device matches {}; there are {}",
        lambda p: choose([DEVICE], "radeon"),
        lambda p: choose([DEVICE], "llvmpipe"),
    ),
    Case(
        "compiling GLSL needs shaderc, and neither a usable library libshaderc.so.1 nor the "
        "program glslc was found (Debian, Ubuntu: apt install glslc)",
        no_compiler,
        with_compiler,
        needs="glsl",
    ),
    Case(
        "{} has no timestamps (or VKNN_DISABLE names them): it cannot be profiled by dispatch",
        profiled_without_timestamps,
        profiled,
        needs="device",
    ),
    Case(
        "{} is damaged and is ignored ({}); `vknn tune` writes a new one",
        damaged_database,
        repaired_database,
        RuntimeWarning,
    ),
    Case(
        "tuning results cannot be kept: {}; VKNN_CACHE_DIR names another directory",
        kept("file"),
        kept("folder"),
    ),
    Case(
        "precision {} is not supported; use {}",
        lambda p: p.run(device="cpu", precision="fp8"),
        lambda p: [p.run(device="cpu", precision=each) for each in ("fp32", "fp16")],
    ),
    Case(
        "arithmetic {} is not supported; use {}",
        lambda p: p.run(device="cpu", precision="fp16", arithmetic="fp8"),
        lambda p: [
            p.run(device="cpu", precision="fp16", arithmetic=each) for each in ("fp32", "fp16")
        ],
    ),
    Case(
        "arithmetic='fp16' is for what is stored so: it needs precision='fp16'",
        lambda p: p.run(device="cpu", arithmetic="fp16"),
        lambda p: p.run(device="cpu", arithmetic="fp16", precision="fp16"),
    ),
    Case(
        "{} has no 16-bit storage (storageBuffer16BitAccess), which precision='fp16' needs; "
        "use precision='fp32' or another device",
        lambda p: usable_precision("fp16", stub(), frozenset()),
        lambda p: [
            usable_precision("fp32", stub(), frozenset()),
            usable_precision("fp16", stub("fp16_storage"), frozenset()),
        ],
    ),
    Case(
        "{} has no 16-bit arithmetic (shaderFloat16), which arithmetic='fp16' needs; "
        "use arithmetic='fp32' (precision='fp16' may stay) or another device",
        lambda p: usable_arithmetic("fp16", "fp16", stub("fp16_storage")),
        lambda p: [
            usable_arithmetic("fp32", "fp16", stub("fp16_storage")),
            usable_arithmetic("fp16", "fp16", stub("fp16_storage", "fp16_arithmetic")),
        ],
    ),
    Case(
        "the model leaves the shape of input {} open: give an array or a shape",
        made_up(),
        lambda p: [
            made_up(inputs=LONE_ACTIVATION)(p),
            made_up(shapes={"data": (2, 3, 4)})(p),
        ],
    ),
    Case(
        "input {} of shape {} is too large to make up: give it",
        too_large(),
        too_large(inputs={"data": np.ones(SHAPE, np.float32)}),
    ),
    Case(
        "{} is {}, but the model has no class labels: give an index",
        lambda p: coreml_targets._index("cat", "target"),
        lambda p: coreml_targets._index(3, "target"),
    ),
    Case(
        "set VKNN_DISABLE=texel",
        raised(vk_result.result_error(-11, "creating a view")),
        lambda p: environment.read({"VKNN_DISABLE": "texel"}),
    ),
]

#: Texts whose remedy other tests apply.
ELSEWHERE = {
    "--device-limits measures the device: it takes no model": (
        "profiling/test_limits.py::test_command_line"
    ),
    "--device-limits needs a Vulkan device": "profiling/test_limits.py::test_command_line",
    "no peer is called {}; known: {}": (
        "profiling/test_bench.py::test_a_peer_runs_in_turn_and_agrees"
    ),
    "{} did not finish within {} s on {}; raise VKNN_TIMEOUT (seconds) or use smaller inputs": (
        "runtime/test_executor.py::test_timeout_and_recovery"
    ),
    "the shader of layer {}: {}; or register the layer without a shader": (
        "formats/test_custom.py::test_without_a_compiler"
    ),
    vk_result.LOST_REMEDY: "runtime/test_device.py::test_lost_device",
    vk_result.MEMORY_REMEDY: "runtime/test_device.py::test_memory_exhausted_while_building",
    "close sessions that are not needed": (
        "runtime/test_device.py::test_memory_exhausted_while_building"
    ),
    "raise VKNN_TIMEOUT (seconds)": "runtime/test_executor.py::test_timeout_and_recovery",
    "{}: shader {} is {}; reinstall vknn": "runtime/test_shaders.py::test_stale_spirv_is_refused",
    "{}: {} is damaged; reinstall vknn": (
        "runtime/test_shaders.py::test_a_damaged_archive_is_refused"
    ),
    "{}: the compiled shaders are missing or damaged ({}); reinstall vknn": (
        "runtime/test_shaders.py::test_a_missing_archive_is_refused"
    ),
    "{}: {}; reinstall vknn": "runtime/test_shaders.py::test_a_missing_module_is_refused",
    "runs={}, timeout={}: both must be above 0": (
        "tuning/test_tune.py::test_a_network_is_tuned_and_sessions_use_it"
    ),
    "NumPy has no kernels to choose from: tuning needs a Vulkan device": (
        "tuning/test_tune.py::test_a_network_is_tuned_and_sessions_use_it"
    ),
}

#: Texts that no call can follow, or that give no advice, and why.
EXEMPT = {
    "report this as a bug of vknn": "nothing to run",
    "check the driver with `vulkaninfo`": "a program of the Vulkan tools, which vknn lacks",
    "update the Vulkan driver": "another driver",
    "install the validation layer (Debian: vulkan-validationlayers) or unset VKNN_VALIDATE": (
        "as VKNN_VALIDATE is set but there is no validation layer"
    ),
    "fp16 is disabled: precision='fp16' becomes 'fp32'": "tells what was done",
    "--layers: there is no file {}": "tells which option is wrong",
    "--layers {}: {}: {}": "tells which option is wrong",
    "sizes must be above 0": "tells what is wrong with a file",
    "--target-env=vulkan1.1 -O0": "options of glslc",
    "set layout": "the name of a Vulkan object",
    "choices that `vknn tune` measured (kernels are chosen by estimate)": "documentation",
    "`VKNN_DISABLE` takes these names:": "documentation",
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.text[:40], marks=[getattr(pytest.mark, c.needs)] if c.needs else [])
        for c in CASES
    ],
)
def test_the_remedy_helps(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def called(step: Callable[[Place], object]) -> None:
        try:
            with pytest.MonkeyPatch.context() as monkeypatch:
                step(Place(tmp_path, monkeypatch, capsys))
        finally:
            shaderc.compiler.cache_clear()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(case.error, match=pattern(case.text)):
            called(case.fails)
        called(case.helps)


def test_every_remedy_is_tested() -> None:
    """A new one joins the cases, or the exemptions with its reason; one that is gone leaves."""
    listed = [c.text for c in CASES] + [*ELSEWHERE, *EXEMPT]
    assert set(remedies()) - set(listed) == set(), "remedies without a test"
    assert set(listed) - set(remedies()) == set(), "no message has this text any more"
    assert not {c.text for c in CASES} & (ELSEWHERE.keys() | EXEMPT.keys())
    assert not ELSEWHERE.keys() & EXEMPT.keys()


@pytest.mark.parametrize("test", sorted(set(ELSEWHERE.values())))
def test_the_other_tests_are_there(test: str) -> None:
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")


def test_what_remedies_name_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages, extras, commands, options, switches and values, in whatever text."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import prepare

    for check in ("has_loader", "has_driver", "has_layer"):
        monkeypatch.setattr(prepare, check, lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    packages = set(prepare.missing_packages(testing=True))
    extras = extras_of_the_project()
    switches = {switch.name for switch in environment.SWITCHES}
    for text in remedies():
        for names in re.findall(r"\(Debian[^:]*: (?:apt(?:-get)? install )?([\w -]+)\)", text):
            assert set(names.split()) <= packages, text
        for name in re.findall(r"pip install '?([\w\[\]]+)", text):
            inner = re.fullmatch(r"vknn\[(\w+)\]", name)
            assert inner[1] in extras if inner else any(name in e for e in extras.values()), text
        assert set(re.findall(r"VKNN_[A-Z_]+", text)) <= switches, text
        for name in re.findall(r"VKNN_DISABLE=(\w+)", text):
            assert name in environment.PARTS
        for name in re.findall(r"device='([^']+)'", text):
            assert is_host(name), text
        assert set(re.findall(r"precision='(\w+)'", text)) <= set(PRECISIONS), text
        assert set(re.findall(r"arithmetic='(\w+)'", text)) <= set(ARITHMETICS), text
        assert set(re.findall(r"`vknn (\w+)", text)) <= COMMANDS.keys(), text


def extras_of_the_project() -> dict[str, str]:
    """Extras of pyproject.toml -> the packages in them, as text (Python 3.10 reads no TOML)."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    part = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    return dict(re.findall(r"^(\w+) = \[(.*?)\]$", part, re.MULTILINE | re.DOTALL))


def test_options_that_messages_name_exist(capsys: pytest.CaptureFixture[str]) -> None:
    offered = ""
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        offered += capsys.readouterr().out
    for text in remedies().keys() - EXEMPT.keys():
        for option in re.findall(r"(?<![\w-])--[a-z-]+", text):
            assert re.search(rf"{option}\b", offered), text
