"""Lists of inputs: those of one shape by stacked runs, where these are measured to be faster.

Whether they are is decided once for each shape of a session's inputs, by the first list that is
long enough for that to be worth its while: the stacked network is planned and its pipelines are
made, which takes longer than short lists do.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from vknn.batching.agreement import shape_of
from vknn.batching.stacker import (
    GAIN,
    LOST,
    MOST_STACKED,
    RAISED,
    STACKED,
    Feeds,
    Stacker,
    filled,
    seconds_of,
)
from vknn.engine import Engine, Watch
from vknn.errors import InputError, VknnError
from vknn.item_stream import Answer, checked_errors, checked_number, grouped, streamed
from vknn.run_limits import RunLimit, held

#: Inputs of one shape at least that are measured: that takes as long as fifty to two hundred runs.
FEWEST = 1000
#: Seconds at least that runs of one would take for all of them, and how many times as long as
#: making the program of one: the stacked one takes some time more to make, and most of what it may
#: save should not go into finding out.
WORTH, _TIMES_MADE = 5.0, 10
#: Inputs that are tried until one can be computed, where it is to be found out with one.
_TRIES = 4


def checked_stacked(given: Any) -> int | None:
    """A number of inputs that a user gave for a run; raises VknnError for one that is none."""
    wanted = (
        f"inputs for each run, from 1 to {MOST_STACKED}, or None: {STACKED} where that is measured "
        "to be faster"
    )
    return None if given is None else checked_number("stacked", given, MOST_STACKED, wanted)


def list_answers(
    engine: Engine,
    items: Sequence[Any],
    timeout: float | None,
    kept: Collection[str],
    in_flight: int,
    errors: str,
    stacked: int | None,
) -> list[Answer]:
    """Answers to all items, in their order; arguments as of :func:`vknn.item_stream.streamed`.

    ``stacked``: how many of a shape a run computes; None: STACKED, where that is faster.
    """
    returns = checked_errors(errors)
    with engine.streaming(None, in_flight) as whole:  # a cancel between two streams is seen, too
        groups, answers = grouped(items), dict[int, Answer]()
        if timeout is None and not kept and (returns or len(groups) == 1):
            found = _stacked(engine, items, groups, in_flight, stacked, whole.limit)
            answers = _gathered(found, returns)
        whole.limit.check()
        order = itertools.chain.from_iterable(groups) if returns else range(len(items))
        rest = [place for place in order if place not in answers]
        singly = (items[place] for place in rest)
        results = streamed(engine, singly, timeout, kept, in_flight, errors)
        answers.update(zip(rest, results, strict=True))
    return [answers[place] for place in range(len(items))]


def _gathered(found: Generator[tuple[int, Answer], None, None], returns: bool) -> dict[int, Answer]:
    """Answers by their places; the first error is raised unless it ``returns``."""
    answers = {}
    with closing(found):
        for place, answer in found:
            if not returns and isinstance(answer, VknnError):
                try:
                    raise answer
                finally:
                    del answer  # its traceback holds this frame
            answers[place] = answer
    return answers


def _stacked(
    engine: Engine,
    items: Sequence[Any],
    groups: Sequence[Sequence[int]],
    in_flight: int,
    stacked: int | None,
    limit: RunLimit,
) -> Generator[tuple[int, Answer], None, None]:
    """Places of the items that stacked runs compute, with their answers; errors are answers.

    ``groups``: places of the items of each shape.
    """
    if stacked == 1 or (stacked is None and not _is_measured(engine, groups)):
        return
    for group in groups:
        limit.check()
        stacker = _stacker(engine, stacked, len(group), limit)
        feeds = stacker and _feeds(engine, [items[place] for place in group])
        if stacker and feeds and _is_chosen(stacker, feeds, stacked is None):
            limit.check()
            yield from zip(group, _answers(stacker, feeds, in_flight), strict=True)


def _is_measured(engine: Engine, groups: Sequence[Sequence[int]]) -> bool:
    """Whether it is to be measured what is faster, or was; not while somebody looks at runs."""
    if engine.timeout is not None or engine.target.debug or Watch.run is not None:
        return False
    return bool(engine.beside) or any(len(group) >= FEWEST for group in groups)


def _feeds(engine: Engine, items: Sequence[Any]) -> list[Feeds] | None:
    """Arrays of the items by input; None where some are something else."""
    try:
        feeds = [engine.named(item) for item in items]
    except InputError:
        return None
    arrays = itertools.chain.from_iterable(one.values() for one in feeds)
    if all(isinstance(a, np.ndarray) and a.dtype.kind in "fiub" for a in arrays):
        return feeds
    return None


def _stacker(engine: Engine, stacked: int | None, length: int, limit: RunLimit) -> Stacker | None:
    """The engine's stacker for so many items of a shape; None where they have runs of their own."""
    count = stacked or STACKED
    if stacked is None and length < count:
        return None
    with held(engine.lock, limit):
        own = [s for s in engine.beside if isinstance(s, Stacker) and s.engine is engine]
        found = next((s for s in own if s.count == count), None)
        if found is not None or engine.closed or (stacked is None and length < FEWEST):
            return found
        for other in own:  # whoever tries numbers does not fill the memory with all of them
            other.close_idle()
        return Stacker.of(engine, count)


def _is_chosen(stacker: Stacker, feeds: Sequence[Feeds], is_measured: bool) -> bool:
    """Whether these examples of one shape are stacked. ``is_measured``: only if that is faster."""
    if not is_measured:
        return stacker.takes(feeds[:_TRIES])
    shape = shape_of(feeds[0])
    if shape not in stacker.gains and len(feeds) >= FEWEST:
        _decide(stacker, feeds)
    return filled([len(feeds)], stacker.count) * stacker.gains.get(shape, 0.0) >= GAIN


def _decide(stacker: Stacker, feeds: Sequence[Feeds]) -> None:
    """Note of a shape's gain, if runs of one take long enough for so many to find it out."""
    shape, times, gains = shape_of(feeds[0]), stacker.times, stacker.gains
    for one in feeds[:_TRIES]:
        try:
            if shape not in times:
                times[shape] = _times(stacker, one)
        except RAISED:
            raise
        except (VknnError, MemoryError):
            continue  # its own error; the next one may tell
        seconds, made = times[shape]
        if len(feeds) * seconds >= max(WORTH, _TIMES_MADE * made):
            gains[shape] = 0.0  # for threads that come meanwhile
            gains[shape] = _measured(stacker, one)
            if not any(gain >= GAIN for gain in gains.values()):
                stacker.close_idle()
        return


def _times(stacker: Stacker, feeds: Feeds) -> tuple[float, float]:
    """Seconds of a run of one, and those that it took to make its program.

    Some drivers compile in a program's first run.
    """
    begin = time.perf_counter()
    stacker.alone(feeds)
    first = time.perf_counter() - begin
    made = sum(stacker.engine.program(feeds).timings.values())
    return seconds_of(partial(stacker.alone, feeds)), max(first, made)


def _measured(stacker: Stacker, feeds: Feeds) -> float:
    """The gain of stacked runs of a shape; 0 where they fail."""
    try:
        return stacker.gain(feeds)
    except LOST:
        raise
    except (VknnError, MemoryError) as error:
        if not isinstance(error, RAISED):
            return 0.0
        del stacker.gains[shape_of(feeds)]
        raise
    except BaseException:  # interrupted
        del stacker.gains[shape_of(feeds)]
        raise


def _answers(stacker: Stacker, feeds: Sequence[Feeds], in_flight: int) -> Iterator[Answer]:
    """Answers to examples of one shape; those of a run that fails have runs of their own.

    Where these all succeed, it is for the stacking that it failed: the rest have their own, too.
    """
    count, engine, done = stacker.count, stacker.engine, 0
    packs = [feeds[first : first + count] for first in range(0, len(feeds), count)]
    with closing(stacker.stream(packs, in_flight)) as results:
        for found in results:
            pack = packs[done // count]
            done += len(pack)
            if not isinstance(found, Exception):
                yield from found[: len(pack)]
                continue
            answers = list(streamed(engine, pack, None, (), in_flight, "return"))
            yield from answers
            if not any(isinstance(answer, Exception) for answer in answers):
                stacker.refuse(pack[0])
                break
    yield from streamed(engine, feeds[done:], None, (), in_flight, "return")
