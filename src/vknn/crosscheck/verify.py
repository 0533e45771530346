"""Verification: every operator run on the device and with NumPy, and compared."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from vknn.answers import Recipe
from vknn.crosscheck.check import CheckOptions
from vknn.crosscheck.checker import InputChecker
from vknn.crosscheck.metrics import Metric, named_metrics
from vknn.crosscheck.report import VerifyReport
from vknn.precision import Precision
from vknn.session import Session
from vknn.tool_inputs import ProgressCallback, Shapes, complete_feeds, opened


def verify(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    signature: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    tolerance: float | None = None,
    cumulative_tolerance: float | None = None,
    passes: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    metrics: bool = False,
    metric: Metric | Sequence[Metric] | Mapping[str, Metric] | None = None,
    recipe: Recipe | str | os.PathLike[str] | None = None,
) -> VerifyReport:
    """Comparison of every operator of a model on the device with NumPy.

    Each operator is checked *isolated*, fed the reference's inputs, and *cumulatively*, behind all
    the operators before it on the device. What a model computes in loops, branches or behind
    computed shapes is checked the first time that it runs, on what the reference computed before
    it. In fp16 and bf16 isolated operators get inputs that are held exactly so, on both sides.

    Args:
        model: A model file or an open session.
        inputs: Arrays by name, as for :meth:`vknn.Session.run`; random ones stand in for those that
            are missing.
        signature: Key of the signature that is run, as for :meth:`vknn.Session.run`.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used where ``model`` is a session. So are
            ``precision`` and ``arithmetic``.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        tolerance: Error allowed to one operator relative to the magnitude that it accumulates; by
            default what its arithmetic explains.
        cumulative_tolerance: Error allowed to any intermediate result, relative to its largest
            element; by default 1e-4, in precision "fp16" and of models in float16 2e-2, with
            arithmetic "fp16" 4e-2, in precision "bf16" 0.16; or where that is more four times what
            the errors that the operators before it have by themselves, and are allowed, make of
            the reference.
        passes: True checks the graph as it is run, after all rewrites; False as it was read, an
            operator for each that the file's layers stand for.
        seed: Of random inputs.
        progress: Told the number of steps done, of all steps, and what is being done.
        metrics: True gives every comparison its ``metrics``
            (:class:`vknn.crosscheck.ArrayMetrics`), and the report an ``agreement`` of answers.
        metric: A function of one's own, or several: ``metric(actual, expected)`` of two arrays of
            one shape and dtype gives a number. Asks for ``metrics``, too.
        recipe: What the outputs mean, for the agreement: a recipe, or its file; by default the one
            that :func:`vknn.answers.find_recipe` finds; "none": nothing.

    Returns:
        A report with a row for each output of each operator.

    Raises:
        vknn.InputError: An input is unknown, or neither an array nor a shape is known for one.
        vknn.VknnError: What :class:`vknn.Session` and its ``run`` raise; and where a function of
            one's own fails.
    """
    options = CheckOptions(
        tolerance=tolerance,
        cumulative_tolerance=cumulative_tolerance,
        passes=passes,
        progress=progress,
        metrics=asked_metrics(metrics, metric),
    )
    with opened(
        model,
        weights,
        device=device,
        precision=precision,
        arithmetic=arithmetic,
        signature=signature,
    ) as session:
        feeds = complete_feeds(session, inputs, shapes, seed)
        name = None if isinstance(model, Session) else str(model)
        return InputChecker(session, options, name, recipe).check(feeds)


def asked_metrics(
    metrics: bool, metric: Metric | Sequence[Metric] | Mapping[str, Metric] | None
) -> dict[str, Metric] | None:
    """Functions of one's own by name; None where no metrics are asked for."""
    if metric is None:
        return {} if metrics else None
    return named_metrics(metric)
