"""Cross-checks of made-up profiles, as ``vknn verify --json`` writes them."""

from __future__ import annotations

from typing import Any


def chained(document: dict[str, Any]) -> dict[str, Any]:
    """The document with each layer taking what the one before it gives."""
    for number, layer in enumerate(document["layers"]):
        tensor = {"shape": [1, 4, 4, 4], "dtype": "float32"}
        layer["inputs"] = [{"name": f"value {number - 1}", **tensor}] if number else []
        layer["outputs"] = [{"name": f"value {number}", **tensor}]
    return document


def verification(document: dict[str, Any], wrong: int | None = None) -> dict[str, Any]:
    """All layers within 5 % of what is allowed; but for ``wrong``, with a NaN in channel 2."""
    rows = [_row(n, layer["name"], n == wrong) for n, layer in enumerate(document["layers"])]
    first = None if wrong is None else rows[wrong]["node"]
    common = {"model": document["model"]["name"], "device": "made up", "checked": len(rows)}
    return {**common, "ok": wrong is None, "first_failure": first, "rows": rows, "outputs": []}


def _row(number: int, layer: str, wrong: bool) -> dict[str, Any]:
    comparison = {
        "ok": not wrong,
        "max_abs": "nan" if wrong else 1e-6,
        "max_rel": 1e-6,
        "excess": "inf" if wrong else 0.05,
        "worst": [0, 2, 1, 3],
        "expected": 1.0,
        "actual": "nan" if wrong else 1.000001,
        "problem": None,
        "metrics": {
            "elements": 64,
            "absolute": {"mean": 1e-7, "median": 1e-8, "p999": 1e-6, "largest": 1e-6},
            "snr_db": 120.0,
            "where": "channel 2" if wrong else "",
            "channels": {"axis": 1, "size": 4, "step": 1, "values": [0.01, 0.02, 3.0, 0.04]},
            "places": {
                "axes": [2, 3],
                "size": [2, 3],
                "step": [1, 1],
                "values": [[0.001, 0.05, 0.5], [2.0 if wrong else 0.1, "inf" if wrong else 0, 0]],
            },
            "histogram": {"low": -1.0, "high": 1.0, "expected": [1, 2, 3], "actual": [3, 2, 1]},
        },
    }
    return {
        "node": layer,
        "layer": layer,
        "op": "Conv",
        "placement": "vulkan",
        "output": f"value {number}",
        "type": "float32[1, 4, 4, 4]",
        "isolated": comparison,
        "cumulative": None,
        "ok": not wrong,
    }
