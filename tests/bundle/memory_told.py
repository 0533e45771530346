"""Whether host and device share memory, by vknn's runtime and by the C runner, as JSON.

Argument: the runner's library. The device is the first one that the Vulkan loader lists.
"""

from __future__ import annotations

import json
import sys

from tests.bundle.sharing_nets import Nets

from vknn.runtime import devices
from vknn.runtime.quirks import unified_memory


def main() -> None:
    first = devices()[0]
    with Nets(sys.argv[1], device=b"0") as nets:
        [line] = [text for text in nets.told if text.startswith("device: ")]
    found = {"name": first.name, "kind": first.kind, "runtime": unified_memory(first)}
    print(json.dumps({**found, "runner": line.split()[-1]}))


if __name__ == "__main__":
    main()
