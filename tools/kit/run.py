#!/usr/bin/env python3
"""Checks and measurements of vknn on this machine's GPU, into one folder.

    python3 run.py RESULTS
    python3 run.py RESULTS --only devices verify --networks squeezenet --archive results.tar.gz

Each measurement is a process of its own with a time limit. Exit codes: 0: all passed; 1: something
failed, crashed or took too long; 2: nothing can be run here; 3: the time was up before the end.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # an isolated Python leaves it out
sys.dont_write_bytecode = True

import machine  # noqa: E402
import processes  # noqa: E402
import steps  # noqa: E402
import summary  # noqa: E402

PACKED = HERE / "packed.json"
#: Seconds of the whole run unless --time-limit says otherwise: ten minutes less a margin.
SECONDS = 570


class Unwritable(Exception):
    """Results that cannot be written; its text says which and why."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("results", type=Path, metavar="RESULTS", help="the folder that is written")
    add("--device", default="auto", help="auto, vulkan:1 or part of a name, as for vknn (auto)")
    known = [step.name for step in steps.STEPS]
    names = ", ".join(known)
    add("--only", nargs="+", choices=known, metavar="STEP", help=f"of these: {names}")
    known = list(steps.network_shapes())
    add("--networks", nargs="+", choices=known, default=known, metavar="NAME", help="(all)")
    add("--time-limit", type=float, default=SECONDS, metavar="SECONDS", help=f"({SECONDS})")
    add("--archive", type=Path, metavar="FILE.tar.gz", help="all results in one file, too")
    options = parser.parse_args()
    if not 0 < options.time_limit < float("inf"):
        parser.error("--time-limit takes a number of seconds above 0")
    archive = options.archive
    if archive is not None and archive.exists() and not archive.is_file():
        kind = "a folder" if archive.is_dir() else "no plain file"
        parser.error(f"--archive {archive}: this is {kind}: name a file")
    return options


def main() -> int:
    lacking = machine.lacking(HERE)
    if lacking:
        print(f"error: {HERE} lacks {', '.join(lacking)}: unpack the kit again", file=sys.stderr)
        return 2
    options = arguments()
    deadline = time.monotonic() + options.time_limit
    try:
        _make_folders(options)
        return _run(options, deadline)
    except Unwritable as error:
        print(f"error: results cannot be written: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, deadline: float) -> int:
    """Exit code of the steps that were chosen; raises Unwritable."""
    with tempfile.TemporaryDirectory(prefix="vknn-kit-") as folder:
        try:
            environment = machine.prepare(HERE, Path(folder))
        except machine.Unfit as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        kit = steps.Kit(HERE, Path(folder), options.device, tuple(options.networks), environment)
        done: list[summary.Done] = []
        chosen = steps.chosen(options.only)
        for number, step in enumerate(chosen):
            limit = steps.seconds_for(step, chosen[number + 1 :], deadline - time.monotonic())
            done.append(_do(step, kit, limit, options.results))
            text = summary.markdown(done, summary.packed(PACKED))
            _keep(options.results / "summary.md", text)
            if options.archive is not None:
                _write_archive(options.results, options.archive)
    print(f"written: {options.results}")
    return summary.exit_code(done)


def _make_folders(options: argparse.Namespace) -> None:
    """Folders of the results, tried before anything is measured; raises Unwritable."""
    folders = [options.results]
    if options.archive is not None:
        folders.append(options.archive.parent)
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise Unwritable(str(error)) from None


def _do(step: steps.Step, kit: steps.Kit, seconds: float, results: Path) -> summary.Done:
    start = time.monotonic()
    print(f"{step.name}: {step.what}", flush=True)
    outcomes = processes.do_all(
        step.tasks(kit), kit.environment, start + seconds, step.jobs, kit.work
    )
    done = summary.Done(step.name, step.what, time.monotonic() - start, outcomes)
    for outcome in outcomes:
        if outcome.status not in (processes.PASSED, processes.LEFT_OUT):
            print(f"  {outcome.name}: {outcome.status}: {outcome.note}", flush=True)
    print(f"  {done.counts()}, {done.seconds:.0f} s", flush=True)
    _keep(results / f"{step.name}.json", done.to_json())
    return done


def _keep(path: Path, text: str) -> None:
    """Writing of a text; raises Unwritable."""
    with _replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _write_archive(results: Path, archive: Path) -> None:
    with _replacing(archive) as partial, tarfile.open(partial, "w:gz") as tar:
        for path in sorted(results.iterdir()):
            if path.is_file() and path.suffix in (".json", ".md"):
                tar.add(path, f"{results.resolve().name}/{path.name}")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file that takes the place of ``path`` when it is whole: a full disk leaves what was there.

    Raises Unwritable.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise Unwritable(f"{path}: {error.strerror or error}") from None


if __name__ == "__main__":
    sys.exit(main())
