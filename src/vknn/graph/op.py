"""Op: the abstract operator."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vknn import run_limits
from vknn.graph.attributes import Attributes
from vknn.graph.types import TensorType

#: Elements of inputs and results from which on an op may take long in one call of NumPy: a second
#: thread takes some 100 microseconds, and of so many the slowest call a few tenths of a second.
MANY = 1 << 20


@dataclass(frozen=True)
class Fusion:
    """Fusion of elementwise steps, an epilogue, with an op (:class:`vknn.ops.elementwise.Fused`).

    ``operands``: extra tensors that the steps may read. ``channel_axis``: output axis along which
    such a tensor may be a vector (None: it has the shape of the output).
    """

    operands: int = 1
    channel_axis: int | None = None


class Op(Attributes, ABC):
    """An operator: a frozen dataclass of typed attributes (see ``attributes``).

    Absent optional inputs are None, in ``infer`` and in ``reference``. ``infer`` raises ShapeError
    for inputs that do not fit; a dimension of its result is None where it depends on data.
    """

    #: None: the op takes no epilogue.
    fusion: ClassVar[Fusion | None] = None
    #: Whether its sums are exact in float32, and have to be: no kernel may round them on the way.
    exact_sums: ClassVar[bool] = False
    #: False: two runs on the same inputs may differ (random ops, state); never folded.
    deterministic: ClassVar[bool] = True
    #: False: ``reference`` calls a user's function, which may count on the thread that it is in.
    any_thread: ClassVar[bool] = True

    @abstractmethod
    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Types of the outputs from the types of the inputs."""

    @abstractmethod
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """The outputs, computed with NumPy: the meaning of the op."""

    def computed(
        self, inputs: Sequence[np.ndarray | None], elements: int
    ) -> tuple[np.ndarray, ...]:
        """Results of ``reference`` for these inputs; ends with the thread's run (``run_limits``).

        ``elements``: of the results, as far as they are known.
        """

        def compute() -> tuple[np.ndarray, ...]:
            with np.errstate(all="ignore"):  # infinities and NaN are results like others
                return tuple(np.asarray(r) for r in self.reference(*inputs))

        given = [x for x in inputs if x is not None]
        many = elements + sum(x.size for x in given) > MANY
        long = self.any_thread and (many or any(x.dtype.hasobject for x in given))
        return run_limits.waited(compute) if long else compute()

    def bound(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Largest possible types of the outputs where ``infer`` leaves dimensions open.

        Only the leading dimension may be open; the device writes at most this many rows and their
        count. Ops whose shapes do not depend on data need not override it.
        """
        return self.infer(*inputs)

    @property
    def type_name(self) -> str:
        """Name shown in tables: the class name, ONNX's where ONNX has the op."""
        return type(self).__name__

    def attributes(self) -> dict[str, Any]:
        """Attributes by name, in order of declaration."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


def op_classes(base: type[Op] = Op) -> Iterator[type[Op]]:
    """Every concrete op class that has been imported, each once."""
    found: dict[type[Op], None] = {}
    _collect(base, found)
    yield from found


def _collect(base: type[Op], found: dict[type[Op], None]) -> None:
    for cls in base.__subclasses__():
        _collect(cls, found)
        if not getattr(cls, "__abstractmethods__", None) and not cls.__name__.startswith("_"):
            found[cls] = None
