"""Reports as JSON."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(document: Any, indent: int | None = 2) -> str:
    """A document as JSON: infinities and NaN as strings, without metrics that there are not."""
    return json.dumps(_plain(document), indent=indent)


def _plain(value: Any) -> Any:
    """JSON has no infinities and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if not (k == "metrics" and v is None)}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
