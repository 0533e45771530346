"""Intel's null device: bookworm's driver, and a drm-shim built from the same Mesa by a C compiler.

No package has Intel's shim, and drivers newer than bookworm's ask it for what it does not know.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import prepare
from debian import Archive, Unavailable

SUITE = "bookworm"
COMPILERS = ("gcc", "cc", "clang")
SHIM = "libintel_noop_drm_shim.so"
#: Waits and signals of synchronization objects, which the driver calls and the shim lacks.
CALLS = ("RESET", "SIGNAL", "TIMELINE_WAIT", "TIMELINE_SIGNAL", "TRANSFER")
#: A line of the shim's table of calls, behind which those are put.
KNOWN_CALL = "[_IOC_NR(DRM_IOCTL_SYNCOBJ_WAIT)] = drm_shim_ioctl_stub,"

SOURCES = {
    "drm-shim": ("device", "drm_shim"),
    "intel/tools": ("intel_noop_drm_shim",),
    "intel/dev": ("intel_debug", "intel_device_info", "intel_hwconfig"),
    "intel/common": ("intel_gem", "intel_engine"),
    "c11/impl": ("threads_posix", "time"),
    "util": (
        *("hash_table", "set", "ralloc", "u_debug", "os_misc", "vma", "log", "os_file", "u_printf"),
        *("mesa-sha1", "sha1/sha1", "u_process", "u_cpu_detect", "u_math", "half_float"),
        *("softfloat", "bitscan", "u_call_once", "simple_mtx", "futex", "os_time", "strtod"),
        *("sparse_array", "rb_tree", "memstream", "string_buffer", "u_idalloc", "u_thread"),
        *("thread_sched",),
    ),
}
INCLUDES = (
    *("include", "src", "src/intel", "src/util", "src/mesa", "src/mapi", "made"),
    *("src/gallium/include", "src/gallium/auxiliary"),
)
#: What Mesa's configuration would have found out about a Linux of today.
DEFINED = (
    *("_GNU_SOURCE", "HAVE_PTHREAD", "HAVE_ENDIAN_H", "HAVE_STRUCT_TIMESPEC", "HAVE_TIMESPEC_GET"),
    *(f"HAVE___BUILTIN_{n}" for n in ("EXPECT", "FFS", "FFSLL", "POPCOUNT", "POPCOUNTLL")),
    *(f"HAVE___BUILTIN_{n}" for n in ("CLZ", "CLZLL", "BSWAP32", "UNREACHABLE")),
    *("HAVE_FUNC_ATTRIBUTE_PACKED", "HAVE_FUNC_ATTRIBUTE_UNUSED", "HAVE_LIBDRM"),
    *("HAVE_SECURE_GETENV", "HAVE_DL_ITERATE_PHDR", "HAVE_QSORT_R", "HAVE_GNU_QSORT_R"),
    *("USE_GCC_ATOMIC_BUILTINS", "HAVE_MKOSTEMP", "HAVE_MEMFD_CREATE", "HAVE_DLFCN_H"),
    'PACKAGE_VERSION="22.3"',
)


def is_ready(folder: Path) -> bool:
    """Whether the driver and its shim lie in ``folder``."""
    return (folder / SHIM).is_file() and (folder / "icd.json").is_file()


def make(folder: Path) -> None:
    """The driver and its shim, put into ``folder``. Raises Unavailable."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise Unavailable("Intel's null device is built from source; there is no C compiler")
    shutil.rmtree(folder, ignore_errors=True)
    prepare.say(f"fetching Intel's driver and the source of its shim into {folder}")
    archive = Archive(folder / "apt", SUITE, sources=True)
    archive.unpack(["mesa-vulkan-drivers", "libdrm2", "libdrm-dev"], folder / "root")
    libraries = folder / "root" / "usr" / "lib" / "x86_64-linux-gnu"
    with tempfile.TemporaryDirectory(prefix="vknn-intel-") as temporary:
        with tarfile.open(archive.source("mesa", Path(temporary))) as tar:
            parts = ("include", "src")
            members = [m for m in tar if m.isfile() and m.name.split("/")[1] in parts]
            if hasattr(tarfile, "data_filter"):
                tar.extraction_filter = tarfile.data_filter
            tar.extractall(temporary, members)
        (source,) = (path for path in Path(temporary).iterdir() if path.is_dir())
        add_calls(source / "src" / "drm-shim" / "device.c")
        _build(compiler, source, folder, libraries)
    library = str(libraries / "libvulkan_intel.so")
    icd = {"api_version": "1.3.230", "library_path": library}
    (folder / "icd.json").write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))


def add_calls(path: Path) -> None:
    """The missing calls put into the shim's table. Raises Unavailable for an unknown source."""
    text = path.read_text(encoding="utf-8")
    if text.count(KNOWN_CALL) != 1:
        raise Unavailable(f"the shim of Mesa in {SUITE} is another one than this tool knows")
    stubs = [f"   [_IOC_NR(DRM_IOCTL_SYNCOBJ_{name})] = drm_shim_ioctl_stub," for name in CALLS]
    path.write_text(text.replace(KNOWN_CALL, "\n".join([KNOWN_CALL, *stubs])), encoding="utf-8")


def _build(compiler: str, source: Path, folder: Path, libraries: Path) -> None:
    (source / "made").mkdir()
    (source / "made" / "git_sha1.h").write_text('#define MESA_GIT_SHA1 ""\n')
    headers = folder / "root" / "usr" / "include"
    files = [
        source / "src" / part / f"{name}.c" for part, names in SOURCES.items() for name in names
    ]
    command = [
        *(compiler, "-O1", "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--no-undefined"),
        *(f"-D{name}" for name in DEFINED),
        *(f"-I{source / part}" for part in INCLUDES),
        *(f"-I{path}" for path in (headers, headers / "libdrm")),
        *("-o", str(folder / SHIM), *(str(path) for path in files if path.exists())),
        *(f"-L{libraries}", "-l:libdrm.so.2", "-ldl", "-lpthread", "-lm"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [
            line for line in done.stderr.splitlines() if "error" in line or "undefined" in line
        ]
        reason = (errors or ["no message"])[0]
        raise Unavailable(f"Intel's shim cannot be built: {reason}")
