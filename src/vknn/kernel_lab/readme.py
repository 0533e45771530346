"""README of a lab's folder, for whoever is sent it and knows nothing of vknn."""

from __future__ import annotations

from vknn.kernel_lab.description import LabBinding, LabDescription


def readme(lab: LabDescription) -> str:
    """Markdown that says what is in the folder and how to run it, with and without vknn."""
    local, groups = ("x".join(map(str, n)) for n in (lab.local, lab.groups))
    defines = " ".join(f"-D{name}={value}" for name, value in sorted(lab.variant.items()))
    lines = [
        f"# {lab.kernel}",
        "",
        f"One compute dispatch of vknn {lab.vknn}: {lab.label or lab.kernel} for "
        f"{', '.join(lab.layers) or 'no layer'}{f' of {lab.model}' if lab.model else ''}, with the "
        "bytes of all its buffers. No model is needed.",
        "",
        "    vknn kernel run .            # compile, run, time, check",
        "    vknn kernel run . --watch    # the same each time that a file below glsl/ is saved",
        "    vknn kernel adopt .          # the difference from the kernel that vknn ships",
        "",
        "## Device it was extracted on",
        "",
        f"- {lab.device.name} ({lab.device.kind}), driver {lab.device.driver}",
        f"- subgroups of {lab.device.subgroup_size} lanes",
        f"- features: {', '.join(lab.device.features) or 'none'}",
        f"- the kernel needs: {', '.join(lab.needs) or 'none of these'}",
        *(f"- {name}: {_limit(value)}" for name, value in lab.device.limits.items()),
        "",
        "## Dispatch",
        "",
        f"- source: glsl/{lab.kernel}.comp and the files that it includes; `extracted.spv` is the "
        "module that the driver was given, cut to what the constants leave of it",
        f"- compiled by hand: `glslc -fshader-stage=compute --target-env=vulkan1.1 -O0 -Iglsl "
        f"{defines} glsl/{lab.kernel}.comp`",
        f"- {groups} workgroups of {local} lanes (specialization constants 0, 1 and 2)",
        f"- macros: {_pairs(lab.variant)}",
        f"- specialization constants: {_pairs(lab.constants)}; others as the shader says",
        f"- push constants: {_pairs(lab.push)}",
        "",
        "## Buffers",
        "",
        "All in descriptor set 0. A view is a storage buffer, a uniform texel buffer (texel) or a "
        "storage texel buffer (image).",
        "",
        "| binding | tensor | access | view | elements | bytes | input |",
        "|---|---|---|---|---|---|---|",
        *(_row(lab, number, b) for number, b in enumerate(lab.bindings)),
        "",
        "## Outputs",
        "",
        *(line for output in lab.outputs for line in _output(lab, output.binding)),
        "",
        "Before each run memory that is only written is filled with the word 0x7FC17FC1 (NaN), and "
        "so are 256 bytes behind each written buffer, which must stay so.",
        "",
    ]
    return "\n".join(lines)


def _row(lab: LabDescription, number: int, b: LabBinding) -> str:
    view = b.view.value if b.view.value == "storage" else f"{b.view.value} {b.format.value}"
    memory = lab.memories[b.memory]
    place = memory.file or "none"
    if memory.file is not None and b.nbytes != memory.nbytes:
        place += f" from byte {b.offset} on"
    name = b.name.replace("|", "/")
    return f"| {number} | {name} | {b.access.value} | {view} | {b.dtype} | {b.nbytes} | {place} |"


def _output(lab: LabDescription, binding: int) -> list[str]:
    output = next(o for o in lab.outputs if o.binding == binding)
    what = "a buffer within an operator"
    if output.tensor is not None:
        dims = "x".join(map(str, output.tensor.dims))
        what = f"{output.tensor.dtype} {dims} in layout {output.tensor.layout}"
    found = [f"- binding {binding}: {what}; `{output.device}`: what the device gave"]
    if output.reference is not None:
        found.append(
            f"  - `{output.reference}`: what NumPy gives for the same inputs, in the same order; "
            f"`{output.allowed}`: the error allowed to each element"
        )
    else:
        found.append(f"  - allowed: {output.tolerance:g} of the largest number; integers are exact")
    if output.written is not None:
        found.append(f"  - `{output.written}`: the elements that the kernel writes")
    return found


def _pairs(values: object) -> str:
    assert hasattr(values, "items")
    return ", ".join(f"{name}={_value(v)}" for name, v in values.items()) or "none"


def _value(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _limit(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
