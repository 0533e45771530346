"""An invocation of a kernel, followed in its SPIR-V to count what it does.

Nothing of a device or driver is needed. `module` reads a module for one pipeline, `dependence`
finds what its branches depend on, `program` makes Python of that, `tally` says what instructions
count as, and `counts` puts it together.
"""

from vknn.profiling.invocation.counts import Counts, HotLoop, NotCounted, counts, decode
from vknn.profiling.invocation.tally import Tally, TargetSizes

__all__ = ["Counts", "HotLoop", "NotCounted", "Tally", "TargetSizes", "counts", "decode"]
