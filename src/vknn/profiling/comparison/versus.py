"""Two settings of a profile measured in turn, run by run in pairs of processes.

Machines slow down and speed up while they are measured, and each process is lucky or unlucky with
its memory and its threads. So what is compared are ratios of neighbours, of many processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from vknn.command_words import command_words
from vknn.errors import VknnError
from vknn.named_files import temporary_folder
from vknn.printable import one_line
from vknn.profiling.comparison.compare import compare
from vknn.profiling.comparison.result import ProfileComparison
from vknn.profiling.comparison.turns import OPTION, take_turns
from vknn.profiling.labels import shortened
from vknn.profiling.vkprof.file import SUFFIX
from vknn.tool_inputs import ProgressCallback

#: Pairs of processes, and runs of each, by default: so many that a layer made a tenth slower was
#: told from chance on a CPU whose runs differ by a fifth.
PAIRS, RUNS = 18, 15
#: Options of ``vknn profile`` that say what a command shows or makes, none of them one side's.
_NOT_OF_A_SIDE = {
    *("--versus", "--pairs", "--one-by-one", "--keep", "--fail-over", "--markdown", "--junit"),
    *("--save", "--html", "--trace", "--json", "--compiled", "--device-limits", OPTION),
    *("--static", "--counters", "--capture"),
}
#: The option without which a process by itself compiles every kernel once more.
_QUICK = "--no-compiled"
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

    @cached_property
    def quick(self) -> list[str]:
        """The option that keeps a process from compiling what nobody would see; none where its
        vknn is older than that."""
        if self.sources == _sources():
            return [_QUICK]
        asked = subprocess.run(
            [*self.start, "--help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environment,
            check=False,
        )
        return [_QUICK] if _QUICK.encode() in asked.stdout else []

    @property
    def start(self) -> list[str]:
        """The beginning of a process's command line."""
        return [sys.executable, "-c", _START, str(self.sources), "profile"]

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process: its sources are found first by those that it starts, too."""
        path = [str(self.sources), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _sources() -> Path:
    """The folder of this vknn."""
    return Path(__file__).resolve().parents[3]


def versus(
    arguments: Sequence[str],
    other: str,
    *,
    pairs: int = PAIRS,
    one_by_one: bool = False,
    keep: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
) -> ProfileComparison:
    """Comparison of two settings of ``vknn profile``, each in processes that take turns.

    Both processes of a pair are alive at the same time, and only one of them runs.

    Args:
        arguments: Those of ``vknn profile``, the model first: ``["net.param", "--runs", "10"]``.
        other: What is different on the second side: further options, as in a shell, which count
            in place of those in ``arguments``; in front of them, or alone, a checkout of vknn.
        pairs: How many processes of each side are run.
        one_by_one: Whether a process ends before the next one begins: for models of which a
            device holds one only, and checkouts that know no turns. It tells less.
        keep: A folder for their profiles, ``before/`` and ``after/``; None: they are deleted.
        progress: Told the number of pairs done, of all, and what comes next.

    Raises:
        vknn.VknnError: A process failed, whose error it has; an option is not one of a side, as
            "--html"; or as for ``compare``.
    """
    if pairs < 1:
        raise VknnError(f"pairs={pairs}: at least one is needed")
    own = ProfiledSetting(_sources(), tuple(arguments))
    settings = {"before": own, "after": _other(own, other)}
    _refuse(settings["after"].arguments)
    with temporary_folder() if keep is None else nullcontext(keep) as top:
        files: dict[str, list[Path]] = {}
        for side in settings:
            folder = Path(top) / side
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.glob(f"*{SUFFIX}")):
                raise VknnError(f"{folder} has profiles already: name an empty folder")
            files[side] = [folder / f"{number:03}{SUFFIX}" for number in range(pairs)]
        for number in range(pairs):
            if progress is not None:
                progress(number, pairs, "pair")
            # Who comes first changes from pair to pair, as the second may find the machine warm.
            order = list(settings) if number % 2 == 0 else list(settings)[::-1]
            processes = [_Process(side, settings[side], files[side][number]) for side in order]
            if one_by_one:
                for process in processes:
                    process.check(_alone(process))
            else:
                _in_turn(processes)
        found = compare(files["before"], files["after"], paired=True, in_turn=not one_by_one)
        # A name alone would not say what is different.
        return replace(found, after=f"{found.after} ({shortened(other)})")


def _refuse(arguments: Sequence[str]) -> None:
    """An error for an option that both sides together have, or none."""
    for word in arguments:
        name = word.partition("=")[0]
        if name in _NOT_OF_A_SIDE:
            raise VknnError(f"{name} is no option of one side of a comparison: leave it out there")


def _other(own: ProfiledSetting, text: str) -> ProfiledSetting:
    """The second side's setting."""
    try:
        words = command_words(text)
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


@dataclass(frozen=True)
class _Process:
    """A process that profiles and saves; ``side``: before or after."""

    side: str
    setting: ProfiledSetting
    file: Path

    def command(self, turns: bool) -> list[str]:
        """Its command line."""
        # What the user asks for comes behind, and counts.
        arguments = ["--runs", str(RUNS), *self.setting.arguments]
        arguments += ["--save", str(self.file), "--json"]
        # Processes in turn compile nothing anyway.
        more = [OPTION] if turns else self.setting.quick
        return [*self.setting.start, *more, *arguments]

    def check(self, error: str | None) -> None:
        """VknnError where the process failed or left no file."""
        if error is None and self.file.is_file():
            return
        lines = (error or "it left no profile").strip().splitlines()
        last = one_line(lines[-1])[:500]
        if "unrecognized arguments: --save" in last:
            raise VknnError(
                f"the vknn in {self.setting.sources} is older than --save and cannot be compared"
            )
        if f"unrecognized arguments: {OPTION}" in last:
            raise VknnError(
                f"the vknn in {self.setting.sources} is older than turns of runs: "
                "compare with --one-by-one"
            )
        raise VknnError(f"the {self.side} side failed: {last.removeprefix('vknn: error: ')}")


def _alone(process: _Process) -> str | None:
    """Standard error of a process that ran by itself and failed, else None."""
    done = subprocess.run(
        process.command(turns=False),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=process.setting.environment,
        check=False,
    )
    if not done.returncode:
        return None
    return done.stderr.decode(errors="replace") or f"exit code {done.returncode}"


def _in_turn(processes: Sequence[_Process]) -> None:
    """Profiles by processes whose runs take turns."""
    commands = [process.command(turns=True) for process in processes]
    errors = take_turns(commands, [process.setting.environment for process in processes])
    # Where one fails the others are ended: they are not to blame.
    failed = [place for place, error in enumerate(errors) if error]
    for place in failed or range(len(processes)):
        processes[place].check(errors[place])
