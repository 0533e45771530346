"""Text of a plan: the same in every process, without weights' values (golden tests read it)."""

from __future__ import annotations

import struct

from vknn.plan import Barrier, Copy, Dispatch, Fill, Plan, Step


def format_plan(plan: Plan) -> str:
    """Text of a plan: arenas, buffers, then one line a step."""
    lines = [f"plan {plan.name}"]
    lines += [f"  arena {role.value}: {size} bytes" for role, size in plan.arenas.items()]
    numbers = {b.name: number for number, b in enumerate(plan.buffers)}
    for number, b in enumerate(plan.buffers):
        root, _, part = b.name.partition("//")
        where = f" in %{numbers[root]}" if part and root in numbers else ""
        lines.append(f"  %{number} {b.role.value} [{b.offset}, +{b.nbytes}]{where} {b.name}")
    lines += [f"  input {name}: {p.type} = %{p.buffer}" for name, p in plan.inputs.items()]
    cuts = set(plan.submits[:-1])
    for number, step in enumerate(plan.steps):
        if number in cuts:
            lines.append("  submit")
        lines.append("  " + format_step(step))
    for name, port in plan.outputs.items():
        count = f", count %{port.count}" if port.count is not None else ""
        lines.append(f"  output {name}: {port.type} = %{port.buffer}{count}")
    return "\n".join(lines) + "\n"


def format_step(step: Step) -> str:
    """Text of one step, a line."""
    match step:
        case Barrier():
            return "barrier " + " ".join(f"%{b}" for b in step.buffers)
        case Copy():
            return (
                f"copy %{step.source}+{step.source_offset} -> %{step.target}+{step.target_offset}"
                f" {step.nbytes} bytes  ; {' '.join(step.nodes)}"
            )
        case Fill():
            return f"fill %{step.buffer} with {step.word:#x}  ; {' '.join(step.nodes)}"
        case Dispatch():
            return _format_dispatch(step)


def _format_dispatch(step: Dispatch) -> str:
    variant = ",".join(f"{k}={v}" for k, v in step.variant)
    spec = ",".join(f"{k}={v:g}" for k, v in step.specialization)
    push = " ".join(str(v) for (v,) in struct.iter_unpack("<i", step.push))
    marks = {"read": "", "write": "!", "readwrite": "!?"}
    bound = " ".join(f"%{b.buffer}{marks[b.access.value]}" for b in step.bindings)
    groups = "x".join(str(g) for g in step.groups)
    nodes = " ".join(step.nodes)
    return f"{step.kernel}<{variant}>({spec}) [{groups}] {bound} push({push})  ; {nodes}"
