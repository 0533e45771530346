"""Work of dispatches: multiply-adds by kind of kernel, bytes, lanes; from logs of ncnn and of vknn.

ncnn's kernels have no names in a log. Those that multiply by weights are told apart by how many
push constants and specialization constants they take (ncnn 1.0.20231027; later versions differ).
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
#: (push constants, own specialization constants, buffers) -> kind, and how often each element of
#: the weights is used, by the push constants.
_NCNN: dict[tuple[int, int, int], tuple[str, Callable[[Words], int]]] = {
    (8, 18, 4): ("product", lambda p: p[4] * p[5]),  # convolution as a matrix product
    (8, 12, 4): ("product", lambda p: p[4] * p[5]),  # 1x1
    (10, 20, 4): ("product", lambda p: p[6] * p[7]),  # convolution, directly
    (5, 6, 3): ("winograd", lambda p: p[2]),  # Winograd's product: tiles
    (10, 21, 4): ("depthwise", lambda p: p[6] * p[7]),  # depthwise and grouped
    (3, 3, 3): ("row", lambda p: 1),  # fully connected, in eighths
    (10, 14, 4): ("row", lambda p: p[7] if p[5] == 2 else 1),  # fully connected
}
_WEIGHTS = 2  # place among the buffers: input, output, weights, bias


def ncnn_work(run: LoggedRun, lanes: Mapping[int, int], element: int = 2) -> list[Work]:
    """Work of ncnn's dispatches. ``lanes``: pipeline's number -> lanes of a workgroup;
    ``element``: bytes of a weight."""
    return [_of_ncnn(d, lanes.get(d.pipeline.number, 1), element) for d in run.dispatches]


def _of_ncnn(dispatch: LoggedDispatch, group: int, element: int) -> Work:
    sizes = {(b.buffer, b.offset): b.nbytes for b in dispatch.buffers.values()}
    words = struct.unpack(f"<{len(dispatch.push) // 4}i", dispatch.push)
    own = sum(number < FIRST_LOCAL_CONSTANT for number in dispatch.pipeline.constants)
    kind, uses = _NCNN.get((len(words), own, len(sizes)), ("map", lambda p: 0))
    weights = list(sizes.values())[_WEIGHTS] // element if len(sizes) > _WEIGHTS else 0
    lanes = math.prod(dispatch.groups) * group
    return Work(kind, weights * uses(words), dispatch.nbytes, lanes)
