"""The benchmark networks with random weights against ncnn, and real models against records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.networks import NETWORKS, network_input, real_models, write_network
from tests.peers.ncnn.peer import TOLERANCE, assert_close, run_ncnn, run_vknn

from vknn import formats

#: Hundreds of megabytes of weights.
SLOW = ("vision_transformer",)
REAL = (
    "PP_OCRv5_mobile_det.ncnn",
    "RFB-320",
    "nanodet_m",
    "squeezenet_v1.1",
    "waifu2x_upconv_7_photo_scale2.0x",
)


#: Models that end in a sigmoid. Its slope makes of differences within the tolerance larger ones
#: (ncnn's own two paths differ by 1.1e-4 behind it), so what goes into it is compared.
PROBABILITIES = ("PP_OCRv5_mobile_det.ncnn",)


@pytest.fixture(scope="module")
def written(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, np.ndarray, dict[str, np.ndarray]]]:
    """A network on disk, its input and ncnn's outputs; shared by both backends."""
    name = request.param
    path = write_network(shared, name, tmp_path_factory.mktemp(name))
    model = formats.load(path)
    (spec,) = model.inputs
    x = network_input(name)
    yield path, x, run_ncnn(path, {spec.name: x}, [s.name for s in model.outputs])
    path.with_suffix(".bin").unlink()


@pytest.mark.parametrize(
    "written",
    [pytest.param(n, marks=pytest.mark.slow if n in SLOW else []) for n in NETWORKS],
    indirect=True,
)
def test_network(written: tuple[Path, np.ndarray, dict[str, np.ndarray]], backend: str) -> None:
    path, x, expected = written
    (spec,) = formats.load(path).inputs
    actual = run_vknn(path, {spec.name: x}, backend)
    assert set(actual) == set(expected)
    assert all(np.isfinite(a).all() for a in expected.values()), "the random weights overflow"
    assert any(np.ptp(a) > 1e-6 for a in expected.values()), "the random weights vanish"
    for name, array in expected.items():
        if path.stem == "yolov4-tiny" and name == "output":
            assert_same_rows(actual[name], array)
        elif path.stem == "vision_transformer" and name == "output":
            # Softmax over an axis of size 1: a digit of the last place is no range to compare with.
            for found in (actual[name], array):
                np.testing.assert_allclose(found, np.ones_like(array), rtol=0, atol=2**-23)
        else:
            assert_close(actual[name], array, TOLERANCE, name)


def assert_same_rows(actual: np.ndarray, expected: np.ndarray) -> None:
    """Detections of nearly equal score may change places, and so may nearly equal classes."""
    assert actual.shape == expected.shape
    near = np.abs(actual[:, None] - expected[None]) / np.ptp(expected, axis=0) <= TOLERANCE
    same_box = near[:, :, 1:].all(axis=2)
    assert same_box.any(axis=0).all()
    assert same_box.any(axis=1).all()
    assert near.all(axis=2).any(axis=0).mean() > 0.99


@pytest.mark.parametrize("name", REAL)
def test_real_model(name: str, shared: Path, backend: str) -> None:
    """Answers recorded from ncnn."""
    path, record = next(pair for pair in real_models(shared) if pair[0].stem == name)
    arrays = np.load(record)
    inputs = {k.removeprefix("in_"): arrays[k] for k in arrays if k.startswith("in_")}
    outputs = {k.removeprefix("out_"): arrays[k] for k in arrays if k.startswith("out_")}
    actual = run_vknn(path, inputs, backend)
    assert set(actual) == set(outputs)
    view = logit if name in PROBABILITIES else np.asarray
    for key, array in outputs.items():
        assert_close(view(actual[key]), view(array), TOLERANCE, key)


def logit(probability: np.ndarray) -> np.ndarray:
    """The argument of the sigmoid that gave ``probability``, as far as float32 tells."""
    p = np.clip(probability.astype(np.float64), 1e-9, 1 - 1e-4)
    return np.log(p / (1 - p))
