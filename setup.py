"""Build hook: the shaders are compiled to SPIR-V and put into the package.

All else is in pyproject.toml.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

TOP = Path(__file__).resolve().parent


def shader_builder() -> Any:
    """The module builder, without importing vknn itself, whose dependencies are not there."""
    for name in ("vknn", "vknn.runtime", "vknn.runtime.spirv"):
        package = types.ModuleType(name)
        package.__path__ = [str(TOP / "src" / name.replace(".", "/"))]
        sys.modules[name] = package
    return importlib.import_module("vknn.runtime.spirv.modules")


class BuildWithShaders(build_py):
    """Also compiles shaders/ into vknn/_spirv; an editable install takes shaders/ as it stands."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        count = shader_builder().build(TOP / "shaders", self._spirv_folder())
        self.announce(f"compiled {count} shader modules", level=2)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        compiled = [str(p) for p in self._spirv_folder().rglob("*") if p.is_file()]
        return super().get_outputs(include_bytecode) + compiled

    def _spirv_folder(self) -> Path:
        return Path(self.build_lib) / "vknn" / "_spirv"


setup(cmdclass={"build_py": BuildWithShaders})
