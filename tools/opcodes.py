"""Writer of shaders/common/opcode_numbers.glsl from the opcodes of vknn.lowering.kit.opcodes."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "src") not in sys.path:
    sys.path.insert(0, str(ROOT / "src"))

from pages import main  # noqa: E402
from vknn.lowering.kit.opcodes import glsl_constants  # noqa: E402

if __name__ == "__main__":
    target = ROOT / "shaders" / "common" / "opcode_numbers.glsl"
    sys.exit(main(target, "python tools/opcodes.py", glsl_constants))
