"""Network of a bundle's plan: a model for inputs of certain shapes, of which some are fixed."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vknn.bundle.ports import PortedPlan, a_sequence, ported
from vknn.bundle.schema import MOST_NAME, MOST_PORTS, Direction
from vknn.bundle.segments import too_long
from vknn.bundle.tables import text_bytes
from vknn.errors import ExportError, InputError
from vknn.formats import Model, TensorSpec
from vknn.graph import DType, Graph, TensorType
from vknn.graph.builder import fixed_inputs
from vknn.lowering import LoweringOptions
from vknn.plan import DeviceLimits, Plan
from vknn.session import Session, engine_of
from vknn.tool_inputs import Shapes, complete_feeds, likely_shape

if TYPE_CHECKING:
    from vknn.bundle.example import ExampleArray


class Network:
    """A model and the arrays that stand for its inputs: their shapes count, of ``fixed`` all.

    ``example``: whether an example is wanted, or its arrays.
    """

    def __init__(
        self,
        session: Session,
        shapes: Shapes,
        fixed: Mapping[str, Any],
        example: bool | Mapping[str, np.ndarray],
    ) -> None:
        self._session, self._example = session, example
        self._shapes = {name: self._trimmed(name, dims) for name, dims in shapes.items()}
        self._fixed = {name: self._spread(name, array_of(name, v)) for name, v in fixed.items()}
        given = example if isinstance(example, Mapping) else {}
        self._given = {name: self._pixels(name, array) for name, array in given.items()}
        self._feeds: Mapping[str, Any] | None = None
        self._examples: dict[object, Sequence[ExampleArray]] = {}
        self._check_names()

    @property
    def model(self) -> Model:
        """The model."""
        return self._session.model

    def check_sizes(self, limits: DeviceLimits) -> None:
        """Check that inputs are not longer than a target's buffers, before they are made."""
        reasons = []
        for spec in self._session.inputs:
            dims = self._shapes.get(spec.name, likely_shape(self._session, spec))
            if dims is not None and None not in dims:
                nbytes = 4 * math.prod(d for d in dims if d is not None)
                if nbytes > limits.max_storage_buffer_range:
                    reasons.append(f"input {spec.name!r}: {too_long(nbytes, limits)}")
        if reasons:
            raise ExportError(reasons)

    @property
    def feeds(self) -> Mapping[str, Any]:
        """The inputs' arrays: those given, and others made up."""
        if self._feeds is None:
            known = {**self._given, **self._fixed}
            if self._example is not False:
                left = {name: dims for name, dims in self._shapes.items() if name not in known}
                self._feeds = complete_feeds(self._session, known, left)
            else:
                self._feeds = complete_feeds(self._session, {**self._zeros(known), **known})
        return self._feeds

    def graph(self) -> Graph:
        """The graph, before any pass, with the fixed inputs as constants."""
        engine = engine_of(self._session)
        fixed = {name: np.copy(self.model.encode(name, a)) for name, a in self._fixed.items()}
        with fixed_inputs(fixed):
            graph = engine.graph(self.feeds)
        for value in [v for v in graph.inputs if v.name in fixed]:  # a format's own way of input
            if TensorType.of(fixed[value.name]) != value.type:
                raise InputError(
                    f"input {value.name!r} cannot be fixed: the network has {value.type} there, "
                    f"its array is {TensorType.of(fixed[value.name])}"
                )
            value.constant = fixed[value.name]
            graph.inputs.remove(value)
        return graph

    def ported(
        self, graph: Graph, plan: Plan, limits: DeviceLimits, dtypes: Mapping[str, DType]
    ) -> PortedPlan:
        """The plan with ports in the user's words; ``dtypes``: the outputs' in the first graph."""
        arrays = engine_of(self._session).encode(self.feeds)
        types = {
            name: TensorType(np.shape(self.feeds[name]), DType.of(array))
            for name, array in arrays.items()
            if name in self.feeds
        }
        return ported(self.model, graph, plan, limits, types, dtypes)

    def examples(
        self, graph: Graph, ported: PortedPlan, options: LoweringOptions
    ) -> Sequence[ExampleArray]:
        """The example's arrays, where one is wanted: made once for all targets of a precision."""
        if self._example is False:
            return ()
        from vknn.bundle.example import example  # the reference's tolerances take long to import

        ports = tuple((port.name, port.direction, port.form) for port in ported.ports)
        key = (ports, options.precision, options.arithmetic)  # which decide on the bounds
        if key not in self._examples:
            names = {port.name for port in ported.ports if port.direction is Direction.INPUT}
            feeds = {name: array for name, array in self.feeds.items() if name in names}
            made_up = names - {*self._given, *self._fixed, *self.model.defaults}
            made_up -= self.model.recorded.keys() - self._shapes.keys()
            self._examples[key] = example(
                self.model, graph, ported, feeds, options, made_up=made_up
            )
        return self._examples[key]

    def check_indices(self, graph: Graph) -> None:
        """Check of the indices in an example that is given, of which a device takes others.

        ``graph``: before any pass. Raises ShapeError, as a session does.
        """
        if self._given:
            from vknn.bundle.example import check_indices

            check_indices(self.model, graph, {name: self.feeds[name] for name in self._given})

    def _trimmed(self, name: str, dims: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an input; of a grey picture without the axis of its one colour."""
        gray = name in self.model.images and any(
            len(spec.sizes or ()) == 2 for spec in self._session.inputs if spec.name == name
        )
        return dims[:2] if gray and len(dims) == 3 and dims[2] == 1 else dims

    def _spread(self, name: str, array: np.ndarray) -> np.ndarray:
        """The array of a fixed input; one number is all of them, along axes that are open one."""
        for spec in () if array.ndim else self._session.inputs:
            if spec.name == name:
                dims = self._shapes.get(name, likely_shape(self._session, spec) or ())
                return np.broadcast_to(array, tuple(1 if d is None else d for d in dims))
        return array

    def _pixels(self, name: str, array: np.ndarray) -> np.ndarray:
        """The example of an input; a picture in the bytes that its port has. Raises InputError."""
        if name not in self.model.images:
            return array
        with np.errstate(all="ignore"):
            pixels = array.astype(np.uint8)
        if not np.array_equal(pixels, array):
            raise InputError(
                f"the example of picture {name!r} has numbers that are no pixels, whole ones from "
                "0 to 255: give these (scale and bias are part of the network)"
            )
        return pixels.reshape(self._trimmed(name, array.shape))

    def _zeros(self, known: Container[str]) -> dict[str, np.ndarray]:
        """Zeros for inputs that are not known, where their shape is."""
        found = {}
        for spec in self._session.inputs:
            if spec.name in known or spec.name in {**self.model.recorded, **self.model.defaults}:
                continue
            dims = self._shapes.get(spec.name, likely_shape(self._session, spec))
            if dims is None or None in dims:
                raise _open_shape(spec)
            nothing = b"" if spec.dtype.kind == "O" else 0  # of a text
            found[spec.name] = np.full(tuple(d for d in dims if d is not None), nothing, spec.dtype)
        return found

    def _check_names(self) -> None:
        """Check that shapes and arrays are of inputs that there are, and of ranks they can have."""
        specs = {spec.name: spec for spec in self._session.inputs}
        for what, names in (("shape", self._shapes), ("array", {**self._fixed, **self._given})):
            for name in names:
                if name not in specs:
                    listed = ", ".join(map(repr, specs)) or "none"
                    raise InputError(
                        f"{what} for {name!r:.200}: there is no such input (there are {listed})"
                    )
        for name, dims in self._shapes.items():
            shape = specs[name].shape
            if not dims and shape != ():
                raise InputError(
                    f"the shape of input {name!r} has no axes (rank 0); give its sizes, as in "
                    f"--shape {name}=3,224,224"
                )
            if name in self._fixed and self._fixed[name].shape != dims:
                raise InputError(
                    f"input {name!r} is fixed to an array of shape {list(self._fixed[name].shape)} "
                    f"and given the shape {list(dims)}: give an array of that shape, or a number"
                )
        unsaid = []
        known = {*self._shapes, *self._given, *self._fixed}
        known |= {*self.model.recorded, *self.model.defaults}
        for spec in self._session.inputs:
            hint = likely_shape(self._session, spec)
            if spec.name not in known and (hint is None or None in hint):
                unsaid.append(str(_open_shape(spec)))
        if unsaid:
            raise InputError("; ".join(unsaid))
        own = {**self._fixed, **self.model.recorded, **self.model.defaults}
        loose = sorted(self.model.value_inputs - own.keys())
        if loose:
            raise ExportError(
                [
                    f"input {name!r}: its data decide shapes; fix them with --fixed {name}=..."
                    for name in loose
                ]
            )


def check_sequences(session: Session) -> None:
    """Check that no input is a list of arrays. Raises ExportError."""
    names = [spec.name for spec in session.inputs if spec.name in session.model.sequences]
    if names:
        raise ExportError([a_sequence("input", name) for name in names])


def array_of(name: str, given: Any) -> np.ndarray:
    """The array of an input. Raises InputError for what is none."""
    try:
        return np.asarray(given)
    except ValueError as error:  # lists of arrays of several shapes
        raise InputError(f"what is given for input {name!r} is no array: {error}") from error


def cut(graph: Graph, names: Sequence[str], state: Container[str]) -> None:
    """A graph made to end in these outputs alone, and in its ``state``.

    Outputs and blobs can be had; a text that is none of these is several names, by comma. What a
    continuation would go on with is left out. Variables are part of ``state``: what reads one is
    constant in the graph of a first run alone. Raises InputError for other names and for none.
    """
    known = {**graph.blobs, **graph.outputs}
    names = [part for name in names for part in ([name] if name in known else name.split(","))]
    if not names:
        raise InputError("no outputs are asked for: name one, or leave outputs out to have all")
    for name in names:
        if name in state:
            raise InputError(
                f"{name!r:.200} is a state, which a bundle keeps from run to run and no port has: "
                "name outputs"
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            hint = f"; like it are {', '.join(map(repr, near))}" if near else ""
            raise InputError(f"the model has no output and no blob {name!r:.200}{hint}")
    kept = [name for name in graph.outputs if name in state]
    graph.outputs = {name: known[name] for name in (*names, *kept)}
    graph.continuation = None


def _open_shape(spec: TensorSpec) -> InputError:
    sizes = ("N", "N", "N") if spec.sizes is None else spec.sizes
    text = ",".join("N" if size is None else str(size) for size in sizes)
    return InputError(
        f"the model leaves the shape of input {spec.name!r} open: give it, as in "
        f"--shape {spec.name}={text} (in Python shapes={{{spec.name!r}: ({text})}})"
    )


def shapes_text(ported: PortedPlan) -> str:
    """The shapes of a plan's inputs, as a bundle has them.

    Names with characters that part them from sizes and each other stand in JSON's quotes.
    """
    inputs = [port for port in ported.ports if port.direction is Direction.INPUT]
    return ";".join(f"{_quoted(port.name)}={','.join(map(str, port.form.dims))}" for port in inputs)


def _quoted(name: str) -> str:
    is_plain = not any(character in name for character in '=;,"')
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def check_names(ported: PortedPlan) -> None:
    """Check of ports' number, and of their names as texts of a bundle. Raises ExportError."""
    reasons = []
    if len(ported.ports) > MOST_PORTS:
        many = f"it has {len(ported.ports)} inputs and outputs, in a bundle at most {MOST_PORTS}"
        reasons.append(f"{many}: leave outputs out with --outputs, or fix inputs with --fixed")
    known: dict[tuple[Direction, bytes], str] = {}
    for port in ported.ports:
        what, text = port.direction.name.lower(), text_bytes(port.name)
        if len(text) >= MOST_NAME:
            reasons.append(
                f"{what} {port.name[:60]!r}... has a name of {len(text)} bytes, in a bundle at "
                f"most {MOST_NAME - 1}: give it a shorter one in the model"
            )
        if (port.direction, text) in known:
            other = known[port.direction, text]
            reasons.append(
                f"{what}s {other!r:.80} and {port.name!r:.80} have the same name in a bundle: name "
                "them apart in the model, or leave one out with --outputs or --fixed"
            )
        known.setdefault((port.direction, text), port.name)
    if reasons:
        raise ExportError(reasons)
