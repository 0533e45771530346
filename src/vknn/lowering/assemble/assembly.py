"""Assembly of a plan from commands over unplaced buffers: lifetimes, offsets, barriers, submits."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from vknn.graph import TensorType
from vknn.lowering.assemble.barriers import add_barriers, cut_submits
from vknn.lowering.assemble.memory_planner import Lifetime, align, pieces, place
from vknn.lowering.assemble.pending import PendingCommand
from vknn.lowering.assemble.stages import stages
from vknn.lowering.kit.emitter import Ref
from vknn.lowering.kit.problem import LoweringOptions
from vknn.plan import (
    Buffer,
    Command,
    Copy,
    DeviceLimits,
    Dispatch,
    Fill,
    Guard,
    Plan,
    Port,
    Role,
    accesses,
)

Result = tuple[Ref, TensorType, TensorType, Ref | None]


def assemble(
    name: str,
    pending: Sequence[PendingCommand],
    inputs: Mapping[str, tuple[Ref, TensorType]],
    outputs: Mapping[str, Result],
    limits: DeviceLimits,
    options: LoweringOptions,
) -> Plan:
    """The plan of the commands: in order on CPUs, on GPUs those that can run side by side are."""
    pending = _staged(pending, limits, options)
    refs = _collect(pending, inputs, outputs)
    owners = _merge_inplace(pending, refs, options)
    buffers, arenas, guards = _place(pending, refs, owners, limits, options)
    index = {ref: i for i, ref in enumerate(refs)}
    commands = [_renumber(p, index) for p in pending]
    steps = tuple(add_barriers(commands, buffers))
    return Plan(
        name=name,
        buffers=tuple(buffers),
        arenas=arenas,
        steps=steps,
        submits=cut_submits(steps, limits.kind),
        inputs={n: _port((*p, p[1], None), index, options) for n, p in inputs.items()},
        outputs={n: _port(result, index, options) for n, result in outputs.items()},
        constants={index[r]: r.data for r in refs if r.data is not None},
        guards=tuple(guards),
    )


def _staged(
    pending: Sequence[PendingCommand], limits: DeviceLimits, options: LoweringOptions
) -> list[PendingCommand]:
    """The commands with their stages, by which they are in order.

    A CPU driver fills all cores with each command: there every command is a stage of its own.
    """
    if limits.kind == "cpu" or "side-by-side" in options.disabled:
        numbers = list(range(len(pending)))
    else:
        numbers = stages(pending)
    found = [dataclasses.replace(p, stage=n) for p, n in zip(pending, numbers, strict=True)]
    return sorted(found, key=lambda item: item.stage)


def _port(result: Result, index: Mapping[Ref, int], options: LoweringOptions) -> Port:
    ref, type_, bound, count = result
    bfloat16 = ref.half and options.bfloat16
    if count is None:
        return Port(index[ref], type_, width=ref.width, bfloat16=bfloat16)
    axis = type_.shape.index(None)
    return Port(index[ref], bound, index[count], axis, ref.width, bfloat16)


def _collect(
    pending: Sequence[PendingCommand],
    inputs: Mapping[str, tuple[Ref, TensorType]],
    outputs: Mapping[str, Result],
) -> list[Ref]:
    """Every buffer once. The same packed weight seen through two refs keeps two entries."""
    seen: dict[Ref, None] = dict.fromkeys(ref for ref, _ in inputs.values())
    for item in pending:
        seen.update(dict.fromkeys(item.refs))
    for ref, _, _, count in outputs.values():
        seen.update(dict.fromkeys(r for r in (ref, count) if r is not None))
    return list(seen)


def _renumber(item: PendingCommand, index: Mapping[Ref, int]) -> Command:
    at = [index[r] for r in item.refs]
    match item.command:
        case Dispatch() as d:
            bindings = tuple(dataclasses.replace(b, buffer=at[b.buffer]) for b in d.bindings)
            return dataclasses.replace(d, bindings=bindings)
        case Copy() as c:
            return dataclasses.replace(c, source=at[c.source], target=at[c.target])
        case Fill() as f:
            return dataclasses.replace(f, buffer=at[f.buffer])


def _lifetimes(
    pending: Sequence[PendingCommand], *, roots: bool = False
) -> dict[Ref, tuple[int, int]]:
    """First and last stage that touches each buffer; with ``roots`` any part or view of it."""
    life: dict[Ref, tuple[int, int]] = {}
    for item in pending:
        for local, _ in accesses(item.command):
            ref = item.refs[local]
            ref = ref.root if roots else ref
            life[ref] = (life.get(ref, (item.stage,))[0], item.stage)
    return life


def _merge_inplace(
    pending: Sequence[PendingCommand], refs: Sequence[Ref], options: LoweringOptions
) -> dict[Ref, Ref]:
    """Root -> the root whose bytes it takes over (itself, where nothing is taken over)."""
    owners = {ref.root: ref.root for ref in refs}
    if "aliasing" in options.disabled:
        return owners
    life = _lifetimes(pending, roots=True)
    users = _users(pending)
    for item in pending:
        for source, target in item.inplace:
            old, new = source.root, target.root
            whole = source.nbytes == old.nbytes and target is new and source.nbytes == new.nbytes
            movable = old.role is Role.ACTIVATION and new.role is Role.ACTIVATION
            in_turn = life[old][1] == item.stage == life[new][0] and users[old, item.stage] == 1
            if whole and movable and in_turn and owners[new] is new:
                owners[new] = owners[old]
                break
    return owners


def _users(pending: Sequence[PendingCommand]) -> Counter[tuple[Ref, int]]:
    """How many commands of a stage touch a root: one of several may not take its bytes over."""
    return Counter(
        (root, item.stage)
        for item in pending
        for root in {item.refs[local].root for local, _ in accesses(item.command)}
    )


def _place(
    pending: Sequence[PendingCommand],
    refs: Sequence[Ref],
    owners: Mapping[Ref, Ref],
    limits: DeviceLimits,
    options: LoweringOptions,
) -> tuple[list[Buffer], dict[Role, int], list[Guard]]:
    spans = _spans(pending, refs, owners)
    share = "aliasing" not in options.disabled
    offsets: dict[Ref, int] = {}
    arenas: dict[Role, int] = {}
    guards: list[Guard] = []
    for role in (Role.INPUT, Role.OUTPUT, Role.ACTIVATION):
        mine = [r for r in spans if r.role is role]
        shared = share and role is Role.ACTIVATION and not options.guard
        blocks = [[*spans[r], *_guard_span(r, options)] for r in mine]
        places, arenas[role] = place(blocks, limits.alignment, share=shared)
        offsets.update(zip(mine, places, strict=True))
        if options.guard:
            guards += [
                Guard(role, o + r.nbytes, options.guard) for r, o in zip(mine, places, strict=True)
            ]
    weights, arenas[Role.WEIGHT] = _place_weights(
        [r for r in spans if r.role is Role.WEIGHT], limits
    )
    offsets.update(weights)
    names = _names(refs)
    buffers = [
        Buffer(names[r], r.root.role, offsets[owners[r.root]] + r.root_offset, r.nbytes)
        for r in refs
    ]
    return buffers, arenas, guards


def _names(refs: Sequence[Ref]) -> dict[Ref, str]:
    """A name for each buffer, parts and views with their root's before "//", windows behind it all.

    Nodes of a kind call their scratch buffers alike: those are told apart by a number. Weights
    may share a name, as they may share bytes.
    """
    roots: dict[Ref, str] = {}
    taken: dict[str, int] = {}
    for root in dict.fromkeys(ref.root for ref in refs):
        count = taken.get(root.name, 0)
        taken[root.name] = count + 1
        numbered = count and root.role is not Role.WEIGHT
        roots[root] = f"{root.name}##{count}" if numbered else root.name

    def name(ref: Ref) -> str:
        if ref.parent is None:
            return roots[ref]
        return f"{name(ref.parent) if ref.is_window else roots[ref.root]}//{ref.name}"

    return {ref: name(ref) for ref in refs}


def _spans(
    pending: Sequence[PendingCommand], refs: Sequence[Ref], owners: Mapping[Ref, Ref]
) -> dict[Ref, list[Lifetime]]:
    """Lifetimes of the bytes of each root that owns any; other roots' bytes are among them."""
    life = _lifetimes(pending)
    parts: dict[Ref, list[Lifetime]] = {}
    for ref in refs:
        span = Lifetime(ref.nbytes, *life.get(ref, (0, 0)), ref.root_offset)
        parts.setdefault(owners[ref.root], []).append(span)
    return {owner: pieces(spans) for owner, spans in parts.items()}


def _guard_span(root: Ref, options: LoweringOptions) -> list[Lifetime]:
    return [Lifetime(options.guard, 0, 0, root.nbytes)] if options.guard else []


def _place_weights(roots: Sequence[Ref], limits: DeviceLimits) -> tuple[dict[Ref, int], int]:
    """Weights side by side; the same packed array once."""
    offsets: dict[Ref, int] = {}
    known: dict[int, int] = {}
    end = 0
    for ref in roots:
        key = id(ref.data)
        if key not in known:
            known[key] = end
            end = align(end + ref.nbytes, limits.alignment)
        offsets[ref] = known[key]
    return offsets, end
