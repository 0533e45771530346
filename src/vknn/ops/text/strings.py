"""StringConcat, StringSplit and StringNormalizer, on text that lives on the host."""

from __future__ import annotations

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, broadcast, require

_ACTIONS = ("NONE", "LOWER", "UPPER")


def _check_strings(op: Op, *types: TensorType) -> None:
    for type_ in types:
        require(type_.dtype is DType.STRING, f"{op.type_name}: takes strings, not {type_}")


def _text(found: object) -> str:
    return found.decode("utf-8", "surrogateescape") if isinstance(found, bytes) else str(found)


@attributes
class StringConcat(Op):
    """a followed by b, which broadcast by NumPy's rules."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        a, b = arguments(self, inputs, 2)
        _check_strings(self, a, b)
        return (a.with_shape(broadcast(self, a.shape, b.shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        a, b = np.broadcast_arrays(*arguments(self, inputs, 2))
        joined = np.empty(a.shape, object)
        for place, text in np.ndenumerate(a):
            joined[place] = bytes(text) + bytes(b[place])
        return (joined,)


@attributes
class StringSplit(Op):
    """Parts of strings, and how many there are: x [...] -> [..., n], int64 [...].

    ``delimiter``: what stands between parts; "": white space, of which none is part of a part.
    ``maxsplit``: splits at most, from the left; below 0: any number. n is the largest number of
    parts, which depends on data; what lacks parts has "" instead.
    """

    delimiter: str = ""
    maxsplit: int = -1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        _check_strings(self, x)
        return x.with_shape((*x.shape, None)), x.with_dtype(DType.INT64)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        parts = []
        for item in x.reshape(-1):
            run_limits.check()
            text = _text(item) if self.delimiter else _text(item).rstrip()
            parts.append(text.split(self.delimiter or None, self.maxsplit))
        counts = np.asarray([len(found) for found in parts], np.int64)
        made = np.empty((len(parts), int(counts.max(initial=0))), object)
        made[...] = b""
        for row, found in enumerate(parts):
            run_limits.check()
            for column, text in enumerate(found):
                made[row, column] = text.encode("utf-8", "surrogateescape")
        return made.reshape(*x.shape, made.shape[1]), counts.reshape(x.shape)


@attributes
class StringNormalizer(Op):
    """The strings of a vector that are none of ``stopwords``, in lower or upper case: [n].

    ``action``: "LOWER", "UPPER" or "NONE". Unless ``sensitive`` case does not count in comparisons
    with stop words. Letters change one by one, as C's functions change them. n depends on data;
    where nothing is left there is one empty string.
    """

    stopwords: tuple[str, ...] = ()
    action: str = "NONE"
    sensitive: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        _check_strings(self, x)
        require(x.rank == 1, f"StringNormalizer: takes a vector, not {x}")
        require(self.action in _ACTIONS, f"StringNormalizer: no action {self.action!r}")
        return (x if not self.stopwords and x.shape != (0,) else x.with_shape((None,)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        compared = "NONE" if self.sensitive else "UPPER" if self.action == "UPPER" else "LOWER"
        stops = {changed(word, compared) for word in self.stopwords}
        texts = [_text(item) for item in x]
        kept = [text for text in texts if changed(text, compared) not in stops] or [""]
        made = np.empty(len(kept), object)
        made[:] = [changed(text, self.action).encode("utf-8", "surrogateescape") for text in kept]
        return (made,)


def changed(text: str, action: str) -> str:
    """A text in "LOWER" or "UPPER" case, each letter becoming one letter; "NONE": as it is."""
    if action == "NONE":
        return text
    if text.isascii():
        return text.lower() if action == "LOWER" else text.upper()
    return "".join(_lower(c) if action == "LOWER" else _upper(c) for c in text)


def _lower(letter: str) -> str:
    return letter.lower()[0]


def _upper(letter: str) -> str:
    return next((t for t in (letter.upper(), letter.title()) if len(t) == 1), letter)
