"""Matrix products and embeddings, against NumPy's products and columns of matrices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import (
    layer,
    linear_weights,
    model,
    near,
    run,
    run_everywhere,
    session,
    table_weights,
    weights,
)

from vknn.errors import VknnError
from vknn.formats.coreml import coreml_pb2 as pb

RNG = np.random.default_rng(13)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def int8_weights(codes: np.ndarray, scale: Any) -> Any:
    message = pb.WeightParams(int8RawValue=codes.astype(np.int8).tobytes())
    message.quantization.numberOfBits = 8
    message.quantization.linearQuantization.scale.extend(np.atleast_1d(scale).tolist())
    return message


def inner(w: Any, shape: tuple[int, int], b: Any = None, **params: Any) -> Any:
    if b is not None:
        params |= {"hasBias": True, "bias": weights(b)}
    return layer(
        "innerProduct", outputChannels=shape[0], inputChannels=shape[1], weights=w, **params
    )


def expected_inner(x: np.ndarray, w: np.ndarray, b: Any) -> np.ndarray:
    wide, kernel = x.astype(np.float64), w.astype(np.float64)
    if x.ndim >= 4:
        lead = x.shape[:-3]
        return (wide.reshape(*lead, -1) @ kernel.T + b)[..., None, None]
    return wide @ kernel.T + b


SHAPES = [(24,), (5, 24), (2, 3, 24), (5, 2, 3, 4), (2, 3, 4, 6, 1)]


@pytest.mark.device
@pytest.mark.parametrize("shape", SHAPES)
def test_inner_product(shape: Any) -> None:
    x, w, b = normal(*shape), normal(7, 24), normal(7)
    near(run_everywhere(inner(weights(w), (7, 24), b), {"x": x})["y"], expected_inner(x, w, b))
    near(run(inner(weights(w), (7, 24)), {"x": x})["y"], expected_inner(x, w, 0))


def test_inner_product_in_the_rank_5_mapping() -> None:
    w, b = normal(7, 24), normal(7)
    net = inner(weights(w), (7, 24), b)
    for shape, blob in (((24,), (1, 1, 24, 1, 1)), ((2, 3, 4),) * 2, ((3, 2, 4, 3, 2),) * 2):
        x = normal(*shape)
        five = x.reshape(*(1,) * (5 - len(blob)), *blob)
        near(run(net, {"x": x}, rank5=True)["y"], expected_inner(five, w, b))


def test_encodings_of_weights() -> None:
    x = normal(2, 6)
    codes, scale, shift = RNG.integers(0, 8, (5, 6)), RNG.random(5) + 0.1, RNG.random(5)
    w = (codes * scale[:, None] + shift[:, None]).astype(np.float32)
    near(run(inner(linear_weights(codes, 3, scale, shift), (5, 6)), {"x": x})["y"], x @ w.T)
    table = normal(8)
    near(run(inner(table_weights(codes, 3, table), (5, 6)), {"x": x})["y"], x @ table[codes].T)


@pytest.mark.device
def test_dynamic_quantization() -> None:
    w, b = RNG.integers(-127, 128, (7, 24)), normal(7)
    for shape in SHAPES:
        x = normal(*shape)
        net = inner(int8_weights(w, 0.02), (7, 24), b, int8DynamicQuantize=True)
        near(run(net, {"x": x})["y"], expected_inner(x, w * 0.02, b))
    run_everywhere(net, {"x": x})
    for shape in ((24,), (2, 3, 24)):
        x = normal(*shape)
        net = layer(
            "batchedMatmul",
            weightMatrixFirstDimension=24,
            weightMatrixSecondDimension=7,
            weights=int8_weights(w, 0.02),
            hasBias=True,
            bias=weights(b),
            int8DynamicQuantize=True,
        )
        near(run(net, {"x": x})["y"], x @ (w * 0.02).T + b)


@pytest.mark.device
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        ((10,), (10,), (1, 1)),
        ((4, 10), (10,), (4, 1)),
        ((10,), (10, 3), (1, 3)),
        ((10,), (2, 10, 3), (2, 1, 3)),
        ((2, 3), (3, 4), (2, 4)),
        ((1, 3, 4), (3, 2, 4, 5), (3, 2, 3, 5)),
        ((1, 3, 1, 2, 3), (1, 4, 3, 2), (1, 3, 4, 2, 2)),
        ((2, 3, 1, 3, 4), (2, 1, 2, 4, 5), (2, 3, 2, 3, 5)),
    ],
)
def test_products_of_two_inputs(a: Any, b: Any, out: Any) -> None:
    left, right = normal(*a), normal(*b)
    y = run_everywhere(layer("batchedMatmul", ["a", "b"]), {"a": left, "b": right})["y"]
    assert y.shape == out
    near(y, np.matmul(left.astype(np.float64), right).reshape(out))


def test_transposed_products() -> None:
    for ta, tb, lead in itertools.product([False, True], [False, True], [(), (2,), (3, 1, 2)]):
        a, b = normal(*lead, *((4, 3) if ta else (3, 4))), normal(*((5, 4) if tb else (4, 5)))
        net = layer("batchedMatmul", ["a", "b"], transposeA=ta, transposeB=tb)
        y = run(net, {"a": a, "b": b})["y"]
        near(y, np.matmul(a.swapaxes(-1, -2) if ta else a, b.T if tb else b))


@pytest.mark.device
@pytest.mark.parametrize("shape", [(11,), (5, 11), (2, 3, 11), (4, 1, 2, 11), (2, 1, 3, 2, 11)])
def test_products_by_a_stored_matrix(shape: Any) -> None:
    """The matrix lies column by column; transposes mean nothing here."""
    x, w, b = normal(*shape), normal(11, 4), normal(4)
    params = {"weightMatrixFirstDimension": 11, "weightMatrixSecondDimension": 4}
    net = layer("batchedMatmul", weights=weights(w.T), transposeA=True, **params)
    near(run(net, {"x": x})["y"], x @ w)
    net = layer("batchedMatmul", weights=weights(w.T), hasBias=True, bias=weights(b), **params)
    near(run_everywhere(net, {"x": x})["y"], x @ w + b)
    codes, scale = RNG.integers(0, 4, (4, 11)), RNG.random(4) + 0.1
    net = layer("batchedMatmul", weights=linear_weights(codes, 2, scale), **params)
    near(run(net, {"x": x})["y"], x @ (codes * scale[:, None]).T)


@pytest.mark.device
@pytest.mark.parametrize("lead", [(3,), (2, 3), (2, 1, 3), (2, 1, 2, 2)])
def test_embeddings(lead: tuple[int, ...]) -> None:
    matrix, b = normal(4, 9), normal(4)
    x = RNG.integers(0, 9, lead)
    expected = matrix.T[x]
    params = {"weights": weights(matrix), "hasBias": True, "bias": weights(b)}
    net = layer("embeddingND", vocabSize=9, embeddingSize=4, **params)
    near(run_everywhere(net, {"x": x[..., None].astype(np.float32)})["y"], expected + b)
    if len(lead) > 2:
        return
    feeds = {"x": x.reshape(*lead, 1, 1, 1).astype(np.float32)}
    net = layer("embedding", inputDim=9, outputChannels=4, **params)
    near(run_everywhere(net, feeds)["y"], (expected + b)[..., None, None])
    net = layer("embedding", inputDim=9, outputChannels=4, weights=weights(matrix))
    near(run(net, feeds)["y"], expected[..., None, None])


def test_embedding_in_the_rank_5_mapping_of_quantized_columns() -> None:
    codes, scale = RNG.integers(0, 16, (3, 5)), np.array([0.5, 1.0, 2.0])
    matrix = codes * scale[:, None]
    net = layer("embedding", inputDim=5, outputChannels=3, weights=linear_weights(codes, 4, scale))
    y = run(net, {"x": np.array([3.0], np.float32)}, rank5=True)["y"]
    near(y, matrix[:, 3].reshape(1, 1, 3, 1, 1))
    x = np.array([4, 0, 2], np.float32).reshape(3, 1, 1, 1, 1)
    near(run(net, {"x": x}, rank5=True)["y"], matrix.T[[4, 0, 2]].reshape(3, 1, 3, 1, 1))


ONES = weights(np.ones(12))
MATRIX = {"weightMatrixFirstDimension": 3, "weightMatrixSecondDimension": 4, "weights": ONES}
WRONG = {
    "channels": (inner(ONES, (4, 3)), (2, 4)),
    "weights": (inner(ONES, (4, 4)), (2, 4)),
    "bias": (inner(ONES, (4, 3), hasBias=True), (2, 3)),
    "no int8": (inner(ONES, (4, 3), int8DynamicQuantize=True), (2, 3)),
    "no channels": (inner(ONES, (0, 3)), (2, 3)),
    "rows": (layer("batchedMatmul", **MATRIX), (2, 4)),
    "indices": (layer("embedding", inputDim=4, outputChannels=3, weights=ONES), (2, 1, 1)),
    "last axis": (layer("embeddingND", vocabSize=4, embeddingSize=3, weights=ONES), (2, 3)),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_contradictions(what: str) -> None:
    net, shape = WRONG[what]
    with pytest.raises(VknnError, match=net.name):
        run(net, {"x": np.zeros(shape, np.float32)})


def test_contradictions_of_two_inputs() -> None:
    feeds = {"a": normal(2, 3), "b": normal(2, 3)}
    for params in ({}, {"transposeA": True, "transposeB": True}):
        with pytest.raises(VknnError, match="batchedMatmul"):
            run(layer("batchedMatmul", ["a", "b"], **params), feeds)
    net = layer("batchedMatmul", ["a", "b"], transposeA=True, hasBias=True, bias=weights([1] * 3))
    with pytest.raises(VknnError, match="bias"):
        run(net, feeds)


def test_training_may_change_the_weights() -> None:
    """Weights reach their product as they are, under names that training looks for."""
    x = normal(2, 2, 2, 2)
    message = model([inner(weights(normal(3, 8)), (3, 8), normal(3))], {"x": x.shape})
    with session(message) as s:
        (product,) = (n for n in s._engine.graph({"x": x}).nodes if n.op.type_name == "MatMul")
    names = [v.name for v in product.inputs if v is not None and v.constant is not None]
    assert names == ["innerProduct/weights", "innerProduct/bias"]
