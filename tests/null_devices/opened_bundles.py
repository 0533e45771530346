"""Bundles opened and run twice by the C runner, on a device that computes nothing.

Arguments: the runner's library, bundles. A line of JSON for each, in place and staged: its file,
the target whose plan was taken, bytes of device memory. What Vulkan's layers say comes between.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.bundle.sharing_nets import Nets


def main() -> None:
    library, *bundles = sys.argv[1:]
    with Nets(library, device=b"0") as nets:
        for path in bundles:
            for staged in (False, True):
                net = nets.open(path, staged=staged)
                for _ in range(2):
                    net.run_as_is()
                plan = [line for line in nets.told if line.startswith("plan: ")][-1]
                found = {"file": Path(path).name, "target": plan.rpartition(" for ")[2]}
                print(json.dumps({**found, "bytes": net.memory}), flush=True)
                net.close()


if __name__ == "__main__":
    main()
