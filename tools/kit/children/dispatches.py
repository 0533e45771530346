"""A network dispatch by dispatch: PARAM BIN SHAPE DEVICE PRECISION.

Measured times beside what the driver's compiler made of each dispatch, where the driver tells, and
beside the modelled times where the static profile has them.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from vknn.errors import VknnError
from vknn.profiling import profile, static
from vknn.session import Session


def main(param: str, weights: str, shape: str, device: str, precision: str) -> dict[str, Any]:
    """Commands with their median and least microseconds; totals; why there is nothing static."""
    with Session(param, weights, device=device, precision=precision) as session:
        shapes = {spec.name: tuple(json.loads(shape)) for spec in session.inputs}
        measured = json.loads(profile(session, runs=10, warmup=3, shapes=shapes).to_json())
        try:
            compiled = json.loads(static(session, shapes=shapes).to_json())["dispatches"]
            missing = None
        except VknnError as error:
            compiled, missing = [], str(error)
    commands = joined(measured["commands"], compiled)
    modelled = [c["modelled"] for c in commands if c.get("modelled") is not None]
    return {
        "device": measured["device"],
        "total": measured["total"],
        "commands": commands,
        "static missing": missing,
        "modelled": sum(modelled) if modelled else None,
        "modelled dispatches": len(modelled),
    }


def joined(measured: list[dict[str, Any]], compiled: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measured commands, each with its dispatch of the static profile under "static".

    Both lists are in the order of the plans; the static one lacks copies and the host's work.
    """
    found = []
    rest = iter(compiled)
    ahead = next(rest, None)
    for command in measured:
        entry = {**command, "layers": list(command["layers"])}
        if ahead is not None and all(ahead[k] == entry[k] for k in ("kernel", "label", "groups")):
            drop = ("layers", "kernel", "label", "groups")
            entry["static"] = {k: v for k, v in ahead.items() if k not in drop}
            modelled = ahead.get("modelled")
            entry["modelled"] = None if modelled is None else modelled["time"]
            ahead = next(rest, None)
        found.append(entry)
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
