"""Generator of coreml_pb2.py from coreml.proto.

python tools/coreml_schema.py    (needs protoc, from protobuf-compiler, version 3.20 or 21)

Newer compilers write code that asks for a runtime of their own version; that of these two runs
with every protobuf that vknn may be installed beside.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
SCHEMA = Path("vknn/formats/coreml/coreml.proto")
GENERATED = SOURCES / "vknn/formats/coreml/coreml_pb2.py"
_OLDEST, _NEWEST = (3, 20), (3, 21)


def generated() -> str:
    """The text of coreml_pb2.py, made by protoc."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["protoc", f"-I{SOURCES}", f"--python_out={folder}", str(SCHEMA)]
        subprocess.run(command, check=True)
        return (Path(folder) / SCHEMA.with_name(GENERATED.name)).read_text()


def usable_protoc() -> bool:
    """Whether a protoc is there whose code runs with protobuf 4.21 and later ones."""
    if shutil.which("protoc") is None:
        return False
    said = subprocess.run(["protoc", "--version"], check=True, capture_output=True, text=True)
    major, minor = map(int, re.findall(r"\d+", said.stdout)[:2])
    # protoc 3.21 is called 21 from then on, and its Python code 4.21.
    return _OLDEST <= ((3, major) if major in (20, 21) else (major, minor)) <= _NEWEST


def main() -> int:
    """Writing of the generated file."""
    if not usable_protoc():
        sys.exit("protoc 3.20 or 21 is not installed (Debian: apt-get install protobuf-compiler)")
    GENERATED.write_text(generated())
    return 0


if __name__ == "__main__":
    sys.exit(main())
