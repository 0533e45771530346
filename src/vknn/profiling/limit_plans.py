"""Plans for measuring a device's limits, each of which asks one thing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vknn.graph import DType, TensorType
from vknn.lowering.kit.parameters import parameters_of
from vknn.plan import (
    Access,
    Barrier,
    Binding,
    Buffer,
    Copy,
    DeviceLimits,
    Dispatch,
    Fill,
    Plan,
    Port,
    Role,
    Step,
    View,
)

ACCESS = {View.STORAGE: "0", View.TEXEL: "1", View.IMAGE: "2"}
FORMS = {View.STORAGE: "storage buffer", View.TEXEL: "texelFetch", View.IMAGE: "imageLoad"}
TRANSFER = "vkCmdCopyBuffer"
#: Forms of profiling/fma.comp: chains of vec4 a lane, and steps in a row.
FMA_FORMS = tuple((chains, steps) for chains in (1, 2, 3, 4) for steps in (4, 16, 64))
#: Chains of profiling/fma_half.comp and profiling/dots.comp, and the steps in a row of both.
NARROW_CHAINS, NARROW_STEPS = (1, 2, 4), 16
#: Steps of a chain in all.
FMA_LENGTH = 8192
#: The buffers of every plan, by index: a small output, and two to copy between.
RESULT, SOURCE, TARGET = 0, 1, 2
#: Buffers are written before they are read: pages never written may not exist yet.
_FILLED: tuple[Step, ...] = (Fill(SOURCE, 0x3F800000), Barrier((SOURCE,)))


def lanes(limits: DeviceLimits) -> int:
    """Invocations of a workgroup: one subgroup on a CPU, several on a GPU."""
    wanted = limits.subgroup_size if limits.kind == "cpu" else 128
    return min(wanted, limits.max_group_invocations, limits.max_group_size[0])


def fma(limits: DeviceLimits, chains: int, steps: int, groups: int) -> Plan:
    """Multiply-adds on ``chains`` vec4s a lane, ``steps`` of them in a row."""
    lanes_ = lanes(limits)
    rounds = min(FMA_LENGTH // steps, limits.max_loop_rounds)
    dispatch = Dispatch(
        kernel="profiling/fma",
        variant=(("STEPS", str(steps)), ("VECTORS", str(chains))),
        specialization=_local(lanes_),
        push=parameters_of("profiling/fma").pack(
            {"rounds": rounds, "factor": 0.999, "summand": 0.001}
        ),
        bindings=(Binding(RESULT, Access.WRITE),),
        groups=(groups, 1, 1),
        flops=2 * 4 * chains * steps * rounds * lanes_ * groups,
    )
    return _plan("multiply-adds", [dispatch])


def fma_half(limits: DeviceLimits, chains: int, groups: int) -> Plan:
    """Multiply-adds of float16 on ``chains`` vec4s a lane; takes "fp16_arithmetic"."""
    push = {"factor": 0.999, "summand": 0.001}
    return _narrow(limits, "profiling/fma_half", chains, groups, push, operations=8)


def dots(limits: DeviceLimits, chains: int, groups: int) -> Plan:
    """Dot products of four bytes, four times ``chains`` a lane; takes "integer_dot"."""
    mixed = {"MIXED": int("integer_dot_mixed" in limits.features)}
    constants = parameters_of("profiling/dots").specialization(mixed)
    push = {"factor": 0x01020301}
    more = tuple(constants.items())
    return _narrow(limits, "profiling/dots", chains, groups, push, operations=32, constants=more)


def _narrow(
    limits: DeviceLimits,
    kernel: str,
    chains: int,
    groups: int,
    push: Mapping[str, int | float],
    *,
    operations: int,
    constants: tuple[tuple[int, int | float], ...] = (),
) -> Plan:
    """Plan of a kernel whose step takes ``operations`` a chain; a multiply-add counts as two."""
    lanes_ = lanes(limits)
    rounds = min(FMA_LENGTH // NARROW_STEPS, limits.max_loop_rounds)
    dispatch = Dispatch(
        kernel=kernel,
        variant=(("VECTORS", str(chains)),),
        specialization=(*_local(lanes_), *constants),
        push=parameters_of(kernel).pack({"rounds": rounds, **push}),
        bindings=(Binding(RESULT, Access.WRITE),),
        groups=(groups, 1, 1),
        flops=operations * chains * NARROW_STEPS * rounds * lanes_ * groups,
    )
    return _plan(kernel, [dispatch])


def copy(limits: DeviceLimits, view: View, items: int, nbytes: int) -> Plan:
    """A copy by a shader that reads through ``view``, ``items`` vec4s a lane; of ``nbytes`` or the
    next smaller amount of whole rows of workgroups."""
    tile = 16 * items * lanes(limits)
    groups = max(1, nbytes // tile)
    width = min(groups, limits.max_group_count[0])
    height = groups // width
    copied = width * height * tile
    dispatch = Dispatch(
        kernel="profiling/copy",
        variant=(("ACCESS", ACCESS[view]),),
        specialization=(
            *_local(lanes(limits)),
            *parameters_of("profiling/copy").specialization({"ITEMS": items}).items(),
        ),
        push=b"",
        bindings=(Binding(SOURCE, Access.READ, view), Binding(TARGET, Access.WRITE)),
        groups=(width, height, 1),
        nbytes=2 * copied,
    )
    return _plan("copy", [*_FILLED, dispatch], copied)


def transfer(nbytes: int) -> Plan:
    """A copy by the driver."""
    return _plan("transfer", [*_FILLED, Copy(SOURCE, TARGET, nbytes)], nbytes)


def fill() -> Plan:
    """A fill of 16 bytes, the cheapest command there is."""
    return _plan("fill", [Fill(RESULT)])


def nothing(
    limits: DeviceLimits, dispatches: int, *, groups: int = 1, barriers: bool = False
) -> Plan:
    """Dispatches of a kernel that does next to nothing: their time is the cost of a dispatch."""
    dispatch = Dispatch(
        kernel="profiling/nothing",
        variant=(),
        specialization=_local(lanes(limits)),
        push=b"",
        bindings=(Binding(RESULT, Access.WRITE),),
        groups=(groups, 1, 1),
    )
    steps: list[Step] = []
    for number in range(dispatches):
        if number and barriers:
            steps.append(Barrier((RESULT,)))
        steps.append(dispatch)
    return _plan("nothing", steps)


def _local(lanes_: int) -> tuple[tuple[int, int], ...]:
    return ((0, lanes_), (1, 1), (2, 1))


def _plan(name: str, steps: Sequence[Step], nbytes: int = 0) -> Plan:
    """A plan without inputs whose only output is 16 bytes: nothing is uploaded or downloaded."""
    room = max(16, -(-nbytes // 256) * 256)
    buffers = (
        Buffer("result", Role.OUTPUT, 0, 16),
        Buffer("source", Role.ACTIVATION, 0, max(16, nbytes)),
        Buffer("target", Role.ACTIVATION, room, max(16, nbytes)),
    )
    return Plan(
        name=name,
        buffers=buffers,
        arenas={Role.OUTPUT: 16, Role.ACTIVATION: 2 * room},
        steps=tuple(steps),
        submits=(len(steps),),
        inputs={},
        outputs={"result": Port(RESULT, TensorType((4,), DType.FLOAT32))},
    )
