"""GLSL to SPIR-V: libshaderc through cffi, or the ``glslc`` program where the library is unusable.

Compiles compute shaders for Vulkan 1.1. Needed to develop vknn's own shaders,
to build the package and for users' own GLSL; a wheel's shaders are compiled already.

Modules are not optimised: that would inline every operator of an epilogue wherever it is
named (twice the size, ten times the compile time), and merge the branches that
:mod:`vknn.runtime.spirv.specialize` cuts. The driver optimises what is left.

Debian 12's libshaderc.so.1 lacks symbols that only its glslc brings along, so there it is always
the program. Starting it costs 0.13 s and a further module in the same start 3 ms: hence batches.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vknn.errors import ShaderError
from vknn.runtime.spirv import glsl

_DECLARATIONS = """
typedef struct shaderc_compiler* shaderc_compiler_t;
typedef struct shaderc_compile_options* shaderc_compile_options_t;
typedef struct shaderc_compilation_result* shaderc_compilation_result_t;
shaderc_compiler_t shaderc_compiler_initialize(void);
shaderc_compile_options_t shaderc_compile_options_initialize(void);
void shaderc_compile_options_release(shaderc_compile_options_t);
void shaderc_compile_options_set_optimization_level(shaderc_compile_options_t, int);
void shaderc_compile_options_set_target_env(shaderc_compile_options_t, int, uint32_t);
shaderc_compilation_result_t shaderc_compile_into_spv(
    shaderc_compiler_t, const char* text, size_t, int kind, const char* name, const char* entry,
    shaderc_compile_options_t);
void shaderc_result_release(shaderc_compilation_result_t);
size_t shaderc_result_get_length(shaderc_compilation_result_t);
const char* shaderc_result_get_bytes(shaderc_compilation_result_t);
const char* shaderc_result_get_error_message(shaderc_compilation_result_t);
int shaderc_result_get_compilation_status(shaderc_compilation_result_t);
"""
# Values of enumerations in shaderc/env.h, shaderc/status.h and shaderc/shaderc.h.
_NO_OPTIMIZATION = 0
_TARGET_VULKAN = 0
_VULKAN_1_1 = (1 << 22) | (1 << 12)
_COMPUTE_SHADER = 2
_SUCCESS = 0
# The same for the program.
_OPTIONS = "--target-env=vulkan1.1 -O0"

MISSING = (
    "compiling GLSL needs shaderc, and neither a usable library libshaderc.so.1 nor the program "
    "glslc was found (Debian, Ubuntu: apt install glslc)"
)

# What the library is called on Linux (Debian; from Google's sources), macOS and Windows.
_LIBRARIES = (
    "libshaderc.so.1",
    "libshaderc_shared.so.1",
    "libshaderc_shared.dylib",
    "shaderc_shared.dll",
)


@dataclass(frozen=True)
class ShaderJob:
    """A module to compile: text of :func:`vknn.runtime.spirv.glsl.expand`, and defines."""

    text: str
    name: str
    defines: Mapping[str, str]

    @property
    def source(self) -> str:
        """The whole text, defines included."""
        return glsl.with_defines(self.text, self.defines)


class Compiler(Protocol):
    """A compiler of GLSL. Safe to use from several threads."""

    @property
    def identity(self) -> str:
        """Identity of the compiler and its options, for keys of caches."""

    def compile(self, jobs: Sequence[ShaderJob]) -> list[bytes]:
        """SPIR-V of each job; :class:`ShaderError` with the compiler's own messages."""


class Libshaderc:
    """libshaderc, loaded in place."""

    def __init__(self, path: str) -> None:
        import ctypes

        import cffi

        # A library that is missing or damaged (Debian 12's lacks symbols) shows here at once; cffi
        # would go on to look for it with ldconfig, gcc and ld, which takes a quarter of a second.
        ctypes.CDLL(path)
        self._ffi = cffi.FFI()
        self._ffi.cdef(_DECLARATIONS)
        self._lib: Any = self._ffi.dlopen(path)
        self._compiler = self._lib.shaderc_compiler_initialize()
        if self._compiler == self._ffi.NULL:
            raise ShaderError(f"{path} could not be initialised")
        self.identity = f"{_file_identity(path)} {_OPTIONS}"

    def compile(self, jobs: Sequence[ShaderJob]) -> list[bytes]:
        return [self._compile(job) for job in jobs]

    def _compile(self, job: ShaderJob) -> bytes:
        lib, ffi = self._lib, self._ffi
        options = ffi.gc(
            lib.shaderc_compile_options_initialize(), lib.shaderc_compile_options_release
        )
        lib.shaderc_compile_options_set_target_env(options, _TARGET_VULKAN, _VULKAN_1_1)
        lib.shaderc_compile_options_set_optimization_level(options, _NO_OPTIMIZATION)
        source, name = job.source.encode(), job.name.encode()
        result = ffi.gc(
            lib.shaderc_compile_into_spv(
                self._compiler, source, len(source), _COMPUTE_SHADER, name, b"main", options
            ),
            lib.shaderc_result_release,
        )
        if lib.shaderc_result_get_compilation_status(result) != _SUCCESS:
            message = ffi.string(lib.shaderc_result_get_error_message(result))
            raise _failure(job, message.decode(errors="replace"))
        length = lib.shaderc_result_get_length(result)
        return bytes(ffi.buffer(lib.shaderc_result_get_bytes(result), length))


class Glslc:
    """The program glslc."""

    def __init__(self, path: str) -> None:
        self._path = path
        # Asking the program for its version would take as long as finding ten modules.
        self.identity = f"{_stamp(os.path.realpath(path), path)} {_OPTIONS}"

    def compile(self, jobs: Sequence[ShaderJob]) -> list[bytes]:
        with tempfile.TemporaryDirectory(prefix="vknn-glsl-") as folder:
            sources = [Path(folder, f"{i}.comp") for i in range(len(jobs))]
            for source, job in zip(sources, jobs, strict=True):
                source.write_text(job.source, encoding="utf-8")
            message = self._run(folder, sources)
            if message is None:
                return [Path(f"{source}.spv").read_bytes() for source in sources]
            # Which of several jobs the message is about shows when each is tried alone.
            for source, job in zip(sources, jobs, strict=True):
                alone = self._run(folder, [source])
                if alone is not None:
                    raise _failure(job, alone.replace(source.name, job.name))
        raise ShaderError(f"{self._path} failed:\n{message}")

    def _run(self, folder: str, sources: Sequence[Path]) -> str | None:
        """The error message, None for success."""
        command = [self._path, "-fshader-stage=compute", *_OPTIONS.split(), "-c"]
        done = subprocess.run(
            [*command, *(source.name for source in sources)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return None if done.returncode == 0 else done.stderr.decode(errors="replace")


def _failure(job: ShaderJob, message: str) -> ShaderError:
    with_defines = "".join(f" {key}={value}" for key, value in sorted(job.defines.items()))
    return ShaderError(f"{job.name}{with_defines} does not compile:\n{message.strip()}")


def _file_identity(library: str) -> str:
    """Name, size and time of the file that a library was loaded from, where the system tells."""
    stem = os.path.basename(library).split(".so")[0]
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        paths = [line.split(None, 5)[-1] for line in lines if "/" in line]
    except OSError:
        return library
    return _stamp(
        next((p for p in paths if os.path.basename(p).startswith(stem)), library), library
    )


def _stamp(path: str, otherwise: str) -> str:
    """Name, size and time of a file; ``otherwise`` where it cannot be seen."""
    try:
        status = os.stat(path)
    except OSError:
        return otherwise
    return f"{os.path.basename(path)} {status.st_size} {status.st_mtime_ns}"


@functools.lru_cache(maxsize=1)
def compiler() -> Compiler:
    """The compiler of this machine; raises :class:`ShaderError` that says what to install."""
    for name in _LIBRARIES:
        try:
            return Libshaderc(name)
        except OSError:
            continue
    program = shutil.which("glslc")
    if program is not None:
        return Glslc(program)
    raise ShaderError(MISSING)
