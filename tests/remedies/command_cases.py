"""Remedies of the command line."""

from __future__ import annotations

import pytest
from tests.remedies.case import DEVICE, HOST, Case, Place, core_ml, without

import vknn
from vknn import environment
from vknn.cli import devices, info


def picture(place: Place) -> str:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (8, 8)).save(place.folder / "cat.png")
    return place.command("run", place.model, "--input", place.folder / "cat.png", *HOST)


def bare_picture(place: Place) -> None:
    (place.folder / "cat.png").write_bytes(b"picture")
    without("PIL")(place)
    place.command("run", place.model, "--input", place.folder / "cat.png", *HOST)


def crash(place: Place) -> str:
    def broken(_: object) -> None:
        raise RuntimeError("broken")

    place.set(info, run=broken)
    return place.command("info", place.model)


def crash_with_a_trace(place: Place) -> None:
    place.monkeypatch.setenv("VKNN_DEBUG", "1")
    with pytest.raises(vknn.VknnError, match=r"(?s)Traceback .*in broken.*RuntimeError: broken"):
        crash(place)


def every_listed_name(place: Place) -> None:
    place.command("info", place.model, "--disable", ",".join(environment.PARTS))


CASES = [
    Case(
        "--random-weights is for ncnn .param and .param.bin files",
        lambda p: p.command("info", core_ml(p), "--random-weights"),
        lambda p: p.command("info", p.model, "--random-weights"),
    ),
    Case(
        "{} names {}; known are {}",
        lambda p: p.command("info", p.model, "--disable", "fusing"),
        every_listed_name,
    ),
    Case(
        "{} is no shape: write it as 3,224,224",
        lambda p: p.command("verify", p.model, "--shape", "3,a", *HOST),
        lambda p: p.command("bench", p.model, "--shape", "3,9,9", "--runs", 1, *HOST),
    ),
    Case(
        "name a model file (or --device-limits)",
        lambda p: p.command("bench"),
        lambda p: p.command("bench", p.model, "--runs", 1, *HOST),
    ),
    Case(
        "--plan needs a Vulkan device to plan for",
        lambda p: p.command("info", p.model, "--plan", *HOST),
        lambda p: p.command("info", p.model, "--plan", "--device", "vulkan"),
        needs="device",
    ),
    Case(
        "there is no Vulkan device (Debian: apt install mesa-vulkan-drivers)",
        lambda p: (p.set(devices, devices=list), p.command("devices")),
        lambda p: (p.set(devices, devices=lambda: [DEVICE]), p.command("devices")),
        needs="device",  # without a loader that is what is told
    ),
    Case(
        "{} is read as a picture, which needs Pillow: pip install pillow",
        bare_picture,
        picture,
    ),
    Case("internal error: {} (VKNN_DEBUG=1 shows where)", crash, crash_with_a_trace),
]
