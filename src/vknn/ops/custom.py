"""Custom: a user's own operator, by Python functions and on the device by a GLSL shader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import ShapeError, VknnError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import require

Options = Mapping[Any, Any]
Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Shader:
    """Compute shader of a layer of one's own, see :func:`vknn.register_layer`.

    Its bindings are the inputs, then the weights, then the outputs, from 0 on, in set 0. The
    functions are given the shapes of inputs and outputs, and the layer's options.

    Attributes:
        glsl: The text of the shader. It may include the files of ``shaders/common``.
        push: ``push(inputs, outputs, options)`` gives the push constants, ints as int32 and floats
            as float32, in order, 128 bytes at the most; by default one int, the number of elements
            of the first output.
        lanes: ``lanes(inputs, outputs, options)`` gives the number of lanes that are needed, in
            workgroups of a size that suits the device; by default the number of elements of the
            first output.
        groups: ``groups(inputs, outputs, options)`` gives, in place of ``lanes``, the number of
            workgroups along x, y and z.
        local: The size of each of these workgroups.
    """

    glsl: str
    push: Callable[[Shapes, Shapes, Options], Sequence[int | float]] | None = None
    lanes: Callable[[Shapes, Shapes, Options], int] | None = None
    groups: Callable[[Shapes, Shapes, Options], tuple[int, int, int]] | None = None
    local: tuple[int, int, int] = (64, 1, 1)

    def knows(self, precision: str) -> bool:
        """True where it reads its tensors by the macros, or looks at HALF or BF16 itself.

        Only such a shader runs in precision "fp16" or "bf16".
        """
        define = "BF16" if precision == "bf16" else "HALF"
        return "common/tensor.glsl" in self.glsl or define in self.glsl


@dataclass(frozen=True, eq=False)
class CustomLayer:
    """Layer type of the user's, made by :func:`vknn.register_layer`."""

    format: str
    name: str
    shape: Callable[[Shapes, Options], Any]
    compute: Callable[[Sequence[np.ndarray], Mapping[str, np.ndarray], Options], Any]
    shader: Shader | None = None
    dtype: DType = DType.FLOAT32

    def __repr__(self) -> str:
        return f"<{self.format} layer {self.name}>"


@attributes
class Custom(Op):
    """A layer type that the user registered. Inputs: the layer's own, then its weights.

    ``weights`` are the names of the latter, ``options`` pairs of a parameter and its value.
    """

    layer: CustomLayer
    options: tuple[tuple[Any, Any], ...] = ()
    weights: tuple[str, ...] = ()
    outputs: int = 1

    any_thread = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        types = [t for t in inputs if t is not None]
        require(len(types) == len(inputs) >= len(self.weights), f"{self._who}: an input is missing")
        if not all(t.is_static for t in types):
            raise ShapeError(f"{self._who}: shapes that depend on data are not supported")
        own = [t.dims for t in types[: len(types) - len(self.weights)]]
        try:
            given = self.layer.shape(own, dict(self.options))
            shapes = _as_shapes(given)
        except VknnError:
            raise
        except Exception as error:
            raise ShapeError(f"{self._who}: its shape rule failed: {_text(error)}") from error
        require(
            len(shapes) == self.outputs,
            f"{self._who}: its shape rule gives {len(shapes)} shapes for {self.outputs} outputs",
        )
        return tuple(TensorType(s, self.layer.dtype) for s in shapes)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        arrays = [np.asarray(x) for x in inputs if x is not None]
        count = len(arrays) - len(self.weights)
        weights = dict(zip(self.weights, arrays[count:], strict=True))
        try:
            given = self.layer.compute(arrays[:count], weights, dict(self.options))
            listed = given if isinstance(given, (list, tuple)) else [given]
            results = tuple(np.asarray(y, self.layer.dtype.numpy) for y in listed)
        except VknnError:
            raise
        except Exception as error:
            message = f"{self._who}: its NumPy function failed: {_text(error)}"
            raise VknnError(message) from error
        wanted = [t.dims for t in self.infer(*(TensorType.of(a) for a in arrays))]
        shapes = [y.shape for y in results]
        if shapes != wanted:
            raise VknnError(
                f"{self._who}: its NumPy function gives {shapes}, its shape rule says {wanted}"
            )
        return results

    @property
    def type_name(self) -> str:
        """The name that the user gave it."""
        return self.layer.name

    @property
    def _who(self) -> str:
        return f"custom layer {self.layer.name}"


def _as_shapes(given: Any) -> list[tuple[int, ...]]:
    """One shape or a list of shapes, as a list."""
    listed = [given] if all(isinstance(n, (int, np.integer)) for n in given) else list(given)
    shapes = [tuple(int(n) for n in shape) for shape in listed]
    if any(n < 0 for shape in shapes for n in shape):
        raise ValueError(f"a negative size in {shapes}")
    return shapes


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
