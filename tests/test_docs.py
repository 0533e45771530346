"""The documentation is true: its code runs, its generated pages are current, its links lead on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [m[2] for m in FENCE.finditer(page.read_text()) if m[1] == language]


LAYER_EXAMPLE = """
import numpy as np, pathlib, vknn
folder = pathlib.Path({folder!r})
(folder / "net.param").write_text(
    "7767517\\n2 2\\nInput i 0 1 data\\nSwitch s 1 1 data y 0=3 1=0.5\\n"
)
(folder / "net.bin").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
image = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
{code}
report = vknn.verify("net.param", {{"data": image}})
assert report.ok and {{row.placement for row in report.rows}} == {{"vulkan"}}, report
assert outputs["y"].shape == image.shape
"""


@pytest.mark.device
def test_the_layer_of_ones_own_runs(tmp_path: Path) -> None:
    code = "\n".join(blocks(ROOT / "docs" / "custom-layers.md", "python"))
    done = subprocess.run(
        [sys.executable, "-c", LAYER_EXAMPLE.format(folder=str(tmp_path), code=code)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readmes_snippet_runs() -> None:
    (snippet,) = blocks(ROOT / "README.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    label = np.load(ROOT / "tools/demo_model/held_out.npz")["labels"][0]
    assert done.stdout.splitlines()[-1] == str(label)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_paths_exist(page: Path) -> None:
    """Relative links, and paths in code marks that start like one of ours."""
    text = FENCE.sub("", page.read_text())
    found = re.findall(r"\]\(([^)#]+)", text)
    links = [link for link in found if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    named = re.findall(r"`((?:src|shaders|tools|docs|tests)/[\w./-]+)`", text)
    missing += [n for n in named if not (ROOT / n).exists()]
    assert missing == []
