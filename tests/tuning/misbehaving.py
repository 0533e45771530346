"""An op whose candidates go wrong in every way; imported by the worker when it unpickles the op."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering import Layout
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers


@dataclass(frozen=True)
class Misbehaving(Op):
    """y = x. ``broken``: the reference fails."""

    broken: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = inputs
        assert x is not None
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = inputs
        if self.broken or x is None:
            raise ArithmeticError("no reference")
        return (x,)


def _copies(emitter: Emitter) -> None:
    source, target = emitter.input(0), emitter.output()
    emitter.copy(source, target, source.nbytes)


def _copies_often(emitter: Emitter) -> None:
    for _ in range(20):
        _copies(emitter)


def _is_wrong(emitter: Emitter) -> None:
    emitter.fill(emitter.output(), 0x3F800000)


def _raises(emitter: Emitter) -> None:
    raise RuntimeError("no such kernel")


def _crashes(emitter: Emitter) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hangs(emitter: Emitter) -> None:
    time.sleep(3600)


EMITTERS: dict[str, Callable[[Emitter], None]] = {
    "crashes": _crashes,
    "hangs": _hangs,
    "often": _copies_often,
    "once": _copies,
    "raises": _raises,
    "wrong": _is_wrong,
}


@lowers(Misbehaving)
def misbehaving(problem: Problem) -> Sequence[Candidate]:
    """The worst first by estimate."""
    return [
        Candidate(name, (Layout.LINEAR,), (Layout.LINEAR,), emit, cost=float(number))
        for number, (name, emit) in enumerate(EMITTERS.items())
    ]
