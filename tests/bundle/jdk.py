"""The Java compiler and JNI headers of this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def jdk() -> Path:
    """The folder of a JDK; skips where there is none."""
    compiler = shutil.which("javac")
    homes = [os.environ.get("JAVA_HOME"), compiler and Path(compiler).resolve().parents[1]]
    for home in filter(None, homes):
        if (Path(home) / "include" / "jni.h").is_file():
            return Path(home)
    pytest.skip("needs a JDK with jni.h (Debian: default-jdk-headless)")
