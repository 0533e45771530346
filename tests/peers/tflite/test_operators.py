"""Operators in settings that the vectors do not have, against TensorFlow Lite's own kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tests.tflite_writer import Net

from vknn.session import Session


def options(content: dict[str, Any]) -> np.ndarray:
    builder = flexbuffers.Builder()
    builder.MapFromElements(content)
    return np.frombuffer(bytes(builder.Finish()), np.uint8)


def kernels(file: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of the reference kernels."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_content=file, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    interpreter.invoke()
    outputs = interpreter.get_output_details()
    return {d["name"]: interpreter.get_tensor(d["index"]).copy() for d in outputs}


def results(
    net: Net, feeds: dict[str, np.ndarray], folder: Path, backend: str
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Those of vknn and those of the kernels."""
    file = net.file()
    path = folder / "net.tflite"
    path.write_bytes(file)
    with Session(path, device="numpy" if backend == "numpy" else "auto") as session:
        return session.run(feeds), kernels(file, feeds)


def check(net: Net, feeds: dict[str, np.ndarray], folder: Path, backend: str) -> None:
    """Floats within 1e-5 of the largest, everything else exact."""
    found, wanted = results(net, feeds, folder, backend)
    for name, expected in wanted.items():
        assert found[name].shape == expected.shape
        assert found[name].dtype == expected.dtype
        if expected.dtype.kind == "f":
            most = float(np.abs(expected).max(initial=0.0))
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5 * most)
        else:
            assert np.array_equal(found[name], expected)


def one(name: str, inputs: list[tuple[Any, ...]], outputs: list[tuple[Any, ...]],
        given: dict[str, Any] | None = None, **fields: Any) -> Net:  # fmt: skip
    """A net of one operator: tensors x0, x1... (shape, dtype, fields) -> y0, y1..."""
    net = Net()
    ends = [[net.tensor(f"{letter}{i}", shape, dtype, **extra)
             for i, (shape, dtype, extra) in enumerate(tensors)]
            for letter, tensors in (("x", inputs), ("y", outputs))]  # fmt: skip
    net.add(name, ends[0], ends[1], given, **fields)
    net.inputs = [i for i, t in zip(ends[0], inputs, strict=True) if "data" not in t[2]]
    net.outputs = ends[1]
    return net


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(-1.0, 1.0, 8), (0.0, 6.0, 8), (-0.3, 2.1, 4), (-6.0, 0.0, 16), (0.1, 1.0, 8), (-1.0, 1.0, 1)],
)
def test_fake_quant(low: float, high: float, bits: int, tmp_path: Path, backend: str) -> None:
    given = {"min": low, "max": high, "num_bits": bits, "narrow_range": False}
    net = one("FAKE_QUANT", [((3, 51), "float32", {})], [((3, 51), "float32", {})], given)
    x = np.linspace(-7, 7, 153, dtype=np.float32).reshape(3, 51)
    check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize("scales", [(0.1, 0.1, 0.05), (0.013, 0.2, 0.1)])
def test_concatenation_of_other_scales(
    scales: tuple[float, ...], tmp_path: Path, backend: str
) -> None:
    zeros = (7, 120, 77)
    tensors = [
        ((2, size), "uint8", {"scale": scale, "zero_point": zero})
        for size, scale, zero in zip((256, 256, 512), scales, zeros, strict=True)
    ]
    net = one("CONCATENATION", tensors[:2], tensors[2:], {"axis": 1})
    x = np.arange(512).astype(np.uint8).reshape(2, 256)
    check(net, {"x0": x, "x1": x[::-1]}, tmp_path, backend)


RESIZES = [((5, 7), (11, 3)), ((1, 3), (5, 1)), ((17, 5), (50, 31))]


@pytest.mark.parametrize("name", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8", "int16"])
@pytest.mark.parametrize(
    ("aligned", "halves"), [(False, False), (True, False), (False, True)],
    ids=["asymmetric", "aligned", "halves"],
)  # fmt: skip
def test_resize(
    name: str, dtype: str, aligned: bool, halves: bool, tmp_path: Path, backend: str
) -> None:
    rng, quant = np.random.default_rng(2), {"scale": 0.1, "zero_point": 0}
    extra = {} if dtype == "float32" else quant
    given = {"align_corners": aligned, "half_pixel_centers": halves}
    for size, out in RESIZES:
        net = one(
            name,
            [((1, *size, 3), dtype, extra), ((2,), "int32", {"data": np.array(out)})],
            [((1, *out, 3), dtype, extra)],
            given,
        )
        x = rng.integers(-100, 100, (1, *size, 3)).astype(dtype)
        check(net, {"x0": x}, tmp_path, backend)


def test_hashes_of_32_bits(tmp_path: Path) -> None:
    seeds = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float32)
    inputs = [((4, 32), "float32", {"data": seeds}), ((3,), "int32", {})]
    net = one("LSH_PROJECTION", inputs, [((4,), "int32", {})], {"type": 1})
    check(net, {"x1": np.int32([5, -7, 9])}, tmp_path, "numpy")


@pytest.mark.parametrize("length", [1, 3, 5, 11, 13, 28, 29, 60, 61, 124, 125, 300])
def test_hashes_of_rows(length: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(length)
    seeds = rng.standard_normal((4, 7)).astype(np.float32)
    x, weights = rng.integers(0, 256, (3, length)).astype(np.uint8), rng.standard_normal(3)
    for kind, size in ((1, 4), (2, 28)):
        inputs = [((4, 7), "float32", {"data": seeds}), ((3, length), "uint8", {}),
                  ((3,), "float32", {})]  # fmt: skip
        net = one("LSH_PROJECTION", inputs, [((size,), "int32", {})], {"type": kind})
        check(net, {"x1": x, "x2": weights.astype(np.float32)}, tmp_path, "numpy")


@pytest.mark.parametrize(
    "text", [b"The quick  brown fox", b" a b c d", b"one", b"", b"  ", b"a b\tc\nd e ", b" x"]
)
def test_groups_of_words(text: bytes, tmp_path: Path) -> None:
    for size, skip, smaller in ((1, 0, False), (2, 1, False), (3, 2, True), (2, 0, True)):
        given = {"ngram_size": size, "max_skip_size": skip, "include_all_ngrams": smaller}
        net = one("SKIP_GRAM", [((1,), "string", {})], [((0,), "string", {})], given)
        found, wanted = results(net, {"x0": np.array([text], object)}, tmp_path, "numpy")
        assert found["y0"].tolist() == wanted["y0"].reshape(-1).tolist()


def detector(regular: bool, background: int, dtype: str, most: int, each: int) -> Net:
    rng = np.random.default_rng(4)
    anchors = np.concatenate([rng.uniform(0, 1, (20, 2)), rng.uniform(0.1, 0.4, (20, 2))], axis=1)
    content = {
        "max_detections": most, "max_classes_per_detection": each, "use_regular_nms": regular,
        "nms_score_threshold": 0.1, "nms_iou_threshold": 0.5, "num_classes": 3,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    scales = [{}] * 3
    if dtype == "uint8":
        anchors = np.clip(anchors / 0.006, 0, 255)
        scales = [{"scale": s, "zero_point": z} for s, z in ((0.05, 128), (1 / 255, 0), (0.006, 0))]
    inputs = [((1, 20, 4), dtype, scales[0]), ((1, 20, 3 + background), dtype, scales[1]),
              ((20, 4), dtype, {"data": anchors.astype(dtype), **scales[2]})]  # fmt: skip
    rows = most * each
    outputs = [((1, rows, 4), "float32", {}), ((1, rows), "float32", {}),
               ((1, rows), "float32", {}), ((1,), "float32", {})]  # fmt: skip
    return one("CUSTOM", inputs, outputs, custom_code="TFLite_Detection_PostProcess",
               custom_options=options(content))  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize("regular", [False, True], ids=["fast", "regular"])
def test_detections(
    regular: bool, background: int, dtype: str, tmp_path: Path, backend: str
) -> None:
    rng = np.random.default_rng(1)
    count = 20 * (3 + background)
    boxes, scores = rng.standard_normal((1, 20, 4)) * 2, rng.permutation(count) / count
    if dtype == "uint8":
        boxes, scores = np.clip(np.round(boxes / 0.05) + 128, 0, 255), np.round(scores * 255)
    feeds = {"x0": boxes.astype(dtype), "x1": scores.reshape(1, 20, -1).astype(dtype)}
    for most, each in ((7, 1), (5, 2)):
        net = detector(regular, background, dtype, most, each)
        found, wanted = results(net, feeds, tmp_path, backend)
        assert found["y3"] == wanted["y3"]
        # What lies behind the detections has never been written in TensorFlow Lite.
        rows = int(wanted["y3"][0]) * (1 if regular else each)
        assert rows > 1
        for name in ("y0", "y1", "y2"):
            np.testing.assert_allclose(found[name][:, :rows], wanted[name][:, :rows], atol=1e-5)
            assert not found[name][:, rows:].any()


SPECTROGRAMS = [
    (1000, 1, 400, 160, True),
    (500, 2, 256, 100, False),
    (300, 1, 400, 1, True),
    (64, 1, 2, 7, True),
    (100, 3, 100, 3, False),
]


@pytest.mark.parametrize(("samples", "channels", "window", "stride", "squared"), SPECTROGRAMS)
def test_spectrogram(
    samples: int, channels: int, window: int, stride: int, squared: bool,
    tmp_path: Path, backend: str,
) -> None:  # fmt: skip
    frames = 0 if samples < window else 1 + (samples - window) // stride
    bins = 1 + (1 << (window - 1).bit_length()) // 2
    content = {"window_size": window, "stride": stride, "magnitude_squared": squared}
    net = one("CUSTOM", [((samples, channels), "float32", {})],
              [((channels, frames, bins), "float32", {})],
              custom_code="AudioSpectrogram", custom_options=options(content))  # fmt: skip
    x = np.random.default_rng(0).standard_normal((samples, channels)).astype(np.float32)
    check(net, {"x0": x}, tmp_path, backend)


CEPSTRA = [
    (257, 16000, 40, 13, 20, 4000),
    (129, 8000, 20, 20, 0, 3999),
    (33, 16000, 10, 5, 20, 9000),
]


@pytest.mark.parametrize(("bins", "rate", "bands", "wanted", "low", "high"), CEPSTRA)
def test_cepstrum(
    bins: int, rate: int, bands: int, wanted: int, low: int, high: int,
    tmp_path: Path, backend: str,
) -> None:  # fmt: skip
    content = {"upper_frequency_limit": high, "lower_frequency_limit": low,
               "filterbank_channel_count": bands, "dct_coefficient_count": wanted}  # fmt: skip
    inputs = [((2, 3, bins), "float32", {}), ((1,), "int32", {"data": np.array([rate])})]
    net = one("CUSTOM", inputs, [((2, 3, wanted), "float32", {})],
              custom_code="Mfcc", custom_options=options(content))  # fmt: skip
    x = np.random.default_rng(0).uniform(0, 10, (2, 3, bins)).astype(np.float32)
    check(net, {"x0": x}, tmp_path, backend)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 3), ("uint8", 3), ("int16", 0)])
def test_numbers_held_against_real_ones(
    dtype: str, zero: int, tmp_path: Path, backend: str
) -> None:
    inputs = [((3, 5), dtype, {"scale": 0.1, "zero_point": zero}), ((3, 5), "float32", {})]
    content = {"tolerance": 5.0, "log_if_failed": False}
    net = one("CUSTOM", inputs, [((3, 5), "float32", {})],
              custom_code="NumericVerify", custom_options=options(content))  # fmt: skip
    x = np.arange(15).reshape(3, 5).astype(dtype)
    check(net, {"x0": x, "x1": np.ones((3, 5), np.float32)}, tmp_path, backend)
