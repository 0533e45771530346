"""Einsum against ncnn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image, one_layer

from vknn import formats
from vknn.errors import VknnError
from vknn.graph import TensorType

SIZES = dict(zip("ijklmnop", (3, 5, 4, 2, 7, 6, 1, 8), strict=True))

EQUATIONS = [
    *("ij->i", "ji->i", "ij->ij", "i->i"),
    *("ijk->i", "jik->i", "jki->i", "ikj->ij", "kij->ij", "ijk->ij", "kji->ijk"),
    *("jkli->i", "jkil->i", "jikl->i", "ijkl->i", "iklj->ij", "klij->ij", "kijl->ij", "ijkl->ij"),
    *("ijlk->ijk", "lijk->ijk", "ijkl->ijk", "lkji->ijkl"),
    *("ij,j->i", "k,ijk->ij", "i,j->ij", "i,j,k,l->ijkl", "ijl,ilk->ijk", "ilk,ijl->ijk"),
    *("ik,jkl,il->ij", "imnj,kmln->ijkl", "ij,ij->i", "ij,ij->ij", "ijk,k->ij"),
    *("ikm,jkm->ij", "ij,kl->ij", "i,i,i->i", "kl,ij,lk->ij", "iojp,jpo->ij", "mm,mi->i"),
    *("iij->ij", "iji->ij", "iii->i", "jiji->ij", "ij,k->ij"),
]


def line(equation: str) -> str:
    codes = ",".join(str(ord(letter)) for letter in equation)
    return f"Einsum -23300={len(equation)},{codes}"


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(equation: str, backend: str) -> None:
    terms = equation.split("->")[0].split(",")
    inputs = [image(*(SIZES[x] for x in term), seed=n) for n, term in enumerate(terms)]
    check(line(equation), *inputs, backend=backend)


@pytest.mark.parametrize("size", [1, 7, 32])
def test_trace(size: int, backend: str) -> None:
    check(line("ii"), image(size, size) + np.eye(size, dtype=np.float32), backend=backend)


REFUSED = [
    ("ij", [(3, 4)], "no arrow"),
    ("ij->", [(3, 4)], "should be i"),
    ("ij,jk->ik", [(3, 4), (4, 5)], "should be i"),
    ("ij->m", [(3, 4)], "should be i"),
    ("ab->i", [(3, 4)], "i to x"),
    ("jk->ij", [(3, 4)], "'i'"),
    ("ij,jk->ij", [(3, 4)], "2 inputs"),
    ("ij,jk->ij", [(3, 4), (5, 6)], "'j' is 4 and 5"),
    ("ijk->i", [(3, 4)], "shape"),
]


@pytest.mark.parametrize(("equation", "shapes", "words"), REFUSED, ids=str)
def test_refused(equation: str, shapes: list[tuple[int, ...]], words: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "net.param"
    path.write_text(one_layer(line(equation), len(shapes)))
    path.with_suffix(".bin").write_bytes(b"")
    with pytest.raises(VknnError, match=words):
        formats.load(path).build({f"x{i}": TensorType(s) for i, s in enumerate(shapes)})
