"""Session: a model file made ready to run."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from vknn import environment, gc_pause, interrupts, session_text
from vknn.engine import Engine
from vknn.errors import VknnError, name_of, naming
from vknn.formats import Model, TensorSpec
from vknn.formats.in_memory import MODEL, Source, WrittenSources, is_in_memory
from vknn.lowering import LoweringOptions
from vknn.many_runs import ManyRuns
from vknn.opening import kernel_choices, load_and_open, new_target
from vknn.output_names import asked, staying
from vknn.precision import Precision, chosen_precision, usable_arithmetic, usable_precision
from vknn.runtime import Device, as_tensors, close_all
from vknn.session_text import names_its_model, shown

if TYPE_CHECKING:
    from vknn.training import Callback, UpdateResult

_log = logging.getLogger("vknn")


class Session(ManyRuns):
    """A model on a device.

    A model with state (recurrent cells, memories) keeps it from run to run until
    :meth:`reset_state`. The first run with new shapes compiles the network for them. Safe to use
    from several threads; runs of one session follow each other. A context manager. A pickled
    session opens the same file with the same options, in another process, too.

    Args:
        path: The model file, its contents as bytes, or a file open for reading in binary. The
            contents decide the format.
        weights: The model's second file, likewise, where the format has one and it does not lie
            beside the first under the same stem.
        device: "auto" (the best Vulkan device, or NumPy without one), "vulkan" (as auto, but an
            error without one), "vulkan:1", "uuid:...", "pci:0000:3b:00.0", part of a device's
            name, "numpy" or "cpu" (the reference), or an open :class:`vknn.Device` to share.
        precision: "fp32", or "fp16" to store tensors and weights as float16 on the device, half the
            memory and traffic, or "bf16" to store them as bfloat16, with the range of float32 and
            fewer digits; arithmetic stays in float32, and so does the NumPy reference. Or a mapping
            from layers, as :func:`vknn.verify` names them, or shell patterns of these, to theirs,
            such as ``{"conv3": "fp32", "softmax*": "fp32"}``: a layer's own name counts first, then
            the first pattern that fits; "*" is the rest, "fp16" where it is left out. Names are
            checked at the first run. Or the ``.json`` file of such a mapping
            (``vknn verify --advise``).
        arithmetic: "fp16" (only with precision "fp16") lets convolutions and matrix products
            multiply in float16 and add up as many as 16 products in it before the sums are added up
            in float32, on devices that are faster so; products of one row, depthwise ones and
            attention's and all other operators keep to float32.
        disable: Names of passes and abilities to switch off, as in ``VKNN_DISABLE``: several, or
            text with commas. Unknown ones raise VknnError; an open ``device`` keeps its abilities.
        tuned: Whether to take the kernels that ``vknn tune`` found the fastest on this device.
        memory_limit: Bytes that the network may take at once, or text such as "2GB"; by default
            ``VKNN_MEMORY_LIMIT``, else three quarters of what is free. What needs more raises
            OutOfMemoryError before anything is allocated for it.

    Raises:
        vknn.ModelFormatError: The file is missing, damaged or of no known format.
        vknn.UnsupportedLayerError: It holds layers that vknn cannot run; all of them are named.
        vknn.DeviceError: There is no device as asked for, or it cannot be opened.
        vknn.VknnError: The device cannot have this precision or arithmetic.
    """

    #: The model as its format's package reads it, a :class:`vknn.formats.Model`.
    model: Model
    #: The open device; None where NumPy computes.
    device: Device | None
    #: The precision in use, "fp32" where NumPy computes; of a mapping that of layers of 16 bits.
    precision: str
    #: The mapping of precisions in use, with its "*"; empty where all layers have the same.
    layer_precisions: Mapping[str, str]
    #: The arithmetic in use of convolutions and products, "fp32" or "fp16".
    arithmetic: str

    def __init__(
        self,
        path: Source,
        weights: Source | None = None,
        *,
        device: str | Device = "auto",
        precision: Precision = "fp32",
        arithmetic: str = "fp32",
        disable: str | Iterable[str] = (),
        tuned: bool = True,
        memory_limit: int | str | None = None,
    ) -> None:
        with naming(shown(path)):
            chosen = chosen_precision(precision, arithmetic)
            asked = environment.parts(disable, "disable")
            disabled = asked | environment.disabled()
            limit = environment.memory_limit(memory_limit)
            self._owns_device = not isinstance(device, Device)
            self._sources = WrittenSources(path, weights)
            file, second = self._sources.model, self._sources.weights
            try:
                with gc_pause.paused():
                    self.model, self.device = load_and_open(file, second, device, limit, asked)
            except BaseException as error:
                if isinstance(error, VknnError):
                    self._sources.of_memory(error)
                self._sources.close()
                raise
            in_memory, self._trained = is_in_memory(path), False
            self._signatures: dict[str, Session] = {}
            self._file = MODEL if in_memory else Path(file).name
            if in_memory:
                self.model.file = MODEL
            self._opened = {
                "path": os.path.abspath(file), "device": device, "precision": chosen.given,
                "weights": None if second is None else os.path.abspath(second), "disable": asked,
                "arithmetic": arithmetic, "tuned": tuned, "memory_limit": memory_limit,
            }  # fmt: skip
            try:
                self.precision = usable_precision(chosen.name, self.device, disabled)
                mixed = self.precision != "fp32"
                self.layer_precisions = MappingProxyType(dict(chosen.layers) if mixed else {})
                self.arithmetic = usable_arithmetic(arithmetic, self.precision, self.device)
                choices = kernel_choices(self.device, disabled) if tuned else {}
                options = LoweringOptions(
                    disabled, choices=choices, precision=self.precision,
                    arithmetic=self.arithmetic, layers=chosen.for_layers(),
                )  # fmt: skip
                target = new_target(self.device, options, limit)
                self._engine = Engine(self.model, target, environment.run_timeout())
                self.reset_state()
                place = session_text.place(self.device)
                _log.info("%s in %s on %s", self._file, session_text.precision(self), place)
            except BaseException:
                own = [self.device] if self.device is not None and self._owns_device else []
                close_all([*own, self._sources])
                raise

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape (None where it is free), dtype and suggested shape of each input."""
        hints = self.model.shape_hints
        return tuple(replace(s, hint=hints.get(s.name, s.fixed)) for s in self.model.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape (None where it is free) and dtype of each output."""
        return self.model.outputs

    def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Iterable[str] | None = None,
        *,
        signature: str | None = None,
        timeout: float | None = None,
        on_device: bool | Iterable[str] = False,
    ) -> dict[str, Any]:
        """Outputs of the model for these inputs.

        After an error the session can run again, and a model's state is what it was before.

        Args:
            feeds: An array or DeviceTensor for every input, by name, in the format's own layout and
                dtype; of a model with one input the array alone will do. A Core ML model takes
                images too and may have inputs that can be left out.
            outputs: Names of what is wanted: outputs, and blobs in the middle of the network by
                the file's names for them (TensorFlow Lite's tensors, OpenVINO's layers, with
                ".port" behind where one has several). Each set of blobs is compiled by itself.
            signature: Key of one of the model's signatures (``model.signatures``, TensorFlow Lite):
                that is run, by its own names of inputs and outputs. Signatures share variables,
                tables and weights. Without one the model's first subgraph is run.
            timeout: Seconds that the run may take with compilation, by default ``VKNN_TIMEOUT`` if
                set; looked at wherever it takes time but in functions of layers of one's own.
            on_device: True gives each array as a :class:`vknn.DeviceTensor`, which stays on the
                device until it is read; names: these outputs only.

        Returns:
            Arrays by the names of the outputs, in the format's own layout and dtype. A classifier
            of Core ML gives a label and a dictionary.

        Raises:
            vknn.InputError: Names, dtypes or ranks do not fit; there is no such signature.
            vknn.ShapeError: A layer cannot take these shapes.
            vknn.RunTimeoutError, vknn.RunCancelledError: Out of time; :meth:`cancel` was called.
            vknn.DeviceError: The driver failed, or a device tensor was closed.
            vknn.OutOfMemoryError: There is not enough memory.
        """
        if signature is not None:
            session = by_signature(self, signature)
            return session.run(feeds, outputs, timeout=timeout, on_device=on_device)
        try:  # a decorator would take three calls more, in every run
            if outputs is None and on_device is False:
                return self.model.results(self._engine.run(feeds, timeout))
            return self._asked(feeds, outputs, timeout, on_device)
        except Exception as error:
            name_of(error, self.model.file)
            raise

    def cancel(self) -> None:
        """End of the run that is under way in another thread, which raises RunCancelledError.

        Streams that are at work or wait for their next use end likewise. Nothing happens where
        there is none. The next run waits for what the device has begun.
        """
        self._engine.cancel()

    @names_its_model
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
        with self._engine.lock:
            self._engine.check_open()
            result = train(self.model, self._engine.target, batches, given, progress)
            self._trained = True
            self._engine.forget()
        return result

    @names_its_model
    def save(self, path: str | os.PathLike[str]) -> None:
        """The model with its present weights, written to ``path`` in its own format (Core ML).

        Raises:
            vknn.VknnError: The format is another one.
        """
        with self._engine.lock:
            self.model.save(Path(path))

    @names_its_model
    def reset_state(self) -> None:
        """The model's state, where it keeps one between runs, set back to what it was at first."""
        self._engine.reset_state()

    def _asked(
        self,
        feeds: Mapping[str, Any],
        outputs: Iterable[str] | None,
        timeout: float | None,
        on_device: bool | Iterable[str],
    ) -> dict[str, Any]:
        """Results of these names, in their order; None: of all outputs."""
        own = [spec.name for spec in self.outputs]
        names = own if outputs is None else asked(outputs)
        kept = staying(on_device, names)
        blobs = tuple(name for name in names if name not in own)
        some = outputs is None or len(blobs) < len(names)
        found = self._engine.run(feeds, timeout, blobs, some, kept)
        shown = {name: found.pop(name) for name in blobs}
        if some:
            shown |= self.model.results(found)
        wanted = shown if outputs is None else {name: shown[name] for name in names}
        return as_tensors(wanted, kept)

    @property
    @names_its_model
    def placement(self) -> dict[str, str]:
        """Placement of each node of the latest run, node name -> "vulkan" or "host".

        Raises:
            vknn.VknnError: There was no run yet; shapes decide the placement.
        """
        program = self._engine.latest
        if program is None:
            raise VknnError("placement is known after the first run (shapes decide it)")
        return {node.name: side for node, side in program.placement.items()}

    @interrupts.uninterrupted
    def close(self) -> None:
        """Release of all device objects; may be called twice. A closed session cannot run again."""
        with self._engine.lock:
            try:
                close_all([self._engine, self._sources])
            finally:
                if self.device is not None and self._owns_device:
                    self.device.retire()

    def __repr__(self) -> str:
        return session_text.text(self, self._file, self._engine.closed)

    def _repr_html_(self) -> str:
        return session_text.html(self, self._file)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @names_its_model
    def __reduce__(self) -> tuple[Any, ...]:
        """What pickle keeps: the file's path and the options. State between runs begins anew."""
        if not self._owns_device:
            raise VknnError("a session on an open Device cannot be pickled: open it by name")
        if self._sources.in_memory:
            raise VknnError("a session of a model in memory cannot be pickled: open it from a file")
        if self._trained:
            raise VknnError("a trained session cannot be pickled: save its model, and open that")
        return _opened_again, (self._opened,)

    @names_its_model
    def __copy__(self) -> Session:
        raise VknnError("a session cannot be copied: open another, which may share its device")

    def __deepcopy__(self, memo: object) -> Session:
        return self.__copy__()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class _SignatureSession(Session):
    """A session that runs a signature of another's model; all else is that one's, its end, too."""

    def __init__(self, session: Session, engine: Engine) -> None:
        vars(self).update(vars(session), _engine=engine, model=engine.model, _signatures={})

    def close(self) -> None:
        """Nothing: the session that it belongs to is closed instead."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise VknnError("a session's signature cannot be pickled: pickle the session")


def by_signature(session: Session, signature: str | None) -> Session:
    """The session as one that runs a signature of its model; itself where that is None."""
    if signature is None:
        return session
    with naming(session.model.file):
        engine = session._engine.of_signature(signature)
    if signature not in session._signatures:
        session._signatures[signature] = _SignatureSession(session, engine)
    return session._signatures[signature]


def engine_of(session: Session) -> Engine:
    """The inside of a session: for vknn's own tools, which look at programs and graphs."""
    return session._engine


def _opened_again(options: dict[str, Any]) -> Session:
    return Session(**options)
