"""GPUs of which ncnn has published times, and the null devices that stand for them."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Card:
    """A GPU. ``published``: its name in the table of times; ``null``: the null device on which
    ncnn was counted for it, of the same chip where ``same``; ``tflops`` (float32) and ``gbytes`` a
    second: nominal, by the makers' data sheets; ``kind``: vknn's kind of device."""

    published: str
    label: str
    vendor: str
    null: str
    tflops: float
    gbytes: float
    kind: str = "discrete"
    same: bool = True
    chip: str = ""


CARDS = (
    Card("AMD Radeon RX 6900 XT", "RX 6900 XT", "AMD", "navi21", 23.0, 512),
    Card("AMD Radeon(TM) Vega 8 Graphics", "Vega 8", "AMD", "raven", 1.13, 38, "integrated"),
    Card("AMD Radeon Pro 555X", "Radeon Pro 555X", "AMD", "polaris12", 1.39, 80, same=False),
    Card("NVIDIA GeForce RTX 3060 Ti", "RTX 3060 Ti", "NVIDIA", "nv172", 16.2, 448),
    Card("NVIDIA GeForce RTX 3090", "RTX 3090 (newer)", "NVIDIA", "nv172", 35.6, 936, chip="3090"),
    Card("GeForce RTX 3090", "RTX 3090 (older)", "NVIDIA", "nv172", 35.6, 936, chip="3090"),
    Card("GeForce RTX 2080", "RTX 2080", "NVIDIA", "nv172", 10.1, 448, same=False),
    Card("GeForce RTX 2060", "RTX 2060 (notebook)", "NVIDIA", "nv172", 4.6, 264, same=False),
    Card("Quadro RTX 8000", "Quadro RTX 8000", "NVIDIA", "nv172", 16.3, 672, same=False),
    Card("Tesla V100-PCIE-32GB", "Tesla V100", "NVIDIA", "nv172", 14.0, 900, same=False),
    Card(
        "NVIDIA Tegra Orin (nvgpu)", "Tegra Orin", "NVIDIA", "nv172", 5.3, 204, "integrated", False
    ),
    Card("Adreno X1-85", "Adreno X1-85", "Qualcomm", "a740", 3.8, 135, "integrated", False),
    Card("Adreno (TM) 740", "Adreno 740", "Qualcomm", "a740", 2.1, 67, "integrated"),
    Card("Adreno (TM) 660", "Adreno 660", "Qualcomm", "a660", 1.72, 51, "integrated"),
    Card("Adreno (TM) 640", "Adreno 640", "Qualcomm", "a630", 1.04, 34, "integrated", False),
    Card("Adreno (TM) 620", "Adreno 620", "Qualcomm", "a630", 0.6, 34, "integrated", False),
    Card("Adreno (TM) 540", "Adreno 540", "Qualcomm", "a630", 0.57, 30, "integrated", False),
    Card("Apple M1", "M1", "Apple", "m1", 2.6, 68, "integrated"),
    Card("Apple M3", "M3", "Apple", "m1", 3.5, 100, "integrated", False),
    Card("Intel(R) UHD Graphics 770", "UHD 770", "Intel", "navi21", 0.79, 60, "integrated", False),
    Card("Intel(R) UHD Graphics 630", "UHD 630", "Intel", "navi21", 0.46, 42, "integrated", False),
)

#: Networks with layers that ncnn runs on the processor, in the middle or at the end: their times
#: do not say what a GPU takes. The _int8 networks run on the processor as a whole.
ON_THE_PROCESSOR = frozenset(
    (
        *(
            "vision_transformer",
            "efficientnetv2_b0",
            "nanodet_m",
            "squeezenet_ssd",
            "mobilenet_ssd",
        ),
        *("mobilenet_yolo", "mobilenetv2_yolov3", "yolov4-tiny", "yolo-fastest-1.1"),
    )
)

#: Networks whose times are used -> height and width of the input, as benchncnn has it.
NETWORKS = {
    "squeezenet": 227,
    "mobilenet": 224,
    "mobilenet_v2": 224,
    "mobilenet_v3": 224,
    "shufflenet": 224,
    "shufflenet_v2": 224,
    "mnasnet": 224,
    "proxylessnasnet": 224,
    "efficientnet_b0": 224,
    "regnety_400m": 224,
    "blazeface": 128,
    "googlenet": 224,
    "resnet18": 224,
    "alexnet": 227,
    "resnet50": 224,
    "yolo-fastestv2": 352,
    "FastestDet": 352,
    "vgg16": 224,
}


def published_times(path: Path) -> Mapping[str, Mapping[str, float]]:
    """GPU -> network -> microseconds: the least of what is published. The table has the columns
    device, net and min_ms."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with path.open(newline="", encoding="utf-8") as table:
        for row in csv.DictReader(table):
            times = found[row["device"]]
            time = float(row["min_ms"]) * 1e3
            times[row["net"]] = min(times.get(row["net"], math.inf), time)
    return found
