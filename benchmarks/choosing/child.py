"""Process of choices.py on a null device: modelled times of all candidates of networks' problems.

    python -m choosing.child JOB

JOB is a JSON object: "networks" (name, param, weights, shape), "precision", "limit" (problems, or
null), "dispatch" (microseconds of one), "times" (a file of known times, or null). Prints a JSON
object: "device", and "choices" as report.py reads them.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from vknn.lowering import LoweringOptions
from vknn.runtime import open_device

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
        found: dict[tuple[str, str], Choice] = {}
        for network in job["networks"]:
            graph = network_graph(network, options)
            add_choices(found, network["name"], graph, device.limits, options)
        modeller = Modeller(device, Path(job["times"]) if job["times"] else None)
        choices = []
        for number, choice in enumerate(list(found.values())[: job["limit"]]):
            choices.append(_row(choice, modeller, job["dispatch"]))
            if number % 50 == 49:
                print(f"{number + 1} of {len(found)} problems", file=sys.stderr, flush=True)
                modeller.save()
        modeller.save()
        return {"device": device.limits.name, "choices": choices}


def _row(choice: Choice, modeller: Modeller, dispatch: float) -> dict[str, Any]:
    """A choice as it is kept: names of candidates with estimates and times in microseconds."""
    times = {}
    for name in choice.contest.names:
        busy = [time for _, time in modeller.candidate(choice.job, choice.contest, name)]
        known = [time for time in busy if time is not None]
        whole = sum(known) + dispatch * len(busy)
        times[name] = round(whole, 2) if len(known) == len(busy) else None
    estimates = {name: round(choice.estimates[name], 2) for name in choice.contest.names}
    return {
        "problem": choice.job.key,
        "form": choice.contest.form,
        "estimates": estimates,
        "times": times,
        "taken": {network: dict(names) for network, names in choice.taken.items()},
    }


if __name__ == "__main__":
    main()
