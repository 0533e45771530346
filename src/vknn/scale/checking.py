"""Checks of devices: what a session computed, held against NumPy."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from vknn import forks
from vknn.crosscheck import output_errors, verify
from vknn.errors import VknnError
from vknn.scale.options import Predictor
from vknn.session import Session


class WrongDeviceError(VknnError):
    """A device computed something that NumPy does not agree with."""


@dataclass(frozen=True)
class Check:
    """Comparison of a record's outputs with NumPy's.

    Attributes:
        ok: Whether they are within the tolerances of :func:`vknn.verify`.
        error: The largest error, as a multiple of what is allowed.
        text: What is wrong; empty where nothing is.
    """

    ok: bool
    error: float = 0.0
    text: str = ""


class Checker:
    """The reference of a predictor: it computes records with NumPy and compares. Thread-safe."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._lock = threading.Lock()
        forks.renew(self)
        self._reference: Session | None = None

    def expected(self, feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The outputs by NumPy."""
        with self._lock:
            if self._reference is None:
                own = self._predictor
                self._reference = Session(own.model, own.weights, device="numpy")
            self._reference.reset_state()
            return self._reference.run(feeds)

    def check(
        self,
        session: Session,
        feeds: Mapping[str, np.ndarray],
        outputs: Mapping[str, Any],
        expected: Mapping[str, Any] | None = None,
        again: Callable[[Mapping[str, np.ndarray]], Mapping[str, Any]] | None = None,
    ) -> Check:
        """Comparison of what a session computed with NumPy.

        What is beyond a share of the outputs' range is looked into operator by operator, as
        :func:`vknn.verify` does, whose tolerances then decide; the session must give the same
        numbers again for that. ``expected``: NumPy's outputs, where they are known. ``again``: what
        computes a record as the outputs were; by default the session.
        """
        if session.device is None:
            return Check(True)
        right = self.expected(feeds) if expected is None else expected
        errors = output_errors(session, outputs, right)
        largest = max((e for _, e in errors), default=0.0)
        if largest <= 1.0:
            return Check(True, largest)
        worst = max(errors, key=lambda pair: pair[1])
        text = f"output {worst[0]!r} is off by {worst[1]:.3g} times what is allowed"
        if session.model.keeps_state:  # another thread may be at work with it
            return Check(False, largest, text)
        try:
            report = verify(session, feeds)
            found = (session.run if again is None else again)(feeds)
        except VknnError as error:
            return Check(False, largest, f"{text}; {error}")
        if report.ok and all(_same(outputs[name], found[name]) for name in found):
            return Check(True, 1.0)
        return Check(False, largest, text if report.ok else f"{text}; {report.summary()}")

    def close(self) -> None:
        """Release of the reference; may be called twice."""
        with self._lock:
            if self._reference is not None:
                self._reference.close()
                self._reference = None


def is_sampled(name: Any, share: Fraction | None) -> bool:
    """Whether a record of this id is one of those that NumPy computes, too.

    The id alone decides: the same records are checked wherever they are computed.
    """
    if not share:
        return False
    return zlib.crc32(str(name).encode("utf-8", "surrogateescape")) * share.denominator < (
        share.numerator << 32
    )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return bool(one == other)
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
