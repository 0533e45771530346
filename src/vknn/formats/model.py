"""Base class of the models that formats load: a graph is built for concrete input shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from vknn.errors import InputError, VknnError
from vknn.graph import Graph, TensorType


@dataclass(frozen=True)
class BoxOutputs:
    """Outputs that are the boxes a model has found, without doubles.

    Attributes:
        boxes: The output [n, 4] with centre x and y, width and height, in fractions of the picture.
        scores: The output [n, classes].
        labels: Names of the classes; empty where the model has none.
    """

    boxes: str
    scores: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorSpec:
    """An input or output as the user sees it.

    Attributes:
        name: Its name in ``feeds`` and results.
        shape: Sizes of its axes; where one is free, the name that the file has for it (ONNX), or
            None; None as a whole where any shape will do.
        dtype: Its element type, a NumPy dtype: object where elements are strings.
        hint: The shape that the file suggests, or which it says where nothing is free; None where
            it suggests none, and of outputs.
    """

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype
    hint: tuple[int, ...] | None = None

    @property
    def sizes(self) -> tuple[int | None, ...] | None:
        """The shape with None wherever a size is free."""
        if self.shape is None:
            return None
        return tuple(size if isinstance(size, int) else None for size in self.shape)

    @property
    def fixed(self) -> tuple[int, ...] | None:
        """The shape where nothing of it is free, else None."""
        if self.shape is None:
            return None
        known = tuple(size for size in self.shape if isinstance(size, int))
        return known if len(known) == len(self.shape) else None

    @property
    def dtype_name(self) -> str:
        """Name of the dtype as it is printed; "string" for object arrays of bytes."""
        return "string" if self.dtype == object else self.dtype.name


class Model(ABC):
    """A model that was read and checked. Its weights stay in the file until a graph is built.

    Formats add what only their files have, such as TensorFlow Lite's ``metadata``.
    """

    #: The file as errors name it, where it was read from one.
    file: str | None = None
    #: Inputs in the format's own order, names, shapes and dtypes.
    inputs: tuple[TensorSpec, ...]
    #: Outputs, likewise.
    outputs: tuple[TensorSpec, ...]
    #: Inputs on whose data shapes depend: :meth:`build` makes constants of their arrays.
    value_inputs: frozenset[str] = frozenset()
    #: Inputs that are lists of arrays.
    sequences: frozenset[str] = frozenset()
    #: Inputs whose values :meth:`encode` checks even where they have the graph's dtype.
    range_checked: frozenset[str] = frozenset()
    #: Outputs of the graph of whose data :meth:`decode` or :meth:`results` make something else.
    host_outputs: frozenset[str] = frozenset()
    #: Shapes that the file suggests for inputs whose shape is free; tools use them by default.
    shape_hints: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    #: Inputs that are images, height x width or height x width x 3 in RGB, values 0 to 255.
    images: frozenset[str] = frozenset()
    #: Outputs that are images, likewise.
    output_images: frozenset[str] = frozenset()
    #: Outputs that are dictionaries, from the labels of classes to their scores.
    class_scores: frozenset[str] = frozenset()
    #: Outputs that are boxes and their scores; None where the model does not say so.
    boxes: BoxOutputs | None = None
    #: Inputs that are one number and may be left out -> the number that they have then.
    defaults: Mapping[str, float] = MappingProxyType({})
    #: Arrays by input that the model brings along; tools take them where none are given.
    recorded: Mapping[str, np.ndarray] = MappingProxyType({})
    #: Scale and zero point by output, where it holds quantized integers. They stand for the real
    #: numbers scale * (stored - zero point).
    quantization: Mapping[str, tuple[float, int]] = MappingProxyType({})
    #: The same by input.
    input_quantization: Mapping[str, tuple[float, int]] = MappingProxyType({})
    #: What the format's axes are, by the number of these: a letter each, "NHWC" as in ONNX's and
    #: OpenVINO's names of layouts; none where the format gives them no meaning.
    axis_letters: Mapping[int, str] = MappingProxyType({})
    #: Whether its casts of floats make NaN the largest integer, else 0.
    nan_to_most: bool = False
    #: Labels of the classes by the graph's output that has their scores.
    class_labels: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    #: State kept between runs: graph inputs whose new values are graph outputs of the same names.
    #: They are not among ``inputs`` and ``outputs``.
    state: Mapping[str, TensorType] = MappingProxyType({})
    #: The types of the file's layers, one entry per layer, those of inner bodies included.
    layer_types: tuple[str, ...] = ()
    #: State -> the number that it is filled with at first; 0 for states that are not listed.
    first_state: Mapping[str, int] = MappingProxyType({})

    #: What may be run by other names than those of ``inputs`` and ``outputs``, by key: objects with
    #: ``inputs`` and ``outputs``, name -> name of the tensor (TensorFlow Lite).
    signatures: Mapping[str, Any] = MappingProxyType({})
    #: Names of further state, which has no value at first, and whose type may change with each run:
    #: inputs of the graph where :meth:`build` is given their types, outputs where it assigns them.
    #: Each with what errors call it; nothing where it is none of the file's own.
    variables: Mapping[str, str] = MappingProxyType({})

    @property
    def keeps_state(self) -> bool:
        """Whether a run may depend on the one before it."""
        return bool(self.state or self.variables)

    def of_signature(self, key: str) -> Model:
        """The model by another of its signatures: its own inputs and outputs, shared state.

        Raises InputError where there is none of that name, ModelFormatError where it is damaged.
        """
        raise InputError(
            f"there is no signature {key!r}: only TensorFlow Lite models have signatures; leave "
            "signature out"
        )

    def complete(self, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        """``feeds`` of a run as arrays, with the defaults of optional inputs that were left out.

        Formats override this where inputs may be something else than arrays, such as images.
        """
        return feeds

    def results(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The user's results for the decoded outputs of the graph, by name."""
        return dict(arrays)

    @abstractmethod
    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """The graph for inputs of these types, which are the user's own (before ``encode``).

        ``types`` has those of the ``variables`` that have a value, too. ``values``: the user's
        arrays for ``value_inputs``. Raises InputError for names or types that do not fit and
        ShapeError, naming the layer, where shapes contradict the model.
        """

    @abstractmethod
    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array that the graph takes for the user's array of an input. Raises InputError.

        Only the shape of an array that has the graph's dtype is checked, unless the input is in
        ``range_checked``.
        """

    @abstractmethod
    def decode(self, name: str, array: np.ndarray) -> Any:
        """The user's array for an output array of the graph."""

    def decode_blob(self, array: np.ndarray) -> np.ndarray:
        """The user's array for a value of the graph that is no output."""
        return array

    def save(self, path: Path) -> None:
        """The model written to a file in its own format, with its present weights.

        Args:
            path: The file, which is replaced where it exists.

        Raises:
            vknn.VknnError: vknn does not write this format; it does Core ML's.
        """
        raise VknnError("only Core ML models can be written")

    def check_names(self, given: Mapping[str, object]) -> None:
        """Check: InputError, naming them, for inputs that ``given`` lacks and for unknown names."""
        known = {spec.name for spec in self.inputs}
        if given.keys() == known:
            return
        missing = [spec.name for spec in self.inputs if spec.name not in given]
        unknown = [name for name in given if name not in known]
        problems = [f"missing input {name!r}" for name in missing]
        problems += [f"unknown input {name!r}" for name in unknown]
        names = ", ".join(repr(spec.name) for spec in self.inputs) or "none"
        raise InputError(f"{'; '.join(problems)} (the model's inputs: {names})")
