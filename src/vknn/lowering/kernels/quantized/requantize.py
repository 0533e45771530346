"""Requantization of sums of quantized integers in Conv and Gemm kernels.

The same kernels compute on floats, plain integers and quantized integers; a
:class:`QuantizedVariant` has what a dispatch needs for each (shaders/quantized/sums.glsl).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vknn.graph import DType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read4
from vknn.lowering.kit.layouts import Layout, allows, ceil_div, storage_bytes
from vknn.lowering.kit.parameters import Spec
from vknn.lowering.kit.problem import Problem
from vknn.ops.quantized.arithmetic import QuantizedBinary
from vknn.ops.quantized.convolution import LONG_SUMS, Requantized

#: Formats of constant weights: a weight of 32 bits each; four weights along k as the bytes of an
#: integer, multiplied one by one; the same, multiplied by an integer dot product instruction.
NUMBERS, BYTES, DOTS = "", "bytes", "dot"
_QUANT = {BYTES: 4, DOTS: 3}
#: Integers up to this are exact in float32.
_EXACT = 1 << 24
#: Lower bound of a candidate's cost with tensors in C4B, as a share of that without.
_LEAST_SHARE = 0.8
#: ROUNDING of the shaders by the op's.
_ROUNDING = {"double": 0, "wide": 1, "none": 2, "single": 3, "float": 5, "twice": 6, "long": 7}
#: ROUNDING of the shorter code for a product rounded twice, and the bounds of sums and shifts.
_NEAR, _NEAR_SUM, _NEAR_SHIFT = 4, 1 << 29, 20


#: Estimated microseconds by the layout of x and by bytes that are not moved.
MovingCost = Callable[[Layout, int], float]


@dataclass(frozen=True)
class QuantizedVariant:
    """Variant, specialization constants and bindings of a dispatch, by the op's arithmetic.

    ``epilogue``: operand bindings of the shader's epilogue, None where the variant has none.
    """

    defines: Mapping[str, int]
    spec: Spec = field(default_factory=dict)
    bindings: tuple[BoundBuffer, ...] = ()
    epilogue: int | None = None


def is_quantized(problem: Problem) -> bool:
    """True where the op's sums are requantized."""
    return isinstance(problem.op, Requantized)


def has_setting(problem: Problem) -> bool:
    """True where multipliers and shifts are constants, as kernels want them."""
    op = problem.op
    assert isinstance(op, Requantized)
    if any(c is None for c in problem.constants[3:5]):
        return False
    # The high words of a wide bias are made where it is packed.
    plain = op.rounding not in (*LONG_SUMS, "twice")
    return plain or problem.inputs[2] is None or problem.constants[2] is not None


def by_floats(problem: Problem) -> bool:
    """True where the products of a quantized op are added up in float32."""
    op, data = problem.op, problem.input(0)
    assert isinstance(op, Requantized)
    narrow = data.dtype is not DType.INT16 and op.rounding not in LONG_SUMS
    return narrow and problem.constants[1] is not None


def byte_formats(problem: Problem) -> list[str]:
    """Weight formats, of BYTES and DOTS, that the op's weights and the device allow.

    Weights that are bytes only less their :func:`centre` are multiplied by integer dots of GPUs.
    """
    if not is_quantized(problem) or not by_floats(problem):
        return []
    middle = centre(problem)
    if middle is None:
        return []
    dots = "integer_dot" in problem.limits.features and _bias_is_constant(problem)
    if middle:
        return [DOTS] if dots and problem.limits.kind != "cpu" else []
    return [BYTES, DOTS] if dots else [BYTES]


def centre(problem: Problem) -> int | None:
    """Number that is taken off a quantized op's constant weights so that they are int8, mostly 0.

    Sums of products then lack it times the sum of the data (CENTRE in
    shaders/quantized/sums.glsl): w = (w - centre) + centre. None where weights are none, or of a
    range that no byte has. Padding weights of 0 are bytes as well.
    """
    op, w = problem.op, problem.constants[1]
    assert isinstance(op, Requantized)
    if w is None or w.size == 0:
        return None
    low, high = int(w.min()) - op.weight_zero, int(w.max()) - op.weight_zero
    if high - low > 255 or low < -255 or high > 255:
        return None
    return max(high - 127, 0) + min(low + 128, 0)


def _bias_is_constant(problem: Problem) -> bool:
    """True where there is no bias, or a constant one."""
    return problem.inputs[2] is None or problem.constants[2] is not None


def quantized_variant(
    emitter: Emitter,
    terms: int,
    packed: bool = True,
    weight_format: str = NUMBERS,
    folds: bool = False,
) -> QuantizedVariant:
    """The variant of a Conv or Gemm kernel for the emitter's problem.

    ``terms``: products that a sum takes in a step of the loop. ``packed``: constant weights come
    from :func:`pack`, or are integers in float32 where :func:`by_floats` says so.
    ``weight_format``: one of :func:`byte_formats` or NUMBERS. ``folds``: each sum meets all weights
    of its channel, also where x is padded, so that the bias can hold the zero point of x.
    """
    problem = emitter.problem
    if not is_quantized(problem):
        integer = not emitter.output().is_float
        return QuantizedVariant({"ELEM": int(integer)}, epilogue=None if integer else 1)
    op, data = problem.op, problem.input(0)
    assert isinstance(op, Requantized)
    floats = packed and by_floats(problem)
    folded = floats and folds and _bias_is_constant(problem)
    magnitudes = _magnitudes(problem)
    join = _join_steps(problem, terms, magnitudes, floats=floats, folded=folded)
    rounding = _NEAR if _is_near(problem, magnitudes) else _ROUNDING[op.rounding]
    dots = weight_format == DOTS
    mixed = dots and "integer_dot_mixed" in problem.limits.features
    sign = _sign(data.dtype, mixed) if dots else 0
    defines = {"ELEM": 1, "QUANT": _QUANT.get(weight_format, 1) if floats else 2}
    spec = {"JOIN": join, "ROUNDING": rounding, "SIGN": sign, "FOLDED": int(folded)}
    if mixed:
        spec["MIXED"] = 1
    if dots and (middle := centre(problem)):
        spec["CENTRE"] = middle
    bindings = [read4(_setting(emitter, folded or dots, sign, rounding))]
    if problem.epilogue.quantized is not None:
        defines["RESIDUAL"] = 1
        bindings.append(read4(emitter.operands[0]))
    if emitter.output().is_bytes:
        defines["BYTES"] = 1 if emitter.input(0).is_bytes else 2
        spec |= _signedness(data.dtype, op.dtype)
    return QuantizedVariant(defines, spec, tuple(bindings))


def _sign(data: DType, mixed: bool) -> int:
    """What is taken off data of integer dots: ``mixed`` ones want unsigned bytes, others signed."""
    unsigned = data is DType.UINT8
    return (0 if unsigned else -128) if mixed else (128 if unsigned else 0)


def _signedness(data: DType, result: DType) -> dict[str, int]:
    """Specialization constants that tell uint8 from int8 in words of four bytes."""
    unsigned = DType.UINT8
    return {"BYTES_UNSIGNED": int(data is unsigned), "OTHER_UNSIGNED": int(result is unsigned)}


def in_bytes(
    problem: Problem, found: Sequence[Candidate], costs: Sequence[MovingCost] | None = None
) -> Iterator[Candidate]:
    """Copies of candidates that multiply in floats: with y in C4B, and with x and y in C4B.

    ``costs``: of each candidate, on GPUs. Otherwise it is the candidate's less what reading and
    storing fewer bytes saves.
    """
    x, y = problem.inputs[0], problem.outputs[0]
    if x is None or not (is_quantized(problem) and by_floats(problem) and allows(y, Layout.C4B)):
        return
    by_cost = costs if costs is not None and problem.limits.kind != "cpu" else None
    spared = 3 * storage_bytes(y, Layout.C4B)
    if by_cost is not None:  # what is added lies in bytes as well
        spared += 3 * sum(storage_bytes(t, Layout.C4B) for t in problem.epilogue.operands)
    layouts = [("-to-bytes", Layout.C4, spared)]
    if allows(x, Layout.C4B):
        layouts += [("-in-bytes", Layout.C4B, spared + 3 * storage_bytes(x, Layout.C4B))]
    for number, candidate in enumerate(found):
        for name, source, spared in layouts:
            least = max(
                candidate.cost - spared * problem.machine.byte, _LEAST_SHARE * candidate.cost
            )
            yield replace(
                candidate,
                name=candidate.name + name,
                inputs=(source, *candidate.inputs[1:]),
                outputs=(Layout.C4B,),
                cost=least if by_cost is None else by_cost[number](source, spared),
            )


def pack(
    emitter: Emitter,
    key: str,
    make: Callable[..., np.ndarray],
    sources: tuple[np.ndarray, ...],
    weight_format: str = NUMBERS,
    width: int = 0,
) -> Ref:
    """Packed constant weights, as float32 where products of integers are added up in floats.

    ``make`` packs weights and bias in rows of ``width`` columns; for the other formats than NUMBERS
    each four of its rows of weights become one, less their :func:`centre`, and the row of bias is
    left out.
    """
    if weight_format != NUMBERS:
        w, middle = sources[0], centre(emitter.problem) or 0
        return emitter.weight(f"{key}.bytes", lambda: as_bytes(make(w) - middle, width), w)
    if is_quantized(emitter.problem) and by_floats(emitter.problem):
        w = sources[0]
        return emitter.weight(f"{key}.whole", lambda: make(w.astype(np.float32)), w, single=True)
    return emitter.weight(key, lambda: make(*sources), *sources)


def as_bytes(packed: np.ndarray, width: int, bits: int = 8) -> np.ndarray:
    """Packed weights with every four rows of ``width`` columns as the bytes of one, int32.

    With ``bits`` 4 or 2, every 8 or 16 rows: the first four have the lowest bits of the bytes.
    """
    run = 32 // bits
    rows = packed[: packed.size // (run * width) * run * width].astype(np.uint32)
    places = np.arange(run, dtype=np.uint32)
    shifts = (8 * (places % 4) + bits * (places // 4)).astype(np.uint32).reshape(1, run, 1)
    single = rows.reshape(-1, run, width) & np.uint32((1 << bits) - 1)
    joined = np.bitwise_or.reduce(single << shifts, axis=1)
    return np.ascontiguousarray(joined).view(np.int32).ravel()


def _join_steps(
    problem: Problem, terms: int, magnitudes: np.ndarray | None, *, floats: bool, folded: bool
) -> int:
    """Specialization constant JOIN: steps after which sums join those of more bits."""
    if floats:
        return _exact_steps(problem, terms, folded, magnitudes)
    return _wide_steps(problem, terms)


def _exact_steps(problem: Problem, terms: int, folded: bool, magnitudes: np.ndarray | None) -> int:
    """Steps after which float32 sums become integers; 0 where they are exact to the end."""
    op, most = problem.op, _most_data(problem, folded)
    assert isinstance(op, Requantized) and magnitudes is not None
    if most * _largest_sum(op, magnitudes) <= _EXACT:
        return 0
    steps = _EXACT // (terms * most * max(1, int(magnitudes.max())))
    return 1 << max(0, steps.bit_length() - 1)


def _is_near(problem: Problem, magnitudes: np.ndarray | None) -> bool:
    """True where the shorter code for a product rounded twice (ROUNDING 4) is exact."""
    op, (bias, _, shift) = problem.op, problem.constants[2:5]
    assert isinstance(op, Requantized) and shift is not None
    if op.rounding != "double" or magnitudes is None or not _bias_is_constant(problem):
        return False
    if shift.min(initial=0) < -_NEAR_SHIFT or shift.max(initial=-_NEAR_SHIFT) > -1:
        return False
    beyond = 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
    most = _most_data(problem, False) * _largest_sum(op, magnitudes) + beyond
    return max(most, abs(op.zero_out) << _NEAR_SHIFT) < _NEAR_SUM


def _most_data(problem: Problem, folded: bool) -> int:
    """The largest magnitude of data, less their zero point unless that is ``folded``."""
    op, data = problem.op, problem.input(0)
    assert isinstance(op, Requantized)
    info, zero = np.iinfo(data.dtype.numpy), 0 if folded else op.zero_in
    return max(abs(int(info.min) - zero), abs(int(info.max) - zero))


def _magnitudes(problem: Problem) -> np.ndarray | None:
    """The magnitudes of weights less their zero point; None where they are no constants."""
    op, w = problem.op, problem.constants[1]
    assert isinstance(op, Requantized)
    return None if w is None else np.abs(w.astype(np.int64) - op.weight_zero)


def _largest_sum(op: Requantized, magnitudes: np.ndarray) -> int:
    """The largest sum of the weights' magnitudes over an output channel."""
    axes = tuple(a for a in range(magnitudes.ndim) if a != op.weight_axis % magnitudes.ndim)
    return int(magnitudes.sum(axis=axes).max(initial=0))


def _wide_steps(problem: Problem, terms: int) -> int:
    """Steps after which int32 sums join those of 64 bits; 0 where all is modulo 2^32."""
    op = problem.op
    assert isinstance(op, Requantized)
    if op.rounding not in LONG_SUMS:
        return 0
    steps = ((1 << 31) - 1) // ((1 << 15) * op.most_weight * terms)
    return 1 << max(0, steps.bit_length() - 1)


def _setting(emitter: Emitter, folded: bool, sign: int, rounding: int) -> Ref:
    """The buffer ``setting`` of shaders/quantized/sums.glsl.

    A vec4 of zero points and range; three vec4s of a fused QuantizedBinary where there is one; then
    multipliers, shifts and bias in vec4s of output channels. ``folded``: the zero point (less
    ``sign``) stays in the data, and the bias makes up for what it adds to the sums.
    """
    problem, op = emitter.problem, emitter.problem.op
    assert isinstance(op, Requantized)
    channels = problem.outputs[0].dims[op.channel_axis]
    head = [op.zero_in - sign, op.zero_out, op.low, op.high]
    head += _added_numbers(problem.epilogue.quantized)
    w, bias, multiplier, shift = problem.constants[1:5]
    near = rounding == _NEAR
    key = f"setting {(*head, channels, folded, near)}"
    sources = [s for s in (multiplier, shift, bias, w if folded else None) if s is not None]
    make = functools.partial(_setting_numbers, problem, channels, head, folded, near)
    held = emitter.weight(key, make, *sources)
    if bias is not None or problem.inputs[2] is None:
        return held
    return _with_bias(emitter, held, len(head), 4 * ceil_div(channels, 4))


def _setting_numbers(
    problem: Problem, channels: int, head: list[int], folded: bool, near: bool
) -> np.ndarray:
    """``head``, then rows of multipliers, shifts, bias and its high words, int32."""
    op, (w, bias, multiplier, shift) = problem.op, problem.constants[1:5]
    assert isinstance(op, Requantized) and multiplier is not None and shift is not None
    twice = op.rounding == "twice"
    rows = np.zeros((7 if twice else 4, 4 * ceil_div(channels, 4)), np.int64)
    if twice:
        rows[[0, 3, 5, 6], :channels], rows[[1, 4], :channels] = multiplier, shift
    else:
        rows[0, :channels], rows[1, :channels] = multiplier, -shift if near else shift
    if bias is not None and bias.ndim == 2:
        rows[2:, :channels] = bias
    elif bias is not None:
        rows[2, :channels] = bias
        if not twice:
            rows[3, :channels] = bias >> 31
    if folded:
        assert w is not None
        axes = tuple(a for a in range(w.ndim) if a != op.weight_axis % w.ndim)
        rows[2, :channels] -= head[0] * (w.astype(np.int64) - op.weight_zero).sum(axis=axes)
    return np.concatenate([head, rows.ravel()]).astype(np.int32)


def _with_bias(emitter: Emitter, held: Ref, start: int, width: int) -> Ref:
    """A copy of the setting with a bias that is known only at run time in its third row."""
    given = emitter.problem.input(2)
    joined = emitter.scratch("setting", start + 4 * width, dtype=DType.INT32)
    emitter.copy(held, joined, 4 * (start + 4 * width))
    emitter.copy(emitter.input(2), joined, 4 * given.size, 0, 4 * (start + 2 * width))
    return joined


def _added_numbers(op: QuantizedBinary | None) -> list[int]:
    """Three vec4s of the fused sum with another tensor, as the shader reads them."""
    if op is None:
        return []
    (zero, other_zero), left, zero_out = op.zeros, op.left_shift, op.zero_out
    first = [zero, other_zero, left, zero_out]
    return [*first, *op.multipliers, op.low, *op.shifts, op.high]
