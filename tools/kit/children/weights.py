"""Random weights for an ncnn network: PARAM BIN."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from vknn.formats.ncnn.random_weights import write_random_weights

if __name__ == "__main__":
    write_random_weights(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({"bytes": Path(sys.argv[2]).stat().st_size}))
