"""Models that Core ML's own tools write: images, classes, quantized weights, shapes, pipelines."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn.errors import InputError
from vknn.session import Session

if importlib.util.find_spec("coremltools") is None:
    pytest.skip("coremltools is not installed", allow_module_level=True)
logging.disable(logging.WARNING)  # it warns that it cannot run models here
try:
    from coremltools.models import MLModel, datatypes
    from coremltools.models.neural_network import (
        NeuralNetworkBuilder,
        flexible_shape_utils,
        quantization_utils,
    )
    from coremltools.models.pipeline import Pipeline
    from coremltools.models.utils import save_spec
finally:
    logging.disable(logging.NOTSET)

RNG = np.random.default_rng(2)
PIXELS = RNG.integers(0, 256, (8, 6, 3), np.uint8)
KERNEL = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
LABELS = ["a", "b", "c", "d"]
SCALER = {"red_bias": -1.0, "green_bias": -2.0, "blue_bias": -3.0, "image_scale": 1 / 127.5}


def run(spec: Any, folder: Path, **feeds: Any) -> dict[str, Any]:
    path = folder / "net.mlmodel"
    save_spec(spec, str(path))
    with Session(path, device="numpy") as session:
        return session.run(feeds)


def classifier(bgr: bool = False) -> Any:
    """Convolution, average over the picture, softmax."""
    net = NeuralNetworkBuilder(
        [("image", datatypes.Array(3, 8, 6))], [("probs", None)], mode="classifier"
    )
    kernel = KERNEL.transpose(2, 3, 1, 0)
    net.add_convolution("conv", 3, 4, 3, 3, 1, 1, "valid", 1, kernel, None, False,
                        input_name="image", output_name="c")  # fmt: skip
    net.add_pooling("pool", 1, 1, 1, 1, "AVERAGE", "VALID", input_name="c", output_name="p",
                    is_global=True)  # fmt: skip
    net.add_softmax("softmax", "p", "probs")
    net.set_class_labels(LABELS, predicted_feature_name="label", prediction_blob="probs")
    net.set_pre_processing_parameters(image_input_names=["image"], is_bgr=bgr, **SCALER)
    return net.spec


def expected(bgr: bool, kernel: np.ndarray = KERNEL) -> np.ndarray:
    bias = np.array([SCALER["red_bias"], SCALER["green_bias"], SCALER["blue_bias"]])
    x = (PIXELS * SCALER["image_scale"] + bias).transpose(2, 0, 1)
    x = x[::-1] if bgr else x
    total = np.zeros(4)
    for i in range(6):
        for j in range(4):
            total += np.tensordot(kernel, x[:, i : i + 3, j : j + 3], 3) / 24
    powers = np.exp(total - total.max())
    return powers / powers.sum()


@pytest.mark.parametrize("bgr", [False, True])
def test_a_classifier_of_images(bgr: bool, tmp_path: Path) -> None:
    made = run(classifier(bgr), tmp_path, image=PIXELS)
    wanted = expected(bgr)
    assert made["label"] == LABELS[int(wanted.argmax())]
    assert list(made["probs"]) == LABELS
    np.testing.assert_allclose(list(made["probs"].values()), wanted, atol=1e-5)


def decoded(weights: Any, bits: int) -> np.ndarray:
    """The kernel as its bits state it."""
    if bits == 16:
        return np.frombuffer(weights.float16Value, "<f2").astype(np.float64).reshape(KERNEL.shape)
    text = "".join(f"{byte:08b}" for byte in weights.rawValue)
    codes = [int(text[i * bits : (i + 1) * bits], 2) for i in range(KERNEL.size)]
    quantization = weights.quantization
    table = np.array(quantization.lookupTableQuantization.floatValue)
    if len(table):
        return table[codes].reshape(KERNEL.shape)
    scale, bias = (
        np.reshape(v, (-1, 1, 1, 1))
        for v in (quantization.linearQuantization.scale, quantization.linearQuantization.bias)
    )
    return np.reshape(codes, KERNEL.shape) * scale + bias


@pytest.mark.parametrize(
    "bits, mode",
    [(16, "linear"), (8, "linear"), (6, "linear"), (1, "linear"), (8, "linear_lut"),
     (5, "linear_lut"), (2, "linear_lut"), (8, "linear_symmetric")],
)  # fmt: skip
def test_quantized_weights(bits: int, mode: str, tmp_path: Path) -> None:
    spec = classifier()
    made = quantization_utils.quantize_weights(MLModel(spec, skip_model_load=True), bits, mode)
    made = made.get_spec() if hasattr(made, "get_spec") else made
    kernel = decoded(made.neuralNetworkClassifier.layers[0].convolution.weights, bits)
    if bits >= 8:
        np.testing.assert_allclose(kernel, KERNEL, atol=0.05)
    found = run(made, tmp_path, image=PIXELS)
    np.testing.assert_allclose(list(found["probs"].values()), expected(False, kernel), atol=1e-5)


def unary(inputs: list[tuple[str, Any]], source: str, target: str, exact: bool = True) -> Any:
    net = NeuralNetworkBuilder(inputs, [(target, None)], disable_rank5_shape_mapping=exact)
    net.add_unary("twice", source, target, "abs", scale=2.0)
    return net.spec


@pytest.mark.parametrize("exact", [False, True])
def test_shapes_that_may_differ(exact: bool, tmp_path: Path) -> None:
    spec = unary([("x", datatypes.Array(2, 3, 4))], "x", "y", exact)
    flexible_shape_utils.add_multiarray_ndshape_enumeration(spec, "x", [(2, 5, 6), (1, 3, 4)])
    for shape in ((2, 3, 4), (2, 5, 6), (1, 3, 4)):
        y = run(spec, tmp_path, x=-np.ones(shape))["y"]
        assert y.shape == (shape if exact else (1, 1, *shape))
        assert (y == 2).all()
    with pytest.raises(InputError):
        run(spec, tmp_path, x=np.ones((2, 5, 4)))
    spec = unary([("x", datatypes.Array(2, 3, 4))], "x", "y", exact)
    flexible_shape_utils.set_multiarray_ndshape_range(spec, "x", [2, 1, 1], [2, 9, -1])
    assert run(spec, tmp_path, x=np.ones((2, 9, 40)))["y"].shape[-2:] == (9, 40)
    with pytest.raises(InputError):
        run(spec, tmp_path, x=np.ones((2, 10, 4)))


def test_images_of_several_sizes(tmp_path: Path) -> None:
    spec = classifier()
    size = flexible_shape_utils.NeuralNetworkImageSize
    flexible_shape_utils.add_enumerated_image_sizes(spec, "image", [size(16, 12)])
    assert len(run(spec, tmp_path, image=PIXELS)["probs"]) == 4
    run(spec, tmp_path, image=np.zeros((16, 12, 3), np.uint8))
    with pytest.raises(InputError):
        run(spec, tmp_path, image=np.zeros((16, 6, 3), np.uint8))
    sizes = flexible_shape_utils.NeuralNetworkImageSizeRange()
    sizes.add_height_range((8, -1))
    sizes.add_width_range((6, 64))
    spec = classifier()
    flexible_shape_utils.update_image_size_range(spec, "image", sizes)
    run(spec, tmp_path, image=np.zeros((99, 64, 3), np.uint8))
    with pytest.raises(InputError):
        run(spec, tmp_path, image=np.zeros((99, 65, 3), np.uint8))


def test_optional_inputs(tmp_path: Path) -> None:
    net = NeuralNetworkBuilder(
        [("x", datatypes.Array(2)), ("z", datatypes.Array(2))], [("y", None)],
        disable_rank5_shape_mapping=True,
    )  # fmt: skip
    net.add_add_broadcastable("sum", ["x", "z"], "y")
    net.set_optional_input(1, value=1.5)
    assert run(net.spec, tmp_path, x=[1, 2])["y"].tolist() == [2.5, 3.5]
    assert run(net.spec, tmp_path, x=[1, 2], z=[4, 4])["y"].tolist() == [5, 6]


def test_a_pipeline(tmp_path: Path) -> None:
    made = Pipeline([("x", datatypes.Array(3))], ["b"])
    made.add_model(unary([("x", datatypes.Array(3))], "x", "a"))
    made.add_model(unary([("a", datatypes.Array(3))], "a", "b"))
    assert run(made.spec, tmp_path, x=[1, -2, 3])["b"].tolist() == [4, 8, 12]


def test_loops(tmp_path: Path) -> None:
    net = NeuralNetworkBuilder(
        [("x", datatypes.Array(2))], [("y", None)], disable_rank5_shape_mapping=True
    )
    net.add_copy("start", "x", "y")
    loop = net.add_loop("loop", body_network=None, max_iterations=5)
    body = NeuralNetworkBuilder(nn_spec=loop.loop.bodyNetwork)
    body.add_elementwise("more", ["y"], "t", "ADD", alpha=2.0)
    body.add_copy("back", "t", "y")
    assert run(net.spec, tmp_path, x=[1, 2])["y"].tolist() == [11, 12]
