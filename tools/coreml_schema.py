"""Generator of coreml_pb2.py from coreml.proto.

python tools/coreml_schema.py    (needs protoc, from protobuf-compiler, version 3.20 or 21)
"""

from __future__ import annotations

import sys
from pathlib import Path

if str(Path(__file__).resolve().parents[1]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.protobuf_code import Schema

SCHEMA = Schema(Path("vknn/formats/coreml/coreml.proto"))

if __name__ == "__main__":
    sys.exit(SCHEMA.main())
