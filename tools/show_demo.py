"""The demo: held-out digits through the trained network, checked and timed. See tools/demo."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import vknn

FOLDER = Path(__file__).resolve().parent / "demo_model"
MODEL = FOLDER / "digits.param"
SHADES = " ░▒▓█"
SHOWN = 10


def picture(image: np.ndarray) -> list[str]:
    """Lines of block characters, two a pixel; grey levels from 0 to 16."""
    levels = np.rint(image.astype(np.float32) * (len(SHADES) - 1) / 16).astype(int)
    return ["".join(2 * SHADES[level] for level in row) for row in levels]


def gallery(images: np.ndarray, labels: np.ndarray, probabilities: np.ndarray) -> Text:
    """Five pictures in a row, what the network says of each below it, red where it is wrong."""
    text = Text()
    for start in range(0, len(images), 5):
        group = range(start, min(start + 5, len(images)))
        for lines in zip(*(picture(images[i]) for i in group), strict=True):
            text.append("  ".join(lines) + "\n")
        for i in group:
            guess = int(probabilities[i].argmax())
            words = f"{guess} ({probabilities[i, guess]:.1%})"
            right = guess == labels[i]
            words += "" if right else f", is {labels[i]}"
            text.append(f"{words:^16}  ", style="bold green" if right else "bold red")
        text.append("\n\n")
    return text


def run_all(session: vknn.Session, images: np.ndarray, title: str) -> tuple[np.ndarray, float]:
    """Probabilities of every image and the median milliseconds of a run."""
    results, times = [], []
    for image in track(images, title, transient=True):
        feeds = {"image": image[None].astype(np.float32) / 16}
        start = time.perf_counter()
        results.append(session.run(feeds)["probabilities"])
        times.append(time.perf_counter() - start)
    return np.stack(results), 1e3 * float(np.median(times))


def device_name(session: vknn.Session) -> str:
    return session.device.name if session.device is not None else "NumPy (no Vulkan device)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", help="as for vknn run; auto: the best one")
    device = parser.parse_args().device
    console = Console(width=None if sys.stdout.isatty() else 160)
    held_out = np.load(FOLDER / "held_out.npz")
    images, labels = held_out["images"], held_out["labels"]

    with vknn.Session(MODEL, device=device) as session:
        name = device_name(session)
        console.print(Rule(f"Handwritten digits on {name}"))
        on_device, device_ms = run_all(session, images, name)
    with vknn.Session(MODEL, device="numpy") as session:
        on_numpy, numpy_ms = run_all(session, images, "NumPy")
    console.print(gallery(images[:SHOWN], labels, on_device), end="")
    wrong = np.flatnonzero(on_device.argmax(axis=1) != labels)[:5]
    if len(wrong):
        console.print("Some that it gets wrong:\n")
        console.print(gallery(images[wrong], labels[wrong], on_device[wrong]), end="")

    table = Table(title=f"{len(images)} held-out samples", title_justify="left")
    for column in ("", "right", "accuracy", "ms an image"):
        table.add_column(column, justify="right" if column else "left")
    for backend, result, ms in ((name, on_device, device_ms), ("NumPy", on_numpy, numpy_ms)):
        right = int((result.argmax(axis=1) == labels).sum())
        table.add_row(backend, str(right), f"{right / len(labels):.2%}", f"{ms:.2f}")
    console.print(table)
    apart = float(np.abs(on_device - on_numpy).max())
    console.print(f"Largest difference between the two in any probability: {apart:.1e}\n")

    feeds = {"image": images[0][None].astype(np.float32) / 16}
    console.print(Rule("Every operator on both backends (vknn verify)"))
    report = vknn.verify(MODEL, feeds, device=device)
    console.print(report)
    console.print(Rule("Every dispatch (vknn profile)"))
    console.print(vknn.profile(MODEL, feeds, device=device))
    agree = bool((on_device.argmax(axis=1) == on_numpy.argmax(axis=1)).all())
    return 0 if agree and report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
