"""Random numbers: RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL, MULTINOMIAL, random bits of StableHLO."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.generators import key_and_stream
from vknn.formats.tflite.registry import operator
from vknn.graph import DType, Value
from vknn.ops.generator.numbers import GeneratorCategorical, GeneratorNormal, GeneratorUniform
from vknn.ops.generator.random_bits import RandomBits

_NUMBERS = {"RANDOM_UNIFORM": GeneratorUniform, "RANDOM_STANDARD_NORMAL": GeneratorNormal}
#: Algorithms of STABLEHLO_RNG_BIT_GENERATOR by number; 0 leaves the choice to TensorFlow Lite.
_ALGORITHMS = {0: "philox", 1: "philox", 2: "threefry"}
_BITS = (DType.INT32, DType.UINT32, DType.INT64, DType.UINT64)


@operator(*_NUMBERS)
def random_numbers(c: Context) -> Value:
    """Random numbers in the shape that the input holds, with TensorFlow Lite's generator."""
    given = c.x.type
    good = given.rank == 1 and given.dtype is DType.INT32
    c.require(good, f"takes a shape as int32 [n], not {given}")
    shape = tuple(c.ints(0, "the shape"))
    c.require(min(shape, default=0) >= 0, f"makes numbers in the shape {list(shape)}: no axis may "
              "have a size below 0")  # fmt: skip
    kind = c.target().dtype
    c.require(kind is DType.FLOAT32, f"makes float32, its output is declared {kind.value}")
    op = _NUMBERS[c.operator.code]
    return c.drawn(op(shape, *key_and_stream(c.graph, c.operator)))


@operator("MULTINOMIAL", inputs=2)
def multinomial(c: Context) -> Value:
    """Classes drawn for each row of logits, with TensorFlow Lite's generator."""
    logits, kind = c.x.type, c.target().dtype
    good = logits.rank == 2 and logits.dtype is DType.FLOAT32 and logits.dims[1] > 0
    c.require(good, f"takes logits of float32 [rows, classes] with a class, not {logits}")
    count = c.number(1, "num_samples")
    c.require(count >= 0, f"draws {count} samples; num_samples must not be below 0")
    c.require(kind in (DType.INT32, DType.INT64), f"makes int32 or int64, its output is declared "
              f"{kind.value}")  # fmt: skip
    op = GeneratorCategorical(count, *key_and_stream(c.graph, c.operator))
    return c.cast(c.drawn(op, c.x), kind)


@operator("STABLEHLO_RNG_BIT_GENERATOR", outputs=2)
def random_bits(c: Context) -> tuple[Value, ...]:
    """A new state and random bits, both functions of the state."""
    number, made = c.options["algorithm"], c.target(1)
    c.require(number in _ALGORITHMS, f"has the algorithm {number}; 0 default, 1 Philox and 2 "
              "Threefry exist")  # fmt: skip
    state, algorithm = c.x.type, _ALGORITHMS[number]
    lengths = (2,) if algorithm == "threefry" else (2, 3)
    good = state.dtype is DType.UINT64 and state.rank == 1 and state.dims[0] in lengths
    c.require(good, f"takes a state of uint64 [{' or '.join(map(str, lengths))}] with the "
              f"algorithm {algorithm}, not {state}")  # fmt: skip
    c.require(made.dtype in _BITS, f"makes int32, uint32, int64 or uint64, not {made.type_name}")
    c.require(None not in made.shape, "makes bits in a shape that the file leaves open; give "
              "output 1 a fixed shape")  # fmt: skip
    shape = tuple(size or 0 for size in made.shape)
    return c.add_many(RandomBits(shape, made.dtype, algorithm), c.x)
