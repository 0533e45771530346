"""``vknn bundle``"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from vknn.bundle.comparison import Difference, unanswered
from vknn.bundle.inventory import inventory, layer_documents
from vknn.bundle.native import program_here
from vknn.bundle.reader import Bundle
from vknn.bundle.records import BundlePlan
from vknn.bundle.suitability import lacking
from vknn.bundle.trial import needs_of, suiting_plans, try_plan, try_program
from vknn.cli.arguments import add_json
from vknn.cli.output import show, write_json
from vknn.errors import DeviceError, VknnError
from vknn.printable import one_line
from vknn.runtime import devices, open_device
from vknn.runtime.device_selection import rejection


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, help="the file that vknn export wrote")
    parser.add_argument("--plan", type=int, metavar="N", help="only this plan, from 0 on")
    parser.add_argument("--layers", action="store_true", help="show the steps of each plan, too")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the bundle's example here, with vknn and with vknn-run, and compare",
    )
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="with --check: where, as for vknn run (vknn devices lists them)",
    )
    parser.add_argument(
        "--runner",
        type=Path,
        metavar="FILE",
        help="with --check: this vknn-run (a checkout's, compiled with the C compiler)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Display of a bundle; with --check 1 where it computes something else than its example."""
    if args.runner is not None and not args.check:
        raise VknnError("--runner needs --check")
    bundle = Bundle.open(args.bundle)
    plans = _plans(bundle, args.plan)
    if args.check:
        return _check(args, bundle, plans)
    document = inventory(bundle)
    document["plans"] = [document["plans"][plan.index] for plan in plans]
    for plan, entry in zip(plans, document["plans"], strict=True):
        entry["devices"] = _suits(plan)
        if args.layers:
            entry["layers"] = layer_documents(bundle, plan)
    if args.json:
        write_json(document)
        return 0
    _show_file(document)
    for entry in document["plans"]:
        _show_plan(entry)
    return 0


def _plans(bundle: Bundle, number: int | None) -> list[BundlePlan]:
    if number is None:
        return bundle.plans
    if not 0 <= number < len(bundle.plans):
        raise VknnError(f"{bundle.file}: there is no plan {number}; it has {len(bundle.plans)}")
    return [bundle.plans[number]]


def _suits(plan: BundlePlan) -> list[dict[str, Any]]:
    """Devices of this machine and what each lacks."""
    try:
        found = devices()
    except DeviceError:  # a bundle can be looked at without a Vulkan loader
        return []
    return [
        {
            "device": f"vulkan:{s.index}",
            "name": s.name,
            "lacks": lacking(plan, s),
            "rejection": rejection(s, null_device=True),
        }
        for s in found
    ]


def _check(args: argparse.Namespace, bundle: Bundle, plans: Sequence[BundlePlan]) -> int:
    bundle.check_data()
    rows: list[tuple[BundlePlan, Difference]] = []
    with open_device(args.device) as device:
        name, snapshot = device.name, device.snapshot
        wanted, alone = suiting_plans(plans, snapshot)
        for plan in wanted:
            rows += [(plan, row) for row in try_plan(bundle, plan, device)]
        with program_here(args.runner) as (program, reason):
            for plan in (*wanted, *alone) if program is not None else ():
                assert program is not None
                rows += [(plan, row) for row in try_program(bundle, plan, snapshot, program)]
    if not rows:
        why = reason or "vknn-run says that the device does not suit either"
        raise VknnError(f"{name} suits no plan of vknn's: {needs_of(alone, snapshot)}; {why}")
    rows.sort(key=lambda row: row[0].index)
    good = all(row.ok for _, row in rows)
    tried = {plan.index for plan, _ in rows}
    left = [(p, output) for p in plans if p.index in tried for output in unanswered(p)]
    if args.json:
        checks = [{"plan": p.index, "target": p.target, **r.to_json()} for p, r in rows]
        document = {"file": bundle.file, "sha256": bundle.sha256, "device": name, "ok": good}
        silent = [{"plan": p.index, "target": p.target, "output": output} for p, output in left]
        lacks = [
            {"plan": p.index, "target": p.target, "lacks": lacking(p, snapshot)} for p in alone
        ]
        document |= {"checks": checks, "not compared": silent, "not tried": reason}
        write_json({**document, "not by vknn": lacks})
        return 0 if good else 1
    table = _check_table(f"{bundle.file} on {name}", rows)
    for plan, output in left:
        told = "not compared, the example has no answer for it"
        table.add_row(*map(_cell, (plan.index, plan.target, "", output, "", "", "", told)))
    show(table)
    if alone:
        show(_cell(f"vknn cannot run all that vknn-run may: {needs_of(alone, snapshot)}"))
    if reason:
        show(Text(f"vknn-run was not tried: {reason}"))
    return 0 if good else 1


def _check_table(title: str, rows: Sequence[tuple[BundlePlan, Difference]]) -> Table:
    table = _table(title, "plan", "target", "by", "output", "max abs", "of limit", "too far", "")
    for plan, row in rows:
        state = "ok" if row.ok else f"WRONG {row.note}".strip()
        if not row.ok and row.worst is not None:
            state += f" at {','.join(map(str, row.worst))}"
        cells = (plan.index, plan.target, row.by, row.output, f"{row.max_abs:.2g}")
        more = (f"{row.of_limit:.2g}", f"{row.wrong:,} of {row.elements:,}", state)
        table.add_row(*map(_cell, (*cells, *more)), style=None if row.ok else "red")
    return table


def _show_file(document: Mapping[str, Any]) -> None:
    table = Table(show_header=False, title=_cell(document["file"]), title_justify="left")
    sections = ", ".join(f"{n} {size:,}" for n, size in document["sections"].items())
    meta = document["meta"]
    spirv = sum(module["bytes"] for module in document["modules"])
    for name, text in {
        "format": f"version {document['version']}",
        "bytes": f"{document['bytes']:,}",
        "SHA-256 to pin": document["sha256"],
        "sections": sections,
        "modules": f"{len(document['modules'])} of {spirv:,} bytes",
        "made by": ", ".join(f"{k} {v}" for k, v in meta.items() if isinstance(v, (str, int))),
    }.items():
        table.add_row(name, _cell(text))
    show(table)


def _show_plan(entry: Mapping[str, Any]) -> None:
    title = f"plan {entry['plan']}: {entry['name']}, {entry['target']}, {entry['precision']}"
    table = Table(show_header=False, title=_cell(title), title_justify="left")
    for name, text in {
        "shapes": entry["shapes"],
        "steps": ", ".join(f"{count} {kind}" for kind, count in entry["steps"].items()),
        "pipelines": f"{entry['pipelines']}, submits {entry['submits']}",
        "work": f"{entry['work'] / 1e6:,.1f} million operations",
        "weights": f"{entry['weights']:,} bytes",
        "memory": ", ".join(f"{n} {size:,}" for n, size in entry["arenas"].items()) + " bytes",
        "states": ", ".join(f"{s['name']} {s['bytes']:,} bytes" for s in entry["states"]),
        **{f"needs {name}": text for name, text in entry["needs"].items()},
        "example": "yes" if entry["example"] else "none",
    }.items():
        if text:
            table.add_row(name, _cell(text))
    for device in entry["devices"]:
        lacks = [*filter(None, [device["rejection"]]), *device["lacks"]]
        text = f"lacks {'; '.join(lacks)}" if lacks else "suits"
        table.add_row(device["device"], _cell(f"{device['name']}: {text}"))
    show(table)
    ports = _table(
        "", "port", "name", "dtype", "shape", "layout", "picture", "stands for", "labels"
    )
    for kind in ("inputs", "outputs"):
        for port in entry[kind]:
            ports.add_row(*map(_cell, (kind[:-1], *_port_cells(port))))
    show(ports)
    if "layers" in entry:
        show(_layer_table(entry["layers"]))


def _port_cells(port: Mapping[str, Any]) -> list[str]:
    shape = "x".join("?" if n is None else str(n) for n in port["shape"]) or "scalar"
    scale = port["scale"]
    stands = "" if scale is None else f"{scale:.6g} * (stored - {port['zero_point']})"
    words = [port["name"], port["dtype"], shape, port["layout"], port["picture"], stands]
    return [*words, str(port["labels"] or "")]


def _layer_table(layers: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("", "layers", "kernel", "what", "groups", "weights", "SPIR-V", "MFLOP", "MB")
    for row in layers:
        groups = "" if row["groups"] is None else "x".join(map(str, row["groups"]))
        sizes = (f"{row['weights']:,}", f"{row['spirv']:,}")
        work = (f"{row['flops'] / 1e6:,.2f}", f"{row['bytes'] / 1e6:,.2f}")
        table.add_row(*map(_cell, (row["layers"], row["kernel"], row["op"], groups, *sizes, *work)))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=_cell(title) if title else None, title_justify="left")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _cell(value: object) -> Text:
    """A text out of a bundle, which may hold anything, in one line."""
    return Text(one_line(str(value)), overflow="fold")
