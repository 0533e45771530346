"""Pages of reports in Chromium: how large they are, and how soon they are drawn.

    python benchmarks/pages.py                 # prints, exits with 1 where a goal is missed
    python benchmarks/pages.py --save          # kept as results/pages.json

Two pages: that of a profile of vision_transformer with random weights, as ``vknn profile --html``
writes it, and that of a profile of 20,000 dispatches with made-up numbers. A page is opened anew
several times; from the start of its navigation on, two times are taken: until what is in sight is
drawn, and until all parts below are, too, which wait until one scrolls to them. The times of the
profile itself do not matter here. Needs Chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "src"), str(ROOT)]

from tests.reports import chromium, documents  # noqa: E402

from vknn.reports import save  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "pages.json"
MODEL = ROOT.parent / "shared" / "benchmark" / "ncnn" / "vision_transformer.param"
#: Channels, rows and columns of the network's input.
SHAPE = "3,384,384"
RUNS = "3"
DISPATCHES = 20_000

IN_SIGHT = "performance.getEntriesByName('vknn-drawn')[0].startTime"
# Printing draws all parts; asking for a height has them laid out, and then a frame is made.
ALL = """new Promise(done => {
    const begin = performance.now();
    window.dispatchEvent(new Event('beforeprint'));
    document.body.offsetHeight;
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
})"""
PIECES = "document.querySelectorAll('.piece').length"


@dataclass(frozen=True)
class Goals:
    """Bytes that a page may have, None: any, and milliseconds until it is drawn."""

    nbytes: int | None
    drawn: float


@dataclass(frozen=True)
class Measured:
    """A page. ``in_sight``, ``whole``: medians of milliseconds; ``each``: both of each opening."""

    page: str
    dispatches: int
    nbytes: int
    in_sight: float
    whole: float
    each: tuple[tuple[float, float], ...]

    def missed(self, goals: Goals) -> list[str]:
        """The goals that are missed, in words."""
        size = goals.nbytes is not None and self.nbytes >= goals.nbytes
        found = [f"{self.nbytes / 1e6:.2f} MB"] if size else []
        times = (("in sight", self.in_sight), ("as a whole", self.whole))
        found += [f"{t:.0f} ms until drawn {name}" for name, t in times if t >= goals.drawn]
        return [f"{self.page}: {text}" for text in found]


def transformer(path: Path) -> None:
    """The page of vision_transformer."""
    if not MODEL.is_file():
        sys.exit(f"{MODEL} is missing: unpack the test data beside the repository")
    shape = ["--random-weights", "--shape", f"input={SHAPE}"]
    command = [sys.executable, "-m", "vknn", "profile", str(MODEL), *shape]
    command += ["--runs", RUNS, "--warmup", "1", "--html", str(path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)
    if ended.returncode:
        sys.exit(f"vknn profile ended with {ended.returncode}")


def many(path: Path) -> None:
    """The page of very many dispatches, with what a driver's compiler made of each."""
    save(documents.document(DISPATCHES, runs=5, static=True), path)


def measured(name: str, path: Path, tab: chromium.Page, openings: int) -> Measured:
    """Size of a page and its times, of so many openings behind a first one, which is not counted.

    ``tab``: a tab of Chromium.
    """
    each = []
    for number in range(openings + 1):
        tab.open(path)
        in_sight = float(tab.value(IN_SIGHT))
        whole = in_sight + float(tab.value(ALL))
        if not tab.value(PIECES):
            sys.exit(f"{name}: no chart was drawn")
        if tab.console:
            sys.exit(f"{name}: {tab.console[0]}")
        if number:
            each.append((round(in_sight, 1), round(whole, 1)))
    count = tab.value("JSON.parse(document.getElementById('data').text).commands.median.length")
    medians = (median(times) for times in zip(*each, strict=True))
    return Measured(name, int(count), path.stat().st_size, *medians, tuple(each))


def main() -> int:
    """Sizes and times of both pages, printed and perhaps kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--openings", type=int, default=5, metavar="N", help="of each page (5)")
    parser.add_argument("--save", action="store_true", help=f"keep it as {RESULT.name}")
    args = parser.parse_args()
    if chromium.found() is None:
        sys.exit("no Chromium: apt-get install chromium")
    pages = {
        "vision_transformer": (transformer, Goals(5_000_000, 1500.0)),
        f"{DISPATCHES:,} dispatches": (many, Goals(None, 5000.0)),
    }
    found, missed = [], []
    with tempfile.TemporaryDirectory() as folder, chromium.browser() as tab:
        for number, (name, (made, goals)) in enumerate(pages.items()):
            path = Path(folder, f"{number}.html")
            made(path)
            page = measured(name, path, tab, args.openings)
            print(
                f"{name}: {page.dispatches} dispatches, {page.nbytes / 1e6:.2f} MB, drawn in sight "
                f"after {page.in_sight:.0f} ms, as a whole after {page.whole:.0f} ms"
            )
            found.append(page)
            missed += page.missed(goals)
        browser = tab.value("navigator.userAgent.match(/Chrome.[^ ]*/)[0]")
    for text in missed:
        print(f"missed: {text}")
    if args.save:
        document = {"browser": browser, "pages": [asdict(page) for page in found]}
        RESULT.write_text(json.dumps(document, indent=1) + "\n")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
