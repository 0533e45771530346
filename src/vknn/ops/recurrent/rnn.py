"""RNN, GRU and LSTM over a sequence, with ONNX's names and gate orders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vknn import run_limits
from vknn.graph import Op, TensorType, attributes
from vknn.ops.common.blocks import blocks
from vknn.ops.common.checks import arguments, require, require_dtype, require_float
from vknn.ops.quantized.dynamic import ROUNDINGS, rounded

#: Name -> (function of x, alpha and beta; ONNX's alpha and beta). Clip bounds x to alpha..beta,
#: SignBit is 1 where the sign is a minus and 0 elsewhere.
ACTIVATIONS: dict[str, tuple[Callable[[Any, float, float], Any], float, float]] = {
    "Sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), 0.0, 0.0),
    "Tanh": (lambda x, a, b: np.tanh(x), 0.0, 0.0),
    "Relu": (lambda x, a, b: np.maximum(x, 0), 0.0, 0.0),
    "Affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "LeakyRelu": (lambda x, a, b: np.where(x < 0, a * x, x), 0.01, 0.0),
    "ThresholdedRelu": (lambda x, a, b: np.where(x >= a, x, 0), 1.0, 0.0),
    "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "Elu": (lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x), 1.0, 0.0),
    "Softsign": (lambda x, a, b: x / (1 + np.abs(x)), 0.0, 0.0),
    "Softplus": (lambda x, a, b: np.logaddexp(0, x), 0.0, 0.0),
    "Clip": (lambda x, a, b: np.clip(x, a, b), -1.0, 1.0),
    "SignBit": (lambda x, a, b: np.signbit(x).astype(x.dtype), 0.0, 0.0),
}
DIRECTIONS = ("forward", "reverse", "bidirectional")


@dataclass(frozen=True)
class RecurrentSizes:
    """Sizes of a recurrent op. ``hidden``: units of a gate; ``outputs``: length of h."""

    steps: int
    batch: int
    inputs: int
    directions: int
    hidden: int
    outputs: int


@attributes
class Recurrent(Op):
    """Base of RNN, GRU and LSTM; the docstring of RNN explains the attributes.

    Differs from ONNX: no sequence_lens input; sums in float64, in float32 on the device.
    """

    #: Rows of W and R are this many blocks of ``hidden``.
    gates: ClassVar[int]
    default_activations: ClassVar[tuple[str, ...]]

    direction: str = "forward"
    activations: tuple[str, ...] = ()
    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    clip: float = 0.0
    layout: int = 0
    state_rounding: str = "none"

    @property
    def directions(self) -> int:
        """Number of directions: 1 or 2."""
        return 2 if self.direction == "bidirectional" else 1

    @property
    def functions(self) -> tuple[tuple[str, float, float], ...]:
        """The activations with their alpha and beta."""
        names = self.activations or self.default_activations
        alphas = self.activation_alpha or tuple(ACTIVATIONS[n][1] for n in names)
        betas = self.activation_beta or tuple(ACTIVATIONS[n][2] for n in names)
        return tuple(zip(names, alphas, betas, strict=True))

    def backwards(self, direction: int) -> bool:
        """True where the ``direction``-th direction walks from the last step to the first."""
        return self.direction == "reverse" or direction == 1

    def check(self) -> None:
        """Check: ShapeError for attributes out of range."""
        name, wanted = self.type_name, len(self.default_activations)
        require(self.direction in DIRECTIONS, f"{name}: no direction {self.direction!r}")
        require(self.layout in (0, 1), f"{name}: no layout {self.layout}")
        count = len(self.activations)
        require(count in (0, wanted), f"{name} takes {wanted} activations, not {count}")
        for function in self.activations:
            require(function in ACTIVATIONS, f"{name}: no activation {function!r}")
        for values in (self.activation_alpha, self.activation_beta):
            good = len(values) in (0, wanted)
            require(good, f"{name}: {len(values)} numbers for {wanted} activations")
        require(self.clip >= 0, f"{name}: clip {self.clip} is negative")
        known = self.state_rounding in ROUNDINGS
        require(known, f"{name}: no rounding {self.state_rounding!r}")

    def sizes(self, *inputs: Any) -> RecurrentSizes:
        """Sizes from the inputs (arrays or types), whose shapes have been checked."""
        x, w, r = inputs[:3]
        steps, batch = x.shape[:2] if self.layout == 0 else x.shape[1::-1]
        hidden = w.shape[1] // self.gates
        return RecurrentSizes(steps, batch, x.shape[2], self.directions, hidden, r.shape[2])

    def _check_inputs(self, sizes: RecurrentSizes, *inputs: TensorType | None) -> None:
        """``inputs``: x, W, R, B, then the initial states as far as there are any."""
        x, w, r, b = inputs[:4]
        assert x is not None
        require_float(self, x)
        require_dtype(self, x.dtype, *inputs[1:])
        s, rows = sizes, self.gates * sizes.hidden
        require(s.hidden > 0 and s.outputs > 0, f"{self.type_name}: no units in {w}")
        self._require("W", w, (s.directions, rows, s.inputs))
        self._require("R", r, (s.directions, rows, s.outputs))
        self._require("B", b, (s.directions, 2 * rows))
        for name, state, width in zip("hc", inputs[4:], (s.outputs, s.hidden), strict=False):
            self._require(f"initial_{name}", state, self._state_shape(sizes, width))

    def _require(self, what: str, type_: TensorType | None, shape: tuple[int, ...]) -> None:
        if type_ is not None:
            message = f"{self.type_name}: {what} is {type_}, not of shape {shape}"
            require(type_.shape == shape, message)

    def _open(self, *inputs: TensorType | None) -> RecurrentSizes:
        """Sizes from types whose ranks are checked first."""
        self.check()
        for name, type_ in zip(("x", "W", "R"), inputs, strict=False):
            require(
                type_ is not None and type_.rank == 3,
                f"{self.type_name}: {name} is {type_}, not of rank 3",
            )
            assert type_ is not None
            require(type_.is_static, f"{self.type_name}: {name} is {type_}, of no known shape")
        return self.sizes(*inputs)

    def _state_shape(self, s: RecurrentSizes, width: int) -> tuple[int, ...]:
        both = (s.directions, s.batch) if self.layout == 0 else (s.batch, s.directions)
        return (*both, width)

    def _results(self, x: TensorType, s: RecurrentSizes) -> tuple[TensorType, TensorType]:
        """Types of Y and Y_h."""
        if self.layout == 0:
            y = (s.steps, s.directions, s.batch, s.outputs)
        else:
            y = (s.batch, s.steps, s.directions, s.outputs)
        return x.with_shape(y), x.with_shape(self._state_shape(s, s.outputs))

    # --- reference --------------------------------------------------------------------------------

    def _run(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Y, Y_h and the last c, of all the op's inputs."""
        kept = (0, 4, 5)  # x and the states are widened in parts: of the batch, and a few steps
        given = [a if a is None or i in kept else a.astype("f8") for i, a in enumerate(inputs)]
        s = self.sizes(*inputs)
        c0 = inputs[5] if len(inputs) > 5 else None
        x, h0, c0 = (self._steps_first(a) for a in (inputs[0], inputs[4], c0))
        dtype = inputs[0].dtype  # type: ignore[union-attr]
        y = np.empty((s.steps, s.directions, s.batch, s.outputs), dtype)
        last_h = np.empty((s.directions, s.batch, s.outputs), dtype)
        last_c = np.empty((s.directions, s.batch, s.hidden), dtype)
        entry = 8 * (s.inputs + 4 * self.gates * s.hidden + 2 * s.outputs)
        with np.errstate(all="ignore"):
            for part in blocks(s.batch, entry):
                for d in range(s.directions):
                    h, c = _state(h0, d, part, s.outputs), _state(c0, d, part, s.hidden)
                    for t, products in self._products(given, x[:, part], d):
                        run_limits.check()
                        h, c = self._step(given, d, products, h, c)
                        y[t, d, part] = h
                    last_h[d, part], last_c[d, part] = h, c
        if self.layout == 1:
            y = y.transpose(2, 0, 1, 3)
            last_h, last_c = last_h.swapaxes(0, 1), last_c.swapaxes(0, 1)
        return np.ascontiguousarray(y), np.ascontiguousarray(last_h), np.ascontiguousarray(last_c)

    def _products(self, given: Sequence[Any], x: Any, d: int) -> Iterator[tuple[int, Any]]:
        """The steps in the order of a direction, each with W x and its bias."""
        w, order = given[1][d], np.arange(len(x))
        order = order[::-1] if self.backwards(d) else order
        for part in blocks(len(x), 8 * x.shape[1] * (x.shape[2] + 2 * len(w))):
            steps = order[part]
            products = x[steps].astype(np.float64) @ w.T + self._input_bias(given, d)
            yield from zip(steps.tolist(), products, strict=True)

    def _steps_first(self, array: Any) -> Any:
        """A sequence or state in layout 0."""
        return array if array is None or self.layout == 0 else array.swapaxes(0, 1)

    def _rounded(self, state: Any) -> Any:
        """A state rounded as ``state_rounding`` says, for R to multiply."""
        return rounded(state, self.state_rounding)

    def _input_bias(self, inputs: Sequence[Any], d: int) -> Any:
        """The bias that is added to W x."""
        w, bias = inputs[1], inputs[3]
        return 0.0 if bias is None else bias[d, : w.shape[1]]

    def _activate(self, which: int, v: Any) -> Any:
        name, alpha, beta = self.functions[which]
        return ACTIVATIONS[name][0](v, alpha, beta)

    def _gate(self, which: int, v: Any) -> Any:
        """An activation of a gate: its argument is clipped."""
        return self._activate(which, np.clip(v, -self.clip, self.clip) if self.clip else v)

    @abstractmethod
    def _step(self, inputs: Sequence[Any], d: int, products: Any, h: Any, c: Any) -> Any:
        """The next h and c of direction ``d``."""


def _state(initial: Any, d: int, part: slice, width: int) -> Any:
    """A direction's state of a part of the batch before the first step, in float64."""
    if initial is None:
        return np.zeros((part.stop - part.start, width))
    return initial[d, part].astype(np.float64)


@attributes
class RNN(Recurrent):
    """h' = f(W x + R h + B), h' for every step.

    Inputs x [T, B, I], W [D, H, I], R [D, H, H], B [D, 2H] (of the input, then of the state;
    optional), initial_h [D, B, H] (optional: zeros). Outputs Y [T, D, B, H] ([B, T, D, H] in layout
    1) and Y_h [D, B, H], the last h of each direction. Activations: f (Tanh).

    ``direction``: "forward", "reverse" or "bidirectional" (D = 2, forward first); a reverse one
    walks from the last step to the first and leaves each result at its own step. ``activations``:
    ONNX's names and Clip (bounds to alpha..beta), the same for both directions;
    ``activation_alpha`` and ``activation_beta`` hold a number for each or nothing (ONNX's
    defaults). ``clip``: bound on the arguments of the gates' activations, 0: none. ``layout``:
    ONNX's, 0 for sequences [T, B, ...] and states [D, B, ...], 1 for [B, T, ...] and [B, D, ...].
    ``state_rounding``: h (in a GRU also r h) is rounded before R multiplies it, each row (one step
    of one batch entry) by itself, as DynamicRound does it; "none": it is not.
    """

    gates = 1
    default_activations = ("Tanh",)

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w, r, b, h0 = arguments(self, inputs, 3, optional=2)
        sizes = self._open(x, w, r)
        self._check_inputs(sizes, x, w, r, b, h0)
        require(sizes.outputs == sizes.hidden, f"RNN: R {r} does not suit W {w}")
        return self._results(x, sizes)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return self._run(*arguments(self, inputs, 3, optional=2))[:2]

    def _step(self, inputs: Sequence[Any], d: int, products: Any, h: Any, c: Any) -> Any:
        r, bias = inputs[2:4]
        shift = 0.0 if bias is None else bias[d, r.shape[1] :]
        return self._gate(0, products + self._rounded(h) @ r[d].T + shift), c


@attributes
class GRU(Recurrent):
    """h' = (1 - z) n + z h with gates z, r, n in that order in W, R and B.

    z = f(W x + R h + B), r likewise; n = g(W x + Wb + R (r h) + Rb), or with
    ``linear_before_reset`` n = g(W x + Wb + r (R h + Rb)). Inputs x [T, B, I], W [D, 3H, I],
    R [D, 3H, H], B [D, 6H] (Wb of z, r, n, then Rb; optional), initial_h [D, B, H] (optional:
    zeros). Outputs and other attributes as of RNN. Activations: f of z and r (Sigmoid),
    g of n (Tanh).
    """

    gates = 3
    default_activations = ("Sigmoid", "Tanh")

    linear_before_reset: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w, r, b, h0 = arguments(self, inputs, 3, optional=2)
        sizes = self._open(x, w, r)
        self._check_inputs(sizes, x, w, r, b, h0)
        require(sizes.outputs == sizes.hidden, f"GRU: R {r} does not suit W {w}")
        return self._results(x, sizes)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return self._run(*arguments(self, inputs, 3, optional=2))[:2]

    def _step(self, inputs: Sequence[Any], d: int, products: Any, h: Any, c: Any) -> Any:
        r, bias = inputs[2:4]
        n = r.shape[1] // 3
        shift = np.zeros(3 * n) if bias is None else bias[d, 3 * n :]
        of_z, of_r, of_n = np.split(products, 3, axis=-1)
        both = self._rounded(h) @ r[d, : 2 * n].T + shift[: 2 * n]
        z = self._gate(0, of_z + both[:, :n])
        reset = self._gate(0, of_r + both[:, n:])
        if self.linear_before_reset:
            candidate = reset * (self._rounded(h) @ r[d, 2 * n :].T + shift[2 * n :])
        else:
            candidate = self._rounded(reset * h) @ r[d, 2 * n :].T + shift[2 * n :]
        new = self._gate(1, of_n + candidate)
        return (1 - z) * new + z * h, c


@attributes
class LSTM(Recurrent):
    """c' = f c + i g, h' = o act(c') with gates i, o, f, g in that order in W, R and B.

    Each gate is an activation of W x + R h + B; peepholes add P c to i and f and P c' to o;
    ``input_forget``: f = 1 - i (for i = 1 - f negate the weights of f and give them as i's).
    With ``norm`` the sums of a gate, with the peephole and without B, are first brought to mean 0
    and variance 1 over the units (``norm_epsilon`` is added to the variance) and multiplied by it;
    B is added to that. With a projection h' = projection (o act(c')) + projection_bias; o act(c')
    is rounded before as ``projection_rounding`` says. ``cell_clip`` bounds c', ``projection_clip``
    the projected h'; 0: no bound. With ``output_of`` "candidate" o multiplies g, not act(c').

    Inputs x [T, B, I], W [D, 4H, I], R [D, 4H, O], B [D, 8H] (of the input, then of the state;
    optional), initial_h [D, B, O], initial_c [D, B, H] (optional: zeros), P [D, 3H] (i, o, f;
    optional), projection [D, O, H] (optional; without one O is H), projection_bias [D, O]
    (optional), norm [D, 4H] (optional). Outputs Y [T, D, B, O] ([B, T, D, O] in layout 1), Y_h
    [D, B, O] and Y_c [D, B, H]. Activations: of i, o and f (Sigmoid), of g (Tanh), of c' (Tanh).
    Other attributes as of RNN.
    """

    gates = 4
    default_activations = ("Sigmoid", "Tanh", "Tanh")

    input_forget: bool = False
    cell_clip: float = 0.0
    projection_clip: float = 0.0
    projection_rounding: str = "none"
    norm_epsilon: float = 1e-8
    output_of: str = "cell"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w, r, b, h0, c0, p, projection, shift, norm = arguments(self, inputs, 3, optional=7)
        sizes = self._open(x, w, r)
        self._check_inputs(sizes, x, w, r, b, h0, c0)
        require_dtype(self, x.dtype, p, projection, shift, norm)
        self._require("P", p, (sizes.directions, 3 * sizes.hidden))
        self._require("projection", projection, (sizes.directions, sizes.outputs, sizes.hidden))
        self._require("projection_bias", shift, (sizes.directions, sizes.outputs))
        self._require("norm", norm, (sizes.directions, 4 * sizes.hidden))
        known = self.projection_rounding in ROUNDINGS
        require(known, f"LSTM: no rounding {self.projection_rounding!r}")
        require(self.output_of in ("cell", "candidate"), f"LSTM: no output_of {self.output_of!r}")
        square = projection is not None or sizes.outputs == sizes.hidden
        require(square, f"LSTM: R {r} does not suit W {w} without a projection")
        lone = projection is not None or (shift is None and not self.projection_clip)
        require(lone, "LSTM: a projection's bias or clip without a projection")
        require(
            self.cell_clip >= 0 and self.projection_clip >= 0, "LSTM: a bound on c or h is negative"
        )
        cell = x.with_shape(self._state_shape(sizes, sizes.hidden))
        return (*self._results(x, sizes), cell)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        return self._run(*arguments(self, inputs, 3, optional=7))

    def _input_bias(self, inputs: Sequence[Any], d: int) -> Any:
        return 0.0 if inputs[9] is not None else super()._input_bias(inputs, d)

    def _step(self, inputs: Sequence[Any], d: int, products: Any, h: Any, c: Any) -> Any:
        r, bias, peepholes, norm = inputs[2], inputs[3], inputs[6], inputs[9]
        rows = r.shape[1]
        shift = 0.0 if bias is None or norm is not None else bias[d, rows:]
        i, o, f, g = np.split(products + self._rounded(h) @ r[d].T + shift, 4, axis=-1)
        looked = [0.0] * 3  # not 0 * c, which may be infinite
        if peepholes is not None:
            peep = peepholes[d].reshape(3, -1)
            looked = [peep[0] * c, 0.0, peep[2] * c]
        i = self._gate(0, self._normal(inputs, d, 0, i + looked[0]))
        if self.input_forget:
            f = 1 - i
        else:
            f = self._gate(0, self._normal(inputs, d, 2, f + looked[2]))
        g = self._gate(1, self._normal(inputs, d, 3, g))
        c = f * c + i * g
        if self.cell_clip:
            c = np.clip(c, -self.cell_clip, self.cell_clip)
        if peepholes is not None:
            looked[1] = peep[1] * c
        o = self._gate(0, self._normal(inputs, d, 1, o + looked[1]))
        out = o * (g if self.output_of == "candidate" else self._activate(2, c))
        return self._project(inputs[7], inputs[8], d, out), c

    def _normal(self, inputs: Sequence[Any], d: int, gate: int, sums: Any) -> Any:
        """The sums of a gate (its place in W), normalised where there is a norm."""
        bias, norm = inputs[3], inputs[9]
        if norm is None:
            return sums
        rest = sums - sums.mean(axis=-1, keepdims=True)
        variance = (rest * rest).mean(axis=-1, keepdims=True)
        scaled = rest / np.sqrt(variance + self.norm_epsilon) * norm[d].reshape(4, -1)[gate]
        shift = 0.0 if bias is None else bias[d].reshape(2, 4, -1).sum(axis=0)[gate]
        return scaled + shift

    def _project(self, projection: Any, shift: Any, d: int, h: Any) -> Any:
        if projection is None:
            return h
        h = rounded(h, self.projection_rounding) @ projection[d].T
        h = h + (0.0 if shift is None else shift[d])
        bound = self.projection_clip
        return np.clip(h, -bound, bound) if bound else h
