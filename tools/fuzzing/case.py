"""A case: a number makes its files; they are opened, run on both backends, and compared."""

from __future__ import annotations

import contextlib
import functools
import random
import re
import signal
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import vknn
from fuzzing import coreml, ncnn, onnx, openvino, tflite
from fuzzing.comparing import hold_against
from fuzzing.corpus import Seed, corpus
from fuzzing.outcome import Outcome
from fuzzing.reuse import read_once
from fuzzing.settings import Settings
from fuzzing.values import damaged
from vknn.runtime import Device, live_objects
from vknn.tool_inputs import likely_shape, random_array

#: Bytes that a network may take: what needs more is refused by the budget.
MEMORY_LIMIT = 128 << 20
#: Elements of an input at most: others are opened only.
MOST_ELEMENTS = 1 << 17
MUTATORS = {
    "ncnn": ncnn, "tflite": tflite, "coreml": coreml, "openvino": openvino, "onnx": onnx,
}  # fmt: skip
#: Seconds of the processor in which a mutation has to be made.
MAKING = 5.0
#: Share of cases with plain damage to bytes, and of those after other mutations.
BYTES, BYTES_TOO = 0.15, 0.05
#: The same where changes are to be few.
GENTLE_BYTES, GENTLE_BYTES_TOO = 0.02, 0.0
#: Share of cases that get NaN, infinities and huge numbers as inputs.
SPECIAL = 0.05
#: Native objects that belong to the device, which is closed at the end of a worker.
_OF_DEVICE = ("pipeline", "pipeline cache", "pipeline layout", "set layout", "shader module")
#: Seconds in which threads that compile ahead let go of their devices.
_SETTLES = 5.0
#: What vknn.reference makes of an exception inside an operator.
_INNER = re.compile(r": \w+ failed: ")
#: Errors behind a VknnError that no check raised.
_CRUDE = (TypeError, AttributeError, IndexError, AssertionError, ZeroDivisionError, RecursionError)


@dataclass(frozen=True)
class Mutation:
    """The files of a case, and the shapes of the inputs of the model that they were made from."""

    name: str
    format: str
    files: Mapping[str, bytes]
    seed: Seed
    done: list[str]


@functools.lru_cache(maxsize=1)
def make(case: int, settings: Settings) -> Mutation:
    """The files of a case: the same ones for the same numbers and the same corpus."""
    seed, gentle = settings.seed, settings.gentle
    rng = random.Random(f"{seed}/{case}")
    row = settings.in_a_row
    common = random.Random(f"{seed}/row {row}/{case // row}") if row > 1 else rng
    format_ = common.choice(settings.formats)
    seeds = corpus()[format_]
    first, second = common.choice(seeds), rng.choice(seeds)
    files: Mapping[str, bytes] = first.files()
    done: list[str] = []
    share, share_too = (GENTLE_BYTES, GENTLE_BYTES_TOO) if gentle else (BYTES, BYTES_TOO)
    if rng.random() >= share:
        count = 1 if gentle else rng.choice((1, 1, 1, 2, 3, 5))
        try:
            files, done = MUTATORS[format_].mutated(rng, files, second.files, count)
        except RecursionError:  # a message inside itself, doubled again and again
            done = ["too deep"]
    if not done or rng.random() < share_too:
        changed = dict(files)
        for _ in range(rng.choice((1, 1, 2, 8))):
            suffix = rng.choice([s for s in changed if changed[s]] or list(changed))
            changed[suffix], what = damaged(rng, changed[suffix])
            done.append(f"{what} {suffix}")
        files = changed
    return Mutation(first.name, format_, files, first, done)


def write(mutation: Mutation, folder: Path, stem: str = "case") -> Path:
    """The files on disk; the path of the main one."""
    paths = []
    for suffix, data in mutation.files.items():
        paths.append(folder / f"{stem}{suffix}")
        paths[-1].write_bytes(data)
    return paths[0]


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """A block that ends with a TimeoutError when the process has had that much of the processor."""

    def late(*_: object) -> None:
        raise TimeoutError("a mutator takes too long")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def described(number: int, settings: Settings) -> Outcome:
    """An outcome that says of a case only what it is."""
    try:
        with _within(MAKING):
            mutation = make(number, settings)
    except Exception as error:
        outcome = Outcome(number, "", "none")
        outcome.add("no mutation", _trace(error), _place(error))
        return outcome
    return Outcome(number, mutation.name, mutation.format, mutation.done)


def run(number: int, folder: Path, device: Device | None, settings: Settings) -> Outcome:
    """A whole case in this process."""
    outcome = described(number, settings)
    if outcome.findings:
        return outcome
    mutation = make(number, settings)
    path = write(mutation, folder)
    before = _of_sessions()
    rng = None if settings.open_only else random.Random(f"{settings.seed}/{number}/inputs")
    try:
        with _watched(outcome), read_once():
            _use(path, mutation.seed, rng, device, outcome)
    finally:
        for file in folder.iterdir():
            file.unlink()
    after = _settled(before)
    if any(after[kind] > before.get(kind, 0) for kind in after):
        outcome.add("leak", f"native objects {before} before and {after} after")
    return outcome


def open_right(format_: str, folder: Path) -> None:
    """Opening of the last model of a format's corpus, as it is."""
    seed = corpus()[format_][-1]
    path = write(Mutation(seed.name, format_, seed.files(), seed, []), folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights that only the whole network reads
        vknn.Session(path, device="numpy").close()


def _settled(before: Mapping[str, int]) -> dict[str, int]:
    """Native objects when those who compile in the background have ended, or do not."""
    end = time.monotonic() + _SETTLES
    while (after := _of_sessions()) != before and time.monotonic() < end:
        time.sleep(0.02)
    return after


def _of_sessions() -> dict[str, int]:
    """Native objects but those that the device keeps for other sessions."""
    return {kind: n for kind, n in live_objects().items() if kind not in _OF_DEVICE}


@contextlib.contextmanager
def _watched(outcome: Outcome) -> Iterator[None]:
    """Notes of warnings that are NumPy's (or Python's), and of errors that are none of vknn's."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            yield
        except vknn.VknnError as error:
            _look_inside(error, outcome)
        except Exception as error:
            outcome.add("exception", _trace(error), _place(error))
    for warning in seen:
        if not str(warning.message).startswith(("case.", str(warning.filename))):
            if issubclass(warning.category, UserWarning) or "case" in str(warning.message):
                continue  # vknn's own, which name the file
            place = f"{Path(warning.filename).name}:{warning.lineno}"
            outcome.add("warning", f"{place}: {warning.category.__name__}: {warning.message}")


def _use(
    path: Path, seed: Seed, rng: random.Random | None, device: Device | None, outcome: Outcome
) -> None:
    """Opens a model and, with numbers for its inputs, runs it."""
    try:
        session = vknn.Session(path, device="numpy", memory_limit=MEMORY_LIMIT)
    except vknn.VknnError as error:
        outcome.refused = True
        outcome.refusal = str(error)[:200]
        _look_inside(error, outcome)
        if f"/{path.name.partition('.')[0]}." not in str(error):  # of the two files either
            outcome.add("nameless", _trace(error), _place(error))
        return
    outcome.opened = True
    with session:
        if rng is None:
            return
        feeds = _feeds(session, seed, rng)
        if feeds is None:
            outcome.excuses.append("not run: an input is too large")
            return
        expected = _tried(session, feeds, outcome)
        if device is None:
            return
        with vknn.Session(path, device=device, memory_limit=MEMORY_LIMIT, tuned=False) as second:
            found = _tried(second, feeds, outcome)
            hold_against(expected, found, second, feeds, outcome)


def _tried(session: vknn.Session, feeds: Any, outcome: Outcome) -> Any:
    """Results, or the error."""
    try:
        return session.run(feeds)
    except vknn.VknnError as error:
        outcome.refusal = str(error)[:200]
        _look_inside(error, outcome)
        return error


def _feeds(session: vknn.Session, seed: Seed, rng: random.Random) -> dict[str, Any] | None:
    """Small arrays for all inputs; None where an input is too large."""
    shapes = seed.shapes()
    random_ = np.random.default_rng(rng.randrange(1 << 30))
    special = rng.random() < SPECIAL
    feeds = {}
    for number, spec in enumerate(session.inputs):
        shape = likely_shape(session, spec)
        if shape is None or None in shape:
            known = shapes.get(spec.name, shapes.get(f"#{number}"))
            shape = known or shape or tuple(rng.randrange(1, 9) for _ in range(3))
            shape = tuple(rng.randrange(1, 9) if d is None else d for d in shape)
        dims = [int(d) for d in shape if d is not None]
        if np.prod(dims, dtype=np.float64) > MOST_ELEMENTS or min(dims, default=0) < 0:
            return None
        array = random_array(spec, tuple(dims), random_)
        if special and array.size and array.dtype.kind == "f":
            flat = array.reshape(-1)
            with np.errstate(over="ignore", under="ignore"):  # float16 has an infinity for 3e38
                for _ in range(3):
                    value = rng.choice((np.nan, np.inf, -np.inf, 3e38, 1e-42))
                    flat[rng.randrange(flat.size)] = value
        elif array.dtype.kind == "i" and rng.random() < 0.3:
            array = random_.integers(-3, 9, array.shape).astype(array.dtype)
        feeds[spec.name] = array
    return feeds


def _look_inside(error: vknn.VknnError, outcome: Outcome) -> None:
    """A finding where a VknnError only wraps what an inner library raised."""
    cause = error.__cause__
    if _INNER.search(str(error)) or isinstance(cause, _CRUDE):
        outcome.add("inner error", _trace(error), _place(cause or error))
    elif not str(error).strip():
        outcome.add("inner error", f"an empty message: {_trace(error)}", _place(error))


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-1500:]


def _place(error: BaseException) -> str:
    """Type of an error and the innermost place in vknn where it came up."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/vknn/" in f.filename] or frames
    where = f"{own[-1].filename.rpartition('/vknn/')[2]}:{own[-1].name}" if own else ""
    return f"{type(error).__name__} in {where}"
