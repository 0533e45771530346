"""Head of a profile's report: what was measured, on what and how."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from vknn.profiling.labels import named_cell


def about_table(about: dict[str, Any] | None) -> Table:
    """A row for each of model, device, machine, versions and options; none without a document."""
    table = Table(show_header=False)
    for name, text in _rows(about).items() if about is not None else ():
        table.add_row(name, named_cell(text))
    return table


def _rows(about: dict[str, Any]) -> dict[str, str]:
    model, device, machine, options = (
        about[name] for name in ("model", "device", "machine", "options")
    )
    inputs = ", ".join(f"{n} {_shape(t['shape'])} {t['dtype']}" for n, t in model["inputs"].items())
    off = f", without {' '.join(options['disabled'])}" if options["disabled"] else ""
    counted = f"{options['runs']} runs behind {options['warmup']} to warm up"
    where = "NumPy" if device is None else f"{device['name']} ({device['driver']})"
    return {
        "measured": about["created"],
        "model": f"{model['name']} ({model['format'] or 'of no known format'})",
        "inputs": inputs or "none",
        "device": where,
        "machine": f"{machine['processor']}, {machine['cores']} cores, {machine['system']}",
        "versions": f"vknn {about['versions']['vknn']}, NumPy {about['versions']['numpy']}",
        "options": f"{options['precision']}, arithmetic {options['arithmetic']}{off}; {counted}",
        "limits": "none" if about["limits"] is None else _limits(about["limits"]),
    }


def _limits(limits: dict[str, Any]) -> str:
    gflops, gbytes = (max(limits[name].values(), default=0.0) for name in ("fma", "copy"))
    return f"{gflops:,.1f} GFLOP/s, {gbytes:,.1f} GB/s"


def _shape(shape: list[int | None]) -> str:
    return "x".join("?" if n is None else str(n) for n in shape) or "scalar"
