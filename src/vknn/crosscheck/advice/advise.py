"""Advice on the precision of layers: measured with NumPy, searched and verified on the device."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping

import numpy as np

from vknn.crosscheck.advice.advisor import Advisor
from vknn.crosscheck.advice.report import PrecisionAdvice
from vknn.crosscheck.over_data import Records, named_records
from vknn.errors import VknnError
from vknn.precision import CUMULATIVE, PRECISIONS, usable_precision
from vknn.session import Session, engine_of
from vknn.tool_inputs import ProgressCallback, Shapes, opened

#: Seconds that advice may take.
TIME_LIMIT = 300.0
#: Precisions that it is for.
LIMITED = PRECISIONS[1:]


def advise(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | Records | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: str = "fp16",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    tolerance: float | None = None,
    limit: int | None = None,
    time_limit: float = TIME_LIMIT,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> PrecisionAdvice:
    """The layers that a network in 16 bits has to keep in float32, and why.

    NumPy computes the ranges of all tensors, and how far the outputs go off where one layer alone
    is stored in 16 bits. The layers with the largest errors are kept in float32, as many as it
    takes, then each of them that can be is left out again; lists are tried on the device, as
    ``precision=`` takes them, or by NumPy where there is none. The list is short, and nothing can
    be left out of it; a shorter one of other layers may exist.

    Args:
        model: A model file or an open session.
        inputs: Arrays by name, or several such (:class:`vknn.crosscheck.InputRecord`, too); random
            ones stand in for those that are missing.
        weights: As for :func:`vknn.verify`, and so are ``device``, ``arithmetic``, ``shapes``,
            ``seed`` and ``progress``.
        precision: "fp16" or "bf16".
        tolerance: Error allowed to any output, relative to its largest element; by default what
            :func:`vknn.verify` allows: 2e-2 in fp16, 4e-2 with arithmetic "fp16", 0.16 in bf16.
        limit: Inputs at most; None: all.
        time_limit: Seconds that all may take; what was found until then is given. However short,
            the inputs are computed once, the layers tried all in 16 bits and all in float32, and
            the times of a list taken once; and what is begun is finished.

    Returns:
        The advice, whose ``precision`` is what :class:`vknn.Session` takes.

    Raises:
        vknn.InputError: As for :func:`vknn.verify`; no input could be read.
        vknn.VknnError: The options do not fit, the device has no 16 bits, or data decide how the
            network goes on (loops, branches, computed shapes).
    """
    if precision not in LIMITED:
        raise VknnError(f"advice is for precision 'fp16' or 'bf16', not {precision!r}")
    if tolerance is not None and not 0 < tolerance < math.inf:
        raise VknnError(f"tolerance={tolerance}: it must be above 0")
    if not 0 < time_limit < math.inf:
        raise VknnError(f"time_limit={time_limit}: it must be above 0 seconds")
    share = CUMULATIVE[precision, arithmetic] if tolerance is None else tolerance
    records = [inputs or {}] if inputs is None or isinstance(inputs, Mapping) else inputs
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        disabled = engine_of(session).target.options.disabled
        if session.device and usable_precision(precision, session.device, disabled) == "fp32":
            raise VknnError("fp16 is disabled (VKNN_DISABLE, disable=): there is nothing to advise")
        advisor = Advisor(session, precision, share, time_limit, progress)
        for record in itertools.islice(named_records(records), limit):
            advisor.read(record, shapes, seed)
        return advisor.advice(str(session.model.file if isinstance(model, Session) else model))
