"""The C runner gives vknn's bits: benchmark networks, real models, every kernel's cases.

On the device that the tests have: `tools/test --driver swiftshader` takes SwiftShader.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.networks import Made, answers, input_of
from tests.bundle.op_bundles import variants, write_variant
from tests.bundle.test_ports_models import LATER, SUFFIXES, feeds_of
from tests.bundle.test_runner import silent_child
from tests.helpers import shared_device, skip_without_half
from tests.null_devices.gpu_cases import FAMILIES
from tests.peers.ncnn.networks import NETWORKS, write_network

import vknn
from vknn.bundle.runner import Runner
from vknn.lowering import LoweringOptions
from vknn.runtime import Executable

pytestmark = [pytest.mark.device, pytest.mark.slow, pytest.mark.timeout(3000)]

#: precision, arithmetic.
MODES = {"fp32": ("fp32", "fp32"), "fp16": ("fp16", "fp32"), "arithmetic": ("fp16", "fp16")}
#: Of a run: slow drivers on busy machines.
SECONDS = 600
BY_MODE = pytest.mark.parametrize("mode", MODES)
#: Chains are for GPUs.
OF_GPUS = {"chains"}


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


def options_of(mode: str) -> dict[str, str]:
    precision, arithmetic = MODES[mode]
    if precision == "fp16":
        skip_without_half()
    return {"precision": precision, "arithmetic": arithmetic}


def session_made(folder: Path, path: Path, feeds: Any, options: Mapping[str, str]) -> list[Made]:
    """A model's bundle, with vknn's answers to an input that is given twice."""
    with vknn.Session(path, device=shared_device(), **options) as session:
        feeds = feeds_of(session, path) if feeds is None else feeds
        bundle = folder / f"{path.stem}.vkb"
        fixed = {name: feeds[name] for name in session.model.value_inputs}
        shapes = {name: np.shape(array) for name, array in feeds.items() if name not in fixed}
        vknn.export(
            path, bundle, shapes=shapes, fixed=fixed, targets=session.device.limits, example=False,
            **options,
        )  # fmt: skip
        return [Made(bundle, feeds, arrays(session.run(feeds))) for _ in range(2)]


def arrays(results: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Results as a runner has them: scores by label are an array, and it names no label."""
    return {
        name: np.array([*v.values()], np.float32) if isinstance(v, Mapping) else np.asarray(v)
        for name, v in results.items()
        if not isinstance(v, str | int)
    }


def check_twice(runs: list[Made], library: Path) -> None:
    """Asserts that the runner gives the bits of both runs, in place and staged."""
    with Runner(runs[0].path, library=library) as first:
        for staged in (False, True):
            with Runner(runs[0].path, beside=first, staged=staged, time_limit=SECONDS) as runner:
                for run in runs:
                    found = answers(runner, run)
                    for name, array in run.expected.items():
                        assert found[name].dtype == array.dtype, (runs[0].path.name, name)
                        assert found[name].tobytes() == array.tobytes(), (runs[0].path.name, name)


@BY_MODE
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(shared: Path, tmp_path: Path, library: Path, name: str, mode: str) -> None:
    options = options_of(mode)
    path = write_network(shared, name, tmp_path)
    image = np.random.default_rng(7).random(NETWORKS[name]).astype(np.float32)
    feeds = {input_of(path): image}
    runs = session_made(tmp_path, path, feeds, options)
    check_twice(runs, library)
    if mode == "fp32":
        for staged in (False, True):
            silent_child(runs[0], library, staged=staged, time_limit=SECONDS)


@BY_MODE
@pytest.mark.parametrize("format_", ["coreml", "ncnn", "onnx", "openvino", "tflite"])
def test_models(shared: Path, tmp_path: Path, library: Path, format_: str, mode: str) -> None:
    options = options_of(mode)
    paths = [p for p in sorted((shared / "models" / format_).iterdir()) if p.suffix in SUFFIXES]
    assert len(paths) > 4
    for path in paths:
        if path.name not in LATER:
            check_twice(session_made(tmp_path, path, None, options), library)


@BY_MODE
@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - OF_GPUS))
def test_operators(tmp_path: Path, library: Path, family: str, mode: str) -> None:
    """Every case of a family of kernels by every candidate."""
    precision, arithmetic = options_of(mode).values()
    options = LoweringOptions(precision=precision, arithmetic=arithmetic)
    device, path, seen = shared_device(), tmp_path / "op.vkb", 0
    for variant in variants([*FAMILIES[family]()], device.limits, options):
        write_variant(path, variant, device.limits, precision)
        with Executable(device, variant.plan) as executable:
            expected = executable.run(variant.feeds)
        with Runner(path, library=library) as first:
            for staged in (False, True):
                with Runner(path, beside=first, staged=staged, time_limit=SECONDS) as runner:
                    found = runner.run(variant.feeds)
                assert list(found) == list(expected)
                for name, array in expected.items():
                    assert found[name].tobytes() == array.tobytes(), (variant.name, name)
        seen += 1
    assert seen > (2 if family == "others" and precision == "fp16" else 15)  # most have integers
