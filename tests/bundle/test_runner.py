"""The runner on the device here: the same bits as vknn's own runtime, whichever way memory goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import without_barriers
from tests.bundle.networks import MODELS, PATHS, Made, check, made, small
from tests.helpers import skip_without_half

from vknn.formats.ncnn.random_weights import write_random_weights

pytestmark = pytest.mark.device

ROOT = build.ROOT
SWIFTSHADER = ROOT / ".cache" / "swiftshader" / "vk_swiftshader_icd.json"


@pytest.fixture(scope="module")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


@PATHS
def test_bits_are_those_of_vknn(net: Made, library: Path, staged: bool) -> None:
    check(net, library, staged=staged)


@PATHS
@pytest.mark.parametrize("arithmetic", ["fp32", "fp16"])
def test_fp16(tmp_path: Path, library: Path, staged: bool, arithmetic: str) -> None:
    skip_without_half()
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
        ("ncnn/RFB-320.param", {"input": (3, 240, 320)}),
        ("onnx/mnist_cntk.onnx", {}),
        ("onnx/openseeface_lm0.onnx", {"input": (1, 3, 224, 224)}),
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
        capture_output=True, text=True, check=False,
        timeout=120 + 3 * options.get("time_limit", 0),  # it runs three times
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


def silent_child(case: Made, library: Path, **options: Any) -> None:
    """Asserts that validation has nothing to say of a case."""
    told = child(case, library, VALIDATION, **options)
    assert "VUID" not in told
    assert "SYNC" not in told
    assert "Validation" not in told


@PATHS
def test_validation_is_silent(net: Made, library: Path, staged: bool) -> None:
    silent_child(net, library, staged=staged)


def test_validation_is_listened_to(net: Made, tmp_path: Path, library: Path) -> None:
    """A bundle without barriers is told of."""
    bad = Made(without_barriers(net.path, tmp_path / "bad.vkb"), net.feeds, net.expected)
    told = child(bad, library, VALIDATION, bits=False)
    assert "SYNC-HAZARD" in told


def test_robust(net: Made, library: Path) -> None:
    check(net, library, robust=True)


def test_bytes_in_memory(net: Made, library: Path) -> None:
    check(Made(net.path.read_bytes(), net.feeds, net.expected), library)  # type: ignore[arg-type]
