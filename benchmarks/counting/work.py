"""Work of dispatches: multiply-adds by kind of kernel, bytes, lanes; from logs of ncnn and of vknn.

ncnn's kernels have no names in a log. Those that multiply by weights are told apart by how many
push constants and specialization constants they take, which differs by version.
Each element of the weights is used once for each pixel of the output, whatever the kernel's size,
stride or groups.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .log import LoggedDispatch, LoggedRun

#: Kinds of kernels: products with many rows, of Winograd's transformed tiles, of one row (fully
#: connected layers), a kernel a channel, and all that only moves or maps elements.
KINDS = ("product", "winograd", "row", "depthwise", "map")
#: ncnn's constants of its own; from 233 on the workgroup's size.
FIRST_LOCAL_CONSTANT = 233


@dataclass(frozen=True)
class Work:
    """Work of a dispatch. ``macs``: multiply-adds that it does (fewer than the layer has, with
    Winograd); ``nbytes``: of all buffers bound, once each; ``lanes``: invocations."""

    kind: str
    macs: int
    nbytes: int
    lanes: int

    @property
    def steps(self) -> float:
        """Multiply-adds, or elements of four bytes, that a lane does one after another."""
        return max(self.macs, self.nbytes / 4) / max(1, self.lanes)


Words = Sequence[int]
Uses = Callable[[Words], int]
#: Signature -> kind, and how often each element of the weights is used, by the push constants. A
#: signature: push constants, own specialization constants, buffers (input, output, weights, bias).
Rules = Mapping[tuple[int, int, int], tuple[str, Uses]]

#: Alike in both versions: depthwise and grouped convolutions; fully connected layers, in eighths of
#: sums and as a whole.
_SHARED: Rules = {
    (10, 21, 4): ("depthwise", lambda p: p[6] * p[7]),
    (3, 3, 3): ("row", lambda p: 1),
    (10, 14, 4): ("row", lambda p: p[7] if p[5] == 2 else 1),
}
#: Convolutions as matrix products, 1x1 and direct; the product of Winograd's tiles.
_NCNN_2023: Rules = {
    **_SHARED,
    (8, 18, 4): ("product", lambda p: p[4] * p[5]),
    (8, 12, 4): ("product", lambda p: p[4] * p[5]),
    (10, 20, 4): ("product", lambda p: p[6] * p[7]),
    (5, 6, 3): ("winograd", lambda p: p[2]),
}
#: The same, where there are two the second with cooperative matrices; 1x1 counts pixels in fours.
_NCNN_2026: Rules = {
    **_SHARED,
    (10, 22, 4): ("product", lambda p: p[4] * p[5]),
    (6, 29, 4): ("product", lambda p: p[3] * p[4]),
    (8, 14, 4): ("product", lambda p: 4 * p[5]),
    (3, 20, 4): ("product", lambda p: p[0]),
    (11, 23, 4): ("product", lambda p: p[6] * p[7]),
    (3, 6, 3): ("winograd", lambda p: p[1]),
    (3, 18, 3): ("winograd", lambda p: p[0]),
}
RULES = {"1.0.20231027": _NCNN_2023, "1.0.20261020": _NCNN_2026}
_MAP: tuple[str, Uses] = ("map", lambda p: 0)
_WEIGHTS = 2  # place among the buffers


def ncnn_work(
    run: LoggedRun, lanes: Mapping[int, int], version: str, element: int = 2
) -> list[Work] | None:
    """Work of ncnn's dispatches; None for a version whose kernels are not known.

    ``lanes``: pipeline's number -> lanes of a workgroup; ``element``: bytes of a weight.
    """
    rules = RULES.get(version)
    if rules is None:
        return None
    return [_of_ncnn(d, lanes.get(d.pipeline.number, 1), rules, element) for d in run.dispatches]


def vknn_work(run: LoggedRun, lanes: Mapping[int, int]) -> list[Work]:
    """Work of vknn's dispatches, by what its plan says of them in the run's notes. Raises
    ValueError where the plan and the log have not as many."""
    planned = run.notes["dispatches"]
    pairs = zip(run.dispatches, planned, strict=True)
    return [
        Work(
            _kind(kernel, flops), flops // 2, nbytes, math.prod(d.groups) * lanes[d.pipeline.number]
        )
        for d, (kernel, _, flops, nbytes) in pairs
    ]


def _kind(kernel: str, flops: int) -> str:
    family, _, name = kernel.partition("/")
    if name == "winograd_product":
        return "winograd"
    if name in ("depthwise", "grouped"):
        return "depthwise"
    if name in ("row", "row_parts", "gate"):
        return "row"
    families = ("convolution", "matmul", "attention", "chain")
    multiplies = family in families and not name.startswith("winograd")
    return "product" if multiplies and flops else "map"


def _of_ncnn(dispatch: LoggedDispatch, group: int, rules: Rules, element: int) -> Work:
    sizes = {(b.buffer, b.offset): b.nbytes for b in dispatch.buffers.values()}
    words = struct.unpack(f"<{len(dispatch.push) // 4}i", dispatch.push)
    constants = dispatch.pipeline.constants
    own = [constants[number] for number in sorted(constants) if number < FIRST_LOCAL_CONSTANT]
    kind, uses = rules.get((len(words), len(own), len(sizes)), _MAP)
    if len(words) == 3 and len(sizes) == 3 and kind == "row" and list(words) != own:
        kind, uses = _MAP  # an elementwise operator of as many
    weights = list(sizes.values())[_WEIGHTS] // element if len(sizes) > _WEIGHTS else 0
    lanes = math.prod(dispatch.groups) * group
    return Work(kind, weights * uses(words), dispatch.nbytes, lanes)
