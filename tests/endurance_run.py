"""Child process of test_endurance.py: many sessions, runs and shapes of small networks.

Arguments: a folder for the models, and how many sessions, runs and shapes. Prints a line of JSON
for each stage: seconds, and how much memory (MiB) the process has more than after the warm-up, a
hundredth of each stage, at each tenth; in the end native objects that are left.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests import onnx_writer
from tests.coreml_writer import layer, model
from tests.openvino_writer import Net as OpenVino
from tests.tflite_writer import Net as Tflite

import vknn
from vknn.runtime import live_objects

SHAPE = (3, 5, 7)
#: A prime number of sizes of the last dimension, which come again when all were there.
SIZES = 5003
_sizes = itertools.count()


def write_models(folder: Path) -> list[Path]:
    """A network of one layer, y = -x, of each format."""
    ncnn = folder / "negative.param"
    ncnn.write_text("7767517\n2 2\nInput x 0 1 x\nUnaryOp y 1 1 x y 0=1\n")
    ncnn.with_suffix(".bin").write_bytes(b"")
    tflite = Tflite()
    signature = np.array([-1] * len(SHAPE))
    tflite.inputs = [tflite.tensor("x", SHAPE, shape_signature=signature)]
    tflite.outputs = [tflite.tensor("y", SHAPE, shape_signature=signature)]
    tflite.add("NEG", tflite.inputs, tflite.outputs)
    (folder / "negative.tflite").write_bytes(tflite.file())
    coreml = model([layer("multiply", alpha=-1.0)], {"x": SHAPE})
    for least, most in [*((size, size) for size in SHAPE[:2]), (1, SIZES)]:
        sizes = coreml.description.input[0].type.multiArrayType.shapeRange.sizeRanges.add()
        sizes.lowerBound, sizes.upperBound = least, most
    (folder / "negative.mlmodel").write_bytes(coreml.SerializeToString())
    openvino = OpenVino()
    x = openvino.input("x", SHAPE)
    openvino.layer("Power", [x], [SHAPE], {"power": 1, "scale": -1, "shift": 0}, name="y")
    free = (*SHAPE[:2], "size")
    body = onnx_writer.graph(
        [onnx_writer.node("Neg", "x")],
        [onnx_writer.value("x", free)],
        [onnx_writer.value("y", free)],
    )
    return [
        ncnn,
        folder / "negative.tflite",
        folder / "negative.mlmodel",
        openvino.save(folder),
        onnx_writer.save(onnx_writer.model(body), folder),
    ]


def array(size: int = SHAPE[2]) -> np.ndarray:
    return np.arange(SHAPE[0] * SHAPE[1] * size, dtype=np.float32).reshape(*SHAPE[:2], size) - 17


def right(session: vknn.Session, x: np.ndarray) -> None:
    """One run, whose answer is looked at."""
    found = session.run({"x": x})
    if not np.array_equal(found["y"], -x):
        raise SystemExit(f"{session!r}: a wrong answer for {x.shape}: {found}")


def sessions(models: list[Path], device: vknn.Device, count: int) -> None:
    """Sessions opened, run once and closed; by turns on devices of their own and a shared one."""
    x = array()
    for number in range(count):
        turn, place = divmod(number, len(models))
        with vknn.Session(models[place], device=device if turn % 2 else "vulkan") as session:
            right(session, x)


def runs(models: list[Path], device: vknn.Device, count: int) -> None:
    """Runs of one open session a format; every hundredth answer is looked at."""
    x = array()
    feeds: Mapping[str, Any] = {"x": x}
    for path in models:
        with vknn.Session(path, device=device) as session:
            for number in range(count // len(models)):
                if number % 100:
                    session.run(feeds)
                else:
                    right(session, x)


def shapes(models: list[Path], device: vknn.Device, count: int) -> None:
    """One open session a format whose inputs have another size in every run."""
    for path in models:
        with vknn.Session(path, device=device) as session:
            for _ in range(count // len(models)):
                right(session, array(1 + next(_sizes) * 7 % SIZES))


STAGES = {"sessions": sessions, "runs": runs, "shapes": shapes}


def resident() -> float:
    """MiB of the process in memory, when what Python can let go is gone."""
    gc.collect()
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(folder: str, *counts: str) -> None:
    models = write_models(Path(folder))
    orders = dict(zip(STAGES, map(int, counts), strict=True))
    with vknn.open_device() as device:
        for name, count in orders.items():
            STAGES[name](models, device, max(40, count // 100))
        first = resident()
        print(json.dumps({"warm": round(first, 1), "device": device.name}), flush=True)
        for name, count in orders.items():
            # Ten parts, so that one sees whether memory grows all the time or once.
            start, grown = time.monotonic(), []
            for _ in range(10):
                STAGES[name](models, device, count // 10)
                grown.append(round(resident() - first, 1))
            seconds = round(time.monotonic() - start, 1)
            print(json.dumps({name: count, "seconds": seconds, "grown": grown}), flush=True)
    print(json.dumps({"left": live_objects(), "grown": round(resident() - first, 1)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
