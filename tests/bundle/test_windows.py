"""The runner on Windows, which is wine here: compiled by zig, with the bits of the one on Linux.

The tests of ``vknn-run`` run with the program of Windows too, but for those that need Linux.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build, test_cross, test_main, test_main_texts
from tests.bundle.networks import MODELS
from tests.bundle.port_cases import CASES, case
from tests.bundle.test_bindings import CPP_LINES
from tests.bundle.wine import Wine, wine_in
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.bundle import Bundle
from vknn.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.device, pytest.mark.timeout(1800)]

TARGET = "x86_64-windows-gnu"
#: Of bundles.
TARGETS = ("llvmpipe", "generic")
HERE = Path(__file__).parent
RNG = np.random.default_rng(23)
SQUEEZENET = "ncnn/squeezenet_v1.1.param"
#: Of tests with the program of Linux, what wine has no way for -> why.
NOT_HERE = {
    "test_a_disk_that_is_full_under_the_cache": "ulimit is for wine's own files, too",
    "test_a_disk_that_is_full_under_what_is_asked_for": "ulimit is for wine's own files, too",
}
folder = test_main.folder


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    with wine_in(tmp_path_factory.mktemp("wine")) as wine:
        done = run(wine.script(test_cross.program(TARGET), "devices"), "--devices")
        if done.returncode:
            pytest.skip(f"no Vulkan in wine: {done.stderr}")
        yield wine


@pytest.fixture(scope="module")
def program(wine: Wine) -> Path:
    """``vknn-run`` of Windows, with all its texts, for tests of the one here too."""
    sources = [build.RUNNER / "vknn_run.c", build.RUNNER / "main.c"]
    return wine.script(test_cross.zig(TARGET, sources, ["-O1", "-s"], "vknn-run.exe"), "vknn-run")


@pytest.fixture(scope="module")
def linux() -> Path:
    return build.program(build.RUNNER / "main.c")


def run(
    program: Path, *arguments: object, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *map(str, arguments)], cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, encoding="utf-8", timeout=600, check=False,
    )  # fmt: skip


def ran(program: Path, *arguments: object, folder: Path | None = None) -> str:
    done = run(program, *arguments, folder=folder)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def shared_with(*modules: object) -> Iterator[tuple[str, object]]:
    for module in modules:
        for name, test in vars(module).items():
            # Others compile programs of their own.
            if name.startswith("test_") and "program" in test.__code__.co_varnames:
                yield name, test


for _name, _test in shared_with(test_main, test_main_texts):
    if _name not in NOT_HERE:
        globals()[f"{_name}_on_windows"] = _test


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network with an example, its input beside it."""
    path = tmp_path_factory.mktemp("net") / "net.vkb"
    model = write_small_model(path.parent)
    vknn.export(model, path, shapes={"data": SHAPE}, targets=TARGETS)
    np.save(path.parent / "data.npy", RNG.standard_normal(SHAPE).astype(np.float32))
    return path


@pytest.mark.parametrize("name", [*CASES, SQUEEZENET])
def test_bits_are_those_of_linux(program: Path, linux: Path, tmp_path: Path, name: str) -> None:
    if name == SQUEEZENET:
        path, given = tmp_path / "net.vkb", {"data": RNG.random((3, 227, 227), np.float32)}
        vknn.export(MODELS / name, path, shapes={"data": (3, 227, 227)}, targets=TARGETS)
    else:
        path, given = case(name, tmp_path)
    inputs, names = [], [p.name for p in Bundle.open(path).plans[0].outputs]
    for port, array in given.items():
        np.save(tmp_path / f"{port}.npy", array)
        inputs += ["--input", f"{port}={port}.npy"]
    for kind, command in {"windows": program, "linux": linux}.items():
        for way in ([], ["--staged"]):
            taken = [x for p in names for x in ("--output", f"{p}={p}.{kind}{len(way)}.npy")]
            ran(command, "net.vkb", *inputs, *taken, *way, "--runs", 2, folder=tmp_path)
    for port in names:
        files = [
            (tmp_path / f"{port}.{k}{i}.npy").read_bytes()
            for k in ("linux", "windows")
            for i in (0, 1)
        ]
        assert files == files[:1] * 4, port


def test_what_it_tells_is_what_it_tells_on_linux(program: Path, linux: Path, net: Path) -> None:
    # Of what it tells the line ends alone are Windows'.
    for arguments in (["--devices"], ["net.vkb", "--test"], ["net.vkb", "--test", "--json"]):
        assert ran(program, *arguments, folder=net.parent) == ran(
            linux, *arguments, folder=net.parent
        )


def test_its_profile_is_shown(program: Path, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(program, "net.vkb", "--profile", "windows.json", "--runs", 3, folder=net.parent)
    path = net.parent / "windows.json"
    document = json.loads(path.read_text())
    assert document == {**json.loads(ran(program, net, "--profile", "--runs", 3)), **{
        key: document[key] for key in ("microseconds", "steps")
    }}  # fmt: skip
    assert sum(step["microseconds"] for step in document["steps"]) > 0
    assert main(["report", str(path)]) == 0
    assert document["device"] in " ".join(capsys.readouterr().out.split())


#: Beyond ASCII, beyond the code page of Europe, and beyond 16 bits.
NAMES = ("dätä", "数据", "\U0001f600", "a b")


@pytest.mark.parametrize("name", NAMES)
def test_paths_are_unicode(program: Path, net: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    shutil.copy(net, place / f"{name}.vkb")
    shutil.copy(net.parent / "data.npy", place / f"{name}.npy")
    files = [f"{name}.vkb", "--input", f"data={name}.npy", "--output", f"out={name}.out.npy"]
    ran(program, *files, "--cache", f"{name} cache", folder=place)
    ran(program, *files, "--sha256", Bundle.open(net).sha256, folder=place)
    ran(
        program,
        f"Z:{str(place).replace('/', chr(92))}\\{name}.vkb",
        "--test",
        "--cache",
        name,
        folder=place,
    )
    ran(program, f"{name}.vkb", "--profile", f"{name}.json", folder=place)
    assert json.loads((place / f"{name}.json").read_text())["runs"] == 10
    assert np.load(place / f"{name}.out.npy").shape == (5,)
    for cache in (f"{name} cache", name):
        [file] = (place / cache).iterdir()
        assert file.suffix == ".pipelines"
    missing = run(program, f"{name} missing.vkb", folder=place)
    assert missing.returncode == 1 and f"{name} missing.vkb cannot be opened: " in missing.stderr


def test_files_that_cannot_be_mapped(program: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.vkb").touch()
    (tmp_path / "text.vkb").write_text("this is no bundle, but a text")
    for name, text in {
        "empty.vkb": r"empty.vkb cannot be mapped: .+ \(error 1006 of Windows\)",
        "missing.vkb": r"missing.vkb cannot be opened: .+ \(error 2 of Windows\)",
        ".": r"\. cannot be opened: .+ \(error 5 of Windows\)",
        "text.vkb": r"This is no bundle",
    }.items():
        done = run(program, name, folder=tmp_path)
        assert done.returncode == 1 and re.search(text, done.stderr), done


def test_a_cache_is_replaced_at_once(program: Path, net: Path, tmp_path: Path) -> None:
    """By programs that end at the same time, and where it was damaged; nothing else is left."""
    command = [str(program), str(net), "--test", "--cache", "cache"]
    several = [
        subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for _ in range(4)
    ]
    assert [process.wait(300) for process in several] == [0] * 4
    [file] = (tmp_path / "cache").iterdir()
    whole = file.read_bytes()
    assert whole.startswith(b"VKNNRC1\0")
    before = file.stat()
    ran(program, net, "--test", "--cache", "cache", folder=tmp_path)
    now = file.stat()  # SwiftShader's has what it was given in what it gives, and so grows
    assert now.st_mtime_ns == before.st_mtime_ns or now.st_size > before.st_size
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    ran(program, net, "--test", "--cache", "cache", folder=tmp_path)
    written = file.read_bytes()
    assert [*(tmp_path / "cache").iterdir()] == [file] and written.startswith(b"VKNNRC1\0")
    assert struct.unpack_from("<I", written, 20)[0] == zlib.crc32(written[48:]), "damaged as it was"


def test_pipelines_are_made_in_threads(wine: Wine, tmp_path: Path) -> None:
    path = tmp_path / "net.vkb"
    vknn.export(MODELS / SQUEEZENET, path, shapes={"data": (3, 227, 227)}, targets=TARGETS)
    done = run(wine.script(test_cross.program(TARGET), "traced", "+vulkan"), path, "--test")
    traced = r"^(\w+):trace:vulkan:\w*vkCreateComputePipelines "
    threads = re.findall(traced, done.stderr, re.MULTILINE)
    assert done.returncode == 0 and len(threads) > 8
    assert 2 <= len(set(threads)) <= 4


def compiled(sources: Sequence[Path], flags: Sequence[str], name: str) -> Path:
    return test_cross.zig(TARGET, [*sources, build.RUNNER / "vknn_run.c"], flags, name)


@pytest.mark.parametrize("what", [("threads", 2), ("options",), ("opens", 20)], ids=lambda w: w[0])
def test_the_interface_from_threads(wine: Wine, net: Path, what: tuple[object, ...]) -> None:
    program = wine.script(
        compiled([HERE / "stress.c"], ["-O1", "-lpthread"], "stress.exe"), "stress"
    )
    mode, *count = what
    ran(program, mode, net, *count)


def test_the_library_from_cpp(wine: Wine, linux: Path, net: Path, tmp_path: Path) -> None:
    """The DLL and the class of vknn_run.hpp."""
    dll = test_cross.library(TARGET)
    shutil.copy(dll, tmp_path)
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{build.RUNNER}"]
    sources = [str(HERE / "bindings" / "use.cpp"), str(dll), "-o", str(tmp_path / "use.exe")]
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", "c++", "-target", TARGET, *flags, *sources],
        env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(build.CACHE / "zig")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    data = np.load(net.parent / "data.npy")
    (tmp_path / "data.bin").write_bytes(data.tobytes())
    use = wine.script(tmp_path / "use.exe", "use")
    told = ran(use, net, "data.bin", "out.bin", folder=tmp_path)
    match = re.match(CPP_LINES, told)
    assert match and "no such file.vkb cannot be opened" in told[match.end() :], told
    ran(linux, net, "--input", "data=data.npy", "--output", "out=linux.npy", folder=net.parent)
    assert (tmp_path / "out.bin").read_bytes() == np.load(net.parent / "linux.npy").tobytes()
    text = (tmp_path / "out.bin.json").read_text()
    assert json.loads(text) == json.loads(ran(linux, net, "--test", "--json"))


PAGE = """#include <windows.h>
#include <stdio.h>
int main(void) { printf("page %u.\\n", GetConsoleOutputCP()); return 0; }
"""


def test_the_console_keeps_its_code_page(wine: Wine, program: Path, tmp_path: Path) -> None:
    (tmp_path / "page.c").write_text(PAGE)
    shutil.copy(test_cross.zig(TARGET, [tmp_path / "page.c"], ["-O1"], "page.exe"), tmp_path)
    shutil.copy(test_cross.program(TARGET), tmp_path)
    (tmp_path / "three.bat").write_text("@page.exe\r\n@vknn-run.exe --devices\r\n@page.exe\r\n")
    told = in_a_console([str(wine.script(Path("cmd"), "cmd")), "/c", "three.bat"], tmp_path)
    before, after = re.findall(r"page (\d+)\.", told)
    assert "".join(ran(program, "--devices").split()) in "".join(told.split()), told
    assert before == after != "65001", told


def in_a_console(command: list[str], folder: Path) -> str:
    """What a program shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        with os.fdopen(ours, "rb", 0) as screen, contextlib.suppress(OSError):
            while part := screen.read(4096):  # OSError: where nobody writes any more
                shown += part
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))


STRANGER = """#include <stdio.h>
__declspec(dllexport) void *vkGetInstanceProcAddr(void *instance, const char *name) {
    (void)instance, (void)name;
    fputs("the stranger's\\n", stderr);
    return NULL;
}
"""


def test_vulkan_is_not_taken_from_the_folder_it_is_in(wine: Wine, tmp_path: Path) -> None:
    """Where none is installed, only one beside the program is loaded, as apps have it."""
    source = tmp_path / "stranger.c"
    source.write_text(STRANGER)
    exe, stranger = tmp_path / "app" / "vknn-run.exe", tmp_path / "here" / "vulkan-1.dll"
    for path in (exe, stranger):
        path.parent.mkdir()
    shutil.copy(test_cross.program(TARGET), exe)
    shutil.copy(test_cross.zig(TARGET, [source], ["-shared"], "vulkan-1.dll"), stranger)
    program = wine.script(exe, "alone", WINEDLLOVERRIDES="vulkan-1=n")
    installed = wine.system32 / "vulkan-1.dll"
    installed.rename(tmp_path / "away.dll")
    try:
        done = run(program, "--devices", folder=stranger.parent)
        assert (done.returncode, done.stderr) == (
            1, "vknn-run: device: no vulkan-1.dll is installed; drivers of GPUs bring it\n"
        )  # fmt: skip
        shutil.copy(stranger, exe.parent)
        done = run(program, "--devices", folder=stranger.parent)
        assert done.returncode == 1 and done.stderr.startswith("the stranger's\n"), done
    finally:
        (tmp_path / "away.dll").rename(installed)
