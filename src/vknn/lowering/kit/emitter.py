"""Emitter: collects the dispatches, copies and fills of one node."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType
from vknn.lowering.kit.epilogue import epilogue_constants
from vknn.lowering.kit.grid_loop import Grid
from vknn.lowering.kit.layouts import buffer_bytes, element_bytes
from vknn.lowering.kit.parameters import Number, Push, Spec, parameters_of
from vknn.lowering.kit.problem import LoweringOptions, Problem
from vknn.lowering.kit.weight_cache import WeightCache, holds_floats
from vknn.plan import Access, Binding, Command, Copy, Dispatch, Fill, Role, TexelFormat, View

ACCESS_MODES = {"storage": (0, View.STORAGE), "texel": (1, View.TEXEL), "image": (2, View.IMAGE)}


@dataclass(eq=False)
class Ref:
    """A buffer while a plan is being made.

    ``data``: packed bytes of a weight. ``parent``: the buffer that this one is a view of, from
    byte ``offset`` on. ``role`` counts for roots (buffers without a parent). ``width``: bytes of an
    element: 4, 2 for float16 and bfloat16, 1 where shaders read four integers of a byte as a word.
    ``is_window``: the same tensor as ``parent``, seen from a later place on; other views and parts
    are tensors of their own.
    """

    name: str
    nbytes: int
    is_float: bool = True
    data: np.ndarray | None = None
    parent: Ref | None = None
    offset: int = 0
    role: Role = Role.ACTIVATION
    width: int = 4
    is_window: bool = False

    def window(self, element: int) -> Ref:
        """The buffer from an element on, for kernels that take a tensor by pieces."""
        if not element:
            return self
        offset = element * self.width
        return Ref(
            f"+{offset}",
            self.nbytes - offset,
            self.is_float,
            parent=self,
            offset=offset,
            width=self.width,
            is_window=True,
        )

    @property
    def is_bytes(self) -> bool:
        """True where the elements are bytes."""
        return self.width == 1

    @property
    def half(self) -> bool:
        """True where the elements are floats of 16 bits."""
        return self.width == 2

    @property
    def root(self) -> Ref:
        """The buffer that owns the bytes."""
        return self if self.parent is None else self.parent.root

    @property
    def root_offset(self) -> int:
        """Byte at which this buffer starts within its root."""
        return 0 if self.parent is None else self.offset + self.parent.root_offset


@dataclass(frozen=True)
class BoundBuffer:
    """A buffer bound to a shader; made by :func:`read4` and its kin, in order of binding number."""

    ref: Ref
    access: Access
    texels: int  # scalars in a texel: 4 or 1


def read4(ref: Ref) -> BoundBuffer:
    """Binding of an INPUT4: read as vec4s."""
    return BoundBuffer(ref, Access.READ, 4)


def read1(ref: Ref) -> BoundBuffer:
    """Binding of an INPUT1: read as scalars."""
    return BoundBuffer(ref, Access.READ, 1)


def write(ref: Ref) -> BoundBuffer:
    """Binding of an OUTPUT4 or OUTPUT1: written."""
    return BoundBuffer(ref, Access.WRITE, 4)


def update(ref: Ref) -> BoundBuffer:
    """Binding of an INOUT1: read and written by the same dispatch."""
    return BoundBuffer(ref, Access.READ_WRITE, 4)


@dataclass(eq=False)
class Emitter:
    """Collector of one node's dispatches. Inputs and outputs lie in the candidate's layouts.
    ``placed``: inputs in output 0 already, where ``Candidate.parts`` wants them. ``counters``:
    gives words that are 0 when a plan begins, for one dispatch."""

    problem: Problem
    inputs: Sequence[Ref | None]
    outputs: Sequence[Ref]
    operands: Sequence[Ref]
    weights: WeightCache
    label: str
    nodes: tuple[str, ...]
    commands: list[tuple[Command, list[Ref]]] = field(default_factory=list)
    placed: frozenset[int] = frozenset()
    counters: Callable[[int], Ref] | None = None

    def input(self, index: int) -> Ref:
        """The buffer of an input; raises where the candidate asked for none."""
        ref = self.inputs[index]
        if ref is None:
            raise ValueError(f"{self.label}: input {index} is not in a buffer")
        return ref

    def output(self, index: int = 0) -> Ref:
        return self.outputs[index]

    def weight(
        self,
        key: str,
        make: Callable[[], np.ndarray],
        *sources: np.ndarray,
        single: bool = False,
    ) -> Ref:
        """A constant buffer; ``make`` packs it (32-bit elements) once a ``key`` and ``sources``.

        Floats are stored as the plan's precision says, or with ``single`` as float32 always: for
        tables and statistics, which a shader declares with suffix S.
        """
        precision = self.problem.options.precision if self.half and not single else "fp32"
        data = self.weights.get(key, sources, make, precision)
        is_float, nbytes = holds_floats(data), buffer_bytes(data.size, data.itemsize)
        name, width = f"{self.label}.{key}", data.itemsize
        return Ref(name, nbytes, is_float, data, role=Role.WEIGHT, width=width)

    def scratch(
        self, name: str, count: int, *, dtype: DType = DType.FLOAT32, as_tensor: bool = False
    ) -> Ref:
        """A buffer of ``count`` elements that lives only within this node.

        They have 32 bits (shaders declare it with suffix S), or with ``as_tensor`` those that a
        tensor of ``dtype`` has.
        """
        width = element_bytes(dtype, self.half and as_tensor)
        return Ref(f"{self.label}.{name}", buffer_bytes(count, width), dtype.is_float, width=width)

    @property
    def half(self) -> bool:
        """True where tensors are stored in 16 bits."""
        return self.problem.options.half

    def dispatch(
        self,
        kernel: str,
        bindings: Sequence[BoundBuffer],
        *,
        groups: tuple[int, int, int],
        local: tuple[int, int, int],
        push: Push | Sequence[Number] | None = None,
        spec: Spec | None = None,
        defines: Mapping[str, int | str] | None = None,
        epilogue: int | None = None,
        with_steps: bool = True,
        access: str | None = None,
        flops: int = 0,
        label: str | None = None,
        source: str | None = None,
    ) -> None:
        """One dispatch of shaders/<kernel>.comp.

        ``bindings`` in order of binding number. ``epilogue``: number of operand bindings that the
        shader's epilogue declares (they come after the others, and are bound here); None: the
        shader has no epilogue. ``with_steps`` False: it has one, but the steps are left to a later
        dispatch. Operands bind as scalars where ``defines`` has EPILOGUE_SCALAR or the kernel's
        name ends with "_scalar". ``access``: how inputs are read; by default the device's
        preference where they fit. HALF=1 is added to ``defines`` where a buffer holds floats of 16
        bits and they do not name it, and BF16=1 where those are bfloat16. ``push`` and ``spec``:
        push constants and specialization constants by the names that the shader declares (see
        vknn.lowering.kit.parameters); ValueError for unknown and missing ones. ``source``: the GLSL
        where ``kernel`` is a user's own; its ``push`` is a sequence, in the order of the shader's
        block, and it has no ``spec``.
        """
        bound = list(bindings)
        named = dict(spec or {})
        spare: list[BoundBuffer] = []
        if epilogue is not None:
            named.update(epilogue_constants(self.problem.epilogue) if with_steps else {})
            scalar = "EPILOGUE_SCALAR" in (defines or {}) or kernel.endswith("_scalar")
            operands, spare = self._operand_bindings(epilogue, scalar, bound)
            bound += operands
        used = [b.ref for b in bound]
        bound += spare
        mode = self._access(access, bound)
        half = {"HALF": 1} if any(b.ref.half for b in bound) else {}
        if half and self.problem.options.bfloat16:
            half["BF16"] = 1
        variant = {"ACCESS": ACCESS_MODES[mode][0], **half, **(defines or {})}
        constants: dict[int, Number] = dict(enumerate(local))
        if source is None:
            parameters = parameters_of(kernel)
            constants.update(parameters.specialization(named))
            payload = parameters.pack(cast("Push", push or {}))
        else:
            payload = _pack_sequence(kernel, cast("Sequence[Number]", push or ()))
        if len(payload) > self.problem.limits.max_push_constants:
            raise ValueError(f"{kernel}: {len(payload)} bytes of push constants are too many")
        self._check_groups(kernel, groups, local)
        refs = [b.ref for b in bound]
        dispatch = Dispatch(
            kernel=kernel,
            variant=tuple(sorted((k, str(v)) for k, v in variant.items())),
            specialization=tuple(sorted(constants.items())),
            push=payload,
            bindings=tuple(_binding(i, b, mode, self.problem.options) for i, b in enumerate(bound)),
            groups=groups,
            nodes=self.nodes,
            label=label or self.label,
            flops=flops,
            nbytes=sum({id(r): r.nbytes for r in used}.values()),
            source=source,
        )
        self.commands.append((dispatch, refs))

    def dispatch_items(
        self,
        kernel: str,
        bindings: Sequence[BoundBuffer],
        grid: Grid,
        *,
        push: Push,
        spec: Spec | None = None,
        defines: Mapping[str, int | str] | None = None,
        epilogue: int | None = None,
        access: str | None = None,
        flops: int = 0,
        label: str | None = None,
    ) -> None:
        """A :meth:`dispatch` of a kernel that shares its items out with FOR_EACH_ITEM.

        ``grid`` gives the workgroups, the push constant ``chunk`` and the specialization constants
        of shaders/common/indexing.glsl, which ``push`` and ``spec`` leave out.
        """
        self.dispatch(
            kernel,
            bindings,
            groups=grid.groups,
            local=grid.local,
            push={**push, "chunk": grid.chunk},
            spec={**grid.spec, **spec} if spec else grid.spec,
            defines=defines,
            epilogue=epilogue,
            access=access,
            flops=flops,
            label=label,
        )

    def copy(
        self, source: Ref, target: Ref, nbytes: int, source_offset: int = 0, target_offset: int = 0
    ) -> None:
        """Copy of bytes from buffer to buffer (offsets and size: whole elements)."""
        step = Copy(0, 1, nbytes, source_offset, target_offset, self.nodes, self.label)
        self.commands.append((step, [source, target]))

    def fill(self, ref: Ref, word: int = 0) -> None:
        """Fill of every 32-bit word of a buffer."""
        self.commands.append((Fill(0, word, self.nodes, self.label), [ref]))

    def _operand_bindings(
        self, count: int, scalar: bool, bound: Sequence[BoundBuffer]
    ) -> tuple[list[BoundBuffer], list[BoundBuffer]]:
        """Bindings of the epilogue's operands, and of those that no step reads."""
        read = read1 if scalar else read4
        used = [read(r) for r in self.operands]
        if len(used) > count:
            raise ValueError(f"{self.label}: {len(used)} epilogue operands, room for {count}")
        return used, [read(self._spare(bound))] * (count - len(used))

    def _spare(self, bound: Sequence[BoundBuffer]) -> Ref:
        """A buffer for a binding that no step reads: one that the dispatch reads anyway.

        Another would be kept until then. Texel buffers need a tensor's format.
        """
        width = 2 if self.half else 4
        inputs = [r for r in self.inputs if r is not None and r.is_float]
        read = [b.ref for b in bound if b.access is Access.READ]
        read = [r for r in read if r.is_float and r.width == width]
        both = [r for r in inputs if r in read]
        return next(iter([*both, *read, *inputs]), self.outputs[0])

    def _access(self, wanted: str | None, bound: Sequence[BoundBuffer]) -> str:
        limits, disabled = self.problem.limits, self.problem.options.disabled
        mode = wanted or limits.preferred_access
        reads = [b for b in bound if b.access is Access.READ]
        fits = all(
            b.ref.nbytes // (b.ref.width * b.texels) <= limits.max_texel_buffer_elements
            for b in reads
        )
        return mode if mode == "storage" or (fits and "texel" not in disabled) else "storage"

    def _check_groups(
        self, kernel: str, groups: tuple[int, int, int], local: tuple[int, int, int]
    ) -> None:
        limits = self.problem.limits
        over_count = any(g > m for g, m in zip(groups, limits.max_group_count, strict=True))
        over_size = any(s > m for s, m in zip(local, limits.max_group_size, strict=True))
        if over_count or over_size or math.prod(local) > limits.max_group_invocations:
            raise ShapeError(f"{kernel}: {groups} workgroups of {local} exceed the device's limits")


def _pack_sequence(kernel: str, push: Sequence[Number]) -> bytes:
    """Push constants of a user's own kernel, whose names are not known."""
    try:
        return b"".join(struct.pack("<f" if isinstance(p, float) else "<i", p) for p in push)
    except (struct.error, OverflowError) as error:
        raise ShapeError(f"{kernel}: {list(push)} do not fit 32 bits") from error


def _binding(index: int, bound: BoundBuffer, mode: str, options: LoweringOptions) -> Binding:
    view = ACCESS_MODES[mode][1] if bound.access is Access.READ else View.STORAGE
    if view is View.IMAGE and bound.ref.half and bound.texels == 1:
        view = View.TEXEL  # shaders/common/half.glsl says why
    format_ = _FORMATS[_element(bound.ref, options), bound.texels]
    return Binding(index, bound.access, view, format_)


def _element(ref: Ref, options: LoweringOptions) -> str:
    if ref.is_bytes:
        return "bytes"
    if not ref.is_float:
        return "int"
    return options.precision if ref.half else "float"


_FORMATS = {
    ("float", 1): TexelFormat.R32_SFLOAT,
    ("float", 4): TexelFormat.RGBA32_SFLOAT,
    ("fp16", 1): TexelFormat.R16_SFLOAT,
    ("fp16", 4): TexelFormat.RGBA16_SFLOAT,
    ("bf16", 1): TexelFormat.R16_UINT,
    ("bf16", 4): TexelFormat.RGBA16_UINT,
    ("int", 1): TexelFormat.R32_SINT,
    ("int", 4): TexelFormat.RGBA32_SINT,
    ("bytes", 4): TexelFormat.R32_SINT,
}
