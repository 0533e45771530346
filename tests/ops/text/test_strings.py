"""Strings: parts, stop words, cases, n-grams, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import f32, refuses
from vknn.graph import DType, TensorType
from vknn.ops.text.ngrams import TfIdfVectorizer
from vknn.ops.text.strings import StringConcat, StringNormalizer, StringSplit, changed


def texts(*items: str) -> np.ndarray:
    made = np.empty(len(items), object)
    made[:] = [item.encode() for item in items]
    return made


def test_concatenation() -> None:
    (y,) = StringConcat().reference(texts("a", "né"), texts("!"))
    assert y.tolist() == [b"a!", "né!".encode()]
    refuses(StringConcat(), TensorType((2,), DType.STRING), f32(2), match="takes strings")


@pytest.mark.parametrize(
    ("op", "text", "parts"),
    [
        (StringSplit(), " a\tb  c ", ["a", "b", "c"]),
        (StringSplit(), " \n", []),
        (StringSplit(","), "a,,b", ["a", "", "b"]),
        (StringSplit(","), "", [""]),
        (StringSplit(maxsplit=1), " a  b c", ["a", "b c"]),
        (StringSplit(",", 1), "a,b,c", ["a", "b,c"]),
        (StringSplit("--"), "a--b---c", ["a", "b", "-c"]),
    ],
)
def test_parts(op: StringSplit, text: str, parts: list[str]) -> None:
    y, counts = op.reference(texts(text, "xx").reshape(1, 2))
    wide = max(len(parts), 1)
    assert y.shape == (1, 2, wide) and counts.tolist() == [[len(parts), 1]]
    assert [t.decode() for t in y[0, 0]] == parts + [""] * (wide - len(parts))


def test_no_strings_have_no_parts() -> None:
    y, counts = StringSplit().reference(np.empty((0, 3), object))
    assert y.shape == (0, 3, 0) and counts.shape == (0, 3)


def test_normalization() -> None:
    x = texts("Monday", "tuesday", "ÉTÉ")
    found = {
        op: [t.decode() for t in op.reference(x)[0]]
        for op in (
            StringNormalizer(("monday",)),
            StringNormalizer(("monday",), sensitive=True),
            StringNormalizer(("été",), "UPPER"),
            StringNormalizer(("MONDAY", "Tuesday", "été")),
            StringNormalizer((), "LOWER"),
        )
    }
    assert list(found.values()) == [
        ["tuesday", "ÉTÉ"], ["Monday", "tuesday", "ÉTÉ"], ["MONDAY", "TUESDAY"], [""],
        ["monday", "tuesday", "été"],
    ]  # fmt: skip


def test_letters_change_one_by_one() -> None:
    assert changed("straße ŉ ǆ", "UPPER") == "STRAßE ŉ Ǆ"
    assert changed("İÀ", "LOWER") == "ià"


def test_ngrams() -> None:
    """The example of ONNX's documentation of TfIdfVectorizer: pool of 4 words and 3 pairs."""
    pool, begins, columns = (2, 3, 5, 4, 5, 6, 7, 8, 6, 7), (0, 4), (0, 1, 2, 3, 4, 5, 6)
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)

    def found(least: int, most: int, skips: int, mode: str = "TF", **more: object) -> list[object]:
        op = TfIdfVectorizer(pool, begins, columns, least, most, skips, mode, **more)  # type: ignore[arg-type]
        assert op.infer(TensorType.of(x)) == (TensorType((2, 7)),)
        return op.reference(x)[0].tolist()

    assert found(2, 2, 0) == [[0] * 7, [0, 0, 0, 0, 1, 0, 1]]
    assert found(1, 2, 0)[0] == [0, 3, 0, 0, 0, 0, 0]
    assert found(2, 2, 5) == [[0] * 7, [0, 0, 0, 0, 1, 1, 1]]
    weights = (0.5, 2.0, 1.0, 1.0, 4.0, 8.0, 16.0)
    assert found(1, 2, 5, "TFIDF", weights=weights)[0] == [0, 6, 0, 0, 0, 0, 0]
    assert found(1, 2, 5, "IDF", weights=weights)[1] == [0, 0, 1, 0, 4, 8, 16]


def test_weights_belong_to_ngrams_not_to_columns() -> None:
    op = TfIdfVectorizer((b"a", b"b"), (0,), (1, 0), 1, 1, 0, "IDF", (2.0, 3.0))
    assert op.reference(texts("a"))[0].tolist() == [0, 2]


def test_ngrams_refused() -> None:
    words = TensorType((4,), DType.STRING)
    refuses(TfIdfVectorizer((1, 2), (0,), (0,), 1, 1, 0), words, match="columns for")
    refuses(TfIdfVectorizer((1, 2, 3), (0, 0), (0,), 2, 2, 0), words, match="no n-grams of 2")
    refuses(TfIdfVectorizer((1,), (0,), (0,), 1, 2, 0), words, match="no n-grams of 2")
    refuses(TfIdfVectorizer((1,), (0,), (0,), 1, 1, 0), f32(3), match="takes rows of items")


def test_ngrams_and_skips_far_longer_than_a_row() -> None:
    far = 1 << 40
    op = TfIdfVectorizer((1, 2), (0, 0), (0,), 2, 2, far)
    (found,) = op.reference(np.array([1, 5, 2], np.int64))
    assert found.tolist() == [1.0]
    (found,) = TfIdfVectorizer((1,), (0,), (0,), 1, far, 0).reference(np.array([1], np.int64))
    assert found.tolist() == [1.0]
