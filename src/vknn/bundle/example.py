"""Example of a bundle: inputs, the NumPy reference's answer, and how far a device may lie off.

    |got - expected| <= absolute + relative |expected|

for each element of an output. Both numbers follow from ``error_draws``: they hold the largest
differences of all draws and a 64th more, element by element, and of the pairs that do they are
the one with the least allowed to the largest elements and on average. A part in proportion suits
outputs whose large elements err more than their small ones, as behind a softmax; of few elements,
of which draws may hit none well, there is none, and the bound is at least four times the draws'
deviation. Beyond that, as in ``vknn verify``:

- A float may lie off by its own rounding, one unit of its type.
- An integer that stands for a real number, or has 8 or 16 bits, may be one off: a float within
  rounding of a half becomes either neighbour. Others (indices, classes) and truth values must be
  equal, unless the draws show them change.
- An output of which half and more may be wrong says little of a device, one that is not compared
  nothing. Where inputs are made up, others are tried then: of noise a network may be so unsure that
  roundings decide. What says little nevertheless is told by a warning.
- An output whose shape the errors change (detections) is held against draws of smaller errors in
  fp32, still several times those of devices. In 16 bits it is not compared, nor is one of which
  errors make infinities, or reach the most that a bundle can allow.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn import reference
from vknn.bundle.descriptions import PortDescription
from vknn.bundle.ends import needed
from vknn.bundle.error_draws import drawn
from vknn.bundle.forms import decoded, user_array
from vknn.bundle.ports import PortedPlan
from vknn.bundle.schema import MOST_TOLERANCE, Direction
from vknn.bundle.tables import Tables
from vknn.errors import ExportError, InputError, VknnError
from vknn.formats import Model
from vknn.formats.model import TensorSpec
from vknn.graph import DType, Graph, Value
from vknn.lowering import LoweringOptions
from vknn.ops.indexing.gather import Bounded
from vknn.tool_inputs import random_array

#: Elements from which on a bound may have a part in proportion.
_MANY = 64
#: Parts in proportion that are tried.
_SHARES = (0.0, *(2.0**-k for k in range(1, 25)))
#: Share of errors that is drawn where all of them change an output's shape, in fp32 (not of sums'
#: errors, of which a share is drawn anyway).
_FEW = 1.0 / 16.0
#: Times the largest draws that is allowed: where errors take a classifier's answer away, every draw
#: comes to the same difference, and a device's rounding to a little more or less of it.
_MARGIN = 1.0 + 2.0**-6
#: Below the smallest normal number a device may flush to zero.
_TINY = 1.2e-38
#: Distance from zeros, in what is allowed, up to which an output says little.
_LITTLE = 2.0
#: Numbers below it are below MOST_TOLERANCE as the float32 that is written.
_MOST = float(np.nextafter(np.float32(MOST_TOLERANCE), np.float32(0)))


@dataclass(frozen=True, eq=False)
class ExampleArray:
    """An array of the example; ``port``: number of the plan's port. Of inputs both bounds are 0."""

    port: int
    array: np.ndarray
    absolute: float = 0.0
    relative: float = 0.0

    def row(self, tables: Tables) -> tuple[object, ...]:
        """Its record (``schema.EXAMPLE``)."""
        return self.port, tables.blob(self.array), self.absolute, self.relative


def example(
    model: Model,
    graph: Graph,
    ported: PortedPlan,
    feeds: Mapping[str, np.ndarray] | None = None,
    options: LoweringOptions | None = None,
    seed: int = 0,
    made_up: Container[str] = (),
) -> list[ExampleArray]:
    """The example of a plan: of each input an array, and of each output that can be compared.

    Args:
        model: The model.
        graph: The graph that the plan was made of, as :func:`vknn.bundle.ports.ported` takes it.
        ported: The plan.
        feeds: The user's arrays by input; those that are missing are made up.
        options: What the plan was lowered with; its precision decides what is allowed.
        seed: Of what is made up and drawn.
        made_up: Which of ``feeds`` are made up, too: others may be taken for them.

    Raises:
        InputError: An array is of an unknown input, or of another shape than the plan's.
    """
    options = options or LoweringOptions()
    feeds = feeds or {}
    arrays, _ = _complete(model, ported, feeds, _noise, seed)
    best = _answered(model, graph, ported, arrays, options, seed)
    given = {name: array for name, array in feeds.items() if name not in made_up}
    arrays, made = _complete(model, ported, given, _calm, seed)
    count, least = _says(best, ported)
    if made and (count < sum(map(_is_output, ported.ports)) or least <= _LITTLE):
        with contextlib.suppress(VknnError):  # numbers that the network has no use for
            other = _answered(model, graph, ported, arrays, options, seed)
            best = max(best, other, key=lambda found: _says(found, ported))
    _tell(best, ported, options.precision)
    return best


def _answers(found: Sequence[ExampleArray], ported: PortedPlan) -> list[ExampleArray]:
    """Those of an example that are of outputs."""
    return [one for one in found if _is_output(ported.ports[one.port])]


def _says(found: Sequence[ExampleArray], ported: PortedPlan) -> tuple[int, float]:
    """How much an example says: of how many outputs, and the least distance of one from zeros."""
    distances = [d for d in map(_distance, _answers(found, ported)) if d]
    return len(distances), min(distances, default=np.inf)


def _answered(
    model: Model,
    graph: Graph,
    ported: PortedPlan,
    arrays: Mapping[str, np.ndarray],
    options: LoweringOptions,
    seed: int,
) -> list[ExampleArray]:
    """The example that inputs make."""
    given = {v.name: _graph_array(model, v.name, arrays, graph) for v in graph.inputs}
    right, runs = drawn(graph, given, options, seed)
    bounds = {p.name: _port_bounds(model, p, right, runs) for p in ported.ports if _is_output(p)}
    if None in bounds.values() and options.precision == "fp32":
        _, fewer = drawn(graph, given, options, seed, _FEW)
        for port in ported.ports:
            if _is_output(port) and bounds[port.name] is None:
                bounds[port.name] = _port_bounds(model, port, right, fewer)
    found = []
    for number, port in enumerate(ported.ports):
        if not _is_output(port):
            found.append(ExampleArray(number, arrays[port.name]))
        elif (pair := bounds[port.name]) is not None:
            found.append(ExampleArray(number, _user(model, port, right), *pair))
    return found


def _distance(answer: ExampleArray) -> float:
    """How far an output is from zeros, in what is allowed: where it is 1, these would pass.

    Of an output of zeros it is infinite, of one without a number that is finite 0.
    """
    size = np.abs(answer.array.astype(np.float64))
    if size.size and not np.isfinite(size).any():
        return 0.0
    size = size[np.isfinite(size) & (size > 0)]
    allowed = answer.absolute + answer.relative * size
    with np.errstate(divide="ignore"):
        return float(np.max(size / allowed, initial=0.0)) if size.size else np.inf


def _tell(found: Sequence[ExampleArray], ported: PortedPlan, precision: str) -> None:
    """Warnings of outputs that nothing is compared with, or whose answer any device comes near."""
    answers = {answer.port: answer for answer in _answers(found, ported)}
    for number, port in enumerate(ported.ports):
        if not _is_output(port):
            continue
        if number not in answers:
            why = "roundings change its shape, or make it infinite, beyond 1e30 or no number"
            _warn(port.name, "nothing", why, precision)
        elif not (distance := _distance(answers[number])):
            _warn(port.name, "nothing", "no number of it is finite", precision)
        elif distance <= _LITTLE:
            why = "what roundings make of it is half as large as the output itself, or more"
            _warn(port.name, "little", why, precision)


def _warn(output: str, little: str, why: str, precision: str) -> None:
    remedy = "" if precision == "fp32" else ", or another precision than " + precision
    warnings.warn(
        f"the example says {little} of output {output!r}: {why}; "
        f"give a real input as the example{remedy}",
        RuntimeWarning,
        stacklevel=2,
    )


def _is_output(port: PortDescription) -> bool:
    return port.direction is Direction.OUTPUT


def _user(model: Model, port: PortDescription, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The user's array of an output."""
    return user_array(port.form, decoded(model, port.name, outputs[port.name]))


def _port_bounds(
    model: Model,
    port: PortDescription,
    right: Mapping[str, np.ndarray],
    runs: Sequence[Mapping[str, np.ndarray]],
) -> tuple[float, float] | None:
    """Absolute and relative bound of an output; None where it cannot be compared."""
    steps = port.name in model.quantization or port.form.dtype.itemsize < 4
    pair = _bounds(_user(model, port, right), [_user(model, port, run) for run in runs], steps)
    return pair if pair is not None and max(pair) < _MOST else None


#: How an input is made up.
_Making = Callable[[TensorSpec, tuple[int, ...], np.random.Generator], np.ndarray]


def _noise(spec: TensorSpec, dims: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    return random_array(spec, dims, random)


def _calm(spec: TensorSpec, dims: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Floats as large as a picture's bytes; integers, which may be entries to look up, are 0."""
    if spec.dtype.kind == "f":
        return random.uniform(0.0, 255.0, dims)
    return random_array(spec, dims, random) if spec.dtype.itemsize == 1 else np.zeros(dims)


def _complete(
    model: Model,
    ported: PortedPlan,
    feeds: Mapping[str, np.ndarray],
    making: _Making,
    seed: int,
) -> tuple[dict[str, np.ndarray], bool]:
    """Arrays of all inputs as ports have them: given, the model's own, or made up; and whether
    some are."""
    random = np.random.default_rng(seed)
    forms = {p.name: p.form for p in ported.ports if p.direction is Direction.INPUT}
    unknown = sorted(feeds.keys() - forms.keys())
    if unknown:
        names = ", ".join(map(repr, forms)) or "none"
        raise InputError(f"example: unknown input {unknown[0]!r} (the inputs: {names})")
    specs = {spec.name: spec for spec in model.inputs}
    arrays, made = {}, False
    for name, form in forms.items():
        array = feeds.get(name, model.recorded.get(name))
        if array is None and name in model.defaults:
            array = np.full(form.dims, model.defaults[name], form.dtype)
        if array is None:
            array, made = making(specs[name], form.dims, random).astype(form.dtype), True
        if np.shape(array) != form.dims:
            raise InputError(
                f"example: input {name!r} has the shape {list(np.shape(array))}, the plan's is "
                f"{list(form.dims)}"
            )
        arrays[name] = np.ascontiguousarray(array, form.dtype).reshape(form.dims)
    return arrays, made


def _graph_array(
    model: Model, name: str, arrays: Mapping[str, np.ndarray], graph: Graph
) -> np.ndarray:
    """The array that the graph takes: of an input, or of a state its first value."""
    (type_,) = (v.type for v in graph.inputs if v.name == name)
    if name in model.state:
        return np.full(type_.dims, model.first_state.get(name, 0), type_.dtype.numpy)
    if name not in arrays:
        raise ExportError([f"input {name!r} is no port of the plan"])
    with np.errstate(all="ignore"):
        given = model.encode(name, arrays[name])
        made = given.astype(type_.dtype.numpy, copy=False)
    wide = given.dtype in (np.int64, np.uint64)
    if wide and type_.dtype is DType.INT32 and not np.array_equal(made, given):
        raise InputError(
            f"the example of input {name!r} has numbers beyond 32 bits, of which a device takes "
            "the low ones: give smaller numbers"
        )
    return made


def check_indices(model: Model, graph: Graph, feeds: Mapping[str, np.ndarray]) -> None:
    """Check of the indices and lengths that follow from these inputs alone. Raises ShapeError."""
    inputs = [value for value in graph.inputs if value.name in feeds]
    known, nodes = set(inputs), []
    checks = set[Value]()
    for node in graph.nodes:
        if all(v is None or v.constant is not None or v in known for v in node.inputs):
            nodes.append(node)
            known.update(node.outputs)
            checks.update(node.outputs if isinstance(node.op, Bounded) else ())
    outputs = {str(number): value for number, value in enumerate(checks)}
    part = Graph(inputs, outputs, needed(nodes, checks), graph.name)
    reference.run(part, {v.name: _graph_array(model, v.name, feeds, graph) for v in inputs})


def _bounds(
    expected: np.ndarray, others: Sequence[np.ndarray], steps: bool
) -> tuple[float, float] | None:
    """Absolute and relative bound that hold all of the others; None: there are none.

    ``steps``: integers that may be one off.
    """
    if any(other.shape != expected.shape for other in others):
        return None
    if not expected.size:
        return 0.0, 0.0
    right = expected.astype(np.float64)
    with np.errstate(all="ignore"):
        errors = np.abs(np.stack([other.astype(np.float64) for other in others]) - right)
        errors *= _MARGIN
    special = ~np.isfinite(right)  # must be the same
    errors[:, special] = 0.0
    if not np.isfinite(errors).all():
        return None
    size = np.where(special, 0.0, np.abs(right)).reshape(-1)
    absolute, relative = _fitted(errors.reshape(len(others), -1), size)
    if expected.dtype.kind == "f":
        return absolute + _TINY, relative + float(np.finfo(expected.dtype).eps)
    if expected.dtype.kind == "b":
        return float(absolute > 0), 0.0
    return max(absolute, float(steps)), relative


def _fitted(errors: np.ndarray, size: np.ndarray) -> tuple[float, float]:
    """Bounds of errors [draws, elements] of elements of this size: the smallest that hold."""
    largest = errors.max(axis=0)
    if size.size < _MANY:
        deviation = float(np.sqrt(np.mean(errors**2)))
        return max(float(largest.max()), 4.0 * deviation), 0.0
    fits = [(max(0.0, float((largest - share * size).max())), share) for share in _SHARES]
    most, mean = float(size.max()), float(size.mean())
    # The largest elements count twice: they are the answer of a classifier.
    return min(fits, key=lambda f: (f[0] + f[1] * most) ** 2 * (f[0] + f[1] * mean))
