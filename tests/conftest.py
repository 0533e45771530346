"""What holds for the whole suite: the validation layer, caches of its own, the ``shared`` data."""

from __future__ import annotations

import gc
import itertools
import math
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from tests import needs

# The Vulkan loader reads its environment when the first instance is made, so this comes before any
# import of vknn: every test runs with the validation layer, and any of its messages is an error.
os.environ.setdefault("VKNN_VALIDATE", "1")
for _switch in ("VKNN_DEVICE", "VKNN_DEBUG", "VKNN_DISABLE"):
    os.environ.pop(_switch, None)

if os.environ.get(needs.BARE) == "1":
    needs.hide()

ROOT = Path(__file__).resolve().parents[1]

#: Files whose tests get the marker ``device``: an operator's tests run it on the device.
DEVICE_FILES = ("ops/*test_*.py", "runtime/test_executor.py")
#: Those among them that need none.
HOST_FILES = (
    "ops/*/test_*_reference.py",
    "ops/detection/test_heap.py",
    "ops/detection/test_order.py",
    "ops/text/test_text.py",
)

#: Files with many cases that differ in little on a device: there this share of each test's runs
#: without --slow, the first one among them. NumPy runs them all. The share is the greater part of
#: the golden section, whose multiples keep step with no parameter that comes again.
SAMPLED_FILES = (
    "formats/onnx/attention/*.py",
    "formats/onnx/test_hostile.py",
    "formats/openvino/test_tensor_iterator.py",
    "formats/tflite/stablehlo/*.py",
    "ops/*.py",
    "peers/*/*.py",
)
SAMPLED = (5**0.5 - 1) / 2

#: Files with thousands of pipelines: the validation layer takes four fifths of their time for
#: specializing modules, so they are given to it specialized (tests/frozen.py), but for a sample.
FROZEN_FILES = ("formats/*.py", "lowering/*.py", "ops/*.py", "peers/*/*.py")

# Child processes of tests import the same vknn as the tests.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files none of whose tests are wanted: each needs a device, or has another marker.

    Collecting them would take as long as many of the tests that are wanted.
    """
    unwanted = re.fullmatch(r"not \((device\b.*)\)", config.option.markexpr or "")
    if unwanted is None or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    whole = re.search(r"^pytestmark = pytest\.mark\.(\w+)$", text, re.MULTILINE)
    if whole is not None and whole[1] in unwanted[1].split(" or "):
        return True
    by_folder = _by_folder(collection_path.relative_to(ROOT / "tests"))
    return True if by_folder and "mark.host" not in text else None


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tests, which stay to the end, are left out of garbage collections: 0.2 to 0.7 s of each."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="slow; runs with --slow")
    sampled: Counter[str] = Counter()
    for item in items:
        if _by_folder(item.path.relative_to(ROOT / "tests")) and "host" not in item.keywords:
            item.add_marker("device")
        if _is_sampled(item):
            name = item.nodeid.partition("[")[0]
            before = math.ceil(sampled[name] * SAMPLED)
            sampled[name] += 1
            if math.ceil(sampled[name] * SAMPLED) == before:
                item.add_marker("slow")
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(skip)


def _is_sampled(item: pytest.Item) -> bool:
    """Whether an item is a case on the device of a file that is sampled."""
    path = item.path.relative_to(ROOT / "tests").as_posix()
    if not any(fnmatch(path, pattern) for pattern in SAMPLED_FILES) or "slow" in item.keywords:
        return False
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    names = [value for value in parameters.values() if isinstance(value, str)]
    return "vulkan" in names or (path.startswith("ops/") and "device" in item.keywords)


def _by_folder(path: Path) -> bool:
    """Whether the tests of a file (relative to tests/) need a device unless marked ``host``."""
    on_host = any(fnmatch(path.as_posix(), pattern) for pattern in HOST_FILES)
    return not on_host and any(fnmatch(path.as_posix(), pattern) for pattern in DEVICE_FILES)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what this machine cannot run; fails it where the machine was prepared for it."""
    for marker, missing in needs.NEEDS.items():
        if item.get_closest_marker(marker) is not None and (reason := missing()) is not None:
            needs.refuse(reason)


def pytest_report_header() -> str:
    """The device of the tests."""
    reason = needs.missing_device()
    if reason is not None:
        return f"vulkan: no tests on a device: {reason}"
    from vknn.runtime import devices

    return f"vulkan: {', '.join(device.name for device in devices())}"


@pytest.fixture
def nothing_forgotten() -> None:
    """What tests before dropped unclosed is closed: counts of what is alive begin behind that."""
    from vknn.runtime.vulkan.lifetime import sweep

    gc.collect()
    sweep()


@pytest.fixture(scope="session")
def cache_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that nothing has used; most are never made, as most tests keep nothing."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_cache(cache_names: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees pipelines or tuning results that another one, or the user, left behind."""
    monkeypatch.setenv("VKNN_CACHE_DIR", str(next(cache_names)))


@pytest.fixture(autouse=True)
def _frozen_modules(request: pytest.FixtureRequest) -> Iterator[None]:
    """Most tests with many pipelines have modules without specialization constants."""
    path = request.path.relative_to(ROOT / "tests").as_posix()
    many = any(fnmatch(path, name) for name in FROZEN_FILES)
    with ExitStack() as undo:
        if many and needs.missing_device() is None and not _is_kept(request.node.nodeid):
            from tests import frozen

            undo.enter_context(frozen.instead())
        yield


def _is_kept(test: str) -> bool:
    """Whether the driver specializes a test's modules, as it does of an eighth."""
    return zlib.crc32(test.encode()) % 8 == 0


@pytest.fixture(autouse=True, scope="session")
def _auto_is_the_reference_without_a_device() -> Iterator[None]:
    """Chosen so, the reference comes without the warning that some one test would meet first."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if needs.missing_device() is not None:
            monkeypatch.setenv("VKNN_DEVICE", "cpu")
        yield


@pytest.fixture(autouse=True, scope="session")
def _every_plan_is_checked() -> Iterator[None]:
    """Whatever a test plans: no two live buffers overlap and every hazard has a barrier."""
    from vknn.lowering import check_plan, lower

    module = sys.modules[lower.__module__]
    assemble = module.assemble

    def checked(*arguments: Any) -> Any:
        plan = assemble(*arguments)
        check_plan(plan, arguments[4])
        return plan

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "assemble", checked)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Test data that lies beside the project: real models, vectors, pictures."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip(f"needs the test data in {path}")
    return path
