"""Process of choices.py on a null device: modelled times of all candidates of networks' problems.

    python -m choosing.child JOB

JOB is a JSON object: "networks" (name, param, weights, shape), "precision", "limit" (problems, or
null), "dispatch" (microseconds of one), "near" (candidates that are estimated at more than so many
times the least are left out, unless they are taken), "times" (a file of known times, or null).
Prints a JSON object: "device", and "choices" as report.py reads them.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from vknn.chaining import chain_nodes
from vknn.lowering import LoweringOptions
from vknn.runtime import open_device
from vknn.stacking import stack_products

from .joining import Joining, add_joinings
from .modelling import Modeller
from .problems import Choice, add_choices, network_graph


def main() -> None:
    warnings.filterwarnings("ignore", message=".* is a null device")
    job = json.loads(sys.argv[1])
    print(json.dumps(compared(job)), flush=True)


def compared(job: dict[str, Any]) -> dict[str, Any]:
    """The answer to a job."""
    options = LoweringOptions(precision=job["precision"])
    with open_device("vulkan:0") as device:
        found: dict[tuple[str, str], Choice | Joining] = {}
        for network in job["networks"]:
            graph = network_graph(network, options)
            graph = stack_products(graph, device.limits, options)
            add_joinings(found, network["name"], graph, device.limits, options)
            graph = chain_nodes(graph, device.limits, options)
            add_choices(found, network["name"], graph, device.limits, options)
        modeller = Modeller(device, Path(job["times"]) if job["times"] else None)
        choices = []
        for number, ((problem, form), choice) in enumerate(list(found.items())[: job["limit"]]):
            row = _row(choice, modeller, job["dispatch"], job["near"])
            choices.append({"problem": problem, "form": form, **row})
            if number % 50 == 49:
                print(f"{number + 1} of {len(found)} problems", file=sys.stderr, flush=True)
                modeller.save()
        modeller.save()
        return {"device": device.limits.name, "choices": choices}


def _row(
    choice: Choice | Joining, modeller: Modeller, dispatch: float, near: float
) -> dict[str, Any]:
    """A choice as it is kept: names of candidates with estimates and times in microseconds."""
    times: dict[str, float | None] = {}
    taken = {name for counts in choice.taken.values() for name in counts}
    ways = choice.ways()
    most = near * min(choice.estimates[name] for name in ways)
    for name, kernels in ways.items():
        if name not in taken and choice.estimates[name] > most:
            continue
        busy = [time for kernel in kernels for time in modeller.candidate(*kernel)]
        known = [time for time in busy if time is not None]
        whole = sum(known) + dispatch * len(busy)
        times[name] = round(whole, 2) if len(known) == len(busy) else None
    return {
        "estimates": {name: round(choice.estimates[name], 2) for name in times},
        "times": times,
        "counting": sorted(choice.counting & times.keys()),
        "taken": {network: dict(names) for network, names in choice.taken.items()},
    }


if __name__ == "__main__":
    main()
