"""Engine of a session: a model on a target, its programs by the types of the inputs, its state.

A run has three steps: the inputs are encoded as the graph takes them, the program for their types
is executed, and its outputs are decoded. Tools (verify, profile, bench, tune, info) look into the
programs and graphs here.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from vknn import forks, gc_pause, interrupts
from vknn.compile import Target, compile_model
from vknn.errors import (
    DeviceError,
    InputError,
    RunCancelledError,
    RunTimeoutError,
    VknnError,
)
from vknn.formats import Model
from vknn.graph import DType, Graph, TensorType
from vknn.input_encoder import InputEncoder, host_arrays, plain_shape
from vknn.lowering import WeightCache
from vknn.program import Program
from vknn.run_limits import RunLimit, checked_seconds, current, held, within
from vknn.run_state import RunState
from vknn.runtime import DeviceArray, DeviceTensor, close_all, on_host
from vknn.shape_errors import shapes_named
from vknn.streamed_runs import StreamedPrograms, StreamedRuns

_log = logging.getLogger("vknn")
#: Programs kept for different input shapes; the least recently used is closed first.
MAX_PROGRAMS = 8
#: Names of blobs that a run shows, and whether it gives the model's outputs; None: only these.
_Wanted = tuple[tuple[str, ...], bool] | None
#: A run of a session's program on arrays; names of outputs that stay on the device.
Watched = Callable[["Engine", Program, dict[str, Any], Collection[str]], dict[str, Any]]


class Watch:
    """Switch for who looks on at the runs of all sessions (``vknn.profiling.trace``)."""

    #: Runs the programs in place of their own ``run``; None: nobody looks on.
    run: Watched | None = None


@dataclass
class _Shared:
    """What an engine and those of its model's signatures know of one another: whether they are
    ``closed``, the programs of the ``latest`` runs by signature, that of the run that ``ran`` last.
    """

    closed: bool = False
    latest: dict[str | None, Program] = field(default_factory=dict)
    ran: Program | None = None


class Engine:
    """A model that runs on a target. Any thread may use it; ``lock`` lets one at a time."""

    def __init__(self, model: Model, target: Target, timeout: float | None = None) -> None:
        self.model, self.target = model, target
        self.lock = threading.RLock()
        forks.renew(self)
        self._programs: OrderedDict[object, Program] = OrderedDict()
        self._state = RunState(target.memory_limit)
        self._streamed = StreamedPrograms()
        self._shared = _Shared()
        #: Of the run under way; the next one's, too.
        self._limit = self._new_limit()
        #: Of the streams that are open.
        self._stream_limits: list[RunLimit] = []
        #: Seconds that a run may take where it does not say; None: any time.
        self.timeout = timeout
        #: The engines of the model's signatures that were asked for, by key.
        self._signatures: dict[str, Engine] = {}
        self.beside: list[Any] = []  # what has programs by other models; closed before its own
        self._enter(model, None)

    def _enter(self, model: Model, signature: str | None) -> None:
        """Choice of what is run: the model by one of its signatures, or by none."""
        self.model, self._signature = model, signature
        #: Whether each run depends on the one before it.
        self.keeps_state = model.keeps_state
        #: Types of the variables that the program of the latest run is for.
        self._held: dict[str, TensorType] = {}
        self._encoder = InputEncoder(model)

    def of_signature(self, key: str | None) -> Engine:
        """The engine of a signature, with all else in common; itself for None; or InputError."""
        if key is None:
            return self
        if not isinstance(key, str):
            raise InputError(f"signature={key!r}: expected the key of a signature, a str")
        with self.lock:
            found = self._signatures.get(key)
            if found is None:
                found = copy.copy(self)  # its lock and limits are these
                found._signatures = {}
                found._enter(self.model.of_signature(key), key)
                self._signatures[key] = found
            return found

    def run(
        self,
        feeds: Mapping[str, Any],
        timeout: float | None = None,
        blobs: Sequence[str] = (),
        outputs: bool = True,
        kept: Collection[str] = (),
    ) -> dict[str, Any]:
        """Decoded outputs by the names of the graph's outputs: a classifier's scores are one.

        ``timeout``: seconds that it may take; None: VKNN_TIMEOUT, where that is set. ``blobs``:
        names of further values that are wanted; ``outputs`` False: they are all. ``kept``: names of
        what comes as a DeviceTensor where it lies on the device as the user would see it.
        """
        feeds = self.model.complete(feeds if type(feeds) is dict else self.named(feeds))
        timeout = self.timeout if timeout is None else timeout
        wanted = (tuple(blobs), outputs) if blobs or not outputs else None
        if timeout is None:
            limit = self._limit
            with self.lock:
                limit.deadline, limit.cancelled = None, False
                return self._run(feeds, limit, wanted, kept)
        return self._run_in_time(feeds, timeout, wanted, kept)

    def cancel(self) -> None:
        """End of the run that is under way in another thread, with RunCancelledError.

        Of the streams that are open, too.
        """
        for limit in (self._limit, *self._stream_limits):
            limit.cancelled = True

    def _run_in_time(
        self, feeds: Mapping[str, Any], timeout: float, wanted: _Wanted, kept: Collection[str]
    ) -> dict[str, Any]:
        """A run with a deadline; the wait for another thread's run counts."""
        waiting, own = RunLimit("another run of the session"), self._limit
        waiting.start(checked_seconds(timeout))
        with held(self.lock, waiting):
            try:
                own.deadline, own.seconds, own.cancelled = waiting.deadline, waiting.seconds, False
                return self._run(feeds, own, wanted, kept)
            finally:
                own.deadline = None

    def _run(
        self, feeds: Mapping[str, Any], limit: RunLimit, wanted: _Wanted, kept: Collection[str]
    ) -> dict[str, Any]:
        """A run by this thread, which has the lock."""
        before, current.limit = current.limit, limit
        try:
            if wanted is None:
                program, arrays = self._encoded(feeds)
            else:
                program, arrays = self._compiled(feeds, wanted)
            if self.keeps_state:
                arrays.update(self._state.present(self.model))
            if limit.deadline is not None:  # a quick device would be done before anybody looks
                limit.check()
            if kept:
                kept = [name for name in kept if name not in self.model.host_outputs]
            self._shared.ran = program
            if self.model.variables:  # of which nothing but their graphs reads
                kept = [*kept, *self.model.variables]
            watched = Watch.run  # once: another thread may end it meanwhile
            if watched is None:
                results = program.run(arrays, None, kept)
            else:
                results = watched(self, program, arrays, kept)
            if program.shared != set():
                program.own(results)
            if self.keeps_state:
                self._state.take(self.model, results)
        finally:
            current.limit = before
        if wanted is None:
            return self.decoded(results)
        decode = self.model.decode_blob
        blobs = {name: self._converted(name, results.pop(name), decode) for name in wanted[0]}
        return {**self.decoded(results), **blobs}

    @contextmanager
    def streaming(self, timeout: float | None, in_flight: int) -> Iterator[StreamedRuns]:
        """Block of a stream, with the row of its runs, which :meth:`cancel` ends, too.

        ``timeout``: seconds for each result; what the device then still does is not waited for.
        Runs that are watched do not overlap.
        """
        seconds = self.timeout if timeout is None else checked_seconds(timeout)
        if Watch.run is not None:  # each run by itself
            in_flight = 1
        runs = StreamedRuns(self._streamed, self.lock, self._new_limit(), seconds, in_flight)
        self._stream_limits.append(runs.limit)
        try:
            yield runs
        except (RunTimeoutError, RunCancelledError):
            runs.give_up()
            raise
        finally:
            self._stream_limits.remove(runs.limit)
            runs.close()

    def prepared(self, feeds: Any) -> tuple[Program, dict[str, Any]]:
        """The program for these inputs, and the arrays for its graph; the caller has the lock."""
        return self._encoded(self.model.complete(self.named(feeds)))

    def run_within(self, feeds: Any, limit: RunLimit, kept: Collection[str]) -> dict[str, Any]:
        """A run with a stream's limit; the caller has the lock."""
        return self._run(self.model.complete(self.named(feeds)), limit, None, kept)

    def program(self, feeds: Mapping[str, Any]) -> Program:
        """The compiled program for inputs of these shapes (compiling it where needed)."""
        feeds = self.model.complete(self.named(feeds))
        with self.lock, within(self._new_limit()):
            return self._compiled(feeds)[0]

    def graph(self, feeds: Mapping[str, Any]) -> Graph:
        """The graph of the model for inputs of these shapes, before any pass."""
        feeds = host_arrays(self.model.complete(self.named(feeds)))
        types, values = self._types(feeds, self._checked(feeds))
        with within(self._new_limit()), shapes_named(self.model, types):
            graph = self.model.build(types, values)
        if self.target.options.layers is not None:
            self.target.options.layers.learn(node.origin.name for node in graph.nodes)
        return graph

    def encode(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The arrays as the graph takes them, with the state as it is; checks names and types."""
        feeds = host_arrays(self.model.complete(self.named(feeds)))
        arrays = {n: on_host(n, a, "a tool asks") for n, a in self._checked(feeds).items()}
        with self.lock:
            held = self._state.present(self.model)
            return {**arrays, **{n: on_host(n, a, "a tool asks") for n, a in held.items()}}

    def reset_state(self) -> None:
        """Reset of what the model keeps between runs (if it does) to what it was at first."""
        with self.lock:
            self._state.clear()
            self._state.begin(self.model)

    @contextmanager
    def same_variables(self) -> Iterator[None]:
        """Block after which the model's variables are what they were before."""
        with self.lock, self._state.same(self.model.variables):
            yield

    def forget(self) -> None:
        """Closing of all programs, and loss of packed weights: the next run builds its own."""
        self._shared.ran = None
        self._shared.latest.clear()
        self._encoder.forget()
        close_all([*self.beside, *self._programs.values()])
        self._programs.clear()
        self.target.weights = WeightCache()

    @property
    def latest(self) -> Program | None:
        """The program of the latest run, by whichever signature; None before the first."""
        return self._shared.ran

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._shared.closed

    @property
    def usable(self) -> bool:
        """Whether it can run: neither it nor its device was closed."""
        try:
            opened = self.target.device is None or self.target.device.shared is not None
        except DeviceError:
            opened = False
        return opened and not self.closed

    def check_open(self) -> None:
        """Check that the engine is open; raises VknnError once it is closed."""
        if self.closed:
            raise VknnError("the session is closed")

    @interrupts.uninterrupted
    def close(self) -> None:
        """Release of all device objects but the device; may be called twice."""
        with self.lock, forks.busy():  # a driver's locks are held while it lets go of pipelines
            self._shared.closed = True
            self._state.clear()
            pool = filter(None, [self.target.pool])
            close_all([*self.beside, *self._programs.values(), *pool])
            self.beside.clear()  # they know this engine, which may be nobody else's by now
            self.forget()

    def _new_limit(self) -> RunLimit:
        threads = "threads" not in self.target.options.disabled
        return RunLimit(threads=threads, memory=self.target.memory_limit)

    def named(self, feeds: Any) -> Mapping[str, Any]:
        """Inputs by name; of a model that has one input, whatever it is without its name."""
        if isinstance(feeds, Mapping):
            return feeds
        if len(self.model.inputs) != 1:
            names = ", ".join(repr(spec.name) for spec in self.model.inputs) or "none"
            raise InputError(
                f"inputs are given by name, as a dict, not as a {type(feeds).__name__} "
                f"(the model's inputs: {names})"
            )
        return {self.model.inputs[0].name: feeds}

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        self.check_open()
        return self._encoder.encode(feeds)

    def _compiled(
        self, feeds: Mapping[str, Any], wanted: _Wanted = None
    ) -> tuple[Program, dict[str, Any]]:
        """The program for these inputs (compiled where it is new), and the arrays for its graph."""
        feeds = host_arrays(feeds)
        arrays = self._checked(feeds)
        types, values = self._types(feeds, arrays)
        key = (
            self._signature,
            tuple((n, a.shape, a.dtype) for n, a in arrays.items()),
            tuple(v.tobytes() for v in values.values()),
            wanted,
            frozenset((n, types[n]) for n in self.model.variables if n in types),
        )
        program = self._programs.get(key)
        if program is None:
            # Infinities and NaN are weights and constants like others.
            quiet = np.errstate(all="ignore")
            with gc_pause.paused(), quiet, shapes_named(self.model, types):
                blobs, outputs = wanted or ((), True)
                program = compile_model(self.model, types, values, self.target, blobs, outputs)
            self._programs[key] = program
            self._make_room()
        self._programs.move_to_end(key)
        if wanted is None:
            self._shared.latest[self._signature] = program
            self._held = self._state.types(self.model)
            self._encoder.remember(feeds, arrays)
        return program, arrays

    def _make_room(self) -> None:
        """Closing of the program that was used longest ago and has no open stream."""
        if len(self._programs) > MAX_PROGRAMS:
            idle = [k for k, p in self._programs.items() if p not in self._streamed]
            if len(idle) > 1:  # the last is the one just made
                _log.debug("closing the program that was used longest ago, of %d", MAX_PROGRAMS)
                old, latest = self._programs.pop(idle[0]), self._shared.latest
                self._shared.latest = {s: p for s, p in latest.items() if p is not old}
                old.close()

    def _encoded(self, feeds: Mapping[str, Any]) -> tuple[Program, dict[str, Any]]:
        """As :meth:`_compiled`; arrays of the very types of the last ones are known again."""
        arrays, program = self._encoder.recall(feeds), self._shared.latest.get(self._signature)
        if arrays is None or program is None:
            return self._compiled(feeds)
        if self.model.variables and self._held != self._state.types(self.model):
            return self._compiled(feeds)
        return program, arrays

    def decoded(self, results: dict[str, Any]) -> dict[str, Any]:
        """Results of a program as the user sees them."""
        for name, array in results.items():
            if isinstance(array, DeviceArray):
                results[name] = self._converted(name, array, partial(self.model.decode, name))
            else:
                results[name] = self.model.decode(name, array)
        return results

    def _converted(self, name: str, array: Any, decode: Callable[[np.ndarray], Any]) -> Any:
        """The user's value for an output; it stays on the device if its shape alone changes."""
        if not isinstance(array, DeviceArray):
            return decode(array)
        shape = plain_shape(decode, array)
        if shape is not None:
            return DeviceTensor(name, array.reshaped(shape), self.target.device)
        return decode(on_host(name, array, "the host converts it"))

    def _types(
        self, feeds: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> tuple[dict[str, TensorType], dict[str, np.ndarray]]:
        """The inputs' types, and the data of those that decide shapes."""
        decisive = sorted(self.model.value_inputs)
        values = {n: np.asarray(on_host(n, feeds[n], "its data decide shapes")) for n in decisive}
        types = {n: TensorType(np.shape(feeds[n]), DType.of(array)) for n, array in arrays.items()}
        return types | self._state.types(self.model), values
