"""Convolution, ConvolutionDepthWise and InnerProduct against ncnn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, image, random_weights, whole_net

from vknn.formats.ncnn.reader import parse_param

FLOAT = [
    ("Convolution 0=5 1=3 6=135", (3, 7, 9)),
    ("Convolution 0=5 1=3 5=1 6=135", (3, 7, 9)),
    ("Convolution 0=4 1=1 5=1 6=28", (7, 5, 6)),
    ("Convolution 0=8 1=3 2=2 3=2 4=1 5=1 6=288", (4, 11, 13)),
    ("Convolution 0=3 1=5 11=2 2=1 12=3 3=1 13=2 5=1 6=60", (2, 12, 10)),
    ("Convolution 0=3 1=3 4=1 15=2 14=0 16=3 5=1 6=54", (2, 6, 7)),
    ("Convolution 0=3 1=3 4=1 18=0.75 5=1 6=54", (2, 6, 7)),
    ("Convolution 0=3 1=3 4=-233 3=2 6=54", (2, 6, 7)),
    ("Convolution 0=3 1=4 4=-233 3=2 6=96", (2, 7, 8)),
    ("Convolution 0=3 1=4 4=-234 3=2 6=96", (2, 7, 8)),
    ("Convolution 0=3 1=4 4=-234 3=1 18=-1.5 5=1 6=96", (2, 7, 8)),
    ("Convolution 0=3 1=3 4=-233 14=0 6=54", (2, 6, 7)),
    ("ConvolutionDepthWise 0=6 1=3 4=1 5=1 6=54 7=6", (6, 7, 8)),
    ("ConvolutionDepthWise 0=6 1=3 3=2 4=1 6=54 7=6", (6, 7, 8)),
    ("ConvolutionDepthWise 0=6 1=3 11=5 2=2 4=4 5=1 6=90 7=6", (6, 9, 8)),
    ("ConvolutionDepthWise 0=8 1=3 5=1 6=144 7=4", (8, 7, 8)),
    ("ConvolutionDepthWise 0=9 1=3 5=1 6=162 7=3", (6, 7, 8)),
    ("ConvolutionDepthWise 0=8 1=3 5=1 6=72 7=4", (4, 7, 8)),
    ("ConvolutionDepthWise 0=6 1=3 4=-233 3=2 6=54 7=6", (6, 7, 8)),
    ("ConvolutionDepthWise 0=6 1=4 4=-234 3=2 18=2.0 6=96 7=6", (6, 7, 8)),
]


@pytest.mark.parametrize(("line", "shape"), FLOAT)
def test_float(line: str, shape: tuple[int, ...], backend: str) -> None:
    check(line, image(*shape), backend=backend)


@pytest.mark.parametrize("storage", ["fp16", "table"])
@pytest.mark.parametrize("line", ["Convolution 0=5 1=3 5=1 6=135", "InnerProduct 0=5 1=1 2=945"])
def test_storage(line: str, storage: str, backend: str) -> None:
    check(line, image(3, 7, 9), storage=storage, backend=backend)  # type: ignore[arg-type]


ACTIVATIONS = [
    "9=1",
    "9=2 -23310=1,0.1",
    "9=3 -23310=2,-0.5,0.75",
    "9=4",
    "9=5",
    "9=6 -23310=2,0.2,0.5",
]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    "line",
    [
        "Convolution 0=5 1=3 5=1 6=135",
        "ConvolutionDepthWise 0=3 1=3 5=1 6=27 7=3",
        "InnerProduct 0=5 1=1 2=945",
    ],
)
def test_activations(line: str, activation: str, backend: str) -> None:
    check(f"{line} {activation}", image(3, 7, 9), backend=backend)


def test_activation_parameters_in_the_new_array_style(backend: str) -> None:
    check("Convolution 0=5 1=3 6=135 9=2 10=0.25,", image(3, 7, 9), backend=backend)


@pytest.mark.parametrize(
    ("line", "weight"),
    [
        ("Convolution 5=1 19=1", (5, 3, 3, 3)),
        ("Convolution 19=1 3=2 4=1 9=1", (5, 3, 2, 3)),
        ("Convolution 5=1 19=1 4=-233 18=0.5 3=2", (5, 3, 2, 3)),
        ("ConvolutionDepthWise 0=3 5=1 19=1 7=3", (3, 1, 3, 3)),
        ("ConvolutionDepthWise 0=6 19=1 7=3 4=1", (6, 1, 3, 3)),
    ],
)
def test_dynamic_weights(line: str, weight: tuple[int, ...], backend: str) -> None:
    inputs = [image(3, 7, 9), image(*weight, seed=1, scale=0.2)]
    if " 5=1" in line:
        inputs.append(image(weight[0], seed=2))
    check(line, *inputs, backend=backend)


def test_one_dimensional_input_is_an_inner_product(backend: str) -> None:
    check("Convolution 0=5 1=1 5=1 6=35 9=1", image(7), backend=backend)


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("InnerProduct 0=5 2=35", (7,)),
        ("InnerProduct 0=5 1=1 2=35", (4, 7)),
        ("InnerProduct 0=5 1=1 2=35", (1, 7)),
        ("InnerProduct 0=5 1=1 2=140", (4, 7)),
        ("InnerProduct 0=5 1=1 2=420", (3, 4, 7)),
        ("InnerProduct 0=5 1=1 2=840 9=1", (2, 3, 4, 7)),
    ],
)
def test_inner_product(line: str, shape: tuple[int, ...], backend: str) -> None:
    check(line, image(*shape), backend=backend)


# --- int8 ---------------------------------------------------------------------------------------

INT8 = [
    ("Convolution 0=8 1=3 5=1 6=216", (3, 7, 9)),
    ("Convolution 0=8 1=3 3=2 4=1 5=1 6=216 9=1", (3, 7, 9)),
    ("Convolution 0=8 1=1 6=128 9=3 -23310=2,-1.0,1.5", (16, 5, 5)),
    ("Convolution 0=8 1=3 4=-233 18=3.0 6=288", (4, 6, 6)),
    ("ConvolutionDepthWise 0=8 1=3 4=1 5=1 6=72 7=8 9=1", (8, 7, 9)),
    ("ConvolutionDepthWise 0=8 1=3 5=1 6=144 7=4", (8, 7, 9)),
]


def quantized_weights(line: str, count: int, stored_int8: bool) -> dict[str, np.ndarray]:
    text = whole_net("Input in 0 1 x", f"{line.split()[0]} layer 1 1 x y {line.split(' ', 1)[1]}")
    weights = random_weights(parse_param(text.encode()))["layer"]
    if stored_int8:
        weights["weight"] = (
            np.random.default_rng(3).integers(-127, 128, weights["weight"].shape).astype(np.int8)
        )
    return weights


@pytest.mark.parametrize("stored", ["fp32", "int8"])
@pytest.mark.parametrize("term", [1, 2, 101, 102])
@pytest.mark.parametrize(("line", "shape"), INT8)
def test_int8(line: str, shape: tuple[int, ...], term: int, stored: str, backend: str) -> None:
    line = f"{line} 8={term}"
    weights = quantized_weights(line, 1, stored == "int8")
    check(line, image(*shape), weights=weights, backend=backend, tolerance=1e-6)


@pytest.mark.parametrize("stored", ["fp32", "int8"])
@pytest.mark.parametrize("term", [1, 2])
@pytest.mark.parametrize(("size", "shape"), [(315, (3, 3, 7)), (35, (4, 7)), (35, (7,))])
def test_int8_inner_product(
    size: int, shape: tuple[int, ...], term: int, stored: str, backend: str
) -> None:
    line = f"InnerProduct 0=5 1=1 2={size} 8={term} 9=1"
    weights = quantized_weights(line, 1, stored == "int8")
    check(line, image(*shape), weights=weights, backend=backend, tolerance=1e-6)


def test_a_weight_scale_of_zero_gives_the_bias(backend: str) -> None:
    line = "Convolution 0=8 1=3 5=1 6=216 8=1"
    weights = quantized_weights(line, 1, True)
    weights["weight_scale"][3] = 0
    check(line, image(3, 7, 9), weights=weights, backend=backend, tolerance=1e-6)


def test_relu_of_int8(backend: str) -> None:
    text = whole_net(
        "Input in 0 1 x", "Convolution a 1 1 x a 0=8 1=3 5=1 6=216 8=101", "ReLU r 1 1 a y"
    )
    compare_with_ncnn(text, None, {"x": image(3, 9, 9)}, (backend,), tolerance=1e-6)


@pytest.mark.parametrize("middle", [
    "Padding p 1 1 a b 0=1 1=2 2=1 5=3.7",
    "Crop p 1 1 a b 0=1 3=-233 4=-233 5=-233",
    "Flatten p 1 1 a b",
    "Split p 1 1 a b",
    "Dropout p 1 1 a b",
    "ReLU p 1 1 a b",
    "ReLU p 1 1 a b 0=0.1",
])  # fmt: skip
def test_int8_blobs_move(middle: str, backend: str) -> None:
    text = whole_net("Input in 0 1 x", "Convolution a 1 1 x a 0=8 1=3 5=1 6=216 8=101", middle)
    compare_with_ncnn(text, None, {"x": image(3, 9, 9)}, (backend,), tolerance=1e-6)


def test_int8_blobs_pass_between_layers(backend: str) -> None:
    """The second layer takes the first one's int8 output as it is; ReLU keeps it int8."""
    text = whole_net(
        "Input in 0 1 x",
        "Convolution a 1 1 x a 0=8 1=3 5=1 6=216 8=101 9=1",
        "ConvolutionDepthWise b 1 1 a b 0=8 1=3 4=1 5=1 6=72 7=8 8=101",
        "ReLU r 1 1 b r",
        "Convolution c 1 1 r c 0=4 1=1 5=1 6=32 8=2",
    )
    compare_with_ncnn(text, None, {"x": image(3, 9, 9)}, (backend,), tolerance=1e-6)
