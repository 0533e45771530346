"""Picture of a report: the top of the page that ``--html`` writes, in Chromium.

    vknn bench --device-limits --json > limits.json
    vknn profile squeezenet_v1.1.param --device-limits limits.json --html report.html
    python tools/report_picture.py report.html docs/report.png --select dispatch=1
    vknn verify squeezenet_v1.1.param --precision fp16 --metrics --html check.html
    python tools/report_picture.py check.html docs/check.png --select layer=3 --height 2000
    vknn profile squeezenet_v1.1.param --versus "--disable winograd" --html comparison.html
    python tools/report_picture.py comparison.html docs/comparison.png --height 1300

Needs Chromium (Debian: apt-get install chromium). The pictures of docs/ are made this way.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

COLOURS = 256


def picture(report: Path, target: Path, *, width: int, height: int, selected: str) -> None:
    """Screenshot of a report's first ``height`` pixels; ``selected``: what the address names."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("error: no Chromium. On Debian or Ubuntu: apt-get install chromium")
    address = f"{report.resolve().as_uri()}#{selected}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shot = Path(folder) / "shot.png"
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}", f"--window-size={width},{height}"]
        command += [f"--screenshot={shot}", "--virtual-time-budget=4000", address]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(shot) as image:
            # This method keeps colours of few pixels, as those of a legend are.
            few = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
            few.save(target, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--width", type=int, default=1440)
    parser.add_argument("--height", type=int, default=1900)
    parser.add_argument("--select", default="", metavar="dispatch=N|layer=N")
    given = parser.parse_args()
    size = {"width": given.width, "height": given.height}
    picture(given.report, given.target, selected=given.select, **size)
