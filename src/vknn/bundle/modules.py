"""Modules of a plan's pipelines: cut as the runtime cuts them, then swept.

The runtime itself does not sweep: the compilers of llvmpipe, RADV and Turnip took as long with
swept modules (squeezenet: 0.3 to 0.5 s of CPU time in all), and the sweep's 2 ms a module came on
top.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.plan import Dispatch
from vknn.runtime.pipelines import PipelineKey, pipeline_keys, shipped
from vknn.runtime.spirv.kept_sweeps import integers_of, kept_sweep

_swept = functools.lru_cache(maxsize=256)(kept_sweep)


def swept_keys(dispatches: Sequence[Dispatch]) -> list[PipelineKey]:
    """The key of each dispatch's pipeline, with a module of what its constants leave alone."""
    return pipeline_keys(
        dispatches, shipped, lambda spirv, given: _swept(spirv, integers_of(given))
    )


def forget() -> None:
    """Modules that were swept before are read from disk anew, or swept: for measurements."""
    _swept.cache_clear()
