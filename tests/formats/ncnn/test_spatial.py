"""Sampling, pooling, regions and detection: where they run, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.ncnn.nets import net
from tests.helpers import skip_without_half

from vknn import Session, formats, verify
from vknn.errors import ModelFormatError, ShapeError
from vknn.graph import TensorType

#: Layers with the shapes of their inputs.
LAYERS: dict[str, tuple[tuple[int, ...], ...]] = {
    "GridSample 0=3 1=3": ((5, 6, 7), (4, 3, 2)),
    "GridSample 1=2 3=1": ((3, 4, 6, 7), (3, 2, 4, 3)),
    "Interp 0=3 1=1.7 2=0.6": ((5, 6, 7),),
    "Interp 0=2 2=2.0": ((5, 7),),
    "Interp 0=1 3=4 4=5": ((7,),),
    "Pooling 0=1 1=3 2=2": ((5, 6, 7),),
    "Pooling 0=0 7=1 8=-233 18=3": ((5, 6, 7),),
    "Pooling1D 0=1 1=3 2=2 5=2": ((5, 7),),
    "Pooling3D 0=0 1=2 2=2": ((3, 4, 6, 7),),
    "Pooling3D 0=1 4=1": ((3, 4, 6, 7),),
    "SPP 0=0 1=3": ((5, 6, 7),),
    "Unfold 1=3 4=1 18=0.5": ((5, 6, 7),),
    "Fold 1=2 20=7 21=6": ((12, 30),),
    "ROIPooling 0=3 1=2": ((5, 6, 7), (4,)),
    "ROIAlign 0=3 1=2 5=1": ((5, 6, 7), (4,)),
    "PSROIPooling 0=2 1=2 2=0.5 3=3": ((12, 6, 7), (4,)),
    "PriorBox -23300=2,3.0,5.0 -23302=1,2.0 9=-233 10=-233": ((5, 6, 7), (3, 60, 70)),
    "PriorBox -23300=2,0.3,0.5 -23302=2,1.0,2.0 9=-233 10=-233": ((5, 60, 70),),
    "DetectionOutput 0=3 4=-3.0": ((40,), (30,), (2, 40)),
    "DetectionOutput 0=-233 4=-3.0": ((40,), (3, 10), (10, 4)),
    "YoloDetectionOutput 0=3 1=2 2=0.05 -23304=4,1.0,2.0,3.0,4.0": ((16, 4, 5),),
    "Proposal 5=1": ((18, 3, 4), (36, 3, 4), (3,)),
}


def layer_net(path: Path, line: str, count: int, tops: str = "y") -> Path:
    type_, *parameters = line.split()
    names = " ".join(f"x{i}" for i in range(count))
    layer = f"{type_} l {count} {len(tops.split())} {names} {tops} {' '.join(parameters)}"
    param = path / "net.param"
    param.write_text(net(*(f"Input i{i} 0 1 x{i}" for i in range(count)), layer))
    param.with_suffix(".bin").write_bytes(b"")
    return param


def feeds(shapes: tuple[tuple[int, ...], ...]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(4)
    found = {f"x{i}": random.standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)}
    if shapes[-1] in ((3,), (4,)):  # an image's size, a region
        found[f"x{len(shapes) - 1}"] = np.array([1.0, 1.5, 60.0, 70.0][-shapes[-1][0] :], "f4")
    return found


@pytest.mark.device
@pytest.mark.parametrize("line", LAYERS, ids=lambda line: line.split()[0])
def test_all_of_it_runs_on_the_device(line: str, tmp_path: Path) -> None:
    path = layer_net(tmp_path, line, len(LAYERS[line]))
    arrays = feeds(LAYERS[line])
    with Session(path) as session, Session(path, device="numpy") as reference:
        (y,) = session.run(arrays).values()
        (want,) = reference.run(arrays).values()
        assert set(session.placement.values()) <= {"vulkan"}
    assert y.shape == want.shape
    np.testing.assert_allclose(y, want, atol=2e-5 * max(1.0, float(np.abs(want).max(initial=0))))


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("line", LAYERS, ids=lambda line: line.split()[0])
def test_verify_agrees(line: str, precision: str, tmp_path: Path) -> None:
    if precision == "fp16":
        skip_without_half()
    path = layer_net(tmp_path, line, len(LAYERS[line]))
    report = verify(path, feeds(LAYERS[line]), precision=precision)
    assert report.ok, report


REFUSED = [
    ("GridSample 0=3", ((3, 4, 6, 7), (2, 4, 3, 3)), "bicubic"),
    ("GridSample", ((5, 6, 7), (4, 3, 3)), r"grid should be \(height, width, 2\)"),
    ("GridSample 3=1", ((5, 6, 7), (4, 3, 2)), r"grid should be \(2, height, width\)"),
    ("GridSample", ((6, 7), (4, 3, 2)), "three or four axes"),
    ("Interp 0=1 3=2 4=2", ((3, 4, 6, 7),), "up to three axes"),
    ("Pooling1D 1=3", ((5, 6, 7),), "at most two axes"),
    ("Pooling3D 1=7 21=7 5=1", ((3, 4, 6, 7),), "larger than the padded input"),
    ("Pooling3D 1=2 2=2", ((4, 6, 7),), "no depth to be padded"),
    ("Pooling 0=1 1=3 11=1 3=1", ((9,),), "pads axes that its input lacks"),
    ("Pooling 0=1 1=3 3=1 5=2", ((9,),), "larger than the padded input"),
    ("Deconvolution1D 3=2147483647 28=1 4=-233 20=6", ((3, 4), (3, 2, 4)), "absurdly large"),
    ("Unfold 1=3 4=1", ((9,),), "larger than the padded input"),
    ("Unfold 1=9", ((5, 6, 7),), "larger than the padded input"),
    ("Fold 1=2 20=7 21=6", ((12, 31),), "should be"),
    ("Fold 1=2 20=7 21=6", ((13, 30),), "13"),
    ("Fold 1=2 20=7 21=6", ((3, 12, 30),), "two axes"),
    ("ROIPooling 0=3 1=2", ((5, 6, 7), (3,)), "four values, not 3"),
    ("PSROIPooling 0=2 1=2 3=3", ((11, 6, 7), (4,)), "takes 12 channels"),
    ("PSROIPooling 0=2 1=2", ((12, 6, 7), (4,)), "takes 0 channels"),
    ("PriorBox -23300=1,3.0 9=-233", ((5, 6, 7),), "second input"),
    ("PriorBox -23300=1,3.0", ((5, 6, 7),), "the image would be 0 x 0"),
    ("PriorBox -23300=1,3.0 9=-233 10=-233", ((5, 6, 7),), "aspect_ratios"),
    ("DetectionOutput 0=3", ((40,), (30,), (80,)), "two axes"),
    ("DetectionOutput 0=3", ((40,), (31,), (2, 40)), "31 confidences for 10 boxes"),
    ("DetectionOutput 0=3", ((44,), (30,), (2, 40)), "44 locations for 10 boxes"),
    ("DetectionOutput 0=3", ((40,), (30,), (1, 40)), "priors should be"),
    ("DetectionOutput 0=-233", ((40,), (3, 10), (2, 40)), r"\(boxes, 4\)"),
    ("DetectionOutput 0=-233", ((40,), (3, 11), (10, 4)), r"\(classes, 10\)"),
    ("YoloDetectionOutput 0=3 1=2 -23304=3,1.0,2.0,3.0", ((16, 4, 5),), "biases"),
    ("YoloDetectionOutput 0=3 1=2 -23304=4,1.0,2.0,3.0,4.0", ((15, 4, 5),), r"takes \(16, h, w\)"),
    ("Proposal", ((18, 3, 4), (36, 3, 5), (3,)), r"takes \(18, h, w\)"),
    ("Proposal", ((18, 3, 4), (36, 3, 4), (2,)), "three values, not 2"),
]


@pytest.mark.parametrize(("line", "shapes", "message"), REFUSED, ids=range(len(REFUSED)))
def test_inputs_that_do_not_suit(
    line: str, shapes: tuple[tuple[int, ...], ...], message: str, tmp_path: Path
) -> None:
    model = formats.load(layer_net(tmp_path, line, len(shapes)))
    with pytest.raises(ShapeError, match=rf"layer 'l' \({line.split()[0]}\).*{message}"):
        model.build({f"x{i}": TensorType(s) for i, s in enumerate(shapes)})


MALFORMED = [
    ("GridSample 0=4", 2, "sample_type 4"),
    ("GridSample 1=0", 2, "padding_mode 0"),
    ("GridSample", 1, "GridSample"),
    ("Pooling1D 7=1 8=-233", 1, "adaptive output size"),
    ("Pooling1D 1=0", 1, "kernel"),
    ("Pooling3D 1=2 22=0", 1, "stride"),
    ("Pooling3D 1=2 16=-1", 1, "negative padding"),
    ("Pooling 0=2 1=2", 1, "pooling type 2"),
    ("SPP 1=40", 1, "pyramid_height 40"),
    ("Unfold 1=3 3=0", 1, "stride"),
    ("Unfold 1=3 4=-1 14=2", 1, "negative padding"),
    ("Fold 1=3 4=-233 20=5", 1, "negative padding"),
    ("Fold 1=3", 1, "output_h and output_w"),
    ("ROIPooling 0=3", 2, "pooled_height"),
    ("ROIAlign 0=3 1=3 5=2", 2, "version 2"),
    ("PriorBox", 1, "min_sizes"),
    ("PriorBox -23300=2,1.0,2.0 -23301=1,3.0", 1, "1 max_sizes for 2"),
    ("PriorBox -23300=1,1.0 -23302=1,-3.0", 1, "aspect_ratios"),
    ("DetectionOutput", 3, "num_class 0"),
    ("DetectionOutput 0=3 2=-1", 3, "negative"),
    ("Proposal 3=-1", 3, "negative"),
    ("Proposal 1=0", 3, "base_size 0"),
]


@pytest.mark.parametrize(("line", "count", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_parameters_that_no_input_suits(
    line: str, count: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelFormatError, match=message):
        formats.load(layer_net(tmp_path, line, count))
