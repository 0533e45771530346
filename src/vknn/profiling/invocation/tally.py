"""Tallies: what instructions do that is counted, summed over blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter

from vknn.errors import ShaderError
from vknn.profiling.invocation import opcodes as op
from vknn.profiling.invocation.dependence import Dependence
from vknn.profiling.invocation.module import Instruction, KernelModule
from vknn.profiling.invocation.types import Types

#: Multiply-adds of an integer dot product: four bytes by four bytes.
DOT_MULTIPLY_ADDS = 4


@dataclass(frozen=True)
class Tally:
    """Numbers of what one invocation does. They add up.

    Attributes:
        multiply_adds: Multiplications of floats, with an addition or without, those of 16 bits and
            each component of a vector counted as one.
        packed: Those of them that are of 16 bits.
        dots: Dot products of integers, of four multiply-adds each.
        matrix: Multiply-adds of cooperative matrices, the invocation's share of its subgroup's.
        loads: Loads from buffers, of whatever size.
        load_bytes: Bytes that they load.
        stores: Stores to buffers; atomic operations are a load and a store.
        store_bytes: Bytes that they store.
        shared_loads: Loads from the workgroup's shared memory.
        shared_stores: Stores to it.
        shared_bytes: Bytes of both.
        barriers: Barriers of the workgroup.
    """

    multiply_adds: float = 0
    packed: float = 0
    dots: float = 0
    matrix: float = 0
    loads: float = 0
    load_bytes: float = 0
    stores: float = 0
    store_bytes: float = 0
    shared_loads: float = 0
    shared_stores: float = 0
    shared_bytes: float = 0
    barriers: float = 0

    @property
    def work(self) -> float:
        """Multiply-adds of all kinds."""
        return self.multiply_adds + DOT_MULTIPLY_ADDS * self.dots + self.matrix

    @property
    def nbytes(self) -> float:
        """Bytes loaded from and stored to buffers."""
        return self.load_bytes + self.store_bytes

    def plus(self, other: Tally, times: float = 1) -> Tally:
        """This and ``other`` so many times."""
        pairs = zip(_numbers(self), _numbers(other), strict=True)
        return Tally(*[a + times * b for a, b in pairs])


_numbers = attrgetter(*(field.name for field in fields(Tally)))


@dataclass(frozen=True)
class TargetSizes:
    """Sizes that a module does not say: lanes of a subgroup, bytes of a texel by binding."""

    subgroup_size: int
    texels: tuple[tuple[int, int], ...] = ()

    @property
    def texel_bytes(self) -> Mapping[int, int]:
        return dict(self.texels)


def tally(
    module: KernelModule, dependence: Dependence, target: TargetSizes, step: Instruction
) -> Tally:
    """Tally of one instruction. Raises ShaderError where its size cannot be told."""
    types, opcode = module.types, step.opcode
    if opcode in (op.F_MULTIPLY, op.VECTOR_TIMES_SCALAR):
        return _products(types.components(step.type), types.width(step.type))
    if opcode == op.DOT:
        vector = types.of[step.operands[0]]
        return _products(types.components(vector), types.width(vector))
    if opcode == op.MATRIX_TIMES_SCALAR:
        return _scaled(types, target, step.type)
    if opcode in (op.VECTOR_TIMES_MATRIX, op.MATRIX_TIMES_VECTOR):
        vector = types.of[step.operands[opcode == op.MATRIX_TIMES_VECTOR]]
        each = types.components(vector)
        return _products(each * types.components(step.type), types.width(vector))
    if opcode == op.EXTENDED and step.operands[1] == op.FMA:
        return _products(types.components(step.type), types.width(step.type))
    if opcode in op.INTEGER_DOTS:
        return Tally(dots=1)
    if opcode == op.FLOAT_DOT:
        return _products(2, 16)
    if opcode == op.CONTROL_BARRIER:
        return Tally(barriers=1)
    if opcode in (op.COOPERATIVE_LOAD, op.COOPERATIVE_STORE, op.COOPERATIVE_MULTIPLY_ADD):
        return _cooperative(module, target, step)
    if opcode in (op.IMAGE_FETCH, op.IMAGE_READ, op.IMAGE_WRITE):
        nbytes = _texel(module, dependence, target, step.operands[0])
        return _access(op.STORAGE, nbytes, store=opcode == op.IMAGE_WRITE)
    return _memory(module, step)


def _memory(module: KernelModule, step: Instruction) -> Tally:
    types = module.types
    if step.opcode not in (op.LOAD, op.STORE) and step.opcode not in op.ATOMICS:
        return Tally()
    storage, kind = types.pointed(step.operands[0])
    if storage not in (op.STORAGE, op.UNIFORM, op.WORKGROUP):
        return Tally()
    nbytes = types.nbytes(kind)
    if step.opcode in op.ATOMICS:
        return _access(storage, nbytes).plus(_access(storage, nbytes, store=True))
    return _access(storage, nbytes, store=step.opcode == op.STORE)


def _products(count: int, width: int) -> Tally:
    return Tally(multiply_adds=count, packed=count if width == 16 else 0)


def _scaled(types: Types, target: TargetSizes, kind: int) -> Tally:
    """A product with a matrix, of the invocation's own or of its subgroup's (cooperative)."""
    opcode, operands = types.kinds[kind]
    if opcode == op.TYPE_COOPERATIVE:
        rows, columns = types.shape(kind)
        return _products(rows * columns // target.subgroup_size, types.width(kind))
    column, columns = operands
    return _products(columns * types.components(column), types.width(column))


def _access(storage: int, nbytes: float, *, store: bool = False) -> Tally:
    if storage == op.WORKGROUP:
        return Tally(shared_loads=not store, shared_stores=store, shared_bytes=nbytes)
    if store:
        return Tally(stores=1, store_bytes=nbytes)
    return Tally(loads=1, load_bytes=nbytes)


def _cooperative(module: KernelModule, target: TargetSizes, step: Instruction) -> Tally:
    types, lanes = module.types, target.subgroup_size
    if step.opcode == op.COOPERATIVE_MULTIPLY_ADD:
        rows, depth = types.shape(types.of[step.operands[0]])
        _, columns = types.shape(types.of[step.operands[1]])
        return Tally(matrix=rows * columns * depth / lanes)
    store = step.opcode == op.COOPERATIVE_STORE
    kind = types.of[step.operands[1]] if store else step.type
    rows, columns = types.shape(kind)
    storage, _ = types.pointed(step.operands[0])
    return _access(storage, rows * columns * types.width(kind) / 8 / lanes, store=store)


def _texel(module: KernelModule, dependence: Dependence, target: TargetSizes, image: int) -> int:
    """Bytes of a texel of the buffer that an image instruction reads or writes."""
    made = dependence.made(image)
    while made is not None and made.opcode in (op.IMAGE, op.LOAD):
        image = made.operands[0]
        made = dependence.made(image)
    binding = module.decorations.get((image, op.BINDING))
    if binding is None or binding not in target.texel_bytes:
        raise ShaderError("an image whose texels' size is not known")
    return target.texel_bytes[binding]
