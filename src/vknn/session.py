"""A model file made ready to run."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from vknn import environment, gc_pause
from vknn.errors import DeviceError, OutOfMemoryError, VknnError
from vknn.formats import Model, TensorSpec, load
from vknn.graph import DType, Graph, TensorType, validate
from vknn.input_encoder import Intake
from vknn.lowering import LoweringOptions, WeightCache
from vknn.passes import run_passes
from vknn.precision import check_precision, usable_arithmetic, usable_precision
from vknn.program import Program, Target
from vknn.runtime import Device, WeightPool, open_device
from vknn.runtime.device_selection import is_host
from vknn.runtime.tuning_database import tuning_choices

if TYPE_CHECKING:
    from vknn.training import Callback, UpdateResult

#: Programs kept for different input shapes; the least recently used is closed first.
MAX_PROGRAMS = 8

_warned_without_device = False


class Session:
    """A model on a device.

    A model with state (recurrent cells, memories) keeps it from run to run until
    :meth:`reset_state`. The first run with new shapes compiles the network for them. Safe to use
    from several threads; runs of one session follow each other. A context manager.

    Args:
        path: The model file. Its contents decide the format.
        weights: The model's second file, where the format has one and it does not lie beside the
            first under the same stem.
        device: "auto" (the best Vulkan device, or NumPy without one), "vulkan" (as auto, but an
            error without one), "vulkan:1", part of a device's name, "numpy" or "cpu" (the
            reference), or an open :class:`vknn.runtime.Device` to share.
        precision: "fp32", or "fp16" to store tensors and weights as float16 on the device, half the
            memory and traffic; arithmetic stays in float32, and so does the NumPy reference.
        arithmetic: "fp16" (only with precision "fp16") lets convolutions and matrix products
            multiply in float16 and add up as many as 16 products in it before the sums are added up
            in float32; products of one row, depthwise ones, Winograd's and attention's and all
            other operators keep to float32.
        disable: Names of passes and abilities to switch off, as in ``VKNN_DISABLE``; "fp16" among
            them makes both precision and arithmetic "fp32".
        tuned: Whether to take the kernels that ``vknn tune`` found the fastest on this device.

    Attributes:
        model: The model as its format's package read it, a :class:`vknn.formats.Model`.
        device: The open device, or None where NumPy computes.
        precision: The precision in use, "fp32" where NumPy computes.
        arithmetic: The arithmetic in use.

    Raises:
        vknn.ModelFormatError: The file is missing, damaged or of no known format.
        vknn.UnsupportedLayerError: It holds layers that vknn cannot run; all of them are named.
        vknn.DeviceError: There is no device as asked for, or it cannot be opened.
        vknn.VknnError: The device cannot have this precision or arithmetic.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        weights: str | os.PathLike[str] | None = None,
        *,
        device: str | Device = "auto",
        precision: str = "fp32",
        arithmetic: str = "fp32",
        disable: Iterable[str] = (),
        tuned: bool = True,
    ) -> None:
        check_precision(precision, arithmetic)
        self._owns_device = not isinstance(device, Device)
        self.model: Model
        self.device: Device | None
        with gc_pause.paused():
            files = (Path(path), Path(weights) if weights is not None else None)
            self.model, self.device = _load_and_open(*files, device)
        self._disabled = frozenset(disable) | environment.disabled()
        self._lock = threading.RLock()
        self._programs: OrderedDict[object, Program] = OrderedDict()
        self._closed = False
        try:
            self.precision = usable_precision(precision, self.device, self._disabled)
            self.arithmetic = usable_arithmetic(arithmetic, self.precision, self.device)
        except BaseException:
            if self.device is not None and self._owns_device:
                self.device.close()
            raise
        pool = WeightPool(self.device) if self.device is not None else None
        choices: Mapping[str, str] = {}
        if tuned and self.device is not None and "tuning" not in self._disabled:
            choices = tuning_choices(self.device.snapshot)
        options = LoweringOptions(
            disabled=self._disabled,
            choices=choices,
            precision=self.precision,
            arithmetic=self.arithmetic,
        )
        self._target = Target(
            self.device, options, pool=pool, debug=environment.debug(), prepare=self._prepare
        )
        self._intake = Intake(self.model)
        #: The program of the latest run, which is that of the arrays that the intake knows again.
        self._last: Program | None = None
        self._state: dict[str, np.ndarray] = {}
        self.reset_state()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape (None where it is free) and dtype of each input."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape (None where it is free) and dtype of each output."""
        return self.model.outputs

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs of the model for these inputs.

        Args:
            feeds: An array for every input, by name, in the format's own layout and dtype. A Core
                ML model takes images too and may have inputs that can be left out.

        Returns:
            Arrays by the names of the outputs, in the format's own layout and dtype. A classifier
            of Core ML gives a label and a dictionary.

        Raises:
            vknn.InputError: Names, dtypes or ranks do not fit the model.
            vknn.ShapeError: A layer cannot take these shapes.
            vknn.DeviceError: The driver failed.
        """
        return self.model.results(self.decoded(feeds))

    def decoded(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs as of :meth:`run`, by the names in the graph: a classifier's scores are one."""
        feeds = self.model.complete(feeds)
        with self._lock:
            arrays = self._intake.recall(feeds)
            program = self._last
            if arrays is None or program is None:
                arrays = self._encode(feeds)
                program = self._program(feeds, arrays)
            if self._state:
                arrays.update(self._state)
            results: dict[str, Any] = program.run(arrays)
            if self._state:
                self._state = {name: results.pop(name) for name in self._state}
        for name, array in results.items():
            results[name] = self.model.decode(name, array)
        return results

    def update(
        self,
        batches: Iterable[Mapping[str, Any]] | Mapping[str, Any],
        *,
        epochs: int | None = None,
        mini_batch_size: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        beta1: float | None = None,
        beta2: float | None = None,
        eps: float | None = None,
        shuffle: bool | None = None,
        seed: int | None = None,
        progress: Callback | bool | None = None,
    ) -> UpdateResult:
        """Training of the updatable layers of a Core ML model; the session then predicts with them.

        Gradients are computed on the session's device in float32, whatever its precision. After an
        error the model is as it was. Settings left out are the model's own; it says which values
        they may have. The page on training says what is computed.

        Args:
            batches: Dicts with the features of one example each, the target among them, or one dict
                of arrays whose first axis counts the examples.
            epochs: How often all examples are gone through.
            mini_batch_size: Examples of a step.
            learning_rate: Of either optimizer.
            momentum: Of SGD.
            beta1: Of Adam, the decay of the first moment.
            beta2: Of Adam, the decay of the second moment.
            eps: Of Adam, added to the root of the second moment.
            shuffle: Whether each epoch takes the examples in another order.
            seed: Of that order.
            progress: True shows a line; a callable is told of each mini-batch
                (:class:`vknn.training.Progress`) and ends the training by returning False.

        Returns:
            Losses and metrics of each epoch.

        Raises:
            vknn.VknnError: The model is not updatable.
            vknn.InputError: Examples or settings do not fit.
            vknn.UnsupportedLayerError: There are layers that cannot be trained through.
        """
        from vknn.training import train  # takes a while to import, and few need it

        given = {
            "epochs": epochs, "mini_batch_size": mini_batch_size, "learning_rate": learning_rate,
            "momentum": momentum, "beta1": beta1, "beta2": beta2, "eps": eps, "shuffle": shuffle,
            "seed": seed,
        }  # fmt: skip
        with self._lock:
            if self._closed:
                raise VknnError("the session is closed")
            result = train(self.model, self._target, batches, given, progress)
            self._forget()
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """The model with its present weights, written to ``path`` in its own format (Core ML).

        Raises:
            vknn.VknnError: The format is another one.
        """
        with self._lock:
            self.model.save(Path(path))

    def reset_state(self) -> None:
        """The model's state, where it keeps one between runs, set back to what it was at first."""
        with self._lock:
            first = self.model.first_state
            self._state = {n: _filled(t, first.get(n, 0)) for n, t in self.model.state.items()}

    def program(self, feeds: Mapping[str, Any]) -> Program:
        """The compiled program for inputs of these shapes (compiling it where needed)."""
        feeds = self.model.complete(feeds)
        with self._lock:
            return self._program(feeds, self._encode(feeds))

    def graph(self, feeds: Mapping[str, Any]) -> Graph:
        """The graph of the model for inputs of these shapes, before any pass."""
        feeds = self.model.complete(feeds)
        return self._build(feeds, self._encode(feeds))

    @property
    def target(self) -> Target:
        """Where the session's programs run; for compiling other graphs beside them."""
        return self._target

    def encode(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The arrays as the graph takes them, with the state as it is; checks names and types."""
        return {**self._encode(self.model.complete(feeds)), **self._state}

    @property
    def placement(self) -> dict[str, str]:
        """Placement of each node of the latest run, node name -> "vulkan" or "host".

        Raises:
            vknn.VknnError: There was no run yet; shapes decide the placement.
        """
        if self._last is None:
            raise VknnError("placement is known after the first run (shapes decide it)")
        return {node.name: side for node, side in self._last.placement.items()}

    def close(self) -> None:
        """Release of all device objects; may be called twice. A closed session cannot run again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._forget()
            if self._target.pool is not None:
                self._target.pool.close()
            if self.device is not None and self._owns_device:
                self.device.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _forget(self) -> None:
        """Closes all programs: the next run builds its own."""
        self._last = None
        self._intake.forget()
        for program in self._programs.values():
            program.close()
        self._programs.clear()
        self._target.weights = WeightCache()

    def _encode(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self._closed:
            raise VknnError("the session is closed")
        return self._intake.encode(feeds)

    def _program(
        self, feeds: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]
    ) -> Program:
        decisive = [np.asarray(feeds[n]) for n in sorted(self.model.value_inputs)]
        key = (
            tuple((n, a.shape, a.dtype) for n, a in arrays.items()),
            tuple(a.tobytes() for a in decisive),
        )
        program = self._programs.get(key)
        if program is None:
            with gc_pause.paused():
                program = Program(self._prepare(self._build(feeds, arrays)), self._target)
            self._programs[key] = program
            if len(self._programs) > MAX_PROGRAMS:
                self._programs.popitem(last=False)[1].close()
        self._programs.move_to_end(key)
        self._last = program
        self._intake.remember(feeds, arrays)
        return program

    def _build(self, feeds: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]) -> Graph:
        values = {n: np.asarray(feeds[n]) for n in sorted(self.model.value_inputs)}
        types = {n: TensorType(np.shape(feeds[n]), DType.of(array)) for n, array in arrays.items()}
        return self.model.build(types, values)

    def _prepare(self, graph: Graph) -> Graph:
        """A graph, checked and rewritten."""
        validate(graph)
        return run_passes(graph, self._disabled)


def _filled(type_: TensorType, number: float) -> np.ndarray:
    """An array of one number; zeros take no memory before they are written."""
    try:
        array = np.zeros(type_.dims, type_.dtype.numpy)
    except MemoryError as error:
        raise OutOfMemoryError(f"host memory is exhausted by the state {type_}") from error
    if number:
        array.fill(number)
    return array


def choose_device(selector: str) -> Device | None:
    """The device that a selector means (as for Session), opened; None for the NumPy reference."""
    global _warned_without_device
    if selector == "auto":
        selector = environment.device()
    if is_host(selector):
        return None
    try:
        return open_device("auto" if selector == "vulkan" else selector)
    except DeviceError as error:
        if selector != "auto":
            raise
        if not _warned_without_device:
            _warned_without_device = True
            warnings.warn(
                f"no Vulkan device, running on NumPy: {error}", RuntimeWarning, stacklevel=4
            )
        return None


def _load_and_open(
    path: Path, weights: Path | None, device: str | Device
) -> tuple[Model, Device | None]:
    """The model and its device, at the same time: opening waits for the driver mostly."""
    if isinstance(device, Device):
        return load(path, weights), device
    # The model has the thread of its own: what drivers allocate in ever new threads stays spread
    # over as many heaps.
    with ThreadPoolExecutor(1) as executor:
        loading = executor.submit(load, path, weights)
        try:
            opened = choose_device(device)
        except BaseException:
            loading.result()  # of two errors the model's is the one to show
            raise
        try:
            return loading.result(), opened
        except BaseException:
            if opened is not None:
                opened.close()
            raise
