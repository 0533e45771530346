"""C++, Java and Python over the runner: bits of the C interface, and an answer to every misuse."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.edits import edited, section
from tests.bundle.jdk import jdk
from tests.bundle.networks import Made, answers, small
from tests.bundle.played import played
from tests.bundle.rebuilt import rebuilt, with_field

from vknn.bundle import Bundle, runner_library, schema
from vknn.bundle.runner import Runner

HERE = Path(__file__).parent / "bindings"
ANDROID = build.RUNNER / "android"
STRICT = ("-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wconversion")
#: The name of the plan's target. The last letter takes two of Java's and four bytes of UTF-8, of
#: which JNI's own strings make six.
TARGET = "né 数据 \U0001f600"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = small(tmp_path_factory.mktemp("net"))
    plain = Bundle.of(made.path.read_bytes())
    strings = plain.sections["strings"].tobytes()
    longer = Bundle.of(rebuilt(plain, {"strings": strings + TARGET.encode() + b"\0"}))
    made.path.write_bytes(with_field(longer, schema.PLAN, "target", len(strings)))
    return made


@pytest.fixture(scope="module")
def expected(net: Made) -> np.ndarray:
    """What the C interface gives."""
    with Runner(net.path, library=build.library()) as runner:
        return answers(runner, net)["out"]


@pytest.fixture(scope="module")
def wrong(net: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose example expects other numbers than any device gives."""
    raw = bytearray(net.path.read_bytes())
    table = {
        name: np.frombuffer(raw, record.dtype, size // record.dtype.itemsize, offset)
        for record in (schema.BLOB, schema.EXAMPLE)
        for name, (offset, size) in [(record.name, section(raw, record.name))]
    }
    answer = int(table["example"]["blob"][-1])
    start = section(raw, "data")[0] + int(table["blob"]["offset"][answer])
    end = start + int(table["blob"]["nbytes"][answer])
    raw[start:end] = np.full((end - start) // 4, 0.5, "<f4").tobytes()
    path = tmp_path_factory.mktemp("wrong") / "wrong.vkb"
    path.write_bytes(raw)

    def sum_again(blobs: np.ndarray) -> None:
        blobs["crc"][answer] = zlib.crc32(raw[start:end])

    return edited(path, path, "blob", sum_again)


def ran(command: Sequence[str | Path], **options: object) -> str:
    """What a command prints. Fails with all that it said."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def used(command: Sequence[str | Path], path: Path, net: Made, folder: Path) -> tuple[str, bytes]:
    """What a program of bindings/ prints, and what it writes of the output for the case's input."""
    given, found = folder / "data.bin", folder / "prob.bin"
    given.write_bytes(net.feeds["data"].tobytes())
    return ran([*command, path, given, found], cwd=folder), found.read_bytes()


def check_json(text: str | bytes, path: Path, *, right: bool) -> None:
    """Asserts that it is what ``vknn-run --test --json`` prints for a bundle, and its verdict."""
    program = build.program(build.RUNNER / "main.c")
    command = [str(program), str(path), "--test", "--json"]
    printed = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert printed.returncode == (0 if right else 1), printed
    document = json.loads(text)
    assert document == json.loads(printed.stdout)  # there are no times in it
    assert (document["ok"], document["target"]) == (right, TARGET)
    [row] = document["outputs"]
    assert (row["output"], row["wrong"] == 0) == ("out", right)
    assert document["error"] is None if right else document["error"].startswith("differs: ")


# --- Python


@pytest.mark.device
def test_python_tells_its_test_as_json(net: Made, wrong: Path) -> None:
    for path, right in ((net.path, True), (wrong, False)):
        with Runner(path, library=build.library()) as runner:
            check_json(runner.test_json(), path, right=right)
            assert runner.test()[0] == right
            assert json.loads(runner.profile(1))["target"] == TARGET


# --- C++


def cpp_program(compiler: str, folder: Path, flags: Sequence[str]) -> Path:
    """bindings/use.cpp, built; skips where there is no such compiler."""
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    library = build.library()
    paths = [f"-I{build.RUNNER}", HERE / "use.cpp", library, f"-Wl,-rpath,{library.parent}"]
    program = folder / "use"
    ran([compiler, *STRICT, *flags, *paths, "-o", program])
    return program


CPP_LINES = r"""input data 3 768
output out 1
same 111111
test ok
.*
second 11
argument: 'data' is float32, other elements were given: use its type, or the bytes
argument: data .*768 bytes, not 764.*
argument: out .*20 bytes, not 24.*
argument: there is no input nothing; there are: data
argument: this net is not open, or was moved from
argument: this net is not open, or was moved from
"""


@pytest.mark.device
@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.slow)])
@pytest.mark.parametrize("flags", [(), ("-fno-exceptions",)], ids=["exceptions", "none"])
def test_cpp(
    net: Made, expected: np.ndarray, tmp_path: Path, compiler: str, flags: tuple[str, ...]
) -> None:
    program = cpp_program(compiler, tmp_path, flags)
    text, found = used([program], net.path, net, tmp_path)
    assert found == expected.tobytes()
    check_json((tmp_path / "prob.bin.json").read_bytes(), net.path, right=True)
    match = re.match(CPP_LINES, text)
    assert match, text
    assert "no such file.vkb cannot be opened" in text[match.end() :]


@pytest.mark.device
def test_cpp_reports_a_device_that_computes_something_else(
    net: Made, wrong: Path, tmp_path: Path
) -> None:
    text, _ = used([cpp_program("g++", tmp_path, ())], wrong, net, tmp_path)
    assert "\ntest differs\nout: " in text
    check_json((tmp_path / "prob.bin.json").read_bytes(), wrong, right=False)


# --- Java


def jni_library(compiler: str | None = None) -> Path:
    """libvknn.so of this machine."""
    include = jdk() / "include"
    flags = (f"-I{include}", f"-I{include / 'linux'}", "-shared", "-fPIC", "-fvisibility=hidden")
    sources = [build.RUNNER / "vknn_run.c", ANDROID / "vknn_jni.c"]
    return build.built("libvknn.so", sources, flags, compiler)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """The command that runs bindings/Use.java, JNI's own checks switched on."""
    folder = tmp_path_factory.mktemp("classes")
    home, library = jdk(), jni_library()
    sources = [ANDROID / "vknn" / "Net.java", HERE / "Use.java"]
    lint = ["--release", "8", "-Xlint:all,-options", "-Werror"]
    ran([home / "bin" / "javac", *lint, "-d", folder, *sources])
    options = ["-Xcheck:jni", "-Xshare:auto", f"-Djava.library.path={library.parent}"]
    return [home / "bin" / "java", *options, "-cp", folder, "Use"]


JAVA_LINES = r"""input data FLOAT32 \[3, 8, 8\]
output out 20 \[5\]
same true true true true
zeros false
borrowed true LITTLE_ENDIAN
test true
(?s:.*)
second true
log true true 1
size: Failure 4 argument data .*768 bytes, not 4.*
room: Failure 4 argument out .*20 bytes, not 4.*
null: NullPointerException the buffer is null
heap: IllegalArgumentException the buffer is not direct: use Port.allocate\(\), .*
order: IllegalArgumentException the buffer for 'data' is BIG_ENDIAN, which the device is not: .*
read-only: IllegalArgumentException the buffer for 'out' is read-only
name: IllegalArgumentException no input 'nothing': there are data
no port: NullPointerException give a port
no name: NullPointerException give the name of an output
runs: IllegalArgumentException a profile takes one run at least, not 0
closed: IllegalStateException this net is closed
closed port: IllegalStateException this net is closed
closed test: IllegalStateException this net is closed
beside: IllegalStateException this net is closed
missing: Failure 1 file no such 😀.vkb cannot be opened: .*
no bundle: Failure 1 file .*
hash: Failure 2 hash .*SHA-256.*
short hash: IllegalArgumentException a SHA-256 has 32 bytes, not 31
device: Failure 3 device no device no such device; there are .*
zero: IllegalArgumentException a text has a 0 in it
"""


@pytest.mark.device
def test_java(net: Made, expected: np.ndarray, java: list[str | Path], tmp_path: Path) -> None:
    text, found = used(java, net.path, net, tmp_path)
    assert found == expected.tobytes()
    assert re.fullmatch(JAVA_LINES, text), text
    check_json((tmp_path / "prob.bin.json").read_bytes(), net.path, right=True)


@pytest.mark.device
def test_java_reports_a_device_that_computes_something_else(
    net: Made, wrong: Path, java: list[str | Path], tmp_path: Path
) -> None:
    text, _ = used(java, wrong, net, tmp_path)
    assert "\ntest false\nout: " in text
    check_json((tmp_path / "prob.bin.json").read_bytes(), wrong, right=False)


@pytest.mark.device
def test_java_hears_of_threads_that_it_does_not_know(net: Made, java: list[str | Path]) -> None:
    """Those that make pipelines, which a layer refuses to make, are the runner's own."""
    _, variables = played()
    env = {**os.environ, **variables, "VKNN_PLAY": "refuse=2"}
    first, second = ran([*java, net.path], env=env).splitlines()
    assert first.startswith("pipelines: Failure 10 driver ")
    assert second == "other threads true"


@pytest.mark.slow
def test_jni_compiles_with_clang() -> None:
    jni_library("clang")


def test_java_and_c_have_the_same_native_methods() -> None:
    java = re.findall(
        r"private static native .* (\w+)\(", (ANDROID / "vknn" / "Net.java").read_text()
    )
    c = re.findall(r"Java_vknn_Net_(\w+)\(", (ANDROID / "vknn_jni.c").read_text())
    assert sorted(java) == sorted(c)


# --- All of them

#: Options of a context for an app's own Vulkan.
OWN_VULKAN = {
    *("instance", "physical_device", "logical_device", "queue", "queue_family", "features"),
    *("get_instance_proc_addr", "lock_queue"),
}
#: Binding -> files of it, and what of the C interface it has in another form, or cannot have.
BINDINGS = {
    "C++": ((build.RUNNER / "vknn_run.hpp",), {"vknn_run_version", "vknn_status_name"}),  # C's own
    "Java": (
        (ANDROID / "vknn_jni.c",),
        # It finds ports itself. Java has no allocators and no Vulkan; its own locks are Java's.
        {"vknn_find", "allocate", *OWN_VULKAN},
    ),
    "Python": (
        tuple(Path(runner_library.__file__).parent.glob("runner*.py")),
        {"vknn_find", "vknn_status_name"},  # it finds ports itself, and has classes of errors
    ),
    "Swift": ((build.RUNNER / "swift" / "Vknn" / "Net.swift",), {"allocate", *OWN_VULKAN}),
}


@pytest.mark.parametrize("binding", BINDINGS)
def test_bindings_have_all_that_c_has(binding: str) -> None:
    header = (build.RUNNER / "vknn_run.h").read_text()
    functions = set(re.findall(r"^VKNN_API .*?(vknn_\w+)\(", header, re.MULTILINE))
    assert len(functions) > 25
    files, exempt = BINDINGS[binding]
    text = "".join(file.read_text() for file in files)
    names = set(re.findall(r"\w+", text))
    assert functions - names - exempt == set()
    if binding == "C++":  # takes C's options as they are
        assert {"vknn_context_options", "vknn_net_options"} <= names
        return
    structs = re.findall(r"typedef struct vknn_\w+_options {(.*?)}", header, re.DOTALL)
    plain = re.sub(r"/\*.*?\*/", "", "".join(structs), flags=re.DOTALL)
    fields = set(re.findall(r"[*(, ](\w+)\)?(?=[;,]|\()", plain)) - {
        "user",
        "old",
        "bytes",
        "text",
        "locked",
    }
    assert {"device", "robust", "log", "queue", "sha256", "memory_limit"} <= fields
    assert fields - names - exempt == set()
