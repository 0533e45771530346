"""runner/CMakeLists.txt: libraries and program are built, installed and used by other projects."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.bundle import build
from tests.bundle.rebuilt import relu

pytestmark = pytest.mark.slow

PROJECT = f"""
cmake_minimum_required(VERSION 3.16)
project(app C)
add_subdirectory({build.RUNNER} runner)
add_executable(app main.c)
target_link_libraries(app PRIVATE vknn_run_static)
"""
APP = """
#include "vknn_run.h"
int main(void) { return vknn_run_version() == VKNN_RUN_VERSION ? 0 : 1; }
"""


#: A project that takes what is installed, from C and from C++.
FOUND = """
cmake_minimum_required(VERSION 3.16)
project(app C CXX)
find_package(vknn_run REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared PRIVATE vknn::vknn_run)
add_executable(static main.cpp)
target_link_libraries(static PRIVATE vknn::vknn_run_static)
"""
CLASS = """
#include <vkb.h>
#include <vknn_run.hpp>
int main() { return vknn::Net("none.vkb").ok(); }
"""


def cmake(*arguments: object) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake (Debian: apt install cmake)")
    command = ["cmake", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def configured(source: Path, folder: Path, *more: str) -> None:
    cmake("-S", source, "-B", folder, "-DCMAKE_C_FLAGS=-Werror", *more)
    cmake("--build", folder, "--parallel", os.cpu_count() or 1)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_libraries_and_program_are_installed(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    configured(build.RUNNER, tmp_path / "build", f"-DCMAKE_C_COMPILER={compiler}")
    cmake("--install", tmp_path / "build", "--prefix", tmp_path / "usr")
    found = {path.name for path in (tmp_path / "usr").rglob("*") if path.is_file()}
    assert found >= {"vknn-run", "vknn_run.h", "libvknn_run.so", "libvknn_run_static.a"}
    (tmp_path / "bad.vkb").write_bytes(relu()[:-1])
    program = tmp_path / "usr" / "bin" / "vknn-run"
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: vknn-run")


def test_another_project_finds_what_is_installed(tmp_path: Path) -> None:
    configured(build.RUNNER, tmp_path / "build")
    cmake("--install", tmp_path / "build", "--prefix", tmp_path / "usr")
    (tmp_path / "CMakeLists.txt").write_text(FOUND)
    (tmp_path / "main.c").write_text(APP)
    (tmp_path / "main.cpp").write_text(CLASS)
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'usr'}"
    cmake("-S", tmp_path, "-B", tmp_path / "app", prefix)
    cmake("--build", tmp_path / "app")
    assert subprocess.run([tmp_path / "app" / "shared"], check=False).returncode == 0
    app = tmp_path / "app" / "static"
    done = subprocess.run([app], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "none.vkb" in done.stderr, "what the runner said was thrown"


def test_another_project_takes_the_static_library_alone(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "main.c").write_text(APP)
    configured(tmp_path, tmp_path / "build")
    names = {path.name for path in (tmp_path / "build").rglob("*") if path.is_file()}
    assert "libvknn_run_static.a" in names and not names & {"vknn-run", "libvknn_run.so"}
    assert subprocess.run([tmp_path / "build" / "app"], check=False).returncode == 0


def test_vulkan_can_be_linked(tmp_path: Path) -> None:
    vulkan = next(Path("/usr/lib").rglob("libvulkan.so"), None)
    if vulkan is None:
        pytest.skip("needs libvulkan.so (Debian: apt install libvulkan-dev)")
    configured(build.RUNNER, tmp_path, "-DVKNN_STATIC_VULKAN=ON", "-DVKNN_SHARED_LIBRARY=OFF")
    needed = subprocess.run(
        ["readelf", "-d", tmp_path / "vknn-run"], capture_output=True, text=True, check=False
    )
    assert "libvulkan.so" in needed.stdout
