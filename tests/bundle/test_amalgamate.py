"""tools/amalgamate: the runner as one C file and its header, the same program as its parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.bundle import build, check_program

pytestmark = pytest.mark.long


def preprocessed(source: Path) -> str:
    """What a compiler sees: without line marks and lines that are empty."""
    headers = f"-I{build._headers()}"
    command = [check_program.compiler(), "-E", "-P", "-std=c99", headers, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def test_one_file_is_the_same_program(tmp_path: Path) -> None:
    tool = build.ROOT / "tools" / "amalgamate"
    subprocess.run([sys.executable, tool, tmp_path / "one"], check=True)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["vknn_run.c", "vknn_run.h"]
    assert preprocessed(tmp_path / "one" / "vknn_run.c") == preprocessed(
        build.RUNNER / "vknn_run.c"
    )


@pytest.mark.parametrize("compiler", check_program.COMPILERS)
def test_two_files_are_all_that_an_app_takes(tmp_path: Path, compiler: str) -> None:
    tool = build.ROOT / "tools" / "amalgamate"
    subprocess.run([sys.executable, tool, tmp_path], check=True)
    (tmp_path / "app.c").write_text(
        '#include "vknn_run.h"\nint main(void) { return vknn_run_version() != VKNN_RUN_VERSION; }\n'
    )
    found = check_program.compiler(compiler)
    headers, files = f"-I{build._headers()}", ["app.c", "vknn_run.c"]
    command = [found, *build.STRICT, headers, "-pthread", *files, "-o", "app", "-ldl", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "app"], check=False).returncode == 0
