"""Core ML's suppression of boxes as a :class:`Model`: the last model of object detectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from vknn.errors import InputError, ModelFormatError
from vknn.formats.coreml.box_rows import (
    RowsInput,
    boxes_in,
    classes_in,
    declared_rows,
    rows_output,
)
from vknn.formats.coreml.input_shapes import InputShapes, array_shapes
from vknn.formats.coreml.inputs import ArrayInput, Input
from vknn.formats.coreml.model import FeatureModel, check_features
from vknn.formats.coreml.reader import SUPPRESSION
from vknn.formats.coreml.selection import BoxLimits, chosen_rows, is_there, select
from vknn.formats.layer_context import LayerContext
from vknn.formats.layer_errors import errors_of
from vknn.formats.model import BoxOutputs
from vknn.graph import DType, Graph, GraphBuilder, Origin, TensorType, Value
from vknn.ops.elementwise.logic import GreaterOrEqual, Where
from vknn.ops.movement.shape import Expand, Pad
from vknn.ops.reduction import ReduceMax

#: The graph's output with the indices of the boxes; no name in a file can hold this character.
KEPT = "\0kept"
_HIGHEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class _Threshold:
    """A number of the model, which the input ``name`` may override; "": there is none."""

    what: str
    number: float
    name: str


class SuppressionModel(FeatureModel):
    """A NonMaximumSuppression: boxes and their confidences, without those that overlap better ones.

    The confidence of a box is that of its best class; a class that is NaN counts as none. Boxes
    below the threshold go. The best of the others stays, of equal ones the first, those go that
    overlap it by more than the other threshold, and so on; with ``perClass`` only those of the same
    best class. Boxes with a coordinate that is no finite number overlap nothing. Both outputs have
    the rows that stay, best first: no more than the shape of an output allows, and rows of zeros
    behind them where it wants more.
    """

    def __init__(self, message: Any, file: str | None = None) -> None:
        self.message, self.file = message, file
        self.part = part = message.nonMaximumSuppression
        self.layer_types = (SUPPRESSION,)
        check_features(message.description, file)
        if part.WhichOneof("SuppressionMethod") != "pickTop":
            self._fail("it names no way of suppression; Core ML has pickTop")
        kind = part.WhichOneof("ClassLabels")
        self.labels = tuple(map(str, getattr(part, kind).vector)) if kind else ()
        self._taken = self._names("confidenceInput", "coordinatesInput")
        self._given = self._names("confidenceOutput", "coordinatesOutput")
        self.thresholds = tuple(self._thresholds())
        self.defaults = {t.name: float(np.float32(t.number)) for t in self.thresholds if t.name}
        self.value_inputs = frozenset(self.defaults)
        self.set_inputs(self._inputs())
        self._set_outputs()

    def build(
        self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None
    ) -> Graph:
        """See :meth:`Model.build`."""
        self.check_names(types)
        iou, least = (self._number(threshold, values or {}) for threshold in self.thresholds)
        confidence, coordinates = self._taken
        count = boxes_in(coordinates, types[coordinates].dims)
        classes = classes_in(confidence, types[confidence].dims, count)
        if self.labels and classes != len(self.labels):
            raise InputError(
                f"input {confidence!r} has the confidences of {classes} classes, and the model has "
                f"{len(self.labels)} class labels"
            )
        builder = GraphBuilder("suppression")
        blobs = {n: self.features[n].blob(builder, types[n]) for n in self._taken}
        c = _Conversion(builder, Origin("suppression", SUPPRESSION))
        with errors_of("the suppression of boxes", self.file):
            scores = c.reshape(blobs[confidence], (1, count, classes))
            boxes = c.reshape(blobs[coordinates], (1, count, 4))
            return builder.finish(self._selected(c, boxes, scores, BoxLimits(iou, least)))

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        """The rows as they are; :meth:`results` cuts off those without a box."""
        return array

    def results(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The rows of the boxes that stay, and no fewer than the outputs' shapes want."""
        made = dict(arrays)
        kept = int(np.count_nonzero(made.pop(KEPT) >= 0))
        rows = max(kept, self.least)
        return {spec.name: np.ascontiguousarray(made[spec.name][:rows]) for spec in self.outputs}

    # --- reading ----------------------------------------------------------------------------------

    def _fail(self, problem: str) -> NoReturn:
        raise ModelFormatError(f"the suppression of boxes: {problem}", file=self.file)

    def _names(self, *fields: str) -> list[str]:
        """The features of the message's fields, each of which has to name another one."""
        names = [getattr(self.part, f"{field}FeatureName") for field in fields]
        for field, name in zip(fields, names, strict=True):
            if not name or "\0" in name:
                self._fail(f"{field}FeatureName names no feature")
        if len(set(names)) < len(names):
            self._fail(f"{names[0]!r} is to be {' and '.join(fields)} at once")
        return names

    def _thresholds(self) -> Iterator[_Threshold]:
        taken = set(self._taken)
        for what in ("iouThreshold", "confidenceThreshold"):
            number, name = getattr(self.part, what), getattr(self.part, f"{what}InputFeatureName")
            if not 0 <= number < math.inf:
                self._fail(f"its {what} is {number}, which has to be 0 or more")
            if "\0" in name or name in taken:
                self._fail(f"{what}InputFeatureName cannot be {name!r}")
            taken |= {name} - {""}
            yield _Threshold(what, number, name)

    def _inputs(self) -> Iterator[Input]:
        """The inputs in the description's order; thresholds that it lacks are inputs, too."""
        known = dict.fromkeys((*self._taken, *self.defaults))
        described = {feature.name: feature for feature in self.message.description.input}
        for name in (*described, *(n for n in self.defaults if n not in described)):
            if name not in known:
                self._fail(f"nothing takes the input {name!r}")
            kind = described[name].type.WhichOneof("Type") if name in described else "doubleType"
            if name in self.defaults:
                if kind not in ("doubleType", "int64Type"):
                    self._fail(f"the input {name!r} has to be a number")
                yield ArrayInput(name, InputShapes((1,)), False, self.defaults[name])
                continue
            if kind != "multiArrayType":
                self._fail(f"the input {name!r} has to be a multi array")
            message = described[name].type.multiArrayType
            yield RowsInput(name, array_shapes(message, f"input {name!r}", self.file), False)
        for name in self._taken:
            if name not in described:
                self._fail(f"the model has no input {name!r}")

    def _set_outputs(self) -> None:
        described = {feature.name: feature for feature in self.message.description.output}
        for name in self._given:
            if name not in described:
                self._fail(f"the model has no output {name!r}")
        for name in described:
            if name not in self._given:
                self._fail(f"nothing gives the output {name!r}")
        confidence, coordinates = self._given
        scores = rows_output(described[confidence], self._classes(), self.file)
        boxes = rows_output(described[coordinates], 4, self.file)
        least = max(scores.least, boxes.least)
        most = min((m for m in (scores.most, boxes.most) if m is not None), default=None)
        if most is not None and least > most:
            self._fail(f"its outputs are to have {least} rows or more and {most} or fewer")
        self.least, self.most = least, most
        both = {r.name: replace(r, least=least, most=most).spec for r in (scores, boxes)}
        self.outputs = tuple(both[name] for name in described)
        self.host_outputs = frozenset({*both, KEPT})
        self.boxes = BoxOutputs(coordinates, confidence, self.labels)

    def _classes(self) -> int | None:
        """The number of classes as far as the model tells. Raises ModelFormatError."""
        confidence, coordinates = (self.features[name] for name in self._taken)
        assert isinstance(confidence, RowsInput) and isinstance(coordinates, RowsInput)
        told = {"its labels": len(self.labels) or None}
        for feature, columns in ((confidence, None), (coordinates, 4)):
            ranges = declared_rows(feature.shapes)
            low, high = ranges[1] if ranges is not None else (None, None)
            if low != high or low is None:
                continue
            if columns is not None and low != columns:
                self._fail(f"input {feature.name!r} is declared with {low} numbers for a box")
            told |= {f"input {feature.name!r}": low} if columns is None else {}
        sizes = {what: size for what, size in told.items() if size is not None}
        if len(set(sizes.values())) > 1:
            listed = " and ".join(f"{size} ({what})" for what, size in sizes.items())
            self._fail(f"it has {listed} classes")
        return next(iter(sizes.values()), None)

    # --- the graph --------------------------------------------------------------------------------

    def _number(self, threshold: _Threshold, values: Mapping[str, np.ndarray]) -> float:
        """A threshold: the user's, or the model's."""
        number, name = threshold.number, threshold.name
        if name:
            if name not in values:
                raise InputError(f"the data of input {name!r} are needed")
            number = float(self.encode(name, values[name])[0])
            if not 0 <= number < math.inf:
                raise InputError(f"input {name!r} is {number}; a threshold is 0 or more")
        return min(number, _HIGHEST)

    def _selected(
        self, c: _Conversion, boxes: Value, scores: Value, limits: BoxLimits
    ) -> dict[str, Value]:
        """The outputs of the graph, for boxes [1, n, 4] and scores [1, n, classes]."""
        _, count, classes = scores.type.dims
        confidence, coordinates = self._given
        most = count if self.most is None else min(count, self.most)
        rows = max(most, self.least)
        if not most:
            nothing = {confidence: (rows, classes), coordinates: (rows, 4), KEPT: (1,)}
            made = {n: c.add(Expand(s), c.scalar(0.0)) for n, s in nothing.items()}
            return made | {KEPT: c.add(Expand((1,)), c.scalar(-1, DType.INT32))}
        enough = c.add(GreaterOrEqual(), scores, c.scalar(limits.score))  # NaN is not
        known = c.add(Where(), enough, scores, c.scalar(-1.0))
        best = c.add(ReduceMax((2,), False), known)
        by_class = self.part.pickTop.perClass
        found = BoxLimits(limits.iou, 0.0)
        chosen = select(c, boxes, known, best, found, most, by_class)
        if rows > most:
            chosen = c.add(Pad((0, 0, 0, rows - most), "constant", -1.0), chosen)
        there = is_there(c, chosen)
        both = {confidence: (scores, classes), coordinates: (boxes, 4)}
        made = {
            name: c.reshape(chosen_rows(c, x, chosen, there), (rows, columns))
            for name, (x, columns) in both.items()
        }
        return made | {KEPT: chosen}


class _Conversion(LayerContext):
    """The graph that the suppression's ops are added to."""

    def __init__(self, builder: GraphBuilder, origin: Origin) -> None:
        self.builder, self.inputs = builder, ()
        self._origin = origin

    @property
    def origin(self) -> Origin:
        return self._origin
