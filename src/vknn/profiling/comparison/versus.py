"""Two settings of a profile measured in turn, process by process.

Machines slow down and speed up while they are measured, and each process is lucky or unlucky with
its memory and its threads. So what is compared are ratios of neighbours, of many processes.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from vknn.errors import VknnError
from vknn.printable import one_line
from vknn.profiling.comparison.compare import compare
from vknn.profiling.comparison.result import ProfileComparison
from vknn.profiling.labels import shortened
from vknn.profiling.vkprof.file import SUFFIX
from vknn.tool_inputs import ProgressCallback

#: Pairs of processes, by default: enough for a row among hundreds to be told from chance.
PAIRS = 12
#: The command line of the vknn whose sources lie in the first argument.
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from vknn.cli.main import main; sys.exit(main())"
)


@dataclass(frozen=True)
class ProfiledSetting:
    """A way to profile. ``sources``: the folder that vknn is imported from."""

    sources: Path
    arguments: tuple[str, ...]


def versus(
    arguments: Sequence[str],
    other: str,
    *,
    pairs: int = PAIRS,
    keep: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
) -> ProfileComparison:
    """Comparison of two settings of ``vknn profile``, each in processes that take turns.

    Args:
        arguments: Those of ``vknn profile``, the model first: ``["net.param", "--runs", "10"]``.
        other: What is different on the second side: further options, as in a shell, which count
            in place of those in ``arguments``; in front of them, or alone, a checkout of vknn.
        pairs: How many processes of each side are run.
        keep: A folder for their profiles, ``before/`` and ``after/``; None: they are deleted.
        progress: Told the number of processes done, of all, and which comes next.

    Raises:
        vknn.VknnError: A process failed, whose error it has; or as for ``compare``.
    """
    if pairs < 1:
        raise VknnError(f"pairs={pairs}: at least one is needed")
    own = ProfiledSetting(Path(__file__).resolve().parents[3], tuple(arguments))
    settings = {"before": own, "after": _other(own, other)}
    with tempfile.TemporaryDirectory(prefix="vknn-") if keep is None else nullcontext(keep) as top:
        files: dict[str, list[Path]] = {}
        for side in settings:
            folder = Path(top) / side
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.glob(f"*{SUFFIX}")):
                raise VknnError(f"{folder} has profiles already: name an empty folder")
            files[side] = [folder / f"{number:03}{SUFFIX}" for number in range(pairs)]
        for number in range(pairs):
            # Who comes first changes from pair to pair, as the second may find the machine warm.
            order = list(settings) if number % 2 == 0 else list(settings)[::-1]
            for place, side in enumerate(order):
                if progress is not None:
                    progress(2 * number + place, 2 * pairs, side)
                _profile(settings[side], files[side][number], side)
        found = compare(files["before"], files["after"], paired=True)
        # A name alone would not say what is different.
        return replace(found, after=f"{found.after} ({shortened(other)})")


def _other(own: ProfiledSetting, text: str) -> ProfiledSetting:
    """The second side's setting."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise VknnError(f"--versus {text!r}: {error}") from None
    if not words:
        raise VknnError("--versus needs options or a checkout's folder")
    if words[0].startswith("-"):
        return ProfiledSetting(own.sources, (*own.arguments, *words))
    checkout = Path(words[0])
    for sources in (checkout / "src", checkout):
        if (sources / "vknn" / "__init__.py").is_file():
            return ProfiledSetting(sources.resolve(), (*own.arguments, *words[1:]))
    raise VknnError(f"--versus {words[0]}: this is neither an option nor a checkout of vknn")


def _profile(setting: ProfiledSetting, file: Path, side: str) -> None:
    """A process that profiles and saves."""
    command = [sys.executable, "-c", _START, str(setting.sources), "profile", *setting.arguments]
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(setting.sources), *filter(None, [before])])
    done = subprocess.run(
        [*command, "--save", str(file), "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if done.returncode or not file.is_file():
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        last = one_line(lines[-1])[:500] if lines else f"exit code {done.returncode}"
        if "unrecognized arguments: --save" in last:
            raise VknnError(
                f"the vknn in {setting.sources} is older than --save and cannot be compared"
            )
        raise VknnError(f"the {side} side failed: {last.removeprefix('vknn: error: ')}")
