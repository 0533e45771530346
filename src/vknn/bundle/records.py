"""Plans of a bundle in words: what goes in and out, what they need, their example."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from vknn.bundle import schema
from vknn.bundle.module_facts import MatrixProduct
from vknn.bundle.needs import Needs
from vknn.bundle.record_rules import Tables, part
from vknn.bundle.schema import NONE, Direction, Feature, PortElement
from vknn.errors import InputError


@dataclass(frozen=True)
class ArrayPort:
    """Array that goes in or out, as a bundle and its runner describe it alike.

    Attributes:
        name: Its name in the model.
        dtype: Its elements, as they lie in its buffer.
        shape: Its sizes; of an output whose size depends on data, at most.
        layout: A letter an axis, "NHWC"; empty where the format has none.
        picture: Order of a picture's colours, "RGB"; empty where it takes none.
        scale: With ``zero_point`` what integers stand for, scale * (stored - zero point); None
            where they are what they say.
        zero_point: See ``scale``.
        labels: Names of classes.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    layout: str
    picture: str
    scale: float | None
    zero_point: int
    labels: tuple[str, ...]

    def encoded(self, array: object) -> np.ndarray:
        """A dense array of these sizes and elements. Raises InputError for anything else."""
        given = type(array).__name__
        if isinstance(array, (np.ndarray, np.generic)):
            if array.shape == self.shape and array.dtype == self.dtype:
                return np.asarray(array, order="C")
            given = f"{array.dtype}{list(array.shape)}"
        raise InputError(f"input {self.name!r} is {given}, expected {self.dtype}{list(self.shape)}")


@dataclass(frozen=True)
class BundlePort(ArrayPort):
    """An input or output, and where it lies in its plan.

    Attributes:
        direction: Input or output.
        open_axis: The axis whose size depends on data, where ``count`` says so.
        buffer: Index in the plan's buffers.
        count: Index of the buffer with the size of its open axis; None where it has none.
    """

    direction: Direction
    open_axis: int
    buffer: int
    count: int | None

    @property
    def is_open(self) -> bool:
        """Whether its size depends on data."""
        return self.count is not None

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, at most."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class BundleState:
    """A state: ``output`` becomes ``input`` (buffers) behind a run; ``first`` its bytes at first.

    ``first`` is None where it begins with zeros.
    """

    name: str
    input: int
    output: int
    nbytes: int
    first: np.ndarray | None


@dataclass(frozen=True, eq=False)
class BundleExample:
    """An array of the example and, of an output, how far an answer may be from it."""

    port: BundlePort
    array: np.ndarray
    absolute: float
    relative: float


@dataclass(frozen=True, eq=False)
class BundlePlan:
    """A plan of a bundle, number ``index`` of it."""

    index: int
    tables: Tables
    string: Callable[[int], str]
    blob: Callable[[int], np.ndarray]

    @cached_property
    def row(self) -> np.void:
        """Its record."""
        found: np.void = self.tables[schema.PLAN][self.index]
        return found

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.string(self.row["name"])

    @property
    def target(self) -> str:
        """The target that it was made for."""
        return self.string(self.row["target"])

    @property
    def shapes(self) -> str:
        """Shapes of its inputs, "data=3,224,224;mask=7"."""
        return self.string(self.row["shapes"])

    @property
    def precision(self) -> str:
        """Precision of its tensors, "fp32"."""
        return self.string(self.row["precision"])

    @property
    def buffers(self) -> np.ndarray:
        """Records of its buffers."""
        return part(self.tables, self.row, "buffers")

    @property
    def steps(self) -> np.ndarray:
        """Records of its steps."""
        return part(self.tables, self.row, "steps")

    @property
    def submits(self) -> np.ndarray:
        """Records of its submits."""
        return part(self.tables, self.row, "submits")

    @cached_property
    def needs(self) -> Needs:
        """Needs: what a device must have and be able to do."""
        own = [f.name for f in fields(Needs) if f.name != "matrices"]
        told = {name: self.row[name].tolist() for name in own}
        for name in ("group_size", "group_count"):
            told[name] = tuple(told[name])
        names = [f.name for f in fields(MatrixProduct)]
        products = tuple(
            MatrixProduct(*(int(row[name]) for name in names))
            for row in part(self.tables, self.row, "matrices")
        )
        return Needs(**{**told, "features": Feature(told["features"]), "matrices": products})

    @cached_property
    def ports(self) -> list[BundlePort]:
        """Its inputs and outputs."""
        return [self._port(row) for row in part(self.tables, self.row, "ports")]

    @property
    def inputs(self) -> list[BundlePort]:
        """Its inputs."""
        return [port for port in self.ports if port.direction is Direction.INPUT]

    @property
    def outputs(self) -> list[BundlePort]:
        """Its outputs."""
        return [port for port in self.ports if port.direction is Direction.OUTPUT]

    @cached_property
    def states(self) -> list[BundleState]:
        """States that it keeps from run to run."""
        return [
            BundleState(
                self.string(row["name"]), int(row["input"]), int(row["output"]), int(row["nbytes"]),
                None if row["blob"] == NONE else self.blob(int(row["blob"])),
            )
            for row in part(self.tables, self.row, "states")
        ]  # fmt: skip

    @cached_property
    def examples(self) -> list[BundleExample]:
        """Arrays of its example: inputs, and the answer of the NumPy reference."""
        return [self._example(row) for row in part(self.tables, self.row, "examples")]

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of its weights in the file."""
        numbers = np.unique(self.buffers["blob"])
        blobs = self.tables[schema.BLOB]["nbytes"]
        return int(blobs[numbers[numbers != NONE]].sum(dtype=np.uint64))

    def _port(self, row: np.void) -> BundlePort:
        dims = tuple(row["dims"][: row["rank"]].tolist())
        first = int(row["first_labels"])
        labels = self.tables[schema.LABEL]["text"][first : first + int(row["labels"])]
        return BundlePort(
            self.string(row["name"]),
            np.dtype(PortElement(int(row["type"])).name.lower()),
            dims,
            self.string(row["layout"]),
            self.string(row["picture"]),
            float(row["scale"]) if row["quantized"] else None,
            int(row["zero_point"]),
            tuple(self.string(text) for text in labels),
            Direction(int(row["direction"])),
            int(row["open_axis"]),
            int(row["buffer"]),
            None if row["count"] == NONE else int(row["count"]),
        )

    def _example(self, row: np.void) -> BundleExample:
        port = self.ports[int(row["port"])]
        array = self.blob(int(row["blob"])).view(port.dtype)
        shape = port.shape
        if port.is_open:
            behind = math.prod(shape[port.open_axis + 1 :])
            size = len(array) // behind if behind else 0
            shape = (*shape[: port.open_axis], size, *shape[port.open_axis + 1 :])
        return BundleExample(
            port, array.reshape(shape), float(row["absolute"]), float(row["relative"])
        )
