#!/usr/bin/env python3
"""List of the test vectors of ONNX that vknn does not support yet.

tools/onnx_unsupported.py           writes tests/peers/onnx/unsupported.txt
tools/onnx_unsupported.py --count   prints what passes, differs and is not supported, by operator

Each case is run with NumPy. It is listed only where it raises UnsupportedLayerError; whatever else
is wrong with it shows in the tests.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for path in (ROOT / "src", ROOT):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

from tests.onnx_vectors import UNSUPPORTED, cases, problem  # noqa: E402

from vknn.errors import UnsupportedLayerError  # noqa: E402


def outcomes(device: str = "numpy") -> dict[str, str]:
    """Case -> "ok", "differs" or "unsupported"."""
    found = {}
    for case in cases():
        try:
            found[case["id"]] = "differs" if problem(case, device) else "ok"
        except UnsupportedLayerError:
            found[case["id"]] = "unsupported"
    return found


def main() -> int:
    """Writing of the list, or printing of the counts."""
    if not cases():
        sys.exit("the test vectors are not there (docs/test-data.md)")
    found = outcomes()
    if "--count" in sys.argv[1:]:
        by_operator: dict[str, Counter[str]] = {}
        for case in cases():
            by_operator.setdefault(case["op"], Counter())[found[case["id"]]] += 1
        for operator, counts in sorted(by_operator.items()):
            print(operator, *(f"{kind} {n}" for kind, n in sorted(counts.items())))
        print("all", *(f"{kind} {n}" for kind, n in sorted(Counter(found.values()).items())))
        return 0
    missing = sorted(id_ for id_, outcome in found.items() if outcome == "unsupported")
    UNSUPPORTED.write_text("".join(f"{id_}\n" for id_ in missing))
    return 0


if __name__ == "__main__":
    sys.exit(main())
