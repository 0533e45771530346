"""The tests of single layers that coremltools brings along, with vknn in the place of Core ML.

They build each model with coremltools and compare with NumPy or PyTorch. Installed with the extra
`test`; what needs TensorFlow, too, is skipped without it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import session
from tests.helpers import shared_device

MODULE = "coremltools.test.neural_network.test_numpy_nn_layers"
LEFT_OUT = {
    "test_slice_dynamic_cpu": "squeezes an axis to the first element that a begin mask leaves; the "
    "format says to the begin, whatever the mask (test_slice.py), and coremltools xfails it",
    "test_topk_cpu": "takes the order of equal numbers from an unstable sort",
    "test_random_normal_like_cpu": "draws a hundred million numbers",
    "test_conv3d_cpu_slow": "takes longer than a test may",
    "test_dyn_weight_conv2d_stress": "has batches of 512 MiB, more than many devices bind",
    "test_static_weight_conv2d_stress": "has batches of 512 MiB, more than many devices bind",
}


def _methods() -> list[tuple[str, str]]:
    """Classes and their tests, read from the source: importing it takes long."""
    package = importlib.util.find_spec("coremltools")
    if package is None or package.origin is None:
        return []
    source = Path(package.origin).parent.joinpath(*MODULE.split(".")[1:]).with_suffix(".py")
    if not source.is_file():
        return []
    return [
        (outer.name, inner.name)
        for outer in ast.parse(source.read_text()).body
        if isinstance(outer, ast.ClassDef)
        for inner in outer.body
        # Those "on the GPU" are the same once more.
        if isinstance(inner, ast.FunctionDef)
        and inner.name.startswith("test_")
        and "_gpu" not in inner.name.lower()
    ]


@pytest.fixture(scope="module")
def layer_tests() -> ModuleType:
    """The module with the tests, which asks when it is imported whether this is a Mac."""
    utils = pytest.importorskip("coremltools.models.utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "_is_macos", lambda: True)
        patch.setattr(utils, "_macos_version", lambda: (15, 0))
        return importlib.import_module(MODULE)


class _Model:
    """As much of coremltools.models.MLModel as the tests use."""

    backend = "numpy"

    def __init__(self, given: Any, **_: Any) -> None:
        import coremltools

        if isinstance(given, _Model):
            given = given.spec
        self.spec = coremltools.utils.load_spec(given) if isinstance(given, str) else given

    def get_spec(self) -> Any:
        return self.spec

    def predict(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        device = "numpy" if self.backend == "numpy" else shared_device()
        with session(self.spec, device) as s:
            found = s.run(data)
            if self.backend == "vulkan":
                assert set(s.placement.values()) <= {"vulkan"}, s.placement
        return found


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), _methods())
def test_layer(
    layer_tests: ModuleType, backend: str, group: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])
    models = layer_tests.coremltools.models
    monkeypatch.setattr(models, "MLModel", _Model)
    monkeypatch.setattr(_Model, "backend", backend)
    # What Apple's runtime fails in is no reason for vknn to: an xfail within a test is none here.
    monkeypatch.setattr(layer_tests.pytest, "xfail", lambda reason="": None)
    np.random.seed(7)  # noqa: NPY002 (what these tests draw from)
    random.seed(7)
    getattr(getattr(layer_tests, group)(name), name)()
