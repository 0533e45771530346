"""The runner under sanitizers, its allocations failing one by one, opened and closed for long."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.bundle import build
from tests.bundle.networks import Made, small
from tests.bundle.rebuilt import digits

pytestmark = pytest.mark.device

SOURCE = Path(__file__).with_name("stress.c")
ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DKEEP_LIBRARIES")
THREAD = ("-fsanitize=thread", "-DKEEP_LIBRARIES")
#: What the loader and drivers leave behind is theirs.
LEAKS = "leak:libvulkan\nleak:libLLVM\n"
#: Neither are built with the sanitizer, which then misunderstands what they do with mutexes.
TSAN_OPTIONS = "ignore_noninstrumented_modules=1:report_mutex_bugs=0:exitcode=66"
#: glibc gives each thread of a driver an arena of its own, and keeps what is freed there: up to
#: 1,160 pages come and go without any leak. One arena that returns blocks of 64 KiB: -155 to 229.
ONE_ARENA = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_MMAP_THRESHOLD_": "65536",
}


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return small(tmp_path_factory.mktemp("net"))


def run(program: Path, *arguments: object, **env: str) -> str:
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=550
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}{done.stderr[-6000:]}"
    assert "ERROR" not in done.stderr, done.stderr[-4000:]
    assert "WARNING: ThreadSanitizer" not in done.stderr, done.stderr[-6000:]
    return done.stdout


def leaks(folder: Path) -> dict[str, str]:
    path = folder / "suppressions"
    path.write_text(LEAKS)
    return {"LSAN_OPTIONS": f"suppressions={path}:print_suppressions=0"}


def test_addresses(net: Made, tmp_path: Path) -> None:
    program = build.program(SOURCE, *ADDRESS)
    run(program, "options", net.path, **leaks(tmp_path))
    run(program, "threads", net.path, 1, **leaks(tmp_path))


def test_calls_that_an_app_gets_wrong(tmp_path: Path) -> None:
    """Names, sizes, orders of calls; a context that is destroyed before its nets."""
    path = tmp_path / "digits.vkb"
    path.write_bytes(digits("generic"))  # it has no example
    run(build.program(SOURCE, *ADDRESS), "misuse", path, **leaks(tmp_path))


def test_allocations_that_fail(net: Made, tmp_path: Path) -> None:
    program = build.program(SOURCE, *ADDRESS)
    told = run(program, "allocations", net.path, **leaks(tmp_path))
    assert int(told.split()[0]) > 10


def test_threads(net: Made) -> None:
    run(build.program(SOURCE, *THREAD), "threads", net.path, 2, TSAN_OPTIONS=TSAN_OPTIONS)


@pytest.mark.slow
def test_races_are_seen(net: Made) -> None:
    """A runner without locks, used by several threads, is told of."""
    program = build.program(SOURCE, *THREAD, "-DVKNN_NO_THREADS")
    with pytest.raises(AssertionError, match="ThreadSanitizer: data race"):
        run(program, "threads", net.path, 2, TSAN_OPTIONS=TSAN_OPTIONS)


def test_opened_and_closed(net: Made) -> None:
    run(build.program(SOURCE), "opens", net.path, 20, **ONE_ARENA)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_opened_and_closed_a_thousand_times(net: Made) -> None:
    run(build.program(SOURCE), "opens", net.path, 1000, **ONE_ARENA)


#: The loader by its file, which is there without libvulkan-dev too.
LINKED = ("-DVKNN_STATIC_VULKAN", "-Wl,--no-as-needed", "-l:libvulkan.so.1")
WAYS = [(), ("-DVKNN_NO_THREADS",), ("-O3", "-DNDEBUG"), LINKED]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", WAYS)
def test_no_warnings(compiler: str, flags: tuple[str, ...]) -> None:
    """Built with -Wall -Wextra -Werror -pedantic."""
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    build.library(*flags, compiler=compiler)


def test_a_program_that_vulkan_is_linked_to_runs(net: Made) -> None:
    run(build.program(build.RUNNER / "main.c", *LINKED), net.path, "--test")
