"""tools/aar: archives for Android, without an NDK and with a folder that stands for one."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.bundle import build
from tests.bundle.jdk import jdk

TOOL = build.ROOT / "tools" / "aar"


def aar(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    jdk()
    command = [sys.executable, TOOL, "-o", folder / "vknn.aar", *arguments]
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=120
    )


def ndk(folder: Path, *, page: int = 16384) -> Path:
    """A folder as an NDK's whose clang is this machine's compiler, for this machine's C library."""
    compiler = shutil.which("gcc")
    if compiler is None or os.uname().machine != "x86_64":
        pytest.skip("needs gcc for x86-64")
    headers, include = build._headers(), jdk() / "include"
    clang = folder / "toolchains" / "llvm" / "prebuilt" / "linux-x86_64" / "bin" / "clang"
    clang.parent.mkdir(parents=True)
    clang.write_text(
        "#!/bin/sh\n"
        'case "$1" in --target=x86_64-linux-android24) shift ;; *) echo "$1" >&2; exit 1 ;; esac\n'
        f'exec {compiler} -I{headers} -I{include} -I{include}/linux "$@" '
        f"-Wl,-z,max-page-size={page}\n"
    )
    clang.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An archive made without an NDK, and what the tool said."""
    folder = tmp_path_factory.mktemp("aar")
    made = aar(folder)
    assert made.returncode == 0, made.stderr
    return folder / "vknn.aar", made.stderr


def test_aar_without_an_ndk_has_classes_and_says_so(plain: tuple[Path, str]) -> None:
    path, said = plain
    assert "no libraries in it: they take Android's NDK (--ndk)" in said
    with zipfile.ZipFile(path) as archive:
        names = {"AndroidManifest.xml", "R.txt", "classes.jar", "proguard.txt"}
        assert set(archive.namelist()) == names
        jar = io.BytesIO(archive.read("classes.jar"))
    with zipfile.ZipFile(jar) as classes:
        assert {"vknn/Net.class", "vknn/Net$Failure.class"} <= set(classes.namelist())


def test_aar_with_an_ndk_has_libraries(plain: tuple[Path, str], tmp_path: Path) -> None:
    made = aar(tmp_path, "--ndk", ndk(tmp_path / "ndk"), "--abi", "x86_64")
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    with zipfile.ZipFile(tmp_path / "vknn.aar") as archive, zipfile.ZipFile(plain[0]) as other:
        assert archive.read("jni/x86_64/libvknn.so").startswith(b"\x7fELF")
        for name in other.namelist():  # no dates, no order of folders
            assert archive.read(name) == other.read(name)


@pytest.mark.parametrize(
    ("page", "arguments", "message"),
    [
        (
            4096,
            ("--abi", "x86_64"),
            "the library for x86_64 has pages of 4096 bytes, Android wants",
        ),
        (16384, ("--abi", "arm64-v8a"), "clang failed"),
        (16384, ("--abi", "mips"), "invalid choice: 'mips'"),
        (16384, ("--api", "20"), "Android has no Vulkan below API level 24"),
    ],
)
def test_aar_refuses(tmp_path: Path, page: int, arguments: tuple[str, ...], message: str) -> None:
    made = aar(tmp_path, "--ndk", ndk(tmp_path / "ndk", page=page), *arguments)
    assert made.returncode != 0
    assert message in made.stderr
    assert not (tmp_path / "vknn.aar").exists()


def test_aar_refuses_a_folder_that_is_no_ndk(tmp_path: Path) -> None:
    made = aar(tmp_path, "--ndk", tmp_path)
    assert made.returncode != 0
    assert "is no NDK: it has no toolchains/llvm/prebuilt/*/bin/clang" in made.stderr
