"""Python code of the formats' protobuf schemas, made by protoc 3.20 or 21.

Newer compilers write code that asks for a runtime of their own version; that of these two runs
with every protobuf that vknn may be installed beside.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
_OLDEST, _NEWEST = (3, 20), (3, 21)


@dataclass(frozen=True)
class Schema:
    """A schema by its path below ``src``; its code lies beside it."""

    path: Path

    @property
    def code(self) -> Path:
        """The file with the generated code."""
        return SOURCES / self.path.with_name(f"{self.path.stem}_pb2.py")

    def generated(self) -> str:
        """The code, made by protoc."""
        with tempfile.TemporaryDirectory() as folder:
            command = ["protoc", f"-I{SOURCES}", f"--python_out={folder}", str(self.path)]
            subprocess.run(command, check=True)
            return (Path(folder) / self.path.with_name(self.code.name)).read_text()

    def main(self) -> int:
        """Writing of the generated file."""
        if not usable_protoc():
            sys.exit(
                "protoc 3.20 or 21 is not installed (Debian: apt-get install protobuf-compiler)"
            )
        self.code.write_text(self.generated())
        return 0


def usable_protoc() -> bool:
    """Whether a protoc is there whose code runs with protobuf 4.21 and later ones."""
    if shutil.which("protoc") is None:
        return False
    said = subprocess.run(["protoc", "--version"], check=True, capture_output=True, text=True)
    major, minor = map(int, re.findall(r"\d+", said.stdout)[:2])
    # protoc 3.21 is called 21 from then on, and its Python code 4.21.
    return _OLDEST <= ((3, major) if major in (20, 21) else (major, minor)) <= _NEWEST
