"""Bundles of single operators, by one kernel candidate each, for tests of the runner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.helpers import single_op_graph
from tests.lowering.op_cases import Case, with_epilogues

from vknn.bundle.modules import swept_keys
from vknn.bundle.network import shapes_text
from vknn.bundle.plans import Portrait, add_plan, check_pipelines
from vknn.bundle.ports import PortedPlan, ported
from vknn.bundle.tables import Tables
from vknn.bundle.writer import write
from vknn.formats import Model
from vknn.graph import Graph
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.plan import DeviceLimits, Plan


class Operator(Model):
    """A model of one operator, whose ports are those of the graph."""

    inputs = outputs = ()

    def build(self, *_: Any) -> Graph:
        raise NotImplementedError("its graph is there")

    def encode(self, name: str, array: np.ndarray) -> np.ndarray:
        return array

    def decode(self, name: str, array: np.ndarray) -> np.ndarray:
        return array


@dataclass(frozen=True)
class Variant:
    """An operator's graph with inputs, and a plan of it by one candidate."""

    name: str
    feeds: dict[str, np.ndarray]
    graph: Graph
    plan: Plan


def variants(
    cases: list[Case], limits: DeviceLimits, options: LoweringOptions
) -> Iterator[Variant]:
    """Every case by every candidate."""
    for case in [*cases, *with_epilogues(cases)]:
        rng = np.random.default_rng(3)
        arrays = [None if a is None else _filled(a, rng) for a in case.arrays()]
        graph = single_op_graph(case.op, arrays, case.constants)
        given = [a for i, a in enumerate(arrays) if a is not None and i not in case.constants]
        feeds = {v.name: a for v, a in zip(graph.inputs, given, strict=True)}
        for candidate in candidates(graph.nodes[0], limits, options):
            wanted = replace(options, algorithm=candidate.name, layout=candidate.outputs[0])
            yield Variant(candidate.name, feeds, graph, lower(graph, limits, wanted))


def _filled(array: np.ndarray, rng: Any) -> np.ndarray:
    """Numbers between 0 and 1; of integers, which may be places, ones."""
    if array.dtype.kind != "f":
        return array
    return rng.random(array.shape).astype(array.dtype)


def write_variant(path: Path, variant: Variant, limits: DeviceLimits, precision: str) -> PortedPlan:
    """The bundle of a variant's plan."""
    made = [variant.graph.outputs[name].name for name in variant.plan.outputs]
    results = zip(made, variant.plan.outputs.values(), strict=True)
    named = {f"{index}:{name}": port for index, (name, port) in enumerate(results)}
    types = {value.name: value.type for value in variant.graph.inputs}
    done = ported(Operator(), variant.graph, replace(variant.plan, outputs=named), limits, types)
    tables = Tables()
    keys = swept_keys(done.plan.dispatches)
    portrait = Portrait(
        done.plan, keys, limits, "device", shapes_text(done), precision,
        ports=[port.row(tables) for port in done.ports], states=[], examples=[],
    )  # fmt: skip
    add_plan(tables, portrait)
    check_pipelines(tables)
    write(path, tables, b"{}")
    return done
