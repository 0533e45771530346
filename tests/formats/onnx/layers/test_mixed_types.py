"""Operators of floats of several types, which results keep; few axes; numbers as text."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.formats.onnx.layers.conftest import Run

from vknn.errors import VknnError

RNG = np.random.default_rng(5)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_results_have_the_type_of_their_input(run: Run) -> None:
    x, few = normal(1, 1, 3, 5), np.array(2, BFLOAT16)
    (found,) = run("EyeLike", [normal(3, 5).astype(BFLOAT16)], 22, dtype=1)
    assert found.dtype == np.float32 and np.array_equal(found, np.eye(3, 5))
    (found,) = run("Pow", [x, few], 15)
    assert found.dtype == np.float32 and np.allclose(found, x**2, rtol=1e-5)
    (found,) = run("Pow", [x.astype(BFLOAT16), np.array(2, np.float32)], 15)
    assert found.dtype == BFLOAT16
    (found,) = run("Dropout", [x, few], 22)
    assert found.dtype == np.float32 and np.array_equal(found, x)
    (found,) = run("GridSample", [x, np.zeros((1, 1, 1, 2), BFLOAT16)], 22)
    assert found.dtype == np.float32 and found.item() == pytest.approx(x[0, 0, 1, 2], rel=1e-5)


def test_statistics_of_another_type(run: Run) -> None:
    x, ones, zeros = normal(2, 3, 5), np.ones(3, np.float32), np.zeros(3, np.float32)
    few = [np.zeros(3, BFLOAT16), np.ones(3, BFLOAT16)]
    (found,) = run("BatchNormalization", [x, ones, zeros, *few], 15)
    assert found.dtype == np.float32 and np.allclose(found, x, rtol=1e-4)
    made = run("BatchNormalization", [x, ones, zeros, *few], 15, outputs=3, training_mode=1)
    assert [m.dtype for m in made] == [np.float32, BFLOAT16, BFLOAT16]


@pytest.mark.parametrize("dtype", [np.dtype(np.float64), BFLOAT16])
def test_the_mean_is_float32(run: Run, dtype: np.dtype) -> None:
    x = normal(3, 5).astype(dtype)
    y, mean, deviation = run("LayerNormalization", [x, np.ones(5, dtype)], 17, outputs=3)
    assert y.dtype == dtype and mean.dtype == deviation.dtype == np.float32
    wide = x.astype(np.float64)
    assert np.allclose(mean, wide.mean(1, keepdims=True), atol=1e-5)
    assert np.allclose(deviation, 1 / np.sqrt(wide.var(1, keepdims=True) + 1e-5), rtol=1e-4)


@pytest.mark.parametrize("training", [0, 1])
def test_batches_of_one_axis_are_one_channel(run: Run, training: int) -> None:
    x, (scale, bias, mean), var = normal(7), normal(3, 1), np.float32([1.7])
    more = {"training_mode": 1, "outputs": 3} if training else {}
    found = run("BatchNormalization", [x, scale, bias, mean, var], 15, **more)[0]
    centre, spread = (x.mean(), x.var()) if training else (mean, var)
    wanted = (x - centre) / np.sqrt(spread + 1e-5) * scale + bias
    assert found.shape == (7,) and np.allclose(found, wanted, atol=1e-5)


def test_images_without_channels_are_the_bias(run: Run) -> None:
    x, w, bias = np.zeros((1, 0, 5, 7), np.float32), np.zeros((3, 0, 3, 3), np.float32), normal(3)
    (found,) = run("Conv", [x, w, bias], 11)
    assert np.array_equal(found, np.broadcast_to(bias[:, None, None], (1, 3, 3, 5)))


def test_floats_as_text_have_eight_digits(run: Run) -> None:
    numbers = [1e-5, 0.7229038, 1234567.8, 16777216.0, 1e8, -3.99, 0.0, -2.0]
    (found,) = run("Cast", [np.float32(numbers)], 13, to=8)
    texts = ["1e-05", "0.7229038", "1234567.8", "16777216", "1e+08", "-3.99", "0", "-2"]
    assert found.tolist() == texts
    (found,) = run("Cast", [np.float64([1 / 3, 123456789])], 13, to=8)
    assert found.tolist() == ["0.33333333", "1.2345679e+08"]
    (found,) = run("Cast", [np.float16([3.7])], 13, to=8)
    assert found.tolist() == ["3.6992188"]


def test_integers_have_no_infinities(run: Run) -> None:
    with pytest.raises(VknnError, match="input 0 is int64; it takes bfloat16, float16"):
        run("IsInf", [np.int64([1, 2])], 20)


def test_gather_counts_from_the_end_in_old_files(run: Run) -> None:
    x = normal(3, 5)
    (found,) = run("Gather", [x, np.int64([-1, 2])], 9, axis=1)
    assert np.array_equal(found, x[:, [-1, 2]])
