"""Inputs and outputs of sessions as users see them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.small_model import SHAPE, write_small_model

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


def test_numpy_takes_element_types() -> None:
    for dtype in DType:
        assert np.dtype(dtype) == dtype.numpy
        assert np.zeros(2, dtype).dtype == dtype.numpy
