"""Strings as inputs: text and bytes in arrays of any kind, and those that the tools make up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets

import vknn
from vknn.errors import InputError

KEYS = (["a", "é", "0"], [1, 2, 3])


@pytest.mark.parametrize(
    "given",
    [
        ["a", "é", "c", "0"],
        np.array(["a", "é", "c", "0"]),
        np.array(["a", "é", "c", "0"], object),
        np.array([b"a", "é".encode(), b"c", b"0"], object),
        np.array(["a", "é".encode(), "\ud800", b"0"], object),
    ],
    ids=["list", "text", "objects", "bytes", "both"],
)
def test_text_and_bytes_are_the_same(given: Any) -> None:
    with vknn.Session(nets.looked_up([KEYS], nets.STRING).file(), device="numpy") as session:
        assert session.run({"q": given})["found"].tolist() == [1, 2, -1, 3]


@pytest.mark.parametrize("item", [1, None, 2.0, ["a"]])
def test_arrays_of_other_objects_are_no_strings(item: Any) -> None:
    given = np.empty(4, object)
    given[:] = [b"a", b"b", item, b"c"]
    with (
        vknn.Session(nets.looked_up([KEYS], nets.STRING).file(), device="numpy") as session,
        pytest.raises(InputError, match=f"'q' takes strings, not {type(item).__name__}"),
    ):
        session.run({"q": given})


def test_tools_make_up_strings() -> None:
    data = nets.looked_up([KEYS], nets.STRING).file()
    with vknn.Session(data, device="numpy") as session:
        assert vknn.profile(session, runs=1, warmup=0).timings
        assert vknn.verify(session).ok
