"""Edges where onnxruntime's answer is ours: NaN, nothing to compute, windows beyond the image."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import VknnError

RNG = np.random.default_rng(23)


def test_shrink_of_nan_is_0(run) -> None:
    (found,) = run("Shrink", [np.array([np.nan, 2.0, -3.0, 0.1], np.float32)], opset=9, bias=0.5)
    assert found.tolist() == [0.0, 1.5, -2.5, 0.0]


@pytest.mark.parametrize("opset", [9, 11])
def test_one_hot_counts_from_the_end(run, opset: int) -> None:
    values = [np.array([-3, 5, -1]), np.array(3), np.array([-1, 2], np.float32)]
    (found,) = run("OneHot", values, opset=opset)
    assert found.tolist() == [[2, -1, -1], [-1, -1, -1], [-1, -1, 2]]


def test_squeeze_of_no_axes_drops_all(run) -> None:
    (found,) = run("Squeeze", [np.ones((3, 1, 1), np.float32), np.zeros(0, np.int64)], opset=13)
    assert found.shape == (3,)


def test_the_mean_of_nothing_is_0(run) -> None:
    values = [np.zeros((3, 0, 2), np.float32), np.array([1])]
    (found,) = run("ReduceMean", values, opset=18, keepdims=0)
    assert found.tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("size, stride, count", [(6, 1, 0), (6, 2, 1), (4, 2, 0)])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_larger_than_the_image(run, kind: str, size: int, stride: int, count: int) -> None:
    # Taps at 0, 2, 4 and 6 of an image of 6 or 4.
    x = RNG.standard_normal((2, 3, size)).astype(np.float32)
    (found,) = run(kind, [x], opset=22, kernel_shape=[4], dilations=[2], strides=[stride])
    taps = x[:, :, ::2].astype(np.float64)
    wanted = {
        "MaxPool": taps.max(2), "AveragePool": taps.mean(2), "LpPool": np.sqrt((taps**2).sum(2)),
    }[kind]  # fmt: skip
    np.testing.assert_allclose(found, wanted[:, :, None][:, :, :count], rtol=1e-6)


def test_windows_far_larger_than_the_image_are_an_error(run) -> None:
    with pytest.raises(VknnError):
        run("MaxPool", [np.ones((1, 2, 5), np.float32)], opset=22, kernel_shape=[7])


def test_places_outside_of_max_unpool_are_an_error(run) -> None:
    x, places = np.ones((1, 1, 1, 2), np.float32), np.array([[[[3, 8]]]])
    for outside in (places, -places):
        with pytest.raises(VknnError, match="out of range"):
            run("MaxUnpool", [x, outside], opset=11, kernel_shape=[2, 2], strides=[2, 2])


@pytest.mark.parametrize("region", [[2, 0, 0, 1, 1], [-1, 0, 0, 1, 1], [0, 0, 1, 1]])
def test_regions_of_no_image_are_an_error(run, region: list[int]) -> None:
    regions = np.array([region], np.float32)
    with pytest.raises(VknnError):
        run("MaxRoiPool", [np.ones((2, 1, 5, 7), np.float32), regions], pooled_shape=[1, 2])


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_of_empty_tuples_writes_the_whole(run, reduction: str) -> None:
    x, updates = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 2, 3))
    values = [x, np.zeros((2, 0), np.int64), updates]
    (found,) = run("ScatterND", [v.astype(np.float32) if v.size else v for v in values],
                   opset=18, reduction=reduction)  # fmt: skip
    wanted = updates[-1] if reduction == "none" else x + updates.sum(0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_products_of_no_rows_with_a_zero_point_each(run) -> None:
    values = [np.zeros((0, 3), np.uint8), np.ones((3, 2), np.uint8), np.zeros(0, np.uint8)]
    (found,) = run("MatMulInteger", values, opset=10)
    assert found.shape == (0, 2) and found.dtype == np.int32


def test_quotients_are_rounded_to_bfloat16(run) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(-20, 21).astype(np.float32) / 2
    small, scale = x.astype(ml_dtypes.bfloat16), np.array(1 / 3).astype(ml_dtypes.bfloat16)
    (found,) = run("QuantizeLinear", [small, scale, np.array(0, np.int8)], opset=21)
    assert found.tolist() == np.rint((small / scale).astype(np.float32)).tolist()


def test_quotients_of_float16_are_rounded_once(run) -> None:
    x = (np.arange(-20, 21) / 2).astype(np.float16)
    scale = np.array(1 / 3, np.float16)
    (found,) = run("QuantizeLinear", [x, scale, np.array(0, np.int8)], opset=21)
    assert found.tolist() == np.rint(x.astype(np.float32) / np.float32(scale)).tolist()


@pytest.mark.parametrize("kind, value", [("Softmax", 1.0), ("LogSoftmax", 0.0), ("Hardmax", 1.0)])
def test_a_scalar_is_a_row_of_one(run, kind: str, value: float) -> None:
    (found,) = run(kind, [np.float32(-7.5)], opset=13)
    assert found.shape == () and found == value


@pytest.mark.parametrize("axes", [[1, 1], [1, -2]])
def test_an_axis_that_is_named_twice_counts_once(run, axes: list[int]) -> None:
    x = RNG.standard_normal((2, 1, 3)).astype(np.float32)
    (found,) = run("ReduceSum", [x, np.array([0, *axes, 0])], fixed=[1])
    assert np.allclose(found, x.sum((0, 1), keepdims=True), atol=1e-6)
    assert run("ReduceL1", [x], opset=11, axes=axes)[0].shape == (2, 1, 3)
    assert run("Squeeze", [x, np.array(axes)], fixed=[1])[0].shape == (2, 3)
    (found,) = run("MeanVarianceNormalization", [x], axes=[0, 0, -3])
    assert np.allclose(found.mean(0), 0, atol=1e-6)


def test_without_a_region_the_whole_is_resized(run) -> None:
    x, sizes = RNG.standard_normal((1, 1, 2, 3)).astype(np.float32), np.array([1, 1, 3, 5])
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"}
    whole = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32)
    wanted = run("Resize", [x, whole, None, sizes], fixed=[1, 3], **how)
    found = run("Resize", [x, None, None, sizes], fixed=[3], **how)
    assert np.array_equal(found, wanted)
    with pytest.raises(VknnError, match="has the roi"):
        run("Resize", [x, whole[:0], None, sizes], fixed=[1, 3], **how)


@pytest.mark.parametrize("kind", ["Div", "Mod"])
def test_constants_do_not_divide_integers_by_0(run, kind: str) -> None:
    values = [np.array([7, -7, 7], np.int32), np.array([0, 4, 2], np.int32)]
    with pytest.raises(VknnError, match="divides integers by 0"):
        run(kind, values, fixed=[1])
    assert run(kind, values)[0][0] == 0


@pytest.mark.parametrize(
    "start, end, step, wanted",
    [
        (-(1 << 63), -(1 << 63), -5, [0]), (-9, -9, -1, [0]), (-9, 3, -1, []),
        (2, -9, -1, [2, 1, 0]), ((1 << 63) - 1, -(1 << 63), -2, [5, 3, 1]), (-9, 9, 4, [0, 4]),
        (5, 5, -1, []), (2, (1 << 63) - 1, -2, [2, 0]), (-2, (1 << 31) - 1, -3, [4, 1]),
        (2, (1 << 31) - 2, -2, []),
    ],
)  # fmt: skip
def test_slices_backwards_begin_within_the_axis(run, start, end, step, wanted) -> None:
    x, numbers = np.arange(6, dtype=np.float32), [np.array([v]) for v in (start, end, 0, step)]
    assert run("Slice", [x, *numbers], fixed=[1, 2, 3, 4])[0].tolist() == wanted
    if not wanted:
        assert run("Slice", [x[:0], *numbers], fixed=[1, 2, 3, 4])[0].size == 0


@pytest.mark.parametrize("kind, opset", [("Resize", 10), ("Upsample", 9), ("Resize", 11)])
def test_scales_that_leave_nothing(run, kind: str, opset: int) -> None:
    scales = np.array([1, 1, 2, 0.5], np.float32)
    given = [np.ones((1, 2, 3, 1), np.float32), np.zeros(0, np.float32), scales]
    given = given if opset > 10 else given[::2]
    (found,) = run(kind, given, opset=opset, fixed=range(1, len(given)))
    assert found.shape == (1, 2, 6, 0)


def test_one_scale_for_all_axes_may_leave_nothing(run) -> None:
    given = [np.ones((2, 1, 3), np.float32), None, None, np.array([2, 1, 1])]
    (found,) = run("Resize", given, fixed=[3], keep_aspect_ratio_policy="not_larger")
    assert found.shape == (1, 0, 1)


def test_zero_points_that_do_not_fit_are_an_error(run) -> None:
    x, w = np.ones((1, 2, 4, 4), np.uint8), np.ones((4, 2, 2, 2), np.uint8)
    with pytest.raises(VknnError, match=r"zero point uint8\[3\] for the weights uint8\[4, 2, 2, 2"):
        run("ConvInteger", [x, w, None, np.ones(3, np.uint8)])
    one, zero = np.float32(1), np.uint8(0)
    with pytest.raises(VknnError, match="the scale .* for the weights"):
        run("QLinearConv", [x, one, zero, w, np.ones(3, np.float32), zero, one, zero])
    with pytest.raises(VknnError, match="as input 1, not one number"):
        run("QLinearConv", [x, np.ones(3, np.float32), zero, w, one, zero, one, zero])
    product = [x[0, 0], one, zero, x[0, 0], one, np.ones(3, np.uint8), one, zero]
    with pytest.raises(VknnError, match=r"zero point uint8\[3\] for b"):
        run("QLinearMatMul", product, fixed=range(1, 8))


def test_a_class_beyond_the_type_is_no_target(run) -> None:
    x, target = RNG.standard_normal((2, 3)).astype(np.float32), np.array([2, 0], np.int32)
    (found,) = run("NegativeLogLikelihoodLoss", [x, target], ignore_index=1 << 40)
    assert np.isclose(found, -(x[0, 2] + x[1, 0]) / 2)


@pytest.mark.parametrize("opset, kind", [(21, np.float32), (23, np.float16), (25, np.float16)])
def test_the_type_of_the_scale_divides_from_version_23_on(run, opset: int, kind) -> None:
    """As in onnxruntime, whose older versions divide in float32."""
    x, zero = (RNG.standard_normal(300) * 50).astype(np.float16), np.int16(5)
    scale = np.array(0.0371, np.float16)
    (found,) = run("QuantizeLinear", [x, scale, zero], opset=opset)
    wanted = [np.rint((x.astype(k) / scale.astype(k)).astype(float)) + 5 for k in (kind, float)]
    assert np.array_equal(found, wanted[0])
    assert np.array_equal(*wanted) == (kind is np.float32)


def test_the_range_of_float16_is_that_of_its_numbers(run) -> None:
    x = RNG.standard_normal((3, 4)).astype(np.float16)
    found, wide = (
        run("DynamicQuantizeLinear", [x.astype(k)], opset=11, outputs=3)
        for k in (np.float16, np.float32)
    )
    assert all(np.array_equal(a, b) for a, b in zip(found, wide, strict=True))


def test_nothing_to_compute(run) -> None:
    """Neither channels, nor rows of experts, nor a batch of linear attention."""
    x = np.zeros((2, 0, 7, 8), np.float32)
    (found,) = run("LpPool", [x], kernel_shape=(2, 2), strides=(2, 3))
    assert found.shape == (2, 0, 3, 3)
    rows, weights = np.zeros((0, 8), np.float32), np.ones((4, 5, 8), np.float32)
    given = [rows, rows[:, :4], weights, None, weights.transpose(0, 2, 1)]
    (found,) = run("MoE", given, domain="com.microsoft", k=2)
    assert found.shape == (0, 8)
    one = np.zeros((0, 3, 8), np.float32)
    state = np.zeros((0, 2, 4, 4), np.float32)
    given = [one, one, one, state, one, one[..., :2]]
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    found, after = run("LinearAttention", given, opset=27, outputs=2, **heads)
    assert found.shape == (0, 3, 8) and after.shape == state.shape


def test_transposed_convolutions_of_nothing(run) -> None:
    """Of an empty axis a window less a stride is left, zeros with a bias."""
    x, w = np.zeros((1, 2, 0, 3), np.float32), np.ones((2, 2, 3, 2), np.float32)
    bias = np.array([1, 2, 3, 4], np.float32)
    (found,) = run("ConvTranspose", [x, w, bias], strides=(2, 1), group=2)
    np.testing.assert_array_equal(found, np.broadcast_to(bias[:, None, None], (1, 4, 1, 4)))
    with pytest.raises(VknnError, match="has the pads"):
        run("ConvTranspose", [x, w, bias], strides=(3, 1), group=2)
