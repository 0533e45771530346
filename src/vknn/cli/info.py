"""``vknn info``"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from vknn.cli.arguments import add_model, add_shape, add_signature, disabled, opened, shapes
from vknn.cli.output import cell, show, show_lines, write_json
from vknn.coverage import coverage
from vknn.errors import InputError, ShapeError, VknnError
from vknn.formats import TensorSpec
from vknn.graph import Graph, format_graph
from vknn.lowering import format_plan
from vknn.passes import run_passes
from vknn.plan import DeviceLimits
from vknn.session import Session, engine_of
from vknn.tool_inputs import complete_feeds

_LATER = "planned at run time"


def add(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_signature(parser)
    add_shape(parser)
    parser.add_argument(
        "--graph",
        nargs="?",
        const="after",
        choices=("before", "after"),
        help="print the graph before or after the passes (after)",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="print what each type of layer becomes and where that runs (docs/formats.md)",
    )
    parser.add_argument("--plan", action="store_true", help="print the plan for the device")


def run(args: argparse.Namespace) -> None:
    """Display of the model. Only --plan and --coverage open a device."""
    with opened(args, device=None if args.plan or args.coverage else "numpy") as session:
        graph = _graph(args, session)
        if args.plan or args.graph:
            _print_text(args, session, graph)
            return
        if args.coverage:
            _show_coverage(args, session, graph)
            return
        document = _document(args, session, graph)
    if args.json:
        write_json(document)
        return
    show(_tensors("inputs", document["inputs"]))
    show(_tensors("outputs", document["outputs"]))
    for key, signature in document.get("signatures", {}).items():
        show(_tensors(f"signature {key}: inputs", signature["inputs"]))
        show(_tensors(f"signature {key}: outputs", signature["outputs"]))
    if graph is not None:
        show(_counts("layers", document["layers"]))
        show(_counts("operators, after passes", document["operators"]))
        if document["later"]:
            show(_counts(f"layers {_LATER}", document["later"]))
        show(f"{document['parameters']:,} parameters")


def _graph(args: argparse.Namespace, session: Session) -> Graph | None:
    """The graph for the shapes given; None where nothing asks for it and it is not known yet.

    That is where some are open, or where it reads variables that other signatures fill.
    """
    asked = args.plan or args.graph or args.shape or args.coverage
    try:
        feeds = complete_feeds(session, None, shapes(args, session))
    except InputError:
        if asked:
            raise
        return None
    try:
        return engine_of(session).graph(feeds)
    except ShapeError:
        if asked or not session.model.variables:
            raise
        return None


def _print_text(args: argparse.Namespace, session: Session, graph: Graph | None) -> None:
    assert graph is not None
    texts: dict[str, Any] = {}
    if args.graph:
        texts["graph"] = format_graph(graph if args.graph == "before" else _rewritten(args, graph))
    if args.plan:
        if session.device is None:
            raise VknnError("--plan needs a Vulkan device to plan for")
        program = engine_of(session).program(complete_feeds(session, None, shapes(args, session)))
        texts["plans"] = [format_plan(plan) for plan in program.plans]
        texts["on host"] = [n.name for n, side in program.placement.items() if side == "host"]
    if graph.continuation is not None:
        texts["later"] = list(graph.continuation.layers)
    if args.json:
        write_json(texts)
        return
    show_lines(texts.get("graph", ""))
    show_lines("\n".join(texts.get("plans", [])))
    if texts.get("on host"):
        show_lines(f"on the host: {', '.join(texts['on host'])}\n")
    if texts.get("later"):
        print(f"{_LATER}: {', '.join(texts['later'])}")


def _show_coverage(args: argparse.Namespace, session: Session, graph: Graph | None) -> None:
    """The layers by type; on a device that allows no more than Vulkan 1.1 where there is none."""
    assert graph is not None
    limits = DeviceLimits() if session.device is None else session.device.limits
    rows = coverage(graph, session.model.layer_types, limits, engine_of(session).target.options)
    if args.json:
        write_json({"model": str(args.model), "coverage": [asdict(row) for row in rows]})
        return
    table = Table("layer", title="coverage", title_justify="left")
    table.add_column("count", justify="right")
    table.add_column("operators")
    table.add_column("where")
    for row in rows:
        table.add_row(
            cell(row.type), str(row.count), ", ".join(row.operators) or "-", row.where or "-"
        )
    show(table)


def _rewritten(args: argparse.Namespace, graph: Graph) -> Graph:
    return run_passes(graph, disabled(args))


def _document(args: argparse.Namespace, session: Session, graph: Graph | None) -> dict[str, Any]:
    hints = session.model.shape_hints
    found: dict[str, Any] = {
        "model": str(args.model),
        "inputs": [_spec(s, hints.get(s.name)) for s in session.inputs],
        "outputs": [_spec(s, None) for s in session.outputs],
    }
    if session.model.signatures:
        models = {key: session.model.of_signature(key) for key in session.model.signatures}
        found["signatures"] = {
            key: {
                "inputs": [_spec(s, model.shape_hints.get(s.name)) for s in model.inputs],
                "outputs": [_spec(s, None) for s in model.outputs],
            }
            for key, model in models.items()
        }
    if graph is not None:
        layers = {(n.origin.name, n.origin.type) for n in graph.nodes}
        after = _rewritten(args, graph)
        constants = {id(v.constant): v.constant for v in graph.values() if v.constant is not None}
        found["layers"] = dict(Counter(type_ for _, type_ in sorted(layers)).most_common())
        found["operators"] = dict(Counter(n.op.type_name for n in after.nodes).most_common())
        later = graph.continuation.layers if graph.continuation is not None else ()
        found["later"] = dict(Counter(later).most_common())
        found["parameters"] = sum(c.size for c in constants.values())
        for entry in found["outputs"]:
            value = graph.outputs.get(entry["name"])
            if value is not None and entry["shape"] is None:
                entry["graph_shape"] = list(value.type.shape)
    return found


def _spec(spec: TensorSpec, hint: tuple[int, ...] | None) -> dict[str, Any]:
    return {
        "name": spec.name,
        "shape": list(spec.shape) if spec.shape is not None else None,
        "hint": list(hint) if hint else None,
        "dtype": spec.dtype_name,
    }


def _tensors(title: str, entries: Sequence[dict[str, Any]]) -> Table:
    table = Table("name", "shape", "dtype", title=cell(title), title_justify="left")
    for entry in entries:
        table.add_row(cell(entry["name"]), _shape(entry), entry["dtype"])
    return table


def _shape(entry: dict[str, Any]) -> str:
    if entry["shape"] is not None:
        return _dims(entry["shape"])
    if entry.get("graph_shape") is not None:
        return f"{_dims(entry['graph_shape'])} in the graph"
    return f"free; the file suggests {_dims(entry['hint'])}" if entry["hint"] else "free"


def _dims(dims: Sequence[int | None]) -> str:
    return ", ".join("?" if d is None else str(d) for d in dims)


def _counts(title: str, counts: dict[str, int]) -> Table:
    table = Table("type", title=title, title_justify="left")
    table.add_column("count", justify="right")
    for name, count in counts.items():
        table.add_row(cell(name), str(count))
    return table
