"""Hand-made plans around one small kernel: y = factor * x + offset + weight."""

from __future__ import annotations

import functools
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from vknn.graph.types import DType, TensorType
from vknn.plan import (
    Access,
    Barrier,
    Binding,
    Buffer,
    Dispatch,
    Guard,
    Plan,
    Port,
    Role,
    Step,
    TexelFormat,
    View,
)

KERNELS = Path(__file__).parent / "kernels"
SHADERS = Path(__file__).parents[2] / "shaders"
ACCESS = {View.STORAGE: "0", View.TEXEL: "1", View.IMAGE: "2"}
ALIGNMENT = 256  # the largest that Vulkan allows a device to ask for


@functools.cache
def shaders(kernel: str, variant: tuple[tuple[str, str], ...]) -> bytes:
    """Compiles a kernel of this folder."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.spv"
        defines = [f"-D{name}={value}" for name, value in variant]
        source = KERNELS / f"{kernel}.comp"
        command = ["glslc", "-fshader-stage=comp", "--target-env=vulkan1.1", f"-I{SHADERS}"]
        subprocess.run([*command, *defines, str(source), "-o", str(target)], check=True)
        return target.read_bytes()


def scale(
    buffers: tuple[int, int, int],
    count: int,
    *,
    factor: float = 1.0,
    offset: float = 0.0,
    negate: bool = False,
    view: View = View.STORAGE,
    label: str = "scale",
) -> Dispatch:
    """y = factor * x + offset + w over ``count`` vec4s of buffers (x, w, y)."""
    x, w, y = buffers
    return Dispatch(
        kernel="scale",
        variant=(("ACCESS", ACCESS[view]), ("ELEM", "0")),
        specialization=((0, 8), (1, 1), (2, 1), (10, float(factor)), (11, negate)),
        push=struct.pack("<if", count, offset),
        bindings=(
            Binding(x, Access.READ, view, TexelFormat.RGBA32_SFLOAT),
            Binding(w, Access.READ, view, TexelFormat.RGBA32_SFLOAT),
            Binding(y, Access.WRITE),
        ),
        groups=(-(-count // 8), 1, 1),
        nodes=(label,),
        label=label,
    )


def chain_plan(
    weight: np.ndarray,
    *,
    steps: int = 3,
    view: View = View.STORAGE,
    submits: tuple[int, ...] | None = None,
    dtype: DType = DType.FLOAT32,
    barriers: bool = True,
) -> Plan:
    """y = x + steps * weight, as ``steps`` dispatches with a barrier between each two."""
    count, nbytes = weight.size // 4, weight.nbytes
    stride = -(-nbytes // ALIGNMENT) * ALIGNMENT
    buffers = [
        Buffer("x", Role.INPUT, 0, nbytes),
        Buffer("w", Role.WEIGHT, 0, nbytes),
        *(Buffer(f"t{i}", Role.ACTIVATION, stride * i, nbytes) for i in range(steps - 1)),
        Buffer("y", Role.OUTPUT, 0, nbytes),
    ]
    ends = [0, *range(2, 2 + steps)]
    listed: list[Dispatch | Barrier] = []
    for i in range(steps):
        if i and barriers:
            listed.append(Barrier((ends[i],)))
        listed.append(scale((ends[i], 1, ends[i + 1]), count, view=view, label=f"scale{i}"))
    port = TensorType(weight.shape, dtype)
    return Plan(
        name="chain",
        buffers=tuple(buffers),
        arenas={Role.INPUT: nbytes, Role.OUTPUT: nbytes, Role.ACTIVATION: stride * (steps - 1)},
        steps=tuple(listed),
        submits=submits or (len(listed),),
        inputs={"x": Port(0, port)},
        outputs={"y": Port(1 + steps, port)},
        constants={1: weight},
    )


def one_output_plan(
    kernel: str, count: int, *, nbytes: int = 64, groups: int = 1, guards: tuple[Guard, ...] = ()
) -> Plan:
    """One dispatch of a kernel with one output of ``nbytes`` and ``count`` as push constant.

    The binding covers the whole arena, guards and all.
    """
    whole = nbytes + sum(g.nbytes for g in guards)
    dispatch = Dispatch(
        kernel=kernel,
        variant=(("ACCESS", "0"), ("ELEM", "0")),
        specialization=((0, 1), (1, 1), (2, 1)),
        push=struct.pack("<i", count),
        bindings=(Binding(1, Access.WRITE),),
        groups=(groups, 1, 1),
    )
    return Plan(
        name=kernel,
        buffers=(Buffer("y", Role.OUTPUT, 0, nbytes), Buffer("all", Role.OUTPUT, 0, whole)),
        arenas={Role.OUTPUT: whole},
        steps=(dispatch,),
        submits=(1,),
        inputs={},
        outputs={"y": Port(0, TensorType((nbytes // 4,)))},
        guards=guards,
    )


def moving_plan(type_: TensorType, steps: tuple[Step, ...], count: int | None = None) -> Plan:
    """Buffers 0 x (input), 1 y (output), 2 t (activation), each of the port's size; ``steps``."""
    nbytes = max(16, -(-4 * type_.size // 16) * 16)
    roles = (Role.INPUT, Role.OUTPUT, Role.ACTIVATION)
    return Plan(
        name="moving",
        buffers=tuple(Buffer(n, r, 0, nbytes) for n, r in zip("xyt", roles, strict=True)),
        arenas=dict.fromkeys(roles, nbytes),
        steps=steps,
        submits=(len(steps),),
        inputs={"x": Port(0, type_)},
        outputs={"y": Port(1, type_, count)},
    )
