"""Registers and spills of a lab's kernel, by the drivers of null devices, which compile it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.kernel_lab.labs import STORE, WINDOW, edit, lab_folder
from tests.null_devices.jobs import start

pytestmark = [pytest.mark.device, pytest.mark.long]  # drivers to be fetched
#: Numbers that are all needed before the first can be done without, more than there are registers.
HELD = """
    float held[300], sum = 0.0;
    [[unroll]] for (int n = 0; n < 300; n++) {
        held[n] = sin(v.x * float(n + 1));
        sum = sum * 0.5 + held[n];
    }
    [[unroll]] for (int n = 299; n >= 0; n--) sum = sum * 0.25 + held[n] * sum;
    v.x += sum;
    """
WATCH = """
import sys
from vknn.kernel_lab import Lab, watch
with Lab.open(sys.argv[1]) as lab:
    print(next(watch(lab, "vulkan:0")).line())
"""


def run(*program: str) -> str:
    """What a program prints on an RX 6900 without its GPU."""
    variables = {"PYTHONPATH": os.environ["PYTHONPATH"], "VKNN_NULL_DEVICE": "1"}
    done = start("navi21", program, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ran(folder: Path, *options: str) -> str:
    return run("-m", "vknn", "kernel", "run", str(folder), "--device", "vulkan:0", *options)


def registers(text: str) -> int:
    """Registers in a text, which has to say that none are spilled."""
    found = re.search(r"registers (\d+), spills 0\b", text)
    assert found is not None, text
    return int(found[1])


def test_registers_are_printed(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    text = ran(folder)
    assert 0 < registers(text) < 200
    assert "a null device computes nothing: neither timed nor checked" in text
    assert text.rstrip().endswith("not checked")
    assert registers(run("-c", WATCH, str(folder))) == registers(text)


def test_a_kernel_that_spills_says_so(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path)
    edit(folder / WINDOW, STORE, f"{HELD}{STORE}")
    document: dict[str, Any] = json.loads(ran(folder, "--json"))
    assert document["compiled"]["spills"] > 0
    assert document["compiled"]["registers"] > 200
    assert document["checked"] is False and document["times"] == []
