"""Benchmark (``vknn bench``): time of a run and of the first one, and memory."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vknn.errors import VknnError
from vknn.graph import Graph
from vknn.opening import choose_device
from vknn.ops.detection.order import in_order_of
from vknn.precision import Precision
from vknn.printable import one_line
from vknn.profiling.peer import NcnnPeer
from vknn.rich_text import text_of
from vknn.session import Session, by_signature, engine_of
from vknn.tool_inputs import ProgressCallback, Shapes, complete_feeds

Path = str | os.PathLike[str]
PEERS = ("ncnn",)


@dataclass(frozen=True)
class Series:
    """Times of one engine's runs.

    Attributes:
        name: The engine.
        seconds: Seconds of each run, upload and download included.
    """

    name: str
    seconds: tuple[float, ...]

    @property
    def least(self) -> float:
        """Seconds of the shortest run."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Median of the runs, in seconds."""
        return statistics.median(self.seconds)

    @property
    def most(self) -> float:
        """Seconds of the longest run."""
        return max(self.seconds)


@dataclass(frozen=True)
class Benchmark:
    """Result of :func:`vknn.profiling.bench`. ``print`` shows it as tables.

    Attributes:
        model: The model file.
        device: Name of the device, "NumPy" without one.
        ours: Our runs.
        cold: Seconds until the first result, by stage.
        memory: Peak bytes of device memory; None without a device.
        peer: The other engine's runs, taken in turn with ours; None without one.
        difference: The largest difference between the outputs of the two, relative to the output's
            range; None without a peer.
    """

    model: str
    device: str
    ours: Series
    cold: dict[str, float] = field(default_factory=dict)
    memory: int | None = None
    peer: Series | None = None
    difference: float | None = None

    @property
    def ratio(self) -> float | None:
        """Our median time over the peer's (below 1 we are faster); None without a peer."""
        return self.ours.median / self.peer.median if self.peer is not None else None

    def to_json(self) -> str:
        """JSON of everything; times in seconds."""
        document = {
            "model": self.model,
            "device": self.device,
            "runs": [_series(s) for s in (self.ours, self.peer) if s is not None],
            "cold_start": self.cold,
            "peak_device_memory": self.memory,
            "ratio": self.ratio,
            "difference": self.difference,
        }
        return json.dumps(document, indent=2)

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [self._runs_table(), self._cold_table()]
        if self.ratio is not None and self.difference is not None and self.peer is not None:
            parts.append(
                f"{self.ratio:.2f} times the time of {self.peer.name}; outputs differ by "
                f"{self.difference:.1e} of their range at most"
            )
        if self.memory is not None:
            parts.append(f"peak device memory: {self.memory / 2**20:.1f} MiB")
        return Group(*parts)

    def __str__(self) -> str:
        return text_of(self, 120)

    def _runs_table(self) -> Table:
        title = one_line(f"{self.model} on {self.device}, {len(self.ours.seconds)} runs, ms")
        table = Table("", title=Text(title), title_justify="left")
        for name in ("min", "median", "max"):
            table.add_column(name, justify="right")
        for series in (self.ours, self.peer):
            if series is not None:
                times = (series.least, series.median, series.most)
                table.add_row(series.name, *(f"{1e3 * t:.2f}" for t in times))
        return table

    def _cold_table(self) -> Table:
        table = Table(title="cold start, ms", title_justify="left")
        for name in (*self.cold, "sum"):
            table.add_column(name, justify="right")
        table.add_row(*(f"{1e3 * t:.1f}" for t in (*self.cold.values(), sum(self.cold.values()))))
        return table


def bench(
    path: Path,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    signature: str | None = None,
    weights: Path | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    disable: Iterable[str] = (),
    runs: int = 20,
    warmup: int = 3,
    shapes: Shapes | None = None,
    seed: int = 0,
    peer: str | None = None,
    progress: ProgressCallback | None = None,
) -> Benchmark:
    """Times of whole runs of a model, and of its cold start.

    Args:
        path: The model file.
        inputs: Arrays by name; random ones stand in for those that are missing.
        signature: Key of the signature that is run, as for :meth:`vknn.Session.run`.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        disable: As for :class:`vknn.Session`.
        runs: How many runs are measured.
        warmup: How many go before them.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs.
        peer: "ncnn" has the ncnn wheel run the same model on the same Vulkan device in 32-bit
            floats, its runs in turn with ours, so that both meet the same machine.
        progress: Told the number of runs done, of all runs, and what is being done.

    Returns:
        Times, and the peak of device memory.

    Raises:
        vknn.VknnError: ``runs`` is below 1, the peer is not installed or cannot run the model, or
            what :class:`vknn.Session` and its ``run`` raise.
    """
    if runs < 1:
        raise VknnError(f"runs={runs}: at least one run is needed")
    if peer is not None and peer not in PEERS:
        raise VknnError(f"no peer is called {peer!r}; known: {', '.join(PEERS)}")
    with ExitStack() as stack:
        cold: dict[str, float] = {}
        whole = _open(path, weights, device, (precision, arithmetic), disable, cold, stack)
        session = by_signature(whole, signature)
        feeds = complete_feeds(session, inputs, shapes, seed)
        outputs = _first_run(session, feeds, cold)
        other = _peer(path, weights, session, stack) if peer else None
        expected = other.run(feeds) if other else None
        ours, theirs = [], []
        for number in range(warmup + runs):
            if progress is not None:
                progress(number, warmup + runs, "run" if number >= warmup else "warm-up")
            ours.append(_timed(session.run, feeds))
            if other is not None:
                theirs.append(_timed(other.run, feeds))
        opened = session.device
        return Benchmark(
            model=str(path),
            device=opened.name if opened is not None else "NumPy",
            ours=Series("vknn", tuple(ours[warmup:])),
            cold=cold,
            memory=opened.memory_peak if opened is not None else None,
            peer=Series(other.name, tuple(theirs[warmup:])) if other else None,
            difference=difference(engine_of(session).graph(feeds), outputs, expected)
            if expected
            else None,
        )


def _open(
    path: Path,
    weights: Path | None,
    selector: str,
    precision: tuple[Precision, str],
    disable: Iterable[str],
    cold: dict[str, float],
    stack: ExitStack,
) -> Session:
    begin = time.perf_counter()
    device = choose_device(selector)
    if device is not None:
        stack.enter_context(device)
        device.reset_peak()
    opened = time.perf_counter()
    session = Session(
        path,
        weights,
        device=device or "numpy",
        precision=precision[0],
        arithmetic=precision[1],
        disable=disable,
    )
    stack.enter_context(session)
    cold["device"], cold["load"] = opened - begin, time.perf_counter() - opened
    return session


def _first_run(
    session: Session, feeds: Mapping[str, np.ndarray], cold: dict[str, float]
) -> dict[str, np.ndarray]:
    begin = time.perf_counter()
    program = engine_of(session).program(feeds)
    compiled = time.perf_counter()
    outputs = session.run(feeds)
    first = time.perf_counter() - compiled
    plan, prepare = program.timings["plan"], program.timings["prepare"]
    cold["graph"] = compiled - begin - plan - prepare
    cold["plan"], cold["pipelines"], cold["first run"] = plan, prepare, first
    return outputs


def _peer(path: Path, weights: Path | None, session: Session, stack: ExitStack) -> NcnnPeer:
    if session.device is None:
        raise VknnError("a peer is compared on a Vulkan device; this session runs on NumPy")
    names = [spec.name for spec in session.outputs]
    peer = NcnnPeer(path, weights, session.device.name, names)
    stack.callback(peer.close)
    return peer


def _timed(
    run: Callable[[Mapping[str, np.ndarray]], object], feeds: Mapping[str, np.ndarray]
) -> float:
    begin = time.perf_counter()
    run(feeds)
    return time.perf_counter() - begin


def difference(
    graph: Graph, ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]
) -> float:
    """The largest difference between two engines' outputs of ``graph``, given by name.

    Relative to the largest value of the output; infinite where shapes differ. Rows of detections
    whose confidences are nearly equal are compared in the same order.
    """
    worst = 0.0
    makers = graph.producers()
    for name, expected in theirs.items():
        actual = ours[name]
        if actual.shape != expected.shape:
            return float("inf")
        maker = makers.get(graph.outputs[name]) if name in graph.outputs else None
        if maker is not None:
            actual = in_order_of(maker.op, actual, expected)
        if expected.size:
            scale = float(np.abs(expected).max()) or 1.0
            worst = max(worst, float(np.abs(actual - expected).max()) / scale)
    return worst


def _series(series: Series) -> dict[str, object]:
    return {
        "name": series.name,
        "min": series.least,
        "median": series.median,
        "max": series.most,
        "all": series.seconds,
    }
