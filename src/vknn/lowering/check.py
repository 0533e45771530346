"""Proof that a plan is safe: no two live buffers overlap, every hazard has a barrier.

Independent of the planner and the scheduler on purpose: it starts from the finished plan alone.
"""

from __future__ import annotations

from vknn.plan import Barrier, Buffer, Plan, Role, accesses


class PlanError(AssertionError):
    """A plan would compute on the wrong bytes."""


def check_plan(plan: Plan) -> None:
    """Raises PlanError where the plan is unsafe."""
    for buffer in plan.buffers:
        if (
            buffer.role is not Role.WEIGHT
            and buffer.offset + buffer.nbytes > plan.arenas[buffer.role]
        ):
            raise PlanError(f"buffer {buffer.name!r} ends behind its arena")
    _check_contents(plan)
    _check_barriers(plan)
    ends = plan.submits
    covered = bool(ends) and ends[-1] == len(plan.steps) and list(ends) == sorted(set(ends))
    if plan.steps and not covered:
        raise PlanError(f"submits {ends} do not cover {len(plan.steps)} steps")


def _overlap(a: Buffer, b: Buffer) -> bool:
    return a.role is b.role and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


def _check_contents(plan: Plan) -> None:
    """Walks the steps with the owner of each byte range: a read must find what was written there.

    A buffer's data is its own from its write until a write to an overlapping buffer; a view reads
    what its root's writer left (views have the name of their root before a '/').
    """
    valid: dict[int, bool] = {p.buffer: True for p in plan.inputs.values()}
    for command in plan.commands:
        touched = accesses(command)
        for index, access in touched:
            if access.reads and not _holds_data(
                plan, index, valid, {i for i, a in touched if a.writes}
            ):
                name = plan.buffers[index].name
                raise PlanError(f"{command.label}: {name!r} was overwritten or never written")
        for index, access in touched:
            if access.writes:
                _overwrite(plan, index, valid)
    for name, port in plan.outputs.items():
        for held in (port.buffer, port.count):
            if held is not None and not _holds_data(plan, held, valid, set()):
                raise PlanError(f"output {name!r} was overwritten or never written")


def _root_name(buffer: Buffer) -> str:
    return buffer.name.split("//")[0]


def _holds_data(plan: Plan, index: int, valid: dict[int, bool], writing: set[int]) -> bool:
    buffer = plan.buffers[index]
    if buffer.role is Role.WEIGHT or valid.get(index):
        return True
    if index in writing and index not in valid:
        return True  # a binding that no step of an epilogue reads is bound to the output
    kin = [i for i, ok in valid.items() if ok and _root_name(plan.buffers[i]) == _root_name(buffer)]
    return any(_overlap(plan.buffers[i], buffer) for i in kin)


def _overwrite(plan: Plan, index: int, valid: dict[int, bool]) -> None:
    written = plan.buffers[index]
    for other in list(valid):
        buffer = plan.buffers[other]
        if _overlap(buffer, written) and _root_name(buffer) != _root_name(written):
            valid[other] = False
    valid[index] = True


def _check_barriers(plan: Plan) -> None:
    """Every pair of conflicting commands has a barrier between them."""
    open_accesses: list[tuple[Buffer, bool, str]] = []
    for step in plan.steps:
        if isinstance(step, Barrier):
            open_accesses = []
            continue
        mine = [
            (plan.buffers[i], access.writes)
            for i, access in accesses(step)
            if plan.buffers[i].role is not Role.WEIGHT
        ]
        for buffer, writes in mine:
            for other, other_writes, label in open_accesses:
                if (writes or other_writes) and _overlap(buffer, other):
                    raise PlanError(
                        f"no barrier between {label} and {step.label} on {buffer.name!r}"
                    )
        open_accesses += [(b, w, step.label) for b, w in mine]
