"""Export: a model and what it is to run on become a bundle. Needs no Vulkan device."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vknn import __version__, environment, gc_pause
from vknn.bundle.modules import swept_keys
from vknn.bundle.needs import Needs
from vknn.bundle.network import (
    Network,
    array_of,
    check_names,
    check_sequences,
    cut,
    shapes_text,
)
from vknn.bundle.plans import Portrait, add_plan, check_pipelines
from vknn.bundle.precisions import plan_options
from vknn.bundle.schema import Feature
from vknn.bundle.segments import planned
from vknn.bundle.tables import Tables
from vknn.bundle.targets import PlanTarget, TargetLike, chosen_targets
from vknn.bundle.writer import write
from vknn.compile import check_layers
from vknn.errors import ExportError, InputError
from vknn.lowering import LoweringOptions
from vknn.named_files import named
from vknn.output_names import asked
from vknn.plan import Plan
from vknn.precision import ChosenPrecision, Precision, chosen_precision
from vknn.runtime.quirks import usable_features
from vknn.runtime.snapshot import Snapshot
from vknn.session import Session, by_signature
from vknn.tool_inputs import Shapes, checked_shapes, opened

#: Bundles are made for so many plans at most.
MOST_PLANS = 256


@dataclass(frozen=True)
class ExportedPlan:
    """A plan of a bundle.

    Attributes:
        target: Name of the target that it was made for.
        shapes: Its inputs' shapes, ``"data=3,224,224;mask=7"``.
        precision: ``"fp32"``, ``"fp16"`` or ``"bf16"``: the one that was asked for where the
            target has 16-bit storage.
        arithmetic: ``"fp32"`` or ``"fp16"``, likewise.
        steps: Number of its dispatches, copies, fills and barriers.
        weights: Bytes of its weights, those that other plans share among them.
        memory: Bytes of its inputs, outputs and activations on the device.
        needs: What it needs of a device, by the names of the bundle's fields.
    """

    target: str
    shapes: str
    precision: str
    arithmetic: str
    steps: int
    weights: int
    memory: int
    needs: Mapping[str, Any]


@dataclass(frozen=True)
class Exported:
    """A bundle that was written.

    Attributes:
        path: The file.
        nbytes: Its size.
        sha256: Its SHA-256, with the field that holds it as zeros, in hexadecimal digits: what an
            app can pin its bundle by.
        plans: Its plans, in the order in which a runner looks at them.
    """

    path: Path
    nbytes: int
    sha256: str
    plans: tuple[ExportedPlan, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**asdict(self), "path": str(self.path)}


def export(
    model: str | os.PathLike[str] | Session,
    path: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    signature: str | None = None,
    shapes: Shapes | Sequence[Shapes] | None = None,
    targets: TargetLike | Sequence[TargetLike] = ("generic",),
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    disable: str | Iterable[str] = (),
    outputs: str | Iterable[str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    example: bool | Mapping[str, np.ndarray] = True,
) -> Exported:
    """A model written as a bundle (.vkb), which ``runner/vknn_run.c`` runs without Python.

    Neither a Vulkan device nor a loader is needed. The bundle has a plan for each target and set of
    shapes, targets first: a runner takes the first that suits its device. Weights that plans share
    are stored once. The file is replaced as a whole, or left as it is.

    Args:
        model: A model file, its contents as bytes, or a session, whose weights are taken.
        path: The file to write, in a folder where files can be made; a device or a pipe is written
            to.
        weights: The model's second file, as for :class:`vknn.Session`.
        signature: Key of the signature that is exported, as for :meth:`vknn.Session.run`.
        shapes: Shapes by input, where the model leaves them open or others are wanted; or several
            such mappings, each of which becomes a plan.
        targets: Names (``generic``, ``adreno-6xx``, ``adreno-7xx``, ``mali-g7xx``, ``xclipse``,
            ``apple``, ``desktop``, ``llvmpipe``), or JSON files of limits
            (``vknn devices --json``).
        precision: As for :class:`vknn.Session`. Plans for targets without 16-bit storage are in
            "fp32"; one target has to have it for others than that.
        arithmetic: As for :class:`vknn.Session`; likewise where targets have no 16-bit arithmetic.
        disable: As for :class:`vknn.Session`.
        outputs: Names of the outputs that are wanted, or of blobs in the middle of the network; it
            is cut behind them. A text that is no name is several, by comma.
        fixed: Arrays by input that become part of the network; inputs whose data decide shapes
            have to be among them.
        example: Whether the bundle has an input and the NumPy reference's answer to it, which
            ``vknn-run --test`` compares with; or arrays of it by input, of which those that are
            missing are made up.

    Raises:
        vknn.ExportError: It cannot be one plan on a device; all layers that are in the way are
            named, each with a remedy.
        vknn.InputError: Shapes, outputs or arrays do not fit the model; ``path`` is a file of it.
        vknn.ShapeError: An index in the example is out of range.
        vknn.VknnError: There is no such target or precision; the model cannot be read.
    """
    chosen = chosen_precision(precision, arithmetic)
    disabled = environment.parts(disable, "disable") | environment.disabled()
    if "fp16" in disabled:
        chosen, arithmetic = ChosenPrecision("fp32"), "fp32"
    wanted = [_usable(t, disabled) for t in chosen_targets(targets)]
    options = LoweringOptions(
        disabled, precision=chosen.name, arithmetic=arithmetic, layers=chosen.for_layers()
    )
    own = plan_options(wanted, options)
    sets = _sets(shapes)
    if len(wanted) * len(sets) > MOST_PLANS:
        raise InputError(f"{len(wanted)} targets of {len(sets)} shapes: more than {MOST_PLANS}")
    names = None if outputs is None else asked(outputs)
    with (
        opened(model, weights, device="cpu", disable=disable) as session,
        gc_pause.paused(),
        np.errstate(all="ignore"),  # weights and constants may be infinite or NaN
        ThreadPoolExecutor(1, "vknn-export") as pool,
    ):
        _check_place(path, session.model.file, weights, _beside(session.model.file))
        tables, told, reasons = Tables(pool), [], {}
        signed = by_signature(session, signature)
        check_sequences(signed)
        networks = [
            Network(signed, shape, dict(fixed or {}), one)
            for shape, one in zip(sets, _examples(example, sets), strict=True)
        ]
        for target, usable in zip(wanted, own, strict=True):
            for network in networks:
                try:
                    told.append(_add(tables, network, target, usable, names))
                    _check_shapes(told)
                except ExportError as error:
                    where = f"{target.name}: " if len(wanted) > 1 else ""
                    reasons.update(dict.fromkeys(where + reason for reason in error.reasons))
        if reasons:
            raise ExportError(tuple(reasons))
        check_pipelines(tables)
        meta = _meta(session, wanted, options, told)
        with named(path):
            written = write(Path(path), tables, meta)
    return Exported(Path(path), written.nbytes, written.sha256.hex(), tuple(told))


def _add(
    tables: Tables,
    network: Network,
    target: PlanTarget,
    options: LoweringOptions,
    names: Sequence[str] | None,
) -> ExportedPlan:
    """A plan added to the tables."""
    network.check_sizes(target.limits)
    graph = network.graph()
    if options.layers is not None:
        check_layers(graph, options.layers)
    if names is not None:
        cut(graph, names, {*network.model.state, *network.model.variables})
    dtypes = {name: value.type.dtype for name, value in graph.outputs.items()}
    whole = graph
    graph, plan = planned(graph, target.limits, options)
    network.check_indices(whole)
    tables.sum_ahead(plan.constants.values())
    ported = network.ported(graph, plan, target.limits, dtypes)
    check_names(ported)
    keys = swept_keys(ported.plan.dispatches, tables.pool)
    portrait = Portrait(
        ported.plan, keys, target.limits, target.name, shapes_text(ported), options.precision,
        ports=[port.row(tables) for port in ported.ports],
        states=[state.row(tables) for state in ported.states],
        examples=[one.row(tables) for one in network.examples(graph, ported, options)],
    )  # fmt: skip
    return _told(portrait, options.arithmetic, add_plan(tables, portrait))


def _told(portrait: Portrait, arithmetic: str, needs: Needs) -> ExportedPlan:
    plan: Plan = portrait.plan
    own = {id(a): a.nbytes for a in plan.constants.values()}
    asked = {
        **asdict(needs),
        "features": [str(f.name).lower() for f in Feature if f in needs.features],
    }
    return ExportedPlan(
        portrait.target, portrait.shapes, portrait.precision, arithmetic, len(plan.steps),
        sum(own.values()), sum(plan.arenas.values()), asked,
    )  # fmt: skip


def _examples(
    example: bool | Mapping[str, np.ndarray], sets: Sequence[Shapes]
) -> list[bool | Mapping[str, np.ndarray]]:
    """The example of each set of shapes: arrays that are given are for the sets that they fit."""
    if isinstance(example, bool):
        return [example] * len(sets)
    if example is not None and not isinstance(example, Mapping):
        raise InputError(
            f"example is {type(example).__name__}, neither arrays by input, as in "
            "{'data': array}, nor True or False"
        )
    if not example:
        raise InputError(
            "the example has no arrays: give some, True for one that is made up, or False for none"
        )
    given = {name: array_of(name, array) for name, array in example.items()}
    fitting = [
        all(given[name].shape == dims for name, dims in shapes.items() if name in given)
        for shapes in sets
    ]
    if not any(fitting):
        told = ", ".join(f"{name} {array.shape}" for name, array in given.items())
        raise InputError(f"the example ({told}) has the shapes of none of the sets of shapes")
    return [given if fits else True for fits in fitting]


def _sets(shapes: Shapes | Sequence[Shapes] | None) -> list[Shapes]:
    """The sets of shapes, checked as far as they can be without the model."""
    given = [{}] if shapes is None else [shapes] if isinstance(shapes, Mapping) else shapes
    if not isinstance(given, Sequence):
        raise InputError(f"shapes are a mapping of names, or several, not {given!r:.80}")
    if not given:
        raise InputError("there is no set of shapes: leave shapes out, or give one")
    found: list[Shapes] = []
    for one in given:
        if not isinstance(one, Mapping):
            raise InputError(f"shapes are a mapping of names, or several, not {one!r:.80}")
        checked = checked_shapes({str(name): dims for name, dims in one.items()}, least=1)
        if checked in found:
            raise InputError(f"two sets of shapes are alike: {checked!r:.200}")
        found.append(checked)
    return found


def _beside(model: str | None) -> str | None:
    """Where the weights of an ncnn or OpenVINO file are that come without a path of their own."""
    stem, ending = os.path.splitext(model or "")
    return f"{stem}.bin" if ending.lower() in (".param", ".xml") else None


def _check_place(path: Any, *sources: Any) -> None:
    """Check that the bundle would not take the place of a file of the model. Raises InputError."""
    for source in sources:
        same = False
        with contextlib.suppress(OSError, TypeError, ValueError):  # in memory, or not there yet
            same = os.path.samefile(path, source)
        if same:
            raise InputError(
                f"the bundle would take the place of {os.fspath(source)}, a file of the model: "
                "give another path"
            )


def _check_shapes(told: Sequence[ExportedPlan]) -> None:
    """Check that the last plan is none that is there: sets may differ by what the model says."""
    *others, last = told
    if any((p.target, p.shapes) == (last.target, last.shapes) for p in others):
        raise InputError(f"two sets of shapes are alike: {last.shapes:.200}")


def _usable(target: PlanTarget, disabled: frozenset[str]) -> PlanTarget:
    """A target without the abilities that are switched off."""
    limits = target.limits
    features = usable_features(Snapshot(features=limits.features), disabled)
    access = "storage" if "texel" in disabled else limits.preferred_access
    return PlanTarget(target.name, replace(limits, features=features, preferred_access=access))


def _meta(
    session: Session,
    targets: Sequence[PlanTarget],
    options: LoweringOptions,
    plans: Sequence[ExportedPlan],
) -> bytes:
    """JSON for people and tools; the same model and options give the same.

    "precision" and "arithmetic" are those that were asked for; "plans" have their own.
    """
    file = session.model.file
    document = {
        "vknn": __version__,
        "model": None if file is None else os.path.basename(file),
        "precision": options.precision,
        "arithmetic": options.arithmetic,
        "disable": sorted(options.disabled),
        "targets": {t.name: _plain_limits(t) for t in targets},
        "plans": [
            {
                "target": p.target,
                "shapes": p.shapes,
                "precision": p.precision,
                "arithmetic": p.arithmetic,
            }
            for p in plans
        ],
    }
    return json.dumps(document, indent=1, sort_keys=True, default=str).encode()


def _plain_limits(target: PlanTarget) -> dict[str, Any]:
    limits = asdict(target.limits)
    return {**limits, "features": sorted(limits["features"])}
