"""Many runs of a session: as a stream of answers, and as a list."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Literal, overload

from vknn.batching import checked_stacked, list_answers
from vknn.engine import Engine
from vknn.errors import VknnError, naming
from vknn.formats import Model
from vknn.item_stream import (
    checked_in_flight,
    checked_items,
    streamed,
)
from vknn.output_names import staying

#: Results of an item, or the error in its place.
_Answer = dict[str, Any] | VknnError


class ManyRuns:
    """Methods of a session for many inputs."""

    model: Model
    _engine: Engine

    @overload
    def stream(
        self,
        inputs: Iterable[Mapping[str, Any]],
        in_flight: int = 2,
        *,
        errors: Literal["return"] = "return",
        signature: str | None = None,
        timeout: float | None = None,
        on_device: bool | Iterable[str] = False,
    ) -> Generator[_Answer, None, None]: ...

    @overload
    def stream(
        self,
        inputs: Iterable[Mapping[str, Any]],
        in_flight: int = 2,
        *,
        errors: Literal["raise"],
        signature: str | None = None,
        timeout: float | None = None,
        on_device: bool | Iterable[str] = False,
    ) -> Generator[dict[str, Any], None, None]: ...

    def stream(
        self,
        inputs: Iterable[Mapping[str, Any]],
        in_flight: int = 2,
        *,
        errors: str = "return",
        signature: str | None = None,
        timeout: float | None = None,
        on_device: bool | Iterable[str] = False,
    ) -> Generator[Any, None, None]:
        """Outputs of the model for many inputs, in their order, without a wait for each.

        While the device computes with some inputs, the host reads the outputs of those before them
        and writes those behind them: results come up to ``in_flight - 1`` inputs late. That begins
        with the second of inputs of one shape, and later where shapes change often, for commands
        are recorded for each run that may be under way, which takes about as long as one run or
        two: a few inputs gain nothing. Each run that is under way takes memory for its inputs and
        outputs; where that is not there, or more than the session's ``memory_limit``, fewer are.
        Models with state, and those that run in several parts, run once for each of the inputs, as
        by :meth:`run`; so do runs from or to device tensors. Other runs of the session may go on
        beside it.

        Args:
            inputs: Dicts as for :meth:`run`; arrays may be changed once the next are asked for.
            in_flight: How many runs are under way at once, from 1 (as :meth:`run` in a loop) to 8.
            errors: "return" gives an error that belongs to one of the inputs (a name, dtype or
                shape that does not fit, too little memory, a closed device tensor) in the place of
                its results, as an object without a traceback, and goes on. "raise" raises it there;
                the generator then is at its end.
            signature: As for :meth:`run`.
            timeout: Seconds that each result may take, as of :meth:`run`; the time that ``inputs``
                takes is not counted.
            on_device: As for :meth:`run`.

        Returns:
            A generator of results as of :meth:`run`, and of VknnErrors. What it holds is freed when
            it is at its end or closed.

        Raises:
            vknn.VknnError: Arguments do not fit, or the session is closed.
            vknn.RunTimeoutError, vknn.RunCancelledError, vknn.DeviceLostError: They end the
                generator in either mode, and so does an error of ``inputs`` itself, and any that is
                no VknnError. All are raised behind the results of the inputs before.
        """
        with naming(self.model.file):
            engine = self._engine.of_signature(signature)
            kept = staying(on_device, [spec.name for spec in engine.model.outputs])
            items = checked_items(inputs, "a stream")
            yield from streamed(engine, items, timeout, kept, in_flight, errors)

    @overload
    def run_many(
        self,
        inputs: Iterable[Mapping[str, Any]],
        in_flight: int = 2,
        *,
        errors: Literal["return"] = "return",
        signature: str | None = None,
        timeout: float | None = None,
        on_device: bool | Iterable[str] = False,
        stacked: int | None = None,
    ) -> list[_Answer]: ...

    @overload
    def run_many(
        self,
        inputs: Iterable[Mapping[str, Any]],
        in_flight: int = 2,
        *,
        errors: Literal["raise"],
        signature: str | None = None,
        timeout: float | None = None,
        on_device: bool | Iterable[str] = False,
        stacked: int | None = None,
    ) -> list[dict[str, Any]]: ...

    def run_many(
        self,
        inputs: Iterable[Mapping[str, Any]],
        in_flight: int = 2,
        *,
        errors: str = "return",
        signature: str | None = None,
        timeout: float | None = None,
        on_device: bool | Iterable[str] = False,
        stacked: int | None = None,
    ) -> list[Any]:
        """Outputs of the model for a list of inputs: the list of what :meth:`stream` gives.

        Of a list or tuple, inputs of one shape run behind one another, in whatever order it has
        them, unless the model keeps state or ``errors`` is "raise": changes between shapes take
        time. Where it has many of a shape, 8 of them are stacked: one run computes them, if the
        graph proves that they do not mix and the device was measured to be faster. That is found
        out once for each shape, by the first list of at least 1000 whose runs would take 5 seconds
        or more, and ten times as long as the first run of the shape took; it takes seconds itself.
        The session keeps to it until it is closed. Results of stacked runs may differ from those of
        :meth:`run` in the last bits. Never stacked are inputs other than arrays, and runs with
        ``timeout`` or ``on_device``; nor, unless ``stacked`` says so, with ``VKNN_TIMEOUT``,
        ``VKNN_DEBUG`` or under :func:`vknn.profiling.trace`.

        Args:
            inputs: Dicts as for :meth:`run`, in a list or tuple, or whatever gives them one by one,
                which are neither grouped nor stacked.
            in_flight: As of :meth:`stream`.
            errors: "return" or "raise", as of :meth:`stream`; with "raise" the results of the
                inputs before are lost, and a list is stacked where all of it has one shape.
            signature: As for :meth:`run`.
            timeout: Seconds that each result may take.
            on_device: As for :meth:`run`.
            stacked: Inputs of one shape that one run computes, up to 256, however many there are
                and whatever it takes, where the network keeps them apart; 1: each has its own run,
                with the bits of :meth:`run`; None: 8, where that is measured to be faster.

        Returns:
            For each of the inputs, in their order, its results, or the VknnError in their place.

        Raises:
            vknn.VknnError: As of :meth:`stream`; there are no results then.
        """
        with naming(self.model.file):
            engine = self._engine.of_signature(signature)
            kept = staying(on_device, [spec.name for spec in engine.model.outputs])
            items = checked_items(inputs, "run_many")
            number, count = checked_in_flight(in_flight), checked_stacked(stacked)
            if engine.keeps_state or not isinstance(items, list | tuple):
                return list(streamed(engine, items, timeout, kept, number, errors))
            return list_answers(engine, items, timeout, kept, number, errors, count)
