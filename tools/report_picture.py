"""Picture of a report: the top of the page that ``vknn profile --html`` writes, in Chromium.

    vknn profile net.param --html report.html
    python tools/report_picture.py report.html docs/report.png --dispatch 12

Needs Chromium (Debian: apt-get install chromium). The pictures of docs/ are made this way.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

COLOURS = 128


def picture(report: Path, target: Path, *, width: int, height: int, dispatch: int | None) -> None:
    """Screenshot of a report's first ``height`` pixels, with a dispatch selected."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("error: no Chromium. On Debian or Ubuntu: apt-get install chromium")
    address = report.resolve().as_uri() + ("" if dispatch is None else f"#dispatch={dispatch}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shot = Path(folder) / "shot.png"
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}", f"--window-size={width},{height}"]
        command += [f"--screenshot={shot}", "--virtual-time-budget=4000", address]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(shot) as image:
            image.convert("RGB").quantize(COLOURS).save(target, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--width", type=int, default=1440)
    parser.add_argument("--height", type=int, default=1900)
    parser.add_argument("--dispatch", type=int)
    given = parser.parse_args()
    size = {"width": given.width, "height": given.height}
    picture(given.report, given.target, dispatch=given.dispatch, **size)
