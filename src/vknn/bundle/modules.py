"""Modules of a plan's pipelines: cut as the runtime cuts them, then swept.

The runtime itself does not sweep: the compilers of llvmpipe, RADV and Turnip took as long with
swept modules (squeezenet: 0.3 to 0.5 s of CPU time in all), and the sweep's 2 ms a module came on
top.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from vknn.plan import Dispatch
from vknn.runtime.pipelines import PipelineKey, pipeline_keys, shipped
from vknn.runtime.spirv.kept_sweeps import Integers, integers_of, kept_sweep

#: Modules that were swept, by module and constants; all go where there are many.
_known: dict[tuple[bytes, Integers], bytes] = {}
_MOST_KNOWN = 256


def swept_keys(dispatches: Sequence[Dispatch], pool: Executor | None = None) -> list[PipelineKey]:
    """The key of each dispatch's pipeline, with a module of what its constants leave alone.

    ``pool``: keeps modules on disk once all are swept, as a thread that does meanwhile holds the
    interpreter up; None: they are kept at once.
    """
    works: list[Callable[[], None]] = []
    later = None if pool is None else works.append

    def swept(spirv: bytes, given: Sequence[tuple[int, int | float]]) -> bytes:
        key = spirv, integers_of(given)
        found = _known.get(key)
        if found is None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            found = _known[key] = kept_sweep(*key, later)
        return found

    keys = pipeline_keys(dispatches, shipped, swept)
    if pool is not None:
        pool.submit(lambda: [work() for work in works])
    return keys


def forget() -> None:
    """Modules that were swept before are read from disk anew, or swept: for measurements."""
    _known.clear()
