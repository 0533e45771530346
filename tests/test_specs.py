"""Inputs and outputs of sessions as users see them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net

import vknn
from vknn.graph import DType


def test_dtypes_are_those_of_numpy(tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device="numpy") as session:
        (spec,) = session.inputs
        assert isinstance(spec.dtype, np.dtype)
        assert spec.dtype == np.float32
        assert spec.dtype_name == "float32"
        results = session.run({spec.name: np.zeros(SHAPE, spec.dtype)})
        assert [results[s.name].dtype for s in session.outputs] == [
            s.dtype for s in session.outputs
        ]


def test_names_that_are_no_words(tmp_path: Path) -> None:
    net = Net()
    net.inputs = [net.tensor("a\n\x1b[31m<b>é", (2,))]
    net.outputs = [net.tensor("<script>&", (2,))]
    net.add("NEG", net.inputs, net.outputs)
    path = tmp_path / "we<i>rd\n.tflite"
    path.write_bytes(net.file())
    with vknn.Session(path, device="numpy") as session:
        text = (
            r"we<i>rd\n.tflite: a\n\x1b[31m<b>é float32[2] -> <script>& float32[2], fp32 on NumPy"
        )
        assert repr(session) == f"<vknn.Session {text}>"
        view = session._repr_html_()
        assert "<td>a\n\x1b[31m&lt;b&gt;é</td>" in view and "<td>&lt;script&gt;&amp;</td>" in view
        assert "<b>we&lt;i&gt;rd\n.tflite</b>" in view
        (tensor,) = session.run(np.ones(2), on_device=True).values()
        assert repr(tensor) == "<vknn.DeviceTensor <script>& float32[2] in the host's memory>"


def test_numpy_takes_element_types() -> None:
    for dtype in DType:
        assert np.dtype(dtype) == dtype.numpy
        assert np.zeros(2, dtype).dtype == dtype.numpy
